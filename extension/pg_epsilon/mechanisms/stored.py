"""Estimators as JSON, so that a release can be shown again without its policy.

Values and error bars are functions of the released integers, the estimators and a confidence, all of them public
(composition.md §8).

A class is stored by name with its fields; only the classes of `_CLASSES` are, and none other is ever made of what was
stored. A closure, as a decision's, cannot be: Unstorable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.mechanisms.covering import Bound
from pg_epsilon.mechanisms.estimators import Average, Covering, Joined, Number, Quantile, Spread, Truncated
from pg_epsilon.mechanisms.presentation import Presentation
from pg_epsilon.mechanisms.r2t import Ladder
from pg_epsilon.mechanisms.r2t_join import JoinLadder
from pg_epsilon.mechanisms.ranks import Ranks

_CLASSES: Mapping[str, type[Any]] = {
    one.__name__: one
    for one in (
        Additive,
        Average,
        Bound,
        Covering,
        Joined,
        JoinLadder,
        Ladder,
        Number,
        Quantile,
        Ranks,
        Spread,
        Truncated,
    )
}
# Numbers whose text is exact.
_EXACT: Mapping[str, type[Any]] = {"Decimal": Decimal, "Fraction": Fraction}


class Unstorable(TypeError):
    """What is no value of a known class: the message names its class."""


class Unreadable(ValueError):
    """What is no text of `encode` of this version."""


def how(stored: Mapping[str, Any]) -> Presentation | None:
    """How the integers of a stored release become values, if it stored that; None: it stored the values themselves.

    stored: its presentation (answer.stored). Raises Unreadable.
    """
    if "estimators" not in stored:
        return None
    return Presentation(decode(stored["estimators"]), tuple(stored["places"]))


def encode(value: Any) -> Any:
    """An estimator, or a part of one, as JSON. Raises Unstorable.

    {"class": name, "value": text} for exact numbers, {"class": name, "fields": {…}} for the classes above; a tuple is a
    list; numbers of JSON, texts, booleans and null are themselves.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is tuple:
        return [encode(item) for item in value]
    name = kind.__name__
    if _EXACT.get(name) is kind:
        return {"class": name, "value": str(value)}
    if _CLASSES.get(name) is kind:
        return {"class": name, "fields": {one.name: encode(getattr(value, one.name)) for one in fields(value)}}
    raise Unstorable(name)


def decode(stored: Any) -> Any:
    """The inverse of `encode`; a list is a tuple. Raises Unreadable.

    A field that was added since, with a default, has the default: what it was before it could be chosen.
    """
    if isinstance(stored, list):
        return tuple(decode(item) for item in stored)
    if not isinstance(stored, dict):
        return stored
    name = str(stored.get("class"))
    exact, one, value, parts = _EXACT.get(name), _CLASSES.get(name), stored.get("value"), stored.get("fields")
    try:
        if exact is not None and set(stored) == {"class", "value"} and isinstance(value, str):
            return exact(value)
        if one is not None and set(stored) == {"class", "fields"} and isinstance(parts, dict):
            return one(**{field: decode(part) for field, part in parts.items()})
    except Unreadable:
        raise
    except (ArithmeticError, TypeError, ValueError) as error:
        raise Unreadable(f"{name}: {error}") from None
    raise Unreadable(f"{name:.40} with {', '.join(sorted(stored))}")
