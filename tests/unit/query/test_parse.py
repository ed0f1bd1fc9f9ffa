"""The parser's door: exactly one expression, positions in characters, and no text that can crash a backend."""

from __future__ import annotations

import inspect
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fix_query import fold
from pg_epsilon.errors import DPError
from pg_epsilon.query import parse
from pg_epsilon.query.expression import Scope, compile_expression
from pg_epsilon.query.parse import (
    MAX_DEPTH,
    MAX_EXPRESSION,
    ast,
    children,
    depth_bound,
    parse_expression,
    parse_statements,
    scan,
)

PACKAGES = Path(parse.__file__).parents[2]
FIXTURES = Path(__file__).parents[2] / "fixtures"
N = MAX_EXPRESSION


@pytest.mark.parametrize(
    "text",
    [
        "1) UNION (SELECT 2",
        "true GROUP BY x",
        "x; DROP TABLE y",
        "x;",
        "a, b",
        "(a, b)",
        "a) OR (b",
        "1), (2",
        "x AS y",
        "x y",
        "",
        "  ",
        "--",
        "/* */",
        "a /*",
        "SELECT 1",
        "(SELECT 1)",
        "ALL x",
        "DISTINCT x",
        "a FOR READ ONLY",
        "x INTO y",
        "a LIMIT 1",
        "a FROM t",
        "1) FROM t WHERE (2",
        "1\n)\n--",
        "a\n) UNION ALL SELECT (b",
        "'a",
        "$$a",
        "$x$a$y$",
        '"a',
        "U&'\\zz'",
        "E'\\uD800'",
        "a /* ( */ ) OR (b",
        "VALUES (1)",
        "WITH x AS (SELECT 1) SELECT 1",
        "a WHERE b",
        "a ORDER BY b",
        "a WINDOW w AS ()",
        "a HAVING b",
        "a\0b",
        "a\ud800",
        "\udfff",
        ")",
        "(",
        "a)",
        "(a",
        "1 2",
        "TABLE t",
        "*",
    ],
)
def test_nothing_but_one_expression_gets_through(scope: Scope, text: str) -> None:
    with pytest.raises(DPError) as caught:
        compile_expression(text, scope, fold)
    assert caught.value.sqlstate == "DP003" and caught.value.hint


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a' -- ) OR (b", "a"),
        ("'a' /* ) */", "a"),
        ("'a) OR (b'", "a) OR (b"),
        ("$$a) OR (b$$", "a) OR (b"),
        ("$q$'$q$", "'"),
        ("U&'\\0041\\+000042'", "AB"),
        ("E'\\'x\\\\'", "'x\\"),
        ("'it''s'", "it's"),
        ("'a'\n'b'", "ab"),
    ],
)
def test_quoting_and_comments_are_read_as_postgresql_reads_them(text: str, value: str) -> None:
    node = parse_expression(text)
    assert isinstance(node, ast.A_Const) and node.val.sval == value


@pytest.mark.parametrize("value", ["it's", "back\\slash", "\\'; DROP TABLE x; --", "$$", "é\n\t", "a\\"])
def test_a_constant_is_quoted_under_any_setting(scope: Scope, value: str) -> None:
    text = "name = " + "E'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    sql = compile_expression(text, scope, fold).sql
    constants = [n for n in _walk(parse_expression(sql.replace("r.", ""))) if isinstance(n, ast.A_Const)]
    assert [constant.val.sval for constant in constants] == [value]
    assert ("\\" in value) == ("E'" in sql)


def _walk(node: object) -> list[object]:
    return [node, *(inner for child in children(node) for inner in _walk(child))]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("nope = 1", 0),
        ("age = 1 AND nope = 1", 12),
        ("name = 'é' AND nope = 1", 15),
        ("name = '日本' AND age = 'x'", 22),
        ("age IN (1, 2, 'é', 'zz')", 14),
        ("name = 'ééé' AND AND", 17),
        ("name = 'a' OR 'é' = lower(name, 'x')", 20),
        ("age = 1\n  OR sqrt(age) > 1", 13),
        ("age > 3 AND born > 'bad'", 19),
        ("mood = 'sad' OR mood = 'zz'", 23),
    ],
)
def test_positions_count_characters_of_the_analysts_text(scope: Scope, text: str, at: int) -> None:
    with pytest.raises(DPError) as caught:
        compile_expression(text, scope, fold)
    assert caught.value.position == at


