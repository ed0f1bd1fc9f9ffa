"""Matrix strategies over the classes of a release (release/kronecker.py, designed.py, layout.py,
strategic.py; numeric-release.md §8.1).
"""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.release import designed, layout, ranges
from pg_epsilon.release.answers import Noise, counted, summed
from pg_epsilon.release.cells import Cells, histogram
from pg_epsilon.release.factors import Factors
from pg_epsilon.release.kronecker import (
    FEW_WEIGHTS,
    MOST_MASS,
    Kronecker,
    Matrix,
    blurred,
    everywhere,
    factors_of,
    of_facts,
)
from pg_epsilon.release.layout import Layout
from pg_epsilon.release.masses import Values
from pg_epsilon.release.trees import Tree

F = Fraction
VALUES = Values.of(Lattice("v", -4, 12, F(1), True), 1000 << 24)  # room for two strategies


def ranges_of(classes: int, every: int = 1) -> list[str]:
    cut = range(0, classes + 1, every)
    return ["0" * low + "1" * (high - low) + "0" * (classes - high) for low in cut for high in cut if low < high]


def prefixes_of(classes: int) -> list[str]:
    return ["1" * high + "0" * (classes - high) for high in range(1, classes + 1)]


def irregular(classes: int, many: int = 40) -> list[str]:
    draw = random.Random(classes)
    return ["".join(draw.choice("01") for _ in range(classes)) for _ in range(many)]


class Axis:
    """What layout.py reads of an axis."""

    def __init__(self, size: int, null: bool = False) -> None:
        self.name, self.size = "day", size
        self.starts = (*map(str, range(size - null)), *([None] if null else []))


class Masks:
    def __init__(self, masks: Sequence[str]) -> None:
        self.different = tuple(masks)
        self.of = tuple(range(len(masks)))


def laid(masks: Sequence[str], *, gaussian: bool = False, null: bool = False) -> Layout:
    axes: Any = [Axis(len(masks[0]), null)]
    return layout.layout(axes, [Masks(masks)], "matrix", gaussian=gaussian)


def strategy(masks: Sequence[str], *, gaussian: bool = False, null: bool = False) -> Kronecker:
    found = laid(masks, gaussian=gaussian, null=null).strategy
    assert found is not None
    return found


STRATEGIES = {
    "prefixes": strategy(prefixes_of(20)),
    "prefixes by rho": strategy(prefixes_of(20), gaussian=True),
    "irregular by rho, and NULL": strategy(irregular(12, 9), gaussian=True, null=True),
    "two columns": Kronecker(
        (
            *strategy(irregular(8, 5), gaussian=True).parts,
            *strategy(prefixes_of(6), gaussian=True).parts,
        )
    ),
}


def measure(how: Kronecker, values: Values | None) -> Cells:
    return Cells(how.classes, values, Additive(1, 1, epsilon=None, rho=None), strategy=how)


def moved_by(how: Kronecker, values: Values | None) -> list[tuple[int, int]]:
    """Of unit rows of all classes and, of some, of all steps, one by one beside others: the L1
    norm of what each moves, and the square of the L2 norm.
    """
    cells, whole = measure(how, values), values.whole if values else 1
    draw = random.Random(1)
    parts = [-2, -1, *range(len(VALUES.steps))] if values else [0]
    rows = [
        (place, part, 1, draw.randrange(whole + 1))
        for place in range(how.classes)
        for part in (parts if place < 6 else [draw.choice(parts)])
    ]
    others = [draw.choice(rows) for _ in range(30)]
    before, found = histogram(others, cells), []
    for row in rows:
        moved = [one - two for one, two in zip(histogram([*others, row], cells), before, strict=True)]
        assert len(moved) == cells.released == how.rows * cells.of_class
        found.append((sum(map(abs, moved)), sum(one * one for one in moved)))
    return found


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("values", [None, VALUES], ids=["rows", "values"])
def test_a_row_of_any_class_and_step_moves_the_sums_as_far_as_said(name: str, values: Values | None) -> None:
    """L1 and L2 are never more, and some row's are all of it."""
    how, whole = STRATEGIES[name], values.whole if values else 1
    found = moved_by(how, values)
    assert max(l1 for l1, _ in found) == how.l1 * whole
    assert max(l2 for _, l2 in found) <= how.l2_squared * whole**2
    if values is None:
        assert max(l2 for _, l2 in found) == how.l2_squared


