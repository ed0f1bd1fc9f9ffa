"""dp_release_numeric as installed (numeric-release.md): answers of a whole family, one price, refusals for nothing."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import no_charge, one, refused
from fix_release import ADULT, upper
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.release.masses import Values

Connection = psycopg.Connection[Any]
Row = tuple[list[str], float, float, float, float, bool]

SHARP = "epsilon => 25"
# Of each test at most twenty answers whose bars hold at SURE, and five hundred draws of noise.
SURE = "0.999999999"
pytestmark = pytest.mark.chance(fix_chance.union(20 * 1e-9, fix_chance.beyond(24, 500)))


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


FAMILIES = {
    "range of a sum": (
        "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2",
        ["{17,20}", "{17,90}", "{30,60}", "{60,30}", "{-5,200}"],
        "SELECT sum(loss) FROM adult WHERE age BETWEEN greatest($1, 17) AND least($2, 90)",
    ),
    "count by two columns": (
        "SELECT count(*) FROM adult a WHERE a.age >= $1 AND a.edu = $2",
        ["{17,hs}", '{40,"m\\"a"}', "{91,ba}"],
        "SELECT count(*) FROM adult WHERE age BETWEEN $1 AND 90 AND edu = '$2'",
    ),
    "both signs": (
        "SELECT sum(price) FROM adult WHERE edu IN ($1, 'ba')",
        ["{hs}", "{ba}"],
        "SELECT sum(price) FROM adult WHERE edu IN ('$1', 'ba')",
    ),
    "not null": (
        "SELECT count(temp) FROM adult WHERE edu <> $1",
        ["{hs}", "{other}"],
        "SELECT count(temp) FROM adult WHERE edu <> '$1' AND edu IN ('hs', 'ba', 'm\"a')",
    ),
    "NaN counts as NULL": (
        "SELECT sum(temp) FROM adult WHERE stage = $1 AND age > 30",
        ["{red}", "{green}"],
        "SELECT sum(least(temp, 100)) FROM adult WHERE stage = '$1' AND age > 30 AND temp <> 'NaN'",
    ),
    "dates": (
        "SELECT sum(loss) FROM public.adult WHERE born >= $1 AND born < $2",
        ["{2024-01-05,2024-01-20}", "{2024-01-31,2024-02-09}"],
        "SELECT sum(loss) FROM adult WHERE born >= '$1' AND born < '$2' AND born <= '2024-01-31'",
    ),
    "declared edges": (
        "SELECT sum(loss) FROM adult WHERE rate >= $1 AND rate < $2",
        ["{2.5,5}", "{0,10}"],
        "SELECT sum(loss) FROM adult WHERE rate >= $1 AND rate < $2",
    ),
    "an expression": (
        "SELECT sum(loss / 2 + 1) FROM adult WHERE stage <> $1 AND price > 0",
        ["{red}"],
        "SELECT sum(loss / 2 + 1) FROM adult WHERE stage <> '$1' AND price > 0",
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_answers_are_those_of_plain_sql(cluster: Cluster, alice: Connection, name: str) -> None:
    query, grid, plain = FAMILIES[name]
    found = family(alice, query, "{" + ",".join(grid) + "}")
    assert [row[0] for row in found] == [one(alice, "SELECT %s::text[]", asked) for asked in grid]
    for row in found:
        sql = plain
        for number, value in enumerate(row[0], 1):
            sql = sql.replace(f"${number}", value)
        true = truth(cluster, sql)
        assert row[3] <= true + 1e-9 and true - 1e-9 <= row[4], (row, true)
        assert row[3] <= row[1] <= row[4]
        assert not row[5] or row[1] == 0


def test_parameters_come_back_as_they_were_written(alice: Connection) -> None:
    found = family(alice, "SELECT count(*) FROM adult WHERE age = $1", "{017, 18 ,+19}")
    assert [row[0] for row in found] == [["017"], ["18"], ["+19"]]


def test_one_price_for_all_grids_of_the_same_columns(cluster: Cluster, alice: Connection) -> None:
    query = "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2 AND price > 1"
    before = one(alice, "SELECT count(*) FROM dp.spending")
    family(alice, query, "{{17,20},{17,90}}", "epsilon => 2")
    assert one(alice, "SELECT count(*) FROM dp.spending") == before + 1
    with no_charge(cluster):
        family(alice, query, "{{18,22},{50,51},{17,20}}", "epsilon => 2", name="another")
        family(alice, query.replace("BETWEEN $1 AND $2", "NOT IN ($1)"), "{40}", "epsilon => 2")
        family(alice, query, "{{18,22}}", "epsilon => 2, simultaneous => false")
    family(alice, query, "{{18,22}}", "epsilon => 2, fresh => true")
    assert one(alice, "SELECT count(*) FROM dp.spending") == before + 2


def test_averages_cost_what_their_sums_cost(cluster: Cluster, alice: Connection) -> None:
    """One release for sums and averages; of no class there is no average, and too many of them are refused."""
    query, grid = "SELECT avg(temp) FROM adult WHERE stage = $1 AND age > 40", "{red,green,red}"
    found = family(alice, query, grid)
    for row in found:
        plain = f"SELECT avg(least(temp, 100)) FROM adult WHERE stage = '{row[0][0]}' AND age > 40 AND temp <> 'NaN'"
        true = truth(cluster, plain)
        assert row[3] <= true <= row[4] and row[4] - row[3] < true / 2, (row, true)
        assert row[1] == pytest.approx(true, rel=0.2) and row[2] == pytest.approx(true, rel=0.2)
    assert found[0] == found[2]
    with no_charge(cluster):
        family(alice, query.replace("avg", "sum"), grid)
        (narrow,) = family(alice, query, "{red}", f"{SHARP}, simultaneous => false")
        assert narrow[4] - narrow[3] < found[0][4] - found[0][3]
    ages = "SELECT avg(loss) FROM adult WHERE age BETWEEN $1 AND $2"
    assert family(alice, ages, "{{60,30}}")[0][1:] == (None, None, None, None, False)
    with no_charge(cluster), refused("DP005"):
        family(alice, ages, "{" + ",".join(f"{{{n % 70},{n}}}" for n in range(1001)) + "}")


def test_a_grid_may_have_thousands_of_values(cluster: Cluster, alice: Connection) -> None:
    """More than a SELECT has room for columns."""
    grid = "{" + ",".join(str(n) for n in range(-900, 900)) + "}"
    found = family(alice, "SELECT count(*) FROM adult WHERE age < $1 AND price > 6", grid)
    assert len(found) == 1800 and found[0][1] == 0
    true = truth(cluster, "SELECT count(*) FROM adult WHERE age <= 90 AND price > 6")
    assert found[-1][3] <= true <= found[-1][4]


def test_bars_of_one_query_are_narrower_than_those_of_all(alice: Connection) -> None:
    query, grid = "SELECT count(*) FROM adult WHERE age = $1", "{" + ",".join(map(str, range(17, 91))) + "}"
    both = family(alice, query, grid, "epsilon => 1"), family(alice, query, grid, "epsilon => 1, simultaneous => false")
    assert all(wide[4] - wide[3] > narrow[4] - narrow[3] for wide, narrow in zip(*both, strict=True))


def test_release_is_shown_again_as_a_weighted_table(cluster: Cluster, alice: Connection) -> None:
    """What everybody who is served the release may see: classes, values and weights, and nothing of a grid."""
    query = "SELECT sum(loss) FROM adult WHERE stage = $1"
    family(alice, query, "{red,green}", "epsilon => 7", name="secretive")
    with cluster.connect("bob", tcp=True) as bob, no_charge(cluster):
        family(bob, query, "{red}", "epsilon => 7")
        shown = one(bob, "SELECT dp.dp_shown((SELECT request_id FROM dp.last_answer))")
    assert "secretive" not in json.dumps(shown)
    assert shown["release"]["columns"] == ["stage", "value", "weight"]
    rows = shown["release"]["rows"]
    assert {row[0] for row in rows} == {"red", "amber", "green"}
    with cluster.connect("boss") as root:
        for stage in ("red", "amber", "green"):
            true = one(root, "SELECT count(*) FROM adult WHERE stage = %s::stage", stage)
            weights = [row[2] for row in rows if row[0] == stage]
            assert sum(weights) == pytest.approx(true, abs=8 * 24 / 7)
            values = sum((row[1] or 0) * row[2] for row in rows if row[0] == stage)  # the cell of NULL may show noise
            assert values == pytest.approx(
                one(root, "SELECT sum(loss) FROM adult WHERE stage = %s::stage", stage), abs=128 * 24 / 7
            )


def test_plan_says_what_it_costs_and_reads_nothing(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster):
        found = one(
            alice,
            "SELECT dp.dp_plan(dp.dp_release_numeric_request('n', 'SELECT sum(price) FROM adult WHERE age = $1',"
            " '{20,30}', epsilon => 5))",
        )
    assert found["charge"]["worst"] == {"epsilon": "5"}
    assert found["release"]["classes"] == 74
    assert found["release"]["cells"] == 74 * 24
    assert found["release"]["class_rmse"] > 0
    assert "n: 2 queries from 1776 cells of 74 classes" in found["text"]


def test_users_are_capped_and_rho_is_gaussian(alice: Connection) -> None:
    """Of each of 300 users 4 of 10 rows count, and every ward's share of them."""
    found = family(alice, "SELECT count(*) FROM visit WHERE ward = $1", "{n,s}", "rho => 50")
    assert sum(row[1] for row in found) == pytest.approx(1200, abs=20)
    assert "discrete Gaussian" in one(alice, "SELECT mechanism FROM dp.last_answer")
    facts = json.dumps(one(alice, "SELECT facts FROM dp.last_answer"))
    assert "at most 4 rows of each unit are in it" in facts