@settings(database=None, deadline=None, max_examples=100)
@given(
    words=st.lists(st.sampled_from(["a = 'é'", "b IN (1, '日', NULL)", "-5 > c", "f(1, 'x')", "NOT true"]), min_size=1)
)
def test_every_constant_is_found_where_it_stands(words: list[str]) -> None:
    text = " AND ".join(words)
    root = parse_expression(text)
    for node in _walk(root):
        if isinstance(node, ast.A_Const):
            shown = text[parse.position_of(text, root, node) :]
            assert shown.startswith(("'", "1", "-5", "5", "NULL", "true")), shown


DEEP = {
    "sum": "1" + "+1" * (N // 2 - 1),
    "minus": "- " * (N // 2 - 1) + "a",
    "not": "NOT " * (N // 4 - 1) + "a",
    "parentheses": "(" * (N // 2 - 1) + "a" + ")" * (N // 2 - 1),
    "calls": "f(" * (N // 3 - 1) + "a" + ")" * (N // 3 - 1),
    "subscripts": "a[" * (N // 3 - 1) + "a" + "]" * (N // 3 - 1),
    "arrays": "ARRAY" + "[" * (N // 2 - 5) + "1" + "]" * (N // 2 - 5),
    "selects": "(SELECT" * (N // 8 - 1) + "(1)" + ")" * (N // 8 - 1),
    "case": "CASE WHEN " * (N // 24) + "a" + " THEN 1 END" * (N // 24),
    "casts": "a" + "::t" * (N // 3 - 1),
    "ands": "a AND (" * (N // 9) + "a" + ")" * (N // 9),
    "unions": "(SELECT 1 " + "UNION SELECT 1 " * (N // 15 - 3) + ")",
    "unions of lists": "(SELECT 1, 2 " + "UNION SELECT 1, 2 " * (N // 18 - 3) + ")",
    "values of lists": "(VALUES (1, 2) " + "UNION VALUES (1, 2) " * (N // 20 - 3) + ")",
    "lists in lists": "a IN (1, " * (N // 10 - 1) + "a" + ")" * (N // 10 - 1),
    "collate": "a" + " COLLATE c" * (N // 10 - 1),
    "in": "a IN (" * (N // 7 - 1) + "a" + ")" * (N // 7 - 1),
    "rows": "ROW(" * (N // 5 - 1) + "a" + ")" * (N // 5 - 1),
    "json": "JSON(" * (N // 6 - 1) + "a" + ")" * (N // 6 - 1),
}
_CHILD = """
import sys
from pg_epsilon.errors import DPError
from pg_epsilon.query.parse import parse_expression
try:
    parse_expression(sys.stdin.read())
except DPError as error:
    print(error.sqlstate)
else:
    print("parsed")
"""


@pytest.mark.parametrize("name", DEEP)
def test_deep_text_is_refused_and_cannot_crash_a_backend_with_a_2_mb_stack(name: str) -> None:
    assert len(DEEP[name]) <= N

    def small_stack() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (2 << 20, 2 << 20))

    child = subprocess.run(
        [sys.executable, "-c", _CHILD], input=DEEP[name], capture_output=True, text=True, timeout=240,
        env={"PYTHONPATH": str(PACKAGES)}, preexec_fn=small_stack, check=False,
    )  # fmt: skip
    assert (child.returncode, child.stdout.strip()) == (0, "DP003"), child.stderr


def test_too_long_and_just_short_enough() -> None:
    text = "a IN (" + ",".join(["CAST('1' AS numeric)"] * 8000) + ")"
    assert isinstance(parse_expression(text), ast.A_Expr)
    with pytest.raises(DPError, match="longer than"):
        parse_expression("'" + "x" * N + "'")


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("1+1+1", 2),
        ("a IN (1, 2, 3)", 4),
        ("a IN (f(b), f(c + d), 1)", 4 + 3 + 3),
        ("EXISTS (SELECT a, b UNION SELECT a, b)", 1 + 2 + 7),
        ("((((1", 4),
        ("x) + y", 4),
    ],
)
def test_the_bound_of_a_tree_takes_the_heaviest_item_of_a_list(text: str, bound: int) -> None:
    assert depth_bound(scan(text)) == bound


@given(st.recursive(st.sampled_from(["a", "1"]), lambda inner: st.one_of(
    st.lists(inner, min_size=1, max_size=4).map(lambda items: f"f({', '.join(items)})"),
    st.tuples(inner, inner).map(lambda pair: f"({pair[0]} + {pair[1]})"),
    inner.map(lambda one: f"CAST({one} AS t)"),
    st.lists(inner, min_size=1, max_size=4).map(lambda items: f"x IN ({', '.join(items)})"),
    st.lists(inner, min_size=1, max_size=4).map(lambda items: f"(SELECT {', '.join(items)} UNION SELECT 1)"),
), max_leaves=30))  # fmt: skip
@settings(database=None, deadline=None, max_examples=100)
def test_no_tree_of_operators_calls_and_queries_is_deeper_than_the_bound(text: str) -> None:
    def depth(node: object) -> int:
        below = max((depth(child) for child in children(node)), default=0)
        return below + isinstance(node, ast.A_Expr | ast.FuncCall | ast.TypeCast | ast.SelectStmt)

    assert depth(parse_statements(f"SELECT {text}")[0].stmt) <= depth_bound(scan(f"SELECT {text}"))


def test_our_own_walks_stay_within_pythons_recursion_limit(scope: Scope) -> None:
    """At the deepest nesting that passes, below a stack of callers as deep as a test runner's."""

    def nested(depth: int) -> str:
        return "CASE WHEN ok THEN " * depth + "age" + " END" * depth

    depth = (MAX_DEPTH - 3) // 2

    def below(frames: int) -> str:
        return below(frames - 1) if frames else compile_expression(nested(depth), scope, fold).sql

    assert below(100).count("CASE") == depth
    with pytest.raises(DPError, match="levels deep"):
        parse_expression(nested(MAX_DEPTH))
    with pytest.raises(DPError, match="nested too deeply"):
        below(sys.getrecursionlimit() - len(inspect.stack(0)) - 60)


def test_nesting_that_copies_its_operands_cannot_explode(scope: Scope) -> None:
    text = "age"
    for _ in range(40):
        text = f"CASE {text} WHEN 1 THEN 2 WHEN 2 THEN 3 WHEN 3 THEN 4 END"
    with pytest.raises(DPError, match="too long"):
        compile_expression(text, scope, fold)


def _all_slots(value: object) -> list[object]:
    """The nodes directly beneath a slot's value: a node itself, those of a tuple, however deep."""
    if isinstance(value, tuple):
        return [node for item in value for node in _all_slots(item)]
    return [value] if isinstance(value, ast.Node) else []


def test_no_child_is_left_out() -> None:
    """Of every kind of node that the fixtures' statements have: what all slots hold, those for flags too."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(FIXTURES.rglob("*.sql"))]
    pending: list[Any] = [one for text in texts for one in _statements(text)]
    kinds = set()
    while pending:
        node = pending.pop()
        kinds.add(type(node).__name__)
        below = [child for slot in node for child in _all_slots(getattr(node, slot))]
        assert [id(child) for child in children(node)] == [id(child) for child in below], node
        pending += below
    assert len(kinds) > 40


def test_texts_are_those_of_pglasts_own_walk() -> None:
    """Of the statements of the fixtures and of whatever can be written by itself in them, operators above all."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(FIXTURES.rglob("*.sql"))]
    pending: list[Any] = [one for text in texts for one in _statements(text)]
    operators = 0
    while pending:
        node = pending.pop()
        if isinstance(node, ast.RawStmt | ast.A_Expr | ast.BoolExpr | ast.TypeCast | ast.FuncCall | ast.SubLink):
            assert parse.deparse(node) == parse.RawStream()(node)
            operators += isinstance(node, ast.A_Expr)
        pending += children(node)
    assert operators > 100


def _statements(text: str) -> list[Any]:
    """Those that can be parsed: some files hold psql's own commands."""
    try:
        return list(parse_statements(text))
    except parse.parser.ParseError:
        return []


def test_statements_have_no_size_limit_of_their_own() -> None:
    statements = parse_statements("SELECT 1; SELECT 2 /* " + "x" * 100_000 + " */")
    assert len(statements) == 2
    assert parse.deparse(parse_statements("select  a from t where b")[0].stmt) == "SELECT a FROM t WHERE b"
    assert [token.name for token in parse.scan("SELECT 1")] == ["SELECT", "ICONST"]


def test_a_short_text_is_parsed_once_and_a_refused_one_is_refused_anew() -> None:
    """Whoever asks again gets the tree of before, which nothing changes: neither compiling it nor writing it."""
    text = "age > 41 AND sex = 'f'"
    tree = parse_expression(text)
    written, shown = parse.deparse(tree), repr(tree(skip_none=True))
    parse.deparse(tree.args[0].lexpr)
    assert parse_expression(text) is tree
    assert (parse.deparse(tree), repr(tree(skip_none=True))) == (written, shown)
    long = f"age > 41 AND note = '{'a' * parse.SHORT}'"
    assert parse_expression(long) is not parse_expression(long)
    refused = []
    for _ in range(2):
        with pytest.raises(DPError) as caught:
            parse_expression("age > ")
        refused.append(caught.value)
    assert refused[0] is not refused[1]
