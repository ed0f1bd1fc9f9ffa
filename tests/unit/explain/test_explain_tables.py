"""Predicates, packed cells and the table that explains a difference (dpxplain.md §6): cases V82 to V86."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explain_draws import Labelled

from pg_epsilon.explain import sensitivity
from pg_epsilon.explain.cells import RECORD, Found, Layout, added, listed, unpacked
from pg_epsilon.explain.influence import influences
from pg_epsilon.explain.measure import FINE, Explaining, Price, core, fineness, rows
from pg_epsilon.explain.space import Attribute, Listed, Space
from pg_epsilon.explain.table import Row, denominator, sorted_rows

FILE = Path(__file__).resolve().parents[2] / "fixtures/explain/tables.json"
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in json.loads(FILE.read_text())["cases"]}
RAN = ["V82-explain-avg", "V83-explain-count-pure", "V84-explain-paper"]


def condition(name: str, value: str | None) -> str:
    return f"{name} IS NULL" if value is None else f"{name} = '{value}'"


def space_of(domains: dict[str, list[str | None]], most: int = 1, *, up_to: bool = False) -> Space:
    attributes = [
        Attribute(name, tuple(condition(name, value) for value in values), "0") for name, values in domains.items()
    ]
    return Space(tuple(attributes), most, up_to)


def packed(case: dict[str, Any]) -> bytes:
    """What the statement returns of a case's rows: values clamped, those without one left out of averages and sums."""
    domains, groups = case["domains"], [group for group, _ in case["weights"]]
    layout = Layout(len(groups), tuple(len(values) for values in domains.values()))
    found: dict[int, tuple[int, int]] = {}
    for row in case["rows"]:
        if row["group"] in groups and (row["value"] is not None or case["aggregate"] == "count"):
            cell = groups.index(row["group"])
            for size, (name, values) in zip(layout.sizes, domains.items(), strict=True):
                cell = cell * size + values.index(row[name])
            value = min(max(row["value"] or 0, case["lo"]), case["hi"])
            number, total = found.get(cell, (0, 0))
            found[cell] = number + 1, total + value
    return np.array([(cell, *both) for cell, both in found.items()], np.dtype(list(RECORD))).tobytes()


def measure(case: dict[str, Any]) -> Explaining:
    """The profile of the slow programme: twice the change in place of what one row moves two influences apart."""
    kind, weights = case["aggregate"], [Fraction(weight) for _, weight in case["weights"]]
    bound = sensitivity.of_the_paper if case.get("mode") == "paper" else sensitivity.change
    change = bound(kind, weights, Fraction(case["lo"]), Fraction(case["hi"]))
    ((name, parts),) = case["budget"].items()
    k, whole = case["k"], {part: Decimal(str(amount)) for part, amount in parts.items()}
    each = whole["topk"] / k if name == "epsilon" else Decimal(math.sqrt(8 * whole["topk"] / k))
    price = Price(each, whole["influence"], whole["rank"], name == "rho")
    space = space_of(case["domains"], case["l"])
    return Explaining(space, kind, tuple(weights), k, change, 2 * change, price, Fraction(19, 20))


def draws(case: dict[str, Any], how: Explaining) -> Any:
    """Those of the case, by what they are drawn for; a search need not use all of its own."""
    given = case["draws"]
    named = {"x influence": given["influence"]}
    for side in ("low", "high"):
        named.update({f"x rank {n} {side}": own for n, own in enumerate(given[f"rank_{side}"], 1)})
    return Labelled(given["gumbel"], named, int(how.steps))


@pytest.mark.parametrize("name", RAN)
def test_tables_are_those_of_the_slow_programme(name: str) -> None:
    """Exact but for the grid, a millionth of the sensitivity; of pure noise, the margin is of the case's own grid."""
    case, expected = CASES[name]["input"], CASES[name]["expected"]
    how = measure(case)
    given = draws(case, how)
    raw = core(packed(case), how, given, "x")
    found = rows(raw, how)
    assert [row.text for row in found] == expected["picks"]
    assert float(how.change) == expected["sensitivity"]
    assert given.scales == pytest.approx([expected["scale"] * float(how.steps)] * case["k"], rel=3 / FINE)
    if not how.price.rho:
        price = how.price.budget(how.price.influences)
        margin = price.margin(case["k"], int(how.change), 1 - how.confidence)
        found = [replace(row, low=row.influence - margin, high=row.influence + margin) for row in found]
    for row, interval in zip(found, expected["intervals"], strict=True):
        near = [pytest.approx(interval[one], abs=float(how.change) * 1e-5) for one in ("noisy", "low", "high")]
        assert [row.influence, row.low, row.high] == near
    divisor = denominator(case["aggregate"], case["difference"], case.get("noisy_counts", [1]))
    _same_table(sorted_rows(found, divisor), expected["table"], 1e-5 * float(how.change) / divisor)


