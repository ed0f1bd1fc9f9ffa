"""dp_explain_difference as installed, in direct sessions: what it finds, costs and refuses (dpxplain.md §6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, no_charge, one, refused, spent

Connection = psycopg.Connection[Any]
Row = tuple[str, float | None, float | None, float | None, int, int]

# 3,000 people: in Sales, and only there, who has an MSc earns 900 in place of 300; of every type that has a domain.
STAFF = """
CREATE TYPE grade AS ENUM ('junior', 'senior', 'lead');
CREATE TABLE staff (id int PRIMARY KEY, occupation text, degree text, sex char(2), age int, remote boolean,
  grade grade, rating numeric(4,2), hired date, shift time, load float8, income numeric(8,2), note text, floor int);
INSERT INTO staff SELECT i, (ARRAY['Sales','Tech','Law'])[1 + i % 3], (ARRAY['BSc','MSc','PhD',NULL])[1 + i % 4],
  (ARRAY['f','m'])[1 + i % 2], 15 + i % 70, (ARRAY[true,false,NULL])[1 + i % 3 * (i % 5) % 3],
  (ARRAY['junior','senior','lead',NULL]::grade[])[1 + i % 4], (ARRAY[0, 1.25, 4.99, 5, 9.5, 'NaN', NULL])[1 + i % 7],
  (ARRAY[date '2019-12-31' + i % 40, 'infinity', NULL])[1 + (i % 11) / 5],
  (ARRAY[time '08:00', '09:29:59.5', '24:00', '17:00', NULL])[1 + i % 5],
  (ARRAY[-0.0, 0.5, 99.5, 'NaN', 'Infinity', NULL]::float8[])[1 + i % 6],
  CASE WHEN i % 100 = 99 THEN NULL WHEN i % 3 = 0 AND i % 4 = 1 THEN 900 ELSE 300 END + i % 7,
  E'it''s "so\\\\"', i % 3 FROM generate_series(1, 3000) i;
"""
POLICY = """
CALL dp.create_dataset('staff', unit => 'row', epsilon => 1000, default_epsilon => 20);
CALL dp.protect('staff', 'staff', max_rows => 10000);
CALL dp.describe_column('staff', 'occupation', domain => '{Sales,Tech,Law}', nullable => false);
CALL dp.describe_column('staff', 'degree', domain => '{BSc,MSc}');
CALL dp.describe_column('staff', 'sex', domain => '{f,m,x}', nullable => false);
CALL dp.describe_column('staff', 'age', edges => '{20,30,40,60}', nullable => false);
CALL dp.describe_column('staff', 'remote');
CALL dp.describe_column('staff', 'grade');
CALL dp.describe_column('staff', 'rating', bounds => '{0,9}', resolution => '2.5');
CALL dp.describe_column('staff', 'hired', bounds => '{2020-01-01,2020-01-20}', resolution => '7 days');
CALL dp.describe_column('staff', 'shift', bounds => '{08:00,18:00}', resolution => '01:30');
CALL dp.describe_column('staff', 'load', edges => '{0,1,100}');
CALL dp.describe_column('staff', 'income', bounds => '{0,1000}', resolution => '0.01');
CALL dp.describe_column('staff', 'note', domain => ARRAY[E'it''s "so\\\\"', 'x']);
CALL dp.describe_column('staff', 'floor', bounds => '{0,3}', nullable => false);
CALL dp.publish('staff'); CALL dp.allot('alice', 'staff', epsilon => 1000);
CALL dp.allot('bob', 'staff', epsilon => 100);
"""
# The same rows; how many there may be is not declared, so that all cells could be too many to be read.
MANY = POLICY.replace("'staff'", "'many'").replace(", max_rows => 10000", "")
# How many values each has: declared ones, NULL, and others.
SIZES = {
    "degree": 4,
    "sex": 4,
    "age": 4,
    "remote": 3,
    "grade": 4,
    "rating": 6,
    "hired": 5,
    "shift": 9,
    "load": 4,
    "note": 4,
}
SIZES["floor"] = 5
COLUMNS = list(SIZES)
GROUPS = "SELECT * FROM dp.dp_group_by('staff', '{occupation}', '{count(*),avg(income),sum(income)}', epsilon => 30)"
SALES = "'Sales', 'Tech'"
FEW = "attributes => '{degree,sex,age,remote}'"
SURE = "confidence => 0.999999999"
# Of a test: sixty intervals at SURE, and differences and scores that are 26 scales of the noise apart, or further.
pytestmark = pytest.mark.chance(fix_chance.union(60 * 1e-9, fix_chance.beyond(26, 100)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(STAFF + POLICY, user="boss")
        running.psql("CREATE TABLE many (LIKE staff); INSERT INTO many SELECT * FROM staff;" + MANY, user="boss")
        yield running


@pytest.fixture(scope="module")
def release(cluster: Cluster) -> str:
    """One grouped answer of alice's, which all tests explain."""
    with cluster.connect("alice") as connection:
        connection.execute(GROUPS)
        return str(one(connection, "SELECT request_id FROM dp.last_answer"))


