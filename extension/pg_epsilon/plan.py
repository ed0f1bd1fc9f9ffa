"""`Request` → `Plan`: mechanism, noise, charges, accounts and expected error, from public facts only."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pg_epsilon.accounting.charges import Charge, share
from pg_epsilon.accounting.filters import Leaves, Relation, Root, Scope
from pg_epsilon.accounting.margins import laplace_epsilon
from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, UNDECLARED, DPError
from pg_epsilon.mechanisms.count import CountNoise
from pg_epsilon.query.aggregates import UNITS, Aggregate
from pg_epsilon.query.request import Request, canonical_text
from pg_epsilon.query.statistics import needs_row_cap, statement


@dataclass(frozen=True)
class Plan:
    """Everything that will happen, known before a row is read; it is what EXPLAIN prints."""

    request: Request
    mechanism: str
    noise: tuple[CountNoise, ...]
    charges: tuple[Charge, ...]
    scope: Scope
    statement: str | None
    shape: str
    cache_key: str
    capped: bool

    @property
    def margin(self) -> int:
        """The widest margin of the block's aggregates at the asked confidence."""
        return max((how.margin(self.request.confidence) for how in self.noise), default=0)

    def charge_text(self) -> dict[str, str]:
        """The block's price in its native unit, for people."""
        total: dict[str, Decimal] = {}
        for charge in self.charges:
            for name, value in charge.parameters:
                total[name] = total.get(name, Decimal(0)) + value
        return {name: plain(value) for name, value in total.items()}


def plain(value: Decimal) -> str:
    """A decimal without exponent or trailing zeros."""
    return format(value.normalize(), "f") if value else "0"


def make_plan(request: Request) -> Plan:
    """Choose the mechanism and price of a request.

    DP004 if a cap or scale that it needs is not declared, DP005 if the budget does not fit the mechanism.
    """
    policy = request.policy
    aggregates = request.aggregates
    if any(a.function != "count" for a in aggregates):
        raise DPError(SHAPE, "only counts are supported", "Supported: count(*), count(x), count(distinct unit).")
    if not aggregates:
        mechanism: str = "declared domain"
        noise: tuple[CountNoise, ...] = ()
    else:
        mechanism = _mechanism(request)
        noise = tuple(_noise(request, a) for a in aggregates)
    return Plan(
        request=request,
        mechanism=mechanism,
        noise=noise,
        charges=tuple(how.charge() for how in noise),
        scope=_scope(request),
        statement=statement(request) if aggregates else None,
        shape=f"{policy.relation_key} {'group by' if request.keys else 'count'}",
        cache_key=hashlib.sha256(canonical_text(request).encode()).hexdigest(),
        capped=needs_row_cap(request),
    )


def _mechanism(request: Request) -> str:
    asked, kind = request.mechanism, request.budget.kind
    fitting = "gaussian" if kind == "rho" else "laplace"
    if asked not in ("auto", fitting):
        raise DPError(
            OUT_OF_RANGE,
            f"mechanism {asked} does not take a budget of kind {kind}",
            "laplace takes epsilon (or alpha and beta), gaussian takes rho.",
        )
    return f"discrete {fitting.capitalize()}"


def _noise(request: Request, aggregate: Aggregate) -> CountNoise:
    l1, l2_squared = sensitivity(request, aggregate)
    budget, parts = request.budget, len(request.aggregates)
    if budget.kind == "rho":
        return CountNoise(l1, l2_squared, rho=_share(budget.rho, parts))
    if budget.kind == "epsilon":
        return CountNoise(l1, l2_squared, epsilon=_share(budget.epsilon, parts))
    if budget.alpha is None or budget.beta is None or request.policy.scale is None:
        raise DPError(
            UNDECLARED,
            "alpha is a fraction of the relation's declared scale, and no scale is declared",
            "Ask with epsilon, or let the owner declare one: CALL dp.protect(..., scale => number of rows to expect).",
        )
    tolerance = Fraction(budget.alpha) * Fraction(request.policy.scale)
    return CountNoise(l1, l2_squared, epsilon=laplace_epsilon(tolerance, budget.beta, l1))


