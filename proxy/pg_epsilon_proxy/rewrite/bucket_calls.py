"""The calls of time_bucket in a client's text, each with the FROM clauses in which its arguments mean something."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pg_epsilon.query.parse import ast, enums, parse_statements, scan

from .colnames import column_name
from .tree import function_name, sql_text, statement, strings, substitute, walk

PLAIN, FILLED = "time_bucket", "time_bucket_gapfill"
NAMES = frozenset({PLAIN, FILLED})
_OPEN, _CLOSE, _COMMA = "ASCII_40", "ASCII_41", "ASCII_44"
# Outside parentheses, these end a target of a SELECT or RETURNING.
_ENDS = frozenset(
    {_COMMA, "ASCII_59", "FROM", "INTO", "WHERE", "GROUP_P", "HAVING", "WINDOW", "ORDER", "LIMIT", "OFFSET"}
    | {"FETCH", "FOR", "UNION", "INTERSECT", "EXCEPT"}
)
_CHANGES = (ast.UpdateStmt, ast.DeleteStmt, ast.InsertStmt, ast.MergeStmt)


@dataclass(frozen=True)
class Level:
    """What one query adds to the scope of what stands in it: CTEs, and FROM items."""

    ctes: tuple[Any, ...] = ()
    recursive: bool = False
    items: tuple[Any, ...] = ()


Levels = tuple[Level, ...]
# Names of functions that are the client's own, with and without their schema.
Own = frozenset[tuple[str, ...]]


@dataclass(frozen=True)
class Call:
    """A call. target: of a SELECT, if that is named after it."""

    node: Any
    levels: Levels
    target: Any = None


@dataclass
class _Finder:
    """One walk over a statement. found: in the order of the text, inner calls behind outer ones."""

    own: Own = frozenset()
    found: list[Call] = field(default_factory=list)

    def visit(self, value: Any, levels: Levels, target: Any = None) -> None:
        if isinstance(value, tuple):
            for item in value:
                self.visit(item, levels, target)
        elif isinstance(value, ast.SelectStmt):
            self._select(value, levels)
        elif isinstance(value, _CHANGES):
            self._change(value, levels)
        elif isinstance(value, ast.ResTarget):
            named = value.val is not None and value.name is None and column_name(value.val) in NAMES
            self._children(value, levels, value if named else None)
        elif isinstance(value, ast.Node):
            if isinstance(value, ast.FuncCall) and is_bucket(value, self.own):
                self.found.append(Call(value, levels, target))
                target = None
            self._children(value, levels, target)

    def _children(self, node: Any, levels: Levels, target: Any, skip: Sequence[str] = ()) -> None:
        for slot in node:
            if slot not in skip:
                self.visit(getattr(node, slot), levels, target)

    def _with(self, clause: Any, levels: Levels) -> Level:
        """The level of the CTEs, each of which was visited with those that it may read."""
        if clause is None:
            return Level()
        for place, cte in enumerate(clause.ctes):
            before = tuple(clause.ctes[:place])
            self.visit(cte.ctequery, (*levels, Level(before, bool(clause.recursive))))
        return Level(tuple(clause.ctes), bool(clause.recursive))

    def _select(self, node: Any, levels: Levels) -> None:
        named = self._with(node.withClause, levels)
        items = tuple(node.fromClause or ())
        inside = (*levels, Level(named.ctes, named.recursive, items))
        for place, item in enumerate(items):
            self._item(item, (*levels, Level(named.ctes, named.recursive, items[:place])))
        self._children(node, inside, None, ("withClause", "fromClause"))

    def _item(self, item: Any, before: Levels) -> None:
        """A FROM item: what is LATERAL reads the items before it, a join's condition those that are joined."""
        *above, level = before
        if isinstance(item, ast.JoinExpr):
            self._item(item.larg, before)
            self._item(item.rarg, (*above, Level(level.ctes, level.recursive, (*level.items, item.larg))))
            # not the join itself: this condition is a part of it
            self.visit(item.quals, (*above, Level(level.ctes, level.recursive, (*level.items, item.larg, item.rarg))))
        elif isinstance(item, ast.RangeSubselect) and not item.lateral:
            self.visit(item.subquery, (*above, Level(level.ctes, level.recursive)))
        else:
            self._children(item, before, None)

    def _change(self, node: Any, levels: Levels) -> None:
        named = self._with(node.withClause, levels)
        read = getattr(node, "fromClause", None) or getattr(node, "usingClause", None) or ()
        source = getattr(node, "sourceRelation", None)
        items = (node.relation, *read, *((source,) if source is not None else ()))
        outside = (*levels, Level(named.ctes, named.recursive))
        inside = (*levels, Level(named.ctes, named.recursive, items))
        for item in items[1:]:
            self._item(item, outside)
        self.visit(getattr(node, "selectStmt", None), outside)
        self._children(node, inside, None, ("withClause", "fromClause", "usingClause", "sourceRelation", "selectStmt"))


