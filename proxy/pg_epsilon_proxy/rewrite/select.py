"""One SELECT over protected relations: its aggregate core becomes a block, everything else stays as post-processing.

Every field of the node is listed in _FIELDS: used, left outside, or refused. An unlisted one (a newer grammar) is
refused as soon as it is set (rule R1). Names resolve as PostgreSQL resolves them: GROUP BY prefers columns to output
names, ORDER BY the reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pg_epsilon.query.parse import ast, enums

from ..session.rewriting import Refusal
from . import refusals, running
from .aggregates import Aggregate, compile_aggregate, request_of
from .blocks import QueryBlock
from .colnames import column_name
from .env import Env, Reader
from .frames import Leaf, bare_columns, leaves_of
from .keys import Keys, bare
from .outside import Outside
from .positions import location
from .resolve import Resolver, from_item
from .source import Source, SourceBuilder, conjunction, conjuncts
from .tree import function_name, replace, sql_text, strings, walk
from .whole import counted

# Which part of a block SELECT each field is: its core, post-processing that stays outside, or the words of a refusal.
_FIELDS: dict[str, str] = {
    "fromClause": "core",
    "whereClause": "core",
    "groupClause": "core",
    "targetList": "outside",
    "havingClause": "outside",
    "windowClause": "outside",
    "sortClause": "outside",
    "limitOffset": "outside",
    "limitCount": "outside",
    "limitOption": "outside",
    "distinctClause": "outside",
    "withClause": "outside",
    "intoClause": "outside",
    "op": "outside",
    "groupDistinct": "GROUP BY DISTINCT",
    "valuesLists": "VALUES",
    "lockingClause": "FOR UPDATE or FOR SHARE",
    "all": "ALL",
    "larg": "a set operation",
    "rarg": "a set operation",
}


class SelectCompiler:
    """Cuts one block out of one SELECT. `visit` compiles what stands outside the block (sub-queries, dp_* calls).

    shown: the protected relation that refusals name; at: where the client wrote it.
    """

    def __init__(self, reader: Reader, shown: str, at: Any, visit: Callable[[Any, Env], Any], taken: str) -> None:
        self._reader = reader
        self._shown = shown
        self._at = at
        self._visit = visit
        self._taken = taken
        self._aggregates: dict[str, tuple[int, Aggregate, Any]] = {}

    def compile(self, select: Any, env: Env, number: int, alias: str) -> QueryBlock:
        """Change `select` in place so that it reads the block's released values, and return the block.

        Errors: DP002 if it would return rows; DP003 naming the first part that is not supported.
        """
        calls = list(self._reader.aggregate_calls(select))
        if not (calls or select.groupClause or select.distinctClause):
            raise refusals.raw_access(self._shown, self._at)
        self._check_fields(select)
        builder = SourceBuilder(self._reader, self._shown, self._at, lambda name: name in self._taken)
        self._source = builder.build(select, env)
        self._resolver = Resolver(self._reader, env, self._source.frame, self._shown, self._at)
        self._keys = Keys(self._resolver, self._source.frame, self._shown, self._at)
        raw: Callable[[Any], Refusal] = lambda at: refusals.raw_access(self._shown, at)  # noqa: E731
        grouped = self._keys.find(select, bool(calls), raw)
        if not calls and not self._keys:
            raise refusals.raw_access(self._shown, self._at)
        where = None if select.whereClause is None else self._resolver.resolve(select.whereClause, "WHERE")
        for call in calls:
            self._add_aggregate(call)
        block = self._block(number, where, grouped)
        block.running = running.found(select, running.Columns(len(self._keys), self._key, self._sum))
        outside = Outside(self, env, alias)
        self._rewrite(select, block, alias, outside)
        block.bars = outside.bars
        return block

    # -- reading ------------------------------------------------------------------------------------------------

    def _check_fields(self, select: Any) -> None:
        for slot in select:
            role = _FIELDS.get(slot, f"this clause ({slot})")
            if role not in ("core", "outside") and getattr(select, slot):
                raise self.part(role, "leave it out", getattr(select, slot))
        if any(item is not None for item in select.distinctClause or ()):
            raise self.part("DISTINCT ON", "use GROUP BY, or DISTINCT without ON", select.distinctClause)

    def _add_aggregate(self, call: Any) -> None:
        """Identical aggregates (by resolved text) share a column."""
        resolved = self._resolved(call)
        aggregate = compile_aggregate(resolved, self._shown)
        self._aggregates.setdefault(_identity(aggregate), (len(self._aggregates) + 1, aggregate, resolved))

    def _resolved(self, call: Any) -> Any:
        return self._resolver.resolve(counted(call, self._source.frame, self._shown), "an aggregate")

    def _block(self, number: int, where: Any, grouped: bool) -> QueryBlock:
        leaves = _ordered(self._source)
        conditions = [*self._source.conditions, *(conjuncts(where) if where is not None else [])]
        if len(leaves) == 1:
            # One relation: its condition as written.
            ons: tuple[Any, ...] = (None,)
            rest = conjunction([*self._source.conditions, *([where] if where is not None else [])])
        else:
            ons, rest = _placed(leaves, conditions)
        block = QueryBlock(
            number=number,
            slot=None,
            leaves=leaves,
            ons=ons,
            where=rest,
            keys=self._keys.expressions,
            aggregates=tuple(item for _, item, _ in self._aggregates.values()),
            core="",
            inputs={n: _columns(leaves, key) for n, key in enumerate(self._keys.expressions) if not _plain(key)},
            grouped=grouped,
        )
        if block.fixed_types is None:  # otherwise nobody asks for it, and to print it takes as long as to compile
            conditions = [*(on for on in ons if on is not None), *([rest] if rest else [])]
            block.core = self._core(leaves, conjunction(conditions))
        return block

    def _core(self, leaves: tuple[Leaf, ...], where: Any) -> str:
        """The block alone, for types: only ever parsed and described on the facade, never run."""
        several = len(leaves) > 1
        keys = self._keys.expressions
        values = (*keys, *(call for _, _, call in self._aggregates.values()))

        def own(node: Any) -> Any:
            return node if several else bare_columns(node)

        core = ast.SelectStmt(
            targetList=tuple(ast.ResTarget(val=own(value)) for value in values),
            fromClause=tuple(_core_item(leaf, several) for leaf in leaves),
            whereClause=None if where is None else own(where),
            groupClause=tuple(own(key) for key in keys) or None,
            limitOption=enums.LimitOption.LIMIT_OPTION_DEFAULT,
            op=enums.SetOperation.SETOP_NONE,
        )
        return sql_text(core)

    # -- writing ------------------------------------------------------------------------------------------------

    def _rewrite(self, select: Any, block: QueryBlock, alias: str, outside: Outside) -> None:
        outputs = frozenset(target.name or column_name(target.val) for target in select.targetList or ())
        for target in select.targetList or ():
            name_before = target.name or column_name(target.val)
            target.val = outside(target.val)
            if target.name is None and column_name(target.val) != name_before:
                target.name = name_before
        for item in select.sortClause or ():
            name = bare(item.node)
            if not isinstance(item.node, ast.A_Const) and (name is None or name not in outputs):
                item.node = outside(item.node)
        select.windowClause = replace(select.windowClause, outside)
        select.limitCount = replace(select.limitCount, outside)
        select.limitOffset = replace(select.limitOffset, outside)
        select.whereClause = replace(select.havingClause, outside)
        select.havingClause = None
        select.groupClause = None
        block.slot = ast.RangeSubselect(lateral=False, alias=ast.Alias(aliasname=alias))
        select.fromClause = (block.slot,)

    def _key(self, node: Any) -> int | None:
        place = self._keys.position(node)
        return None if place is None else place - 1

    def _sum(self, node: Any) -> int | None:
        """The number, from 0, of an aggregate call that is a sum."""
        if not self._reader.is_aggregate(node) or function_name(node)[-1] != "sum":
            return None
        return self.aggregate(node) - 1

    # -- used by Outside ----------------------------------------------------------------------------------------

    @property
    def reader(self) -> Reader:
        return self._reader

    def position(self, node: Any) -> int | None:
        """The block's column that holds the value of `node`, a key or an aggregate; None if it is neither."""
        if self._reader.is_aggregate(node):
            return len(self._keys) + self.aggregate(node)
        return self._keys.position(node)

    def aggregate(self, call: Any) -> int:
        """The number of an aggregate call of this block, from 1."""
        return self._aggregates[_identity(compile_aggregate(self._resolved(call), self._shown))][0]

    def width(self) -> int:
        """How many columns the keys and aggregates take."""
        return len(self._keys) + len(self._aggregates)

    def hides(self, names: tuple[str, ...]) -> bool:
        """Whether a column reference in a sub-query beside the aggregates could mean one of this block's columns."""
        frame = self._source.frame
        return frame.visible(names[0]) if len(names) == 1 else frame.qualifies(names[:-1])

    def compile_outside(self, node: Any, env: Env) -> Any:
        """Hand a sub-query or dp_* call that stands beside the block to the statement's compiler."""
        return self._visit(node, env)

    def part(self, what: str, hint: str, at: Any) -> Refusal:
        """The refusal of a part of this block; where the part has no place of its own, at the relation's name."""
        return refusals.part(what, self._shown, hint, at if location(at) is not None else self._at)


