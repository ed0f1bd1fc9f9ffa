"""What was drawn for an explanation → its rows, and what may be said of it; free."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pg_epsilon.decimals import plain
from pg_epsilon.explain import ranked
from pg_epsilon.explain.comparison import Comparison, number, told_difference
from pg_epsilon.explain.measure import Explaining, rows
from pg_epsilon.explain.method import ByCells
from pg_epsilon.explain.paid import Paid
from pg_epsilon.explain.ranked import Ranked
from pg_epsilon.explain.table import Row, denominator, sorted_rows
from pg_epsilon.explain.why import Why
from pg_epsilon.mechanisms.group_by import Measure

Cell = str | int | None
NO_SHARE = "the difference may be noise, so that no share of it is told"
UNBOUNDED = "no share of an expression is told, because one row could change it by any amount"
NO_CAUSE = "rows that go with a difference are no cause of it"


def document(measure: Measure, why: Why, raw: Sequence[int]) -> dict[str, Any]:
    """The member "explain" of an answer, rows in the table's order: explanation, share and its interval, ranks."""
    if isinstance(measure, Ranked):
        return {"rows": [[text, None, None, None, low, high] for text, low, high in ranked.rows(raw, measure)]}
    return _table(rows(raw, _own(measure)), _divisor(why))


def paid_document(asked: Paid) -> dict[str, Any]:
    """`document` of an explanation from what was paid: in the same order, of the same columns."""
    return _table(asked.top, told_difference(asked.comparison))


def cells_document(asked: ByCells, raw: Sequence[int]) -> dict[str, Any]:
    """The same of an explanation by marginals."""
    return _table(asked.answer(raw), _denominator(asked.why))


def _table(found: Sequence[Row], divisor: float | None) -> dict[str, Any]:
    """divisor: of influences; None: no share is told."""
    lines: list[list[Cell]] = []
    for text, shares, low, high in sorted_rows(found, divisor or 1.0):
        shown: list[Cell] = [number(share) if divisor else None for share in shares]
        lines.append([text, *shown, low, high])
    return {"rows": lines}


def paid_described(asked: Paid) -> tuple[dict[str, Any], list[str]]:
    """(Facts, sentences) of an explanation from what was paid: public, and what was released before."""
    comparison, divisor = asked.comparison, told_difference(asked.comparison)
    wide = max((row.high - row.low) / 2 for row in asked.top) / divisor if divisor else None
    facts = {
        **_compared(comparison, asked.weights),
        "rows": None,
        "sources": [one.request_id for one in asked.sources],
        "as_of": [one.as_of for one in asked.sources],
        "predicates": asked.predicates,
        "attributes": [test.name for test in asked.tests],
        "left_out": list(asked.missing),
        "k": asked.k,
        "l": asked.most,
        "confidence": plain(_decimal(comparison.question.confidence)),
        "half_width": None if wide is None else float(f"{wide:.4g}"),
    }
    width = "" if wide is None else f", each share is known to {wide:.3g} or better"
    sentences = [
        f"{asked.k} of {asked.predicates} predicates{width}, all at once at {facts['confidence']}",
        f"from {len(asked.sources)} of your answers, the oldest as of {min(one.as_of for one in asked.sources)};"
        " rows outside the declared values are not in them",
    ]
    if asked.missing:
        sentences.append(f"nothing was paid about {', '.join(asked.missing[:20])}")
    if not divisor:
        sentences.append(NO_SHARE)
    return facts, [*sentences, NO_CAUSE]


def described(measure: Measure, why: Why) -> tuple[dict[str, Any], list[str]]:
    """(Facts, sentences) for EXPLAIN, dp_plan, dp.last_answer and the NOTICE: public, and what was released before."""
    if isinstance(measure, Ranked):
        facts = _facts(measure, why, None)
        said = f"{measure.k} of {len(why.space)} predicates, each rank is known at {facts['confidence']}"
        return facts, [said, *_chosen(why), UNBOUNDED, NO_CAUSE]
    how, divisor = _own(measure), _divisor(why)
    half_width = float(how.margin / how.steps) / divisor if divisor else None
    facts = _facts(how, why, None if half_width is None else float(f"{half_width:.4g}"))
    width = "" if half_width is None else f", each share is known to {half_width:.3g}"
    sentences = [f"{how.k} of {len(why.space)} predicates{width} at {facts['confidence']}", *_chosen(why)]
    if not divisor:
        sentences.append(NO_SHARE)
    return facts, [*sentences, NO_CAUSE]


