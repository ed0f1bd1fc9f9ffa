"""Answers of probes that travel in ASCII are what they were (session/spelled.py)."""

from __future__ import annotations

import pytest

from pg_epsilon_proxy.session.spelled import in_ascii, is_plain, read, spelled

SELECT = "SELECT 1"


@pytest.mark.parametrize(
    ("row", "texts"),
    [
        ('{"a": "gr\u00f6\u00dfe", "a": null}', ["gr\u00f6\u00dfe", None]),
        ('{"a": 1.10, "b": 9007199254740993, "c": true, "d": false}', ["1.10", "9007199254740993", "t", "f"]),
        ('{"a": "[\\"x\\"]"}', ['["x"]']),
    ],
)
def test_a_row_is_what_it_was(row: str, texts: list[str | None]) -> None:
    assert read(SELECT, [[row.encode().hex()]]) == [texts]


def test_only_queries_are_spelled() -> None:
    assert "AS pge_q" in spelled("\n select 1 -- why")
    for other in ("DO $$ BEGIN END $$", "EXPLAIN SELECT 1", "select"):
        assert spelled(other) == other
    assert read("DO $$ BEGIN END $$", []) == []


def test_which_encodings_need_it() -> None:
    assert [is_plain(name) for name in (None, "UTF8", "LATIN1", "SQL_ASCII")] == [True, True, False, False]


def test_what_is_said_in_ascii() -> None:
    assert in_ascii("\u00b13, gr\u00f6\u00dfe") == "+/-3, gr\\xf6\\xdfe"
