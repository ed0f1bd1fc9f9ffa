"""dp_explain_difference of an expression of groups, as installed, in direct sessions (dpxplain.md §7.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, no_charge, one, refused, spent

Connection = psycopg.Connection[Any]
Row = tuple[str, None, None, None, int, int]
Values = dict[str, float]

# In the north, and only there, what is of kind b costs 90 in place of 20.
SALES = """
CREATE TABLE sales (id int PRIMARY KEY, buyer int, branch text, kind text, paid boolean, size int, price int);
INSERT INTO sales SELECT i, i % 3000, (ARRAY['north','south','east'])[1 + i % 3], (ARRAY['a','b','c',NULL])[1 + i % 4],
  (ARRAY[true,false,NULL])[1 + (i * 7) % 11 % 3], i % 5, CASE WHEN i % 3 = 0 AND i % 4 = 1 THEN 90 ELSE 20 END + i % 7
  FROM generate_series(1, 9000) i;
CREATE TABLE buyer (id int PRIMARY KEY); INSERT INTO buyer SELECT i FROM generate_series(0, 2999) i;
CREATE TABLE bought (LIKE sales INCLUDING ALL); INSERT INTO bought SELECT * FROM sales;
ALTER TABLE bought ADD FOREIGN KEY (buyer) REFERENCES buyer;
CREATE TABLE seen (LIKE sales INCLUDING ALL); INSERT INTO seen SELECT * FROM sales;
CALL dp.create_dataset('sales', unit => 'row', epsilon => 1000, default_epsilon => 20);
CALL dp.protect('sales', 'sales', max_rows => 20000);
CALL dp.create_dataset('bazaar', unit => 'user', epsilon => 1000);
CALL dp.protect('buyer', 'bazaar', unit_column => 'id', max_rows_per_unit => 1);
CALL dp.protect('bought', 'bazaar', unit_column => 'buyer', max_rows_per_unit => 3, max_rows => 20000);
CALL dp.create_dataset('seen', unit => 'row', epsilon => 500, accountant => 'renyi', delta => 1e-6);
CALL dp.protect('seen', 'seen', max_rows => 20000);
"""
COLUMNS = """
CALL dp.describe_column('{0}', 'branch', domain => '{{north,south,east}}', nullable => false);
CALL dp.describe_column('{0}', 'kind', domain => '{{a,b,c}}');
CALL dp.describe_column('{0}', 'paid');
CALL dp.describe_column('{0}', 'size', bounds => '{{0,1500}}', nullable => false);
CALL dp.describe_column('{0}', 'price', bounds => '{{0,100}}', nullable => false);
CALL dp.publish('{0}'); CALL dp.allot('alice', '{1}', epsilon => {2});
"""
GROUPS = "SELECT * FROM dp.dp_group_by('{}', '{{branch}}', '{{count(*),avg(price),sum(price)}}', {})"
RATIO = "'{north,south}', expression => 'o1 / o2'"
FEW = "attributes => '{kind,paid}'"
PREDICATES = ["kind = 'a'", "kind = 'b'", "kind = 'c'", "kind IS NULL", "paid = false", "paid = true", "paid IS NULL"]
PREDICATES.insert(4, "kind IS NOT NULL AND kind NOT IN ('a', 'b', 'c')")
SURE = "confidence => 0.999999999"
# Of a test: twenty rank intervals at SURE, and selections that are 26 scales of the noise apart, or further.
pytestmark = pytest.mark.chance(fix_chance.union(20 * 1e-9, fix_chance.beyond(26, 20)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        described = [COLUMNS.format(*one) for one in (("sales", "sales", 1000), ("bought", "bazaar", 1000))]
        running.psql(SALES + "".join(described) + COLUMNS.format("seen", "seen", 500), user="boss")
        yield running


@pytest.fixture
def alice(cluster: Cluster) -> Iterator[Connection]:
    """A session in which the release is the last one."""
    with cluster.connect("alice") as connection:
        connection.execute(GROUPS.format("sales", "epsilon => 100"))
        yield connection


def explained(conn: Connection, call: str) -> list[Row]:
    return conn.execute(f"SELECT * FROM dp.dp_explain_difference({call})").fetchall()


def influence(cluster: Cluster, predicate: str, aggregate: str, of: Callable[[Values], float]) -> float:
    """(1 - |p| / n) * (f - f without p) by plain SQL, of north and south."""
    rest = f"FILTER (WHERE NOT coalesce({predicate}, false))"
    sql = (
        f"SELECT branch, count(*), count(*) {rest}, {aggregate}::float8, ({aggregate} {rest})::float8 FROM sales"
        " WHERE branch <> 'east' GROUP BY branch"
    )
    with cluster.connect() as root:
        rows = root.execute(sql).fetchall()
    left = sum(row[2] for row in rows) / sum(row[1] for row in rows)
    whole, without = ({row[0]: row[at] for row in rows} for at in (3, 4))
    return left * (of(whole) - of(without))


CASES = {
    "avg": (2, "avg(price)", "o1 / o2", lambda v: v["north"] / v["south"]),
    "sum": (3, "sum(price)", "o1 / o2 - 0.5", lambda v: v["north"] / v["south"]),
    "share": (3, "sum(price)", "o1 / (o1 + o2)", lambda v: v["north"] / (v["north"] + v["south"])),
    "count": (1, "count(*)", "2 * o1 - o2", lambda v: 2 * v["north"] - v["south"]),
}


@pytest.mark.parametrize("case", CASES)
def test_ranks_hold_those_of_plain_sql(cluster: Cluster, alice: Connection, case: str) -> None:
    """All predicates, each with its true rank; equal influences share theirs."""
    number, aggregate, expression, of = CASES[case]
    call = f"'{{north,south}}', '{expression}', aggregate => {number}, k => 8, epsilon => 150, {SURE}, {FEW}"
    rows = explained(
        alice, call.replace("'{north,south}'", "groups => '{north,south}'").replace(", '", ", expression => '", 1)
    )
    truth = {one: influence(cluster, one, aggregate, of) for one in PREDICATES}
    assert sorted(row[0] for row in rows) == sorted(PREDICATES)
    for text, share, low, high, rank_low, rank_high in rows:
        assert (share, low, high) == (None, None, None)
        first = 1 + sum(value > truth[text] + 1e-9 for value in truth.values())
        last = sum(value >= truth[text] - 1e-9 for value in truth.values())
        assert 1 <= rank_low <= first <= last <= rank_high <= 8
    assert [row[4:] for row in rows] != [(1, 8)] * 8
    assert [(row[5], row[4]) for row in rows] == sorted((row[5], row[4]) for row in rows)


def test_what_makes_the_ratio(alice: Connection) -> None:
    """Kind b, by the groups that the expression names: the others do not matter; alone, in pairs, and as one's own."""
    for groups, expression in (("north,south", "o1 / o2"), ("east,north,south", "o2 / o3")):
        call = f"ARRAY['{groups}'], '{expression}'".replace(",", "','", groups.count(","))
        rows = explained(alice, f"{call}, aggregate => 2, k => 1, epsilon => 30, {FEW}")
        assert [row[0] for row in rows] == ["kind = 'b'"]
    rows = explained(alice, f"{RATIO}, aggregate => 2, k => 1, l => 2, up_to => true, epsilon => 60, {FEW}")
    assert rows[0][0] == "kind = 'b'"
    own = "predicates => ARRAY['size < 2', 'kind = ''b'' AND size >= 0', 'paid']"
    rows = explained(alice, f"{RATIO}, aggregate => 2, k => 1, epsilon => 30, {own}")
    assert [row[0] for row in rows] == ["kind = 'b' AND size >= 0"]


