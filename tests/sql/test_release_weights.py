"""dp_release_numeric of weighted queries, as installed: sum(weight * x), the weight of parameters and class columns."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import no_charge, one, refused
from fix_release import ADULT

Connection = psycopg.Connection[Any]
Row = tuple[list[str], float, float, float, float, bool]

SHARP = "epsilon => 25"
# Of each test at most twenty answers whose bars hold at SURE, and five hundred draws of noise.
SURE = "0.999999999"
pytestmark = pytest.mark.chance(fix_chance.union(20 * 1e-9, fix_chance.beyond(24, 500)))
NEAR = "sum((1 - abs(age - $1) / 100.0) * loss)"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(ADULT, user="boss")
        yield running


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice", tcp=True) as conn:
        conn.execute(f"SET dp.confidence = {SURE}")
        yield conn


def family(conn: Connection, query: str, grid: str, more: str = SHARP, name: str | None = None) -> list[Row]:
    name = f"{conn.info.user}_{zlib.crc32(query.encode())}" if name is None else name  # one name, one query
    call = f"dp.dp_release_numeric('{name}', $q${query}$q$, $g${grid}$g${', ' if more else ''}{more})"
    return conn.execute(f"SELECT * FROM {call}").fetchall()


def truth(cluster: Cluster, sql: str) -> float:
    with cluster.connect("boss") as conn:
        return float(one(conn, sql) or 0)


# The query, its grid, and what stands after FROM adult in the plain one, of rows of declared classes.
FAMILIES = {
    "a kernel": (f"SELECT {NEAR} FROM adult", ["{30}", "{55.5}", "{90}"], "age <= 90"),
    "with conditions of other columns": (
        f"SELECT {NEAR} FROM adult WHERE stage = $2 AND price > 0",
        ["{30,red}", "{80,green}"],
        "age <= 90 AND stage = '$2' AND price > 0",
    ),
    "with conditions of the same column": (
        "SELECT sum((age - $1) / 100.0 * loss) FROM adult WHERE age >= $1 AND age <= $2",
        ["{20,60}", "{17,90}"],
        "age BETWEEN $1 AND $2",
    ),
    "a step, and rows without one": (
        "SELECT sum(CASE WHEN age < $1 THEN 1 WHEN age < 60 THEN 0.25 END * price) FROM adult WHERE edu IN ('hs')",
        ["{30}", "{18}"],
        "age <= 90 AND edu IN ('hs')",
    ),
    "texts and dates": (
        "SELECT sum(CASE edu WHEN $1 THEN 1 ELSE 0.5 END * loss * CASE WHEN born < $2::date THEN 1 END) FROM adult",
        ["{hs,2024-01-05}", '{"m\\"a",2024-01-31}'],
        "born <= '2024-01-31'",
    ),
    "rows that are counted": (
        "SELECT sum(CASE WHEN stage = $1 THEN 1 ELSE 0.1 END) FROM adult WHERE loss > 0",
        ["{red}", "{amber}"],
        "loss > 0",
    ),
    "parameters alone": ("SELECT sum($1 * loss) FROM adult WHERE age < $2", ["{0.5,40}", "{1,20}"], "age < $2"),
    "both signs": (
        "SELECT pg_catalog.sum(price * (age / $1)::int) FROM adult WHERE age < $2",
        ["{80,90}", "{100,60}"],
        "age < $2",
    ),
    "values that a class ends": (
        "SELECT sum(least(loss, age - 16) * (age / $1)) FROM adult WHERE age <= $2",
        ["{39.0,39}", "{100.0,30}"],
        "age <= $2",
    ),
}


def plain(query: str, where: str, parameters: list[str]) -> str:
    """A query of a grid in plain SQL, of rows of declared classes."""
    sql = f"{query.split(' WHERE ')[0]} WHERE {where}"
    for number, value in enumerate(parameters, 1):
        bare = value.replace(".", "").isdigit()
        sql = sql.replace(f"'${number}'", f"'{value}'").replace(f"${number}", value if bare else f"'{value}'")
    return sql


@pytest.mark.parametrize("name", FAMILIES)
def test_answers_are_those_of_plain_sql(cluster: Cluster, alice: Connection, name: str) -> None:
    query, grid, where = FAMILIES[name]
    found = family(alice, query, "{" + ",".join(grid) + "}")
    assert [row[0] for row in found] == [one(alice, "SELECT %s::text[]", asked) for asked in grid]
    for row in found:
        true = truth(cluster, plain(query, where, row[0]))
        assert row[3] <= true + 1e-9 and true - 1e-9 <= row[4], (row, true)
        assert row[3] <= row[1] <= row[4]
        assert not row[5] or row[1] == 0


OWN = ("a kernel", "with conditions of the same column", "rows that are counted", "both signs")


@pytest.mark.parametrize("mechanism", ["alg2", "composition"])
@pytest.mark.parametrize("name", OWN)
def test_bars_of_other_mechanisms_hold(cluster: Cluster, alice: Connection, name: str, mechanism: str) -> None:
    """All bars hold at once; nothing is unbiased but what composition counts."""
    query, grid, where = FAMILIES[name]
    more = f"epsilon => 12, mechanism => '{mechanism}'"
    found = family(alice, query, "{" + ",".join(grid) + "}", more, f"{mechanism}_{OWN.index(name)}")
    assert [row[0] for row in found] == [one(alice, "SELECT %s::text[]", asked) for asked in grid]
    for row in found:
        true = truth(cluster, plain(query, where, row[0]))
        assert row[3] <= true + 1e-9 and true - 1e-9 <= row[4], (row, true)
        assert (row[2] is None) == (mechanism == "alg2" or "rows" not in name)


@pytest.mark.parametrize("mechanism", ["normalisation", "global"])
def test_fitted_weights_come_near(cluster: Cluster, alice: Connection, mechanism: str) -> None:
    """Of two queries and many rounds; they have no bars. Another weight is another release, and costs again."""
    query, where = "SELECT sum(CASE stage WHEN $1 THEN 1 ELSE 0.25 END) FROM adult WHERE price > 5", "price > 5"
    more = f"""epsilon => 20, mechanism => '{mechanism}', options => '{{"rounds": 2}}'"""
    found = family(alice, query, "{red,green}", more, mechanism)
    for row in found:
        true = truth(cluster, plain(query, where, row[0]))
        assert row[1] == pytest.approx(true, rel=0.05, abs=9) and row[2:] == (None, None, None, False)
    with no_charge(cluster):
        assert family(alice, query, "{green,red,green}", more, mechanism) == [found[1], found[0], found[1]]
    before = one(alice, "SELECT count(*) FROM dp.spending")
    family(alice, query.replace("0.25", "0.5"), "{red,green}", more, f"{mechanism}_half")
    assert one(alice, "SELECT count(*) FROM dp.spending") == before + 1


def test_auto_chooses_weights_by_the_squares(cluster: Cluster, alice: Connection) -> None:
    """What cells do not tell from noise grows with the root of the squares; a narrow kernel has few."""
    request = "SELECT dp.dp_plan(dp.dp_release_numeric_request('choice', %s, %s, epsilon => 0.1, options => %s))"
    query, rows = "SELECT sum($1 * loss) FROM adult WHERE age < $2 AND stage IN ($3, $4, $5)", '{"rows": 100}'
    with no_charge(cluster):
        whole = one(alice, request, query, "{{1,91,red,amber,green},{0.97,91,red,amber,green}}", rows)
        small = one(alice, request, query, "{{0.1,91,red,amber,green},{0.09,91,red,amber,green}}", rows)
    assert "by Algorithm 2" in whole["text"] and "weights" not in small["text"]


def test_other_weights_over_the_same_classes_are_free(cluster: Cluster, alice: Connection) -> None:
    """A release of cells knows nothing of them: plain sums are answered from it, too, and the other way round."""
    query = f"SELECT {NEAR} FROM adult WHERE price > 1"
    (row,) = family(alice, query, "{40}", "epsilon => 2", name="near")
    with no_charge(cluster):
        assert family(alice, query, "{40}", "epsilon => 2", name="near") == [row]  # to the last digit
        wide = family(alice, query, "{17,40,90}", "epsilon => 2", name="near")
        assert wide[1][1:3] == pytest.approx(row[1:3]) and wide[1][4] > row[4]  # bars of three at once
        family(alice, query.replace(NEAR, "sum((age / $1)::int * loss)"), "{91}", "epsilon => 2", name="stepped")
        bare = "SELECT sum(loss) FROM adult WHERE age <> $1 AND price > 1"
        whole = family(alice, bare, "{40}", "epsilon => 2", name="unweighted")[0]
        asked = one(alice, "SELECT dp.dp_sum('adult', 'loss', 'price > 1 AND age < 91 AND age <> 40', epsilon => 2)")
        assert abs(float(asked) - whole[1]) <= 1


def test_a_plain_question_of_the_same_classes_is_no_query_of_a_weighted_grid(alice: Connection) -> None:
    """Its bar holds together with those of all sets, not with those of the grid, which asked something else."""
    family(alice, f"SELECT {NEAR} FROM adult WHERE age < $2 AND price > 2", "{{40,91}}", "epsilon => 2", name="grid")
    request = "SELECT dp.dp_query(dp.dp_sum_request('adult', 'loss', 'price > 2 AND age < 91', epsilon => 2))"
    assert "bars hold at once for every set of its classes" in one(alice, request)["notice"]["text"]


def test_parts_of_a_weight_that_is_one_add_up(alice: Connection) -> None:
    """unbiased is linear in the weights: w and 1 - w over one release are the plain sum."""
    where = "FROM adult WHERE price > 3"
    (one_part,) = family(alice, f"SELECT {NEAR} {where}", "{40}", "epsilon => 3", name="part")
    rest = NEAR.replace("1 - abs(age - $1) / 100.0", "abs(age - $1) / 100.0")
    (other,) = family(alice, f"SELECT {rest} {where}", "{40}", "epsilon => 3", name="rest")
    (whole,) = family(alice, f"SELECT sum($1 * loss) {where} AND age <> $2", "{{1,16}}", "epsilon => 3", name="whole")
    assert one_part[2] + other[2] == pytest.approx(whole[2])


def test_a_plan_says_what_weights_make_of_the_noise(cluster: Cluster, alice: Connection) -> None:
    request = "SELECT dp.dp_plan(dp.dp_release_numeric_request('planned', %s, %s, epsilon => 1))"
    with no_charge(cluster):
        half = one(alice, request, "SELECT sum($1 * loss) FROM adult WHERE age < $2", "{{0.5,60}}")
        whole = one(alice, request, "SELECT sum($1 * loss) FROM adult WHERE age < $2", "{{1,60}}")
    assert half["mechanisms"]["cells"]["rmse"] == pytest.approx(whole["mechanisms"]["cells"]["rmse"] / 2, rel=1e-3)
    assert half["mechanisms"]["alg2"]["rounds"] >= 1
    assert "weighted queries" in half["mechanisms"]["range"]["refused"]


REFUSED = {
    "above one": ("DP005", "the weight is 1.47 where $1 = 130, age = 17", "(age + $1) / 100.0"),
    "below zero": ("DP005", "the weight is -", "(age - $1) / 1000.0"),
    "not a number": ("DP005", "the weight is not a number", "CASE WHEN age > $1 THEN 0 ELSE float8 'NaN' END"),
    "no column": ("DP003", "names no column", "$1"),
    "a text": ("DP003", "the weight (edu", "(edu || $1)"),
    "a column of ranges": ("DP005", "its declared values are ranges", "(rate / $1)"),
    "an undeclared column": ("DP004", "column id is not declared", "(id / $1)"),
    "no such column": ("42703", "", "(nothing / $1)"),
    "a function": ("DP003", "", "(pg_sleep($1) * age)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_cost_nothing(cluster: Cluster, alice: Connection, case: str) -> None:
    sqlstate, message, weight = REFUSED[case]
    with no_charge(cluster), refused(sqlstate, message):
        family(alice, f"SELECT sum({weight} * loss) FROM adult", "{130}", "epsilon => 0.37")


def test_ranges_have_none(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster), refused("DP005", "range has no weighted queries"):
        family(alice, f"SELECT {NEAR} FROM adult", "{40}", "epsilon => 0.37, mechanism => 'range'", name="other")


def test_many_weights_are_refused(cluster: Cluster, alice: Connection) -> None:
    grid = "{" + ",".join(str(number) for number in range(1001)) + "}"
    with no_charge(cluster), refused("DP005", "1001 different weights over 74 classes"):
        family(alice, f"SELECT {NEAR} FROM adult", grid, "epsilon => 0.37")
    pairs = ",".join(f"{{40,{17 + number % 70}}}" for number in range(2001))
    with no_charge(cluster), refused("DP005", "2001 weighted queries"):
        family(alice, f"SELECT {NEAR} FROM adult WHERE age >= $2", f"{{{pairs}}}", "epsilon => 0.37")


def test_a_weighted_family_is_published_like_any_other(cluster: Cluster, alice: Connection) -> None:
    query = f"SELECT {NEAR} FROM adult WHERE price > 4"
    found = family(alice, query, "{40}", "epsilon => 2, publish => true, shows_grid => true", name="weighed")
    with cluster.connect("bob", tcp=True) as bob:
        assert bob.execute("SELECT * FROM dp_release.weighed_answers").fetchall() == found
        columns = [one.name for one in bob.execute("SELECT * FROM dp_release.weighed").description or []]
    assert columns == ["age", "value", "weight"]
