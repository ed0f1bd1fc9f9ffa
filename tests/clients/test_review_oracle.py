"""With noise too small to move a count, the proxy must answer exactly what a plain PostgreSQL answers on the same rows.

A question that is silently changed on its way (a lost FILTER, another order, a cut-off constant, a wrong type modifier)
shows as a difference. At 25 epsilon an aggregate a cell is wrong with probability 2·e^-25 < 3e-11; the statements have
fewer than 3,000 cells: a false alarm of at most 1e-7 for all tests of this file together.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import pq
from psycopg.pq.abc import PGresult

import fix_chance
from fix_cluster import PASSWORD, PRIVATE, ROOT, Cluster
from fix_raw import RawClient, keys_of
from fix_stack import Stack, stack_at_work
from pg_epsilon_proxy.wire import messages

pytestmark = pytest.mark.chance(fix_chance.laplace(1 / 25, 0, 100))

Connection = psycopg.Connection[Any]

EPSILON = 25
COPIES = 24  # datasets of cap 1000: each statement is asked of one of them
PLAIN = "plain"
STATEMENTS = [
    line
    for line in (ROOT / "tests/fixtures/same_as_plain.sql").read_text().splitlines()
    if line and not line.startswith("--")
]

TYPES = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad');"
TABLE = """
CREATE TABLE {0} (id int PRIMARY KEY, age int NOT NULL, sex text NOT NULL, city varchar(10), dept char(3) COLLATE "C",
  flag boolean, income numeric(10,2), joined date, score float8, big bigint, mood mood, seen timestamptz);
INSERT INTO {0} SELECT i, 18 + i % 20, (ARRAY['f','m','x'])[1 + i % 3], (ARRAY['north','south','east',NULL])[1 + i % 4],
  (ARRAY['abc','b','C'])[1 + i / 4 % 3], (ARRAY[true,false,NULL])[1 + i / 7 % 3], i * 1.25, DATE '2024-01-01' + i % 60,
  i / 7.0, i::bigint * 1000, (ARRAY['sad','ok','glad'])[1 + i / 5 % 3]::mood,
  timestamptz '2024-01-01 00:00+00' + i * interval '1 hour' FROM generate_series(1, 1500) i;
"""
POLICY = """
CALL dp.create_dataset('{0}', unit => 'row', epsilon => 1000, default_epsilon => 25);
CALL dp.protect('{0}', '{0}', max_rows => 100000, scale => 1500);
CALL dp.describe_column('{0}', 'id'); CALL dp.describe_column('{0}', 'score'); CALL dp.describe_column('{0}', 'big');
CALL dp.describe_column('{0}', 'seen');
CALL dp.describe_column('{0}', 'age', bounds => '{{18,37}}', resolution => '1', nullable => false);
CALL dp.describe_column('{0}', 'sex', domain => '{{f,m,x}}', nullable => false);
CALL dp.describe_column('{0}', 'city', domain => '{{north,south,east}}');
CALL dp.describe_column('{0}', 'dept', domain => '{{abc,b,C}}', nullable => false);
CALL dp.describe_column('{0}', 'flag', domain => '{{true,false}}');
CALL dp.describe_column('{0}', 'mood', domain => '{{sad,ok,glad}}', nullable => false);
CALL dp.describe_column('{0}', 'income', bounds => '{{0,100000}}', resolution => '0.01');
CALL dp.describe_column('{0}', 'joined', bounds => '{{2024-01-01,2024-12-31}}', resolution => '1 day');
CALL dp.publish('{0}'); CALL dp.allot('alice', '{0}', epsilon => 1000);
"""


def _prepare(cluster: Cluster) -> None:
    names = [f"humans{number}" for number in range(1, COPIES + 1)]
    cluster.psql(TYPES + "".join(TABLE.format(name) + POLICY.format(name) for name in names), user="boss")
    cluster.execute(f"CREATE DATABASE {PLAIN}", dbname="postgres")
    cluster.psql(TYPES + "".join(TABLE.format(name) for name in names), dbname=PLAIN)
    cluster.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO alice", dbname=PLAIN)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A stack with COPIES relations humans1, humans2, ..., and database `plain` with the tables and no policy."""
    with stack_at_work(_prepare) as running:
        yield running


@pytest.fixture(scope="module")
def sides(stack: Stack) -> Iterator[tuple[Connection, Connection]]:
    with stack.connect() as ours, stack.cluster.connect(dbname=PLAIN) as plain:
        yield ours, plain


