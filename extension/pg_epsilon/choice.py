"""Which mechanism answers an aggregate, at what sensitivity and share of the budget: by public facts only.

`auto` compares expected errors (composition.md §7.5: a planner chooses by public facts, ties broken publicly):
- additive noise at the global sensitivity: the mean of its absolute value, which is known;
- R2T: penalty and noise at the level of the largest contribution, which is private. Where the unit is a row, the bound
  of a column is taken to be attained (then additive noise always wins). Where it is a user, one value at its bound is
  taken to occur, and the largest contribution to be as likely in any part, by factors, from there up to the declared
  bound on all of a user's rows: the geometric middle of the two. So R2T is chosen where that bound is very loose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache

from pg_epsilon import choice_joins
from pg_epsilon.accounting.margins import laplace_epsilon
from pg_epsilon.choice_parts import Choice, Facts, Share, check_bound, check_rows, from_below, values_of
from pg_epsilon.choice_values import average, bound, quantile, spread
from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, UNDECLARED, DPError
from pg_epsilon.mechanisms.estimators import Number, Truncated
from pg_epsilon.mechanisms.r2t import BASES, BETA, Ladder, thresholds
from pg_epsilon.query.aggregates import COLUMN, ROWS, UNITS, Aggregate
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.query.request import Request
from pg_epsilon.query.sizes import most_rows
from pg_epsilon.query.statistics import SUM, Statistic


def choose(request: Request, aggregates: Sequence[Aggregate]) -> tuple[Choice, ...]:
    """A block's choices, one for each distinct aggregate: each gets an equal share of the budget (§14.3).

    DP003 for a mechanism that does not answer the aggregate, DP004 for what is not declared, DP005 for a budget that
    does not fit.
    """
    if not aggregates:
        return ()
    if choice_joins.concerned(request, aggregates):
        return (_joined(request, aggregates),)
    _check_mechanism(request, aggregates)
    facts = Facts.of(request, aggregates)
    build = cache(lambda one: _BUILDERS[one.function](facts, one, share(request, one, len(aggregates))))
    return tuple(_of_rows(build(replace(a, filter=None, name="")), a.filter) for a in aggregates)


def _of_rows(choice: Choice, condition: str | None) -> Choice:
    """The choice of an aggregate without FILTER, which decides nothing but what is read, with it."""
    if condition is None:
        return choice
    return replace(choice, statistics=tuple(replace(one, condition=condition) for one in choice.statistics))


def alone(request: Request, aggregate: Aggregate, share_: Share) -> Choice:
    """One aggregate by itself, at a given share: what a decision is built on."""
    _check_mechanism(request, [aggregate])
    return _BUILDERS[aggregate.function](Facts.of(request, [aggregate]), aggregate, share_)


def _joined(request: Request, aggregates: Sequence[Aggregate]) -> Choice:
    """The block's one aggregate, by linear programs."""
    ladder, values = choice_joins.ladder_of(request, aggregates, share(request, aggregates[0], 1).amount)
    read, sql = choice_joins.read_of(request, aggregates[0], values)
    estimator = choice_joins.estimator_of(ladder, values, most_rows(request.source.join))
    return Choice(
        estimator,
        (read,),
        ((estimator.mechanism, estimator.expected_error()),),
        "the only mechanism for result rows of several units and for distinct counts",
        (from_below(ladder.beta),),
        sql,
    )


_ANSWERS: Mapping[str, frozenset[str]] = {
    "laplace": frozenset({"count", "sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop"}),
    "gaussian": frozenset({"count", "sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop"}),
    "r2t": frozenset({"count", "sum"}),
    "exponential": frozenset({"quantile"}),
}


def _check_mechanism(request: Request, aggregates: Sequence[Aggregate]) -> None:
    asked, kind = request.mechanism, request.budget.kind
    if asked == "auto":
        return
    mismatch = asked != "exponential" and (asked == "gaussian") != (kind == "rho")
    if mismatch or (asked == "r2t" and kind != "epsilon"):
        raise DPError(
            OUT_OF_RANGE,
            f"mechanism {asked} does not take a budget of kind {kind}",
            "laplace takes epsilon (or alpha and beta), r2t takes epsilon, gaussian takes rho.",
        )
    if not any(a.function in _ANSWERS[asked] for a in aggregates):
        raise DPError(
            SHAPE,
            f"mechanism {asked} does not answer {aggregates[0].function}",
            "Leave mechanism out, and RESET dp.mechanism: it is chosen by the expected error.",
        )


