"""From two definitions to the SQL that turns one facade into the other: pure (facade-and-channel.md §4 and §5).

Every statement runs as dp_facade in one transaction: no session ever sees a relation without its net.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from pg_epsilon_proxy.facade.definition import (
    EMPTY,
    CatalogView,
    Collation,
    Column,
    Definition,
    Extension,
    ForeignKey,
    Function,
    Relation,
    Type,
)

SERVER = "pg_epsilon_public"
POLICY = "pg_epsilon"
# Schemas that exist on every facade.
STANDING_SCHEMAS = frozenset({"public", "dp"})
STUB_HINT = (
    "Send it directly in a statement to the proxy: functions, views, dynamic SQL "
    "and sessions that bypass the proxy get no answer."
)


def ident(name: str) -> str:
    """`name` as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """`text` as a string constant that no setting of standard_conforming_strings can touch."""
    quoted = text.replace("'", "''")
    return " E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in text else f"'{quoted}'"


def qualified(schema: str, name: str) -> str:
    return f"{ident(schema)}.{ident(name)}"


def _columns(columns: Iterable[Column]) -> str:
    parts = []
    for column in columns:
        collation = f" COLLATE {column['collation']}" if column["collation"] else ""
        not_null = " NOT NULL" if column.get("not_null") else ""
        parts.append(f"{ident(column['name'])} {column['type']}{collation}{not_null}")
    return ", ".join(parts)


def _names(names: Iterable[str]) -> str:
    return ", ".join(ident(name) for name in names)


def database_statement(name: str, facts: Mapping[str, Any]) -> str:
    """CREATE DATABASE with the encoding and locale in `facts`, a row of pg_database as JSON (15 and 17 differ)."""
    provider = {"c": "libc", "i": "icu", "b": "builtin"}[facts["datlocprovider"]]
    options = [
        "TEMPLATE template0",
        f"ENCODING {literal(facts['encoding'])}",
        f"LC_COLLATE {literal(facts['datcollate'])}",
        f"LC_CTYPE {literal(facts['datctype'])}",
        f"LOCALE_PROVIDER {provider}",
    ]
    locale = facts.get("datlocale") or facts.get("daticulocale")
    if provider != "libc" and locale:
        options.append(f"{'ICU_LOCALE' if provider == 'icu' else 'BUILTIN_LOCALE'} {literal(locale)}")
    if facts.get("daticurules"):
        options.append(f"ICU_RULES {literal(facts['daticurules'])}")
    return f"CREATE DATABASE {ident(name)} {' '.join(options)}"


def create_schema(name: str) -> list[str]:
    return [f"CREATE SCHEMA {ident(name)}", f"GRANT USAGE ON SCHEMA {ident(name)} TO dp_analyst"]


def create_extension(extension: Extension) -> list[str]:
    return [f"CREATE EXTENSION IF NOT EXISTS {ident(extension['name'])} SCHEMA {ident(extension['schema'])}"]


def create_collation(collation: Collation) -> list[str]:
    provider = {"c": "libc", "i": "icu", "b": "builtin"}[collation["provider"]]
    options = [f"PROVIDER = {provider}", f"DETERMINISTIC = {'true' if collation['deterministic'] else 'false'}"]
    if provider == "libc":
        options.append(f"LC_COLLATE = {literal(collation['lc_collate'] or '')}")
        options.append(f"LC_CTYPE = {literal(collation['lc_ctype'] or '')}")
    else:
        options.append(f"LOCALE = {literal(collation['locale'] or '')}")
    if collation["rules"]:
        options.append(f"RULES = {literal(collation['rules'])}")
    return [f"CREATE COLLATION {qualified(collation['schema'], collation['name'])} ({', '.join(options)})"]


