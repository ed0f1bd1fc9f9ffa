"""Families whose classes end at values of their own (numeric-release.md §0.0, "Cells that do not exist")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import no_charge, one
from fix_release import ADULT

Connection = psycopg.Connection[Any]

# Of each test at most six answers whose bars hold at SURE.
SURE = "0.999999999"
pytestmark = pytest.mark.chance(fix_chance.union(6 * 1e-9))

YEARS = "SELECT sum(loss * (age - 17)) FROM adult WHERE age BETWEEN $1 AND $2"  # of age a at most 50 (a - 17)
SIGNED = "SELECT sum(price * (40 - age)) FROM adult WHERE age BETWEEN $1 AND $2 AND stage = $3"


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


def family(conn: Connection, name: str, query: str, grid: str, more: str) -> list[Any]:
    call = f"SELECT * FROM dp.dp_release_numeric('{name}', $q${query}$q$, '{grid}', {more})"
    return conn.execute(call).fetchall()


def plan(cluster: Cluster, conn: Connection, query: str, grid: str, more: str = "epsilon => 1") -> dict[str, Any]:
    call = f"SELECT dp.dp_plan(dp.dp_release_numeric_request('planned', $q${query}$q$, '{grid}', {more}))"
    with no_charge(cluster):
        return dict(one(conn, call))


def truth(cluster: Cluster, query: str, *values: str) -> float:
    for number, value in enumerate(values, 1):
        query = query.replace(f"${number}", f"'{value}'")
    with cluster.connect("boss") as conn:
        return float(one(conn, query) or 0)


CASES = {
    "one sign": ("years", YEARS, ["17,17", "18,25", "17,90"]),
    "two signs, of one of two axes": ("signed", SIGNED, ["17,39,red", "41,90,red", "40,40,green", "17,90,amber"]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("budget", ["epsilon => 20", "epsilon => 2"])
def test_bars_hold_plain_sql(cluster: Cluster, alice: Connection, name: str, budget: str) -> None:
    family_name, query, grid = CASES[name]
    found = family(alice, family_name, query, "{" + ",".join("{" + one + "}" for one in grid) + "}", budget)
    for parameters, answer, _, low, high, below in found:
        true = truth(cluster, query, *parameters)
        assert low <= true + 1e-9 and true - 1e-9 <= high, (parameters, true, low, high)
        assert low <= answer <= high and (not below or answer == 0)


def test_a_class_that_has_one_value_has_no_noise(cluster: Cluster, alice: Connection) -> None:
    """Of age 17 every product is 0, which is public."""
    ((_, *own),) = family(alice, "years", YEARS, "{{17,17}}", "epsilon => 20")
    assert own == [0, 0, 0, pytest.approx(0, abs=1e-6), True]  # a row's mass is 2^-40 exact
    with no_charge(cluster):
        assert one(alice, "SELECT dp.dp_sum('adult', 'loss * (age - 17)', 'age < 18')") == 0
    assert one(alice, "SELECT path FROM dp.last_answer") == "family"


def test_cells_that_do_not_exist_are_neither_drawn_nor_counted(cluster: Cluster, alice: Connection) -> None:
    """Of 74 ages with 13 steps up to 4,096, 0 and NULL: an age has the steps up to the first that is >= 50 (a - 17)."""
    steps = [0 if age == 17 else (50 * (age - 17) - 1).bit_length() + 1 for age in range(17, 91)]
    found = plan(cluster, alice, YEARS, "{{17,90},{20,21}}")
    assert found["release"]["cells"] == sum(steps) + 2 * 74
    squares = sum(4**step for own in steps for step in range(own))
    assert found["mechanisms"]["cells"]["rmse"] == pytest.approx((2 * squares) ** 0.5, rel=1e-3)
    assert found["mechanisms"]["cells"]["resolution"] == pytest.approx(2 * (2 * sum(steps)) ** 0.5, rel=1e-3)
    assert f"at most {found['mechanisms']['cells']['rmse']:.4g}" in found["text"]
    assert found["release"]["class_rmse"] == pytest.approx((2 * sum(4**step for step in range(13))) ** 0.5, rel=1e-3)


def test_a_value_beyond_its_class_counts_at_the_last_step(cluster: Cluster, alice: Connection) -> None:
    """Rows with a loss of 500, which is declared up to 50: at age 20 the last step is the first >= 150."""
    with cluster.connect("boss") as boss:
        boss.execute("CREATE TABLE odd AS SELECT i AS id, 20 AS age, 500 AS loss FROM generate_series(1, 40) i")
        boss.execute("ALTER TABLE odd ADD PRIMARY KEY (id)")
        boss.execute("CALL dp.protect('odd', 'adult', max_rows => 100)")
        boss.execute("CALL dp.describe_column('odd', 'age', bounds => '{17,90}', nullable => false)")
        boss.execute("CALL dp.describe_column('odd', 'loss', bounds => '{0,50}', nullable => false)")
        boss.execute("CALL dp.publish('odd')")
    query = YEARS.replace("adult", "odd")
    ((_, answer, unbiased, *_),) = family(alice, "odd", query, "{{20,20}}", "epsilon => 200")
    assert answer == pytest.approx(40 * 256, abs=60) and unbiased == pytest.approx(40 * 256, abs=60)


def test_plain_sql_and_the_table_say_the_same(cluster: Cluster, alice: Connection) -> None:
    query, grid = "SELECT sum(price * (age - 17)) FROM adult WHERE age <= $1", "{30,90}"
    found = family(alice, "same", query, grid, "epsilon => 3")
    shown = one(alice, "SELECT dp.dp_shown((SELECT request_id FROM dp.last_answer))")
    rows = shown["release"]["rows"]
    # of age 17 all are 0; a cell of rows without a number is there as well, and one in thirty shows for its noise
    assert {row[1] for row in rows if row[0] == "17"} <= {0, None, "NaN"}
    with no_charge(cluster):
        for (age,), answer, *_ in found:
            call = f"SELECT dp.dp_sum('adult', 'price * (age - 17)', 'age <= {age}')"
            assert float(one(alice, call)) == pytest.approx(answer, abs=0.01)
            assert one(alice, "SELECT path FROM dp.last_answer") == "family"
        assert one(alice, "SELECT dp.dp_count('adult', 'age <= 30')") > 0
        assert one(alice, "SELECT path FROM dp.last_answer") == "family"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(loss) FROM adult WHERE age = $1",
        "SELECT sum(loss * length(edu)) FROM adult WHERE edu <> $1 AND loss < 7",
        "SELECT count(*) FROM adult WHERE age = $1",
        "SELECT avg(loss * (age - age)) FROM adult WHERE age = $1",
    ],
    ids=["another column", "a text", "rows", "no narrower"],
)
def test_classes_that_end_alike_have_all_cells(cluster: Cluster, alice: Connection, query: str) -> None:
    grid = "{hs}" if "edu" in query else "{20,30}"
    found = plan(cluster, alice, query, grid)["release"]
    assert found["cells"] % found["classes"] == 0
