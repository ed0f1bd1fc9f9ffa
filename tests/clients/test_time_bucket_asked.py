"""time_bucket of TimescaleDB through the proxy, whose facade has no TimescaleDB.

Every statement over protected rows is asked of PostgreSQL too, by the owner, as the proxy writes it: that this is what
TimescaleDB gives, sql/test_time_bucket.py says. At epsilon 30 the noise of a count is 0 with probability 1 - 2e-13.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import psycopg
import pytest

import fix_buckets
import fix_chance
from fix_cluster import Cluster
from fix_ledger import no_charge, one
from fix_stack import Stack, stack_at_work
from fix_waiting import soon

Connection = psycopg.Connection[Any]
EPSILON = 30
# Of each test: at most as many groups as a year has half days, and some more.
pytestmark = pytest.mark.chance(fix_chance.laplace(1 / EPSILON, 0, 1000))

ROWS = """
SELECT i AS id, timestamp '2024-01-01 00:07' + i * interval '20 hours' AS ts,
  timestamptz '2024-01-01 00:07+00' + i * interval '20 hours' AS tz, date '2024-01-01' + i * 5 / 6 AS day,
  i % 70 - 35 AS n, (i::int8 - 200) * 30000000 AS big FROM generate_series(1, 400) i
"""
PREPARE = f"""
CREATE TABLE seen (id int PRIMARY KEY, ts timestamp NOT NULL, tz timestamptz NOT NULL, day date NOT NULL,
  n int NOT NULL, big int8 NOT NULL);
