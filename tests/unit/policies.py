"""Policies as dp._policy_of would give them, for unit tests without a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pg_epsilon.engine import tasks
from pg_epsilon.plan import Plan, make_plan
from pg_epsilon.query.expression import FoldError
from pg_epsilon.query.policy import Policy, policy_from_json
from pg_epsilon.query.request import Request, compile_request


def column(name: str, type_name: str, oid: int, **policy: Any) -> dict[str, Any]:
    declared = {"lower": None, "upper": None, "resolution": None, "domain": None, "edges": None, "nullable": True}
    return {
        "name": name,
        "type_oid": oid,
        "type_name": type_name,
        "typmod": -1,
        "deterministic": True,
        "collation": None,
        "labels": None,
        "policy": {**declared, **policy} if policy else None,
    }


def document(**changes: Any) -> dict[str, Any]:
    """A relation with row units: age, sex (domain), day (partitioned by week), note (undeclared)."""
    return {
        "version": 1,
        "oid": 16384,
        "schema": "public",
        "name": "people",
        "relation_key": "public.people",
        "data_version": 1,
        "data_as_of": "2026-01-01 00:00:00+00",
        "refresh_every": None,
        "unit_column": None,
        "other_units": None,
        "unit_path": None,
        "max_rows_per_unit": None,
        "max_rows": None,
        "scale": "1000",
        "partition_by": "day",
        "grid": {"origin": "2024-01-01", "width": "7 days"},
        "published": True,
        "linked": False,
        "primary_key": ["id"],
        "dataset": {
            "name": "people",
            "unit": "row",
            "accountant": "pure",
            "epsilon": "10",
            "delta_rdp": "0",
            "delta_add": "0",
            "orders": None,
            "default_epsilon": "0.1",
        },
        "columns": [
            column("id", "integer", 23, kind="opaque"),
            column("age", "integer", 23, kind="bounds", lower="0", upper="3", resolution="1", nullable=False),
            column("sex", "text", 25, kind="domain", domain=["f", "m"]),
            column("day", "date", 1082, kind="bounds", lower="2024-01-01", upper="2024-12-31"),
            column("owner", "integer", 23, kind="opaque"),
            column("note", "text", 25),
        ],
        **changes,
    }


def row_policy(**changes: Any) -> Policy:
    return policy_from_json(document(**changes))


def user_policy(**changes: Any) -> Policy:
    """The same relation in a dataset whose unit is a user, by column owner, at most 5 rows each."""
    base = document()
    base["dataset"]["unit"] = "user"
    facts = {"unit_column": "owner", "max_rows_per_unit": 5, "partition_by": None, "grid": None, **changes}
    return policy_from_json({**base, **facts})


def fold(expressions: Sequence[str]) -> Sequence[str | None]:
    """Constants of these tests are literals: '…'::type and numbers."""
    return [text.split("'")[1] if "'" in text else text for text in expressions]


def asked(policy: Policy, clock: float = 0, **members: Any) -> Request:
    relation = {"schema": policy.relation.schema, "name": policy.relation.name}
    body = {"version": 1, "from": relation, "aggregates": ["count(*)"], **members}

    def lookup(schema: str, name: str) -> Policy:
        return policy

    return compile_request(
        body, lookup, fold, texts, encoding="UTF8", server_version=150000, clock=clock, kinds=tasks.KINDS
    )


def texts(query: str) -> Sequence[str | None]:
    """There is no server here: no key of these tests is evaluated."""
    raise FoldError(query)


def planned(policy: Policy, **members: Any) -> Plan:
    return make_plan(asked(policy, **members))
