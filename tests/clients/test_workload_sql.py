"""Plain SQL that is one workload: answered by one call, with the values, types and order that PostgreSQL gives it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_stack import Stack, stack_at_work

pytestmark = pytest.mark.chance(fix_chance.deviations(12_000 / (1001 / 2 * math.sqrt(2)), 30))

# 272 rows stand on every edge that the statements use, so that an edge on the wrong side shows: a sum of 27,200.
EARN = """
CREATE TABLE earn (id int PRIMARY KEY, pay int, fee numeric(8,2), region text);
INSERT INTO earn SELECT i, (i % 11) * 100 + (i % 7 = 0)::int, (i % 11) * 100 + 0.25 * (i % 3),
  (ARRAY['north','south'])[1 + i % 2] FROM generate_series(1, 3000) i;
INSERT INTO earn VALUES (5001, NULL, NULL, 'north');
CALL dp.create_dataset('earn', unit => 'row', epsilon => 1000);
CALL dp.protect('earn', 'earn', max_rows => 10000);
CALL dp.describe_column('earn', 'pay', bounds => '{0,1001}');
CALL dp.describe_column('earn', 'fee', bounds => '{0,1001}', resolution => '0.01');
CALL dp.describe_column('earn', 'region', domain => '{north,south}', nullable => false);
CALL dp.publish('earn');
CALL dp.allot('alice', 'earn', epsilon => 1000);
CALL dp.allot('bob', 'earn', epsilon => 1000);
CREATE TABLE trips AS SELECT id, id % 1000 AS person, pay, region FROM earn WHERE id <= 3000;
ALTER TABLE trips ADD PRIMARY KEY (id);
CALL dp.create_dataset('trips', unit => 'user', epsilon => 1000);
CALL dp.protect('trips', 'trips', unit_column => 'person', max_rows_per_unit => 3, max_rows => 10000);
CALL dp.describe_column('trips', 'pay', bounds => '{0,1001}');
CALL dp.describe_column('trips', 'region', domain => '{north,south}', nullable => false);
CALL dp.publish('trips');
CALL dp.allot('alice', 'trips', epsilon => 1000);
"""
# At epsilon 2 for each arm no sum is expected to be further off than one alone, 1001 / 2 * sqrt(2) = 708: NEAR is 17 of
# that, and a Laplace variable is that far off with probability e^-24.
NEAR = 12_000


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work(lambda cluster: cluster.psql(EARN, user="boss")) as running:
        yield running


class Analyst:
    """A session, and the notices that it was sent."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn
        self.said: list[str] = []
        conn.add_notice_handler(lambda message: self.said.append(message.message_primary or ""))
        conn.execute("SET dp.epsilon = 2; SET dp.notices = on")

    def ask(self, sql: str, *params: Any) -> tuple[list[Any], list[tuple[str, int]]]:
        """Rows, and each column's name and type."""
        self.said.clear()
        cursor = self.conn.execute(sql.encode(), params or None)
        return cursor.fetchall(), [(one.name, one.type_code) for one in cursor.description or ()]

    def explained(self, sql: str) -> str:
        return "\n".join(row[0] for row in self.ask(f"EXPLAIN {sql}")[0])

    def left(self) -> float:
        return float(self.ask("SELECT dp_budget_left('earn')")[0][0][0])


@pytest.fixture
def alice(stack: Stack) -> Iterator[Analyst]:
    with stack.connect() as conn:
        yield Analyst(conn)


def union(condition: str, steps: Any = range(100, 1001, 100), more: str = "") -> str:
    arms = [f"SELECT {step} AS t, sum(pay) FROM earn WHERE {condition.format(step)}{more}" for step in steps]
    return " UNION ALL ".join(arms)


def check_like_postgres(stack: Stack, alice: Analyst, sql: str, *params: Any) -> None:
    """The same columns, the same rows in the same order, values within NEAR."""
    rows, columns = alice.ask(sql, *params)
    with stack.cluster.connect() as conn:
        cursor = conn.execute(sql.encode(), params or None)
        expected = cursor.fetchall()
        assert columns == [(one.name, one.type_code) for one in cursor.description or ()]
    assert len(rows) == len(expected)
    for row, plain in zip(rows, expected, strict=True):
        for value, true in zip(row, plain, strict=True):
            assert value == true if isinstance(true, str | None) else abs(value - true) <= NEAR, (rows, expected)