INSERT INTO seen {ROWS};
CREATE TABLE lamps AS {ROWS};
CALL dp.create_dataset('seen', unit => 'row', epsilon => 1000, default_epsilon => 1);
CALL dp.protect('seen', 'seen', max_rows => 1000, scale => 400);
CALL dp.describe_column('seen', 'ts', bounds => '{{2024-01-01,2024-12-31}}', resolution => '1 day', nullable => false);
CALL dp.describe_column('seen', 'tz', bounds => '{{2024-01-01,2024-12-31}}', resolution => '1 day', nullable => false);
CALL dp.describe_column('seen', 'day', bounds => '{{2024-01-01,2024-12-31}}', nullable => false);
CALL dp.describe_column('seen', 'n', bounds => '{{-40,40}}', resolution => '1', nullable => false);
CALL dp.describe_column('seen', 'big', bounds => '{{-10000000000,10000000000}}', nullable => false);
CALL dp.publish('seen');
CALL dp.publish('lamps', kind => 'public');
CREATE TABLE copied AS SELECT * FROM lamps WHERE id % 2 = 0;
CALL dp.register_synthetic('seen', 'copied', provenance => 'public');
CALL dp.allot('alice', 'seen', epsilon => 1000);
"""
DEEP = """
ALTER TABLE dp.dataset DISABLE TRIGGER USER;
UPDATE dp.dataset SET epsilon = 1e9 WHERE name = 'seen';
ALTER TABLE dp.dataset ENABLE TRIGGER USER;
UPDATE dp.role_allotment SET epsilon = 1e9 WHERE dataset = 'seen';
SELECT dp._bump_policy();
"""
KEYS = [
    "time_bucket('12 hours', ts)",
    "time_bucket('7 days', ts)",
    "time_bucket('1 month', ts)",
    "time_bucket('2 months', ts)",
    "time_bucket('4 months', ts)",
    "time_bucket('6 months', ts)",
    "time_bucket('3 months', ts)",
    "time_bucket('1 year', ts)",
    "time_bucket('1 week', ts, origin => '2024-01-07')",
    "time_bucket('1 day', ts, \"offset\" => '6 hours')",
    "time_bucket('7 days', tz)",
    "time_bucket('1 day', tz, 'Asia/Tokyo')",
    "time_bucket('1 month', tz, 'Europe/Berlin')",
    "time_bucket('1 month', tz)",
    "time_bucket('7 days', day)",
    "time_bucket('3 months', day)",
    "time_bucket(10, n)",
    "time_bucket(10, n, 3)",
    "time_bucket(100000000, big)",
]
PREDICATES = [
    "time_bucket('1 day', ts) = '2024-03-01'",
    "time_bucket('1 month', tz, 'Europe/Berlin') >= '2024-03-01'",
    "time_bucket('7 days', day) IN ('2024-03-04', '2024-03-11')",
    "time_bucket(10, n) = -10",
]
PUBLIC = [
    "time_bucket('7 days', ts)",
    "time_bucket('2 months', ts)",
    "time_bucket('1 day', tz, 'Asia/Tokyo')",
    "time_bucket(10, n)",
    "time_bucket(2000000000, n * 5000000)",
    "time_bucket(20000::int2, n::int2)",
    "time_bucket(100000000, big)",
]


def _prepare(cluster: Cluster) -> None:
    cluster.psql(PREPARE, user="boss")
    cluster.psql(DEEP)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work(_prepare) as running:
        yield running


@pytest.fixture
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect() as session:
        session.execute(f"SET dp.epsilon = {EPSILON}")
        yield session


@pytest.fixture(scope="module")
def owner(stack: Stack) -> Iterator[Connection]:
    with stack.cluster.connect() as session:
        yield session


def series(key: str, table: str = "seen") -> str:
    return f"SELECT {key} AS k, count(*) FROM {table} GROUP BY 1 HAVING count(*) > 0 ORDER BY 1"


def true(owner: Connection, sql: str) -> list[Any]:
    return owner.execute(fix_buckets.rewritten(owner, sql)).fetchall()


@pytest.mark.parametrize("key", KEYS)
def test_a_bucket_is_a_key(alice: Connection, owner: Connection, key: str) -> None:
    found = alice.execute(series(key)).fetchall()
    assert found == true(owner, series(key)) and found
    columns = alice.execute(f"SELECT {key}, count(*) FROM seen GROUP BY {key} LIMIT 0").description or []
    assert [column.name for column in columns] == ["time_bucket", "count"]


@pytest.mark.parametrize("predicate", PREDICATES)
def test_a_bucket_in_a_condition(alice: Connection, owner: Connection, predicate: str) -> None:
    sql = f"SELECT count(*) FROM seen WHERE {predicate}"
    assert alice.execute(sql).fetchall() == true(owner, sql)
    assert one(alice, sql) > 0


@pytest.mark.parametrize("key", PUBLIC)
def test_a_bucket_of_a_public_table(alice: Connection, owner: Connection, key: str) -> None:
    assert alice.execute(series(key, "lamps")).fetchall() == true(owner, series(key, "lamps"))


def shown(stack: Stack, relation: str) -> bool:
    """Whether a new session sees it."""
    with stack.connect() as session:
        return one(session, "SELECT to_regclass(%s)", relation) is not None


def test_a_bucket_of_released_values(stack: Stack, alice: Connection, owner: Connection) -> None:
    """A published release is a public table: buckets of it are what its own rows give, and cost nothing."""
    grid = "{{2024-01-01,2024-03-31},{2024-04-01,2024-12-31}}"
    query = "SELECT count(*) FROM seen WHERE day BETWEEN $1 AND $2"
    alice.execute(f"SELECT * FROM dp_release_numeric('by_day', $q${query}$q$, '{grid}', epsilon => 1, publish => true)")
    buckets = "SELECT time_bucket('3 months', day) AS quarter, sum(weight) FROM dp_release.by_day GROUP BY 1 ORDER BY 1"
    assert soon(lambda: shown(stack, "dp_release.by_day"))
    with no_charge(stack.cluster), stack.connect() as session:
        found = session.execute(buckets).fetchall()
        within = "SELECT sum(weight) FROM dp_release.by_day WHERE time_bucket('3 months', day) >= '2024-04-01'"
        later = one(session, within)
    assert found and found == true(owner, buckets)
    assert later == sum(weight for quarter, weight in found if quarter >= datetime.date(2024, 4, 1))


def test_a_bucket_of_a_synthetic_answer(stack: Stack, alice: Connection) -> None:
    """A decision answers a condition with a bucket from the synthetic copy, whose rows are public too."""
    sql = "SELECT count(*) FROM {} WHERE time_bucket('1 month', tz, 'Europe/Berlin') >= '2024-03-01'"
    real = one(alice, sql.format("seen"))
    alice.execute("SET dp.synthetic = 'copied'; SET dp.tau = '1000'")
    answer, near = alice.execute(sql.replace("count(*)", "count(*), dp_decision(count(*))").format("seen")).fetchall()[
        0
    ]
    assert near is True
    assert answer == one(alice, sql.format("copied")) < real


WEEKS = "SELECT time_bucket('7 days', ts) AS week, count(*) FROM seen GROUP BY week ORDER BY week"


def test_every_protocol_gives_the_same(stack: Stack, alice: Connection) -> None:
    """Simple, prepared, binary, with parameters, by PREPARE, in a transaction; one charge for all."""
    plain = alice.execute(WEEKS).fetchall()
    with no_charge(stack.cluster):
        for _ in range(3):
            assert alice.execute(WEEKS, prepare=True, binary=True).fetchall() == plain
        asked = WEEKS.replace("'7 days'", "%s")
        assert alice.execute(asked, [datetime.timedelta(days=7)], binary=True).fetchall() == plain
        assert alice.execute(asked, ["7 days"]).fetchall() == plain
        alice.execute(f"PREPARE weeks AS {WEEKS}")
        assert alice.execute("EXECUTE weeks").fetchall() == alice.execute("EXECUTE weeks").fetchall() == plain
        alice.execute("PREPARE asked(interval) AS " + WEEKS.replace("'7 days'", "$1"))
        assert alice.execute("EXECUTE asked('7 days')").fetchall() == plain
        with alice.transaction():
            assert alice.execute(WEEKS).fetchall() == plain
            alice.execute(f"CREATE TEMP TABLE kept AS {WEEKS}")
            assert alice.execute("SELECT * FROM kept ORDER BY 1").fetchall() == plain
        month = "SELECT time_bucket('1 month', week) AS m, sum(count)::int FROM kept GROUP BY 1 ORDER BY 1"
        assert sum(row[1] for row in alice.execute(month).fetchall()) == sum(row[1] for row in plain)
        assert alice.execute(f"SELECT * FROM ({WEEKS}) AS w; SELECT 1").fetchall() == plain
        with alice.cursor().copy(f"COPY ({WEEKS}) TO STDOUT") as copy:
            assert len(list(copy)) == len(plain)


def test_asyncpg_prepares_and_pipelines(stack: Stack) -> None:
    async def ask() -> None:
        session = await asyncpg.connect(stack.dsn_url("alice"))
        await session.execute(f"SET dp.epsilon = {EPSILON}")
        statement = await session.prepare(WEEKS.replace("'7 days'", "$1::interval"))
        assert [a.name for a in statement.get_attributes()] == ["week", "count"]
        rows = await statement.fetch(datetime.timedelta(days=7))
        assert [tuple(row) for row in await session.fetch(WEEKS)] == [tuple(row) for row in rows]
        many = await session.fetch("SELECT time_bucket($1, n) AS b FROM lamps WHERE id = ANY($2)", 10, [1, 2])
        assert [row["b"] for row in many] == [-40, -40]
        with pytest.raises(asyncpg.PostgresError) as caught:
            await session.fetch("SELECT 'ä', time_bucket('5 months', ts) FROM seen")
        assert (caught.value.sqlstate, caught.value.as_dict()["position"]) == ("DP003", "13")
        await session.close()

    asyncio.run(ask())


def test_a_pipeline_keeps_its_order(alice: Connection) -> None:
    """Parse, Bind, Describe, Execute and Sync of several statements are sent before the first is answered."""
    with alice.pipeline():
        first = alice.execute("SELECT time_bucket(10, n) FROM lamps WHERE id = %s", [1])
        second = alice.execute(WEEKS)
        third = alice.execute("SELECT time_bucket('1 day', ts) FROM lamps WHERE id = %s", [1])
    assert first.fetchall() == [(-40,)] and len(second.fetchall()) > 40
    assert third.fetchall() == [(datetime.datetime(2024, 1, 1),)]


@contextmanager
def refused(session: Connection, sql: str, sqlstate: str, at: str | None) -> Iterator[psycopg.errors.Diagnostic]:
    """`sql` fails alike in the simple and in the extended protocol, at the place of `at` in the client's text."""
    found = []
    for prepare in (False, True):
        with pytest.raises(psycopg.Error) as caught:
            session.execute(sql, (), prepare=True) if prepare else session.execute(sql)
        found.append(caught.value.diag)
    for diag in found:
        assert diag.sqlstate == sqlstate, diag.message_primary
        assert diag.statement_position == (None if at is None else str(sql.index(at) + 1))
    assert found[0].message_primary == found[1].message_primary
    yield found[0]


