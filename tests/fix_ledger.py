"""What the tests of the ledger share: refusals with SQLSTATE and hint, spent budgets, the books in balance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import psycopg

from fix_cluster import Cluster

Connection = psycopg.Connection[Any]


@contextmanager
def refused(sqlstate: str, words: str = "", *, hint: bool = True) -> Iterator[None]:
    """The body must raise `sqlstate` with a message that has `words`, and a HINT."""
    try:
        yield
    except psycopg.Error as error:
        message = f"{error.diag.message_primary} / {error.diag.message_hint}"
        assert error.sqlstate == sqlstate, f"{error.sqlstate}: {message}"
        assert words in message
        assert not hint or error.diag.message_hint
        return
    raise AssertionError(f"not refused with {sqlstate}")


def one(connection: Connection, sql: str, *args: Any) -> Any:
    """The single value that a query returns."""
    row = connection.execute(sql, args).fetchone()
    assert row is not None
    return row[0]


def count(connection: Connection, *, epsilon: float = 0.01, predicate: str | None = None, table: str = "people") -> int:
    """A paid dp_count."""
    sql = "SELECT dp.dp_count(%s, %s, epsilon => %s, fresh => true)"
    return int(one(connection, sql, table, predicate, epsilon))


def spent(cluster: Cluster, dataset: str = "people", role: str = "") -> Decimal:
    """Sum over the accounts of one tree (epsilon)."""
    with cluster.connect() as conn:
        sql = "SELECT COALESCE(sum(spent_epsilon), 0) FROM dp.account WHERE dataset = %s AND role = %s"
        return Decimal(one(conn, sql, dataset, role))


def charges(cluster: Cluster) -> int:
    """Number of ledger rows, those apart that cost nothing: failures, freezes, reopenings."""
    with cluster.connect() as conn:
        return int(one(conn, "SELECT count(*) FROM dp.ledger WHERE kind NOT IN ('failure', 'freeze', 'reopen')"))


def balanced(cluster: Cluster) -> None:
    """Σ ledger = Σ accounts, in both trees; every release belongs to a committed charge."""
    with cluster.connect() as conn:
        assert conn.execute("SELECT * FROM dp._ledger_mismatch()").fetchall() == []
        lonely = "SELECT count(*) FROM dp.release r LEFT JOIN dp.ledger l USING (request_id) WHERE l.request_id IS NULL"
        assert one(conn, lonely) == 0


def forgive(cluster: Cluster) -> None:
    """Opens whatever failures closed, and counts them anew; nothing is owed afterwards."""
    with cluster.connect() as root:
        root.execute("DELETE FROM dp.closed_question; DELETE FROM dp.closed_allotment; DELETE FROM dp.freeze")
        root.execute("SELECT dp._void_entitlements(NULL)")
        again = "dp._ledger_note(d.name, 'boss', 'reopen', 'dp.reopen', NULL)"
        root.execute(f"SELECT dp._chain(ARRAY[{again}]) FROM dp.dataset d")


@contextmanager
def no_charge(cluster: Cluster) -> Iterator[None]:
    """The body must leave ledger, accounts and releases exactly as they were."""

    def state() -> list[Any]:
        with cluster.connect() as conn:
            return [
                one(conn, f"SELECT md5(COALESCE(string_agg(t::text, '|' ORDER BY t::text), '')) FROM dp.{table} t")
                for table in ("ledger", "account", "release", "closed_question")
            ]

    before = state()
    yield
    assert state() == before


def make(cluster: Cluster, name: str, columns: str = "", protect: str = "", allot: str = "1", **dataset: str) -> None:
    """A table and a dataset of that name, published, with an allotment for alice."""
    options = "".join(f", {k} => {v}" for k, v in {"epsilon": "1", **dataset}.items())
    cluster.psql(
        f"CREATE TABLE {name} (id int PRIMARY KEY{columns}); INSERT INTO {name} (id) SELECT generate_series(1, 50);"
        f"CALL dp.create_dataset('{name}'{options}); CALL dp.protect('{name}', '{name}'{protect});"
        f"CALL dp.describe_column('{name}', 'id'); CALL dp.publish('{name}');"
        f"CALL dp.allot('alice', '{name}', epsilon => {allot})",
        user="boss",
    )


def account(cluster: Cluster, dataset: str, role: str = "") -> dict[str, Decimal]:
    with cluster.connect() as conn:
        sql = (
            "SELECT concat_ws('/', node, NULLIF(relation_key, ''), NULLIF(leaf_key, '')), spent_epsilon FROM dp.account"
            " WHERE dataset = %s AND role = %s AND spent_epsilon > 0"
        )
        return dict(conn.execute(sql, [dataset, role]).fetchall())
