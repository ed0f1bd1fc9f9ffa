#!/usr/bin/python3
"""`make steady`: the tests several times, each in a clean clone of HEAD, on a machine that is busy and halts at times.

Beside each run work four busy loops and writes to disk, and random processes of the run are stopped for a while
(steady_load.py). A test that fails once in eight runs is found here, not in the landing of somebody else. What failed
in which run is printed and written to build/steady.json; logs, reports and what was stopped are in build/steady/.

N, TESTS (arguments of pytest) and TEST_MINUTES come from the environment, where make puts them. All that this starts
is in a process namespace of its own, where we may make one, and ends with it, also if it is killed; the clones go too
(after kill -9: when the next one starts). Ends with 1 if a run was red, with 2 if there was none.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent))
import steady_load
import steady_report

ROOT = Path(__file__).resolve().parent.parent
# Open to the server's user, on a disk, and not /tmp: that is another one for each run.
PLACE = Path("/var/tmp")  # noqa: S108
PREFIX = "pge-steady-"
MINUTES = "120"  # the limit of a run: ten times its idle minutes
# What make and its caller set is not for the run's own make.
FOREIGN = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "N", "TESTS", "PART", "WITHOUT", "PG_EPSILON_VENV", "PG_EPSILON_RUNTIME")
# The first process of a namespace takes in orphans and waits for them.
FIRST = ["bash", "-c", '"$@"; exit $?', "bash"]
OWN_TMP = ["unshare", "--mount", "bash", "-c", 'mount --bind "$1" /tmp && shift && exec "$@"', "bash"]


class Impossible(Exception):
    """There was no run; the message says why."""


def options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make steady", description="the tests several times, under load")
    add = parser.add_argument
    add("--runs", type=int, default=os.environ.get("N") or "3", help="how many (N)")
    add("--tests", default=os.environ.get("TESTS", ""), help="pytest's arguments instead of everything (TESTS)")
    add("--seed", type=int, default=os.environ.get("SEED") or None, help="of who is stopped when (SEED)")
    add("--no-load", action="store_true", help="no busy loops, no writes, no stops")
    add("--command", help="a shell's command instead of make test: in an empty folder, with STEADY_RUN, STEADY_JUNIT")
    add("--out", type=Path, default=ROOT / "build", help="where steady.json and steady/ go")
    add("--inside", type=Path, help=argparse.SUPPRESS)  # the folder of clones: we are the one in the namespace
    chosen = parser.parse_args(arguments)
    if chosen.runs < 1:
        parser.error("there must be at least one run")
    return chosen


def alone() -> list[str]:
    """The words of scripts/lib.sh that make a process namespace; none where nobody lets us."""
    words = ["bash", "-c", 'source "$1" && alone', "bash", str(ROOT / "scripts/lib.sh")]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()  # noqa: S603


# --- outside: what must end, and go, whatever happens inside


def outside(chosen: argparse.Namespace, arguments: Sequence[str]) -> int:
    remove_stale()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    # Without a namespace orphans are ours, and are found when we end.
    steady_load.adopt_orphans()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PLACE))
    try:
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            folder.chmod(0o755)
            words = [*namespace, *FIRST] if (namespace := alone()) else ["setpriv", "--pdeathsig", "KILL"]
            words += [sys.executable, str(Path(__file__).resolve()), *arguments, "--inside", str(folder)]
            # A session of its own: Ctrl-C is for us, who then end it.
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True).wait()  # noqa: S603
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        end_all()
        remove(folder)


def leave(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def end_all() -> None:
    """Every descendant, until there is none. Whom a namespace's first process leaves, the kernel ends."""
    while found := steady_load.descendants(steady_load.processes(), os.getpid()):
        for one in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        time.sleep(0.02)


def remove(folder: Path) -> None:
    for _ in range(100):  # who was killed a moment ago may still write
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


