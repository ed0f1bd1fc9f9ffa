"""Algorithm 2 as a release (numeric-release.md §0.0, §5): sets of classes, exact masses, what integers show."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mwem_cases import Given

from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.mwem import LATTICE, SWEEPS
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.release.ask import Family, Options
from pg_epsilon.release.candidates import histogram as histogram_of
from pg_epsilon.release.iterated import HEAD, MOST_STEPS, Iterated, alpha, histogram, most_rounds, of_family, rows, told
from pg_epsilon.release.masses import Values
from pg_epsilon.release.predicates import Boxes, Weighted
from pg_epsilon.release.sets import Masks, Sets

F = Fraction


def masks(*each: str) -> Masks:
    different = tuple(dict.fromkeys(each))
    return Masks(different, tuple(different.index(one) for one in each))


def family(*axes: Sequence[str], options: Options | None = None) -> Any:
    """Axes' masks of each query; classes have no more of an axis than how many there are."""
    sized: Any = [SimpleNamespace(size=len(one[0]), name="a", key=SimpleNamespace(domain=list(one[0]))) for one in axes]
    grid = tuple((str(number),) for number in range(len(axes[0])))
    own: Any = None
    return Family(
        "f", "", own, tuple(sized), tuple(masks(*one) for one in axes), grid, True, "alg2", options or Options()
    )


VALUES = Values.of(Lattice("v", -3, 20, F(1), True), 1000)


def test_sets_are_the_same_in_any_order_and_spelling() -> None:
    first = Sets.of_masks([masks("110", "011", "110"), masks("10", "10", "10")])
    second = Sets.of_masks([masks("011", "110"), masks("10", "10")])
    assert first.different == second.different == (("011", "10"), ("110", "10"))
    assert (first.of, second.of) == ((1, 0, 1), (0, 1))
    assert first.digest() == second.digest() != Sets.of_masks([masks("011", "110"), masks("10", "01")]).digest()


def test_neighbouring_classes_are_boxes() -> None:
    how = of_family(family(["110", "000"], ["01", "11"]), VALUES, F(1), 1, 1000)
    found = how.algorithm.family.predicates
    assert isinstance(found, Boxes) and found.sizes == (3, 2)
    assert (found.low.tolist(), found.high.tolist()) == ([[0, 0], [0, 1]], [[0, 2], [2, 2]])


def test_other_sets_are_listed() -> None:
    how = of_family(family(["101", "110"], ["01", "11"]), VALUES, F(1), 1, 1000)
    found = how.algorithm.family.predicates
    assert isinstance(found, Weighted)
    assert [sorted(row) for row in found.rows] == [[1, 5], [0, 1, 2, 3]]


def cube(values: Sequence[tuple[int, int | None]], how: Values) -> list[tuple[int, int, int, int]]:
    """What the statement says of rows (class, value), a record each."""
    out = []
    for place, value in values:
        if value is None:
            out.append((place, -1, 1, 0))
            continue
        steps = [abs(int(one)) for one in how.steps]
        side = range(how.zero, len(steps)) if value >= 0 else range(how.zero, -1, -1)
        part = next(cell for cell in side if steps[cell] >= abs(value))
        low = 0 if abs(part - how.zero) <= 1 else steps[part] // 2
        share = 0 if part == how.zero else ((abs(value) - low) << how.bits) // (steps[part] - low)
        out.append((place, part, 1, share))
    return out


def test_masses_are_those_of_the_rows() -> None:
    own = [(0, 5), (0, None), (1, -3), (2, 20), (2, 0), (2, 1), (1, 16)]
    how = of_family(family(["110", "011"]), VALUES, F(1), 1, 1000)
    found = histogram(cube(own, VALUES), how)
    expected = histogram_of(how.algorithm.family, [(c, F(v or 0)) for c, v in own], VALUES.bits)
    assert found.tolist() == expected.tolist()
    assert found.sum() == len(own) << VALUES.bits


def test_counted_rows_have_one_cell() -> None:
    how = of_family(family(["10", "01"]), None, F(1), 1, 1000)
    found = histogram([(0, 0, 3, 0), (1, 0, 2, 0)], how) >> how.algorithm.places
    assert found.tolist() == [0, 3, 0, 2, 0]


def test_a_table_larger_than_declared_is_cut() -> None:
    """No cell passes 2^62, whatever the statement counts."""
    how = of_family(family(["10"]), None, F(1), 1, 1000)
    assert histogram([(0, 0, 2**40, 0)], how).max() == 1 << 62


def test_released_integers_alone_are_shown() -> None:
    """With draws of 0 and every candidate measured the answers are the sums, thresholds at the top."""
    asked = family(["10", "01", "11", "10"], options=Options(rounds=4))
    how = of_family(asked, None, F(40), 1, 1000)
    noise: Any = Given([0.0] * 6, [0] * 4)
    record = " ".join(("0", "0", "300", "0")) + ";" + " ".join(("1", "0", "100", "0"))
    ((raw),) = how.release([[record]], noise, "x")
    assert len(raw) == how.released == HEAD + 4
    assert (raw[0], raw[1]) == (400 << LATTICE, 4)
    found = rows(raw, how, asked, F(1, 20))
    for row, true in zip(found, (300, 100, 400, 300), strict=True):
        assert row[0] == pytest.approx(true, abs=float(alpha(raw, how)) + 1e-6)
        assert row[1] is None and row[2] <= true <= row[3] and row[4] is False
    assert found[0] == found[3]
    facts, words = told(how, asked, raw)
    assert facts["rounds"] == 4 and facts["rows"] == 400 and "4 rounds over about 400 rows" in words
    wider = rows(raw, how, asked, F(1, 10**9))
    assert all(one[2] < other[2] and one[3] > other[3] for one, other in zip(wider, found, strict=True))


def test_charges_add_up_to_epsilon() -> None:
    how = of_family(family(["10"]), VALUES, F("0.3"), 2, 1000)
    assert sum(charge.pure()[0] for charge in how.charges()) == F("0.3")
    assert how.algorithm.sensitivity == 2


@pytest.mark.parametrize("cells", [1, 24_000, 4_000_000, 2**24])
def test_rounds_end(cells: int) -> None:
    """As many as the updates allow, and no more than 200."""
    found = most_rounds(cells)

    def steps(rounds: int) -> int:
        return rounds * (rounds + 1) // 2 * SWEEPS * cells

    assert found == 1 or steps(found) <= MOST_STEPS
    assert found == 200 or steps(found + 1) > MOST_STEPS


def refusal(*axes: Sequence[str], values: Values | None = VALUES, options: Options | None = None) -> str:
    with pytest.raises(DPError) as error:
        of_family(family(*axes, options=options), values, F(1), 1, 1000)
    assert error.value.sqlstate == "DP005" and error.value.hint
    return error.value.message


def test_sizes_are_limited() -> None:
    wide = "1" * 100_000 + "01"
    assert "classes in all" in refusal([wide[:place] + "0" + wide[place + 1 :] for place in range(1, 50)])
    assert "weights" in refusal(["1" * 500_000])
    assert "at most 2 rounds" in refusal(["10"], values=None, options=Options(rounds=3))


def test_extra_mass_is_not_shown() -> None:
    """The cell that no query sees is part of the weights, and of no released integer."""
    how: Iterated = of_family(family(["10"]), None, F(1), 1, 1000)
    assert how.cells == 4 and how.algorithm.family.cells == 5
    assert np.isclose(how.algorithm.family.prior.sum(), 5)
