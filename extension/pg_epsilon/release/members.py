"""Whether a question is about sets of a published family's classes: public facts (numeric-release.md §0.0).

Any condition on the family's columns is one about classes, as long as it cuts none: it is evaluated at their declared
values by PostgreSQL itself (query/attributes.py). The other conditions are those of the family, all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.errors import DPError
from pg_epsilon.query.aggregates import COLUMN, ROWS, Aggregate
from pg_epsilon.query.attributes import Attribute, NotBins, attribute, key_of_bins, truth
from pg_epsilon.query.domain import key_sql
from pg_epsilon.query.request import Request
from pg_epsilon.query.types import Texts
from pg_epsilon.release.ask import Family
from pg_epsilon.release.spreads import SPREADS, too_many

Bits = npt.NDArray[np.bool_]
MOST_CELLS = 10_000  # groups times aggregates of one question
MOST_AVERAGES = 1_000  # whose bars take some twenty milliseconds each
MOST_BITS = 2**26  # the same times classes
ITSELF, EVERY, PRESENT, AVERAGE, SPREAD = "itself", "rows", "present", "average", "spread"
QUOTIENTS = (AVERAGE, SPREAD)


@dataclass(frozen=True)
class Member:
    """One aggregate of a question.

    way: the family's own aggregate, all rows, those with a value, or their average. bits: its classes, over the axes.
    """

    aggregate: Aggregate
    way: str
    bits: Bits

    @property
    def classes(self) -> int:
        return int(self.bits.sum())


def question(request: Request, family: Family) -> dict[str, Any]:
    """What a family is about, whatever the budget and the state of policy and data."""
    weights = {"mechanism": family.mechanism} if family.mechanism != "cells" else {}
    return {
        **weights,
        "from": request.source.sql,
        "where": sorted(term.sql for term in request.conjuncts),
        "aggregate": family.aggregate.canonical(),
        "columns": [axis.name for axis in family.axes],
    }


def state(request: Request) -> dict[str, Any]:
    """The policy and the data that a release is of."""
    policies = [one.digest for one in request.source.relations]
    return {"policies": policies, "data_version": list(request.data_version)}


Table = tuple[tuple[Member, ...], ...]
"""Of each group, by its number, its aggregates as they were asked; of a question without keys one group."""


def members(request: Request, facts: Mapping[str, Any], texts: Texts) -> Table:
    """The question's aggregates as sets of classes. NotBins, with the reason, where it is about anything else.

    request: of one relation. facts: of a family of the same relation.
    """
    about = facts["question"]
    if request.source.sql != about["from"]:
        raise NotBins("it counts other rows of a unit")
    if state(request) != facts["state"]:
        raise NotBins("its policy or its data have changed since")
    rest = [term.sql for term in request.conjuncts]
    for one in about["where"]:
        if one not in rest:
            raise NotBins("its own conditions are not among those asked")
        rest.remove(one)
    attributes = _attributes(request, facts)
    if any(list(one.keys) != keys for one, (_, keys) in zip(attributes, facts["classes"], strict=True)):
        raise NotBins("its classes are declared otherwise now")
    if len(request.aggregates) * request.cells > MOST_AVERAGES and any(a.function == "avg" for a in request.aggregates):
        raise NotBins("the question has too many averages")
    size = prod(len(one.keys) for one in attributes) * request.cells * len(request.aggregates)
    if request.cells * len(request.aggregates) > MOST_CELLS or size > MOST_BITS:
        raise NotBins("the question has too many groups")
    where = _all(rest, attributes, texts)
    own = [_member(one, about["aggregate"], where, attributes, texts) for one in request.aggregates]
    if any(one.way == SPREAD for one in own) and not facts.get("exact"):
        raise NotBins("variances need a family of variances: its values share cells")
    if any(one.way == AVERAGE for one in own) and "strategy" in facts:
        raise NotBins("averages need a family by cells or trees")
    if any(one.way == SPREAD for one in own) and too_many(len(facts["values"]), request.cells * len(own)):
        raise NotBins("the question has too many variances")
    groups = _groups(request, attributes, texts)
    return tuple(tuple(replace(one, bits=one.bits & group) for one in own) for group in groups)


def _attributes(request: Request, facts: Mapping[str, Any]) -> list[Attribute]:
    """The family's columns. NotBins for one on whose values conditions cannot be evaluated: a release needs less."""
    columns = request.policy.relation.columns
    try:
        return [attribute(columns[name]) for name, _ in facts["classes"]]
    except DPError as refused:
        raise NotBins(f"conditions on its classes cannot be evaluated: {refused.message}") from None