def _same_table(found: Sequence[Any], expected: Sequence[dict[str, Any]], near: float) -> None:
    for (text, share, low, high), row in zip(found, expected, strict=True):
        assert (text, low, high) == (row["explanation"], row["rank_low"], row["rank_high"])
        assert share == pytest.approx([row["share"], row["share_low"], row["share_high"]], abs=near)


def test_more_picks_than_predicates_are_refused() -> None:
    case = CASES["V85-explain-too-many"]
    how = measure(case["input"])
    with pytest.raises(ValueError) as refused:
        core(packed(case["input"]), how, draws(case["input"], how), "x")
    assert str(refused.value) == case["expected"]["error"]


def test_rows_are_sorted_as_the_slow_programme_does() -> None:
    case, expected = CASES["V86-table-sort"]["input"], CASES["V86-table-sort"]["expected"]
    given = [
        Row(row["text"], row["noisy"], row["low"], row["high"], row["rank_low"], row["rank_high"])
        for row in case["rows"]
    ]
    divisor = denominator(case["aggregate"], case["difference"], case["noisy_counts"])
    _same_table(sorted_rows(given, divisor), expected["table"], 1e-12)


def test_nothing_is_shown_as_minus_nought() -> None:
    ((_, share, _, _),) = sorted_rows([Row("x", -0.0, -0.0, 0.0, 1, 1)], 2.0)
    assert str(share) == "(0.0, 0.0, 0.0)"


def test_shares_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        sorted_rows([], denominator("count", 0, []))


DOMAINS: dict[str, list[str | None]] = {"x": ["p", "q", None], "y": ["u", "v"], "z": ["0", "1", "2", "3"]}


@pytest.mark.parametrize(("most", "up_to", "many"), [(1, False, 9), (2, False, 26), (3, False, 24), (2, True, 35)])
def test_predicates_are_the_combinations_of_values(most: int, up_to: bool, many: int) -> None:
    space = space_of(DOMAINS, most, up_to=up_to)
    texts = [space.text(place) for place in range(len(space))]
    assert len(texts) == len(set(texts)) == many
    assert {text.count("=") + text.count("IS") for text in texts} == set(range(1 if up_to else most, most + 1))
    assert texts[-1].endswith("z = '3'")


def test_predicates_are_in_the_order_of_the_attributes() -> None:
    space = space_of(DOMAINS, 2)
    assert [space.text(place) for place in (0, 1, 2, 5, 6, 25)] == [
        "x = 'p' AND y = 'u'",
        "x = 'p' AND y = 'v'",
        "x = 'q' AND y = 'u'",
        "x IS NULL AND y = 'v'",
        "x = 'p' AND z = '0'",
        "y = 'v' AND z = '3'",
    ]


@pytest.mark.parametrize(("most", "up_to"), [(1, False), (2, False), (3, False), (3, True)])
@pytest.mark.parametrize("scale", [1, 2**33], ids=["small", "beyond 2^53"])
def test_marginals_are_what_counting_rows_gives(most: int, up_to: bool, scale: int) -> None:
    """400 rows, three groups, values of both signs: of each predicate, by trying it on every row."""
    rng = np.random.default_rng(20261127)
    sizes = [len(values) for values in DOMAINS.values()]
    groups = rng.integers(0, 3, 400)
    places = np.stack([rng.integers(0, size, 400) for size in sizes], axis=1)
    values = [int(one) * scale + 1 for one in rng.integers(-(2**21), 2**21, 400)]
    found: dict[int, list[int]] = {}
    for group, row, value in zip(groups, places, values, strict=True):
        cell = int(np.ravel_multi_index((group, *row), (3, *sizes)))
        found.setdefault(cell, []).append(value)
    records = [(cell, len(own), sum(own)) for cell, own in found.items()]
    space = space_of(DOMAINS, most, up_to=up_to)
    found_ = unpacked(np.array(records, np.dtype(list(RECORD))).tobytes(), space, 3)
    names = list(DOMAINS)
    by_predicate: list[tuple[int, int, int]] = []
    for group in range(3):
        own = [(row, value) for row, value, one in zip(places, values, groups, strict=True) if one == group]
        assert (found_.cells.rows[group], found_.cells.sums[group]) == (len(own), sum(value for _, value in own))
        for place in range(len(space)):
            tested = [(names.index(attribute.name), value) for attribute, value in space.values(place)]
            inside = [value for row, value in own if all(row[name] == one for name, one in tested)]
            assert at(found_, place, group) == (len(inside), sum(inside))
            if inside:
                by_predicate.append((place * 3 + group, len(inside), sum(inside)))
    same = added(np.array(by_predicate, np.dtype(list(RECORD))).tobytes(), space, 3)
    assert (same.places, same.cells.rows, same.cells.sums) == (found_.places, found_.cells.rows, found_.cells.sums)
    assert (same.cells.inside_rows == found_.cells.inside_rows).all()
    assert (same.cells.inside_sums == found_.cells.inside_sums).all()
    assert type(found_.cells.inside_sums[0, 0]) is int and type(found_.cells.inside_rows[0, 0]) is int


