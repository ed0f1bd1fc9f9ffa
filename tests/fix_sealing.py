"""Writers of a day that is being sealed, and what its seal counted."""

from __future__ import annotations

import struct
import threading

import psycopg

from fix_cluster import Cluster
from fix_ledger import one

INSERT = "INSERT INTO {0} SELECT {1}, i % 4 FROM generate_series(1, 50) i"


def counted(cluster: Cluster, table: str, part: int) -> int:
    """Rows that Turbo counted into the bins of a sealed partition: a secret, read by the superuser."""
    sql = (
        "SELECT counts FROM dp.turbo_leaf_counts JOIN dp.turbo_view USING (view)"
        " WHERE relation = %s::regclass AND part = %s"
    )
    with cluster.connect() as root:
        counts = bytes(one(root, sql, table, part))
    return sum(struct.unpack(f">{len(counts) // 4}i", counts))


def race(cluster: Cluster, table: str, key: str, part: int, writers: int = 20) -> tuple[int, int]:
    """Writers commit rows of one partition until they are refused; it is sealed meanwhile: (counted, committed).

    table: two columns, the partition key and an attribute 0 … 3. Each writer has committed once, and goes on, when
    the seal is called: some are in a transaction, which the seal has to wait for, or to make fail.
    """
    ready, ended = threading.Barrier(writers + 1), []

    def write() -> None:
        with cluster.connect("boss") as conn:
            conn.execute(INSERT.format(table, key))
            ready.wait(60)
            try:
                while True:
                    with conn.transaction():
                        conn.execute(INSERT.format(table, key))
                        conn.execute(INSERT.format(table, key))
            except psycopg.Error as error:
                ended.append(str(error.diag.message_primary))

    threads = [threading.Thread(target=write) for _ in range(writers)]
    for thread in threads:
        thread.start()
    with cluster.connect("boss") as boss:
        ready.wait(60)
        boss.execute(f"CALL dp.seal_partition('{table}', {key}::text)")
    for thread in threads:
        thread.join(60)
    assert len(ended) == writers and all("is sealed" in words for words in ended), ended
    with cluster.connect() as root:
        lower, upper = root.execute(
            "SELECT lower, upper FROM dp.turbo_partition JOIN dp.turbo_view USING (view)"
            " WHERE relation = %s::regclass AND part = %s",
            [table, part],
        ).fetchone() or ("", "")
        name = one(root, "SELECT partition_by FROM dp.relation_policy WHERE relation = %s::regclass", table)
        committed = int(one(root, f"SELECT count(*) FROM {table} WHERE {name} >= '{lower}' AND {name} < '{upper}'"))
    return counted(cluster, table, part), committed
