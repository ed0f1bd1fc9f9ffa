"""Influences and their sensitivities: cases V01 to V30 of the slow programme, and small tables (dpxplain.md §6)."""

from __future__ import annotations

import itertools
import json
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pg_epsilon.explain import sensitivity
from pg_epsilon.explain.influence import Cells, Kind, influences, scores

FILE = Path(__file__).resolve().parents[2] / "fixtures/explain/influences.json"
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in json.loads(FILE.read_text())["cases"]}
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
ONE, ZERO = Fraction(1), Fraction(0)


def holds(predicate: dict[str, Any], row: dict[str, Any]) -> bool:
    """As in WHERE: of NULL, only IS NULL ("eq": null) is true."""
    if "always" in predicate:
        return bool(predicate["always"])
    if "and" in predicate:
        return all(holds(one, row) for one in predicate["and"])
    if "or" in predicate:
        return any(holds(one, row) for one in predicate["or"])
    value = row.get(predicate["attr"])
    if "eq" in predicate:
        return bool(value == predicate["eq"])
    if value is None:
        return False
    if "in" in predicate:
        return value in predicate["in"]
    return all(ORDER[name](value, bound) for name, bound in predicate.items() if name != "attr")


def space(case: dict[str, Any]) -> list[dict[str, Any]]:
    if "predicates" in case:
        return list(case["predicates"])
    least = 1 if case.get("up_to") else case.get("l", 1)
    return [
        {"and": [{"attr": name, "eq": value} for name, value in zip(names, values, strict=True)]}
        for size in range(least, case.get("l", 1) + 1)
        for names in itertools.combinations(case["domains"], size)
        for values in itertools.product(*(case["domains"][name] for name in names))
    ]


def read(case: dict[str, Any]) -> tuple[Kind, list[Fraction], Cells, int]:
    """Kind, weights, cells, and how many lattice integers a unit of the value has."""
    kind: Kind = "count" if case["aggregate"].startswith("count") else case["aggregate"]
    where = case.get("where", {"always": True})
    rows = [
        one for one in case["rows"] if holds(where, one) and (case["aggregate"] == "count" or one["value"] is not None)
    ]
    low, high = Fraction(str(case.get("lo", 0))), Fraction(str(case.get("hi", 1)))
    values = [ZERO if kind == "count" else min(max(Fraction(str(one["value"])), low), high) for one in rows]
    unit = math.lcm(*(value.denominator for value in values))
    groups = [(group, Fraction(str(weight))) for group, weight in case["weights"] if Fraction(str(weight))]
    known = [(one, int(value * unit), one.get("times", 1)) for one, value in zip(rows, values, strict=True)]

    def counted(group: Any, predicate: dict[str, Any]) -> tuple[int, int]:
        inside = [(v, n) for one, v, n in known if one["group"] == group and holds(predicate, one)]
        return sum(n for _, n in inside), sum(v * n for v, n in inside)

    whole = [counted(group, {"always": True}) for group, _ in groups]
    inside = [[counted(group, one) for group, _ in groups] for one in space(case)]
    cells = Cells.of([n for n, _ in whole], [s for _, s in whole], inside)
    return kind, [weight for _, weight in groups], cells, unit


INFLUENCES = [name for name, case in CASES.items() if case["input"]["kind"] == "influence"]


@pytest.mark.parametrize("name", INFLUENCES)
def test_influences_are_those_of_the_slow_programme(name: str) -> None:
    kind, weights, cells, unit = read(CASES[name]["input"])
    found = [one / (1 if kind == "count" else unit) for one in influences(kind, weights, cells)]
    assert found == [Fraction(one) for one in CASES[name]["expected"]["influences"]]


@pytest.mark.parametrize("steps", [ONE, Fraction(1, 7), Fraction(1024), Fraction(10**9, 3)], ids=str)
@pytest.mark.parametrize("name", INFLUENCES)
def test_scores_are_the_nearest_steps(name: str, steps: Fraction) -> None:
    kind, weights, cells, _ = read(CASES[name]["input"])
    exact = influences(kind, weights, cells)
    for score, influence in zip(scores(kind, weights, cells, steps), exact, strict=True):
        assert -Fraction(1, 2) < score - steps * influence <= Fraction(1, 2)


