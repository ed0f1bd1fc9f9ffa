"""dp_explain_difference(method => 'cells' | 'auto') as installed: one release for all pairs (dpxplain.md §0)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, charges, no_charge, one, refused

Connection = psycopg.Connection[Any]
Row = tuple[str, float | None, float | None, float | None, int, int]

# Of shop a, and there alone, half of the sales are of kind x, and cost 90 in place of 10. A kind may be NULL, or none
# of the declared ones.
SALES = """
CREATE TABLE sale (id int PRIMARY KEY, shop text, kind text, age int, price int, paid boolean);
INSERT INTO sale SELECT i, (ARRAY['a','b','c'])[1 + i % 3],
  CASE WHEN i % 3 = 0 THEN (ARRAY['x','y'])[1 + i % 2] ELSE (ARRAY['x','y','z','y',NULL])[1 + i % 5] END,
  15 + i % 40, CASE WHEN i % 3 = 0 AND i % 2 = 0 THEN 90 ELSE 10 END, i % 2 = 0 FROM generate_series(1, 9000) i;
DELETE FROM sale WHERE shop = 'b' AND id % 4 = 1; DELETE FROM sale WHERE shop = 'c' AND age < 40;
INSERT INTO sale VALUES (9001, 'd', 'x', 20, 50, true), (9002, NULL, 'x', 20, 50, true),
  (9003, 'a', 'x', 20, NULL, NULL);
"""
POLICY = """
CALL dp.create_dataset('{name}', unit => 'row', epsilon => 1000{more});
CALL dp.protect('{name}', '{name}', max_rows => 10000);
CALL dp.describe_column('{name}', 'shop', domain => '{{a,b,c}}', nullable => false);
CALL dp.describe_column('{name}', 'kind', domain => '{{x,y}}');
CALL dp.describe_column('{name}', 'age', edges => '{{10,20,40,60}}', nullable => false);
CALL dp.describe_column('{name}', 'price', bounds => '{{-5,100}}');
CALL dp.describe_column('{name}', 'paid');
CALL dp.publish('{name}'); CALL dp.allot('alice', '{name}', epsilon => 900);
CALL dp.allot('bob', '{name}', epsilon => 100);
"""
USERS = """
CREATE TABLE buyer (id int PRIMARY KEY);
CREATE TABLE bought (id int PRIMARY KEY, buyer_id int REFERENCES buyer, shop text, kind text);
INSERT INTO buyer SELECT i FROM generate_series(1, 400) i;
INSERT INTO bought SELECT i, 1 + i % 400, CASE WHEN i % 3 = 0 THEN 'a' ELSE 'b' END,
  CASE WHEN i % 3 <> 0 AND i % 2 = 0 THEN 'x' ELSE 'y' END FROM generate_series(1, 4000) i;