B = "width_bucket(pay, 100, 1100, 10)"
RUNNING = [
    f"SELECT {B} AS b, sum(sum(pay)) OVER (ORDER BY {B}) FROM earn WHERE pay IS NOT NULL GROUP BY 1 ORDER BY 1",
    f"SELECT {B}, sum(pay), sum(sum(pay)) OVER (ORDER BY {B} DESC) AS above FROM earn WHERE pay > 0 GROUP BY {B}"
    " ORDER BY 1 DESC",
    f"SELECT b, sum(s) OVER (ORDER BY b ROWS UNBOUNDED PRECEDING) FROM"
    f" (SELECT {B} AS b, sum(pay) AS s FROM earn WHERE region = 'north' AND pay > 0 GROUP BY 1) AS q ORDER BY b",
    f"WITH q(b, s) AS (SELECT {B}, sum(pay) FROM earn WHERE pay >= 100 GROUP BY 1)"
    " SELECT b, s, sum(s) OVER w FROM q WINDOW w AS (ORDER BY b) ORDER BY b",
    f"SELECT region, {B} AS b, sum(sum(pay)) OVER (PARTITION BY region ORDER BY {B}) FROM earn"
    " WHERE pay > 0 GROUP BY region, b ORDER BY region, b",
    "SELECT b, sum(sum(fee)) OVER (ORDER BY b) FROM"
    " (SELECT width_bucket(fee, 100, 1100, 10) AS b, fee FROM earn WHERE fee > 0) AS q GROUP BY b ORDER BY b",
]


@pytest.mark.parametrize("sql", RUNNING, ids=range(len(RUNNING)))
def test_running_sums_over_buckets(stack: Stack, alice: Analyst, sql: str) -> None:
    """Buckets [a, b), as width_bucket has them; what PostgreSQL has no rows for has the last sum, or 0."""
    rows, columns = alice.ask(sql)
    with stack.cluster.connect() as conn:
        cursor = conn.execute(sql.encode())
        expected = cursor.fetchall()
        assert columns == [(one.name, one.type_code) for one in cursor.description or ()]
    width = 2 if "PARTITION" in sql else 1
    found = {row[:width]: row[width:] for row in rows}
    assert set(found) >= {row[:width] for row in expected}
    for row in expected:
        for value, true in zip(found[row[:width]], row[width:], strict=True):
            assert abs(value - true) <= NEAR, (rows, expected)
    assert [row[:width] for row in rows if row[:width] in {e[:width] for e in expected}] == [
        row[:width] for row in expected
    ]
    assert any("running sums" in one for one in alice.said)
    assert "considered: each by itself" in alice.explained(sql)


@pytest.mark.chance(fix_chance.deviations(12_000 / (3 * 1001 / 60 * math.sqrt(2 * 24)), 150))
@pytest.mark.parametrize("sql", RUNNING[:5], ids=range(5))
def test_running_sums_of_users(stack: Stack, alice: Analyst, sql: str) -> None:
    """Of at most three rows of a user, which are all that she owns here; of up to twenty-four groups, each with noise
    of its own no further off than 3 * 1001 / 60 * sqrt(2 * 24)."""
    alice.conn.execute("SET dp.epsilon = 60")
    of_users = sql.replace("FROM earn", "FROM trips")
    rows, _ = alice.ask(of_users)
    with stack.cluster.connect() as conn:
        expected = conn.execute(of_users.encode()).fetchall()
    width = 2 if "PARTITION" in sql else 1
    found = {row[:width]: row[width:] for row in rows}
    for row in expected:
        for value, true in zip(found[row[:width]], row[width:], strict=True):
            assert abs(value - true) <= NEAR, (rows, expected)
    assert any("running sums" in one for one in alice.said)


def test_running_sums_stay_apart_with_the_setting(alice: Analyst) -> None:
    alice.conn.execute("SET dp.workloads = off")
    alice.ask(RUNNING[0])
    assert "running sums" not in " ".join(alice.said)


def releases(alice: Analyst) -> list[str]:
    """What was told of each answer."""
    return [one for one in alice.said if "charged" in one or "free" in one]


UNIONS = [
    union("pay <= {}"),
    union("pay < {}"),
    union("{} < pay"),
    union("pay BETWEEN {} - 0 AND 1000").replace(" - 0", ""),
    union("region = 'north' AND pay <= {}"),
    union("pay <= {} AND region = 'north'") + " ORDER BY t DESC LIMIT 4",
    f"SELECT max(t), sum(s) FROM ({union('pay <= {}')}) AS u(t, s)",
    f"WITH u(t, s) AS ({union('pay <= {}')}) SELECT s, t FROM u WHERE t > 300 ORDER BY t",
    union("pay <= {}") + " UNION ALL SELECT 5000, sum(pay) FROM earn",
    union("fee <= {}").replace("pay", "fee"),
    union("fee < {}.5").replace("pay", "fee"),
    union("pay <= {}").replace("sum(pay)", "count(*), sum(pay)"),
    " UNION ALL ".join(
        f"SELECT {step} AS t, sum(pay) FILTER (WHERE pay > {step}) FROM earn" for step in range(100, 901, 200)
    ),
]


