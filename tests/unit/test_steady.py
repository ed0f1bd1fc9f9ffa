"""`make steady` (scripts/steady*.py): whom it stops, what its reports say together, and that all of it ends."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fix_waiting import has_ended, soon

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts")]

import steady_load  # noqa: E402
import steady_report  # noqa: E402
from steady_load import Process  # noqa: E402
from steady_report import Run  # noqa: E402

STEADY = ROOT / "scripts/steady.py"


def table(*rows: tuple[int, int, str, str]) -> dict[int, Process]:
    """(pid, parent, name, state)."""
    return {row[0]: Process(*row, started=row[0]) for row in rows}


# A run (10), whose server (14) runs under runuser in a session of its own, beside a stranger's server (90).
RUN = table(
    (1, 0, "bash", "S"),
    (10, 1, "make", "S"),
    (11, 10, "bash", "S"),
    (12, 11, "python", "R"),
    (13, 12, "runuser", "S"),
    (14, 13, "postgres", "S"),
    (15, 14, "postgres", "S"),
    (16, 14, "postgres", "T"),
    (17, 12, "psql", "Z"),
    (20, 1, "python", "R"),
    (90, 1, "postgres", "S"),
    (91, 90, "postgres", "R"),
)


def test_only_descendants_of_the_run() -> None:
    assert [one.pid for one in steady_load.descendants(RUN, 10)] == [11, 12, 13, 14, 15, 16, 17]
    assert steady_load.descendants(RUN, 17) == []


def test_a_circle_of_parents_ends() -> None:
    """A process table is read while it changes: a number may be given again meanwhile."""
    assert [one.pid for one in steady_load.descendants(table((3, 4, "a", "S"), (4, 3, "b", "S")), 3)] == [4]


def test_whom_it_may_stop() -> None:
    """Not who only waits, not who is dead, and not whom a test stopped."""
    found = {kind: [one.pid for one in some] for kind, some in steady_load.victims(RUN, 10).items()}
    assert found == {"python": [12], "postmaster": [14], "backend": [15]}


def test_the_proxy_is_known_by_its_command() -> None:
    proxy = Process(5, 1, "python3", "S", 1, "python3 -m pg_epsilon_proxy.cli serve")
    assert steady_load.kind(proxy, {}) == "proxy"


def test_every_kind_is_chosen_however_many_there_are_of_another() -> None:
    """Of 3 kinds and 300 choices each comes 100 times or so; the seed is fixed."""
    backends = {n: Process(n, 14, "postgres", "S", n) for n in range(100, 160)}
    dice = random.Random(7)
    chosen = [steady_load.choose(RUN | backends, 10, dice) for _ in range(300)]
    kinds = Counter(found[0] for found in chosen if found)
    assert set(kinds) == {"python", "postmaster", "backend"} and min(kinds.values()) >= 50


def test_who_is_stopped_depends_on_the_seed() -> None:
    def some(seed: int) -> list[object]:
        dice = random.Random(seed)
        return [steady_load.choose(RUN, 10, dice) for _ in range(20)]

    assert some(1) == some(1) != some(2)


def test_of_nobody_none_is_chosen() -> None:
    assert steady_load.choose(RUN, 17, random.Random(1)) is None


def test_a_name_may_hold_anything() -> None:
    stat = "7 (a) S (b) R 3 " + " ".join(["0"] * 17) + " 99 0"
    assert steady_load.process(stat, "x") == Process(7, 3, "a) S (b", "R", 99, "x")


@pytest.fixture
def sleeper() -> Iterator[Process]:
    """The child of a shell: whoever else descends from this process of pytest is no concern of these tests."""
    with subprocess.Popen(["bash", "-c", "sleep 600 & wait"]) as shell:
        assert soon(lambda: [one for one in children(shell.pid) if one.name == "sleep"])
        yield (found := children(shell.pid)[0])
        shell.kill()
        os.kill(found.pid, signal.SIGKILL)


def children(pid: int) -> list[Process]:
    return steady_load.descendants(steady_load.processes(), pid)


def state(pid: int) -> str:
    return steady_load.processes()[pid].state


def test_a_stopped_process_goes_on_again(sleeper: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the injector ends in the middle of a stop: this one would last ten minutes."""
    monkeypatch.setattr(steady_load, "EVERY", (0.0, 0.0))
    monkeypatch.setattr(steady_load, "FOR", (600.0, 600.0))
    log = tmp_path / "stops"
    with steady_load.Injector(sleeper.parent, 1, log) as injector:
        assert soon(lambda: state(sleeper.pid) == "T")
    assert soon(lambda: state(sleeper.pid) == "S")
    assert injector.stopped == {"other": 1}
    assert f"other {sleeper.pid} 600.0 s: sleep 600" in log.read_text()


