"""Joins, merged queries, views, keys and aggregates mean what they mean in PostgreSQL: the same names, types and rows.

Noise is too small to move an answer: a block has 300 epsilon, at most 6 sums on a lattice of 1 among them, and each has
sensitivity at most 3 (6 where 2 * kids or a unit's two rows are added, with one or two sums), so a number is wrong with
probability at most 2·e^(-300/6/2) < 3e-11. Fewer than 600 numbers: a false alarm of at most 2e-8 for this file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import pq
from psycopg.pq.abc import PGresult

import fix_chance
from fix_cluster import ROOT, Cluster
from fix_stack import Stack, stack_at_work

pytestmark = pytest.mark.chance(fix_chance.laplace(12, 300, 100))

Connection = psycopg.Connection[Any]

EPSILON = 300
BLOCKS = 3  # of one copy, whose datasets have a cap of 1000
PLAIN = "plain"
STATEMENTS = [
    line
    for line in (ROOT / "tests/fixtures/sql_as_plain.sql").read_text().splitlines()
    if line and not line.startswith("--")
]
OURS = r"\b(humans|adults|by_city|buyers|orders)\b"

TABLES = """
CREATE TABLE humans{0} (id int PRIMARY KEY, age int NOT NULL, sex text NOT NULL, city varchar(10),
  dept char(3) COLLATE "C" NOT NULL, code text COLLATE "C" NOT NULL, kids int NOT NULL, joined date NOT NULL);
INSERT INTO humans{0} SELECT i, 18 + i % 20, (ARRAY['f','m','x'])[1 + i % 3],
  (ARRAY['north','south','east',NULL])[1 + i % 4], (ARRAY['abc','b','C'])[1 + i / 4 % 3],
  (ARRAY['b','Z','a'])[1 + i / 8 % 3], i % 11 % 4,
  DATE '2024-01-01' + i % 60 FROM generate_series(1, 300) i;
"""
VIEWS = """
CREATE VIEW adults{0} AS SELECT age AS years, sex FROM humans{0} WHERE age >= 21;
CREATE VIEW by_city{0} AS SELECT city, count(*) AS n FROM humans{0} GROUP BY city;
"""
SHOP = """
CREATE TABLE buyers{0} (id int PRIMARY KEY, segment text NOT NULL);
CREATE TABLE orders{0} (id int PRIMARY KEY, buyer int NOT NULL REFERENCES buyers{0}, status text NOT NULL,
  amount int NOT NULL);
INSERT INTO buyers{0} SELECT i, (ARRAY['home','office'])[1 + i % 2] FROM generate_series(1, 80) i;
INSERT INTO orders{0} SELECT i, 1 + i % 80, (ARRAY['open','paid','sent'])[1 + i % 3], i % 4
  FROM generate_series(1, 160) i;
"""
POLICY = """
CALL dp.create_dataset('humans{0}', unit => 'row', epsilon => 1000);
CALL dp.protect('humans{0}', 'humans{0}', max_rows => 100000, scale => 300);
CALL dp.describe_column('humans{0}', 'id');
CALL dp.describe_column('humans{0}', 'age', bounds => '{{18,37}}', resolution => '1', nullable => false);
CALL dp.describe_column('humans{0}', 'sex', domain => '{{f,m,x}}', nullable => false);
CALL dp.describe_column('humans{0}', 'city', domain => '{{north,south,east}}');
CALL dp.describe_column('humans{0}', 'dept', domain => '{{abc,b,C}}', nullable => false);
CALL dp.describe_column('humans{0}', 'code', domain => '{{b,Z,a}}', nullable => false);
CALL dp.describe_column('humans{0}', 'kids', bounds => '{{0,3}}', resolution => '1', nullable => false);
CALL dp.describe_column('humans{0}', 'joined', bounds => '{{2024-01-01,2024-02-29}}', resolution => '1 day',
  nullable => false);
