"""The compiler's values: types by kind, terms (validated SQL with its type), and the scope an expression is read in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from pg_epsilon.query.plain import is_plain
from pg_epsilon.query.schema import Column, Relation

Fold = Callable[[Sequence[str]], Sequence[str | None]]
# Runs a query over constants and public tables, never over a protected one: its one column, as texts.
Texts = Callable[[str], Sequence[str | None]]
# The published columns of a public table by schema and name; None if there is no such table.
Publics = Callable[[str, str], "Relation | None"]


class Fixed(str):
    """SQL of a text that depends on no setting of whoever asks; prepared: the same with $1 for the argument."""

    prepared: str
    argument: str

    def __new__(cls, sql: str, prepared: str, argument: str) -> Fixed:
        found = super().__new__(cls, sql)
        found.prepared, found.argument = prepared, argument
        return found


class Textual(str):
    """SQL of a text, under the settings of whoever asks: nobody needs to ask PostgreSQL for its type.

    source: the FROM clause that it needs. statement: the same as one SELECT of the text as v0 and its type as t0, which
    is planned faster than the expression, a sub-query, within another SELECT. of: what the text is made of, if not
    `sql` itself. plain: whether no setting decides what it is (plain.py).
    """

    statement: str
    plain: bool

    def __new__(cls, sql: str, source: str = "", of: str | None = None) -> Textual:
        found = super().__new__(cls, f"(SELECT {sql} {source})" if source else sql)
        found.statement = f"SELECT {sql} AS v0, 'text' AS t0 {source}"
        found.plain = is_plain(sql if of is None else of)
        return found


class FoldError(Exception):
    """What a Fold raises when PostgreSQL refuses one of the constants: the analyst's own mistake, never about a row."""


class Kind(Enum):
    """The classes of types whose operators we know to be total; OTHER supports IS [NOT] NULL only."""

    BOOL = "boolean"
    INT = "integer"
    NUMERIC = "numeric"
    FLOAT = "floating point"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamp with time zone"
    TIME = "time"
    UUID = "uuid"
    ENUM = "enum"
    INTERVAL = "interval"
    OTHER = "other"
    UNKNOWN = "untyped literal"


NUMBERS = frozenset({Kind.INT, Kind.NUMERIC, Kind.FLOAT})
EXACT = frozenset({Kind.INT, Kind.NUMERIC})
MOMENTS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})


@dataclass(frozen=True)
class Type:
    """A type as the generated SQL has it: `name` is what follows `::` (an enum's name comes from the catalog).

    varying: varchar, which is text but where it meets bpchar (compare.py).
    """

    kind: Kind
    name: str
    collation: str | None = None
    deterministic: bool = True
    labels: tuple[str, ...] | None = None
    varying: bool = field(default=False, compare=False)


BOOL = Type(Kind.BOOL, "pg_catalog.bool")
INT4 = Type(Kind.INT, "pg_catalog.int4")
INT8 = Type(Kind.INT, "pg_catalog.int8")
# The result of integer arithmetic: an integer to the analyst, computed in numeric so that it cannot overflow.
WIDE = Type(Kind.INT, "pg_catalog.numeric")
NUMERIC = Type(Kind.NUMERIC, "pg_catalog.numeric")
FLOAT4 = Type(Kind.FLOAT, "pg_catalog.float4")
FLOAT8 = Type(Kind.FLOAT, "pg_catalog.float8")
TEXT = Type(Kind.TEXT, "pg_catalog.text")
VARCHAR = Type(Kind.TEXT, "pg_catalog.text", varying=True)
BPCHAR = Type(Kind.TEXT, "pg_catalog.bpchar")
DATE = Type(Kind.DATE, "pg_catalog.date")
TIMESTAMP = Type(Kind.TIMESTAMP, "pg_catalog.timestamp")
TIMESTAMPTZ = Type(Kind.TIMESTAMPTZ, "pg_catalog.timestamptz")
TIME = Type(Kind.TIME, "pg_catalog.time")
UUID = Type(Kind.UUID, "pg_catalog.uuid")
INTERVAL = Type(Kind.INTERVAL, "pg_catalog.interval")
UNKNOWN = Type(Kind.UNKNOWN, "pg_catalog.text")

# PostgreSQL's fixed OIDs (pg_type.dat).
_BY_OID = {
    16: BOOL,
    21: Type(Kind.INT, "pg_catalog.int2"),
    23: INT4,
    20: INT8,
    1700: NUMERIC,
    700: FLOAT4,
    701: FLOAT8,
    25: TEXT,
    1043: VARCHAR,
    1042: BPCHAR,
    1082: DATE,
    1114: TIMESTAMP,
    1184: TIMESTAMPTZ,
    1083: TIME,
    2950: UUID,
    1186: INTERVAL,
}
# Decimal digits before and after the point that a value of the type can have.
_INT_SIZE = {"pg_catalog.int2": (5, 0), "pg_catalog.int4": (10, 0), "pg_catalog.int8": (19, 0)}
# Far from numeric's 131,072 digits and from the 308 of float8, so that neither can be reached.
MAX_DIGITS = 250


def type_by_oid(oid: int) -> Type | None:
    """The compiler's type of one of PostgreSQL's own; None for one without total operators here."""
    return _BY_OID.get(oid)


