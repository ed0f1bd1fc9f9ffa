"""What is declared bounds the answers: medians are declared values, and R2T says no more than max_rows allow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

import pytest

from fix_cluster import private_cluster
from fix_joins import Connection, ask, build, document

TABLES = """
CREATE TABLE bills (id int PRIMARY KEY, uid int NOT NULL, whole numeric(15,2), fine numeric(15,2), tens int);
INSERT INTO bills SELECT k, k % 20, k % 41, (k % 41) + 0.25, k % 41 FROM generate_series(1, 400) k;
CALL dp.create_dataset('bills', epsilon => 1000);
CALL dp.protect('bills', 'bills');
CALL dp.describe_column('bills', 'whole', bounds => '{0,50}', resolution => '1');
CALL dp.describe_column('bills', 'fine', bounds => '{0.25,50}');
CALL dp.describe_column('bills', 'tens', bounds => '{-3,48}', resolution => '10');
CALL dp.publish('bills'); CALL dp.allot('alice', 'bills', epsilon => 1000);
CREATE TABLE rings (id int PRIMARY KEY, uid int NOT NULL, seconds int);
INSERT INTO rings SELECT k, k % 13, 1 FROM generate_series(1, 26) k;
CALL dp.create_dataset('callers', unit => 'user', epsilon => 1000);
CALL dp.protect('rings', 'callers', unit_column => 'uid', max_rows_per_unit => 100000, max_rows => 30);
CALL dp.describe_column('rings', 'seconds', bounds => '{0,10}');
CALL dp.describe_column('rings', 'uid', bounds => '{0,100}');
CALL dp.publish('rings'); CALL dp.allot('alice', 'callers', epsilon => 1000);
"""


@pytest.fixture(scope="module")
def alice() -> Iterator[Connection]:
    with private_cluster() as cluster:
        build(cluster)
        cluster.psql(TABLES, user="boss")
        with cluster.connect("alice") as conn:
            yield conn


def medians(alice: Connection, column: str, epsilon: str) -> set[Decimal]:
    """Of seven questions: each has another predicate, so that none is answered by a stored release."""
    found = set()
    for at in range(7):
        aggregate = {"function": "percentile_disc", "argument": column, "parameters": {"fraction": f"0.{at + 2}"}}
        ((value,),) = ask(alice, document("bills", aggregates=[aggregate], keys=[], budget={"epsilon": epsilon}))
        found.add(Decimal(str(value)))
    return found


@pytest.mark.chance(0.0101**7)
def test_a_median_of_whole_numbers_is_a_whole_number(alice: Connection) -> None:
    """numeric(15,2) has steps of a cent, the declaration has steps of 1; at little epsilon any point may come.

    Of the 4,976 cents of `fine` 49 are whole: all seven answers are, once in 10^14.
    """
    assert all(value == int(value) for value in medians(alice, "whole", "0.001"))
    assert all(value % 10 == 0 or value == -3 for value in medians(alice, "tens", "0.001"))
    assert any(value % 1 for value in medians(alice, "fine", "0.001"))  # nothing declared: cents


# 5 rows at least lie between each fraction and the next declared value: e^(-20 * 5 / 2) for each of 6 others
@pytest.mark.chance(7 * 6 * math.exp(-50))
def test_a_row_counts_for_the_nearest_declared_value(alice: Connection) -> None:
    assert medians(alice, "tens", "20") == {Decimal(10), Decimal(20), Decimal(30)}


def test_r2t_gives_its_probability_and_no_level_above_what_rows_allow(alice: Connection) -> None:
    sum_of = {"function": "sum", "argument": "seconds"}
    for beta, sure in ((None, "97.5"), ("0.01", "99.5")):
        given = {} if beta is None else {"parameters": {"beta": beta}}
        request = document(
            "rings", aggregates=[{**sum_of, **given}], keys=[], mechanism="r2t", budget={"epsilon": "0.5"}
        )
        (answer,) = alice.execute("SELECT dp.dp_query(%s)", (request,)).fetchone() or ({},)
        words = f"with probability {sure} % or more the true value is at least the answer"
        assert any(words in warning for warning in answer["notice"]["warnings"])
        # 2, 4, … 256, 300: 30 rows of 10 seconds at most, where 100,000 rows a user would need 20 levels
        assert answer["notice"]["mechanism"] in ("R2T, 9 levels", "R2T, 4 levels")
        assert 0 <= int(answer["rows"][0][0]) <= 300
