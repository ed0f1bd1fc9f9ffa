"""Neighbouring databases, made from the declared policies: one unit with all that it owns removed, or added.

Nothing here knows a table by name. For a dataset of rows a unit is one row of one relation; for a dataset of users it
is a key and every row, of every relation of the dataset, that leads to it by unit_column or unit_path. A third kind of
neighbour removes the rows that lead to nobody (their unit key is NULL): no account pays for them, so nothing at all
may depend on them (composition.md §1.3). Neighbours are SQL statements, run in a transaction that is rolled back.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

Connection = psycopg.Connection[Any]
Account = tuple[str, ...]
"""() the root, (relation,), (relation, leaf): where the unit's losses are paid for."""

MANY = 3  # a heavy new user owns this many times the declared cap in every relation

POOL: dict[str, list[str | None]] = {
    "boolean": ["t", "f"],
    "smallint": ["0", "32767", "-32768", "3"],
    "integer": ["0", "30", "2147483647", "-2147483648"],
    "numeric": ["50", "NaN", "Infinity", "-Infinity", "0.001", "-1e40"],
    "double precision": ["1.5", "NaN", "Infinity", "-Infinity", "1e308", "-0", "4.9e-324"],
    "text": ["", "☃ 'q\" \\", "Zäh", "zz"],
    "date": ["2024-01-15", "infinity", "-infinity", "4713-01-01 BC", "5874897-12-31"],
    "timestamp without time zone": ["2024-01-01 02:14:59.999999", "infinity", "-infinity", "294276-12-31 23:59:59"],
    "timestamp with time zone": ["2024-01-02 05:59:59.999999+00", "infinity", "-infinity", "294276-12-31 23:59:59+00"],
}


@dataclass(frozen=True)
class Column:
    name: str
    type_name: str
    nullable: bool
    values: tuple[str | None, ...]
    """Declared values first, then hostile ones."""


@dataclass(frozen=True)
class Relation:
    """A protected relation: how its rows reach their unit, and what may be put into its columns."""

    name: str
    key: str
    dataset: str
    unit: str
    unit_column: str | None
    path: tuple[tuple[str, str, str], ...]
    """(column, referenced relation, referenced column) of each step but the last; unit_column is the last one's."""
    cap: int | None
    partition_by: str | None
    grid: dict[str, Any] | None
    columns: tuple[Column, ...]
    primary_key: str | None

    def unit_sql(self) -> str:
        """The unit key of a row r, as text; NULL for a row that leads nowhere."""
        if not self.path:
            return f'r."{self.unit_column}"::text'
        value = f'p{len(self.path)}."{self.unit_column}"::text'
        source, alias = "", "r"
        for i, (column, target, referenced) in enumerate(self.path, 1):
            step = f'{target} p{i} ON p{i}."{referenced}" = {alias}."{column}"'
            source += f" JOIN {step}" if source else f"{target} p{i}"
            if i == 1:
                where = f'p1."{referenced}" = r."{column}"'
            alias = f"p{i}"
        return f"(SELECT {value} FROM {source} WHERE {where})"


@dataclass(frozen=True)
class Neighbour:
    """D′ in terms of D, and the accounts of the unit by which they differ."""

    name: str
    statements: tuple[str, ...]
    accounts: frozenset[Account]


def relations(conn: Connection, dataset: str) -> list[Relation]:
    """The protected relations of a dataset, those that are referenced before those that refer to them."""
    found = conn.execute(
        "SELECT p.relation::text, p.relation_key, d.unit, p.unit_column, p.unit_path, p.max_rows_per_unit,"
        " p.partition_by, p.grid FROM dp.relation_policy p JOIN dp.dataset d ON d.name = p.dataset"
        " WHERE d.name = %s ORDER BY COALESCE(cardinality(p.unit_path), 0), 1",
        (dataset,),
    ).fetchall()
    return [
        Relation(
            name=name,
            key=key,
            dataset=dataset,
            unit=unit,
            unit_column=path[-1] if path else column,
            path=_steps(conn, name, path or ()),
            cap=cap,
            partition_by=partition_by,
            grid=grid,
            columns=_columns(conn, name),
            primary_key=_primary_key(conn, name),
        )
        for name, key, unit, column, path, cap, partition_by, grid in found
    ]


