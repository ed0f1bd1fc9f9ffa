"""Copies of a running server: base backups, cold copies, standbys, promotions, recoveries to a point in time."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from fix_cluster import HBA, Cluster, private_cluster, standard
from fix_ledger import count, one
from fix_ports import free_port
from fix_waiting import soon

STORED = "SELECT dp.dp_query(dp.dp_count_request('people', 'age > 30', epsilon => 0.1))"


@contextmanager
def primary_at_work() -> Iterator[Cluster]:
    """Checkpoints take an hour, so that the one after a promotion does not end while a test runs."""
    with private_cluster(checkpoint_timeout="1h", archive_mode="on", archive_command="cp %p ../%f.wal") as running:
        (running.data / "pg_hba.conf").write_text(HBA + "local replication all trust\n")
        standard(running)
        with running.connect("alice") as alice:
            alice.execute(STORED)
        running.execute("CHECKPOINT", "SELECT pg_reload_conf()")
        yield running


@contextmanager
def beside(original: Cluster, *words: str, port: int | None = None) -> Iterator[Cluster]:
    """A copy of the data directory made by a command ({} is the new folder), with a socket and a port of its own."""
    folder = Path(tempfile.mkdtemp(prefix="pge-", dir="/tmp"))
    copy = Cluster(folder, port or free_port(), original.paths)
    try:
        if original.paths.os_user:
            shutil.chown(folder, original.paths.os_user, original.paths.os_user)
        folder.chmod(0o755)
        original.run(*(word.replace("{}", str(folder)) for word in words))
        settle(copy)
        yield copy
    finally:
        copy.stop()
        shutil.rmtree(folder, ignore_errors=True)


def settle(copy: Cluster) -> None:
    """Give a copied data directory the copy's own port and socket, and no archive."""
    with (copy.data / "postgresql.conf").open("a") as conf:
        conf.write(f"port = {copy.port}\nunix_socket_directories = '{copy.folder}'\narchive_mode = off\n")


def base_backup(original: Cluster, *more: str) -> tuple[str, ...]:
    program = str(original.paths.bindir / "pg_basebackup")
    how = ("-h", str(original.folder), "-p", str(original.port), "-U", "postgres", "--no-sync", "-c", "fast")
    return (program, *how, "-D", "{}/data", *more)


COLD = {
    "cp -a": ("cp", "-a", "DATA", "{}/data"),
    "tar": ("bash", "-c", "mkdir -m 700 {}/data && tar -C DATA -cf - . | tar -C {}/data -xpf -"),
    "rsync": ("bash", "-c", "if command -v rsync; then rsync -a DATA/ {}/data/; else cp -pR DATA {}/data; fi"),
}


def cold(original: Cluster, how: str) -> tuple[str, ...]:
    return tuple(word.replace("DATA", str(original.data)) for word in COLD[how])


def put_back(snapshot: Path, data: Path) -> None:
    """Bring back all of a data directory but PG_VERSION: like a copy of the whole disk, or rsync in place."""
    for item in data.iterdir():
        if item.name != "PG_VERSION":
            shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
    for item in snapshot.iterdir():
        if item.name != "PG_VERSION":
            subprocess.run(["cp", "-a", str(item), str(data)], check=True, capture_output=True)


@contextmanager
def stopped(original: Cluster) -> Iterator[None]:
    """What the body starts has the original's place: its port, and nobody beside it."""
    original.stop("fast")
    try:
        yield
    finally:
        original.start()
        with original.connect("alice") as alice:
            count(alice)  # the same directory, started again, is the same ledger


@contextmanager
def standby_of(primary: Cluster) -> Iterator[Cluster]:
    """A standby that has replayed all, with dirty pages of its own, started in the place of its stopped primary."""
    with beside(primary, *base_backup(primary, "-R")) as standby:
        standby.start()
        primary.execute("DROP TABLE IF EXISTS load", "CREATE TABLE load AS SELECT i FROM generate_series(1, 200000) i")
        with primary.connect() as root, standby.connect() as there:
            here = one(root, "SELECT pg_current_wal_flush_lsn()::text")
            assert soon(lambda: one(there, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", here))
        standby.stop("fast")
        with stopped(primary):
            standby.port = primary.port
            settle(standby)
            standby.start()
            yield standby
            standby.stop()


def asked_while_promoted(standby: Cluster) -> list[str]:
    """What a client hears who asks all the time, from before the promotion until `frozen` or five answers."""
    heard: list[str] = []
    with standby.connect("alice") as alice:

        def ask() -> bool:
            try:
                heard.append(f"answer {count(alice, epsilon=0.001)}")
            except psycopg.Error as error:
                assert error.sqlstate == "DP006", error
                heard.append(str(error.diag.message_primary))
            return "frozen" in heard[-1] or sum(word.startswith("answer") for word in heard) == 5

        ask()
        with standby.connect() as root:
            root.execute("SELECT pg_promote(false)")
        assert soon(ask), heard[-3:]
    return heard


@contextmanager
def recovering(primary: Cluster) -> Iterator[Cluster]:
    """A base backup recovered from the archive to its consistent state and promoted, in its stopped primary's place."""
    with beside(primary, *base_backup(primary, "-X", "none"), port=primary.port) as copy:
        primary.execute("SELECT pg_switch_wal()")
        with (copy.data / "postgresql.conf").open("a") as conf:
            conf.write(f"restore_command = 'cp {primary.folder}/%f.wal %p'\n")
            conf.write("recovery_target = 'immediate'\nrecovery_target_action = 'promote'\n")
        copy.run("touch", str(copy.data / "recovery.signal"))
        with stopped(primary):
            copy.start()
            with copy.connect() as root:
                assert soon(lambda: not one(root, "SELECT pg_is_in_recovery()"))
            yield copy
            copy.stop()
