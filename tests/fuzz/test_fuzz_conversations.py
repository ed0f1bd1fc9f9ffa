"""Recorded conversations of psql, psycopg and asyncpg: cut anywhere, replayed, and read with bytes changed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fix_proxy import PASSWORD, BareFacade, ThreadedProxy
from fix_raw import RawClient, keys_of
from fuzz.conversations import Said, client_messages, cut, names, read
from fuzz.mutate import Mutator
from fuzz.record import CLIENTS
from pg_epsilon_proxy.session.connection import client_limits
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Framer, Piece, WireError

SIDES = {"client": True, "facade": False}


def framer(from_client: bool) -> Framer:
    if from_client:
        return Framer(client_limits(), stream=b"dH")
    return Framer({}, default=1 << 20, stream=b"Dd")


def stream(name: str, from_client: bool) -> bytes:
    return b"".join(item.raw for item in read(name) if item.from_client is from_client)


def seen(pieces: list[Piece]) -> list[bytes]:
    """The messages, however they were merged."""
    return [raw for piece in pieces for raw in cut(piece.data)]


def test_each_client_has_a_conversation() -> None:
    assert set(names()) == set(CLIENTS)
    for name in names():
        kinds = {item.raw[:1] for item in read(name) if item.from_client}
        assert kinds >= ({b"Q"} if name == "psql" else {b"Q", b"P", b"B", b"D", b"E", b"S"}), name


@pytest.mark.parametrize("from_client", SIDES.values(), ids=SIDES)
@pytest.mark.parametrize("name", names())
def test_every_split_point(name: str, from_client: bool) -> None:
    data = stream(name, from_client)
    whole = cut(data)
    for place in range(len(data) + 1):
        one = framer(from_client)
        assert seen([*one.feed(data[:place]), *one.feed(data[place:])]) == whole
        assert one.waiting == 0


@pytest.mark.parametrize("from_client", SIDES.values(), ids=SIDES)
@pytest.mark.parametrize("name", names())
def test_byte_by_byte(name: str, from_client: bool) -> None:
    data, one = stream(name, from_client), framer(from_client)
    assert seen([piece for place in range(len(data)) for piece in one.feed(data[place : place + 1])]) == cut(data)


@settings(database=None, deadline=None, max_examples=150)
@given(st.data())
def test_any_chopping(data: st.DataObject) -> None:
    name, from_client = data.draw(st.sampled_from(names())), data.draw(st.booleans())
    whole = stream(name, from_client)
    places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=60)))
    one = framer(from_client)
    pieces: list[Piece] = []
    for start, end in zip([0, *places], [*places, len(whole)], strict=True):
        pieces += one.feed(whole[start:end])
    assert seen(pieces) == cut(whole)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", names())
def test_a_replay_is_answered_as_it_was(relay: ThreadedProxy, bare_facade: BareFacade, name: str, seed: int) -> None:
    """All of the client's messages, sent without waiting, in pieces of any size: the same kinds of answers."""
    rest = random.Random(seed)
    said = b"".join(raw for raw in client_messages(name) if raw[:1] != b"X")
    expected = kinds(item for item in read(name) if not item.from_client)
    client = RawClient(relay.port, keys_of(PASSWORD, bare_facade.verifier("alice") or ""))
    try:
        while said:
            size = rest.choice((1, 3, 7, 60, 1000, 1 << 16))
            client.send(said[:size])
            said = said[size:]
        found = client.until(b"Z", expected.count("Z") - 1)
    finally:
        client.close()
    assert kinds(Said(False, raw) for raw in found) == expected[expected.index("Z") + 1 :]


def kinds(said: Any) -> str:
    """Rows of catalogs differ from version to version, notices and notifications come when they come."""
    return "".join(item.raw[:1].decode() for item in said if item.raw[:1] not in b"SNAD")


READERS: list[Callable[[bytes], Any]] = [
    messages.read_query,
    messages.read_parse,
    messages.read_bind,
    messages.read_bind_names,
    messages.read_target,
    messages.read_parameter_description,
    messages.read_row_description,
    messages.read_fields,
    messages.read_parameter_status,
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_readers_take_changed_messages_or_refuse_them(reader: Callable[[bytes], Any]) -> None:
    for raw in changed(2000):
        try:
            reader(raw)
        except WireError as error:
            assert error.sqlstate == "08P01"


def changed(count: int) -> Iterator[bytes]:
    mutator = Mutator(7)
    recorded = [item.raw for name in names() for item in read(name)]
    for _ in range(count):
        yield mutator.random.choice(b"QPBDE").to_bytes(1, "big") + mutator.packet(mutator.random.choice(recorded))[1:]


def test_mutated_streams_are_cut_or_refused() -> None:
    mutator = Mutator(8)
    for _ in range(300):
        one, passed = framer(True), b""
        data = mutator.stream()[0]
        try:
            for part in mutator.chops(data):
                for piece in one.feed(part):
                    passed += piece.data
        except WireError as error:
            assert error.sqlstate in ("08P01", "54000")
        else:
            assert len(passed) + one.waiting == len(data)
        assert data.startswith(passed)
