"""FacadeLink.together: several probes behind one Flush, and whose error the client meets."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pg_epsilon_proxy.session.facade_link import FacadeLink
from pg_epsilon_proxy.session.rewriting import Described, FacadeError, Probe, Refusal
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Piece

PROBES = [Probe("SELECT x"), Probe("SELECT 1", ()), Probe("SELECT 2", ["a"])]
DESCRIBED = (b"1", b"t\x00\x00", b"n", b"3")


class Writer:
    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    async def drain(self) -> None:
        await asyncio.sleep(0)


def link() -> tuple[FacadeLink, Writer]:
    writer = Writer()
    return FacadeLink(cast(Any, None), cast(Any, writer), {}), writer


def answer(facade: FacadeLink, *messages_: bytes) -> None:
    """The facade's messages: a kind byte and a body each."""
    for message in messages_:
        raw = message[:1] + (len(message) + 3).to_bytes(4, "big") + message[1:]
        assert facade.take_in(Piece(raw[0], raw), operating=True) == b""
    facade.progressed()


def row(value: bytes) -> bytes:
    return b"D\x00\x01" + len(value).to_bytes(4, "big") + value


def rows(value: bytes) -> tuple[bytes, ...]:
    return b"1", b"2", row(value), b"CSELECT 1\x00", b"3", b"3"


ERROR = messages.fields_message(b"E", {"S": b"ERROR", "C": b"42703", "P": b"8"})
FAILURE = b"E" + ERROR[5:]


async def started(facade: FacadeLink) -> asyncio.Task[list[Any]]:
    task = asyncio.ensure_future(facade.together(PROBES))
    await asyncio.sleep(0.01)
    return task


async def test_one_write_and_answers_in_order() -> None:
    facade, writer = link()
    task = await started(facade)
    assert len(writer.writes) == 1 and writer.writes[0].count(messages.FLUSH) == 1
    answer(facade, *DESCRIBED, *rows(b"one"), *rows(b"two"))
    assert await task == [Described((), None), [["one"]], [["two"]]]
    assert facade.pending.settled and not facade.pending.skipping
    writer.writes.clear()
    await facade.stop_timer()  # the last probe was an Execute: there is nothing to stop
    assert writer.writes == []


async def test_the_first_error_wins_and_keeps_its_place_if_the_text_was_the_clients() -> None:
    facade, _ = link()
    task = await started(facade)
    answer(facade, FAILURE)
    with pytest.raises(FacadeError) as caught:
        await task
    assert (caught.value.sqlstate, caught.value.position) == ("42703", 7)
    assert facade.pending.skipping and facade.late is None


async def test_an_error_in_a_text_of_our_own_has_no_place() -> None:
    facade, _ = link()
    task = await started(facade)
    answer(facade, *DESCRIBED, FAILURE)
    with pytest.raises(FacadeError) as caught:
        await task
    assert (caught.value.sqlstate, caught.value.position) == ("42703", None)
    assert facade.late is None


async def test_names_of_probes_that_did_not_run_are_closed_by_the_next() -> None:
    facade, writer = link()
    task = await started(facade)
    answer(facade, *DESCRIBED, FAILURE)
    with pytest.raises(FacadeError):
        await task
    facade.end_transaction()
    facade.flush()
    answer(facade, b"ZI")
    writer.writes.clear()
    following = asyncio.ensure_future(facade.fetch("SELECT 3"))
    await asyncio.sleep(0.01)
    sent = b"".join(writer.writes)
    assert messages.close(b"S", b"_pge_2") in sent and messages.close(b"S", b"_pge_3") in sent
    assert messages.close(b"S", b"_pge_1") not in sent
    answer(facade, b"3", b"3", *rows(b"three"))
    assert await following == [["three"]]


@pytest.mark.parametrize("before", [(), DESCRIBED, (*DESCRIBED, *rows(b"one"))])
async def test_an_error_behind_a_cancel_is_not_lost(before: tuple[bytes, ...]) -> None:
    """The client must meet it: the facade skips to the next Sync because of it."""
    facade, _ = link()
    task = await started(facade)
    answer(facade, *before)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    answer(facade, FAILURE)
    with pytest.raises(FacadeError):
        facade.raise_late()


async def test_an_error_met_at_the_moment_of_a_cancel_is_not_lost() -> None:
    facade, _ = link()
    task = await started(facade)
    answer(facade, *DESCRIBED, FAILURE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(FacadeError):
        facade.raise_late()


@pytest.mark.parametrize(("size", "too_long"), [(65_525, False), (65_526, True)])
async def test_a_long_value_is_refused_however_it_arrives(size: int, too_long: bool) -> None:
    """Of more than 64 kB with its header, also where the network brought it whole."""
    facade, _ = link()
    task = asyncio.ensure_future(facade.together(PROBES[1:2]))
    await asyncio.sleep(0.01)
    answer(facade, *rows(b"x" * size))
    if too_long:
        with pytest.raises(Refusal, match="too long"):
            await task
    else:
        assert len((await task)[0][0][0]) == size
