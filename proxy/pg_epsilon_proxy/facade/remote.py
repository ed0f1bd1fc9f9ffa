"""A facade on another server than the private database: roles, verifiers, settings, the way to public tables (§3, §5).

The two servers share nothing, so what one cluster has once is copied: the logins of analysts with their verifiers (the
facade session is the analyst's own, and the proxy holds no password), the gateway's, and the private database's
settings that change what a literal means.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from typing import Any

from pg_epsilon_proxy.facade.build import ReaderSource, prepare
from pg_epsilon_proxy.facade.statements import database_statement, ident, literal

ROLES = (("dp_analyst", "NOLOGIN"), ("dp_facade", "NOLOGIN"), ("dp_gateway", "LOGIN"))
PLAIN = "NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB NOREPLICATION"
MEANINGS = ("timezone", "datestyle", "intervalstyle", "search_path")
ITERATIONS = 4096  # PostgreSQL's own; the password is 256 bits of chance
_QUIET = (
    "SET LOCAL log_statement = 'none'; SET LOCAL log_min_duration_statement = -1; "
    "SET LOCAL log_min_duration_sample = -1; SET LOCAL log_transaction_sample_rate = 0; "
    "SET LOCAL log_min_error_statement = 'panic'"
)
# Who may log in through the proxy is what dp.verifier says; the rest of a login is the server's business.
_ANALYSTS = """SELECT a.rolname, dp.verifier(a.rolname) AS verifier, a.rolvaliduntil::text AS until,
  a.rolconnlimit AS most FROM pg_catalog.pg_authid a WHERE dp.verifier(a.rolname) IS NOT NULL ORDER BY 1"""
_MEMBERS = """SELECT r.rolname, r.rolcanlogin FROM pg_catalog.pg_auth_members m
  JOIN pg_catalog.pg_roles r ON r.oid = m.member
 WHERE m.roleid = 'dp_analyst'::pg_catalog.regrole"""
_SETTINGS = """SELECT pg_catalog.unnest(s.setconfig) FROM pg_catalog.pg_db_role_setting s
  JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase
 WHERE d.datname = pg_catalog.current_database() AND s.setrole = 0"""


@dataclass(frozen=True, slots=True)
class Way:
    """Where the facade's server finds the private database. tls_ca: path there; if set, the server is verified."""

    host: str
    port: int
    database: str
    tls_ca: str = ""


async def same_server(one: Any, other: Any) -> bool:
    """Both connections are a superuser's. By what the servers say of themselves: one server has many names."""
    who = "SELECT system_identifier::text || pg_catalog.pg_postmaster_start_time() FROM pg_catalog.pg_control_system()"
    return bool(await one.fetchval(who) == await other.fetchval(who))


async def create_roles_and_database(private: Any, server: Any, dbname: str) -> None:
    """The facade's own roles, and its database in the private one's encoding and locale; repeatable.

    private: superuser there; server: superuser in any database of the facade's server.
    """
    async with server.transaction():
        await server.execute(_QUIET)
        for name, attributes in ROLES:
            if not await _exists(server, name):
                await server.execute(f"CREATE ROLE {name}")
            await server.execute(f"ALTER ROLE {name} {attributes} {PLAIN}")
        await server.execute("GRANT dp_facade TO dp_gateway")
        sql = "SELECT rolpassword FROM pg_catalog.pg_authid WHERE rolname = 'dp_gateway'"
        if (verifier := await private.fetchval(sql)) is not None:
            await server.execute(f"ALTER ROLE dp_gateway PASSWORD {literal(verifier)}")
    if await server.fetchval("SELECT true FROM pg_catalog.pg_database WHERE datname = $1", dbname):
        return
    facts = await private.fetchval(
        "SELECT pg_catalog.to_jsonb(d) || "
        "pg_catalog.jsonb_build_object('encoding', pg_catalog.pg_encoding_to_char(d.encoding)) "
        "FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()"
    )
    await server.execute(database_statement(dbname, json.loads(facts)))
    await server.execute(f"REVOKE ALL ON DATABASE {ident(dbname)} FROM PUBLIC")


async def prepare_remote(private: Any, facade: Any, way: Way) -> None:
    """Net, settings and the way to public tables; repeatable. Both connections are a superuser's.

    A new random password is set for dp_reader on the private side: as a verifier, so that its text is in no log.
    """
    password = secrets.token_urlsafe(32)
    await prepare(facade, None, ReaderSource(way.host, way.port, way.database, password))
    async with private.transaction():
        await private.execute(_QUIET)
        await private.execute(f"ALTER ROLE dp_reader LOGIN PASSWORD {literal(_verifier(password))}")
    if way.tls_ca:
        await facade.execute(
            f"ALTER SERVER pg_epsilon_public OPTIONS (ADD sslmode 'verify-full', ADD sslrootcert {literal(way.tls_ca)})"
        )
    name = await facade.fetchval("SELECT pg_catalog.current_database()")
    for (item,) in await private.fetch(_SETTINGS):
        key, _, value = item.partition("=")
        if key.lower() not in MEANINGS:
            continue
        if key.lower() == "search_path":
            shown = value if "dp" in [part.strip() for part in value.split(",")] else f"{value}, dp"
            await facade.execute(f"ALTER DATABASE {ident(name)} SET search_path = {shown}")
        else:
            await facade.execute(f"ALTER DATABASE {ident(name)} SET {ident(key)} = {literal(value)}")


async def copy_analysts(private: Any, server: Any) -> list[str]:
    """Give every analyst of the private database the same login on the facade's server; returns problems.

    Whoever is no analyst any more loses his login and his sessions there. A role of the same name that is no analyst
    there is left alone: it belongs to somebody.
    """
    wanted = {row["rolname"]: row for row in await private.fetch(_ANALYSTS)}
    held = {row["rolname"]: row["rolcanlogin"] for row in await server.fetch(_MEMBERS)}
    problems = []
    async with server.transaction():
        await server.execute(_QUIET)
        for name, row in wanted.items():
            if name not in held and await _exists(server, name):
                problems.append(f"role {name} exists on the facade's server and is no analyst there: rename one")
                continue
            if name not in held:
                await server.execute(f"CREATE ROLE {ident(name)} IN ROLE dp_analyst")
            await server.execute(
                f"ALTER ROLE {ident(name)} LOGIN {PLAIN} PASSWORD {literal(row['verifier'])} "
                f"VALID UNTIL {literal(row['until'] or 'infinity')} CONNECTION LIMIT {int(row['most'])}"
            )
        gone = [name for name, can_login in held.items() if can_login and name not in wanted]
        for name in gone:
            await server.execute(f"ALTER ROLE {ident(name)} NOLOGIN PASSWORD NULL")
    if gone:
        sql = "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE usename = ANY ($1)"
        await server.fetch(sql, gone)
    return problems


async def _exists(server: Any, name: str) -> bool:
    return bool(await server.fetchval("SELECT true FROM pg_catalog.pg_roles WHERE rolname = $1", name))


def _verifier(password: str) -> str:
    """What PostgreSQL would store of an ASCII password (RFC 5803)."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored, server = hashlib.sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256")
    salt64, stored64, server64 = (base64.b64encode(item).decode() for item in (salt, stored, server))
    return f"SCRAM-SHA-256${ITERATIONS}:{salt64}${stored64}:{server64}"
