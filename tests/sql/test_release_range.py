"""dp_release_numeric(mechanism => 'range') as installed (numeric-release.md §8.1): answers, bars, price."""

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

Connection = psycopg.Connection[Any]
Row = tuple[list[str], float, float | None, float, float, bool]

WIDE = """
CREATE TABLE wide (id int PRIMARY KEY, day int, half text, cost int);
INSERT INTO wide SELECT i, CASE WHEN i % 50 = 0 THEN NULL ELSE i * 7919 % 1000 END, (ARRAY['a','b'])[1 + i % 2],
  CASE WHEN i % 70 = 0 THEN NULL ELSE i % 9 END FROM generate_series(1, 8000) i;
CALL dp.protect('wide', 'adult', max_rows => 100000);
CALL dp.describe_column('wide', 'day', bounds => '{0,999}');
CALL dp.describe_column('wide', 'half', domain => '{a,b}', nullable => false);
CALL dp.describe_column('wide', 'cost', bounds => '{0,8}');
CALL dp.describe_column('wide', 'id', bounds => '{1,8000}', nullable => false);
CALL dp.publish('wide');
CREATE TABLE stay (id int PRIMARY KEY, person int, hour int, cost int);
INSERT INTO stay SELECT i, i % 300, i % 200, i % 9 FROM generate_series(1, 3000) i;
CALL dp.protect('stay', 'clinic', unit_column => 'person', max_rows_per_unit => 4, max_rows => 10000);
CALL dp.describe_column('stay', 'hour', bounds => '{0,199}', nullable => false);
CALL dp.describe_column('stay', 'cost', bounds => '{0,8}', nullable => false);
CALL dp.publish('stay');
"""
# Of all tests together, a hundred bars that hold at SURE.
SURE = "0.999999999"
pytestmark = pytest.mark.chance(fix_chance.union(100 * 1e-9))
SUM = "SELECT sum(cost) FROM wide WHERE day BETWEEN $1 AND $2"
GRID = "{{0,999},{17,640},{500,999},{90,20},{3,3}}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(ADULT, user="boss")
        running.psql(WIDE, user="boss")
        yield running


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice", tcp=True) as conn:
        conn.execute(f"SET dp.confidence = {SURE}")
        yield conn


def family(conn: Connection, query: str, grid: str, more: str = "epsilon => 2", name: str | None = None) -> list[Row]:
    name = f"{conn.info.user}_{zlib.crc32(query.encode())}" if name is None else name  # one name, one query
    call = f"dp.dp_release_numeric('{name}', $q${query}$q$, $g${grid}$g$, mechanism => 'range', {more})"
    return conn.execute(f"SELECT * FROM {call}").fetchall()


def check(cluster: Cluster, query: str, rows: list[Row]) -> None:
    """Every bar holds the truth, and its answer."""
    with cluster.connect("boss") as conn:
        for parameters, answer, _, low, high, _ in rows:
            sql = query
            for number, value in enumerate(parameters, 1):
                sql = sql.replace(f"${number}", f"'{value}'")
            true = one(conn, sql)
            assert low <= answer <= high
            assert low <= float(true or 0) <= high, (parameters, true)


def path(conn: Connection) -> str:
    return str(one(conn, "SELECT path FROM dp.last_answer"))


FAMILIES = [
    (SUM, GRID, "epsilon => 2"),
    ("SELECT count(*) FROM wide WHERE day >= $1 AND day < $2 AND cost > 3", GRID, "epsilon => 2"),
    (
        "SELECT sum(cost - 4) FROM wide WHERE day <= $1 AND half = $2",
        "{{999,a},{480,a},{700,b},{-1,a}}",
        "epsilon => 2",
    ),
    ("SELECT count(cost) FROM wide WHERE day >= $1", "{0,300}", "epsilon => 2, simultaneous => false"),
    ("SELECT avg(cost) FROM wide WHERE day >= $1 AND half = $2", "{{0,a},{300,b}}", "epsilon => 2"),
    ("SELECT sum(cost) FROM stay WHERE hour >= $1", "{0,100}", "rho => 0.5"),
]


@pytest.mark.parametrize(("query", "grid", "more"), FAMILIES)
def test_bars_hold_the_truth(cluster: Cluster, alice: Connection, query: str, grid: str, more: str) -> None:
    found = family(alice, query, grid, more)
    assert "ranges of split cells" in one(alice, "SELECT mechanism FROM dp.last_answer")
    if "stay" not in query:  # of users some rows alone count
        check(cluster, query, found)
    assert max(row[4] - row[3] for row in found) > 0


