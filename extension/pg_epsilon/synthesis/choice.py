"""A synthesis and its budget → the measure, its statement and its price: by public facts only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pg_epsilon.accounting.charges import add
from pg_epsilon.choice_parts import Choice, Share, check_bound
from pg_epsilon.errors import OUT_OF_RANGE, UNDECLARED, DPError
from pg_epsilon.mechanisms.estimators import UNKNOWN, Bar
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.query.request import Request
from pg_epsilon.query.statistics import OWNERS, Statistic
from pg_epsilon.synthesis.ask import Layout, Synthesis
from pg_epsilon.synthesis.marginals import Marginals, Phase
from pg_epsilon.synthesis.statement import statement
from pg_epsilon.synthesis.variables import Variable

# Hundredths of the budget: the columns; the choice of the tree and its tables; the choice of further pairs and theirs.
_ONES, _TREE, _MORE = 45, (8, 32), (3, 12)


@dataclass(frozen=True)
class Synthetic:
    """The estimator of a synthesis: nothing to show but the table."""

    measure: Marginals

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    @property
    def mechanism(self) -> str:
        return f"{'discrete Gaussian' if self.measure.rho else 'discrete Laplace'} marginals"

    def present(self, raw: Sequence[int]) -> str | None:
        return str(max(raw[0], 0))

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        return UNKNOWN

    def margin(self, confidence: Decimal) -> None:
        return None

    def expected_error(self) -> None:
        return None


def choose(request: Request, ask: Synthesis) -> Choice:
    """The one choice of a synthesis. DP004 without a cap on a user's rows, DP005 for a budget that does not fit."""
    rows = 1
    if request.source.has_user_units:
        if request.source.kappa is None:
            raise DPError(
                UNDECLARED,
                f"how many rows one user of {request.policy.relation.qualified} may own is not declared",
                "The owner protects it with max_rows_per_unit.",
            )
        rows = request.source.kappa
    budget = request.budget
    if budget.kind == "accuracy":
        raise DPError(
            OUT_OF_RANGE, "a synthetic table takes epsilon or rho", "CALL dp.make_synthetic(..., epsilon => 1)"
        )
    share_ = Share(budget.kind, budget.rho or budget.epsilon or Decimal(0))
    measure = _measure(ask, rows, share_)
    warnings = [f"at most {rows} rows of each unit are in it"] if request.source.has_user_units else []
    return Choice(
        Synthetic(measure),
        (Statistic(OWNERS),),  # one binary value
        warnings=tuple(warnings),
        statement=statement(ask, request.source),
    )


def _measure(ask: Synthesis, rows: int, budget: Share) -> Marginals:
    pairs, edges = len(ask.layout.pairs), len(ask.variables) - 1
    picks = [count for count in (min(edges, pairs), min(edges, max(pairs - edges, 0))) if count]
    weights = [_TREE, _MORE][: len(picks)]
    hundredth = budget.part(_ONES + sum(map(sum, weights)))
    rho = budget.kind == "rho"

    def part(weight: int) -> Share:
        return Share(budget.kind, hundredth.amount * weight)

    phases = tuple(
        Phase(count, part(choice).part(count).epsilon_of_selection(), part(tables).amount, rho)
        for count, (choice, tables) in zip(picks, weights, strict=True)
    )
    if any(phase.epsilon <= 0 for phase in phases):
        raise DPError(OUT_OF_RANGE, "the budget is too small to be split", "Spend more, or name fewer columns.")
    ones = part(_ONES).amount
    if not rho:  # what rounding left over: the parts add up to what was asked
        ones = budget.amount - add(p.epsilon * p.picks + p.amount for p in phases)
    check_bound((1 + len(ask.variables)) * rows * rows)
    measure = Marginals(ask.layout, tuple(one.ordered for one in ask.variables), rows, ones, rho, phases)
    # Scales that do not exist are refused now, before anything is charged.
    for noise in [measure.first, *(phase.noise(n, rows) for phase in phases for n in range(1, phase.picks + 1))]:
        noise.deviation()
    return measure


def document(ask: Synthesis, measure: Measure, raw: Sequence[int]) -> dict[str, Any]:
    """What the table is made of: released integers and public facts. The inverse: `read`."""
    if not isinstance(measure, Marginals):
        raise ValueError("not a synthesis")
    return {
        "total": max(raw[0], 0),
        "columns": [one.to_json() for one in ask.variables],
        "values": [one.value(f"u.c{i}") for i, one in enumerate(ask.variables, 1)],
        "rows_per_unit": measure.rows,
        "rho": measure.rho,
        "ones": str(measure.ones),
        "phases": [[phase.picks, str(phase.epsilon), str(phase.amount)] for phase in measure.phases],
        "raw": list(raw),
    }


def read(found: dict[str, Any]) -> tuple[tuple[Variable, ...], Marginals, list[int]]:
    """(Variables, measure, released integers) of a `document`."""
    variables = tuple(Variable.from_json(one) for one in found["columns"])
    phases = tuple(
        Phase(picks, Decimal(epsilon), Decimal(amount), found["rho"]) for picks, epsilon, amount in found["phases"]
    )
    layout = Layout(tuple(one.size for one in variables))
    ordered = tuple(one.ordered for one in variables)
    return (
        variables,
        Marginals(layout, ordered, found["rows_per_unit"], Decimal(found["ones"]), found["rho"], phases),
        found["raw"],
    )


def made(synthesis: str, count: int) -> Iterator[tuple[list[int], ...]]:
    """Rows of the table of a `document`, in chunks: see sampling.rows and dp._synthetic_rows."""
    from pg_epsilon.synthesis import sampling  # numpy is not on the way of a count
    from pg_epsilon.synthesis.marginals import findings
    from pg_epsilon.synthesis.model import fitted

    variables, measure, raw = read(json.loads(synthesis))
    return sampling.rows(fitted(findings(raw, measure), measure.ordered), variables, count, raw)
