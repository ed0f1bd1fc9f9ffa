"""`make bench-proxy`: what the proxy adds, against a direct connection and against PgBouncer, in the same run."""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "scripts", "extension", "proxy", "tests/benchmarks")]

from memory import resident_mb, used_by  # noqa: E402
from pgbouncer import Bouncer, bouncer_at_work, program  # noqa: E402
from report import Row, paired, publish, row  # noqa: E402

from fix_stack import FACADE, Stack, stack_at_work  # noqa: E402
from fuzz import mutate  # noqa: E402

ROUND_TRIPS = 3000
CATALOG_ROWS = 10_000
CATALOG = f"""SELECT c.relname, a.attname, a.atttypid, a.attnum, a.attnotnull FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid, pg_catalog.generate_series(1, 20) LIMIT {CATALOG_ROWS}"""
QUESTIONS = 400
SESSIONS = 200
ROUNDS = 12
MUTATIONS = 50_000
SEED = 20261121
# What the standard tables allow is spent by other benchmarks' numbers: these are for thousands of questions.
BUDGETS = "CALL dp.allot('alice', 'people', epsilon => 10);"

Connection = psycopg.Connection[Any]


def ask(connection: Connection, statement: str) -> Callable[[], None]:
    """One simple-protocol round trip; nothing of the result is decoded, so the client's own cost is small."""
    wire, text = connection.pgconn, statement.encode()

    def run() -> None:
        result = wire.exec_(text)
        if result.status not in (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK):
            raise RuntimeError(result.error_message.decode())

    return run


def passthrough(stack: Stack, bouncer: Bouncer) -> list[Row]:
    """Statements that are none of ours: one round trip, and a catalog result of 10,000 rows."""
    proxied, bounced = stack.connect(), bouncer.connect()
    direct = stack.cluster.connect("alice", FACADE, tcp=True)
    one, rows = "SELECT 1", []
    for metric, base in (("passthrough_latency_vs_direct", direct), ("passthrough_latency_vs_pgbouncer", bounced)):
        ours, theirs, ratio = paired(ask(proxied, one), ask(base, one), ROUND_TRIPS)
        rows.append(row(metric, 1000 * ours, 1000 * theirs, "select 1, one simple round trip; ms, median", ratio))
    ours, theirs, ratio = paired(ask(proxied, CATALOG), ask(bounced, CATALOG), 40)
    note = f"{CATALOG_ROWS:,} catalog rows of 5 columns, fetched; ms, median"
    rows.append(row("catalog_rows_vs_pgbouncer", 1000 * ours, 1000 * theirs, note, ratio))
    ours, theirs, ratio = paired(ask(proxied, CATALOG), ask(direct, CATALOG), 40)
    rows.append(row("catalog_rows_vs_direct", 1000 * ours, 1000 * theirs, note, ratio))
    for connection in (proxied, bounced, direct):
        connection.close()
    return rows


def questions(stack: Stack) -> list[Row]:
    """A count by plain SQL through the proxy, against dp_count called directly on the private database."""
    proxied, direct = stack.connect(), stack.cluster.connect("alice", tcp=True)
    for connection in (proxied, direct):
        connection.execute("SET dp.epsilon = 0.0001")
    numbers = itertools.count(1)

    def paid(connection: Connection, statement: str) -> Callable[[], None]:
        return lambda: ask(connection, statement.format(next(numbers)))()

    cached = _added(
        ask(proxied, "SELECT count(*) FROM people WHERE age > 40"),
        ask(direct, "SELECT dp_count('people', 'age > 40')"),
    )
    charged = _added(
        paid(proxied, "SELECT count(*) FROM people WHERE id <> {}"),
        paid(direct, "SELECT dp_count('people', 'id <> {}')"),
    )
    called = _added(
        paid(proxied, "SELECT dp_count('people', 'id <> {}')"), paid(direct, "SELECT dp_count('people', 'id <> {}')")
    )
    for connection in (proxied, direct):
        connection.close()
    worst = max(cached, charged, key=lambda item: item[2])
    note = f"ms more at the median, the worse of cached {cached[2]:.2f} and paid {charged[2]:.2f}; target <= 2"
    return [
        row("dp_added_ms_median", worst[2], None, f"{note}; ours through the proxy {worst[0]:.2f} ms"),
        row("dp_count_cached_ms", *cached[:2], "free repeat of SELECT count(*); baseline: dp_count, direct"),
        row("dp_count_paid_ms", *charged[:2], "SELECT count(*), charged and drawn; baseline: dp_count, direct"),
        row("dp_call_paid_ms", *called[:2], "SELECT dp_count(...) itself through the proxy; baseline: direct"),
    ]


