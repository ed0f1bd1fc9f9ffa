"""`Request` → `Plan`: mechanisms, noise, charges, accounts and expected error, from public facts only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.filters import Leaves, Relation, Root, Scope
from pg_epsilon.choice import choose
from pg_epsilon.choice_parts import Choice
from pg_epsilon.decide.estimator import Decision
from pg_epsilon.decimals import plain
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.mechanisms.estimators import Bar, Estimator
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.query.aggregates import UNITS
from pg_epsilon.query.request import Request, canonical_text
from pg_epsilon.query.statistics import Statistic, needs_row_cap, statement

MAX_RELEASED = 4_000_000  # integers of one release: cells times what each of their measures releases
# A charge's parameter → what people call it. The two of a sparse vector are one price.
AMOUNTS = {
    "epsilon": "epsilon",
    "threshold_epsilon": "epsilon",
    "query_epsilon": "epsilon",
    "rho": "rho",
    "delta": "delta",
}


@dataclass(frozen=True)
class Plan:
    """Everything that will happen, known before a row is read; it is what EXPLAIN prints.

    choices: one for each distinct aggregate, in order; places: which of them answers each aggregate of the request.
    """

    request: Request
    choices: tuple[Choice, ...]
    places: tuple[int, ...]
    charges: tuple[Charge, ...]
    scope: Scope
    statement: str | None
    shape: str
    cache_key: str
    capped: bool

    @property
    def estimators(self) -> tuple[Estimator, ...]:
        return tuple(choice.estimator for choice in self.choices)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What is drawn for, in the order of the statement's integers."""
        return tuple(measure for one in self.estimators for measure in one.measures)

    @property
    def mechanism(self) -> str:
        """The names of all mechanisms, each once."""
        return ", ".join(dict.fromkeys(one.mechanism for one in self.estimators)) or "declared domain"

    @property
    def margin(self) -> str:
        """The widest margin of the block's counts and sums at the asked confidence."""
        margins = [one.margin(self.request.confidence) for one in self.estimators]
        return plain(_decimal(max((m for m in margins if m is not None), default=Fraction(0))))

    @property
    def has_margin(self) -> bool:
        """Whether a margin is known of any of the block's aggregates."""
        return any(one.margin(self.request.confidence) is not None for one in self.estimators)

    def charge_text(self) -> dict[str, str]:
        """The block's price in its native unit, for people."""
        return amounts_text(self.charges)

    def best_text(self) -> dict[str, str]:
        """The least that it can cost: without the answers that released bits may not ask for."""
        return amounts_text(self.charges, [c for one in self.decisions for c in one.decided.reserved])

    def spent_text(self, raw: Sequence[int]) -> dict[str, str]:
        """What it did cost."""
        return amounts_text(self.charges, self.unused(raw))

    def texts(self, raw: Sequence[int]) -> list[str | None]:
        """The values of one group, an aggregate each, from its released integers."""
        values = [one.present(part) for one, part in self._parts(raw)]
        return [values[place] for place in self.places]

    def bars(self, raw: Sequence[int]) -> list[Bar]:
        """(low, high, standard error) of one group, an aggregate each."""
        bars = [one.bars(part, self.request.confidence) for one, part in self._parts(raw)]
        return [bars[place] for place in self.places]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The estimators of a block that decides, none of one that does not."""
        return tuple(one for one in self.estimators if isinstance(one, Decision))

    def outcomes(self, raw: Sequence[int]) -> list[dict[str, Any]]:
        """What is said of each aggregate's decision."""
        found = [one.outcome(part) for one, part in self._decided(raw)]
        return [found[place] for place in self.places] if found else []

    def sentences(self, raw: Sequence[int]) -> list[str]:
        """The decisions in words, each once."""
        return [one.sentence(part) for one, part in self._decided(raw)]

    def unused(self, raw: Sequence[int]) -> tuple[Charge, ...]:
        """What was reserved for an answer that a released bit did not ask for (composition.md §4)."""
        return tuple(charge for one, part in self._decided(raw) for charge in one.decided.unused(part))

    def _decided(self, raw: Sequence[int]) -> list[tuple[Decision, Sequence[int]]]:
        return [(one, part) for one, part in self._parts(raw) if isinstance(one, Decision)]

    def _parts(self, raw: Sequence[int]) -> list[tuple[Estimator, Sequence[int]]]:
        found, start = [], 0
        for one in self.estimators:
            size = sum(measure.released for measure in one.measures)
            found.append((one, raw[start : start + size]))
            start += size
        return found


