"""Brute force on the linear programs of R2T: random hypergraphs, and solvers that die, starve, lie or are not there.

`lp_failures(n)` counts what must be 0: errors, and values that are not the rounded optimum. The optimum comes from
scipy, with rational numbers that prove it (a feasible solution and duals of one value), so nothing of the product.
`python tests/benchmarks/faults_lp.py 100000` runs it alone.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "extension")]

import numpy as np  # noqa: E402
from scipy.optimize import linprog  # noqa: E402

from pg_epsilon.mechanisms.lp_bounds import Problem, merged  # noqa: E402
from pg_epsilon.mechanisms.lp_solver import Limits, Solver  # noqa: E402
from pg_epsilon.mechanisms.truncation_lp import Truncation, rounded  # noqa: E402

FANO = ((0, 1, 2), (0, 3, 4), (0, 5, 6), (1, 3, 5), (1, 4, 6), (2, 3, 6), (2, 4, 5))
HUGE = 2**42


@dataclass(frozen=True)
class Case:
    """Result rows as they are read, and a threshold."""

    owners: Any
    values: Any
    labels: Any
    t: int

    @property
    def problem(self) -> Problem:
        return merged(self.owners, self.values, self.labels)


def fano_planes(planes: int, value: int, *, without: int | None = None) -> tuple[Any, Any]:
    """Owners and values of so many Fano planes, seven units and seven rows each; without a unit and its rows."""
    rows = [[7 * plane + unit for unit in line] for plane in range(planes) for line in FANO]
    owners = np.array([row for row in rows if without not in row], np.int64)
    return owners, np.full(len(owners), value, np.int64)


def random_case(source: random.Random) -> Case:
    """Up to 18 rows of up to 4 owners each; values from 0 to beyond every limit, often all alike or extreme."""
    if source.random() < 0.05:
        owners, values = fano_planes(source.randint(1, 3), source.choice([1, 3, 13982, HUGE]))
        return Case(owners, values, None, source.choice([1, 2, 4, 7, 2**20]))
    width, units = source.choice([1, 2, 2, 3, 3, 3, 4, 4]), source.randint(1, 9)
    rows = source.randint(0, 18)
    most = source.choice([0, 1, 1, 3, 10, 10**4, HUGE, 2**62])
    owners = np.array([[source.randrange(units) for _ in range(width)] for _ in range(rows)], np.int64)
    values = np.array([source.choice([most, source.randint(0, most)]) for _ in range(rows)], np.int64)
    labels = np.array([source.randrange(5) for _ in range(rows)], np.int64) if source.random() < 0.3 else None
    t = source.choice([1, 2, 3, 4, 5, 16, 1000, max(1, most // 3), 2**40])
    return Case(owners.reshape(rows, width), values, labels, min(t, 2**40))


class Liar:
    """Answers at once, and wrongly: noise, infinities, zeros, the wrong sign, numbers of another problem."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def solve(self, problem: Problem, t: int, stop: float | None, how: str) -> tuple[Any, Any] | None:
        limits, columns = problem.units + problem.labels_count, len(problem.values) + problem.labels_count
        return self._floats(limits), self._floats(columns)

    def refine(self, problem: Problem, t: int, how: str) -> tuple[list[int], list[int]] | None:
        limits, columns = problem.units + problem.labels_count, len(problem.values) + problem.labels_count
        return self._integers(limits), self._integers(columns)

    def _floats(self, size: int) -> Any:
        kinds: list[Any] = [np.nan, np.inf, -np.inf, 0.0, 1.0, 1e300, 1e-300, -1.0, 1 / 3]
        if self._source.random() < 0.5:
            return np.array([self._source.choice(kinds) for _ in range(size)])
        return np.array([self._source.uniform(-0.5, 1.5) for _ in range(size)])

    def _integers(self, size: int) -> list[int]:
        return [self._source.choice([0, 1, -1, 2**120, 2**160, self._source.getrandbits(122)]) for _ in range(size)]


class Absent:
    """Never answers, as where no process can be started."""

    def solve(self, problem: Problem, t: int, stop: float | None, how: str) -> tuple[Any, Any] | None:
        return None

    def refine(self, problem: Problem, t: int, how: str) -> tuple[list[int], list[int]] | None:
        return None


