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
from pg_epsilon.query.aggregates import COLUMN, ROWS, VALUE, Aggregate, Parameters
from pg_epsilon.query.attributes import Attribute, NotBins, attribute, key_of_bins, truth
from pg_epsilon.query.domain import key_sql
from pg_epsilon.query.request import Request
from pg_epsilon.query.types import Texts
from pg_epsilon.release.ask import Family
from pg_epsilon.release.products import Array, rest_of, weights_at
from pg_epsilon.release.sets import Sets
from pg_epsilon.release.spreads import SPREADS, too_many
from pg_epsilon.release.weights import Weights

Bits = npt.NDArray[np.bool_]
MOST_CELLS = 10_000  # groups times aggregates of one question
MOST_AVERAGES = 1_000  # whose bars take some twenty milliseconds each
MOST_WEIGHED = 200  # answers with weights, whose bars take up to a hundred milliseconds each
MOST_BITS = 2**26  # the same times classes
ITSELF, EVERY, PRESENT, AVERAGE, SPREAD = "itself", "rows", "present", "average", "spread"
QUOTIENTS = (AVERAGE, SPREAD)


@dataclass(frozen=True)
class Member:
    """One aggregate of a question.

    way: the family's own aggregate, all rows, those with a value, or their average. bits: its classes, over the axes.
    weights: what the rows of each of these classes count, from 0 to 1; None: 1.
    """

    aggregate: Aggregate
    way: str
    bits: Bits
    weights: Array | None = None

    @property
    def classes(self) -> int:
        return int(self.bits.sum())

    def within(self, group: Bits) -> Member:
        """The same of the classes of a group; where their weights are 0 or 1, these are a set of classes like any."""
        bits = self.bits & group
        if self.weights is None:
            return replace(self, bits=bits)
        bits &= self.weights > 0
        return replace(self, bits=bits, weights=None if (self.weights[bits] == 1).all() else self.weights)


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
    if any(one.weights is not None for one in own) and ("trees" in facts or "strategy" in facts):
        raise NotBins("weights need a release by cells")
    if sum(one.weights is not None for one in own) * request.cells > MOST_WEIGHED:
        raise NotBins("the question has too many weights")
    groups = _groups(request, attributes, texts)
    return tuple(tuple(one.within(group) for one in own) for group in groups)


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
    found = _weighed(aggregate, own, bits, attributes, texts)
    if found is None:
        raise NotBins(f"{aggregate.name} is not what it sums up")
    return found


def _weighed(
    aggregate: Aggregate, own: Mapping[str, Any], bits: Bits, attributes: Sequence[Attribute], texts: Texts
) -> Member | None:
    """sum(weight * x) of the family's own x, or sum(weight), which counts rows; None: it is neither.

    The asker's own clamp and steps are of the product, which the family knows nothing of.
    """
    plain = aggregate.function == "sum" and aggregate.of == VALUE and aggregate.parameters == Parameters()
    if not plain or aggregate.argument is None:
        return None
    argument = own.get("argument") if "sum" in own else None
    factors = rest_of(aggregate.argument, argument) if argument is not None else None
    if factors:
        return Member(aggregate, ITSELF, bits, weights_at(factors, bits, attributes, texts))
    if own.get("count") == COLUMN or factors is not None:
        return None
    way = ITSELF if "count" in own else EVERY
    return Member(aggregate, way, bits, weights_at(rest_of(aggregate.argument, None) or (), bits, attributes, texts))


def _all(conditions: Sequence[str], attributes: Sequence[Attribute], texts: Texts) -> Bits:
    """The classes that meet all conditions."""
    sizes = [len(one.keys) for one in attributes]
    found = np.ones(sizes, bool)
    for condition in conditions:
        places, bits = truth(condition, attributes, texts)
        shape = [size if place in places else 1 for place, size in enumerate(sizes)]
        found &= (np.frombuffer(bits.encode(), np.uint8) == ord("1")).reshape(shape)
    return found


