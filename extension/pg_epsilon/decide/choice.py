"""Which decider answers, at what sensitivity, what it reads, what is said of it: by public facts only (dp-pqd.md §9).

A decider is built from the ordinary answer's own parts: its condition, clamp, lattice and cap on rows of users are the
same, so that the private and the synthetic side ask one question. Where the unit is a user, the constants of §2 of
composition.md hold: kappa rows, or a user's clamped total; rows only for the tight and [EXT] variants (§14.8).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial

from pg_epsilon.choice_parts import Choice, Facts, Share, check_rows, values_of
from pg_epsilon.decide import planner
from pg_epsilon.decide.averages import Direct
from pg_epsilon.decide.bits import Bit, Form
from pg_epsilon.decide.estimator import Decided, Decision, Drawn, Estimated
from pg_epsilon.decide.facts import facts_of
from pg_epsilon.decide.question import FALLBACK, PRINTED, Interval, Question, only_one_number
from pg_epsilon.decide.ranks import Hist, HistOne
from pg_epsilon.decide.sums import Sparse
from pg_epsilon.decimals import plain
from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.mechanisms.covering import doubling
from pg_epsilon.mechanisms.estimators import Number, Truncated
from pg_epsilon.mechanisms.grain import Grained, grain_of
from pg_epsilon.mechanisms.quantile import Score
from pg_epsilon.mechanisms.r2t import GEO, Ladder
from pg_epsilon.mechanisms.ranks import Ranks
from pg_epsilon.query.aggregates import ROWS, Aggregate
from pg_epsilon.query.request import Request
from pg_epsilon.query.statistics import HISTOGRAM, PREFIX, SUM, Statistic

Build = Callable[[Request, Aggregate, Share], Choice]
POINTS = 2**18  # of a quantile's domain, at most: as many points as different values may reach the core


@dataclass(frozen=True)
class Case:
    """One aggregate to be decided. build: the ordinary answer to it, by a mechanism's name in the request."""

    request: Request
    question: Question
    aggregate: Aggregate
    interval: Interval
    share: Share
    facts: planner.Facts
    build: Build

    def ordinary(self, mechanism: str, share: Share, **parameters: object) -> Choice:
        """The answer by this mechanism at this share of the budget."""
        aggregate = replace(self.aggregate, parameters=replace(self.aggregate.parameters, **parameters))  # type: ignore[arg-type]
        return self.build(replace(self.request, mechanism=mechanism, kinds={}), aggregate, share)

    @property
    def step(self) -> Fraction:
        """The unit of the lattice."""
        return self.aggregate.lattice.step if self.aggregate.lattice is not None else Fraction(1)

    @property
    def lattice_interval(self) -> Interval:
        """The interval in lattice units."""
        return Interval(self.interval.answer / self.step, self.interval.tau / self.step)

    @property
    def epsilon(self) -> Decimal:
        """The share, which only additive noise takes as rho."""
        return epsilon_of(self.share)


Built = tuple[Decided, tuple[Statistic, ...]]


def choose(request: Request, question: Question, aggregates: Sequence[Aggregate], build: Build) -> tuple[Choice, ...]:
    """One decision for each distinct aggregate, each with an equal share of the budget.

    Errors: DP003 for a query that no decider takes, DP004 for what is not declared, DP005 for what is out of range.
    """
    _check_query(request, aggregates)
    share = _share(request, len(aggregates))
    choices = tuple(_decision(request, question, a, number, share, build) for number, a in enumerate(aggregates))
    read = [statistic for choice in choices for statistic in choice.statistics]
    # The statement with histograms caps rows: it neither truncates nor clamps what one unit adds up to.
    totals = any(s.levels for s in read) or any(a.parameters.max_contribution is not None for a in aggregates)
    if any(s.of == HISTOGRAM for s in read) and totals:
        raise DPError(
            SHAPE,
            "a quantile by EM is not decided in one statement with a truncated sum or a max_contribution",
            "Ask for them one by one, or use lm or hist.",
        )
    return choices


def _check_query(request: Request, aggregates: Sequence[Aggregate]) -> None:
    if request.keys:
        raise only_one_number()
    if request.source.units:
        raise DPError(
            SHAPE,
            "no decider takes rows that belong to several units",
            "Ask without the synthetic table: RESET dp.synthetic.",
        )
    for aggregate in aggregates:
        if aggregate.function not in planner.DECIDERS or aggregate.of == "distinct":
            raise DPError(
                SHAPE,
                f"no decider compares {_words(aggregate)}",
                "Deciders exist for count, sum, avg, median and percentile_disc; for others RESET dp.synthetic.",
            )


