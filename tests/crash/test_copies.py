"""Copies of a running server: each that starts beside or instead of the original is frozen before its first answer.

Specification: composition.md §12. One primary; base backups, tar, cp -a, rsync, a promoted standby and a recovery to a
point in time are made from it. All are on one file system: where the machine mounts loop devices, test_volumes.py uses
fresh volumes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from fix_cluster import Cluster
from fix_copies import (
    COLD,
    STORED,
    asked_while_promoted,
    base_backup,
    beside,
    cold,
    primary_at_work,
    recovering,
    standby_of,
    stopped,
)
from fix_ledger import balanced, count, no_charge, one, refused, spent

PROMOTED = "CALL dp.confirm_ledger('all', add_epsilon => 0.5)"
# a file system that makes its numbers up: only the timeline is left to tell a promoted standby from its primary
MADE_UP = """CREATE OR REPLACE FUNCTION dp._disk(OUT inode numeric, OUT ctime bigint, OUT file_system text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $$ SELECT NULL::numeric, NULL::bigint, 'overlay' $$;
UPDATE dp.incarnation SET inode = NULL, ctime = NULL"""
# how 0.1.0 read the timeline: it moves when the first checkpoint after the promotion ends
FROM_CONTROL_FILE = """CREATE OR REPLACE FUNCTION dp._place(OUT system_identifier bigint, OUT timeline integer,
  OUT database_oid oid, OUT inode numeric, OUT ctime bigint, OUT file_system text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.system_identifier, c.timeline_id, d.oid, k.inode, k.ctime, k.file_system
  FROM pg_control_system() s, pg_control_checkpoint() c, pg_database d, dp._disk() k
  WHERE d.datname = current_database()
$$; GRANT EXECUTE ON FUNCTION pg_control_checkpoint() TO dp_owner"""


@pytest.fixture(scope="module")
def primary() -> Iterator[Cluster]:
    with primary_at_work() as running:
        yield running


def frozen(copy: Cluster, *words: str) -> None:
    """Nothing is paid or drawn; the refusal names what differs and what to type; stored answers stay readable."""
    with copy.connect("alice") as alice, no_charge(copy):
        for word in ("frozen", "CALL dp.confirm_ledger('people', add_epsilon", *words):
            with refused("DP006", word):
                count(alice)
        assert one(alice, STORED)["notice"]["path"] == "cache"
        assert one(alice, "SELECT bool_and(frozen) FROM dp.budget")


def test_a_base_backup_beside_the_living_original(primary: Cluster) -> None:
    """`dp.repair_channel`, which the first refusal names, never unfreezes (findings B2)."""
    with beside(primary, *base_backup(primary)) as copy:
        copy.start()
        with no_charge(primary), copy.connect("alice") as alice:
            with refused("DP006", "CALL dp.repair_channel()"):
                count(alice)
            with refused("DP006", "CALL dp.confirm_ledger('all', add_epsilon"):
                count(alice)
        copy.psql("CALL dp.repair_channel()")
        frozen(copy, "inode of PG_VERSION")
        with copy.connect("boss") as boss:
            hint = "SELECT hint FROM dp.check() WHERE object = 'people' AND problem ~ '^its accounts are frozen'"
            assert "CALL dp.confirm_ledger('people'" in one(boss, hint)
        with primary.connect("alice") as alice:
            count(alice)


def test_cold_copies_instead_of_the_original(primary: Cluster) -> None:
    with stopped(primary):
        for how in COLD:
            with beside(primary, *cold(primary, how), port=primary.port) as copy:
                copy.start()
                frozen(copy, "inode of PG_VERSION")


def test_a_copy_put_back_in_place(primary: Cluster) -> None:
    """The directory of yesterday under the name of today's: one budget would be spent twice."""
    away, place = primary.folder / "away", primary.data
    with stopped(primary):
        primary.run("cp", "-a", str(place), str(primary.folder / "backup"))
        place.rename(away)
        (primary.folder / "backup").rename(place)
        primary.start()
        frozen(primary, "inode of PG_VERSION")
        primary.stop("fast")
        shutil.rmtree(place)
        away.rename(place)


def test_a_copy_over_the_original(primary: Cluster) -> None:
    """cp writes into the files that are there; what tar puts in their place may get the same inode: the ctime tells."""
    with stopped(primary), beside(primary, *cold(primary, "cp -a"), port=primary.port) as here:
        backup, place = here.folder / "yesterday", here.data
        for over in (f"cp -a {backup}/. {place}/", f"tar -C {backup} -cf - . | tar -C {place} -xpf -"):
            here.start()
            with here.connect("boss") as boss:
                boss.execute("CALL dp.confirm_ledger('all', add_epsilon => 0)")
            with here.connect("alice") as alice:
                count(alice)
            here.stop("fast")
            # its incarnation is the confirmed one
            here.run("bash", "-c", f"rm -rf {backup} && cp -a {place} {backup} && {over}")
            here.start()
            frozen(here, "ctime of PG_VERSION")
            here.stop("fast")


def test_chown_of_everything_freezes_too(primary: Cluster) -> None:
    """The page on backups says so: chown moves the ctime, as a copy over the original does."""
    with stopped(primary), beside(primary, *cold(primary, "cp -a"), port=primary.port) as copy:
        copy.start()
        with copy.connect("boss") as boss:
            boss.execute("CALL dp.confirm_ledger('all', add_epsilon => 0)")
        copy.stop("fast")
        copy.start()
        with copy.connect("alice") as alice:
            count(alice)
        copy.stop("fast")
        copy.run("bash", "-c", f'chown -R "$(id -un)" {copy.data}')
        copy.start()
        frozen(copy, "ctime of PG_VERSION")


def test_a_promoted_standby(primary: Cluster) -> None:
    """Frozen before its first answer, confirmed in that very moment: no checkpoint of it has ended (findings B1)."""
    owe = (
        "INSERT INTO dp.entitlement (request_id, dataset, question, fresh, life) SELECT request_id, dataset, 'q', false"
    )
    primary.execute(owe + ", gen_random_uuid() FROM dp.ledger WHERE kind = 'charge' ORDER BY seq LIMIT 1")
    with standby_of(primary) as standby:
        heard = asked_while_promoted(standby)
        assert "standby" in heard[0]
        assert "frozen" in heard[-1]
        assert not [word for word in heard if word.startswith("answer")]
        frozen(standby, "timeline 1, now 2")
        with standby.connect("boss") as boss, standby.connect() as root:
            assert one(root, "SELECT timeline_id FROM pg_control_checkpoint()") == 1, "the checkpoint has ended"
            boss.execute(PROMOTED)
            assert one(root, "SELECT count(*) FROM dp.entitlement") == 0, "the original may have drawn it"
        before = spent(standby)
        with standby.connect("alice") as alice:
            count(alice, epsilon=0.01)
            count(alice, table="items", epsilon=0.01)
        assert spent(standby) == before + Decimal("0.01")
        balanced(standby)
        with standby.connect() as root:
            said = "SELECT count(*) FROM dp.ledger WHERE kind = 'confirm' AND epsilon = 0.5"
            assert one(root, said) == one(root, "SELECT count(*) FROM dp.dataset")
        standby.stop("fast")
        standby.start()
        with standby.connect("alice") as alice:
            count(alice)


def test_the_timeline_alone_tells(primary: Cluster) -> None:
    """On a file system that makes its inode numbers up. Control: by the control file's timeline the standby answers."""
    kept = one_value(primary, "SELECT pg_get_functiondef('dp._disk()'::regprocedure)")
    place = one_value(primary, "SELECT pg_get_functiondef('dp._place()'::regprocedure)")
    was = one_value(primary, "SELECT row_to_json(i)::text FROM dp.incarnation i")
    try:
        primary.psql(MADE_UP)
        with standby_of(primary) as standby:
            assert not [word for word in asked_while_promoted(standby) if word.startswith("answer")]
            with standby.connect("alice") as alice, refused("DP006", "(timeline 1, now 2)"):
                count(alice)
        primary.psql(FROM_CONTROL_FILE)
        with standby_of(primary) as standby:
            assert [word for word in asked_while_promoted(standby) if word.startswith("answer")], "no blind answer"
    finally:
        primary.execute(str(kept), str(place))
        with primary.connect() as root:
            root.execute(
                "UPDATE dp.incarnation i SET (inode, ctime) = (SELECT j.inode, j.ctime"
                " FROM json_populate_record(NULL::dp.incarnation, %s::json) j)",
                [was],
            )


def one_value(cluster: Cluster, sql: str) -> Any:
    with cluster.connect() as root:
        return one(root, sql)


def test_recovery_to_a_point_in_time(primary: Cluster) -> None:
    with recovering(primary) as copy:
        frozen(copy, "timeline 1, now 2", "inode of PG_VERSION")
