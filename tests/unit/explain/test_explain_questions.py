"""Questions about released answers (explain.question): rules, promises and refusals."""

from __future__ import annotations

import dataclasses
import itertools
import math
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from explain_forms import gaussian, halves, laplace

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain import linear
from pg_epsilon.explain.averages import fieller
from pg_epsilon.explain.forms import Barred, Cell, Form, Halves, Linear, Noise, Pair
from pg_epsilon.explain.laplace import pair, single
from pg_epsilon.explain.quantiles import joint_square, sidak, studentised_range, two_sided
from pg_epsilon.explain.question import Interval, Question, compare, level, verdict
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.mechanisms.estimators import Average, Number

GAUSS, LAPLACE = Noise("gaussian", 2.0), Noise("laplace", 2.0)
COUNTS = (gaussian(130, 2.0), gaussian(100, 2.0), gaussian(90, 2.0))
TRIPS = (laplace(130), laplace(100), laplace(90))
MEANS = (halves(60, 100, GAUSS), halves(30, 90, GAUSS), halves(50, 100, GAUSS))
SHARES = (halves(60, 100, LAPLACE), halves(30, 90, LAPLACE), halves(50, 100, LAPLACE))
PAIRS = (Pair(60, 40, GAUSS, 0, 1), Pair(30, 60, GAUSS, 0, 1))
BAR = Barred(50.0, 45.0, 56.0, Fraction(19, 20), uniform=True)
COUPLES = (COUNTS[:2], TRIPS[:2], MEANS[:2], SHARES[:2])
Forms = tuple[Form, ...]
W = (Fraction(1), Fraction(-1, 2), Fraction(-1, 2))


def half_width(found: Interval) -> float:
    return (found.high - found.low) / 2


@pytest.mark.parametrize(
    ("groups", "weights", "keys", "method"),
    [
        (COUNTS[:2], None, None, "normal"),
        (COUNTS[:1], None, None, "normal"),
        (COUNTS, W, None, "normal"),
        (COUNTS[:2], None, 7, "studentised range"),
        (COUNTS[:1], None, 7, "single cells"),
        (COUNTS, W, 7, "all weights"),
        (TRIPS[:2], None, None, "convolution"),
        (TRIPS, W, None, "convolution"),
        (TRIPS[:2], None, 7, "convolution"),
        (TRIPS[:1], None, 7, "single cells"),
        (TRIPS, W, 7, "cell by cell"),
        ((COUNTS[0], TRIPS[0]), None, None, "cell by cell"),
        (MEANS[:2], None, None, "joint"),
        (MEANS[:2], None, 7, "joint"),
        (MEANS, W, None, "fieller"),
        (PAIRS, None, None, "joint"),
        (SHARES[:2], None, None, "fieller"),
        ((BAR, BAR), None, None, "bars"),
        ((COUNTS[0], MEANS[0]), None, None, "cell by cell"),
    ],
)
def test_each_question_has_its_rule(
    groups: Forms, weights: tuple[Fraction, ...] | None, keys: int | None, method: str
) -> None:
    found = compare(Question(groups, weights, simultaneous=keys))
    assert found.method == method
    assert found.low <= found.difference <= found.high


def test_one_promise_for_gaussian_cells_is_divided() -> None:
    """½ : ¼ : ¼ of 1 - confidence over pairs, single cells and weights, with the half steps."""
    pair_of = compare(Question(COUNTS[:2], simultaneous=9))
    assert half_width(pair_of) == pytest.approx(studentised_range(0.025, 9) * 2 + 1, rel=1e-12)
    cell = compare(Question(COUNTS[:1], simultaneous=9))
    assert half_width(cell) == pytest.approx(two_sided(sidak(0.0125, 9)) * 2 + 0.5, rel=1e-12)
    terms = [(w, form.cell) for w, form in zip(W, COUNTS, strict=True)]
    every = compare(Question(COUNTS, W, simultaneous=9))
    assert half_width(every) == pytest.approx(linear.any_weights(terms, 0.0125, 9), rel=1e-12)


def test_one_promise_for_laplace_cells_is_divided() -> None:
    """½ : ½ over pairs, each at its share, and single cells."""
    assert half_width(compare(Question(TRIPS[:2], simultaneous=9))) == pair(1.0, 1.0, 0.025 / 36)
    assert half_width(compare(Question(TRIPS, W, simultaneous=9))) == 2 * single(1.0, 0.025 / 9)
    assert half_width(compare(Question(TRIPS[:1], simultaneous=9))) == single(1.0, 0.025 / 9)


