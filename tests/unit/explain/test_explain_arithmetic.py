"""Expressions of released answers: what is read and refused; intervals are never too narrow."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from explain_forms import NONE, gaussian, halves, laplace

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain import arithmetic
from pg_epsilon.explain.arithmetic import (
    DEPTH,
    LENGTH,
    Answer,
    Constant,
    Node,
    Operation,
    parse,
    used,
    value,
)
from pg_epsilon.explain.averages import fieller
from pg_epsilon.explain.forms import Barred, Noise
from pg_epsilon.explain.image import image, outward
from pg_epsilon.explain.linear import cell_miss
from pg_epsilon.explain.quantiles import two_sided
from pg_epsilon.explain.question import Question, compare

EVERYTHING = (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("o1 / o2 - 1.2", 8 / 5 - 1.2),
        ("-o1 * (o2 + .5)", -8 * 5.5),
        ("o1 - o2 - o3", 8 - 5 - 2),
        ("o1 / o2 / o3", 8 / 5 / 2),
        ("o1 + o2 * o3", 18),
        ("exp(ln(o1)) + log(o3)", 8 + math.log(2)),
        ("  O1 -\n LN( o2 ) ", 8 - math.log(5)),
        ("--o1", 8),
        ("10. * o1", 80),
    ],
)
def test_an_expression_means_what_it_says(text: str, expected: float) -> None:
    assert value(parse(text, 3), (8, 5, 2)) == pytest.approx(expected, rel=1e-14)


def test_a_constant_is_the_decimal_that_is_written() -> None:
    assert parse("0.1", 0) == Constant(Fraction(1, 10))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "o1 +",
        "o1 ** 2",
        "o1 // 2",
        "o1 % 2",
        "+o1",
        "o1 if o1 else o2",
        "o1 and o2",
        "o1 < o2",
        "o1, o2",
        "(o1, o2)",
        "lambda: o1",
        "x",
        "o0",
        "o01",
        "o",
        "o1.real",
        "o1(2)",
        "2(o1)",
        "exp",
        "exp()",
        "exp(o1, o2)",
        "exp(x=o1)",
        "sin(o1)",
        "__import__('os')",
        "1e5 * o1",
        "0x10",
        "1_000",
        "1j",
        "1or o1",
        "o1; o2",
        "o1\x00",
        "o1 + \u0661",
        "\uff4f1",
        "[o1]",
        "o1 := 2",
        "'o1'",
        "1" * 61,
        "007",
        "9" * 5000,
        "await o1",
        "not o1",
        "~o1",
        "(" * 300 + "o1" + ")" * 300,
        "(" * 4900 + "o1" + ")" * 4900,
        "-" * 9000 + "o1",
        "+".join(["o1"] * 3000),
        "exp(" * 150 + "o1" + ")" * 150,
        "o1 " * 4000,
    ],
)
def test_anything_else_is_refused_with_what_may_be_written(text: str) -> None:
    with pytest.raises(DPError) as caught:
        parse(text, 2)
    assert caught.value.sqlstate == SHAPE
    assert caught.value.hint == arithmetic.HINT


@pytest.mark.parametrize(
    ("text", "position"), [("o1 + x", 5), ("  o1 ** 2", 2), ("o1 +\n sin(o1)", 6), ("o1 + 1e5", 5)]
)
def test_a_refusal_says_where(text: str, position: int) -> None:
    with pytest.raises(DPError) as caught:
        parse(text, 2)
    assert caught.value.position == position


def test_an_unknown_answer_is_out_of_range() -> None:
    for text, groups in (("o3", 2), ("o999999999", 2), ("o1", 0)):
        with pytest.raises(DPError) as caught:
            parse(text, groups)
        assert caught.value.sqlstate == OUT_OF_RANGE


def test_the_limits_are_the_published_ones() -> None:
    assert used(parse("+".join(["o1"] * DEPTH), 1)) == (0,)
    assert used(parse("o1".ljust(LENGTH), 1)) == (0,)
    for text in ("+".join(["o1"] * (DEPTH + 1)), "o1".ljust(LENGTH + 1)):
        with pytest.raises(DPError):
            parse(text, 1)


def test_only_named_answers_count() -> None:
    """Two of three: each at 1 - (1 - confidence)/2, whatever the third is."""
    cells = (gaussian(80, 2.0), gaussian(-9, 5.0), gaussian(40, 2.0))
    z = two_sided(0.025) * 2 + 0.5
    found = compare(Question(cells, expression="o1 * o3"))
    assert found.low == pytest.approx((80 - z) * (40 - z), rel=1e-12)
    assert found.high == pytest.approx((80 + z) * (40 + z), rel=1e-12)
    assert found.difference == 3200


def test_a_constant_beside_an_expression_is_subtracted() -> None:
    cells = (gaussian(80, 2.0), gaussian(40, 2.0))
    beside = compare(Question(cells, expression="o1 / o2", constant=Fraction(3, 2)))
    within = compare(Question(cells, expression="o1 / o2 - 1.5"))
    assert beside == within
    assert beside.verdict == "yes"


def test_averages_in_an_expression_are_fiellers() -> None:
    for family in ("gaussian", "laplace"):
        noise = Noise("gaussian" if family == "gaussian" else "laplace", 2.0)
        form = halves(60, 100, noise)
        low, high = fieller(form, 0.025)
        found = compare(Question((form, halves(50, 100, noise)), expression="o1 * o1 + 0 * o2"))
        assert (found.low, found.high) == pytest.approx((low * low, high * high), rel=1e-9)


def test_cells_in_an_expression_keep_the_promise_of_single_cells() -> None:
    for form in (gaussian(80, 2.0), laplace(80, 2.0)):
        margin = form.cell.noise.margin(cell_miss(form.cell.noise.is_gaussian, 0.05, 9))
        found = compare(Question((form,), expression="exp(o1 / 100)", simultaneous=9))
        assert 100 * math.log(found.low) == pytest.approx(80 - margin, rel=1e-9)
        assert 100 * math.log(found.high) == pytest.approx(80 + margin, rel=1e-9)


def test_a_mixture_of_counts_and_averages_holds_at_the_plain_level() -> None:
    noise = Noise("gaussian", 2.0)
    count, mean = gaussian(80, 2.0), halves(60, 100, noise)
    low, high = fieller(mean, 0.05 / 9)
    margin = two_sided(0.05 / 9) * 2 + 0.5
    found = compare(Question((count, mean), expression="o1 * o2", simultaneous=9))
    assert found.low == pytest.approx((80 - margin) * low, rel=1e-9)
    assert found.high == pytest.approx((80 + margin) * high, rel=1e-9)


@pytest.mark.parametrize("text", ["o1 / o2", "ln(o2)", "1 / (o2 - o2)", "ln(-o2)", "exp(99 * o1)"])
def test_what_is_undefined_or_unbounded_somewhere_says_so(text: str) -> None:
    found = compare(Question((gaussian(80, 2.0), gaussian(3, 2.0)), expression=text))
    assert found.high == math.inf
    assert "undefined" in (found.note or "")
    assert found.verdict != "the other way round"


def test_an_interval_that_ends_at_zero_divides_nothing() -> None:
    for ends in ((0.0, 1.0), (-1.0, 0.0), (-0.0, 0.0)):
        assert image(parse("1 / o1", 1), [ends]) == EVERYTHING
        assert image(parse("ln(o1)", 1), [ends]) == EVERYTHING


def test_an_infinite_bar_stays_on_its_side() -> None:
    bar = Barred(50.0, 40.0, math.inf, Fraction(19, 20))
    found = compare(Question((bar,), expression="o1 * 2 - 30"))
    assert (found.low, found.high, found.verdict) == (pytest.approx(50), math.inf, "yes")
    assert image(parse("0 * o1", 1), [(1.0, math.inf)]) == (-5e-324, 5e-324)


def exact(node: Node, answers: list[Fraction]) -> Fraction:
    """Without rounding; no exp or ln."""
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Answer):
        return answers[node.index]
    parts = [exact(operand, answers) for operand in node.operands]
    if len(parts) == 1:
        return -parts[0]
    first, second = parts
    if node.symbol == "/":
        return first / second
    if node.symbol == "*":
        return first * second
    return first + second if node.symbol == "+" else first - second


def some_tree(source: random.Random, depth: int) -> Node:
    if depth == 0 or source.random() < 0.2:
        answer, constant = Answer(source.randrange(3)), Fraction(source.randrange(-99, 99), 10)
        return answer if source.random() < 0.7 else Constant(constant)
    first = some_tree(source, depth - 1)
    if source.random() < 0.1:
        return Operation("-", (first,))
    return Operation(source.choice("+-*/"), (first, some_tree(source, depth - 1)))


def test_an_image_holds_every_point_exactly() -> None:
    """1,000 trees in rational arithmetic; one that is undefined at a point has no bound."""
    source, bounded = random.Random(29), 0
    for _ in range(1000):
        tree, box = some_tree(source, 4), []
        for _ in range(3):
            low = source.uniform(-2, 9)
            box.append((low, low + source.choice((0.0, 1e-9, 3.0))))
        low, high = image(tree, box)
        bounded += math.isfinite(high - low)
        for _ in range(4):
            share = source.choice((0, 1, Fraction(1, 3)))
            point = [Fraction(a) + (Fraction(b) - Fraction(a)) * share for a, b in box]
            try:
                at = exact(tree, point)
            except ZeroDivisionError:
                assert (low, high) == EVERYTHING
                continue
            assert low == -math.inf or Fraction(low) <= at
            assert high == math.inf or at <= Fraction(high)
    assert bounded > 500


def test_functions_are_rounded_outwards() -> None:
    """Against the exact sum of the series, at a point of no width."""
    for text, x, most in (("exp(o1)", 1.5, 8), ("ln(o1)", 1.5, 8)):
        low, high = image(parse(text, 1), [(x, x)])
        middle = math.exp(x) if text[0] == "e" else math.log(x)
        assert low < middle < high
        assert high - low <= most * math.ulp(middle)
    assert image(parse("exp(o1)", 1), [(-2000.0, -1000.0)])[0] == 0
    low, high = image(parse("exp(o1)", 1), [(1000.0, 2000.0)])
    assert (math.isfinite(low), low > 1e308, high) == (True, True, math.inf)


def test_a_fraction_is_rounded_outwards() -> None:
    for text in ("1/3", "-1/3", "1e400", "-1e400", "5"):
        number = Fraction(text)
        low, high = outward(number, number)
        assert low == -math.inf or Fraction(low) <= number
        assert high == math.inf or number <= Fraction(high)
    assert outward(Fraction(5), Fraction(5)) == (5, 5)


def test_continuous_noise_has_no_half_steps() -> None:
    found = compare(Question((gaussian(80, 2.0, NONE),), expression="o1"))
    assert found.high - 80 == pytest.approx(two_sided(0.05) * 2, rel=1e-12)