CALL dp.create_dataset('bazaar', unit => 'user', epsilon => 900, accountant => 'renyi', delta => 1e-6);
CALL dp.protect('buyer', 'bazaar', unit_column => 'id', max_rows_per_unit => 1);
CALL dp.protect('bought', 'bazaar', unit_column => 'buyer_id', max_rows_per_unit => 6, max_rows => 10000);
CALL dp.describe_column('bought', 'shop', domain => '{a,b}', nullable => false);
CALL dp.describe_column('bought', 'kind', domain => '{x,y,z}', nullable => false);
CALL dp.publish('bought'); CALL dp.allot('alice', 'bazaar', epsilon => 900);
"""
RENYI = ", accountant => 'renyi', delta => 1e-6"
SURE = "confidence => 0.999999999"
CELLS = f"method => 'cells', rho => 2, {SURE}"
FEW = "attributes => '{kind,age,paid}'"
RELEASED = 20  # integers of a release that matters here, times 40 releases: each within 26 deviations
pytestmark = pytest.mark.chance(fix_chance.union(100 * 1e-9, fix_chance.beyond(26, 40 * RELEASED)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(SALES + POLICY.format(name="sale", more=RENYI), user="boss")
        running.psql("CREATE TABLE pure (LIKE sale); INSERT INTO pure SELECT * FROM sale", user="boss")
        running.psql(POLICY.format(name="pure", more="") + USERS, user="boss")
        yield running


def grouped(conn: Connection, table: str = "sale", budget: str = "rho => 50, mechanism => 'gaussian'") -> None:
    aggregates = "{count(*),sum(price),avg(price)}" if table != "bought" else "{count(*)}"
    conn.execute(f"SELECT * FROM dp.dp_group_by('{table}', '{{shop}}', '{aggregates}', {budget})")


@pytest.fixture
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice") as connection:
        grouped(connection)
        yield connection


def explained(conn: Connection, call: str) -> list[Row]:
    return conn.execute(f"SELECT * FROM dp.dp_explain_difference({call})").fetchall()


def truth(cluster: Cluster, predicate: str, pair: str, value: str = "1") -> float:
    """Share of the difference by plain SQL: its part, times the smaller rest, to the larger group and 1."""
    sql = (
        "SELECT sum(v) FILTER (WHERE p), sum(v), count(*) FILTER (WHERE p IS NOT TRUE), count(*)"
        f" FROM (SELECT shop, {value} AS v, ({predicate}) AS p FROM sale) s WHERE shop = %s AND v IS NOT NULL"
    )
    with cluster.connect() as root:
        rows = [root.execute(sql, (shop,)).fetchone() for shop in pair]
    (inside, whole, left, many), (inside2, whole2, left2, many2) = [[int(n or 0) for n in row or ()] for row in rows]
    return (inside - inside2) * min(left, left2) / (max(many, many2) + 1) / (whole - whole2)


def check(cluster: Cluster, rows: list[Row], pair: str, value: str = "1") -> None:
    """Shares and ranks hold the true ones. `rows` are all predicates, or no rank is compared with one beyond them."""
    true = {text: truth(cluster, text, pair, value) for text, *_ in rows}
    for text, share, low, high, first, last in rows:
        assert share is not None and low is not None and high is not None
        assert low <= true[text] <= high and low <= share <= high, text
        assert first <= 1 + sum(one > true[text] + 1e-9 for one in true.values()) <= last
        assert high - low < 0.5


def test_one_release_for_every_pair_and_k(cluster: Cluster, alice: Connection) -> None:
    """Charged once; other pairs, weights, k and confidences are free, NULL and undeclared values in all of them."""
    before = charges(cluster)
    first = explained(alice, f"'a', 'c', k => 11, {CELLS}, {FEW}")
    assert charges(cluster) == before + 1
    kinds = {"kind = 'x'", "kind = 'y'", "kind IS NULL", "kind IS NOT NULL AND kind NOT IN ('x', 'y')"}
    assert kinds < {row[0] for row in first}
    check(cluster, first, "ac")
    with no_charge(cluster):
        check(cluster, explained(alice, f"'b', 'c', k => 11, {CELLS}, {FEW}"), "bc")
        assert one(alice, "SELECT path FROM dp.last_answer") == "cache"
        again = explained(alice, f"'a', 'c', k => 2, {CELLS}, {FEW}")
        ordered = sorted(first, key=lambda row: -(row[1] or 0))
        assert sorted(again) == sorted(ordered[:2])
        wider = explained(alice, f"'{{a,b,c}}', weights => '{{1,-0.5,-0.5}}', k => 11, {CELLS}, {FEW}")
        assert {row[0] for row in wider} == {row[0] for row in first}
        narrow = explained(alice, f"'a', 'c', k => 2, method => 'cells', rho => 2, confidence => 0.9, {FEW}")
        for one_, other in zip(sorted(narrow), sorted(again), strict=True):
            assert one_[1] == other[1] and other[2] < one_[2] and one_[3] < other[3]  # type: ignore[operator]
    with no_charge(cluster), cluster.connect("bob") as bob:
        grouped(bob)
        assert explained(bob, f"'a', 'c', k => 11, {CELLS}, {FEW}") == first
    balanced(cluster)


def test_conjunctions(cluster: Cluster, alice: Connection) -> None:
    rows = explained(alice, f"'a', 'c', k => 19, l => 2, up_to => true, {CELLS}, attributes => '{{kind,paid}}'")
    assert len(rows) == 4 + 3 + 12 if len(rows) == 19 else len(rows) == 4 + 4 + 16
    assert sum(" AND paid" in row[0] for row in rows) == len(rows) - 4 - len(
        [r for r in rows if r[0].startswith("paid")]
    )
    with no_charge(cluster):
        explained(alice, f"'b', 'c', k => 3, l => 2, up_to => true, {CELLS}, attributes => '{{kind,paid}}'")
    before = charges(cluster)
    explained(alice, f"'b', 'c', k => 3, l => 2, {CELLS}, attributes => '{{kind,paid}}'")
    assert charges(cluster) == before + 1  # without the smaller ones it is another release


def test_sums(cluster: Cluster, alice: Connection) -> None:
    call = f"'a', 'c', aggregate => 2, k => 11, {CELLS}, {FEW}"
    rows = explained(alice, call)
    value = "price"
    check(cluster, rows, "ac", value)
    assert max(rows, key=lambda row: row[1] or 0)[0] in ("kind = 'x'", "paid = true")
    with no_charge(cluster):
        check(cluster, explained(alice, call.replace("'a'", "'b'")), "bc", value)


def of_averages(cluster: Cluster, pair: str, weights: tuple[float, float] = (1, -1)) -> dict[str, float]:
    """Every predicate's share of the difference of average prices, by plain SQL: what the weighted averages lose
    without its rows, times the rows that are left of the smaller group, to those of the smaller group.
    """
    tests = ["kind = 'x'", "kind = 'y'", "kind IS NULL", "kind IS NOT NULL AND kind NOT IN ('x', 'y')"]
    tests += ["paid = true", "paid = false", "paid IS NULL"]
    sql = (
        "SELECT avg(price)::float8, count(*), avg(price) FILTER (WHERE p IS NOT TRUE)::float8,"
        " count(*) FILTER (WHERE p IS NOT TRUE)"
        " FROM (SELECT shop, price, ({}) AS p FROM sale) s WHERE shop = %s AND price IS NOT NULL"
    )
    found = {}
    with cluster.connect() as root:
        for test in tests:
            rows = [root.execute(sql.format(test), (shop,)).fetchone() or () for shop in pair]
            whole = sum(w * row[0] for w, row in zip(weights, rows, strict=True))
            smallest, left = min(row[1] for row in rows), min(row[3] for row in rows)
            lost = sum(w * (row[0] - row[2]) for w, row in zip(weights, rows, strict=True)) if left else 0.0
            found[test] = lost * left / (smallest * whole)
    return found


def test_averages(cluster: Cluster, alice: Connection) -> None:
    """Shares and ranks of all predicates hold; another pair and weights are free; the NOTICE and the facts say it."""
    more = f"aggregate => 3, k => 7, {CELLS}, attributes => '{{kind,paid}}'"
    for pair, first in (("ac", "charged"), ("ab", "free")):
        before = charges(cluster)
        rows = explained(alice, f"'{pair[0]}', '{pair[1]}', {more}")
        assert charges(cluster) == before + (first == "charged")
        true = of_averages(cluster, pair)
        assert true["kind = 'x'"] > 0.5
        for text, share, low, high, rank, last in rows:
            assert share is not None and low is not None and high is not None
            assert low - 0.01 <= true[text] <= high + 0.01 and low <= share <= high  # divided by what was released
            assert rank <= 1 + sum(one > true[text] + 1e-9 for one in true.values()) <= last
            assert high - low < 0.25
        assert max(rows, key=lambda row: row[1] or 0)[0] in ("kind = 'x'", "paid = true")
    with no_charge(cluster):
        rows = explained(alice, f"'{{a,c,b}}', weights => '{{2,-1,-1}}', {more}")
        assert len(rows) == 7 and all(low <= share <= high for _, share, low, high, *_ in rows)  # type: ignore[operator]
        facts = one(alice, "SELECT facts -> 'explain' FROM dp.last_answer")
    # 105 a row in three sets at rho 2: sigma = 105 sqrt(3 / 4)
    assert facts["deviation"] == pytest.approx(105 * 0.75**0.5, rel=1e-3)
    assert (facts["numbers"], facts["sets"]) == (2 * 3 * 8, 3)


def test_averages_that_may_be_equal_have_no_shares(cluster: Cluster, alice: Connection) -> None:
    """Those of b and c are."""
    call = f"'b', 'c', aggregate => 3, k => 2, {CELLS}, anyway => true, attributes => '{{kind,paid}}'"
    assert all(row[1:4] == (None, None, None) and row[4] <= row[5] for row in explained(alice, call))


def test_users(cluster: Cluster) -> None:
    """Six rows of a user at most are looked at: of 10."""
    with cluster.connect("alice") as conn:
        grouped(conn, "bought")
        rows = explained(conn, f"'b', 'a', k => 1, method => 'cells', rho => 5, {SURE}")
        assert rows[0][0] == "kind = 'x'"
        plan = one(conn, "SELECT facts -> 'explain' FROM dp.last_answer")
        # six rows in two sets at rho 5, all in one cell: sigma = sqrt(2 * 36 / 10)
        assert plan["deviation"] == pytest.approx((2 * 36 / 10) ** 0.5, rel=1e-3)
        with no_charge(cluster):
            assert len(explained(conn, "'b', 'a', k => 3, method => 'cells', rho => 5")) == 3


def test_what_others_are_shown_of_it(cluster: Cluster, alice: Connection) -> None:
    """The release is shown to whom it was served, and not whose difference its payer asked about."""
    explained(alice, f"'a', 'c', k => 3, {CELLS}, attributes => '{{paid}}'")
    request = one(alice, "SELECT request_id FROM dp.last_answer")
    with cluster.connect("bob") as bob:
        grouped(bob)
        explained(bob, f"'b', 'c', k => 2, {CELLS}, attributes => '{{paid}}'")
        assert one(bob, "SELECT request_id FROM dp.last_answer") == request
        told = one(bob, f"SELECT dp.dp_shown('{request}')")
    assert told["explain"] is None
    assert told["facts"]["explain"] == one(alice, "SELECT facts -> 'explain' FROM dp.last_answer")
    assert {"groups", "weights", "k"} & set(told["facts"]["explain"]) == {"groups"}
    assert told["facts"]["explain"]["groups"] == 3


def test_auto_takes_what_is_nearer(cluster: Cluster, alice: Connection) -> None:
    """By public facts: many picks share one_shot's price, many sets that of cells. dp_plan says what was compared."""

    def plan(call: str, pair: str = "'a', 'c'") -> Any:
        request = f"dp.dp_explain_difference_request({pair}, method => 'auto', {call})"
        return one(alice, f"SELECT dp.dp_plan({request})")

    few = plan("k => 1, rho => 0.5, l => 2, up_to => true, attributes => '{kind,age,paid,price}'")
    many = plan(f"k => 10, rho => 0.5, {FEW}")
    assert few["methods"]["cells"] > few["methods"]["one_shot"] and "method" not in few["explain"]
    assert many["methods"]["cells"] < many["methods"]["one_shot"] and many["explain"]["method"] == "cells"
    assert few["methods"]["ranks"].keys() == many["methods"]["ranks"].keys() == {"cells", "one_shot"}
    assert "ranks are told of shares" in many["text"] and "shares to" in many["text"]
    assert (few["methods"]["taken"], many["methods"]["taken"]) == ("one_shot", "cells")
    assert "auto took one_shot" in few["text"] and "auto took cells" in many["text"]
    assert many["charge"]["worst"] == {"rho": "0.5"}
    alike = plan(f"k => 1, rho => 0.5, aggregate => 3, anyway => true, {SURE}, {FEW}", "'b', 'c'")  # equal averages
    assert "ranks are told of influences" in alike["text"] and "shares to" not in alike["text"]
    ranks = alike["methods"]["ranks"]
    assert alike["methods"]["taken"] == "cells" and ranks["cells"] < ranks["one_shot"]
    said = plan(f"k => 10, epsilon => 1, {FEW}")
    assert (
        said["methods"] == {"asked": "auto", "taken": "one_shot"}
        and "auto took one_shot: method 'cells' does not fit" in said["text"]
    )
    before = charges(cluster)
    explained(alice, f"'a', 'c', method => 'auto', k => 10, rho => 0.5, {FEW}")
    assert charges(cluster) == before + 1
    with no_charge(cluster):  # the same release as if it had been asked for by name
        explained(alice, f"'b', 'c', method => 'cells', k => 3, rho => 0.5, {FEW}")
        assert plan(f"k => 10, rho => 0.5, {FEW}", "'b', 'c'")["path"] == "cache"


