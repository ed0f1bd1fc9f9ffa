"""dp_explain_difference(source => 'paid') as installed: from other answers of the asker, free (dpxplain.md §0)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import no_charge, one, refused

Connection = psycopg.Connection[Any]
Row = tuple[str, float | None, float | None, float | None, int, int]

# 3,000 sales: of shop a, and there alone, those of kind x cost 90 in place of 10, and half of its rows are of kind x.
SALES = """
CREATE TABLE sale (id int PRIMARY KEY, shop text, kind text, age int, price int, paid boolean);
INSERT INTO sale SELECT i, (ARRAY['a','b','c'])[1 + i % 3],
  CASE WHEN i % 3 = 0 THEN (ARRAY['x','y'])[1 + i % 2] ELSE (ARRAY['x','y','y','y',NULL])[1 + i % 5] END,
  15 + i % 40, CASE WHEN i % 3 = 0 AND i % 2 = 0 THEN 90 ELSE 10 END, i % 2 = 0 FROM generate_series(1, 3000) i;
DELETE FROM sale WHERE shop = 'b' AND id % 4 = 1;
CALL dp.create_dataset('sale', unit => 'row', epsilon => 1000, default_epsilon => 20);
CALL dp.protect('sale', 'sale', max_rows => 10000);
CALL dp.describe_column('sale', 'shop', domain => '{a,b,c}', nullable => false);
CALL dp.describe_column('sale', 'kind', domain => '{x,y}');
CALL dp.describe_column('sale', 'age', edges => '{10,20,40,60}', nullable => false);
CALL dp.describe_column('sale', 'price', bounds => '{0,100}', nullable => false);
CALL dp.describe_column('sale', 'paid', nullable => false);
CALL dp.publish('sale'); CALL dp.allot('alice', 'sale', epsilon => 900); CALL dp.allot('bob', 'sale', epsilon => 100);
CREATE TABLE buyer (id int PRIMARY KEY);
CREATE TABLE bought (id int PRIMARY KEY, buyer_id int REFERENCES buyer, shop text, kind text);
INSERT INTO buyer SELECT i FROM generate_series(1, 400) i;
INSERT INTO bought SELECT i, 1 + i % 400, CASE WHEN i % 3 = 0 THEN 'a' ELSE 'b' END,
  CASE WHEN i % 3 <> 0 AND i % 2 = 0 THEN 'x' ELSE 'y' END FROM generate_series(1, 2400) i;
CALL dp.create_dataset('bazaar', unit => 'user', epsilon => 500, accountant => 'renyi', delta => 1e-6);
CALL dp.protect('buyer', 'bazaar', unit_column => 'id', max_rows_per_unit => 1);
CALL dp.protect('bought', 'bazaar', unit_column => 'buyer_id', max_rows_per_unit => 6, max_rows => 10000);
CALL dp.describe_column('bought', 'shop', domain => '{a,b}', nullable => false);
CALL dp.describe_column('bought', 'kind', domain => '{x,y,z}', nullable => false);
CALL dp.publish('bought'); CALL dp.allot('alice', 'bazaar', epsilon => 500);
CREATE TABLE ballots (state int, party text);
INSERT INTO ballots SELECT i % 20 / 10, CASE WHEN i % 20 < 10 AND i % 10 < 8 THEN 'red' ELSE 'blue' END
  FROM generate_series(1, 20000) i;
CALL dp.create_dataset('ballots', epsilon => 100);
CALL dp.protect('ballots', 'ballots', scale => 20000);
CALL dp.describe_column('ballots', 'state', bounds => '{0,1}', nullable => false);
CALL dp.describe_column('ballots', 'party', domain => '{red,blue}', nullable => false);
CALL dp.publish('ballots'); CALL dp.allot('alice', 'ballots', epsilon => 50);
CALL dp.enable_turbo('ballots', '{state,party}', 0.05, 0.001);
"""
BOTH = "{sum(price),count(price),count(*)}"
PAIR = "'a', 'b', source => 'paid'"
# Of a test: thirty explanations that hold at SURE, and Turbo's bars.
SURE = "confidence => 0.999999"
pytestmark = pytest.mark.chance(fix_chance.union(30 * 1e-9, fix_chance.beyond(26, 200), fix_chance.accuracy(3, 10)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(SALES, user="boss")
        yield running


def grouped(conn: Connection, keys: str, aggregates: str = BOTH, more: str = "") -> str:
    """A grouped answer's id; it is the last release then."""
    call = f"dp.dp_group_by('sale', '{{{keys}}}', '{aggregates}'{more}, epsilon => 30)"
    conn.execute(f"SELECT * FROM {call}")
    return str(one(conn, "SELECT request_id FROM dp.last_answer"))


@pytest.fixture(scope="module")
def paid(cluster: Cluster) -> dict[str, str]:
    """Alice's answers by shop and more; of another WHERE and of another aggregate too, which are not used."""
    with cluster.connect("alice") as alice:
        asked = {keys: grouped(alice, keys) for keys in ("shop,kind", "age,shop", "shop,kind,paid")}
        grouped(alice, "shop,age", more=", 'price > 5'")
        grouped(alice, "shop,price", "{avg(price)}")
    return asked