def _words(aggregate: Aggregate) -> str:
    """An aggregate's name, for people."""
    return f"{aggregate.function} of distinct values" if aggregate.of == "distinct" else aggregate.function


def _share(request: Request, parts: int) -> Share:
    budget = request.budget
    if budget.kind == "accuracy":
        raise DPError(
            OUT_OF_RANGE,
            "alpha and beta say how near an answer must be; a decision takes epsilon",
            "SET dp.epsilon = 0.1, or epsilon => 0.1.",
        )
    amount = budget.rho if budget.kind == "rho" else budget.epsilon
    return Share(budget.kind, amount or Decimal(0)).part(parts)


def _decision(
    request: Request, question: Question, aggregate: Aggregate, number: int, share: Share, build: Build
) -> Choice:
    interval = question.interval(number)
    facts = facts_of(request, question, aggregate, interval, share)
    name = _mechanism(request.mechanism, facts, question, aggregate)
    case = Case(request, question, aggregate, interval, share, facts, build)
    how = _BUILDERS[facts.aggregate, name]
    decided, statistics = how.build(case)
    if isinstance(decided, Drawn) and question.policy == FALLBACK:
        answer = case.ordinary("auto", share)
        decided, statistics = replace(decided, answer=answer.estimator), (*statistics, *answer.statistics)
    warning = planner.warning(name, facts)
    whole = aggregate.function == "count" or (aggregate.lattice is not None and aggregate.lattice.whole)
    decision = Decision(
        decided,
        question,
        interval,
        how.name,
        _known(facts, name).extension,
        plain(share.amount),
        case.step,
        whole and aggregate.function != "avg",
        facts,
        warning,
    )
    return Choice(decision, statistics, why=_why(request, name, facts), warnings=(warning,) if warning else ())


def _why(request: Request, name: str, facts: planner.Facts) -> str:
    extension = ", an extension of the paper" if _known(facts, name).extension else ""
    return f"{'asked for' if request.mechanism != 'auto' else 'recommended for these public values'}{extension}"


def _known(facts: planner.Facts, name: str) -> planner.Decider:
    return next(one for one in planner.DECIDERS[facts.aggregate] if one.name == name)


def _mechanism(asked: str, facts: planner.Facts, question: Question, aggregate: Aggregate) -> str:
    """The decider's name. With a fallback `auto` takes one that has an estimate, which is the fallback (§11), unless it
    cannot: EM_med has a bound on its domain, the private answer behind Hist_med has none."""
    offered = {one.name for one in planner.available(facts)}
    if facts.rho is not None and facts.aggregate == planner.QUANTILE:
        raise DPError(
            OUT_OF_RANGE,
            "no decider for a median or quantile takes a budget of kind rho",
            "Ask with epsilon: SET dp.epsilon = 0.1, or epsilon => 0.1.",
        )
    if asked == "auto":
        best = planner.recommend(facts) if facts.rho is None else "lm"
        if question.policy == FALLBACK and _BUILDERS[facts.aggregate, best].draws:
            quantile = facts.aggregate == planner.QUANTILE
            best = "lm" if not quantile else "em" if _domain(aggregate) <= POINTS else best
        return best
    if asked in offered:
        return asked
    known = {one.name: one for one in planner.DECIDERS[facts.aggregate]}
    if asked not in known:
        raise DPError(
            OUT_OF_RANGE,
            f"{asked} does not decide on this aggregate",
            f"Its deciders: auto, {', '.join(sorted(offered))}.",
        )
    if facts.users and not known[asked].users:
        raise DPError(
            SHAPE,
            f"{asked} is for datasets whose unit is a row",
            f"Where units own several rows: auto, {', '.join(sorted(offered))}.",
        )
    raise DPError(
        SHAPE,
        f"{asked} sums values from 0 up, and the declared ones reach below",
        "Use lm (or r2t_split), or clamp from below: lower => 0, or greatest(x, 0) in SQL.",
    )


def epsilon_of(share: Share) -> Decimal:
    """DP005 for a budget in rho: only additive noise has a Gaussian form."""
    if share.kind != "epsilon":
        raise DPError(
            OUT_OF_RANGE, "only mechanism lm takes a budget of kind rho", "Ask with epsilon, or mechanism => 'lm'."
        )
    return share.amount


def _additive(case: Case, share: Share) -> Choice:
    return case.ordinary("gaussian" if share.kind == "rho" else "laplace", share)


def _fine(measure: Additive) -> Grained:
    """The measure on a lattice so fine that its law is the continuous one of §8, to the digits that are shown."""
    grain = grain_of(measure.deviation())
    return Grained(replace(measure, l1=measure.l1 * grain, l2_squared=measure.l2_squared * grain**2), grain)


