"""`make bench-landing`: what a landing costs and how sure it is: minutes, runs that failed by chance, what is counted.

Measures what takes seconds. What takes minutes is read from what the runs themselves kept: build/times.jsonl and
build/steady.json, here and in the clones that LANDING_FROM names (folders, with : between). Ends with 1 where a promise
did not hold.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "scripts", "tests/benchmarks")]

import steady_load  # noqa: E402
from landing_facts import collected, false_alarms, red_runs, seconds, times  # noqa: E402
from report import Row, publish, row  # noqa: E402

from fix_waiting import soon  # noqa: E402
from tiers import CONTROLS_THEN, TESTS_THEN  # noqa: E402

CLONES = [Path(one) for one in os.environ.get("LANDING_FROM", "").split(":") if one]
STEADY_RUNS = 3
# Metric → the name under which runs are kept, its limit in minutes, how to get it.
LONG = {
    "ci_minutes": ("CI", 12, ".ci/run"),
    "test_minutes": ("make test", 6, "make test"),
    "thorough_minutes": ("make test-thorough", 40, "make test-thorough"),
}
CHECK_SECONDS = 60
FALSE_ALARMS = 1e-4
# What must not be above its baseline. Seconds and minutes may: they depend on what else the machine does.
PROMISES = ("red_runs_under_load", "left_processes", "false_alarm_sum")


def long_ones() -> list[Row]:
    kept = times(folder / "build/times.jsonl" for folder in (*CLONES, ROOT))
    rows = []
    for metric, (name, limit, how) in LONG.items():
        fact = seconds(kept, name, how)
        minutes = None if fact.value is None else fact.value / 60
        rows.append(row(metric, minutes, limit, f"the baseline is the limit; {fact.source}"))
    facts = [red_runs(folder / "build/steady.json", STEADY_RUNS) for folder in (ROOT, *CLONES)]
    fact = next((one for one in facts if one.value is not None), facts[0])
    return [*rows, row("red_runs_under_load", fact.value, 0, f"make steady; {fact.source}")]


def script(**more: str) -> dict[str, str]:
    """The environment of scripts/test.sh, without what our make says to itself."""
    foreign = ("MAKEFLAGS", "MAKELEVEL", "PYTEST_ARGS", "WITHOUT")
    return {name: value for name, value in os.environ.items() if name not in foreign} | more


def check() -> Row:
    started = time.monotonic()
    done = subprocess.run([str(ROOT / "scripts/test.sh"), "--check"], env=script(), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"make check failed:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    took = time.monotonic() - started
    load = os.getloadavg()[0]
    return row("check_seconds", took, CHECK_SECONDS, f"make check; the baseline is the limit; load {load:.1f}")


def left_processes() -> Row:
    """What is left of a run with a server that was killed by SIGKILL, which nobody can catch."""
    steady_load.adopt_orphans()
    words = [str(ROOT / "scripts/test.sh")]
    environment = script(PYTEST_ARGS="tests/sql/test_counts.py")
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        found: list[steady_load.Process] = []

        def serves() -> bool:
            found[:] = living()
            return sum(one.name == "postgres" for one in found) > 4

        if not soon(serves, 120):
            run.kill()
            sys.exit("the run to be killed started no server in two minutes")
        run.kill()
    soon(lambda: not living(), 10)
    left = living()
    for one in left:
        os.kill(one.pid, signal.SIGKILL)
    for folder in {folder for one in found for folder in re.findall(r"-D (/tmp/pge-[^/ ]+)/data", one.command)}:
        shutil.rmtree(folder, ignore_errors=True)
    return row("left_processes", len(left), 0, f"of {len(found)} of scripts/test.sh, ten seconds after its SIGKILL")


def living() -> list[steady_load.Process]:
    return [one for one in steady_load.descendants(steady_load.processes(), os.getpid()) if one.state != "Z"]


def counted() -> list[Row]:
    """What collecting the tests tells: how many they are, and how likely one of them fails by chance."""
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0"]
    if (ROOT / "tests/chance_report.py").exists():
        words += ["-s", "-p", "chance_report"]
    environment = script(PYTHONPATH=str(ROOT / "tests"))  # -p looks before pytest's own paths are set
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"collecting the tests failed:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    controls = len((ROOT / "tests/fixtures/controls.txt").read_text(encoding="utf-8").split())
    chance = false_alarms(done.stdout)
    return [
        row("tests", collected(done.stdout), TESTS_THEN, "collected of tests/; baseline: at ba58045"),
        row("controls", controls, CONTROLS_THEN, "tests/fixtures/controls.txt; baseline: at a4baae1, its first"),
        row("false_alarm_sum", chance.value, FALSE_ALARMS, f"the baseline is the limit; {chance.source}"),
    ]


def main() -> int:
    rows = [*long_ones(), check(), left_processes(), *counted()]
    publish("landing", rows)
    return int(any(exceeds(one) for one in rows if one["metric"] in PROMISES))


def exceeds(one: Row) -> bool:
    ours, baseline = one["ours"], one["baseline"]
    return isinstance(ours, int | float) and isinstance(baseline, int | float) and ours > baseline


if __name__ == "__main__":
    sys.exit(main())
