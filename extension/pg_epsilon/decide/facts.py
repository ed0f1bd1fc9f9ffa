"""What a decision's planner may know: declarations, what was asked, the synthetic answer (dp-pqd.md §9)."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from pg_epsilon.choice_parts import Share
from pg_epsilon.decide import planner
from pg_epsilon.decide.question import Interval, Question
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.mechanisms.covering import doubling
from pg_epsilon.query.aggregates import UNITS, Aggregate
from pg_epsilon.query.request import Request


def facts_of(
    request: Request, question: Question, aggregate: Aggregate, interval: Interval, share: Share
) -> planner.Facts:
    """What the planner may know (dp-pqd.md §9): everything public."""
    values, users = aggregate.lattice, request.source.has_user_units
    function = aggregate.function
    rows = (request.source.kappa or 1) if users and aggregate.of != UNITS else 1
    sum_bound = aggregate.parameters.max_contribution
    sensitivity = Fraction(1) if values is None else values.largest * values.step * rows
    if users and sum_bound is not None:
        sensitivity = Fraction(sum_bound)
        rows = math.ceil(sum_bound) if function == "count" else rows
    step = Fraction(1) if values is None else values.step * values.ladder
    return planner.Facts(
        aggregate=function,
        sensitivity=sensitivity,
        step=step,
        levels=len(doubling(math.ceil(sensitivity / step), 1)),
        rows=rows,
        users=users,
        negative=values is not None and values.low < 0,
        domain=None if values is None else values.high - values.low + 1,
        fraction=Fraction(_fraction(aggregate)),
        epsilon=Fraction(share.amount) if share.kind == "epsilon" else None,
        rho=Fraction(share.amount) if share.kind == "rho" else None,
        tau=interval.tau,
        delta=Fraction(question.delta),
        beta=Fraction(question.beta),
        theta=Fraction(question.theta),
        largest=Fraction(question.largest) if question.largest is not None else None,
    )


def _fraction(aggregate: Aggregate) -> Decimal:
    """Of a quantile; 1/2 of what is none. DP005 for the extremes, which belong to somebody."""
    fraction = aggregate.parameters.fraction
    if fraction is None:
        return Decimal("0.5")
    if not 0 < fraction < 1:
        raise DPError(
            OUT_OF_RANGE, "a decision on a quantile needs a fraction above 0 and below 1", "percentile_disc(0.99)"
        )
    return fraction
