"""What was paid and not yet drawn on is no credit in a restored copy: the original may have drawn on it (§12)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, private_cluster, standard
from fix_ledger import one

ROWS = 20_000
DIRECT = Decimal("0.00690775527899")  # ln(1000) / (0.05 * 20000)
SETUP = f"""
CREATE TABLE small (a int, b int);
INSERT INTO small SELECT i % 8, i % 2 FROM generate_series(1, {ROWS}) i;
CALL dp.create_dataset('small', epsilon => 10);
CALL dp.protect('small', 'small', scale => {ROWS});
CALL dp.describe_column('small', 'a', bounds => '{{0,7}}', nullable => false);
CALL dp.describe_column('small', 'b', bounds => '{{0,1}}', nullable => false);
CALL dp.publish('small');
CALL dp.allot('alice', 'small', epsilon => 10);
CALL dp.enable_turbo('small', '{{a,b}}', 0.05, 0.001);
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_cluster() as running:
        standard(running)
        running.psql(SETUP, user="boss")
        yield running


def charge(conn: psycopg.Connection[Any], predicate: str) -> Decimal:
    sql = "SELECT dp.dp_query(dp.dp_count_request('small', %s, alpha => 0.05, beta => 0.001))"
    answer = one(conn, sql, predicate)
    assert isinstance(answer, dict)
    return Decimal(answer["notice"]["charge"].get("epsilon", 0))


def test_a_copy_pays_anew(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice:
        assert DIRECT <= charge(alice, "a = 1") < DIRECT * Decimal("1.0001")
        assert charge(alice, "a = 2") == 0
    with cluster.connect() as root:
        root.execute("UPDATE dp.incarnation SET timeline = timeline + 1")
    with cluster.connect("alice") as alice:
        assert charge(alice, "a = 2") == 0  # a released answer stays readable
        with pytest.raises(psycopg.Error) as refused:
            charge(alice, "a = 3")
        assert refused.value.sqlstate == "DP006"
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.confirm_ledger('small', add_epsilon => 0)")
    with cluster.connect("alice") as alice:
        assert DIRECT <= charge(alice, "a = 3") < DIRECT * Decimal("1.0001")
        assert charge(alice, "a = 4") == 0