def share(request: Request, aggregate: Aggregate, parts: int) -> Share:
    budget = request.budget
    if budget.kind == "rho" and budget.rho is not None:
        return Share("rho", budget.rho).part(parts)
    if budget.kind == "epsilon" and budget.epsilon is not None:
        return Share("epsilon", budget.epsilon).part(parts)
    return Share("accuracy", Decimal(0))


def _bought(facts: Facts, l1: int, width: Fraction, share_: Share) -> Share:
    """The epsilon that alpha and beta ask for: alpha is a fraction of scale * (upper - lower) (§14.3)."""
    budget = facts.request.budget
    if share_.kind != "accuracy":
        return share_
    if budget.alpha is None or budget.beta is None or facts.request.policy.scale is None:
        raise DPError(
            UNDECLARED,
            "alpha is a fraction of the relation's declared scale, and no scale is declared",
            "Ask with epsilon, or let the owner declare one: CALL dp.protect(..., scale => number of rows to expect).",
        )
    tolerance = Fraction(budget.alpha) * Fraction(facts.request.policy.scale) * width
    return Share("epsilon", laplace_epsilon(tolerance, budget.beta, l1))


def _count_units(facts: Facts, aggregate: Aggregate, share_: Share) -> Choice:
    """Users counted once per group: in at most min(kappa, number of groups) groups."""
    cells = facts.request.cells if facts.rows is None else min(facts.rows, facts.request.cells)
    noise = _bought(facts, cells, Fraction(1), share_).additive(cells, cells)
    return Choice(Number(noise), (Statistic(UNITS, condition=aggregate.filter),))


def _count(facts: Facts, aggregate: Aggregate, share_: Share) -> Choice:
    if aggregate.of == UNITS:
        return _count_units(facts, aggregate, share_)
    read = Statistic(ROWS, aggregate.argument if aggregate.of == COLUMN else None, aggregate.filter)
    return _total(facts, aggregate, share_, read, Lattice("1", 0, 1, Fraction(1), whole=True))


def _sum(facts: Facts, aggregate: Aggregate, share_: Share) -> Choice:
    values = values_of(aggregate)
    check_rows(facts, values)
    return _total(facts, aggregate, share_, Statistic(SUM, values.sql, aggregate.filter), values)


def _total(facts: Facts, aggregate: Aggregate, share_: Share, read: Statistic, values: Lattice) -> Choice:
    """A count or a sum: additive noise at the global sensitivity, or R2T."""
    declared = aggregate.parameters.max_contribution
    if declared is not None and (not facts.users or facts.request.keys or facts.histograms):
        raise DPError(
            SHAPE,
            "max_contribution is about all rows of one user: not where the unit is a row, nor with groups or quantiles",
            "Use lower and upper, or an ungrouped count or sum.",
        )
    if facts.by_rows and declared is None:
        clamp = None
        bound = facts.kappa() * values.largest
    elif facts.users:
        most = max(1, math.floor(Fraction(declared) / values.step)) if declared is not None else None
        bound = facts.kappa() * values.largest if most is None else most
        rows = None if most is not None else facts.kappa()
        clamp = (_end(values.low, rows, -bound, min), _end(values.high, rows, bound, max))
    else:
        clamp, bound = None, values.largest
    check_bound(bound)
    asked = facts.request.mechanism
    additive = None
    if asked != "r2t":
        width = (values.high - values.low) if aggregate.function == "sum" else 1
        noise = _bought(facts, bound, Fraction(max(width, 1)), share_).additive(bound)
        number = Number(noise, values.step, values.whole)
        additive = Choice(number, (replace(read, clamp=clamp),))
        if asked != "auto" or share_.kind != "epsilon":
            return replace(additive, why=f"the mechanism for a budget of kind {facts.request.budget.kind}")
    return _compared(facts, aggregate, share_, read, values, bound, additive)


