"""A full disk under the releases: what was paid and could not be recorded is closed, reopened, and answered once."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from faults_clients import Clients

from fix_stack import Stack

SPACE = "brim"
QUESTIONS = 200  # of eight cells each: more than the free pages of dp.release hold


def may_mount() -> bool:
    """Whether this process may mount a file system: then a disk can be full without harming anybody's."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    words = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]
    return subprocess.run(words, capture_output=True, timeout=60).returncode == 0


def full_disk(stack: Stack, clients: Clients) -> int:
    """Ask while dp.release cannot grow, make room, reopen, and ask again: how many questions the disk stopped."""
    with _small_disk(stack) as folder:
        stack.cluster.execute(
            f"CREATE TABLESPACE {SPACE} LOCATION '{folder}'", f"ALTER TABLE dp.release SET TABLESPACE {SPACE}"
        )
        try:
            return _fill_and_ask(stack, clients, folder)
        finally:
            (folder / "filler").unlink(missing_ok=True)
            stack.cluster.execute("ALTER TABLE dp.release SET TABLESPACE pg_default", f"DROP TABLESPACE {SPACE}")


def _fill_and_ask(stack: Stack, clients: Clients, folder: Path) -> int:
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"\0" * 4096)
    for _ in range(QUESTIONS):
        ask, outcome = clients.ask_once("groups")
        if outcome is not None:
            break
    assert outcome == "DP006", f"the disk is not full: {outcome}"
    assert clients.ask_again(ask) == "DP006", "a closed question is asked for nothing"
    (folder / "filler").unlink()
    with stack.cluster.connect("boss") as boss, stack.cluster.connect() as root:
        closed = root.execute("SELECT request_id FROM dp.closed_question").fetchall()
        for (request,) in closed:
            boss.execute("CALL dp.reopen_question(%s)", [request])
    assert clients.ask_again(ask) is None, "a reopened question is answered"
    return len(closed)


@contextlib.contextmanager
def _small_disk(stack: Stack) -> Iterator[Path]:
    folder = stack.cluster.folder / SPACE
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], check=True, timeout=60)
    try:
        if stack.cluster.paths.os_user:
            shutil.chown(folder, stack.cluster.paths.os_user)
        folder.chmod(0o700)
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=60)
