"""dp_release_numeric(mechanism => 'composition') as installed (numeric-release.md §10.2): answers, bars, price."""

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
from sql.test_release_alg2 import FAMILIES, path, truth

Connection = psycopg.Connection[Any]
Row = tuple[list[str], float, float | None, float, float, bool]

# Of all tests together, fifty bars that hold at SURE, and ten numbers within 24 scales of noise.
SURE = "0.999999999"
pytestmark = pytest.mark.chance(fix_chance.union(50 * 1e-9, fix_chance.beyond(24, 10)))


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
    call = f"dp.dp_release_numeric('{name}', $q${query}$q$, $g${grid}$g$, mechanism => 'composition', {more})"
    return conn.execute(f"SELECT * FROM {call}").fetchall()


@pytest.mark.parametrize("name", FAMILIES)
def test_bars_hold_the_truth(cluster: Cluster, alice: Connection, name: str) -> None:
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
        assert row[2] == (row[1] if "count" in query else None)


def test_few_queries_of_many_classes_are_near(cluster: Cluster, alice: Connection) -> None:
    """What it is for: its noise does not grow with the classes of a query, as that of cells does."""
    query, grid = "SELECT sum(price) FROM adult WHERE age >= $1", "{17}"
    (found,) = family(alice, query, grid, "epsilon => 20")
    # half of epsilon for the sum of each sign, cut at 8 and at 4 at most; bases are 1/128
    true = truth(cluster, query.replace("$1", "17 AND age <= 90"))
    assert found[1] == pytest.approx(true, abs=24 * 8 / 10 + 24 * 4 / 10)
    cells = alice.execute(
        f"SELECT * FROM dp.dp_release_numeric('near_cells', $q${query}$q$, '{grid}', epsilon => 20)"
    ).fetchall()
    assert found[4] - found[3] < (cells[0][4] - cells[0][3]) / 2


def test_one_price_for_the_same_sets_of_classes(cluster: Cluster, alice: Connection) -> None:
    """What no row can be in costs nothing, and is 0; another spelling, order or repetition is the same question."""
    query = "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2 AND price > 1"
    first = family(alice, query, "{{17,20},{17,90}}", "epsilon => 2")
    assert one(alice, "SELECT charge FROM dp.last_answer") == {"epsilon": "2"}
    found = one(alice, "SELECT facts FROM dp.last_answer")["release"]
    assert (found["classes"], found["sets"]) == (74, 2)
    with no_charge(cluster):
        again = family(alice, query, "{{017,90},{17,20},{3,20}}", "epsilon => 2")
    assert [row[1:] for row in again] == [first[1][1:], first[0][1:], first[0][1:]]
    # a query without a class has a share of no epsilon, but is one of the sets that say which question it is
    empty = family(alice, query, "{{60,30},{17,20}}", "epsilon => 2")
    assert empty[0][1:] == (0, None, 0, 0, False)
    assert one(alice, "SELECT facts FROM dp.last_answer")["release"]["sets"] == 1


def test_what_is_said_of_it(cluster: Cluster, alice: Connection) -> None:
    call = "dp.dp_release_numeric{}('said', 'SELECT sum(loss) FROM adult WHERE age = $1', '{{20,30}}', epsilon => 4,"
    with no_charge(cluster):
        plan = one(alice, f"SELECT dp.dp_plan({call.format('_request')} mechanism => 'composition'))")
    assert plan["charge"]["worst"] == {"epsilon": "4"}
    # two queries, each half for its threshold: scale 64 / 1
    assert plan["release"] == {"classes": 74, "sets": 2, "rmse": pytest.approx(64 * 2**0.5, rel=1e-3)}
    assert "2 queries, 2 different ones by themselves; expected RMSE 90.51 each where nothing is cut" in plan["text"]
    alice.execute(f"SELECT {call.format('')} mechanism => 'composition')")
    mechanism = "composition (a threshold and a sum for each query)"
    assert one(alice, "SELECT mechanism FROM dp.last_answer") == mechanism
    charge = [{"kind": "rounds", "epsilon": "4", "rounds": "2"}]
    assert one(alice, "SELECT charge FROM dp.spending ORDER BY at DESC LIMIT 1") == charge
    shown = "SELECT dp.dp_shown((SELECT request_id FROM dp.last_answer))"
    with refused("DP005", "no weighted table"):
        alice.execute(shown)


def test_users_are_capped(alice: Connection) -> None:
    """Of each of 300 users 4 of 10 rows count, on a dataset whose accountant is another one too."""
    found = family(alice, "SELECT count(*) FROM visit WHERE ward <> $1", "{x}", "epsilon => 100")
    assert found[0][1] == pytest.approx(1200, abs=24 * 4 / 100)
    assert "at most 4 rows of each unit are in it" in str(one(alice, "SELECT facts FROM dp.last_answer"))


def test_plain_questions_of_the_grid_are_free(cluster: Cluster, alice: Connection) -> None:
    """What the call said; a question that is not of the grid is paid for, and everybody else's too."""
    query = "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2 AND price > 2"
    found = family(alice, query, "{{17,50},{30,60},{17,90}}", "epsilon => 20", "plain_composition")
    ask = "SELECT dp.dp_sum('adult', 'loss', $${} AND price > 2$$, epsilon => 0.5)"
    with no_charge(cluster):
        assert one(alice, ask.format("age <= 50")) == round(found[0][1])
        assert path(alice) == "family"
        assert one(alice, ask.format("age >= 30 AND NOT age > 60")) == round(found[1][1])
        assert one(alice, "SELECT facts -> 'family' ->> 'name' FROM dp.last_answer") == "plain_composition"
        assert one(alice, ask.format("age > 95")) == 0
    for other in ("age = 17", "age BETWEEN 17 AND 51"):
        alice.execute(ask.format(other))
        assert path(alice) == "direct"
    with cluster.connect("bob", tcp=True) as bob:
        bob.execute(ask.format("age <= 50"))
        assert path(bob) == "direct"


def test_a_count_of_the_grid_has_its_bar(cluster: Cluster, alice: Connection) -> None:
    query = "SELECT count(*) FROM adult WHERE edu = $1 AND age > 40"
    found = family(alice, query, "{hs,ba}", "epsilon => 20", "bars_composition")
    with no_charge(cluster):
        value = one(alice, "SELECT dp.dp_count('adult', $$edu = 'hs' AND age > 40$$, epsilon => 0.5)")
        assert path(alice) == "family"
    assert value == found[0][1] and found[0][4] - found[0][3] > 0


REFUSED = [
    ("SELECT count(*) FROM visit WHERE ward = $1", "{n}", "rho => 1", "DP005", "composition takes epsilon"),
    ("SELECT avg(loss) FROM adult WHERE age = $1", "{20}", "epsilon => 1", "DP005", "has no averages"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", """options => '{"rounds": 3}'""", "DP005", "options"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", "publish => true, epsilon => 1", "DP005", "no table"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{2}", "epsilon => 1", "DP005", "no query of the grid"),
]


@pytest.mark.parametrize(("query", "grid", "more", "sqlstate", "words"), REFUSED)
def test_refusals_cost_nothing(
    cluster: Cluster, alice: Connection, query: str, grid: str, more: str, sqlstate: str, words: str
) -> None:
    with no_charge(cluster), refused(sqlstate, words):
        family(alice, query, grid, more)
