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
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pg_epsilon import choice_joins
from pg_epsilon.accounting.charges import share
from pg_epsilon.accounting.curves import round_down
from pg_epsilon.accounting.margins import laplace_epsilon
from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, UNDECLARED, DPError
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.mechanisms.estimators import Average, Estimator, Number, Quantile, Spread, Truncated
from pg_epsilon.mechanisms.r2t import BASES, BETA, Ladder, thresholds
from pg_epsilon.mechanisms.ranks import Ranks
from pg_epsilon.query.aggregates import COLUMN, ROWS, UNITS, Aggregate
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.query.request import Request
from pg_epsilon.query.statistics import HISTOGRAM, SUM, Statistic

POINTS = 2**16  # of a quantile's lattice, at most
CELLS = 2**22  # of all histograms of a block together, at most
SQUARES = 2**31  # the largest square, in grains
SUM_MAX = 2**62  # of what the declared number of rows can sum up to, lattice units


@dataclass(frozen=True)
class Choice:
    """How one aggregate is answered: its estimator, what its measures read, and why it was chosen.

    statement: the block's statement, if it is not made from `statistics`.
    """

    estimator: Estimator
    statistics: tuple[Statistic, ...]
    candidates: tuple[tuple[str, Fraction | None], ...] = ()
    why: str = "the only mechanism for it"
    warnings: tuple[str, ...] = ()
    statement: str | None = None

    def describe(self, name: str) -> dict[str, Any]:
        """For dp_plan and EXPLAIN: public facts."""
        return {
            "aggregate": name,
            "mechanism": self.estimator.mechanism,
            "candidates": [{"mechanism": m, "expected_error": _error(e)} for m, e in self.candidates],
            "why": self.why,
        }


def _error(value: Fraction | None) -> str | None:
    return None if value is None else format(Decimal(f"{float(value):.4g}"), "f")


@dataclass(frozen=True)
class Share:
    """One aggregate's part of the budget."""

    kind: str
    amount: Decimal

    def part(self, parts: int) -> Share:
        """One of `parts` equal parts; DP005 if nothing would be left."""
        amount = share(self.amount, parts)
        if amount <= 0:
            raise DPError(
                OUT_OF_RANGE,
                "the budget is too small to be split over the block's aggregates",
                "Ask for fewer aggregates, or spend more.",
            )
        return Share(self.kind, amount)

    def additive(self, l1: int, l2_squared: int | None = None) -> Additive:
        """Noise for a vector of this sensitivity."""
        squared = l1 * l1 if l2_squared is None else l2_squared
        if self.kind == "rho":
            return Additive(l1, squared, rho=self.amount)
        return Additive(l1, squared, epsilon=self.amount)

    def epsilon_of_selection(self) -> Decimal:
        """epsilon of an exponential mechanism: epsilon²/8 <= rho, being epsilon-bounded-range."""
        if self.kind == "epsilon":
            return self.amount
        return round_down(Fraction(math.isqrt(int(8 * self.amount * 10**36)), 10**18))


@dataclass(frozen=True)
class Facts:
    """What all aggregates of a block share.

    rows: with user units, the cap on rows of a unit; by_rows: rows beyond it are dropped for the whole block (else a
    unit's total is clamped). joint: with several groups or statistics a unit is in all of them.
    """

    request: Request
    users: bool
    rows: int | None
    by_rows: bool
    histograms: bool

    @staticmethod
    def of(request: Request, aggregates: Sequence[Aggregate]) -> Facts:
        users = request.source.has_user_units
        several = any(a.function not in ("count", "sum") for a in aggregates)
        return Facts(
            request,
            users,
            request.source.kappa if users else 1,
            users and bool(request.keys or several),
            any(a.function == "quantile" for a in aggregates),
        )

    def kappa(self) -> int:
        """The cap on a unit's rows; DP004 if none is declared."""
        if self.rows is None:
            raise DPError(
                UNDECLARED,
                f"how many rows one user of {self.request.policy.relation.qualified} may own is not declared",
                "Count users instead, count(distinct unit column) or what => 'units'; give max_contribution; or let the"
                " owner protect it with max_rows_per_unit.",
            )
        return self.rows


def choose(request: Request, aggregates: Sequence[Aggregate]) -> tuple[Choice, ...]:
    """The block's choices, one for each distinct aggregate: each gets an equal share of the budget (§14.3).

    DP003 for a mechanism that does not answer the aggregate, DP004 for what is not declared, DP005 for a budget that
    does not fit.
    """
    if not aggregates:
        return ()
    if choice_joins.concerned(request, aggregates):
        return (_joined(request, aggregates),)
    _check_mechanism(request, aggregates)
    facts = Facts.of(request, aggregates)
    return tuple(_BUILDERS[a.function](facts, a, _share(request, a, len(aggregates))) for a in aggregates)


def _joined(request: Request, aggregates: Sequence[Aggregate]) -> Choice:
    """The block's one aggregate, by linear programs."""
    ladder, values = choice_joins.ladder_of(request, aggregates, _share(request, aggregates[0], 1).amount)
    read, sql = choice_joins.read_of(request, aggregates[0], values)
    estimator = choice_joins.estimator_of(ladder, values)
    return Choice(
        estimator,
        (read,),
        ((estimator.mechanism, estimator.expected_error()),),
        "the only mechanism for result rows of several units and for distinct counts",
        ("R2T answers from below: the true value is above it, by how much is unknown",),
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
            "Leave mechanism out: it is chosen by the expected error.",
        )


def _share(request: Request, aggregate: Aggregate, parts: int) -> Share:
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


