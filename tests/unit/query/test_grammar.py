"""One test per node kind of PostgreSQL's grammar, and per field: supported, or refused with DP003 (rule R1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fix_query import fold
from pg_epsilon.errors import DPError
from pg_epsilon.query import context, expression
from pg_epsilon.query.context import READ, Context
from pg_epsilon.query.expression import Scope, compile_expression
from pg_epsilon.query.parse import _parsed, ast, enums, parse_expression  # of `_parsed` each tree is its own
from pg_epsilon.query.types import Term

NODES = [
    node
    for node in vars(ast).values()
    if isinstance(node, type) and issubclass(node, ast.Node) and node not in (ast.Node, ast.Expr)
]
# Nodes that only mean something inside another one, whose handler reads them.
INSIDE = {ast.CaseWhen, ast.A_ArrayExpr, ast.TypeName, ast.SelectStmt, ast.RangeVar, ast.Alias, ast.ResTarget}
_SUBQUERY = "age IN (SELECT c.k FROM ref.codes AS c WHERE c.word = name)"
SAMPLES = {
    ast.A_Const: "1",
    ast.A_Expr: "age = 1",
    ast.A_ArrayExpr: "age = ANY (ARRAY[1, 2])",
    ast.BoolExpr: "ok AND age = 1",
    ast.BooleanTest: "ok IS TRUE",
    ast.CaseExpr: "CASE WHEN ok THEN 1 END",
    ast.CaseWhen: "CASE WHEN ok THEN 1 END",
    ast.CoalesceExpr: "coalesce(age, 1)",
    ast.ColumnRef: "age",
    ast.FuncCall: "abs(age)",
    ast.MinMaxExpr: "greatest(age, 1)",
    ast.NullTest: "age IS NULL",
    ast.SQLValueFunction: "current_timestamp",
    **dict.fromkeys((ast.SubLink, ast.SelectStmt, ast.RangeVar, ast.Alias, ast.ResTarget), _SUBQUERY),
    ast.TypeCast: "age::text",
    ast.TypeName: "age::text",
}


def _context(scope: Scope, root: Any) -> Context:
    return Context(scope, fold, "", root, expression.compile_node)


def _find(root: Any, kind: type) -> Any:
    from pg_epsilon.query.parse import children

    stack = [root]
    while stack:
        node = stack.pop()
        if type(node) is kind:
            return node
        stack.extend(children(node))
    raise AssertionError(f"no {kind.__name__} in the sample")


def test_the_walk_sees_the_whole_grammar() -> None:
    assert len(NODES) > 200
    assert set(expression.HANDLERS) | INSIDE == set(READ) == set(SAMPLES)


@pytest.mark.parametrize("kind", NODES, ids=lambda kind: kind.__name__)
def test_every_node_kind_is_supported_or_refused(scope: Scope, kind: type) -> None:
    if kind in expression.HANDLERS:
        assert isinstance(compile_expression(SAMPLES[kind], scope, fold).sql, str)
        return
    node = kind()
    with pytest.raises(DPError) as caught:
        expression.compile_node(_context(scope, node), node)
    assert caught.value.sqlstate == "DP003" and caught.value.hint


def _strange(slot: Any) -> Iterator[Any]:
    """Yield values that a slot of this C type can hold and that mean something."""
    if slot.c_type == "bool":
        yield True
    elif slot.c_type in ("int", "int32", "uint32", "Oid", "ParseLoc"):
        yield 7
    elif slot.c_type == "List*":
        yield (ast.String(sval="x"),)
    elif slot.c_type == "char*":
        yield "x"
    elif slot.c_type.endswith("*"):
        cls = getattr(ast, slot.c_type[:-1])
        yield ast.ParamRef(number=1) if cls in (ast.Node, ast.Expr) else cls()
    else:
        yield from getattr(enums, slot.c_type)


FIELDS = [(kind, name) for kind in READ for name in kind.__slots__ if name not in READ[kind] | context._POSITIONS]


@pytest.mark.parametrize(("kind", "name"), FIELDS, ids=lambda part: getattr(part, "__name__", part))
def test_every_field_that_no_handler_reads_is_refused_when_set(scope: Scope, kind: type, name: str) -> None:
    allowed = context._DEFAULTS.get((kind, name), (None, False))
    values = [value for value in _strange(kind.__slots__[name]) if value not in allowed]  # type: ignore[attr-defined]
    assert values
    for value in values:
        root = _parsed(SAMPLES[kind])
        node = _find(root, kind)
        setattr(node, name, value)
        with pytest.raises(DPError) as caught:
            expression.compile_node(_context(scope, root), root)
        assert caught.value.sqlstate == "DP003"


def test_there_are_fields_to_refuse() -> None:
    names = {name for _, name in FIELDS}
    assert {"agg_filter", "agg_distinct", "over", "agg_within_group", "func_variadic", "agg_order", "agg_star"} <= names
    assert {"setof", "pct_type", "argisrow"} <= names


def test_a_field_that_a_later_parser_brings_is_refused(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `args` of a call were new to us: what no handler declares to read is refused as soon as it is set."""
    monkeypatch.setitem(READ, ast.FuncCall, READ[ast.FuncCall] - {"args"})
    with pytest.raises(DPError, match=r"FuncCall\.args"):
        compile_expression("abs(age)", scope, fold)