def amounts_text(charges: Sequence[Charge], less: Sequence[Charge] = ()) -> dict[str, str]:
    """Charges added up by name, as they were asked, less some of them."""
    total: dict[str, Decimal] = {}
    for sign, charge in [*((1, c) for c in charges), *((-1, c) for c in less)]:
        for name, value in charge.parameters:
            if known := AMOUNTS.get(name):
                total[known] = total.get(known, Decimal(0)) + sign * value
    return {name: plain(value) for name, value in total.items()}


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def make_plan(request: Request) -> Plan:
    """Choose the mechanisms and price of a request.

    DP004 if a cap or scale that it needs is not declared, DP005 if the budget does not fit the mechanism.
    """
    choices = choose(request, request.distinct)
    order = [repr(aggregate.canonical()) for aggregate in request.distinct]
    statistics = [one for choice in choices for one in choice.statistics]
    if request.cells * sum(m.released for choice in choices for m in choice.estimator.measures) > MAX_RELEASED:
        raise DPError(
            OUT_OF_RANGE,
            f"more than {MAX_RELEASED} integers in one release",
            "Group by fewer keys, ask for fewer aggregates, or use laplace instead of r2t.",
        )
    return Plan(
        request=request,
        choices=choices,
        places=tuple(order.index(repr(aggregate.canonical())) for aggregate in request.aggregates),
        charges=tuple(c for choice in choices for measure in choice.estimator.measures for c in measure.charges()),
        scope=_scope(request),
        statement=_statement(request, choices, statistics),
        shape=f"{request.source.shape} {_shape(request)}",
        cache_key=_cache_key(request, choices),
        capped=needs_row_cap(request, statistics),
    )


def _cache_key(request: Request, choices: Sequence[Choice]) -> str:
    """Equal questions have equal keys; of a decision, what it releases: its decider's, and whether an answer behind."""
    released = [(d.name, bool(d.decided.reserved)) for d in (c.estimator for c in choices) if isinstance(d, Decision)]
    text = canonical_text(request) + (json.dumps(released) if released else "")
    return hashlib.sha256(text.encode()).hexdigest()


def _statement(request: Request, choices: Sequence[Choice], statistics: Sequence[Statistic]) -> str | None:
    own = next((choice.statement for choice in choices if choice.statement is not None), None)
    return own if own is not None or not choices else statement(request, statistics)


def _shape(request: Request) -> str:
    if request.synthesize is not None:
        return "synthesize"
    functions = sorted({a.function for a in request.aggregates} - {"count"})
    what = "group by" if request.keys else "count" if request.decide is None else "decide"
    return " ".join([what, *functions])


def _scope(request: Request) -> Scope:
    policy = request.policy
    if policy.has_user_units:
        return Root()
    if request.partitions is not None:
        return Leaves(policy.relation_key, request.partitions.leaves)
    return Relation(policy.relation_key)


def describe(
    plan: Plan, *, path: str, left: dict[str, str], as_of: str, raw: Sequence[int] | None = None
) -> dict[str, Any]:
    """What may be said of a call in a NOTICE, EXPLAIN or dp_plan (composition.md §9): public facts, released values.

    raw: the released integers of a block that decides, which is one cell.
    """
    request = plan.request
    charge = plan.charge_text() if raw is None else plan.spent_text(raw)
    charge = {} if path in ("cache", "declared domain") else charge
    warnings, kappa = [], request.source.kappa
    rows_of_users = request.policy.has_user_units and any(a.of != UNITS for a in request.aggregates)
    if rows_of_users and all(a.function == "count" for a in request.aggregates) and kappa is not None:
        warnings.append(f"at most {kappa} rows of each unit are counted: the true number may be larger (bias unknown)")
    elif rows_of_users:
        warnings.append("what one unit contributes beyond its declared bound is left out (bias unknown)")
    elif plan.capped:
        warnings.append(f"at most {kappa} rows of each unit are looked at: a unit may miss from a group (bias unknown)")
    steps = {
        a.lattice.step
        for a in request.aggregates
        if a.lattice is not None and (a.lattice.rounds or a.parameters.resolution is not None)
    }
    warnings += [f"values are rounded to steps of {float(step):g}" for step in sorted(steps)]
    warnings += dict.fromkeys(warning for choice in plan.choices for warning in choice.warnings)
    info: dict[str, Any] = {
        "call": request.call,
        "relation": request.source.shape,
        "where": request.predicate,
        "keys": [request.keys[place].name for place in request.places],
        "groups": request.cells if request.keys else None,
        "path": path,
        "mechanism": plan.mechanism,
        "charge": charge,
        "accounts": scope_text(plan.scope),
        # of averages and quantiles none is known beforehand, and 0 would say that they are exact
        **({} if plan.decisions or not plan.has_margin else {"margin": plan.margin}),
        "confidence": plain(request.confidence),
        "left": left,
        "as_of": as_of,
        "warnings": warnings,
        "aggregates": [
            plan.choices[place].describe(a.name) for place, a in zip(plan.places, request.aggregates, strict=True)
        ],
    }
    if plan.decisions:
        info["decisions"] = [plan.decisions[place].public() for place in plan.places]
    info["text"] = notice_text(info, plan.sentences(raw) if raw is not None else ())
    return info


def scope_text(scope: Scope) -> str:
    if isinstance(scope, Root):
        return "root"
    if isinstance(scope, Relation):
        return f"relation {scope.relation}"
    return f"{len(scope.leaves)} partitions of {scope.relation}"


def notice_text(info: dict[str, Any], decisions: Sequence[str] = ()) -> str:
    """One line for a NOTICE."""
    cost = ", ".join(f"{name} {value} charged" for name, value in info["charge"].items()) or "free"
    text = f"dp: {info['path']}, {info['mechanism']}, {cost}"
    if info.get("margin", "0") != "0":
        text += f", ±{info['margin']} at {info['confidence']}" + (f" ({info['grade']})" if "grade" in info else "")
    for name, value in info["left"].items():
        text += f", {name} {value} left"
    return "; ".join([f"{text}, as of {info['as_of']}", *decisions, *info["warnings"]])
