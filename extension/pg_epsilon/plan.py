"""`Request` → `Plan`: mechanisms, noise, charges, accounts and expected error, from public facts only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.filters import Leaves, Relation, Root, Scope
from pg_epsilon.accounting.words import amounts_text, notice_text, scope_text
from pg_epsilon.choice import alone, choose, share
from pg_epsilon.choice_parts import Choice
from pg_epsilon.decimals import plain
from pg_epsilon.engine import tasks
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.mechanisms.estimators import Bar, Estimator, Joint
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.mechanisms.presentation import Part, Presentation
from pg_epsilon.mechanisms.stepwise import Stepwise
from pg_epsilon.mechanisms.task import Reserving
from pg_epsilon.query.aggregates import UNITS
from pg_epsilon.query.released import Free
from pg_epsilon.query.request import Request, canonical_text, timeless_text
from pg_epsilon.query.statistics import Statistic, beside, columns, needs_row_cap, statement

MAX_RELEASED = 4_000_000  # integers of one release: cells times what each of their measures releases
FREE_PATHS = ("cache", "declared domain", "paid before", "stored release")


@dataclass(frozen=True)
class Plan:
    """Everything that will happen, known before a row is read; it is what EXPLAIN prints.

    choices: one for each distinct aggregate, in order; places: which of them answers each aggregate of the request.
    cache_key: of what would be released now; question: of what is asked, whatever the version of policy and data.
    columns: how many the statement and each of its intermediate results have at most. collected: bytes of a result row
    that an aggregate of it collects.
    """

    request: Request
    choices: tuple[Choice, ...]
    places: tuple[int, ...]
    charges: tuple[Charge, ...]
    scope: Scope
    statement: str | None
    columns: int
    collected: int
    cache_key: str
    question: str
    capped: bool

    @cached_property
    def presentation(self) -> Presentation:
        """How released integers become values."""
        batch = self.request.batch
        together = tuple(batch.members) if batch is not None and self.choices else None
        estimators = tuple(choice.estimator for choice in self.choices)
        joint = together is not None and isinstance(estimators[-1], Joint)
        return Presentation(estimators, self.places, together if joint else None)

    @property
    def estimators(self) -> tuple[Estimator, ...]:
        return self.presentation.estimators

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What is drawn for, in the order of the statement's integers."""
        return tuple(measure for one in self.estimators for measure in one.measures)

    @property
    def joint(self) -> Joint | None:
        """The one release that answers the sums of a block that are a workload: the last choice."""
        return self.presentation.joint

    @property
    def mechanism(self) -> str:
        """The names of all mechanisms, each once."""
        return (
            ", ".join(dict.fromkeys(one.mechanism for one in self.estimators)) or self.free.mechanism or self.free.path
        )

    @property
    def free(self) -> Free:
        """Where the answer comes from of a plan that charges nothing."""
        return self.request.free or Free("declared domain")

    @property
    def margin(self) -> str:
        """The widest margin of the block's counts and sums at the asked confidence."""
        margins = [one.margin(self.request.confidence) for one in self.estimators]
        return plain(_decimal(max((m for m in margins if m is not None), default=Fraction(0))))

    @property
    def has_margin(self) -> bool:
        """Whether a margin is known of any of the block's aggregates."""
        known = any(one.margin(self.request.confidence) is not None for one in self.estimators)
        return known and self.joint is None

    def charge_text(self) -> dict[str, str]:
        """The block's price in its native unit, for people."""
        return amounts_text(self.charges)

    def best_text(self) -> dict[str, str]:
        """The least that it can cost: without the answers that released bits may not ask for."""
        reserved = [charge for one in self.estimators if isinstance(one, Reserving) for charge in one.reserved]
        return amounts_text(self.charges, reserved)

    def spent_text(self, raw: Sequence[int]) -> dict[str, str]:
        """What it did cost."""
        return amounts_text(self.charges, self.unused(raw))

    def texts(self, raw: Sequence[int], first: Sequence[int] | None = None) -> list[str | None]:
        """The values of one group, an aggregate each, from its released integers; first: those of the first group."""
        return self.presentation.texts(raw, first)

    def bars(self, raw: Sequence[int], first: Sequence[int] | None = None) -> list[Bar]:
        """(low, high, standard error) of one group, an aggregate each; first: as of `texts`."""
        return self.presentation.bars(raw, self.request.confidence, first)

    def unused(self, raw: Sequence[int]) -> tuple[Charge, ...]:
        """What was reserved for an answer that a released bit did not ask for (composition.md §4), or for steps that
        were not drawn (§10.3 c)."""
        parts = self.parts(raw)
        bits = tuple(c for one, part in parts if isinstance(one, Reserving) for c in one.unused(part))
        return bits + tuple(c for one, part in parts if isinstance(one, Stepwise) for c in one.left_over(part))

    @property
    def stepwise(self) -> Stepwise | None:
        """How it is drawn step by step; None: all at once."""
        (only, *others) = self.estimators or (None,)
        return only if isinstance(only, Stepwise) and not others and not self.request.keys else None

    @cached_property
    def form(self) -> str | None:
        """A digest of what the integers of a step mean: steps of another form are none of this release's."""
        how = self.stepwise
        return None if how is None else hashlib.sha256(f"{self.question} {how.form}".encode()).hexdigest()

    def parts(self, raw: Sequence[int]) -> list[Part]:
        """The released integers of one group, by estimator."""
        return self.presentation.parts(raw)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def make_plan(request: Request) -> Plan:
    """Choose the mechanisms and price of a request.

    DP004 if a cap or scale that it needs is not declared, DP005 if the budget does not fit the mechanism.
    """
    choices = tasks.prepared(request, alone)
    if choices is None:
        choices = tasks.together(request, choose(request, request.distinct), share)
    statistics = [one for choice in choices for one in choice.statistics]
    cells = [choice.estimator for choice in choices if not isinstance(choice.estimator, Joint)]
    if request.cells * sum(measure.released for one in cells for measure in one.measures) > MAX_RELEASED:
        raise DPError(
            OUT_OF_RANGE,
            f"more than {MAX_RELEASED} integers in one release",
            "Group by fewer keys, ask for fewer aggregates, or use laplace instead of r2t.",
        )
    return Plan(
        request=request,
        choices=choices,
        places=_places(request, choices),
        charges=tuple(c for choice in choices for measure in choice.estimator.measures for c in measure.charges()),
        scope=scope_of(request),
        statement=_statement(request, choices, statistics),
        cache_key=_digest(canonical_text(request), request, choices),
        question=_digest(timeless_text(request), request, choices),
        columns=columns(len(request.keys), statistics),
        collected=sum(s.collected for s in statistics),
        capped=needs_row_cap(request, statistics),
    )


