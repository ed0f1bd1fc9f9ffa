"""What is shown of a decision: the bit, the synthetic answer or the private one; post-processing of released integers.

GenericDecider (dp-pqd.md §3) is `Estimated`: an ε-DP estimate, compared with the public interval. A decider that draws
its bit directly is `Drawn`. Both are ε-DP because what they look at is released.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.decide.planner import Facts, table
from pg_epsilon.decide.question import FALLBACK, REPORT, Interval, Question
from pg_epsilon.mechanisms.estimators import UNKNOWN, Bar, Estimator, digits_of, text
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.mechanisms.task import Reserving
from pg_epsilon.noise import LATTICE_MAX, LATTICE_MIN, NoiseSource

SATISFIED, UNMET = "distance bound satisfied", "distance bound unmet"


class Decided(Protocol):
    """A decider's measures, and what they released says."""

    @property
    def measures(self) -> tuple[Measure, ...]: ...

    def holds(self, raw: Sequence[int]) -> bool: ...

    def estimate(self, raw: Sequence[int]) -> Fraction | None: ...

    def private(self, raw: Sequence[int]) -> str | None: ...

    @property
    def reserved(self) -> tuple[Charge, ...]: ...

    def unused(self, raw: Sequence[int]) -> tuple[Charge, ...]: ...


@dataclass(frozen=True)
class Estimated:
    """GenericDecider: 1 iff the noisy answer lies strictly inside the interval.

    value: released integers → the noisy answer, in the answer's unit.
    """

    measures: tuple[Measure, ...]
    interval: Interval
    value: Callable[[Sequence[int]], Fraction]

    def holds(self, raw: Sequence[int]) -> bool:
        """The bit."""
        return self.interval.holds(self.value(raw))

    def estimate(self, raw: Sequence[int]) -> Fraction | None:
        """The noisy answer: released with the bit, at no further cost (§2.7)."""
        return self.value(raw)

    def private(self, raw: Sequence[int]) -> str | None:
        """No answer of its own is bought: the estimate is one."""
        return None

    @property
    def reserved(self) -> tuple[Charge, ...]:
        """Nothing but the estimate is charged."""
        return ()

    def unused(self, raw: Sequence[int]) -> tuple[Charge, ...]:
        """Nothing was reserved that was not used."""
        return ()


@dataclass(frozen=True)
class Drawn:
    """A decider that releases its bit; with a fallback, the private answer behind it, which is drawn if need be."""

    measure: Measure
    answer: Estimator | None = None

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,) if self.answer is None else (Reserved(self.measure, self.answer.measures),)

    def holds(self, raw: Sequence[int]) -> bool:
        """The bit."""
        return raw[0] == 1

    def estimate(self, raw: Sequence[int]) -> Fraction | None:
        """Only the bit leaves."""
        return None

    def private(self, raw: Sequence[int]) -> str | None:
        """The private answer, where the bit said that it is needed."""
        return None if self.answer is None or self.holds(raw) else self.answer.present(raw[1:])

    @property
    def reserved(self) -> tuple[Charge, ...]:
        """The answer's charges."""
        return (
            ()
            if self.answer is None
            else tuple(charge for measure in self.answer.measures for charge in measure.charges())
        )

    def unused(self, raw: Sequence[int]) -> tuple[Charge, ...]:
        """The answer's charges, where the released bit said that it is not needed (composition.md §4, §11)."""
        return self.reserved if self.holds(raw) else ()


