"""Cold copies on fresh volumes, whose first files have the same inode numbers: the ctime tells them apart.

Specification: composition.md §12. Volumes are loop-mounted images, which takes root, a loop device and mkfs.ext4. Where
the machine lacks one of them the copies are on two directories, whose inode numbers differ: that is a weaker case.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fix_cluster import Cluster
from fix_copies import primary_at_work, settle
from fix_ledger import count, one, refused
from fix_ports import free_port


def _root(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def _can_mount() -> bool:
    """Whether this machine lets us mount a loop device: tried, because a container may have one that it may not use."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists() or shutil.which("mkfs.ext4") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        image, place = Path(folder) / "image", Path(folder) / "place"
        place.mkdir()
        try:
            _root("truncate", "-s", "8M", str(image))
            _root("mkfs.ext4", "-q", str(image))
            _root("mount", "-o", "loop", str(image), str(place))
        except subprocess.CalledProcessError:
            return False
        _root("umount", str(place))
        return True


MOUNTS = _can_mount()


@contextmanager
def on_a_fresh_volume(original: Cluster) -> Iterator[Cluster]:
    """A cold copy by tar, in the order of the names, on a new ext4; both are started, the copy on a port of its own."""
    folder = Path(tempfile.mkdtemp(prefix="pge-", dir="/tmp"))
    image = folder.with_suffix(".img")
    copy = Cluster(folder, free_port(), original.paths)
    try:
        if MOUNTS:
            _root("truncate", "-s", "1G", str(image))
            _root("mkfs.ext4", "-q", str(image))
            _root("mount", "-o", "loop", str(image), str(folder))
        if original.paths.os_user:
            shutil.chown(folder, original.paths.os_user, original.paths.os_user)
        folder.chmod(0o755)
        original.stop("fast")
        take = f"mkdir -m 700 {folder}/data && tar -C {original.data} --sort=name -cf - ."
        original.run("bash", "-c", f"export LC_ALL=C; {take} | tar -C {folder}/data -xpf -")
        original.start()
        settle(copy)
        copy.start()
        copy.psql("CALL dp.repair_channel()")
        yield copy
    finally:
        copy.stop()
        if MOUNTS:
            subprocess.run(["umount", str(folder)], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
        image.unlink(missing_ok=True)


@pytest.mark.slow
def test_two_cold_copies_on_fresh_volumes() -> None:
    inode = "SELECT inode FROM dp._disk()"
    tells = "ctime of PG_VERSION" if MOUNTS else "inode of PG_VERSION"
    with primary_at_work() as primary, on_a_fresh_volume(primary) as first:
        with first.connect("boss") as boss:
            boss.execute("CALL dp.confirm_ledger('all', add_epsilon => 1)")
        with first.connect("alice") as alice:
            count(alice)
        with on_a_fresh_volume(first) as second:
            with first.connect() as root, second.connect() as other:
                assert (one(root, inode) == one(other, inode)) == MOUNTS, "the case that this is about"
            with second.connect("alice") as alice, refused("DP006", tells):
                count(alice)
            with first.connect("alice") as alice:
                count(alice)
