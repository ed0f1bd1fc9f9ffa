"""dp_release_numeric(mechanism => 'alg2') as installed (numeric-release.md §5): answers, bars, price, refusals."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import no_charge, one
from fix_release import ADULT
from pg_epsilon.accounting.charges import Charge, total_rdp

Connection = psycopg.Connection[Any]
Row = tuple[list[str], float, None, float, float, bool]

# Of all tests together, twenty families whose bars hold at once at SURE, and two hundred draws of noise.
SURE = "0.999999999"
pytestmark = pytest.mark.chance(fix_chance.union(20 * 1e-9, fix_chance.beyond(24, 200)))


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


def family(conn: Connection, query: str, grid: str, more: str = "epsilon => 20", name: str | None = None) -> list[Row]:
    name = f"{conn.info.user}_{zlib.crc32(query.encode())}" if name is None else name  # one name, one query
    call = f"dp.dp_release_numeric('{name}', $q${query}$q$, $g${grid}$g$, mechanism => 'alg2', {more})"
    return conn.execute(f"SELECT * FROM {call}").fetchall()


def truth(cluster: Cluster, sql: str) -> float:
    with cluster.connect("boss") as conn:
        return float(one(conn, sql) or 0)


FAMILIES = {
    "ranges of a sum": (
        "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2",
        ["{17,20}", "{17,90}", "{30,60}", "{60,30}", "{-5,200}"],
        "SELECT sum(loss) FROM adult WHERE age BETWEEN greatest($1, 17) AND least($2, 90)",
    ),
    "counts by two columns": (
        "SELECT count(*) FROM adult a WHERE a.age >= $1 AND a.edu = $2",
        ["{17,hs}", '{40,"m\\"a"}', "{91,ba}"],
        "SELECT count(*) FROM adult WHERE age BETWEEN $1 AND 90 AND edu = '$2'",
    ),
    "both signs, sets that are no ranges": (
        "SELECT sum(price) FROM adult WHERE edu IN ($1, 'm\"a')",
        ["{hs}", "{ba}"],
        "SELECT sum(price) FROM adult WHERE edu IN ('$1', 'm\"a')",
    ),
    "NULL and NaN are 0": (
        "SELECT sum(temp) FROM adult WHERE stage = $1 AND age > 30",
        ["{red}", "{green}"],
        "SELECT sum(least(temp, 100)) FROM adult WHERE stage = '$1' AND age > 30 AND temp <> 'NaN'",
    ),
    "negative alone": (
        "SELECT sum(0 - loss) FROM adult WHERE stage = $1",
        ["{red}", "{amber}"],
        "SELECT sum(0 - loss) FROM adult WHERE stage = '$1'",
    ),
}


IN_BITS = """options => '{"decomposition": "bits"}'"""
EXACT = """options => '{"decomposition": "none"}'"""
SPLIT = """options => '{"decomposition": "split"}'"""


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "more",
    ["epsilon => 20", f"epsilon => 20, {EXACT}", f"epsilon => 20, {IN_BITS}"],
    ids=["split", "none", "bits"],
)
def test_bars_hold_the_truth(cluster: Cluster, alice: Connection, name: str, more: str) -> None:
    query, grid, plain = FAMILIES[name]
    found = family(alice, query, "{" + ",".join(grid) + "}", more)
    assert [row[0] for row in found] == [one(alice, "SELECT %s::text[]", asked) for asked in grid]
    for row in found:
        sql = plain
        for number, value in enumerate(row[0], 1):
            sql = sql.replace(f"${number}", value)
        true = truth(cluster, sql)
        assert row[3] <= true + 1e-9 and true - 1e-9 <= row[4], (row, true)
        assert row[2] is None and (not row[5] or row[1] == 0)


def test_many_rounds_at_a_large_epsilon_come_near(cluster: Cluster, alice: Connection) -> None:
    """The bars say something: that they hold is no matter of their width."""
    ages = ",".join(f"{{{low},{low + 9}}}" for low in range(20, 80, 10))
    query = "SELECT count(*) FROM adult WHERE age BETWEEN $1 AND $2"
    found = family(alice, query, "{" + ages + "}", """epsilon => 100, options => '{"rounds": 12}'""")
    for row in found:
        true = truth(cluster, query.replace("$1", row[0][0]).replace("$2", row[0][1]))
        assert row[1] == pytest.approx(true, abs=60) and row[4] - row[3] < 150 < true


def test_one_price_for_the_same_sets_of_classes(cluster: Cluster, alice: Connection) -> None:
    """Another spelling, order or repetition of the grid is the same question; another set is not."""
    query = "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2 AND price > 1"
    first = family(alice, query, "{{17,20},{17,90}}", "epsilon => 2")
    assert one(alice, "SELECT charge FROM dp.last_answer") == {"epsilon": "2"}
    with no_charge(cluster):
        again = family(alice, query, "{{017,90},{17,20},{3,20}}", "epsilon => 2")
        looser = family(alice, query, "{{17,20}, {17,90}}", """epsilon => 2, options => '{"threshold_share": 0.5}'""")
    assert [row[1:] for row in again] == [first[1][1:], first[0][1:], first[0][1:]]
    assert [row[0] for row in looser] == [row[0] for row in first]
    before = one(alice, "SELECT count(*) FROM dp.spending")
    family(alice, query, "{{18,20},{17,90}}", "epsilon => 2")
    assert one(alice, "SELECT count(*) FROM dp.spending") == before + 1


def test_answers_do_not_depend_on_the_confidence(cluster: Cluster, alice: Connection) -> None:
    query, grid = "SELECT sum(loss) FROM adult WHERE age >= $1", "{17,40,60}"
    sure = family(alice, query, grid, "epsilon => 2")
    with cluster.connect("alice", tcp=True) as conn, no_charge(cluster):
        usual = family(conn, query, grid, "epsilon => 2")
    assert [row[1] for row in usual] == [row[1] for row in sure]
    assert all(wide[4] - wide[3] > row[4] - row[3] for wide, row in zip(sure, usual, strict=True))


def test_what_is_said_of_it(cluster: Cluster, alice: Connection) -> None:
    call = "dp.dp_release_numeric{}('said', 'SELECT sum(price) FROM adult WHERE age = $1', '{{20,30}}', epsilon => 5,"
    call += ' options => \'{{"decomposition": "split"}}\','
    with no_charge(cluster):
        plan = one(alice, f"SELECT dp.dp_plan({call.format('_request')} mechanism => 'alg2'))")
    assert plan["charge"]["worst"] == {"epsilon": "5"}
    # ages; steps of 1/128 up to 8 and down to 4, and 0; of each step a count and a sum, of two queries
    facts = {"classes": 74, "cells": 74 * 22, "candidates": 2 * 2 * 21}
    assert {name: plan["release"][name] for name in facts} == facts
    assert "2 queries by Algorithm 2 from 1628 weights of 74 classes" in plan["text"]
    alice.execute(f"SELECT {call.format('')} mechanism => 'alg2')")
    found = one(alice, "SELECT facts FROM dp.last_answer")["release"]
    assert {name: found[name] for name in facts} == facts
    assert 1 <= found["rounds"] <= 84 and found["alpha"] > 0
    assert found["rows"] == pytest.approx(truth(cluster, "SELECT count(*) FROM adult WHERE age <= 90"), abs=240)
    assert one(alice, "SELECT mechanism FROM dp.last_answer") == "Algorithm 2 (multiplicative weights)"


def test_release_is_shown_again_as_a_weighted_table(cluster: Cluster, alice: Connection) -> None:
    family(
        alice, "SELECT sum(loss) FROM adult WHERE stage = $1", "{red,green}", f"epsilon => 7, {SPLIT}", name="secretive"
    )
    shown = one(alice, "SELECT dp.dp_shown((SELECT request_id FROM dp.last_answer))")["release"]
    assert "secretive" not in json.dumps(shown)
    assert shown["columns"] == ["stage", "value", "weight"]
    assert {row[0] for row in shown["rows"]} == {"red", "amber", "green"}
    assert {row[1] for row in shown["rows"]} <= {0, *(2**i for i in range(7))}
    assert 0 < sum(row[2] for row in shown["rows"]) < 6400


def test_without_decomposition_each_value_has_a_cell(cluster: Cluster, alice: Connection) -> None:
    """Another question than the split one, with values that no ladder has; plain SQL is answered from it.

    Where cells are few it is what is done when nobody says: the same question, in both spellings.
    """
    query, grid = "SELECT sum(loss) FROM adult WHERE stage = $1 AND price > 5", "{red,green,amber}"
    family(alice, query, grid, f"epsilon => 50, {SPLIT}", "exactly")
    before = one(alice, "SELECT count(*) FROM dp.spending")
    found = family(alice, query, grid, f"epsilon => 50, {EXACT}", "exactly")
    assert one(alice, "SELECT count(*) FROM dp.spending") == before + 1
    facts = one(alice, "SELECT facts FROM dp.last_answer")["release"]
    with no_charge(cluster):
        assert family(alice, query, grid, "epsilon => 50", "exactly") == found
    assert (facts["cells"], facts["candidates"]) == (3 * 51, 3 * 2 * 7)  # values 0 … 50; steps 1 … 64
    shown = one(alice, "SELECT dp.dp_shown((SELECT request_id FROM dp.last_answer))")["release"]
    assert {row[1] for row in shown["rows"]} <= set(range(51))
    assert {row[1] for row in shown["rows"]} - {0, *(2**i for i in range(7))}
    for row in found:
        added = sum(value * weight for stage, value, weight in shown["rows"] if stage == row[0][0])
        assert row[5] or row[1] <= added + 1  # values above the threshold count as the threshold
        with no_charge(cluster):
            asked = f"SELECT dp.dp_sum('adult', 'loss', $$stage = '{row[0][0]}' AND price > 5$$, epsilon => 0.5)"
            assert one(alice, asked) == round(row[1]) and path(alice) == "family"


def test_bits_count_a_row_several_times(cluster: Cluster, alice: Connection) -> None:
    """Loss has 6 bits, of which 31 and 47 have 5: no table is made of it, and the number of rows is told right."""
    query = "SELECT sum(loss) FROM adult WHERE stage = $1 AND price > 4"
    found = family(alice, query, "{red,green,amber}", f"epsilon => 50, {IN_BITS}", "by_bits")
    facts = one(alice, "SELECT facts FROM dp.last_answer")["release"]
    assert (facts["cells"], facts["candidates"]) == (3 * 7, 3 * 2 * 6)
    rows = truth(cluster, "SELECT count(*) FROM adult WHERE price > 4")
    assert facts["rows"] == pytest.approx(rows, abs=24)
    for row in found:
        with no_charge(cluster):
            asked = f"SELECT dp.dp_sum('adult', 'loss', $$stage = '{row[0][0]}' AND price > 4$$, epsilon => 0.5)"
            assert one(alice, asked) == round(row[1]) and path(alice) == "family"
    shown = "SELECT dp.dp_shown((SELECT request_id FROM dp.spending ORDER BY at DESC LIMIT 1))"
    with pytest.raises(psycopg.Error, match="a release by bits has no weighted table"):
        alice.execute(shown)
    with no_charge(cluster), pytest.raises(psycopg.Error, match="counts a row several times") as error:
        family(alice, query, "{red}", f"epsilon => 1, publish => true, {IN_BITS}", "by_bits")
    assert error.value.sqlstate == "DP005"


def test_values_that_are_too_many_for_cells_are_refused(cluster: Cluster, alice: Connection) -> None:
    query = "SELECT sum(loss * price * price) FROM adult WHERE stage = $1"
    words = r"a value of \d+ steps has more than 100000 cells"
    with no_charge(cluster), pytest.raises(psycopg.Error, match=words) as error:
        family(alice, query, "{red}", f"epsilon => 1, {EXACT}")
    assert error.value.sqlstate == "DP005"


def test_users_are_capped(alice: Connection) -> None:
    """Of each of 300 users 4 of 10 rows count."""
    found = family(alice, "SELECT count(*) FROM visit WHERE ward <> $1", "{x}", "epsilon => 100")
    assert found[0][1] == pytest.approx(1200, abs=60)
    facts = json.dumps(one(alice, "SELECT facts FROM dp.last_answer"))
    assert "at most 4 rows of each unit are in it" in facts


def path(conn: Connection) -> str:
    return str(one(conn, "SELECT path FROM dp.last_answer"))


def test_plain_questions_of_the_grid_are_free(cluster: Cluster, alice: Connection) -> None:
    """What the call said, with its bar; a question that is not of the grid is paid for."""
    query = "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2 AND price > 2"
    found = family(alice, query, "{{17,50},{30,60},{17,90}}", "epsilon => 20", "plain_alg2")
    ask = "SELECT dp.dp_sum('adult', 'loss', $${} AND price > 2$$, epsilon => 0.5)"
    with no_charge(cluster):
        assert one(alice, ask.format("age <= 50")) == round(found[0][1])
        assert path(alice) == "family"
        assert one(alice, ask.format("age >= 30 AND NOT age > 60")) == round(found[1][1])
        assert one(alice, "SELECT facts -> 'family' ->> 'name' FROM dp.last_answer") == "plain_alg2"
        assert one(alice, ask.format("age > 95")) == 0
        assert path(alice) == "family"
    for other in ("age = 17", "age BETWEEN 17 AND 51"):
        alice.execute(ask.format(other))
        assert path(alice) == "direct"
    assert alice.execute("SELECT dp.dp_count('adult', 'price > 2', epsilon => 0.5)").fetchall()
    assert path(alice) == "direct"


def test_bars_of_plain_questions_are_those_of_the_call(cluster: Cluster, alice: Connection) -> None:
    query = "SELECT count(*) FROM adult WHERE edu = $1 AND age > 40"
    found = family(alice, query, "{hs,ba}", "epsilon => 20", "bars_alg2")
    document = {
        "version": 1,
        "keys": ["edu"],
        "from": {"schema": "public", "name": "adult"},
        "where": "edu IN ('hs', 'ba') AND age > 40",
        "aggregates": ["count(*)"],
        "bars": True,
        "budget": {"epsilon": "0.5"},
        "settings": one(alice, "SELECT dp.session_settings()"),
    }
    with no_charge(cluster):
        answer = one(alice, "SELECT dp.dp_query(%s)", json.dumps(document))
    got = {row[0]: (row[1], bar[0][:2]) for row, bar in zip(answer["rows"], answer["bars"], strict=True)}
    for row in found:
        value, (low, high) = got[row[0][0]]
        assert int(value) == round(row[1])
        assert int(low) == pytest.approx(row[3], abs=1) and int(high) == pytest.approx(row[4], abs=1)


def test_others_are_not_served_from_a_grid_that_they_may_not_see(cluster: Cluster, alice: Connection) -> None:
    query = "SELECT sum(loss) FROM adult WHERE stage = $1 AND price > 3"
    family(alice, query, "{red}", "epsilon => 20", "hers")
    with cluster.connect("bob", tcp=True) as bob:
        bob.execute("SELECT dp.dp_sum('adult', 'loss', $$stage = 'red' AND price > 3$$, epsilon => 0.5)")
        assert path(bob) == "direct"
        assert one(bob, "SELECT queries FROM dp.families WHERE name = 'hers'") is None


def test_a_name_is_one_mechanism_and_its_newest_grid(cluster: Cluster, alice: Connection) -> None:
    query = "SELECT count(*) FROM adult WHERE age = $1 AND price > 4"
    family(alice, query, "{20,30}", "epsilon => 5", "twice")
    with no_charge(cluster), pytest.raises(psycopg.Error) as error:
        call = f"dp.dp_release_numeric('twice', $q${query}$q$, '{{20}}', mechanism => 'cells', epsilon => 1)"
        alice.execute(f"SELECT {call}")
    assert error.value.sqlstate == "DP005"
    family(alice, query, "{40}", "epsilon => 5", "twice")
    count = "SELECT dp.dp_count('adult', 'age = {} AND price > 4', epsilon => 0.5)"
    with no_charge(cluster):
        alice.execute(count.format(40))
    alice.execute(count.format(20))
    assert path(alice) == "direct"


REFUSED = [
    ("SELECT count(*) FROM visit WHERE ward = $1", "{n}", "rho => 1", "DP005"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", """options => '{"rounds": 0}'""", "DP005"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", """options => '{"rounds": true}'""", "DP005"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", """options => '{"rounds": 3}'""", "DP005"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", """options => '{"sweeps": 3}'""", "DP005"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", """options => '{"threshold_share": "1"}'""", "DP005"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", """options => '{"threshold_share": 1.5}'""", "DP005"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", """options => '{"decomposition": "halves"}'""", "DP005"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", "options => '[1]'", "DP003"),
    ("SELECT count(*) FROM loose WHERE ward = $1", "{n}", "epsilon => 1", "DP004"),
    ("SELECT count(*) FROM adult WHERE age = $1 AND born = $2 AND price = $3", "{{20,2024-01-02,1}}", "", "DP005"),
]


@pytest.mark.parametrize(("query", "grid", "more", "sqlstate"), REFUSED)
def test_refusals_cost_nothing(
    cluster: Cluster, alice: Connection, query: str, grid: str, more: str, sqlstate: str
) -> None:
    with no_charge(cluster), pytest.raises(psycopg.Error) as error:
        family(alice, query, grid, more or "epsilon => 1")
    assert error.value.sqlstate == sqlstate
    assert error.value.diag.message_hint


def test_cells_have_no_options(cluster: Cluster, alice: Connection) -> None:
    call = "SELECT dp.dp_release_numeric('o', 'SELECT count(*) FROM adult WHERE age = $1', '{20}', epsilon => 1,"
    with no_charge(cluster), pytest.raises(psycopg.Error) as error:
        alice.execute(f"""{call} options => '{{"rounds": 3}}')""")
    assert error.value.sqlstate == "DP005"


def chosen(cluster: Cluster, conn: Connection, name: str, grid: str, more: str) -> tuple[str, str]:
    """(Mechanism, text) of a plan by mechanism => 'auto'."""
    query = "SELECT sum(price) FROM adult WHERE age BETWEEN $1 AND $2 AND edu IN ($3, $4, $5)"
    call = f"dp.dp_release_numeric_request('{name}', $q${query}$q$, '{grid}', {more})"
    with no_charge(cluster):
        found = one(conn, f"SELECT dp.dp_plan({call})")
    return str(found["mechanism"]), str(found["text"])


WIDE = '{{17,90,hs,ba,"m\\"a"},{17,40,hs,ba,ba}}'


def test_auto_takes_cells_where_they_tell_enough_of_the_declared_rows(cluster: Cluster, alice: Connection) -> None:
    """3 * 74 classes of 11 steps: 2 / 4 sqrt(2 * 2442) = 35 rows are noise; Algorithm 2 cannot tell 25, or 1 of 20."""
    for more, mechanism in (
        ("epsilon => 4", "split cells"),  # of 100,000 declared rows 5,000
        ("epsilon => 4, options => '{\"rows\": 0}'", "Algorithm 2"),
        ("epsilon => 4, options => '{\"rows\": 600}'", "Algorithm 2"),
        ("epsilon => 4, options => '{\"rows\": 800}'", "split cells"),
    ):
        found, text = chosen(cluster, alice, "automatic", WIDE, more)
        assert found.startswith(mechanism)
        assert ("chosen because" in text) == (mechanism == "Algorithm 2")
    found, text = chosen(cluster, alice, "automatic", "{{17,20,hs,ba,ba}}", "epsilon => 4, options => '{\"rows\": 0}'")
    assert found.startswith("split cells") and "one query by itself" in text


def test_auto_keeps_what_a_name_was_released_by(cluster: Cluster, alice: Connection) -> None:
    query = "SELECT sum(price) FROM adult WHERE age BETWEEN $1 AND $2 AND edu IN ($3, $4, $5)"
    more = "epsilon => 4, options => '{\"rows\": 0}'"
    call = f"SELECT count(*) FROM dp.dp_release_numeric('kept', $q${query}$q$, $g${WIDE}$g$, {more})"
    assert one(alice, call) == 2
    assert one(alice, "SELECT mechanism FROM dp.last_answer").startswith("Algorithm 2")
    with no_charge(cluster):  # cells would be another family: its name would be taken
        assert one(alice, call.replace(more, "epsilon => 4")) == 2
    assert chosen(cluster, alice, "another", WIDE, "epsilon => 4")[0].startswith("split cells")


@pytest.mark.parametrize("rows", ["-1", '"many"', "1.5", "4611686018427387904"])
def test_rows_are_a_whole_number(cluster: Cluster, alice: Connection, rows: str) -> None:
    query = "SELECT sum(loss) FROM adult WHERE age = $1"
    call = f"dp.dp_release_numeric('odd', '{query}', '{{20,21}}', options => '{{\"rows\": {rows}}}')"
    with no_charge(cluster), pytest.raises(psycopg.Error, match="rows is a whole number") as caught:
        alice.execute(f"SELECT * FROM {call}")
    assert caught.value.sqlstate == "DP005" and "auto has rows" in str(caught.value.diag.message_hint)


def test_rounds_of_a_declared_number_cost_a_renyi_dataset_less(cluster: Cluster, alice: Connection) -> None:
    """Each is a choice and a measurement (composition.md §4); of a number that is chosen one round is sure."""
    query = "SELECT sum(cost) FROM visit WHERE ward = $1"
    paid = {}
    for rounds in (None, 2, 10):
        options = "{}" if rounds is None else f'{{"rounds": {rounds}}}'
        family(alice, query, "{n,s}", f"epsilon => 1, options => '{options}'", f"renyi_{rounds or 0}")
        with cluster.connect() as root:
            sql = (
                "SELECT charge, rdp::text[] FROM dp.ledger WHERE kind = 'charge'"
                " AND request -> 'release' ->> 'name' = %s"
            )
            ((charge, curve),) = root.execute(sql, [f"renyi_{rounds or 0}"]).fetchall()
            ((orders,),) = root.execute("SELECT orders::text[] FROM dp.dataset WHERE name = 'clinic'").fetchall()
        assert charge[1] == {"kind": "rounds", "epsilon": "0.88", "rounds": str(rounds or 1)}
        own = total_rdp([Charge.from_json(each) for each in charge], [Decimal(order) for order in orders])
        assert own == tuple(map(Decimal, curve))
        paid[rounds] = own
    assert all(few <= one for few, one in zip(paid[2], paid[None], strict=True))
    assert all(many < few for many, few in zip(paid[10], paid[2], strict=True))
    assert paid[10][len(orders) // 2] < paid[None][len(orders) // 2] * Decimal("0.7")
