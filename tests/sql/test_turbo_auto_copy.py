"""What was paid and not yet drawn on is no credit in a restored copy: the original may have drawn on it (§12)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, no_charge, one, refused

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
    with standard_cluster() as running:
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


# as engine/witness.py writes it where a proxy has seen what this ledger lacks: the incarnation differs in nothing
WITNESSED = """INSERT INTO dp.freeze (dataset, reason, detail) VALUES ('small', 'witness',
  '{"heads": {"1": 99}, "totals": {"epsilon": "1", "delta": "0", "rdp": []}, "add": "add_epsilon => 0.5"}')"""


def test_a_draw_that_costs_nothing_is_a_link(cluster: Cluster) -> None:
    """A snapshot from before it lacks the link: behind the same proxy it would draw on the payment once more."""
    with cluster.connect("alice") as alice, cluster.connect() as root:
        head = "SELECT number FROM dp.chain_head WHERE dataset = 'small'"
        charge(alice, "b = 0 AND a = 1")
        before = one(root, head)
        assert charge(alice, "b = 0 AND a = 2") == 0
        assert one(root, head) == before + 1
        assert charge(alice, "b = 0 AND a = 2") == 0
        assert one(root, head) == before + 1, "a stored answer is no link"
    balanced(cluster)


@pytest.mark.parametrize("freeze", ["CALL dp.freeze('small')", WITNESSED], ids=["by its owner", "by a witness"])
def test_nothing_is_drawn_on_an_earlier_payment_while_frozen(cluster: Cluster, freeze: str) -> None:
    with cluster.connect("alice") as alice, cluster.connect() as root, cluster.connect("boss") as boss:
        charge(alice, "b = 1 AND a = 1")
        root.execute(freeze.encode())
        with no_charge(cluster), refused("DP006", "frozen"):
            charge(alice, "b = 1 AND a = 2")
        assert charge(alice, "b = 1 AND a = 1") == 0  # a released answer stays readable
        if freeze == WITNESSED:
            boss.execute("CALL dp.confirm_ledger('small', add_epsilon => 0.5)")
            assert charge(alice, "b = 1 AND a = 3") > 0, "the original may have drawn on what was paid"
        else:
            boss.execute("CALL dp.reopen('small')")
            assert charge(alice, "b = 1 AND a = 5") == 0
