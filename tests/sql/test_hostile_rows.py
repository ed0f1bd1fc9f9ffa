"""Rule R1 on a real server: what the compiler accepts raises on no hostile row, and means what PostgreSQL means by it.

Named exceptions to the second half (total extensions, each documented beside its code): rows with moments before
4000 BC or after November 294276 under date_trunc, date_bin and time zones; local moments against timestamptz constants
within a daylight-saving change; rounding of bigint (PostgreSQL goes through float8); text of more than 64 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings

from fix_expressions import predicates, wild
from fix_hostile import Server, folding, hostile_relation, hostile_server, scope_of
from pg_epsilon.errors import DPError
from pg_epsilon.query.domain import key_domain, key_sql
from pg_epsilon.query.expression import Expression, Fold, Kind, Scope, compile_expression, compile_predicate
from pg_epsilon.query.literals import quote
from pg_epsilon.query.restriction import restriction
from pg_epsilon.query.schema import ColumnPolicy
from pg_epsilon.query.types import FoldError

__all__ = ["hostile_server"]
PREDICATES = (Path(__file__).parent / "hostile_predicates.txt").read_text().splitlines()
_CALENDAR = re.compile(r"AT TIME ZONE|date_bin|date_trunc|'infinity'")


@dataclass
class Bench:
    """Connections with the engine's settings, the asker's settings, and what both need to know."""

    engine: psycopg.Connection
    asker: psycopg.Connection
    scope: Scope
    fold: Fold
    extreme: frozenset[int]

    def values(self, expression: Expression) -> dict[int, str | None]:
        """Evaluate in the select list, where nothing short-circuits across rows."""
        sql = f"SELECT id, ({expression.sql})::text FROM public.hostile r ORDER BY id"
        return dict(self.engine.execute(sql).fetchall())

    def check(self, text: str) -> Expression:
        """Compile, run both ways, compare with PostgreSQL's own outcome where that is not an error."""
        expression = compile_predicate(text, self.scope, self.fold)
        again = compile_predicate(text, self.scope, self.fold)
        assert again.sql == expression.sql
        ours = self.values(expression)
        count = self.engine.execute(f"SELECT count(*) FROM public.hostile r WHERE {expression.sql}").fetchone()
        assert count == (sum(value == "true" for value in ours.values()),)
        theirs = dict(self.asker.execute("SELECT * FROM public.oracle(%s)", (text,)).fetchall())
        skipped = self.extreme if _CALENDAR.search(expression.sql) else frozenset()
        for row, outcome in theirs.items():
            if outcome != "error" and row not in skipped:
                assert (ours[row] or "null") == outcome, (text, row, expression.sql)
        return expression


@pytest.fixture(scope="session")
def bench(hostile_server: Server) -> Iterator[Bench]:
    with (
        hostile_server.connect() as engine,
        hostile_server.connect(zone="America/New_York") as constants,
        hostile_server.connect(zone="America/New_York", path="public") as asker,
    ):
        extreme = engine.execute(
            "SELECT id FROM public.hostile WHERE d < '3999-01-01 BC' OR d >= '294276-12-01' OR ts < '3999-01-01 BC'"
            " OR ts >= '294276-12-01' OR tz < '3999-01-01 BC' OR tz >= '294276-12-01'"
        ).fetchall()
        relation = hostile_relation(engine)
        yield Bench(engine, asker, scope_of(relation), folding(constants), frozenset(row for (row,) in extreme))


def test_the_bench_can_fail(bench: Bench) -> None:
    """Control: an operator that raises on a row, and a meaning that differs from PostgreSQL's, are both caught."""
    good = compile_predicate("i4 > 5", bench.scope, bench.fold)
    with pytest.raises(psycopg.Error, match="division by zero"):
        bench.values(replace(good, sql='(1 / (r."i4" - 7) > 0)'))
    with pytest.raises(psycopg.Error, match="out of range"):
        bench.values(replace(good, sql='(r."i4" + r."i4" > 0)'))
    theirs = dict(bench.asker.execute("SELECT * FROM public.oracle('i4 > 5')").fetchall())
    assert bench.values(good) == {row: None if value == "null" else value for row, value in theirs.items()}
    assert bench.values(replace(good, sql='(r."i4" >= 7)')) == bench.values(good)
    assert bench.values(replace(good, sql='(r."i4" > 7)')) != bench.values(good)