@pytest.fixture
def alice(cluster: Cluster, release: str) -> Iterator[Connection]:
    """A session in which the release is the last one."""
    with cluster.connect("alice") as connection:
        connection.execute(GROUPS)
        yield connection


@pytest.fixture(scope="module")
def asking(cluster: Cluster, release: str) -> Iterator[Connection]:
    """One such session for all questions that leave nothing behind."""
    with cluster.connect("alice") as connection:
        connection.execute(GROUPS)
        yield connection


def explained(conn: Connection, call: str) -> list[Row]:
    return conn.execute(f"SELECT * FROM dp.dp_explain_difference({call})").fetchall()


def truth(cluster: Cluster, predicate: str) -> float:
    """The share of the difference of averages by plain SQL: influence / (smallest group * difference)."""
    parts = {}
    with cluster.connect() as root:
        for group in ("Sales", "Tech"):
            sql = (
                "SELECT count(income), avg(income), count(income) FILTER (WHERE NOT coalesce(p, false)),"
                f" avg(income) FILTER (WHERE NOT coalesce(p, false)) FROM (SELECT *, ({predicate}) AS p FROM staff) s"
                " WHERE occupation = %s"
            )
            parts[group] = root.execute(sql, (group,)).fetchone()
    (n, a, b, c), (n2, a2, b2, c2) = parts["Sales"], parts["Tech"]
    return float(min(b, b2) * ((a - a2) - (c - c2)) / (min(n, n2) * (a - a2))) if b and b2 else 0.0


def test_what_makes_the_difference(cluster: Cluster, alice: Connection) -> None:
    """Who has an MSc; with two values, men among them, because every MSc is a man here. Shares hold the true ones."""
    rows = explained(alice, f"{SALES}, aggregate => 2, k => 1, epsilon => 30, {SURE}, {FEW}")
    assert [row[0] for row in rows] == ["degree = 'MSc'"]
    for _, share, low, high, rank_low, rank_high in rows:
        assert low is not None and high is not None and share is not None
        assert low < truth(cluster, "degree = 'MSc'") < high
        assert low < share < high
        assert 1 == rank_low <= rank_high <= 15
    both = explained(
        alice, f"{SALES}, aggregate => 2, k => 1, l => 2, epsilon => 30, attributes => '{{degree,sex,age}}'"
    )
    assert both[0][0] == "degree = 'MSc' AND sex = 'm'"


def test_sums_and_weights(cluster: Cluster, alice: Connection) -> None:
    rows = explained(alice, f"{SALES}, aggregate => 3, k => 1, epsilon => 30, {FEW}")
    assert rows[0][0] == "degree = 'MSc'"
    call = "'{Sales,Tech,Law}', weights => '{1,-0.5,-0.5}', aggregate => 2"
    assert explained(alice, f"{call}, k => 1, epsilon => 30, {FEW}")[0][0] == "degree = 'MSc'"
    one_group = "'{Sales}', weights => '{1}', constant => 400, aggregate => 2"
    assert explained(alice, f"{one_group}, k => 1, epsilon => 30, {FEW}")[0][0] == "degree = 'MSc'"


def test_every_value_is_one_predicate(cluster: Cluster, alice: Connection) -> None:
    """Each row satisfies exactly one condition of every column, pasted into WHERE as it is shown, whatever its type."""
    rows = explained(alice, f"{SALES}, aggregate => 2, k => 52, epsilon => 20")
    assert one(alice, "SELECT facts -> 'explain' ->> 'predicates' FROM dp.last_answer") == "52"
    found = dict.fromkeys(COLUMNS, 0)
    with cluster.connect() as root:
        for text, *_ in rows:
            column = text.lstrip("(").split(" ")[0]
            found[column] += one(root, f"SELECT count(*) FROM staff WHERE {text}")
    assert found == dict.fromkeys(COLUMNS, 3000)


