"""Released answers for tests of comparisons, and laws of their noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from pg_epsilon.explain.forms import HALF, Cell, Form, Halves, Linear, Noise, Pair

NONE = Fraction(0)


def gaussian(value: float, sigma: float = 1.0, half: Fraction = HALF) -> Linear:
    return Linear(Cell(value, Noise("gaussian", sigma, half)))


def laplace(value: int, scale: float = 1.0) -> Linear:
    return Linear(Cell(value, Noise("laplace", scale)))


def halves(
    total: float,
    count: float,
    noise: Noise,
    low: float = 0,
    high: float = 1,
    centre: float = 0,
) -> Halves:
    """An average whose total and count have the same noise."""
    return Halves(Cell(total, noise), Cell(count, noise), Fraction(1), low, high, centre)


def vector_form(release: Mapping[str, Any], group: Any) -> Form:
    """A group of a case of fixtures/explain/vectors.json; its noise is continuous by default."""
    low, high = release.get("lo", 0), release.get("hi", 0)
    match release["form"]:
        case "gaussian":
            return gaussian(group, release["sigma"], NONE)
        case "dlap":
            return Linear(Cell(group, Noise("laplace", 1 / release["rate"], NONE)))
        case "halves":
            total = Cell(group["sum"], Noise("gaussian", release["sigma_sum"], NONE))
            count = Cell(group["count"], Noise("gaussian", release["sigma_count"], NONE))
            return Halves(total, count, Fraction(1), low, high, release.get("centre", 0))
        case "pair_gaussian":
            noise = Noise("gaussian", release["sigma"], NONE)
        case _:
            noise = Noise("laplace", release["scale"], Fraction(release["half_step"]))
    return Pair(group["a"], group["b"], noise, low, high)


def law(noise: Noise) -> Iterator[tuple[int, float]]:
    """(k, Pr[Z = k]) of one draw, of all but 1e-9 of the mass."""
    reach = math.ceil(7 * noise.scale if noise.is_gaussian else 25 * noise.scale) + 1
    sizes = {
        k: -((k / noise.scale) ** 2) / 2 if noise.is_gaussian else -abs(k) / noise.scale
        for k in range(-reach, reach + 1)
    }
    whole = sum(map(math.exp, sizes.values()))
    return ((k, math.exp(size) / whole) for k, size in sizes.items() if size > -21)