def test_the_sensitivity_of_one_class_by_itself_is_caught() -> None:
    """The control of the test above: with 1 for the norms rows move more than is said."""
    for how in STRATEGIES.values():
        found = moved_by(how, None)
        assert max(l1 for l1, _ in found) > 1 and max(l2 for _, l2 in found) > 1


def test_norms_of_a_product_are_those_of_its_whole_matrix() -> None:
    how = STRATEGIES["two columns"]
    whole = np.kron(how.parts[0].entries, how.parts[1].entries)
    assert how.l1 == np.abs(whole).sum(axis=0).max() and how.l2_squared == np.square(whole).sum(axis=0).max()
    assert 2 ** (how.room - 1) < np.abs(whole).max() <= 2**how.room
    draw = np.random.default_rng(2).integers(0, 2**30, (48, 3))
    assert how.of(draw.ravel().tolist()) == (whole.astype(object) @ draw.astype(object)).ravel().tolist()


def test_masses_beyond_63_bits_are_cut_and_move_no_further() -> None:
    how = Kronecker((Matrix.of("x", np.array([[3, 5], [-4, 0], [0, 1]])),))
    assert how.of([2**62, 2**62]) == [MOST_MASS, -MOST_MASS, MOST_MASS]
    assert how.of([2**59, 7]) == [3 * 2**59 + 35, -(2**61), 7]
    high, low = how.of([2**61, 5]), how.of([2**61 - 1, 5])
    assert sum(abs(one - two) for one, two in zip(high, low, strict=True)) <= how.l1


@pytest.mark.parametrize("name", STRATEGIES)
def test_without_noise_every_set_is_its_classes(name: str) -> None:
    """Those of the grid, any others, and sets that are no product of the columns'."""
    how, draw = STRATEGIES[name], np.random.default_rng(3)
    sizes = [one.classes for one in how.parts]
    exact = draw.integers(0, 99, (how.classes, 3))
    noisy = np.array(how.of(exact.ravel().tolist()), float).reshape(-1, 3)
    for _ in range(20):
        bits = draw.random(sizes) < 0.4
        assert how.read(noisy, bits).cells[0] == pytest.approx(exact[bits.ravel()].sum(axis=0), abs=1e-6)
    masks = [irregular(size, 4) for size in sizes]
    of = np.array([[0, 1, 2, 3, 0] for _ in sizes])
    sums = how.sums_of(noisy, masks, of)
    for number, places in enumerate(of.T):
        rows = [[bit == "1" for bit in own[place]] for own, place in zip(masks, places, strict=True)]
        bits = np.ones((), bool)
        for row in rows:
            bits = bits[..., None] & np.array(row)
        assert sums.cells[number] == pytest.approx(exact[bits.ravel()].sum(axis=0), abs=1e-6)
        assert sums.times is not None and sums.times[number] == pytest.approx(how.squares(masks, of)[number], rel=0.05)


@pytest.mark.parametrize("gaussian", [False, True])
def test_answers_at_a_huge_epsilon_are_the_truth(gaussian: bool) -> None:
    """Sums that are cut nowhere, counts, and bars that hold them, as narrow as the noise."""
    masks, scale = prefixes_of(20), 1e-9
    how, draw = STRATEGIES["prefixes by rho" if gaussian else "prefixes"], random.Random(4)
    rows = [(draw.randrange(20), draw.randrange(13)) for _ in range(200)]
    cube = [(place, VALUES.zero + ((value - 1).bit_length() + 1 if value else 0), 1, value) for place, value in rows]
    cube = [(place, part, 1, upper_of(value)) for (place, value), (_, part, _, _) in zip(rows, cube, strict=True)]
    released = np.array(histogram(cube, measure(how, VALUES)), float).reshape(how.rows, -1) / VALUES.whole
    sums = how.sums_of(released, [masks], np.arange(20)[None, :])
    noise = Noise(scale, gaussian, 1 / VALUES.whole)
    steps = [float(one) for one in VALUES.steps]
    for number, (total, rows_of) in enumerate(
        zip(
            summed(sums.part(slice(len(steps))), steps, noise, 1e-3),
            counted(sums, noise, 1e-3),
            strict=True,
        )
    ):
        true = [value for place, value in rows if place <= number]
        assert total.unbiased == pytest.approx(sum(true), abs=1e-3) and total.answer == pytest.approx(
            sum(true), abs=1e-3
        )
        assert total.low <= sum(true) + 1e-3 and sum(true) - 1e-3 <= total.high
        assert total.high - total.low < 0.01 * (1 + sum(true))
        assert rows_of.answer == pytest.approx(len(true), abs=1e-3)


