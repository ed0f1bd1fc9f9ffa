"""Plain SQL through the proxy is answered by Turbo once dp.alpha and dp.beta say how accurate it must be."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_stack import Stack, stack_at_work
from fix_turbo import EVEN, EVEN_ROWS

pytestmark = pytest.mark.chance(fix_chance.accuracy(2.5, 15))


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    enabled = "CALL dp.enable_turbo('people', '{sex,city,age}', 0.05, 0.001, planner => 'turbo')"
    with stack_at_work(lambda cluster: cluster.psql(enabled, user="boss")) as running:
        yield running


@pytest.fixture(scope="module")
def alice(stack: Stack) -> Iterator[psycopg.Connection[Any]]:
    with stack.connect() as conn:
        conn.execute("SET dp.alpha = 0.05; SET dp.beta = 0.001; SET dp.notices = on")
        yield conn


def notices(conn: psycopg.Connection[Any], sql: str) -> tuple[list[Any], list[str]]:
    """(Rows, notices) of a statement."""
    said: list[str] = []

    def hear(diagnostic: psycopg.errors.Diagnostic) -> None:
        said.append(diagnostic.message_primary or "")

    conn.add_notice_handler(hear)
    try:
        return conn.execute(sql.encode()).fetchall(), said
    finally:
        conn.remove_notice_handler(hear)


def test_plain_sql(alice: psycopg.Connection[Any]) -> None:
    """A count, an average, groups with HAVING and ORDER BY; a repeat is free. Margin: 50 of 1000 rows."""
    rows, said = notices(alice, "SELECT count(*) FROM people WHERE sex = 'f' AND age < 48")
    assert said[0].startswith("dp: bypass, turbo, epsilon 0.138155") and "±50 at 0.999" in said[0]
    again, said = notices(alice, "SELECT count(*) AS n FROM people p WHERE p.age BETWEEN 0 AND 47 AND 'f' = p.sex")
    assert again == rows
    assert said[0].startswith("dp: exact, turbo, free")
    rows, said = notices(
        alice, "SELECT city, count(*) FROM people GROUP BY city HAVING count(*) > -200 ORDER BY 1 NULLS LAST"
    )
    assert [row[0] for row in rows] == ["east", "north", "south", None]
    assert said[0].startswith("dp: bypass, turbo, epsilon 0.138155")
    assert all(abs(row[1] - 250) <= 125 for row in rows)  # passed once in 3e7
    rows, said = notices(alice, "SELECT avg(age) FILTER (WHERE sex = 'm'), sum(age) FROM people")
    assert "turbo" in said[0]
    assert 18 <= rows[0][0] <= 80
    assert abs(rows[0][1] - 47_380) <= 125 * 80


def test_explain_says_what_it_would_do(alice: psycopg.Connection[Any]) -> None:
    rows, _ = notices(alice, "EXPLAIN SELECT count(*) FROM people WHERE sex = 'm' AND age > 70")
    text = "\n".join(row[0] for row in rows)
    assert "turbo" in text
    assert "bypass" in text
    assert "0.138155" in text


def test_other_questions_fall_back(alice: psycopg.Connection[Any]) -> None:
    _, said = notices(alice, "SELECT count(*) FROM people WHERE income > 500")
    assert said[0].startswith("dp: direct, discrete Laplace")


def test_where_turbo_answers_is_shown(alice: psycopg.Connection[Any]) -> None:
    rows, _ = notices(alice, "SELECT relation, attributes, bins, alpha, partition, scale, sealed FROM dp.turbo")
    assert rows == [("public.people", ["sex", "city", "age"], 3 * 4 * 63, Decimal("0.05"), None, 1000, True)]


def test_a_large_grid_earns_an_epoch_and_what_passes_is_free(stack: Stack, alice: psycopg.Connection[Any]) -> None:
    """Questions with one bin in common, about an even table: EXPLAIN says before each what can happen.

    The epoch is open after some 30 of 80 answers. Should the test that opens it fail (1e-5), there is time for another.
    """
    stack.cluster.psql(EVEN.format(name="grid"), user="boss")
    stack.sync()
    planned: list[str] = []
    passed: tuple[str, list[Any]] | None = None
    for a, b, c, d in product((2, 3, 4, 5, 6), (3, 4, 5, 6), (4, 5), (5, 6)):
        question = f"SELECT count(*) FROM grid WHERE a <= {a} AND b <= {b} AND c <= {c} AND d <= {d}"
        plan = "\n".join(row[0] for row in alice.execute(f"EXPLAIN {question}".encode()).fetchall())
        planned.append(plan)
        rows, said = notices(alice, question)
        true = 8 * (a + 1) * (b + 1) * (c + 1) * (d + 1)
        assert abs(rows[0][0] - true) <= 2.5 * 0.05 * EVEN_ROWS  # passed once in 3e7
        if "histogram (PASS)" in said[0] and "a new epoch" not in plan:
            passed = (question, rows)
            break
    assert "bypass" in planned[0] and "histogram" not in planned[0]
    assert sum("histogram, a new epoch of the sparse vector" in plan for plan in planned) >= 1
    assert passed is not None and "histogram, noise after a FAIL" in planned[-1]
    assert said[0].startswith("dp: histogram (PASS), turbo, free")
    again, said = notices(alice, passed[0])
    assert again == passed[1] and said[0].startswith("dp: exact, turbo, free")


RETAINED = """
CREATE TABLE visits (day date, a int);
INSERT INTO visits SELECT DATE '2024-01-01' + i % 4, i / 4 % 2 FROM generate_series(1, 4000) i;
CALL dp.create_dataset('visits', epsilon => 10);
CALL dp.protect('visits', 'visits', partition_by => 'day', grid => '{"origin": "2024-01-01", "width": "1 day"}');
CALL dp.describe_column('visits', 'day');
CALL dp.describe_column('visits', 'a', bounds => '{0,1}', nullable => false);
CALL dp.publish('visits');
CALL dp.allot('alice', 'visits', epsilon => 10);
CALL dp.enable_turbo('visits', '{a}', 0.05, 0.001, 'day', true, scale => 1000);
CALL dp.seal_partitions('visits', until => '2024-01-05');
"""


@pytest.mark.chance(fix_chance.NEVER)  # no answer is compared with the truth
def test_removed_rows_are_told(stack: Stack, alice: psycopg.Connection[Any]) -> None:
    """In EXPLAIN and in the NOTICE: until when rows are gone, and whether they are counted still (dp.retain)."""
    stack.cluster.psql(RETAINED, user="boss")
    stack.sync()
    asked = "SELECT count(*) FROM visits WHERE day >= '2024-01-01' AND day < '2024-01-04' AND a = 1"
    for call, words in (
        ("'2024-01-03', keep_counts => true", "from 2024-01-01 to before 2024-01-03 were removed on "),
        ("'2024-01-02', keep_counts => false", "from 2024-01-01 to before 2024-01-02 were removed on "),
    ):
        stack.cluster.psql(f"CALL dp.retain('visits', {call})", user="boss")
        plan = "\n".join(row[0] for row in notices(alice, f"EXPLAIN {asked}")[0])
        _, said = notices(alice, asked)
        for told in (plan, "\n".join(said)):
            assert words in told and "counts there are those of the seal" in told, told
    assert "none of them is counted" in plan and "none of them is counted" in said[0]
    rows, _ = notices(alice, "SELECT counts_kept FROM dp.turbo WHERE relation = 'public.visits' ORDER BY partition")
    assert [row[0] for row in rows] == [False, True, None, None]
