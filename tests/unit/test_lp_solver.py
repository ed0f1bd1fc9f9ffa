"""The solver's process: what it is given, how it ends, and that no state of it is more than a missing answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fix_waiting import has_ended, soon
from pg_epsilon.mechanisms import waiting
from pg_epsilon.mechanisms.lp_bounds import Problem, merged
from pg_epsilon.mechanisms.lp_solver import Limits, Solver
from pg_epsilon.mechanisms.truncation_lp import Truncation

HOW = "dual simplex"
PARENT = """
import os, sys
sys.path[:0] = sys.argv[1:]
import numpy as np
from pg_epsilon.mechanisms.lp_bounds import merged
from pg_epsilon.mechanisms.lp_solver import Solver
solver = Solver()
solver.solve(merged(np.array([[0, 1]]), np.array([5])), 2, None, "dual simplex")
print(solver.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def problem() -> Problem:
    return merged(np.array([[0, 1, 2], [1, 2, 3], [0, 3, 2], [0, 1, 3]]), np.array([5, 5, 5, 5]))


@pytest.fixture
def solver() -> Iterator[Solver]:
    one = Solver()
    yield one
    one.end()


def program(folder: Path, script: str) -> str:
    """A program that stands for the interpreter."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def answers(solver: Solver, problem: Problem) -> bool:
    return solver.solve(problem, 4, None, HOW) is not None


def test_it_answers_and_is_kept(solver: Solver, problem: Problem) -> None:
    assert answers(solver, problem)
    first = solver.pid
    solver.forget()
    assert answers(solver, problem)
    assert solver.pid == first is not None


def test_it_gets_no_environment_and_no_open_file(tmp_path: Path, problem: Problem) -> None:
    """Neither a secret of the server's environment nor a socket of its sessions."""
    os.environ["PG_EPSILON_SECRET"] = "secret"
    held = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(held, True)
    try:
        one = Solver(programs=(program(tmp_path, f"env > {tmp_path}/env; ls /proc/$$/fd > {tmp_path}/fd"),))
        assert not answers(one, problem)
    finally:
        del os.environ["PG_EPSILON_SECRET"]
        os.close(held)
    given = {line.partition("=")[0] for line in (tmp_path / "env").read_text().split()}
    assert given <= {"LC_ALL", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "PWD", "SHLVL", "_", "OLDPWD"}
    assert str(held) not in (tmp_path / "fd").read_text().split()


@pytest.mark.parametrize(
    "script", ["exit 1", "cat", "echo nonsense nonsense nonsense nonsense", "kill -9 $$", "exec sleep 1000"]
)
def test_a_wrong_program_is_no_answer(tmp_path: Path, problem: Problem, script: str) -> None:
    """And the value is there all the same; a next program, which is right, is tried."""
    wrong = program(tmp_path, script)
    one = Solver(Limits(patience=0.5), programs=(wrong,))
    assert not answers(one, problem)
    assert Truncation(problem, one).value(4) == Truncation(problem, None).value(4)
    assert one.pid is None
    two = Solver(programs=("/nowhere/python", sys.executable))
    assert answers(two, problem)
    two.end()


def test_a_starved_one_is_no_answer(problem: Problem) -> None:
    """Of memory, so that it cannot even load its packages; of CPU time."""
    for limits in (Limits(memory=1 << 25), Limits(cpu_seconds=0)):
        one = Solver(limits)
        assert not answers(one, problem)
        assert one.pid is None


def test_one_that_was_killed_is_replaced_with_the_next_question(solver: Solver, problem: Problem) -> None:
    assert answers(solver, problem)
    first = solver.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert not answers(solver, problem)
    solver.forget()
    assert answers(solver, problem)
    assert solver.pid != first


def test_a_cancel_ends_it(solver: Solver, problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the entry point's check raises goes through, and no process is left that could answer a later question."""

    class Cancelled(Exception):
        pass

    def cancelled() -> None:
        raise Cancelled

    assert answers(solver, problem)
    stopped = solver.pid
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    monkeypatch.setattr(waiting, "_check", cancelled)
    with pytest.raises(Cancelled):
        Truncation(problem, solver).value(4)
    assert solver.pid is None
    assert not Path(f"/proc/{stopped}").exists()


def test_it_ends_with_its_parent() -> None:
    """Also where the parent is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, *(path for path in sys.path if path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert Path(f"/proc/{child}").exists()
        parent.kill()
    assert soon(lambda: has_ended(child))
