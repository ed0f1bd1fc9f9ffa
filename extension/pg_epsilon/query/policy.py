"""What the owner declared about a protected relation and its dataset: what a request is compiled against."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
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
    frozen: bool


@dataclass(frozen=True)
class Hop:
    """One step of a unit path: `column` references `referenced` of schema.name; the last step is the unit key."""

    column: str
    schema: str | None
    name: str | None
    referenced: str | None


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


def policy_from_json(document: Mapping[str, Any]) -> Policy:
    """Read what the catalog function dp._policy_of returns."""
    columns = {c["name"]: _column(c) for c in document["columns"]}
    data = document["dataset"]
    dataset = Dataset(
        name=data["name"],
        unit=data["unit"],
        accountant=data["accountant"],
        epsilon=Decimal(data["epsilon"]),
        delta_rdp=Decimal(data["delta_rdp"]),
        delta_add=Decimal(data["delta_add"]),
        orders=tuple(Decimal(o) for o in data["orders"] or ()),
        default_epsilon=_decimal(data["default_epsilon"]),
        frozen=data["frozen"],
    )
    return Policy(
        relation=Relation(document["schema"], document["name"], document["oid"], columns),
        relation_key=document["relation_key"],
        dataset=dataset,
        version=document["version"],
        data_version=document["data_version"],
        data_as_of=document["data_as_of"],
        refresh_every=document["refresh_every"],
        published=document["published"],
        linked=document["linked"],
        unit_column=document["unit_column"],
        unit_path=tuple(Hop(**hop) for hop in document["unit_path"] or ()),
        max_rows_per_unit=document["max_rows_per_unit"],
        max_rows=document["max_rows"],
        scale=_decimal(document["scale"]),
        partition_by=document["partition_by"],
        grid=document["grid"],
        primary_key=tuple(document["primary_key"] or ()),
        digest=_digest(document),
    )


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def _column(document: Mapping[str, Any]) -> Column:
    declared = document["policy"]
    policy = None
    if declared is not None:
        lists = {name: None if declared[name] is None else tuple(declared[name]) for name in ("domain", "edges")}
        policy = ColumnPolicy(
            kind=declared["kind"],
            lower=declared["lower"],
            upper=declared["upper"],
            resolution=declared["resolution"],
            domain=lists["domain"],
            edges=lists["edges"],
            nullable=declared["nullable"],
        )
    labels = document["labels"]
    return Column(
        name=document["name"],
        type_oid=document["type_oid"],
        type_name=document["type_name"],
        typmod=document["typmod"],
        collation_deterministic=document["deterministic"],
        collation=document["collation"],
        enum_labels=None if labels is None else tuple(labels),
        policy=policy,
    )


def _digest(document: Mapping[str, Any]) -> str:
    """A name for the policy under which a cached answer holds; without OIDs and counters, which a restore changes."""
    facts = {k: v for k, v in document.items() if k not in ("version", "oid", "data_as_of", "published", "linked")}
    facts["columns"] = [{k: v for k, v in c.items() if k != "type_oid"} for c in document["columns"]]
    facts["dataset"] = {k: document["dataset"][k] for k in ("name", "unit", "accountant")}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
