"""`pg-epsilon facade setup | sync | check`: the facade from a shell."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import asyncpg

from pg_epsilon_proxy.facade.build import FacadeBusy, ReaderSource, create, prepare, sync
from pg_epsilon_proxy.facade.checks import check, unsafe_analysts


async def set_up(
    superuser_dsn: str,
    gateway_dsn: str,
    private_dbname: str,
    facade_dbname: str,
    reader: ReaderSource | None,
    say: Callable[[str], None] = print,
) -> list[str]:
    """Create, prepare, sync and check a facade in the private database's own cluster; repeatable. Returns the problems.

    The DSNs name the server and the login (a superuser; dp_gateway), no database. reader: None shows no public tables.
    """
    async with AsyncExitStack() as stack:

        async def connect(dsn: str, database: str) -> asyncpg.Connection[Any]:
            connection = await asyncpg.connect(dsn, database=database)
            stack.push_async_callback(connection.close)
            return connection

        say(f"facade: database {facade_dbname}")
        await create(await connect(superuser_dsn, private_dbname), facade_dbname)
        await prepare(await connect(superuser_dsn, facade_dbname), private_dbname, reader)
        private, facade = await connect(gateway_dsn, private_dbname), await connect(gateway_dsn, facade_dbname)
        version = await sync(private, facade, again=True)
        say(f"facade: in step with policy version {version}")
        return await check(facade, private)


async def _in_step(private_dsn: str, facade_dsn: str, *, rebuild: bool, change: bool) -> list[str]:
    private, facade = await asyncpg.connect(private_dsn), await asyncpg.connect(facade_dsn)
    try:
        if change:
            await sync(private, facade, rebuild=rebuild, again=True)
        unsafe = [f"analyst {name} has rights that the facade does not hold" for name in await unsafe_analysts(facade)]
        return [*await check(facade, private), *unsafe]
    finally:
        await private.close()
        await facade.close()


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="pg-epsilon facade", description="build, follow and check the facade")
    commands = parser.add_subparsers(dest="command", required=True)
    setup = commands.add_parser("setup", help="make the facade in the private database's cluster")
    setup.add_argument("--superuser", required=True, metavar="DSN", help="server and superuser, without a database")
    setup.add_argument("--gateway", required=True, metavar="DSN", help="server and dp_gateway, without a database")
    setup.add_argument("--private", required=True, metavar="NAME", help="the private database")
    setup.add_argument("--facade", required=True, metavar="NAME", help="the facade's database")
    setup.add_argument("--reader-host", default="127.0.0.1", help="where the server reaches itself (default 127.0.0.1)")
    setup.add_argument("--reader-port", type=int, default=5432)
    for name, purpose in (("sync", "bring the facade in step with the policy"), ("check", "look for problems")):
        command = commands.add_parser(name, help=purpose)
        command.add_argument("--private", required=True, metavar="DSN", help="the private database, as dp_gateway")
        command.add_argument("--facade", required=True, metavar="DSN", help="the facade, as dp_gateway")
        command.add_argument("--rebuild", action="store_true", help="sync only: drop and make everything")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Exit status 0: the facade may serve; 1: problems, one a line on standard error; 75: busy, try again."""
    options = _arguments(sys.argv[1:] if words is None else words)
    try:
        if options.command == "setup":
            reader = ReaderSource(options.reader_host, options.reader_port, options.private)
            problems = asyncio.run(set_up(options.superuser, options.gateway, options.private, options.facade, reader))
        else:
            change = options.command == "sync"
            problems = asyncio.run(_in_step(options.private, options.facade, rebuild=options.rebuild, change=change))
    except FacadeBusy as busy:
        print(f"facade: {busy}: try again", file=sys.stderr)
        return 75
    for problem in problems:
        print(f"facade: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