def test_sums_of_cents_do_not_wrap() -> None:
    """A million rows of ten million cents: S_t b_t and the common denominator are beyond 64 bits (§0.0)."""
    n, total = 10**6, 10**13
    cells = Cells.of([n, n], [total, 0], [[(n // 2, total // 2), (n // 2, 0)], [(1, 10**7), (0, 0)]])
    half, one_row = influences("avg", [ONE, -ONE], cells)
    assert half == 0
    assert one_row == (n - 1) * (Fraction(total, n) - Fraction(total - 10**7, n - 1))
    assert scores("avg", [ONE, -ONE], cells, Fraction(10**6)) == [0, round(one_row * 10**6)]


@pytest.mark.parametrize("weights", [[ONE, ZERO], [], [ONE]], ids=str)
def test_weights_that_do_not_fit_are_refused(weights: list[Fraction]) -> None:
    with pytest.raises(ValueError, match="none of them 0"):
        influences("count", weights, Cells.of([1, 1], [0, 0], [[(0, 0), (0, 0)]]))


def bounds(case: dict[str, Any]) -> tuple[Kind, list[Fraction], Fraction, Fraction]:
    weights = [Fraction(str(weight)) for weight in case["weights"]]
    return case["aggregate"], weights, Fraction(str(case["lo"])), Fraction(str(case["hi"]))


SENSITIVITIES = [name for name, case in CASES.items() if case["input"]["kind"] == "sensitivity"]


@pytest.mark.parametrize("name", SENSITIVITIES)
def test_sensitivities_are_those_of_the_slow_programme(name: str) -> None:
    asked, expected = bounds(CASES[name]["input"]), CASES[name]["expected"]
    assert float(sensitivity.change(*asked)) == expected["tight"]
    assert float(sensitivity.of_the_paper(*asked)) == expected["paper"]
    assert sensitivity.change(*asked) <= sensitivity.of_the_paper(*asked)


Group = tuple[int, ...]  # how many rows of each value


def groups(values: int, most: int) -> list[Group]:
    """All groups of at most so many rows."""
    return [one for one in itertools.product(range(most + 1), repeat=values) if sum(one) <= most]


def within(group: Group) -> list[Group]:
    return list(itertools.product(*(range(count + 1) for count in group)))


Moves = Iterator[tuple[Cells, list[Cells]]]


def neighbours(weights: Sequence[Fraction], values: Sequence[int], most: int) -> Moves:
    """(Cells, cells with one row more: it satisfies no predicate, it satisfies all) of every small table and row.

    Predicates are all sets of rows, so that a row's changes with and without it are those of every predicate.
    """

    def told(group: Group, more: int = 0, value: int = 0) -> tuple[int, int]:
        return sum(group) + more, sum(n * v for n, v in zip(group, values, strict=True)) + more * value

    for table in itertools.product(groups(len(values), most), repeat=len(weights)):
        predicates = list(itertools.product(*map(within, table)))
        before = cells_of([told(one) for one in table], [[told(one) for one in p] for p in predicates])
        for place, value in itertools.product(range(len(weights)), values):
            own = [int(place == number) for number in range(len(weights))]
            whole = [told(one, more, value) for one, more in zip(table, own, strict=True)]
            outside = [[told(one) for one in p] for p in predicates]
            inside = [[told(one, more, value) for one, more in zip(p, own, strict=True)] for p in predicates]
            yield before, [cells_of(whole, outside), cells_of(whole, inside)]


def cells_of(whole: Sequence[tuple[int, int]], lines: Sequence[Sequence[tuple[int, int]]]) -> Cells:
    return Cells.of([n for n, _ in whole], [s for _, s in whole], lines)


def largest(moves: Moves, of: Callable[[Cells], Sequence[Any]]) -> tuple[Any, Any]:
    """The largest change, and the largest difference between one row's changes."""
    change, apart = 0, 0
    for before, afters in moves:
        old = of(before)
        moved = [new - one for after in afters for one, new in zip(old, of(after), strict=True)]
        change, apart = max(change, *map(abs, moved)), max(apart, max(moved) - min(moved))
    return change, apart


HALF = Fraction(1, 2)
TABLES: list[tuple[Kind, list[Fraction], tuple[int, ...], int]] = [
    ("count", [ONE, -ONE], (0,), 8),
    ("count", [ONE, ONE], (0,), 6),
    ("count", [3 * ONE, -ONE], (0,), 8),
    ("count", [ONE], (0,), 8),
    ("count", [ONE, -HALF, -HALF], (0,), 3),
    ("count", [ONE, ONE, -ONE], (0,), 3),
    ("sum", [ONE, -ONE], (-1, 1), 2),
    ("sum", [ONE, -10 * ONE], (2, 5), 2),
    ("avg", [ONE, -ONE], (0, 1), 2),
    ("avg", [ONE], (-3, 1), 4),
    ("avg", [2 * ONE, -ONE], (-1, 2), 2),
]


@pytest.mark.parametrize(("kind", "weights", "values", "most"), TABLES, ids=str)
def test_no_row_of_any_small_table_moves_more(
    kind: Kind, weights: list[Fraction], values: tuple[int, ...], most: int
) -> None:
    asked = kind, weights, Fraction(values[0]), Fraction(values[-1])
    change, apart = largest(neighbours(weights, values, most), lambda cells: influences(kind, weights, cells))
    assert 0 < change <= sensitivity.change(*asked)
    assert change <= apart <= sensitivity.spread(*asked) <= 2 * sensitivity.change(*asked)


@pytest.mark.parametrize("name", [name for name in SENSITIVITIES if "found" in CASES[name]["expected"]])
def test_the_largest_change_is_that_of_the_slow_programme(name: str) -> None:
    """Of up to two rows that satisfy a predicate and two that do not, in each group."""
    kind, weights, low, high = bounds(CASES[name]["input"])
    values, most = (int(low), int(high)), CASES[name]["input"]["max_rows"]

    def told(*both: Group) -> tuple[int, int]:
        rows = [sum(column) for column in zip(*both, strict=True)]
        return sum(rows), sum(n * v for n, v in zip(rows, values, strict=True))

    def influence(inside: list[Group], outside: list[Group]) -> Fraction:
        whole = [told(a, b) for a, b in zip(inside, outside, strict=True)]
        return influences(kind, weights, cells_of(whole, [[told(one) for one in inside]]))[0]

    change = ZERO
    pairs = list(itertools.product(groups(2, most), repeat=2))
    more = [(1, 0), (0, 1)] if kind != "count" else [(1, 0)]
    for table in itertools.product(pairs, repeat=len(weights)):
        parts = [[one for one, _ in table], [one for _, one in table]]
        if kind == "count" and any(one[1] for part in parts for one in part):
            continue  # values do not matter
        old = influence(*parts)
        for part, place, row in itertools.product((0, 1), range(len(weights)), more):
            grown = [list(one) for one in parts]
            grown[part][place] = (grown[part][place][0] + row[0], grown[part][place][1] + row[1])
            change = max(change, abs(influence(*grown) - old))
    assert float(change) == pytest.approx(CASES[name]["expected"]["found"], rel=1e-11)


def of_large_groups(n: tuple[int, int], place: int) -> tuple[Fraction, Fraction]:
    """As `largest`, for counts of two groups of this size and a row that is added to one of them."""
    own = [int(place == 0), int(place == 1)]
    held = list(itertools.product(range(n[0] + 1), range(n[1] + 1)))

    def cells(more: int, inside: int) -> Cells:
        lines = [[(a + inside * own[0], 0), (b + inside * own[1], 0)] for a, b in held]
        return cells_of([(n[0] + more * own[0], 0), (n[1] + more * own[1], 0)], lines)

    moves = iter([(cells(0, 0), [cells(1, 0), cells(1, 1)])])
    return largest(moves, lambda one: influences("count", [ONE, -ONE], one))


def test_the_bounds_of_a_pair_of_counts_are_nearly_reached() -> None:
    """Control: nine tenths of either bound are exceeded."""
    each = [of_large_groups(n, place) for n in ((24, 12), (24, 24), (12, 24)) for place in (0, 1)]
    asked: Any = "count", [ONE, -ONE], ZERO, ZERO
    assert Fraction(9, 10) * sensitivity.change(*asked) < max(change for change, _ in each)
    assert Fraction(9, 10) * sensitivity.spread(*asked) < max(apart for _, apart in each)


@pytest.mark.parametrize("steps", [ONE, Fraction(5, 3), Fraction(64)], ids=str)
def test_rounding_to_a_grid_is_paid_for(steps: Fraction) -> None:
    weights: list[Fraction] = [ONE, -ONE]
    asked: Any = "avg", weights, ZERO, ONE
    change, apart = largest(neighbours(weights, (0, 1), 2), lambda cells: scores("avg", weights, cells, steps))
    assert change <= sensitivity.on_grid(sensitivity.change(*asked), steps)
    assert apart <= sensitivity.on_grid(sensitivity.spread(*asked), steps, apart=True)