def _end(value: int, rows: int | None, bound: int, pick: Callable[[int, int], int]) -> int:
    """An end of what one unit's total may be: 0 on the side that no value is on."""
    return pick(0, value * rows if rows is not None else bound if pick(0, value) else 0)


def _compared(
    facts: Facts,
    aggregate: Aggregate,
    share_: Share,
    read: Statistic,
    values: Lattice,
    bound: int,
    additive: Choice | None,
) -> Choice:
    """R2T if it is asked for, or if it is offered and its expected error is smaller."""
    offered = not (facts.users and (facts.request.keys or facts.histograms)) and not facts.histograms
    if not offered:
        if additive is None:
            raise DPError(
                SHAPE,
                "R2T does not answer grouped questions about users, nor blocks with quantiles",
                "Use laplace (under max_rows_per_unit), or ask group by group with WHERE.",
            )
        return replace(additive, why="R2T is not offered for this shape")
    r2t = _truncated(facts, aggregate, share_, read, values, bound)
    guess = math.isqrt(values.largest * bound) if facts.users else bound
    level = sum(threshold < min(guess, bound) for threshold in r2t.ladder.levels[:-1])
    error = Fraction(r2t.ladder.expected_error(level)) * values.step
    two = len(r2t.ladder.sides) == 2
    reads = replace(read, levels=_sides(r2t.ladder), drop=r2t.ladder.truncation != "min")
    choice = Choice(
        r2t,
        (replace(reads, value="1") if read.of == ROWS and not facts.users and read.value is None else reads,),
        warnings=() if two else (from_below(r2t.ladder.beta),),
    )
    if additive is None:
        return replace(choice, candidates=((r2t.mechanism, error),), why="asked for")
    noise = additive.estimator.expected_error()
    candidates = ((additive.estimator.mechanism, noise), (r2t.mechanism, error))
    where = "between one value's bound and that of all a user's rows" if facts.users else "at its bound"
    why = f"smaller expected error, with the largest contribution {where}"
    chosen = choice if noise is not None and error < noise else additive
    return replace(chosen, candidates=candidates, why=why)


def _truncated(
    facts: Facts, aggregate: Aggregate, share_: Share, read: Statistic, values: Lattice, bound: int
) -> Truncated:
    """The ladder up to the bound, of the base that is asked for or has the smaller expected error."""
    given = aggregate.parameters
    rows = bound // values.largest if given.max_contribution is None else None
    ends = max(values.high, 0), max(-values.low, 0)
    # The first side is the positive one, also where no value is on it: a threshold bounds no negative contribution.
    sides = [max(1, bound if rows is None and end else (rows or 1) * end) for end in ends][: 2 if ends[1] else 1]
    declared = most_rows(facts.request.source.join)
    most = None if declared is None else (declared * ends[0], declared * ends[1])
    if most is not None:  # no unit contributes more than all of them do
        sides = [max(1, min(pair)) for pair in zip(sides, most, strict=False)]
    bases = BASES if given.base is None else (Fraction(given.base),)
    joint = 2 if facts.users and all(ends) else 1

    def ladder(base: Fraction) -> Ladder:
        levels = thresholds(max(sides), base, values.ladder)
        truncation = given.truncation or "min"
        return Ladder(levels, tuple(sides), joint, share_.amount, given.beta or BETA, truncation)

    def cost(base: Fraction) -> float:
        levels = len(ladder(base).levels)
        return levels * (1 + math.log(levels / float(given.beta or BETA))) * math.sqrt(base)

    best = ladder(min(bases, key=cost))
    best.scale(len(best.levels) - 1)  # which must exist: DP005, before anything is charged
    return Truncated(best, values.step, values.whole, most)


def _sides(ladder: Ladder) -> tuple[tuple[int, ...], ...]:
    return tuple(ladder.levels[:count] for count in ladder.counts)


_BUILDERS: Mapping[str, Callable[[Facts, Aggregate, Share], Choice]] = {
    "count": _count,
    "sum": _sum,
    "avg": average,
    "var_samp": spread,
    "var_pop": spread,
    "stddev_samp": spread,
    "stddev_pop": spread,
    "quantile": quantile,
    "bound": bound,
}
