"""What an error of the private database means: the connection's end, or a refusal that may be told (design.md R5)."""

from __future__ import annotations

import logging

import asyncpg

from pg_epsilon_proxy.logs import event
from pg_epsilon_proxy.session.rewriting import Refusal

log = logging.getLogger("pg_epsilon_proxy.upstream")

SYNTAX = "42601"
# Besides class DP, texts that are functions of public data (R5): a predicate names what is not there, or twice; the
# query of a decision is no SQL, by the parser of the engine.
PASSED_ON = ("42501", "57014", "42703", "42712", "42P01", SYNTAX)
UNAVAILABLE = "the private database could not complete the call"
UNAVAILABLE_HINT = "Try again; if it stays, ask the administrator to look at the proxy's log."
# The connection is gone (08), or the server ends it (57P): no answer will come over it.
LOST = ("08", "57P")


class Lost(Exception):
    """The connection of a call ended before its answer came; `error` is what said so, `pid` its backend."""

    def __init__(self, error: BaseException, pid: int) -> None:
        super().__init__(type(error).__name__)
        self.error = error
        self.pid = pid


def is_ended(error: asyncpg.PostgresError) -> bool:
    """Whether the connection that an error came over is gone by it."""
    return (error.sqlstate or "").startswith(LOST)


def refusal_of(error: asyncpg.PostgresError) -> Refusal:
    """What the analyst is told: the engine's own words, or one constant sentence, and the log then has the SQLSTATE."""
    state = error.sqlstate or ""
    if state.startswith("DP0") or state in PASSED_ON:
        # class DP is raised with the engine's own words only; PostgreSQL's DETAIL can name what was not published
        detail = getattr(error, "detail", None) if state.startswith("DP0") or state == SYNTAX else None
        return Refusal(state, str(error.args[0]) if error.args else "", detail, getattr(error, "hint", None))
    return unavailable(error)


def unavailable(error: BaseException) -> Refusal:
    """The constant sentence; the type of the error and its SQLSTATE go to the log."""
    state = getattr(error, "sqlstate", None)
    event(log, logging.ERROR, "private database failed", error=type(error).__name__, sqlstate=state)
    return not_completed()


def not_completed() -> Refusal:
    return Refusal("DP006", UNAVAILABLE, None, UNAVAILABLE_HINT)
