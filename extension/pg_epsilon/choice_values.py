"""Averages, spreads and quantiles: their measures and sensitivities, by public facts only (dp-pqd.md §6)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from pg_epsilon.choice_parts import Choice, Facts, Share, check_rows, needs_amount, values_of
from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.mechanisms.covering import Bound, doubling
from pg_epsilon.mechanisms.estimators import Average, Covering, Quantile, Spread
from pg_epsilon.mechanisms.ranks import Ranks
from pg_epsilon.query.aggregates import ROWS, Aggregate
from pg_epsilon.query.statistics import HISTOGRAM, PREFIX, SUM, Statistic

POINTS = 2**16  # of a quantile's lattice, at most
CELLS = 2**22  # of all histograms of a block together, at most
THETA = Decimal("0.95")
SQUARES = 2**31  # the largest square, in grains


def average(facts: Facts, aggregate: Aggregate, share_: Share) -> Choice:
    """Noisy sum about the middle of the range over noisy count, half of the share each."""
    values = values_of(aggregate)
    check_rows(facts, values)
    rows, half = facts.kappa(), needs_amount(aggregate, share_).part(2)
    centre = (values.low + values.high) // 2
    reach = max(values.high - centre, centre - values.low, 1)
    estimator = Average(half.additive(rows * reach), half.additive(rows), values.step, values.low, values.high, centre)
    read = (Statistic(SUM, f"({values.sql} - {centre})", aggregate.filter), _present(aggregate))
    return Choice(estimator, read, why="sum about the middle of the range, and count, half of the share each")


def _present(aggregate: Aggregate) -> Statistic:
    return Statistic(ROWS, aggregate.present, aggregate.filter)


def spread(facts: Facts, aggregate: Aggregate, share_: Share) -> Choice:
    """Variance or standard deviation from noisy count, sum and sum of squares, a third of the share each."""
    values = values_of(aggregate)
    check_rows(facts, values)
    rows, third = facts.kappa(), needs_amount(aggregate, share_).part(3)
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


def quantile(facts: Facts, aggregate: Aggregate, share_: Share) -> Choice:
    """The exponential mechanism over the declared values, in coarser steps if there are too many.

    The declared values are the multiples of the column's resolution, whatever steps its type has (composition.md
    §14.9); without a resolution, the points of the lattice. A row's value counts for the nearest one.
    """
    values = values_of(aggregate)
    rows, fraction = facts.kappa(), aggregate.parameters.fraction
    epsilon = needs_amount(aggregate, share_).epsilon_of_selection()
    if fraction is None or epsilon <= 0:
        raise DPError(OUT_OF_RANGE, "a quantile needs its fraction and a budget", "fraction => 0.9, epsilon => 0.1")
    points = min(POINTS, max(16, CELLS // facts.request.cells))
    grid = values.ladder
    first = values.low // grid * grid
    declared = (values.high - first) // grid + 1
    each = -(-declared // points)
    stride = each * grid
    estimator = Quantile(
        Ranks(-(-declared // each), Fraction(fraction), rows, epsilon),
        values.low,
        values.high,
        stride,
        values.step,
        values.whole,
        grid,
    )
    point = f"(({values.sql} - {first - grid // 2}) / {stride})"
    warnings = (f"values are told apart in steps of {float(stride * values.step):g} only",) if each > 1 else ()
    return Choice(estimator, (Statistic(HISTOGRAM, point, aggregate.filter),), warnings=warnings)


def bound(facts: Facts, aggregate: Aggregate, share_: Share) -> Choice:
    """PrivateBoundDS: a power of two of the lattice that covers about a share theta of the rows (dp-pqd.md §5.3)."""
    values = values_of(aggregate)
    if facts.users or facts.request.keys or facts.histograms or values.low < 0:
        raise DPError(
            SHAPE,
            "a bound is chosen for values from 0 up, of one question, where the unit is a row",
            "Clamp from below: greatest(x, 0); ask without GROUP BY and quantiles.",
        )
    if share_.kind != "epsilon":
        raise DPError(OUT_OF_RANGE, "a bound takes a budget of kind epsilon", "Ask with epsilon => 0.1.")
    levels = doubling(values.largest, values.ladder)
    measure = Bound(levels, aggregate.parameters.theta or THETA, share_.amount)
    read = Statistic(PREFIX, values.sql, aggregate.filter, levels=(levels,))
    warning = "about a share theta of the rows is at most this: it is no bound on the others"
    return Choice(Covering(measure, values.high, values.step, values.whole), (read,), warnings=(warning,))