def test_it_is_paid_once_and_said_before(cluster: Cluster, alice: Connection) -> None:
    call = f"{RATIO}, aggregate => 2, k => 3, epsilon => 7.3, {FEW}"
    before = spent(cluster, "sales")
    with no_charge(cluster):
        plan = one(alice, f"SELECT dp.dp_plan(dp.dp_explain_difference_request({call}))")
    assert plan["charge"] == {"best": {"epsilon": "7.3"}, "worst": {"epsilon": "7.3"}}
    facts = plan["explain"]
    assert (facts["expression"], facts["weights"], facts["half_width"]) == ("o1 / o2", [], None)
    assert facts["split"] == {
        "predicates": ["0.811111111111111111", 3],
        "influences": "0",
        "ranks": "4.866666666666666667",
    }
    rows = explained(alice, call)
    assert one(alice, "SELECT facts -> 'explain' FROM dp.last_answer") == facts
    assert spent(cluster, "sales") - before == Decimal("7.3")
    with no_charge(cluster):
        assert explained(alice, call) == rows
        shown = one(alice, "SELECT dp.dp_shown(request_id) FROM dp.last_answer")
    assert [tuple(row) for row in shown["explain"]["rows"]] == rows
    balanced(cluster)


REFUSED = [
    ("'{north,south}', expression => 'exp(o1 / o2)', aggregate => 2", "DP003", "+ - * /"),
    ("'{north,south}', expression => 'ln(o1)', aggregate => 2", "DP003", "compared, not explained"),
    ("'{north,south}', expression => 'o1 / o3', aggregate => 2", "DP005", "there is no o3"),
    ("'{north,south}', expression => 'o1 / (SELECT 1)', aggregate => 2", "DP003", "cannot be read"),
    ("'{north,south}', expression => '1.5', aggregate => 2", "DP005", "looks at no answer"),
    ("'{south,north}', expression => 'o1 / o2 - 1', aggregate => 2", "DP005", "'-(...)'"),
    (f"{RATIO}, aggregate => 2, source => 'paid'", "DP003", "explained by rows"),
    (f"{RATIO}, aggregate => 2, options => '{{\"split\": [1, 1, 2]}}'", "DP005", "two numbers"),
    (f"{RATIO}, aggregate => 2, options => '{{\"joint\": true}}'", "DP005", "Options: lower, split."),
    (f"{RATIO}, aggregate => 2, k => 9, {FEW}", "DP005", "k is at most 8"),
    (f"{RATIO}, aggregate => 2, l => 2, attributes => '{{kind,size}}'", "DP005", "7510 predicates, more than 2000"),
    (f"{RATIO}, aggregate => 2, epsilon => 0.01, attributes => '{{size}}'", "DP005", "Spend more"),
    (f"{RATIO}, aggregate => 2, epsilon => 9000, {FEW}", "DP005", ""),
]