def digest(bits: Bits, weights: Array | None = None) -> int | None:
    """A set of classes as a number of 64 bits, signed. None: it is no product of sets of the axes, or is empty.

    weights: of its classes, from 0 to 1; then of any set. What is told apart is what each class counts, so that it does
    not matter which classes are left out by a weight of 0.
    """
    if weights is not None:
        bits = bits & (weights > 0)
    axes = [bits.any(axis=tuple(other for other in range(bits.ndim) if other != place)) for place in range(bits.ndim)]
    if weights is None or bool((weights[bits] == 1).all()):
        whole = np.ones((), bool)
        for one in axes:
            whole = whole[..., None] & one
        same = bits.any() and bool((whole == bits).all())
        if same or weights is None:
            return _together([_packed(one) for one in axes]) if same else None
    if not bits.any():
        return None
    return _together([_packed(one) for one in axes] + _counted(np.where(bits, weights, 0.0)[np.ix_(*axes)]))


def _counted(counts: Array) -> list[bytes]:
    """What each class of a product of sets counts, by the axes along which it is not the same."""
    for place in range(counts.ndim):
        first = counts.take([0], place)
        if bool((counts == first).all()):
            counts = first
    shown = f"{counts.shape}".encode() + np.ascontiguousarray(counts, "<f8").tobytes()
    return [blake2b(shown, digest_size=16).digest()]


def of_grid(facts: Mapping[str, Any]) -> bool:
    """Whether a family answers the queries of its grid alone, and only who released it: there are no cells to add."""
    return any(way in facts for way in ("weights", "singly", "fitted"))


def digest_of(masks: Sequence[str], places: Sequence[int] = (), own: Sequence[float] | None = None) -> int | None:
    """`digest` of a query of a grid, by its mask on every axis, none of them empty; without weights never None.

    places, own: the axes that its weight reads, ascending, and the weight over their classes, row-major
    (weights.Weights); own: None: it has no weight.
    """
    bits = [np.frombuffer(one.encode(), np.uint8) == ord("1") for one in masks]
    if own is None:
        return _together([_packed(one) for one in bits])
    read = np.ones((), bool)
    for place in places:
        read = read[..., None] & bits[place]
    weights = np.asarray(own, np.float64).reshape(read.shape) * read
    if not (weights > 0).any():
        return None
    for at, place in enumerate(places):
        bits[place] = (weights > 0).any(axis=tuple(other for other in range(weights.ndim) if other != at))
    counts = weights[np.ix_(*(bits[place] for place in places))] if places else weights
    axes = [_packed(one) for one in bits]
    if bool((counts == 1).all()):
        return _together(axes)
    shape = [counts.shape[list(places).index(place)] if place in places else 1 for place in range(len(bits))]
    return _together(axes + _counted(counts.reshape(shape)))


def digests(family: Family) -> list[int]:
    """Those of the queries of a family's grid, each once. A plain question with the weight of one has its digest."""
    if family.weights is not None:
        return _digests_of_weighed(family.sets, family.weights)
    each = [
        [_packed(np.frombuffer(one.encode(), np.uint8) == ord("1")) for one in axis.different] for axis in family.masks
    ]
    different = set(zip(*(axis.of for axis in family.masks), strict=True))
    return sorted({_together([own[place] for own, place in zip(each, places, strict=True)]) for places in different})


def _digests_of_weighed(sets: Sets, weights: Weights) -> list[int]:
    """Queries may have the same set of classes and different weights; of those that read nothing there is none."""
    return sorted({one for one in each_of(sets, weights) if one is not None})


def each_of(sets: Sets, weights: Weights | None) -> list[int | None]:
    """`digest_of` each of the different queries of a grid; None of one in which no row counts."""
    own = dict(zip(sets.of, weights.of, strict=True)) if weights is not None else {}
    return [
        None
        if sets.is_empty(number)
        else digest_of(masks)
        if weights is None
        else digest_of(masks, weights.places, weights.different[own[number]])
        for number, masks in enumerate(sets.different)
    ]


def _packed(bits: npt.NDArray[Any] | np.bool_) -> bytes:
    return blake2b(np.packbits(bits).tobytes(), digest_size=16).digest()


def _together(axes: Sequence[bytes]) -> int:
    return int.from_bytes(blake2b(b"".join(axes), digest_size=8).digest(), "big", signed=True)
