"""`pg-epsilon proxy`, `pg-epsilon facade`, `pg-epsilon ledger` and `pg-epsilon plot`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import asyncpg

from pg_epsilon._version import VERSION
from pg_epsilon.engine.verify import Difference
from pg_epsilon_proxy import facade as facades
from pg_epsilon_proxy import ledger, logs, plot_explanation, plot_family, plot_release, plots
from pg_epsilon_proxy.config import Config, ConfigError, Facade, Log, Private, load
from pg_epsilon_proxy.facade import remote
from pg_epsilon_proxy.lifecycle import Lifecycle
from pg_epsilon_proxy.policy import CHANNEL, gateway
from pg_epsilon_proxy.preflight import preflight
from pg_epsilon_proxy.service import Service
from pg_epsilon_proxy.session.login import verifying_tls
from pg_epsilon_proxy.supervisor import Supervisor

_REQUEST = "the id of the request: SELECT request_id, question FROM dp.spending"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 problems found or the databases cannot be reached, 2 wrong usage or settings."""
    options = _parser().parse_args(arguments)
    logs.configure(Log())
    try:
        config = load(options.config)
        logs.configure(config.log)
        return asyncio.run(_COMMANDS[options.command](config, options))
    except ConfigError as error:
        print(f"pg-epsilon: {error}", file=sys.stderr)
        return 2
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        print(f"pg-epsilon: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pg-epsilon", description="Differential privacy for PostgreSQL.")
    version = {"action": "version", "version": f"pg-epsilon {VERSION}", "help": "print the version"}
    parser.add_argument("--version", **version)  # type: ignore[arg-type]
    commands = parser.add_subparsers(dest="group", required=True)
    proxy = commands.add_parser("proxy", help="serve clients")
    proxy.add_argument("--config", metavar="FILE", help="TOML settings; without it, the environment's")
    proxy.add_argument(
        "--check", action="store_true", help="look at settings, certificate, both databases; change nothing"
    )
    proxy.add_argument("--version", **version)  # type: ignore[arg-type]
    proxy.set_defaults(command="proxy")
    facade = commands.add_parser("facade", help="build, sync or check the facade database")
    actions = facade.add_subparsers(dest="action", required=True)
    for name, text in (
        ("create", "create and prepare the facade database (as [admin])"),
        ("roles", "copy analysts' logins to a facade on another server (as [admin])"),
        ("sync", "bring the facade to the shape that the policy publishes"),
        ("check", "list what is wrong with the facade"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("--config", metavar="FILE", help="TOML settings; without it, the environment's")
        action.set_defaults(command=f"facade {name}", check=False)
    books = commands.add_parser("ledger", help="verify the ledger")
    verify = books.add_subparsers(dest="action", required=True).add_parser(
        "verify", help="recompute balances, order and links of the private database (as [admin]) or of an export"
    )
    verify.add_argument("--config", metavar="FILE", help="TOML settings; without it, the environment's")
    verify.add_argument("--export", metavar="FILE", help="what dp.export_ledger() returned, a JSON object a line")
    verify.set_defaults(command="ledger verify", check=False)
    pictures = commands.add_parser("plot", help="draw an answer").add_subparsers(dest="action", required=True)
    for name, text in (
        ("workload", "an answered workload of your own: answers, and errors by method"),
        ("release", "an answered GROUP BY of your own: values and error intervals by group"),
        ("explanation", "what explains a difference: shares and ranks of predicates, with their intervals"),
        ("family", "a published release of dp_release_numeric: its answers and bars by parameter"),
    ):
        picture = pictures.add_parser(name, help=text)
        what = ("name", "its name: SELECT * FROM dp.families") if name == "family" else ("id", _REQUEST)
        picture.add_argument("what", metavar=what[0], help=what[1])
        picture.add_argument("-o", "--output", metavar="FILE", required=True, help="a .png or .svg file")
        picture.add_argument("--dsn", help="where to ask, as the analyst; without it, the proxy of the settings")
        picture.add_argument("--user", help="the analyst; without it, PGUSER's or the dsn's (password: PGPASSWORD)")
        picture.add_argument("--config", metavar="FILE", help="TOML settings; without it, the environment's")
        picture.set_defaults(command=f"plot {name}", check=False)
    return parser


async def _proxy(config: Config, options: argparse.Namespace) -> int:
    if options.check:
        return _told(await preflight(config))
    runner = Supervisor(config) if config.process.workers > 1 else Service(config)
    await Lifecycle(config, lambda: load(options.config), runner).run()
    return 0


async def _facade_create(config: Config, options: argparse.Namespace) -> int:
    async with _admins(config, "postgres") as (private, server):
        same = await remote.same_server(private, server)
        if same:
            await facades.create(private, config.facade.dbname)
        else:
            await remote.create_roles_and_database(private, server, config.facade.dbname)
    async with _admins(config, config.facade.dbname) as (private, facade):
        host = config.facade.source_host or config.private.host
        port = config.facade.source_port or config.private.port
        if same:
            source = facades.ReaderSource(host, port, config.private.dbname)
            await facades.prepare(facade, config.private.dbname, source)
            return 0
        await remote.prepare_remote(
            private, facade, remote.Way(host, port, config.private.dbname, config.facade.source_tls_ca)
        )
        return _told(await remote.copy_analysts(private, facade))


async def _facade_roles(config: Config, options: argparse.Namespace) -> int:
    """Analysts and their verifiers, for a facade on another server; in one cluster there is nothing to copy."""
    async with _admins(config, config.facade.dbname) as (private, facade):
        if await remote.same_server(private, facade):
            return 0
        return _told(await remote.copy_analysts(private, facade))


async def _facade_sync(config: Config, options: argparse.Namespace) -> int:
    async with gateway(config) as private, gateway(config, facade=True) as facade:
        version = await facades.sync(private, facade, again=True)
        await private.execute(f"NOTIFY {CHANNEL}")  # what was left out may be there now: proxies read the facade again
        print(f"the facade shows policy version {version}")
        await _say_left_out(facade)
        return _told(await facades.check(facade, private))


async def _say_left_out(facade: Any) -> None:
    """No problem of the facade's, which serves all others: the status is not about it."""
    for item in (await facades.held(facade)).left_out:
        name, state = ".".join(item["name"]), item["sqlstate"]
        print(f"left out of the facade ({item['part']}): {name}: {item['why']} ({state})")


async def _facade_check(config: Config, options: argparse.Namespace) -> int:
    async with gateway(config) as private, gateway(config, facade=True) as facade:
        await _say_left_out(facade)
        return _told(await facades.check(facade, private))


async def _ledger_verify(config: Config, options: argparse.Namespace) -> int:
    """1 and the first difference, if there is one."""
    try:
        if options.export is not None:
            print(ledger.verify_export(options.export))
            return 0
        private = await _admin(config.private, config.private.dbname, config.admin.user, config.admin.password)
        try:
            print(await ledger.verify_live(private))
        finally:
            await private.close()
    except Difference as difference:
        return _told([str(difference)])
    return 0


async def _plot_workload(config: Config, options: argparse.Namespace) -> int:
    return await _draw_answer(config, options, plots.fetch, plots.draw)


async def _plot_release(config: Config, options: argparse.Namespace) -> int:
    return await _draw_answer(config, options, plot_release.fetch, plot_release.draw)


async def _plot_explanation(config: Config, options: argparse.Namespace) -> int:
    return await _draw_answer(config, options, plot_explanation.fetch, plot_explanation.draw)


async def _plot_family(config: Config, options: argparse.Namespace) -> int:
    return await _draw_answer(config, options, plot_family.fetch, plot_family.draw)


async def _draw_answer(
    config: Config,
    options: argparse.Namespace,
    fetch: Callable[[Any, str], Awaitable[Any]],
    draw: Callable[[Any, str], None],
) -> int:
    """Ask as the analyst, and draw what was answered."""
    plots.check(options.output)
    connection = await plots.connect(config, options.dsn, options.user)
    try:
        draw(await fetch(connection, options.what), options.output)
    finally:
        await connection.close()
    return 0


def _told(problems: Sequence[str]) -> int:
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


@contextlib.asynccontextmanager
async def _admins(config: Config, dbname: str) -> AsyncIterator[tuple[Any, Any]]:
    """The superuser in the private database, and in a database of the facade's server."""
    admin = config.admin
    private = await _admin(config.private, config.private.dbname, admin.user, admin.password)
    try:
        user, password = admin.facade_user or admin.user, admin.facade_password or admin.password
        server = await _admin(config.facade, dbname, user, password)
        try:
            yield private, server
        finally:
            await server.close()
    finally:
        await private.close()


async def _admin(place: Facade | Private, dbname: str, user: str, password: str) -> Any:
    return await asyncpg.connect(
        host=place.host,
        port=place.port,
        database=dbname,
        user=user,
        password=password or None,
        **({"ssl": verifying_tls(place)} if place.tls else {}),
    )


_COMMANDS = {
    "proxy": _proxy,
    "facade create": _facade_create,
    "facade roles": _facade_roles,
    "facade sync": _facade_sync,
    "facade check": _facade_check,
    "ledger verify": _ledger_verify,
    "plot workload": _plot_workload,
    "plot release": _plot_release,
    "plot explanation": _plot_explanation,
    "plot family": _plot_family,
}

if __name__ == "__main__":
    sys.exit(main())