def test_one_promise_for_averages() -> None:
    """Gaussian: each follows from the joint region of the pairs; Laplace: each at its share."""
    for forms, expected in (
        (MEANS, fieller(MEANS[0], 2 * (1 - _phi(math.sqrt(joint_square(0.05, 9)))))),
        (SHARES, fieller(SHARES[0], 0.05 / 9)),
    ):
        found = compare(Question(forms[:1], simultaneous=9))
        assert (found.low, found.high) == pytest.approx(expected, rel=1e-9)


def _phi(z: float) -> float:
    return (1 + math.erf(z / math.sqrt(2))) / 2


@pytest.mark.parametrize("groups", [*COUPLES, PAIRS])
@pytest.mark.parametrize("keys", [None, 2, 30])
def test_exchanged_names_give_the_mirrored_interval(groups: Forms, keys: int | None) -> None:
    one = compare(Question(groups, simultaneous=keys))
    other = compare(Question(groups[::-1], simultaneous=keys))
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low), rel=1e-12)
    assert other.difference == pytest.approx(-one.difference, rel=1e-12)


@pytest.mark.parametrize("groups", [*COUPLES, PAIRS, COUNTS, TRIPS, MEANS])
def test_more_confidence_and_more_keys_widen(groups: Forms) -> None:
    weights = W if len(groups) == 3 else None
    levels = [Fraction(g, 1000) for g in (500, 900, 990, 999)]
    by_level = [compare(Question(groups, weights, confidence=each)) for each in levels]
    by_keys = [compare(Question(groups, weights, simultaneous=g)) for g in (None, 4, 40, 4000)]
    for row in (by_level, by_keys):
        assert all(b.low <= a.low and a.high <= b.high for a, b in itertools.pairwise(row))
        assert row[-1].high - row[-1].low > row[0].high - row[0].low


@pytest.mark.parametrize("groups", [*COUPLES, (BAR, BAR)])
def test_a_weight_is_a_unit_and_a_constant_moves(groups: Forms) -> None:
    plain = compare(Question(groups))
    moved = compare(Question(groups, (Fraction(3), Fraction(-3)), constant=Fraction(1, 4)))
    for name in ("difference", "low", "high"):
        assert getattr(moved, name) == pytest.approx(3 * getattr(plain, name) - 0.25, rel=1e-12)


def test_a_group_of_weight_zero_is_not_looked_at() -> None:
    weights = (Fraction(1), Fraction(-1), Fraction(0))
    assert compare(Question(COUNTS, weights)) == compare(Question(COUNTS[:2]))
    of_one = compare(Question((MEANS[0], SHARES[1]), (Fraction(1), Fraction(0))))
    assert of_one == compare(Question(MEANS[:1]))


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.1, 2, "yes"),
        (0, 2, "cannot tell"),
        (-1, 1, "cannot tell"),
        (-1, 0, "cannot tell"),
        (-2, -0.1, "the other way round"),
    ],
)
def test_verdicts(low: float, high: float, words: str) -> None:
    assert verdict(low, high) == words


def test_the_ends_are_rounded_outwards() -> None:
    """10^17 + 1 is no double."""
    big = Linear(Cell(10**17 + 1, Noise("laplace", 0.01)))
    found = compare(Question((big,)))
    assert Fraction(found.low) <= 10**17 + 1 <= Fraction(found.high)


def test_large_sums_are_subtracted_before_they_are_rounded() -> None:
    groups = tuple(Linear(Cell(10**18 + k, Noise("laplace", 0.01))) for k in (3, 1))
    assert compare(Question(groups)).difference == 2


def test_bars_are_added() -> None:
    found = compare(Question((BAR, BAR, BAR), W))
    assert (found.low, found.high) == (45 - 56, 56 - 45)


def test_a_one_sided_bar_gives_a_one_sided_interval() -> None:
    bar = Barred(50.0, 40.0, math.inf, Fraction(39, 40))
    found = compare(Question((bar, bar), constant=Fraction(-5)))
    assert (found.low, found.high, found.verdict) == (-math.inf, math.inf, "cannot tell")
    assert compare(Question((bar,), constant=Fraction(30))).verdict == "yes"


