"""dp_compare as installed, in direct sessions: what it says of a stored release, to whom, and that it costs nothing."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import no_charge, one, refused

Connection = psycopg.Connection[Any]
# Verdicts about counts of 500 and none at epsilon 1 or 2, in 12 tests at most, and averages of as many rows.
pytestmark = pytest.mark.chance(fix_chance.union(fix_chance.laplace(1, 100, 48), 1e-8))

BY_SEX = "'people', '{sex}', '{count(*),avg(age),sum(income)}', epsilon => 3"
BY_BOTH = "'people', '{city,sex}', '{count(*)}', epsilon => 0.5"
# 600 visits of people of 30 in ward a, 300 of people of 60 in b, none in c.
RENYI = """
CREATE TABLE visits (id int PRIMARY KEY, ward text, age int);
INSERT INTO visits SELECT i, CASE WHEN i <= 600 THEN 'a' ELSE 'b' END, CASE WHEN i <= 600 THEN 30 ELSE 60 END
  FROM generate_series(1, 900) i;
CALL dp.create_dataset('visits', unit => 'row', epsilon => 50, accountant => 'renyi', delta => 1e-6);
CALL dp.protect('visits', 'visits', max_rows => 10000);
CALL dp.describe_column('visits', 'ward', domain => '{a,b,c}', nullable => false);
CALL dp.describe_column('visits', 'age', bounds => '{0,100}', resolution => '1', nullable => false);
CALL dp.publish('visits'); CALL dp.allot('alice', 'visits', epsilon => 50);
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql("CALL dp.allot('alice', 'people', epsilon => 10)", user="boss")
        yield running


@pytest.fixture
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice") as connection:
        yield connection


def compared(conn: Connection, call: str, *args: Any) -> tuple[str, float, float, float]:
    found = conn.execute(f"SELECT verdict, difference, low, high FROM dp.dp_compare({call})", args).fetchall()
    assert len(found) == 1
    return found[0]


def grouped(conn: Connection, arguments: str, keys: int = 1) -> dict[Any, list[float]]:
    """A GROUP BY's values by key: of one key its text, of several all of them."""
    answer = one(conn, f"SELECT dp.dp_query(dp.dp_group_by_request({arguments}))")
    rows = [(tuple(row[:keys]), [float(value) for value in row[keys:]]) for row in answer["rows"]]
    return {key if keys > 1 else key[0]: values for key, values in rows}


def test_a_difference_of_counts(cluster: Cluster, alice: Connection) -> None:
    """The shown values' difference, inside an interval that is symmetric; nothing is charged or stored."""
    rows = {key: values[0] for key, values in grouped(alice, BY_SEX).items()}
    with no_charge(cluster):
        verdict, difference, low, high = compared(alice, "'f', 'x'")
    assert (verdict, difference) == ("yes", rows["f"] - rows["x"])
    assert low < difference < high
    assert math.isclose(difference - low, high - difference)
    assert compared(alice, "'x', 'f'") == ("the other way round", -difference, -high, -low)
    sure = "'f', 'm', simultaneous => false, confidence => 0.99999999"  # of as many rows
    assert compared(alice, sure)[0] == "cannot tell"


def test_names_fixed_beforehand_are_told_more(alice: Connection) -> None:
    grouped(alice, BY_SEX)
    _, _, low, high = compared(alice, "'f', 'x'")
    _, _, nearer, farther = compared(alice, "'f', 'x', simultaneous => false")
    assert low < nearer < farther < high
    _, _, wide_low, wide_high = compared(alice, "'f', 'x', confidence => 0.999")
    assert wide_low < low < high < wide_high
    alice.execute("SET dp.confidence = 0.999")
    assert compared(alice, "'f', 'x'")[2:] == (wide_low, wide_high)


