"""What a predicate says about one column: interval or points, for the partitions it touches (composition.md §5.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pg_epsilon.query.names import column_sql
from pg_epsilon.query.types import Item, Kind, Term, Test, type_of

_MOMENT = re.compile(r"(\d{4,})-(\d\d)-(\d\d)(?: (\d\d:\d\d:\d\d(?:\.\d+)?))?(?:\+00)?( BC)?", re.ASCII)


@dataclass(frozen=True)
class Restriction:
    """Every row that satisfies the predicate has the column in `points`, if given, and within the bounds, if given.

    Values are text outputs of the column's own type under ISO dates and UTC. Not the other way round: rows inside need
    not satisfy the predicate.
    """

    lower: str | None = None
    upper: str | None = None
    lower_inclusive: bool = True
    upper_inclusive: bool = True
    points: tuple[str, ...] | None = None


def restriction(conjuncts: Iterable[Term], item: Item, column_name: str) -> Restriction | None:
    """Return what the operands of a predicate's top-level AND say about a column; None: nothing that we can use."""
    name = column_sql(item, column_name)
    tests = [term.test for term in conjuncts if term.test is not None and term.test.column == name]
    return _meet(tests, type_of(item.relation.columns[column_name]).kind) if tests else None


def _meet(tests: Iterable[Test], kind: Kind) -> Restriction | None:
    points: set[str] | None = None
    lowers: list[tuple[Any, bool, str]] = []
    uppers: list[tuple[Any, bool, str]] = []
    for test in tests:
        if test.operator == "=":
            points = set(test.values) if points is None else points & set(test.values)
            continue
        value = test.values[0]
        key = order_key(kind, value)
        if key is None:
            continue
        inclusive = test.operator in ("<=", ">=")
        (lowers if test.operator in (">", ">=") else uppers).append((key, inclusive, value))
    # The tightest bound: the greatest lower one, and of equals the one that excludes.
    lower = max(lowers, key=lambda bound: (bound[0], not bound[1]), default=None)
    upper = min(uppers, key=lambda bound: (bound[0], bound[1]), default=None)
    if points is not None:
        kept = tuple(sorted(point for point in points if _inside(order_key(kind, point), lower, upper)))
        return Restriction(points=kept) if kept else None
    if lower is None and upper is None:
        return None
    return Restriction(
        lower[2] if lower else None,
        upper[2] if upper else None,
        lower[1] if lower else True,
        upper[1] if upper else True,
    )


def _inside(key: Any, lower: tuple[Any, bool, str] | None, upper: tuple[Any, bool, str] | None) -> bool:
    if key is None:
        return True
    if lower is not None and (key < lower[0] or (key == lower[0] and not lower[1])):
        return False
    return upper is None or key < upper[0] or (key == upper[0] and upper[1])


def order_key(kind: Kind, text: str) -> Any:
    """Return a key that orders canonical texts of one kind as PostgreSQL orders their values; None if unknown."""
    if kind in (Kind.INT, Kind.NUMERIC):
        number = Decimal(text)
        return None if number.is_nan() else number
    if kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        if text in ("infinity", "-infinity"):
            return (1 if text == "infinity" else -1,)
        match = _MOMENT.fullmatch(text)
        if match is None:
            return None
        year = int(match[1])
        return (0, -year if match[5] else year, match[2], match[3], (match[4] or "00:00:00"))
    return None