def _needs_amount(facts: Facts, aggregate: Aggregate, share_: Share) -> Share:
    if share_.kind == "accuracy":
        raise DPError(
            OUT_OF_RANGE,
            f"alpha and beta say how near a count or a sum must be, not {aggregate.function}",
            "Ask with epsilon (or rho).",
        )
    return share_


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
    values = _values(aggregate)
    _check_rows(facts, values)
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
    level = sum(threshold < min(guess, bound) for threshold in r2t.ladder.levels)
    error = Fraction(r2t.ladder.expected_error(level)) * values.step
    two = len(r2t.ladder.sides) == 2
    reads = replace(read, levels=_sides(r2t.ladder), drop=r2t.ladder.truncation == "filter")
    choice = Choice(
        r2t,
        (replace(reads, value="1") if read.of == ROWS and not facts.users and read.value is None else reads,),
        warnings=() if two else ("R2T answers from below: the true value is above it, by how much is unknown",),
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
    sides = [bound if rows is None else max(1, rows * end) for end in (values.high, -values.low) if end > 0] or [1]
    bases = BASES if given.base is None else (Fraction(given.base),)
    joint = len(sides) if facts.users else 1

    def ladder(base: Fraction) -> Ladder:
        levels = thresholds(max(sides), base, values.ladder)
        truncation = given.truncation or "min"
        return Ladder(levels, tuple(sides), joint, share_.amount, given.beta or BETA, truncation)

    def cost(base: Fraction) -> float:
        levels = len(ladder(base).levels)
        return levels * (1 + math.log(levels / float(given.beta or BETA))) * math.sqrt(base)

    return Truncated(ladder(min(bases, key=cost)), values.step, values.whole)


def _sides(ladder: Ladder) -> tuple[tuple[int, ...], ...]:
    return tuple(ladder.levels[:count] for count in ladder.counts)


def _average(facts: Facts, aggregate: Aggregate, share_: Share) -> Choice:
    values = _values(aggregate)
    _check_rows(facts, values)
    rows, half = facts.kappa(), _needs_amount(facts, aggregate, share_).part(2)
    centre = (values.low + values.high) // 2
    reach = max(values.high - centre, centre - values.low, 1)
    estimator = Average(half.additive(rows * reach), half.additive(rows), values.step, values.low, values.high, centre)
    read = (Statistic(SUM, f"({values.sql} - {centre})", aggregate.filter), _present(aggregate))
    return Choice(estimator, read, why="sum about the middle of the range, and count, half of the share each")


def _present(aggregate: Aggregate) -> Statistic:
    return Statistic(ROWS, aggregate.argument, aggregate.filter)


def _spread(facts: Facts, aggregate: Aggregate, share_: Share) -> Choice:
    values = _values(aggregate)
    _check_rows(facts, values)
    rows, third = facts.kappa(), _needs_amount(facts, aggregate, share_).part(3)
    centre = (values.low + values.high) // 2
    reach = max(values.high - centre, centre - values.low, 1)
    grain = max(1, -(-reach * reach // SQUARES))
    largest = reach * reach // grain
    distance = f"({values.sql} - {centre})"
    exact = f"{distance}::pg_catalog.numeric"
    square = f"pg_catalog.div({exact} * {exact}, {grain})::pg_catalog.int8"
    estimator = Spread(
        third.additive(rows),
        third.additive(rows * reach),
        third.additive(rows * largest),
        Fraction(grain),
        reach,
        values.step,
        sample=aggregate.function.endswith("samp"),
        root=aggregate.function.startswith("stddev"),
    )
    read = (
        _present(aggregate),
        Statistic(SUM, distance, aggregate.filter),
        Statistic(SUM, square, aggregate.filter),
    )
    return Choice(estimator, read, why="count, sum and sum of squares about the middle, a third of the share each")


def _quantile(facts: Facts, aggregate: Aggregate, share_: Share) -> Choice:
    values = _values(aggregate)
    rows, fraction = facts.kappa(), aggregate.parameters.fraction
    epsilon = _needs_amount(facts, aggregate, share_).epsilon_of_selection()
    if fraction is None or epsilon <= 0:
        raise DPError(OUT_OF_RANGE, "a quantile needs its fraction and a budget", "fraction => 0.9, epsilon => 0.1")
    points = min(POINTS, max(16, CELLS // facts.request.cells))
    stride = -(-(values.high - values.low + 1) // points)
    size = -(-(values.high - values.low + 1) // stride)
    estimator = Quantile(
        Ranks(size, Fraction(fraction), rows, epsilon), values.low, values.high, stride, values.step, values.whole
    )
    point = f"(({values.sql} - {values.low}) / {stride})"
    warnings = (f"values are told apart in steps of {float(stride * values.step):g} only",) if stride > 1 else ()
    return Choice(estimator, (Statistic(HISTOGRAM, point, aggregate.filter),), warnings=warnings)


def _values(aggregate: Aggregate) -> Lattice:
    if aggregate.lattice is None:
        raise ValueError("an aggregate of values without its lattice")
    return aggregate.lattice


def _check_rows(facts: Facts, values: Lattice) -> None:
    """What the declared number of rows can sum up to must fit the noise lattice (composition.md §10.3)."""
    most = facts.request.policy.max_rows
    if most is not None and most * max(values.largest, values.high - values.low) > SUM_MAX:
        raise DPError(
            OUT_OF_RANGE,
            "a sum over the declared number of rows could leave 64 bits",
            "Use a coarser resolution, or tighter bounds.",
        )


_BUILDERS: Mapping[str, Callable[[Facts, Aggregate, Share], Choice]] = {
    "count": _count,
    "sum": _sum,
    "avg": _average,
    "var_samp": _spread,
    "var_pop": _spread,
    "stddev_samp": _spread,
    "stddev_pop": _spread,
    "quantile": _quantile,
}
