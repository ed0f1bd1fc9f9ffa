"""Kinds of question and other ways to answer: the seam between the engine and a folder (house.md §3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.choice_parts import Choice, Share
from pg_epsilon.mechanisms.presentation import Part
from pg_epsilon.query.aggregates import Aggregate
from pg_epsilon.query.copies import Copies
from pg_epsilon.query.kinds import Asked, Head, Jointly
from pg_epsilon.query.released import Free, Releases
from pg_epsilon.query.request import Request

A = TypeVar("A", bound=Asked)
Raws = Sequence[Sequence[int]]
Groups = Sequence[Sequence[str | None]]
# Rows of a statement over public tables alone.
ReadPublic = Callable[[str], Sequence[Mapping[str, Any]]]
# How the block's planner answers one aggregate, at this share of the budget, as if it were asked alone.
Alone = Callable[[Request, Aggregate, Share], Choice]
# One of so many equal shares of a block's budget, for an aggregate.
Shared = Callable[[Request, Aggregate, int], Share]


class Reserving(ABC):
    """An estimator whose charge covers an answer that its released bit may not ask for (composition.md §4).

    A class of its own, no protocol: every estimator of every question is asked whether it is one.
    """

    @property
    @abstractmethod
    def reserved(self) -> tuple[Charge, ...]:
        """What the answer behind the bit costs: part of the worst case, and of no best one."""

    @property
    @abstractmethod
    def variant(self) -> tuple[str, bool]:
        """Mechanism, and whether an answer is behind it. They change what is released: part of the cache key."""

    @abstractmethod
    def unused(self, raw: Sequence[int]) -> tuple[Charge, ...]:
        """What may be given back, as the released bit says."""


class Prepared(Protocol):
    """What a kind sees of a plan: its own choices, before and after something was released. Public facts."""

    @property
    def request(self) -> Request: ...

    @property
    def choices(self) -> tuple[Choice, ...]: ...

    @property
    def places(self) -> tuple[int, ...]:
        """Which choice answers each aggregate of the request."""
        ...

    def parts(self, raw: Sequence[int]) -> list[Part]:
        """The released integers of one group, by estimator."""
        ...


class Told(NamedTuple):
    """What may be said of a question (EXPLAIN, dp_plan, NOTICE): members of the notice, and sentences in words."""

    facts: Mapping[str, Any] = {}
    sentences: Sequence[str] = ()


class Task(Protocol[A]):
    """One kind of question. A folder's task.py subclasses it, and a line of engine/tasks.py names it and says of which
    requests it is; what a kind does not need has a default.
    """

    def spelled_out(self, document: Mapping[str, Any], copies: Copies, releases: Releases) -> Mapping[str, Any]:
        """The document with from, where and aggregates, where the question stands in words of the kind's own, or is
        about a stored release (42501, DP005, DP006)."""
        return document

    def ask(self, head: Head) -> A | None:
        """The kind's member, validated by public facts; None: the request is not of this kind.

        Errors: DP003 for a form that is not understood, DP004 for what is not declared, DP005 for what is out of range.
        """
        ...

    def free(self, asked: A) -> Free | None:
        """Of a question that is answered from what was released, and costs nothing: where from. It needs no budget."""
        return None

    def mechanism(self, head: Head, asked: A) -> str | None:
        """The mechanism that is asked for, where the kind has names of its own; None: the block's names hold."""
        return None

    def joint(self, head: Head) -> Jointly | None:
        """What a block's aggregates are together, where the kind can answer them by one release."""
        return None

    def completed(self, request: Request, asked: A, read: ReadPublic) -> A:
        """The question with what public tables say of it, read before anything is charged."""
        return asked

    def prepare(self, request: Request, asked: A, alone: Alone) -> tuple[Choice, ...]:
        """What is drawn and read, and what it costs: by public facts. DP003, DP004, DP005 before anything is paid."""
        ...

    def together(self, request: Request, separate: tuple[Choice, ...], share: Shared) -> tuple[Choice, ...] | None:
        """The block's choices with those of its `joint` question answered together, where that is expected to be
        nearer than `separate`; None: the question is not of this kind. A release for several is the last choice."""
        return None

    def present(self, prepared: Prepared, asked: A, raws: Raws, groups: Groups) -> Mapping[str, Any]:
        """Members of the answer document, from released integers and the public description: post-processing.

        raws: the released integers of every group; groups: their keys.
        """
        return {}

    def kept(self, shown: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is stored of what `present` returned; the integers are stored beside it."""
        return shown

    def again(self, stored: Mapping[str, Any], raws: Raws) -> Mapping[str, Any]:
        """What `present` returned, from what is stored of it: in another session, under another policy."""
        return stored

    def describe(self, prepared: Prepared, raw: Sequence[int] | None) -> Told:
        """What may be said of it; raw: what was released, None beforehand."""
        return Told()

    def alternatives(self, prepared: Prepared) -> Mapping[str, Any]:
        """What dp_plan alone says: how else the question could be answered."""
        return {}


class Answerer(Protocol):
    """Another way to answer a block than its own draw, which is asked first. engine/answerers.py lists them.

    name: its member in what dp_plan says; capitalised, its name in a HINT. advises: whether a refusal's HINT tells why
    it did not answer.
    """

    name: str
    advises: bool = True

    def reply(self, request: Request, request_id: str, who: str, sent: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer document; None where the question is not its own. `PaidFor` after something was paid.

        sent: the request document, for the ledger.
        """
        ...

    def plan(self, request: Request, who: str) -> dict[str, Any] | None:
        """What dp_plan says of `reply`: public facts. None where the question is not its own."""
        ...

    def why_not(self, request: Request) -> str | None:
        """Why it does not answer a question that is near to its own; None where there is nothing to say."""
        ...


class PaidFor(Exception):
    """An error after something was paid: the transaction commits all the same, and this is its reply."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error
