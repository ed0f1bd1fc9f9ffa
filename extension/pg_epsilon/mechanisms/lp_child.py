"""The solver's process: linear programs of truncation by HiGHS, for one backend, which believes nothing of it.

Started by mechanisms/lp_solver.py with pipes as standard input and output, with no other open file, no environment
and limits of its own. It ends with its parent. What it answers is checked by the parent in integers; so whatever
happens in here costs time only (composition.md §10.3 b).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import Any

from pg_epsilon.mechanisms.lp_wire import BITS, packed, received

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
MOST = 1 << 40

# Each is a method of its own: where one fails, another may not.
HOW: dict[str, dict[str, Any]] = {
    "dual simplex": {"presolve": "off", "solver": "simplex", "simplex_strategy": 1},
    "primal simplex": {"presolve": "on", "solver": "simplex", "simplex_strategy": 4, "random_seed": 7},
    "interior point": {"presolve": "on", "solver": "ipm", "run_crossover": "on"},
}
_COMMON: dict[str, Any] = {
    "output_flag": False,
    "log_to_console": False,
    "threads": 1,
    "parallel": "off",
    "random_seed": 0,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}


def confine(parent: int, memory: int, seconds: int) -> None:
    """Limits of this process: it ends with its parent, writes nothing, leaves no core file, is killed before others.

    memory: bytes of address space. seconds: of CPU time altogether.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before it could be watched
        os._exit(1)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
    ):
        hard = resource.getrlimit(what)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


class Model:
    """One program, solved for several t: max sum of u_k / t, with limits of 1 (with labels: max sum of v, limits t).

    Divided by t no number is far from 1, whatever the values are.
    """

    def __init__(self, header: dict[str, Any], body: Any) -> None:
        import numpy as np

        rows, width = header["rows"], header["width"]
        whole = np.frombuffer(body, np.int64)
        self.owners = whole[: rows * width].reshape(rows, width)
        self.values = whole[rows * width : rows * width + rows]
        self.units, self.labels = header["units"], header["labels"]
        self.label_of = whole[rows * width + rows :] if self.labels is not None else None
        self._solvers: dict[str, Any] = {}

    def uppers(self, t: int) -> Any:
        import numpy as np

        if self.labels is not None:
            return np.ones(len(self.values) + self.labels)
        return np.minimum(self.values, t) / t

    def solve(self, t: int, stop: float | None, how: str) -> tuple[bool, Any, Any]:
        """(whether it is optimal, duals of the limits, values of the variables)."""
        solver = self.solver(t, how)
        solver.setOptionValue("objective_bound", float("inf") if stop is None else stop)
        solver.run()
        return self.found(solver, t)

    def with_basis(self, t: int, how: str) -> Any:
        """The solver with a factored basis: the simplex method without presolve has one, others end without (and
        HiGHS, asked for it, ends the process). From an optimal basis that is no pivot more."""
        solver = self.solver(t, how)
        if how != next(iter(HOW)):
            self._solvers.clear()
            for option, value in {**HOW[next(iter(HOW))], "objective_bound": float("inf")}.items():
                solver.setOptionValue(option, value)
            solver.run()
        return solver

    def found(self, solver: Any, t: int) -> tuple[bool, Any, Any]:
        import highspy
        import numpy as np

        solution = solver.getSolution()
        scale = 1.0 if self.labels is not None else float(t)
        optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return optimal, -np.asarray(solution.row_dual, np.float64), np.asarray(solution.col_value, np.float64) * scale

    def solver(self, t: int, how: str) -> Any:
        import numpy as np

        solver = self._solvers.get(how)
        if solver is None:
            self._solvers.clear()
            solver = self._solvers[how] = self.build(t, how)
        elif self.labels is None:
            columns = len(self.values)
            index = np.arange(columns, dtype=np.int32)
            solver.changeColsBounds(columns, index, np.zeros(columns), self.uppers(t))
        else:
            index = np.arange(self.units, dtype=np.int32)
            solver.changeRowsBounds(self.units, index, np.full(self.units, -np.inf), np.full(self.units, float(t)))
        return solver

    def build(self, t: int, how: str) -> Any:
        import highspy
        import numpy as np

        starts, index, coefficient = self.matrix()
        columns = len(starts) - 1
        lp = highspy.HighsLp()
        limits = np.ones(self.units)
        cost = np.full(columns, -1.0)
        if self.labels is not None:
            limits = np.concatenate([np.full(self.units, float(t)), np.zeros(self.labels)])
            cost[: len(self.values)] = 0.0
        lp.num_col_, lp.num_row_ = columns, len(limits)
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = cost, np.zeros(columns), self.uppers(t)
        lp.row_lower_, lp.row_upper_ = np.full(len(limits), -np.inf), limits
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = starts, index, coefficient
        solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in {**_COMMON, **HOW[how]}.items():
            solver.setOptionValue(option, value)
        solver.passModel(lp)
        return solver

    def matrix(self) -> tuple[Any, Any, Any]:
        """Column-wise: starts, limits, coefficients. A row's variable is in its units' limits (and its label's)."""
        import numpy as np

        rows, width = self.owners.shape
        real = self.owners < self.units
        if self.labels is None or self.label_of is None:
            entries = real.sum(axis=1)
            index, coefficient = self.owners[real], np.ones(int(real.sum()))
        else:
            everyone = np.hstack([self.owners, self.units + self.label_of[:, None]])
            taken = np.hstack([real, np.ones((rows, 1), bool)])
            signs = np.hstack([np.ones((rows, width)), np.full((rows, 1), -1.0)])
            entries = np.concatenate([real.sum(axis=1) + 1, np.ones(self.labels, np.int64)])
            index = np.concatenate([everyone[taken], self.units + np.arange(self.labels)])
            coefficient = np.concatenate([signs[taken], np.ones(self.labels)])
        starts = np.concatenate([[0], np.cumsum(entries)])
        return starts.astype(np.int32), index.astype(np.int32), coefficient


def main(arguments: list[str]) -> None:
    """Answer requests until the input ends."""
    parent, memory, seconds = map(int, arguments)
    confine(parent, memory, seconds)
    import highspy  # noqa: F401 -- before the first request waits for it
    import numpy as np

    model: Model | None = None
    source, target = sys.stdin.buffer, sys.stdout.buffer

    def read(size: int) -> bytes:
        found = source.read(size)
        if len(found) < size:
            os._exit(0)
        return found

    while True:
        header, body = received(read, MOST)
        reply: tuple[dict[str, Any], list[Any]] = ({"done": True}, [])
        if header["op"] == "load":
            model = Model(header, body)
        elif header["op"] == "forget":
            model = None
        elif model is not None and header["op"] == "solve":
            optimal, dual, values = model.solve(header["t"], header["stop"], header["how"])
            reply = {"optimal": optimal}, [np.ascontiguousarray(dual), np.ascontiguousarray(values)]
        elif model is not None and header["op"] == "refine":
            from pg_epsilon.mechanisms.lp_refine import refined

            reply = {"done": True}, list(refined(model, header["t"], header["how"], BITS))
        for part in packed(*reply):
            target.write(part)
        target.flush()
