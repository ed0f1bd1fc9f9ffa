"""`make bench-ledger`: copies that are noticed, and what noticing costs.

Against the version before: the tree of its commit, in a cluster of its own, asked in turn with ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "scripts", "extension", "proxy", "tests/benchmarks")]

from ledger_verify import ROWS, verify_seconds_per_million_rows  # noqa: E402
from older import tree_of  # noqa: E402
from report import Row, paired, publish, row  # noqa: E402

from fix_cluster import Cluster, private_cluster, standard  # noqa: E402
from fix_copies import (  # noqa: E402
    COLD,
    asked_while_promoted,
    base_backup,
    beside,
    cold,
    primary_at_work,
    put_back,
    recovering,
    standby_of,
    stopped,
)
from fix_ledger import count  # noqa: E402
from fix_stack import Stack, stack_at_work  # noqa: E402

BEFORE = "ba58045"  # 0.1.0
PAIRS = 400
SECONDS = 5
SNAPSHOT = "snapshot restored behind the same proxy"
ASKERS = 8
PAID = "SELECT dp.dp_count('people', 'age > 40', fresh => true, epsilon => 0.0001)"


def answers(copy: Cluster) -> bool:
    """Whether a copy pays for a new question, its channel repaired if it needs that."""
    copy.psql("CALL dp.repair_channel()")
    with copy.connect("alice") as alice:
        try:
            count(alice)
        except psycopg.Error as error:
            assert error.sqlstate == "DP006", error
            return False
    return True


@contextmanager
def backup_beside(primary: Cluster) -> Iterator[Cluster]:
    with beside(primary, *base_backup(primary)) as copy:
        copy.start()
        yield copy


@contextmanager
def cold_instead(primary: Cluster, how: str) -> Iterator[Cluster]:
    with stopped(primary), beside(primary, *cold(primary, how), port=primary.port) as copy:
        copy.start()
        yield copy
        copy.stop()


def copies(primary: Cluster) -> list[Row]:
    """Every kind of copy, started beside or instead of its original."""
    kinds: dict[str, Callable[[], object]] = {"pg_basebackup": lambda: backup_beside(primary)}
    kinds.update({how: lambda how=how: cold_instead(primary, how) for how in COLD})  # type: ignore[misc]
    kinds["point-in-time recovery"] = lambda: recovering(primary)
    unnoticed = []
    for name, kind in kinds.items():
        with kind() as copy:  # type: ignore[attr-defined]
            if answers(copy):
                unnoticed.append(name)
    with standby_of(primary) as standby:
        blind = sum(heard.startswith("answer") for heard in asked_while_promoted(standby))
    if blind:
        unnoticed.append("promoted standby")
    if not snapshot_is_noticed():
        unnoticed.append(SNAPSHOT)
    note = ", ".join([*kinds, "promoted standby", SNAPSHOT]) + (
        f"; unnoticed: {', '.join(unnoticed)}" if unnoticed else ""
    )
    return [
        row(
            "promoted_blind_answers",
            blind,
            None,
            "asked all the time while a standby with dirty pages is promoted; target 0",
        ),
        row("copies_unnoticed", len(unnoticed), None, f"{note}; target 0"),
    ]


def snapshot_is_noticed() -> bool:
    """A snapshot put back in place behind the proxy that has seen more: whether its next paid question is refused."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PG_EPSILON_PROXY_STATE_DIR"] = f"{folder}/state"
        with stack_at_work() as stack:
            through(stack, 20)
            data, snapshot = stack.cluster.data, Path(folder) / "data"
            with at_rest(stack):
                subprocess.run(["cp", "-a", str(data), str(snapshot)], check=True)
            through(stack, 30)
            with at_rest(stack):
                put_back(snapshot, data)
            try:
                through(stack, 40)
            except psycopg.Error as error:
                assert error.sqlstate == "DP006", error
                return True
            return False


def through(stack: Stack, age: int) -> None:
    with stack.connect() as alice:
        alice.execute(f"SELECT count(*) FROM people WHERE age > {age}")


@contextmanager
def at_rest(stack: Stack) -> Iterator[None]:
    """Proxy and server stopped, and started again."""
    stack.stop()
    stack.cluster.stop("fast")
    yield
    stack.cluster.start()
    stack.start()


def costs() -> list[Row]:
    """A paid count here and before, in turn; charges a second of many askers on one dataset."""
    durable = {"fsync": "on", "full_page_writes": "on"}
    with private_cluster(**durable) as ours, private_cluster(paths=tree_of(BEFORE), **durable) as before:
        standard(ours)
        standard(before)
        with ours.connect("alice") as now, before.connect("alice") as then:
            new, old, ratio = paired(lambda: now.execute(PAID), lambda: then.execute(PAID), PAIRS)
        note = f"a paid count, ms; median ratio of {PAIRS} pairs with {BEFORE}; target 1.1"
        rows = [row("charge_ms_ratio", 1000 * new, 1000 * old, note, ratio), _rate(ours, before)]
        seconds = verify_seconds_per_million_rows(ours.dsn(), "people")
        told = f"pg-epsilon ledger verify of a live ledger of {ROWS} charges, scaled"
        return [*rows, row("verify_seconds_per_million_rows", seconds, None, told)]


def _rate(ours: Cluster, before: Cluster) -> Row:
    new, old = charges_a_second(ours), charges_a_second(before)
    return row("charges_per_second:one_dataset", new, old, f"{ASKERS} sessions, {SECONDS} s, commits on disk")


def charges_a_second(cluster: Cluster) -> float:
    done = [0] * ASKERS
    end = time.monotonic() + SECONDS

    def ask(number: int) -> None:
        with cluster.connect("bob") as bob:
            while time.monotonic() < end:
                bob.execute(PAID)
                done[number] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(ASKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / SECONDS


def main() -> None:
    rows = costs()
    with primary_at_work() as primary:
        rows += copies(primary)
    publish("ledger", rows)


if __name__ == "__main__":
    main()