@pytest.mark.parametrize("sql", UNIONS, ids=range(len(UNIONS)))
def test_arms_with_thresholds_are_one_call(stack: Stack, alice: Analyst, sql: str) -> None:
    check_like_postgres(stack, alice, sql)
    assert len(releases(alice)) == 1
    assert "matrix mechanism" in releases(alice)[0]


def filters(form: str, steps: Any) -> str:
    return ", ".join(f"sum(pay) FILTER (WHERE {form.format(step)}) AS s{step}" for step in steps)


FILTERS = [
    f"SELECT {filters('pay <= {}', range(100, 900, 200))}, sum(pay) FROM earn WHERE region = 'north'",
    f"SELECT count(*), {filters('pay < {}', range(100, 900, 200))}, avg(pay), sum(fee) FROM earn",
    f"SELECT s500 - s300 AS between, s100 / 2 FROM (SELECT {filters('pay > {}', range(100, 900, 200))} FROM earn) AS q",
]


@pytest.mark.parametrize("sql", FILTERS, ids=range(len(FILTERS)))
def test_filters_with_thresholds_are_one_release(stack: Stack, alice: Analyst, sql: str) -> None:
    """At 10 for the block: a share is at least 1.25, a sum is off by less than 1,133."""
    alice.conn.execute("SET dp.epsilon = 10")
    check_like_postgres(stack, alice, sql)
    assert len(releases(alice)) == 1
    assert "matrix mechanism" in releases(alice)[0]


F = filters("pay <= {}", range(100, 1000, 200))
BY_REGION = [
    f"SELECT region, {F} FROM earn GROUP BY region ORDER BY region DESC",
    f"SELECT {F}, count(*), region FROM earn WHERE pay > 0 GROUP BY 7 HAVING count(*) > 100 ORDER BY region LIMIT 1",
    f"SELECT region, s500 - s300 FROM (SELECT region, {F} FROM earn GROUP BY region) AS q ORDER BY 1",
    f"SELECT upper(region), region = 'north', {F} FROM earn GROUP BY region HAVING sum(pay) > 1000 ORDER BY 1",
    f"SELECT {F.replace('pay', 'fee')}, region <> 'north' AS b FROM earn WHERE pay >= 0 GROUP BY b ORDER BY b",
]


@pytest.mark.chance(fix_chance.union(fix_chance.deviations(12_000 / 708, 30), fix_chance.laplace(7 / 14, 200, 9)))
@pytest.mark.parametrize("sql", BY_REGION, ids=range(len(BY_REGION)))
def test_filters_with_thresholds_of_every_group_are_one_release(stack: Stack, alice: Analyst, sql: str) -> None:
    """At 14 for the block a share is at least 2. HAVING, ORDER BY and LIMIT are PostgreSQL's, of about 1,500 rows a
    group, or of 0."""
    alice.conn.execute("SET dp.epsilon = 14")
    check_like_postgres(stack, alice, sql)
    assert len(releases(alice)) == 1
    assert "matrix mechanism" in releases(alice)[0]
    before = alice.left()
    text = alice.explained(sql)
    assert "considered: together, expected error" in text
    assert "considered: each by itself, expected error" in text
    alice.ask(sql)
    assert alice.left() == before


OF_USERS = [
    (union("pay <= {}", range(100, 900, 200)), 1),
    (union("region = 'north' AND pay > {}", range(100, 900, 200), " AND pay >= 0"), 1),
    (f"SELECT count(*), {F}, sum(pay) FROM earn", 1),
    (f"SELECT region, {F} FROM earn GROUP BY region ORDER BY region DESC", 1),
    (f"SELECT region, {filters('pay BETWEEN {} AND 1000', range(100, 900, 200))} FROM earn GROUP BY 1 ORDER BY 1", 1),
    (f"SELECT avg(pay), {filters('pay >= {}', range(100, 900, 200))} FROM earn", 1),
    (union("pay BETWEEN {} AND 1000", range(100, 900, 200)).replace("sum(pay)", "sum(pay), avg(pay)"), 4),
]


