"""Failures that nobody foresaw: counted, closed, logged by SQLSTATE and place, told in one constant sentence.

Specification: composition.md §10.3 d. A failure next to rows can depend on one row, so each is an exact fact outside
epsilon, and their number is limited: a role's second in a dataset closes its allotment there, the dataset's fourth
freezes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pg_epsilon.engine.entitlements import not_owed
from pg_epsilon.errors import CHANNEL, DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.query.request import Request, timeless_text
from pg_epsilon.refusals import check_not_frozen, locked, quoted

# Lock wait, deadlock, cancel, shutdown: the machine, not a row. What was paid is owed (§10.3 c).
DATA_INDEPENDENT_ERRORS = frozenset({"55P03", "40P01", "57014", "57P01", "57P02", "57P03"})
LOCK_WAITS = frozenset({"55P03", "40P01"})
CRASHED = "57P02"


@dataclass(frozen=True)
class Failure:
    """One event: of which question, in whose request, and where. Nothing of it tells a value."""

    dataset: str
    who: str
    question: str
    call: str
    of: str | None
    sqlstate: str
    place: str
    life: str | None = None


class Unforeseen(Exception):
    """Undo the step, then record the failure: `entry` does."""

    def __init__(self, failure: Failure) -> None:
        super().__init__()
        self.failure = failure


class Failures:
    """Closed questions and allotments, through a function that runs SQL."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    def check_open(self, question: str, dataset: str, who: str) -> None:
        """DP006 if this question, or this role's allotment, was closed by failures: nothing is paid or drawn for it."""
        found = self._execute(
            "SELECT EXISTS (SELECT FROM dp.closed_question WHERE question = $1) AS question,"
            " EXISTS (SELECT FROM dp.closed_allotment WHERE dataset = $2 AND role = $3) AS allotment",
            ["text", "text", "name"],
            [question, dataset, who],
        )[0]
        if found["question"]:
            raise closed_question()
        if found["allotment"]:
            raise closed_allotment(dataset)

    def record(self, failure: Failure) -> tuple[Sequence[str], DPError]:
        """Close the question and count the event, in the transaction at hand: (ids of the ledger rows, what is said).

        Once the dataset is frozen, what was under way ends alike whether it fails or not, and is no event: else those
        who ask many questions at once would learn of more failures than are allowed. See dp._record_failure.
        """
        found = self._execute(
            "SELECT dp._record_failure($1, $2, $3, $4, $5, $6, $7, $8)::text[] AS ids",
            ["text", "name", "text", "text", "uuid", "text", "text", "uuid"],
            [
                failure.dataset,
                failure.who,
                failure.question,
                failure.call,
                failure.of,
                failure.sqlstate,
                failure.place,
                failure.life,
            ],
        )
        if found[0]["ids"] is not None:
            return list(found[0]["ids"]), closed_question()
        try:
            check_not_frozen(self._execute, failure.dataset)
        except DPError as frozen:
            return (), frozen if failure.of is None else not_owed()
        return (), unfinished()


def said_of(log: Callable[[str], None], failed: Exception) -> DPError:
    """What is said of a failure: our own refusals as they are, else one constant refusal.

    log: gets the place and the error's type, never its text, which could hold a value.
    """
    if isinstance(failed, DPError):
        return failed
    if sqlstate_of(failed) in LOCK_WAITS:
        return locked()
    log(place_of(failed))
    return unfinished()


@contextmanager
def watched(request: Request, who: str, of: str, question: str) -> Iterator[None]:
    """What fails in the block, other than by name, is an event: `Unforeseen`."""
    try:
        yield
    except Exception as error:
        if is_named(error):
            raise
        raise Unforeseen(failure_of(request, who, of, error, question)) from None


def failure_of(
    request: Request, who: str, of: str | None, error: BaseException, question: str | None = None
) -> Failure:
    """The event that an error is. question: a plan's, where a plan was made."""
    return Failure(
        dataset=request.policy.dataset.name,
        who=who,
        question=question or question_of(request),
        call=request.call,
        of=of,
        sqlstate=sqlstate_of(error) or "XX000",
        place=place_of(error),
    )


def question_of(request: Request) -> str:
    """The key of a question that has no plan: Turbo's."""
    return hashlib.sha256(timeless_text(request).encode()).hexdigest()


def sqlstate_of(error: BaseException) -> str | None:
    """The SQLSTATE of an error that PostgreSQL raised; a Python error has none."""
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) else None


def is_data_independent(error: BaseException) -> bool:
    return sqlstate_of(error) in DATA_INDEPENDENT_ERRORS


def is_named(error: BaseException) -> bool:
    """Whether an error says nothing about a row: a refusal of ours, or what only the machine decides."""
    return isinstance(error, DPError) or is_data_independent(error)


def place_of(error: BaseException) -> str:
    """Type of an error, and function and line where it was raised: never its text, which could hold a value."""
    frame, place = error.__traceback__, ""
    while frame is not None:
        place = f"{frame.tb_frame.f_code.co_name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return f"{type(error).__name__} at {place}"


def closed_question() -> DPError:
    """What is said when a question fails in a way that nobody foresaw, and whenever it is asked afterwards."""
    return DPError(
        CHANNEL,
        "this question is closed: it failed in a way that nobody foresaw",
        "Answers that were stored before are still served. The administrator finds the place in the server's log;"
        " dp.check() lists closed questions and what to type.",
    )


def closed_allotment(dataset: str) -> DPError:
    """What a role hears whose failures in a dataset closed its allotment there."""
    return DPError(
        CHANNEL,
        f"your allotment in dataset {dataset} is closed: two questions of yours failed in a way that nobody foresaw",
        "Questions that were answered before are still answered. The administrator finds the places in the server's"
        f" log, then types CALL dp.reopen({quoted(dataset)}).",
    )


def moved() -> DPError:
    """A statement that could be planned before it was paid cannot be planned any more: the owner moved a table."""
    return DPError(
        CHANNEL,
        "a table of the question was moved, or the right to read it was taken away, while it was asked",
        "What was paid is owed: once the table is back, ask the same question again, for nothing.",
    )


def unfinished() -> DPError:
    """What is said of an error that is not next to rows: its place is in the log, and nothing is counted."""
    return DPError(
        CHANNEL,
        "the call could not be completed",
        "Ask again; if it persists, the administrator finds the place in the server's log and in dp.check().",
    )


def cannot_begin() -> DPError:
    """The engine got no connection to count a read on: nothing was read, and what was paid is still owed."""
    return DPError(
        CHANNEL,
        "the server has no connection left for the engine",
        "Ask again: what was paid is owed, and is answered for nothing.",
    )
