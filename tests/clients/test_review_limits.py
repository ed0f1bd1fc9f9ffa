"""What the review of the proxy found: refusals come before any charge, and nothing that is refused ends the session."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from fix_stack import Stack


def charges(stack: Stack) -> int:
    with stack.cluster.connect() as root:
        row = root.execute("SELECT count(*) FROM dp.ledger").fetchone()
    assert row is not None
    return int(row[0])


REFUSED: list[tuple[str, str, dict[str, Any] | None]] = [
    ("DP004", "SELECT (SELECT count(*) FROM people WHERE age > 71), (SELECT count(*) FROM people GROUP BY id)", None),
    ("DP003", "SELECT count(*) FROM people WHERE age > 72 UNION SELECT count(*) FROM people WHERE 1 / age > 0", None),
    ("42501", "SELECT count(*) FROM people WHERE age > 73 UNION SELECT dp_count('orders')", {"user": "bob"}),
    ("DP003", "SELECT count(*) FROM people WHERE city = %(text)s", {"text": "x" * 70_000}),
    ("DP003", "MERGE INTO mine USING (SELECT count(*) AS n FROM people WHERE age > 74) s ON false"
              " WHEN NOT MATCHED THEN INSERT VALUES (s.n)", None),
]  # fmt: skip


@pytest.mark.parametrize(("sqlstate", "statement", "how"), REFUSED, ids=[line[1][:70] for line in REFUSED])
def test_a_refusal_anywhere_costs_nothing(
    stack: Stack, sqlstate: str, statement: str, how: dict[str, Any] | None
) -> None:
    how = how or {}
    with stack.connect(how.get("user", "alice")) as conn:
        conn.execute("CREATE TEMP TABLE mine (n bigint)")
        before = charges(stack)
        with pytest.raises(psycopg.Error) as refused:
            conn.execute(statement, how if "text" in how else None)
        assert refused.value.sqlstate == sqlstate, refused.value
        assert charges(stack) == before
        assert conn.execute("SELECT 1").fetchone() == (1,), "the session goes on"


@pytest.mark.parametrize("setting", ["transform_null_equals = on", "array_nulls = off"])
def test_settings_that_change_the_question_are_refused(stack: Stack, setting: str) -> None:
    with stack.connect() as conn:
        conn.execute(f"SET {setting}")
        with pytest.raises(psycopg.Error) as refused:
            conn.execute("SELECT count(*) FROM people WHERE city = NULL")
        assert refused.value.sqlstate == "DP003"
