"""A question about released answers, and what is left of it when it has been checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain import arithmetic, bootstrap
from pg_epsilon.explain.averages import noise_is_gaussian
from pg_epsilon.explain.forms import Barred, Form, Halves, Linear, Pair

METHODS = ("auto", "box", "box_tight", "fieller", "joint", "bootstrap")

MISS_MIN = Fraction(1, 10**9)
"""Smallest confidence, and smallest 1 - confidence."""

GROUPS_MAX = 100_000
"""Largest number of released keys among which a question is chosen."""

LARGEST = Fraction(10**100)
"""Largest weight or constant; 1 / LARGEST is the smallest but 0."""

WORK = 2_000_000
"""Operations of a bootstrap, at most."""


@dataclass(frozen=True)
class Question:
    """What is asked: sum of weights * answers, or an expression of them; less a constant.

    groups: distinct released answers (of one that is named twice, the sum of its weights). weights:
    one for each; of 0, the group is not looked at; None: 1, -1 of two groups, 1 of one. expression:
    `arithmetic.parse`, without weights. method: of METHODS. confidence: MISS_MIN to 1 -
    MISS_MIN. simultaneous: None if the question was fixed before the release; else the number of
    released keys of that aggregate (of several aggregates: the sum), because names chosen after
    looking are chosen for their noise. replicates: of the bootstrap.
    """

    groups: tuple[Form, ...]
    weights: tuple[Fraction, ...] | None = None
    expression: str | None = None
    constant: Fraction = Fraction(0)
    method: str = "auto"
    confidence: Fraction = Fraction(19, 20)
    simultaneous: int | None = None
    replicates: int = 2000


def is_gaussian_average(form: Form) -> bool:
    return isinstance(form, (Halves, Pair)) and noise_is_gaussian(form)


@dataclass(frozen=True)
class Asked:
    """A question that was checked: the groups that it looks at, with a tree or with weights.

    weights: none of them 0. allowed: 1 - confidence. groups: among how many keys it was chosen;
    None: it was fixed before.
    """

    forms: tuple[Form, ...]
    weights: tuple[Fraction, ...]
    tree: arithmetic.Node | None
    constant: Fraction
    method: str
    allowed: Fraction
    groups: int | None
    replicates: int

    @classmethod
    def of(cls, question: Question) -> Asked:
        """DP003 and DP005 as `question.compare` says."""
        _check_numbers(question)
        tree: arithmetic.Node | None = None
        weights: tuple[Fraction, ...] = ()
        if question.expression is not None:
            if question.weights is not None:
                _refuse("an expression stands without weights", "Write them into the expression.")
            tree = arithmetic.parse(question.expression, len(question.groups))
            chosen = arithmetic.used(tree)
            tree = arithmetic.renumbered(tree, {old: new for new, old in enumerate(chosen)})
        else:
            given = _weights(question)
            chosen = tuple(i for i, w in enumerate(given) if w)
            weights = tuple(given[i] for i in chosen)
        _check_keys(question, len(chosen))
        forms = tuple(question.groups[i] for i in chosen)
        constant = _number(question.constant, "the constant")
        allowed = 1 - Fraction(question.confidence)
        how = question.method, allowed, question.simultaneous, question.replicates
        asked = cls(forms, weights, tree, constant, *how)
        asked._check_method()
        return asked

    @property
    def is_pair(self) -> bool:
        """A multiple of the difference of two answers."""
        return len(self.weights) == 2 and sum(self.weights) == 0

    @property
    def is_auto(self) -> bool:
        """The rule follows from the answers; so it does for the verdict beside a bootstrap."""
        return self.method in ("auto", "bootstrap")

    def _check_method(self) -> None:
        """DP003 where the method is for other answers than these."""
        if self.method == "bootstrap":
            tree = () if self.tree is None else arithmetic.walk(self.tree)
            size = max(1 + len(self.forms), sum(1 for _ in tree))
            if size * self.replicates > WORK:
                raise DPError(
                    OUT_OF_RANGE,
                    f"a bootstrap of this question takes more than {WORK:,} operations",
                    "Ask for fewer replicates, or leave method out.",
                )
        if self.is_auto:
            return
        if self.tree is not None:
            self._unfit("is not for expressions", "or ask for 'bootstrap'")
        if not all(isinstance(form, (Halves, Pair)) for form in self.forms):
            self._unfit("is for averages", "because counts and sums have one exact rule")
        if self.method == "joint" and not self.is_pair:
            self._unfit("is for the difference of two averages", "or ask for 'fieller'")
        if self.method == "joint" and not all(map(is_gaussian_average, self.forms)):
            self._unfit("is for Gaussian noise", "or ask for 'fieller'")
        of_pairs = any(isinstance(form, Pair) for form in self.forms)
        if self.method in ("box", "box_tight") and of_pairs:
            self._unfit("is for averages of a sum and a count", "or ask for 'fieller'")

    def _unfit(self, why: str, instead: str) -> NoReturn:
        _refuse(f"method {self.method} {why}", f"Leave method out, {instead}.")

    def divides(self) -> list[tuple[Form, bool]]:
        """The groups, each with whether it stands below a division's line."""
        below = arithmetic.divisors(self.tree) if self.tree is not None else frozenset()
        return [(form, i in below) for i, form in enumerate(self.forms)]

    def shown(self) -> float:
        """The question's value at the answers as they were shown; NaN where one is not."""
        values = [_shown(form) for form in self.forms]
        if any(value is None for value in values):
            return math.nan
        known = [value for value in values if value is not None]
        if self.tree is not None:
            return self._combined([float(value) for value in known])
        return float(sum((w * x for w, x in zip(self.weights, known, strict=True)), -self.constant))

    def at(self, numbers: Sequence[float]) -> float:
        """The question's value at other released numbers, in the order of the groups' cells."""
        values, start = [], 0
        for form in self.forms:
            width = 1 if isinstance(form, Linear) else 2
            values.append(bootstrap.value_at(form, numbers[start : start + width]))
            start += width
        return self._combined(values)

    def _combined(self, values: Sequence[float]) -> float:
        if self.tree is not None:
            return arithmetic.value(self.tree, values) - float(self.constant)
        parts = (float(w) * x for w, x in zip(self.weights, values, strict=True))
        return sum(parts) - float(self.constant)


