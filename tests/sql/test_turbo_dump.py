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


def ask(cluster: Cluster, dbname: str, predicate: str) -> dict[str, Any]:
    with cluster.connect("alice", dbname) as alice:
        sql = "SELECT dp.dp_query(dp.dp_count_request('kept', %s, alpha => 0.05, beta => 0.00001))"
        answer = one(alice, sql, predicate)
    assert isinstance(answer, dict)
    return answer


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
