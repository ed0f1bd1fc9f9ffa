"""dp_release_numeric(mechanism => 'range') by a matrix strategy as installed
(numeric-release.md §8.1): answers, bars, price.
"""

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
from sql.test_family import grouped
from sql.test_release_range import Row, check, path

Connection = psycopg.Connection[Any]

DAYS = """
CREATE TABLE days (id int PRIMARY KEY, day int, half text, cost int);
INSERT INTO days SELECT i, CASE WHEN i % 50 = 0 THEN NULL ELSE i * 79 % 60 END, (ARRAY['a','b'])[1 + i % 2],
  CASE WHEN i % 70 = 0 THEN NULL ELSE i % 9 END FROM generate_series(1, 4000) i;
CALL dp.protect('days', 'adult', max_rows => 100000);
CALL dp.describe_column('days', 'day', bounds => '{0,59}');
CALL dp.describe_column('days', 'half', domain => '{a,b}', nullable => false);
CALL dp.describe_column('days', 'cost', bounds => '{0,8}');
CALL dp.describe_column('days', 'id', bounds => '{1,4000}', nullable => false);
CALL dp.publish('days');
CREATE TABLE stay (id int PRIMARY KEY, person int, hour int, cost int);
INSERT INTO stay SELECT i, i % 300, i % 50, i % 9 FROM generate_series(1, 3000) i;
CALL dp.protect('stay', 'clinic', unit_column => 'person', max_rows_per_unit => 4, max_rows => 10000);
CALL dp.describe_column('stay', 'hour', bounds => '{0,49}', nullable => false);
CALL dp.describe_column('stay', 'cost', bounds => '{0,8}', nullable => false);
CALL dp.publish('stay');
"""
# Of one bar, or of those of one family, which hold at once.
SURE = "0.999999999"
MISS = 1e-9
MATRIX = """mechanism => 'range', options => '{"strategy": "matrix"}'"""
SUM = "SELECT sum(cost) FROM days WHERE day BETWEEN $1 AND $2"
GRID = "{" + ",".join(f"{{0,{last}}}" for last in range(9, 60, 5)) + ",{20,39}}"
BUT = "SELECT sum(cost) FROM days WHERE day NOT BETWEEN $1 AND $2"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(ADULT, user="boss")
        running.psql(DAYS, user="boss")
        yield running


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice", tcp=True) as conn:
        conn.execute(f"SET dp.confidence = {SURE}")
        yield conn


def call(query: str, grid: str, more: str = "epsilon => 2", *, name: str, of: str = "") -> str:
    return f"dp.dp_release_numeric{of}('{name}', $q${query}$q$, $g${grid}$g$, {MATRIX}, {more})"


def family(conn: Connection, *given: str, name: str | None = None) -> list[Row]:
    name = f"{conn.info.user}_{zlib.crc32(given[0].encode())}" if name is None else name  # one name, one query
    return conn.execute(f"SELECT * FROM {call(*given, name=name)}").fetchall()


def plan(conn: Connection, *given: str) -> Any:
    return one(conn, f"SELECT dp.dp_plan({call(*given, name='planned', of='_request')})")


FAMILIES = [
    (SUM, GRID, "epsilon => 2"),
    (BUT, GRID, "epsilon => 2"),
    ("SELECT count(*) FROM days WHERE day <> $1 AND cost > 3", "{5,17,23,40}", "epsilon => 2"),
    (
        "SELECT sum(cost - 4) FROM days WHERE day NOT IN ($1, $2) AND half = $3",
        "{{59,3,a},{48,7,a},{7,50,b},{1,2,a}}",
        "epsilon => 2",
    ),
    (
        "SELECT count(cost) FROM days WHERE day >= $1",
        "{0,10,20,30}",
        "epsilon => 2, simultaneous => false",
    ),
    ("SELECT sum(cost) FROM stay WHERE hour >= $1", "{0,10,20,30}", "rho => 0.5"),
]


@pytest.mark.chance(fix_chance.union(4 * MISS))  # four that hold each by itself
@pytest.mark.parametrize(("query", "grid", "more"), FAMILIES)
def test_bars_hold_the_truth(cluster: Cluster, alice: Connection, query: str, grid: str, more: str) -> None:
    found = family(alice, query, grid, more)
    assert "matrix of split cells" in one(alice, "SELECT mechanism FROM dp.last_answer")
    if "stay" not in query:  # of users some rows alone count
        check(cluster, query, found)
    assert max(row[4] - row[3] for row in found) > 0