def is_bucket(node: Any, own: Own = frozenset()) -> bool:
    """Whether a call is of TimescaleDB's function, wherever it is installed."""
    name = function_name(node)
    return name[-1] in NAMES and node.over is None and name[0] != "pg_temp" and name not in own


def calls(sql: str, own: Own = frozenset()) -> list[Call] | None:
    """The calls that have no other call in their arguments or below their FROM; None where the text does not parse."""
    try:
        parsed = parse_statements(sql)
    except Exception:
        return None
    finder = _Finder(own)
    for raw in parsed:
        finder.visit(raw.stmt, ())
    seen: dict[int, bool] = {}  # calls of one query share its FROM

    def holds(value: Any) -> bool:
        if id(value) not in seen:
            seen[id(value)] = _calls_in(value, own)
        return seen[id(value)]

    return [one for one in finder.found if not any(map(holds, (one.node.args, *_sources(one.levels))))]


def read_names(levels: Levels) -> set[str]:
    """Unqualified names of the relations that the innermost query reads, in its FROM and in CTEs that this names."""
    ctes = {cte.ctename: cte for level in levels for cte in level.ctes}
    pending: list[Any] = list(levels[-1].items) if levels else []
    names: set[str] = set()
    while pending:
        found = {str(node.relname) for node in walk(pending.pop()) if isinstance(node, ast.RangeVar)} - names
        pending += [ctes[name] for name in found if name in ctes]
        names |= found
    return names


def _sources(levels: Levels) -> Iterator[Any]:
    for level in levels:
        yield from level.ctes
        yield from level.items


def _calls_in(value: Any, own: Own) -> bool:
    return any(isinstance(node, ast.FuncCall) and is_bucket(node, own) for node in walk(value))


def type_probe(expression: Any, levels: Levels) -> str:
    """A query whose one column has the type of the expression in its place. Parameters are NULL there."""
    null = ast.A_Const(isnull=True)
    inner = substitute(expression, lambda node: null if isinstance(node, ast.ParamRef) else None)
    for level in reversed(levels):
        query = statement("SELECT NULL")
        query.targetList[0].val = inner
        clean = [
            substitute(item, lambda node: null if isinstance(node, ast.ParamRef) else None) for item in level.items
        ]
        query.fromClause = tuple(clean) or None
        if level.ctes:
            ctes = tuple(
                substitute(cte, lambda node: null if isinstance(node, ast.ParamRef) else None) for cte in level.ctes
            )
            query.withClause = ast.WithClause(ctes=ctes, recursive=level.recursive)
        inner = ast.SubLink(subLinkType=enums.SubLinkType.EXPR_SUBLINK, subselect=query)
    return f"SELECT {sql_text(inner)} AS t"


class Places:
    """Where calls and targets of a text end: its words, read once."""

    def __init__(self, sql: str) -> None:
        self._length = len(sql)
        self._tokens = scan(sql)
        self._starts = [token.start for token in self._tokens]

    def span(self, start: int) -> tuple[int, int]:
        """The place of a call that begins at `start`, up to its closing parenthesis."""
        depth = 0
        for token in self._from(start):
            depth += (token.name == _OPEN) - (token.name == _CLOSE)
            if token.name == _CLOSE and depth == 0:
                return start, token.end + 1
        return start, self._length

    def target_end(self, start: int) -> int:
        """Where a target of a SELECT that begins at `start` ends."""
        depth, end = 0, start
        for token in self._from(start):
            depth += (token.name == _OPEN) - (token.name == _CLOSE)
            if depth < 0 or (depth == 0 and token.name in _ENDS):
                break
            end = token.end + 1
        return end

    def _from(self, start: int) -> Iterator[Any]:
        return islice(self._tokens, bisect_left(self._starts, start), None)


def arguments(node: Any) -> tuple[list[Any], dict[str, Any]]:
    """A call's arguments by position, and by name."""
    given = [arg for arg in node.args or () if not isinstance(arg, ast.NamedArgExpr)]
    named = {str(arg.name): arg.arg for arg in node.args or () if isinstance(arg, ast.NamedArgExpr)}
    return given, {name: value for name, value in named.items() if not is_null(value)}


def is_null(node: Any) -> bool:
    """Whether an argument is left out by writing NULL."""
    return isinstance(node, ast.A_Const) and bool(node.isnull)


def cast_of(node: Any) -> str | None:
    """The type that an expression says it has, by its last name; None where it says none."""
    name: Any = node.typeName if isinstance(node, ast.TypeCast) else None
    if name is not None and not name.arrayBounds:
        return strings(name.names)[-1]
    if isinstance(node, ast.A_Const) and isinstance(node.val, ast.Integer):
        return "int4"
    return None


def is_untyped(node: Any) -> bool:
    """A constant in quotes, or a parameter: PostgreSQL takes its type from what is around it."""
    text = isinstance(node, ast.A_Const) and isinstance(node.val, ast.String)
    return text or isinstance(node, ast.ParamRef)
