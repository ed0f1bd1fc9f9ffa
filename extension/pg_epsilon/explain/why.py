"""Why a difference between released groups is there: the request member "explain", validated by public facts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain.comparison import Comparison, compile_comparison
from pg_epsilon.explain.expected import Methods
from pg_epsilon.explain.forms import Barred, Form, Halves, Linear, Pair
from pg_epsilon.explain.formula import Formula, check_predicates, formula_of, places_of
from pg_epsilon.explain.groups import Keys
from pg_epsilon.explain.influence import Kind
from pg_epsilon.explain.members import flag, whole
from pg_epsilon.explain.space import Listed, Predicates
from pg_epsilon.explain.statement import Read
from pg_epsilon.explain.tried import idle_columns, predicates
from pg_epsilon.query import members
from pg_epsilon.query.aggregates import COLUMN, ROWS, VALUE, Aggregate
from pg_epsilon.query.keys import Key
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.released import gone
from pg_epsilon.query.released import named as release_of
from pg_epsilon.query.request import checked_confidence

COMPARED = frozenset({"groups", "weights", "constant", "expression", "aggregate", "confidence", "simultaneous"})
MEMBERS = COMPARED | {
    "k",
    "l",
    "up_to",
    "attributes",
    "leave_out",
    "predicates",
    "anyway",
    "options",
    "source",
    "method",
}
OPTIONS = frozenset({"split", "lower", "joint"})
METHODS = ("one_shot", "auto", "cells")
MOST_PICKS = 100
HOW = """options => '{"split": [1, 1, 2], "lower": 0.1}'"""
EXAMPLE = "SELECT * FROM dp_explain_difference('Sales', 'Tech-support', k => 5)"


@dataclass(frozen=True)
class Why:
    """What an explanation is about: public.

    comparison: the free answer that it explains. read: which rows count. left_out: columns with too many values to be
    looked at unasked. split: shares of the price for predicates, influences and ranks; lower: that of ranks' lower
    bounds; joint: the influences' intervals hold together. formula: of an expression, without weights: its influences
    are not shown, and have no part of the price. method: of METHODS, as asked for; usual: without options; methods:
    what auto compared. idle: columns that were named and can tell nothing, because groups or WHERE fix them.
    """

    comparison: Comparison
    kind: Kind
    weights: tuple[Fraction, ...]
    read: Read
    bounds: tuple[Fraction, Fraction]
    step: Fraction
    space: Predicates
    k: int
    left_out: tuple[str, ...]
    anyway: bool
    split: tuple[Fraction, Fraction, Fraction]
    lower: Fraction
    joint: bool
    formula: Formula | None = None
    method: str = "one_shot"
    usual: bool = True
    methods: Methods | None = None
    idle: tuple[str, ...] = ()

    def canonical(self) -> dict[str, Any]:
        """What tells this question from another of its kind; the policy says what the attributes are."""
        return {
            "comparison": self.comparison.canonical(),
            "attributes": [[one.name, one.sql, list(one.conditions)] for one in self.space.attributes],
            "size": [self.space.most, self.space.up_to],
            "listed": [self.space.texts, self.space.conditions] if isinstance(self.space, Listed) else None,
            "k": self.k,
            "split": [str(part) for part in (*self.split, self.lower)],
            "joint": self.joint,
        }

    @property
    def counts(self) -> tuple[float, ...]:
        """Of averages, the released numbers of rows of the compared groups; of others, none."""
        if self.kind != "avg" or self.formula is not None:
            return ()
        question = self.comparison.question
        weights = question.weights or (1, -1)
        return tuple(_rows_of(form) for form, weight in zip(question.groups, weights, strict=True) if weight)

    @property
    def placed(self) -> tuple[tuple[float, float], ...]:
        """Of averages, as they were released: of each compared group its number of rows, 1 at least, and where between
        the bounds its average lies, 0 to 1."""
        question = self.comparison.question
        weights = question.weights or (1, -1)
        forms = [form for form, weight in zip(question.groups, weights, strict=True) if weight]
        return tuple((max(1.0, _rows_of(form)), _place_of(form)) for form in forms)


def compile_why(head: Head) -> Why:
    """The member "explain" of a request about a release.

    Errors: those of a comparison; DP003 for answers that no rows explain, DP004 for an attribute without a domain,
    DP005 for numbers out of range, for a difference that may be noise or has the other sign, and for more predicates
    than are looked at.
    """
    asked = members.mapping(head.document["explain"], "explain")
    comparison, kind, anyway = compared(head, asked, head.aggregates[0])
    keys, groups, weights = groups_of(head, comparison)
    explained = head.aggregates[0]
    lattice = explained.lattice
    formula = formula_of(comparison.question, kind, lattice)
    k, options = whole(asked, "k", 5, MOST_PICKS), _options(asked, shown=formula is None)
    space, left_out = predicates(head, asked)
    if formula is not None:
        check_predicates(len(space))
    if k > len(space):
        raise DPError(OUT_OF_RANGE, f"k is at most {len(space)}, the number of predicates", f"k => {len(space)}")
    value = None if lattice is None else lattice.sql
    return Why(
        comparison,
        kind,
        weights,
        Read(head.source, keys, groups, value, explained.present, explained.filter),
        (Fraction(0), Fraction(1)) if lattice is None else (Fraction(lattice.low), Fraction(lattice.high)),
        Fraction(1) if lattice is None else lattice.step,
        space,
        k,
        left_out,
        anyway,
        *options,
        formula,
        method_of(asked),
        asked.get("options") is None,
        idle=idle_columns(head, asked),
    )


def method_of(asked: Mapping[str, Any]) -> str:
    """DP005 for a method that there is not."""
    method = asked.get("method") or METHODS[0]
    if method not in METHODS:
        known = ", ".join(f"'{one}'" for one in METHODS)
        raise DPError(OUT_OF_RANGE, f"there is no method {str(method)[:40]!r} of an explanation", f"Methods: {known}.")
    return str(method)


def compared(head: Head, asked: Mapping[str, Any], one: Aggregate) -> tuple[Comparison, Kind, bool]:
    """(what is explained, of which aggregate, whether also where it may be noise).

    Errors: those of a comparison; DP003 for answers that no rows explain; DP005 for a difference that may be noise or
    has the other sign.
    """
    if set(asked) - MEMBERS:
        raise DPError(SHAPE, "an explanation of an unknown form", EXAMPLE)
    of = release_of(head.document)
    parts = {name: asked[name] for name in COMPARED if name in asked}
    confidence = checked_confidence(head.settings.get("dp.confidence"))
    comparison = compile_comparison(parts, of, head.releases, confidence)
    kind, anyway = _kind(one, comparison), flag(asked, "anyway")
    _check_verdict(comparison, anyway=anyway)
    return comparison, kind, anyway


def _kind(one: Aggregate, comparison: Comparison) -> Kind:
    """What is explained. DP003 for what is not of rows: distinct units, truncated sums, what has no counts."""
    kinds: dict[str, Kind] = {"count": "count", "sum": "sum", "avg": "avg"}
    kind = kinds.get(one.function)
    known = {"avg": (Halves, Pair)}.get(one.function, (Linear, Barred))
    of_rows = one.of in (ROWS, COLUMN, VALUE)
    cells = "estimators" in comparison.stored.presentation  # else a histogram's values, with bars
    forms = comparison.question.groups
    fits = all(isinstance(form, known) and not (cells and isinstance(form, Barred)) for form in forms)
    if kind is None or not of_rows or not fits:
        raise DPError(
            SHAPE,
            f"differences of this aggregate are compared, not explained ({comparison.stored.mechanism})",
            "Ask the GROUP BY for count(*), sum or avg of a column with noise on counts and sums (SET dp.mechanism ="
            " 'laplace' or 'gaussian'), and explain that.",
        )
    return kind


def _rows_of(form: Form) -> float:
    if isinstance(form, Halves):
        return form.count.number
    return float(form.a + form.b) / float(form.high - form.low) if isinstance(form, Pair) else 1.0


def _place_of(form: Form) -> float:
    if not isinstance(form, Halves | Pair) or form.shown is None:
        return 1.0  # an end, where the noise of two sums is largest
    low, high = Fraction(form.low), Fraction(form.high)
    return float(min(max((form.shown - low) / (high - low), Fraction(0)), Fraction(1)))


def _check_verdict(comparison: Comparison, *, anyway: bool) -> None:
    """DP005 unless the difference is real and has the asked sign (dpxplain.md §0.0)."""
    found = comparison.interval.verdict
    if found == "the other way round":
        raise DPError(
            OUT_OF_RANGE,
            "the difference is the other way round: what explains it would make it larger",
            "Exchange the names of the groups, resp. the signs of the weights; of an expression, write '-(...)'.",
        )
    if found == "cannot tell" and not anyway:
        raise DPError(
            OUT_OF_RANGE,
            "this difference may be noise: there may be nothing to explain",
            "anyway => true explains it all the same; a GROUP BY with more epsilon may tell.",
        )


def groups_of(
    head: Head, comparison: Comparison
) -> tuple[tuple[Key, ...], tuple[tuple[str | None, ...], ...], tuple[Fraction, ...]]:
    """(keys, texts of the keys of each compared group, weights): without groups of weight 0. Of an expression, of the
    groups that stand in it, and no weights.

    DP006 where the keys have other values by now.
    """
    of, stored = release_of(head.document), comparison.stored
    released = Keys.of(stored, of.keys)
    order = list(stored.presentation["order"])
    texts = members.items(stored.asked("keys").get("keys"), "keys")
    found = [head.key(members.text(one, "keys") or "") for one in texts]
    keys = tuple(found[order.index(place)] for place in range(len(released.domains)))
    if any(tuple(domain) != key.domain for domain, key in zip(released.domains, keys, strict=True)):
        raise gone(stored.request_id, "has groups that were declared otherwise since")
    question = comparison.question
    given = question.weights or (Fraction(1), Fraction(-1))
    if question.expression is None:
        places: Sequence[int] = [place for place, weight in enumerate(given) if weight]
        weights = tuple(given[place] for place in places)
    else:
        places, weights = places_of(question), ()
    numbers = [released.number(comparison.groups[place]) for place in places]
    groups = tuple(
        tuple(
            domain[number // stride % len(domain)]
            for domain, stride in zip(released.domains, released.strides, strict=True)
        )
        for number in numbers
    )
    return keys, groups, weights


def _options(asked: Mapping[str, Any], *, shown: bool) -> tuple[tuple[Fraction, Fraction, Fraction], Fraction, bool]:
    """(split of the price, share of lower bounds in that of the ranks, whether influences hold together).

    shown: whether influences are shown, and have a part of the price.
    """
    given = {} if asked.get("options") is None else members.mapping(asked["options"], "options", HOW)
    known = OPTIONS if shown else OPTIONS - {"joint"}
    if set(given) - known:
        hint = f"Options: {', '.join(sorted(known))}."
        raise DPError(OUT_OF_RANGE, f"unknown option {min(set(given) - known)[:40]!r}", hint)
    usual = [1, 1, 2] if shown else [1, 2]
    split = given.get("split", usual)
    parts = [_part(one, 1000) for one in split] if isinstance(split, list) else []
    lower = _part(given.get("lower", 0.1), 1)
    if len(parts) != len(usual) or 0 in parts or not 0 < lower < 1:
        many = "three" if shown else "two"
        raise DPError(
            OUT_OF_RANGE,
            f"split is {many} numbers from 0.001 to 1000, lower one between 0 and 1",
            f"""options => '{{"split": {usual}, "lower": 0.1}}'""",
        )
    whole = sum(parts, Fraction(0))
    first, *second, third = (part / whole for part in parts)
    return (first, second[0] if second else Fraction(0), third), lower, flag(given, "joint")


def _part(value: Any, most: int) -> Fraction:
    """0 for what is no number in range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= most:
        return Fraction(0)
    return Fraction(str(value))