def test_another_grid_is_a_cached_answer(cluster: Cluster, alice: Connection) -> None:
    """As long as it is read from the same levels; what is released is everybody's."""
    query = SUM + " AND half = 'a'"
    family(alice, query, GRID)
    assert one(alice, "SELECT charge FROM dp.last_answer") == {"epsilon": "2"}
    with no_charge(cluster):
        found = family(alice, query, "{{0,999},{18,641},{501,999}}")
        assert path(alice) == "cache"
    check(cluster, query, found)
    with cluster.connect("bob", tcp=True) as bob, no_charge(cluster):
        bob.execute(f"SET dp.confidence = {SURE}")
        check(cluster, query, family(bob, query, GRID))


def test_narrow_ranges_are_a_release_by_cells(cluster: Cluster, alice: Connection) -> None:
    """Where single classes are nearest, it is that release, and the same one."""
    query, grid = "SELECT count(*) FROM wide WHERE day >= $1 AND day < $2 AND half = 'b'", "{{3,5},{100,101}}"
    found = family(alice, query, grid, name="narrow")
    assert one(alice, "SELECT mechanism FROM dp.last_answer") == "split cells (discrete Laplace)"
    call = f"dp.dp_release_numeric('narrow', $q${query}$q$, '{grid}', epsilon => 2)"
    with no_charge(cluster):
        assert alice.execute(f"SELECT * FROM {call}").fetchall() == found


def test_what_is_said_of_it(cluster: Cluster, alice: Connection) -> None:
    call = "dp.dp_release_numeric{}('said', $q$" + SUM + "$q$, '{}', epsilon => 4, mechanism => 'range')"
    with no_charge(cluster):
        plan = one(alice, f"SELECT dp.dp_plan({call.format('_request', '{{0,999}}')})")
    assert plan["charge"]["worst"] == {"epsilon": "4"}
    release = plan["release"]
    # levels of 1 and of all thousand; NULL's class is by itself in both; cells of 0, 1, 2, 4, 8 and NULL
    assert release["levels"] == [[1, 1024]] and release["nodes"] == 1000 + 1 + 1 + 1
    assert release["cells"] == 1003 * 6 and release["classes"] == 1001
    assert release["rmse"] == release["node_rmse"] == pytest.approx(2 * 2**0.5 / 4 * 85**0.5, rel=1e-3)
    by_cells = 2**0.5 / 4 * (85 * 1000) ** 0.5
    assert f"at most {release['node_rmse']:.4g}, where mechanism => 'cells' has {by_cells:.4g}" in plan["text"]
    assert release["cells_rmse"] == pytest.approx(by_cells, rel=1e-3)
    compared = plan["mechanisms"]
    assert (compared["range"]["rmse"], compared["cells"]["rmse"]) == (release["rmse"], release["cells_rmse"])
    assert compared["range"]["integers"] == release["cells"] == compared["cells"]["integers"] + 2 * 6
    other = one(alice, "SELECT dp.dp_plan(dp.dp_release_numeric_request('n', $q$" + SUM + "$q$, '{{3,5},{7,9}}'))")
    assert other["mechanisms"]["range"] == other["mechanisms"]["cells"]
    gaps = "SELECT dp.dp_plan(dp.dp_release_numeric_request('n', 'SELECT count(*) FROM wide WHERE day <> $1', '{3}'))"
    assert "not next to each other" in one(alice, gaps)["mechanisms"]["range"]["refused"]
    alice.execute(f"SELECT {call.format('', '{{0,999}}')}")
    assert "rmse" not in one(alice, "SELECT facts FROM dp.last_answer")["release"]  # which is of the grid
    assert one(alice, "SELECT charge FROM dp.spending ORDER BY at DESC LIMIT 1") == [
        {"kind": "laplace", "epsilon": "4"}
    ]
    with refused("DP005", "a release by range has no weighted table"):
        alice.execute("SELECT dp.dp_shown((SELECT request_id FROM dp.last_answer))")


def test_users_and_budgets_widen_the_noise(cluster: Cluster, alice: Connection) -> None:
    """Of users 4 rows each, in each level; rho: the root of the levels."""
    query = "$q$SELECT count(*) FROM {} WHERE {} >= $1$q$"
    call = f"dp.dp_release_numeric_request('u', {query}, '{{{{0}}}}', {{}}, mechanism => 'range')"
    with no_charge(cluster):
        plans = [
            one(alice, f"SELECT dp.dp_plan({call.format(*given)})")["release"]
            for given in (
                ("stay", "hour", "epsilon => 2"),
                ("stay", "hour", "rho => 2"),
                ("wide", "day", "epsilon => 2"),
            )
        ]
    assert [len(plan["levels"][0]) for plan in plans] == [2, 2, 2]
    expected = [4 * 2 * 2**0.5 / 2, 4 * 2**0.5 / 2, 2 * 2**0.5 / 2]
    assert [plan["node_rmse"] for plan in plans] == pytest.approx(expected, rel=0.02)