@pytest.mark.parametrize(("column", "size"), SIZES.items())
def test_predicates_count_what_they_say(cluster: Cluster, asking: Connection, column: str, size: int) -> None:
    """All predicates of one column: each share holds what plain SQL gives for the condition as it is shown."""
    asked = f"k => {size}, epsilon => 40, {SURE}, attributes => '{{{column}}}'"
    rows = explained(asking, f"{SALES}, aggregate => 2, {asked}, options => '{{\"split\": [0.01, 1, 0.01]}}'")
    assert len({row[0] for row in rows}) == len(rows) == size
    for text, share, low, high, *_ in rows:
        assert share is not None and low is not None and high is not None
        assert low <= truth(cluster, text) <= high, text
        assert high - low < 0.15


def test_several_keys_with_null(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice:
        keys = "'staff', '{occupation,degree}', '{avg(income)}', 'age >= 20', epsilon => 50"
        alice.execute(f"SELECT * FROM dp.dp_group_by({keys})")
        rows = explained(alice, "ARRAY['Sales','MSc'], ARRAY['Sales',NULL], k => 2, epsilon => 30")
        facts = one(alice, "SELECT facts -> 'explain' FROM dp.last_answer")
        assert len(rows) == 2
        assert facts["groups"] == [["Sales", "MSc"], ["Sales", None]]
        assert facts["attributes"] == [name for name in COLUMNS if name != "degree"]


def test_columns_that_are_not_tried(cluster: Cluster) -> None:
    """Those of the keys, of the measure, of its FILTER, and what WHERE fixes."""
    with cluster.connect("alice") as alice:
        aggregate = "sum(floor) FILTER (WHERE age >= 30)"
        where = "degree = ''BSc'' AND note IN (''x'', ''y'') AND sex = ''f''"
        alice.execute(
            f"SELECT * FROM dp.dp_group_by('staff', '{{occupation}}', '{{{aggregate}}}', '{where}', epsilon => 2)"
        )
        explained(alice, "'{Sales,Tech}', weights => '{1,-1}', constant => -1e6, epsilon => 1")
        facts = one(alice, "SELECT facts -> 'explain' FROM dp.last_answer")
    assert facts["attributes"] == [name for name in COLUMNS if name not in ("floor", "age", "degree", "sex")]
    assert facts["left_out"] == ["income"]


def test_it_is_paid_once(cluster: Cluster, alice: Connection) -> None:
    """The price is what was asked for, to the last digit; the same again is the stored answer; fresh pays again."""
    call = f"{SALES}, aggregate => 2, k => 3, epsilon => 7.3, {FEW}"
    before = spent(cluster, "staff")
    rows = explained(alice, call)
    assert spent(cluster, "staff") - before == Decimal("7.3")
    with no_charge(cluster):
        assert explained(alice, call) == rows
    explained(alice, f"{call}, fresh => true")
    assert spent(cluster, "staff") - before == Decimal("14.6")
    balanced(cluster)


def test_what_cannot_tell_anything_is_said(cluster: Cluster, alice: Connection) -> None:
    """Beforehand: of the named columns those that the groups or WHERE fix, and no others."""
    women = "predicate => 'sex = ''f'' AND age > 30', epsilon => 30"
    alice.execute(f"SELECT * FROM dp.dp_group_by('staff', '{{occupation}}', '{{count(*)}}', {women})")
    for named, idle in (("occupation,degree,age,sex", "occupation, sex"), ("degree,age", None)):
        call = f"{SALES}, anyway => true, epsilon => 4, attributes => '{{{named}}}'"
        with no_charge(cluster):
            plan = one(alice, f"SELECT dp.dp_plan(dp.dp_explain_difference_request({call}))")
        words = "without influence, because groups or WHERE fix their values: "
        said = [text.removeprefix(words) for text in plan["warnings"] if text.startswith(words)]
        assert said == ([] if idle is None else [idle])
        assert all(words + text in plan["text"] for text in said)


def test_what_is_said(cluster: Cluster, alice: Connection) -> None:
    """Beforehand by dp_plan, and after: what it costs, of how many predicates, how near; not causal."""
    call = f"{SALES}, aggregate => 2, k => 3, epsilon => 4, {FEW}"
    with no_charge(cluster):
        plan = one(alice, f"SELECT dp.dp_plan(dp.dp_explain_difference_request({call}))")
    facts = plan["explain"]
    assert (facts["verdict"], facts["predicates"], facts["k"], facts["l"]) == ("yes", 15, 3, 1)
    assert facts["split"] == {
        "predicates": ["0.333333333333333333", 3],
        "influences": "1",
        "ranks": "2.000000000000000001",
    }
    assert plan["charge"] == {"best": {"epsilon": "4"}, "worst": {"epsilon": "4"}}
    rows = explained(alice, call)
    told = one(alice, "SELECT facts -> 'explain' FROM dp.last_answer")
    assert told == facts
    for _, _, low, high, *_ in rows:
        assert low is not None and high is not None
        assert (high - low) / 2 == pytest.approx(facts["half_width"], rel=1e-3)


def test_it_can_be_shown_again(alice: Connection) -> None:
    rows = explained(alice, f"{SALES}, aggregate => 2, k => 2, epsilon => 3, {FEW}")
    shown = one(alice, "SELECT dp.dp_shown(request_id) FROM dp.last_answer")
    assert [tuple(row[:1] + row[4:]) for row in shown["explain"]["rows"]] == [(r[0], r[4], r[5]) for r in rows]
    question = one(alice, "SELECT question FROM dp.spending ORDER BY at DESC LIMIT 1")
    assert question.startswith("dp_explain_difference(explain => ")


def test_a_difference_that_may_be_noise(cluster: Cluster, alice: Connection) -> None:
    """As many rows in both: refused, and with anyway without shares."""
    with no_charge(cluster), refused("DP005", "anyway => true"):
        explained(alice, f"{SALES}, epsilon => 5, {FEW}")
    rows = explained(alice, f"{SALES}, epsilon => 5, k => 4, anyway => true, {FEW}")
    assert [row[1:4] for row in rows] == [(None, None, None)] * 4
    assert all(1 <= row[4] <= row[5] <= 15 for row in rows)


REFUSED = [
    ("'Tech', 'Sales', aggregate => 2", "DP005", "Exchange the names"),
    ("'Tech', 'Sales', aggregate => 2, anyway => true", "DP005", "Exchange the names"),
    (f"{SALES}, aggregate => 2, k => 16, {FEW}", "DP005", "k is at most 15"),
    (f"{SALES}, aggregate => 2, k => 0", "DP005", "between 1 and 100"),
    (f"{SALES}, aggregate => 2, k => 101", "DP005", "between 1 and 100"),
    (f"{SALES}, aggregate => 2, l => 0", "DP005", "between 1 and 64"),
    (f"{SALES}, aggregate => 2, l => 5, {FEW}", "DP005", "4 columns may be tested"),
    (f"{SALES}, aggregate => 2, l => 7", "DP005", "predicates, more than 1000000"),
    (f"{SALES}, aggregate => 2, attributes => '{{id}}'", "DP004", "dp.describe_column"),
    (f"{SALES}, aggregate => 2, attributes => '{{nobody}}'", "42703", "nobody"),
    (f"{SALES}, aggregate => 2, attributes => '{{age,age}}'", "DP005", "twice"),
    (f"{SALES}, aggregate => 2, attributes => '{{age + 1}}'", "DP003", "names of columns"),
    (f"{SALES}, aggregate => 2, attributes => ARRAY['(SELECT age FROM staff)']", "DP003", "names of columns"),
    (f"{SALES}, aggregate => 2, attributes => '{{Marital Status}}'", "DP003", "quoted as in SQL"),
    (f"{SALES}, aggregate => 2, leave_out => '{{NULL}}'", "DP003", "quoted as in SQL"),
    (f"{SALES}, aggregate => 2, attributes => '{{income}}'", "DP005", "leave_out"),
    (f"{SALES}, aggregate => 2, attributes => '{{}}'", "DP005", "no column may be tested"),
    (f"{SALES}, aggregate => 2, leave_out => '{{nobody}}'", "42703", "nobody"),
    (f"{SALES}, aggregate => 4", "DP005", "3 aggregates"),
    (f"{SALES}, aggregate => 2, options => '{{\"split\": [1, 1]}}'", "DP005", "three numbers"),
    (f"{SALES}, aggregate => 2, options => '{{\"split\": [1, 0, 1]}}'", "DP005", "three numbers"),
    (f"{SALES}, aggregate => 2, options => '{{\"lower\": 1}}'", "DP005", "lower one between"),
    (f'{SALES}, aggregate => 2, options => \'{{"mode": "paper"}}\'', "DP005", "Options: joint, lower, split."),
    (f"{SALES}, aggregate => 2, options => '{{\"joint\": 1}}'", "DP003", "joint is true or false"),
    ("'Sales', 'Techh', aggregate => 2", "DP005", "Did you mean 'Tech'?"),
    (f"{SALES}, aggregate => 2, release => '00000000-0000-0000-0000-000000000000'", "42501", ""),
    (f"{SALES}, aggregate => 2, epsilon => 5000", "DP005", ""),
    (f"{SALES}, aggregate => 2, rho => 1, {FEW}", "DP005", "epsilon instead of rho"),
    (f"{SALES}, aggregate => 2, epsilon => 1e-18, {FEW}", "DP005", "too small"),
    ("'{Sales,Tech}', weights => '{1}'", "DP003", "weights"),
    (f"{SALES}, aggregate => 2, predicates => '{{age > 40}}', l => 2", "DP003", "predicates stand alone"),
    (f"{SALES}, aggregate => 2, predicates => '{{age > 40}}', {FEW}", "DP003", "predicates stand alone"),
    (f"{SALES}, aggregate => 2, predicates => '{{age > 40,age > 40}}'", "DP005", "names one twice"),
    (f"{SALES}, aggregate => 2, predicates => '{{}}'", "DP005", "predicates has 0 items"),
    (f"{SALES}, aggregate => 2, predicates => '{{age > 40}}', k => 2", "DP005", "k is at most 1"),
    (f"{SALES}, aggregate => 2, predicates => '{{1 / age > 0}}'", "DP003", ""),
    (f"{SALES}, aggregate => 2, predicates => ARRAY['EXISTS (SELECT FROM staff)']", "DP003", ""),
]


@pytest.mark.parametrize(("call", "sqlstate", "words"), REFUSED, ids=[call[:60] for call, *_ in REFUSED])
def test_refusals(cluster: Cluster, asking: Connection, call: str, sqlstate: str, words: str) -> None:
    with no_charge(cluster), refused(sqlstate, words):
        explained(asking, call)


@pytest.mark.parametrize("aggregate", ["median(age)", "stddev(income)"])
def test_what_no_rows_explain(cluster: Cluster, aggregate: str) -> None:
    with cluster.connect("alice") as alice:
        alice.execute("SELECT * FROM dp.dp_group_by('staff', '{occupation}', ARRAY[%s], epsilon => 2)", [aggregate])
        with no_charge(cluster), refused("DP003"):
            explained(alice, f"{SALES}, anyway => true")


def test_no_release_and_anothers(cluster: Cluster, release: str) -> None:
    """Bob asks the same and is served it, and then he may explain it, at his own expense."""
    with cluster.connect("bob") as bob:
        with no_charge(cluster), refused("DP005", "Run a GROUP BY first"):
            explained(bob, f"{SALES}, aggregate => 2")
        named = f"{SALES}, aggregate => 2, k => 1, epsilon => 20, release => '{release}', {FEW}"
        with no_charge(cluster), refused("42501"):
            explained(bob, named)
        with no_charge(cluster):
            bob.execute(GROUPS)
        before = spent(cluster, "staff", "bob")
        assert explained(bob, named)[0][0] == "degree = 'MSc'"
        assert spent(cluster, "staff", "bob") - before == 20


def test_groups_declared_otherwise_since(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice:
        alice.execute("SELECT * FROM dp.dp_group_by('staff', '{sex}', '{avg(income)}', epsilon => 30)")
        call = "'m', 'f', k => 1, epsilon => 5, attributes => '{degree}'"
        assert len(explained(alice, call)) == 1
        cluster.psql("CALL dp.describe_column('staff', 'sex', domain => '{f,m}', nullable => false)", user="boss")
        try:
            with no_charge(cluster), refused("DP006", "declared otherwise since"):
                explained(alice, call)
        finally:
            again = "CALL dp.describe_column('staff', 'sex', domain => '{f,m,x}', nullable => false)"
            cluster.psql(again, user="boss")


RENYI = """
CREATE TABLE visits (id int PRIMARY KEY, ward text, kind text, age int);
INSERT INTO visits SELECT i, CASE WHEN i <= 600 THEN 'a' ELSE 'b' END,
  CASE WHEN i % 2 = 0 OR i > 600 THEN 'x' ELSE 'y' END,
  CASE WHEN i <= 600 AND i % 2 = 1 THEN 90 ELSE 30 END FROM generate_series(1, 1200) i;
CALL dp.create_dataset('visits', unit => 'row', epsilon => 80, accountant => 'renyi', delta => 1e-6);
CALL dp.protect('visits', 'visits', max_rows => 10000);
CALL dp.describe_column('visits', 'ward', domain => '{a,b,c}', nullable => false);
CALL dp.describe_column('visits', 'kind', domain => '{x,y}', nullable => false);
CALL dp.describe_column('visits', 'age', bounds => '{0,100}', nullable => false);
CALL dp.publish('visits'); CALL dp.allot('alice', 'visits', epsilon => 80);
CREATE TABLE buyer (id int PRIMARY KEY);
CREATE TABLE bought (id int PRIMARY KEY, buyer_id int REFERENCES buyer, shop text, kind text, price int);
INSERT INTO buyer SELECT i FROM generate_series(1, 400) i;
INSERT INTO bought SELECT i, 1 + i % 400, CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END,
  CASE WHEN i % 6 = 0 THEN 'x' ELSE 'y' END,
  CASE WHEN i % 6 = 0 THEN 90 ELSE 10 END FROM generate_series(1, 2400) i;
INSERT INTO bought SELECT 10000 + i, 1, 'a', 'z', 100 FROM generate_series(1, 2000) i;
CALL dp.create_dataset('bazaar', unit => 'user', epsilon => 500);
CALL dp.protect('buyer', 'bazaar', unit_column => 'id', max_rows_per_unit => 1);
CALL dp.protect('bought', 'bazaar', unit_column => 'buyer_id', max_rows_per_unit => 6, max_rows => 10000);
CALL dp.describe_column('bought', 'shop', domain => '{a,b}', nullable => false);
CALL dp.describe_column('bought', 'kind', domain => '{x,y,z}', nullable => false);
CALL dp.describe_column('bought', 'price', bounds => '{0,100}', nullable => false);
CALL dp.publish('bought'); CALL dp.allot('alice', 'bazaar', epsilon => 500);
"""


@pytest.fixture(scope="module")
def others(cluster: Cluster) -> None:
    cluster.psql(RENYI, user="boss")


@pytest.mark.usefixtures("others")
def test_a_renyi_accountant(cluster: Cluster) -> None:
    """rho: selections and Gaussian noise; the parts' rho add up to what was asked."""
    with cluster.connect("alice") as alice:
        alice.execute("SELECT * FROM dp.dp_group_by('visits', '{ward}', '{avg(age)}', rho => 0.1)")
        rows = explained(alice, "'a', 'b', k => 1, rho => 0.4, attributes => '{kind}'")
        assert rows[0][0] == "kind = 'y'"
        paid = one(alice, "SELECT charge FROM dp.spending ORDER BY at DESC LIMIT 1")
        assert [part["kind"] for part in paid] == ["exponential", "gaussian", "gaussian"]
        rho = sum(Decimal(part["rho"]) for part in paid[1:]) + Decimal(paid[0]["epsilon"]) ** 2 / 8
        assert Decimal("0.399999999") < rho <= Decimal("0.4")


@pytest.mark.usefixtures("others")
def test_users(cluster: Cluster) -> None:
    """One buyer of 2,000 rows counts with six of them: what he alone does explains nothing."""
    with cluster.connect("alice") as alice:
        alice.execute(
            "SELECT * FROM dp.dp_group_by('bought', '{shop}', '{sum(price),count(distinct buyer_id)}', epsilon => 60)"
        )
        rows = explained(alice, "'a', 'b', k => 2, epsilon => 60, attributes => '{kind}'")
        assert rows[0][0] == "kind = 'x'"
        facts = one(alice, "SELECT facts FROM dp.last_answer")
        assert "at most 6 rows of each unit are looked at (bias unknown)" in facts["warnings"]
        with no_charge(cluster), refused("DP003", "compared, not explained"):
            explained(alice, "'a', 'b', aggregate => 2, anyway => true")


def test_conjunctions_are_of_different_columns(alice: Connection) -> None:
    """up_to: single values and pairs, 12 + 3 * 16 of them."""
    call = f"{SALES}, aggregate => 2, l => 2, up_to => true, attributes => '{{degree,sex,age}}'"
    rows = explained(alice, f"{call}, k => 60, epsilon => 20")
    assert len({row[0] for row in rows}) == len(rows) == 60
    ranges = [re.sub(r">= \d+ AND age|IS NOT NULL AND", "", row[0]) for row in rows]
    parts = [text.split(" AND ") for text in ranges]
    names = [sorted(part.lstrip("(").split(" ")[0] for part in text) for text in parts]
    assert sorted(map(len, names)) == [1] * 12 + [2] * 48
    assert all(len(set(own)) == len(own) and set(own) <= {"degree", "sex", "age"} for own in names)


def test_predicates_of_ones_own(cluster: Cluster, alice: Connection) -> None:
    """Overlapping ones, with OR, on the measure and on columns with many values: as written, with their true shares."""
    own = ["degree = 'MSc' OR age < 30", "income > 800", "NOT remote", "grade IS NULL AND load < 1", "id = 7 OR id = 8"]
    call = f"{SALES}, aggregate => 2, epsilon => 40, {SURE}, options => '{{\"split\": [0.01, 1, 0.01]}}'"
    sql = f"SELECT * FROM dp.dp_explain_difference({call}, k => 4, predicates => %s)"
    with no_charge(cluster), refused("DP004", "id"):  # nothing is declared of it
        alice.execute(sql, [own])
    rows = alice.execute(sql, [own[:4]]).fetchall()
    assert sorted(row[0] for row in rows) == sorted(own[:4])
    for text, share, low, high, *_ in rows:
        assert low <= share <= high
        assert low <= truth(cluster, text) <= high, text
        assert high - low < 0.15
    facts = one(alice, "SELECT facts -> 'explain' FROM dp.last_answer")
    assert (facts["predicates"], facts["attributes"]) == (4, [])


def test_more_cells_than_can_be_read_are_added_up_first(cluster: Cluster) -> None:
    """All eleven columns of a table without max_rows, singly and in pairs: shares hold the true ones of plain SQL."""
    with cluster.connect("alice") as alice:
        alice.execute(GROUPS.replace("'staff'", "'many'"))
        for more in ("k => 52, epsilon => 300", "k => 20, l => 2, epsilon => 200"):
            call = f"{SALES}, aggregate => 2, {more}, {SURE}, options => '{{\"split\": [0.05, 1, 0.01]}}'"
            for text, share, low, high, *_ in explained(alice, call):
                assert share is not None and low is not None and high is not None
                assert low <= truth(cluster, text) <= high, text
                assert high - low < 0.2


def test_sizes_are_refused_before_anything_is_read(cluster: Cluster) -> None:
    """By declared numbers alone: a hundred groups times 35,000 predicates."""
    columns = ", ".join(f"c{n} int" for n in range(7))
    described = " ".join(
        f"CALL dp.describe_column('heap', 'c{n}', bounds => '{{1,40}}', nullable => false);" for n in range(7)
    )
    cluster.psql(
        f"CREATE TABLE heap (kind int, {columns}); INSERT INTO heap VALUES (1, 1, 1, 1, 1, 1, 1, 1);"
        "CALL dp.create_dataset('heap', epsilon => 100); CALL dp.protect('heap', 'heap');"
        f"CALL dp.describe_column('heap', 'kind', bounds => '{{1,100}}', nullable => false); {described}"
        "CALL dp.publish('heap'); CALL dp.allot('alice', 'heap', epsilon => 100);",
        user="boss",
    )
    all_of_them = "ARRAY(SELECT i::text FROM generate_series(1, 100) i), ARRAY(SELECT i FROM generate_series(1, 100) i)"
    with cluster.connect("alice") as alice:
        alice.execute("SELECT * FROM dp.dp_group_by('heap', '{kind}', epsilon => 1)")
        with no_charge(cluster), refused("DP005", "more than 64 MB"):
            explained(alice, f"{all_of_them}, -1e6, l => 2, epsilon => 1")
        assert len(explained(alice, f"{all_of_them}, -1e6, epsilon => 1")) == 5
