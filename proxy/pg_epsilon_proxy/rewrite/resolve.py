"""An expression of a block's core, with every name replaced by what it means in the block's relations.

The core may use the block's own columns, constants, parameters, and public tables in IN and EXISTS; the engine judges
the operators.
"""

from __future__ import annotations

from typing import Any

from pg_epsilon.query.parse import ast, enums

from ..session.rewriting import Refusal
from . import refusals
from .env import Env, Reader
from .frames import Frame, Leaf, leaf_frame
from .names import PROTECTED, PUBLIC, Relation
from .positions import location
from .scope import dp_function, relation_name
from .tree import strings, substitute, walk

_OWN = "use published columns of {} only; a query over protected data cannot refer to the query around it"
_VALUES = "write its values as constants, for example IN (1, 2); run the sub-query by itself first"
_VALUE = "run the sub-query by itself first, and write its value as a constant"
_RELATED = "write a join along the foreign key: FROM a JOIN b ON ..., then count(DISTINCT a.key) if rows multiply"
_PUBLIC = (
    "write IN (SELECT column FROM public_table WHERE ...) or EXISTS (SELECT 1 FROM public_table p WHERE p.k = t.k)"
)
_RELEASED = "run the dp_* call by itself first, and write the value that it released as a constant"
_VALUE_ALONE = frozenset({"targetList", "limitOption", "op"})
_SEMI_JOIN = frozenset({"targetList", "fromClause", "whereClause", "limitOption", "op"})


