"""Turbo's answers as people see them: post-processing of released values and public facts (composition.md §9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pg_epsilon.accounting.words import notice_text
from pg_epsilon.decimals import plain
from pg_epsilon.mechanisms.estimators import EXTRA_DIGITS, digits_of, text
from pg_epsilon.mechanisms.group_by import groups, reading_order
from pg_epsilon.noise import LATTICE_MAX, LATTICE_MIN
from pg_epsilon.query.released import text_of
from pg_epsilon.query.request import Request
from pg_epsilon.turbo.catalog import View
from pg_epsilon.turbo.request import Asked, Batch, Shape, path_text
from pg_epsilon.turbo.retention import told
from pg_epsilon.turbo.view import Answer

Answers = Sequence[Sequence[Sequence[Answer]]]
"""Of each batch, of each group of a window: the answers of its queries."""

Cell = tuple[str, Fraction, Fraction | None]
Table = Sequence[Sequence[Cell]]
"""Of each group, by its number, one cell for each aggregate that was asked for."""

OUTSIDE = "rows outside the declared domains are in no bin and are left out"


def _value(batch: Batch, cell: int, answers: Sequence[Answer]) -> Fraction:
    """A batch's answer for one group, in the aggregate's unit."""
    terms = zip(batch.cells[cell], answers, strict=True)
    return sum((answer.rows(query.unit) * worth for (worth, query), answer in terms), Fraction(0))


def _width(batch: Batch, cell: int) -> Fraction:
    """How far a group's answer moves when each of its queries is off by one row."""
    return sum((abs(worth) for worth, _ in batch.cells[cell]), Fraction(0))


def _shown(value: Fraction, shape: Shape) -> str:
    if shape.function == "avg":
        return text(value, min(digits_of(shape.step) + EXTRA_DIGITS, 18))
    if shape.function == "count" or shape.whole:
        return str(min(max(round(value), LATTICE_MIN), LATTICE_MAX))
    return text(round(value / shape.step) * shape.step, digits_of(shape.step))


def _cell(asked: Asked, shape: Shape, cell: int, answers: Answers, tolerance: Fraction) -> Cell:
    """(The text, the value, how far it may be off: alpha ñ times the width; None if no bound holds) of one group."""
    values = [_value(asked.batches[b], cell, answers[b][cell]) for b in shape.batches]
    width = _width(asked.batches[shape.batches[0]], cell)
    if shape.function != "avg":
        return _shown(values[0], shape), values[0], tolerance * width
    total, count = values
    mean = min(max(total / max(count, Fraction(1)), shape.low), shape.high)
    off = tolerance * (width + abs(mean)) / (count - tolerance) if count > tolerance else None
    return _shown(mean, shape), mean, off


def table(view: View, asked: Asked, answers: Sequence[Answers]) -> Table:
    """The cells of every group, by its number, one for each aggregate of the request. answers: of each window."""
    nothing = [[[Answer(0, "trivial")] * len(cell) for cell in batch.cells] for batch in asked.batches]
    found = [
        (own, Fraction(view.alpha * _scale(view, first, last)))
        for own, (first, last) in zip(answers, asked.windows.spans, strict=True)
    ]
    cells = []
    for window, cell in asked.windows.cells:
        own, tolerance = (nothing, Fraction(0)) if window is None else found[window]
        cells.append([_cell(asked, asked.shapes[place], cell, own, tolerance) for place in asked.places])
    return cells


def _scale(view: View, first: int, last: int) -> int:
    return sum(view.parts[part].scale for part in range(first, last + 1))


def document(
    request: Request,
    view: View,
    asked: Asked,
    cells: Table,
    *,
    request_id: str,
    paths: Sequence[str],
    charge: Mapping[str, str],
    accounts: str,
    left: Mapping[str, str],
) -> dict[str, Any]:
    """The answer document (docs/internals.md §1). cells: of `table`; request_id: under which the answer is kept."""
    names = [key.domain for key in request.keys]
    order, labels = reading_order(names, request.places), groups(names)
    rows = [
        [*(labels[number][place] for place in request.places), *(shown for shown, _, _ in cells[number])]
        for number in order
    ]
    n, m = len(request.places), len(request.aggregates)
    sure = request.confidence <= 1 - view.beta
    return {
        "request_id": request_id,
        **({"release": text_of(request_id, request.places, request.numbers)} if n else {}),
        "keys": n,
        "columns": [f"k{i}" for i in range(1, n + 1)] + [f"a{i}" for i in range(1, m + 1)],
        "names": [request.keys[place].name for place in request.places] + [a.name for a in request.aggregates],
        "rows": rows,
        **({"bars": [_bars(cells[number], asked, sure=sure) for number in order]} if request.bars else {}),
        "notice": notice(request, view, asked, paths=paths, charge=charge, accounts=accounts, left=left),
    }


