"""Where in the client's text a node stands, and where a place of a printed text stands in it (design.md §5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pg_epsilon.query.parse import ast, children, scan

# After these, outside parentheses, a WHERE clause has ended.
_ENDS = frozenset(
    {
        *("GROUP_P", "HAVING", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR"),
        *("UNION", "INTERSECT", "EXCEPT", "RETURNING", "ON", "ASCII_59"),
    }
)
_OPEN, _CLOSE = "ASCII_40", "ASCII_41"


def location(value: Any) -> int | None:
    """Zero-based character offset, in the text that was parsed, of a node, of the first of several, or of a number.

    A node without a place of its own (a list, a join) stands where the first node below it stands. None: nowhere.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, tuple):
        return _first(value)
    if not isinstance(value, ast.Node):
        return None
    own = getattr(value, "location", None)
    return own if isinstance(own, int) and own >= 0 else _first(tuple(children(value)))


def _first(values: Sequence[Any]) -> int | None:
    found = (location(value) for value in values)
    return min((place for place in found if place is not None), default=None)


def aligned(printed: str, position: int, source: str, span: tuple[int, int]) -> int | None:
    """Where the word at `position` of `printed` stands in source[span], of which `printed` is the printer's version.

    The printer adds and drops words (qualifiers, parentheses, CAST) but never changes their order: a word that occurs
    equally often in both stands at the same of its occurrences. None: it does not, or a text has no words.
    """
    try:
        after, before = scan(printed), scan(source)
    except Exception:
        return None
    word = next((token for token in after if token.start <= position <= token.end), None)
    if word is None:
        return None
    same = [token.start for token in after if _word(printed, token) == _word(printed, word)]
    there = [
        token.start
        for token in before
        if span[0] <= token.start < span[1] and _word(source, token) == _word(printed, word)
    ]
    return there[same.index(word.start)] if len(same) == len(there) else None


def clause(source: str, node: Any) -> tuple[int, int] | None:
    """The span of the words after the last WHERE before `node`, up to the clause's end."""
    inside = location(node)
    if inside is None:
        return None
    try:
        tokens = scan(source)
    except Exception:
        return None
    starts = [token.end + 1 for token in tokens if token.name == "WHERE" and token.end < inside]
    if not starts:
        return None
    depth = 0
    for token in tokens:
        if token.start < starts[-1]:
            continue
        depth += (token.name == _OPEN) - (token.name == _CLOSE)
        if depth < 0 or (depth == 0 and token.name in _ENDS):
            return starts[-1], token.start
    return starts[-1], len(source)


def _word(text: str, token: Any) -> str:
    word = text[token.start : token.end + 1]
    return word if word[:1] in ("'", '"') else word.lower().replace("!=", "<>")
