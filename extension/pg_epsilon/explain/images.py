"""Interval arithmetic of many boxes at once, by which the limits of distances are nested (dpxplain.md §7.2).

The image of a box within another one lies within the other's image. Privacy rests on that, so that
it holds of the doubles themselves: sums, products and quotients are rounded monotonically, and so is
a step to the next double. Functions of libm are not known to be monotone: there are none here.
Overflows and divisions by 0 are part of it: callers silence them (numpy.errstate).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pg_epsilon.explain.arithmetic import Answer, Constant, Node
from pg_epsilon.explain.image import outward

Floats = npt.NDArray[np.float64]
SYMBOLS = frozenset("+-*/")


class Ends(NamedTuple):
    """Ends of intervals by place, also infinite; of a single interval one double each."""

    low: Any
    high: Any

    def clipped(self, low: float, high: float) -> Ends:
        """The parts within a public range that every value is in."""
        return Ends(*(np.minimum(np.maximum(end, low), high) for end in self))


Image = Callable[[Sequence[Ends]], Ends]


def image_of(node: Node, positive: Sequence[bool]) -> Image:
    """The function that takes a box, of each answer its intervals, to the expression's intervals.

    positive: of each answer whether it is never negative, whatever the rows. Infinite at both ends where a divisor may
    be 0; a divisor that is never negative is taken for the limit from above there, so that its reciprocal is unbounded
    above only. ValueError for a symbol that is not among SYMBOLS.
    """
    if isinstance(node, Constant):
        ends = constant(node.value)
        return lambda box: ends
    if isinstance(node, Answer):
        index = node.index
        return lambda box: box[index]
    if node.symbol not in SYMBOLS:
        raise ValueError(f"no interval arithmetic of {node.symbol}")
    parts = [image_of(operand, positive) for operand in node.operands]
    if len(parts) == 1:
        (inner,) = parts
        return lambda box: _negated(inner(box))
    first, second = parts
    rule = _RULES[node.symbol]
    if node.symbol == "/":
        rule = quotient if is_positive(node.operands[1], positive) else _any_quotient
    if not is_positive(node, positive):
        return lambda box: rule(first(box), second(box))
    return lambda box: rule(first(box), second(box)).clipped(0.0, np.inf)


def is_positive(node: Node, positive: Sequence[bool]) -> bool:
    """Whether an expression is never negative, by its form."""
    if isinstance(node, Constant):
        return node.value >= 0
    if isinstance(node, Answer):
        return positive[node.index]
    return node.symbol != "-" and all(is_positive(operand, positive) for operand in node.operands)


def constant(value: Fraction) -> Ends:
    """A public number."""
    return Ends(*outward(value, value))


def integers(low: Any, high: Any) -> Ends:
    """Integers of 64 bits, rounded outwards."""
    return _wide(np.asarray(low).astype(np.float64), np.asarray(high).astype(np.float64))


def total(x: Ends, y: Ends) -> Ends:
    return _wide(x.low + y.low, x.high + y.high)


def difference(x: Ends, y: Ends) -> Ends:
    return _wide(x.low - y.high, x.high - y.low)


def product(x: Ends, y: Ends) -> Ends:
    """0 times an infinite end is 0: the end is a limit that no value reaches."""
    corners = [_times(a, b) for a in x for b in y]
    least, most = np.minimum, np.maximum
    return _wide(least(least(*corners[:2]), least(*corners[2:])), most(most(*corners[:2]), most(*corners[2:])))


def quotient(x: Ends, y: Ends) -> Ends:
    """By a divisor that is never negative."""
    low, high = np.maximum(y.low, 0.0) + 0.0, np.maximum(y.high, 0.0) + 0.0  # no -0.0, whose reciprocal is -inf
    return product(x, _wide(np.divide(1.0, high), np.divide(1.0, low)).clipped(0.0, np.inf))


def _any_quotient(x: Ends, y: Ends) -> Ends:
    unknown = (np.less_equal(y.low, 0)) & (np.greater_equal(y.high, 0))
    parts = _wide(np.divide(1.0, y.high), np.divide(1.0, y.low))
    return product(x, Ends(np.where(unknown, -np.inf, parts.low), np.where(unknown, np.inf, parts.high)))


def _negated(x: Ends) -> Ends:
    return Ends(-x.high, -x.low)


def _times(a: Any, b: Any) -> Any:
    return np.where((np.equal(a, 0)) | (np.equal(b, 0)), 0.0, np.multiply(a, b))


def _wide(low: Any, high: Any) -> Ends:
    """One double outwards: so no lower end is inf, no upper one -inf, and no difference of ends is undefined."""
    return Ends(np.nextafter(low, -np.inf), np.nextafter(high, np.inf))


_RULES: dict[str, Callable[[Ends, Ends], Ends]] = {"+": total, "-": difference, "*": product, "/": quotient}