def _places(request: Request, choices: Sequence[Choice]) -> tuple[int, ...]:
    """Which choice answers each aggregate; a workload's sums have the last one."""
    last, members = len(choices) - 1, frozenset[int]()
    if request.batch is not None and choices and isinstance(choices[-1].estimator, Joint):
        members = frozenset(request.batch.members)
    texts = [aggregate.meaning for aggregate in request.aggregates]
    inside = {texts[number] for number in members}
    order = [one.meaning for one in request.distinct if one.meaning not in inside]
    return tuple(last if text in inside else min(order.index(text), last) for text in texts)


def _digest(canonical: str, request: Request, choices: Sequence[Choice]) -> str:
    """Key of a question. Where a released bit decides what follows, the key also holds the mechanism and whether an
    answer is bought, because those change what is released."""
    released = [one.variant for one in (choice.estimator for choice in choices) if isinstance(one, Reserving)]
    text = canonical + (json.dumps(released) if released else "")
    if any(isinstance(choice.estimator, Joint) for choice in choices) and request.batch is not None:
        order = [aggregate.meaning for aggregate in request.distinct]
        places = [order.index(request.aggregates[number].meaning) for number in request.batch.members]
        text += f"together {places}"  # these sums, in this order, by one release
    text += "".join(choice.key for choice in choices)
    return hashlib.sha256(text.encode()).hexdigest()


def _statement(request: Request, choices: Sequence[Choice], statistics: Sequence[Statistic]) -> str | None:
    own = next((choice.statement for choice in choices if choice.statement is not None), None)
    others = [one for choice in choices if choice.statement is None for one in choice.statistics]
    if own is None or not others:
        return own if own is not None or not choices else statement(request, statistics)
    if request.keys:
        return beside(len(request.keys), sum(one.width for one in others), statement(request, others), own)
    return f"SELECT * FROM ({statement(request, others)}) AS r CROSS JOIN ({own}) AS w"


def scope_of(request: Request) -> Scope:
    policy = request.policy
    if policy.has_user_units:
        return Root()
    if request.partitions is not None:
        return Leaves(policy.relation_key, request.partitions.leaves)
    return Relation(policy.relation_key)


def warnings_of(plan: Plan) -> list[str]:
    """What a plan leaves out or rounds, in words: public facts."""
    request = plan.request
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
    if any(a.lattice is not None and a.lattice.nan is not None for a in request.aggregates):
        warnings.append("NaN is left out, as NULL is")
    warnings += [f"values are rounded to steps of {float(step):g}" for step in sorted(steps)]
    warnings += dict.fromkeys(warning for choice in plan.choices for warning in choice.warnings)
    return warnings


def describe(
    plan: Plan, *, path: str, left: dict[str, str], as_of: str, raw: Sequence[int] | None = None
) -> dict[str, Any]:
    """What may be said of a call in a NOTICE, EXPLAIN or dp_plan (composition.md §9): public facts, released values.

    raw: the released integers of the first group; None: nothing was released.
    """
    request = plan.request
    charge = plan.charge_text() if raw is None else plan.spent_text(raw)
    charge = {} if path in FREE_PATHS else charge
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
        **({"margin": plan.margin} if plan.has_margin else {}),
        "confidence": plain(request.confidence),
        "left": left,
        "as_of": as_of,
        "warnings": warnings_of(plan),
        "aggregates": [
            plan.choices[place].describe(a.name) for place, a in zip(plan.places, request.aggregates, strict=True)
        ],
    }
    told = tasks.described(plan, raw, joint=plan.joint is not None)
    info.update(told.facts)
    info["text"] = notice_text(info, told.sentences)
    return info
