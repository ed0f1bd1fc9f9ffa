"""PostgreSQL's own parser behind one door: the only module that imports pglast (licence, crash safety; design.md §6).

`parse_expression` reads exactly one scalar expression of an analyst; `parse_statements` reads whole statements for the
proxy, which runs it on a thread with a large stack. Nothing here touches rows.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from pg_epsilon.errors import SHAPE, DPError

# libpg_query carries PostgreSQL's own palloc, raw_parser and kin under their own names. Loaded into a backend the usual
# way it would be bound to the server's functions of those names, and crash it: deep binding prefers its own.
_usual_flags = sys.getdlopenflags()
sys.setdlopenflags(os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
try:
    from pglast import ast, enums, keywords, parser
    from pglast.stream import RawStream
    from pglast.visitors import Ancestor
finally:
    sys.setdlopenflags(_usual_flags)

__all__ = [
    "MAX_DEPTH",
    "MAX_EXPRESSION",
    "ast",
    "children",
    "deparse",
    "depth_bound",
    "enums",
    "parse_expression",
    "parse_json",
    "parse_query",
    "parse_statements",
    "position_of",
    "scan",
    "written",
]

# libpg_query recurses per operator: 50 kB of "1+1+..." kills a process with an 8 MB stack, and the engine parses inside
# a PostgreSQL backend, where a crash restarts the whole cluster (facade-and-channel.md §6, parser safety).
# Lists are wide, chains are deep: at most this `depth_bound` keeps its recursion under a quarter of an 8 MB stack.
MAX_TOKENS = 4_000
# Time and memory: 20,000 constants of a list take a second or two.
MAX_EXPRESSION = 1_048_576
# Our walks take a few Python frames a level, and Python's default limit is 1,000 frames.
MAX_DEPTH = 96
# A text so short is parsed once while it is among the last ones: a block's aggregates read one argument and one filter
# several times. A tree weighs some 200 bytes a character, and nobody changes one.
SHORT, REMEMBERED = 200, 256

# What an identifier may be without quotes; a keyword only if it is reserved nowhere.
_PLAIN = re.compile("[a-z_][a-z0-9_]*")
_QUOTED = keywords.RESERVED_KEYWORDS | keywords.COL_NAME_KEYWORDS | keywords.TYPE_FUNC_NAME_KEYWORDS
# Sub-queries that are conditions; what the compiler allows inside them is its own affair.
_CONDITIONS = frozenset(
    {enums.SubLinkType.EXISTS_SUBLINK, enums.SubLinkType.ANY_SUBLINK, enums.SubLinkType.ALL_SUBLINK}
)
_PREFIX = "SELECT ("
_SUFFIX = "\n)"  # the newline ends a trailing "--" comment
_COMMA = "ASCII_44"
_FLAT_TOKENS = frozenset({"ICONST", "FCONST", "SCONST", "USCONST", "XCONST", "BCONST", "PARAM", _COMMA})
_OPENING, _CLOSING = frozenset({"ASCII_40", "ASCII_91"}), frozenset({"ASCII_41", "ASCII_93"})
# Inside parentheses with one of these, what is between two commas is more than an item of a list.
_QUERIES = frozenset({"SELECT", "VALUES", "TABLE", "WITH"})
_ONE = "Write one scalar expression, for example age > 30."


def parse_statements(sql: str) -> tuple[Any, ...]:
    """Return the RawStmt nodes of `sql`; ParseError passes through. No size limit: the caller has the stack."""
    return tuple(parser.parse_sql(sql))


def written(*names: str) -> str:
    """Names as people write them in SQL, with dots between: quoted where they must be, as quote_ident does."""
    return ".".join(name if _PLAIN.fullmatch(name) and name not in _QUOTED else _quoted(name) for name in names)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def parse_json(sql: str) -> str:
    """Return the parse tree of `sql` as libpg_query's JSON text: a tenth of the time. ParseError passes through."""
    return str(parser.parse_sql_json(sql))


def scan(sql: str) -> list[Any]:
    """Return the lexer's tokens of `sql` (start, end, name, kind), positions in characters."""
    return list(parser.scan(sql))


def depth_bound(tokens: list[Any]) -> int:
    """No parse tree of these tokens is deeper: all that are not flat, but of a list in brackets its heaviest item."""
    # Of each bracket that is open: what its items weigh together, the heaviest so far, this one, and if it is no list.
    outer: list[tuple[int, int, int, bool]] = []
    whole, heaviest, item, query = 0, 0, 0, True
    for token in tokens:
        if token.name in _OPENING:
            outer.append((whole, heaviest, item + 1, query))
            whole, heaviest, item, query = 0, 0, 0, False
        elif token.name in _CLOSING and outer:
            inside = whole + item if query else max(heaviest, item)
            whole, heaviest, item, query = outer.pop()
            item += inside + 1
        elif token.name == _COMMA:
            whole, heaviest, item = whole + item, max(heaviest, item), 0
        elif token.name not in _FLAT_TOKENS:
            item, query = item + 1, query or token.name in _QUERIES
    # Brackets that nothing closes are a syntax error, but the parser goes down to it.
    return whole + item + sum(before + now for before, _, now, _ in outer)