# by itself a sum's share is at least 56 / 7: 3 * 1001 / 8 * sqrt(2) = 531
@pytest.mark.chance(fix_chance.deviations(12_000 / 531, 12))
@pytest.mark.parametrize(("sql", "calls"), OF_USERS, ids=range(len(OF_USERS)))
def test_sums_of_users_are_one_release(stack: Stack, alice: Analyst, sql: str, calls: int) -> None:
    """A user owns three rows here, so that nothing is clamped. Of arms whose rows are capped, after WHERE, each is
    asked by itself: a FILTER is applied after the cap."""
    alice.conn.execute(f"SET dp.epsilon = {20 if 'UNION' in sql else 56}".encode())
    of_users = sql.replace("FROM earn", "FROM trips")
    check_like_postgres(stack, alice, of_users)
    told = releases(alice)
    assert (len(told), "matrix mechanism" in told[0]) == (calls, calls == 1)
    explained = alice.explained(of_users)
    assert ("considered: together, expected error" in explained) == (calls == 1)


def test_bars_and_parameters_of_every_group(alice: Analyst) -> None:
    arms = ", ".join(
        "sum(pay) FILTER (WHERE pay < %s::int), dp_low(sum(pay) FILTER (WHERE pay < %s::int))" for _ in "123"
    )
    sql = f"SELECT region, {arms} FROM earn GROUP BY region ORDER BY region"
    rows, _ = alice.ask(sql, 250, 250, 450, 450, 650, 650)
    assert [row[0] for row in rows] == ["north", "south"]
    assert "matrix mechanism" in releases(alice)[0]
    assert all(row[place + 1] <= row[place] for row in rows for place in (1, 3, 5))


def test_the_call_costs_what_its_arms_would(alice: Analyst) -> None:
    """Ten arms at 2 each; the same statement again, in another order, is free."""
    before = alice.left()
    first, _ = alice.ask(union("pay <= {}", range(105, 1000, 100)))
    assert before - alice.left() == pytest.approx(18)
    again, _ = alice.ask(union("pay <= {}", range(105, 1000, 100)) + " ORDER BY 1 DESC")
    assert before - alice.left() == pytest.approx(18)
    assert again == first[::-1]


def test_arms_take_parameters(stack: Stack, alice: Analyst) -> None:
    """Prepared by the protocol, and by SQL."""
    arms = " UNION ALL ".join("SELECT %s::int AS t, sum(pay) FROM earn WHERE pay <= %s::int" for _ in range(3))
    check_like_postgres(stack, alice, arms, 100, 100, 300, 300, 500, 500)
    assert len(releases(alice)) == 1
    alice.conn.execute(f"PREPARE p(int, int, int) AS {union('pay < ${}', (1, 2, 3))}".encode())
    rows, _ = alice.ask("EXECUTE p(100, 300, 500)")
    assert len(rows) == 3
    assert len(releases(alice)) == 1


def test_bars_and_more_columns_belong_to_their_arm(alice: Analyst) -> None:
    arms = [
        f"SELECT dp_low(sum(pay)), sum(pay), dp_high(sum(pay)), dp_stderr(sum(pay)) FROM earn WHERE pay < {step}"
        for step in (150, 350, 550, 750)
    ]
    rows, _ = alice.ask(" UNION ALL ".join(arms))
    assert len(releases(alice)) == 1
    for low, value, high, error in rows:
        assert low <= value <= high
        assert 0 < error <= 709


def test_explain_names_both_ways_and_charges_nothing(alice: Analyst) -> None:
    before = alice.left()
    text = alice.explained(union("pay <= {}", range(50, 1000, 200)))
    assert "considered: together, expected error" in text
    assert "considered: each by itself, expected error" in text
    assert text.count("answered with $1") == 4
    assert "  strategy: tamm" in text
    assert "  considered: identity, expected RMSE" in text
    assert "charge, worst: epsilon 10" in text
    assert alice.left() == before


def test_two_arms_are_enough(stack: Stack, alice: Analyst) -> None:
    check_like_postgres(stack, alice, union("pay <= {}", (100, 200)))
    (said,) = releases(alice)
    assert "matrix mechanism" in said


APART = [
    (union("fee <= {}", range(100, 301, 100)), 3),
    (union("pay <= {} OR region = 'north'", range(100, 301, 100)), 3),
]


@pytest.mark.parametrize(("sql", "count"), APART, ids=range(len(APART)))
def test_what_is_no_workload_is_asked_apart(stack: Stack, alice: Analyst, sql: str, count: int) -> None:
    check_like_postgres(stack, alice, sql)
    assert len(releases(alice)) == count
    assert not any("matrix" in one for one in alice.said)


