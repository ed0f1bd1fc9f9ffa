"""Turbo on a real cluster: views without partitions, end to end through dp_count and its kin (turbo.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, private_cluster, standard
from fix_ledger import account, balanced, no_charge, one, refused

ALPHA, BETA = 0.05, 0.001
ROWS = 20_000
COVID = f"""
CREATE TABLE covid (id int, age int, sex text, positive bool, region text, visits int);
INSERT INTO covid SELECT i, i * 7 % 90, (ARRAY['f','m'])[1 + i % 2], i % 10 = 0, (ARRAY['n','s','e',NULL])[1 + i % 4], i % 8
FROM generate_series(1, {ROWS}) i;
CALL dp.create_dataset('covid', epsilon => 100);
CALL dp.protect('covid', 'covid', scale => {ROWS});
CALL dp.describe_column('covid', 'id');
CALL dp.describe_column('covid', 'age', edges => '{{0,18,50,65,90}}', nullable => false);
CALL dp.describe_column('covid', 'sex', domain => '{{f,m}}', nullable => false);
CALL dp.describe_column('covid', 'positive', nullable => false);
CALL dp.describe_column('covid', 'region', domain => '{{n,s,e}}');
CALL dp.describe_column('covid', 'visits', bounds => '{{0,7}}', resolution => '1', nullable => false);
CALL dp.publish('covid');
CALL dp.allot('alice', 'covid', epsilon => 50);
CALL dp.allot('bob', 'covid', epsilon => 100);
CALL dp.enable_turbo('covid', '{{age,sex,positive,region,visits}}', {ALPHA}, {BETA});
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_cluster() as running:
        standard(running)
        running.psql(COVID, user="boss")
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


def ask(conn: psycopg.Connection[Any], predicate: str | None, **parameters: Any) -> dict[str, Any]:
    """The whole answer of a dp_count by accuracy."""
    given = {"alpha": ALPHA, "beta": BETA, **parameters}
    arguments = "".join(f", {name} => {value}" for name, value in given.items())
    sql = f"SELECT dp.dp_query(dp.dp_count_request('covid', %s{arguments}))"
    answer = one(conn, sql, predicate)
    assert isinstance(answer, dict)
    return answer


def value(answer: dict[str, Any]) -> int:
    return int(answer["rows"][0][-1])


def true(cluster: Cluster, predicate: str) -> int:
    with cluster.connect() as root:
        return int(one(root, f"SELECT count(*) FROM covid WHERE {predicate}"))


def test_a_count_is_answered_by_turbo_then_from_its_cache(cluster: Cluster) -> None:
    """Bypass at ln(1/beta) / (alpha n~), then a free hit, whoever asks and however it is written; margin alpha n~."""
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob:
        first = ask(alice, "age >= 18 AND sex = 'f'")
        assert first["notice"]["path"] == "bypass"
        assert Decimal(first["notice"]["charge"]["epsilon"]) == Decimal("0.00690775527899")
        assert abs(value(first) - true(cluster, "age >= 18 AND sex = 'f'")) <= ALPHA * ROWS
        for same in ("sex = 'f' AND NOT age < 18", "sex <> 'm' AND age > 17", "age BETWEEN 18 AND 89 AND sex IN ('f')"):
            with no_charge(cluster):
                again = ask(bob, same)
            assert again["notice"]["path"] == "exact"
            assert again["rows"] == first["rows"]
    assert set(account(cluster, "covid")) == {"relation/public.covid"}
