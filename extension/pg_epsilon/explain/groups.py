"""The groups of a stored release, by the texts of their keys: public facts and released integers alone.

A release has every combination of its keys' declared values, whatever HAVING, ORDER BY and LIMIT of the statement left
to be seen (dpxplain.md §4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from functools import cached_property
from math import prod
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.query.arrays import items_of
from pg_epsilon.query.released import Stored

Group = tuple[str | None, ...]
RUN_FIRST = "Run a GROUP BY first: SELECT occupation, avg(hours) FROM adult GROUP BY occupation."
MOST_SEARCHED = 2_000  # declared values among which near ones are looked for
NAMED = 3  # of those, at most
_BOOLEANS = {
    "true": "t",
    "yes": "t",
    "on": "t",
    "1": "t",
    "false": "f",
    "no": "f",
    "off": "f",
    "0": "f",
}


@dataclass(frozen=True)
class Keys:
    """What a release is grouped by.

    names: of the columns, as GROUP BY has them, and domains: all values of each, NULL among them if there may be rows
    without one. places: which of the distinct keys each of them is; strides: of a group's number, by distinct key.
    """

    names: tuple[str, ...]
    domains: tuple[Sequence[str | None], ...]
    places: tuple[int, ...]

    @classmethod
    def of(cls, stored: Stored, asked: Sequence[int] | None = None) -> Keys:
        """Those of a release, in the order in which who compares asked for them. DP003: it is not of a GROUP BY."""
        how = stored.presentation
        if how["kind"] != "block" or not how["keys"]:
            what = "has no groups" if how["kind"] == "block" else f"is of {how['call']}, not of a GROUP BY"
            raise DPError(SHAPE, f"release {stored.request_id} {what}", RUN_FIRST)
        own = asked is not None and set(asked) == set(range(len(how["keys"])))
        places = tuple(asked if asked is not None and own else how["order"])
        names = [how["keys"][place][0] for place in places]
        if not stored.own:  # whoever was served it sees no name that who paid gave to a column
            names = [f"k{number}" for number, _ in enumerate(places, 1)]
        return cls(tuple(names), tuple(domain for _, domain in how["keys"]), places)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        return tuple(prod(len(one) for one in self.domains[place + 1 :]) for place in range(len(self.domains)))

    def number(self, group: Group) -> int:
        """The number of a group in the release.

        DP003: another number of keys; DP005: no such group, with near names.
        """
        if len(group) == 1 and len(self.places) > 1:  # '{north,f}' of no type, which PostgreSQL takes for a text
            group = tuple(items_of(group[0] or "") or group)
        if len(group) != len(self.places):
            raise DPError(
                SHAPE,
                f"a group of this release has {_counted(len(self.places))}, {', '.join(self.names)}; {shown(group)} has"
                f" {len(group)}",
                f"Write each as the first one is: {self._example()}",
            )
        found: dict[int, int] = {}
        for name, place, value in zip(self.names, self.places, group, strict=True):
            at = self._at(name, self.domains[place], value)
            if found.setdefault(place, at) != at:
                raise DPError(
                    OUT_OF_RANGE,
                    f"{name} has two values in {shown(group)}",
                    "Write the same one twice.",
                )
        return sum(at * self.strides[place] for place, at in found.items())

    def _example(self) -> str:
        first = [_first(self.domains[place]) for place in self.places]
        return first[0] if len(first) == 1 else f"ARRAY[{', '.join(first)}]"

    def _at(self, name: str, domain: Sequence[str | None], value: str | None) -> int:
        """The place of a value in its domain: by its text, or by another text of the same boolean or number."""
        if value in domain:
            return domain.index(value)
        if value is not None:
            if set(domain) <= {"t", "f", None} and (same := _BOOLEANS.get(value.strip().lower())) in domain:
                return domain.index(same)
            number = _number(value)
            if number is not None:
                for place, one in enumerate(domain):
                    if one is not None and _number(one) == number:
                        return place
        raise _unknown(name, domain, value)


def shown(group: Group) -> str:
    """A group as a message has it: its values."""
    return ", ".join("NULL" if value is None else value for value in group)


def values_of(text: Any, member: str) -> Group:
    """A group as a request has it: a text or NULL of one key, a list of them of several."""
    items = text if isinstance(text, list) else [text]
    if not items or not all(item is None or isinstance(item, str) for item in items):
        raise DPError(
            SHAPE,
            f"{member} is no text and no array of texts",
            "SELECT * FROM dp_compare('Sales', 'IT')",
        )
    return tuple(items)


def _unknown(name: str, domain: Sequence[str | None], value: str | None) -> DPError:
    if value is None:
        return DPError(
            OUT_OF_RANGE,
            f"{name} has no NULL group in this release",
            f"Its first one is {_first(domain)}.",
        )
    declared = [one for one in domain if one is not None]
    by_lower: Mapping[str, str] = {one.lower(): one for one in reversed(declared[:MOST_SEARCHED])}
    near = [by_lower[one] for one in get_close_matches(value.lower(), by_lower, NAMED, 0.5)]
    hint = f"Did you mean {' or '.join(map(_quoted, near))}?" if near else f"Its first one is {_first(domain)}."
    return DPError(OUT_OF_RANGE, f"{name} has no group {_quoted(value)} in this release", hint)


def _first(domain: Sequence[str | None]) -> str:
    return "NULL" if domain[0] is None else _quoted(domain[0])


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _counted(keys: int) -> str:
    return "one key" if keys == 1 else f"{keys} keys"


def _number(value: str) -> Decimal | None:
    try:
        found = Decimal(value)
    except InvalidOperation:
        return None
    return found if found.is_finite() else None