def deparse(node: Any) -> str:
    """Return SQL text for a parse tree that we built or parsed.

    A node's printer looks at what stands above it. pglast's own visitor, which notes that, is slow.
    """
    if not isinstance(node, ast.Node):
        return str(RawStream()(node))
    stream = RawStream()
    _note_ancestors(node, Ancestor(Ancestor(), (node,), 0))
    stream.print_node(node)
    return str(stream.getvalue())


def _note_ancestors(node: Any, above: Any) -> None:
    todo = [(node, above)]
    while todo:
        node, above = todo.pop()
        if isinstance(node, tuple):
            todo += [(item, Ancestor(above, node, place)) for place, item in enumerate(node)]
        elif isinstance(node, ast.Node):
            object.__setattr__(node, "ancestors", above)  # the class's own looks into its slots first
            kind: Any = node.__class__
            for slot in _holders(kind):
                value = getattr(node, slot)
                if value is not None:
                    todo.append((value, Ancestor(above, node, slot)))


def parse_expression(text: str) -> Any:
    """Parse `text` as exactly one scalar expression and return its node.

    Errors: DP003 (too long, too deep, not one expression, a clause, a second statement or name smuggled in, NUL, lone
    surrogate), with the position in characters of `text`. Node locations count from the wrapped text: `position_of`.
    Equal texts may share one tree, which is to be left as it is.
    """
    return _parsed_short(text) if len(text) <= SHORT else _parsed(text)


def _parsed(text: str) -> Any:
    tokens = _tokens(text, "expression")
    wrapped = _PREFIX + text + _SUFFIX
    try:
        statements = parser.parse_sql(wrapped)
    except parser.ParseError as error:
        raise _syntax_error(text, wrapped, error) from None
    _check_parentheses(tokens)
    node = _only_expression(statements)
    _check_depth(node)
    return node


_parsed_short = lru_cache(maxsize=REMEMBERED)(_parsed)


def parse_query(text: str, stand_in: str) -> tuple[Any, ...]:
    """Parse the statements of an analyst's query text, in which {stand_in} is the name of a relation: "{stand_in}".

    Errors: DP003 (too long, too deep, NUL, lone surrogate), 42601, with the position in characters of `text`.
    """
    tokens, braced = _tokens(text, "query"), "{" + stand_in + "}"
    places = [token.start for token in tokens if text.startswith(braced, token.start) and token.name == "UNKNOWN"]
    quoted = text
    for place in reversed(places):
        quoted = f'{quoted[:place]}"{braced}"{quoted[place + len(braced) :]}'
    try:
        statements = parse_statements(quoted)
    except parser.ParseError as error:
        found = _error_place(quoted, error)
        if found is not None:
            found -= sum(2 for i, place in enumerate(places) if place + 2 * i < found)
        raise DPError(
            "42601",
            _words(error),
            "Write one SELECT of one aggregate, for example SELECT count(*) FROM {" + stand_in + "} WHERE age > 30.",
            detail=None if found is None else f"At character {max(0, min(found, len(text))) + 1} of the query.",
        ) from None
    for statement in statements:
        _check_depth(statement)
    return statements


def position_of(text: str, root: Any, node: Any) -> int:
    """Return the zero-based character position of `node`, a descendant of `root` = parse_expression(text).

    pglast drops the location of constants, so for them the parser's JSON form is asked, in the same order of nodes.
    A node without a position of its own takes that of its first descendant that has one.
    """
    best = _own_position(node)
    if best is None and isinstance(node, ast.A_Const):
        best = _constant_position(text, root, node)
    if best is None:
        found = [p for p in (position_of(text, root, child) for child in children(node)) if p > 0]
        return min(found, default=0)
    return max(0, min(best - len(_PREFIX), len(text)))


def children(node: Any) -> Iterator[Any]:
    """Yield the direct child nodes, through nested tuples, in the order of PostgreSQL's struct fields."""
    for slot in _holders(node.__class__):
        value = getattr(node, slot)
        if isinstance(value, ast.Node):
            yield value
        elif isinstance(value, tuple):
            stack = list(reversed(value))
            while stack:
                item = stack.pop()
                if isinstance(item, ast.Node):
                    yield item
                elif isinstance(item, tuple):
                    stack.extend(reversed(item))


@cache
def _holders(kind: Any) -> tuple[str, ...]:
    """The slots of a kind of node that may hold nodes: half of all slots are flags, places and enums.

    A statement is walked some thirty times before it is answered.
    """
    told = {slot: getattr(facts, "c_type", "") for slot, facts in kind.__slots__.items()}
    return tuple(slot for slot, c_type in told.items() if c_type not in _SCALARS and not hasattr(enums, c_type))


_SCALARS = frozenset({"bool", "char", "char*", "int", "int16", "int32", "long", "Index", "ParseLoc"})


