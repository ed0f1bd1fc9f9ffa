"""Every refusal of the rewriting brain: what is wrong, where, and what to write instead (rule R5: public facts).

`at`: the node (or nodes, or character offset) of the client's statement that is refused.
"""

from __future__ import annotations

from typing import Any

from pg_epsilon.query.parse import written

from ..session.rewriting import Refusal
from .positions import location

RAW_ACCESS = "DP002"
SHAPE = "DP003"
RANGE = "DP005"
CHANNEL = "DP006"
PRIVILEGE = "42501"
PARAMETER = "22023"


def raw_access(relation: str, at: Any = None) -> Refusal:
    """A SELECT (or COPY, or a write's FROM) that would return rows (composition.md §14.11)."""
    return Refusal(
        RAW_ACCESS,
        f"rows of {relation} are private",
        hint=f"Ask for aggregates, for example SELECT count(*) FROM {written(relation)}, with or without GROUP BY.",
        position=location(at),
    )


def write(relation: str, at: Any = None) -> Refusal:
    """INSERT, UPDATE, DELETE, MERGE, TRUNCATE or COPY FROM on a protected relation."""
    return Refusal(
        PRIVILEGE,
        f"permission denied for table {relation}",
        hint=f"{relation} can only be asked for aggregates; write to a temporary table (CREATE TEMP TABLE) instead.",
        position=location(at),
    )


def shape(message: str, hint: str, at: Any = None) -> Refusal:
    """An aggregate block, or a statement around one, with a part that is not supported."""
    return Refusal(SHAPE, message, hint=_sentence(hint), position=location(at))


def part(what: str, relation: str, hint: str, at: Any = None) -> Refusal:
    """A named part of a block over `relation` that is not supported."""
    return shape(f"{what} is not supported in an aggregate query over {relation}", hint, at)


def alone(at: Any = None) -> Refusal:
    """A statement that may not stand before a block in one simple Query (facade-and-channel.md §6)."""
    return shape(
        "a query over protected data cannot follow this statement in one message",
        "send it alone: one statement a message",
        at,
    )


def setting(name: str, hint: str, at: int | None) -> Refusal:
    """SET of a dp.* name that is no setting: it would be kept and do nothing."""
    return Refusal(PARAMETER, f"there is no setting {name}", hint=hint, position=at)


def changed(relation: str) -> Refusal:
    """The facade is behind the policy in a relation (facade-and-channel.md §5, sync)."""
    hint = "Try again in a few seconds, and end open transactions that have used it: they hold the old shape."
    return Refusal(CHANNEL, f"what is published of {relation} has just changed", hint=hint)


def left_out(relation: str) -> Refusal:
    """The facade could not be made with a published relation (facade/pieces.py)."""
    hint = "The administrator finds the reason in the proxy's log (left out of the facade); all others are answered."
    return Refusal(CHANNEL, f"{relation} is published but not served: the facade could not be made with it", hint=hint)


def too_deep() -> Refusal:
    """RecursionError in one of our walks."""
    return shape("the statement is nested too deeply", "split it, or use IN (...) instead of long OR chains")


def too_large() -> Refusal:
    """Merging sub-queries has multiplied their expressions."""
    return shape("the statement grows too large when its sub-queries are merged", "use fewer levels of sub-queries")


def too_long(limit: int) -> Refusal:
    """A text that is not cut up, though it names something of ours."""
    return shape(
        f"a statement over protected data has at most {limit} characters",
        "put long lists of values into a temporary table, and join it with the released result",
    )


def cells(found: int, limit: int) -> Refusal:
    """A workload whose numbers come from a table: more of them than travel as constants."""
    return Refusal(
        RANGE,
        f"a workload from a sub-query has at most {limit} numbers, this one has {found}",
        hint="Use fewer thresholds, or ask for them in parts: two calls with half of the queries each.",
    )


def meaning_changed(what: str) -> Refusal:
    """A prepared statement whose names or text constants would mean something else now."""
    return shape(
        f"{what} has changed since this statement was prepared, and with it what the statement means",
        f"prepare it again, or set {what} back",
    )


def notices(value: str) -> Refusal:
    """A dp.notices that is no boolean: it would be taken for one or the other."""
    return Refusal(RANGE, f"dp.notices must be on or off, not {value!r}", hint="SET dp.notices = on, or RESET it.")


def division(value: str) -> Refusal:
    """A dp.division that is none of its values: it would be taken for one of them."""
    hint = "SET dp.division = 'null', or 'error' for PostgreSQL's own error."
    return Refusal(RANGE, f"dp.division must be null or error, not {value!r}", hint=hint)


def broken(what: str) -> Refusal:
    """The private side's answer does not have the agreed form."""
    return Refusal(CHANNEL, f"the private database gave an unusable answer: {what}", hint="Tell the administrator.")


def _sentence(text: str) -> str:
    """PostgreSQL's style: a hint is a sentence."""
    first = text if text.startswith("dp_") else text[:1].upper() + text[1:]
    return first + ("" if text.endswith(".") else ".")
