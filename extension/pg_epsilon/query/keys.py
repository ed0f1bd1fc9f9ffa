"""Group keys: SQL that gives a row's key as text, and the complete list of texts (rule R4: declared, never read)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.query.domain import key_domain, key_sql
from pg_epsilon.query.expression import Scope, compile_expression
from pg_epsilon.query.parse import ast, deparse, parse_expression


@dataclass(frozen=True)
class Key:
    """A group key: the declared domain in order, and SQL that gives a row's key as one of its texts."""

    name: str
    sql: str
    domain: tuple[str | None, ...]


def compile_key(text: str, scope: Scope) -> Key:
    """A column with a declared domain → its key. Errors: DP003 if it is no column, DP004 without a finite domain."""
    node = parse_expression(text)
    if not isinstance(node, ast.ColumnRef):
        raise DPError(SHAPE, f"cannot group by {deparse(node)}", "Group by columns with a declared domain.")
    (name,) = compile_expression(deparse(node), scope, _no_fold).columns
    column = scope.relation.columns[name]
    return Key(name, key_sql(column, scope.sql_alias), key_domain(column))


def _no_fold(sql: Sequence[str]) -> Sequence[str | None]:
    raise DPError(SHAPE, "a group key is a column", "Group by columns with a declared domain.")