@pytest.mark.parametrize("kind", list(enums.A_Expr_Kind), ids=lambda kind: kind.name)
def test_every_operator_kind_is_supported_or_refused(scope: Scope, kind: Any) -> None:
    samples = {
        "AEXPR_OP": "age = 1",
        "AEXPR_OP_ANY": "age = ANY ('{1}')",
        "AEXPR_OP_ALL": "age <> ALL ('{1}')",
        "AEXPR_DISTINCT": "age IS DISTINCT FROM 1",
        "AEXPR_NOT_DISTINCT": "age IS NOT DISTINCT FROM 1",
        "AEXPR_NULLIF": "NULLIF(age, 1)",
        "AEXPR_IN": "age IN (1)",
        "AEXPR_LIKE": "name LIKE 'x'",
        "AEXPR_ILIKE": "name ILIKE 'x'",
        "AEXPR_BETWEEN": "age BETWEEN 1 AND 2",
        "AEXPR_NOT_BETWEEN": "age NOT BETWEEN 1 AND 2",
        "AEXPR_BETWEEN_SYM": "age BETWEEN SYMMETRIC 1 AND 2",
        "AEXPR_NOT_BETWEEN_SYM": "age NOT BETWEEN SYMMETRIC 1 AND 2",
    }
    if kind in expression.KINDS:
        text = samples[kind.name]
        assert parse_expression(text).kind == kind
        assert isinstance(compile_expression(text, scope, fold).sql, str)
        return
    root = _parsed("age = 1")
    root.kind = kind
    with pytest.raises(DPError) as caught:
        expression.compile_node(_context(scope, root), root)
    assert caught.value.sqlstate == "DP003"


