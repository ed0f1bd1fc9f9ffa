"""Mutated conversations against a real proxy in front of a real PostgreSQL.

`PYTHONPATH=tests python -m fuzz.mutate 10000 1` sends 10,000 mutated messages, drawn with seed 1.

The rewriting brain is the fake of fix_proxy.py. Most mutations keep the framing, so that a session lives long enough to
get into trouble; one stream in four ends with lengths that lie, unknown kinds or cut-off messages. Some connections
mutate the login instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fix_proxy import GROUPED_SQL, PASSWORD, ROWS, BareFacade, bare_cluster
from fix_raw import keys_of
from fuzz.conversations import client_messages, names
from fuzz.process import ServedProxy
from pg_epsilon_proxy.wire import messages, scram, startup

CRASHED = ("PANIC", "was terminated", "was running")
HELD = ("sessions", "half_open", "admitted", "tasks", "descriptors")
AT_ONCE = 6
CLOSES_WITHIN = 60.0  # seconds, LAST_WORDS and the longest statement among them; beyond it the session hangs
SILENCE = 30.0  # seconds that the well-behaved session may have to wait for `SELECT 1` on a busy machine
STATEMENT_MS = 1000  # of a mutated session
KINDS = b"QPBDCEfHSdcF"
HOSTILE_KINDS = KINDS + b"XpRZK\x00\xff"
NUMBERS = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\0\0\0\0", b"\xff\xff", b"\x7f\xff")


@dataclass
class Report:
    """messages: cut out of mutated streams by sessions of the proxy; mutated: those that were changed, as sent.

    slowest: seconds, the longest that a well-behaved session waited meanwhile. resident_kb: of the proxy's process,
    after a fifth of the run and at the end. failures: what should not have happened; empty if all is well.
    """

    messages: int = 0
    sent: int = 0
    mutated: int = 0
    connections: int = 0
    logins_mutated: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    resident_kb: tuple[int, int] = (0, 0)
    failures: list[str] = field(default_factory=list)


class Mutator:
    """Draws streams from recorded conversations. The same seed, the same streams. instead: other texts in them."""

    def __init__(self, seed: int, instead: Mapping[bytes, bytes] | None = None) -> None:
        self.random = random.Random(seed)
        self._recorded = [[_with(raw, instead or {}) for raw in client_messages(name)] for name in names()]
        self._every = [raw for recorded in self._recorded for raw in recorded if raw[:1] != b"X"]

    def stream(self) -> tuple[bytes, int, int]:
        """Bytes, how many messages they hold, how many of those were changed."""
        draw = self.random
        parts, changed = [], 0
        for raw in self._slices(draw.randint(1, 6)):
            if draw.random() < 0.6:
                raw, changed = self._framed(raw), changed + 1
            parts.append(raw)
        if draw.random() < 0.25:
            parts.append(self._broken(draw.choice(self._every)))
            changed += 1
        count = len(parts)
        return b"".join(parts), count, changed

    def _slices(self, count: int) -> list[bytes]:
        """One client goes on where another stopped."""
        found = []
        for _ in range(count):
            recorded = self.random.choice(self._recorded)
            start = self.random.randrange(len(recorded))
            found += recorded[start : start + self.random.randint(10, 80)]
        return [raw for raw in found if raw[:1] != b"X"]

    def packet(self, packet: bytes) -> bytes:
        """A start-up or authentication packet with a few bytes changed, cut off or added."""
        return self._bytes(packet) if self.random.random() < 0.7 else packet[: self.random.randrange(len(packet))]

    def chops(self, data: bytes) -> list[bytes]:
        """Whole, in halves, or byte by byte for a while."""
        draw = self.random
        if draw.random() < 0.5:
            return [data]
        cuts = sorted({0, len(data), *(draw.randrange(len(data) + 1) for _ in range(draw.choice((1, 3, 20))))})
        return [data[start:end] for start, end in itertools.pairwise(cuts)]

    def _framed(self, raw: bytes) -> bytes:
        kind, body = raw[:1], raw[5:]
        change: Callable[[bytes, bytes], bytes] = self.random.choice(
            (self._body, self._body, self._body, self._kind, self._doubled, self._other, self._syncs, self._joined)
        )
        return change(kind, body)

    def _body(self, kind: bytes, body: bytes) -> bytes:
        return messages.message(kind, self._bytes(body))

    def _kind(self, kind: bytes, body: bytes) -> bytes:
        return messages.message(bytes([self.random.choice(KINDS)]), body[:9000])

    def _doubled(self, kind: bytes, body: bytes) -> bytes:
        return messages.message(kind, body) * self.random.randint(2, 3)

    def _other(self, kind: bytes, body: bytes) -> bytes:
        return self.random.choice(self._every)

    def _syncs(self, kind: bytes, body: bytes) -> bytes:
        return messages.message(kind, body) + self.random.choice((messages.SYNC, messages.FLUSH, messages.SYNC * 2))

    def _joined(self, kind: bytes, body: bytes) -> bytes:
        """The body's end from another message."""
        other = self.random.choice(self._every)[5:]
        place = self.random.randrange(len(body) + 1)
        return messages.message(kind, body[:place] + other[place:])

    def _bytes(self, data: bytes) -> bytes:
        found = bytearray(data)
        for _ in range(self.random.randint(1, 3)):
            place = self.random.randrange(len(found) + 1)
            what = self.random.randrange(5)
            if what == 0:
                found[place : place + 1] = bytes([self.random.randrange(256)])
            elif what == 1:
                del found[place : place + self.random.randint(1, 4)]
            elif what == 2:
                found[place:place] = self.random.randbytes(self.random.randint(1, 4))
            elif what == 3:
                number = self.random.choice(NUMBERS)
                found[place : place + len(number)] = number
            elif found:
                found[min(place, len(found) - 1)] ^= 1 << self.random.randrange(8)
        return bytes(found)

    def _broken(self, raw: bytes) -> bytes:
        what = self.random.randrange(4)
        if what == 0:
            return raw[:1] + self.random.choice(NUMBERS[:4]) + raw[5:]
        if what == 1:
            return bytes([self.random.choice(HOSTILE_KINDS)]) + raw[1:]
        if what == 2:
            return raw[: self.random.randrange(len(raw))]
        return self.random.randbytes(self.random.randint(1, 40))