def test_bars_that_hold_for_themselves_need_their_level() -> None:
    """At `level` they are taken, below it refused."""
    enough = level(Fraction(19, 20), 2, None)
    assert enough == Fraction(39, 40)
    assert level(Fraction(19, 20), 2, 10) == Fraction(199, 200)
    bar = Barred(50.0, 40.0, 60.0, enough)
    assert compare(Question((bar, bar))).low == -20
    own = "compare answers that have noise of their own."
    for keys, confidence, hint in (
        (None, Fraction(38, 40), f"Ask for confidence => 0.9 or less, or {own}"),
        (10, enough, "Ask for confidence => 0.75 or less, or write simultaneous => false for groups that were"),
        (50, enough, "Write simultaneous => false for groups that were named beforehand"),
    ):
        refused(Question((dataclasses.replace(bar, confidence=confidence),) * 2, simultaneous=keys), SHAPE, hint)


def test_a_bar_beside_a_cell_takes_from_what_may_be_missed() -> None:
    bar = Barred(50.0, 40.0, 60.0, Fraction(39, 40), uniform=True)
    found = compare(Question((bar, COUNTS[0])))
    margin = two_sided(0.025) * 2 + 0.5
    assert (found.low, found.high) == pytest.approx((-90 - margin, -70 + margin), rel=1e-12)
    refused(Question((BAR, COUNTS[0])), SHAPE, "Ask for a confidence below 0.95, or compare")


def test_an_unknown_average_is_said() -> None:
    unknown = halves(2, 1, GAUSS)
    for groups in ((unknown, MEANS[0]), (unknown,)):
        assert "declared range" in (compare(Question(groups)).note or "")
    assert "method box" in (compare(Question((unknown,), method="box")).note or "")
    assert compare(Question(MEANS[:2])).note is None


def test_too_long_a_convolution_is_said() -> None:
    found = compare(Question((laplace(5, 1e7), laplace(9, 1e7)), (Fraction(2), Fraction(-1))))
    assert found.method == "convolution (bound)"
    assert "wider" in (found.note or "")


def test_weights_of_many_digits_are_bounded() -> None:
    """Near the convolution of the same weights with one digit."""
    plain = compare(Question(TRIPS, (Fraction(1), Fraction("-0.3"), Fraction(-1, 2))))
    found = compare(Question(TRIPS, (Fraction(1), Fraction(-3 * 10**30 - 1, 10**31), Fraction(-1, 2))))
    assert (plain.method, found.method) == ("convolution", "convolution (bound)")
    assert half_width(plain) <= half_width(found) <= 1.01 * half_width(plain) + 2


def test_forms_are_made_from_estimators() -> None:
    """With the noise as it was drawn, and the average as it was shown."""
    how = Additive(1, 1, rho=Decimal("0.5"))
    assert Linear.of(Number(how, Fraction(1, 100)), [712]) == Linear(
        Cell(712, Noise("gaussian", 1.0)), Fraction(1, 100)
    )
    parts = Additive(3, 9, epsilon=Decimal("0.5")), Additive(1, 1, epsilon=Decimal("0.5"))
    average = Average(*parts, Fraction(1, 10), low=0, high=30, centre=15)
    form = Halves.of(average, [-400, 20])
    assert form.total == Cell(-400, Noise("laplace", 6.0))
    assert (form.count, form.step, form.low, form.high, form.centre) == (
        Cell(20, Noise("laplace", 2.0)),
        Fraction(1, 10),
        0,
        30,
        15,
    )
    assert form.shown == 0
    assert compare(Question((form,))).difference == 0
    assert Halves.of(average, [4, -7]).shown == 19


def test_an_average_has_noise_of_one_family() -> None:
    with pytest.raises(ValueError, match="one family"):
        Halves(Cell(1, GAUSS), Cell(9, LAPLACE), Fraction(1), 0, 1)


def refused(question: Question, sqlstate: str, hint: str) -> None:
    with pytest.raises(DPError) as caught:
        compare(question)
    assert caught.value.sqlstate == sqlstate
    assert hint in (caught.value.hint or "")


def redrawn(groups: Forms, expression: str | None = None, replicates: int = 2000) -> Question:
    return Question(groups, expression=expression, method="bootstrap", replicates=replicates)


OF_AVERAGES = ("box", "box_tight", "fieller", "joint")
SIZES: tuple[Any, ...] = (10**101, Fraction(1, 10**101), Decimal("NaN"), Decimal("-Infinity"))
LEVELS = ("0", "1", "-1", "2", "0.9999999999")


