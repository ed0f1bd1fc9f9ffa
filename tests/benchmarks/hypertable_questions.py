"""For `make bench-hypertables`: forms of time_bucket that the proxy answers, and what 8,000 chunks cost."""

from __future__ import annotations

from typing import Any

import psycopg
from report import Row, row

from fix_cluster import Cluster
from fix_stack import Stack, stack_at_work

# Rows whose counts no noise hides: at epsilon 30 that of a count is 0 with probability 1 - 2e-13.
SEEN = """
CREATE TABLE seen (at timestamptz NOT NULL, ts timestamp NOT NULL, day date NOT NULL, n int NOT NULL);
SELECT create_hypertable('seen', 'at', chunk_time_interval => INTERVAL '7 days');
INSERT INTO seen SELECT timestamptz '2024-01-01 00:07+00' + i * interval '20 hours',
  timestamp '2024-01-01 00:07' + i * interval '20 hours', date '2024-01-01' + i * 5 / 6, i % 70 - 35
  FROM generate_series(1, 400) i;
CALL dp.create_dataset('seen', unit => 'row', epsilon => 1000, default_epsilon => 1);
CALL dp.protect('seen', 'seen', max_rows => 1000, scale => 400);
CALL dp.describe_column('seen', 'at', bounds => '{2024-01-01,2024-12-31}', resolution => '1 hour', nullable => false);
CALL dp.describe_column('seen', 'ts', bounds => '{2024-01-01,2024-12-31}', resolution => '1 hour', nullable => false);
CALL dp.describe_column('seen', 'day', bounds => '{2024-01-01,2024-12-31}', nullable => false);
CALL dp.describe_column('seen', 'n', bounds => '{-40,40}', resolution => '1', nullable => false);
CALL dp.publish('seen');
CALL dp.allot('alice', 'seen', epsilon => 1000);
"""
DEEP = """
ALTER TABLE dp.dataset DISABLE TRIGGER USER;
UPDATE dp.dataset SET epsilon = 1e9 WHERE name = 'seen';
ALTER TABLE dp.dataset ENABLE TRIGGER USER;
UPDATE dp.role_allotment SET epsilon = 1e9 WHERE dataset = 'seen';
SELECT dp._bump_policy();
"""
FORMS = (
    "time_bucket(10, n)",
    "time_bucket(10, n, 3)",
    "time_bucket('7 days', day)",
    "time_bucket('7 days', day, date '2024-01-03')",
    "time_bucket('7 days', day, interval '2 days')",
    "time_bucket('12 hours', ts)",
    "time_bucket('1 week', ts, origin => '2024-01-07')",
    "time_bucket('1 day', ts, \"offset\" => '6 hours')",
    "time_bucket('1 month', at)",
    "time_bucket('1 day', at, 'Asia/Tokyo')",
    "time_bucket('1 week', at, 'Europe/Berlin', origin => '2024-01-01 00:00+01')",
    "time_bucket('1 week', at, 'Europe/Berlin', \"offset\" => '6 hours')",
)
CHUNKS = 8000
CROWD = """
CREATE TABLE crowd (at timestamptz NOT NULL, device int);
SELECT create_hypertable('crowd', 'at', chunk_time_interval => INTERVAL '1 hour');
CALL dp.protect('crowd', 'seen', partition_by => 'at', grid => '{"origin": "2024-01-01", "width": "1 day"}');
CALL dp.describe_column('crowd', 'at');
CALL dp.describe_column('crowd', 'device', bounds => '{0,9}', nullable => false);
CALL dp.publish('crowd');
"""
DECLARED = """
CALL dp.describe_column('crowd', 'at', bounds => '{2024-01-01 00:00+00,2024-11-30 08:00+00}', nullable => false)
"""


def _prepare(cluster: Cluster) -> None:
    cluster.execute("CREATE EXTENSION timescaledb", "GRANT USAGE ON SCHEMA public TO boss")
    cluster.psql(SEEN + CROWD, user="boss")
    cluster.psql(DEEP)
    with cluster.connect("boss") as boss:
        for first in range(0, CHUNKS, 100):
            boss.execute(
                "INSERT INTO crowd SELECT timestamptz '2024-01-01 00:00+00' + i * interval '1 hour', mod(i, 10)"
                " FROM generate_series(%s::int, %s::int) i",
                [first, first + 99],
            )


def questions() -> list[Row]:
    preload = {"shared_preload_libraries": "timescaledb", "timescaledb.max_background_workers": "0"}
    with stack_at_work(_prepare, **preload, **{"timescaledb.telemetry_level": "off"}) as stack:
        return [forms(stack), chunks(stack)]


def forms(stack: Stack) -> Row:
    """Each as a group key and in a condition, beside TimescaleDB's own."""
    answered = 0
    with stack.connect() as alice, stack.cluster.connect("boss") as boss:
        for conn in (alice, boss):
            conn.execute("SET timezone = 'UTC'")
        alice.execute("SET dp.epsilon = 30")
        for form in FORMS:
            grouped = f"SELECT {form} AS k, count(*) FROM seen GROUP BY 1 HAVING count(*) > 0 ORDER BY 1"
            true = boss.execute(grouped.encode()).fetchall()
            middle = true[len(true) // 2][0]
            within = f"SELECT count(*) FROM seen WHERE {form} = '{middle}'"
            answered += _same(alice, grouped, true) and _same(alice, within, boss.execute(within.encode()).fetchall())
    note = "forms of time_bucket that the proxy answers with TimescaleDB's own values, as key and in WHERE, over a"
    note += f" facade without TimescaleDB; baseline: {len(FORMS)}"
    return row("time_bucket_forms", answered, len(FORMS), note)


def _same(alice: psycopg.Connection[Any], sql: str, true: list[Any]) -> bool:
    try:
        return alice.execute(sql.encode()).fetchall() == true
    except psycopg.Error:
        return False


def chunks(stack: Stack) -> Row:
    """Questions over 8,000 chunks, before and after their bounds are declared: charges for those not answered."""
    codes = [_asked(stack, "device < 5")]
    stack.cluster.psql(DECLARED, user="boss")
    codes += [_asked(stack, f"device < {i}") for i in (6, 7)]
    with stack.cluster.connect() as root:
        charged = root.execute("SELECT count(*) FROM dp.ledger WHERE request::text ~ 'crowd' AND kind = 'charge'")
        (paid,) = charged.fetchone() or (0,)
    refused = sum(code is not None for code in codes)
    note = f"charges of {refused} questions over {CHUNKS:,} chunks that were refused"
    note += f" ({', '.join(str(code) for code in codes)}); baseline: questions"
    return row("chunks_8000", paid, refused, note, 0.0 if not paid else None)


def _asked(stack: Stack, where: str) -> str | None:
    with stack.cluster.connect("alice") as alice:
        try:
            alice.execute("SELECT dp.dp_count('crowd', %s, epsilon => 0.1)", [where])
        except psycopg.Error as error:
            return error.sqlstate
    return None
