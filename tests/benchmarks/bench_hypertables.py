"""`make bench-hypertables`: what a seal costs whoever loads rows into a hypertable, and what it loses: nothing.

Against the same hypertable without pg_epsilon, in the same cluster, statement by statement in turn: on Debian 13,
which has TimescaleDB as a package, in the chroot of `make test-timescale`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "scripts", "extension", "proxy", "tests/benchmarks")]

from hypertable_questions import questions  # noqa: E402
from report import Row, paired, publish, row  # noqa: E402

from fix_cluster import Cluster, standard_cluster  # noqa: E402
from fix_sealing import race  # noqa: E402

THERE = (
    'scripts/env.sh >&2 && scripts/env.sh "postgresql-$(scripts/paths.py pg-version)-timescaledb" >&2 && make sql >&2'
    ' && "$(scripts/paths.py venv)/bin/python" tests/benchmarks/bench_hypertables.py --here'
)
PAIRS = 60
ROWS = 20_000
SEALED = 30  # days
WIDE = "at timestamptz NOT NULL, device int, reading float8, note text"
TABLES = f"""
CREATE TABLE plain ({WIDE});
SELECT create_hypertable('plain', 'at', chunk_time_interval => INTERVAL '1 day');
CREATE TABLE sealed ({WIDE});
SELECT create_hypertable('sealed', 'at', chunk_time_interval => INTERVAL '1 day');
CALL dp.create_dataset('sealed', epsilon => 10);
CALL dp.protect('sealed', 'sealed', partition_by => 'at', grid => '{{"origin": "2024-01-01", "width": "1 day"}}');
CALL dp.describe_column('sealed', 'at');
CALL dp.describe_column('sealed', 'device', bounds => '{{0,99}}', nullable => false);
CALL dp.publish('sealed');
CALL dp.enable_turbo('sealed', '{{device}}', 0.05, 0.001, 'at', true, scale => 10000);
INSERT INTO plain SELECT TIMESTAMPTZ '2024-01-01 00:00+00' + i * INTERVAL '1 hour', i % 100, i, 'some words'
  FROM generate_series(0, 24 * 40) i;
INSERT INTO sealed SELECT * FROM plain;
CALL dp.seal_partitions('sealed', until => '2024-01-31 00:00+00');
CALL dp.reopen_partition('sealed', '2024-01-11 00:00+00');
CREATE TABLE raced (at timestamptz NOT NULL, a int);
SELECT create_hypertable('raced', 'at', chunk_time_interval => INTERVAL '1 day');
CALL dp.create_dataset('raced', epsilon => 10);
CALL dp.protect('raced', 'raced', partition_by => 'at', grid => '{{"origin": "2024-01-01", "width": "1 day"}}');
CALL dp.describe_column('raced', 'a', bounds => '{{0,3}}', nullable => false);
CALL dp.publish('raced');
CALL dp.enable_turbo('raced', '{{a}}', 0.05, 0.001, 'at', true, scale => 1000);
"""
DEVICES, DAILY = 20, 20_000  # of the series: devices, and rows a day
SERIES = f"""
CREATE TABLE metric (at timestamptz NOT NULL, device int, reading float8);
SELECT create_hypertable('metric', 'at', chunk_time_interval => INTERVAL '1 day');
CALL dp.create_dataset('metric', epsilon => 1000);
CALL dp.protect('metric', 'metric', partition_by => 'at', grid => '{{"origin": "2024-01-01", "width": "1 day"}}');
CALL dp.describe_column('metric', 'at', bounds => '{{2024-01-01,2024-01-30 23:59:59}}', nullable => false);
CALL dp.describe_column('metric', 'device', bounds => '{{0,{DEVICES - 1}}}', nullable => false);
CALL dp.publish('metric'); CALL dp.allot('alice', 'metric', epsilon => 1000);
CALL dp.enable_turbo('metric', '{{device}}', 0.05, 0.001, 'at', true, scale => {DAILY});
INSERT INTO metric SELECT TIMESTAMPTZ '2024-01-01 00:00+00' + d * INTERVAL '1 day' + i * INTERVAL '4 seconds',
  i % ({DEVICES} + d % 7) % {DEVICES}, i FROM generate_series(0, {SEALED - 1}) d, generate_series(0, {DAILY - 1}) i;