def remove_stale() -> None:
    """Folders of ours whose owner was killed: nobody holds the lock."""
    for folder in PLACE.glob(f"{PREFIX}*"):
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            continue
        with contextlib.suppress(OSError), (folder / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(folder)


# --- inside: the runs


def inside(chosen: argparse.Namespace, folder: Path) -> int:
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(1 << 32)
    commit = "" if chosen.command else head()
    say(f"{chosen.runs} runs of {chosen.command or f'make test at {commit[:12]}'} {chosen.tests}, seed {seed}")
    (chosen.out / "steady").mkdir(parents=True, exist_ok=True)
    for old in (chosen.out / "steady").glob("run-*"):
        old.unlink()
    runs: list[steady_report.Run] = []
    for number in range(1, chosen.runs + 1):
        runs.append(one_run(chosen, folder, number, commit, seed + number))
        say(steady_report.line(runs[-1]))
        facts = {"commit": commit, "tests": chosen.tests, "seed": seed, "load": not chosen.no_load}
        summary = steady_report.summary(runs, wanted=chosen.runs, **facts)
        (chosen.out / "steady.json").write_text(json.dumps(summary, indent=1) + "\n")
    print("\n".join(steady_report.table(runs)), flush=True)
    print(f"written: {chosen.out}/steady.json, and logs in {chosen.out}/steady")
    return int(any(run.red for run in runs))


def say(text: str) -> None:
    print(f"==> {text}", flush=True)


def head() -> str:
    if git("status", "--porcelain", "--untracked-files=no"):
        say("what is not committed is not in the clones")
    return git("rev-parse", "HEAD")


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)  # noqa: S603, S607
    if done.returncode:
        raise Impossible(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def one_run(chosen: argparse.Namespace, folder: Path, number: int, commit: str, seed: int) -> steady_report.Run:
    place, tmp = folder / f"run-{number}", folder / f"tmp-{number}"
    report, kept = folder / f"run-{number}.xml", chosen.out / "steady"
    log = kept / f"run-{number}.log"
    try:
        environment = ready(chosen, place, commit, log)
        environment |= {"STEADY_RUN": str(number), "STEADY_JUNIT": str(report)}
        environment["PYTEST_ARGS"] = f"{chosen.tests} --junitxml={shlex.quote(str(report))}"
        words = ["bash", "-c", chosen.command] if chosen.command else ["make", "test"]
        if not chosen.command and os.geteuid() == 0 and alone():
            # What a killed run leaves in /tmp, its clusters, goes with the clone.
            tmp.mkdir()
            tmp.chmod(0o1777)
            words = [*OWN_TMP, str(tmp), *words]
        started = time.monotonic()
        status, stopped = under_load(chosen, words, place, environment, log, seed)
        minutes = round((time.monotonic() - started) / 60, 2)
        if report.exists():
            shutil.copyfile(report, kept / report.name)
        return steady_report.run_of(number, minutes, status, report, stopped)
    finally:
        remove(place)
        remove(tmp)


def ready(chosen: argparse.Namespace, place: Path, commit: str, log: Path) -> dict[str, str]:
    """A clean clone with all that it needs, made while nothing disturbs; the environment of its run."""
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    environment.setdefault("TEST_MINUTES", MINUTES)
    if chosen.command:
        place.mkdir()
        return environment
    git("clone", "-q", "--no-checkout", str(ROOT), str(place))
    git("-C", str(place), "checkout", "-q", "--detach", commit)
    with log.open("w") as out:
        words = ["make", "-s", "dev", "sql"]
        done = subprocess.run(words, cwd=place, env=environment, stdout=out, stderr=out)  # noqa: S603
    if done.returncode:
        raise Impossible(f"make dev sql failed in the clone: {log}")
    return environment


def under_load(
    chosen: argparse.Namespace, words: list[str], place: Path, environment: dict[str, str], log: Path, seed: int
) -> tuple[int, Counter[str]]:
    """The command's exit status, and how many processes of it were stopped, by kind."""
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(log.open("a"))
        if not chosen.no_load:
            stack.enter_context(steady_load.load(place.parent))
        words = ["setpriv", "--pdeathsig", "KILL", *words]
        run = subprocess.Popen(  # noqa: S603
            words, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        if chosen.no_load:
            return run.wait(), Counter()
        with steady_load.Injector(run.pid, seed, log.with_suffix(".stops")) as injector:
            status = run.wait()
        return status, injector.stopped


def main(arguments: Sequence[str]) -> int:
    chosen = options(arguments)
    if chosen.inside is None:
        return outside(chosen, arguments)
    try:
        return inside(chosen, chosen.inside)
    except (Impossible, RuntimeError) as problem:
        print(f"pg_epsilon: make steady: {problem}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
