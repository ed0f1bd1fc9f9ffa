"""The classes of a release: what the conditions with parameters tell apart, from declarations alone.

A column of such a condition is an axis; its declared keys are the classes along it, whether a row has them or not
(numeric-release.md §13: never SELECT DISTINCT). A class is one value, or a range of values that no condition of the
family may cut. Rows outside what is declared are in no class, and in no query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.query.domain import text_sql
from pg_epsilon.query.expression import Fold, FoldError, compile_expression
from pg_epsilon.query.keys import Key
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.literals import quote
from pg_epsilon.query.names import named
from pg_epsilon.query.parse import parse_expression
from pg_epsilon.query.schema import Column
from pg_epsilon.query.types import MOMENTS, NUMBERS, Kind, Texts, Type, type_of
from pg_epsilon.release.template import Condition

MOST_CLASSES = 65_536  # of one axis
_ORDERED = NUMBERS | MOMENTS
_YES, _NO, _CUT = "1", "0", "x"  # every value of a class meets a condition, none does, some do


@dataclass(frozen=True)
class Axis:
    """The classes of one column, in the order of its declared keys.

    starts, ends: texts of each class's least and largest value, None of NULL's; closed: whether the end belongs to it.
    """

    name: str
    key: Key
    type: Type
    starts: tuple[str | None, ...]
    ends: tuple[str | None, ...]
    closed: tuple[bool, ...]

    @property
    def size(self) -> int:
        return len(self.starts)


def axis_of(text: str, head: Head) -> Axis:
    """The axis of a column as a condition names it. DP003, DP004 without declared values, DP005 for too many."""
    _, column = named(parse_expression(text), head.scope)
    try:
        key = head.key(text)
    except DPError as refused:
        if refused.sqlstate != SHAPE:
            raise
        hint = "Conditions with parameters are about columns of declared values; write constants for the others."
        raise DPError(SHAPE, f"column {column.name} has no classes: {refused.message}", hint) from None
    if len(key.domain) > MOST_CLASSES:
        raise DPError(
            OUT_OF_RANGE,
            f"column {column.name} has {len(key.domain)} declared values, more than {MOST_CLASSES}",
            "Ask the owner for a coarser resolution, or leave the column out of conditions with parameters.",
        )
    starts, values = key.domain, [one for one in key.domain if one is not None]
    ends, closed = list(starts), [True] * len(starts)
    if not _one_value_each(column, values):
        edges = column.policy.edges if column.policy is not None else None
        last = edges[-1] if edges is not None else column.policy.upper if column.policy is not None else None
        ends[: len(values)] = [*values[1:], last]
        closed[: len(values)] = [False] * (len(values) - 1) + [edges is None]
    return Axis(column.name, key, type_of(column), starts, tuple(ends), tuple(closed))


def _one_value_each(column: Column, keys: Sequence[str]) -> bool:
    """Whether no class of a column has two values."""
    policy, kind = column.policy, type_of(column).kind
    if policy is None or policy.domain is not None or kind not in _ORDERED:
        return True
    if policy.edges is not None:
        return False
    if kind is Kind.INT:
        return policy.resolution is None or Decimal(policy.resolution) == 1
    if kind is Kind.DATE and len(keys) > 1:
        return date.fromisoformat(keys[1]) - date.fromisoformat(keys[0]) == timedelta(1)
    return False


def canonical_values(values: Sequence[str], axis: Axis, fold: Fold, what: str) -> list[str]:
    """Values of the axis' type as the engine writes them, read under the asker's settings. DP003 for what is none."""
    found = _folded([quote(one) for one in values], axis, fold)
    if found is None:
        raise DPError(
            SHAPE,
            f"{what} holds a value that is no {axis.type.name.removeprefix('pg_catalog.')}",
            f"Write the values of {axis.name} as you would in SQL, without quotes around them.",
        )
    return found


def constant_value(text: str, axis: Axis, head: Head) -> str:
    """A constant of the query as a value of the axis' type. DP003 for anything else."""
    expression = compile_expression(text, head.scope, head.fold)
    found = _folded([expression.sql], axis, head.fold) if expression.constant else None
    if found is None:
        raise DPError(SHAPE, f"{text[:60]} is no value of {axis.name}", "Compare it with a constant of its type.")
    return found[0]


def _folded(constants: Sequence[str], axis: Axis, fold: Fold) -> list[str] | None:
    """SQL of constants → the texts that they have as values of the axis' type; None: one of them is no such value."""
    texts = [text_sql(axis.type, f"CAST({one} AS {axis.type.name})") for one in constants]
    try:
        found = fold([one for one in texts if one is not None])
    except FoldError:
        return None
    known = [one for one in found if one is not None]
    return known if len(known) == len(constants) else None


