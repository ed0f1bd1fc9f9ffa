"""What the owner declared about a protected relation and its dataset: what a request is compiled against."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from pg_epsilon.query.schema import Column, ColumnPolicy, Relation

ROW, USER = "row", "user"


@dataclass(frozen=True)
class Dataset:
    """One privacy unit, one accountant, one cap (composition.md §3); immutable but for default_epsilon."""

    name: str
    unit: str
    accountant: str
    epsilon: Decimal
    delta_rdp: Decimal
    delta_add: Decimal
    orders: tuple[Decimal, ...]
    default_epsilon: Decimal | None


@dataclass(frozen=True)
class Hop:
    """One step of a unit path: `column` references `referenced` of schema.name; the last step is the unit key.

    only: schema.name is no partitioned table. A foreign key, and so its uniqueness, is about its own rows then, not
    about those of inheritance children, which may repeat a key and give one row several units.
    """

    column: str
    schema: str | None
    name: str | None
    referenced: str | None
    only: bool = False
    same: bool = False


@dataclass(frozen=True)
class Policy:
    """A protected relation. `digest` changes with anything that changes the meaning of a question about it."""

    relation: Relation
    relation_key: str
    dataset: Dataset
    version: int
    data_version: int
    data_as_of: str
    refresh_every: int | None
    published: bool
    linked: bool
    unit_column: str | None
    other_units: tuple[str, ...]
    unit_path: tuple[Hop, ...]
    max_rows_per_unit: int | None
    max_rows: int | None
    scale: Decimal | None
    partition_by: str | None
    grid: Mapping[str, Any] | None
    primary_key: tuple[str, ...]
    digest: str

    def data_version_at(self, clock: float) -> tuple[int, int]:
        """What a cached answer must match: the owner's counter, and the number of the declared period if any."""
        return self.data_version, int(clock // self.refresh_every) if self.refresh_every else 0

    @property
    def has_user_units(self) -> bool:
        return self.dataset.unit == USER


_AS_THEY_ARE = (
    "relation_key",
    "version",
    "data_version",
    "data_as_of",
    "refresh_every",
    "published",
    "linked",
    "unit_column",
    "max_rows_per_unit",
    "max_rows",
    "partition_by",
    "grid",
)


def policy_from_json(document: Mapping[str, Any]) -> Policy:
    """Read what the catalog function dp._policy_of returns."""
    columns = {column["name"]: _column(column) for column in document["columns"]}
    return Policy(
        **{name: document[name] for name in _AS_THEY_ARE},
        relation=Relation(document["schema"], document["name"], document["oid"], columns, _unique(document)),
        dataset=_dataset(document["dataset"]),
        other_units=tuple(document["other_units"] or ()),
        unit_path=tuple(Hop(**hop) for hop in document["unit_path"] or ()),
        scale=_decimal(document["scale"]),
        primary_key=tuple(document["primary_key"] or ()),
        digest=_digest(document),
    )


def public_from_json(document: Mapping[str, Any]) -> Relation:
    """Read what the catalog function dp._public_of returns: a public table with its published columns."""
    columns = {
        column["name"]: replace(_column(column), policy=ColumnPolicy("opaque")) for column in document["columns"]
    }
    return Relation(document["schema"], document["name"], document["oid"], columns, _unique(document), public=True)


def _unique(document: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(key) for key in document.get("unique_keys") or ())


def _dataset(document: Mapping[str, Any]) -> Dataset:
    return Dataset(
        **{name: document[name] for name in ("name", "unit", "accountant")},
        epsilon=Decimal(document["epsilon"]),
        delta_rdp=Decimal(document["delta_rdp"]),
        delta_add=Decimal(document["delta_add"]),
        orders=_decimals(document["orders"]),
        default_epsilon=_decimal(document["default_epsilon"]),
    )


def _column(document: Mapping[str, Any]) -> Column:
    return Column(
        **{name: document[name] for name in ("name", "type_oid", "type_name", "typmod", "collation")},
        collation_deterministic=document["deterministic"],
        enum_labels=_tuple(document["labels"]),
        policy=_column_policy(document["policy"]),
        published=document.get("published", True),
    )


def _column_policy(document: Mapping[str, Any] | None) -> ColumnPolicy | None:
    if document is None:
        return None
    lists = {name: _tuple(document[name]) for name in ("domain", "edges")}
    return ColumnPolicy(**{**document, **lists})


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def _decimals(texts: Sequence[str] | None) -> tuple[Decimal, ...]:
    return tuple(Decimal(text) for text in texts or ())


def _tuple(items: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if items is None else tuple(items)


def _digest(document: Mapping[str, Any]) -> str:
    """A name for the policy under which a cached answer holds; without OIDs and counters, which a restore changes."""
    facts = {k: v for k, v in document.items() if k not in ("version", "oid", "data_as_of", "published", "linked")}
    facts["columns"] = [
        {k: _meaning(v) if k == "policy" else v for k, v in c.items() if k != "type_oid"} for c in document["columns"]
    ]
    facts["dataset"] = {k: document["dataset"][k] for k in ("name", "unit", "accountant")}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _meaning(declared: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A column's declaration without what only bounds sizes: to declare that voids no answer."""
    return None if declared is None else {k: v for k, v in declared.items() if k != "max_rows_per_value"}