def create_type(item: Type) -> list[str]:
    name = qualified(item["schema"], item["name"])
    collation = f" COLLATE {item['collation']}" if item.get("collation") else ""
    if item["kind"] == "enum":
        return [f"CREATE TYPE {name} AS ENUM ({', '.join(literal(label) for label in item['labels'])})"]
    if item["kind"] == "domain":
        return [f"CREATE DOMAIN {name} AS {item['base']}{collation}"]
    if item["kind"] == "composite":
        return [f"CREATE TYPE {name} AS ({_columns(item['columns'])})"]
    options = [f"SUBTYPE = {item['subtype']}", f"SUBTYPE_OPCLASS = {item['opclass']}"]
    if item.get("collation"):
        options.append(f"COLLATION = {item['collation']}")
    options.append(f"MULTIRANGE_TYPE_NAME = {item['multirange']}")
    return [f"CREATE TYPE {name} AS RANGE ({', '.join(options)})"]


def net(schema: str, name: str) -> list[str]:
    """Makes planning any statement that reads the relation raise DP002 (§4)."""
    relation = qualified(schema, name)
    return [
        f"ALTER TABLE {relation} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {relation} FORCE ROW LEVEL SECURITY",
        f"CREATE POLICY {POLICY} ON {relation} FOR SELECT USING (dp.refuse({literal(_shown(schema, name))}))",
        f"GRANT SELECT ON {relation} TO dp_analyst",
    ]


def _shown(schema: str, name: str) -> str:
    def plain(part: str) -> bool:
        return part.isascii() and part.replace("_", "a").isalnum() and part == part.lower() and not part[:1].isdigit()

    return ".".join(part if plain(part) else ident(part) for part in (schema, name))


def _comments(keyword: str, schema: str, name: str, comment: str | None, columns: Iterable[Column]) -> Iterator[str]:
    relation = qualified(schema, name)
    if comment is not None:
        yield f"COMMENT ON {keyword} {relation} IS {literal(comment)}"
    for column in columns:
        text = column.get("comment")
        if text is not None:
            yield f"COMMENT ON COLUMN {relation}.{ident(column['name'])} IS {literal(text)}"


def keyword(relation: Relation) -> str:
    """The kind of object that the relation is on the facade."""
    if relation["kind"] == "public":
        return "FOREIGN TABLE"
    return "VIEW" if relation["view"] is not None else "TABLE"


def create_relation(relation: Relation) -> list[str]:
    """A protected relation without its keys to others and without its net; a view or a public table whole."""
    schema, name = relation["schema"], relation["name"]
    target, kind = qualified(schema, name), keyword(relation)
    if kind == "FOREIGN TABLE":
        remote = f"OPTIONS (schema_name {literal(schema)}, table_name {literal(name)})"
        statements = [
            f"CREATE FOREIGN TABLE {target} ({_columns(relation['columns'])}) SERVER {SERVER} {remote}",
            f"GRANT SELECT ON {target} TO dp_analyst",
        ]
    elif kind == "VIEW":
        columns = _names(column["name"] for column in relation["columns"])
        statements = [
            f"CREATE VIEW {target} ({columns}) AS {(relation['view'] or '').rstrip().rstrip(';')}",
            f"GRANT SELECT ON {target} TO dp_analyst",
        ]
    else:
        parts = [_columns(relation["columns"])] if relation["columns"] else []
        for key in relation["keys"]:
            kind_text = "PRIMARY KEY" if key["kind"] == "primary" else "UNIQUE"
            nulls = " NULLS NOT DISTINCT" if key["nulls_not_distinct"] and key["kind"] == "unique" else ""
            parts.append(f"CONSTRAINT {ident(key['name'])} {kind_text}{nulls} ({_names(key['columns'])})")
        statements = [f"CREATE TABLE {target} ({', '.join(parts)})"]
    return [*statements, *_comments(kind, schema, name, relation["comment"], relation["columns"])]


def create_catalog_view(view: CatalogView) -> list[str]:
    """A view of schema dp: here a table with the net, because the proxy answers it by a function of who asks."""
    columns: list[Column] = [{**column, "not_null": False} for column in view["columns"]]
    return [
        f"CREATE TABLE {qualified('dp', view['name'])} ({_columns(columns)})",
        *net("dp", view["name"]),
        *_comments("TABLE", "dp", view["name"], view["comment"], columns),
    ]


