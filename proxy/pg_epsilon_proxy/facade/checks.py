"""Whether a facade may serve, and what it shows (facade-and-channel.md §4 and §5)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, cast

import asyncpg

from pg_epsilon_proxy.facade.definition import EMPTY, Definition, LeftOut, without
from pg_epsilon_proxy.facade.statements import keyword


@dataclass(frozen=True, slots=True)
class FacadeRelation:
    """A relation that analysts see on the facade.

    oid: on the facade (OIDs differ between the databases, names travel). kind: `protected` has the net, `view` reads
    such relations, `public` has rows, `catalog` is a view of schema dp that the proxy answers as a function of who.
    """

    oid: int
    schema: str
    name: str
    kind: Literal["protected", "public", "view", "catalog"]


def shown(definition: Definition) -> list[tuple[str, str, Literal["protected", "public", "view", "catalog"]]]:
    """(schema, name, kind) of every relation of a facade of this shape."""
    kinds: dict[str, Literal["protected", "public", "view"]] = {
        "TABLE": "protected",
        "VIEW": "view",
        "FOREIGN TABLE": "public",
    }
    return [
        *((r["schema"], r["name"], kinds[keyword(r)]) for r in definition["relations"]),
        *(("dp", v["name"], "catalog") for v in definition["views"]),
    ]


async def _held(facade: asyncpg.Connection[Any]) -> tuple[int, Definition]:
    row = await facade.fetchrow("SELECT version, definition FROM dp_state.facade_state")
    if row is None or row["definition"] is None:
        return 0, EMPTY
    return row["version"], cast(Definition, json.loads(row["definition"]))


async def relations(facade: asyncpg.Connection[Any]) -> list[FacadeRelation]:
    """What the facade shows, with this facade's OIDs; read it again after each sync."""
    _, definition = await _held(facade)
    listed = shown(definition)
    rows = await facade.fetch(
        "SELECT c.oid, n.nspname, c.relname, u.kind "
        "FROM unnest($1::text[], $2::text[], $3::text[]) AS u(nspname, relname, kind) "
        "JOIN pg_catalog.pg_namespace n ON n.nspname = u.nspname "
        "JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = u.relname ORDER BY 2, 3",
        *([item[i] for item in listed] for i in range(3)),
    )
    return [FacadeRelation(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class Published:
    """What the rewriter must know besides the names: public tables, views over protected relations, columns in order.

    views: the text that each was built from; every name in it has its schema. left_out: what the facade could not be
    made with.
    """

    public: frozenset[tuple[str, str]]
    views: dict[tuple[str, str], str]
    columns: dict[tuple[str, str], tuple[str, ...]]
    left_out: tuple[LeftOut, ...] = ()

    def unserved(self) -> frozenset[tuple[str, str]]:
        """(schema, name) of the published relations that the facade lacks."""
        return frozenset((item["name"][0], item["name"][1]) for item in self.left_out if item["part"] == "relations")


def published(definition: Definition) -> Published:
    """The relations of a facade of this shape."""
    kinds = {(schema, name): kind for schema, name, kind in shown(definition)}
    by_name = {(r["schema"], r["name"]): r for r in definition["relations"]}

    def protected(name: tuple[str, str]) -> bool:
        if kinds.get(name) == "view":
            return any(protected((below[0], below[1])) for below in by_name[name]["depends"])
        return kinds.get(name) == "protected"

    return Published(
        frozenset(name for name, kind in kinds.items() if kind == "public"),
        {name: r["view"] for name, r in by_name.items() if r["view"] is not None and protected(name)},
        {name: tuple(column["name"] for column in r["columns"]) for name, r in by_name.items()},
        tuple(definition.get("left_out", ())),
    )


async def held(facade: asyncpg.Connection[Any]) -> Published:
    """The relations that this facade shows."""
    return published((await _held(facade))[1])


async def check(facade: asyncpg.Connection[Any], private: asyncpg.Connection[Any] | None = None) -> list[str]:
    """What is wrong with the facade; empty: it may serve. The proxy serves nobody otherwise.

    Looks for a relation outside the public list without the net (policy, RLS, FORCE, the refusing function immutable
    and refusing), owners that row-level security does not bind, missing or filled relations, open cluster-wide
    surfaces, and, with `private` (dp_gateway there), a version behind the policy or a shape that is not the policy's.
    """
    version, held = await _held(facade)
    left_out, held = held.get("left_out", []), without(held, [])
    wanted, problems = held, []
    if private is not None:
        # what is left out must be nowhere, as anything else that is not the policy's
        wanted = without(json.loads(await private.fetchval("SELECT dp.facade_definition()")), left_out)
        if version != wanted["version"]:
            problems.append(f"the facade shows policy version {version}, the policy is at {wanted['version']}")
        elif held != wanted:
            problems.append("the facade was built from another definition than the policy's")
    listed = shown(wanted)
    letter = {"public": "f", "view": "v"}
    allowed = [(s, n, letter[k]) for s, n, k in listed if k in letter]
    netted = [(s, n) for s, n, k in listed if k not in letter]
    sql = files("pg_epsilon_proxy.facade").joinpath("check.sql").read_text(encoding="utf-8")
    rows = await facade.fetch(
        sql,
        *([item[i] for item in allowed] for i in range(3)),
        *([item[i] for item in netted] for i in range(2)),
        [x["name"] for x in wanted["extensions"]],
        [item["name"][0] for item in left_out if item["part"] == "extensions"],
    )
    problems += [row[0] for row in rows]
    if "dp.refuse(text) is missing" not in problems and not await _refuses(facade):
        problems.append("dp.refuse(text) does not raise DP002")
    return problems


async def _refuses(facade: asyncpg.Connection[Any]) -> bool:
    try:
        async with facade.transaction():
            await facade.fetchval("SELECT dp.refuse('a relation')")
    except asyncpg.PostgresError as error:
        return bool(error.sqlstate == "DP002")
    return False


async def unsafe_analysts(facade: asyncpg.Connection[Any]) -> list[str]:
    """Members of dp_analyst whom the net may not hold, by attributes or memberships on the facade's server (§1)."""
    rows = await facade.fetch(
        # By grants, not by pg_has_role: that counts every superuser, who is no analyst unless someone made him one.
        "WITH RECURSIVE analyst(oid) AS (SELECT 'dp_analyst'::pg_catalog.regrole::oid UNION SELECT m.member "
        "FROM pg_catalog.pg_auth_members m JOIN analyst a ON m.roleid = a.oid) "
        "SELECT r.rolname FROM pg_catalog.pg_roles r JOIN analyst USING (oid) WHERE r.rolcanlogin AND ("
        "r.rolsuper OR r.rolbypassrls OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR EXISTS ("
        "SELECT FROM pg_catalog.pg_roles g WHERE (g.rolname ~ '^pg_' OR g.rolname IN "
        "('dp_owner', 'dp_admin', 'dp_gateway', 'dp_channel', 'dp_facade', 'dp_auth', 'dp_reader', 'dp_planner')) "
        "AND pg_catalog.pg_has_role(r.oid, g.oid, 'MEMBER'))) ORDER BY 1"
    )
    return [row[0] for row in rows]