def _steps(conn: Connection, relation: str, path: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    steps = []
    for column in path[:-1]:
        found = conn.execute(
            "SELECT k.confrelid::regclass::text, t.attname FROM pg_constraint k"
            " JOIN pg_attribute s ON s.attrelid = k.conrelid AND k.conkey = ARRAY[s.attnum]"
            " JOIN pg_attribute t ON t.attrelid = k.confrelid AND k.confkey = ARRAY[t.attnum]"
            " WHERE k.contype = 'f' AND k.conrelid = %s::regclass AND s.attname = %s",
            (relation, column),
        ).fetchone()
        assert found is not None
        steps.append((column, found[0], found[1]))
        relation = found[0]
    return tuple(steps)


def _primary_key(conn: Connection, relation: str) -> str | None:
    found = conn.execute(
        "SELECT a.attname FROM pg_index x JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]"
        " WHERE x.indrelid = %s::regclass AND x.indisprimary",
        (relation,),
    ).fetchone()
    return found[0] if found else None


def _columns(conn: Connection, relation: str) -> tuple[Column, ...]:
    found = conn.execute(
        "SELECT a.attname, format_type(a.atttypid, NULL), NOT a.attnotnull,"
        " COALESCE(c.domain, c.edges, CASE WHEN c.lower IS NOT NULL THEN ARRAY[c.lower, c.upper] END,"
        " (SELECT array_agg(e.enumlabel::text) FROM pg_enum e WHERE e.enumtypid = a.atttypid), '{}')"
        " FROM pg_attribute a LEFT JOIN dp.column_policy c ON c.relation = a.attrelid AND c.attnum = a.attnum"
        " WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        (relation,),
    ).fetchall()
    return tuple(
        Column(name, type_name, nullable, (*declared, *POOL.get(type_name, []), *([None] if nullable else [])))
        for name, type_name, nullable, declared in found
    )


def leaf_sql(relation: Relation) -> str:
    """The leaf account of a row r (composition.md §3.2), computed by PostgreSQL and not by the engine's code."""
    column = f'r."{relation.partition_by}"'
    grid = relation.grid or {}
    if "list" in grid:
        texts = ", ".join(_quoted(v) for v in grid["list"])
        return f"CASE WHEN {column}::text IN ({texts}) THEN '=' || {column}::text ELSE 'rest' END"
    type_name = next(c.type_name for c in relation.columns if c.name == relation.partition_by)
    origin, width = grid["origin"], grid["width"]
    if type_name in ("smallint", "integer"):
        low = f"{origin} + floor(({column}::numeric - {origin}) / {width})::numeric * {width}"
        return f"COALESCE('[' || ({low}) || ',' || ({low} + {width}) || ')', 'rest')"
    low = f"date_bin('{width}', {column}::timestamp, '{origin}'::timestamp)"
    if type_name == "timestamp with time zone":
        low = f"date_bin('{width}', {column}, '{origin}')"
    text = f"({low})::{type_name}::text", f"({low} + '{width}')::{type_name}::text"
    return (
        f"CASE WHEN isfinite({column}) AND {column} BETWEEN '0001-01-01' AND '9999-01-01' THEN "
        f"'[' || {text[0]} || ',' || {text[1]} || ')' ELSE 'rest' END"
    )


def _quoted(text: str | None) -> str:
    return sql.Literal(text).as_string(None)


def removals(conn: Connection, dataset: str, most: int | None, seed: int) -> list[Neighbour]:
    """One neighbour per unit, at most `most` a relation or dataset: the extreme ones first, then at random."""
    found = relations(conn, dataset)
    if found[0].unit == "row":
        return [n for relation in found for n in _rows_removed(conn, relation, most, seed)]
    return [_user_removed(found, unit) for unit in _users(conn, found, most, seed)] + [_nobody_removed(found)]


def _rows_removed(conn: Connection, relation: Relation, most: int | None, seed: int) -> list[Neighbour]:
    """A row that is NULL, smallest or largest in each column, the first, the last, a duplicate, and others."""
    picks: list[str] = []
    orders = ["ctid", "ctid DESC"]
    for column in relation.columns:
        orders += [f'"{column.name}" NULLS FIRST', f'"{column.name}" DESC NULLS LAST', f'"{column.name}" NULLS LAST']
    for order in orders:
        first = conn.execute(f"SELECT ctid::text FROM {relation.name} ORDER BY {order}, ctid LIMIT 1").fetchone()
        picks += [first[0]] if first and first[0] not in picks else []
    rest = [row[0] for row in conn.execute(f"SELECT ctid::text FROM {relation.name} ORDER BY ctid").fetchall()]
    random.Random(seed).shuffle(rest)
    picks += [ctid for ctid in rest if ctid not in picks]
    neighbours = []
    for ctid in picks[:most]:
        leaf = _leaf_of(conn, relation, f"ctid = '{ctid}'")
        statement = f"DELETE FROM {relation.name} WHERE ctid = '{ctid}'"
        neighbours.append(Neighbour(f"-{relation.name}{ctid}", (statement,), _row_accounts(relation, leaf)))
    return neighbours


def _leaf_of(conn: Connection, relation: Relation, condition: str) -> str | None:
    if relation.partition_by is None:
        return None
    row = conn.execute(f"SELECT {leaf_sql(relation)} FROM {relation.name} r WHERE {condition}").fetchone()
    assert row is not None
    return str(row[0])


def _row_accounts(relation: Relation, leaf: str | None) -> frozenset[Account]:
    accounts: set[Account] = {(), (relation.key,)}
    return frozenset(accounts | ({(relation.key, leaf)} if leaf is not None else set()))


def _users(conn: Connection, found: Sequence[Relation], most: int | None, seed: int) -> list[str]:
    """Units by the rows they own: heaviest and lightest of each relation first, then the others."""
    picks: list[str] = []
    everyone: set[str] = set()
    for relation in found:
        units = conn.execute(
            f"SELECT u, count(*) FROM (SELECT {relation.unit_sql()} AS u FROM {relation.name} r) s"
            " WHERE u IS NOT NULL GROUP BY u ORDER BY 2 DESC, 1"
        ).fetchall()
        picks += [unit for unit, _ in (units[:1] + units[-1:]) if unit not in picks]
        everyone.update(unit for unit, _ in units)
    rest = sorted(everyone - set(picks))
    random.Random(seed).shuffle(rest)
    return (picks + rest)[:most]


def _user_removed(found: Sequence[Relation], unit: str) -> Neighbour:
    statements = tuple(f"DELETE FROM {r.name} r WHERE {r.unit_sql()} = {_quoted(unit)}" for r in reversed(found))
    return Neighbour(f"-{found[0].dataset}:{unit}", statements, frozenset({()}))


def _nobody_removed(found: Sequence[Relation]) -> Neighbour:
    statements = tuple(f"DELETE FROM {r.name} r WHERE {r.unit_sql()} IS NULL" for r in reversed(found))
    return Neighbour(f"-{found[0].dataset}:nobody", statements, frozenset())


def emptied(conn: Connection, dataset: str) -> Neighbour:
    """Not a neighbour: the dataset without any row, to start from."""
    return Neighbour("no row", tuple(f"DELETE FROM {r.name}" for r in reversed(relations(conn, dataset))), frozenset())


def additions(conn: Connection, dataset: str) -> list[Neighbour]:
    """New units: hostile rows one by one, copies of rows that are there, users with too many rows."""
    found = relations(conn, dataset)
    if found[0].unit == "row":
        return [n for relation in found for n in _rows_added(conn, relation)]
    return [_user_added(found, f"+{dataset}:{name}", stride) for name, stride in (("spread", 1), ("one group", 0))]


def _rows_added(conn: Connection, relation: Relation) -> list[Neighbour]:
    neighbours = []
    for i in range(max(len(column.values) for column in relation.columns)):
        row = {c.name: c.values[i % len(c.values)] for c in relation.columns if c.values}
        neighbours.append(_row_added(conn, relation, f"+{relation.name}#{i}", row))
    others = ", ".join(f'"{c.name}"' for c in relation.columns if c.name != relation.primary_key)
    if conn.execute(f"SELECT FROM {relation.name}").fetchone() is None:
        return neighbours
    into, new = (f'"{relation.primary_key}", {others}', "1000001, ") if relation.primary_key else (others, "")
    source = f"{relation.name} ORDER BY ctid DESC LIMIT 1"
    statement = f"INSERT INTO {relation.name} ({into}) SELECT {new}{others} FROM {source}"
    accounts = _row_accounts(relation, _leaf_of(conn, relation, f"ctid = (SELECT max(ctid) FROM {relation.name})"))
    return [*neighbours, Neighbour(f"+{relation.name} copy", (statement,), accounts)]


def _row_added(conn: Connection, relation: Relation, name: str, row: dict[str, str | None]) -> Neighbour:
    if relation.primary_key is not None:
        row[relation.primary_key] = "1000001"
    columns = ", ".join(f'"{c}"' for c in row)
    types = {c.name: c.type_name for c in relation.columns}
    values = ", ".join(f"{_quoted(v)}::{types[c]}" for c, v in row.items())
    statement = f"INSERT INTO {relation.name} ({columns}) VALUES ({values})"
    leaf = None
    if relation.partition_by is not None:
        found = conn.execute(f"SELECT {leaf_sql(relation)} FROM (VALUES ({values})) r ({columns})").fetchone()
        assert found is not None
        leaf = str(found[0])
    return Neighbour(name, (statement,), _row_accounts(relation, leaf))


def _user_added(found: Sequence[Relation], name: str, stride: int) -> Neighbour:
    """A user with MANY times the cap in every relation; stride 0: all of his rows alike, 1: as different as can be."""
    statements = []
    for relation in found:
        first = {step[0] for step in relation.path[:1]}
        for i in range(MANY * (relation.cap or 4) if relation.cap != 1 else 1):
            row: dict[str, str | None] = {}
            for c in relation.columns:
                if c.name == relation.primary_key and c.name != relation.unit_column:
                    row[c.name] = str(1000001 + i)
                elif c.name in first:
                    row[c.name] = str(1000001 + i * stride % 6)
                elif c.name == relation.unit_column and not relation.path:
                    row[c.name] = "2000001"
                elif c.values:
                    row[c.name] = c.values[i * stride % len(c.values)]
            columns, values = ", ".join(f'"{c}"' for c in row), ", ".join(_quoted(v) for v in row.values())
            statements.append(f"INSERT INTO {relation.name} ({columns}) VALUES ({values})")
    return Neighbour(name, tuple(statements), frozenset({()}))
