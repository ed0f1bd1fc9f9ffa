"""Families of variances and standard deviations, as installed (numeric-release.md §0.0, §14)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import no_charge, one
from fix_release import ADULT

Connection = psycopg.Connection[Any]

# Of each test at most eight families whose bars hold at SURE, and forty sets of noise above 0, as one in two is; that
# answers are near fails far more rarely.
SURE = "0.999999999"
pytestmark = pytest.mark.chance(fix_chance.union(8 * 1e-9, 2.0**-40))


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
    call = f"SELECT * FROM dp.dp_release_numeric('{name}', $q${query}$q$, $g${grid}$g$, {more})"
    return conn.execute(call).fetchall()


def truth(cluster: Cluster, query: str) -> float:
    with cluster.connect("boss") as conn:
        return float(one(conn, query) or 0)


FUNCTIONS = ("variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop")
CASES = {
    "loss": ("loss", "SELECT {}(loss) FROM adult WHERE stage = $1", ["red", "green"], ""),
    "two signs": ("price", "SELECT {}(price) FROM adult WHERE stage <> $1 AND age < 90", ["red"], ""),
    "NaN is left out": ("temp", "SELECT {}(temp) FROM adult WHERE stage = $1", ["amber"], " AND temp <> 'NaN'"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_bars_hold_what_plain_sql_says(cluster: Cluster, alice: Connection, name: str, function: str) -> None:
    """All functions are read from one release."""
    column, query, grid, more = CASES[name]
    query = query.format(function)
    found = family(alice, f"of_{column}", query, "{" + ",".join(grid) + "}", "epsilon => 30")
    for (stage,), answer, unbiased, low, high, below in found:
        plain = query.replace("$1", f"'{stage}'").replace("(temp)", "(least(temp, 100))") + more
        true = truth(cluster, plain)
        assert low <= true <= high and low <= answer == unbiased <= high and not below
        assert answer == pytest.approx(true, rel=0.15)


def test_they_cost_what_one_costs_and_answer_plain_sql(cluster: Cluster, alice: Connection) -> None:
    query = "SELECT {}(loss) FROM adult WHERE stage = $1 AND price > 1"
    first = family(alice, "once", query.format("variance"), "{red,amber,green}", "epsilon => 30")
    facts = one(alice, "SELECT facts FROM dp.last_answer")["release"]
    assert facts["cells"] == 3 * (51 + 1)
    where = "stage = 'red' AND price > 1"
    with no_charge(cluster):
        again = family(alice, "once", query.format("stddev_samp"), "{red}", "epsilon => 30")
        assert again[0][1] == pytest.approx(first[0][1] ** 0.5)
        for aggregate, value in (("variance(loss)", first[0][1]), ("stddev(loss)", again[0][1])):
            document = {
                "version": 1,
                "from": {"schema": "public", "name": "adult"},
                "where": where,
                "aggregates": [aggregate, "avg(loss)", "count(*)", "sum(loss)"],
                "bars": True,
                "budget": {"epsilon": "0.5"},
                "settings": one(alice, "SELECT dp.session_settings()"),
            }
            answer = one(alice, "SELECT dp.dp_query(%s)", json.dumps(document))
            assert answer["notice"]["path"] == "family"
            (row,), (bars,) = answer["rows"], answer["bars"]
            assert float(row[0]) == pytest.approx(value, rel=1e-4)
            plain = f"SELECT {aggregate}, avg(loss), count(*), sum(loss) FROM adult WHERE {where}"
            with cluster.connect("boss") as boss:
                exact = boss.execute(plain).fetchone()
            assert exact is not None
            for (low, high, _), true in zip(bars, exact, strict=True):
                assert float(low) <= float(true) <= float(high)


def test_a_family_of_sums_does_not_answer_a_variance(cluster: Cluster, alice: Connection) -> None:
    """Its values share cells."""
    family(alice, "sums", "SELECT sum(loss) FROM adult WHERE stage = $1 AND price > 2", "{red}", "epsilon => 3")
    document = {
        "version": 1,
        "from": {"schema": "public", "name": "adult"},
        "where": "stage = 'red' AND price > 2",
        "aggregates": ["variance(loss)"],
        "budget": {"epsilon": "0.5"},
        "settings": one(alice, "SELECT dp.session_settings()"),
    }
    plan = one(alice, "SELECT dp.dp_plan(%s)", json.dumps(document))
    assert plan["path"] == "direct" and "variances need a family of variances" in plan["family"]


REFUSED = [
    ("SELECT variance(loss) FROM adult WHERE stage = $1", "mechanism => 'alg2'", "Algorithm 2 has no variances"),
    ("SELECT stddev(loss) FROM adult WHERE stage = $1", "mechanism => 'composition'", "composition has no variances"),
    ("SELECT variance(price * price * loss) FROM adult WHERE stage = $1", "epsilon => 1", "more than 2000 cells"),
    ("SELECT variance(loss + price) FROM adult WHERE stage = $1", "epsilon => 1", "more than 2000 cells"),
    ("SELECT variance(stage) FROM adult WHERE stage = $1", "epsilon => 1", "of numbers"),
    ("SELECT variance(DISTINCT loss) FROM adult WHERE stage = $1", "epsilon => 1", "DISTINCT has no family"),
]


@pytest.mark.parametrize(("query", "more", "message"), REFUSED)
def test_refusals_cost_nothing(cluster: Cluster, alice: Connection, query: str, more: str, message: str) -> None:
    with no_charge(cluster), pytest.raises(psycopg.Error, match=message) as error:
        family(alice, "refused", query, "{red}", more)
    assert str(error.value.sqlstate).startswith("DP0") and error.value.diag.message_hint


def test_a_set_without_rows_says_that_it_knows_nothing(alice: Connection) -> None:
    """But where its noise looks like rows, which one set in two does at most; its bar knows nothing either way."""
    query = "SELECT variance(loss) FROM adult WHERE age = $1 AND price < -50"
    found = family(alice, "none", query, "{" + ",".join(map(str, range(20, 60))) + "}", "epsilon => 1")
    assert any(below for *_, below in found)
    for _, answer, _, low, high, _ in found:
        assert low == 0 and answer <= high <= 2 * 25**2