@pytest.fixture(scope="module")
def alice(cluster: Cluster, paid: dict[str, str]) -> Iterator[Connection]:
    """A session in which the groups to be compared are the last release."""
    with cluster.connect("alice") as connection:
        grouped(connection, "shop")
        yield connection


def explained(conn: Connection, call: str) -> list[Row]:
    return conn.execute(f"SELECT * FROM dp.dp_explain_difference({call})").fetchall()


def truth(cluster: Cluster, predicate: str, value: str = "price") -> float:
    """Share of the difference of a and b by plain SQL: its part, times the smaller rest, to the larger group and 1."""
    sql = (
        "SELECT sum({v}) FILTER (WHERE p), sum({v}), count(*) FILTER (WHERE p IS NOT TRUE), count(*)"
        " FROM (SELECT *, ({p}) AS p FROM sale WHERE shop = %s) s"
    )
    with cluster.connect() as root:
        rows = [root.execute(sql.format(v=value, p=predicate), (shop,)).fetchone() for shop in "ab"]
    (inside, whole, left, many), (inside2, whole2, left2, many2) = [[int(n or 0) for n in row or ()] for row in rows]
    moved = (inside - inside2) * min(left, left2) / (max(many, many2) + 1)
    return moved / (whole - whole2)


def test_shares_hold_the_true_ones_and_cost_nothing(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster):
        rows = explained(alice, f"{PAIR}, k => 8, {SURE}")
    facts = one(alice, "SELECT facts -> 'explain' FROM dp.last_answer")
    kinds = ["kind = 'x'", "kind = 'y'", "kind IS NULL"]
    ages = ["age >= 10 AND age < 20", "age >= 20 AND age < 40", "age >= 40 AND age < 60"]
    assert {row[0] for row in rows} == {*kinds, *ages, "paid = false", "paid = true"}
    for text, share, low, high, rank_low, rank_high in rows:
        assert low is not None and high is not None and share is not None
        assert low <= share <= high and high - low < 0.05
        assert low <= truth(cluster, text) <= high, text
        better = sum(truth(cluster, other[0]) > truth(cluster, text) for other in rows)
        assert rank_low <= 1 + better <= rank_high
    assert (facts["predicates"], facts["attributes"], facts["left_out"]) == (8, ["age", "kind", "paid"], [])
    assert one(alice, "SELECT path FROM dp.last_answer") == "stored release"


def test_pairs_are_of_keys_of_one_answer(cluster: Cluster, alice: Connection, paid: dict[str, str]) -> None:
    rows = explained(alice, f"{PAIR}, l => 2, k => 6, {SURE}")
    assert rows[0][0] == "kind = 'x' AND paid = true"
    for text, _, low, high, *_ in rows:
        assert low is not None and high is not None and low <= truth(cluster, text) <= high, text
    assert paid["shop,kind,paid"] in one(alice, "SELECT facts -> 'explain' ->> 'sources' FROM dp.last_answer")
    every = explained(alice, f"{PAIR}, l => 2, up_to => true, k => 14")
    assert sorted(" AND paid" in row[0] for row in every) == [False] * 8 + [True] * 6


def test_counts_and_weights(cluster: Cluster, alice: Connection) -> None:
    call = f"{PAIR}, aggregate => 3, k => 2, attributes => '{{kind}}', {SURE}"
    for text, _, low, high, *_ in explained(alice, call):
        assert low is not None and high is not None and low <= truth(cluster, text, "1") <= high, text
    weighted = "ARRAY['a','b','c'], ARRAY[1,-0.5,-0.5], source => 'paid'"
    assert explained(alice, f"{weighted}, k => 1, attributes => '{{kind}}'")[0][0] == "kind = 'x'"
    narrow = explained(alice, f"{PAIR}, k => 1, attributes => '{{kind}}', simultaneous => false")[0]
    wide = explained(alice, f"{PAIR}, k => 1, attributes => '{{kind}}'")[0]
    assert narrow[1] == wide[1] and narrow[3] < wide[3]  # type: ignore[operator]


def test_what_is_left_out_is_not_tried(alice: Connection) -> None:
    rows = explained(alice, f"{PAIR}, k => 5, leave_out => '{{kind}}'")
    assert not any("kind" in row[0] for row in rows)
    assert "kind" not in one(alice, "SELECT facts -> 'explain' ->> 'left_out' FROM dp.last_answer")


def test_it_is_said_what_it_is_from(alice: Connection, paid: dict[str, str]) -> None:
    """EXPLAIN's and dp_plan's facts are the answer's."""
    call = f"{PAIR}, k => 2, attributes => '{{kind}}'"
    plan = one(alice, f"SELECT dp.dp_plan(dp.dp_explain_difference_request({call}))")
    assert plan["charge"] == {"best": {}, "worst": {}} and plan["path"] == "stored release"
    rows = explained(alice, call)
    facts = one(alice, "SELECT facts -> 'explain' FROM dp.last_answer")
    assert facts == plan["explain"]
    assert set(facts["sources"]) == {paid["shop,kind"], paid["shop,kind,paid"]}
    wide = max((row[3] - row[2]) / 2 for row in rows)  # type: ignore[operator]
    assert facts["half_width"] == pytest.approx(wide, rel=1e-3)


