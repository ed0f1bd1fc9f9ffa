"""A backend's side of the solver's process: start it, ask it, and take every failure of it for no answer.

The process is this interpreter's program with this interpreter's module path, started without a shell, without this
process's environment and open files, in a session of its own (so that a cancel, which PostgreSQL sends to a backend's
whole process group, reaches the backend alone, which then ends it). It lives as long as its backend, or until it
failed: starting it costs more than most programs.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pg_epsilon.mechanisms.lp_wire import BYTES, Nonsense, packed, received
from pg_epsilon.mechanisms.waiting import check_for_cancel

if TYPE_CHECKING:
    from pg_epsilon.mechanisms.lp_bounds import Problem

MEMORY = 8 << 30
CPU_SECONDS = 24 * 3600
# How long one answer may take by the clock. After it, the next step: nobody learns of it but by waiting.
PATIENCE = 3600.0
START = 60.0
_POLL = 0.05
_KEPT_ROWS = 200_000  # a process that held more gives its memory back at the end of the question
_BOOT = "import sys; sys.path[:] = sys.argv[4:]; from pg_epsilon.mechanisms.lp_child import main; main(sys.argv[1:4])"


@dataclass(frozen=True)
class Limits:
    """What a solver's process may use."""

    memory: int = MEMORY
    cpu_seconds: int = CPU_SECONDS
    patience: float = PATIENCE


class Solver:
    """One process. Every method returns None where it has no answer, for whatever reason: then the process is gone."""

    def __init__(self, limits: Limits = Limits(), programs: tuple[str, ...] = ()) -> None:
        self.limits = limits
        self._programs = programs
        self._program = ""
        self._failed: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._loaded: Problem | None = None

    @property
    def pid(self) -> int | None:
        """The process, if there is one."""
        return None if self._process is None else self._process.pid

    def solve(self, problem: Problem, t: int, stop: float | None, how: str) -> tuple[Any, Any] | None:
        """Duals of the limits and values of the variables, float64, near the optimum if all went well."""
        import numpy as np

        reply = self._asked(problem, {"op": "solve", "t": t, "stop": stop, "how": how}, np.float64().nbytes)
        if reply is None:
            return None
        both, limits = np.frombuffer(reply, np.float64), problem.units + problem.labels_count
        return both[:limits], both[limits:]

    def refine(self, problem: Problem, t: int, how: str) -> tuple[list[int], list[int]] | None:
        """The same to many binary digits, of the basis that the last `solve` left: multiples of 2^-BITS."""
        reply = self._asked(problem, {"op": "refine", "t": t, "how": how}, BYTES)
        if reply is None:
            return None
        both = [int.from_bytes(reply[i : i + BYTES], "little", signed=True) for i in range(0, len(reply), BYTES)]
        limits = problem.units + problem.labels_count
        return both[:limits], both[limits:]

    def start(self) -> None:
        """Begin to start, without waiting until it is ready."""
        for program in self._candidates() if self._process is None else ():
            self._process, self._program = self._started(program), program
            if self._process is not None:
                return

    def forget(self) -> None:
        """The question is over: what was sent is dropped, before anything else is computed."""
        loaded, self._loaded = self._loaded, None
        self._failed.clear()
        if loaded is None or self._process is None:
            return
        if len(loaded.values) > _KEPT_ROWS:
            self.end()
        else:
            self._exchange({"op": "forget"}, [], time.monotonic() + self.limits.patience, 0)

    def end(self) -> None:
        """Kill the process, if there is one."""
        process, self._process, self._loaded = self._process, None, None
        if process is None:
            return
        with suppress(OSError):
            process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        with suppress(OSError, subprocess.TimeoutExpired):
            process.wait(START)

    def _asked(self, problem: Problem, request: dict[str, Any], width: int) -> bytes | bytearray | None:
        """The reply's numbers, of so many bytes each, about a problem, which is sent first if it has not been."""
        deadline = time.monotonic() + self.limits.patience
        size = width * (problem.units + len(problem.values) + 2 * problem.labels_count)
        try:
            self.start()
            if self._loaded is not problem:
                header = {
                    "op": "load",
                    "rows": len(problem.values),
                    "width": problem.owners.shape[1],
                    "units": problem.units,
                    "labels": None if problem.labels is None else problem.labels_count,
                }
                arrays = [problem.owners, problem.values, *([] if problem.labels is None else [problem.labels])]
                if self._exchange(header, arrays, deadline, 0) is None:
                    return None
                self._loaded = problem
            return self._exchange(request, [], deadline, size)
        except BaseException:  # a cancel, too, ends it: it must not answer another question
            self.end()
            raise

    def _exchange(
        self, header: dict[str, Any], arrays: list[Any], deadline: float, size: int
    ) -> bytes | bytearray | None:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        try:
            self._send(process.stdin.fileno(), packed(header, arrays), deadline)
            out = process.stdout.fileno()
            body = received(lambda count: self._read(out, count, deadline), size)[1]
            if len(body) != size:
                raise Nonsense
            self._failed.clear()
            return body
        except (OSError, ValueError, EOFError, MemoryError, RecursionError, Nonsense):
            self._failed.add(self._program)
            self.end()
            return None

    def _send(self, pipe: int, parts: list[bytes | memoryview], deadline: float) -> None:
        for part in parts:
            rest = memoryview(part)
            while rest:
                self._wait(pipe, deadline, writing=True)
                rest = rest[os.write(pipe, rest[: 1 << 20]) :]

    def _read(self, pipe: int, size: int, deadline: float) -> bytearray:
        found = bytearray()
        while len(found) < size:
            self._wait(pipe, deadline, writing=False)
            piece = os.read(pipe, min(size - len(found), 1 << 20))
            if not piece:
                raise EOFError
            found += piece
        return found

    def _wait(self, pipe: int, deadline: float, *, writing: bool) -> None:
        poll = select.poll()
        poll.register(pipe, select.POLLOUT if writing else select.POLLIN)
        while not poll.poll(_POLL * 1000):
            check_for_cancel()
            if time.monotonic() > deadline:
                raise EOFError

    def _candidates(self) -> Iterator[str]:
        """Programs that may be this interpreter. An embedded one often does not know its own: then by its version.

        One that failed since its last answer is left out until the question is over.
        """
        name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        places = [sysconfig.get_config_var("BINDIR"), os.path.join(sys.base_exec_prefix, "bin"), "/usr/bin"]
        found = [sys.executable if "python" in os.path.basename(sys.executable or "") else None]
        found += [os.path.join(place, name) for place in places if place]
        for program in self._programs or dict.fromkeys(found):
            if program and program not in self._failed and os.access(program, os.X_OK):
                yield program

    def _started(self, program: str) -> subprocess.Popen[bytes] | None:
        numbers = (os.getpid(), self.limits.memory, self.limits.cpu_seconds)
        paths = [os.path.abspath(path) for path in sys.path if path]
        try:
            process = subprocess.Popen(  # noqa: S603 -- this interpreter, no shell
                [program, "-I", "-S", "-c", _BOOT, *map(str, numbers), *paths],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"LC_ALL": "C", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        return process


_shared = Solver()


def shared() -> Solver:
    """The solver of this backend."""
    return _shared
