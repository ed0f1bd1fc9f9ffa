"""sum(weight * x) of a plain question: which factors are a weight, and its value at every class (numeric-release.md
§6, §0.0 "Bars").

Both the question's argument and the family's are compiled SQL, in which a product is `(a * b)` of
numerics and nothing else looks like one. Public facts only: PostgreSQL evaluates the weight at the
declared values; no row is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pg_epsilon.query.attributes import Attribute, NotBins, texts_of_bins
from pg_epsilon.query.parse import scan
from pg_epsilon.query.types import NUMERIC, Texts

MOST_FACTORS = 16  # of one product
_CAST = f"::{NUMERIC.name}"

Array = npt.NDArray[np.float64]


def factors_of(sql: str) -> list[str]:
    """The factors of compiled SQL; of what is no product itself. NotBins for more than MOST_FACTORS."""
    found: list[str] = []
    stack = [sql]
    while stack:
        one = stack.pop()
        while one.endswith(_CAST):  # of an exact number, which it changes nothing of
            one = one.removesuffix(_CAST)
        halves = _halves(one)
        if halves is None:
            found.append(one)
        else:
            stack.extend(reversed(halves))
        if len(found) + len(stack) > MOST_FACTORS:
            raise NotBins(f"a product of more than {MOST_FACTORS} factors")
    return found


def _halves(sql: str) -> tuple[str, str] | None:
    """`(a * b)` -> a, b; None: it is no product."""
    if not (sql.startswith("(") and sql.endswith(")")):
        return None
    depth, stars = 0, []
    for token in scan(sql):
        if token.name == "ASCII_40":
            depth += 1
        elif token.name == "ASCII_41":
            depth -= 1
            if not depth and token.end + 1 < len(sql):
                return None
        elif depth == 1 and token.name == "ASCII_42":
            stars.append(token.start)
    if len(stars) != 1 or sql[stars[0] - 1 : stars[0] + 2] != " * ":
        return None
    return sql[1 : stars[0] - 1], sql[stars[0] + 2 : -1]


def rest_of(product: str, own: str | None) -> list[str] | None:
    """The factors of a product beside those of `own`, of which it has to have all; None: it has not.

    own: None: of nothing, so that all are left.
    """
    left = factors_of(product)
    for one in factors_of(own) if own is not None else ():
        if one not in left:
            return None
        left.remove(one)
    return left


def weights_at(
    factors: Sequence[str], bits: npt.NDArray[np.bool_], attributes: Sequence[Attribute], texts: Texts
) -> Array:
    """What the rows of each class count: a view of the shape of `bits`, the classes that are read.

    0 where the product is NULL, for SQL leaves such rows out of a sum. NotBins where it cannot be
    evaluated, or is not between 0 and 1 at a class that is read.
    """
    sql = " * ".join(f"({one}){_CAST}" for one in factors)
    places, found = texts_of_bins(f"({sql})::pg_catalog.float8", attributes, texts)
    shape = [len(one.keys) if place in places else 1 for place, one in enumerate(attributes)]
    values = np.array([0.0 if one is None else float(one) for one in found]).reshape(shape)
    others = tuple(place for place in range(bits.ndim) if place not in places)
    read = bits.any(axis=others, keepdims=True)
    outside = values[read & ~((values >= 0) & (values <= 1))]
    if outside.size:
        words = "not a number" if math.isnan(outside[0]) else f"{outside[0]:g}"
        raise NotBins(f"its weight is {words} at one of its classes, and not between 0 and 1")
    return np.broadcast_to(np.where(read, values, 0.0) + 0.0, bits.shape)