@dataclass(frozen=True)
class Compared:
    """How the classes of an axis lie to constants: of each, a sign for each class's start, then for each one's end."""

    axis: Axis
    signs: Mapping[str, str]

    @classmethod
    def of(cls, axis: Axis, constants: Sequence[str], texts: Texts) -> Compared:
        """By PostgreSQL's own comparison of the column's type. constants: different, in the engine's spelling."""
        many, one = (f"{_array(values)}::{axis.type.name}[]" for values in ((*axis.starts, *axis.ends), constants))
        sign = "CASE WHEN x.v IS NULL THEN '?' WHEN x.v = c.v THEN '=' WHEN x.v < c.v THEN '<' ELSE '>' END"
        query = (
            f"SELECT pg_catalog.string_agg({sign}, '' ORDER BY x.n) AS v FROM pg_catalog.unnest({one}) WITH ORDINALITY"
            f" AS c(v, n) CROSS JOIN pg_catalog.unnest({many}) WITH ORDINALITY AS x(v, n) GROUP BY c.n ORDER BY c.n"
        )
        return cls(axis, {text: str(found) for text, found in zip(constants, texts(query), strict=True)})

    def mask(self, condition: Condition, values: Sequence[str]) -> str:
        """Of each class 1 or 0: whether its rows meet a condition with these values. DP005 for one that it cuts."""
        operator = condition.operator
        ordered = operator in ("<", "<=", ">", ">=", "BETWEEN", "NOT BETWEEN")
        if ordered and self.axis.type.kind not in _ORDERED:
            raise DPError(SHAPE, f"{self.axis.name} is compared by =, <>, IN or NOT IN", "Name its values.")
        found = "".join(self._met(operator, values))
        if _CUT in found:
            start = self.axis.starts[found.index(_CUT)]
            raise DPError(
                OUT_OF_RANGE,
                f"the declared values of {self.axis.name} from {start} on are one class, which {condition.text} cuts",
                "Compare it with declared edges: >= $1 AND < $2.",
            )
        return found

    def _met(self, operator: str, values: Sequence[str]) -> list[str]:
        if operator in ("BETWEEN", "NOT BETWEEN"):
            both = zip(self._tested(">=", values[0]), self._tested("<=", values[1]), strict=True)
            found = [_NO if _NO in pair else _CUT if _CUT in pair else _YES for pair in both]
        elif operator in ("IN", "NOT IN", "<>"):
            each = zip(*(self._tested("=", value) for value in values), strict=True)
            found = [_YES if _YES in one else _CUT if _CUT in one else _NO for one in each]
        else:
            found = self._tested(operator, values[0])
        return self._negated(found) if operator in ("NOT BETWEEN", "NOT IN", "<>") else found

    def _negated(self, found: Sequence[str]) -> list[str]:
        """NOT: of NULL it is as little true."""
        other = {_YES: _NO, _NO: _YES, _CUT: _CUT}
        return [_NO if start is None else other[one] for one, start in zip(found, self.axis.starts, strict=True)]

    def _tested(self, operator: str, value: str) -> list[str]:
        """Of each class whether all its values, none or some are `operator value`."""
        signs, size, test = self.signs[value], self.axis.size, _TESTS[operator]
        classes = zip(signs[:size], signs[size:], self.axis.closed, strict=True)
        return [_NO if "?" in start else test(start, end, closed) for start, end, closed in classes]


def _equal(start: str, end: str, closed: bool) -> str:
    if start == "=" and end == "=":
        return _YES
    outside = start == ">" or end == "<" or (end == "=" and not closed)
    return _NO if outside else _CUT


def _at_least(start: str, end: str, closed: bool) -> str:
    """Whether the values are >= the constant."""
    if start in "=>":
        return _YES
    return _NO if end == "<" or (end == "=" and not closed) else _CUT


def _above(start: str, end: str, closed: bool) -> str:
    if start == ">":
        return _YES
    return _NO if end in "<=" else _CUT


def _not(test: Callable[[str, str, bool], str]) -> Callable[[str, str, bool], str]:
    other = {_YES: _NO, _NO: _YES, _CUT: _CUT}
    return lambda start, end, closed: other[test(start, end, closed)]


_TESTS: Mapping[str, Callable[[str, str, bool], str]] = {
    "=": _equal,
    ">=": _at_least,
    ">": _above,
    "<": _not(_at_least),
    "<=": _not(_above),
}


def _array(values: Sequence[str | None]) -> str:
    """The literal of an array."""
    escaped = ("NULL" if one is None else '"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"' for one in values)
    return quote("{" + ",".join(escaped) + "}")