def _shown(form: Form) -> Fraction | None:
    if isinstance(form, Barred):
        return Fraction(form.value) if math.isfinite(form.value) else None
    if isinstance(form, Linear):
        return Fraction(form.cell.value) * form.step
    if isinstance(form, Halves) and form.shown is None:
        total, count = Fraction(form.total.value), Fraction(form.count.value)
        return (Fraction(form.centre) + total / count) * form.step if count else None
    return None if form.shown is None else form.shown * form.step


def _check_numbers(question: Question) -> None:
    if question.method not in METHODS:
        _refuse(f"there is no method {question.method[:40]!r}", f"Methods: {', '.join(METHODS)}.")
    if not MISS_MIN <= Fraction(question.confidence) <= 1 - MISS_MIN:
        raise DPError(
            OUT_OF_RANGE,
            "confidence must lie between 0.000000001 and 0.999999999",
            "Usual values of confidence: 0.95, 0.99.",
        )
    if question.replicates not in bootstrap.REPLICATES:
        raise DPError(
            OUT_OF_RANGE,
            f"replicates must lie between {bootstrap.REPLICATES[0]} and {bootstrap.REPLICATES[-1]}",
            "Usual values of replicates: 2000, 10000.",
        )


def _check_keys(question: Question, chosen: int) -> None:
    if not chosen:
        hint = "Give one weight at least that is not 0."
        raise DPError(OUT_OF_RANGE, "the question looks at no answer", hint)
    if question.simultaneous is not None and not chosen <= question.simultaneous <= GROUPS_MAX:
        raise DPError(
            OUT_OF_RANGE,
            f"the number of released keys must lie between {chosen} and {GROUPS_MAX}",
            "It counts all keys of the release, also those that are not asked about.",
        )


def _weights(question: Question) -> tuple[Fraction, ...]:
    size = len(question.groups)
    if question.weights is None and 1 <= size <= 2:
        return (Fraction(1), Fraction(-1))[:size]
    if question.weights is None or len(question.weights) != size:
        hint = "Two answers alone are compared without weights."
        _refuse("the question needs one weight for each answer", hint)
    return tuple(_number(weight, "a weight") for weight in question.weights)


def _number(value: Fraction, name: str) -> Fraction:
    """0 or a number of middling size, of which doubles and their squares are no trouble."""
    try:
        exact = Fraction(value)
    except (ValueError, OverflowError):  # NaN and infinity, of a float or a Decimal
        exact = LARGEST * 2
    if exact and not 1 / LARGEST <= abs(exact) <= LARGEST:
        raise DPError(OUT_OF_RANGE, f"{name} must be 0, or 1e-100 to 1e100 in size", "Change units.")
    return exact


def _refuse(message: str, hint: str) -> NoReturn:
    raise DPError(SHAPE, message, hint)