@pytest.mark.chance(MISS)
def test_the_same_sets_are_a_cached_answer_and_others_another_release(cluster: Cluster, alice: Connection) -> None:
    """In another backend, too: the same sets are the same integers."""
    query, grid, again = (
        SUM + " AND half = 'a'",
        "{{0,59},{17,40},{0,29}}",
        "{{0,29},{0,59},{17,40}}",
    )
    first = family(alice, query, grid)
    assert one(alice, "SELECT charge FROM dp.last_answer") == {"epsilon": "2"}
    with no_charge(cluster):
        assert sorted(family(alice, query, again)) == sorted(first)
        with cluster.connect("bob", tcp=True) as bob:
            bob.execute(f"SET dp.confidence = {SURE}")
            assert family(bob, query, grid) == first
            assert path(bob) == "cache"
    check(cluster, query, first)
    family(alice, query, "{{0,19},{0,39},{0,59}}")
    assert one(alice, "SELECT charge FROM dp.last_answer") == {"epsilon": "2"}


def test_what_no_matrix_is_better_for_is_a_release_by_cells(cluster: Cluster, alice: Connection) -> None:
    query = "SELECT count(*) FROM days WHERE day = $1 AND half = 'b'"
    found = family(alice, query, "{3,5,7}", name="narrow")
    assert one(alice, "SELECT mechanism FROM dp.last_answer") == "split cells (discrete Laplace)"
    plain = f"dp.dp_release_numeric('narrow', $q${query}$q$, '{{3,5,7}}', epsilon => 2)"
    with no_charge(cluster):
        assert alice.execute(f"SELECT * FROM {plain}").fetchall() == found


def test_what_is_said_of_it(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster):
        asked = plan(alice, SUM, GRID, "epsilon => 4")
    release = asked["release"]
    assert asked["charge"]["worst"] == {"epsilon": "4"}
    # 60 days and NULL's class; cells of 0, 1, 2, 4, 8 and NULL
    assert release["classes"] == 61 and release["cells"] == release["sums"] * 6
    assert release["cells_rmse"] == pytest.approx(2**0.5 / 4 * (85 * 60) ** 0.5, rel=1e-3)
    assert release["rmse"] < min(release["cells_rmse"], release["trees_rmse"])
    assert f"at most {release['rmse']:.4g}, where mechanism => 'cells' has {release['cells_rmse']:.4g}" in asked["text"]
    assert f"trees have {release['trees_rmse']:.4g}" in asked["text"]
    assert asked["mechanisms"]["range"]["rmse"] == release["trees_rmse"]
    family(alice, SUM, GRID, "epsilon => 4")
    facts = one(alice, "SELECT facts FROM dp.last_answer")["release"]
    assert facts["strategy"] == release["strategy"] and "rmse" not in facts  # which is of the grid
    with refused("DP005", "a release by range has no weighted table"):
        alice.execute("SELECT dp.dp_shown((SELECT request_id FROM dp.last_answer))")
    assert "trees_rmse" not in plan(alice, BUT, GRID)["release"]


def test_users_and_budgets_widen_the_noise(cluster: Cluster, alice: Connection) -> None:
    """Of users 4 rows each."""
    query = "SELECT count(*) FROM stay WHERE hour >= $1"
    with no_charge(cluster):
        by_users, by_rho = (
            plan(alice, query, "{0,10,20,30}", more)["release"] for more in ("epsilon => 2", "rho => 2")
        )
    assert by_users["cells_rmse"] == pytest.approx(4 * 2**0.5 / 2 * 50**0.5, rel=0.02)
    assert by_rho["cells_rmse"] == pytest.approx(4 / 2 * 50**0.5, rel=0.02)
    assert by_rho["rmse"] < by_rho["trees_rmse"] and by_users["rmse"] < by_users["trees_rmse"]


