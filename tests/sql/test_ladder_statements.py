"""Statements of ladders and histograms against Python on random rows: edges, NULLs, groups, blocks, no rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from fix_cluster import cluster_at_work
from pg_epsilon.query.aggregates import ROWS
from pg_epsilon.query.request import Request
from pg_epsilon.query.statistics import HISTOGRAM, PREFIX, SUM, Statistic, collect, statement
from unit.policies import asked, row_policy, user_policy

# `age` is the value; people.day is what conditions are on. The values here are lattice integers already.
TABLE = "CREATE TABLE people (id serial PRIMARY KEY, age bigint, sex text, day date, owner int, note text)"
SMALL, WIDE = "age::pg_catalog.int4", "age"
LATE = "day > '2024-03-01'::date"
Row = tuple[int | None, str | None, bool]


@pytest.fixture(scope="module")
def conn() -> Iterator[psycopg.Connection[Any]]:
    with cluster_at_work() as cluster, cluster.connect(dbname="postgres") as connection:
        connection.execute(TABLE)
        yield connection


def fill(conn: psycopg.Connection[Any], rows: Sequence[Row]) -> None:
    conn.execute("TRUNCATE people")
    with conn.cursor() as cursor, cursor.copy("COPY people (age, sex, day) FROM STDIN") as copy:
        for value, sex, late in rows:
            copy.write_row((value, sex, "2024-05-05" if late else "2024-02-02"))


def answers(
    conn: psycopg.Connection[Any], request: Request, statistics: Sequence[Statistic]
) -> dict[tuple[str | None, ...], list[Any]]:
    with conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(statement(request, statistics).encode()).fetchall()
    return collect(rows, len(request.keys), statistics)


def explained(conn: psycopg.Connection[Any], statistic: Statistic) -> str:
    conn.execute("ANALYZE people")
    text = statement(asked(row_policy()), [statistic])
    with conn.transaction():
        conn.execute("SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL parallel_setup_cost = 0")
        return "\n".join(line for (line,) in conn.execute(f"EXPLAIN {text}".encode()))


def expected(rows: Sequence[Row], statistic: Statistic) -> list[int]:
    """The integers of one statistic, by its definition."""
    kept = [late for _, _, late in rows]
    values = [v for (v, _, _), late in zip(rows, kept, strict=True) if late or statistic.condition is None]
    known = [v for v in values if v is not None]
    if statistic.of == ROWS:
        return [len(values)]
    if not statistic.levels:
        return [sum(known)]
    if statistic.of == PREFIX:
        (levels,) = statistic.levels
        return [sum(v <= t for v in known) for t in levels] + [sum(v for v in known if v <= t) for t in levels]
    found = []
    for sign, levels in zip((1, -1), statistic.levels, strict=False):
        side = [sign * v for v in known if sign * v > 0]
        cut: Callable[[int, int], int] = (lambda v, t: v if v <= t else 0) if statistic.drop else min
        found += [sum(cut(v, t) for v in side) for t in levels]
    return found


def some_levels(rng: random.Random, top: int) -> tuple[int, ...]:
    """Powers of two, as R2T has them, or any; the last may be below some values."""
    if rng.random() < 0.5:
        return tuple(2**j for j in range(1, rng.randint(1, top.bit_length()) + 1))
    return tuple(sorted(rng.sample(range(1, top), rng.randint(1, 20))))


def some_statistic(rng: random.Random, top: int, value: str, *, negative: bool) -> Statistic:
    condition = LATE if rng.random() < 0.3 else None
    kind = rng.choice(["min", "drop", "drop", PREFIX, SUM, ROWS])
    if kind in (SUM, ROWS):
        return Statistic(kind, value if kind == SUM else None, condition)
    if kind == PREFIX and not negative:
        return Statistic(PREFIX, value, condition, levels=(some_levels(rng, top),))
    sides = tuple(some_levels(rng, top) for _ in range(2 if negative else 1))
    return Statistic(SUM, value, condition, levels=sides, drop=kind == "drop")


def some_rows(rng: random.Random, top: int, statistics: Sequence[Statistic], *, negative: bool) -> list[Row]:
    """Values on, just below and just above thresholds, zeros, NULLs and any others; groups of no declared key."""
    ends = [t + d for s in statistics for side in s.levels for t in side for d in (-1, 0, 1)]
    near = [v for v in ends if v <= top]

    def value() -> int | None:
        found = rng.choice([*near, 0, 1, top, rng.randint(0, top), None])
        return found if found is None or not negative else found * rng.choice([-1, 1])

    return [
        (value(), rng.choice(["f", "f", "m", "x", None]), rng.random() < 0.5) for _ in range(rng.choice([0, 1, 60]))
    ]


@pytest.mark.parametrize("seed", range(150))
def test_ladders_are_exact(conn: psycopg.Connection[Any], seed: int) -> None:
    """Deterministic: the false-alarm probability is 0."""
    rng = random.Random(seed)
    negative, (value, top) = rng.random() < 0.4, rng.choice([(SMALL, 2**22), (WIDE, 2**53), (WIDE, 2**30)])
    statistics = [some_statistic(rng, top, value, negative=negative) for _ in range(rng.choice([1, 1, 2, 3]))]
    rows = some_rows(rng, top, statistics, negative=negative)
    fill(conn, rows)
    members: dict[str, Any] = {"keys": ["sex"]} if rng.random() < 0.5 else {}
    request = asked(row_policy(), **members)
    found = answers(conn, request, statistics)
    for group in {(sex,) for _, sex, _ in rows if sex in ("f", "m", None)} if members else {()}:
        own = [row for row in rows if not members or (row[1],) == group]
        assert found.pop(group) == [n for s in statistics for n in expected(own, s)]
    assert found == {}


@pytest.mark.parametrize("seed", range(60))
def test_histograms_are_exact(conn: psycopg.Connection[Any], seed: int) -> None:
    """One or two among counts and sums, each under its own condition. Deterministic."""
    rng = random.Random(seed)
    kinds = [HISTOGRAM, *rng.choices([HISTOGRAM, SUM, ROWS], k=rng.choice([0, 0, 1, 2]))]
    rng.shuffle(kinds)
    statistics = [Statistic(of, None if of == ROWS else WIDE, rng.choice([LATE, None])) for of in kinds]
    rows: list[Row] = [
        (rng.choice([-3, -1, 0, 1, 2, None]), rng.choice(["f", "m", "x", None]), rng.random() < 0.5)
        for _ in range(rng.choice([0, 1, 40]))
    ]
    fill(conn, rows)
    members: dict[str, Any] = {"keys": ["sex"]} if rng.random() < 0.5 else {}
    found = answers(conn, asked(row_policy(), **members), statistics)
    for group in {(sex,) for _, sex, _ in rows if sex in ("f", "m", None)} if members else {()}:
        own = [row for row in rows if not members or (row[1],) == group]
        for s, value in zip(statistics, found.pop(group), strict=True):
            kept = [v for v, _, late in own if v is not None and (late or s.condition is None)]
            if s.of == HISTOGRAM:
                assert sorted(value) == sorted(Counter(kept).items())
            else:
                assert value == expected(own, s)[0]
    assert found == {}


def test_a_histogram_is_one_parallel_scan(conn: psycopg.Connection[Any]) -> None:
    fill(conn, [(i % 50, "f", True) for i in range(20_000)])
    plan = explained(conn, Statistic(HISTOGRAM, WIDE))
    assert plan.count("Scan on people") == 1
    assert "Parallel Seq Scan on people" in plan


@pytest.mark.parametrize("of", [PREFIX, SUM])
def test_powers_of_two_are_on_their_own_level(conn: psycopg.Connection[Any], of: str) -> None:
    """2 is on level 1, 3 and 4 on level 2, 16 on level 4 (dp-pqd.md §2.6), up to 2^53."""
    fill(conn, [(2**j, "f", True) for j in range(1, 54)])
    levels = tuple(2**j for j in range(1, 54))
    found = answers(conn, asked(row_policy()), [Statistic(of, WIDE, levels=(levels,), drop=True)])
    sums = [2 ** (j + 1) - 2 for j in range(1, 54)]
    assert found[()] == ([*range(1, 54), *sums] if of == PREFIX else sums)


@pytest.mark.parametrize(("drop", "count"), [(True, 4), (True, 20), (False, 4), (False, 20)])
def test_a_ladder_is_one_parallel_scan(conn: psycopg.Connection[Any], drop: bool, count: int) -> None:
    """Of either form; workers reduce rows to at most a bucket each before they send anything."""
    fill(conn, [(i, "f", True) for i in range(20_000)])
    levels = tuple(2**j for j in range(1, count))
    plan = explained(conn, Statistic(SUM, SMALL, levels=(levels,), drop=drop))
    assert plan.count("Scan on people") == 1
    assert "Parallel Seq Scan on people" in plan
    assert plan.index("Partial") > plan.index("Gather")


def test_prefix_sums_are_of_rows() -> None:
    with pytest.raises(ValueError, match="of rows"):
        statement(asked(user_policy()), [Statistic(PREFIX, SMALL, levels=((2, 4),))])