@pytest.mark.parametrize(("call", "sqlstate", "words"), REFUSED, ids=[call[:60] for call, *_ in REFUSED])
def test_refusals(cluster: Cluster, alice: Connection, call: str, sqlstate: str, words: str) -> None:
    with no_charge(cluster), refused(sqlstate, words):
        explained(alice, call)


def test_a_difference_that_may_be_noise(cluster: Cluster, alice: Connection) -> None:
    call = "'{south,east}', expression => 'o1 / o2 - 1'"
    with no_charge(cluster), refused("DP005", "anyway => true"):
        explained(alice, f"{call}, epsilon => 5, {FEW}")
    assert len(explained(alice, f"{call}, epsilon => 5, k => 4, anyway => true, {FEW}")) == 4


def test_users(cluster: Cluster) -> None:
    """Three rows of each buyer: three times as far, and as much noise."""
    with cluster.connect("alice") as alice:
        alice.execute(GROUPS.format("bought", "epsilon => 100"))
        rows = explained(alice, f"{RATIO}, aggregate => 2, k => 1, epsilon => 100, {FEW}")
        assert rows[0][0] == "kind = 'b'"
        facts = one(alice, "SELECT facts FROM dp.last_answer")
        assert "at most 3 rows of each unit are looked at (bias unknown)" in facts["warnings"]


def test_a_renyi_accountant(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice:
        alice.execute(GROUPS.format("seen", "rho => 3"))
        rows = explained(alice, f"{RATIO}, aggregate => 2, k => 1, rho => 30, {SURE}, {FEW}")
        assert rows[0][0] == "kind = 'b'"
        # Of two picks nothing is sure: others are about a row away from the second rank, and may be drawn both times.
        assert len(explained(alice, f"{RATIO}, aggregate => 2, k => 2, rho => 30, {SURE}, {FEW}")) == 2
        paid = one(alice, "SELECT charge FROM dp.spending ORDER BY at DESC LIMIT 1")
        assert [part["kind"] for part in paid] == ["exponential", "exponential", "gaussian"]
        rho = Decimal(paid[-1]["rho"]) + sum(Decimal(part["epsilon"]) ** 2 / 8 for part in paid[:-1])
        assert Decimal("29.99999") < rho <= 30
