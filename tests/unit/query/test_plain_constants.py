"""Which constants PostgreSQL computes without the settings of the asker's session (query/plain.py)."""

from __future__ import annotations

import time

import pytest

from pg_epsilon.engine.folding import Folding
from pg_epsilon.query.plain import is_plain
from pg_epsilon.query.types import Textual

TEXT = "pg_catalog.text"


@pytest.mark.parametrize(
    "sql",
    [
        f"""pg_catalog."concat"('n'::{TEXT}, '5'::{TEXT})""",
        f"(pg_catalog.upper('it''s 10%'::{TEXT}))::{TEXT}",
        "(-5)::pg_catalog.int4",
        "pg_catalog.substr('abc', 1, 2)",
        "'2020-01-01'",
    ],
)
def test_text_and_numbers_need_no_settings(sql: str) -> None:
    assert is_plain(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "'2020-01-01'::pg_catalog.date",
        "pg_catalog.date_trunc('month', '01/02/2020')",
        "pg_catalog.now()",
        "'1 day'::interval",
        f"pg_catalog.concat('2020-01-01'::pg_catalog.timestamptz)::{TEXT}",
        r"E'\\x'",
        "lower('A')",  # whose function that is, the search path says
        "pg_catalog.lowers('A')",
        "pg_catalog.lower",
        "'a'::pg_catalog.text_of_mine",
        f"'a'::{TEXT}[]",
        "'a' || 'b'",
        "'open",
        "(SELECT 1)",
        "pg_catalog.lower('A') -- '\n",
    ],
)
def test_anything_else_is_computed_under_the_askers_settings(sql: str) -> None:
    assert not is_plain(sql)


def test_a_long_text_is_judged_in_one_pass() -> None:
    started = time.process_time()
    assert not is_plain("'a''" * 20_000 + "1" * 20_000 + "x")
    assert not is_plain("'a'" * 20_000 + "1" * 20_000 + "x")
    assert time.process_time() - started < 1


def asked(one: Textual) -> list[str]:
    """The statements that computing one constant takes."""
    statements: list[str] = []

    class Undone:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    def execute(sql: str, *_: object) -> list[dict[str, str]]:
        statements.append(sql)
        return [{"v": "", "v0": "found", "t0": "text"}]

    fold = Folding(execute, execute, Undone).folder({"DateStyle": "SQL, DMY", "TimeZone": "Asia/Tokyo"})
    assert fold([one]) == ["found"]
    return statements


def test_settings_are_set_only_where_they_decide() -> None:
    plain, dated = (
        Textual(f"pg_catalog.lower('A')::{TEXT}"),
        Textual("('01/02/2020'::pg_catalog.date)::pg_catalog.text"),
    )
    assert asked(plain) == [plain.statement]
    set_, computed, reset = asked(dated)
    assert "set_config" in set_ and set_ == reset and computed == dated.statement


def test_what_a_text_is_made_of_counts_and_not_how_it_is_asked_for() -> None:
    wrapped = Textual("pg_catalog.concat(x)", "FROM (SELECT pg_catalog.now() AS x) AS c", "pg_catalog.now()")
    assert not wrapped.plain
    assert Textual("pg_catalog.pg_typeof(x)::oid", "FROM (SELECT 'a' AS x) AS c", "'a'").plain
