"""Where the data directory is: the part of dp.incarnation that the operating system knows (composition.md §12)."""

from __future__ import annotations

import os

# Their inode numbers and times are made up by the file system or by another machine: the same directory may show others
# after a restart, and would freeze.
_UNSTABLE = ("fuse", "virtiofs", "overlay", "aufs", "9p", "nfs", "cifs", "smb3", "vboxsf")
UNKNOWN = "unknown"
_kinds: dict[int, str] = {}


def data_directory() -> tuple[int | None, int | None, str]:
    """Inode and ctime (nanoseconds) of the data directory's PG_VERSION, and the type of its file system.

    A server's process works in its data directory. Base backups, tar, cp and rsync to another directory write another
    file, and a copy over the original changes the time; a restart changes neither. The two numbers are None on file
    systems that make them up. They are read at every call; only the type is remembered, by device, because a process
    cannot leave the file system of its working directory. Errors: OSError if PG_VERSION cannot be read.
    """
    found = os.stat("PG_VERSION")
    kind = _kinds.get(found.st_dev)
    if kind is None:
        kind = _kinds[found.st_dev] = file_system("PG_VERSION")
    if kind == UNKNOWN or kind.startswith(_UNSTABLE):
        return None, None, kind
    return found.st_ino, found.st_ctime_ns, kind


def file_system(path: str) -> str:
    """The type of the file system that holds a file, by the number of its mount; `unknown` without /proc."""
    try:
        with open(path, "rb") as file, open(f"/proc/self/fdinfo/{file.fileno()}", encoding="utf-8") as info:
            number = next(line.split()[1] for line in info if line.startswith("mnt_id:"))
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            fields = next(words for line in mounts if (words := line.split())[0] == number)
        return fields[fields.index("-", 6) + 1]
    except (OSError, StopIteration, ValueError, IndexError):
        return UNKNOWN