CALL dp.seal_partitions('metric', until => '2024-01-31 00:00+00');
"""
OF_DAYS = "at >= '2024-01-01 00:00+00' AND at < '2024-01-31 00:00+00' AND device = {0}"
ABOVE, REOPENED = "2024-02-05 00:00+00", "2024-01-11 00:00+00"
MANY = (
    "INSERT INTO {0} SELECT TIMESTAMPTZ '{1}' + i * INTERVAL '1 second', i % 100, i, 'some words'"
    f" FROM generate_series(1, {ROWS}) i"
)


@contextmanager
def hypertables() -> Iterator[Cluster]:
    preload = {"shared_preload_libraries": "timescaledb", "timescaledb.max_background_workers": "0"}
    with standard_cluster(**preload, **{"timescaledb.telemetry_level": "off"}) as cluster:
        cluster.execute("CREATE EXTENSION timescaledb", "GRANT USAGE ON SCHEMA public TO boss")
        cluster.psql(TABLES, user="boss")
        cluster.psql(SERIES, user="boss")
        yield cluster


def many(conn: psycopg.Connection[Any], table: str, day: str) -> None:
    with conn.transaction(force_rollback=True):
        conn.execute(MANY.format(table, day))


def copied(conn: psycopg.Connection[Any], table: str, day: str) -> None:
    lines = "".join(f"{day}\t{i % 100}\t{i}\tsome words\n" for i in range(ROWS))
    with conn.transaction(force_rollback=True), conn.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        copy.write(lines)


def single(conn: psycopg.Connection[Any], table: str, day: str) -> None:
    """One row a statement, prepared: the condition is read anew by each."""
    with conn.transaction(force_rollback=True):
        for i in range(300):
            conn.execute(f"INSERT INTO {table} VALUES (%s, %s, %s, 'some words')", [day, i, i], prepare=True)


LOADS: dict[str, tuple[Callable[[psycopg.Connection[Any], str, str], None], str]] = {
    "": (many, f"INSERT of {ROWS} rows"),
    ":copy": (copied, f"COPY of {ROWS} rows"),
    ":one_row": (single, "INSERT of one row, 300 times"),
}


def ingest(cluster: Cluster) -> list[Row]:
    found = []
    with cluster.connect("boss") as conn:
        for place, day, target in (("above", ABOVE, 1.1), ("reopened", REOPENED, 1.5)):
            for kind, (load, what) in LOADS.items():
                ours, base, ratio = paired(
                    lambda load=load, day=day: load(conn, "sealed", day),  # type: ignore[misc]
                    lambda load=load, day=day: load(conn, "plain", day),  # type: ignore[misc]
                    PAIRS,
                )
                where = "above what is sealed" if place == "above" else "into a reopened day"
                note = f"{what} {where} ({SEALED} days sealed), s; baseline: an ordinary hypertable; at most {target}"
                found.append(row(f"insert_ratio:{place}{kind}", ours, base, note, ratio))
    return found


def lost(cluster: Cluster) -> Row:
    missing, committed = 0, 0
    for number in range(5):
        day = f"TIMESTAMPTZ '2024-01-{number + 1:02d} 12:00+00'"
        counted, there = race(cluster, "raced", day, number)
        missing, committed = missing + abs(there - counted), committed + there
    note = "rows committed to five days that their seals did not count, twenty writers each; baseline: rows committed"
    return row("seal_lost_rows", missing, committed, note, 0.0 if not missing else None)


def daily(conn: psycopg.Connection[Any], device: int, budget: str) -> list[int]:
    asked = f"'metric', ARRAY[$$date_trunc('day', at)$$], '{{count(*)}}', $${OF_DAYS.format(device)}$$, {budget}"
    rows = conn.execute(f"SELECT value ->> 'count(*)' FROM dp.dp_group_by({asked})").fetchall()
    return [int(value) for (value,) in rows]


def plain(conn: psycopg.Connection[Any], device: int) -> list[int]:
    where = OF_DAYS.format(device)
    sql = f"SELECT count(*) FROM metric WHERE {where} GROUP BY date_trunc('day', at) ORDER BY date_trunc('day', at)"
    return [number for (number,) in conn.execute(sql).fetchall()]


def series(cluster: Cluster) -> list[Row]:
    """A dashboard of daily series, one of each device: no row is of two, so Turbo's cost what one does; direct ones
    share that epsilon. And seconds: of series that nobody has asked before, in turn with plain SQL."""
    wrong: dict[str, list[int]] = {"turbo": [], "direct": []}
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        alice.execute("SET timezone = 'UTC'")
        boss.execute("SET timezone = 'UTC'")
        fresh, same = iter(range(DEVICES)), iter(range(DEVICES))
        daily(alice, next(fresh), "alpha => 0.05, beta => 0.001")  # loads what a backend loads once
        next(same)
        ours, base, ratio = paired(
            lambda: daily(alice, next(fresh), "alpha => 0.05, beta => 0.001"),
            lambda: plain(boss, next(same)),
            DEVICES - 2,
        )
        found = [row("series_seconds_ratio", ours, base, f"a series over {SEALED} days; baseline: plain SQL", ratio)]
        spent = "SELECT max(spent_epsilon) FROM dp.account WHERE dataset = 'metric' AND role = ''"
        (epsilon,) = cluster.connect().execute(spent).fetchone() or (0,)
        for device in range(DEVICES):
            truth = plain(boss, device)
            for way, budget in (
                ("turbo", "alpha => 0.05, beta => 0.001"),
                ("direct", f"epsilon => {epsilon / DEVICES:.9f}"),
            ):
                answers = daily(alice, device, budget)
                wrong[way] += [abs(one - other) for one, other in zip(answers, truth, strict=True)]
    mine, direct = (sum(values) / len(values) for values in (wrong["turbo"], wrong["direct"]))
    note = (
        f"mean error of a day, of {DEVICES} daily series at epsilon {epsilon:.3g} together; baseline: GROUP BY, direct"
    )
    return [*found, row("series_error", mine, direct, note)]


# What the extension owns: relations, and routines of one relation. Whoever may not use one is told the same error.
TELLERS = """
SELECT COALESCE(format('SELECT md5(string_agg(t::text, %L ORDER BY t::text)) FROM %s t', '|', c.oid::regclass),
                format('SELECT md5(%s(%L::regclass)::text)', p.oid::regproc, 'metric')) AS sql