def add_foreign_key(key: ForeignKey) -> str:
    target = qualified(key["target_schema"], key["target_table"])
    return (
        f"ALTER TABLE {qualified(key['schema'], key['table'])} ADD CONSTRAINT {ident(key['name'])} "
        f"FOREIGN KEY ({_names(key['columns'])}) REFERENCES {target} ({_names(key['target_columns'])})"
    )


def signature(function: Function) -> str:
    return f"{qualified('dp', function['name'])}({function['identity']})"


def create_function(function: Function) -> list[str]:
    """The function itself when it is plain SQL over its arguments, else a stub that raises DP003 when executed."""
    body = function["definition"]
    if body is None:
        message = f"dp.{function['name']} is answered by the proxy and cannot run here"
        raising = f"RAISE EXCEPTION USING ERRCODE = 'DP003', MESSAGE = {literal(message)}, HINT = {literal(STUB_HINT)};"
        body = (
            f"CREATE FUNCTION {qualified('dp', function['name'])}({function['arguments']}) "
            f"RETURNS {function['result']} LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE "
            f"SET search_path = pg_catalog, pg_temp AS $stub$ BEGIN {raising} END $stub$"
        )
    target = signature(function)
    statements = [
        body,
        f"REVOKE ALL ON FUNCTION {target} FROM PUBLIC",
        f"GRANT EXECUTE ON FUNCTION {target} TO dp_analyst",
    ]
    if function["comment"] is not None:
        statements.append(f"COMMENT ON FUNCTION {target} IS {literal(function['comment'])}")
    return statements


def drop_extension(extension: Extension) -> str:
    """Drops it if it is ours: one that a superuser had to install is left, and the check names it."""
    name = extension["name"]
    return (
        "DO $drop$ BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = "
        f"{literal(name)} AND pg_catalog.pg_get_userbyid(extowner) = current_user) "
        f"THEN DROP EXTENSION {ident(name)} CASCADE; END IF; END $drop$"
    )


def sorted_views(views: list[Relation]) -> list[Relation]:
    """Each view after the views that it reads."""
    named = {(r["schema"], r["name"]): r for r in views}
    graph = {name: {(d[0], d[1]) for d in r["depends"]} & named.keys() for name, r in named.items()}
    return [named[name] for name in TopologicalSorter(graph).static_order()]


def plan(held: Definition, wanted: Definition) -> list[str]:
    """Statements that turn a facade of shape `held` into one of shape `wanted`; none when nothing changed.

    Additions leave everything else alone. When a type, collation or extension changed or went, all is rebuilt.
    """
    return [statement for before, after in phases(held, wanted) for statement in whole(before, after)]


def phases(held: Definition, wanted: Definition, *, rebuild: bool = False) -> list[tuple[Definition, Definition]]:
    """The shapes before and after of each step from one to the other: one, or two where all is rebuilt."""
    lost = any(item not in wanted[part] for part in ("extensions", "collations", "types") for item in held[part])
    return [(held, EMPTY), (EMPTY, wanted)] if lost or rebuild else [(held, wanted)]


class Change(NamedTuple):
    """What goes, as statements, and which relations and foreign keys come."""

    drops: list[str]
    relations: list[Relation]
    keys: list[ForeignKey]


def whole(held: Definition, wanted: Definition) -> list[str]:
    """The statements of one phase."""
    drops, relations, keys = change(held, wanted)
    return [*drops, *_creates(held, wanted, relations, keys)]


def change(held: Definition, wanted: Definition) -> Change:
    """What is to be dropped and made between two shapes of one phase."""
    gone = [r for r in held["relations"] if r not in wanted["relations"]]
    # A view's text names relations that may be rebuilt below it.
    moved = bool(gone) or any(r["view"] is not None and r not in held["relations"] for r in wanted["relations"])
    dropped = [r for r in held["relations"] if r in gone or (moved and r["view"] is not None)]
    created = [r for r in wanted["relations"] if r not in held["relations"] or r in dropped]
    kept_tables = {(r["schema"], r["name"]) for r in held["relations"] if r not in dropped}
    kept_keys = [
        k
        for k in held["foreign_keys"]
        if k in wanted["foreign_keys"]
        and {(k["schema"], k["table"]), (k["target_schema"], k["target_table"])} <= kept_tables
    ]
    lost_keys = [
        k for k in held["foreign_keys"] if k not in wanted["foreign_keys"] and (k["schema"], k["table"]) in kept_tables
    ]
    new_keys = [k for k in wanted["foreign_keys"] if k not in kept_keys]
    return Change(_drops(held, wanted, dropped, lost_keys), created, new_keys)