def upper_of(value: int) -> int:
    """lambda * 2^bits of a value from 0 to 12, split between powers of two."""
    if not value:
        return 0
    upper = 1 << (value - 1).bit_length()
    lower = upper // 2 if upper > 1 else 0
    return (value - lower) * VALUES.whole // (upper - lower)


def test_bars_are_those_of_the_weights_of_all_sums() -> None:
    """Of w A+, each weight with noise at every step; rounded up by little where they are many."""
    how, bits = STRATEGIES["two columns"], np.random.default_rng(5).random((8, 6)) < 0.5
    weights, steps = how.weights(bits), np.array([0.5, 1.0, 2.0])
    sums = how.read(np.zeros((how.rows, 4)), bits)
    whole = np.outer(np.abs(weights), steps).ravel()
    for noise in (Noise(3.0, True, 2**-20), Noise(3.0, False, 2**-20)):
        exact = noise.reach(whole, 1e-4)
        assert exact * (1 - 1e-9) <= sums.reach(0, noise, steps, 1e-4) <= exact * 1.06
    assert sums.times is not None
    assert sums.times[0] == pytest.approx(np.full(4, np.square(weights).sum()), rel=1e-6)
    assert sums.without(1).reach(0, noise, steps, 1e-4) == sums.reach(0, noise, steps, 1e-4)


def test_rounded_weights_are_no_smaller_and_as_many() -> None:
    own = np.random.default_rng(6).random(500) ** 8
    weights, times = blurred(own, np.full(500, 3.0))
    assert times.sum() == pytest.approx(1500) and weights.size < 2 * FEW_WEIGHTS
    order = np.sort(own)[::-1]
    longer = np.repeat(np.sort(weights)[::-1], np.rint(times[np.argsort(weights)[::-1]] / 3).astype(int))
    assert (longer >= order * (1 - 1e-12)).all() and (longer <= np.maximum(order * 2, 2**-15)).all()
    few = np.array([1.0, 2.0])
    assert blurred(few, few)[0] is few
    assert isinstance(factors_of(own, 2), Factors) and factors_of(np.zeros(3), 2).weights.size == 0


def test_bars_of_any_set_are_wider_and_those_of_ranges_less_so() -> None:
    """A union over all ranges, or over all sets: by the chance that is left for each."""
    how, noise = STRATEGIES["prefixes by rho"], Noise(2.0, True, 2**-40)
    line, gaps = np.arange(20) < 9, np.arange(20) % 2 == 0
    for bits, number in ((line, 2 * 210), (gaps, 2 * 20 * math.comb(20, 10))):
        sums, many = how.read(np.zeros((how.rows, 1)), bits), everywhere(noise, bits, [False])
        assert many.sets == pytest.approx(math.log(number))
        each = noise.reach_of(np.abs(how.weights(bits)), 0.05 / number, np.ones(how.rows))
        assert sums.reach(0, many, np.ones(1), 0.05) == pytest.approx(each, rel=0.05)
    nulls = everywhere(noise, np.array([True, True, False, True]), [True])
    assert nulls.sets == pytest.approx(math.log(2 * (2 * 6 + 1)))


def test_the_stored_strategy_is_that_which_was_drawn() -> None:
    how = STRATEGIES["two columns"]
    assert of_facts({"strategy": json.loads(json.dumps(how.stored()))}) == how
    assert of_facts({"trees": []}) is None
    assert how.canonical() != STRATEGIES["prefixes"].canonical()
    again = strategy(irregular(12, 9)[::-1], gaussian=True, null=True)
    assert again.canonical() == STRATEGIES["irregular by rho, and NULL"].canonical()


def test_another_process_finds_the_same_integers() -> None:
    source = (
        "from unit.release.test_release_matrices import STRATEGIES, prefixes_of, strategy\n"
        "print([one.canonical() for one in (*STRATEGIES.values(), strategy(prefixes_of(70)))])"
    )
    found = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    own = [one.canonical() for one in (*STRATEGIES.values(), strategy(prefixes_of(70)))]
    assert found.stdout.strip() == str(own)