def type_of(column: Column) -> Type:
    """Return the compiler's type of a column; Kind.OTHER for what has no total operators here."""
    if column.enum_labels is not None:
        return Type(Kind.ENUM, column.type_name, labels=column.enum_labels)
    base = _BY_OID.get(column.type_oid)
    if base is None:
        return Type(Kind.OTHER, column.type_name)
    if base.kind is Kind.TEXT:
        return replace(base, collation=column.collation, deterministic=column.collation_deterministic)
    return base


def size_of(column: Column) -> tuple[int, int] | None:
    """Return (digits before, digits after the point) that bound every finite value of the column; None if unbounded."""
    base = _BY_OID.get(column.type_oid)
    if base is None or column.enum_labels is not None:
        return None
    if base.kind is Kind.INT:
        return _INT_SIZE[base.name]
    if base.kind is Kind.NUMERIC and column.typmod >= 4:
        precision = ((column.typmod - 4) >> 16) & 0xFFFF
        scale = (((column.typmod - 4) & 0x7FF) ^ 1024) - 1024  # 11 bits, signed, since PostgreSQL 15
        return max(precision - scale, 1), max(scale, 0)
    return None


@dataclass(frozen=True)
class Test:
    """`column operator constants`, in text: what a partition restriction may be computed from (composition.md §5.1)."""

    column: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """`target = any of values` (operator =), or `target <> all of values` (<>), which are constants."""

    operator: str
    target: Term
    values: tuple[Term, ...]


@dataclass(frozen=True)
class Term:
    """A compiled subexpression: SQL that needs no further parentheses and cannot raise on any row.

    value: the text of a plain constant (None also for NULL, see `null`); size: bound on the digits of finite values;
    parts: the flattened operands of AND or OR; equates: two columns that are equal wherever the term is true;
    results: the constants of which every value is one; opposite: what NOT of it is, in its own form; listing: what is
    compared with which constants; origin: the node of a constant, for positions. Columns are named by their SQL, alias
    and all.
    """

    sql: str
    type: Type
    columns: frozenset[str] = frozenset()
    literal: bool = False
    value: str | None = None
    size: tuple[int, int] | None = None
    nonzero: bool = False
    column: str | None = None
    test: Test | None = None
    parts: tuple[str, tuple[Term, ...]] | None = None
    equates: tuple[str, str] | None = None
    results: tuple[Term, ...] | None = None
    opposite: Term | None = field(default=None, compare=False, repr=False)
    listing: Listing | None = field(default=None, compare=False, repr=False)
    origin: Any = field(default=None, compare=False, repr=False)

    def but(self, **changes: Any) -> Term:
        """dataclasses.replace in a fifth of the time: every node of an expression is changed a few times."""
        term = object.__new__(Term)
        term.__dict__.update(self.__dict__, **changes)
        return term

    @property
    def constant(self) -> bool:
        """Whether the term reads no column."""
        return not self.columns

    @property
    def null(self) -> bool:
        """Whether the term is the literal NULL."""
        return self.literal and self.value is None

    @property
    def kind(self) -> Kind:
        """The kind of the term's type."""
        return self.type.kind


@dataclass(frozen=True)
class Item:
    """A relation in a FROM: `alias` is the asker's, `sql_alias` the one in generated SQL."""

    relation: Relation
    alias: str | None
    sql_alias: str

    @property
    def name(self) -> str:
        """What a qualified column name says before the dot."""
        return self.alias or self.relation.name

    def answers_to(self, qualifier: Sequence[str]) -> bool:
        """Whether `qualifier` names this relation; an alias hides the relation's own names."""
        if self.alias is None and list(qualifier) == [self.relation.schema, self.relation.name]:
            return True
        return list(qualifier) == [self.name]


@dataclass(frozen=True)
class Scope:
    """What names and settings mean in an expression: public inputs only (composition.md §7.1).

    relation, alias, sql_alias: the first relation of FROM; others: those joined to it; outer: where a sub-query's names
    are looked up next. now: the session's now() as timestamptz text; timezone: the session's TimeZone. public: what a
    sub-query may read.
    """

    relation: Relation
    alias: str | None = None
    sql_alias: str = "r"
    encoding: str = "UTF8"
    timezone: str = "UTC"
    server_version: int = 150000
    now: str | None = None
    others: tuple[Item, ...] = ()
    outer: Scope | None = None
    public: Publics | None = None

    @property
    def items(self) -> tuple[Item, ...]:
        """The relations of this FROM."""
        return (Item(self.relation, self.alias, self.sql_alias), *self.others)

    @property
    def levels(self) -> Iterator[Scope]:
        """This scope and those around it, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


@dataclass(frozen=True)
class Expression:
    """A validated expression: canonical SQL over the scope's aliases that raises on no row (rule R1).

    kind, type_name and type describe the SQL's result; columns are those it reads; constant means it reads none.
    """

    sql: str
    kind: Kind
    type_name: str
    columns: frozenset[str]
    constant: bool
    size: tuple[int, int] | None = None
    column: str | None = None
    conjuncts: tuple[Term, ...] = field(default=())
    type: Type = UNKNOWN
    results: tuple[Term, ...] | None = None
