"""Resident memory of a program and its children, read from /proc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class Closing(Protocol):
    """Something that is opened by the dozen and closed."""

    def close(self) -> None: ...


def resident_mb(pid: int) -> float:
    """MB of `pid` and of every process below it; pages that they share count once for each."""
    return sum(_resident_kb(one) for one in _family(pid)) / 1024


def used_by(pid: int, opened: Callable[[], Closing], count: int) -> float:
    """MB that `pid` takes for each of `count` things that are open at once."""
    before = resident_mb(pid)
    things = [opened() for _ in range(count)]
    after = resident_mb(pid)
    for thing in things:
        thing.close()
    return (after - before) / count


def _resident_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)


def _family(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += [int(child) for child in children.read_text().split()]
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def peak_mb(pid: int) -> float:
    """The most MB that one process has had resident."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)
