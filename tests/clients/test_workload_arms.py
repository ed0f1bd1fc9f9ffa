"""Arms of a UNION ALL that have a GROUP BY or a join, and batches of sums of users under zCDP: one call each."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

import fix_chance
from clients.test_workload_sql import NEAR, Analyst, releases
from fix_stack import Stack, stack_at_work

TABLES = """
CREATE TABLE areas (region text PRIMARY KEY, land text);
INSERT INTO areas VALUES ('north', 'x'), ('south', 'y');
CREATE TABLE earn (id int PRIMARY KEY, pay int, region text);
INSERT INTO earn SELECT i, (i % 11) * 100 + (i % 7 = 0)::int, (ARRAY['north','south'])[1 + i % 2]
  FROM generate_series(1, 3000) i;
CALL dp.create_dataset('earn', unit => 'row', epsilon => 1000);
CALL dp.protect('earn', 'earn', max_rows => 10000);
CALL dp.describe_column('earn', 'pay', bounds => '{0,1001}');
CALL dp.describe_column('earn', 'region', domain => '{north,south}', nullable => false);
CALL dp.publish('earn');
CALL dp.publish('areas', kind => 'public');
CALL dp.allot('alice', 'earn', epsilon => 1000);
CREATE TABLE riders (id int PRIMARY KEY, town text);
INSERT INTO riders SELECT i, (ARRAY['Kiel','Ulm'])[1 + i % 2] FROM generate_series(0, 999) i;
CREATE TABLE rides (id int PRIMARY KEY, rider int REFERENCES riders, pay int, region text);
INSERT INTO rides SELECT id, id % 1000, pay, region FROM earn;
CALL dp.create_dataset('rides', unit => 'user', epsilon => 1000, delta => 1e-6, accountant => 'renyi');
CALL dp.protect('riders', 'rides', unit_column => 'id', max_rows_per_unit => 1, max_rows => 10000);
CALL dp.protect('rides', 'rides', unit_column => 'rider', max_rows_per_unit => 3, max_rows => 10000);
CALL dp.describe_column('riders', 'town', domain => '{Kiel,Ulm}', nullable => false);
CALL dp.describe_column('riders', 'id');
CALL dp.describe_column('rides', 'rider');
CALL dp.describe_column('rides', 'pay', bounds => '{0,1001}');
CALL dp.describe_column('rides', 'region', domain => '{north,south}', nullable => false);
CALL dp.publish('riders');
CALL dp.publish('rides');
CALL dp.allot('alice', 'rides', epsilon => 1000, delta => 1e-6);
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work(lambda cluster: cluster.psql(TABLES, user="boss")) as running:
        yield running


@pytest.fixture
def alice(stack: Stack) -> Iterator[Analyst]:
    with stack.connect() as conn:
        yield Analyst(conn)


def check_near(stack: Stack, alice: Analyst, sql: str) -> None:
    """PostgreSQL's columns, rows and order; values within NEAR."""
    rows, columns = alice.ask(sql)
    with stack.cluster.connect() as conn:
        cursor = conn.execute(sql.encode())
        expected = cursor.fetchall()
        assert columns == [(one.name, one.type_code) for one in cursor.description or ()]
    assert len(rows) == len(expected)
    for row, plain in zip(rows, expected, strict=True):
        for value, true in zip(row, plain, strict=True):
            assert value == true if isinstance(true, str | None) else abs(value - true) <= NEAR, (rows, expected)


def arms(form: str, steps: range = range(100, 1001, 100)) -> str:
    return " UNION ALL ".join(form.format(step) for step in steps)