def _tokens(text: str, what: str) -> list[Any]:
    """The lexer's tokens of what libpg_query's recursion can bear; none of text that it cannot take apart."""
    if len(text) > MAX_EXPRESSION:
        raise DPError(SHAPE, f"the {what} is longer than {MAX_EXPRESSION} characters", "Shorten it.", position=0)
    _check_characters(text, what)
    try:
        tokens = scan(text)
    except parser.ParseError:
        tokens = []  # a lexical error: the parser says which, and where
    if depth_bound(tokens) > MAX_TOKENS:
        raise DPError(SHAPE, f"the {what} has more than {MAX_TOKENS} operators and names", "Shorten it.", position=0)
    return tokens


def _check_characters(text: str, what: str) -> None:
    nul = text.find("\0")
    if nul >= 0:
        raise DPError(SHAPE, f"the {what} contains a NUL character", "Remove it.", position=nul)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DPError(
            SHAPE, f"the {what} is not valid Unicode text", "Remove the lone surrogate.", position=error.start
        ) from None


def _syntax_error(text: str, wrapped: str, error: Any) -> DPError:
    place = _error_place(wrapped, error)
    position = None if place is None else max(0, min(place - len(_PREFIX), len(text)))
    return DPError(SHAPE, _words(error), _ONE, position=position)


def _words(error: Any) -> str:
    return (str(error.args[0]) if error.args else "syntax error")[:200]


_NEAR = re.compile(r'at or near "(.*)"$', re.DOTALL)


def _error_place(text: str, error: Any) -> int | None:
    """Where in the text, in characters.

    pglast takes libpg_query's characters for bytes and converts once more; in a thread in which libpg_query forgot that
    it reads UTF-8 they are bytes. The word that the message names tells which.
    """
    if len(error.args) < 2 or not isinstance(error.args[1], int):
        return None
    given: int = error.args[1]
    twice = len(text[:given].encode("utf-8"))
    near = _NEAR.search(_words(error))
    once = near is not None and not text.startswith(near[1], twice) and text.startswith(near[1], given)
    return given if once else twice


def _check_parentheses(tokens: Any) -> None:
    """Refuse text that closes our own wrapping parenthesis, such as `a) OR (b`."""
    depth = 0
    for token in tokens:
        if token.name == "ASCII_40":
            depth += 1
        elif token.name == "ASCII_41":
            depth -= 1
            if depth < 0:
                raise DPError(SHAPE, "unbalanced parenthesis in the expression", _ONE, position=token.start)


def _only_expression(statements: Any) -> Any:
    """Return the one target of the one plain SELECT; anything else was smuggled in."""
    refusal = DPError(SHAPE, "the text is not one scalar expression", _ONE, position=0)
    if len(statements) != 1 or not isinstance(statements[0].stmt, ast.SelectStmt):
        raise refusal
    select = statements[0].stmt
    plain = {"targetList", "limitOption", "op", "all", "groupDistinct"}
    if any(getattr(select, slot) is not None for slot in select if slot not in plain):
        raise refusal
    if (
        select.op != enums.SetOperation.SETOP_NONE
        or select.limitOption != enums.LimitOption.LIMIT_OPTION_DEFAULT
        or select.all
        or select.groupDistinct
        or select.targetList is None
        or len(select.targetList) != 1
    ):
        raise refusal
    target = select.targetList[0]
    if target.name is not None or target.indirection is not None or target.val is None:
        raise refusal
    if isinstance(target.val, ast.RowExpr):
        raise refusal
    if isinstance(target.val, ast.SubLink) and target.val.subLinkType not in _CONDITIONS:
        raise refusal  # the text itself was a SELECT
    return target.val


def _check_depth(root: Any) -> None:
    level = [root]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in children(node)]
        if not level:
            return
    raise DPError(
        SHAPE,
        f"the expression is nested more than {MAX_DEPTH} levels deep",
        "Use IN (...) or AND/OR lists instead of long chains.",
        position=0,
    )


def _own_position(node: Any) -> int | None:
    location = getattr(node, "location", None)
    return location if isinstance(location, int) and location >= len(_PREFIX) else None


def _constant_position(text: str, root: Any, wanted: Any) -> int | None:
    ordinal = _ordinal(root, wanted)
    if ordinal is None:
        return None
    wrapped = _PREFIX + text + _SUFFIX
    found = list(_constants(json.loads(parser.parse_sql_json(wrapped))))
    if ordinal >= len(found):
        return None
    return len(wrapped.encode("utf-8")[: found[ordinal]].decode("utf-8", "ignore"))


def _ordinal(root: Any, wanted: Any) -> int | None:
    count = 0
    stack = [root]
    while stack:
        node = stack.pop()
        if node is wanted:
            return count
        if isinstance(node, ast.A_Const):
            count += 1
        stack.extend(reversed(list(children(node))))
    return None


def _constants(tree: Any) -> Iterator[int]:
    """Yield the byte locations of the A_Const nodes of the parser's JSON form, in order."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "A_Const":
                yield int(value.get("location", 0))
            else:
                yield from _constants(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _constants(value)
