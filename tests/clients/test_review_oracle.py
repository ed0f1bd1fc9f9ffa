"""With noise too small to move a count, the proxy must answer exactly what a plain PostgreSQL answers on the same rows.

A question that is silently changed on its way (a lost FILTER, another order, a cut-off constant, a wrong type modifier)
shows as a difference. At 25 epsilon an aggregate a cell is wrong with probability 2·e^-25 < 3e-11; the statements have
fewer than 3,000 cells: a false alarm of at most 1e-7 for all tests of this file together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import pq
from psycopg.pq.abc import PGresult

from fix_cluster import ROOT
from fix_stack import Stack, stack_at_work

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


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A stack with COPIES relations humans1, humans2, ..., and database `plain` with a table humans1 and no policy."""
    with stack_at_work() as running:
        cluster = running.cluster
        names = [f"humans{number}" for number in range(1, COPIES + 1)]
        cluster.psql(TYPES + "".join(TABLE.format(name) + POLICY.format(name) for name in names), user="boss")
        synced = running.cli("facade", "sync")
        assert synced.returncode == 0, synced.stderr
        cluster.execute(f"CREATE DATABASE {PLAIN}", dbname="postgres")
        cluster.psql(TYPES + "".join(TABLE.format(name) for name in names), dbname=PLAIN)
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


@pytest.mark.parametrize("number", range(len(STATEMENTS)))
def test_a_statement_means_what_it_means_in_postgresql(sides: tuple[Connection, Connection], number: int) -> None:
    relation = f"humans{1 + number % COPIES}"
    sql = re.sub(r"\bhumans\b", relation, STATEMENTS[number])
    share = EPSILON * max(1, sql.lower().count("count"))
    ours, plain = (connection.pgconn for connection in sides)
    ours.exec_(f"SET dp.epsilon = '{min(share, 100)}'".encode())
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
    assert charges is not None and charges[0] > 100
