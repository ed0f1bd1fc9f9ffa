"""Operations on released values that may have no value: x / 0, a root or a logarithm of what noise made negative.

PostgreSQL's own would end the statement, after its answer was paid for. Over released values they become those of the
facade's schema dp_null, which give NULL instead (composition.md §14.15, facade/released.sql). Constants, parameters and
columns of public tables alone keep PostgreSQL's own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_epsilon.query.parse import ast, enums

from .blocks import Block, CallBlock, EmptyBlock, QueryBlock
from .colnames import column_name
from .tree import strings, walk

SCHEMA = "dp_null"
OPERATORS = frozenset({"/", "%", "^", "|/"})
FUNCTIONS = frozenset({"mod", "div", "sqrt", "ln", "log", "log10", "power", "pow"})
_DIVIDES = frozenset({"/", "%", "mod", "div"})
_POWERS = frozenset({"^", "power", "pow"})
_READS = ("fromClause", "usingClause")
_UPDATES = (ast.UpdateStmt, ast.DeleteStmt)


@dataclass(frozen=True)
class Columns:
    """What a query gives. columns: each one's name and whether it is released; None: unknown, and `all_` holds."""

    columns: tuple[tuple[str, bool], ...] | None
    all_: bool = False

    @property
    def any_(self) -> bool:
        return self.all_ if self.columns is None else any(released for _, released in self.columns)

    def has(self, name: str) -> bool | None:
        """Whether a column of that name is released; None: there may be none."""
        if self.columns is None or name == "*":
            return self.any_ or None
        found = [released for own, released in self.columns if own == name]
        return any(found) if found else None

    def renamed(self, names: Sequence[str]) -> Columns:
        if self.columns is None or not names:
            return self
        own = [name for name, _ in self.columns]
        both = [*names, *own[len(names) :]]
        return Columns(tuple((name, released) for name, (_, released) in zip(both, self.columns, strict=False)))


NOTHING, ALL = Columns(None), Columns(None, True)
# Of a block, whose columns are named with its alias only: no name of the client's means one of them.
BLOCK = Columns(None, True)
Known = Callable[[Any], Sequence[str]]


@dataclass
class Scope:
    """What names mean at one place: FROM items by their names, CTEs, and the scope around it."""

    items: list[tuple[str, Columns]] = field(default_factory=list)
    ctes: dict[str, Columns] = field(default_factory=dict)
    outer: Scope | None = None

    def cte(self, name: str) -> Columns | None:
        if name in self.ctes:
            return self.ctes[name]
        return None if self.outer is None else self.outer.cte(name)

    def released(self, names: Sequence[str]) -> bool:
        """Whether a column reference means a released value."""
        if len(names) == 1:
            own = [columns.has(names[0]) for _, columns in self.items if columns is not BLOCK]
            whole = [columns.any_ for alias, columns in self.items if alias == names[0] and columns is not BLOCK]
            here = [found for found in own if found is not None] or whole
        else:
            here = [bool(columns.has(names[-1])) for alias, columns in self.items if alias == names[-2]]
        if here:
            return any(here)
        return self.outer is not None and self.outer.released(names)


def guard(node: Any, blocks: Iterable[Block], known: Known) -> bool:
    """Put the operations of dp_null in the place of PostgreSQL's over released values; True: there are some.

    node: a statement with its blocks cut out, changed in place; their slots are not filled yet. known: the columns of
    a relation that is named in it, none if nobody knows them.
    """
    slots = {id(block.slot) for block in blocks if _answers(block)}
    if not slots:
        return False
    guarded = _Guard(slots, known)
    guarded.visit(node, Scope())
    return guarded.found


def _answers(block: Block) -> bool:
    """Whether an answer of noise stands in the block's slot: not a view, a dry run, a look-up."""
    if isinstance(block, CallBlock):
        return not block.free
    return isinstance(block, QueryBlock) and not isinstance(block, EmptyBlock)


