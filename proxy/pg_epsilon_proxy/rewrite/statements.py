"""A client's text, cut into statements: what each is, what it names, and whether it may stand before a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pg_epsilon.query.parse import ast, enums, parse_statements

from . import refusals
from .aggregates import AGGREGATES
from .names import Names
from .scope import Candidates, candidates, references
from .tree import function_name, kind, walk

# How a statement that names something of ours is treated; any other kind goes to the facade as it is (the net).
#   plain: PostgreSQL analyses it at Parse; the others are analysed when they run, so we describe their inner query.
#   refuse: it would keep a block for later, where nobody can run it.
_TREATMENT = {
    "SelectStmt": "plain",
    "InsertStmt": "plain",
    "UpdateStmt": "plain",
    "DeleteStmt": "plain",
    "MergeStmt": "plain",
    "TruncateStmt": "plain",
    "DeclareCursorStmt": "plain",
    "CreateTableAsStmt": "plain",
    "ExplainStmt": "explain",
    "CopyStmt": "copy",
    "PrepareStmt": "prepare",
    "ExecuteStmt": "execute",
    "ViewStmt": "refuse",
    "RuleStmt": "refuse",
    "CreateFunctionStmt": "refuse",
}
_MATERIALIZED = enums.ObjectType.OBJECT_MATVIEW
_TRANSACTION = frozenset(
    f"TRANS_STMT_{word}" for word in ("BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "ROLLBACK_TO")
)


@dataclass
class Statement:
    """One statement of a message.

    text: as the client wrote it, from character `start` of the message on; source: the whole message, in which nodes
    have their locations; treatment: see _TREATMENT, or "other".
    """

    node: Any
    text: str
    start: int
    source: str
    treatment: str
    candidates: Candidates
    transaction: bool
    may_precede: bool

    @property
    def executes(self) -> str | None:
        """The SQL-prepared name that the statement runs, directly or inside EXPLAIN or CREATE TABLE AS."""
        found = [node.name for node in walk(self.node) if isinstance(node, ast.ExecuteStmt)]
        return found[0] if found else None


def split(sql: str, names: Names) -> list[Statement] | None:
    """Parse `sql`; None if it does not parse (then PostgreSQL says why). Errors: DP003 when nested too deeply."""
    try:
        parsed = parse_statements(sql)
    except RecursionError:
        raise refusals.too_deep() from None
    except Exception:
        return None
    try:
        return [_statement(raw, sql, names) for raw in parsed]
    except RecursionError:
        raise refusals.too_deep() from None


def _statement(raw: Any, sql: str, names: Names) -> Statement:
    start = raw.stmt_location or 0
    end = start + raw.stmt_len if raw.stmt_len else len(sql)
    node = raw.stmt
    treatment = _TREATMENT.get(kind(node), "other")
    if kind(node) == "CreateTableAsStmt" and node.objtype == _MATERIALIZED:
        treatment = "refuse"
    return Statement(
        node=node,
        text=sql[start:end],
        start=start,
        source=sql,
        treatment=treatment,
        candidates=candidates(body(node), names),
        transaction=isinstance(node, ast.TransactionStmt),
        may_precede=_may_precede(node, names),
    )


def body(node: Any) -> Any:
    """What of a statement can name something of ours: a new view's own name hides, it does not read."""
    return node.query if isinstance(node, ast.ViewStmt) else node


def _may_precede(node: Any, names: Names) -> bool:
    """True for what cannot change what a later statement of the message means (facade-and-channel.md §6)."""
    if isinstance(node, ast.TransactionStmt):
        return node.kind is not None and node.kind.name in _TRANSACTION
    if isinstance(node, ast.VariableShowStmt):
        return True
    if not isinstance(node, ast.SelectStmt) or any(isinstance(item, ast.IntoClause) for item in walk(node)):
        return False
    wanted = names.last_parts()
    if any(item.relname not in wanted for item in references(node)):
        return False
    # set_config() in an earlier SELECT would change the settings and the search_path that the block was planned under.
    ours = names.functions | set(AGGREGATES)
    return all(function_name(item)[-1] in ours for item in walk(node) if isinstance(item, ast.FuncCall))