def test_the_notice_says_what_is_free(cluster: Cluster, alice: Connection) -> None:
    request = f"dp.dp_explain_difference_request('a', 'c', k => 4, {CELLS}, {FEW})"
    text = one(alice, f"SELECT dp.dp_plan({request}) ->> 'text'")
    for words in ("4 of 11 predicates", "for all pairs of 3 groups at once", "are free while rho", "no cause"):
        assert words in text, text


REFUSED = [
    ("'{a,c}', expression => 'o1 / o2', rho => 1, anyway => true", "DP003", "weights, not for expressions"),
    ("'a', 'c', rho => 1, k => 1, predicates => '{age > 40}'", "DP003", "not for predicates"),
    ("'a', 'c', rho => 1, options => '{\"joint\": true}'", "DP003", "options are of method 'one_shot'"),
    ("'a', 'c', epsilon => 1", "DP005", "takes rho"),
    ("'a', 'c', source => 'paid'", "DP003", "source 'paid' looks at no row"),
    ("'a', 'c', rho => 1, l => 2, attributes => '{kind,age,paid,id,price}'", "DP004", "id"),
    ("'a', 'c', rho => 1, k => 99, attributes => '{kind}'", "DP005", "k is at most 4"),
    ("'c', 'a', rho => 1", "DP005", "Exchange the names"),
]