CALL dp.publish('humans{0}'); CALL dp.allot('alice', 'humans{0}', epsilon => 1000);
"""
VIEWS_POLICY = "CALL dp.publish('adults{0}'); CALL dp.publish('by_city{0}');"
SHOP_POLICY = """
CALL dp.create_dataset('buyers{0}', unit => 'user', epsilon => 1000);
CALL dp.protect('buyers{0}', 'buyers{0}', unit_column => 'id', max_rows_per_unit => 1);
CALL dp.protect('orders{0}', 'buyers{0}', unit_column => 'buyer', max_rows_per_unit => 2);
CALL dp.describe_column('buyers{0}', 'id'); CALL dp.describe_column('orders{0}', 'id');
CALL dp.describe_column('orders{0}', 'buyer');
CALL dp.describe_column('buyers{0}', 'segment', domain => '{{home,office}}', nullable => false);
CALL dp.describe_column('orders{0}', 'status', domain => '{{open,paid,sent}}', nullable => false);
CALL dp.describe_column('orders{0}', 'amount', bounds => '{{0,3}}', resolution => '1', nullable => false);
CALL dp.publish('buyers{0}'); CALL dp.publish('orders{0}'); CALL dp.allot('alice', 'buyers{0}', epsilon => 1000);
"""
PUBLIC = """
CREATE TABLE regions (city varchar(10) PRIMARY KEY, country text NOT NULL, rank int);
INSERT INTO regions VALUES ('north', 'A', 1), ('south', 'B', 2), ('east', 'A', 3);
"""


def placed(statements: list[str]) -> list[int]:
    """The copy of the tables that each statement is asked of: none pays for more than BLOCKS blocks."""
    copies: list[int] = []
    copy, used = 1, 0
    for sql in statements:
        blocks = len(re.findall(OURS, sql)) if re.search(r"\(SELECT|UNION|WITH|VALUES", sql) else 1
        if used + min(blocks, BLOCKS) > BLOCKS:
            copy, used = copy + 1, 0
        used += min(blocks, BLOCKS)
        copies.append(copy)
    return copies


COPIES = placed(STATEMENTS)
# What a copy has besides humans, by the statements that are asked of it.
PARTS = ((".", TABLES, POLICY), ("adults|by_city", VIEWS, VIEWS_POLICY), ("buyers|orders", SHOP, SHOP_POLICY))


def everything() -> tuple[str, str]:
    """SQL that makes the copies, and their policy."""
    tables, policy = PUBLIC, "CALL dp.publish('regions', kind => 'public');"
    for needed, made, described in PARTS:
        for copy in sorted({copy for sql, copy in zip(STATEMENTS, COPIES, strict=True) if re.search(needed, sql)}):
            tables, policy = tables + made.format(copy), policy + described.format(copy)
    return tables, policy


def _prepare(cluster: Cluster) -> None:
    tables, policy = everything()
    cluster.psql(tables + policy, user="boss")
    cluster.execute(f"CREATE DATABASE {PLAIN}", dbname="postgres")
    cluster.psql(tables, dbname=PLAIN)
    cluster.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO alice", dbname=PLAIN)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work(_prepare) as running:
        yield running


@pytest.fixture(scope="module")
def sides(stack: Stack) -> Iterator[tuple[Connection, Connection]]:
    with stack.connect() as ours, stack.cluster.connect(dbname=PLAIN) as plain:
        ours.execute(f"SET dp.epsilon = {EPSILON}")
        yield ours, plain


def seen(connection: Connection, sql: str, form: int | None) -> Any:
    """SQLSTATE, or command tag, columns (name, type, type modifier), rows."""
    side = connection.pgconn
    result = side.exec_(sql.encode()) if form is None else side.exec_params(sql.encode(), [], result_format=form)
    if result.status == pq.ExecStatus.COPY_OUT:
        return copied(side)
    if result.status == pq.ExecStatus.FATAL_ERROR:
        return (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    columns = [(result.fname(i), result.ftype(i), result.fmod(i)) for i in range(result.nfields)]
    return result.command_status, columns, rows_of(result)


def rows_of(result: PGresult) -> list[tuple[bytes | None, ...]]:
    return [tuple(result.get_value(i, j) for j in range(result.nfields)) for i in range(result.ntuples)]


def copied(side: Any) -> list[bytes]:
    lines = []
    while (found := side.get_copy_data(False))[0] > 0:
        lines.append(bytes(found[1]))
    while side.get_result() is not None:
        pass
    return lines


def rounded(answer: Any) -> Any:
    """Numbers to 5 digits behind the point."""
    tag, columns, rows = answer
    return tag, columns, [tuple(_rounded(value) for value in row) for row in rows]


def _rounded(value: bytes | None) -> Any:
    try:
        return None if value is None else round(Decimal(value.decode()), 5)
    except ArithmeticError:
        return value


@pytest.mark.parametrize("number", range(len(STATEMENTS)), ids=lambda number: STATEMENTS[number][:60])
def test_a_statement_means_what_it_means_in_postgresql(sides: tuple[Connection, Connection], number: int) -> None:
    sql = copied_to(number)
    about = STATEMENTS[number].startswith("~")
    for form in (None, 0, 1):
        ours, plain = (seen(side, sql, form) for side in sides)
        if about and form == 1:
            ours, plain = ours[:2], plain[:2]
        elif about:
            ours, plain = rounded(ours), rounded(plain)
        assert ours == plain, sql


def test_errors_are_few(sides: tuple[Connection, Connection]) -> None:
    """A list of errors would compare equal to nothing."""
    asked = [copied_to(number) for number in range(len(STATEMENTS))]
    assert len([sql for sql in asked if isinstance(seen(sides[1], sql, None), str)]) < 10


def copied_to(number: int) -> str:
    """The statement over its own copy of the tables."""
    return re.sub(OURS, rf"\g<1>{COPIES[number]}", STATEMENTS[number].removeprefix("~"))