@pytest.mark.parametrize(
    ("kind", "slot"),
    [
        (ast.BoolExpr, "boolop"),
        (ast.NullTest, "nulltesttype"),
        (ast.BooleanTest, "booltesttype"),
        (ast.MinMaxExpr, "op"),
        (ast.SQLValueFunction, "op"),
    ],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_every_member_of_the_other_enums_is_supported_or_refused(scope: Scope, kind: Any, slot: str) -> None:
    accepted: set[str] = set()
    members = list(getattr(enums, kind.__slots__[slot].c_type))
    for member in members:
        root = _parsed(SAMPLES[kind])
        node = _find(root, kind)
        setattr(node, slot, member)
        try:
            term = expression.HANDLERS[kind](_context(scope, root), node)
            assert isinstance(term, Term)
            accepted.add(term.sql)
        except DPError as error:
            assert error.sqlstate == "DP003"
    # No two members may compile to the same SQL: one of them would have been dropped or taken for another.
    assert 2 <= len(accepted) <= len(members)


@pytest.mark.parametrize(
    "text",
    [
        "count(*)",
        "sum(age)",
        "abs(DISTINCT age)",
        "abs(age ORDER BY age)",
        "abs(age) FILTER (WHERE ok)",
        "abs(age) OVER ()",
        "abs(VARIADIC tags)",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY age)",
        "abs(x => age)",
        "age = (SELECT 1 LIMIT 1)",
        "age = (SELECT 1, 2)",
        "age = (SELECT count(*))",
        "EXISTS (SELECT 1)",
        "age IN (SELECT 1)",
        "age IN (SELECT k FROM codes)",
        "age IN (SELECT k, age FROM ref.codes)",
        "age IN (SELECT count(*) FROM ref.codes)",
        "age IN (SELECT k FROM ref.codes, ref.codes AS d)",
        "age IN (SELECT k FROM ref.codes JOIN ref.codes AS d USING (k))",
        "age IN (SELECT k FROM ONLY ref.codes)",
        "age IN (SELECT k FROM ref.codes GROUP BY k)",
        "age IN (SELECT k FROM ref.codes LIMIT 1)",
        "age IN (SELECT k FROM ref.codes UNION SELECT 1)",
        "age IN (SELECT k FROM ref.codes FOR UPDATE)",
        "age IN (SELECT k FROM ref.codes TABLESAMPLE SYSTEM (1))",
        "age IN (SELECT DISTINCT ON (k) k FROM ref.codes)",
        "age IN (WITH w AS (SELECT 1) SELECT k FROM ref.codes)",
        "age IN (SELECT x.k FROM ref.codes AS x(k))",
        "age IN (SELECT age FROM public.visits)",
        "EXISTS (SELECT FROM ref.codes)",
        "EXISTS (SELECT max(k) FROM ref.codes)",
        "EXISTS (SELECT FROM (SELECT 1) AS s)",
        "age > ANY (SELECT k FROM ref.codes)",
        "age = ALL (SELECT k FROM ref.codes)",
        "(age, name) IN (SELECT k, word FROM ref.codes)",
        "age = (SELECT k FROM ref.codes)",
        "age = (SELECT max(k) FROM ref.codes WHERE word = name)",
        "age = (SELECT sum(k) FROM ref.codes)",
        "age = (SELECT max(DISTINCT k) FROM ref.codes)",
        "age = (SELECT max(k) FILTER (WHERE k > 1) FROM ref.codes)",
        "age = (SELECT max(k) OVER () FROM ref.codes)",
        "age = ANY (SELECT 1)",
        "ARRAY(SELECT 1)",
        "$1 = age",
        "tags[1] = 'x'",
        "(tags).x = 'x'",
        "name COLLATE \"C\" = 'x'",
        "age OPERATOR(public.=) 1",
        "public.abs(age)",
        "age::public.int4",
        "ROW(age) = ROW(1)",
        "(age, age) = (1, 2)",
        "(age, age) OVERLAPS (1, 2)",
        "GROUPING(age)",
        "DEFAULT",
        "visits.*",
        "visits",
        "current_user",
        "session_user",
        "current_schema",
        "current_catalog",
        "random()",
        "pg_sleep(1)",
        "pg_read_file('x')",
        "name IS JSON",
        "JSON_VALUE(name, '$')",
        "XMLCONCAT(name)",
        "name IS DOCUMENT",
        "MERGE_ACTION()",
        "name SIMILAR TO 'x'",
        "name ~ 'x'",
        "age < ANY ('{1}')",
        "age = ALL ('{1}')",
        "b'101' = b'1'",
        "name || 'x' = 'y'",
        "age ^ 2 = 4",
        "@ age = 1",
        "|/ age = 1",
        "age !~~ 'x'",
        "name LIKE name",
        "name LIKE lower('x') || 'y'",
        "age::int[] = '{1}'",
        "age::SETOF int",
        "age::numeric(3, 1)",
        "name::int",
        "score + 1",
        "free + 1",
        "age / age",
        "age % 0",
        "born + age",
        "at > seen",
        "name = age",
        "loose LIKE 'x'",
        "ctid = '(0,1)'",
        "overlay(name placing 'x' from 1)",
        "normalize(name)",
        "substring(name from 'x')",
        "substring(name from -1 for -1)",
        "left(name, -1)",
        "left(name, age)",
        "date_trunc('eon', at)",
        "extract(hour from born)",
        "extract(timezone from at)",
        "date_trunc(name, at)",
        "to_char(at, 'YYYY')",
        "nextval('x')",
        "current_setting('x')",
        "width_bucket(age, 1, 1, 3)",
    ],
)
def test_refused(scope: Scope, text: str) -> None:
    with pytest.raises(DPError) as caught:
        compile_expression(text, scope, fold)
    assert caught.value.sqlstate in ("DP003", "42703")
    assert caught.value.hint
    assert caught.value.position is not None and 0 <= caught.value.position <= len(text)