def test_averages_and_sums(cluster: Cluster, alice: Connection) -> None:
    rows = {key: values[1:] for key, values in grouped(alice, BY_SEX).items()}
    for method in ("auto", "fieller", "box_tight", "box"):
        _, difference, low, high = compared(alice, "'f', 'm', aggregate => 2, method => %s", method)
        assert low <= difference <= high
        assert math.isclose(difference, float(rows["f"][0] - rows["m"][0]), abs_tol=1e-6)
    _, difference, low, high = compared(alice, "'f', 'm', aggregate => 3")
    assert math.isclose(difference, float(rows["f"][1] - rows["m"][1]), abs_tol=0.011)
    assert low < difference < high


def test_weights_and_arithmetic(alice: Connection) -> None:
    rows = {key: values[0] for key, values in grouped(alice, BY_SEX).items()}
    verdict, difference, low, high = compared(alice, "'{f,m,x}', weights => '{1,-0.5,-0.5}', constant => 10")
    assert difference == rows["f"] - rows["m"] / 2 - rows["x"] / 2 - 10
    assert (verdict, low < difference < high) == ("yes", True)
    verdict, difference, low, high = compared(alice, "'{f,m}', expression => 'o1 / o2 - 0.2'")
    assert math.isclose(difference, rows["f"] / rows["m"] - 0.2)
    assert (verdict, low < difference < high) == ("yes", True)
    assert compared(alice, "'{f}', weights => '{1}', constant => 300")[0] == "yes"


def test_several_keys_and_null(alice: Connection) -> None:
    """Groups are arrays in the order of GROUP BY; NULL in one is the NULL key. HAVING and LIMIT do not matter."""
    rows = {key: values[0] for key, values in grouped(alice, BY_BOTH, 2).items()}
    first = compared(alice, "ARRAY['north','m'], ARRAY[NULL,'x']")
    assert first[1] == rows["north", "m"] - rows[None, "x"]
    assert compared(alice, "%s, %s", ["north", "m"], [None, "x"]) == first
    assert compared(alice, "ARRAY[['north','m'],[NULL,'x']], weights => '{1,-1}'") == first
    alice.execute("SELECT * FROM dp.dp_group_by('people', '{city}', epsilon => 0.5)")
    assert compared(alice, "NULL, 'south'")[2] < compared(alice, "NULL, 'south'")[3]


def test_another_order_than_that_of_who_paid(cluster: Cluster, alice: Connection) -> None:
    """Bob asks the same with keys and aggregates swapped: what he compares is what he was shown."""
    alice.execute("SELECT * FROM dp.dp_group_by('people', '{sex,city}', '{count(*),sum(age)}', epsilon => 0.5)")
    theirs = compared(alice, "ARRAY['f','north'], ARRAY['m','east'], aggregate => 2")
    with cluster.connect("bob") as bob, no_charge(cluster):
        rows = grouped(bob, "'people', '{city,sex}', '{sum(age),count(*)}', epsilon => 0.5", 2)
        found = compared(bob, "ARRAY['north','f'], ARRAY['east','m'], aggregate => 1")
        assert found == theirs
        assert found[1] == rows["north", "f"][0] - rows["east", "m"][0]
        counts = compared(bob, "ARRAY['north','f'], ARRAY['east','m'], aggregate => 2")
        assert counts[1] == rows["north", "f"][1] - rows["east", "m"][1]


