"""What no decider takes, and would be wrong if it were taken: refused before anything is charged or read (findings)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_cluster import ROLES, private_cluster
from fix_privacy import LOADER, tap
from privacy.test_decide_random import COMPILER, COPIES, RELATIONS, audit

TIE = "CREATE TABLE tie_syn AS TABLE tie; CALL dp.register_synthetic('tie', 'tie_syn', 'public');"


@pytest.fixture(scope="module")
def conn() -> Iterator[psycopg.Connection[Any]]:
    with private_cluster() as cluster:
        cluster.psql(ROLES)
        cluster.psql(RELATIONS + COPIES + TIE, user="boss")
        with cluster.connect(autocommit=False) as connection:
            connection.execute(LOADER)
            connection.execute("SELECT tap.load('privacy_recorder', %s)", (COMPILER,))
            connection.execute("INSERT INTO bill_syn VALUES (1, 1, 'a', 1, 1); INSERT INTO tie_syn VALUES (1, 2, 3)")
            connection.commit()
            yield connection


def compiled(conn: psycopg.Connection[Any], table: str, *aggregates: dict[str, Any], **more: Any) -> str:
    """ "planned", or the SQLSTATE of the refusal."""
    document = {
        "version": 1,
        "call": "block",
        "from": {"schema": "public", "name": table},
        "aggregates": list(aggregates),
        "budget": {"epsilon": "1"},
        "settings": {"dp.synthetic": f"{table}_syn", "dp.tau": "3"},
        **more,
    }
    found = tap(conn, "compiled", [document])[0]
    return str(found) if len(found) == 5 else "planned"


COUNT = {"function": "count", "argument": "*"}
FEW = {**COUNT, "parameters": {"max_contribution": "1"}}
MEDIAN = {"function": "median", "argument": "i"}


def test_a_clamped_total_is_not_decided_beside_a_quantile_by_em(conn: psycopg.Connection[Any]) -> None:
    """A histogram's statement caps rows; it does not clamp a user's total to max_contribution."""
    assert compiled(conn, "bill", FEW, MEDIAN, mechanism="em") == "DP003"
    assert compiled(conn, "bill", COUNT, MEDIAN, mechanism="em") == "planned"
    assert compiled(conn, "bill", FEW, mechanism="em") == "planned"


def test_rows_of_several_units_are_not_decided_about(conn: psycopg.Connection[Any]) -> None:
    for aggregate in (COUNT, FEW, {"function": "sum", "argument": "i", "parameters": {"lower": "0", "upper": "4"}}):
        assert compiled(conn, "tie", aggregate) == "DP003"


def test_the_seed_that_found_it(conn: psycopg.Connection[Any]) -> None:
    assert audit(conn, 4)[2] == []
