"""The weights of a family's queries: an expression of parameters, evaluated at every class (numeric-release.md §6).

A weight is public: it is written by who asks, over columns whose values are declared. PostgreSQL evaluates it, once for
each choice of the parameters that it names, with these as constants; no row is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Protocol

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.query.attributes import Attribute, NotBins, attribute, texts_of_bins
from pg_epsilon.query.expression import compile_expression
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.literals import quote
from pg_epsilon.query.parse import scan
from pg_epsilon.query.types import NUMBERS
from pg_epsilon.release.classes import Axis
from pg_epsilon.release.template import WEIGHED, Template, Weight

MOST_DIFFERENT = 1_000  # choices of a weight's parameters, each of which is evaluated by itself
MOST_VALUES = 1_000_000  # of all of them, at all classes of their columns
MOST_READ = 5_000_000  # the same of all sets of classes that each is asked of
_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?\s*", re.ASCII)
_SCALE = "Divide it by the largest value that it has, and multiply the answers by that; of negative weights ask apart."


class Masked(Protocol):
    """Which classes of an axis each query reads (sets.Masks)."""

    @property
    def different(self) -> tuple[str, ...]: ...
    @property
    def of(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Weights:
    """Of each query what the rows of each class count, from 0 to 1.

    places: of the axes that the weight reads, ascending. different: weights over the classes of these axes, row-major;
    0 where no query with that weight reads the class. of: the number of each query's.
    """

    places: tuple[int, ...]
    different: tuple[tuple[float, ...], ...]
    of: tuple[int, ...]


def weights_of(
    template: Template,
    axes: Mapping[str, Axis],
    masks: Sequence[Masked],
    rows: Sequence[Sequence[str]],
    head: Head,
) -> Weights | None:
    """Those of the queries of a grid; None where the family has no weight.

    axes: as the query names their columns. masks: of each of them, once. rows: of the grid. DP003 for what cannot be
    evaluated or is no number, DP004 without declared values, DP005 for too many weights, for a column whose classes are
    ranges, and for a weight that is not between 0 and 1 at a class that its query reads.
    """
    if template.weight is None:
        return None
    if not axes:
        raise DPError(SHAPE, "the weight names no column", WEIGHED)
    names = list(dict.fromkeys(axis.name for axis in axes.values()))
    own = {axes[text].name: axes[text] for text in template.weight.columns}
    places = tuple(sorted(names.index(name) for name in own))
    read = [own[names[place]] for place in places]
    attributes = [_attribute(axis, head) for axis in read]
    numbers = sorted(template.weight.parameters)
    asked = [tuple(row[number - 1] for number in numbers) for row in rows]
    different = {choice: place for place, choice in enumerate(dict.fromkeys(asked))}
    own_masks = [masks[place] for place in places]
    sets: dict[tuple[str, ...], set[tuple[int, ...]]] = {choice: set() for choice in different}
    for number, choice in enumerate(asked):
        sets[choice].add(tuple(mask.of[number] for mask in own_masks))
    _check_size(len(different), sum(map(len, sets.values())), prod(axis.size for axis in read))
    pieces = _pieces(template.weight)
    found = []
    for choice in different:
        values = dict(zip(numbers, choice, strict=True))
        text = "".join(one if isinstance(one, str) else _constant(values[one]) for one in pieces)
        whole = _evaluated(text, attributes, [axis.size for axis in read], head)
        found.append(
            tuple(one if seen else 0.0 for one, seen in zip(whole, _seen(own_masks, sets[choice]), strict=True))
        )
        _check_range(found[-1], values, read)
    return Weights(places, tuple(found), tuple(different[choice] for choice in asked))


def _seen(masks: Sequence[Masked], sets: Iterable[tuple[int, ...]]) -> list[bool]:
    """Of each class over all these axes, whether it is in one of the sets, each given by the numbers of its masks."""
    found: list[bool] = []
    for numbers in sets:
        each = product(*(mask.different[number] for mask, number in zip(masks, numbers, strict=True)))
        bits = ["0" not in one for one in each]
        found = [one or other for one, other in zip(found, bits, strict=True)] if found else bits
    return found


def _attribute(axis: Axis, head: Head) -> Attribute:
    """The column as attributes.py evaluates expressions on it. DP005 where its classes are not single values."""
    found = attribute(head.policy.relation.columns[axis.name])
    if not found.single or list(found.keys) != list(axis.key.domain):
        raise DPError(
            OUT_OF_RANGE,
            f"a weight of {axis.name} is not known: its declared values are ranges",
            f"Ask the owner for a domain or bounds of {axis.name}, or compare it with parameters in WHERE.",
        )
    return found


def _check_size(many: int, sets: int, classes: int) -> None:
    if many > MOST_DIFFERENT or many * classes > MOST_VALUES or sets * classes > MOST_READ:
        raise DPError(
            OUT_OF_RANGE,
            f"{many} different weights over {classes} classes: at most {MOST_DIFFERENT}, and {MOST_VALUES} values",
            "Ask the grid in parts: after the first one they cost nothing.",
        )


def _pieces(weight: Weight) -> list[str | int]:
    """The text between its parameters, and their numbers."""
    found: list[str | int] = []
    end = 0
    for token in scan(weight.text):
        if token.name == "PARAM":
            found += [weight.text[end : token.start], int(weight.text[token.start + 1 : token.end + 1])]
            end = token.end + 1
    return [*found, weight.text[end:]]


def _constant(value: str) -> str:
    """A value of the grid as if it had been written in the query."""
    return f"({value.strip()})" if _NUMBER.fullmatch(value) else quote(value)


def _evaluated(text: str, attributes: Sequence[Attribute], sizes: Sequence[int], head: Head) -> tuple[float, ...]:
    """A weight over the classes of all its columns; 0 where it is NULL, for SQL leaves such rows out of a sum."""
    try:
        compiled = compile_expression(text, head.scope, head.fold)
    except DPError as refused:  # where it stands in our text says nothing to who wrote $1
        raise DPError(refused.sqlstate, f"the weight {text[:100]}: {refused.message}", refused.hint) from None
    if compiled.kind not in NUMBERS:
        raise DPError(SHAPE, f"the weight {text[:100]} is no number", "Write CASE WHEN condition THEN 1 ELSE 0 END.")
    try:
        places, found = texts_of_bins(f"({compiled.sql})::pg_catalog.float8", attributes, head.texts)
    except NotBins as reason:
        hint = "A weight is made of columns with declared values, constants and parameters."
        raise DPError(SHAPE, f"the weight {text[:100]} cannot be evaluated: {reason}", hint) from None
    values = [0.0 if one is None else float(one) for one in found]
    if len(places) == len(sizes):
        return tuple(values)
    shape, strides, stride = [sizes[place] for place in places], {}, 1
    for place, size in zip(reversed(places), reversed(shape), strict=True):
        strides[place] = stride
        stride *= size
    classes = product(*map(range, sizes))
    return tuple(values[sum(one[place] * step for place, step in strides.items())] for one in classes)


def _check_range(found: Sequence[float], values: Mapping[int, str], read: Sequence[Axis]) -> None:
    """DP005 of a weight outside 0 to 1, or NaN: all of it is public."""
    for place, one in enumerate(found):
        if not 0 <= one <= 1:
            shown, rest = [f"${number} = {value}" for number, value in values.items()], place
            for axis in reversed(read):
                rest, key = divmod(rest, axis.size)
                shown.append(f"{axis.name} = {axis.key.domain[key]}")
            words = "not a number" if math.isnan(one) else f"{one:g}"
            raise DPError(OUT_OF_RANGE, f"the weight is {words} where {', '.join(shown)[:200]}", _SCALE)
