"""What auto expects of each method: widths from public facts, and the choice by them (dpxplain.md
§0.0).
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from explain_cells import PAIR, compared, how, some_rows, space, true_influences

from pg_epsilon.explain import sensitivity
from pg_epsilon.explain.derived import average_half_width, derived, half_width
from pg_epsilon.explain.expected import Methods, Widths, largest, of_cells, of_one_shot
from pg_epsilon.explain.influence import Kind
from pg_epsilon.explain.marginals import Marginals, Numbers
from pg_epsilon.explain.measure import Explaining, Price, fineness
from pg_epsilon.explain.space import Attribute, Space

ROWS = 1_000_000
CONFIDENCE = Fraction(19, 20)
RULE = [
    # cells' shares and ranks, one_shot's, whether shares are told; who is taken
    ((1, 1), (2, 2), True, True),
    ((2, 2), (1, 1), True, False),
    ((2, 1), (1, 2), True, True),  # even: what is free afterwards decides
    ((2, 1), (1, 1.9), True, False),
    ((2, 1), (1, 2.1), True, True),
    ((9, 1), (1, 2), False, True),  # ranks alone
    ((1, 3), (9, 2), False, False),
    ((2, 0), (1, 0), True, False),  # one predicate: shares alone
    ((1, 0), (1, 0), True, True),
    ((5, 0), (1, 0), False, True),  # nothing is told but what is known
]


@pytest.mark.parametrize(("cells", "one_shot", "told", "taken"), RULE)
def test_products_of_widths_are_compared(cells: Any, one_shot: Any, told: bool, taken: bool) -> None:
    assert Methods(Widths(*cells), Widths(*one_shot), told).cells_are_nearer is taken


def wide(attributes: int, values: int) -> Space:
    """So many columns of so many values each."""
    names = [f"x{place}" for place in range(attributes)]
    tests = {name: tuple(f"{name} = {value}" for value in range(values)) for name in names}
    return Space(tuple(Attribute(name, tests[name], "0") for name in names))


def one_shot(of: Space, kind: Kind, k: int, rho: str, bounds: tuple[int, int] = (0, 1), units: int = 1) -> Explaining:
    """The price is split 1 : 1 : 2."""
    low, high = map(Fraction, bounds)
    part = Decimal(rho) / 4
    epsilon = Decimal(math.sqrt(8 * part / k)).quantize(Decimal("1e-6"))
    change, apart = (units * rule(kind, PAIR, low, high) for rule in (sensitivity.change, sensitivity.spread))
    price = Price(epsilon, part, 2 * part, True)
    return Explaining(of, kind, PAIR, k, change, apart, price, CONFIDENCE, fine=fineness(ROWS))


def methods(of: Marginals, kind: Kind, k: int, rows: int = ROWS, x: float = 0.5) -> Methods:
    """As `method.decided` compares them, of a pair. x: where averages lie between the bounds."""
    other = one_shot(of.space, kind, k, str(of.rho), (of.low, of.high), of.units)
    most = largest(other.change, of.units, rows)
    placed = ((500.0, x), (500.0, x))
    comparison = compared(of.groups)
    half = average_half_width(of, comparison, PAIR, placed) if kind == "avg" else half_width(of, comparison, PAIR)
    return Methods(of_cells(half, len(of.space), most), of_one_shot(other, most))


# From which k on cells is taken: 8 sets with 105 predicates, 3 with 8, 31 with 450; 7 groups.
EXACT = [
    ("count", 7, 15, "0.04", 0.5, 7),
    ("count", 7, 15, "2", 0.5, 8),  # half steps matter more
    ("sum", 7, 15, "0.04", 0.5, 4),
    ("avg", 7, 15, "0.04", 0.5, 1),
    ("avg", 7, 15, "0.04", 1.0, 2),  # at the end of the range a cell's noise is largest
    ("count", 2, 4, "0.04", 0.5, 4),
    ("avg", 2, 4, "0.04", 1.0, 1),
    ("count", 30, 15, "0.04", 0.5, 25),
]


@pytest.mark.parametrize(("kind", "attributes", "values", "rho", "x", "first"), EXACT)
def test_from_which_k_on_cells_is_taken(
    kind: Kind, attributes: int, values: int, rho: str, x: float, first: int
) -> None:
    bounds = None if kind == "count" else (0, 100)
    of = replace(how(wide(attributes, values), groups=7, bounds=bounds), rho=Decimal(rho))
    taken = [methods(of, kind, k, x=x).cells_are_nearer for k in range(1, 9 if values == 4 else 31)]
    assert taken == [k >= first for k in range(1, len(taken) + 1)]


def test_few_rows_bound_what_can_be_unknown() -> None:
    """With 9 rows no influence on a count is above 2.5, by whatever method: then cells is free for others."""
    of = replace(how(wide(7, 15), groups=7), rho=Decimal("0.04"))
    few = methods(of, "count", 1, rows=9)
    assert few == Methods(Widths(2.5, 5.0), Widths(2.5, 5.0)) and few.cells_are_nearer
    assert not methods(of, "count", 1).cells_are_nearer
    assert methods(replace(of, units=3), "count", 1, rows=9).cells.shares == 2.5


@pytest.mark.parametrize("kind", ["count", "sum", "avg"])
def test_no_influence_is_above_the_largest(kind: Kind) -> None:
    """Of small tables, whichever: and of counts half of it is reached."""
    bounds = None if kind == "count" else (-3, 2)
    of = how(space(2), groups=2, bounds=bounds)
    low, high = (Fraction(0), Fraction(1)) if kind == "count" else (Fraction(-3), Fraction(2))
    shares = []
    for seed in range(60):
        rows = some_rows(of, 1 + seed % 12, seed)
        if seed % 2:
            rows = [row for row in rows if row[0] == 0 or row[1][0] == 0]
        many = max(sum(1 for row in rows if row[0] == group) for group in (0, 1))
        found = true_influences(rows, of, (0, 1), PAIR, kind)
        most = largest(sensitivity.change(kind, PAIR, low, high), 1, many)
        shares.append(max(map(abs, found)) / most)
    assert 0.3 < max(shares) <= 1


class Seeded:
    """Draws of a generator in place of noise: the same ones in every run."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(31)

    def gaussian(self, exact: Any, *, l2_squared: Fraction, rho: Fraction, label: str) -> list[int]:
        sigma = math.sqrt(l2_squared / (2 * rho))
        return [one + round(sigma * float(self.rng.normal())) for one in exact]


