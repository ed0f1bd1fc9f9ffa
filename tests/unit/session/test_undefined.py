"""Values that the facade made NULL are counted, and told before the statement's end (session/undefined.py)."""

from __future__ import annotations

from pg_epsilon_proxy.session.undefined import STATE, UndefinedValues
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Piece


def piece(raw: bytes) -> Piece:
    return Piece(raw[0], raw)


NULL = piece(messages.report(b"N", "NOTICE", STATE, "NULL"))
OTHER = piece(messages.report(b"N", "NOTICE", "00000", f"C{STATE}"))
ROW, DONE = piece(messages.message(b"D", b"\0\0")), piece(messages.message(b"C", b"SELECT 1\0"))
SUSPENDED, FAILED = piece(messages.message(b"s", b"")), piece(messages.report(b"E", "ERROR", "22012", "x"))


def values() -> UndefinedValues:
    found = UndefinedValues()
    found.say = str
    return found


def test_only_its_own_notice_is_counted() -> None:
    found = values()
    assert [found.counts(item) for item in (NULL, OTHER, ROW, FAILED)] == [True, False, False, False]


def test_told_once_at_the_end() -> None:
    found = values()
    assert found.counts(NULL) and found.counts(NULL)
    assert [found.told(item) for item in (ROW, OTHER, DONE, DONE)] == [None, None, "2", None]
    assert found.counts(NULL)
    assert found.told(SUSPENDED) == "1"


def test_an_error_says_enough_and_begins_anew() -> None:
    found = values()
    assert found.counts(NULL)
    assert [found.told(item) for item in (FAILED, DONE)] == [None, None]


def test_who_wants_no_notices_is_told_none() -> None:
    found = values()
    found.say = None
    assert found.counts(NULL)
    assert found.told(DONE) is None