class _Guard:
    """One bottom-up walk. slots: by id, the places of released values."""

    def __init__(self, slots: Container[int], known: Known) -> None:
        self._slots = slots
        self._known = known
        self.found = False

    def visit(self, value: Any, scope: Scope) -> bool:
        """Whether anything released is read under `value`; operations on it are guarded."""
        if isinstance(value, tuple):
            found = [self.visit(item, scope) for item in value]
            return any(found)
        if not isinstance(value, ast.Node):
            return False
        if isinstance(value, ast.ColumnRef):
            return scope.released(strings(value.fields))
        if isinstance(value, ast.SelectStmt):
            return self._select(value, scope).any_
        if id(value) in self._slots:
            return True
        if getattr(value, "withClause", None) is not None:
            scope = self._with(value, scope)
        if isinstance(value, _UPDATES):
            scope = self._from(value, scope)
        skip = {"withClause", *(_READS if isinstance(value, _UPDATES) else ())}
        found = [self.visit(getattr(value, slot), scope) for slot in value if slot not in skip]
        if any(found):
            self._guard(value)
        return any(found)

    def _guard(self, node: Any) -> None:
        if isinstance(node, ast.A_Expr) and node.kind == enums.A_Expr_Kind.AEXPR_OP:
            place, known = "name", OPERATORS
        elif isinstance(node, ast.FuncCall) and node.over is None:
            place, known = "funcname", FUNCTIONS
        else:
            return
        *schema, name = strings(getattr(node, place))
        operands = (node.lexpr, node.rexpr) if place == "name" else node.args or ()
        if name in known and schema in ([], ["pg_catalog"]) and not _always_defined(name, operands):
            setattr(node, place, (ast.String(sval=SCHEMA), ast.String(sval=name)))
            self.found = True

    # -- queries ------------------------------------------------------------------------------------------------

    def _select(self, node: Any, scope: Scope) -> Columns:
        inside = self._with(node, scope)
        if node.larg is not None:
            left, right = self._select(node.larg, inside), self._select(node.rarg, inside)
            rest = ("larg", "rarg", "withClause")
            for slot in node:
                if slot not in rest:
                    self.visit(getattr(node, slot), inside)
            return _united(left, right)
        inside = self._from(node, inside)
        for slot in node:
            if slot not in ("targetList", "withClause", *_READS):
                self.visit(getattr(node, slot), inside)
        columns: list[tuple[str, bool]] = []
        star = False
        for target in node.targetList or ():
            columns.append((target.name or column_name(target.val) or "", self.visit(target.val, inside)))
            star = star or (isinstance(target.val, ast.ColumnRef) and strings(target.val.fields)[-1] == "*")
        if star:
            return ALL if any(released for _, released in columns) else NOTHING
        return Columns(tuple(columns))

    def _with(self, node: Any, scope: Scope) -> Scope:
        clause = getattr(node, "withClause", None)
        if clause is None:
            return scope
        inside = Scope(outer=scope)
        for cte in clause.ctes if clause.recursive else ():
            read = any(id(item) in self._slots for item in walk(cte.ctequery))
            inside.ctes[cte.ctename] = ALL if read else NOTHING
        for cte in clause.ctes:
            given = [item.sval or "" for item in cte.aliascolnames or ()]
            inside.ctes[cte.ctename] = self._query(cte.ctequery, inside).renamed(given)
        return inside

    def _query(self, node: Any, scope: Scope) -> Columns:
        if isinstance(node, ast.SelectStmt):
            return self._select(node, scope)
        return ALL if self.visit(node, scope) else NOTHING

    def _from(self, node: Any, scope: Scope) -> Scope:
        """The scope that a FROM or USING clause makes; LATERAL items see those before them."""
        inside = Scope(outer=scope)
        for slot in _READS:
            for item in getattr(node, slot, None) or ():
                self._item(item, inside)
        return inside

    def _item(self, item: Any, scope: Scope) -> None:
        if isinstance(item, ast.JoinExpr):
            self._join(item, scope)
            return
        if isinstance(item, ast.RangeVar):
            columns = self._named(item, scope)
        elif id(item) in self._slots:
            columns = BLOCK
        elif isinstance(item, ast.RangeSubselect):
            columns = NOTHING if item.subquery is None else self._query(item.subquery, scope)
        else:
            columns = ALL if self.visit(item, scope) else NOTHING
        alias = getattr(item, "alias", None)
        name = alias.aliasname if alias is not None else getattr(item, "relname", None) or ""
        scope.items.append((name, columns.renamed(strings(alias.colnames) if alias is not None else ())))

    def _named(self, item: Any, scope: Scope) -> Columns:
        found = None if item.schemaname else scope.cte(item.relname)
        if found is not None:
            return found
        names = self._known(item)
        return Columns(tuple((name, False) for name in names)) if names else NOTHING

    def _join(self, item: Any, scope: Scope) -> None:
        before = len(scope.items)
        self._item(item.larg, scope)
        self._item(item.rarg, scope)
        self.visit(item.quals, scope)
        if item.alias is not None:
            inside = scope.items[before:]
            del scope.items[before:]
            scope.items.append((item.alias.aliasname, ALL if any(columns.any_ for _, columns in inside) else NOTHING))


def _always_defined(name: str, operands: Sequence[Any]) -> bool:
    """Whether a constant says so: count(*) / 2, count(*) ^ 2."""
    last = operands[-1] if operands else None
    number = last.val if isinstance(last, ast.A_Const) and not last.isnull else None
    if name in _DIVIDES:
        return (isinstance(number, ast.Integer) and bool(number.ival)) or (
            isinstance(number, ast.Float)
            and any(digit in "123456789" for digit in (number.fval or "").lower().split("e")[0])
        )
    return name in _POWERS and isinstance(number, ast.Integer) and (number.ival or 0) >= 0


def _united(left: Columns, right: Columns) -> Columns:
    """Of a set operation: the left side's names."""
    if left.columns is None or right.columns is None:
        return ALL if left.any_ or right.any_ else NOTHING
    pairs = zip(left.columns, right.columns, strict=False)
    return Columns(tuple((name, first or second) for (name, first), (_, second) in pairs))