def _drops(held: Definition, wanted: Definition, dropped: list[Relation], keys: list[ForeignKey]) -> list[str]:
    out = [
        f"ALTER TABLE IF EXISTS {qualified(k['schema'], k['table'])} DROP CONSTRAINT IF EXISTS {ident(k['name'])}"
        for k in keys
    ]
    for r in sorted(dropped, key=lambda r: r["view"] is None):
        out.append(f"DROP {keyword(r)} IF EXISTS {qualified(r['schema'], r['name'])} CASCADE")
    out += [
        f"DROP TABLE IF EXISTS {qualified('dp', v['name'])} CASCADE" for v in held["views"] if v not in wanted["views"]
    ]
    out += [
        f"DROP FUNCTION IF EXISTS {signature(f)} CASCADE" for f in held["functions"] if f not in wanted["functions"]
    ]
    for item in reversed([t for t in held["types"] if t not in wanted["types"]]):
        word = "DOMAIN" if item["kind"] == "domain" else "TYPE"
        out.append(f"DROP {word} IF EXISTS {qualified(item['schema'], item['name'])} CASCADE")
    for collation in held["collations"]:
        if collation not in wanted["collations"]:
            out.append(f"DROP COLLATION IF EXISTS {qualified(collation['schema'], collation['name'])} CASCADE")
    out += [drop_extension(x) for x in reversed(held["extensions"]) if x not in wanted["extensions"]]
    for schema in held["schemas"]:
        if schema not in wanted["schemas"] and schema not in STANDING_SCHEMAS:
            out.append(f"DROP SCHEMA IF EXISTS {ident(schema)} CASCADE")
    return out


def _creates(held: Definition, wanted: Definition, created: list[Relation], keys: list[ForeignKey]) -> list[str]:
    out: list[str] = []
    for schema in wanted["schemas"]:
        if schema not in held["schemas"] and schema not in STANDING_SCHEMAS:
            out += create_schema(schema)
    for extension in wanted["extensions"]:
        out += create_extension(extension) if extension not in held["extensions"] else []
    for collation in wanted["collations"]:
        out += create_collation(collation) if collation not in held["collations"] else []
    for item in wanted["types"]:
        out += create_type(item) if item not in held["types"] else []
    tables = [r for r in created if keyword(r) == "TABLE"]
    for relation in created:
        out += create_relation(relation) if keyword(relation) != "VIEW" else []
    out += foreign_keys(keys, {(r["schema"], r["name"]) for r in tables})
    for relation in tables:
        out += net(relation["schema"], relation["name"])
    for relation in sorted_views([r for r in created if keyword(r) == "VIEW"]):
        out += create_relation(relation)
    for function in wanted["functions"]:
        out += create_function(function) if function not in held["functions"] else []
    for view in wanted["views"]:
        out += create_catalog_view(view) if view not in held["views"] else []
    return out


def foreign_keys(keys: list[ForeignKey], new: set[tuple[str, str]]) -> list[str]:
    """ADD CONSTRAINT reads both tables: the net is lifted in this same transaction where it is, and put back."""
    ends = {(k["schema"], k["table"]) for k in keys} | {(k["target_schema"], k["target_table"]) for k in keys}
    netted = sorted(ends - new)
    return [
        *(f"ALTER TABLE {qualified(*end)} DISABLE ROW LEVEL SECURITY" for end in netted),
        *(add_foreign_key(key) for key in keys),
        *(f"ALTER TABLE {qualified(*end)} ENABLE ROW LEVEL SECURITY" for end in netted),
    ]
