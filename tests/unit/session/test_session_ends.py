"""Session.run: what a client hears when its facade session breaks off."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pg_epsilon_proxy.session.connection import LOST, Session
from pg_epsilon_proxy.session.context import SessionContext
from pg_epsilon_proxy.session.facade_link import FacadeLink
from pg_epsilon_proxy.wire import messages

FATAL = messages.report(b"E", "FATAL", "57P01", "terminating connection")


class Writer:
    """To a peer that may be gone."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closing = self.broken = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def is_closing(self) -> bool:
        return self.closing

    async def drain(self) -> None:
        if self.broken:
            raise ConnectionResetError("Connection lost")


class Ends:
    """A session between two peers that the test plays."""

    def __init__(self) -> None:
        self.client, self.facade = asyncio.StreamReader(), asyncio.StreamReader()
        self.to_client, self.to_facade = Writer(), Writer()
        link = FacadeLink(self.facade, cast(Any, self.to_facade), {})
        unused = cast(Any, None)
        gone = asyncio.Event()
        context = SessionContext("alice", link, unused, unused, unused, self.to_client.write, gone)
        self.session = Session(context, self.client, cast(Any, self.to_client), 1 << 20)

    async def run(self) -> bytes:
        """What the client was told."""
        await asyncio.wait_for(self.session.run(), 60)
        return b"".join(self.to_client.writes)


def played(last: bytes, *, client_gone: str = "") -> bytes:
    """A Sync meets a facade whose connection is broken, of which its reader hears only later, after `last`."""

    async def play() -> bytes:
        ends = Ends()
        ends.to_facade.broken = True
        ends.client.feed_data(messages.SYNC)
        if client_gone == "reset":
            ends.client.set_exception(ConnectionResetError())
        ends.to_client.closing = client_gone == "closing"

        def hears() -> None:
            ends.facade.feed_data(last)
            ends.facade.set_exception(ConnectionResetError())

        asyncio.get_running_loop().call_later(0.05, hears)
        return await ends.run()

    return asyncio.run(play())


def test_a_client_whose_statement_meets_a_broken_connection_is_told() -> None:
    told = played(b"")
    assert told == messages.report(b"E", "FATAL", "08006", LOST, None, "Connect again.")


def test_the_last_word_of_the_facade_is_delivered() -> None:
    assert played(FATAL) == FATAL


@pytest.mark.parametrize("how", ["reset", "closing"])
def test_a_client_that_is_gone_is_told_nothing(how: str) -> None:
    assert played(b"", client_gone=how) == b""