@pytest.mark.parametrize("text", PREDICATES)
def test_directed_predicate_is_total_and_means_the_same(bench: Bench, text: str) -> None:
    bench.check(text)


def _try(bench: Bench, text: str) -> bool:
    try:
        bench.check(text)
    except DPError as error:
        assert error.hint
        assert error.position is None or 0 <= error.position <= len(text)
        return False
    return True


_checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
_options = {"database": None, "deadline": None, "suppress_health_check": _checks}


@settings(max_examples=60, **_options)  # type: ignore[arg-type]
@given(text=predicates())
def test_accepted_predicates_are_total(bench: Bench, text: str) -> None:
    _try(bench, text)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=4000, **_options)  # type: ignore[arg-type]
@given(text=predicates())
def test_accepted_predicates_are_total_in_volume(bench: Bench, text: str) -> None:
    _try(bench, text)


def _run_wild(bench: Bench, text: str) -> None:
    try:
        expression = compile_expression(text, bench.scope, bench.fold)
    except DPError as error:
        assert error.sqlstate == "DP003" and error.hint
        return
    assert expression.kind is not Kind.UNKNOWN
    bench.values(expression)


@settings(max_examples=150, **_options)  # type: ignore[arg-type]
@given(text=wild())
def test_wild_expressions_are_refused_or_total(bench: Bench, text: str) -> None:
    _run_wild(bench, text)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=20000, **_options)  # type: ignore[arg-type]
@given(text=wild())
def test_wild_expressions_are_refused_or_total_in_volume(bench: Bench, text: str) -> None:
    _run_wild(bench, text)


@pytest.mark.parametrize(("database", "encoding", "folds"), [("latin1", "LATIN1", True), ("ascii", "SQL_ASCII", False)])
def test_other_encodings(hostile_server: Server, database: str, encoding: str, folds: bool) -> None:
    with hostile_server.connect(database) as engine:
        scope = scope_of(hostile_relation(engine), encoding)
        fold = folding(engine)
        safe = [
            "t LIKE '%A_'",
            "left(t, 2) = 'x'",
            "substr(v, 2, 3) <> ''",
            "length(bp) > 1",
            "btrim(t, 'x ') = ''",
            "strpos(t, 'A') > 1",
            "right(v, 1) = 'A'",
            "t IN ('a', 'b')",
            "t > 'x'",
            "starts_with(t, 'x')",
        ]
        folding_ones = ["lower(t) = 'x'", "t ILIKE '%a%'", "upper(bp) <> 'X'"]
        for text in safe + (folding_ones if folds else []):
            sql = compile_predicate(text, scope, fold).sql
            assert engine.execute(f"SELECT count(({sql})) FROM public.hostile r").fetchone() is not None
        for text in [] if folds else folding_ones:
            with pytest.raises(DPError, match="upper and lower case"):
                compile_predicate(text, scope, fold)
        with pytest.raises(DPError, match="encoding"):
            compile_predicate("t = '日本€'", scope, fold)


def test_text_beyond_the_allocation_limit(bench: Bench) -> None:
    """lower() of 300 MB asks for more than 1 GiB and raises; ours leaves it as it is."""
    texts = ["lower(t) LIKE 'x%'", "t ILIKE 'X%'", "btrim(t) LIKE '%x'", "upper(t) = 'X'"]
    compiled = ", ".join(compile_predicate(text, bench.scope, bench.fold).sql for text in texts)
    source = "(SELECT repeat('x', 300000000) AS t) AS r"
    row = bench.engine.execute(f"SELECT {compiled} FROM {source}").fetchone()
    assert row == (True, False, True, False)
    with pytest.raises(psycopg.Error, match="invalid memory alloc"):
        bench.engine.execute(f"SELECT lower(t) LIKE 'x%%' FROM {source}".replace("%%", "%"))


@pytest.mark.parametrize(
    "text", ["d > '2020-13-45'", "u = 'zz'", "iv > 'soon'", "i4 = '1.5'", "1/0 = i4", "i4 > 5::int2 + 'x'"]
)
def test_a_bad_constant_is_refused_before_any_row(bench: Bench, text: str) -> None:
    with pytest.raises(DPError) as caught:
        compile_predicate(text, bench.scope, bench.fold)
    assert caught.value.sqlstate == "DP003"


