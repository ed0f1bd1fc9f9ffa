"""Which sums of blocks a workload's thresholds, ranges or matrix are, on the lattice (sum-workloads.md §0, §2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import pairwise
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.query import members
from pg_epsilon.query.bounds import GS_MAX, Lattice
from pg_epsilon.workload.runs import Rows, Runs

EXAMPLES = {  # what to type, by the argument or option that is wrong
    "thresholds": "thresholds => '{30000,40000,50000}'",
    "ranges": 'ranges => \'{"[0,30000)","[30000,60000)"}\'',
    "workload": "workload => '{{1,0},{-1,1}}' with thresholds => '{30000,40000}'",
    "theta": "options => '{\"theta\": 100000}', or one of none, svt, exponential and recursive.",
    "strategy": "Of two buckets: options => '{\"strategy\": [[1,1],[0,1]]}'.",
    "weights": "Of two queries: options => '{\"weights\": [1,4]}'.",
}
Shape = tuple[tuple[int, ...], Rows, tuple[tuple[Decimal | None, Decimal | None], ...], bool]


def of_thresholds(values: Sequence[Decimal], lattice: Lattice) -> Shape:
    """Prefix sums: of values at most each threshold, in any order, within the declared bounds."""
    ends = [_at_most(value, lattice) for value in values]
    for value, end in zip(values, ends, strict=True):
        _check_within(value, end, lattice)
    cuts = (lattice.low - 1, *sorted(set(ends)))
    places = {cut: place for place, cut in enumerate(cuts)}
    rows = Runs((0,) * len(ends), tuple(places[end] for end in ends), len(cuts) - 1)
    return cuts, rows, tuple((None, value) for value in values), True


def of_ranges(texts: Sequence[Any], lattice: Lattice) -> Shape:
    """Sums over ranges; each edge keeps the side that the range gives it."""
    spans = []
    for text in texts:
        spans.append(_range(members.text(text, "ranges") or "", lattice))
    if not spans:
        raise DPError(OUT_OF_RANGE, "ranges is empty", "ranges => '{\"[0,30000)\"}'")
    cuts = cuts_of([(low, high) for low, high, _ in spans], lattice)
    places = {cut: place for place, cut in enumerate(cuts)}
    starts, ends = zip(*((places[low], places[end_of(high, cuts)]) for low, high, _ in spans), strict=True)
    rows = Runs(starts, ends, len(cuts) - 1)
    return cuts, rows, tuple(edges for _, _, edges in spans), False


def cuts_of(spans: Sequence[tuple[int, int | None]], lattice: Lattice) -> tuple[int, ...]:
    """The cuts of queries over the integers above a first and up to a last one; None: all above.

    The last cut is then above the upper bound and every other end, so that values beyond them are in the last block.
    """
    cuts = {lattice.low - 1, *(low for low, _ in spans), *(high for _, high in spans if high is not None)}
    if any(high is None for _, high in spans):
        cuts.add(max(lattice.high, *cuts) + 1)
    return tuple(sorted(cuts))


def end_of(high: int | None, cuts: Sequence[int]) -> int:
    return cuts[-1] if high is None else high


def _range(text: str, lattice: Lattice) -> tuple[int, int | None, tuple[Decimal | None, Decimal | None]]:
    """(last integer before the range, last integer in it, its ends) of a numrange as PostgreSQL writes it."""
    inner = text[1:-1].replace('"', "")
    if len(text) < 3 or text[0] not in "[(" or text[-1] not in "])" or inner.count(",") != 1:
        raise DPError(OUT_OF_RANGE, "a range is empty or of an unknown form", "ranges => '{\"[0,30000)\"}'")
    low_text, high_text = inner.split(",")
    low = number(low_text, "ranges", signed=True) if low_text else None
    high = number(high_text, "ranges", signed=True) if high_text else None
    first, last = lattice.low - 1, None
    if low is not None:
        first = max(first, _at_most(low, lattice) if text[0] == "(" else _below(low, lattice))
    if high is not None:
        last = _at_most(high, lattice) if text[-1] == "]" else _below(high, lattice)
    if last is not None and last > GS_MAX:
        raise DPError(
            OUT_OF_RANGE,
            f"the range {text[:60]} ends far above the declared bounds",
            "Leave its upper end open: '[0,)'.",
        )
    if first >= (lattice.high if last is None else min(last, lattice.high)):
        raise DPError(
            OUT_OF_RANGE,
            f"the range {text[:60]} holds no value within the declared bounds",
            f"Values lie between {_shown(lattice.low, lattice)} and {_shown(lattice.high, lattice)}.",
        )
    return first, last, (low, high)


def of_matrix(lines: Sequence[Any], thresholds: Sequence[Decimal], lattice: Lattice, *, merged: bool) -> Shape:
    """Any real matrix over the buckets (below the first threshold, between neighbours).

    merged: neighbouring buckets of equal weights in every row are one, which loses nothing (§8.5).
    """
    if any(b <= a for a, b in pairwise(thresholds)):
        raise DPError(
            OUT_OF_RANGE,
            "the thresholds of a matrix must be in ascending order",
            "thresholds => '{30000,40000,50000}': they are the upper ends of its columns.",
        )
    cuts, _, _, _ = of_thresholds(thresholds, lattice) if thresholds else ((), (), (), False)
    rows = []
    for line in lines:
        weights = [Fraction(number(str(value), "workload", signed=True)) for value in listed(line, "workload")]
        if len(weights) != len(cuts) - 1 or not any(weights):
            raise DPError(
                OUT_OF_RANGE,
                "each row of a workload needs a weight for each threshold, not all of them 0",
                "workload => '{{1,0},{1,1}}' with thresholds => '{30000,40000}'.",
            )
        rows.append(tuple(weights))
    if not rows:
        raise DPError(OUT_OF_RANGE, "the workload has no row", "workload => '{{1,0},{1,1}}'")
    kept = _different(rows) if merged else range(len(cuts) - 1)
    rows = [tuple(row[column] for column in kept) for row in rows]
    return (cuts[0], *(cuts[column + 1] for column in kept)), tuple(rows), ((None, None),) * len(rows), False


def _different(rows: Sequence[tuple[Fraction, ...]]) -> list[int]:
    """The columns but those that are equal to the next one."""
    columns = list(zip(*rows, strict=True))
    following = [*columns[1:], None]
    return [place for place, (one, other) in enumerate(zip(columns, following, strict=True)) if one != other]


def _at_most(value: Decimal, lattice: Lattice) -> int:
    """The last lattice integer whose value is at most this; exact, in rational numbers."""
    return math.floor(Fraction(value) / lattice.step)


def _below(value: Decimal, lattice: Lattice) -> int:
    return math.ceil(Fraction(value) / lattice.step) - 1


def _check_within(value: Decimal, end: int, lattice: Lattice) -> None:
    if not lattice.low <= end <= lattice.high:
        raise DPError(
            OUT_OF_RANGE,
            f"the threshold {value} lies outside the declared bounds",
            f"Values lie between {_shown(lattice.low, lattice)} and {_shown(lattice.high, lattice)}.",
        )


def _shown(end: int, lattice: Lattice) -> str:
    return f"{float(end * lattice.step):g}"


def numbers(found: Any, name: str, *, signed: bool = False) -> list[Decimal]:
    return [number(str(value), name, signed=signed) for value in listed(found, name)] if found is not None else []


def example(name: str) -> str:
    """What to type for an argument or an option that is a number, or a list of them."""
    return EXAMPLES.get(name, f"options => '{{\"{name}\": 0.1}}'")


def listed(found: Any, name: str) -> list[Any]:
    """An argument or an option that is a list; DP003 with what to type."""
    return members.items(found, name, example(name))


def number(text: str, name: str, *, signed: bool = False) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or abs(number) > 10**18 or (number < 0 and not signed):
        raise DPError(OUT_OF_RANGE, f"{name} must be numbers, not NULL", example(name))
    return number