PLAIN = {
    "the widest of the grid": ("day BETWEEN 0 AND 999", "sum(cost)"),
    "another range": ("day BETWEEN 31 AND 777", "sum(cost)"),
    "a set with NULL": ("day < 31 OR day > 777 OR day IS NULL", "sum(cost)"),
    "rows": ("day > 500", "count(*)"),
    "rows with a value, of no range": ("day % 10 = 0", "count(cost)"),
    "an average": ("day > 500", "avg(cost)"),
    "an average of no range": ("day % 2 = 0", "avg(cost)"),
}


@pytest.fixture(scope="module")
def plain(alice: Connection) -> list[Row]:
    return family(alice, SUM, "{{0,999},{40,800}}", "epsilon => 8", "plain_range")


@pytest.mark.parametrize("name", PLAIN)
def test_plain_questions_about_its_classes_are_free(
    cluster: Cluster, alice: Connection, plain: list[Row], name: str
) -> None:
    """Any range, any set, counts and averages beside sums: with bars that hold the truth."""
    where, aggregate = PLAIN[name]
    with no_charge(cluster):
        (((value, low, high),),) = grouped(alice, "wide", where, [], aggregate).values()
    assert one(alice, "SELECT facts -> 'family' ->> 'name' FROM dp.last_answer") == "plain_range"
    with cluster.connect("boss") as conn:
        true = float(one(conn, f"SELECT {aggregate} FROM wide WHERE {where}".replace("%", "%%")))
    assert low <= true <= high and low <= value <= high
    if name == "the widest of the grid":
        assert value == round(plain[0][1]) and (low, high) == pytest.approx(plain[0][3:5], abs=1)


def test_groups_are_free_and_another_range_has_a_wider_bar(
    cluster: Cluster, alice: Connection, plain: list[Row]
) -> None:
    with no_charge(cluster):
        found = grouped(alice, "wide", None, ["day / 200"], "sum(cost)", "count(*)")
        (((_, low, high),),) = grouped(alice, "wide", "day <= 998", [], "sum(cost)").values()
    assert high - low > plain[0][4] - plain[0][3]
    with cluster.connect("boss") as conn:
        true = conn.execute("SELECT (day / 200)::text, sum(cost), count(*) FROM wide GROUP BY 1").fetchall()
    assert {key for (key,) in found} == {key for key, *_ in true}
    for key, *exact in true:
        assert all(low <= number <= high for (_, low, high), number in zip(found[(key,)], exact, strict=True))


def test_of_two_families_the_one_with_less_noise_answers(cluster: Cluster, alice: Connection) -> None:
    """That by cells where few classes are asked for, that by ranges where many are."""
    query, more = "SELECT count(*) FROM wide WHERE day >= $1 AND cost > 6", "cost > 6"
    family(alice, query, "{0,500}", name="for_wide")
    alice.execute(f"SELECT dp.dp_release_numeric('for_narrow', '{query}', '{{0}}', epsilon => 2)")
    for where, name in (("day = 7", "for_narrow"), ("day >= 2", "for_wide")):
        with no_charge(cluster):
            alice.execute(f"SELECT dp.dp_count('wide', '{where} AND {more}', epsilon => 0.01)")
        assert one(alice, "SELECT facts -> 'family' ->> 'name' FROM dp.last_answer") == name


REFUSED = [
    ("SELECT count(*) FROM wide WHERE day <> $1", "{3}", "epsilon => 1", "DP003", "not next to each other"),
    ("SELECT count(*) FROM wide WHERE day IN ($1, $2)", "{{3,5}}", "epsilon => 1", "DP003", "not next to each other"),
    (SUM, GRID, "epsilon => 1, publish => true", "DP005", "sums of many classes and no table"),
    (SUM, GRID, """epsilon => 1, options => '{"rounds": 3}'""", "DP005", "options"),
    (SUM, "{{999,x}}", "epsilon => 1", "DP003", "no int4"),
    ("SELECT avg(cost) FROM wide WHERE day >= $1", "{" + "1," * 1000 + "2}", "epsilon => 1", "DP005", "1000 averages"),
    (
        "SELECT sum(cost) FROM wide WHERE day >= $1 AND id > $2",
        "{{0,0},{500,3}}",
        "epsilon => 1",
        "DP005",
        "nodes over 8008000 classes of 6 cells each are more than 4000000 cells",
    ),
]


@pytest.mark.parametrize(("query", "grid", "more", "sqlstate", "words"), REFUSED)
def test_refusals_cost_nothing(
    cluster: Cluster, alice: Connection, query: str, grid: str, more: str, sqlstate: str, words: str
) -> None:
    with no_charge(cluster), refused(sqlstate, words):
        family(alice, query, grid, more, "refused_range")