BY_REGION = "SELECT region, {0} AS t, sum(pay) FROM earn WHERE pay <= {0} GROUP BY region"
GROUPED = [
    arms(BY_REGION) + " ORDER BY t, region",
    arms(BY_REGION + " HAVING sum(pay) > -99999") + " ORDER BY 2 DESC, 1",
    arms("SELECT sum(pay) AS s, upper(region) AS r, {0} AS t FROM earn WHERE pay < {0} GROUP BY 2") + " ORDER BY t, r",
    f"SELECT region, max(s) FROM ({arms(BY_REGION)}) AS u(region, t, s) GROUP BY region ORDER BY 1",
]
JOINED = [
    arms("SELECT {0} AS t, sum(pay) FROM earn JOIN areas USING (region) WHERE land = 'x' AND pay <= {0}"),
    arms("SELECT land, {0} AS t, sum(e.pay) FROM earn e JOIN areas a ON e.region = a.region"
         " WHERE e.pay <= {0} GROUP BY land")
    + " ORDER BY t, land",
]  # fmt: skip


# at 2 for each arm, no sum is further off than by itself, which is 1001 / 2 * sqrt(2) = 708
@pytest.mark.chance(fix_chance.deviations(NEAR / (1001 / 2 * math.sqrt(2)), 60))
@pytest.mark.parametrize("sql", GROUPED, ids=range(len(GROUPED)))
def test_arms_of_one_group_by_are_one_call(stack: Stack, alice: Analyst, sql: str) -> None:
    before = alice.left()
    text = alice.explained(sql)
    assert "considered: together, expected error" in text
    assert text.count("answered with $1") == 9
    assert alice.left() == before
    check_near(stack, alice, sql)
    assert len(releases(alice)) == 1
    assert "matrix mechanism" in releases(alice)[0]
    assert before - alice.left() in (0, 20)
    alice.ask(sql)
    assert before - alice.left() in (0, 20)


@pytest.mark.chance(fix_chance.deviations(NEAR / (1001 / 2 * math.sqrt(2)), 30))
@pytest.mark.parametrize("sql", JOINED, ids=range(len(JOINED)))
def test_arms_over_a_join_are_one_call(stack: Stack, alice: Analyst, sql: str) -> None:
    check_near(stack, alice, sql)
    assert len(releases(alice)) == 1
    assert "matrix mechanism" in releases(alice)[0]


def test_bars_of_groups_belong_to_their_arm(alice: Analyst) -> None:
    form = "SELECT dp_low(sum(pay)), region, sum(pay), dp_high(sum(pay)) FROM earn WHERE pay < {0} GROUP BY region"
    rows, _ = alice.ask(arms(form, range(150, 951, 200)))
    assert len(releases(alice)) == 1
    assert [row[1] for row in rows] == ["north", "south"] * 5
    assert all(low <= value <= high for low, _, value, high in rows)


APART = [
    arms("SELECT region, {0} AS t, sum(pay) FROM earn WHERE pay <= {0} GROUP BY region", range(100, 201, 100))
    + " UNION ALL SELECT 'all', 300, sum(pay) FROM earn WHERE pay <= 300 GROUP BY ()",
    arms("SELECT width_bucket(pay, 0, 1000, 2), {0} AS t, sum(pay) FROM earn WHERE pay <= {0} GROUP BY 1",
         range(100, 301, 100)),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "together"), [(APART[0], 2), (APART[1], 0)], ids=range(len(APART)))
def test_arms_of_other_groups_are_asked_apart(alice: Analyst, sql: str, together: int) -> None:
    """together: how many arms of one grouping are left, which are one release."""
    alice.ask(sql)
    found = releases(alice)
    assert len(found) == 3 - max(0, together - 1)
    assert ["matrix" in one for one in found] == [True] * (together > 0) + [False] * (3 - together)