@dataclass(frozen=True)
class Reserved:
    """A decider's bit, then, only if it is 0, an answer's integers (else zeros); one cell.

    Both are charged for. Guarantee: adaptive composition of the two; which of them ran is a function of the released
    bit, and so is what may be given back of the charge.
    """

    decider: Measure
    answer: tuple[Measure, ...]

    @property
    def width(self) -> int:
        """Exact integers of the cell: the decider's, then the answer's."""
        return self.decider.width + sum(measure.width for measure in self.answer)

    @property
    def released(self) -> int:
        """The bit, then the answer's integers."""
        return 1 + sum(measure.released for measure in self.answer)

    def charges(self) -> tuple[Charge, ...]:
        """The worst case: both."""
        return tuple(charge for measure in (self.decider, *self.answer) for charge in measure.charges())

    def release(self, exact: Sequence[Sequence[int]], noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
        """The bit, and what it asks for."""
        (cell,) = exact
        ((bit,),) = self.decider.release([cell[: self.decider.width]], noise, f"{label} decision")
        if bit == 1:
            return [(1, *(0 for _ in range(self.released - 1)))]
        found: list[int] = []
        start = self.decider.width
        for number, measure in enumerate(self.answer, 1):
            ((*values,),) = measure.release([cell[start : start + measure.width]], noise, f"{label} answer {number}")
            found += values
            start += measure.width
        return [(bit, *found)]


@dataclass(frozen=True)
class Decision(Reserving):
    """One aggregate's decision, as an estimator: `present` is the answer that should be used.

    name: of the mechanism, as in the paper. extension: it is not the paper's. cost: the decision's share of the
    budget, as text. step, whole: how answers are written. facts: what a planner knows; warning: what it says of them
    (dp-pqd.md §9).
    """

    decided: Decided
    question: Question
    interval: Interval
    name: str
    extension: bool
    cost: str
    step: Fraction
    whole: bool
    facts: Facts
    warning: str | None = None

    @property
    def measures(self) -> tuple[Measure, ...]:
        return self.decided.measures

    @property
    def mechanism(self) -> str:
        """The decider."""
        return self.name

    def present(self, raw: Sequence[int]) -> str | None:
        """The synthetic answer; the private one where the bound is unmet and that is the policy."""
        if self.question.policy != FALLBACK or self.decided.holds(raw):
            return self._text(self.interval.answer)
        private = self.decided.private(raw)
        estimate = self.decided.estimate(raw)
        return private if estimate is None else self._text(estimate)

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        """A decision bounds no error: it is right with some probability only."""
        return UNKNOWN

    def margin(self, confidence: Decimal) -> Fraction | None:
        return None

    def expected_error(self) -> Fraction | None:
        return None

    @property
    def reserved(self) -> tuple[Charge, ...]:
        """The price of the answer behind the bit."""
        return self.decided.reserved

    @property
    def variant(self) -> tuple[str, bool]:
        """The decider, and whether an answer is behind its bit: what is released besides what is asked."""
        return self.name, bool(self.reserved)

    def unused(self, raw: Sequence[int]) -> tuple[Charge, ...]:
        """The answer's charges, where the released bit said that it is not needed."""
        return self.decided.unused(raw)

    def outcome(self, raw: Sequence[int]) -> dict[str, Any]:
        """What is said of the decision: public values, the bit and, where there is one, the noisy estimate (§2.7)."""
        holds, estimate = self.decided.holds(raw), self.decided.estimate(raw)
        return {
            **self.public(),
            "decision": holds,
            "text": SATISFIED if holds else UNMET,
            "estimate": None if estimate is None else exact_text(estimate),
            "answer": self.present(raw),
        }

    def public(self) -> dict[str, Any]:
        """What is known before anything is read."""
        copy = self.question.synthetic
        return {
            "table": copy.qualified,
            "provenance": copy.provenance,
            "mechanism": self.name,
            "extension": self.extension,
            "epsilon": self.cost,
            "synthetic": exact_text(self.interval.answer),
            "tau": exact_text(self.interval.tau),
            "low": exact_text(self.interval.low),
            "high": exact_text(self.interval.high),
            "warning": self.warning,
        }

    def alternatives(self) -> list[dict[str, Any]]:
        """Every decider of this question, with the least tau it tells apart (dp.dp_decide_plan)."""
        return table(self.facts)

    def sentence(self, raw: Sequence[int]) -> str:
        """For a NOTICE."""
        holds = self.decided.holds(raw)
        text_ = (
            f"{SATISFIED if holds else UNMET}: {self.question.synthetic.qualified} gives"
            f" {exact_text(self.interval.answer)}, which {'is' if holds else 'is not'} within"
            f" {exact_text(self.interval.tau)} of the private answer, by {self.name}"
        )
        if self.question.policy == REPORT:
            return text_
        private = self.question.policy == FALLBACK and not holds
        return f"{text_}; the answer is {'the private' if private else 'the synthetic'} one"

    def _text(self, value: Fraction) -> str:
        if self.whole:
            return str(min(max(round(value), LATTICE_MIN), LATTICE_MAX))
        digits = digits_of(self.step)
        return text(value, digits if (value / self.step).denominator == 1 else max(digits, 6))


def exact_text(value: Fraction) -> str:
    """A decimal with as many digits as it needs, at most 12 after the point, without trailing zeros."""
    shown = text(value, 12)
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
