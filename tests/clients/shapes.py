"""Statements that every client asks, the truth beside them, and how far an answer may be from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import fix_chance
from fix_stack import Stack

# What a number that is compared is off by margin() with; a test compares fewer than NUMBERS.
ALARM, NUMBERS = 1e-10, 30


def margin(epsilon: float, sensitivity: int = 1) -> int:
    """|noise| of a discrete Laplace draw of scale sensitivity/epsilon is above this with probability below ALARM."""
    return math.ceil(math.log(2 / ALARM) * sensitivity / epsilon)


CHANCE = max(fix_chance.laplace(s / e, margin(e, s), NUMBERS) for e, s in ((0.1, 1), (0.05, 1), (1, 1), (1, 5)))
"""Of a test that compares answers."""


# Over people, at the dataset's default epsilon of 0.1 a block. {} is the relation: a plain table can take its place.
# The second member: how many aggregates share the block's budget.
SHAPES: list[tuple[str, int]] = [
    ("SELECT count(*) FROM {}", 1),
    ("SELECT COUNT(*) AS n FROM {} AS p WHERE p.age > 40", 1),
    ('SELECT "count"(*) "People, all" FROM public.{}', 1),
    ("SELECT count(city) FROM {}", 1),
    ("SELECT city, count(*) FROM {} GROUP BY city ORDER BY city", 1),
    ("SELECT count(*) AS n, city FROM {} GROUP BY city ORDER BY city NULLS FIRST", 1),
    ("SELECT sex, city, count(*) FROM {} GROUP BY 1, 2 ORDER BY 1, 2", 1),
    ("SELECT count(*) FILTER (WHERE sex = 'f') AS f, count(*) FILTER (WHERE sex = 'm') AS m FROM {}", 2),
    ("WITH c AS (SELECT city, count(*) AS n FROM {} GROUP BY city) SELECT n, city FROM c WHERE city = 'south'", 1),
    ("SELECT n FROM (SELECT count(*) AS n FROM {} WHERE sex = 'f') s", 1),
    ("SELECT (SELECT count(*) FROM {} WHERE sex = 'm') AS men", 1),
    (
        "SELECT 'f' AS s, count(*) FROM {} WHERE sex = 'f'"
        " UNION ALL SELECT 'm', count(*) FROM {} WHERE sex = 'm' ORDER BY 1",
        1,
    ),
    ("SELECT sex, count(*) FROM {} GROUP BY sex HAVING count(*) > -1000 ORDER BY sex LIMIT 2", 1),
    (
        "SELECT city, count(*) FROM {} WHERE joined >= date '2024-02-01' AND city IS NOT NULL"
        " GROUP BY city ORDER BY city",
        1,
    ),
    ("SELECT count(*) FROM {} WHERE income BETWEEN 10 AND 5000.50 AND sex IN ('f', 'm') AND city LIKE 's%'", 1),
    ("TABLE pg_temp.nothing UNION ALL SELECT count(*) FROM {} WHERE age <= 30", 1),
]
# Further expressions over released values: the type is PostgreSQL's, the value follows from the answer.
DERIVED = [
    "SELECT count(*) * 2 AS twice, count(*) / 3.0 AS third, -count(*) AS minus, count(*)::text AS shown FROM {}",
    "SELECT count(*)::numeric(12,2) AS money, count(*)::varchar(9) AS word, NULLIF(count(*), 0) AS n FROM {}",
    "SELECT sex, round(100.0 * count(*) / sum(count(*)) OVER (), 1) AS percent FROM {} GROUP BY sex ORDER BY sex",
    "SELECT upper(sex) AS s, sex || '!' AS t, count(*) + 1 AS n FROM {} GROUP BY sex ORDER BY sex DESC",
    "SELECT json_agg(c ORDER BY c.city) AS doc FROM (SELECT city, count(*) FROM {} GROUP BY city) c",
    "SELECT max(n) - min(n) AS spread FROM (SELECT count(*) AS n FROM {} GROUP BY sex) c",
    "SELECT c.city, c.n, d.label FROM (SELECT city, count(*) AS n FROM {} GROUP BY city) c"
    " JOIN (VALUES ('north', 'N'::char(1))) d(city, label) USING (city)",
    "SELECT DISTINCT city FROM {} ORDER BY city",
    "SELECT age, count(*) FROM {} GROUP BY age ORDER BY age OFFSET 1 LIMIT 3",
]
PLAIN = (
    "CREATE TEMP TABLE IF NOT EXISTS plain"
    " (id int PRIMARY KEY, age int, sex text, city text, income numeric(10,2), joined date, score float8)",
    "CREATE TEMP TABLE IF NOT EXISTS nothing (count bigint)",
)


def over(shape: str, relation: str = "people") -> str:
    """The statement over `relation`; a temporary table has no schema public."""
    return (shape.replace("public.{}", "pg_temp.{}") if relation == "plain" else shape).replace("{}", relation)


def truth(stack: Stack, sql: str) -> list[tuple[Any, ...]]:
    """The exact answer, by the superuser on the private database."""
    with stack.cluster.connect() as owner:
        owner.execute(PLAIN[1])
        return owner.execute(sql.encode()).fetchall()


def check_near(answer: Sequence[Sequence[Any]], exact: Sequence[Sequence[Any]], tolerance: int) -> None:
    """Same keys, every count within `tolerance`. Groups without rows are answered too: they are 0 in truth."""
    known = {tuple(key): counts for key, counts in map(_split, exact)}
    assert len(answer) >= len(exact)
    for row in answer:
        key, counts = _split(row)
        expected = known.get(tuple(key), [0] * len(counts))
        for found, wanted in zip(counts, expected, strict=True):
            assert abs(found - wanted) <= tolerance, (row, wanted)


def _split(row: Sequence[Any]) -> tuple[list[Any], list[int]]:
    return [v for v in row if not isinstance(v, int)], [v for v in row if isinstance(v, int)]