def _lm(case: Case) -> Built:
    """LM_count, LM_sum: the ordinary answer's noise, compared (dp-pqd.md §4.1, §5.1)."""
    choice = _additive(case, case.share)
    if not isinstance(choice.estimator, Number):
        raise ValueError("additive noise without a number")
    measure = _fine(choice.estimator.measure)
    unit = choice.estimator.step / measure.grain
    return Estimated((measure,), case.interval, lambda raw: raw[0] * unit), choice.statistics


def _em_count(case: Case, form: Form) -> Built:
    """The exponential mechanism on the bit (dp-pqd.md §4.2, §4.3); its one statistic is the count of LM_count."""
    choice = _additive(case, replace(case.share, amount=case.epsilon))
    if not isinstance(choice.estimator, Number):
        raise ValueError("a count without a number")
    interval = case.interval
    return Drawn(Bit(interval.answer, interval.tau, choice.estimator.measure.l1, case.epsilon, form)), choice.statistics


def _r2t(case: Case, truncation: str, share: Share | None = None) -> Built:
    """R2T_sum (§5.2), with the levels 2^1 … 2^L in units of the declared resolution."""
    epsilon = epsilon_of(share or case.share)
    ladder, statistic = _ladder(case, truncation, Share("epsilon", epsilon))
    grain = grain_of(ladder.scale(0))
    fine = replace(
        ladder, levels=tuple(t * grain for t in ladder.levels), sides=tuple(side * grain for side in ladder.sides)
    )
    unit = case.step / grain
    return Estimated((Grained(fine, grain),), case.interval, lambda raw: fine.estimate(raw) * unit), (statistic,)


def _ladder(case: Case, truncation: str, share: Share) -> tuple[Ladder, Statistic]:
    """The ladder and what it reads. With user units it is the ordinary answer's, over users' totals."""
    beta, values = case.question.beta, values_of(case.aggregate)
    check_rows(Facts.of(case.request, [case.aggregate]), values)
    if case.facts.users:
        choice = case.ordinary("r2t", share, truncation="filter", base=Decimal(2), beta=beta)
        if not isinstance(choice.estimator, Truncated):
            raise ValueError("R2T without a ladder")
        return choice.estimator.ladder, choice.statistics[0]
    ends = (max(values.high, 1), *((-values.low,) if values.low < 0 else ()))
    levels = doubling(max(ends), values.ladder)
    ladder = Ladder(levels, ends, 1, share.amount, beta, truncation)
    sides = tuple(levels[:count] for count in ladder.counts)
    return ladder, Statistic(SUM, values.sql, case.aggregate.filter, levels=sides, drop=True)


def _svt(case: Case, theta: Decimal | None) -> Built:
    """SVT_sum, basic (theta None) or improved (§5.3 to §5.5).

    Levels are in units of the declared resolution (composition.md §14.9).
    """
    values, interval = values_of(case.aggregate), case.lattice_interval
    check_rows(Facts.of(case.request, [case.aggregate]), values)
    levels = doubling(values.largest, values.ladder)
    measure = Sparse(levels, interval.low, interval.high, case.epsilon, theta)
    return Drawn(measure), (Statistic(PREFIX, values.sql, case.aggregate.filter, levels=(levels,)),)


def _domain(aggregate: Aggregate) -> int:
    """How many values a quantile may have."""
    values = values_of(aggregate)
    return values.high - values.low + 1


def _em_quantile(case: Case, *, tight: bool) -> Built:
    """EM_med (§6.1): a value of the declared domain, compared."""
    values, fraction = values_of(case.aggregate), case.facts.fraction
    size = _domain(case.aggregate)
    if size > POINTS:
        raise DPError(
            OUT_OF_RANGE,
            f"the domain has more than {POINTS} values",
            "Use mechanism hist, which needs no domain, or coarser values: median(round(x, -2)).",
        )
    rows = Facts.of(case.request, [case.aggregate]).kappa()
    score: Score = "printed" if case.question.score == PRINTED else "ties"
    measure = Ranks(size, fraction, rows, case.epsilon, score, tight)
    read = Statistic(HISTOGRAM, f"({values.sql} - {values.low})", case.aggregate.filter)
    return Estimated((measure,), case.interval, lambda raw: (raw[0] + values.low) * values.step), (read,)


