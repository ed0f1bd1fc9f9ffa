"""R2T by linear programming: the one mechanism for result rows of several units, and for count(DISTINCT x) of users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, UNDECLARED, DPError
from pg_epsilon.mechanisms.estimators import Joined
from pg_epsilon.mechanisms.r2t import BETA, thresholds
from pg_epsilon.mechanisms.r2t_join import JoinLadder
from pg_epsilon.query.aggregates import COLUMN, DISTINCT, Aggregate
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.query.owners import owners_statement
from pg_epsilon.query.sizes import most_rows
from pg_epsilon.query.statistics import OWNERS, Statistic

if TYPE_CHECKING:
    from pg_epsilon.query.request import Request

# Of each protected relation in such a join, as declared: a linear program has a variable for each merged row.
MAX_ROWS = 1_000_000
# Distinct bases cost a program each; R2T's own ladder of powers of 2 has the best constants here, and few levels more.
BASE = Fraction(2)
BOUND_MAX = 2**40  # of the last threshold: beyond it, noise drowns every answer


def concerned(request: Request, aggregates: Sequence[Aggregate]) -> bool:
    """Whether only this mechanism can answer: several units in a result row, or a distinct count of something else."""
    return bool(request.source.units) or any(a.of == DISTINCT for a in aggregates)


def ladder_of(request: Request, aggregates: Sequence[Aggregate], epsilon: Decimal) -> tuple[JoinLadder, Lattice]:
    """The one aggregate's ladder. DP003 for another shape, DP004 for undeclared bounds, DP005 for parameters."""
    _check_shape(request, aggregates)
    (aggregate,) = aggregates
    values = aggregate.lattice or Lattice("1", 0, 1, Fraction(1), whole=True)
    if values.low < 0:
        raise DPError(
            SHAPE,
            "a sum over rows of several units needs values of at least 0",
            "Ask for sum(greatest(x, 0)), and for sum(greatest(-x, 0)) in another question.",
        )
    _check_rows(request)
    bound = _bound(request, aggregate, values)
    declared = most_rows(request.source.join)
    if declared is not None:  # no unit contributes more than all of them do
        bound = min(bound, max(1, declared * values.high))
    given = aggregate.parameters
    base = Fraction(given.base) if given.base is not None else BASE
    levels = thresholds(bound, base, values.ladder)
    width = len(request.source.units) or 1
    ladder = JoinLadder(levels, width, aggregate.of == DISTINCT, epsilon, given.beta or BETA)
    ladder.ladder()  # the scales of its noise must exist: DP005, before anything is charged
    return ladder, values


def read_of(request: Request, aggregate: Aggregate, values: Lattice) -> tuple[Statistic, str]:
    """(What is read, the statement): merged rows with the keys of their units."""
    source = request.source
    value = values.sql
    if aggregate.of == COLUMN:
        value = f"CASE WHEN ({aggregate.argument}) IS NOT NULL THEN 1 END"
    label = aggregate.argument if aggregate.of == DISTINCT else None
    if aggregate.filter is not None:
        value = f"CASE WHEN {aggregate.filter} THEN {value} END"
        label = f"CASE WHEN {aggregate.filter} THEN {label} END" if label is not None else None
    units = source.units or (source.unit or "",)
    sql = owners_statement(source.sql, source.where, units, value, label, integers=source.integer_units)
    return Statistic(OWNERS, collected=8 * (len(units) + 1)), sql


def estimator_of(ladder: JoinLadder, values: Lattice, rows: int | None) -> Joined:
    """rows: how many the join has at most, by what is declared; no answer is above what they can sum up to."""
    return Joined(ladder, values.step, values.whole, None if rows is None else rows * values.high)


def _check_shape(request: Request, aggregates: Sequence[Aggregate]) -> None:
    reason = (
        "result rows that belong to several units" if request.source.units else "count(DISTINCT ...) of users' rows"
    )
    if len(aggregates) != 1 or request.keys:
        raise DPError(
            SHAPE,
            f"a question about {reason} has one aggregate and no groups",
            "Ask for one aggregate at a time, with WHERE in place of GROUP BY.",
        )
    if aggregates[0].function not in ("count", "sum") or aggregates[0].of == "units":
        raise DPError(
            SHAPE,
            f"{aggregates[0].name[:60]} is not supported over {reason}",
            "Ask for count(*), count(x), count(DISTINCT x) or sum(x).",
        )
    if request.budget.kind != "epsilon" or request.mechanism not in ("auto", "r2t"):
        raise DPError(
            OUT_OF_RANGE,
            f"a question about {reason} is answered by R2T, which takes epsilon",
            "Give epsilon => 1, and leave mechanism out.",
        )


def _check_rows(request: Request) -> None:
    """Limits are checked on public bounds, before the charge (composition.md §10.3)."""
    for policy in request.source.relations:
        if policy.max_rows is None:
            raise DPError(
                UNDECLARED,
                f"how many rows {policy.relation.qualified} may have is not declared, and the linear program of this"
                " question needs a bound",
                "Let the owner protect it with max_rows.",
            )
        if policy.max_rows > MAX_ROWS:
            raise DPError(
                OUT_OF_RANGE,
                f"{policy.relation.qualified} may have more than {MAX_ROWS} rows: too many for a linear program",
                "Ask about single units, count(DISTINCT unit), or join along foreign keys only.",
            )


def _bound(request: Request, aggregate: Aggregate, values: Lattice) -> int:
    """How much one unit may contribute: asked for, or rows of a unit in each relation, multiplied. Utility only."""
    most = aggregate.parameters.max_contribution
    if most is not None:
        return min(max(1, math.floor(Fraction(most) / values.step)), BOUND_MAX)
    rows = request.source.fanout
    if rows is None:
        raise DPError(
            UNDECLARED,
            "how much one unit may contribute is not declared",
            "Give max_contribution, or let the owner protect the relations with max_rows_per_unit.",
        )
    return min(max(1, rows * max(1, values.largest)), BOUND_MAX)
