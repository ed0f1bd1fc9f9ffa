"""An explanation and its budget → the measure, its statement and its price: by public facts only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from pg_epsilon.accounting.charges import add
from pg_epsilon.accounting.curves import round_down
from pg_epsilon.choice_parts import Choice, Share, check_bound
from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, UNDECLARED, DPError
from pg_epsilon.explain import sensitivity
from pg_epsilon.explain.cells import Layout
from pg_epsilon.explain.measure import Explaining, Price, fineness
from pg_epsilon.explain.ranked import Ranked
from pg_epsilon.explain.space import Space
from pg_epsilon.explain.statement import SUM_MAX, by_cells, by_list, by_predicates
from pg_epsilon.explain.why import Why
from pg_epsilon.mechanisms.estimators import UNKNOWN, Bar
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.query.request import Request
from pg_epsilon.query.statistics import OWNERS, Statistic

RECORD_BYTES = 24
MOST_BYTES = 64 * 1024 * 1024
MOST_SUBSETS = 2_000  # expressions of one array
MOST_WORK = 400_000_000  # intervals, of which a second computes some fifty million
OVERHEAD = 1_000  # predicates whose intervals take as long as a call
UNDECLARED_ROWS = 2**30  # what sums have room for where max_rows is not declared


@dataclass(frozen=True)
class Explained:
    """The estimator of an explanation: nothing to show but the table."""

    measure: Explaining | Ranked

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    @property
    def mechanism(self) -> str:
        noise = "discrete Gaussian" if self.measure.price.rho else "discrete Laplace"
        return f"exponential mechanism, {noise}"

    def present(self, raw: Sequence[int]) -> str | None:
        return self.measure.space.text(raw[0])

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        return UNKNOWN

    def margin(self, confidence: Decimal) -> None:
        return None

    def expected_error(self) -> None:
        return None


def choose(request: Request, why: Why) -> Choice:
    """The one choice of an explanation.

    DP003 where a row has several units, DP004 without a cap on a user's rows, DP005 for a budget that does not fit, and
    where more than 64 MB could be read.
    """
    by_predicate, statement = reading(request, why)
    priced = measure_of if why.formula is None else ranked_of
    measure = priced(request, why, by_predicate=by_predicate)
    return Choice(
        Explained(measure),
        (Statistic(OWNERS),),  # one binary value
        warnings=warnings_of(request, why),
        statement=statement,
    )


def warnings_of(request: Request, why: Why) -> tuple[str, ...]:
    """Of which rows and columns nothing is told: public facts."""
    users = request.source.has_user_units
    warnings = [f"at most {request.source.kappa} rows of each unit are looked at (bias unknown)"] if users else []
    if why.left_out:
        warnings.append(
            f"not tested, because they have many values: {', '.join(why.left_out)} (attributes => names them)"
        )
    if why.idle:
        warnings.append(f"without influence, because groups or WHERE fix their values: {', '.join(why.idle)}")
    return tuple(warnings)


def measure_of(request: Request, why: Why, *, by_predicate: bool = False) -> Explaining:
    """DP005 for bounds that are equal, and for a budget that does not fit."""
    units, (low, high) = units_of(request), why.bounds
    change = units * sensitivity.change(why.kind, why.weights, low, high)
    apart = units * sensitivity.spread(why.kind, why.weights, low, high)
    if not change:
        raise DPError(OUT_OF_RANGE, "all values are equal by their bounds", "Declare bounds that differ.")
    confidence = why.comparison.question.confidence
    price = _price(request, why)
    measure = Explaining(
        why.space,
        why.kind,
        why.weights,
        why.k,
        change,
        apart,
        price,
        confidence,
        why.joint,
        why.lower,
        by_predicate,
        fineness(most_rows(request)),
    )
    check_bound(2 * why.k * measure.search.moved)
    # Scales that do not exist are refused now, before anything is charged.
    _ = measure.margin, measure.search.margin(why.lower), measure.search.margin(1 - why.lower)
    return measure


def ranked_of(request: Request, why: Why, *, by_predicate: bool = False) -> Ranked:
    """Of an expression. DP005 for a budget that does not fit, or so small that distances take too long to compute."""
    if why.formula is None:
        raise ValueError("an explanation with weights")
    confidence, price = why.comparison.question.confidence, _price(request, why)
    units = units_of(request)
    measure = Ranked(why.space, why.formula, why.k, units, price, confidence, why.lower, by_predicate)
    furthest = max(measure.farthest, *measure.caps.values())
    check_bound(2 * units)
    if measure.work * (len(why.space) + OVERHEAD) > MOST_WORK or furthest * why.formula.change >= SUM_MAX:
        raise DPError(
            OUT_OF_RANGE,
            f"with this budget distances of up to {furthest} rows would count, too far to compute of {len(why.space)}"
            f" predicates for k = {why.k}",
            "Spend more, ask for a smaller k, or name fewer columns: attributes => '{age,education}'.",
        )
    return measure


def _price(request: Request, why: Why) -> Price:
    budget = request.budget
    if budget.kind == "accuracy":
        raise DPError(OUT_OF_RANGE, "an explanation takes epsilon or rho", "epsilon => 1")
    whole = Share(budget.kind, budget.rho or budget.epsilon or Decimal(0))
    first, second, _ = (round_down(Fraction(whole.amount) * part) for part in why.split)
    selection = Share(budget.kind, first).part(why.k).epsilon_of_selection()
    spent = first if budget.kind == "rho" else selection * why.k
    ranks = add([whole.amount, -spent, -second])  # what rounding left over too: the parts add up to what was asked
    if min(selection, ranks) <= 0 or (second <= 0 and why.formula is None):
        raise DPError(OUT_OF_RANGE, "the budget is too small to be split", "Spend more, or ask for fewer predicates.")
    return Price(selection, second, ranks, budget.kind == "rho")


def units_of(request: Request) -> int:
    """How many rows of one unit are looked at. DP003 where a row has several units, DP004 without a cap."""
    source = request.source
    if not source.has_user_units:
        return 1
    if source.unit is None:
        raise DPError(SHAPE, "a result row has several users", "Explain answers of rows that one user owns.")
    if source.kappa is None:
        raise DPError(
            UNDECLARED,
            f"how many rows one user of {request.policy.relation.qualified} may own is not declared",
            "The owner protects it with max_rows_per_unit.",
        )
    return source.kappa


def reading(request: Request, why: Why) -> tuple[bool, str]:
    """(Whether the statement adds up cells itself, because all that have a row may take more than MOST_BYTES; it).

    By public bounds alone, before the charge (composition.md §10.3). DP005 where the sums by predicate take more too.
    """
    rows = most_rows(request)
    lattice = request.aggregates[0].lattice
    if lattice is not None and rows * lattice.largest > SUM_MAX:
        raise DPError(
            OUT_OF_RANGE,
            "a sum over the declared number of rows could leave 64 bits",
            "Use a coarser resolution, or tighter bounds.",
        )
    if not isinstance(why.space, Space):
        return False, by_list(why.read, why.space)
    layout = Layout(len(why.read.groups), tuple(one.size for one in why.space.attributes))
    if layout.cells <= SUM_MAX and min(rows, layout.cells) * RECORD_BYTES <= MOST_BYTES:
        return False, by_cells(why.read, why.space, layout)
    if len(why.space) * layout.groups * RECORD_BYTES > MOST_BYTES or len(why.space.subsets) > MOST_SUBSETS:
        raise DPError(
            OUT_OF_RANGE,
            "what is read for these predicates could take more than 64 MB",
            "Name fewer columns: attributes => '{age,education}'; or the owner declares max_rows.",
        )
    return True, by_predicates(why.read, why.space, layout)


def most_rows(request: Request) -> int:
    """How many rows there are at most, as declared; of several relations, of the largest."""
    return max((one.max_rows or UNDECLARED_ROWS for one in request.source.relations), default=UNDECLARED_ROWS)
