"""Every refusal of the rewriting brain: what is wrong, and what to write instead (rule R5: public facts)."""

from __future__ import annotations

from ..session.rewriting import Refusal

RAW_ACCESS = "DP002"
SHAPE = "DP003"
CHANNEL = "DP006"
PRIVILEGE = "42501"


def raw_access(relation: str) -> Refusal:
    """A SELECT (or COPY, or a write's FROM) that would return rows (composition.md §14.11)."""
    return Refusal(
        RAW_ACCESS,
        f"rows of {relation} are private",
        hint=f"Ask for aggregates, for example SELECT count(*) FROM {relation}, with or without GROUP BY.",
    )


def write(relation: str) -> Refusal:
    """INSERT, UPDATE, DELETE, MERGE, TRUNCATE or COPY FROM on a protected relation."""
    return Refusal(
        PRIVILEGE,
        f"permission denied for table {relation}",
        hint="Protected relations are read-only here; write to a temporary table instead.",
    )


def shape(message: str, hint: str) -> Refusal:
    """An aggregate block, or a statement around one, with a part that is not supported."""
    return Refusal(SHAPE, message, hint=_sentence(hint))


def part(what: str, relation: str, hint: str) -> Refusal:
    """A named part of a block over `relation` that is not supported."""
    return shape(f"{what} is not supported in an aggregate query over {relation}", hint)


def alone() -> Refusal:
    """A statement that may not stand before a block in one simple Query (facade-and-channel.md §6)."""
    return shape(
        "a query over protected data cannot follow this statement in one message",
        "send it alone: one statement a message",
    )


def too_deep() -> Refusal:
    """RecursionError in one of our walks."""
    return shape("the statement is nested too deeply", "split it, or use IN (...) instead of long OR chains")


def broken(what: str) -> Refusal:
    """The private side's answer does not have the agreed form."""
    return Refusal(CHANNEL, f"the private database gave an unusable answer: {what}", hint="Tell the administrator.")


def _sentence(text: str) -> str:
    """PostgreSQL's style: a hint is a sentence."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
