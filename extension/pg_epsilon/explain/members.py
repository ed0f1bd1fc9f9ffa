"""Members of a request for an explanation that are read in several places: by public facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain.column import aggregate
from pg_epsilon.query import members
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.released import Named, Stored
from pg_epsilon.query.released import named as release_of


def number_of(stored: Stored, of: Named, asked: Any) -> int:
    """Which aggregate of the stored question an explanation is about. DP005: there is none of it."""
    given = members.mapping(asked, "explain").get("aggregate")
    return aggregate(stored, of, given, Fraction(19, 20))[1].number


def explained(head: Head) -> Any:
    """The aggregate that an explanation is about, as the release's question has it."""
    of = release_of(head.document)
    stored = head.releases.stored(of.request_id)
    items = members.items(stored.asked("aggregates").get("aggregates"), "aggregates")
    return items[number_of(stored, of, head.document["explain"])]


def whole(asked: Mapping[str, Any], member: str, default: int, most: int) -> int:
    value = default if asked.get(member) is None else asked[member]
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise DPError(OUT_OF_RANGE, f"{member} must lie between 1 and {most}", f"{member} => {default}")
    return value


def flag(asked: Mapping[str, Any], member: str) -> bool:
    value = asked.get(member)
    if not isinstance(value, bool | None):
        raise DPError(SHAPE, f"{member} is true or false", f"{member} => true")
    return value is True
