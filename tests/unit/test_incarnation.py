"""What the operating system says of the data directory: read anew at every call, left out where it is made up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pg_epsilon.engine import incarnation


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(incarnation, "_kinds", {})
    monkeypatch.setattr(incarnation, "file_system", lambda path: "ext4")
    (tmp_path / "PG_VERSION").write_text("15\n")
    return tmp_path


def test_inode_and_ctime_of_pg_version(directory: Path) -> None:
    found = os.stat("PG_VERSION")
    assert incarnation.data_directory() == (found.st_ino, found.st_ctime_ns, "ext4")
    assert incarnation.data_directory() == incarnation.data_directory()


def test_another_file_under_the_name_is_seen_at_once(directory: Path) -> None:
    before = incarnation.data_directory()
    (directory / "copy").write_text("15\n")
    (directory / "copy").rename(directory / "PG_VERSION")
    inode, ctime, _ = incarnation.data_directory()
    assert inode != before[0]
    assert ctime != before[1]


@pytest.mark.parametrize(
    "kind", ["fuse.sshfs", "fuseblk", "virtiofs", "overlay", "9p", "nfs", "nfs4", "cifs", "unknown"]
)
def test_numbers_that_are_made_up_are_left_out(directory: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(incarnation, "file_system", lambda path: kind)
    assert incarnation.data_directory() == (None, None, kind)


def test_the_file_system_is_the_mounts() -> None:
    """By the number of the mount that holds the file: /proc is one of its own on every Linux."""
    assert incarnation.file_system("/proc/self/status") == "proc"
    assert incarnation.file_system("/no/such/file") == incarnation.UNKNOWN


def test_a_directory_without_pg_version_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match="PG_VERSION"):
        incarnation.data_directory()
