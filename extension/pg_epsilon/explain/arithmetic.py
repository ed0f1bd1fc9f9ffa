"""Arithmetic of released answers o1, o2, … as an analyst writes it (dpxplain.md §5.3)."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError

LENGTH = 10_000
"""Characters of an expression, at most."""

DEPTH = 100
"""Operations within one another, at most."""

HINT = (
    "Write o1, o2, ... for the answers in the order in which they are named, decimal constants, "
    "+ - * /, parentheses, exp() and ln() or log(), both the natural logarithm: 'o1 / o2 - 1.2'."
)
# Any other character; a number that runs on as a word, which Python may read with a warning.
_STRANGE = re.compile(r"[^0-9a-zA-Z_.+\-*/()\s]|(?<![a-zA-Z0-9_.])[0-9.]+[a-zA-Z_]+", re.ASCII)
_CONSTANT = re.compile(r"[0-9]{1,60}(\.[0-9]{0,60})?|\.[0-9]{1,60}", re.ASCII)
_ANSWER = re.compile(r"o([1-9][0-9]{0,8})", re.ASCII)
_SYMBOLS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_FUNCTIONS = {"exp": "exp", "ln": "ln", "log": "ln"}


@dataclass(frozen=True)
class Constant:
    value: Fraction


@dataclass(frozen=True)
class Answer:
    """index: zero-based."""

    index: int


@dataclass(frozen=True)
class Operation:
    """symbol: + - * / of two operands; - (negation), exp, ln of one."""

    symbol: str
    operands: tuple[Node, ...]


Node = Constant | Answer | Operation


def parse(text: str, groups: int) -> Node:
    """The tree of an expression about so many answers; the text alone is looked at.

    DP003, with a hint that says what may be written, for anything but that, for more than LENGTH
    characters or DEPTH operations within one another; DP005 for an answer that is not among them.
    """
    if len(text) > LENGTH:
        _refuse(f"the expression has more than {LENGTH} characters")
    if found := _STRANGE.search(text):
        _refuse(f"the expression cannot contain {found[0][:40]!r}", found.start())
    shown = re.sub(r"\s", " ", text).lower()  # one line, so that columns are characters
    start = len(shown) - len(shown.lstrip())
    try:
        tree = ast.parse(shown[start:], mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        _refuse("the expression cannot be read")
    return _Reader(shown[start:], start, groups).node(tree.body, 1)


def _refuse(message: str, position: int | None = None) -> NoReturn:
    raise DPError(SHAPE, message, HINT, position=position)


@dataclass(frozen=True)
class _Reader:
    text: str
    start: int
    groups: int

    def node(self, tree: ast.expr, depth: int) -> Node:
        where = self.start + tree.col_offset
        if depth > DEPTH:
            _refuse(f"the expression has more than {DEPTH} operations within one another", where)
        match tree:
            case ast.Constant():
                return self.constant(tree, where)
            case ast.Name(id=name):
                return self.answer(name, where)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Operation("-", (self.node(operand, depth + 1),))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _SYMBOLS:
                operands = self.node(left, depth + 1), self.node(right, depth + 1)
                return Operation(_SYMBOLS[type(op)], operands)
            case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name in _FUNCTIONS:
                return Operation(_FUNCTIONS[name], (self.node(inner, depth + 1),))
        _refuse("the expression cannot contain this", where)

    def constant(self, tree: ast.Constant, where: int) -> Constant:
        """The decimal that is written, not the double that Python reads."""
        written = self.text[tree.col_offset : tree.end_col_offset]
        if not _CONSTANT.fullmatch(written):
            _refuse("a constant is a decimal number of 60 digits on either side, at most", where)
        return Constant(Fraction(written))

    def answer(self, name: str, where: int) -> Answer:
        found = _ANSWER.fullmatch(name)
        if found is None:
            _refuse(f"the expression cannot contain {name[:40]!r}", where)
        if int(found[1]) > self.groups:
            raise DPError(
                OUT_OF_RANGE,
                f"there is no {name}: the answers are o1 to o{self.groups}"
                if self.groups > 1
                else f"there is no {name}",
                "The answers are numbered in the order in which they are named, from o1.",
                position=where,
            )
        return Answer(int(found[1]) - 1)


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    if isinstance(node, Operation):
        for operand in node.operands:
            yield from walk(operand)


def used(node: Node) -> tuple[int, ...]:
    """The answers of an expression, zero-based and sorted."""
    return tuple(sorted({part.index for part in walk(node) if isinstance(part, Answer)}))


def renumbered(node: Node, places: Mapping[int, int]) -> Node:
    """The same expression of answers that stand at other places."""
    if isinstance(node, Answer):
        return Answer(places[node.index])
    if isinstance(node, Constant):
        return node
    return Operation(node.symbol, tuple(renumbered(operand, places) for operand in node.operands))


def divisors(node: Node) -> frozenset[int]:
    """The answers that stand somewhere below a division's line."""
    parts = [part for part in walk(node) if isinstance(part, Operation) and part.symbol == "/"]
    return frozenset(index for part in parts for index in used(part.operands[1]))


_POINT: dict[str, Callable[..., float]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "exp": math.exp,
    "ln": math.log,
}


def value(node: Node, answers: Sequence[float]) -> float:
    """The expression at one point, in doubles; NaN where it is undefined or no double holds it."""
    try:
        return _value(node, answers)
    except (ZeroDivisionError, ValueError, OverflowError):
        return math.nan


def _value(node: Node, answers: Sequence[float]) -> float:
    if isinstance(node, Constant):
        return float(node.value)
    if isinstance(node, Answer):
        return answers[node.index]
    parts = [_value(operand, answers) for operand in node.operands]
    if node.symbol == "-":
        return -parts[0] if len(parts) == 1 else parts[0] - parts[1]
    return _POINT[node.symbol](*parts)
