"""Which classes meet a condition (numeric-release.md §6): single values, ranges that may not be cut, NULL."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest

from pg_epsilon.errors import DPError
from pg_epsilon.query.keys import Key
from pg_epsilon.query.types import INT4, TEXT, Type
from pg_epsilon.release.classes import Axis, Compared
from pg_epsilon.release.template import Condition


def axis(starts: Sequence[str | None], ends: Sequence[str | None], closed: Sequence[bool], of: Type = INT4) -> Axis:
    return Axis("age", Key("age", "r.age", tuple(starts)), of, tuple(starts), tuple(ends), tuple(closed))


def compared(own: Axis, *constants: str) -> Compared:
    """As PostgreSQL compares whole numbers."""

    def sign(one: str | None, other: str) -> str:
        if one is None:
            return "?"
        return "=" if Decimal(one) == Decimal(other) else "<" if Decimal(one) < Decimal(other) else ">"

    return Compared(own, {c: "".join(sign(one, c) for one in (*own.starts, *own.ends)) for c in constants})


VALUES = axis(["1", "2", "3", None], ["1", "2", "3", None], [True] * 4)
EDGES = axis(["0", "10", "20", None], ["10", "20", "40", None], [False] * 3 + [True])
GRID = axis(["0", "10", "20"], ["10", "20", "25"], [False, False, True])


@pytest.mark.parametrize(
    ("operator", "values", "mask"),
    [
        ("=", ["2"], "0100"),
        ("<>", ["2"], "1010"),
        ("<", ["2"], "1000"),
        ("<=", ["2"], "1100"),
        (">", ["2"], "0010"),
        (">=", ["2"], "0110"),
        ("BETWEEN", ["2", "3"], "0110"),
        ("BETWEEN", ["3", "2"], "0000"),
        ("NOT BETWEEN", ["2", "3"], "1000"),
        ("IN", ["1", "3", "7"], "1010"),
        ("NOT IN", ["1", "3"], "0100"),
        (">=", ["9"], "0000"),
        ("<", ["9"], "1110"),
    ],
)
def test_single_values(operator: str, values: list[str], mask: str) -> None:
    assert compared(VALUES, *values).mask(Condition("age", operator, tuple(values)), values) == mask


@pytest.mark.parametrize(
    ("own", "operator", "values", "mask"),
    [
        (EDGES, ">=", ["10"], "0110"),
        (EDGES, "<", ["20"], "1100"),
        (EDGES, ">=", ["-5"], "1110"),
        (EDGES, ">=", ["40"], "0000"),
        (EDGES, "<", ["40"], "1110"),
        (EDGES, "<=", ["50"], "1110"),
        (EDGES, "=", ["40"], "0000"),
        (EDGES, "<>", ["50"], "1110"),
        (GRID, "BETWEEN", ["10", "25"], "011"),
        (GRID, ">", ["25"], "000"),
        (GRID, "NOT BETWEEN", ["10", "99"], "100"),
    ],
)
def test_ranges_that_lie_on_one_side(own: Axis, operator: str, values: list[str], mask: str) -> None:
    assert compared(own, *values).mask(Condition("age", operator, tuple(values)), values) == mask


@pytest.mark.parametrize(
    ("own", "operator", "values"),
    [
        (EDGES, ">=", ["11"]),
        (EDGES, "<=", ["10"]),
        (EDGES, ">", ["10"]),
        (EDGES, "=", ["10"]),
        (EDGES, "IN", ["10", "15"]),
        (EDGES, "NOT IN", ["15"]),
        (EDGES, "BETWEEN", ["0", "39"]),
        (GRID, ">=", ["25"]),
        (GRID, "<", ["25"]),
    ],
)
def test_condition_that_cuts_a_class_is_refused(own: Axis, operator: str, values: list[str]) -> None:
    with pytest.raises(DPError) as refused:
        compared(own, *values).mask(Condition("age", operator, tuple(values)), values)
    assert refused.value.sqlstate == "DP005"


def test_texts_are_compared_for_equality_alone() -> None:
    own = axis(["a", "b"], ["a", "b"], [True, True], TEXT)
    signs = Compared(own, {"a": "=>=>"})
    assert signs.mask(Condition("ward", "IN", ("'a'",)), ["a"]) == "10"
    with pytest.raises(DPError) as refused:
        signs.mask(Condition("ward", ">=", ("'a'",)), ["a"])
    assert refused.value.sqlstate == "DP003"
