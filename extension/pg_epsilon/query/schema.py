"""What the compiler knows of a published relation: columns, their types and what the owner declared (rule R4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OPAQUE = "opaque"
BOUNDS = "bounds"
DOMAIN = "domain"
EDGES = "edges"


def written(*names: str) -> str:
    """Names as people write them in SQL, with dots between: quoted where they must be."""
    from pg_epsilon.query import parse

    return parse.written(*names)


@dataclass(frozen=True)
class ColumnPolicy:
    """The owner's declaration of one column (dp.describe_column); values are text outputs under ISO dates and UTC.

    kind: `opaque` (usable in predicates, no domain), `bounds` (lower, upper, resolution), `domain` or `edges`.
    max_rows_per_value: so many rows share a value of it at most; it bounds sizes of joins, and no answer's meaning.
    """

    kind: str
    lower: str | None = None
    upper: str | None = None
    resolution: str | None = None
    domain: tuple[str, ...] | None = None
    edges: tuple[str, ...] | None = None
    nullable: bool = True
    max_rows_per_value: int | None = None


@dataclass(frozen=True)
class Column:
    """A column: `type_oid` is the base type (domains resolved), `type_name` its format_type without typmod.

    `collation` is the qualified name when it is not the type's default. `policy` None means undeclared, hence closed.
    published: analysts know that it exists.
    """

    name: str
    type_oid: int
    type_name: str
    typmod: int = -1
    collation_deterministic: bool = True
    collation: str | None = None
    enum_labels: tuple[str, ...] | None = None
    policy: ColumnPolicy | None = None
    published: bool = True


@dataclass(frozen=True)
class Relation:
    """A published relation with its columns by name, in the order of the table.

    unique: sets of columns that no two rows share, by a constraint that holds over all rows that a SELECT from the
    relation reads (so none if it has inheritance children). public: its rows are nobody's.
    """

    schema: str
    name: str
    oid: int
    columns: Mapping[str, Column] = field(default_factory=dict)
    unique: tuple[tuple[str, ...], ...] = ()
    public: bool = False

    @property
    def qualified(self) -> str:
        """The name as people write it in SQL: schema.table, quoted where it must be."""
        return written(self.schema, self.name)