def _added(ours: Callable[[], None], direct: Callable[[], None]) -> tuple[float, float, float]:
    """Median ms of each, and the median of the differences of neighbouring runs."""
    a: list[float] = []
    b: list[float] = []
    for turn in range(QUESTIONS):
        for call, times in ((ours, a), (direct, b)):
            start = time.perf_counter()
            call()
            if turn:
                times.append(1000 * (time.perf_counter() - start))
    differences = statistics.median(x - y for x, y in zip(a, b, strict=True))
    return statistics.median(a), statistics.median(b), differences


def crowd(stack: Stack, bouncer: Bouncer) -> list[Row]:
    """200 sessions that all work, round after round: all live at the end, memory flat, and what each costs."""
    assert stack.process is not None
    pid = stack.process.pid
    before = resident_mb(pid)
    sessions = [stack.connect() for _ in range(SESSIONS)]
    _work(sessions)  # the first round warms pools and caches
    held, filled = resident_mb(pid), []
    for _ in range(ROUNDS):
        _work(sessions)
        filled.append(resident_mb(pid))
    alive = sum(session.execute("SELECT 1").fetchone() == (1,) for session in sessions)
    growth = statistics.mean(filled[-3:]) - statistics.mean(filled[:3])
    for session in sessions:
        session.close()
    ours = (held - before) / SESSIONS
    base = used_by(bouncer.pid, bouncer.connect, SESSIONS)
    flat = f"{ROUNDS} rounds of 3 statements each moved the proxy's memory by {growth:+.1f} MB of {held:.0f}"
    note = f"resident MB of the proxy, all its processes; {1 / ours:.1f} sessions a MB; baseline: PgBouncer"
    return [row("sessions_held", alive, SESSIONS, flat), row("mb_per_session", ours, base, note)]


def _work(sessions: list[Connection]) -> None:
    for session in sessions:
        session.execute("SELECT 1")
        session.execute("SELECT count(*) FROM people WHERE age > 40")
        session.execute("SELECT i, 'row ' || i FROM generate_series(1, 500) i").fetchall()


def main() -> None:
    program()  # before minutes are spent
    with stack_at_work(max_connections="600", fsync="on") as stack, bouncer_at_work(stack) as bouncer:
        stack.cluster.psql(BUDGETS, user="boss")
        stack.cluster.execute(f"ALTER DATABASE {FACADE} CONNECTION LIMIT 500")
        rows = passthrough(stack, bouncer) + questions(stack) + crowd(stack, bouncer)
        stack.cluster.stop("fast")
    publish("proxy", rows + mutated())


def mutated() -> list[Row]:
    """Recorded conversations with random damage against a proxy (tests/fuzz): no crash, no hang, no growth.

    Raises RuntimeError if anything happened that should not. For a million: python -m fuzz.mutate 1000000 1.
    """
    report = mutate.run(MUTATIONS, SEED)
    if report.failures:
        raise RuntimeError("\n".join(report.failures))
    early, late = (kb / 1024 for kb in report.resident_kb)
    note = (
        f"in {report.connections:,} sessions of a bare proxy, {report.seconds:.0f} s; the others waited "
        f"{report.slowest:.2f} s at most; memory {early:.0f} to {late:.0f} MB; baseline: as many as asked for"
    )
    return [row("mutated_messages", report.messages, MUTATIONS, note)]


if __name__ == "__main__":
    main()