def _share(amount: Decimal | None, parts: int) -> Decimal:
    if amount is None:
        raise ValueError("a budget without its amount")
    part = share(amount, parts)
    if part <= 0:
        raise DPError(
            OUT_OF_RANGE,
            "the budget is too small to be split over the block's aggregates",
            "Ask for fewer aggregates, or spend more.",
        )
    return part


def sensitivity(request: Request, aggregate: Aggregate) -> tuple[int, int]:
    """(L1, squared L2) of an aggregate's vector over all groups, to one unit with all it owns (composition.md §2).

    Row units: one row is in one group, (1, 1). Users counted once per group: at most c groups, c = min(kappa, number
    of groups), (c, c). Rows of users: at most kappa rows, which may all be in one group, (kappa, kappa²). DP004 if a
    count of rows has no declared kappa.
    """
    policy = request.policy
    if not policy.has_user_units:
        return 1, 1
    kappa = policy.max_rows_per_unit
    if aggregate.of == UNITS:
        cells = request.cells if kappa is None else min(kappa, request.cells)
        return cells, cells
    if kappa is None:
        raise DPError(
            UNDECLARED,
            f"how many rows one user of {policy.relation.qualified} may own is not declared",
            "Count users instead, count(distinct unit column) or what => 'units', or let the owner protect it with"
            " max_rows_per_unit.",
        )
    return kappa, kappa * kappa


def _scope(request: Request) -> Scope:
    policy = request.policy
    if policy.has_user_units:
        return Root()
    if request.partitions is not None:
        return Leaves(policy.relation_key, request.partitions.leaves)
    return Relation(policy.relation_key)


def describe(plan: Plan, *, path: str, left: dict[str, str], as_of: str) -> dict[str, Any]:
    """What may be said of a call in a NOTICE, EXPLAIN or dp_plan (composition.md §9): public facts, released values."""
    request = plan.request
    charge = {} if path in ("cache", "declared domain") else plan.charge_text()
    warnings, kappa = [], request.policy.max_rows_per_unit
    if request.policy.has_user_units and any(a.of != UNITS for a in request.aggregates):
        warnings.append(f"at most {kappa} rows of each unit are counted: the true number may be larger (bias unknown)")
    elif plan.capped:
        warnings.append(f"at most {kappa} rows of each unit are looked at: a unit may miss from a group (bias unknown)")
    info: dict[str, Any] = {
        "call": request.call,
        "relation": request.policy.relation_key,
        "where": request.predicate,
        "keys": [key.name for key in request.keys],
        "groups": request.cells if request.keys else None,
        "path": path,
        "mechanism": plan.mechanism,
        "charge": charge,
        "accounts": scope_text(plan.scope),
        "margin": str(plan.margin),
        "confidence": plain(request.confidence),
        "left": left,
        "as_of": as_of,
        "warnings": warnings,
    }
    info["text"] = notice_text(info)
    return info


def scope_text(scope: Scope) -> str:
    if isinstance(scope, Root):
        return "root"
    if isinstance(scope, Relation):
        return f"relation {scope.relation}"
    return f"{len(scope.leaves)} partitions of {scope.relation}"


def notice_text(info: dict[str, Any]) -> str:
    """One line for a NOTICE."""
    cost = ", ".join(f"{name} {value} charged" for name, value in info["charge"].items()) or "free"
    text = f"dp: {info['path']}, {info['mechanism']}, {cost}"
    if info["margin"] != "0":
        text += f", ±{info['margin']} at {info['confidence']}"
    for name, value in info["left"].items():
        text += f", {name} {value} left"
    return "; ".join([f"{text}, as of {info['as_of']}", *info["warnings"]])
