"""Questions to Turbo in a real cluster, their true answers, and a large even table."""

from __future__ import annotations

from typing import Any

import psycopg

from fix_cluster import Cluster
from fix_ledger import one

EVEN_ROWS = 32_768
# A table of four columns of 0 … 7, eight rows in every bin. {name} is its name, and its dataset's.
EVEN = "".join(
    [
        "CREATE TABLE {name} (a int, b int, c int, d int);",
        "INSERT INTO {name} SELECT i % 8, i / 8 % 8, i / 64 % 8, i / 512 % 8",
        f" FROM generate_series(1, {EVEN_ROWS}) i;",
        "CALL dp.create_dataset('{name}', epsilon => 10);",
        f"CALL dp.protect('{{name}}', '{{name}}', scale => {EVEN_ROWS});",
        *(
            f"CALL dp.describe_column('{{name}}', '{column}', bounds => ARRAY['0','7'], nullable => false);"
            for column in "abcd"
        ),
        "CALL dp.publish('{name}');",
        "CALL dp.allot('alice', '{name}', epsilon => 10);",
        "CALL dp.allot('dp_planner', '{name}', epsilon => 5);",
        "CALL dp.enable_turbo('{name}', ARRAY['a','b','c','d'], 0.05, 0.001);",
    ]
)


def ask(
    conn: psycopg.Connection[Any], name: str, predicate: str, call: str = "query", beta: str = "0.001"
) -> dict[str, Any]:
    """The whole answer of a dp_count by accuracy, or its plan."""
    sql = f"SELECT dp.dp_{call}(dp.dp_count_request('{name}', %s, alpha => 0.05, beta => {beta}))"
    answer = one(conn, sql, predicate)
    assert isinstance(answer, dict)
    return answer


def true(cluster: Cluster, name: str, predicate: str) -> int:
    with cluster.connect() as root:
        return int(one(root, f"SELECT count(*) FROM {name} WHERE {predicate}".replace("%", "%%")))