FROM pg_extension e
JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind IN ('r', 'v', 'm', 'S')
LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid AND p.prokind = 'f'
  AND p.proargtypes[0] = 'regclass'::regtype AND p.pronargs - p.pronargdefaults <= 1
  AND p.proname ~ '(size|count|show|stats)' AND NOT p.proretset
WHERE e.extname = 'timescaledb' AND (c.oid IS NOT NULL OR p.oid IS NOT NULL) ORDER BY 1
"""


def told(conn: psycopg.Connection[Any], questions: list[str]) -> list[Any]:
    """What each of them answers, or the error that it is."""
    found: list[Any] = []
    for sql in questions:
        try:
            with conn.transaction():
                found.append(conn.execute(sql.encode()).fetchall())
        except psycopg.Error as error:
            found.append(error.sqlstate)
    return found


def leaks(cluster: Cluster) -> Row:
    with cluster.connect() as root, cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        questions = [sql for (sql,) in root.execute(TELLERS).fetchall()]
        before = told(alice, questions), told(root, questions)
        boss.execute("INSERT INTO metric VALUES ('2031-05-01 00:00+00', 1, 7)")
        after = told(alice, questions), told(root, questions)
    differ = [sum(a != b for a, b in zip(one, two, strict=True)) for one, two in zip(before, after, strict=True)]
    note = f"of {len(questions)} relations and routines of TimescaleDB, those that one row of one user changes for an"
    note += " analyst; baseline: for a superuser"
    return row("extension_leaks", differ[0], differ[1], note, 0.0 if not differ[0] else None)


def measured() -> list[Row]:
    with hypertables() as cluster:
        found = [*series(cluster), leaks(cluster), *ingest(cluster), lost(cluster)]
    return [*found, *questions()]


def there() -> list[Row]:
    """The same on Debian 13, in a copy of this checkout: its last line of output."""
    command = [str(ROOT / "scripts" / "chroot.sh"), "trixie", "bash", "-c", THERE]
    out = subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout
    rows = next(line for line in reversed(out.splitlines()) if line.startswith("["))
    found = json.loads(rows)
    assert isinstance(found, list)
    return found


def main() -> None:
    if "--here" in sys.argv:
        print(json.dumps(measured()))
        return
    publish("hypertables", there())


if __name__ == "__main__":
    main()