def test_whose_release(cluster: Cluster, alice: Connection) -> None:
    """Another's release is nobody's, until it was served; forged ids are nobody's either."""
    alice.execute("SELECT * FROM dp.dp_group_by('people', '{sex}', '{count(*)}', 'id > 3', epsilon => 0.5)")
    release = one(alice, "SELECT request_id FROM dp.last_answer")
    with cluster.connect("bob") as bob, no_charge(cluster):
        with refused("DP005", "Run a GROUP BY first"):
            compared(bob, "'f', 'm'")
        for forged in (release, uuid.uuid4()):
            with refused("42501", "was given to you"):
                compared(bob, "'f', 'm', release => %s", forged)
            bob.execute("SELECT set_config('dp.last_release', %s, false)", [str(forged)])
            with refused("42501", "was given to you"):
                compared(bob, "'f', 'm'")
        for wrong in ("no id", f"{release} 1", f"{release} a,b 0", f"{release} 0 0 0"):
            bob.execute("SELECT set_config('dp.last_release', %s, false)", [wrong])
            with refused("DP003" if wrong != f"{release} 1" else "42501"):
                compared(bob, "'f', 'm'")
        bob.execute("SELECT * FROM dp.dp_group_by('people', '{sex}', '{count(*)}', 'id > 3', epsilon => 0.5)")
        theirs = compared(bob, "'f', 'm'")
        assert compared(bob, "'f', 'm', release => %s", release) == theirs
        bob.execute("SELECT set_config('dp.last_release', %s, false)", [f"{release} 7,9 8"])
        assert compared(bob, "'f', 'm'") == theirs


@pytest.mark.parametrize(
    ("call", "sqlstate", "words"),
    [
        ("'f', 'z'", "DP005", "sex has no group 'z'"),
        ("'fe', 'm'", "DP005", "Did you mean 'f'?"),
        ("'f', 'f'", "DP003", "named twice"),
        ("'f', NULL", "DP005", "no NULL group"),
        ("ARRAY['f','north'], ARRAY['m','north']", "DP003", "has one key, sex"),
        ("'f', 'm', aggregate => 0", "DP005", "3 aggregates"),
        ("'f', 'm', aggregate => 4", "DP005", "3 aggregates"),
        ("'f', 'm', method => 'box'", "DP003", ""),
        ("'f', 'm', method => 'magic'", "DP003", ""),
        ("'f', 'm', confidence => 1", "DP005", "confidence"),
        ("'f', 'm', confidence => 'NaN'", "DP005", "confidence"),
        ("'{f,m}', weights => '{1}'", "DP003", "1 weights for 2 groups"),
        ("'{f,m}', weights => '{1,NaN}'", "DP005", "weights"),
        ("'{f,m}', weights => '{1,NULL}'", "DP005", "weights"),
        ("'{f,m}', weights => '{0,0}'", "DP005", ""),
        ("'{f,m,x}', weights => NULL", "DP003", "what is asked about 3 groups"),
        ("'{}', weights => '{}'", "DP003", "no group"),
        ("'{f,m}', expression => 'o1 / o3'", "DP005", ""),
        ("'{f,m}', expression => 'pg_sleep(1)'", "DP003", ""),
        ("'{f,m}', expression => '__import__(\"os\")'", "DP003", ""),
        ("'{f,m}', weights => '{1,1e300}'", "DP005", "weights"),
        ("'f', 'm', release => '00000000-0000-0000-0000-000000000000'", "42501", ""),
    ],
)
def test_refusals(cluster: Cluster, alice: Connection, call: str, sqlstate: str, words: str) -> None:
    """Each with a hint; nothing is charged or stored."""
    grouped(alice, BY_SEX)
    with no_charge(cluster), refused(sqlstate, words):
        compared(alice, call)


def test_a_release_without_groups_or_bars(cluster: Cluster, alice: Connection) -> None:
    alice.execute("SELECT dp.dp_count('people', epsilon => 0.1)")
    counted = one(alice, "SELECT request_id FROM dp.last_answer")
    with no_charge(cluster), refused("DP003", "has no groups"):
        compared(alice, "'f', 'm', release => %s", counted)
    alice.execute("SELECT * FROM dp.dp_group_by('people', '{sex}', '{median(age)}', epsilon => 0.5)")
    with no_charge(cluster), refused("DP003", "bounds the error"):
        compared(alice, "'f', 'm'")
    alice.execute("SELECT * FROM dp.dp_sum_workload('people', 'income', '{1000,5000,10000}', epsilon => 0.2)")
    summed = one(alice, "SELECT request_id FROM dp.last_answer")
    with no_charge(cluster), refused("DP003"):
        compared(alice, "'f', 'm', release => %s", summed)


