"""Nodes over classes, and ranges that are read from them (release/trees.py, release/ranges.py;
numeric-release.md §8.1).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mwem_cases import UNIT

from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.release import dyadic, ranges
from pg_epsilon.release.answers import Noise, summed
from pg_epsilon.release.averages import average
from pg_epsilon.release.cells import Cells, histogram
from pg_epsilon.release.everywhere import Boxes, Everywhere, Shared
from pg_epsilon.release.ladder import ladder
from pg_epsilon.release.masses import Values
from pg_epsilon.release.trees import Tree, is_range, levels_of, nodes_of

F = Fraction
VALUES = Values.of(Lattice("v", 0, 12, F(1), True), 1000)
TREES = [
    Tree(classes, null, levels, shift)
    for classes in (1, 2, 5, 8, 13, 33)
    for null in (False, True)
    for levels, shift in ((1, 1), (2, 1), (3, 2), (4, 1), (2, 3))
    if classes > null
]


def matrix(tree: Tree) -> Any:
    """[node, class]: 1 where a node has a class."""
    return ranges.added_up(np.eye(tree.classes, dtype=np.int64), [tree])


def held(tree: Tree, nodes: Sequence[tuple[int, int]]) -> list[int]:
    """How often each class is in the nodes."""
    own = matrix(tree)
    return [sum(int(own[node, place]) * sign for node, sign in nodes) for place in range(tree.classes)]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_every_range_is_its_nodes(tree: Tree) -> None:
    """All ranges, by fewer nodes than there are classes, none twice; as many as were counted."""
    own = matrix(tree)
    assert own.shape == (tree.nodes, tree.classes)
    assert (own.sum(axis=0) == tree.levels).all() and own.max() == 1
    ends = [(low, high) for low in range(tree.ordered) for high in range(low + 1, tree.ordered + 1)]
    masks = ["0" * low + "1" * (high - low) + "0" * (tree.classes - high) for low, high in ends]
    counted = ranges.counts([tree], [masks], np.arange(len(ends))[None, :])
    for (low, high), mask, many in zip(ends, masks, counted, strict=True):
        wanted = [int(bit) for bit in mask]
        both, added = tree.run(low, high), tree.run(low, high, signed=False)
        assert held(tree, both) == held(tree, added) == wanted
        assert len({node for node, _ in both}) == len(both) == many <= len(added) <= high - low
        assert all(sign == 1 for _, sign in added)
        nodes, signs = ranges.cover(tree, np.array([bit == "1" for bit in mask]))
        assert list(zip(nodes.tolist(), signs.tolist(), strict=True)) == both
    assert len(ends) * (2 if tree.null else 1) + tree.null == tree.ranges


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_every_set_is_its_nodes(tree: Tree) -> None:
    draw = random.Random(tree.classes)
    for _ in range(50):
        bits = np.array([draw.random() < 0.7 for _ in range(tree.classes)])
        for signed in (True, False):
            nodes, signs = ranges.cover(tree, bits, signed=signed)
            assert (
                held(tree, list(zip(nodes.tolist(), signs.astype(int).tolist(), strict=True)))
                == bits.astype(int).tolist()
            )


@pytest.mark.parametrize(
    ("mask", "found"), [("0110", True), ("", True), ("000", True), ("1", True), ("101", False), ("0101100", False)]
)
def test_what_a_range_is(mask: str, found: bool) -> None:
    assert is_range(mask) is found


def test_a_range_to_the_end_takes_what_ends_behind_it() -> None:
    tree = Tree(1000, False, 2, 5)
    assert len(tree.run(0, 1000)) == 32 and len(tree.run(0, 40)) == 1 + 8 and len(tree.run(0, 60)) == 2 + 4


def cells(trees: tuple[Tree, ...], values: Values | None) -> Cells:
    classes = math.prod(tree.classes for tree in trees)
    return Cells(classes, values, Additive(1, 1, epsilon=None, rho=None), trees)


def cube(seed: int, trees: Sequence[Tree]) -> list[tuple[int, int, int, int]]:
    """Rows of any class and part, each by itself."""
    draw = random.Random(seed)
    classes = math.prod(tree.classes for tree in trees)
    parts = [-1, *range(len(VALUES.steps))]
    return [(draw.randrange(classes), draw.choice(parts), 1, draw.randrange(VALUES.whole + 1)) for _ in range(40)]


@pytest.mark.parametrize("values", [None, VALUES])
@pytest.mark.parametrize("trees", [(Tree(13, True, 3, 1),), (Tree(5, False, 2, 2), Tree(3), Tree(4, True, 2, 1))])
def test_a_row_moves_the_nodes_by_its_mass_in_each_level(trees: tuple[Tree, ...], values: Values | None) -> None:
    """Exactly so in L1, whatever row; and by the root of the levels at most in L2."""
    how, levels = cells(trees, values), levels_of(trees)
    whole = VALUES.whole if values else 1
    own = cube(3, trees)
    for more in cube(4, trees):
        moved = [a - b for a, b in zip(histogram([*own, more], how), histogram(own, how), strict=True)]
        assert len(moved) == how.released == nodes_of(trees) * how.of_class
        assert sum(map(abs, moved)) == levels * whole
        assert sum(one * one for one in moved) <= levels * whole**2


def test_masses_beyond_63_bits_are_cut_and_move_no_further() -> None:
    how = cells((Tree(6, False, 3, 1),), None)
    most = histogram([(place, 0, 2**62 - place, 0) for place in range(6)], how)
    assert most[:2] == [2**62, 2**62 - 1] and set(most[6:]) == {2**62}
    small = histogram([(0, 0, 2**61, 0), (1, 0, 2**61 - 1, 0)], how)
    assert small[6] == 2**62 - 1


def test_nodes_are_those_of_dyadic_pairs() -> None:
    """The carried form (§8): A and B of a part are the masses at its steps, here one cell each."""
    steps, draw = ladder(F(12)), random.Random(5)
    rows = [(draw.randrange(9), draw.randrange(13)) for _ in range(60)]
    private = dyadic.parts([(place, F(value)) for place, value in rows], 9, steps, "pairs")

    class Exact:
        def laplace(self, exact: Sequence[int], **asked: Any) -> list[int]:
            return list(exact)

    trees = dyadic.release(private, steps, 4, F(1), Exact(), "x")  # type: ignore[arg-type]
    masses = []
    for place, value in rows:
        part = steps.place(value)
        share = (
            0 if part is None else (F(value) - steps.thresholds[part]) / (steps.steps[part] - steps.thresholds[part])
        )
        masses.append((place, 0 if part is None else part + 1, 1, int(share * VALUES.whole)))
    own = np.array(histogram(masses, cells((Tree(9, False, 4, 1),), VALUES)), float).reshape(-1, VALUES.cells)
    start = 0
    for first, second in zip(trees.first, trees.second, strict=True):
        mine = own[start : start + len(first), 1 : 1 + steps.length] / VALUES.whole
        start += len(first)
        expected = first / UNIT
        expected[:, :-1] += second[:, 1:] / UNIT
        assert mine == pytest.approx(expected, abs=1e-4)


def test_sums_of_ranges_are_those_of_their_classes() -> None:
    """Boxes of two columns, any set of one, and sets that are no product: without noise, exactly."""
    trees = (Tree(5, False, 2, 1), Tree(14, True, 3, 1))
    exact = np.random.default_rng(1).integers(0, 99, (5, 14, 3))
    noded = ranges.added_up(exact, trees).reshape(-1, 3).astype(float)
    masks = [["11111", "01100", "00000"], ["0" * 3 + "1" * 9 + "00", "1" * 13 + "0", "0" * 13 + "1"]]
    of = np.array([[0, 1, 1, 2, 0], [0, 1, 2, 0, 0]])
    sums = ranges.sums_of(noded, trees, masks, of)
    assert (sums.classes == ranges.counts(trees, masks, of))[[0, 1, 3, 4]].all()
    for number, places in enumerate(of.T):
        rows, columns = ([bit == "1" for bit in masks[axis][place]] for axis, place in enumerate(places))
        assert (sums.cells[number] == exact[np.ix_(rows, columns)].sum(axis=(0, 1))).all()


@pytest.mark.parametrize("most", [64, 3])
def test_any_set_of_classes_is_read_from_nodes_once(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(ranges, "MOST_LINES", most)
    trees = (Tree(3), Tree(4, True, 2, 1), Tree(14, True, 3, 1))
    exact = np.random.default_rng(1).integers(0, 99, (3, 4, 14, 3))
    noded = ranges.added_up(exact, trees).reshape(-1, 3).astype(float)
    for seed, chance in ((2, 0.5), (3, 0.9), (4, 0.05)):
        bits = np.random.default_rng(seed).random((3, 4, 14)) < chance
        found = ranges.read_bits(trees, bits)
        assert not found.box and (found.signs == 1).all() and len(set(found.nodes.tolist())) == len(found.nodes)
        assert (found.of(noded) == exact[bits].sum(axis=0)).all()
        assert len(found.nodes) <= bits.sum() and (len(found.nodes) < bits.sum()) == (most == 64 and chance > 0.1)


def grid(classes: int, ends: Sequence[tuple[int, int]]) -> tuple[list[list[str]], Any]:
    masks = ["0" * low + "1" * (high - low) + "0" * (classes - high) for low, high in ends]
    return [masks], np.arange(len(masks))[None, :]


def all_ranges(classes: int, every: int = 1) -> list[tuple[int, int]]:
    cut = range(0, classes + 1, every)
    return [(low, high) for low in cut for high in cut if low < high]


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("classes", [40, 300])
def test_levels_are_those_of_the_least_error(classes: int, gaussian: bool) -> None:
    masks, of = grid(classes, all_ranges(classes, classes // 20))
    (found,) = ranges.trees_for([Tree(classes)], masks, of, gaussian=gaussian)

    def cost(tree: Tree) -> float:
        roots = np.sqrt(ranges.counts([tree], masks, of)).mean()
        return float((math.sqrt(tree.levels) if gaussian else tree.levels) * roots)

    others = [Tree(classes, False, levels, shift) for shift in range(1, 9) for levels in range(1, 9 // shift + 2)]
    assert cost(found) == pytest.approx(min(map(cost, others)))


def test_few_classes_have_one_level_and_a_thousand_have_half_the_error() -> None:
    """§0.0: up to 100 classes one. Of a thousand the widest range has 0.36 of the noise of cells, all 0.6."""
    (few,) = ranges.trees_for([Tree(100)], *grid(100, all_ranges(100)), gaussian=False)
    assert few.levels == 1
    asked = all_ranges(1000, 20)
    masks, of = grid(1000, asked)
    (many,) = ranges.trees_for([Tree(1000)], masks, of, gaussian=False)
    roots = many.levels * np.sqrt(ranges.counts([many], masks, of))
    by_cells = np.sqrt([high - low for low, high in asked])
    assert roots.mean() < by_cells.mean() * 0.6 and roots[by_cells.argmax()] < by_cells.max() * 0.36


def test_columns_that_are_compared_by_equals_have_one_level() -> None:
    first, second = ["100", "010"], ["1" * 500, "0" * 20 + "1" * 480]
    of = np.array([[0, 1, 0, 1], [0, 0, 1, 1]])
    found = ranges.trees_for([Tree(3), Tree(500)], [first, second], of, gaussian=False)
    assert found[0].levels == 1 and found[1].levels > 1


def test_bars_of_all_ranges_at_once_are_narrower_than_those_of_all_sets() -> None:
    tree = Tree(1000, False, 2, 5)
    steps, own = np.array([1.0, 2.0, 4.0]), Noise(2.0, False, 0.0)
    boxes = Boxes(2.0, False, 0.0, tree.nodes, tree.ranges)
    shared, all_sets = Shared(2.0, False, 0.0, tree.nodes), Everywhere.of(own, tree.nodes)
    assert boxes.reach(steps, 0.05, 20) == own.reach(steps, 0.05 / 2 / tree.ranges, 20)
    assert boxes.each(steps, 0.05, 20) >= boxes.reach(steps, 0.05, 20)
    assert shared.reach(steps, 0.1, 20) == all_sets.reach(steps, 0.05, 20) > 1.5 * boxes.reach(steps, 0.1, 20)
    assert shared.each(steps, 0.1, 20) == all_sets.each(steps, 0.05, 20)
    assert boxes.reach(steps, 1e-12, 20) == boxes.each(steps, 1e-12, 20)  # too small a miss for the exact law


@pytest.mark.parametrize("gaussian", [False, True])
def test_all_ranges_have_their_bars_at_once(gaussian: bool) -> None:
    """At 60 %, in 100 runs of a frozen generator: noise in all nodes, all 210 ranges are judged in each."""
    tree, steps, rng = Tree(20, False, 3, 1), (0.0, 1.0, 2.0, 4.0), np.random.default_rng(20261128)
    rows = rng.integers(0, 30, (20, 4))
    exact = ranges.added_up(rows, [tree])
    own = Boxes(3.0, gaussian, 0.0, tree.nodes, tree.ranges)
    masks, of = grid(20, all_ranges(20))
    true = ranges.sums_of(exact.astype(float), [tree], masks, of).cells @ np.array(steps)
    held_together = 0
    for _ in range(100):
        noisy = exact + (rng.normal if gaussian else rng.laplace)(0, 3, exact.shape)
        found = summed(ranges.sums_of(noisy, [tree], masks, of), steps, own, 0.4)
        held_together += all(one.low <= value <= one.high for one, value in zip(found, true, strict=True))
    assert held_together >= 60


def test_averages_of_ranges_have_bars() -> None:
    own = Boxes(0.5, False, 0.0, 40, 100)
    steps, rows = np.array([0.0, 1.0, 2.0]), np.array([50.0, 50.0, 100.0])
    found = average(rows, steps, 3, own, own, 0.05, (0.0, 2.0))
    wide = average(rows, steps, 3, own, 40, 0.05, (0.0, 2.0))
    assert found.low < 1.25 < found.high and found.high - found.low <= wide.high - wide.low
