"""The proxy of a fuzz run, in a process of its own: its memory is nobody else's. Prints the port, then one line of JSON
for each line that it reads."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fix_proxy import BareFacade, Directory, FakePrivate, FakeSource, NoUpstream, facade_config
from pg_epsilon_proxy.server import ProxyServer
from pg_epsilon_proxy.session import connection
from pg_epsilon_proxy.wire import framing

handled = {"messages": 0, "sessions failed": 0}


class Failures(logging.Handler):
    """A session that ends by an exception of ours is a crash, though the others live on."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith(("session failed", "a session failed")):
            handled["sessions failed"] += 1
            print(record.getMessage(), getattr(record, "fields", ""), file=sys.stderr)


class CountingFramer(framing.Framer):
    """Counts what clients' sessions are given: one for each message, or run of small ones."""

    def feed(self, data: bytes) -> Iterator[framing.Piece]:
        for piece in super().feed(data):
            handled["messages"] += 1
            yield piece


def resident() -> int:
    """Kilobytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def facts(server: ProxyServer) -> dict[str, int]:
    gc.collect()
    return {
        **handled,
        "sessions": server.sessions,
        "half_open": server.admission.half_open,
        "admitted": server.admission.sessions,
        "tasks": len(asyncio.all_tasks()),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "resident_kb": resident(),
    }


async def main(folder: str, port: int) -> None:
    connection.Framer = CountingFramer  # type: ignore[attr-defined, misc]
    logging.basicConfig(handlers=[Failures()])
    cluster = BareFacade(Path(folder), port)
    known = cluster.verifier("alice")

    async def verifier(role: str) -> str | None:
        return known if role == "alice" else None

    config = facade_config(cluster)
    config = replace(config, limits=replace(config.limits, auth_failures=0, cancel_requests=0, max_logins=30))
    server = ProxyServer(config, Directory(verifier, lambda analyst: NoUpstream()), FakeSource(FakePrivate()))
    await server.start()
    print(server.port, flush=True)
    try:
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(facts(server)), flush=True)
    finally:
        await server.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
