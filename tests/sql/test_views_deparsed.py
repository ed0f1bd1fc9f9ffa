"""What PostgreSQL's deparser writes of an accepted predicate, in a view, is accepted and means the same."""

from __future__ import annotations

import pytest

from fix_hostile import hostile_server
from pg_epsilon.query.expression import compile_predicate
from sql.test_hostile_rows import PREDICATES, Bench, bench

__all__ = ["bench", "hostile_server"]


def deparsed(bench: Bench, text: str) -> str:
    """The predicate as a view's definition has it."""
    bench.asker.execute(f"CREATE TEMP VIEW seen AS SELECT {text} AS p FROM public.hostile".encode())
    try:
        found = bench.asker.execute("SELECT pg_get_viewdef('seen')").fetchone()
    finally:
        bench.asker.execute("DROP VIEW seen")
    assert found is not None
    body, _, _ = found[0].rpartition("\n   FROM ")
    return body.strip().removeprefix("SELECT").rpartition(" AS p")[0]


@pytest.mark.parametrize("text", PREDICATES)
def test_what_a_view_makes_of_a_predicate_means_the_same(bench: Bench, text: str) -> None:
    again = deparsed(bench, text)
    expected = bench.values(compile_predicate(text, bench.scope, bench.fold))
    assert bench.values(compile_predicate(again, bench.scope, bench.fold)) == expected, again
