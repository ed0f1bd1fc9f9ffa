"""What a request shares with every kind of question, and what the compiler asks of the kinds (house.md §3).

A kind of question (a decision, a synthetic table, a workload) adds a member to the request document. The compiler of
the head knows no kind: engine/tasks.py gives it all of them as one `Kinds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Protocol

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.query import members
from pg_epsilon.query.aggregates import Aggregate
from pg_epsilon.query.copies import Copies
from pg_epsilon.query.expression import Fold
from pg_epsilon.query.keys import Key, compile_key
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.released import Free, Releases
from pg_epsilon.query.source import Source
from pg_epsilon.query.types import Scope, Term, Texts

_BUDGETS = (frozenset({"epsilon"}), frozenset({"rho"}), frozenset({"alpha", "beta"}))


@dataclass(frozen=True)
class Budget:
    """What the asker offers for the whole block: epsilon, or rho, or an accuracy (alpha, beta), or nothing (none)."""

    kind: str
    epsilon: Decimal | None = None
    rho: Decimal | None = None
    alpha: Decimal | None = None
    beta: Decimal | None = None


class Asked(Protocol):
    """The member of one kind of question, validated; everything in it is public."""

    def canonical(self) -> dict[str, Any]:
        """What tells this question from another of its kind: it is hashed into the cache key."""
        ...


class Jointly(Protocol):
    """What aggregates of a block are together, so that one release may answer them.

    members: the numbers of those that it shows itself, in its own order; none where each aggregate is shown as ever.
    """

    @property
    def members(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Head:
    """What the kinds see of a request while their own members are validated: all of it that is compiled by then.

    source: its first protected relation has the `policy`. keys: as asked, in order. releases: those of who asks. scope,
    fold, texts: what names and constants of further expressions mean. conjuncts: as of a request.
    """

    document: Mapping[str, Any]
    settings: Mapping[str, str | None]
    policy: Policy
    source: Source
    keys: Sequence[Key]
    aggregates: Sequence[Aggregate]
    fold: Fold
    copies: Copies
    releases: Releases
    scope: Scope
    texts: Texts
    conjuncts: Sequence[Term]

    @cached_property
    def budget(self) -> Budget:
        """What may be spent: the document's, the session's, or the dataset's default. DP005 for anything else."""
        return _budget(self.document.get("budget"), self.settings, self.policy)

    def key(self, text: str) -> Key:
        """A further group key of this question, narrowed by its WHERE as its own keys are. Errors: of compile_key."""
        return compile_key(text, self.scope, self.fold, self.texts, self.conjuncts)


class Kinds(Protocol):
    """All kinds of question that a request may be of (engine/tasks.py has them)."""

    @property
    def members(self) -> frozenset[str]:
        """The members that they add to a request document."""
        ...

    def spelled_out(self, document: Mapping[str, Any], copies: Copies, releases: Releases) -> Mapping[str, Any]:
        """A document whose question stands in a kind's own words → with from, where and aggregates."""
        ...

    def ask(self, head: Head) -> dict[str, Asked]:
        """Member → what it asks, validated, for each kind that the request is of."""
        ...

    def free(self, asked: Mapping[str, Asked]) -> Free | None:
        """Where the answer comes from of a question that costs nothing; None: of any other."""
        ...

    def joint(self, head: Head, asked: Mapping[str, Asked]) -> Jointly | None:
        """What the block's aggregates are together, where they can be one question."""
        ...

    def mechanism(self, head: Head, asked: Mapping[str, Asked]) -> str | None:
        """The mechanism that is asked for, where a kind has names of its own; None: the block's names hold."""
        ...


class _NoKinds:
    """A block alone: whatever a kind would add is an unknown member."""

    members: frozenset[str] = frozenset()

    def spelled_out(self, document: Mapping[str, Any], copies: Copies, releases: Releases) -> Mapping[str, Any]:
        return document

    def ask(self, head: Head) -> dict[str, Asked]:
        return {}

    def free(self, asked: Mapping[str, Asked]) -> Free | None:
        return None

    def joint(self, head: Head, asked: Mapping[str, Asked]) -> Jointly | None:
        return None

    def mechanism(self, head: Head, asked: Mapping[str, Asked]) -> str | None:
        return None


NO_KINDS: Kinds = _NoKinds()
NO_BUDGET = Budget("none")


def _budget(explicit: Any, settings: Mapping[str, Any], policy: Policy) -> Budget:
    given = members.mapping(explicit, "budget") if explicit is not None else {}
    if not given:
        given = {
            name: settings[f"dp.{name}"] for name in ("epsilon", "rho", "alpha", "beta") if settings.get(f"dp.{name}")
        }
        if set(given) in ({"alpha"}, {"beta"}):
            raise DPError(OUT_OF_RANGE, "dp.alpha and dp.beta go together", "SET both, or dp.epsilon.")
    if not given:
        if policy.dataset.default_epsilon is None:
            raise DPError(
                OUT_OF_RANGE,
                "how much may this cost?",
                "SET dp.epsilon = 0.1, or pass epsilon => 0.1; the dataset has no default.",
            )
        return Budget("epsilon", epsilon=policy.dataset.default_epsilon)
    if frozenset(given) not in _BUDGETS:
        raise DPError(
            OUT_OF_RANGE,
            "two kinds of budget at once",
            "Give epsilon, or rho, or alpha with beta; RESET the other dp.* settings.",
        )
    numbers = {name: _number(value, name) for name, value in given.items()}
    return Budget("accuracy" if "alpha" in numbers else next(iter(numbers)), **numbers)


def _number(value: Any, name: str) -> Decimal:
    """A positive decimal as written. 1000 is the largest amount any noise takes; the ledger's grain is 1e-18."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal("NaN")
    top = 1 if name in ("alpha", "beta") else 1000
    if not number.is_finite() or not Decimal("1e-18") <= number <= top or (top == 1 and number >= 1):
        raise DPError(
            OUT_OF_RANGE,
            f"{name} must be a number above 0 and {'below 1' if top == 1 else 'at most 1000'}",
            f"Common values: {'0.05' if top == 1 else '0.01 to 1'}.",
        )
    return number
