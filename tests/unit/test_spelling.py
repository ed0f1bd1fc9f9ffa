"""Statements in ASCII for databases of other encodings (engine/spelling.py)."""

from __future__ import annotations

import pytest

from pg_epsilon.engine.spelling import spelled
from pg_epsilon.errors import DPError
from pg_epsilon.query.literals import identifier, quote


@pytest.mark.parametrize(
    ("sql", "ascii_"),
    [
        ("w = 'café'", "w = E'caf\\u00e9'"),
        ("w = 'it''s é'", "w = E'it''s \\u00e9'"),
        ("w = E'\\\\é'", "w = E'\\\\\\u00e9'"),
        ("\"é\\\" = 'x'", "U&\"\\00e9\\\\\" = 'x'"),
        ("w = '\U0001f600' AND \"\U0001f600\"", "w = E'\\U0001f600' AND U&\"\\+01f600\""),
        ("w IN ('é', 'a''', E'\\'é')", "w IN (E'\\u00e9', 'a''', E'\\'\\u00e9')"),
    ],
)
def test_characters_become_escapes(sql: str, ascii_: str) -> None:
    assert spelled(sql, "LATIN1") == ascii_
    assert spelled(sql, "UTF8") == sql, "the control: nothing changes where nothing has to"


def test_what_the_engine_quotes_can_be_spelled() -> None:
    for text in ("é", "é'\\", "\\é''", '"é"', "東京"):
        assert spelled(f"{identifier(text)} = {quote(text)}", "EUC_JP").isascii()


def test_elsewhere_it_is_refused() -> None:
    with pytest.raises(DPError, match="LATIN1"):
        spelled("é = 1", "LATIN1")