class Killed:
    """A real solver that is killed before some of its answers."""

    def __init__(self, solver: Solver, source: random.Random) -> None:
        self.solver, self._source = solver, source

    def solve(self, problem: Problem, t: int, stop: float | None, how: str) -> tuple[Any, Any] | None:
        self._kill()
        return self.solver.solve(problem, t, stop, how)

    def refine(self, problem: Problem, t: int, how: str) -> tuple[list[int], list[int]] | None:
        self._kill()
        return self.solver.refine(problem, t, how)

    def _kill(self) -> None:
        if self._source.random() < 0.5 and self.solver.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.solver.pid, signal.SIGKILL)


def optimum(case: Case) -> tuple[Fraction, bool]:
    """(Q, whether it is proved by rational numbers), row by row without merging."""
    rows = len(case.values)
    if not rows:
        return Fraction(0), True
    units = sorted(set(case.owners.ravel().tolist()))
    names = sorted(set(case.labels.tolist())) if case.labels is not None else []
    tops = [1] * rows if names else [min(v, case.t) for v in np.clip(case.values, 0, HUGE).tolist()]
    matrix = [[int(unit in row) for row in case.owners.tolist()] + [0] * len(names) for unit in units]
    for i, name in enumerate(names):
        matrix.append([-int(label == name) for label in case.labels] + [int(i == j) for j in range(len(names))])
    limits = [case.t] * len(units) + [0] * len(names)
    cost = [0] * rows + [1] * len(names) if names else [1] * rows
    tops += [1] * len(names)
    scale = 1 if names else case.t
    found = linprog(
        [-c for c in cost],
        A_ub=matrix,
        b_ub=[limit / scale for limit in limits],
        bounds=[(0, top / scale) for top in tops],
        method="highs-ds",
    )
    return _proved(found, matrix, limits, cost, tops, scale)


def _proved(found: Any, matrix: Any, limits: Any, cost: Any, tops: Any, scale: int) -> tuple[Fraction, bool]:
    for digits in (12, 60, 1000):
        duals = [max(Fraction(0), Fraction(-y).limit_denominator(digits)) for y in found.ineqlin.marginals]
        reduced = [
            c - sum(y * line[j] for y, line in zip(duals, matrix, strict=True) if line[j]) for j, c in enumerate(cost)
        ]
        above = sum((y * limit for y, limit in zip(duals, limits, strict=True)), Fraction(0))
        above += sum((max(0, r) * top for r, top in zip(reduced, tops, strict=True)), Fraction(0))
        point = [Fraction(float(x) * scale).limit_denominator(digits) for x in found.x]
        point = [min(max(x, Fraction(0)), Fraction(top)) for x, top in zip(point, tops, strict=True)]
        feasible = all(
            sum(a * x for a, x in zip(line, point, strict=True) if a) <= limit
            for line, limit in zip(matrix, limits, strict=True)
        )
        if feasible and sum(c * x for c, x in zip(cost, point, strict=True)) == above:
            return above, True
    return Fraction(-float(found.fun)) * scale, False


def is_right(value: int | None, case: Case, best: Fraction, proved: bool) -> bool:
    """Whether it is the rounded optimum; where the optimum is known to 9 digits only, that of a number so near."""
    if proved:
        return value == rounded(best, case.t)
    near = (rounded(best * Fraction(10**9 + sign, 10**9), case.t) for sign in (-1, 1))
    return value in set(near)


def lp_failures(n: int, seed: int = 1) -> dict[str, int]:
    """Counts of n cases: failures (errors and wrong values, must be 0), unproved (no rational proof of the optimum),
    and how many met an honest, lying, absent, killed or starved solver."""
    source, counts = random.Random(seed), Counter(cases=n, failures=0, unproved=0)
    honest, starved = Solver(), Solver(Limits(memory=1 << 25))
    killed = Killed(Solver(), source)
    kinds: dict[str, Any] = {"honest": honest, "lying": Liar(source), "absent": Absent(), "missing": None}
    try:
        for i in range(n):
            kind = source.choice(["honest", "honest", "lying", "lying", "absent", "missing"])
            solver = kinds[kind]
            if not i % 100:
                kind, solver = source.choice([("killed", killed), ("starved", starved)])
            case = random_case(source)
            counts[kind] += 1
            best, proved = optimum(case)
            counts["unproved"] += not proved
            try:
                value = Truncation(case.problem, solver).value(case.t)
                counts["failures"] += not is_right(value, case, best, proved)
            except Exception:
                counts["failures"] += 1
            for one in (honest, starved):
                one.forget()
    finally:
        for one in (honest, starved, killed.solver):
            one.end()
    return dict(counts)


if __name__ == "__main__":
    start = time.monotonic()
    print(lp_failures(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
    print(f"{time.monotonic() - start:.0f} s")