class Run:
    """One proxy process, some connections at a time."""

    def __init__(self, cluster: BareFacade, seed: int) -> None:
        self.report = Report()
        self._mutator = Mutator(seed)
        self._folder = cluster.folder
        self._keys = keys_of(PASSWORD, cluster.verifier("alice") or "")
        self._proxy = ServedProxy(cluster)
        self._port = self._proxy.port

    def facts(self) -> dict[str, int]:
        return self._proxy.facts()

    def end(self) -> None:
        if status := self._proxy.end():
            self.report.failures.append(f"the proxy's exit status is {status}")

    async def go(self, target: int) -> Report:
        report, started = self.report, time.monotonic()
        try:
            before = await asyncio.to_thread(self.facts)
            watcher = asyncio.ensure_future(self._behave())
            warm = 0
            while min(report.messages, report.mutated) < target and len(report.failures) < 10:
                await self._batch()
                now = await asyncio.to_thread(self.facts)
                report.messages = now["messages"]
                if not warm and min(report.messages, report.mutated) >= target / 5:
                    warm = now["resident_kb"]
            if watcher.done():
                await watcher
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
            await self._settle(before, warm)
        except (RuntimeError, OSError, EOFError) as error:
            report.failures += [f"{type(error).__name__}: {error}", *self._crashes()]
        finally:
            self.end()
        report.seconds = round(time.monotonic() - started, 1)
        return report

    def _crashes(self) -> list[str]:
        """What PostgreSQL says of itself: its end would be ours too."""
        lines = (self._folder / "log").read_text(errors="replace").splitlines()
        return [line[:300] for line in lines if any(word in line for word in CRASHED)][-6:]

    async def _batch(self) -> None:
        """Until every connection of it is closed: so the count that follows is of whole streams."""
        work = iter(range(AT_ONCE * 12))

        async def one_by_one() -> None:
            for number in work:
                self.report.connections += 1
                if number % 12 == 0:
                    await self._mutated_login()
                else:
                    await self._mutated_session()

        await asyncio.gather(*(one_by_one() for _ in range(AT_ONCE)))

    async def _settle(self, before: dict[str, int], warm: int) -> None:
        """Nothing is left behind: sessions, tasks, descriptors; and a well-behaved client is served."""
        for _ in range(600):
            after = await asyncio.to_thread(self.facts)
            left = [key for key in HELD if after[key] > before[key]]
            if not left:
                break
            await asyncio.sleep(0.1)
        else:
            self.report.failures.append(f"left behind: {[(key, before[key], after[key]) for key in left]}")
        if after["sessions failed"]:
            self.report.failures.append(f"{after['sessions failed']} sessions ended by an exception")
        self.report.resident_kb = (warm, after["resident_kb"])
        await self.ask()

    async def ask(self) -> None:
        async with self._session() as (reader, writer):
            writer.write(messages.query(GROUPED_SQL.format(7).encode()))
            rows = [messages.read_data_row(raw[5:]) for raw in await _until_ready(reader) if raw[:1] == b"D"]
            if rows != [[name.encode(), str(n).encode()] for name, n in ROWS]:
                self.report.failures.append("a well-behaved client gets another answer")

    async def _behave(self) -> None:
        """A session among the others that asks for what it has a right to."""
        async with self._session() as (reader, writer):
            while True:
                asked = time.monotonic()
                writer.write(messages.query(b"SELECT 1"))
                await _until_ready(reader)
                waited = time.monotonic() - asked
                self.report.slowest = max(self.report.slowest, round(waited, 3))
                if waited > SILENCE:
                    self.report.failures.append(f"a well-behaved session waited {waited:.1f} s")
                await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def _session(self, statement_ms: int = 0) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        try:
            settings = {"user": "alice", "database": "facade", "statement_timeout": str(statement_ms)}
            writer.write(startup.startup_packet(settings))
            await _receive(reader)
            client = scram.ScramClient(self._keys)
            first = client.first()
            body = scram.MECHANISM.encode() + b"\0" + len(first).to_bytes(4, "big") + first
            writer.write(messages.message(b"p", body))
            writer.write(messages.message(b"p", client.final((await _receive(reader))[9:])))
            await _until_ready(reader)
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _mutated_session(self) -> None:
        data, count, changed = self._mutator.stream()
        self.report.sent += count
        self.report.mutated += changed
        async with self._session(STATEMENT_MS) as (reader, writer):
            await self._say(reader, writer, data)

    async def _mutated_login(self) -> None:
        self.report.logins_mutated += 1
        mutator = self._mutator
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            packet = startup.startup_packet({"user": "alice", "database": "facade", "_pq_.x": "1"})
            if mutator.random.random() < 0.5:
                await self._say(reader, writer, mutator.packet(packet) + messages.SYNC)
                return
            writer.write(packet)
            first = b"n,,n=,r=" + b"x" * 24
            body = scram.MECHANISM.encode() + b"\0" + len(first).to_bytes(4, "big") + first
            proof = messages.message(b"p", b"c=biws,r=" + b"x" * 24 + b",p=" + b"A" * 43 + b"=")
            await self._say(reader, writer, mutator.packet(messages.message(b"p", body)) + mutator.packet(proof))
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _say(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Say it, hang up, and see the other side hang up too."""
        heard = asyncio.ensure_future(_to_the_end(reader))
        try:
            with contextlib.suppress(OSError):
                for part in self._mutator.chops(data):
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)
                writer.write_eof()
            async with asyncio.timeout(CLOSES_WITHIN):
                await heard
        except TimeoutError:
            self.report.failures.append(f"a session hangs after {data!r}")
        finally:
            heard.cancel()


def _with(raw: bytes, instead: Mapping[bytes, bytes]) -> bytes:
    body = raw[5:]
    for was, now in instead.items():
        body = body.replace(was, now)
    return messages.message(raw[:1], body)


async def _to_the_end(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(1 << 16):
            pass


async def _receive(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)


async def _until_ready(reader: asyncio.StreamReader) -> list[bytes]:
    """Raises RuntimeError with the proxy's words if it refuses."""
    found = [await _receive(reader)]
    while found[-1][:1] != b"Z":
        if found[-1][:1] == b"E":
            raise RuntimeError(f"a well-behaved client hears {messages.read_fields(found[-1])}")
        found.append(await _receive(reader))
    return found


def run(messages: int, seed: int, cluster: BareFacade | None = None) -> Report:
    """At least so many mutated messages. Without a cluster, one is started for it."""
    if cluster is not None:
        return asyncio.run(Run(cluster, seed).go(messages))
    with bare_cluster() as own:
        return asyncio.run(Run(own, seed).go(messages))


def main(arguments: list[str]) -> Any:
    report = run(int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 1)
    print(json.dumps(asdict(report), indent=1))
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