class Resolver:
    """Resolves the expressions of one query level. at: where a part without a place of its own is shown."""

    def __init__(
        self, reader: Reader, env: Env, frame: Frame, shown: str, at: Any, outer: Resolver | None = None
    ) -> None:
        self._reader = reader
        self._env = env
        self._frame = frame
        self._shown = shown
        self._at = at
        self._outer = outer

    def resolve(self, node: Any, where: str) -> Any:
        """A copy of `node` over columns of the block's relations. where: words for a refusal. Errors: DP003."""
        return substitute(node, lambda item: self._meaning(item, where))

    def meaning(self, node: Any) -> Any:
        """What a column reference stands for; None if it is no column of this level's own."""
        if not isinstance(node, ast.ColumnRef):
            return None
        names = strings(node.fields)
        found = self._frame.find(names) if names[-1] != "*" else None
        return None if found is None else self._placed(found, node.location)

    def _meaning(self, node: Any, where: str) -> Any:
        if isinstance(node, ast.ColumnRef):
            found = self.meaning(node)
            if found is None and self._outer is not None:
                found = self._outer.meaning(node)
            if found is None:
                raise self._part(f"{'.'.join(strings(node.fields))} in {where}", _OWN.format(self._shown), node)
            return found
        if isinstance(node, ast.SubLink):
            return self._semi_join(node, where)
        if isinstance(node, ast.SelectStmt):
            raise self._part(f"a sub-query in {where}", _VALUES, node)
        if isinstance(node, ast.FuncCall) and dp_function(node, self._reader.facts.functions) is not None:
            raise self._part(f"a dp_* call in {where}", _RELEASED, node)
        return None

    def _placed(self, expression: Any, place: int | None) -> Any:
        """A copy that a refusal shows where the client wrote the name."""

        def moved(node: Any) -> Any:
            self._reader.spend(1)
            return ast.ColumnRef(fields=node.fields, location=place) if isinstance(node, ast.ColumnRef) else None

        return substitute(expression, moved)

    # -- IN and EXISTS over public tables -----------------------------------------------------------------------

    def _semi_join(self, link: Any, where: str) -> Any:
        """`x IN (SELECT c FROM public ...)` or `EXISTS (...)`: every name in it qualified, for the engine."""
        name = link.subLinkType.name
        if name == "EXPR_SUBLINK" and self._is_value(link.subselect):
            return self.resolve(link.subselect.targetList[0].val, where)
        plain = name == "EXISTS_SUBLINK" or (name == "ANY_SUBLINK" and strings(link.operName) in ((), ("=",)))
        select = link.subselect
        public = self._public(select) if plain and self._outer is None else None
        if public is None:
            raise self._part(f"a sub-query in {where}", self._instead(name, select), link)
        item = next(iter(select.fromClause or ()))
        alias = item.alias.aliasname if item.alias is not None else item.relname
        leaf = Leaf(public, self._free(alias), item)
        inner = Resolver(self._reader, self._env, leaf_frame(leaf), self._shown, self._at, self)
        targets: tuple[Any, ...] = select.targetList or ()
        if name == "ANY_SUBLINK" and len(targets) != 1:
            raise self._part(f"a sub-query in {where}", _PUBLIC, link)
        value = inner.resolve(targets[0].val, where) if name == "ANY_SUBLINK" else _one()
        copy = ast.SelectStmt(
            targetList=(ast.ResTarget(val=value),),
            fromClause=(from_item(leaf, qualified=True),),
            whereClause=None if select.whereClause is None else inner.resolve(select.whereClause, where),
            limitOption=enums.LimitOption.LIMIT_OPTION_DEFAULT,
            op=enums.SetOperation.SETOP_NONE,
            groupDistinct=False,
            all=False,
        )
        tested = None if link.testexpr is None else self.resolve(link.testexpr, where)
        return ast.SubLink(subLinkType=link.subLinkType, subLinkId=0, testexpr=tested, subselect=copy)

    def _is_value(self, select: Any) -> bool:
        """Whether a sub-query reads nothing: `(SELECT expression)`."""
        if not isinstance(select, ast.SelectStmt) or len(select.targetList or ()) != 1:
            return False
        alone = not any(getattr(select, slot) for slot in select if slot not in _VALUE_ALONE)
        return alone and not self._reader.aggregates(select)

    def _public(self, select: Any) -> Relation | None:
        """The public table that a simple sub-query reads, or None."""
        if not isinstance(select, ast.SelectStmt) or select.fromClause is None or len(select.fromClause) != 1:
            return None
        if any(getattr(select, slot) for slot in select if slot not in _SEMI_JOIN):
            return None
        item = select.fromClause[0]
        if not isinstance(item, ast.RangeVar) or not item.inh or self._reader.aggregates(select):
            return None
        relation = self._reader.relation(item, self._env)
        return relation if relation is not None and relation.role == PUBLIC else None

    def _instead(self, name: str, select: Any) -> str:
        """What to write in the place of a sub-query that cannot stay."""
        if name not in ("ANY_SUBLINK", "EXISTS_SUBLINK"):
            return _VALUE
        roles = set()
        for item in walk(select):
            if isinstance(item, ast.RangeVar) and (found := self._reader.facts.relations.get(relation_name(item))):
                roles.add(found.role)
        return _RELATED if PROTECTED in roles else _PUBLIC if PUBLIC in roles else _VALUES

    def _free(self, alias: str) -> str:
        """A name that hides none of the block's relations."""
        while self._frame.qualifies((alias,)) or any(_reads(value, alias) for _, value in self._frame.columns):
            alias += "_"
        return alias

    def _part(self, what: str, hint: str, at: Any) -> Refusal:
        return refusals.part(what, self._shown, hint, at if location(at) is not None else self._at)


def from_item(leaf: Leaf, *, qualified: bool, named: bool = True) -> Any:
    """A FROM item for the leaf. qualified: by its schema; named: under its name in the block."""
    node = leaf.node
    alias = ast.Alias(aliasname=leaf.name) if named else None
    schema, name = (leaf.relation.schema, leaf.relation.name) if qualified else (node.schemaname, node.relname)
    return ast.RangeVar(schemaname=schema, relname=name, inh=True, relpersistence="p", alias=alias)


def _reads(expression: Any, name: str) -> bool:
    return any(strings(node.fields)[:1] == (name,) for node in walk(expression) if isinstance(node, ast.ColumnRef))


def _one() -> Any:
    return ast.A_Const(isnull=False, val=ast.Integer(ival=1))
