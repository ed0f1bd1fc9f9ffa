"""Estimators as JSON and back: equal, shown alike, and nothing but the classes that are listed."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from pg_epsilon.mechanisms import stored
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.mechanisms.covering import Bound
from pg_epsilon.mechanisms.estimators import Average, Covering, Joined, Number, Quantile, Spread, Truncated
from pg_epsilon.mechanisms.r2t import Ladder
from pg_epsilon.mechanisms.r2t_join import JoinLadder
from pg_epsilon.mechanisms.ranks import Ranks
from pg_epsilon.mechanisms.stored import Unreadable, Unstorable, decode, encode

HALF, CENTS = Decimal("0.50"), Fraction(1, 100)
NOISE = Additive(3, 9, HALF)
# Each with released integers.
EXAMPLES: list[tuple[Any, list[int]]] = [
    (Number(NOISE), [41]),
    (Number(Additive(3, 9, rho=Decimal("1E-3")), CENTS, False), [-7]),
    (Average(NOISE, Additive(1, 1, HALF), CENTS, -5, 900, 450), [12, 100]),
    (Spread(NOISE, NOISE, NOISE, Fraction(7, 3), 50, Fraction(1), True, True), [100, 12, 900]),
    (Quantile(Ranks(50, Fraction(9, 10), 2, HALF, "printed", False), 0, 99, 2, CENTS, False), [3]),
    (Truncated(Ladder((1, 4, 16), (16,), 1, HALF, Decimal("0.1"))), [4, 9, 12]),
    (Joined(JoinLadder((2, 8), 3, True, HALF, Decimal("0.1")), Fraction(1, 4), False), [2**40]),
    (Covering(Bound((1, 2, 4), Decimal("0.95"), HALF), 100), [2]),
]


@pytest.mark.parametrize(("estimator", "raw"), EXAMPLES, ids=lambda part: type(part).__name__)
def test_it_comes_back_equal_and_shows_the_same(estimator: Any, raw: list[int]) -> None:
    text = json.dumps(encode(estimator))
    again = decode(json.loads(text))
    assert again == estimator
    assert [type(getattr(again, one.name)) for one in fields(again)] == [
        type(getattr(estimator, one.name)) for one in fields(estimator)
    ]
    assert again.present(raw) == estimator.present(raw)
    for confidence in (Decimal("0.5"), Decimal("0.95")):
        assert again.bars(raw, confidence) == estimator.bars(raw, confidence)
        assert again.margin(confidence) == estimator.margin(confidence)
    assert json.dumps(encode(again)) == text


def test_every_class_has_an_example() -> None:
    said = json.dumps([encode(one) for one, _ in EXAMPLES])
    assert [name for name in (*stored._CLASSES, *stored._EXACT) if f'"class": "{name}"' not in said] == []


def test_what_it_looks_like() -> None:
    """A release of today is read by the versions that follow."""
    assert encode(Number(NOISE, CENTS)) == {
        "class": "Number",
        "fields": {
            "measure": {
                "class": "Additive",
                "fields": {"l1": 3, "l2_squared": 9, "epsilon": {"class": "Decimal", "value": "0.50"}, "rho": None},
            },
            "step": {"class": "Fraction", "value": "1/100"},
            "whole": True,
        },
    }
    assert encode((1, ("a", None))) == [1, ["a", None]]
    assert decode([1, ["a", None]]) == (1, ("a", None))


def test_a_field_that_an_older_version_did_not_have_has_its_default() -> None:
    older = encode(Truncated(Ladder((1, 4), (4,), 1, HALF)))
    del older["fields"]["ladder"]["fields"]["truncation"]
    assert decode(older) == Truncated(Ladder((1, 4), (4,), 1, HALF))


@dataclass(frozen=True)
class Additive2:
    l1: int


class MyDecimal(Decimal):
    pass


@pytest.mark.parametrize(
    "value",
    [Additive2(1), MyDecimal(1), 0.5, [1], {"a": 1}, print, Number(0.5), Number(Additive2(1))],  # type: ignore[arg-type]
    ids=repr,
)
def test_what_is_not_listed_is_not_stored(value: Any) -> None:
    with pytest.raises(Unstorable):
        encode(value)


@pytest.mark.parametrize(
    "text",
    [
        {},
        {"class": "Additive2", "fields": {"l1": 1}},
        {"class": "os.system", "fields": {"command": "true"}},
        {"class": "Additive", "fields": {"l1": 1}},
        {"class": "Additive", "fields": {"l1": 1, "l2_squared": 1, "more": 1}},
        {"class": "Additive", "fields": {"l1": 1, "l2_squared": 1}, "more": 1},
        {"class": "Decimal", "fields": {}},
        {"class": "Decimal", "value": "much"},
        {"class": "Decimal", "value": 1},
        {"class": "Fraction", "value": "1/0"},
        {"class": "Fraction", "value": "half"},
        {"class": None, "value": "1"},
        {"class": "Number", "fields": [1]},
        {"class": ["Number"], "fields": {}},
    ],
    ids=json.dumps,
)
def test_what_nobody_stored_is_not_read(text: Any) -> None:
    with pytest.raises(Unreadable):
        decode(text)
    with pytest.raises(Unreadable):
        decode([1, text])