@pytest.mark.parametrize(
    ("question", "sqlstate", "hint"),
    [
        *((Question(COUNTS[:2], method=m), SHAPE, "one exact rule") for m in OF_AVERAGES),
        *((Question(TRIPS[:2], method=m), SHAPE, "one exact rule") for m in OF_AVERAGES),
        (Question(SHARES[:2], method="joint"), SHAPE, "fieller"),
        (Question(MEANS, W, method="joint"), SHAPE, "fieller"),
        (Question(PAIRS, method="box"), SHAPE, "Leave method out"),
        (Question((BAR, BAR), method="box"), SHAPE, "Leave method out"),
        (Question((BAR, BAR), method="bootstrap"), SHAPE, "error bar"),
        (Question(COUNTS[:2], method="exact"), SHAPE, "box_tight"),
        (Question(MEANS[:2], expression="o1", method="box"), SHAPE, "bootstrap"),
        (Question(COUNTS), SHAPE, "Two answers"),
        (Question(COUNTS, W[:2]), SHAPE, "Two answers"),
        (
            Question(
                (),
            ),
            SHAPE,
            "Two answers",
        ),
        (Question(COUNTS[:2], W[:2], expression="o1"), SHAPE, "into the expression"),
        (Question(COUNTS[:2], (Fraction(0),) * 2), OUT_OF_RANGE, "not 0"),
        (Question(COUNTS[:2], expression="2 + 3"), OUT_OF_RANGE, "not 0"),
        (Question(COUNTS[:2], expression="o3"), OUT_OF_RANGE, "numbered"),
        *((Question(COUNTS[:2], (w, Fraction(1))), OUT_OF_RANGE, "units") for w in SIZES),
        *((Question(COUNTS[:2], constant=c), OUT_OF_RANGE, "units") for c in SIZES),
        (Question(COUNTS[:2], simultaneous=1), OUT_OF_RANGE, "all keys"),
        (Question(COUNTS[:2], simultaneous=100_001), OUT_OF_RANGE, "all keys"),
        *(
            (Question(COUNTS[:2], confidence=Fraction(g)), OUT_OF_RANGE, "0.95")
            for g in ("0", "1", "-1", "2", "0.9999999999")
        ),
        *((redrawn(COUNTS[:2], replicates=b), OUT_OF_RANGE, "2000") for b in (0, 99, 100_001)),
        (redrawn((halves(3, 9, GAUSS), MEANS[0])), OUT_OF_RANGE, "larger groups"),
        (
            Question((gaussian(9, 2.0), COUNTS[0]), expression="o2 / o1", method="bootstrap"),
            OUT_OF_RANGE,
            "larger groups",
        ),
        (redrawn(COUNTS[:1], "o1" + "+o1" * 50, replicates=30_000), OUT_OF_RANGE, "fewer"),
    ],
)
def test_refusals_say_what_to_do(question: Question, sqlstate: str, hint: str) -> None:
    refused(question, sqlstate, hint)


@pytest.mark.parametrize("groups", [*COUPLES, PAIRS])
def test_a_bootstrap_is_approximate_and_decides_nothing(groups: Forms) -> None:
    valid = compare(Question(groups))
    found = compare(Question(groups, method="bootstrap", replicates=500))
    assert found.approximate
    assert "promise nothing" in (found.note or "")
    assert (found.verdict, found.difference) == (valid.verdict, valid.difference)
    assert valid.low - 1 <= found.low < found.difference < found.high <= valid.high + 1
    assert found == compare(Question(groups, method="bootstrap", replicates=500))


def test_a_bootstrap_alone_never_says_yes() -> None:
    """Its ends are above 0, those of the interval that holds are not."""
    groups = (halves(60, 100, GAUSS), halves(47, 100, GAUSS))
    found = compare(Question(groups, method="bootstrap", simultaneous=60))
    assert found.low > 0
    assert found.verdict == "cannot tell"


def test_a_comparison_loads_neither_numpy_nor_scipy() -> None:
    """In a Python of its own, for counts and averages with both families of noise."""
    root = Path(__file__).resolve().parents[3]
    code = (
        "import sys; sys.path.insert(0, " + repr(str(root / "extension")) + ")\n"
        "from fractions import Fraction as F\n"
        "from pg_epsilon.explain.question import Question, compare\n"
        "from pg_epsilon.explain.forms import Cell, Halves, Linear, Noise\n"
        "for family in ('gaussian', 'laplace'):\n"
        "    cell = Cell(90, Noise(family, 2.0))\n"
        "    for form in (Linear(cell), Halves(cell, cell, F(1), 0, 9)):\n"
        "        for keys in (None, 9):\n"
        "            compare(Question((form, form), simultaneous=keys))\n"
        "            compare(Question((form, form), (F(1), F(2)), simultaneous=keys))\n"
        "print(sorted({'numpy', 'scipy', 'opendp', 'pglast'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
