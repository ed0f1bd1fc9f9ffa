"""Bias-corrected percentiles of redrawn noise, which promise nothing (dpxplain.md §5.4)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain.forms import Barred, Cell, Form, Halves, Linear

REPLICATES = range(100, 100_001)
"""How often noise may be redrawn."""

CLEAR = 5
"""Deviations that a count, or what stands below a division's line, has to be above 0."""

Statistic = Callable[[Sequence[float]], float]
Draws = Callable[[int], Sequence[float]]
_NORMAL = NormalDist()


def cells_of(form: Form) -> tuple[Cell, ...]:
    """The cells whose noise is redrawn; DP003 for an answer without cells."""
    if isinstance(form, Linear):
        return (form.cell,)
    if isinstance(form, Halves):
        return form.total, form.count
    if isinstance(form, Barred):
        raise DPError(
            SHAPE,
            "an answer without noise of its own cannot be redrawn",
            "Leave method out: its error bar is taken.",
        )
    return Cell(form.a, form.noise), Cell(form.b, form.noise)


def value_at(form: Form, numbers: Sequence[float]) -> float:
    """The answer that such released numbers give, not cut to any range; NaN for a count of 0."""
    if isinstance(form, Linear):
        return numbers[0] * float(form.step)
    if isinstance(form, Halves):
        count = numbers[1]
        return (float(form.centre) + numbers[0] / count) * float(form.step) if count else math.nan
    if isinstance(form, Barred):
        return form.value
    n = numbers[0] + numbers[1]
    share = numbers[0] / n if n else math.nan
    return (float(form.low) + float(form.high - form.low) * share) * float(form.step)


def check(form: Form, divides: bool) -> None:
    """DP005 unless the count of an average, or an answer that divides, is 5 deviations off 0."""
    cells = cells_of(form)
    if isinstance(form, Linear):
        clear = not divides or abs(form.cell.number) >= CLEAR * _deviation(form.cell)
    elif isinstance(form, Halves):
        clear = form.count.number >= CLEAR * _deviation(form.count)
    else:
        n = sum(cell.number for cell in cells)
        clear = n >= CLEAR * math.sqrt(2) * _deviation(cells[0])
    if not clear:
        raise DPError(
            OUT_OF_RANGE,
            f"a count is not {CLEAR} deviations of its noise above 0: it cannot be redrawn",
            "Leave method out, or compare larger groups.",
        )


def _deviation(cell: Cell) -> float:
    """At least that of the noise, lattice units."""
    return cell.noise.scale * (1.0 if cell.noise.is_gaussian else math.sqrt(2))


def interval(
    cells: Sequence[Cell], statistic: Statistic, miss: float, replicates: int, draws: Draws
) -> tuple[float, float]:
    """The ends by `replicates` redrawn vectors of released numbers.

    statistic: of released numbers, in the order of the cells; NaN is dropped. draws: gives n
    standard normals; one for each cell of a replicate, in order. With z0 the normal quantile of the
    share below the statistic as released: quantiles q at Phi(2 z0 +- z), the lower one the
    ceil(qB)-th smallest, the upper one the (floor(qB) + 1)-th. Both infinite if nothing is left.
    """
    centre = statistic([cell.number for cell in cells])
    normals = iter(draws(replicates * len(cells)))
    found = []
    for _ in range(replicates):
        found.append(statistic([cell.number + _scaled(cell, next(normals)) for cell in cells]))
    drawn = sorted(x for x in found if math.isfinite(x))
    size = len(drawn)
    if not size:
        return -math.inf, math.inf
    share = min(max(sum(x < centre for x in drawn) / size, 1 / (size + 1)), size / (size + 1))
    middle, z = 2 * _NORMAL.inv_cdf(share), _NORMAL.inv_cdf(miss / 2)
    first = math.ceil(_NORMAL.cdf(middle + z) * size)
    second = math.floor(_NORMAL.cdf(middle - z) * size) + 1
    return drawn[min(max(first, 1), size) - 1], drawn[min(max(second, 1), size) - 1]


def _scaled(cell: Cell, normal: float) -> float:
    """Noise of this cell from a standard normal: Laplace noise by the normal's own tail."""
    if cell.noise.is_gaussian:
        return cell.noise.scale * normal
    size = -math.log(math.erfc(min(abs(normal), 37.0) / math.sqrt(2)))
    return math.copysign(cell.noise.scale * size, normal)


def public_draws(seed: str) -> Draws:
    """Standard normals that the seed alone determines, so that an equal question finds the same.

    No privacy rests on them. SHAKE-256 of the seed, eight bytes a number, by the inverse of the
    normal distribution function.
    """

    def draws(size: int) -> list[float]:
        stream = hashlib.shake_256(seed.encode()).digest(8 * size)
        return list(_normals(stream))

    return draws


def _normals(stream: bytes) -> Iterator[float]:
    for start in range(0, len(stream), 8):
        bits = int.from_bytes(stream[start : start + 8], "big") >> 12
        yield _NORMAL.inv_cdf((bits + 0.5) / 2**52)