@pytest.mark.parametrize("text", PREDICATES)
def test_rows_that_satisfy_a_predicate_satisfy_its_restrictions(bench: Bench, text: str) -> None:
    expression = compile_predicate(text, bench.scope, bench.fold)
    for name in bench.scope.relation.columns:
        found = restriction(expression.conjuncts, bench.scope.items[0], name)
        if found is None:
            continue
        x, type_ = f'r."{name}"', bench.scope.relation.columns[name].type_name
        parts = [f"{x} IN ({', '.join(f'{quote(p)}::{type_}' for p in found.points)})"] if found.points else []
        if found.lower is not None:
            parts.append(f"{x} {'>=' if found.lower_inclusive else '>'} {quote(found.lower)}::{type_}")
        if found.upper is not None:
            parts.append(f"{x} {'<=' if found.upper_inclusive else '<'} {quote(found.upper)}::{type_}")
        outside = f"({expression.sql}) AND ({' AND '.join(parts)}) IS NOT TRUE"
        assert bench.engine.execute(f"SELECT count(*) FROM public.hostile r WHERE {outside}").fetchone() == (0,)


_DECLARED = {
    "i2": ColumnPolicy("bounds", "-1", "5", "3"),
    "i4": ColumnPolicy("bounds", "-10", "100", "10"),
    "i8": ColumnPolicy("bounds", "0", "9223372036854775807", "922337203685477580"),
    "n": ColumnPolicy("bounds", "-2", "3", "0.01"),
    "np": ColumnPolicy("edges", edges=("0", "1", "1e9")),
    "nu": ColumnPolicy("bounds", "-2", "3", "0.5"),
    "b": ColumnPolicy("opaque"),
    "t": ColumnPolicy("domain", domain=("a", "A", "")),
    "bp": ColumnPolicy("domain", domain=("a", "é", "")),
    "d": ColumnPolicy("bounds", "1899-12-01", "2030-12-31", "7 days"),
    "ts": ColumnPolicy("domain", domain=("2000-02-29 00:00:00",)),
    "tz": ColumnPolicy("edges", edges=("2000-01-01 00:00:00+00", "2010-01-01 00:00:00+00", "2030-01-01 00:00:00+00")),
    "tm": ColumnPolicy("bounds", "00:00:00", "24:00:00", "00:45:00"),
    "u": ColumnPolicy("domain", domain=("ffffffff-ffff-ffff-ffff-ffffffffffff",)),
    "m": ColumnPolicy("opaque"),
}


@pytest.mark.parametrize("name", _DECLARED)
def test_group_keys_are_total_and_complete(bench: Bench, name: str) -> None:
    """No hostile value raises; every value inside the declaration gets a declared key, and some value does."""
    column = replace(bench.scope.relation.columns[name], policy=_DECLARED[name])
    policy = _DECLARED[name]
    sql = key_sql(column)
    assert column.policy is not None
    lower, upper = policy.lower, policy.upper
    if policy.edges is not None:
        lower, upper = policy.edges[0], policy.edges[-1]
    inside = "true"
    if lower is not None and upper is not None:
        end = "<" if policy.edges else "<="
        inside = (
            f'r."{name}" >= {quote(lower)}::{column.type_name} AND r."{name}" {end} {quote(upper)}::{column.type_name}'
        )
    elif policy.domain is not None:
        inside = f'r."{name}" IN ({", ".join(f"{quote(v)}::{column.type_name}" for v in policy.domain)})'
    rows = bench.engine.execute(f"SELECT {sql}, ({inside}) IS TRUE FROM public.hostile r").fetchall()
    keys = set(key_domain(column))
    assert any(within for _, within in rows)
    assert {key for key, within in rows if within} <= keys
    if lower is not None or policy.domain is not None:
        assert {key for key, within in rows if not within and key is not None}.isdisjoint(keys)


def test_a_failing_fold_never_shows_the_servers_text(bench: Bench) -> None:
    with pytest.raises(FoldError, match="invalid input syntax"):
        bench.fold(["'zz'::pg_catalog.uuid::pg_catalog.text"])
    with pytest.raises(DPError) as caught:
        compile_predicate("u = 'zz'", bench.scope, bench.fold)
    assert "invalid input syntax" not in caught.value.message
