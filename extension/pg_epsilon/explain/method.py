"""How rows explain a difference: by one table for one question, or by marginals that answer all
(dpxplain.md §0).

Which one is a function of public facts: declarations, the budget, the question, what was released.
No row decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product
from math import prod
from typing import Any

from pg_epsilon.choice_parts import Choice
from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain import priced
from pg_epsilon.explain.comparison import told_difference
from pg_epsilon.explain.derived import average_half_width, derived, half_width
from pg_epsilon.explain.expected import Methods, largest, of_cells, of_one_shot
from pg_epsilon.explain.marginals import Marginals, Numbers
from pg_epsilon.explain.space import Space
from pg_epsilon.explain.statement import SUM_MAX
from pg_epsilon.explain.table import Row
from pg_epsilon.explain.why import Why
from pg_epsilon.mechanisms.estimators import UNKNOWN, Bar
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.query.request import Request
from pg_epsilon.query.statistics import OWNERS, Statistic

MOST_GROUPS = 1_000  # of the release: each row is tried with all of them
MOST_SETS = 128
MOST_RELEASED = 200_000  # integers, which every question reads
LEAVE_OUT = "Leave method out: one_shot looks at the rows once for each question."


@dataclass(frozen=True)
class ByCells:
    """An explanation from marginals.

    why: what is asked; it reads all groups of its release. places: which of them the compared ones
    are.
    """

    why: Why
    how: Marginals
    places: tuple[int, ...]

    def canonical(self) -> dict[str, Any]:
        """What tells this release from another one: neither groups, weights, k nor confidence,
        which it serves all.
        """
        space = self.why.space
        return {
            "method": "cells",
            "keys": [key.canonical() for key in self.why.read.keys],
            "attributes": [[one.name, one.sql, list(one.conditions)] for one in space.attributes],
            "size": [space.most, space.up_to],
        }

    @property
    def half_width(self) -> float:
        """`derived.half_width` of the question, resp. `average_half_width`, lattice units."""
        why = self.why
        if why.kind == "avg":
            return average_half_width(self.how, why.comparison, why.weights, why.placed)
        return half_width(self.how, why.comparison, why.weights)

    def answer(self, raw: Sequence[int]) -> Sequence[Row]:
        """The explanation, from what was released: k predicates, influences in units of the value."""
        why, numbers = self.why, Numbers(self.how, raw, self.why.step)
        if why.kind != "avg":
            return derived(why.comparison, why.weights, self.places, why.k, numbers).top
        from pg_epsilon.explain.averaged import Averaged  # numpy is not on the way of a count

        return Averaged(why.comparison, why.weights, self.places, why.k, numbers).top


@dataclass(frozen=True)
class Shared:
    """The estimator of marginals: nothing to show by themselves."""

    measure: Marginals

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    @property
    def mechanism(self) -> str:
        return "discrete Gaussian"

    def present(self, raw: Sequence[int]) -> str | None:
        return None

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        return UNKNOWN

    def margin(self, confidence: Decimal) -> None:
        return None

    def expected_error(self) -> None:
        return None


def decided(request: Request, why: Why) -> Why | ByCells:
    """The question with its method: the one that was asked for; of auto, marginals where they fit
    and are expected to tell no less of shares and ranks, though theirs hold for all pairs at once
    (`expected.Methods`).

    Errors: DP003, DP004 and DP005 where marginals are asked for and do not fit (`by_cells`).
    """
    if why.method == "one_shot":
        return why
    try:
        found = by_cells(request, why)
    except DPError:
        if why.method == "cells":
            raise
        return why
    if why.method == "cells":
        return found
    one_shot, predicates = priced.measure_of(request, why), len(why.space)
    most = largest(one_shot.change, found.how.units, priced.most_rows(request))
    told = told_difference(why.comparison) is not None
    methods = Methods(of_cells(found.half_width, predicates, most), of_one_shot(one_shot, most), told)
    if not methods.cells_are_nearer:
        return replace(why, methods=methods)
    return replace(found, why=replace(found.why, methods=methods))


def by_cells(request: Request, why: Why) -> ByCells:
    """The question by marginals of all groups of its release. Public facts alone.

    Errors: DP003 for what has no intervals from marginals, DP005 for a budget, an accountant or a
    size that does not fit; those of `priced.reading` and `priced.units_of`, as of one_shot.
    """
    space = why.space
    _check_kind(request, why)
    _check_limit(prod(len(key.domain) for key in why.read.keys), MOST_GROUPS, "groups")
    groups = tuple(product(*(key.domain for key in why.read.keys)))
    low, high = (0, 1) if why.kind == "count" else map(int, why.bounds)
    units, rho = priced.units_of(request), request.budget.rho
    if not isinstance(space, Space) or rho is None:
        raise ValueError("checked above")
    # never below 0, so that no number of rows leaves what its sum is clamped to (statement.py)
    value = None if why.read.value is None else f"({why.read.value}) - ({low})"
    every = replace(why, read=replace(why.read, groups=groups, value=value))
    how = Marginals(space, len(groups), low, high, why.kind != "count", units, rho)
    _check_size(how, priced.most_rows(request))
    by_predicate, _ = priced.reading(request, every)
    how = replace(how, by_predicate=by_predicate)
    _ = how.scale  # a scale that does not exist is refused now, before anything is charged
    return ByCells(every, how, tuple(groups.index(group) for group in why.read.groups))


def choose_cells(request: Request, asked: ByCells) -> Choice:
    """The one choice of an explanation by marginals."""
    _, statement = priced.reading(request, asked.why)
    return Choice(
        Shared(asked.how),
        (Statistic(OWNERS),),  # one binary value
        warnings=priced.warnings_of(request, asked.why),
        statement=statement,
    )


def _check_kind(request: Request, why: Why) -> None:
    if why.formula is not None:
        raise DPError(SHAPE, "method 'cells' is for pairs of groups and weights, not for expressions", LEAVE_OUT)
    if not isinstance(why.space, Space):
        raise DPError(SHAPE, "method 'cells' is for values of columns, not for predicates of one's own", LEAVE_OUT)
    if not why.usual:
        raise DPError(SHAPE, "options are of method 'one_shot'", "Leave options out, or the method.")
    if why.kind != "count" and why.bounds[0] == why.bounds[1]:
        raise DPError(OUT_OF_RANGE, "all values are equal by their bounds", "Explain the count: aggregate => 1.")
    if request.policy.dataset.accountant != "renyi":
        raise DPError(
            OUT_OF_RANGE,
            "method 'cells' has Gaussian noise, which has no cost on a dataset whose accountant is 'pure'",
            "Leave method out; or ask of a dataset whose accountant is 'renyi'.",
        )
    if request.budget.rho is None:
        raise DPError(OUT_OF_RANGE, "method 'cells' has Gaussian noise, which takes rho", "rho => 0.04")


def _check_size(how: Marginals, rows: int) -> None:
    _check_limit(how.sets, MOST_SETS, "choices of columns")
    _check_limit(how.released, MOST_RELEASED, "released numbers")
    if rows * how.reach > SUM_MAX:
        hint = "Use a coarser resolution, or tighter bounds."
        raise DPError(OUT_OF_RANGE, "a sum over the declared number of rows could leave 64 bits", hint)


def _check_limit(number: int, most: int, name: str) -> None:
    if number > most:
        hint = "Name fewer columns: attributes => '{age,education}'; or ask for a smaller l, or leave method out."
        raise DPError(OUT_OF_RANGE, f"{number} {name} are more than the {most} of method 'cells'", hint)
