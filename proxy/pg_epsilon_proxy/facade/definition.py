"""The shape of everything published, as `dp.facade_definition()` returns it (facade-and-channel.md §5).

Public facts only: names, types, keys, labels. `type`, `base`, `subtype`, `collation`, `opclass` and `multirange` are
SQL text, already quoted by PostgreSQL; every other name is bare and is quoted where it is used. `depends`:
[schema, name] of what a view reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NotRequired, TypedDict, cast


class Column(TypedDict):
    name: str
    type: str
    collation: str | None
    not_null: NotRequired[bool]
    comment: NotRequired[str | None]


class Extension(TypedDict):
    name: str
    schema: str


class Collation(TypedDict):
    schema: str
    name: str
    provider: str
    deterministic: bool
    locale: str | None
    lc_collate: str | None
    lc_ctype: str | None
    rules: str | None


class Type(TypedDict):
    schema: str
    name: str
    kind: Literal["enum", "domain", "composite", "range"]
    labels: NotRequired[list[str]]
    base: NotRequired[str]
    columns: NotRequired[list[Column]]
    subtype: NotRequired[str]
    opclass: NotRequired[str]
    multirange: NotRequired[str]
    collation: NotRequired[str | None]


class Key(TypedDict):
    name: str
    kind: Literal["primary", "unique"]
    columns: list[str]
    nulls_not_distinct: bool


class Relation(TypedDict):
    schema: str
    name: str
    kind: Literal["protected", "public"]
    columns: list[Column]
    keys: list[Key]
    comment: str | None
    view: str | None
    depends: list[list[str]]


class ForeignKey(TypedDict):
    name: str
    schema: str
    table: str
    columns: list[str]
    target_schema: str
    target_table: str
    target_columns: list[str]


class Function(TypedDict):
    name: str
    identity: str
    arguments: str
    result: str
    definition: str | None
    comment: str | None


class CatalogView(TypedDict):
    name: str
    columns: list[Column]
    comment: str | None


class LeftOut(TypedDict):
    """What a facade could not be made with. part: a key of Definition; name: the item's, as `named` gives it.

    why: PostgreSQL's sentence about a CREATE of public names and types, which has read no row.
    """

    part: str
    name: list[str]
    sqlstate: str
    why: str


class Definition(TypedDict):
    """left_out: only in the definition that a facade was built from, which lacks those items."""

    left_out: NotRequired[list[LeftOut]]
    version: int
    schemas: list[str]
    extensions: list[Extension]
    collations: list[Collation]
    types: list[Type]
    relations: list[Relation]
    foreign_keys: list[ForeignKey]
    functions: list[Function]
    views: list[CatalogView]


EMPTY: Definition = {
    "version": 0,
    "schemas": [],
    "extensions": [],
    "collations": [],
    "types": [],
    "relations": [],
    "foreign_keys": [],
    "functions": [],
    "views": [],
}


def named(part: str, item: Any) -> list[str]:
    """The name of an item of a part of a definition."""
    keys = {"foreign_keys": ("schema", "table", "name"), "extensions": ("name",)}
    return [item] if isinstance(item, str) else [item[key] for key in keys.get(part, ("schema", "name"))]


def without(definition: Definition, left_out: Iterable[LeftOut]) -> Definition:
    """The definition without these items, and with no word of them."""
    gone = {(item["part"], *item["name"]) for item in left_out}
    parts = {part for part, *_ in gone}
    kept = {
        part: [item for item in items if (part, *named(part, item)) not in gone] if part in parts else items
        for part, items in cast(dict[str, Any], definition).items()
        if part != "left_out"
    }
    return cast(Definition, kept)
