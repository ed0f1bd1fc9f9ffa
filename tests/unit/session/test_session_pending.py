"""What the facade owes: the queue against the protocol's rules, without a socket."""

from __future__ import annotations

import pytest

from pg_epsilon_proxy.session.pending import (
    Expected,
    Pending,
    expect_bind,
    expect_describe,
    expect_error,
    expect_execute,
    expect_parse,
    expect_query,
    expect_sync,
)
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Piece, WireError


def piece(kind: str, body: bytes = b"") -> Piece:
    if kind in "EN":
        body = b"SERROR\0C22012\0\0"
    return Piece(ord(kind), messages.message(kind.encode(), body))


def feed(pending: Pending, kinds: str, status: bytes = b"I") -> None:
    for kind in kinds:
        pending.received(piece(kind, status if kind == "Z" else b""))


def test_answers_settle_in_order() -> None:
    pending, told = Pending(), []
    pending.sent(expect_parse(settled=lambda ok: told.append(("parse", ok))))
    pending.sent(expect_bind(settled=lambda ok: told.append(("bind", ok))))
    for expected in (expect_describe(), expect_execute(), expect_sync()):
        pending.sent(expected)
    assert not pending.settled
    feed(pending, "1N2SnDDC")
    feed(pending, "AZ", b"T")
    assert told == [("parse", True), ("bind", True)]
    assert pending.settled and pending.status == b"T"


def test_error_cancels_what_was_sent_up_to_sync_and_queries_too() -> None:
    pending, told = Pending(), []
    for expected in (
        expect_parse(settled=lambda ok: told.append(ok)),
        expect_bind(settled=lambda ok: told.append(ok)),
        expect_query(settled=lambda ok: told.append(ok)),
        expect_sync(),
        expect_parse(),
    ):
        pending.sent(expected)
    feed(pending, "E")
    assert told == [False], "what the facade skipped is not told"
    assert not pending.skipping and len(pending) == 2
    feed(pending, "Z1")
    assert pending.settled


def test_skipping_lasts_until_a_sync_is_sent() -> None:
    pending = Pending()
    pending.sent(expect_parse())
    feed(pending, "E")
    assert pending.skipping and pending.settled
    pending.sent(expect_bind())
    pending.sent(expect_query())
    assert len(pending) == 0
    pending.sent(expect_sync())
    assert not pending.skipping and not pending.settled


def test_error_of_a_query_or_sync_still_owes_ready() -> None:
    for expected in (expect_query(), expect_sync()):
        pending = Pending()
        pending.sent(expected)
        feed(pending, "E")
        assert not pending.settled and not pending.skipping
        feed(pending, "Z")
        assert pending.settled


def test_copy_in_swallows_the_sync_behind_its_execute() -> None:
    pending = Pending()
    pending.sent(expect_execute())
    pending.sent(expect_sync())
    feed(pending, "G")
    assert pending.copying and len(pending) == 1
    pending.sent(expect_sync())
    pending.sent_copy_end()
    pending.sent(expect_sync())
    feed(pending, "CZ")
    assert pending.settled and not pending.copying


def test_copy_sent_blindly_in_one_go() -> None:
    pending = Pending()
    pending.sent(expect_execute())
    pending.sent(expect_sync())
    pending.sent_copy_end()
    pending.sent(expect_sync())
    feed(pending, "GCZ")
    assert pending.settled and not pending.copying


def test_copy_that_fails_before_its_end() -> None:
    pending = Pending()
    pending.sent(expect_execute())
    feed(pending, "GE")
    assert pending.skipping
    pending.sent_copy_end()
    pending.sent(expect_sync())
    feed(pending, "Z")
    assert pending.settled


@pytest.mark.parametrize("expected", [expect_parse(), expect_query()])
def test_other_messages_during_copy_are_refused(expected: Expected) -> None:
    pending = Pending()
    pending.sent(expect_query())
    feed(pending, "G")
    with pytest.raises(WireError):
        pending.sent(expected)


@pytest.mark.parametrize("kinds", ["1", "C", "Z", "D", "T", "3"])
def test_answers_out_of_turn_are_refused(kinds: str) -> None:
    pending = Pending()
    with pytest.raises(WireError):
        feed(pending, kinds)
    pending.sent(expect_bind())
    with pytest.raises(WireError):
        feed(pending, kinds)


def test_sink_decides_what_the_client_sees() -> None:
    pending = Pending()
    pending.sent(expect_parse(lambda p: b"", None))
    pending.sent(expect_sync())
    assert pending.received(piece("N")) == b""
    assert pending.received(piece("S")) != b"", "parameter changes are the client's"
    assert pending.received(piece("1")) == b""
    assert pending.received(piece("Z", b"I")) == messages.ready(b"I")


def test_a_malformed_message_that_is_answered_by_its_error_only() -> None:
    pending = Pending()
    for expected in (expect_query(), expect_error(), expect_query(), expect_sync()):
        pending.sent(expected)
    feed(pending, "CZ")
    feed(pending, "E")
    assert len(pending) == 1 and not pending.skipping, "what follows is skipped up to the Sync"
    feed(pending, "Z")
    assert pending.settled
    pending.sent(expect_query())
    feed(pending, "G")
    pending.sent(expect_error())
    assert len(pending) == 1, "COPY FROM STDIN swallows it"
