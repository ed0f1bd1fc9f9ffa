"""Which relation names and functions a statement uses, after CTE scoping; aliases are never relation names."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from pg_epsilon.query.parse import ast, children

from .names import Names, RelationName
from .tree import function_name, strings

Scope = Collection[str]
NO_CTES: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Candidates:
    """What must be resolved in the client's session before anything is decided. publics: names of public tables."""

    relations: frozenset[RelationName]
    calls: frozenset[str]
    functions: frozenset[str]
    publics: frozenset[RelationName] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.relations or self.calls)


def relation_name(node: Any) -> RelationName:
    """A RangeVar's name as written."""
    return node.catalogname, node.schemaname, node.relname


def is_cte(node: Any, scope: Scope) -> bool:
    """A bare name that a WITH clause in scope defines hides every relation of that name."""
    return node.schemaname is None and node.catalogname is None and node.relname in scope


def with_scopes(clause: Any, scope: frozenset[str]) -> Iterator[tuple[Any, frozenset[str]]]:
    """Each CTE of a WITH clause with the names that its query may use: earlier ones, or all if RECURSIVE."""
    every = scope | {cte.ctename for cte in clause.ctes}
    seen = scope
    for cte in clause.ctes:
        yield cte, every if clause.recursive else seen
        seen = seen | {cte.ctename}


def body_scope(clause: Any, scope: frozenset[str]) -> frozenset[str]:
    """The names that the statement under a WITH clause may use."""
    return scope | {cte.ctename for cte in clause.ctes} if clause is not None else scope


def references(value: Any, scope: frozenset[str] = NO_CTES) -> Iterator[Any]:
    """Yield every RangeVar that names an existing relation: not a CTE, not the new one of INTO, AS or CREATE VIEW."""
    if isinstance(value, tuple):
        for item in value:
            yield from references(item, scope)
        return
    if not isinstance(value, ast.Node) or isinstance(value, ast.IntoClause):
        return
    if isinstance(value, ast.RangeVar):
        if not is_cte(value, scope):
            yield value
        return
    clause = getattr(value, "withClause", None)
    if clause is not None:
        for cte, inner in with_scopes(clause, scope):
            yield from references(cte.ctequery, inner)
    inside = body_scope(clause, scope)
    new = value.view if isinstance(value, ast.ViewStmt) else None
    for child in children(value):
        if not isinstance(child, ast.WithClause) and child is not new:
            yield from references(child, inside)


def dp_function(call: Any, functions: frozenset[str]) -> str | None:
    """The bare name of a dp_* call, or None. Only schema dp, written or found on the path, counts."""
    name = function_name(call)
    if name[-1] in functions and (len(name) == 1 or name[:-1] == ("dp",)):
        return name[-1]
    return None


def candidates(statement: Any, names: Names) -> Candidates:
    """The relation names whose last part is ours, the dp_* calls, and all function names (which may be aggregates)."""
    wanted, publics = names.last_parts(), names.public_parts()
    named = {relation_name(node) for node in references(statement)}
    relations = frozenset(name for name in named if name[2] in wanted)
    called, every = set(), set()
    pending: list[Any] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FuncCall):
            every.add(strings(node.funcname)[-1])
            name = dp_function(node, names.functions)
            if name is not None:
                called.add(name)
        pending.extend(children(node))
    others = frozenset(name for name in named - relations if name[2] in publics)
    return Candidates(relations, frozenset(called), frozenset(every), others)