def test_a_list_has_what_all_rows_are_behind_it() -> None:
    """Overlapping predicates, one that no row satisfies, and rows that satisfy none."""
    rng = np.random.default_rng(20261127)
    space = Listed(("a", "b", "never", "c"), ("a", "b", "never", "c"))
    expected = {(place, group): (0, 0) for place in range(5) for group in range(2)}
    for _ in range(300):
        group, value = int(rng.integers(0, 2)), int(rng.integers(-(2**31), 2**31))
        for place in [one for one in (0, 1, 3) if rng.random() < 0.4] + [4]:
            number, total = expected[place, group]
            expected[place, group] = number + 1, total + value
    records = [(place * 2 + group, *both) for (place, group), both in expected.items() if both[0]]
    made = listed(np.array(records, np.dtype(list(RECORD))).tobytes(), space, 2)
    assert made.places == [0, 1, 3]
    for group in range(2):
        assert (made.cells.rows[group], made.cells.sums[group]) == expected[4, group]
        assert [at(made, place, group) for place in range(4)] == [expected[place, group] for place in range(4)]
    assert made.cells.inside_rows.shape == made.cells.inside_sums.shape == (3, 2)
    assert listed(b"", space, 2).places == []
    assert [space.text(place) for place in range(len(space))] == ["a", "b", "never", "c"]


def at(found: Found, place: int, group: int) -> tuple[int, int]:
    """Rows and sum of a predicate in a group; none of one that no row satisfies."""
    if place not in found.places:
        return 0, 0
    index = found.places.index(place)
    return found.cells.inside_rows[index, group], found.cells.inside_sums[index, group]


@pytest.mark.parametrize("read", [unpacked, added])
def test_nothing_at_all_is_empty_cells(read: Any) -> None:
    found = read(b"", space_of(DOMAINS), 2)
    assert (found.places, found.cells.rows, found.cells.sums) == ([], [0, 0], [0, 0])
    assert influences("avg", [Fraction(1), Fraction(-1)], found.cells) == []


def test_cells_are_numbered_by_group_and_values() -> None:
    layout = Layout(2, (3, 4))
    assert layout.cells == 24
    asked = layout.number("g", ["x", "y"])
    spelled = asked.replace("::pg_catalog.int8", "")
    places = {(g, x, y): g * 12 + x * 4 + y for g in range(2) for x in range(3) for y in range(4)}
    for (g, x, y), place in places.items():
        assert eval(spelled, {"g": g, "x": x, "y": y}) == place  # noqa: S307 -- of digits, names, * and +


@pytest.mark.parametrize("change", [Fraction(1), Fraction(1, 3), Fraction(10**9, 7), Fraction(3, 10**6)], ids=str)
def test_the_grid_costs_a_millionth(change: Fraction) -> None:
    price = Price(Decimal(1), Decimal(1), Decimal(2), False)
    weights = (Fraction(1), Fraction(-1))
    how = Explaining(space_of(DOMAINS), "count", weights, 3, change, change, price, Fraction(19, 20))
    assert FINE <= how.change * how.steps < 2 * FINE
    assert FINE <= how.moved <= how.change * how.steps + 1
    assert how.search.moved <= how.apart * how.steps + 2
    # a power of 2, so that halves and quarters of rows have scores of their own
    top, bottom = how.steps.numerator, how.steps.denominator
    assert top & (top - 1) == bottom & (bottom - 1) == 0


@pytest.mark.parametrize("rows", [1, 1000, 2**20, 10**9, 2**30, 2**45])
def test_no_influence_leaves_the_lattice(rows: int) -> None:
    """As fine as it goes, because each step is noise: 2^-32 of the sensitivity, where the rows leave room for it."""
    fine = fineness(rows)
    assert FINE <= fine <= 2**32
    assert 2 * fine * rows <= 2**62 or fine == FINE
    assert fine == 2**32 or 4 * fine * rows >= 2**61


@pytest.mark.parametrize(
    ("rho", "predicates", "kinds"),
    [
        (False, 9, ["exponential"] * 3 + ["laplace", "pure"]),
        (True, 9, ["exponential"] * 3 + ["gaussian"] * 2),
        (False, 1, ["exponential"] * 3 + ["laplace"]),
    ],
)
def test_each_part_is_charged_once(rho: bool, predicates: int, kinds: list[str]) -> None:
    charges = Price(Decimal("0.25"), Decimal("0.5"), Decimal("1.5"), rho).charges(3, predicates)
    assert [charge.kind for charge in charges] == kinds
    amounts = [amount for charge in charges for _, amount in charge.parameters]
    assert amounts == [Decimal("0.25")] * 3 + [Decimal("0.5"), Decimal("1.5")][: len(kinds) - 3]


def test_joint_intervals_are_wider() -> None:
    how = measure(CASES["V82-explain-avg"]["input"])
    assert how.margin < replace(how, joint=True).margin
    assert how.released == 4 * how.k == len(core(b"", how, draws(CASES["V82-explain-avg"]["input"], how), "x"))
