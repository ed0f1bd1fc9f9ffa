"""Classes whose values end earlier than those of others (release/ends.py): cells, masses, answers and bars."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest

from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.noise import NoiseSource
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.release.answers import Noise, Sums, counted, summed, sums_of, thresholds
from pg_epsilon.release.cells import Cells, histogram
from pg_epsilon.release.ends import Ends
from pg_epsilon.release.everywhere import Everywhere
from pg_epsilon.release.masses import NULL, Values

VALUES = Values.of(Lattice("x", -4, 8, Fraction(1), True), 1000)  # steps -4, -2, -1, 0, 1, 2, 4, 8, then NULL
ENDS = Ends((3, 2), (0,), ((3, 4), (0, 2), (1, 0)))


class Ones:
    """Noise of 1 in each cell."""

    def laplace(self, values: Sequence[int], **_: Any) -> list[int]:
        return [value + 1 for value in values]


NOISE = Additive(l1=VALUES.whole, l2_squared=VALUES.whole**2, epsilon=Decimal(1))


def test_cells_exist_up_to_the_ends_of_their_class() -> None:
    found = ENDS.there(VALUES.zero, len(VALUES.steps), VALUES.cells)
    rows = {0: "111111111", 1: "000111001", 2: "001100001"}
    for place in range(6):  # the second axis does not tell
        assert "".join("01"[one] for one in found[place].tolist()) == rows[place // 2]


def test_ends_are_stored_and_read() -> None:
    assert Ends.read((3, 2), ENDS.canonical()) == ENDS
    assert Ends.read((3, 2), None) is None


@pytest.mark.parametrize("part", range(-1, 8))
def test_a_row_is_one_unit_of_mass_wherever_its_class_ends(part: int) -> None:
    """One beyond the last step counts there; one within is split as ever."""
    upper = VALUES.whole // 4 if part not in (NULL, VALUES.zero) else 0
    for below, above in ENDS.each:
        found = VALUES.within(part, 1, upper, below, above)
        assert sum(mass for _, mass in found) == VALUES.whole
        cells = [cell for cell, mass in found if mass]
        assert cells == [8] or all(VALUES.zero - below <= cell <= VALUES.zero + above for cell in cells)
        if part == NULL or -below <= part - VALUES.zero <= above:
            assert found == VALUES.masses(part, 1, upper)


def test_noise_is_drawn_for_the_cells_that_exist_alone() -> None:
    measure = Cells(6, VALUES, NOISE, ends=ENDS)
    assert (measure.released, measure.drawn) == (54, 2 * (9 + 4 + 3))
    cube = "0 7 2 0;2 5 1 0;4 7 3 0"  # class 4 ends at 0: its rows of 8 count as 0
    exact = histogram([(0, 7, 2, 0), (2, 5, 1, 0), (4, 7, 3, 0)], measure)
    assert exact[4 * 9 + 3] == 3 * VALUES.whole and sum(exact) == 6 * VALUES.whole
    (found,) = measure.release([[cube]], cast(NoiseSource, Ones()), "test")
    assert measure.there is not None
    assert (np.array(found) - exact).tolist() == measure.there.ravel().astype(int).tolist()


def of_two_classes(values: Values, ends: Ends) -> tuple[Sums, list[float], Noise]:
    there = ends.there(values.zero, len(values.steps), values.cells).astype(float)[:, : len(values.steps)]
    cells = there * np.arange(1, there.shape[1] + 1)
    masks = [np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]), np.ones((1, 2))]
    of = [np.array([0, 1]), np.array([0, 0])]
    sums = sums_of(cells.reshape(3, 2, -1), masks, of)
    times = sums_of(there.reshape(3, 2, -1), masks, of).cells
    return Sums(sums.cells, sums.classes, times), [float(one) for one in values.steps], Noise(2.0, False, 0.0)


def test_bars_are_those_of_the_noise_that_there_is() -> None:
    """Against the quantile of all weights one by one."""
    values = Values.of(Lattice("x", 0, 8, Fraction(1), True), 1000)
    sums, steps, noise = of_two_classes(values, Ends((3, 2), (0,), ((0, 4), (0, 2), (0, 0))))
    assert sums.times is not None
    assert sums.times.tolist() == [[4, 4, 4, 2, 2], [4, 2, 2, 0, 0]]
    found = summed(sums, steps, noise, 0.05)
    wider = summed(Sums(sums.cells, sums.classes), steps, noise, 0.05)
    for query, (one, wide) in enumerate(zip(found, wider, strict=True)):
        many = sums.times[query].astype(int)
        weights = [step for step, times in zip(steps, many, strict=True) for _ in range(times)]
        assert one.unbiased == wide.unbiased == sums.cells[query] @ steps
        assert one.high - one.unbiased == pytest.approx(noise.reach(np.array(weights), 0.05))
        assert one.high < wide.high


def test_thresholds_are_compared_with_the_noise_that_there_is() -> None:
    sums, steps, noise = of_two_classes(VALUES, ENDS)
    positive = np.array([one for one in steps if one > 0])
    _, _, limit = thresholds(sums, positive, noise)
    assert limit[0].tolist() == pytest.approx([2 * noise.deviation * many**0.5 for many in (12, 8, 4, 2, 0)])
    assert limit[1].tolist() == pytest.approx([2 * noise.deviation * many**0.5 for many in (4, 2, 0, 0, 0)])


def test_counts_of_rows_have_the_noise_that_there_is() -> None:
    sums, _, noise = of_two_classes(VALUES, ENDS)
    first, second = counted(sums, noise, 0.05)
    assert first.high - first.answer == pytest.approx(noise.reach(np.ones(22), 0.05))
    assert second.high - second.answer == pytest.approx(noise.reach(np.ones(10), 0.05))
    left = sums.without(0)
    assert left.times is not None and left.times.shape == left.cells.shape == (2, 7)


def test_bars_of_every_set_at_once_do_not_go_by_ends() -> None:
    """They are those of classes with all cells, which hold for classes with fewer."""
    sums, steps, noise = of_two_classes(VALUES, ENDS)
    every = Everywhere.of(noise, 6)
    (one, *_), (other, *_) = (list(summed(own, steps, every, 0.05)) for own in (sums, Sums(sums.cells, sums.classes)))
    assert one.high == other.high
