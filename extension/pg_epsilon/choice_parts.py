"""What a choice of mechanism is made of: the answer to one aggregate, its share of the budget, a block's facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pg_epsilon.accounting.charges import share
from pg_epsilon.accounting.curves import round_down
from pg_epsilon.decimals import plain
from pg_epsilon.errors import OUT_OF_RANGE, UNDECLARED, DPError
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.mechanisms.estimators import Estimator
from pg_epsilon.query.aggregates import Aggregate
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.query.request import Request
from pg_epsilon.query.statistics import Statistic

SUM_MAX = 2**62  # of what the declared number of rows, or all rows of a unit, can sum up to, lattice units


@dataclass(frozen=True)
class Choice:
    """How one aggregate is answered: its estimator, what its measures read, and why it was chosen.

    statement: the block's statement, if it is not made from `statistics`. key: what tells the release from that of the
    same aggregate without it.
    """

    estimator: Estimator
    statistics: tuple[Statistic, ...]
    candidates: tuple[tuple[str, Fraction | None], ...] = ()
    why: str = "the only mechanism for it"
    warnings: tuple[str, ...] = ()
    statement: str | None = None
    key: str = ""

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
        """Noise for a vector of this sensitivity; DP005, before anything is charged, if there is none."""
        squared = l1 * l1 if l2_squared is None else l2_squared
        rho = self.kind == "rho"
        noise = Additive(check_bound(l1), squared, **({"rho": self.amount} if rho else {"epsilon": self.amount}))
        noise.deviation()  # of its scale, which must exist
        return noise

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


def needs_amount(aggregate: Aggregate, share_: Share) -> Share:
    if share_.kind == "accuracy":
        raise DPError(
            OUT_OF_RANGE,
            f"alpha and beta say how near a count or a sum must be, not {aggregate.function}",
            "Ask with epsilon (or rho).",
        )
    return share_


def from_below(beta: Decimal) -> str:
    """What an answer of R2T means: at most the true value with probability 1 - beta/2 (dp-pqd.md §5.2)."""
    sure = plain(100 * (1 - beta / 2))
    return (
        f"R2T answers from below: with probability {sure} % or more the true value is at least the answer;"
        " by how much it is above is unknown"
    )


def values_of(aggregate: Aggregate) -> Lattice:
    if aggregate.lattice is None:
        raise ValueError("an aggregate of values without its lattice")
    return aggregate.lattice


def check_bound(bound: int) -> int:
    """What one unit may contribute, lattice units: with room in 64 bits, so that no total of a unit leaves them."""
    if bound > SUM_MAX:
        raise DPError(
            OUT_OF_RANGE,
            "what one unit may contribute could leave 64 bits",
            "Use a coarser resolution, tighter bounds, or a smaller max_contribution.",
        )
    return bound


def check_rows(facts: Facts, values: Lattice) -> None:
    """What the declared number of rows can sum up to must fit the noise lattice (composition.md §10.3)."""
    most = facts.request.policy.max_rows
    if most is not None and most * max(values.largest, values.high - values.low) > SUM_MAX:
        raise DPError(
            OUT_OF_RANGE,
            "a sum over the declared number of rows could leave 64 bits",
            "Use a coarser resolution, or tighter bounds.",
        )