REFUSED = [
    (f"{PAIR}, k => 9", "DP005", "k is at most 8"),
    (f"{PAIR}, attributes => '{{price}}'", "DP005", "nothing that you were given tells about price"),
    (f"{PAIR}, l => 3", "DP005", "has 3 of age, kind, paid as keys together"),
    (f"{PAIR}, l => 4", "DP005", "between 1 and 3"),
    (f"{PAIR}, options => '{{}}'", "DP003", "options is about rows"),
    (f"{PAIR}, predicates => '{{age > 40}}'", "DP003", "predicates is about rows"),
    (f"{PAIR}, attributes => '{{nobody}}'", "42703", "nobody"),
    ("'b', 'a', source => 'paid'", "DP005", "Exchange the names"),
    ("'a', 'b', source => 'free'", "DP005", "source is 'data' or 'paid'"),
    (f"{PAIR}, confidence => 0.99999999", "DP005", "too many for this confidence"),
]


@pytest.mark.parametrize(("call", "sqlstate", "words"), REFUSED, ids=[call[:50] for call, *_ in REFUSED])
def test_refusals(cluster: Cluster, alice: Connection, call: str, sqlstate: str, words: str) -> None:
    with no_charge(cluster), refused(sqlstate, words):
        explained(alice, call)


def test_averages_and_sums_alone(cluster: Cluster) -> None:
    """Averages are no sums of released numbers; of a sum without a count nobody knows of how many rows it is."""
    with cluster.connect("alice") as alice:
        grouped(alice, "shop", "{avg(price),sum(price)}")
        with no_charge(cluster), refused("DP003", "averages are explained from rows"):
            explained(alice, PAIR)
        with no_charge(cluster), refused("DP003", "count(price)"):
            explained(alice, f"{PAIR}, aggregate => 2")


def test_anothers_answers_tell_nothing(cluster: Cluster, paid: dict[str, str]) -> None:
    """Bob has the groups, and none of what alice paid for until he asks it himself, which is free then."""
    with cluster.connect("bob") as bob:
        grouped(bob, "shop")
        with no_charge(cluster), refused("DP005", "nothing that you were given tells"):
            explained(bob, PAIR)
        with no_charge(cluster):
            grouped(bob, "shop,kind")
            grouped(bob, "shop")
            assert explained(bob, f"{PAIR}, k => 1")[0][0] == "kind = 'x'"
            assert one(bob, "SELECT facts -> 'explain' -> 'sources' FROM dp.last_answer") == [paid["shop,kind"]]


def test_expressions_as_keys(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice:
        grouped(alice, "shop,price / 50", "{count(*)}", more=", 'age < 50'")
        grouped(alice, "shop", "{count(*)}", more=", 'age < 50'")
        rows = explained(alice, "'a', 'b', source => 'paid', k => 2, anyway => true")
        for text, *_ in rows:
            with cluster.connect() as root:
                assert one(root, f"SELECT count(*) FROM sale WHERE {text}") > 0


def test_users_and_gaussian_noise(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice:
        for keys in ("shop,kind", "shop"):
            alice.execute(f"SELECT * FROM dp.dp_group_by('bought', '{{{keys}}}', '{{count(*)}}', rho => 5)")
        rows = explained(alice, "'b', 'a', source => 'paid', k => 1")
        assert rows[0][0] == "kind = 'x'"
        assert rows[0][4:] == (1, 1)


def test_turbo_bars(cluster: Cluster) -> None:
    """What a Turbo view told is used with its bars: they miss so seldom that .95 is left for them."""
    with cluster.connect("alice") as alice:
        for keys in ("state,party", "state"):
            request = f"dp.dp_group_by_request('ballots', '{{{keys}}}', '{{count(*)}}', alpha => 0.05, beta => 0.001)"
            alice.execute(f"""SELECT dp.dp_query({request} || '{{"bars": true}}')""")
        rows = explained(alice, "'0', '1', source => 'paid', k => 1, anyway => true")
        assert rows[0][0] == "party = 'red'"
        with no_charge(cluster), refused("DP005", "hold too seldom"):
            explained(alice, "'0', '1', source => 'paid', anyway => true, confidence => 0.996")


def test_what_is_added_up_is_limited(cluster: Cluster) -> None:
    """Pairs of four keys are found; more predicates than hold at once with such a confidence are refused."""
    with cluster.connect("alice") as conn:
        keys = "age,kind,paid,price"  # 3 * 3 * 2 * 101 groups of each shop
        grouped(conn, f"shop,{keys}", "{count(*)}", more=", 'price > 1'")
        grouped(conn, "shop", "{count(*)}", more=", 'price > 1'")
        call = "'a', 'b', source => 'paid', anyway => true, k => 1"
        assert explained(conn, f"{call}, l => 2")[0][0]
        with no_charge(cluster), refused("DP005", "1 answers"):
            explained(conn, f"{call}, l => 4, up_to => true, confidence => 0.9999999")
