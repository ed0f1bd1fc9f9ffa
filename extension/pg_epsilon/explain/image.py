"""Interval arithmetic, rounded outwards: an image is never too narrow (dpxplain.md §5.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from pg_epsilon.explain.arithmetic import Answer, Constant, Node

Ends = tuple[float, float]


def image(node: Node, box: Sequence[Ends]) -> Ends:
    """An interval that holds the expression at every point of the box.

    Both ends are infinite if the expression is undefined at a point. box: the interval of each
    answer, by index; ends may be infinite. Every operation is rounded outwards. An answer that
    stands twice counts twice: nothing is simplified.
    """
    found = _image(node, box)
    return (-math.inf, math.inf) if found is None else found


def outward(low: Fraction, high: Fraction) -> Ends:
    """Doubles at or below, and at or above."""
    first, second = _double(low), _double(high)
    if first == math.inf or (math.isfinite(first) and Fraction(first) > low):
        first = math.nextafter(first, -math.inf)
    if second == -math.inf or (math.isfinite(second) and Fraction(second) < high):
        second = math.nextafter(second, math.inf)
    return first, second


def _double(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _image(node: Node, box: Sequence[Ends]) -> Ends | None:
    if isinstance(node, Constant):
        return outward(node.value, node.value)
    if isinstance(node, Answer):
        return box[node.index]
    parts = [_image(operand, box) for operand in node.operands]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if node.symbol == "-" and len(known) == 1:
        return -known[0][1], -known[0][0]
    return _RULES[node.symbol](*known)


def _wide(low: float, high: float, ulps: int = 1) -> Ends:
    for _ in range(ulps):
        low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
    return low, high


def _add(x: Ends, y: Ends) -> Ends:
    return _wide(x[0] + y[0], x[1] + y[1])


def _subtract(x: Ends, y: Ends) -> Ends:
    return _wide(x[0] - y[1], x[1] - y[0])


def _multiply(x: Ends, y: Ends) -> Ends:
    """0 times an infinite end is 0: the end is a limit that no value reaches."""
    corners = [a * b if a and b else 0.0 for a in x for b in y]
    return _wide(min(corners), max(corners))


def _divide(x: Ends, y: Ends) -> Ends | None:
    """By the reciprocal's interval."""
    return None if y[0] <= 0 <= y[1] else _multiply(x, _wide(1 / y[1], 1 / y[0]))


def _exp(x: Ends) -> Ends:
    """The functions of libm err by an ulp at most; exp is never below 0."""
    low, high = _wide(_exponential(x[0]), _exponential(x[1]), ulps=2)
    return max(low, 0.0), high


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _ln(x: Ends) -> Ends | None:
    return None if x[0] <= 0 else _wide(math.log(x[0]), math.log(x[1]), ulps=2)


_RULES: dict[str, Callable[..., Ends | None]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "exp": _exp,
    "ln": _ln,
}
