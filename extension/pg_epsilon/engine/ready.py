"""Whether this backend can answer a question at all: asked before a charge, by dp.check() and by the proxy's probe.

Nothing here depends on rows, and nothing is charged. Each check raises DP006 with words for the administrator.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec, module_from_spec
from typing import Any

from pg_epsilon import _version, noise
from pg_epsilon._version import VERSION
from pg_epsilon.errors import CHANNEL, DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.query.parse import parse_expression

NEEDED = ("opendp", "pglast", "numpy", "scipy", "highspy")
REINSTALL = (
    "The administrator installs the Python package pg_epsilon anew, with what the engine requires (in the checkout: pip"
    " install '.[engine]'), into the environment that the server's PYTHONPATH names, restarts the server, and runs"
    " SELECT * FROM dp.check()."
)
# A database cannot change its encoding, so its rows move to another one.
REENCODE = (
    "The administrator runs CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0, installs pg_epsilon there and"
    " loads the tables: a database keeps its encoding for ever."
)
_SERVER = (
    "SELECT current_setting('server_version_num')::int AS version, pg_encoding_to_char(encoding) AS encoding,"
    " (SELECT extversion FROM pg_extension WHERE extname = 'pg_epsilon') AS extversion,"
    " (SELECT system_identifier FROM pg_control_system()) AS system, oid AS database"
    " FROM pg_database WHERE datname = current_database()"
)
_facts: dict[str, Any] = {}
_passed: set[str] = set()


def server_facts(execute: Execute) -> dict[str, Any]:
    """Version, encoding, system identifier and database of the server: none changes under a backend, which reads once.

    DP006 as `check_version` and `check_encoding`.
    """
    if not _facts:
        found = execute(_SERVER, (), ())[0]
        check_version(found["extversion"])
        check_encoding(found["encoding"])
        _facts.update(found)
    return _facts


def check_version(extension: str) -> None:
    """DP006 where package and extension differ in version."""
    if extension != VERSION:
        raise DPError(
            CHANNEL,
            f"the Python package is version {VERSION}, the extension {extension}",
            "Install matching versions, then ALTER EXTENSION pg_epsilon UPDATE and reconnect.",
        )


def check_encoding(encoding: str) -> None:
    """DP006 in a database whose texts are of no known encoding: PL/Python cannot read what rows hold there."""
    if encoding.upper() == "SQL_ASCII":
        raise DPError(CHANNEL, "the database's encoding is SQL_ASCII, in which no question is answered", REENCODE)


def check_unreplaced() -> None:
    """DP006 where the package was replaced by another version since this process began: what is imported late would
    not fit to what is loaded. Asked before a folder is imported at its first question."""
    spec = _version.__spec__
    if spec is None or spec.loader is None:  # of no file, which nobody can replace
        return
    now = module_from_spec(spec)
    try:
        spec.loader.exec_module(now)
        found = str(now.VERSION)
    except (OSError, AttributeError):
        raise DPError(CHANNEL, "the files of the server's Python package pg_epsilon are gone", REINSTALL) from None
    if found != VERSION:
        raise DPError(
            CHANNEL,
            f"the Python package became version {found} while this session runs version {VERSION}",
            "Reconnect. If it is said again: ALTER EXTENSION pg_epsilon UPDATE, so that the extension has its version.",
        )


def check_packages() -> None:
    """DP006 where a package that some mechanism imports late is not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise DPError(CHANNEL, f"the server's Python lacks {', '.join(missing)}", REINSTALL)


def check_sampler() -> None:
    """DP006 where no noise can be drawn: one draw of the production source, which is thrown away."""
    try:
        noise.try_sampler()
    except Exception as error:
        raise DPError(CHANNEL, f"no noise can be drawn: {type(error).__name__} in OpenDP", REINSTALL) from None


def check_parser() -> None:
    """DP006 where PostgreSQL's parser (pglast) does not parse."""
    try:
        parse_expression("1 + 1")
    except Exception as error:
        raise DPError(CHANNEL, f"no SQL can be parsed: {type(error).__name__} in pglast", REINSTALL) from None


CHECKS: tuple[tuple[str, Callable[[], None]], ...] = (
    ("packages", check_packages),
    ("sampler", check_sampler),
    ("parser", check_parser),
)


def check_ready() -> None:
    """DP006 before anything is paid, if what a charge buys could not be computed here. A success is remembered."""
    for name, check in CHECKS:
        if name not in _passed:
            check()
            _passed.add(name)


def troubles(execute: Execute) -> list[dict[str, str | None]]:
    """What keeps every question from being answered: version, encoding, packages, sampler, parser, tried now."""
    found: list[dict[str, str | None]] = []

    def check_server() -> None:
        server_facts(execute)

    for name, check in (("pg_epsilon", check_server), *CHECKS):
        try:
            check()
        except DPError as error:
            found.append({"object": name, "problem": error.message, "hint": error.hint})
    return found