def _identity(aggregate: Aggregate) -> str:
    return str(request_of(aggregate, sql_text))


def _ordered(source: Source) -> tuple[Leaf, ...]:
    """The block's relations, a protected one first."""
    first = source.protected
    return (first, *(leaf for leaf in source.leaves if leaf is not first))


def _placed(leaves: tuple[Leaf, ...], conditions: list[Any]) -> tuple[tuple[Any, ...], Any]:
    """Equalities of two relations' columns go to the later one's ON, wherever they were written; the rest is WHERE."""
    order = {leaf.name: place for place, leaf in enumerate(leaves)}
    ons: list[list[Any]] = [[] for _ in leaves]
    rest: list[Any] = []
    for condition in conditions:
        names = leaves_of(condition)
        if _equality(condition) and len(names) == 2:
            ons[max(order[name] for name in names)].append(condition)
        else:
            rest.append(condition)
    return tuple(conjunction(parts) for parts in ons), conjunction(rest)


def _equality(condition: Any) -> bool:
    return (
        isinstance(condition, ast.A_Expr)
        and condition.kind == enums.A_Expr_Kind.AEXPR_OP
        and strings(condition.name) == ("=",)
        and isinstance(condition.lexpr, ast.ColumnRef)
        and isinstance(condition.rexpr, ast.ColumnRef)
    )


def _plain(key: Any) -> bool:
    return isinstance(key, ast.ColumnRef)


def _columns(leaves: tuple[Leaf, ...], key: Any) -> str:
    """The columns that an expression reads, for their collations; never run."""
    several = len(leaves) > 1
    inputs = {sql_text(node): node for node in walk(key) if isinstance(node, ast.ColumnRef)}
    select = ast.SelectStmt(
        targetList=tuple(ast.ResTarget(val=node if several else bare_columns(node)) for node in inputs.values()),
        fromClause=tuple(_core_item(leaf, several) for leaf in leaves),
        limitOption=enums.LimitOption.LIMIT_OPTION_DEFAULT,
        op=enums.SetOperation.SETOP_NONE,
    )
    return sql_text(select)


def _core_item(leaf: Leaf, several: bool) -> Any:
    return from_item(leaf, qualified=False, named=several or leaf.node.alias is not None)
