"""A refusal is an error like any other: same messages, same transaction states (facade-and-channel.md §6)."""

from __future__ import annotations

from typing import Any

import pytest

from fix_proxy import GROUPED_SQL
from fix_raw import RawClient, shape, split_messages
from pg_epsilon_proxy.wire import messages

AT_PLAN = b"select region as refuse_at_plan from secret"
AT_RUN = GROUPED_SQL.format(7).encode() + b" -- refuse_at_run"
AT_PARSE_NATURAL, AT_RUN_NATURAL = b"select nosuch", b"select 1/0"


def extended(text: bytes, name: bytes = b"") -> bytes:
    return messages.parse(name, text) + messages.bind(b"", name) + messages.execute(b"")


def frames(text: bytes) -> dict[str, list[bytes]]:
    """Conversations around one failing statement, a list of what is sent before each wait for all ReadyForQuery."""
    query, sync = messages.query, messages.SYNC
    return {
        "simple": [query(text), query(b"select 1")],
        "in a block": [query(b"begin"), query(text), query(b"select 1"), query(b"commit")],
        "savepoint": [query(b"begin"), query(b"savepoint a"), query(text), query(b"rollback to a"), query(b"commit")],
        "extended": [extended(text) + sync, query(b"select 1")],
        "named": [extended(text, b"n") + sync, messages.bind(b"", b"n") + messages.close(b"S", b"n") + sync],
        "skips to sync": [extended(text) + extended(b"select 1") + query(b"select 2") + sync],
        "pipelined": [(extended(b"select 1") + sync) + (extended(text) + sync) + (extended(b"select 1") + sync)],
        "one transaction": [extended(b"create temp table gone()") + extended(text) + sync, query(b"table gone")],
        "block extended": [query(b"begin"), extended(text) + sync, extended(b"select 1") + sync, query(b"rollback")],
        "aborted already": [query(b"begin"), query(b"select 1/0"), query(text), extended(text) + sync, query(b"end")],
    }


CASES = [
    pytest.param(frame, refused, natural, id=f"{frame} {label}")
    for frame in frames(b"")
    for label, refused, natural in (("at plan", AT_PLAN, AT_PARSE_NATURAL), ("at run", AT_RUN, AT_RUN_NATURAL))
]


@pytest.mark.parametrize(("frame", "refused", "natural"), CASES)
def test_refusals_look_like_natural_errors(
    raw: RawClient, direct: RawClient, calls: list[Any], frame: str, refused: bytes, natural: bytes
) -> None:
    """The same kinds of messages and the same statuses as PostgreSQL's own error, sent directly.

    A division by constants fails at Bind, like a refusal at Bind.
    """
    seen = [observe(client, frames(text)[frame]) for client, text in ((direct, natural), (raw, refused))]
    assert seen[1] == seen[0]
    assert calls == []


def observe(client: RawClient, rounds: list[bytes]) -> list[str]:
    found: list[str] = []
    for data in rounds:
        client.send(data)
        parts = [part[:1] for part in split_messages(data)]
        count = parts.count(b"S") if b"S" in parts else parts.count(b"Q")
        found += [*shape(client.until(b"Z", count)), "|"]
    return found


@pytest.mark.parametrize("begin", [b"", b"begin"])
def test_an_error_that_the_brain_keeps_is_met_in_its_own_place(raw: RawClient, direct: RawClient, begin: bytes) -> None:
    seen = []
    for client in (direct, raw):
        client.send(messages.query(begin), messages.query(b"select nosuch from secret -- swallowed"))
        client.send(messages.query(b"select 1"), messages.query(b"rollback"))
        seen.append(client.until(b"Z", 4))
        client.send(extended(b"select nosuch from secret -- swallowed"), messages.SYNC, messages.query(b"select 1"))
        seen[-1] += client.until(b"Z", 2)
    assert seen[1] == seen[0]


def test_refusal_carries_our_fields(raw: RawClient) -> None:
    for data in (messages.query(AT_RUN), extended(AT_RUN) + messages.SYNC):
        raw.send(data)
        fields = messages.read_fields(next(m for m in raw.until(b"Z") if m[:1] == b"E"))
        assert fields == {
            "S": b"ERROR",
            "V": b"ERROR",
            "C": b"DP001",
            "M": "the budget of “visits” is exhausted".encode(),
            "H": b"Ask the owner.",
        }


@pytest.mark.parametrize("before", ["", "/* é€𝄞 */ "])
def test_refusal_carries_its_place_in_characters(raw: RawClient, before: str) -> None:
    """Plan time, both protocols: psql shows LINE and a caret."""
    text = before.encode() + AT_PLAN
    for data in (messages.query(text), extended(text) + messages.SYNC):
        raw.send(data)
        fields = messages.read_fields(next(m for m in raw.until(b"Z") if m[:1] == b"E"))
        assert fields["P"] == str(1 + len(before) + AT_PLAN.index(b"refuse")).encode()
