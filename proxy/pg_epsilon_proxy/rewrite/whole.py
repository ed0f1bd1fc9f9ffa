"""Counts of whole rows and of row values, which are never NULL: `count(t)`, `count(t.*)`, `count((a, b))`.

PostgreSQL counts such a value whatever its fields are, all NULL too. It would be NULL on the empty
side of an outer join alone, and no block has one. So each of them is count(*).
"""

from __future__ import annotations

from typing import Any

from pg_epsilon.query.parse import ast

from . import refusals
from .frames import Frame
from .tree import function_name, strings

_NAMES = (("count",), ("pg_catalog", "count"))
_ABOUT = "name the columns: count(DISTINCT (a, b))"


def counted(call: Any, frame: Frame, relation: str) -> Any:
    """The call, or the count(*) that it is.

    relation: the protected one that a refusal names. Error: DP003 for different whole rows. The
    engine counts the different values of columns that are named.
    """
    arguments: tuple[Any, ...] = call.args or ()
    if function_name(call) not in _NAMES or len(arguments) != 1:
        return call
    row = isinstance(arguments[0], ast.RowExpr)
    if not row and not _is_whole(arguments[0], frame):
        return call
    if call.agg_distinct and row:
        return call
    if call.agg_distinct:
        raise refusals.part("DISTINCT of whole rows in count()", relation, _ABOUT, arguments[0])
    return ast.FuncCall(
        **{slot: getattr(call, slot) for slot in call if slot not in ("args", "agg_star")},
        args=None,
        agg_star=True,
    )


def _is_whole(argument: Any, frame: Frame) -> bool:
    """Whether a value is a whole row. A bare name is a column first, as in PostgreSQL."""
    if not isinstance(argument, ast.ColumnRef):
        return False
    names = strings(argument.fields)
    if names[-1] == "*":
        names = names[:-1]
    elif len(names) > 1 or frame.visible(names[0]):
        return False
    return bool(names) and frame.qualifies(names)
