"""After pg_upgrade every account is frozen until it is confirmed, and nothing is lost (composition.md §12).

scripts/pg_upgrade.sh brings PostgreSQL 15 with the Python that its PL/Python loads; 17 is the system's own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import build_sql
import paths as locations
import pytest

from fix_cluster import Cluster, built, cluster_at_work, standard
from fix_ledger import balanced, count, no_charge, one, refused, spent
from fix_turbo import EVEN, ask
from pg_epsilon.engine.chain import parse
from pg_epsilon.engine.verify import Verifier

STORED = "SELECT dp.dp_query(dp.dp_count_request('people', 'age > 30', epsilon => 0.1))"
KEPT = ("ledger", "release", "account", "chain", "chain_head", "role_allotment", "turbo_sv", "incarnation")


@dataclass(frozen=True)
class Older(locations.Paths):
    """PostgreSQL 15 and the packages of its Python."""

    @property
    def server_pythonpath(self) -> str:
        return f"{self.source[0]}:{os.environ['PG_EPSILON_OLDER_PACKAGES']}"


def older() -> Older:
    known: dict[str, Any] = {one_.name: getattr(built(), one_.name) for one_ in fields(built())}
    found = Older(**{**known, "pg_version": 15, "bindir": locations.POSTGRES_ROOT / "15/bin"})
    build_sql.build(found)
    return found


@contextmanager
def upgraded(before: Cluster) -> Iterator[Cluster]:
    """The stopped cluster's data by pg_upgrade in a new one of the system's version, started on the same port."""
    folder = Path(tempfile.mkdtemp(prefix="pge-", dir="/tmp"))
    after = Cluster(folder, before.port, built())
    try:
        if after.paths.os_user:
            shutil.chown(folder, after.paths.os_user, after.paths.os_user)
        folder.chmod(0o755)
        after.create()
        words = [str(after.paths.bindir / "pg_upgrade"), "-U", "postgres", "--socketdir", str(folder)]
        words += ["-b", str(before.paths.bindir), "-B", str(after.paths.bindir)]
        words += ["-d", str(before.data), "-D", str(after.data), "-p", str(before.port), "-P", str(after.port)]
        done = after.run("bash", "-c", f'cd {folder} && exec "$@"', "bash", *words, check=False)
        logs = "".join(file.read_text()[-3000:] for file in after.data.glob("pg_upgrade_output.d/*/log/*dump*.log"))
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:] + logs
        after.start()
        yield after
    finally:
        after.stop()
        shutil.rmtree(folder, ignore_errors=True)


def content(cluster: Cluster) -> dict[str, Any]:
    with cluster.connect() as root:
        sql = "SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM dp.{} t"
        return {table: one(root, sql.format(table)) for table in KEPT}


def verified(cluster: Cluster) -> int:
    verifier = Verifier()
    with cluster.connect() as root:
        for kind, record in root.execute("SELECT kind, content::text FROM dp._ledger_records()"):
            verifier.feed(kind, parse(record))
    verifier.finish()
    return verifier.links


def frozen(cluster: Cluster) -> None:
    """Every dataset, whichever is asked; what was released stays readable."""
    with cluster.connect("alice") as alice, no_charge(cluster):
        for table in ("people", "items"):
            with refused("DP006", "system identifier"):
                count(alice, table=table)
        with refused("DP006", "CALL dp.confirm_ledger('even', add_epsilon"):
            ask(alice, "even", "a = 3")
        assert one(alice, STORED)["notice"]["path"] == "cache"
        assert one(alice, "SELECT bool_and(frozen) FROM dp.budget")


@pytest.fixture(scope="module")
def before() -> Iterator[Cluster]:
    """Version 15 at work: policy, charges, releases, a Turbo view, an allotment that renews."""
    with cluster_at_work(paths=older()) as running:
        running.install()
        standard(running)
        running.psql(EVEN.format(name="even"), user="boss")
        running.psql("CALL dp.allot('bob', 'people', epsilon => 1, per => '1 month')", user="boss")
        with running.connect("alice") as alice, running.connect("bob") as bob:
            alice.execute(STORED)
            count(alice, table="items")
            count(bob)
            ask(alice, "even", "a = 1")
        yield running


def test_every_account_is_frozen_until_it_is_confirmed(before: Cluster) -> None:
    kept, links, was = content(before), verified(before), spent(before)
    before.psql("CALL dp.before_pg_upgrade()")
    before.stop("fast")
    with upgraded(before) as after:
        with after.connect() as root:
            assert one(root, "SELECT current_setting('server_version_num')::int / 10000") == 17
        assert content(after) == kept
        frozen(after)
        after.psql("CALL dp.harden_catalog(); CALL dp.repair_channel()")
        frozen(after)
        assert spent(after) == was
        with after.connect("boss") as boss:
            errors = "SELECT DISTINCT object FROM dp.check() WHERE severity = 'error'"
            assert {row[0] for row in boss.execute(errors)} == {"people", "shop", "even"}, "the freezes alone"
            boss.execute("CALL dp.confirm_ledger('all', add_epsilon => 0)")
            assert boss.execute(errors).fetchall() == []
        with after.connect("alice") as alice:
            assert one(alice, STORED)["notice"]["path"] == "cache"
            count(alice)
            count(alice, table="items")
            ask(alice, "even", "a = 3")
        balanced(after)
        assert verified(after) > links + 3, "the confirmations and what was asked since"
        after.stop("fast")
        after.start()
        with after.connect("alice") as alice:
            count(alice)