def test_the_setting_keeps_arms_apart(stack: Stack, alice: Analyst) -> None:
    """And what was paid apart stays free with the setting as without."""
    sql = union("pay > {}", (120, 320, 520))
    alice.conn.execute("SET dp.workloads = off")
    assert "together" not in alice.explained(sql)
    check_like_postgres(stack, alice, sql)
    assert len(releases(alice)) == 3
    before = alice.left()
    alice.conn.execute("RESET dp.workloads")
    alice.ask(sql)
    assert alice.left() == before


def test_a_refused_arm_costs_nothing(alice: Analyst) -> None:
    before = alice.left()
    with pytest.raises(psycopg.Error) as refused:
        alice.ask(union("pay <= {}", (130, 330, 530)) + " UNION ALL SELECT 1, sum(pay) FROM earn WHERE fee / pay > 1")
    assert (refused.value.sqlstate or "").startswith("DP")
    assert alice.left() == before


def matrix_call(matrix: str, more: str = "epsilon => 3") -> str:
    return f"SELECT query, sum FROM dp_sum_workload('earn', 'pay', '{{250,500,1001}}', workload => {matrix}, {more})"


def test_a_matrix_comes_from_the_sessions_own_table(alice: Analyst) -> None:
    """Its rows travel as constants: the same release as the constants themselves, whose answer is then free."""
    alice.conn.execute("CREATE TEMP TABLE w (query int, a float8, b float8, c float8)")
    alice.conn.execute("INSERT INTO w VALUES (2, 1, 1, 1), (1, 1, 0, 0), (3, -1, 0, 0.5)")
    rows, _ = alice.ask(matrix_call("ARRAY(SELECT ARRAY[a, b, c] FROM w ORDER BY query)"))
    assert len(rows) == 3
    before = alice.left()
    for form in ("'{{1,0,0},{1,1,1},{-1,0,0.5}}'", "(SELECT array_agg(ARRAY[a, b, c] ORDER BY query) FROM w)"):
        assert alice.ask(matrix_call(form))[0] == rows
    assert alice.left() == before
    assert "[1, 0, 0]" in alice.explained(matrix_call("ARRAY(SELECT ARRAY[a, b, c] FROM w ORDER BY query)"))
    alice.conn.execute("UPDATE w SET b = 1 WHERE query = 1")
    changed = alice.explained(matrix_call("ARRAY(SELECT ARRAY[a, b, c] FROM w ORDER BY query)"))
    assert "[1, 1, 0]" in changed and "path: cache" not in changed


def test_thresholds_come_from_a_public_table(stack: Stack, alice: Analyst) -> None:
    stack.cluster.psql("CREATE TABLE steps (t int); INSERT INTO steps VALUES (500), (250), (1000)", user="boss")
    stack.cluster.psql("CALL dp.publish('steps', kind => 'public')", user="boss")
    stack.sync()
    with stack.connect() as conn:
        rows = conn.execute(
            "SELECT high_edge FROM dp_sum_workload('earn', 'pay', ARRAY(SELECT t::numeric FROM steps ORDER BY t),"
            " epsilon => 1)"
        ).fetchall()
    assert rows == [(250,), (500,), (1000,)]


@pytest.mark.parametrize(
    ("matrix", "sqlstate"),
    [
        ("ARRAY(SELECT ARRAY[pay, 1, 1]::float8[] FROM earn)", "DP00"),
        ("ARRAY(SELECT ARRAY[1, 1, 1]::float8[] FROM dp.budget)", "DP003"),
        ("ARRAY(SELECT ARRAY[1, 1, dp_budget_left('earn')]::float8[])", "DP003"),
        ("ARRAY(SELECT ARRAY[i, 1, 1]::float8[] FROM generate_series(1, 4000) i)", "DP005"),
        ("ARRAY(SELECT ARRAY[1, 1, NULL]::float8[])", "DP005"),
        ("ARRAY(SELECT ARRAY[1, 1]::float8[])", "DP005"),
        ("ARRAY(SELECT ARRAY[1, 1, 1]::float8[] WHERE false)", "DP005"),
    ],
    ids=range(7),
)
def test_other_sub_queries_are_refused_for_nothing(alice: Analyst, matrix: str, sqlstate: str) -> None:
    before = alice.left()
    with pytest.raises(psycopg.Error) as refused:
        alice.ask(matrix_call(matrix))
    assert (refused.value.sqlstate or "").startswith(sqlstate)
    assert refused.value.diag.message_hint
    assert alice.left() == before