REFUSED = [
    ("SELECT sum(loss) FROM adult WHERE age = $1", "{a}", "", "DP003"),
    ("SELECT sum(loss) FROM adult WHERE age = $1", "{{1,2}}", "", "DP003"),
    ("SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2", "{1,2}", "", "DP003"),
    ("SELECT sum(loss) FROM adult WHERE age = $1", "{}", "", "DP003"),
    ("SELECT sum(loss) FROM adult WHERE age = $1", "{NULL}", "", "DP003"),
    ("SELECT sum(loss) FROM adult WHERE edu >= $1", "{a}", "", "DP003"),
    ("SELECT sum(loss) FROM adult WHERE temp > $1", "{1}", "", "DP003"),
    ("SELECT sum(loss) FROM adult WHERE price + 1 > $1", "{1}", "", "DP003"),
    ("SELECT sum(loss) FROM adult WHERE age = $1 AND id IN ($2)", "{{1,2}}", "", "DP004"),
    ("SELECT sum(loss) FROM adult WHERE rate >= $1", "{3}", "", "DP005"),
    ("SELECT sum(loss) FROM adult WHERE nothing = $1", "{3}", "", "42703"),
    ("SELECT sum(loss) FROM nowhere WHERE age = $1", "{3}", "", "42501"),
    ("SELECT count(*) FROM hidden WHERE age = $1", "{3}", "", "42501"),
    ("SELECT sum(loss) FROM adult WHERE age = $1 AND pg_sleep(1) IS NULL", "{3}", "", "DP003"),
    ("SELECT sum(loss) FROM adult WHERE age IN ($1, length(pg_read_file('x')))", "{3}", "", "DP003"),
    ("SELECT sum(loss FROM adult WHERE age = $1", "{3}", "", "42601"),
    ("SELECT count(*) FROM loose WHERE ward = $1", "{n}", "epsilon => 1", "DP004"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", "mechanism => 'best'", "DP005"),
    ("SELECT avg(DISTINCT loss) FROM adult WHERE age = $1", "{20}", "", "DP003"),
    ("SELECT avg(edu) FROM adult WHERE age = $1", "{20}", "", "DP003"),
    ("SELECT avg(loss) FROM adult WHERE age = $1", "{20}", "mechanism => 'alg2', epsilon => 1", "DP005"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", "epsilon => 0", "DP005"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", "rho => 1", "DP005"),
    ("SELECT count(*) FROM adult WHERE age = $1 AND born = $2 AND price = $3", "{{20,2024-01-02,1}}", "", "DP005"),
]


@pytest.mark.parametrize(("query", "grid", "more", "sqlstate"), REFUSED)
def test_refusals_cost_nothing(
    cluster: Cluster, alice: Connection, query: str, grid: str, more: str, sqlstate: str
) -> None:
    with no_charge(cluster), pytest.raises(psycopg.Error) as error:
        family(alice, query, grid, more)
    assert error.value.sqlstate == sqlstate
    assert error.value.diag.message_hint or sqlstate in ("42601", "42703")


@pytest.mark.parametrize("name", ["", "Loss", "1st", "a-b", "x" * 56])
def test_names_that_no_table_could_have(cluster: Cluster, alice: Connection, name: str) -> None:
    with no_charge(cluster), pytest.raises(psycopg.Error) as error:
        family(alice, "SELECT count(*) FROM adult WHERE age = $1", "{20}", name=name)
    assert error.value.sqlstate == "DP005"


def test_hidden_and_missing_relations_look_alike(alice: Connection) -> None:
    def message(table: str) -> str:
        with pytest.raises(psycopg.Error) as error:
            family(alice, f"SELECT count(*) FROM {table} WHERE age = $1", "{20}")
        return str(error.value.diag.message_primary).replace(table, "t")

    assert message("hidden") == message("nowhere")


def test_budget_that_does_not_suffice_is_refused(cluster: Cluster) -> None:
    with cluster.connect("bob", tcp=True) as bob, no_charge(cluster), refused("DP001"):
        family(bob, "SELECT count(*) FROM adult WHERE age = $1", "{20}", "epsilon => 11")


def masses_of(cluster: Cluster, values: Values) -> list[tuple[int, int, int]]:
    """(v, part, upper mass) of many integers, by the SQL of masses.py."""
    part = values.part_sql("v", "v IS NULL", "false")
    rows = f"SELECT v, {part} AS p FROM unnest($1::int8[]) AS v"
    some = sorted({
        *range(max(values.low, -70), min(values.high, 70) + 1),
        *(sign * 2**i + off for i in range(62) for off in (-1, 0, 1) for sign in (1, -1)),
        *(int(step / values.step) + d for step in values.steps for d in (-1, 0, 1)),
        values.low, values.high,
    })  # fmt: skip
    some = [v for v in some if values.low <= v <= values.high]
    with cluster.connect("boss") as conn:
        return conn.execute(
            f"SELECT v, p, {values.upper_sql('v', 'p')} FROM ({rows.replace('$1', '%s')}) AS r", [some]
        ).fetchall()


LATTICES = {
    "whole": (0, 4356, Fraction(1)),
    "cents, both signs": (-30000, 70000, Fraction(1, 100)),
    "one step": (0, 1, Fraction(1)),
    "negative": (-9, -2, Fraction(5)),
    "thirds": (0, 2**50, Fraction(1, 3)),
    "coarse and long": (0, 2**52, Fraction(1)),
    "fine": (-(2**30), 2**30, Fraction(1, 10**6)),
}


@pytest.mark.parametrize("name", LATTICES)
def test_masses_in_sql_are_the_exact_shares_rounded_down(cluster: Cluster, name: str) -> None:
    low, high, step = LATTICES[name]
    values = Values.of(Lattice("v", low, high, step, step == 1), 2**20)
    found = masses_of(cluster, values)
    assert len(found) >= 2
    for v, part, mass in found:
        assert (part, mass) == upper(values, v), v


def test_grid_has_all_combinations_in_order(alice: Connection) -> None:
    assert one(alice, "SELECT dp.grid('{17,18}', '{hs,\"m\\\"a\"}', '{x}')") == [
        ["17", "hs", "x"], ["17", 'm"a', "x"], ["18", "hs", "x"], ["18", 'm"a', "x"],
    ]  # fmt: skip
    assert one(alice, "SELECT dp.grid('{3,1,2}')") == [["3"], ["1"], ["2"]]
    found = alice.execute(
        "SELECT parameters FROM dp.dp_release_numeric('g', 'SELECT count(*) FROM adult WHERE age = $1 AND edu = $2',"
        " dp.grid('{17,18}', '{hs,ba}'), epsilon => 1)"
    ).fetchall()
    assert found == [(["17", "hs"],), (["17", "ba"],), (["18", "hs"],), (["18", "ba"],)]


@pytest.mark.parametrize("lists", ["'{}'", "'{1}', '{}'", "'{1,NULL}'", "'{{1,2}}'", "VARIADIC NULL", "VARIADIC '{}'"])
def test_lists_that_make_no_grid(alice: Connection, lists: str) -> None:
    with pytest.raises(psycopg.Error) as error:
        alice.execute(f"SELECT dp.grid({lists})")
    assert error.value.sqlstate in ("DP005", "0A000")


def test_grid_is_limited(alice: Connection) -> None:
    ten = "'{1,2,3,4,5,6,7,8,9,10}'"
    thousand = one(alice, f"SELECT dp.grid({', '.join([ten] * 3)})")
    assert thousand == [[str(a), str(b), str(c)] for a in range(1, 11) for b in range(1, 11) for c in range(1, 11)]
    with refused("DP005"):
        alice.execute(f"SELECT dp.grid({', '.join([ten] * 6)})")
