"""Counts of whole rows and of row values, which are never NULL: `count(t)`, `count(t.*)`, `count((a, b))`.

PostgreSQL counts such a value whatever its fields are, all NULL too. It would be NULL on the empty
side of an outer join alone, and no block has one. So each of them is count(*).
"""

from __future__ import annotations

from typing import Any

from pg_epsilon.query.parse import ast, written

from ..session.rewriting import Refusal
from . import refusals
from .frames import Frame
from .tree import function_name, sql_text, strings

_NAMES = (("count",), ("pg_catalog", "count"))
_ABOUT = (
    "count the combinations that have rows, as well as noise lets you, of columns with a declared"
    " domain: SELECT count(*) FROM (SELECT {0} FROM {1} GROUP BY {0} HAVING count(*) > 3) AS g"
)


def counted(call: Any, frame: Frame, relation: str) -> Any:
    """The call, or the count(*) that it is.

    relation: the protected one that a refusal names. Error: DP003 with DISTINCT, of which no
    mechanism knows how many there are; the size of the domain would be another number.
    """
    arguments: tuple[Any, ...] = call.args or ()
    if function_name(call) not in _NAMES or len(arguments) != 1:
        return call
    columns = _columns(arguments[0], frame)
    if columns is None:
        return call
    if call.agg_distinct:
        raise _distinct(arguments[0], columns, frame, relation)
    return ast.FuncCall(
        **{slot: getattr(call, slot) for slot in call if slot not in ("args", "agg_star")},
        args=None,
        agg_star=True,
    )


def _columns(argument: Any, frame: Frame) -> tuple[str, ...] | None:
    """What a row value is made of, as the client wrote it; none of a whole row; None: another value.

    A bare name is a column first, as in PostgreSQL.
    """
    if isinstance(argument, ast.RowExpr):
        return tuple(sql_text(one) for one in argument.args or ())
    if not isinstance(argument, ast.ColumnRef):
        return None
    names = strings(argument.fields)
    if names[-1] == "*":
        names = names[:-1]
    elif len(names) > 1 or frame.visible(names[0]):
        return None
    return () if names and frame.qualifies(names) else None


def _distinct(argument: Any, columns: tuple[str, ...], frame: Frame, relation: str) -> Refusal:
    origin = written(relation) if len(frame.items) == 1 else "..."
    hint = _ABOUT.format(", ".join(columns or ("a", "b")), origin)
    return refusals.part("DISTINCT of row values in count()", relation, hint, argument)