def test_a_runuser_that_stopped_with_its_child_goes_on_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in of that name, which has stopped itself as runuser does when its child stops."""
    monkeypatch.setattr(steady_load, "EVERY", (0.0, 0.02))
    monkeypatch.setattr(steady_load, "FOR", (0.0, 0.02))
    runuser = tmp_path / "runuser"
    runuser.write_text("#!/bin/bash\nsleep 600 & kill -STOP $$; echo again; wait\n")
    runuser.chmod(0o755)
    with subprocess.Popen(["bash", "-c", f"{runuser}; true"], stdout=subprocess.PIPE, text=True) as shell:
        assert soon(lambda: [one.state for one in children(shell.pid) if one.name == "runuser"] == ["T"])
        with steady_load.Injector(shell.pid, 1, tmp_path / "stops"):
            assert shell.stdout is not None and shell.stdout.readline() == "again\n"
        for one in children(shell.pid):
            os.kill(one.pid, signal.SIGKILL)


def test_a_later_process_of_the_same_number_is_let_alone(sleeper: Process) -> None:
    with steady_load.handle(sleeper) as descriptor:
        assert descriptor > 0
    with pytest.raises(ProcessLookupError), steady_load.handle(sleeper._replace(started=sleeper.started + 1)):
        pass


REPORT = """<?xml version="1.0"?><testsuites><testsuite name="pytest">
<testcase classname="tests.sql.test_a" name="test_fine" time="1"/>
<testcase classname="tests.sql.test_a" name="test_both[a.b]" time="1"><failure message="no">x</failure></testcase>
<testcase classname="tests.sql.test_a" name="test_both[a.b]" time="1"><error message="no">y</error></testcase>
<testcase classname="tests.sql.test_a" name="test_skipped" time="0"><skipped/></testcase>
<testcase classname="" name="tests.unit.test_gone" time="0"><error message="collection failure">z</error></testcase>
</testsuite></testsuites>"""


def test_a_report_names_each_failure_once() -> None:
    failed = ("tests.unit.test_gone", "tests/sql/test_a.py::test_both[a.b]")
    assert steady_report.read(REPORT) == (4, failed)


@pytest.mark.parametrize("text", [None, "", REPORT[:200]])
def test_a_run_without_a_report_is_red(text: str | None, tmp_path: Path) -> None:
    report = tmp_path / "run.xml"
    if text is not None:
        report.write_text(text)
    run = steady_report.run_of(1, 2.0, 0, report, Counter())
    assert run.red and run.tests is None
    assert "no report, RED" in steady_report.line(run)


def test_a_run_is_red_by_its_status_alone() -> None:
    """The run's own verdict counts: a limit that was reached, no test found."""
    assert Run(1, 1.0, 137, 5, ()).red and Run(1, 1.0, 0, 5, ("a",)).red and not Run(1, 1.0, 0, 5, ()).red


def test_failures_by_test() -> None:
    runs = [Run(1, 1.0, 1, 9, ("b",)), Run(2, 1.0, 0, 9, ()), Run(3, 1.0, 1, 9, ("a", "c")), Run(4, 1.0, 1, 9, ("a",))]
    assert list(steady_report.failures(runs).items()) == [("a", [3, 4]), ("b", [1]), ("c", [3])]
    assert steady_report.table(runs) == [
        "failures by test, of 4 runs",
        "   2  a  (runs 3, 4)",
        "   1  b  (runs 1)",
        "   1  c  (runs 3)",
        "red runs: 3 of 4",
    ]
    summary = json.loads(json.dumps(steady_report.summary(runs, seed=5)))
    assert (summary["red"], summary["seed"], summary["failures"]) == (3, 5, {"a": [3, 4], "b": [1], "c": [3]})
    assert [run["red"] for run in summary["runs"]] == [True, False, True, True]


def steady(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(STEADY), "--out", str(tmp_path / "out"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


@pytest.mark.long
def test_a_test_that_fails_once_in_eight_runs_is_found(tmp_path: Path) -> None:
    """The control of `make steady`: eight runs of pytest, in one of which one of two tests fails."""
    file = tmp_path / "test_sometimes.py"
    file.write_text(
        "import os\ndef test_always(): pass\ndef test_sometimes(): assert os.environ['STEADY_RUN'] != '5'\n"
    )
    pytest_words = f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:xdist -p no:hypothesispytest"
    command = f'{pytest_words} -c /dev/null --rootdir {tmp_path} --junitxml="$STEADY_JUNIT" {file}'
    done = steady(tmp_path, "--no-load", "--runs", "8", "--command", command)
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads((tmp_path / "out/steady.json").read_text())
    assert found["failures"] == {"test_sometimes.py::test_sometimes": [5]}
    assert [run["tests"] for run in found["runs"]] == [2] * 8
    assert "   1  test_sometimes.py::test_sometimes  (runs 5)" in done.stdout
    assert "red runs: 1 of 8" in done.stdout


def test_green_runs_end_with_0(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite><testcase classname="a" name="b"/></testsuite></testsuites>')
    done = steady(tmp_path, "--no-load", "--runs", "2", "--command", f'cp {report} "$STEADY_JUNIT"')
    assert (done.returncode, done.stderr) == (0, "")
    assert "red runs: 0 of 2" in done.stdout


@pytest.mark.parametrize("runs", ["0", "many"])
def test_a_number_of_runs_that_is_none(runs: str, tmp_path: Path) -> None:
    done = steady(tmp_path, "--runs", runs)
    assert done.returncode == 2 and "usage" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_nothing_is_left_of_it(how: signal.Signals, tmp_path: Path) -> None:
    """Busy loops, writes, and a run with a child in a session of its own: all end with it. The folder goes where it
    can still be removed, and else with the next one."""
    command = [sys.executable, str(STEADY), "--out", str(tmp_path / "out"), "--runs", "1"]
    command += ["--command", "setsid sleep 600 & sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        names: list[str] = []

        def all_there() -> bool:
            names[:] = [one.command for one in children(process.pid)]
            loops = [name for name in names if name.endswith(steady_load.BUSY)]
            return len(loops) == steady_load.LOOPS and names.count("sleep 600") == 2

        assert soon(all_there), names
        started = children(process.pid)
        folder = next(Path(name.split()[-1]) for name in names if "--inside" in name)
        assert folder.exists()
        process.send_signal(how)
        assert process.wait(60) == (-how if how == signal.SIGKILL else 128 + how)
        assert soon(lambda: all(has_ended(one.pid) for one in started))
    if how == signal.SIGKILL:
        assert steady(tmp_path, "--no-load", "--runs", "1", "--command", "true").returncode == 1
    assert not folder.exists()