def seen(result: PGresult) -> Any:
    """Command tag, columns (name, type, type modifier, size; types of the database's own have no fixed OID), rows."""
    if result.status == pq.ExecStatus.FATAL_ERROR:
        return (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    columns = [
        (result.fname(i), result.ftype(i) if result.ftype(i) < 16384 else 0, result.fmod(i), result.fsize(i))
        for i in range(result.nfields)
    ]
    rows = [tuple(result.get_value(i, j) for j in range(result.nfields)) for i in range(result.ntuples)]
    return result.command_status, columns, rows


compared: list[int] = []  # of which statements the answers were compared in this run


@pytest.mark.parametrize("number", range(len(STATEMENTS)))
def test_a_statement_means_what_it_means_in_postgresql(sides: tuple[Connection, Connection], number: int) -> None:
    compared.append(number)
    relation = f"humans{1 + number % COPIES}"
    sql = re.sub(r"\bhumans\b", relation, STATEMENTS[number])
    share = EPSILON * max(1, sql.lower().count("count"))
    ours, plain = (connection.pgconn for connection in sides)
    ours.exec_(f"SET dp.epsilon = '{min(share, 100)}'".encode())
    ours.exec_(b"SET dp.division = 'error'")
    assert seen(ours.exec_(sql.encode())) == seen(plain.exec_(sql.encode())), sql
    if sql.startswith(";"):
        return  # several statements, if empty ones: the extended protocol takes one
    for form in (0, 1):
        answers = [side.exec_params(sql.encode(), [], result_format=form) for side in (ours, plain)]
        assert seen(answers[0]) == seen(answers[1]), sql


def test_nothing_was_refused(stack: Stack) -> None:
    """A list of refusals would compare equal to nothing: every statement above that PostgreSQL answers was answered."""
    with stack.cluster.connect() as owner:
        charges = owner.execute("SELECT count(*) FROM dp.ledger WHERE dataset LIKE 'humans%'").fetchone()
    assert charges is not None and 2 * charges[0] > len(compared) > 0


# -- parameters --------------------------------------------------------------------------------------------------------

PARAMETERS: list[tuple[str, list[str | None]]] = [
    ("SELECT count(*) FROM humans1 WHERE city = $1", ["north"]),
    ("SELECT count(*) FROM humans1 WHERE city = $1", [None]),
    ("SELECT count(*) FROM humans1 WHERE city IS NOT DISTINCT FROM $1", [None]),
    ("SELECT count(*) FROM humans1 WHERE city = $1::varchar(5)", ["northern"]),
    ("SELECT count(*) FROM humans1 WHERE age > $1::numeric", ["25.5"]),
    ("SELECT count(*) FROM humans1 WHERE income < $1::numeric", ["NaN"]),
    ("SELECT count(*) FROM humans1 WHERE income = $1::numeric(10,1)", ["1.25"]),
    ("SELECT count(*) FROM humans1 WHERE score < $1::float8", ["NaN"]),
    ("SELECT count(*) FROM humans1 WHERE score > $1::float8", ["-0"]),
    ("SELECT count(*) FROM humans1 WHERE joined > $1::date", ["0044-03-15 BC"]),
    ("SELECT count(*) FROM humans1 WHERE seen > $1::timestamptz", ["2024-01-05 12:00+09"]),
    ("SELECT count(*) FROM humans1 WHERE seen < $1::timestamptz", ["infinity"]),
    ("SELECT count(*) FROM humans1 WHERE mood = $1", ["ok"]),
    ("SELECT count(*) FROM humans1 WHERE dept = $1", ["abc"]),
    ("SELECT count(*) FROM humans1 WHERE dept = $1::char(3)", ["abcd"]),
    ("SELECT count(*) FROM humans1 WHERE city = $1::char(5)", ["northern"]),
    ("SELECT count(*) FROM humans1 WHERE age = ANY($1)", ["{20,21,NULL}"]),
    ("SELECT count(*) FROM humans1 WHERE age = ANY($1)", [None]),
    ("SELECT count(*) FROM humans1 WHERE city = ANY($1)", ['{north,"so\\"uth","NULL"}']),
    ("SELECT count(*) FROM humans1 WHERE sex = $1", ["it's $$ \\ $1 :: --"]),
    ("SELECT $1::text, count(*) FROM humans1 WHERE sex = $1", ["f"]),
    ("SELECT $2::int, count(*) FROM humans1 WHERE sex = $1", ["f", "3"]),
    ("SELECT sex, count(*) FROM humans1 GROUP BY sex HAVING count(*) > $1 ORDER BY sex LIMIT $2", ["5", "2"]),
    ("SELECT count(*) + $1::int FROM humans1 WHERE age > $1::int", ["25"]),
    ("SELECT count(*) FROM humans1 WHERE age BETWEEN $2 AND $1", ["25", "20"]),
    ("SELECT count(*) FROM humans1 WHERE age > $2", ["1", "25"]),
    ("SELECT count(*) FROM humans1 WHERE age > $1", ["x"]),
    ("SELECT (SELECT count(*) FROM humans1 WHERE age > $1), (SELECT count(*) FROM humans1 WHERE age <= $1)", ["25"]),
]


@pytest.mark.parametrize(("sql", "values"), PARAMETERS)
def test_a_parameter_means_what_it_means_in_postgresql(
    sides: tuple[Connection, Connection], sql: str, values: list[str | None]
) -> None:
    texts = [None if value is None else value.encode() for value in values]
    ours, plain = (connection.pgconn for connection in sides)
    ours.exec_(f"SET dp.epsilon = '{EPSILON}'".encode())
    for form in (0, 1):
        answers = [side.exec_params(sql.encode(), texts, result_format=form) for side in (ours, plain)]
        assert seen(answers[0]) == seen(answers[1]), sql


# -- sequences of messages ---------------------------------------------------------------------------------------------

ASKED = [
    b"SELECT count(*) FROM humans1",
    b"SELECT sex, count(*) FROM humans1 GROUP BY sex ORDER BY sex",
    b"SELECT count(*) FROM humans1 WHERE age > $1",
    b"SELECT $1::int + count(*) FROM humans1 WHERE sex = 'f'",
    b"SELECT count(*)/0 FROM humans1",
    b"COPY (SELECT sex, count(*) FROM humans1 GROUP BY sex ORDER BY sex) TO STDOUT",
    b"SELECT nosuch FROM humans1",
    b"CREATE TEMP TABLE kept AS SELECT count(*) FROM humans1",
    b"DECLARE held SCROLL CURSOR FOR SELECT sex, count(*) FROM humans1 GROUP BY sex ORDER BY sex",
]
OTHERS = [
    *(b"SELECT 1", b"SELECT $1::int + 1", b"BEGIN", b"COMMIT", b"ROLLBACK", b"SAVEPOINT a", b"ROLLBACK TO a"),
    *(b"SELECT 1/0", b"SELECT generate_series(1, 3)", b"FETCH 1 FROM held", b"FETCH BACKWARD 1 FROM held", b"syntax"),
    *(b"DEALLOCATE ALL", b"DEALLOCATE s1", b"CLOSE ALL", b"DROP TABLE IF EXISTS kept", b"TABLE kept", b"RESET ALL"),
    *(b"CREATE TEMP TABLE humans1(age int, sex text)", b"DROP TABLE pg_temp.humans1"),
]
NAMES, PORTALS = (b"", b"s1", b"s2"), (b"", b"p1", b"p2")
# The unnamed portal is used behind its own Bind only: a Query leaves another one there, which may crash PostgreSQL
# (session/portals.py), so the proxy refuses it.
DESCRIBED = [*((b"S", name) for name in NAMES), *((b"P", portal) for portal in PORTALS[1:])]
# At the end of a round: nothing else answers EmptyQueryResponse.
LAST = messages.SYNC + messages.query(b"")


def some_messages(draw: random.Random) -> bytes:
    text = draw.choice(ASKED if draw.random() < 0.55 else OTHERS)
    statement, portal = draw.choice(NAMES), draw.choice(PORTALS)
    value = (b"25",) if b"$1" in text else ()
    return draw.choice(
        [
            lambda: messages.query(text),
            lambda: messages.parse(statement, text),
            lambda: messages.bind(portal, statement, (), draw.choice([(), (b"25",), (None,), (b"x",)])),
            lambda: messages.describe(*draw.choice(DESCRIBED)),
            lambda: messages.execute(draw.choice(PORTALS[1:]), draw.choice([0, 1, 2])),
            lambda: messages.close(draw.choice([b"S", b"P"]), draw.choice(NAMES + PORTALS)),
            lambda: messages.SYNC,
            lambda: (
                messages.parse(statement, text)
                + messages.bind(portal, statement, (), value)
                + messages.describe(b"P", portal)
                + messages.execute(portal)
            ),
        ]
    )()


def answers(client: RawClient) -> list[str]:
    """What came back, to the end of the round; errors by SQLSTATE, which two errors at once may exchange."""
    found: list[str] = []
    while (raw := client.receive())[:1] != b"I":
        kind = raw[:1]
        if kind == b"E":
            code = messages.read_fields(raw)["C"].decode()
            found.append("E" + ("25P02" if code == "08P01" else code))
        elif kind == b"T":
            fields = messages.read_row_description(raw)
            found += [f"{f.name!r} {f.attnum} {min(f.type_oid, 16384)} {f.typmod} {f.format}" for f in fields]
        elif kind not in (b"S", b"N"):
            found.append(raw.decode("latin-1"))
        assert kind, "the connection was closed"
    client.receive()
    return found


@pytest.mark.parametrize("seed", range(24))
def test_sequences_of_messages_are_answered_as_postgresql_answers_them(
    stack: Stack, sides: tuple[Connection, Connection], seed: int
) -> None:
    """Parse, Bind, Describe, Execute, Close, Sync and Query in any order, with errors and transactions in between."""
    row = sides[1].execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'alice'").fetchone()
    assert row is not None
    keys, draw = keys_of(PASSWORD, row[0]), random.Random(seed)
    ours = RawClient(stack.port, keys, database=PRIVATE, options=f"-c dp.epsilon={EPSILON} -c dp.division=error")
    plain = RawClient(stack.cluster.port, keys, database=PLAIN)
    try:
        for _ in range(8):
            batch = b"".join(some_messages(draw) for _ in range(draw.randint(1, 6))) + LAST
            ours.send(batch)
            plain.send(batch)
            assert answers(ours) == answers(plain), batch
    finally:
        ours.close()
        plain.close()