def presentation(request: Request, view: View, asked: Asked, cells: Table, paths: Sequence[str]) -> dict[str, Any]:
    """What `answer.again` and a comparison need of a grouped answer, as JSON (docs/internals.md §1).

    Its bars are the view's own: within alpha ñ, each with confidence 1 - beta, or all together where `uniform` says so.
    """
    margin = _margin(view, asked)
    return {
        "kind": "block",
        "call": request.call,
        "confidence": plain(1 - view.beta),
        "keys": [[key.name, key.domain] for key in request.keys],
        "order": request.places,
        "aggregates": request.numbers,
        "names": [aggregate.name for aggregate in request.aggregates],
        "values": [[shown for shown, _, _ in row] for row in cells],
        "bars": [_bars(row, asked, sure=True) for row in cells],
        "uniform": grade(paths) == "uniform",
        "facts": {**({} if margin is None else {"margin": margin}), "warnings": _warnings(request, view, asked)},
    }


def as_of(view: View, asked: Asked) -> str:
    """Since when the counts of its partitions stand: of the oldest one."""
    return min(view.parts[part].as_of for part in range(asked.first, asked.last + 1))


def _bars(row: Sequence[Cell], asked: Asked, *, sure: bool) -> list[tuple[str | None, str | None, None]]:
    return [_bar(one, asked.shapes[place], sure) for one, place in zip(row, asked.places, strict=True)]


def _bar(cell: Cell, shape: Shape, sure: bool) -> tuple[str | None, str | None, None]:
    """Within alpha ñ except with probability beta: no bar for more confidence than that."""
    _, value, off = cell
    if off is None or not sure:
        return None, None, None
    return _shown(value - off, shape), _shown(value + off, shape), None


def notice(
    request: Request,
    view: View,
    asked: Asked,
    *,
    paths: Sequence[str],
    path: str | None = None,
    charge: Mapping[str, str],
    accounts: str,
    left: Mapping[str, str],
) -> dict[str, Any]:
    """What may be said of the call: path and PASS or FAIL after the commit, charge, margin and grade, what is left.

    path: in words, those of `paths` if None.
    """
    margin = _margin(view, asked)
    info: dict[str, Any] = {
        "call": request.call,
        "relation": request.source.shape,
        "where": request.predicate,
        "keys": [request.keys[place].name for place in request.places],
        "groups": request.cells if request.keys else None,
        "path": path_text(paths) if path is None else path,
        "mechanism": "turbo",
        "charge": dict(charge),
        "accounts": accounts,
        **({} if margin is None else {"margin": margin}),
        "confidence": plain(1 - view.beta),
        "grade": grade(paths),
        "left": dict(left),
        "as_of": as_of(view, asked),
        "warnings": _warnings(request, view, asked),
        "aggregates": [{"aggregate": a.name, "mechanism": "turbo"} for a in request.aggregates],
    }
    info["text"] = notice_text(info)
    return info


def _warnings(request: Request, view: View, asked: Asked) -> list[str]:
    """What every answer says of its window, of rows that are not counted, and of those counted though they are gone."""
    rounded = [] if asked.said is None else [asked.said]
    return [*rounded, *told(request.policy, view, asked.first, asked.last), OUTSIDE]


def _margin(view: View, asked: Asked) -> str | None:
    """How far the widest answer that is no average may be off; None: there are averages only."""
    shown = [asked.batches[shape.batches[0]] for shape in asked.shapes if shape.function != "avg"]
    if not shown:
        return None
    scale = max((_scale(view, first, last) for first, last in asked.windows.spans), default=0)
    widths = [_width(batch, cell) for batch in shown for cell in range(len(batch.cells))]
    margin = Fraction(view.alpha * scale) * max(widths, default=Fraction(0))
    return plain(Decimal(margin.numerator) / Decimal(margin.denominator))


def grade(paths: Sequence[str]) -> str:
    """For which questions the margin holds (composition.md §7.3); of several parts, what holds for all of them.

    uniform: all of a class together, also those chosen after looking: answers of synopses, and public ones. oblivious:
    questions that were fixed before the noise was drawn: answers by noise, stored ones, estimates that passed.
    """
    return "uniform" if set(paths) <= {"synopsis", "trivial"} else "oblivious"


_CANDIDATES: Mapping[str, str] = {
    "bypass": "bypass",
    "node": "noise per node",
    "synopsis": "a synopsis, paid by dp_planner",
    "epoch": "histogram, a new epoch of the sparse vector",
    "hard": "noise after a FAIL",
}


def candidates_text(whys: Sequence[str], paths: Sequence[str]) -> str:
    """The paths that a dry run cannot exclude, each once."""
    words = [_CANDIDATES.get(why, why) for why in whys]
    if "hard" in whys and "epoch" not in whys:
        words.insert(0, "histogram")
    return ", ".join(dict.fromkeys([*words, *([path_text(paths)] if paths else [])])) or "exact"
