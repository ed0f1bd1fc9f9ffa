"""Stored releases, as a question about one of them reads it: public to whoever may see it (composition.md §8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from pg_epsilon.errors import CHANNEL, OUT_OF_RANGE, PRIVILEGE, SHAPE, DPError

ASK_AGAIN = "Ask the question again: dp_plan says what it costs."


@dataclass(frozen=True)
class Stored:
    """A release and how it is shown.

    own: the asker paid for it, or is an administrator. raw: integers of each group. question: the request document of
    who paid, which only a question about the same rows may use; None once it was redacted.
    """

    request_id: str
    own: bool
    mechanism: str
    as_of: str
    raw: list[list[int]]
    presentation: Mapping[str, Any]
    question: Mapping[str, Any] | None

    def asked(self, *members: str) -> dict[str, Any]:
        """Those members that the question had, for a request about the same rows. DP006: it was redacted."""
        if self.question is None:
            raise gone(self.request_id, "was redacted: nothing more can be asked about it")
        return {name: self.question[name] for name in members if self.question.get(name) is not None}


class Releases(Protocol):
    """What was released, for one asker."""

    def stored(self, request_id: str) -> Stored:
        """One release. 42501 unless it is the asker's, or was served to them; DP006 if nothing can be shown of it."""
        ...

    def about(self, document: Mapping[str, Any], dataset: str) -> Sequence[Stored]:
        """Those with groups of the same rows as the document: its from, joins and where. The newest first."""
        ...

    def family(self, name: str, dataset: str) -> str | None:
        """The mechanism by which the asker released a family of this name; None: they released none."""
        ...


class Free(NamedTuple):
    """Where an answer comes from that reads no row.

    as_of: of when it is; None: of now. mechanism: how it follows from what was released; None: the path says it.
    """

    path: str
    as_of: str | None = None
    mechanism: str | None = None


class _None:
    """Nothing was ever released."""

    def stored(self, request_id: str) -> Stored:
        raise not_yours(request_id)

    def about(self, document: Mapping[str, Any], dataset: str) -> Sequence[Stored]:
        return ()

    def family(self, name: str, dataset: str) -> str | None:
        return None


NONE_STORED: Releases = _None()


class Named(NamedTuple):
    """A release that a question is about.

    keys, aggregates: of the question that was answered with it, which of the release's distinct keys and aggregates
    each one is: who asked in another order than who paid means their own. None: the order is that of who paid.
    """

    request_id: str
    keys: tuple[int, ...] | None = None
    aggregates: tuple[int, ...] | None = None


def text_of(request_id: str, keys: Sequence[int], aggregates: Sequence[int]) -> str:
    """What a session remembers of an answer that had groups: the inverse of `named`."""
    return " ".join([request_id, *(",".join(map(str, places)) for places in (keys, aggregates))])


def named(document: Mapping[str, Any]) -> Named:
    """The release that a request is about, its member `of`: a session's last one if the call named none.

    DP005 where there is none, DP003 for what names none.
    """
    of = document.get("of")
    if of is None:
        raise DPError(
            OUT_OF_RANGE,
            "there is no release to ask about: this session was given no grouped answer",
            "Run a GROUP BY first, or name one: SELECT request_id, question FROM dp.spending",
        )
    first, *places = str(of).split(" ")
    try:
        return Named(str(UUID(first)), *(tuple(map(int, one.split(","))) for one in places))
    except (TypeError, ValueError):
        raise DPError(
            SHAPE,
            "a release is named by the id of its request",
            "SELECT request_id, question FROM dp.spending lists yours.",
        ) from None


def not_yours(request_id: str) -> DPError:
    """42501: whether somebody else has a release of this id is nobody's business."""
    return DPError(
        PRIVILEGE,
        f"no answer {request_id} was given to you",
        "SELECT request_id, question FROM dp.spending lists what you paid for; what you were served from"
        " another's payment, dp.last_answer names.",
    )


def gone(request_id: str, why: str) -> DPError:
    """DP006: it was released, and nothing can be shown of it now."""
    return DPError(CHANNEL, f"request {request_id} {why}", ASK_AGAIN)
