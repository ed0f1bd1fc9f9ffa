"""Registered synthetic copies of protected relations: public tables that a question may name (composition.md §11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

from pg_epsilon.query.literals import identifier
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.schema import written


@dataclass(frozen=True)
class Summed:
    """What the weighted table of a published family counts (release.md): public facts.

    aggregate: the family's, as Aggregate.canonical; where: SQL of the conditions that all its rows meet, which are no
    columns of it. value: the column of the values that are summed up.
    """

    aggregate: Mapping[str, Any]
    where: Sequence[str]
    value: str


@dataclass(frozen=True)
class Synthetic:
    """A registered synthetic copy of a protected relation: a public table (composition.md §11).

    columns: name → type. weight: the column that says for how many rows one stands; None: for one. provenance: how it
    came about; epsilon, delta: what that cost, if it is known. valid: it still has the columns it was registered with.
    release: of the table of a published family.
    """

    schema: str
    name: str
    columns: Mapping[str, str]
    weight: str | None
    provenance: str
    epsilon: Decimal | None = None
    delta: Decimal | None = None
    valid: bool = True
    release: Summed | None = None

    @property
    def qualified(self) -> str:
        """schema.name, for people."""
        return written(self.schema, self.name)

    @property
    def sql(self) -> str:
        """schema.name, in generated SQL."""
        return f"{identifier(self.schema)}.{identifier(self.name)}"


class Copies(Protocol):
    """What is registered, looked up."""

    def of(self, policy: Policy) -> Sequence[Synthetic]:
        """The copies of a relation."""
        ...

    def original(self, schema: str, name: str) -> tuple[str, str] | None:
        """Schema and name of the relation that this table is a copy of."""
        ...

    def schema_of(self, name: str, path: Sequence[str]) -> str | None:
        """The first schema of a path in which a relation of this name is protected or public."""
        ...


class _None:
    """No synthetic table at all."""

    def of(self, policy: Policy) -> Sequence[Synthetic]:
        return ()

    def original(self, schema: str, name: str) -> tuple[str, str] | None:
        return None

    def schema_of(self, name: str, path: Sequence[str]) -> str | None:
        return None


NONE_REGISTERED: Copies = _None()
