"""Which FROM items yield rows of protected relations: those are merged into the block that aggregates them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pg_epsilon.query.parse import ast

from . import refusals
from .names import EXPANDED, PROTECTED, Facts, Relation
from .scope import is_cte, relation_name
from .tree import function_name, statement, walk


@dataclass(frozen=True)
class Rows:
    """A query whose rows nobody may see: a CTE or a view that projects and filters protected relations.

    columns: the names that it was given, if any.
    """

    query: Any
    env: Env
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Env:
    """What names of relations mean at one place of a statement.

    ctes: by name, those with rows by what they read, others None. published: inside the text of a published view,
    where no session's search_path counts. sets: of the CTEs, those of declared values (rewrite/counted.py).
    """

    ctes: Mapping[str, Rows | None] = field(default_factory=dict)
    published: bool = False
    sets: frozenset[str] = frozenset()

    def __contains__(self, name: object) -> bool:
        return name in self.ctes

    def __iter__(self) -> Iterator[str]:
        return iter(self.ctes)

    def __len__(self) -> int:
        return len(self.ctes)

    def plus(self, name: str, rows: Rows | None, *, values: bool = False) -> Env:
        return Env({**self.ctes, name: rows}, self.published, self.sets - {name} | ({name} if values else set()))


# Nodes that merging may put in the place of names, for one statement: sub-queries inside sub-queries can double an
# expression at each level.
MAX_MERGED = 100_000


class Reader:
    """Answers what FROM items and queries read. One object a statement: it remembers what it has looked at."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._left = MAX_MERGED
        self._rows: dict[int, bool] = {}
        self._views: dict[tuple[str, str], Rows] = {}

    def spend(self, nodes: int) -> None:
        """Count nodes that stand in the place of names. Error: DP003 when the statement becomes too large."""
        self._left -= nodes
        if self._left < 0:
            raise refusals.too_large()

    def relation(self, node: Any, env: Env) -> Relation | None:
        """The relation of ours that a RangeVar names; None for a CTE, and for what is none of ours."""
        if is_cte(node, env):
            return None
        if env.published:
            return self.facts.names.relation(node.schemaname or "", node.relname or "")
        return self.facts.relations.get(relation_name(node))

    def rows(self, node: Any, env: Env) -> Rows | None:
        """The query behind a RangeVar that is a CTE with rows or a published view over protected relations."""
        if is_cte(node, env):
            return env.ctes[node.relname]
        relation = self.relation(node, env)
        return self.view(relation) if relation is not None and relation.role == EXPANDED else None

    def view(self, relation: Relation) -> Rows:
        """The query of a published view, parsed once a statement."""
        key = (relation.schema, relation.name)
        if key not in self._views:
            query = statement(self.facts.names.expansions[key])
            for node in walk(query):
                if getattr(node, "location", None) is not None:
                    node.location = -1  # a place in a text that the client has never seen
            self._views[key] = Rows(query, Env(published=True), relation.columns)
        return self._views[key]

    def reads(self, item: Any, env: Env) -> bool:
        """Whether a FROM item yields rows of a protected relation."""
        if isinstance(item, ast.JoinExpr):
            return self.reads(item.larg, env) or self.reads(item.rarg, env)
        if isinstance(item, ast.RangeTableSample):
            return self.reads(item.relation, env)
        if isinstance(item, ast.RangeSubselect):
            return self.is_rows(item.subquery, env)
        if not isinstance(item, ast.RangeVar):
            return False
        relation = self.relation(item, env)
        if relation is not None and relation.role == PROTECTED:
            return True
        rows = self.rows(item, env)
        return rows is not None and self.is_rows(rows.query, rows.env)

    def is_rows(self, select: Any, env: Env) -> bool:
        """Whether a query merely projects and filters protected rows: it is no block, but may be part of one."""
        if not isinstance(select, ast.SelectStmt):
            return False
        known = self._rows.get(id(select))
        if known is None:
            known = self._rows[id(select)] = not self.aggregates(select) and self.source_reads(select, env)
        return known

    def is_set(self, query: Any, env: Env) -> bool:
        """Whether a query yields declared values of protected columns, and nothing that rows decide."""
        return (
            isinstance(query, ast.SelectStmt)
            and bool(query.distinctClause or query.groupClause)
            and query.havingClause is None
            and next(self.aggregate_calls(query), None) is None
            and self.source_reads(query, env)
        )

    def source_reads(self, select: Any, env: Env) -> bool:
        """Whether anything in the FROM clause of a SELECT yields protected rows."""
        if not select.fromClause:
            return False
        inside = self.inside(select.withClause, env)
        return any(self.reads(item, inside) for item in select.fromClause)

    def inside(self, clause: Any, env: Env) -> Env:
        """The names that the statement under a WITH clause may use."""
        for cte, inner, rows in self.ctes(clause, env):
            env = env.plus(cte.ctename, rows, values=self.is_set(cte.ctequery, inner))
        return env

    def ctes(self, clause: Any, env: Env) -> Iterator[tuple[Any, Env, Rows | None]]:
        """Each CTE with the names that its query may use, and what it reads if it yields protected rows."""
        if clause is None:
            return
        seen = env
        every = env
        for cte in clause.ctes:
            every = every.plus(cte.ctename, None)
        earlier: set[str] = set()
        for cte in clause.ctes:
            inner = Env({**every.ctes, **seen.ctes}, env.published, every.sets) if clause.recursive else seen
            plain = cte.search_clause is None and cte.cycle_clause is None
            rows = None
            if plain and cte.ctename not in earlier and self.is_rows(cte.ctequery, inner):
                rows = Rows(cte.ctequery, inner, tuple(item.sval or "" for item in cte.aliascolnames or ()))
            if clause.recursive:
                # What an earlier CTE refers to must stay where it is.
                earlier |= {node.relname or "" for node in walk(cte.ctequery) if isinstance(node, ast.RangeVar)}
            yield cte, inner, rows
            seen = seen.plus(cte.ctename, rows, values=self.is_set(cte.ctequery, inner))

    def aggregates(self, select: Any) -> bool:
        """Whether a SELECT computes anything else than a row for a row."""
        return bool(
            select.groupClause
            or select.havingClause
            or select.distinctClause
            or select.valuesLists
            or select.larg is not None
            or next(self.aggregate_calls(select), None) is not None
        )

    def aggregate_calls(self, select: Any) -> Iterator[Any]:
        """Aggregate calls of this query level. In sub-queries they belong to those (correlated ones are refused)."""
        places = (select.targetList, select.havingClause, select.windowClause, select.sortClause)
        for node in walk(places, stop=lambda item: isinstance(item, ast.SubLink) or self.is_aggregate(item)):
            if self.is_aggregate(node):
                yield node

    def is_aggregate(self, node: Any) -> bool:
        return isinstance(node, ast.FuncCall) and node.over is None and function_name(node)[-1] in self.facts.aggregates