def _hist(case: Case, *, one: bool) -> Built:
    """Hist_med (§6.2), quantiles too (§6.3): how many values there are, at most l, and at least r."""
    values, fraction, interval = values_of(case.aggregate), case.facts.fraction, case.lattice_interval
    rows = Facts.of(case.request, [case.aggregate]).kappa()
    low, high = math.floor(interval.low), math.ceil(interval.high)
    own = f"({case.aggregate.filter}) AND " if case.aggregate.filter else ""
    # a declared value is an integer of 54 bits; an end beyond that is beyond all of them
    low, high = max(low, values.low - 1), min(high, values.high + 1)
    read = (
        Statistic(ROWS, values.sql, case.aggregate.filter),
        Statistic(ROWS, values.sql, f"{own}({values.sql}) <= {low}"),
        Statistic(ROWS, values.sql, f"{own}({values.sql}) >= {high}"),
    )
    return Drawn(HistOne(fraction, case.epsilon) if one else Hist(fraction, rows, case.epsilon)), read


def _present(case: Case) -> Statistic:
    return Statistic(ROWS, case.aggregate.present, case.aggregate.filter)


def _average(case: Case, total: str) -> Built:
    """A noisy sum over a noisy count, half of the share each, clamped to the declared range (§6.4)."""
    values, half = values_of(case.aggregate), case.share.part(2)
    facts = Facts.of(case.request, [case.aggregate])
    check_rows(facts, values)
    rows = facts.kappa()
    count = _fine(half.additive(rows))
    summed: Estimated
    if total == "r2t":
        built, read = _r2t(replace(case, aggregate=replace(case.aggregate, function="sum")), "filter", half)
        if not isinstance(built, Estimated):
            raise ValueError("R2T gives an estimate")
        summed = built
    else:
        measure = _fine(half.additive(rows * values.largest))
        unit = values.step / measure.grain
        summed = Estimated((measure,), case.interval, lambda raw: raw[0] * unit)
        read = (Statistic(SUM, values.sql, case.aggregate.filter),)
    ends, place = (values.low * values.step, values.high * values.step), sum(m.released for m in summed.measures)

    def value(raw: Sequence[int]) -> Fraction:
        rows_ = max(Fraction(raw[place], count.grain), Fraction(1))
        return min(max(summed.value(raw[:place]) / rows_, ends[0]), ends[1])

    return Estimated((*summed.measures, count), case.interval, value), (*read, _present(case))


def _avg_direct(case: Case) -> Built:
    """[EXT] of §6.4: whether the sums of the distances to both ends are on the right side."""
    values, interval = values_of(case.aggregate), case.lattice_interval
    check_rows(Facts.of(case.request, [case.aggregate]), values)
    measure = Direct(interval.low, interval.high, (values.low, values.high), case.epsilon)
    return Drawn(measure), (Statistic(SUM, values.sql, case.aggregate.filter), _present(case))


@dataclass(frozen=True)
class How:
    """A decider's name as in the paper (or ours), whether it draws its bit, and its builder."""

    name: str
    draws: bool
    build: Callable[[Case], Built]


_BUILDERS: Mapping[tuple[str, str], How] = {
    ("count", "lm"): How("LM_count", False, _lm),
    ("count", "em"): How("EM_count", True, partial(_em_count, form="em")),
    ("count", "em_naive"): How("EM_count_naive", True, partial(_em_count, form="naive")),
    ("count", "em_unclamped"): How("em_unclamped", True, partial(_em_count, form="unclamped")),
    ("count", "randomised_response"): How("randomised_response", True, partial(_em_count, form="randomised")),
    ("sum", "lm"): How("LM_sum", False, _lm),
    ("sum", "r2t"): How("R2T_sum", False, partial(_r2t, truncation="filter")),
    ("sum", "r2t_geo"): How("r2t_geo", False, partial(_r2t, truncation=GEO)),
    ("sum", "r2t_split"): How("r2t_split", False, partial(_r2t, truncation="filter")),
    ("sum", "svt_basic"): How("SVT_sum (basic)", True, partial(_svt, theta=None)),
    ("sum", "svt"): How("SVT_sum", True, lambda case: _svt(case, case.question.theta)),
    ("quantile", "em"): How("EM_med", False, partial(_em_quantile, tight=False)),
    ("quantile", "em_tight"): How("em_tight", False, partial(_em_quantile, tight=True)),
    ("quantile", "hist"): How("Hist_med", True, partial(_hist, one=False)),
    ("quantile", "hist_one"): How("hist_one", True, partial(_hist, one=True)),
    ("avg", "lm"): How("LM_avg", False, partial(_average, total="lm")),
    ("avg", "r2t"): How("R2T_avg", False, partial(_average, total="r2t")),
    ("avg", "avg_direct"): How("avg_direct", True, _avg_direct),
}