@pytest.mark.parametrize(("call", "sqlstate", "words"), REFUSED, ids=[call[:60] for call, *_ in REFUSED])
def test_refusals(cluster: Cluster, alice: Connection, call: str, sqlstate: str, words: str) -> None:
    with no_charge(cluster), refused(sqlstate, words):
        explained(alice, f"{call}, method => 'cells'")


def test_other_refusals(cluster: Cluster, alice: Connection) -> None:
    """A method that there is not; a pure dataset, on which Gaussian noise has no price, and auto takes one_shot."""
    with no_charge(cluster), refused("DP005", "there is no method 'best'"):
        explained(alice, "'a', 'c', rho => 1, method => 'best'")
    with cluster.connect("alice") as conn:
        grouped(conn, "pure", "epsilon => 30")
        for budget in ("rho => 1", "epsilon => 1"):
            with no_charge(cluster), refused("DP005", "accountant is 'pure'"):
                explained(conn, f"'a', 'c', method => 'cells', {budget}")
        assert explained(conn, f"'a', 'c', k => 1, method => 'auto', epsilon => 30, {FEW}")


RUNS = 25


@pytest.mark.chance(fix_chance.binomial(RUNS, 0.5, 0, 23))
def test_half_of_the_releases_hold_everything_at_least(cluster: Cluster, alice: Connection) -> None:
    """At confidence 0.5, with so little rho that intervals matter: all predicates of a pair at once."""
    true = {}
    held = 0
    for _ in range(RUNS):
        call = "'a', 'c', k => 11, rho => 0.01, method => 'cells', confidence => 0.5, fresh => true"
        rows = explained(alice, f"{call}, {FEW}")
        true = true or {text: truth(cluster, text, "ac") for text, *_ in rows}
        held += all(low <= true[text] <= high for text, _, low, high, *_ in rows)  # type: ignore[operator]
    assert held >= RUNS - 23
