"""The request member "compare", validated against the release that it is about: what is compared, and how."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cached_property
from typing import Any

from pg_epsilon.decimals import plain
from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain.column import aggregate
from pg_epsilon.explain.groups import Group, Keys, shown, values_of
from pg_epsilon.explain.question import Interval, Question, compare, level
from pg_epsilon.query import members
from pg_epsilon.query.arrays import items_of
from pg_epsilon.query.released import Named, Releases, Stored

MEMBERS = frozenset(
    {"groups", "weights", "constant", "expression", "aggregate", "method", "confidence", "simultaneous"}
)
MOST_GROUPS = 1_000  # of one question: a request has at most 1 MB
EXAMPLE = "SELECT * FROM dp_compare('Sales', 'Tech-support')"


@dataclass(frozen=True)
class Comparison:
    """A question about groups of a release, and its answer: post-processing (dpxplain.md §5).

    groups: as they were named. aggregate: its name in the release. released: G, the keys whose intervals the promise
    is made for at once; None: the groups were named before the release was seen.
    """

    stored: Stored
    groups: tuple[Group, ...]
    aggregate: str
    released: int | None
    question: Question

    def canonical(self) -> dict[str, Any]:
        """What tells this question from another one about releases."""
        question = self.question
        return {
            "of": self.stored.request_id,
            "groups": [list(group) for group in self.groups],
            "aggregate": self.aggregate,
            "weights": None if question.weights is None else [str(weight) for weight in question.weights],
            "expression": question.expression,
            "constant": str(question.constant),
            "method": question.method,
            "confidence": str(question.confidence),
            "simultaneous": self.released,
        }

    @cached_property
    def interval(self) -> Interval:
        """The answer. DP003, DP005 as `compare` says."""
        return compare(self.question)


def compile_comparison(asked: Mapping[str, Any], of: Named, releases: Releases, confidence: Decimal) -> Comparison:
    """The member "compare" of a request about a release. confidence: of the session, where the call names none.

    Errors: 42501, DP006 of the release; DP003 for a form that is not understood, a release without groups, a number
    without a bar; DP005 for a group, an aggregate or a level that there is not.
    """
    if set(asked) - MEMBERS:
        raise DPError(SHAPE, "a comparison of an unknown form", EXAMPLE)
    stored = releases.stored(of.request_id)
    keys = Keys.of(stored, of.keys)
    groups, expression = _written(asked)
    pair = asked.get("weights") is None and expression is None
    names = _names(groups, 1 if pair else len(keys.places))
    numbers = [keys.number(name) for name in names]
    if len(set(numbers)) < len(numbers):
        twice = next(name for place, name in enumerate(names) if numbers.index(numbers[place]) < place)
        raise DPError(SHAPE, f"group {shown(twice)} is named twice", "Name every group once; weights add up.")
    weights = _weights(asked.get("weights"), names)
    if pair and len(names) != 2:
        hint = f"weights => '{{1,{','.join(['-1'] * (len(names) - 1))}}}', or expression => 'o1'"
        raise DPError(SHAPE, f"what is asked about {len(names)} groups?", hint)
    wanted = _confidence(asked.get("confidence"), confidence)
    released = len(stored.raw) if _flag(asked.get("simultaneous")) else None
    name, column = aggregate(stored, of, asked.get("aggregate"), level(wanted, len(names), released))
    question = Question(
        tuple(column.form(number) for number in numbers),
        weights,
        expression,
        _number(asked.get("constant", "0"), "constant"),
        members.text(asked.get("method"), "method") or "auto",
        wanted,
        released,
    )
    return Comparison(stored, tuple(names), name, released, question)


def _written(asked: Mapping[str, Any]) -> tuple[Any, str | None]:
    """The groups, and the expression if there is one.

    PostgreSQL takes the second argument of dp_compare(ARRAY['a','b'], '{c,d}') for an expression,
    because it prefers text: an array's text is a group.
    """
    expression = members.text(asked.get("expression"), "expression")
    second = None if expression is None else items_of(expression)
    return (asked.get("groups"), expression) if second is None else ([asked.get("groups"), second], None)


def _names(given: Any, keys: int) -> list[Group]:
    """The groups that are compared, each the values of all keys.

    keys: of a group, where a one-dimensional array of as many values may be the only group.
    """
    items = members.items(given, "groups")
    if not items:
        raise DPError(SHAPE, "no group is named", EXAMPLE)
    if len(items) > MOST_GROUPS:
        raise DPError(
            OUT_OF_RANGE,
            f"more than {MOST_GROUPS} groups in one comparison",
            "Compare fewer groups.",
        )
    found = [values_of(item, "groups") for item in items]
    if keys > 1 and all(len(group) == 1 for group in found) and len(found) == keys:
        found = [tuple(group[0] for group in found)]  # one row of a two-dimensional array: one group
    return found


def _weights(given: Any, groups: Sequence[Group]) -> tuple[Fraction, ...] | None:
    if given is None:
        return None
    found = tuple(_number(one, "weights") for one in members.items(given, "weights"))
    if len(found) != len(groups):
        raise DPError(
            SHAPE,
            f"{len(found)} weights for {len(groups)} groups",
            "Write one weight for each group: weights => '{1,-0.5,-0.5}'.",
        )
    return found


def _number(given: Any, member: str) -> Fraction:
    """A number as it was written, of at most a hundred digits."""
    try:
        number = Decimal(members.text(given, member) or "")
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or len(number.as_tuple().digits) > 100 or abs(number.adjusted()) > 100:
        raise DPError(
            OUT_OF_RANGE,
            f"{member} is no number that can be used",
            "Write numbers such as 1, -0.5 or 2.",
        )
    return Fraction(number)


def _confidence(given: Any, default: Decimal) -> Fraction:
    try:
        number = default if given is None else Decimal(members.text(given, "confidence") or "")
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or not 0 < number <= Decimal("0.999999999"):
        raise DPError(OUT_OF_RANGE, "confidence must be between 0 and 1", "confidence => 0.95")
    return Fraction(number)


def _flag(given: Any) -> bool:
    if not isinstance(given, bool | None):
        raise DPError(
            SHAPE,
            "simultaneous is true or false",
            "simultaneous => false, for groups named beforehand",
        )
    return given is not False


def told(asked: Comparison) -> tuple[dict[str, Any], list[str]]:
    """Facts of a comparison for EXPLAIN, dp_plan, dp.last_answer and the NOTICE, and sentences in words."""
    found, question = asked.interval, asked.question
    confidence = plain(Decimal(question.confidence.numerator) / Decimal(question.confidence.denominator))
    facts: dict[str, Any] = {
        "release": asked.stored.request_id,
        "aggregate": asked.aggregate,
        "groups": [list(group) for group in asked.groups[:10]],
        "verdict": found.verdict,
        "difference": number(found.difference),
        "low": number(found.low),
        "high": number(found.high),
        "method": found.method,
        "confidence": confidence,
        "simultaneous": asked.released,
    }
    if found.approximate:
        promise = "the interval is approximate"
    elif asked.released is None:
        promise = f"the interval holds at {confidence} for groups named before the release was seen"
    else:
        promise = f"the interval holds at {confidence} for all comparisons of {asked.released} groups at once"
    sentences = [f"{found.verdict}, {promise}"]
    if found.note:
        sentences.append(found.note[0].lower() + found.note[1:].removesuffix("."))
    return facts, [*sentences, "a difference is no cause"]


def number(value: float) -> str | None:
    """A float's text as PostgreSQL reads it; None: it is not known."""
    if math.isnan(value):
        return None
    return str(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def told_difference(comparison: Comparison) -> float | None:
    """The size of the released difference; None where it may be noise, or is 0: then no share of it is told."""
    found = comparison.interval
    if found.verdict != "yes" or not math.isfinite(found.difference) or not found.difference:
        return None
    return abs(found.difference)