# docs/release.md: mean deviation of cells, trees, matrix, in units of the noise of one class by cells
MEANS = [
    (ranges_of(64), False, (4.36, 4.36, 3.84)),
    (ranges_of(64), True, (4.36, 3.48, 2.28)),
    (prefixes_of(64), False, (5.39, 4.77, 3.74)),
    (prefixes_of(256), False, (10.70, 6.74, 5.28)),
    (ranges_of(256, 8), True, (8.90, 3.69, 2.66)),
    (irregular(64), False, (5.76, 5.76, 5.42)),
    (irregular(64), True, (5.76, 5.76, 3.38)),
]


@pytest.mark.parametrize(("masks", "gaussian", "means"), MEANS)
def test_the_mean_error_is_below_that_of_cells_and_of_trees(
    masks: list[str], gaussian: bool, means: tuple[float, float, float]
) -> None:
    """Counted from the integers that are drawn, by w A+ itself."""
    of, bare = np.arange(len(masks))[None, :], [Tree(len(masks[0]))]
    how = strategy(masks, gaussian=gaussian)
    own = float(np.sqrt(how.squares([masks], of)).mean()) * how.norm(gaussian=gaussian)
    columns = designed.sides(bare, [masks], of)
    cells = float(np.sqrt([mask.count("1") for mask in masks]).mean())
    trees = cells
    if columns[0].ordered:
        trees = designed.mean_of(ranges.trees_for(bare, [masks], of, gaussian=gaussian), columns, of, gaussian=gaussian)
    assert own < layout.BETTER * min(cells, trees)
    assert (cells, trees, own) == pytest.approx(means, abs=0.02)


def test_where_nothing_is_won_it_is_cells_or_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    single = ["0" * place + "1" + "0" * (29 - place) for place in range(30)]
    assert laid(single).cells
    monkeypatch.setattr(layout, "BETTER", 0.5)
    layout._designed.cache_clear()
    assert laid(irregular(64)).cells
    own = laid(prefixes_of(64))
    assert own.strategy is None and [one.levels for one in own.trees] == [2]
    layout._designed.cache_clear()


def test_several_columns_have_a_product_of_strategies() -> None:
    """Better than each column's own best beside single classes of the other."""
    axes: Any = [Axis(30), Axis(12, null=True)]
    rows, columns = prefixes_of(30)[4::5], irregular(12, 5)
    own = [Masks(rows), Masks(columns)]
    own[0].of, own[1].of = (tuple(one) for one in zip(*((a, b) for a in range(6) for b in range(5)), strict=True))
    found = layout.layout(axes, own, "matrix", gaussian=True).strategy
    assert found is not None and [one.classes for one in found.parts] == [30, 12]
    masks, of = [rows, columns], np.array([own[0].of, own[1].of])
    mean = float(np.sqrt(found.squares(masks, of)).mean()) * found.norm(gaussian=True)
    cells = float(np.mean([math.sqrt(rows[a].count("1") * columns[b].count("1")) for a, b in of.T]))
    assert mean < 0.6 * cells


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("masks", [ranges_of(9), [*prefixes_of(9), "0" * 9], irregular(9)], ids=["ranges", "", "sets"])
def test_grams_and_errors_are_those_of_the_written_matrix(masks: list[str], gaussian: bool) -> None:
    bits = np.array([[float(bit) for bit in mask] for mask in masks])
    often = np.arange(len(masks)) % 3 + 1.0
    side = designed.Side(tuple(masks), often, Tree(9))
    assert side.gram == pytest.approx(bits.T @ (bits * often[:, None]))
    inner = np.random.default_rng(7).random((9, 9))
    assert side.squares(inner) == pytest.approx(((bits @ inner) * bits).sum(axis=1))
    entries = designed.on_integers(np.random.default_rng(8).random((7, 9)), 10, gaussian=gaussian)
    norm = math.sqrt(np.square(entries).sum(axis=0).max()) if gaussian else np.abs(entries).sum(axis=0).max()
    assert norm == pytest.approx(2**10, rel=0.01 if gaussian else 1e-9)


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(DPError) as wide:
        laid(["1" * 1025])
    assert "1025 classes" in wide.value.message and "at most 1024" in wide.value.message
    with pytest.raises(DPError) as many:
        laid(irregular(1000, 2148))
    assert "2148 sets of 1000 classes" in many.value.message and "at most 2147" in many.value.hint
