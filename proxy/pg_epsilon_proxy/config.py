"""The proxy's settings: a TOML file, then the environment (PG_EPSILON_<SECTION>_<KEY>), then nothing else."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from pg_epsilon_proxy.session.connection import DEFAULT_MAX_MESSAGE

S = TypeVar("S")


class ConfigError(Exception):
    """A setting is missing, unknown or of the wrong type."""


@dataclass(frozen=True)
class Listen:
    """Where clients connect. port 0: any free one. unix_socket: directory of a socket .s.PGSQL.<port>; empty: none.

    tls_required refuses TCP clients without TLS; it needs tls_cert and tls_key (PEM files).
    """

    host: str = "127.0.0.1"
    port: int = 6432
    unix_socket: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_required: bool = False


@dataclass(frozen=True)
class Facade:
    """The facade database. host: a name, an address, or the directory of a unix socket.

    names: further database names that clients may ask for, comma separated in the environment; the facade's own and the
    private database's are always understood. tls: verify the server against tls_ca (empty: the system's).

    For `pg-epsilon facade create` with the facade on another server: source_host and source_port are the private
    database's as the facade's server reaches it (empty, 0: as in [private]); source_tls_ca: a file on the facade's
    server, to verify the private one by.
    """

    host: str = "127.0.0.1"
    port: int = 5432
    dbname: str = "facade"
    names: tuple[str, ...] = ()
    tls: bool = False
    tls_ca: str = ""
    source_host: str = ""
    source_port: int = 0
    source_tls_ca: str = ""


@dataclass(frozen=True)
class Private:
    """The private database, as the gateway role. passfile: a file that holds the password alone, if not given here.

    pool_size: most connections that a worker process holds; pool_warm: those it keeps open with the engine loaded.

    tls: verify the server against tls_ca (empty: the system's); without it, TLS if the server offers it, unverified.
    """

    host: str = "127.0.0.1"
    port: int = 5432
    dbname: str = "private"
    user: str = "dp_gateway"
    password: str = field(default="", repr=False)
    passfile: str = ""
    pool_size: int = 8
    pool_warm: int = 2
    tls: bool = False
    tls_ca: str = ""


@dataclass(frozen=True)
class Admin:
    """The role of `pg-epsilon facade`, a superuser. The proxy itself never uses it.

    facade_user, facade_password: on the facade's server, if it is another one (empty: the same).
    """

    user: str = "postgres"
    password: str = field(default="", repr=False)
    facade_user: str = ""
    facade_password: str = field(default="", repr=False)


@dataclass(frozen=True)
class Limits:
    """Of one process. login_timeout: seconds from accept to a finished login; max_message: bytes; acquire_timeout:
    seconds of waiting for a free connection to the private database. 0 takes any of the following limits away.

    max_sessions_per_analyst, max_sessions_per_address: sessions; max_logins: connections that have not logged in yet
    (beyond it the oldest one of the address that has most is closed); idle_timeout: seconds that a client may say
    nothing while it is owed nothing; auth_failures: wrong passwords a minute for one user name from one address (ten
    times as many for an address); cancel_requests: a minute from one address (a wrong key counts as ten).
    """

    login_timeout: float = 30.0
    max_message: int = DEFAULT_MAX_MESSAGE
    max_sessions: int = 500
    max_sessions_per_analyst: int = 250
    max_sessions_per_address: int = 0
    max_logins: int = 250
    idle_timeout: float = 0.0
    auth_failures: int = 20
    cancel_requests: int = 300
    acquire_timeout: float = 30.0
    parser_threads: int = 1


@dataclass(frozen=True)
class Process:
    """workers: processes that serve one port (SO_REUSEPORT); limits and the pool are each worker's own.

    drain_timeout: seconds from SIGTERM that running statements and open transactions have to finish.
    """

    workers: int = 1
    drain_timeout: float = 30.0


@dataclass(frozen=True)
class Proxy:
    """state_dir: where the proxy keeps its witness of the ledger (witness.json), on another disk than the databases.

    Empty: $STATE_DIRECTORY, which systemd sets for StateDirectory=; without that there is no witness.
    """

    state_dir: str = ""


@dataclass(frozen=True)
class Log:
    """To standard error. format: logfmt or json, one line an event; level: debug, info, warning or error."""

    format: str = "logfmt"
    level: str = "info"


@dataclass(frozen=True)
class Metrics:
    """http://host:port/metrics for Prometheus. port 0: none. host must be a loopback address unless allow_remote."""

    host: str = "127.0.0.1"
    port: int = 0
    allow_remote: bool = False


@dataclass(frozen=True)
class Config:
    listen: Listen = Listen()
    facade: Facade = Facade()
    private: Private = Private()
    admin: Admin = Admin()
    limits: Limits = Limits()
    process: Process = Process()
    proxy: Proxy = Proxy()
    log: Log = Log()
    metrics: Metrics = Metrics()

    def gateway_password(self) -> str | None:
        if self.private.password:
            return self.private.password
        if self.private.passfile:
            return Path(self.private.passfile).read_text().rstrip("\n")
        return None

    def state_dir(self) -> str:
        return self.proxy.state_dir or os.environ.get("STATE_DIRECTORY", "").partition(":")[0]

    def database_names(self) -> frozenset[str]:
        return frozenset({self.facade.dbname, self.private.dbname, *self.facade.names})


def load(path: str | None, environment: Mapping[str, str] = os.environ) -> Config:
    """Raises ConfigError naming the setting."""
    try:
        tables = tomllib.loads(Path(path).read_text()) if path else {}
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    config = Config()
    sections = {item.name: getattr(config, item.name) for item in fields(config)}
    if unknown := set(tables) - set(sections):
        raise ConfigError(f"unknown section [{min(unknown)}]")
    for name in sections:
        if not isinstance(tables.get(name, {}), dict):
            raise ConfigError(f"{name} is a section: write [{name}]")
    return checked(
        replace(
            config,
            **{name: _section(name, value, tables.get(name, {}), environment) for name, value in sections.items()},
        )
    )


_CHOICES = {("log", "format"): ("logfmt", "json"), ("log", "level"): ("debug", "info", "warning", "error")}
_LEAST = {
    ("private", "pool_size"): 1,
    ("private", "pool_warm"): 0,
    ("limits", "parser_threads"): 1,
    ("process", "workers"): 1,
    ("process", "drain_timeout"): 0,
}
_PORTS = (("listen", "port"), ("facade", "port"), ("facade", "source_port"), ("private", "port"), ("metrics", "port"))


def checked(config: Config) -> Config:
    """The same settings, if they make sense by themselves and together. Raises ConfigError, which tells no value."""

    def value(section: str, key: str) -> Any:
        return getattr(getattr(config, section), key)

    for (section, key), choices in _CHOICES.items():
        if value(section, key) not in choices:
            raise ConfigError(f"{section}.{key} must be one of {', '.join(choices)}")
    for (section, key), least in _LEAST.items():
        if not value(section, key) >= least:
            raise ConfigError(f"{section}.{key} must be at least {least}")
    for section, key in _PORTS:
        if not 0 <= value(section, key) <= 65535:
            raise ConfigError(f"{section}.{key} must be between 0 and 65535")
    if bool(config.listen.tls_cert) != bool(config.listen.tls_key):
        raise ConfigError("listen.tls_cert and listen.tls_key belong together")
    if config.listen.tls_required and not config.listen.tls_cert:
        raise ConfigError("listen.tls_required needs listen.tls_cert and listen.tls_key")
    if not (config.listen.host or config.listen.unix_socket):
        raise ConfigError("listen.host or listen.unix_socket must say where clients connect")
    if config.metrics.port and not config.metrics.allow_remote and not _is_loopback(config.metrics.host):
        raise ConfigError("metrics.host must be a loopback address, unless metrics.allow_remote is true")
    return config


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name may lead elsewhere tomorrow


def from_document(document: Mapping[str, Mapping[str, Any]]) -> Config:
    """The inverse of dataclasses.asdict, also after a journey as JSON, which makes lists of tuples."""
    config = Config()
    sections = {
        item.name: replace(
            getattr(config, item.name),
            **{key: tuple(value) if isinstance(value, list) else value for key, value in document[item.name].items()},
        )
        for item in fields(config)
    }
    return replace(config, **sections)


def _section(section: str, defaults: S, table: Mapping[str, Any], environment: Mapping[str, str]) -> S:
    known = {item.name for item in fields(defaults)}  # type: ignore[arg-type]
    if unknown := set(table) - known:
        raise ConfigError(f"unknown setting {section}.{min(unknown)}")
    values: dict[str, Any] = {}
    for name in known:
        default = getattr(defaults, name)
        variable = f"PG_EPSILON_{section}_{name}".upper()
        if variable in environment:
            values[name] = _from_text(f"{section}.{name}", environment[variable], default)
        elif name in table:
            values[name] = _typed(f"{section}.{name}", table[name], default)
    return replace(defaults, **values)  # type: ignore[type-var]


def _from_text(name: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false", "on", "off", "1", "0"):
            raise ConfigError(f"{name} must be true or false")
        return text.lower() in ("true", "on", "1")
    if isinstance(default, tuple):
        return tuple(part for part in text.split(",") if part)
    try:
        return type(default)(text)
    except ValueError:
        raise ConfigError(f"{name} must be a number") from None


def _typed(name: str, value: Any, default: Any) -> Any:
    if isinstance(default, tuple) and isinstance(value, list) and all(isinstance(v, str) for v in value):
        return tuple(value)
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        raise ConfigError(f"{name} must be a {type(default).__name__}")
    return value