F = ", ".join(f"sum(pay) FILTER (WHERE pay <= {step}) AS s{step}" for step in range(100, 1000, 200))
B = "width_bucket(pay, 100, 1100, 10)"
OF_USERS = [
    arms("SELECT {0} AS t, sum(pay) FROM rides WHERE pay <= {0}", range(100, 900, 200)),
    f"SELECT {F}, sum(pay) FROM rides WHERE region = 'north'",
    f"SELECT region, {F}, sum(pay) FROM rides GROUP BY region ORDER BY region",
    f"SELECT town, {F} FROM rides JOIN riders ON rides.rider = riders.id WHERE pay > 0 GROUP BY town ORDER BY town",
    arms("SELECT {0} AS t, sum(pay) FROM rides JOIN riders r ON rider = r.id WHERE town = 'Ulm' AND pay <= {0}",
         range(100, 900, 200)),
    "SELECT high_edge, sum FROM dp_sum_workload('rides', 'pay', '{200,500,800,1001}', rho => 16) ORDER BY query",
    "SELECT high_edge, sum FROM dp_sum_workload('rides', 'pay', '{500,1000,2000,3003}', per => 'user', rho => 16)"
    " ORDER BY query",
]  # fmt: skip
# A share is at least 16 / 6: by itself a sum is off by at most 3003 / sqrt(2 * 16 / 6), and together by less.
SIGMA = 3003 / math.sqrt(2 * 16 / 6)


def plain(sql: str) -> str:
    """What a call sums, in PostgreSQL's words."""
    if "per => 'user'" in sql:
        of = "(SELECT sum(pay) AS s FROM rides GROUP BY rider) q, unnest('{500,1000,2000,3003}'::numeric[]) t"
        return f"SELECT t, coalesce(sum(s) FILTER (WHERE s <= t), 0) FROM {of} GROUP BY t ORDER BY t"
    if "dp_sum_workload" in sql:
        return (
            "SELECT t, sum(pay)::numeric FROM rides, unnest('{200,500,800,1001}'::numeric[]) t WHERE pay <= t"
            " GROUP BY t ORDER BY t"
        )
    return sql


@pytest.mark.chance(fix_chance.gaussian(SIGMA, NEAR, 48))
@pytest.mark.parametrize("sql", OF_USERS, ids=range(len(OF_USERS)))
def test_sums_of_users_with_rho_are_one_release(stack: Stack, alice: Analyst, sql: str) -> None:
    """Through the proxy, with Gaussian noise. A rider owns three rows, so that nothing is clamped or capped."""
    alice.conn.execute("SET dp.epsilon = DEFAULT")
    alice.conn.execute(f"SET dp.rho = {4 if 'UNION' in sql else 16}".encode())
    rows, _ = alice.ask(sql)
    told = releases(alice)
    assert len(told) == 1, told
    assert "matrix mechanism (discrete Gaussian" in told[0]
    with stack.cluster.connect() as conn:
        expected = conn.execute(plain(sql).encode()).fetchall()
    assert len(rows) == len(expected)
    for row, true in zip(rows, expected, strict=True):
        for value, exact in zip(row, true, strict=True):
            assert value == exact if isinstance(exact, str) else abs(value - exact) <= NEAR, (rows, expected)


@pytest.mark.chance(fix_chance.gaussian(SIGMA * math.sqrt(24), NEAR * 5, 24))
def test_running_sums_of_users_with_rho(stack: Stack, alice: Analyst) -> None:
    alice.conn.execute("SET dp.epsilon = DEFAULT; SET dp.rho = 16")
    sql = f"SELECT {B} AS b, sum(sum(pay)) OVER (ORDER BY {B}) FROM rides WHERE pay IS NOT NULL GROUP BY 1 ORDER BY 1"
    found = dict(alice.ask(sql)[0])
    with stack.cluster.connect() as conn:
        expected = conn.execute(sql.encode()).fetchall()
    assert any("running sums" in one for one in alice.said)
    assert all(abs(found[bucket] - true) <= 5 * NEAR for bucket, true in expected)


def test_arms_of_users_groups_are_asked_apart(alice: Analyst) -> None:
    """Of a user three rows count, after each arm's WHERE: a FILTER of one call would be applied to other rows."""
    alice.conn.execute("SET dp.epsilon = DEFAULT; SET dp.rho = 4")
    alice.ask(arms("SELECT region, sum(pay) FROM rides WHERE pay <= {0} GROUP BY region", range(100, 301, 100)))
    assert len(releases(alice)) == 3
    assert not any("matrix" in one for one in alice.said)