def test_by_bars(cluster: Cluster, alice: Connection) -> None:
    """A standard deviation has no cells of its own here: its bars are compared, and it is said."""
    alice.execute("SELECT * FROM dp.dp_group_by('people', '{sex}', '{stddev(age)}', epsilon => 1)")
    with no_charge(cluster):
        _, difference, low, high = compared(alice, "'f', 'm'")
        facts = one(alice, "SELECT facts FROM dp.last_answer")
    assert low <= difference <= high
    assert facts["compare"]["method"] == "bars"


def test_what_is_said(cluster: Cluster, alice: Connection) -> None:
    """The NOTICE, dp.last_answer and dp_plan: free, for how many comparisons it holds, no cause."""
    grouped(alice, BY_SEX)
    release = one(alice, "SELECT request_id FROM dp.last_answer")
    alice.execute("SET dp.notices = on")
    said: list[str] = []
    alice.add_notice_handler(lambda diag: said.append(str(diag.message_primary)))
    with no_charge(cluster):
        verdict, _, low, high = compared(alice, "'f', 'x'")
        row = alice.execute("SELECT call, path, charge, facts FROM dp.last_answer").fetchone()
        plan = one(alice, "SELECT dp.dp_plan(dp.dp_compare_request('f', 'x'))")
    assert row is not None
    assert row[:3] == ("dp_compare", "stored release", {})
    facts = row[3]["compare"]
    assert (facts["release"], facts["verdict"], facts["simultaneous"]) == (str(release), verdict, 3)
    assert (float(facts["low"]), float(facts["high"])) == (low, high)
    assert len(said) == 1
    assert all(words in said[0] for words in ("free", "yes", "3 groups at once", "no cause"))
    assert plan["charge"] == {"worst": {}, "best": {}}
    assert plan["compare"] == facts
    assert json.dumps(plan["request"])


def test_the_last_release_stays(alice: Connection) -> None:
    """A comparison, and a count of no groups, leave the release that is compared."""
    grouped(alice, BY_SEX)
    first = compared(alice, "'f', 'x'")
    alice.execute("SELECT dp.dp_count('people', epsilon => 0.01)")
    assert compared(alice, "'f', 'x'") == first


def test_users_and_a_renyi_accountant(cluster: Cluster, alice: Connection) -> None:
    """Counts of users' rows, whose noise knows the cap, and Gaussian averages, of which two names are one region."""
    grouped(alice, "'orders', '{status}', '{count(*)}', epsilon => 5")  # noise of scale 5 / 5
    assert compared(alice, "'open', 'paid', confidence => 0.99999999")[0] == "cannot tell"
    cluster.psql(RENYI, user="boss")
    rows = grouped(alice, "'visits', '{ward}', '{count(*),avg(age)}', rho => 1")
    verdict, difference, _, _ = compared(alice, "'a', 'c'")
    assert (verdict, difference) == ("yes", rows["a"][0] - rows["c"][0])
    assert one(alice, "SELECT facts FROM dp.last_answer")["compare"]["method"] == "studentised range"
    joint = compared(alice, "'a', 'b', aggregate => 2")
    assert one(alice, "SELECT facts FROM dp.last_answer")["compare"]["method"] == "joint"
    by_group = compared(alice, "'a', 'b', aggregate => 2, method => 'fieller'")
    assert joint[0] == "the other way round"
    assert joint[3] - joint[2] < by_group[3] - by_group[2]
    with cluster.connect("bob") as bob, no_charge(cluster), refused("42501", "was given to you"):
        compared(bob, "'a', 'b', release => %s", one(alice, "SELECT facts FROM dp.last_answer")["compare"]["release"])
