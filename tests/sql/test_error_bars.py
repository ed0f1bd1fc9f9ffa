"""Error bars as analysts get them: of every aggregate, in one answer, at the asked confidence (composition.md §8)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster

AGGREGATES = ["count(*)", "sum(income)", "avg(income)", "stddev(age)", "median(age)", "sum(age - 50)"]


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("alice", tcp=True) as conn:
        yield conn


def asked(alice: psycopg.Connection[Any], *, confidence: str = "0.95", **members: Any) -> dict[str, Any]:
    request = {
        "version": 1,
        "from": {"schema": "public", "name": "people"},
        "aggregates": AGGREGATES,
        "keys": ["sex"],
        "budget": {"epsilon": "1"},
        "bars": True,
        "settings": {"dp.confidence": confidence},
        **members,
    }
    found = alice.execute("SELECT dp.dp_query(%s::jsonb)", (json.dumps(request),)).fetchone()
    assert found is not None
    return dict(found[0])


def test_every_aggregate_of_every_group_has_a_bar(alice: psycopg.Connection[Any]) -> None:
    """low <= value <= high where both are known; a median's are not, and say so."""
    answer = asked(alice)
    assert len(answer["bars"]) == len(answer["rows"]) == 3
    for row, bars in zip(answer["rows"], answer["bars"], strict=True):
        assert len(bars) == len(AGGREGATES)
        for name, value, (low, high, error) in zip(AGGREGATES, row[1:], bars, strict=True):
            if name.startswith("median"):
                assert (low, high, error) == (None, None, None)
            elif value is not None:
                assert Decimal(low) <= Decimal(value) <= Decimal(high), name


def test_another_confidence_is_another_bar_of_the_same_release(alice: psycopg.Connection[Any]) -> None:
    """The integers are stored, not the bars: asking for others is a cache hit, and free."""
    narrow, wide = asked(alice, confidence="0.8"), asked(alice, confidence="0.999")
    assert narrow["rows"] == wide["rows"]
    assert wide["notice"]["path"] == "cache"
    assert wide["notice"]["charge"] == {}
    # of a group whose noisy count is far below 1 nothing is known at the lower confidence: its bar is the whole range
    many = [place for place, row in enumerate(narrow["rows"]) if int(row[1]) > 100]
    assert len(many) >= 2
    for one, two in [(narrow["bars"][place], wide["bars"][place]) for place in many]:
        for (low, high, error), (lower, higher, same) in zip(one, two, strict=True):
            assert error == same
            assert low is None or Decimal(lower) <= Decimal(low) <= Decimal(high) <= Decimal(higher)


def test_bars_are_not_sent_unasked(alice: psycopg.Connection[Any]) -> None:
    assert "bars" not in asked(alice, bars=False)


def test_r2t_says_that_its_upper_side_is_unknown(alice: psycopg.Connection[Any]) -> None:
    answer = asked(alice, aggregates=["sum(income)"], keys=[], mechanism="r2t", confidence="0.975")
    ((value,),), (((low, high, error),),) = answer["rows"], answer["bars"]
    assert (high, error) == (None, None)
    assert value == low  # beta is 0.05: with probability 0.975 the true sum is at least what is shown
    assert any("from below" in warning for warning in answer["notice"]["warnings"])


def test_the_bar_of_a_sum_is_that_of_its_noise(alice: psycopg.Connection[Any]) -> None:
    """Scale 100000 / 0.5 on cents: the 0.95 margin is scale * ln 20 to a cent, on either side."""
    answer = asked(alice, aggregates=["sum(income)"], keys=[], budget={"epsilon": "0.5"})
    ((value,),), (((low, high, error),),) = answer["rows"], answer["bars"]
    assert Decimal(high) - Decimal(value) == Decimal(value) - Decimal(low) == Decimal("599146.45")
    assert error == "282800"
