"""What is publicly known of a number: ends, lattice step. Its arithmetic, in fractions, which never rounds.

A result holds all that the operands allow; it may be wider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, floor, gcd, trunc


@dataclass(frozen=True)
class Range:
    """What is publicly known of an expression's values: ends (None: unknown), lattice step (0: only 0), integer type.

    unit: the step that the owner declared, where it is coarser than the type's own (a column by itself).
    """

    low: Fraction | None
    high: Fraction | None
    step: Fraction | None
    whole: bool = False
    unit: Fraction | None = None


UNKNOWN = Range(None, None, None)
NOTHING = Range(None, None, Fraction(0))  # the literal NULL: no value at all
BIT = Range(Fraction(0), Fraction(1), Fraction(1), whole=True)


def common(steps: Iterable[Fraction | None]) -> Fraction | None:
    """The coarsest step whose lattice holds all of them; 0 fits any."""
    total = Fraction(0)
    for step in steps:
        if step is None:
            return None
        denominator = total.denominator * step.denominator
        a, b = total.numerator * step.denominator, abs(step.numerator) * total.denominator
        total = Fraction(gcd(a, b), denominator)
    return total


def hull(ranges: Sequence[Range]) -> Range:
    """The range of what has a value in one of several."""
    ranges = [one for one in ranges if one is not NOTHING]
    if not ranges:
        return NOTHING
    lows, highs = [one.low for one in ranges], [one.high for one in ranges]
    return Range(
        None if None in lows else min(low for low in lows if low is not None),
        None if None in highs else max(high for high in highs if high is not None),
        common(one.step for one in ranges),
        all(one.whole for one in ranges),
    )


def minus(one: Range) -> Range:
    """The range of -x."""
    low, high = (None if end is None else -end for end in (one.high, one.low))
    return Range(low, high, one.step, one.whole)


def plus(a: Range, b: Range) -> Range:
    """The range of x + y."""
    low = None if a.low is None or b.low is None else a.low + b.low
    high = None if a.high is None or b.high is None else a.high + b.high
    return Range(low, high, common((a.step, b.step)), a.whole and b.whole)


def times(a: Range, b: Range) -> Range:
    """The range of x * y."""
    step = None if a.step is None or b.step is None else a.step * b.step
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return Range(None, None, step, a.whole and b.whole)
    corners = [x * y for x, y in product((a.low, a.high), (b.low, b.high))]
    return Range(min(corners), max(corners), step, a.whole and b.whole)


def over(a: Range, b: Range) -> Range:
    """Division; of integers it cuts towards zero. A divisor of 0 is none: the compiler refuses it."""
    whole = a.whole and b.whole
    if b.low is not None and b.low == b.high and b.low != 0:
        divided = times(a, Range(1 / b.low, 1 / b.low, 1 / abs(b.low)))
    else:
        divided = _by_several(a, b)
    if not whole:
        return divided
    low, high = (None if end is None else Fraction(trunc(end)) for end in (divided.low, divided.high))
    return Range(low, high, Fraction(1), True)


def _by_several(a: Range, b: Range) -> Range:
    """By divisors of which the least is an end of their range, or a step away from 0. Quotients are on no lattice."""
    ends = [abs(end) for end in (b.low, b.high) if end is not None]
    one_sided = (b.low is not None and b.low > 0) or (b.high is not None and b.high < 0)
    least = min(ends) if one_sided else b.step
    if a.low is None or a.high is None or not least:
        return UNKNOWN
    low, high = min(a.low / least, Fraction(0)), max(a.high / least, Fraction(0))
    ways = []
    if b.high is None or b.high > 0:
        ways.append(Range(low, high, None))
    if b.low is None or b.low < 0:
        ways.append(Range(-high, -low, None))
    return hull(ways)


def magnitude(one: Range) -> Range:
    """The range of |x|."""
    if one.low is None or one.high is None:
        return Range(None, None, one.step, one.whole)
    low = max(Fraction(0), one.low, -one.high)
    return Range(low, max(abs(one.low), abs(one.high)), one.step, one.whole)


def signs(one: Range) -> Range:
    """The range of sign(x), which is no integer type."""
    low = -1 if one.low is None or one.low < 0 else 1 if one.low > 0 else 0
    high = 1 if one.high is None or one.high > 0 else -1 if one.high < 0 else 0
    return Range(Fraction(low), Fraction(high), Fraction(1))


def modulo(a: Range, b: Range) -> Range:
    """The remainder has the dividend's sign and is smaller than the divisor."""
    step = common((a.step, b.step))
    if b.low is None or b.high is None:
        return Range(None, None, step, a.whole and b.whole)
    most = max(abs(b.low), abs(b.high))
    low = Fraction(0) if a.low is not None and a.low >= 0 else -most
    high = Fraction(0) if a.high is not None and a.high <= 0 else most
    return Range(low, high, step, a.whole and b.whole)


def rounded(one: Range, digits: int) -> Range:
    """Rounding to a lattice moves the ends outwards to it at most; of no integer type, which divides otherwise."""
    step = Fraction(10) ** -digits
    low = None if one.low is None else floor(one.low / step) * step
    high = None if one.high is None else ceil(one.high / step) * step
    return Range(low, high, common((one.step, step)) if one.step and one.step % step == 0 else step)


ARITHMETIC: dict[str, Callable[[Range, Range], Range]] = {
    "+": plus,
    "-": lambda a, b: plus(a, minus(b)),
    "*": times,
    "/": over,
    "%": modulo,
}
