"""Cutting bytes into messages: every split point of recorded conversations, hostile lengths, random streams."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_epsilon_proxy.session.connection import client_limits
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import SHORTEN_ABOVE, STREAM_ABOVE, Framer, Piece, WireError, split

ROW = messages.data_row([b"1", None, b"x" * 50])
FROM_CLIENT = (
    messages.parse(b"s", b"select $1::int", [23])
    + messages.describe(b"S", b"s")
    + messages.bind(b"", b"s", (1,), (b"\0\0\0\7",), (1,))
    + messages.execute(b"", 3)
    + messages.close(b"S", b"s")
    + messages.SYNC
    + messages.query(b"select 1")
    + messages.message(b"d", b"1\t2\n")
    + messages.message(b"c")
    + messages.TERMINATE
)
FROM_FACADE = (
    messages.authentication(0)
    + messages.parameter_status("client_encoding", "UTF8")
    + messages.backend_key_data(77, b"abcd")
    + messages.ready(b"I")
    + messages.row_description([messages.FieldDescription(b"a", 1, 2, 23, 4, -1, 0)])
    + ROW * 3
    + messages.message(b"C", b"SELECT 3\0")
    + messages.report(b"E", "ERROR", "DP003", "no", "d", "h")
    + messages.ready(b"E")
)


def client() -> Framer:
    return Framer(client_limits(), stream=b"d")


def facade() -> Framer:
    return Framer({}, default=1 << 20, stream=b"Dd")


def kinds(pieces: list[Piece]) -> bytes:
    found = b""
    for piece in pieces:
        found += bytes([piece.kind]) * (sum(1 for _ in split(piece.data)) if piece.whole else 0)
    return found


@pytest.mark.parametrize(("make", "stream"), [(client, FROM_CLIENT), (facade, FROM_FACADE)], ids=["client", "facade"])
def test_every_split_point(make: type[Framer], stream: bytes) -> None:
    whole = kinds(list(make().feed(stream)))  # type: ignore[call-arg]
    for cut in range(len(stream) + 1):
        framer = make()  # type: ignore[call-arg]
        pieces = [*framer.feed(stream[:cut]), *framer.feed(stream[cut:])]
        assert b"".join(piece.data for piece in pieces) == stream
        assert kinds(pieces) == whole
        assert framer.waiting == 0


@settings(database=None, deadline=None, max_examples=100)
@given(st.data())
def test_any_chopping_gives_the_same_bytes(data: st.DataObject) -> None:
    stream = FROM_FACADE * 2
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=40)))
    framer, pieces = facade(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        pieces += framer.feed(stream[start:end])
    assert b"".join(piece.data for piece in pieces) == stream


@settings(database=None, deadline=None, max_examples=300)
@given(st.binary(max_size=200))
def test_random_bytes_are_cut_or_refused(data: bytes) -> None:
    framer = client()
    passed = b""
    try:
        for piece in framer.feed(data):
            passed += piece.data
    except WireError as error:
        assert error.sqlstate in ("08P01", "54000")
    else:
        assert len(passed) + framer.waiting == len(data)
    assert data.startswith(passed)


def test_long_rows_stream_in_parts() -> None:
    row = messages.data_row([b"x" * (3 * STREAM_ABOVE)])
    framer = facade()
    pieces = [*framer.feed(row[:10]), *framer.feed(row[10:-5]), *framer.feed(row[-5:] + messages.ready(b"I"))]
    assert not any(piece.whole for piece in pieces[:-1]) and pieces[-1].kind == ord("Z")
    assert b"".join(piece.data for piece in pieces) == row + messages.ready(b"I")


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (b"Q\0\0\0\3", "08P01"),
        (b"Q\0\0\0\0", "08P01"),
        (b"Q\xff\xff\xff\xff", "54000"),
        (b"S\0\0\x40\0", "54000"),
        (b"p\0\0\0\x08abcd", "08P01"),
        (b"\0\0\0\0\x08", "08P01"),
    ],
)
def test_hostile_headers(data: bytes, state: str) -> None:
    framer = client()
    seen = []
    with pytest.raises(WireError) as error:
        for piece in framer.feed(messages.SYNC + data):
            seen.append(piece.data)
    assert error.value.sqlstate == state
    assert seen == [messages.SYNC], "what came before the broken message is not lost"


@pytest.mark.parametrize("text", ["x", "é", "𝄞", "\x80"])
@pytest.mark.parametrize("step", [1 << 18, 999_983])
@pytest.mark.parametrize("kind", [b"E", b"N"])
def test_errors_longer_than_memory_should_be_lose_their_end(text: str, step: int, kind: bytes) -> None:
    """What follows is in place, and what is left is a message that every client can read."""
    raw = messages.report(kind, "ERROR", "XX000", text * (3 * SHORTEN_ABOVE), "detail", "hint")
    stream = messages.ready(b"T") + raw + messages.ready(b"I")
    framer = Framer({}, default=1 << 20, stream=b"Dd", shorten=b"EN")
    pieces, held = [], 0
    for start in range(0, len(stream), step):
        pieces += framer.feed(stream[start : start + step])
        held = max(held, framer.waiting)
    assert [piece.data for piece in pieces if piece.kind == ord("Z")] == [messages.ready(b"T"), messages.ready(b"I")]
    (short,) = (piece.data for piece in pieces if piece.kind != ord("Z"))
    assert len(short) == SHORTEN_ABOVE and held <= SHORTEN_ABOVE + step
    fields = messages.read_fields(short)
    assert (fields["S"], fields["C"], set(fields)) == (b"ERROR", b"XX000", {"S", "V", "C", "M"})
    assert set(fields["M"].decode()) <= {text, " "}


def test_an_error_of_the_longest_length_that_is_kept() -> None:
    size = SHORTEN_ABOVE - len(messages.report(b"E", "ERROR", "XX000", ""))
    for extra in (0, 1):
        raw = messages.report(b"E", "ERROR", "XX000", "x" * (size + extra))
        (piece,) = Framer({}, default=1 << 20, shorten=b"E").feed(raw)
        assert (piece.data == raw) is (extra == 0) and len(piece.data) == SHORTEN_ABOVE
