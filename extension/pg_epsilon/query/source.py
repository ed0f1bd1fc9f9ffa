"""FROM and WHERE of a question, and what a privacy unit is in its rows (composition.md §1, §2): all public facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pg_epsilon.query.literals import identifier
from pg_epsilon.query.policy import Dataset, Policy


@dataclass(frozen=True)
class Source:
    """The result rows that a question is about; every alias in it is ours, every condition validated SQL.

    sql: what follows FROM. conditions: what follows WHERE, to be joined by AND; rows without a unit are excluded there
    (§1.3). unit: SQL of the one unit of a result row; None on row-unit datasets, where a row is its unit, and where a
    result row has several units, `units`. order: a total order of one unit's result rows, a function of those rows
    alone (§2.3). kappa: how many result rows of one unit an enforced cap may keep; None if nothing is declared.
    relations: the protected ones, the first one named first. shape: what is closed if the statement fails.
    """

    sql: str
    conditions: tuple[str, ...]
    unit: str | None
    units: tuple[str, ...]
    order: str
    kappa: int | None
    relations: tuple[Policy, ...]
    shape: str

    @property
    def dataset(self) -> Dataset:
        """The one dataset of all protected relations read."""
        return self.relations[0].dataset

    @property
    def has_user_units(self) -> bool:
        """Whether a unit may own several result rows."""
        return self.relations[0].has_user_units

    @property
    def where(self) -> str:
        """` WHERE …`, or nothing."""
        return f" WHERE {' AND '.join(f'({c})' for c in self.conditions)}" if self.conditions else ""


def single(policy: Policy, conditions: Sequence[str]) -> Source:
    """The rows of one relation, as r, joined along its unit path as p1, p2, …"""
    sql, unit = f"{table(policy.relation.schema, policy.relation.name)} AS r", None
    if policy.has_user_units:
        joins, unit = along_path(policy)
        sql += joins
        conditions = [*conditions, f"{unit} IS NOT NULL"]
    return Source(
        sql=sql,
        conditions=tuple(conditions),
        unit=unit,
        units=(),
        order=row_order(policy),
        kappa=policy.max_rows_per_unit if policy.has_user_units else None,
        relations=(policy,),
        shape=policy.relation_key,
    )


def along_path(policy: Policy) -> tuple[str, str]:
    """(JOINs, SQL of the unit) from alias r: foreign keys onto unique columns add no row."""
    if not policy.unit_path:
        return "", f"r.{identifier(policy.unit_column or '')}"
    sql, alias = "", "r"
    for i, hop in enumerate(policy.unit_path[:-1], 1):
        sql += (
            f" JOIN {'ONLY ' if hop.only else ''}{table(hop.schema or '', hop.name or '')} AS p{i}"
            f" ON p{i}.{identifier(hop.referenced or '')} = {alias}.{identifier(hop.column)}"
        )
        alias = f"p{i}"
    return sql, f"{alias}.{identifier(policy.unit_path[-1].column)}"


def row_order(policy: Policy) -> str:
    """A total order of a unit's rows that depends on nothing but the rows: the primary key, else the whole row.

    Not a cast to text: the table's owner could say what function that is.
    """
    if policy.primary_key:
        return f"ROW({', '.join(f'r.{identifier(name)}' for name in policy.primary_key)})"
    return "pg_catalog.textin(pg_catalog.record_out(r.*))"


def table(schema: str, name: str) -> str:
    """A relation's qualified name in generated SQL."""
    return f"{identifier(schema)}.{identifier(name)}"