def cells_described(asked: ByCells) -> tuple[dict[str, Any], list[str]]:
    """(Facts, sentences) of an explanation by marginals. Facts are stored with what others are served too, so that they
    are of the release and not of the question: no group, no weight, no k.
    """
    why, how = asked.why, asked.how
    noise = how.pair_noise if why.kind == "avg" else how.value_noise
    facts = {
        "method": "cells",
        "predicates": len(why.space),
        "attributes": [one.name for one in why.space.attributes],
        "left_out": list(why.left_out),
        "l": why.space.most,
        "groups": how.groups,
        "sets": how.sets,
        "numbers": how.released,
        # of one cell; of averages of each of its two numbers
        "deviation": float(f"{noise.scale * float(why.step):.4g}"),
    }
    half_width, confidence = asked.half_width * float(why.step), plain(_decimal(why.comparison.question.confidence))
    divisor = _denominator(why)
    width = f", each share is known to about {half_width / divisor:.3g}" if divisor else ""
    sentences = [
        f"{why.k} of {len(why.space)} predicates{width}, for all pairs of {how.groups} groups at once at {confidence}",
        f"by cells: {how.released} noisy numbers; other groups, weights, k and confidence are free while"
        " rho, l and columns are the same",
    ]
    return facts, [*sentences, *_chosen(why), *([] if divisor else [NO_SHARE]), NO_CAUSE]


def compared_methods(why: Why) -> dict[str, Any] | None:
    """What auto took, and by each method half of the interval of an influence, and how far two are apart whose ranks
    are told apart: of shares, where they are told; None: auto was not asked for.
    """
    if why.method != "auto":
        return None
    taken = "cells" if why.methods is not None and why.methods.cells_are_nearer else "one_shot"
    divisor = (_denominator(why) or 1.0) / float(why.step)
    found: dict[str, Any] = {"asked": "auto", "taken": taken}
    if why.methods is not None:
        known = {"cells": why.methods.cells, "one_shot": why.methods.one_shot}
        found |= {one: float(f"{widths.shares / divisor:.4g}") for one, widths in known.items()}
        found["ranks"] = {one: float(f"{widths.ranks / divisor:.4g}") for one, widths in known.items()}
    return found


def _chosen(why: Why) -> list[str]:
    """Why auto took the method that it took."""
    found = compared_methods(why)
    if found is None:
        return []
    if why.methods is None:
        return ["auto took one_shot: method 'cells' does not fit this question (asked for by name, it says why)"]
    ranks, of = found["ranks"], "shares" if why.methods.shares_are_told else "influences"
    shares = f"shares to {found['cells']:.3g} by cells, to {found['one_shot']:.3g} by one_shot; "
    return [
        f"auto took {found['taken']}: {shares if why.methods.shares_are_told else ''}ranks are told of {of}"
        f" {ranks['cells']:.3g} apart by cells, {ranks['one_shot']:.3g} by one_shot"
    ]


def _facts(how: Explaining | Ranked, why: Why, half_width: float | None) -> dict[str, Any]:
    price = how.price
    return {
        **_compared(why.comparison, why.weights),
        "rows": number(max(1.0, min(why.counts))) if why.counts else None,  # what averages' shares are divided by too
        "predicates": len(why.space),
        "attributes": [one.name for one in why.space.attributes],
        "left_out": list(why.left_out),
        "k": how.k,
        "l": why.space.most,
        "confidence": plain(_decimal(how.confidence)),
        "half_width": half_width,
        "split": {
            "predicates": [plain(price.selection), how.k],  # epsilon of each selection
            "influences": plain(price.influences),
            "ranks": plain(price.ranks),
        },
    }


def _compared(comparison: Comparison, weights: Sequence[Fraction]) -> dict[str, Any]:
    """Facts of what is explained."""
    return {
        "release": comparison.stored.request_id,
        "aggregate": comparison.aggregate,
        "groups": [list(group) for group in comparison.groups[:10]],
        "weights": [str(weight) for weight in weights[:10]],
        "verdict": comparison.interval.verdict,
        "difference": number(comparison.interval.difference),
        **({} if comparison.question.expression is None else {"expression": comparison.question.expression}),
    }


def _own(measure: Measure) -> Explaining:
    if not isinstance(measure, Explaining):
        raise ValueError("not an explanation")
    return measure


def _divisor(why: Why) -> float | None:
    """What influences in lattice units are divided by; None where no difference was found, or where it is 0."""
    found = _denominator(why)
    return None if found is None else found / float(why.step)


def _denominator(why: Why) -> float | None:
    """The same of influences in units of the value."""
    found = told_difference(why.comparison)
    return None if found is None else denominator(why.kind, found, why.counts)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
