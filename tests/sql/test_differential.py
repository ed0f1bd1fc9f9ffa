"""The right answers: every accepted name and type, compiled by us, beside PostgreSQL's own evaluation, row by row.

What differs by design is the list of differential_rules.py. Expressions are random by a seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from fix_differential import Bench, compared, differential_bench, every_row
from fix_hostile import Server, hostile_server
from pg_epsilon.query import functions
from pg_epsilon.query.accepted import CASTS, FUNCTION_FORMS, OPERATOR_FORMS, Cast
from pg_epsilon.query.arithmetic import OPERATORS, arithmetic
from pg_epsilon.query.compare import COMPARISONS

__all__ = ["hostile_server"]

# The statement's moment for all rows, which PostgreSQL's own are not: test_constants.py.
CLOCKS = {"clock_timestamp", "statement_timestamp"}
# Each was answered wrongly, or raised.
MENDED = (
    "date_trunc('day', d, 'Asia/Kolkata')",
    "date_trunc('hour', date '2000-02-29', 'Asia/Kolkata')",
    "greatest(iv, '30 days'::interval)",
    "least('1 mon', '30 days'::interval)",
    "t = ('-0'::float8)::text",
    "('-0'::float8)::text",
    "(text '12')::interval day",
    "(date(ts) = ANY (ARRAY['2024-11-03 01:30', '2000-02-29'::timestamp]))",
    "(d IN ('2024-11-03 01:30', '2000-02-29'::timestamp))",
    "octet_length('a'::char(3))",
    "coalesce(bp, 'a'::char(3)) LIKE 'a__'",
    "coalesce(iv, nullif(interval '1 day', '24 hours'))",
)


@pytest.fixture(scope="module")
def bench(hostile_server: Server) -> Iterator[Bench]:
    with differential_bench(hostile_server) as opened:
        yield opened


def test_the_table_names_what_the_compiler_takes() -> None:
    assert {form.name for form in FUNCTION_FORMS} == set(functions.FUNCTIONS) - CLOCKS
    assert {form.name for form in OPERATOR_FORMS} >= OPERATORS | COMPARISONS


@pytest.mark.parametrize("forms", [FUNCTION_FORMS, OPERATOR_FORMS], ids=["functions", "operators"])
def test_every_form_and_what_stands_for_it_exist(bench: Bench, forms: tuple[object, ...]) -> None:
    names = {name for form in forms for name in (form.signature, form.generated)}  # type: ignore[attr-defined]
    rows = bench.asker.execute(
        "SELECT n FROM unnest(%s::text[]) n WHERE CASE WHEN n ~ '^[a-z]' THEN"
        " to_regprocedure('pg_catalog.' || n) IS NULL ELSE to_regoperator('pg_catalog.' || n) IS NULL END",
        (sorted(names),),
    ).fetchall()
    assert rows == []


def test_every_cast_exists(bench: Bench) -> None:
    found = bench.asker.execute(
        "SELECT s, t FROM unnest(%s::text[], %s::text[]) u(s, t) WHERE EXISTS (SELECT FROM pg_cast WHERE"
        " castsource = ('pg_catalog.' || s)::regtype AND casttarget = ('pg_catalog.' || t)::regtype)",
        ([cast.source for cast in CASTS], [cast.target for cast in CASTS]),
    ).fetchall()
    assert set(found) == {(cast.source, cast.target) for cast in CASTS if not cast.by_text}


def test_every_row_of_the_table_means_what_postgresql_means(bench: Bench) -> None:
    found = every_row(bench, random.Random(20261127))
    assert [one for of_row in found.values() for one in of_row if one.wrong] == []
    assert [row for row, of_row in found.items() if not any(one.verdict == "compared" for one in of_row)] == []


def test_postgresql_takes_every_form_for_what_the_table_says(bench: Bench) -> None:
    found = every_row(bench, random.Random(7))
    pairs = [(row, next(one.text for one in of_row if one.verdict == "compared")) for row, of_row in found.items()]
    forms = [(row, text) for row, text in pairs if not isinstance(row, Cast)]
    for (form, text), (called, operators) in zip(forms, bench.resolved([text for _, text in forms]), strict=True):
        is_function = form in FUNCTION_FORMS
        lookup = "to_regprocedure" if is_function else "to_regoperator"
        row = bench.asker.execute(f"SELECT {lookup}(%s)::oid::int", (f"pg_catalog.{form.signature}",)).fetchone()
        assert row is not None
        assert row[0] in (called if is_function else operators), (text, form)


def test_some_hundred_expressions_mean_the_same(bench: Bench) -> None:
    found = compared(bench, random.Random(1), 500)
    assert [one for one in found if one.wrong] == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_thousands_of_expressions_mean_the_same(bench: Bench) -> None:
    found = compared(bench, random.Random(2), 5000)
    assert [one for one in found if one.wrong] == []


@pytest.mark.parametrize("text", MENDED)
def test_what_was_wrong_is_right(bench: Bench, text: str) -> None:
    (found,) = bench.run([text])
    assert (found.verdict, found.wrong) == ("compared", None)


@pytest.mark.parametrize("text", ["substring(t, '2')", "substring(t from '2' for '1')"])
def test_what_would_be_answered_wrongly_is_refused(bench: Bench, text: str) -> None:
    assert bench.run([text])[0].verdict == "refused"


def test_a_wrong_meaning_is_caught(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: div as plain division, and a name that means another function."""
    monkeypatch.setattr(functions, "quotient", lambda ctx, node, a, b: arithmetic(ctx, node, "/", a, b))
    monkeypatch.setitem(functions.FUNCTIONS, "left", functions.FUNCTIONS["right"])
    assert all(one.wrong for one in bench.run(["div(n, 7)", "left(t, 2)"]))
    found = every_row(bench, random.Random(20261128))
    wrong = {row.name for row, of_row in found.items() if not isinstance(row, Cast) and any(o.wrong for o in of_row)}
    assert {"left"} <= wrong <= {"left", "div"}


def test_a_raise_is_caught(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: SQL that raises on a row."""
    monkeypatch.setitem(functions.FUNCTIONS, "abs", lambda ctx, node, args: _inverse(ctx.compile(args[0])))
    (found,) = bench.run(["abs(i4)"])
    assert found.wrong is not None and found.wrong.startswith("raises")


def _inverse(term: functions.Term) -> functions.Term:
    return functions.Term(f"(1 / {term.sql})", functions.INT4, term.columns)