def _groups(request: Request, attributes: Sequence[Attribute], texts: Texts) -> list[Bits]:
    """The classes of each group, in the order of the declared keys."""
    sizes = [len(one.keys) for one in attributes]
    keys = []
    for key in request.keys:
        places, found = _key(key.sql, request, attributes, texts)
        shape = [size if place in places else 1 for place, size in enumerate(sizes)]
        keys.append([np.array([text == value for text in found]).reshape(shape) for value in key.domain])
    groups = []
    for group in product(*keys):
        bits = np.ones(sizes, bool)
        for one in group:
            bits = bits & one
        groups.append(bits)
    return groups


def _key(
    sql: str, request: Request, attributes: Sequence[Attribute], texts: Texts
) -> tuple[tuple[int, ...], Sequence[str | None]]:
    """(The attributes that a group key reads, its value on each of their classes)."""
    columns = request.policy.relation.columns
    for place, one in enumerate(attributes):
        if sql == key_sql(columns[one.name]):
            return (place,), one.keys
    return key_of_bins(sql, attributes, texts)


def _member(
    aggregate: Aggregate, own: Mapping[str, Any], where: Bits, attributes: Sequence[Attribute], texts: Texts
) -> Member:
    bits = where if aggregate.filter is None else where & _all([aggregate.filter], attributes, texts)
    asked = replace(aggregate, filter=None).canonical()
    if aggregate.function == "avg" and asked == {("avg" if key == "sum" else key): value for key, value in own.items()}:
        return Member(aggregate, AVERAGE, bits)
    if aggregate.function in SPREADS and asked == {
        (aggregate.function if key == "sum" else key): value for key, value in own.items()
    }:
        return Member(aggregate, SPREAD, bits)
    plain = aggregate.function == "count" and not aggregate.parameters.canonical()
    if asked == dict(own):
        return Member(aggregate, ITSELF, bits)
    if plain and aggregate.of == ROWS and own.get("count") != COLUMN:
        return Member(aggregate, EVERY, bits)
    if plain and aggregate.of == COLUMN and "sum" in own and own.get("argument") == aggregate.argument:
        return Member(aggregate, PRESENT, bits)
    raise NotBins(f"{aggregate.name} is not what it sums up")


def _all(conditions: Sequence[str], attributes: Sequence[Attribute], texts: Texts) -> Bits:
    """The classes that meet all conditions."""
    sizes = [len(one.keys) for one in attributes]
    found = np.ones(sizes, bool)
    for condition in conditions:
        places, bits = truth(condition, attributes, texts)
        shape = [size if place in places else 1 for place, size in enumerate(sizes)]
        found &= (np.frombuffer(bits.encode(), np.uint8) == ord("1")).reshape(shape)
    return found


def digest(bits: Bits) -> int | None:
    """A set of classes as a number of 64 bits, signed. None: it is no product of sets of the axes, or is empty."""
    axes = [bits.any(axis=tuple(other for other in range(bits.ndim) if other != place)) for place in range(bits.ndim)]
    whole = np.ones((), bool)
    for one in axes:
        whole = whole[..., None] & one
    return _together([_packed(one) for one in axes]) if bits.any() and bool((whole == bits).all()) else None


def of_grid(facts: Mapping[str, Any]) -> bool:
    """Whether a family answers the queries of its grid alone, and only who released it: there are no cells to add."""
    return any(way in facts for way in ("weights", "singly", "fitted"))


def digest_of(masks: Sequence[str]) -> int:
    """Of a set of classes, by its mask on every axis, none of them empty."""
    return _together([_packed(np.frombuffer(one.encode(), np.uint8) == ord("1")) for one in masks])


def digests(family: Family) -> list[int]:
    """Those of the queries of a family's grid, each once; none of weighted ones, which are no sets of classes."""
    if family.weights is not None:
        return []
    each = [
        [_packed(np.frombuffer(one.encode(), np.uint8) == ord("1")) for one in axis.different] for axis in family.masks
    ]
    different = set(zip(*(axis.of for axis in family.masks), strict=True))
    return sorted({_together([own[place] for own, place in zip(each, places, strict=True)]) for places in different})


def _packed(bits: npt.NDArray[Any] | np.bool_) -> bytes:
    return blake2b(np.packbits(bits).tobytes(), digest_size=16).digest()


def _together(axes: Sequence[bytes]) -> int:
    return int.from_bytes(blake2b(b"".join(axes), digest_size=8).digest(), "big", signed=True)
