"""Calls on constants: PostgreSQL computes those that are functions of their operands, and no other is ever run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from fix_hostile import hostile_server
from pg_epsilon.errors import DPError
from pg_epsilon.query.constants import MAX_TEXT
from pg_epsilon.query.expression import compile_predicate
from pg_epsilon.query.functions import FUNCTIONS
from pg_epsilon.query.plain import FUNCTIONS as PLAIN
from sql.test_hostile_rows import Bench, bench

__all__ = ["bench", "hostile_server"]
# Every name of a function of PostgreSQL's own that is not of the operands alone, by what pg_proc says of it.
_OTHERS = """
SELECT proname, CASE WHEN bool_or(proretset OR prokind <> 'f') THEN 'x'
  WHEN bool_or(provolatile = 'v') THEN 'v' ELSE 's' END
FROM pg_proc WHERE pronamespace = 11 AND oid < 16384
GROUP BY 1 HAVING bool_or(provolatile <> 'i' OR proretset OR prokind <> 'f') ORDER BY 1
"""
# STABLE for the sake of the asker's settings alone, all of which the engine has; of constants.py, written again.
SETTINGS_ALONE = {"age", "concat", "concat_ws", "date_part", "date_trunc", "extract", "format", "make_timestamptz"}
SETTINGS_ALONE |= {"quote_literal", "quote_nullable", "timezone", "to_char", "to_date", "to_number", "to_timestamp"}
CLOCKS = {"clock_timestamp", "now", "statement_timestamp", "transaction_timestamp"}


def refusal(bench: Bench, text: str) -> DPError:
    with pytest.raises(DPError) as caught:
        compile_predicate(text, bench.scope, bench.fold)
    assert caught.value.sqlstate == "DP003" and caught.value.hint
    return caught.value


def test_what_is_no_function_of_its_operands_is_never_run(bench: Bench) -> None:
    """Settings, catalogs, files, sequences, locks, XML of whole tables: each by its name."""
    asked: list[str] = []

    def fold(texts: Sequence[str]) -> Sequence[str | None]:
        asked.extend(texts)
        return bench.fold(texts)

    names = dict(bench.engine.execute(_OTHERS).fetchall())
    assert {"current_setting", "table_to_xml", "pg_read_file", "nextval", "random", "has_table_privilege"} <= set(names)
    forbidden = sorted(set(names) - SETTINGS_ALONE - set(FUNCTIONS))
    assert len(forbidden) > 700
    for name in forbidden:
        for operands in ("", "'1'", "1, 'x'"):
            with pytest.raises(DPError) as caught:
                compile_predicate(f'pg_catalog."{name}"({operands}) IS NULL', bench.scope, fold)
            assert names[name] != "v" or "VOLATILE" in caught.value.message or name in str(caught.value.hint)
    run = [text for text in asked if not re.match(r"\(SELECT CASE WHEN pg_catalog.count", text)]
    assert run == []


def test_only_what_settings_decide_is_let_through(bench: Bench) -> None:
    """Of the STABLE functions that are computed, none reads a table or a catalog: PostgreSQL's C functions all. None
    is anything else than a function of one value, because nobody asks at each question."""
    sql = (
        "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 11 AND oid < 16384 AND proname = ANY (%s)"
        " AND (provolatile = 'v' OR proretset OR prokind <> 'f')"
    )
    assert bench.engine.execute(sql, (sorted(SETTINGS_ALONE),)).fetchall() == []


def test_what_is_computed_without_settings_knows_no_moment(bench: Bench) -> None:
    """No function of plain.py takes or gives a date, a time or an interval. Any type: concat's and
    format's arguments, and the range of which lower and upper are ends, whose literal plain.py does not read."""
    sql = (
        "SELECT DISTINCT p.proname::text, t.typcategory::text FROM pg_proc AS p"
        " CROSS JOIN unnest(p.proargtypes::oid[] || p.prorettype) AS one JOIN pg_type AS t ON t.oid = one"
        " WHERE p.pronamespace = 11 AND p.oid < 16384 AND p.proname = ANY (%s)"
    )
    found = bench.engine.execute(sql, (sorted(PLAIN),)).fetchall()
    assert {name for name, _ in found} == PLAIN
    assert {kind for _, kind in found} <= set("SNBUVGP")  # texts, numbers, bytes, bits, geometry; never D, T, R
    assert {name for name, kind in found if kind == "P"} == {"concat", "concat_ws", "format", "lower", "upper"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("i4 > random() * 10", "VOLATILE"),
        ("t = set_config('a.b', 'c', true)", "VOLATILE"),
        ("t = current_setting('dp.secret')", "current_setting is not supported"),
        ("t = nosuch(1)", "nosuch is not supported"),
        ("iv < age(timestamp '2020-01-01')", "age is not supported"),
        ("t = public.lower('A')", "public.lower is not supported"),
        ("i4 > sqrt(-1)", "cannot be evaluated"),
        ("i4 > make_interval('now')", "another one each time"),
        ("d > date_bin('1 day', 'today', '2000-01-01')", "another one each time"),
        ("t = repeat('abc', 1000000)", "too long"),
        ("t = repeat('abcdefghij', 99999)", "too long"),
        ("t = format('%1000000s', 'a')", "too long"),
        ("t = concat('" + "a" * MAX_TEXT + "', 'b')", "too long"),
        ("t = sqrt(i4)::text", "sqrt is not supported"),
        ("t = concat(t, 'a')", "concat is not supported"),
        ("t = concat(random())", "VOLATILE"),
        ("i4 > sqrt(power(2, nosuch(1)))", "is not supported"),
        ("jsonb_build_object('a', 1) IS NULL", "is not supported"),
        ("t = CASE WHEN '(1,2)'::point = '(1,2)' THEN 'a' END", "type point is not supported"),
    ],
)
def test_what_is_no_constant_is_refused(bench: Bench, text: str, words: str) -> None:
    assert words in refusal(bench, text).message


def test_deeply_nested_calls_are_refused_in_no_time(bench: Bench) -> None:
    """Each level is understood twice, once by the function around it. Twice of twice, this would never end."""
    refusal(bench, "i4 > " + "abs(" * 80 + "nosuch(1)" + ")" * 80)
    refusal(bench, "i4 > " + "abs(ceil(" * 40 + "random()" + "))" * 40)


def test_it_means_what_the_asker_settings_say(bench: Bench) -> None:
    """A moment without zone is one of the session's TimeZone."""
    predicate = "tz = to_timestamp('2024-01-15 00:00', 'YYYY-MM-DD HH24:MI')"
    assert "'2024-01-15 05:00:00+00'" in compile_predicate(predicate, bench.scope, bench.fold).sql


def test_clocks_are_the_moment_of_the_statement(bench: Bench) -> None:
    for clock in CLOCKS:
        compiled = compile_predicate(f"tz < {clock}() - make_interval(days => 1)", bench.scope, bench.fold)
        assert "'2026-11-20 02:00:00+00'" in compiled.sql
    assert refusal(bench, "tz < now(1)")
    assert refusal(replace(bench, scope=replace(bench.scope, now=None)), "tz < clock_timestamp()")