PLAIN = {
    "one of the grid": ("day BETWEEN 0 AND 59", "sum(cost)"),
    "another range": ("day BETWEEN 11 AND 47", "sum(cost)"),
    "a set with NULL": ("day < 11 OR day > 47 OR day IS NULL", "sum(cost)"),
    "rows": ("day > 30", "count(*)"),
    "rows with a value, of no range": ("day % 10 = 0", "count(cost)"),
}


@pytest.fixture(scope="module")
def plain(alice: Connection) -> list[Row]:
    return family(alice, SUM, GRID, "epsilon => 8", name="plain_matrix")


@pytest.mark.chance(MISS)
@pytest.mark.parametrize("name", PLAIN)
def test_plain_questions_about_its_classes_are_free(
    cluster: Cluster, alice: Connection, plain: list[Row], name: str
) -> None:
    """Any set of classes is read from it, sums and counts: with bars that hold the truth."""
    where, aggregate = PLAIN[name]
    with no_charge(cluster):
        (((value, low, high),),) = grouped(alice, "days", where, [], aggregate).values()
    assert path(alice) == "family"
    with cluster.connect("boss") as conn:
        true = float(one(conn, f"SELECT {aggregate} FROM days WHERE {where}".replace("%", "%%")))
    assert low <= true <= high and low <= value <= high
    if name == "one of the grid":
        mine = next(row for row in plain if row[0] == ["0", "59"])
        assert value == round(mine[1]) and (low, high) == pytest.approx(mine[3:5], abs=1)


@pytest.mark.chance(fix_chance.union(2 * MISS))  # of sums, and of counts, all sets at once
def test_groups_are_free_and_an_average_is_asked_for_itself(
    cluster: Cluster, alice: Connection, plain: list[Row]
) -> None:
    with no_charge(cluster):
        found = grouped(alice, "days", None, ["day / 20"], "sum(cost)", "count(*)")
        average = one(
            alice,
            "SELECT dp.dp_plan(dp.dp_avg_request('days', 'cost', 'day > 30', epsilon => 0.1))",
        )
    assert average["path"] != "family"
    with cluster.connect("boss") as conn:
        true = conn.execute("SELECT (day / 20)::text, sum(cost), count(*) FROM days GROUP BY 1").fetchall()
    assert {key for (key,) in found} == {key for key, *_ in true}
    for key, *exact in true:
        assert all(low <= number <= high for (_, low, high), number in zip(found[(key,)], exact, strict=True))


REFUSED = [
    (SUM, GRID, """epsilon => 1, publish => true""", "DP005", "sums of many classes and no table"),
    (
        "SELECT avg(cost) FROM days WHERE day <= $1",
        "{9,29,49}",
        "epsilon => 1",
        "DP005",
        "matrix strategy has no averages",
    ),
    (
        "SELECT variance(cost) FROM days WHERE day <= $1",
        "{9,29,49}",
        "epsilon => 1",
        "DP005",
        "has no variances",
    ),
    (
        "SELECT count(*) FROM days WHERE id >= $1",
        "{3}",
        "epsilon => 1",
        "DP005",
        "id has 4000 classes",
    ),
    (
        "SELECT count(*) FROM days WHERE day <= $1 AND cost = 2",
        "{" + "59," * 3000 + "3}",
        "epsilon => 1",
        "DP005",
        "3001 queries of",
    ),
]


@pytest.mark.parametrize(("query", "grid", "more", "sqlstate", "words"), REFUSED)
def test_refusals_cost_nothing(
    cluster: Cluster, alice: Connection, query: str, grid: str, more: str, sqlstate: str, words: str
) -> None:
    with no_charge(cluster), refused(sqlstate, words):
        family(alice, query, grid, more, name="refused_matrix")


@pytest.mark.parametrize(
    ("mechanism", "strategy", "words"),
    [("range", "best", "trees or matrix"), ("cells", "matrix", "unknown options")],
)
def test_other_strategies_and_mechanisms_are_refused(
    cluster: Cluster, alice: Connection, mechanism: str, strategy: str, words: str
) -> None:
    options = f"""mechanism => '{mechanism}', options => '{{"strategy": "{strategy}"}}'"""
    with no_charge(cluster), refused("DP005", words):
        alice.execute(f"SELECT dp.dp_release_numeric('x', $q${SUM}$q$, '{GRID}', epsilon => 1, {options})")
