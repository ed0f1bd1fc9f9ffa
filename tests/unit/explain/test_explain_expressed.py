"""Influences on expressions of groups and their limits (dpxplain.md §7.2): by definition, and on neighbours."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from explain_rows import PREDICATES, Row, formula, influences, neighbours, some_rows

from pg_epsilon.explain.arithmetic import HINT, Node, parse
from pg_epsilon.explain.cells import Found
from pg_epsilon.explain.distance import Distances
from pg_epsilon.explain.expressed import LARGEST, Influences
from pg_epsilon.explain.formula import Formula
from pg_epsilon.explain.image import image
from pg_epsilon.explain.images import Ends, image_of, is_positive
from pg_epsilon.explain.influence import Cells

EXPRESSIONS = [
    ("o1 / o2", 2),
    ("o1 / (o1 + o2)", 2),
    ("o1 - 2.5 * o2", 2),
    ("(o1 - o2) / (o1 + o2)", 2),
    ("o1 / (o2 - o1)", 2),
    ("-(o1 * o2) / 3", 2),
    ("o1 / o2 - o2 / o3", 3),
]
BOUNDS = [(0, 20), (-7, 12), (5, 9)]


def answer(how: Formula, rows: Sequence[Row], group: int) -> Fraction:
    values = [value for at, _, value in rows if at == group]
    if how.kind == "count":
        return Fraction(len(values))
    return Fraction(sum(values), len(values) if how.kind == "avg" else 1) * how.step


def evaluated(node: Node, answers: Sequence[Fraction]) -> Fraction:
    """ZeroDivisionError where it is undefined."""
    parts: list[Fraction] = [evaluated(one, answers) for one in getattr(node, "operands", ())]
    if not parts:
        return answers[node.index] if hasattr(node, "index") else node.value  # type: ignore[union-attr]
    if len(parts) == 1:
        return -parts[0]
    first, second = parts
    symbol = node.symbol  # type: ignore[union-attr]
    return {"+": first.__add__, "-": first.__sub__, "*": first.__mul__, "/": first.__truediv__}[symbol](second)


def truth(how: Formula, rows: Sequence[Row], predicate: int) -> Fraction | None:
    """(1 - |p| / n) * (f - f without p), in fractions; None where it is undefined."""
    rest = [row for row in rows if row[1] != predicate]
    try:
        whole, without = (
            evaluated(how.tree, [answer(how, some, group) for group in range(how.groups)]) for some in (rows, rest)
        )
        return Fraction(len(rest), len(rows)) * (whole - without)
    except ZeroDivisionError:
        return None


def formulas() -> Iterator[Formula]:
    for (text, groups), kind, bounds in product(EXPRESSIONS, ("count", "sum", "avg"), BOUNDS):
        if kind != "count" or bounds == BOUNDS[0]:
            yield formula(kind, text, groups, bounds)  # type: ignore[arg-type]


def test_limits_hold_every_influence_so_many_rows_away() -> None:
    """Where it is defined: of the table itself, and of tables after a walk of so many rows."""
    rng, defined = random.Random(31), 0
    for how in formulas():
        for _ in range(3):
            rows = some_rows(rng, how, 24)
            limits = influences(rows, how).limits
            for away in range(4):
                ends = limits(away)
                for predicate in range(PREDICATES):
                    found = truth(how, rows, predicate)
                    if found is not None:
                        defined += 1
                        assert ends.low[predicate] <= found <= ends.high[predicate]
                rows = rows[1:] if rows and rng.random() < 0.5 else [*rows, *some_rows(rng, how, 3)[:1]]
    assert defined > 1000


def test_limits_are_nested_in_those_of_a_neighbour_one_row_further() -> None:
    """The doubles themselves: from empty tables on, where divisors may be 0."""
    rng = random.Random(32)
    for how in formulas():
        for size in (1, 4, 40):
            rows = some_rows(rng, how, size)
            mine = influences(rows, how)
            for near in neighbours(rng, rows, how):
                theirs = influences(near, how)
                for away in range(3):
                    for inner, outer in ((mine, theirs), (theirs, mine)):
                        own, wider = inner.limits(away), outer.limits(away + 1)
                        assert not np.isnan([own.low, own.high]).any()
                        assert (wider.low <= own.low).all() and (own.low <= own.high).all()
                        assert (own.high <= wider.high).all()


def test_a_row_moves_every_distance_by_one_at_most() -> None:
    """Every rank, both directions, and all predicates at once as a selection has them."""
    rng = random.Random(33)
    for how in formulas():
        rows = some_rows(rng, how, 60)
        mine = Distances(influences(rows, how).limits, 30)
        for near in neighbours(rng, rows, how):
            theirs = Distances(influences(near, how).limits, 30)
            for rank in range(1, PREDICATES + 1):
                moves = zip(mine.all_to_be_as_high(rank), theirs.all_to_be_as_high(rank), strict=True)
                assert all(abs(a - b) <= 1 for a, b in moves)
                for place in range(PREDICATES):
                    assert abs(mine.to_be_as_low(place, rank) - theirs.to_be_as_low(place, rank)) <= 1


def test_huge_sums_neither_overflow_nor_leave_their_limits() -> None:
    """Beyond what was declared they are clamped, which moves none further."""
    how = formula("sum", "o1 / o2", 2, (0, 2**40))
    for size in (2**61, 2**62, 2**65):
        cells = Cells.of([2**30, 2**30], [size, size], [[(10, size // 2), (10, 1)]])
        found = Influences.of(how, Found([1], cells), PREDICATES)
        assert found.whole[0].sums == min(size, LARGEST)
        low, high = found.limits(2**20)
        assert (low <= high).all() and np.isfinite(low).all()


def test_without_these_rows_nothing_is_left_to_divide_by() -> None:
    """The ratio is unbounded then, so that the predicate is last: it is far from every better rank."""
    how = formula("count", "o1 / o2", 2, (0, 0))
    rows = [(0, n % 3, 0) for n in range(300)] + [(1, 3, 0) for _ in range(100)]
    found = influences(rows, how).limits(20)
    assert found.low[3] == -math.inf and found.high[3] < min(found.low[:3])
    assert Distances(influences(rows, how).limits, 50).all_to_be_as_high(1)[3] > 20


def boxes(rng: random.Random) -> Ends:
    """Intervals with ends that are 0, infinite or far apart."""
    some = [0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e300, -1e300, math.inf, -math.inf, 0.3, -7.1]
    ends = np.array([sorted([rng.choice(some), rng.choice(some)]) for _ in range(400)])
    return Ends(np.where(ends[:, 0] == math.inf, 1.0, ends[:, 0]), np.where(ends[:, 1] == -math.inf, 1.0, ends[:, 1]))


@pytest.mark.parametrize("text", [text for text, _ in EXPRESSIONS] + ["1 / (o1 * o2)", "o1 / (1 / o2)", "o1 - o1 / o3"])
@pytest.mark.parametrize("positive", [False, True])
def test_a_box_within_a_box_has_its_image_within(text: str, positive: bool) -> None:
    rng, tree = random.Random(text), parse(text, 3)
    of = image_of(tree, [positive] * 3)
    inner, more = [boxes(rng) for _ in range(3)], [boxes(rng) for _ in range(3)]
    outer = [Ends(np.minimum(a.low, b.low), np.maximum(a.high, b.high)) for a, b in zip(inner, more, strict=True)]
    if positive:
        inner, outer = ([one.clipped(0, math.inf) for one in box] for box in (inner, outer))
    with np.errstate(all="ignore"):
        found, wider = of(inner), of(outer)
    assert not np.isnan([found.low, found.high, wider.low, wider.high]).any()
    assert (wider.low <= found.low).all() and (found.high <= wider.high).all()


@pytest.mark.parametrize("text", [text for text, _ in EXPRESSIONS])
def test_images_are_those_of_one_box_at_a_time(text: str) -> None:
    """Within some steps of the doubles, where no divisor may be 0."""
    rng, tree = random.Random(text), parse(text, 3)
    centres = np.array([[rng.uniform(40, 60) * (1 + 3 * at) for at in range(3)] for _ in range(50)])
    box = [Ends(centres[:, at] - 2, centres[:, at] + 2) for at in range(3)]
    with np.errstate(all="ignore"):
        found = image_of(tree, [True] * 3)(box)
    for place in range(50):
        slow: Any = image(tree, [(one.low[place], one.high[place]) for one in box])
        assert (found.low[place], found.high[place]) == pytest.approx(slow, rel=1e-12)


def test_what_is_never_negative_by_its_form() -> None:
    for text, expected in [
        ("o1 / o2", True),
        ("o1 + 2 * o2", True),
        ("o1 - o2", False),
        ("-o1", False),
        ("0 - 1", False),
    ]:
        assert is_positive(parse(text, 2), [True, True]) is expected
    assert not is_positive(parse("o1 / o2", 2), [True, False])


def test_functions_of_libm_have_no_images() -> None:
    assert "exp()" in HINT
    with pytest.raises(ValueError, match="exp"):
        image_of(parse("exp(o1)", 1), [True])
