"""What a column name means, by PostgreSQL's rules: innermost FROM first, ambiguous names refused (42702, 42P09)."""

from __future__ import annotations

from typing import Any

from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.query.context import Context
from pg_epsilon.query.literals import identifier
from pg_epsilon.query.parse import ast
from pg_epsilon.query.schema import Column
from pg_epsilon.query.types import Item, Scope


class NameRefused(Exception):
    """A name that means nothing, or more than one thing: (message, hint, SQLSTATE)."""


def column_sql(item: Item, name: str) -> str:
    """A column as generated SQL names it; also its name in Term.columns."""
    return f"{item.sql_alias}.{identifier(name)}"


def resolve(ctx: Context, node: Any) -> tuple[Item, Column]:
    """The column that a ColumnRef names, declared or not. Errors: DP003, 42P01, 42P09, 42702, 42703, with position."""
    try:
        return named(node, ctx.scope)
    except DPError as refused:
        raise ctx.refuse(node, refused.message, refused.hint or "", refused.sqlstate) from None


def named(node: Any, scope: Scope) -> tuple[Item, Column]:
    """`resolve` for a reference that stands alone: its refusals have no position."""
    fields = [field.sval if isinstance(field, ast.String) else None for field in node.fields]
    if None in fields or len(fields) > 3:
        raise DPError(SHAPE, "* and whole-row references are not supported here", "Name one column.")
    try:
        return find([str(field) for field in fields], scope)
    except NameRefused as refused:
        message, hint, sqlstate = refused.args
        raise DPError(sqlstate, message, hint) from None


def find(names: list[str], scope: Scope) -> tuple[Item, Column]:
    """The relation and column that `[[schema.]relation.]column` names. NameRefused if none or several."""
    *qualifier, name = names
    return _qualified(qualifier, name, scope) if qualifier else _bare(name, scope)


def _qualified(qualifier: list[str], name: str, scope: Scope) -> tuple[Item, Column]:
    for level in scope.levels:
        items = [item for item in level.items if item.answers_to(qualifier)]
        if len(items) > 1:
            raise NameRefused(f'table reference "{qualifier[-1]}" is ambiguous', "Give each table an alias.", "42P09")
        if items:
            column = items[0].relation.columns.get(name)
            if column is None:
                raise _no_column(f"{qualifier[-1]}.{name}", scope)
            return items[0], column
    known = " and ".join(f'"{item.name}"' for item in scope.items)
    many = len(scope.items) > 1
    raise NameRefused(
        f'missing FROM-clause entry for table "{qualifier[-1]}"',
        f"the tables are {known} here" if many else f"the table is {known} here",
        "42P01",
    )


def _bare(name: str, scope: Scope) -> tuple[Item, Column]:
    for level in scope.levels:
        found = [(item, item.relation.columns[name]) for item in level.items if name in item.relation.columns]
        found = [(item, column) for item, column in found if column.published] or found
        if len(found) > 1:
            choice = " or ".join(f"{item.name}.{name}" for item, _ in found)
            raise NameRefused(f'column reference "{name}" is ambiguous', f"Write {choice}.", "42702")
        if found:
            return found[0]
    if any(item.name == name for level in scope.levels for item in level.items):
        raise NameRefused("whole-row references are not supported", "Name one column.", "DP003")
    raise _no_column(f'"{name}"', scope)


def _no_column(shown: str, scope: Scope) -> NameRefused:
    relations = " and ".join(item.relation.qualified for item in scope.items)
    return NameRefused(f"column {shown} does not exist", f"see \\d {relations}", "42703")


def word(node: Any) -> str:
    """The text of a constant, as the name of a field or a unit, in small letters; "" of anything else."""
    if isinstance(node, ast.TypeCast):  # a view has 'month'::text, a driver $1::varchar
        node = node.arg
    return (node.val.sval or "").lower() if isinstance(node, ast.A_Const) and isinstance(node.val, ast.String) else ""


def last_name(names: Any) -> str:
    """The unqualified name of a function or type; the compiler has checked the qualifier."""
    return str(names[-1].sval)