@pytest.mark.parametrize(("k", "rho"), [(1, "0.5"), (5, "0.5"), (20, "2")])
def test_the_widths_are_those_of_answers(k: int, rho: str) -> None:
    """Simulated, of 140 predicates whose influences are one distance apart: for the middle one the mean interval of the
    influence is within 3 % of what is expected, that of the rank within 30 %.
    """
    of = replace(how(wide(7, 20), groups=3), rho=Decimal(rho))
    expected, many, apart, total = methods(of, "count", k), 140, 7, 10_000_000
    inside = [1000 + apart * (place // 20 + 7 * (place % 20)) for place in range(many)]
    raw = [total, total, total, *(number for one in inside for number in (one, 1000, 0))]
    middle = sorted(range(many), key=inside.__getitem__)[many // 2]
    noise, draws, cells, single = Seeded(), 25, [], []
    other = one_shot(of.space, "count", k, rho)
    points = [round((one - 1000) * other.steps) for one in inside]
    ordered = sorted(points, reverse=True)
    for _ in range(draws):
        noisy = noise.gaussian(raw, l2_squared=Fraction(of.l2_squared), rho=Fraction(of.rho), label="")
        row = derived(compared(3), PAIR, (0, 1), k, Numbers(of, noisy)).found[middle]
        cells.append((row.high - row.low, row.rank_high - row.rank_low))
        first, last = other.search.interval(points[middle], ordered, noise, "")  # type: ignore[arg-type]
        single.append(last - first)
    assert np.mean([wide for wide, _ in cells]) / 2 == pytest.approx(expected.cells.shares, rel=0.03)
    for widths, found in ((expected.cells, [rank for _, rank in cells]), (expected.one_shot, single)):
        assert np.mean(found) == pytest.approx(min(2 * widths.ranks / apart, many - 1), rel=0.3)
