"""`pg-epsilon proxy --check`: whether these settings could serve. Changes nothing, and tells no secret."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg

from pg_epsilon_proxy import facade as facades
from pg_epsilon_proxy.config import Config
from pg_epsilon_proxy.health import problems_of
from pg_epsilon_proxy.policy import gateway
from pg_epsilon_proxy.tls import server_context
from pg_epsilon_proxy.witness import Witness, WitnessError

_NETWORK = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


async def preflight(config: Config) -> list[str]:
    """What is wrong, a line each; empty: the proxy would serve. The settings themselves were validated by load()."""
    problems = _files(config)
    if problems:
        return problems
    return await _databases(config)


def _files(config: Config) -> list[str]:
    listen = config.listen
    looks: list[tuple[str, Callable[[], Any]]] = []
    if listen.tls_cert:
        looks.append(("listen.tls_cert, listen.tls_key", lambda: server_context(listen.tls_cert, listen.tls_key)))
    for name, place in (("private.tls_ca", config.private), ("facade.tls_ca", config.facade)):
        if place.tls and place.tls_ca:
            looks.append((name, lambda path=place.tls_ca: ssl.create_default_context(cafile=path)))  # type: ignore[misc]
    if config.private.passfile and not config.private.password:
        looks.append(("private.passfile", config.gateway_password))
    if state := config.state_dir():
        looks.append(("proxy.state_dir", lambda: Witness(state).heads()))
    if listen.unix_socket:
        looks.append(("listen.unix_socket", lambda: _folder(listen.unix_socket)))
    return [problem for name, look in looks if (problem := _tried(name, look)) is not None]


def _folder(path: str) -> None:
    if not Path(path).is_dir():
        raise NotADirectoryError("no such directory")


def _tried(name: str, look: Callable[[], Any]) -> str | None:
    try:
        look()
    except WitnessError as error:
        return f"{name}: {error}"
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError; a password file may not be UTF-8
        why = getattr(error, "strerror", None) or getattr(error, "reason", None) or type(error).__name__
        return f"{name}: {why}"
    return None


async def _databases(config: Config) -> list[str]:
    place = "the private database"
    try:
        async with gateway(config) as private:
            problems = await _private(private)
            place = "the facade"
            async with gateway(config, facade=True) as facade:
                problems += await facades.check(facade, private)
                unsafe = await facades.unsafe_analysts(facade)
        return problems + [f"analyst {name} has rights that the facade does not hold" for name in unsafe]
    except _NETWORK as error:
        return [f"{place} cannot be asked: {type(error).__name__}: {error}"]


async def _private(private: Any) -> list[str]:
    if await private.fetchval("SELECT pg_catalog.current_setting('dp.analyst', true)"):
        return ["dp.analyst is set for the gateway outside a transaction: reset it for the role and the database"]
    try:
        await private.fetchval("SELECT dp.verifier('')")
        return await problems_of(private)
    except asyncpg.PostgresError as error:
        return [f"the private database does not serve the gateway: {error} ({error.sqlstate})"]