REFUSED = [
    ("SELECT count(*), locf(avg(n)) FROM seen", "locf", "every declared group comes back"),
    ("SELECT time_bucket('1 day', ts), interpolate(avg(n)) FROM seen GROUP BY 1", "interpolate", "time_bucket("),
    ("SELECT first(n, ts) FROM seen", "first", "percentile_disc(0.5)"),
    ("SELECT 1, last(n, ts) FROM lamps", "last", "percentile_disc(0.5)"),
    ("SELECT histogram(n, 0, 40, 10) FROM seen", "histogram", "width_bucket("),
    ("SELECT time_bucket('5 months', ts), count(*) FROM seen GROUP BY 1", "time_bucket", "'1 month' to '6 months'"),
    ("SELECT time_bucket(ts) FROM lamps", "time_bucket", '"offset" =>'),
    ("SELECT time_bucket_gapfill('1 day', ts), count(*) FROM lamps GROUP BY 1", "time_bucket_g", "generate_series("),
    (
        "SELECT 'ä', time_bucket_gapfill('1 day', ts, '2024-01-01', '2024-02-01'), count(*) FROM seen GROUP BY 2",
        "time_bucket_g",
        "Leave start and finish out",
    ),
    (
        "SELECT * FROM (SELECT time_bucket_gapfill('1 day', ts), count(*) FROM lamps GROUP BY 1) AS l,"
        " (SELECT count(*) FROM seen) AS s",
        "time_bucket_g",
        "generate_series(",
    ),
]


