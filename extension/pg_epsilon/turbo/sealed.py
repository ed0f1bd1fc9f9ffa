"""`dp.windows = 'sealed'`: a window that ends at now() is asked of the sealed partitions that are whole in it.

What is sealed is public, and so is the question: the same rows are asked about as if the analyst had typed the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.query import members
from pg_epsilon.query.literals import identifier, quote
from pg_epsilon.query.names import column_sql
from pg_epsilon.query.parse import ast, children, deparse, enums, parse_expression
from pg_epsilon.query.partition import cell, inside
from pg_epsilon.query.request import Request
from pg_epsilon.query.types import Item
from pg_epsilon.turbo.catalog import View


@dataclass(frozen=True)
class Window:
    """Whole sealed partitions, by the values of the key `column` at their ends, as text."""

    column: str
    lower: str
    upper: str

    @property
    def said(self) -> str:
        return (
            f"asked of {self.column} from {self.lower} to before {self.upper}: the sealed partitions that are whole in"
            " the window (dp.windows = sealed)"
        )


def wanted(settings: Mapping[str, Any]) -> bool:
    """Whether windows are rounded to sealed partitions. DP005 for a setting that is neither."""
    value = str(settings.get("dp.windows") or "exact").strip().lower()
    if value not in ("exact", "sealed"):
        raise DPError(OUT_OF_RANGE, "dp.windows must be exact or sealed", "SET dp.windows = 'sealed'")
    return value == "sealed"


def rounded(request: Request, view: View) -> tuple[Window, dict[str, Any]] | None:
    """The window that a request is rounded to, and its document with it. None where it is no window of a grid with a
    lower end, or has no sealed partition at its beginning.

    All conditions on the key are such that the window is all of them: rows outside are left out, no other one comes in.
    """
    policy = request.policy
    column = policy.partition_by
    if not view.partitioned or column is None or policy.grid is None or "list" in policy.grid:
        return None
    name = column_sql(Item(policy.relation, None, "r"), column)
    own = [term for term in request.conjuncts if name in term.columns]
    if any(term.test is None or term.test.column != name for term in own):
        return None
    found = inside(policy, Item(policy.relation, None, "r"), own)
    if found is None:
        return None
    first, end = found
    last = first
    while (end is None or last < end) and (part := view.parts.get(last)) is not None and part.sealed:
        last += 1
    if last == first:
        return None
    lower, upper = cell(policy, first).lower, cell(policy, last - 1).upper or ""
    text = members.text(request.document.get("where"), "where")
    kept = (
        []
        if text is None
        else [deparse(node) for node in _operands(parse_expression(text)) if not _reads(node, column)]
    )
    key = identifier(column)
    where = " AND ".join([*(f"({one})" for one in kept), f"{key} >= {quote(lower)}", f"{key} < {quote(upper)}"])
    return Window(column, lower, upper), {**request.document, "where": where}


def _operands(node: Any) -> Iterator[Any]:
    """Of the AND at the top of a condition."""
    if isinstance(node, ast.BoolExpr) and node.boolop == enums.BoolExprType.AND_EXPR:
        for one in node.args or ():
            yield from _operands(one)
    else:
        yield node


def _reads(node: Any, column: str) -> bool:
    if isinstance(node, ast.ColumnRef):
        last = (node.fields or ())[-1]
        return isinstance(last, ast.String) and last.sval == column
    return any(_reads(child, column) for child in children(node))
