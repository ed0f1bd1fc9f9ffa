"""A Turbo view in a dump: what it learned and cached is restored, its secrets are not (composition.md §12)."""

from __future__ import annotations

from typing import Any

import pytest

import fix_chance
from fix_cluster import PASSWORD, PRIVATE, Cluster, private_cluster, standard
from fix_ledger import one, refused

ROWS = 20_000
SETUP = f"""
CREATE TABLE kept (a int, b int);
INSERT INTO kept SELECT i % 4, CASE WHEN i % 10 = 0 THEN 1 ELSE 0 END FROM generate_series(1, {ROWS}) i;
CALL dp.create_dataset('kept', epsilon => 10);
CALL dp.protect('kept', 'kept', scale => {ROWS});
CALL dp.describe_column('kept', 'a', bounds => '{{0,3}}', nullable => false);
CALL dp.describe_column('kept', 'b', bounds => '{{0,1}}', nullable => false);
CALL dp.publish('kept');
CALL dp.allot('alice', 'kept', epsilon => 10);
CALL dp.enable_turbo('kept', '{{a,b}}', 0.05, 0.00001, planner => 'turbo', settings => '{{"c0": 0, "s0": 1}}');
"""
NO_SECRET = "SELECT (SELECT count(*) FROM dp.turbo_sv) + (SELECT count(*) FROM dp.turbo_leaf_counts)"


def ask(cluster: Cluster, dbname: str, predicate: str, name: str = "kept") -> dict[str, Any]:
    with cluster.connect("alice", dbname) as alice:
        sql = f"SELECT dp.dp_query(dp.dp_count_request('{name}', %s, alpha => 0.05, beta => 0.00001))"
        answer = one(alice, sql, predicate)
    assert isinstance(answer, dict)
    return answer


def restore(cluster: Cluster) -> None:
    """A copy of the private database, by pg_dump and pg_restore, in the same cluster: database copy."""
    file = cluster.folder / "kept.dump"
    cluster.run(str(cluster.paths.bindir / "pg_dump"), "-Fc", "-f", str(file), "-d", cluster.dsn())
    cluster.execute("CREATE DATABASE copy TEMPLATE template0", dbname="postgres")
    cluster.run(
        str(cluster.paths.bindir / "pg_restore"), "--exit-on-error", "-d", cluster.dsn(dbname="copy"), str(file)
    )
    folder = cluster.paths.destdir / f"usr/share/postgresql/{cluster.paths.pg_version}/extension"
    cluster.psql((folder / "pg_epsilon_install.sql").read_text(), dbname="copy")
    cluster.execute(
        "GRANT CONNECT ON DATABASE copy TO boss, dp_analyst",
        f"ALTER ROLE alice PASSWORD '{PASSWORD}'",
        dbname="copy",
    )


@pytest.mark.chance(
    fix_chance.union(fix_chance.laplace_sum(2, 23), fix_chance.laplace_sum(2, 23), fix_chance.beyond(28, 3))
)
def test_a_dump_holds_no_secret_and_a_restored_view_starts_again() -> None:
    """A test of an error of 0 has 23 scales of its noise to the threshold; answers may be off by 28 scales."""
    with private_cluster() as cluster:
        standard(cluster)
        cluster.psql(SETUP, user="boss")
        assert ask(cluster, PRIVATE, "a = 1")["notice"]["path"] == "histogram (PASS)"
        failed = ask(cluster, PRIVATE, "b = 1")
        ask(cluster, PRIVATE, "a = 2 AND b = 0")
        with cluster.connect() as root:
            assert one(root, NO_SECRET) == 2
            learned = root.execute("SELECT node, seq, event FROM dp.turbo_hist_update ORDER BY seq").fetchall()
        restore(cluster)
        with cluster.connect(dbname="copy") as root:
            assert one(root, NO_SECRET) == 0
            assert root.execute("SELECT node, seq, event FROM dp.turbo_hist_update ORDER BY seq").fetchall() == learned
        with refused("DP006", "restored copy"):
            ask(cluster, "copy", "a = 1")
        stored = ask(cluster, "copy", "b = 1")
        assert (stored["notice"]["path"], stored["rows"]) == ("exact", failed["rows"])
        with cluster.connect("boss", "copy") as boss:
            boss.execute("CALL dp.confirm_ledger('kept', add_epsilon => 0.5)")
            problems = "SELECT count(*) FROM dp.check() WHERE problem ~ 'Turbo does not answer.*counts are missing'"
            assert one(boss, problems) == 1
            with refused("DP006", "dp.refresh"):
                ask(cluster, "copy", "a = 3 AND b = 0")
            boss.execute("CALL dp.refresh('kept')")
            assert one(boss, problems) == 0
        again = ask(cluster, "copy", "b = 1")
        assert again["notice"]["path"] != "exact"
        assert abs(int(again["rows"][0][0]) - ROWS // 10) <= 2.5 * 0.05 * ROWS
        assert again["notice"]["as_of"] >= failed["notice"]["as_of"]


REMOVED = """
CREATE TABLE days (day date, a int);
INSERT INTO days SELECT DATE '2024-01-01' + i % 4, i / 4 % 2 FROM generate_series(1, 4000) i;
CALL dp.create_dataset('days', epsilon => 10);
CALL dp.protect('days', 'days', partition_by => 'day', grid => '{"origin": "2024-01-01", "width": "1 day"}');
CALL dp.describe_column('days', 'day');
CALL dp.describe_column('days', 'a', bounds => '{0,1}', nullable => false);
CALL dp.publish('days');
CALL dp.allot('alice', 'days', epsilon => 10);
CALL dp.enable_turbo('days', '{a}', 0.05, 0.00001, 'day', true, scale => 1000);
CALL dp.seal_partitions('days', until => '2024-01-05');
CALL dp.retain('days', '2024-01-03', keep_counts => true);
"""


@pytest.mark.chance(fix_chance.accuracy(4, 2, 1e-5))
def test_counts_that_were_kept_without_rows_are_in_no_dump() -> None:
    """A copy knows that rows were removed: it serves what was stored, and never counts those days as empty unasked."""
    first = "day >= '2024-01-01' AND day < '2024-01-03' AND a = {}"
    with private_cluster() as cluster:
        standard(cluster)
        cluster.psql(REMOVED, user="boss")
        before = ask(cluster, PRIVATE, first.format(1), "days")
        restore(cluster)
        with cluster.connect("boss", "copy") as boss:
            boss.execute("CALL dp.confirm_ledger('days', add_epsilon => 0)")
            boss.execute("CALL dp.refresh('days')")
            stored = ask(cluster, "copy", first.format(1), "days")
            assert stored["rows"] == before["rows"] and stored["notice"]["charge"] == {}
            assert stored["notice"]["warnings"] == before["notice"]["warnings"]
            assert "counts there are those of the seal" in stored["notice"]["text"]
            with refused("DP006", "their rows were removed"):
                ask(cluster, "copy", first.format(0), "days")
            later = ask(cluster, "copy", "day = '2024-01-03' AND a = 1", "days")
            assert abs(int(later["rows"][0][0]) - 500) <= 4 * 50
            boss.execute("CALL dp.retain('days', '2024-01-03', keep_counts => false)")
            none = ask(cluster, "copy", first.format(1), "days")
            assert abs(int(none["rows"][0][0])) <= 4 * 100 and none["notice"]["charge"]