@pytest.mark.parametrize(("sql", "at", "hint"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_is_not_answered_is_refused_with_what_to_type(
    stack: Stack, alice: Connection, sql: str, at: str, hint: str
) -> None:
    with no_charge(stack.cluster), refused(alice, sql, "DP003", at) as diag:
        assert hint in (diag.message_hint or "")


def test_places_of_errors_are_those_of_the_clients_text(stack: Stack, alice: Connection) -> None:
    """Behind a call that was written anew: of ours, of PostgreSQL's, of a statement that was prepared."""
    bucket = "SELECT time_bucket('2 months', ts) AS b"
    with no_charge(stack.cluster):
        for sql, sqlstate, at in (
            (f"{bucket}, nope FROM lamps", "42703", "nope"),
            (f"{bucket}, count(nope) FROM seen GROUP BY 1", "42703", "nope"),
            (f"{bucket}, string_agg(n::text, '') FROM seen GROUP BY 1", "DP003", "string_agg"),
            ("SELECT time_bucket('1 day', nope) FROM seen", "42703", "time_bucket"),
            ("SELECT time_bucket('1 dya', ts) FROM lamps", "22007", None),
        ):
            with refused(alice, sql, sqlstate, at):
                pass


def test_a_failed_transaction_says_so(stack: Stack, alice: Connection) -> None:
    with no_charge(stack.cluster):
        for prepare in (False, True):
            alice.execute("BEGIN")
            with pytest.raises(psycopg.Error, match="a bucket of 5 months"):
                alice.execute("SELECT time_bucket('5 months', ts) FROM seen", prepare=prepare)
            for sql in (WEEKS, "SELECT time_bucket('5 months', ts) FROM seen", "SELECT first(n, ts) FROM seen"):
                with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                    alice.execute(sql, prepare=prepare)
            alice.execute("ROLLBACK")
        alice.execute("BEGIN; SAVEPOINT s")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            alice.execute("SELECT time_bucket('1 day', nope) FROM seen")
        alice.execute("ROLLBACK TO s")
        alice.execute("ROLLBACK TO s; SELECT time_bucket('1 day', ts) FROM lamps")
        alice.execute("COMMIT")


def test_gaps_of_protected_rows_are_filled(alice: Connection, owner: Connection) -> None:
    """All declared weeks come back, those without rows as well."""
    sql = (
        "SELECT time_bucket_gapfill('7 days', ts) AS week, count(*) FROM seen WHERE day < '2024-03-01'"
        " GROUP BY 1 ORDER BY 1"
    )
    found = alice.execute(sql).fetchall()
    weeks = owner.execute("SELECT generate_series(timestamp '2024-01-01', '2024-12-31', '7 days')").fetchall()
    assert [row[0] for row in found] == [row[0] for row in weeks]
    full = true(owner, series("time_bucket('7 days', ts)", "seen WHERE day < '2024-03-01'"))
    assert [row for row in found if row[1]] == full


def test_what_is_named_so_and_is_no_call_stays(alice: Connection) -> None:
    """Aliases, strings, comments, and functions of the analyst's own."""
    alice.execute("CREATE FUNCTION pg_temp.time_bucket(w int, x int) RETURNS text LANGUAGE sql AS $$ SELECT 'mine' $$")
    alice.execute("CREATE FUNCTION pg_temp.last(int, int) RETURNS int LANGUAGE sql AS 'SELECT 9'")
    for sql, expected in (
        ("SELECT 'time_bucket(1, 2)' -- time_bucket(1, 2)", "time_bucket(1, 2)"),
        ("SELECT /* time_bucket('1 day', ts) */ time_bucket FROM (SELECT 7 AS time_bucket) AS t", 7),
        ("SELECT $$first(a, b)$$", "first(a, b)"),
        ("SELECT pg_temp.time_bucket(10, n) FROM lamps WHERE id = 1", "mine"),
        ("SELECT pg_temp.last(1, 2)", 9),
    ):
        assert one(alice, sql) == expected
    with pytest.raises(psycopg.errors.SyntaxError):
        alice.execute("SELECT time_bucket(")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_in_another_encoding(stack: Stack, encoding: str) -> None:
    with stack.connect(client_encoding=encoding) as session:
        session.execute(f"SET dp.epsilon = {EPSILON}")
        assert one(session, "SELECT time_bucket(10, n) FROM lamps WHERE id = 1") == -40
        assert len(session.execute(WEEKS).fetchall()) > 40
    with stack.connect(client_encoding="LATIN1") as session:
        row = session.execute("SELECT 'ä', time_bucket(10, n) AS \"ö\" FROM lamps WHERE id = 1").fetchone()
        assert row == ("ä", -40)


def test_strings_that_are_read_otherwise_stay(alice: Connection) -> None:
    r"""Without standard_conforming_strings 'a\' goes on: what looks like a call may be inside of a string."""
    alice.execute("SET standard_conforming_strings = off; SET escape_string_warning = off")
    assert one(alice, r"SELECT 'a\'||time_bucket(10, n)||\'b'") == "a'||time_bucket(10, n)||'b"


def test_a_text_of_a_function_is_refused_with_what_to_type(stack: Stack, alice: Connection) -> None:
    with no_charge(stack.cluster), pytest.raises(psycopg.Error) as caught:
        alice.execute("SELECT dp_count('seen', $$time_bucket('1 day', ts) = '2024-03-01'$$)")
    assert caught.value.diag.sqlstate == "DP003"
    assert "date_bin(" in (caught.value.diag.message_hint or "")


def test_a_view_that_calls_it_is_not_published(stack: Stack) -> None:
    """The owner is told; so no published view has a call that the facade could not make."""
    with stack.cluster.connect("boss", autocommit=False) as boss:
        boss.execute(
            "CREATE FUNCTION public.time_bucket(interval, timestamp) RETURNS timestamp LANGUAGE sql IMMUTABLE"
            " RETURN date_bin($1, $2, '2000-01-03');"
            " CREATE VIEW binned AS SELECT public.time_bucket('7 days', ts) AS week, n FROM seen"
        )
        with pytest.raises(psycopg.Error, match="reads what is not published") as caught:
            boss.execute("CALL dp.publish('binned')")
        assert "functions and types of your own" in (caught.value.diag.message_hint or "")
        boss.rollback()


def test_a_long_text_stays(alice: Connection) -> None:
    """Longer than what is cut up: PostgreSQL says that it has no such function."""
    with pytest.raises(psycopg.errors.UndefinedFunction):
        alice.execute(f"SELECT time_bucket(10, n) FROM lamps -- {'x' * 524_288}")
