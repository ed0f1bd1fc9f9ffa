"""How often the intervals of dp_compare hold, of a thousand releases through PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import standard_cluster

RUNS, FEWEST = 1000, 930
# What each is promised at least: .95 is for all three pairs of counts at once, by a bound of which each has a third,
# and Fieller's of two averages is the sum of two that hold at .975 each.
PAIR, AVERAGES = 1 - 0.05 / 3, 0.95**0.5
ASKED = "dp.dp_group_by_request('many', '{sex}', '{count(*),avg(age)}', epsilon => 0.5, fresh => true)"
# 500 people of each sex, equally old.
MANY = """
CREATE TABLE many (id int PRIMARY KEY, age int, sex text);
INSERT INTO many SELECT i, 20 + i / 2 % 50, (ARRAY['f','m'])[1 + i % 2] FROM generate_series(0, 999) i;
CALL dp.create_dataset('many', unit => 'row', epsilon => 1000);
CALL dp.protect('many', 'many', max_rows => 1000);
CALL dp.describe_column('many', 'age', bounds => '{18,80}', resolution => '1', nullable => false);
CALL dp.describe_column('many', 'sex', domain => '{f,m,x}', nullable => false);
CALL dp.publish('many'); CALL dp.allot('alice', 'many', epsilon => 1000);
"""


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, list[tuple[float, float]]]]:
    """Intervals of the difference of two counts and of two averages, one for each release."""
    with standard_cluster() as cluster:
        cluster.psql(MANY, user="boss")
        with cluster.connect("alice") as alice:
            intervals: dict[str, list[tuple[float, float]]] = {"count": [], "avg": []}
            for _ in range(RUNS):
                alice.execute(f"SELECT dp.dp_query({ASKED})")
                intervals["count"].append(compared(alice, "'f', 'm'"))
                intervals["avg"].append(compared(alice, "'f', 'm', aggregate => 2, simultaneous => false"))
            yield intervals


def compared(alice: psycopg.Connection[Any], call: str) -> tuple[float, float]:
    found = alice.execute(f"SELECT low, high FROM dp.dp_compare({call})").fetchone()
    assert found is not None
    return found


def holding(intervals: list[tuple[float, float]], true: float, shrunk: float = 1) -> int:
    """How many hold the true difference, their widths times `shrunk`."""
    return sum(abs(true - (low + high) / 2) <= shrunk * (high - low) / 2 for low, high in intervals)


@pytest.mark.chance(fix_chance.binomial(RUNS, PAIR, FEWEST, RUNS))
def test_differences_of_counts(found: dict[str, list[tuple[float, float]]]) -> None:
    """500 of each in truth."""
    assert holding(found["count"], 0) >= FEWEST


@pytest.mark.chance(fix_chance.binomial(RUNS, AVERAGES, FEWEST, RUNS))
def test_differences_of_averages(found: dict[str, list[tuple[float, float]]]) -> None:
    """Equal in truth."""
    assert holding(found["avg"], 0) >= FEWEST


@pytest.mark.chance(fix_chance.binomial(RUNS, 0.8, 0, FEWEST - 1))
def test_three_tenths_of_the_width_are_too_few(found: dict[str, list[tuple[float, float]]]) -> None:
    """A third of all draws is further off: what the tests above count is not always all of them."""
    assert holding(found["count"], 0, 0.3) < FEWEST
