"""What this proxy has seen of the ledger's chains, in a file of its own (composition.md §12).

A restored copy of the whole disk looks like the original to its own server. The proxy remembers, outside that disk, the
newest head of every dataset that an answer carried, and names it in every question: the engine refuses a ledger that
lacks it. All worker processes of a proxy, and proxies that share a directory, share the file.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pg_epsilon_proxy.logs import event

log = logging.getLogger("pg_epsilon_proxy.witness")

FILE = "witness.json"
Heads = dict[str, dict[str, Any]]


class WitnessError(OSError):
    """The file cannot be read or written: no paid answer may go on."""


class Witness:
    """The highest head of each dataset: by epoch, then number. Replies that overtake each other do no harm."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._file = self._directory / FILE
        self._stamp: tuple[int, int, int] | None = None
        self._heads: Heads = {}
        self._waiting: Heads = {}
        self._turn = asyncio.Lock()

    def open(self) -> None:
        """Look at the file, and say so where there is none: then the first heads are believed. Raises WitnessError."""
        if not self.heads():
            event(log, logging.WARNING, "no witness of the ledger yet: the first head is taken", file=str(self._file))

    def heads(self) -> Heads:
        """What is known by now, also from other processes. Raises WitnessError."""
        try:
            with self._file.open("rb") as file:
                facts = os.fstat(file.fileno())
                stamp = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
                if stamp != self._stamp:
                    self._heads, self._stamp = _parsed(file.read()), stamp
        except FileNotFoundError:
            if self._stamp is not None:
                event(log, logging.ERROR, "the witness of the ledger is gone: the first head is taken")
            self._heads, self._stamp = {}, None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WitnessError(f"{self._file}: {getattr(error, 'strerror', None) or 'not a witness file'}") from None
        return self._heads

    def text(self) -> str:
        """The heads as a question names them."""
        return json.dumps([{"id": name, **head} for name, head in sorted(self.heads().items())])

    async def keep(self, head: Mapping[str, Any]) -> None:
        """Return when the file holds this head or a higher one, safely on disk. Raises WitnessError.

        Many at once are written once.
        """
        name, known = str(head["id"]), {key: head[key] for key in ("epoch", "number", "hash", "totals")}
        if not _above(known, self.heads().get(name)):
            return
        if _above(known, self._waiting.get(name)):
            self._waiting[name] = known
        async with self._turn:
            if not _above(known, self.heads().get(name)):
                return  # whoever wrote meanwhile wrote this one too
            waiting, self._waiting = self._waiting, {}
            try:
                await asyncio.to_thread(self._write, {**waiting, name: _higher(known, waiting.get(name))})
            except OSError as error:
                raise WitnessError(f"{self._file}: {error.strerror}") from None

    def _write(self, more: Heads) -> None:
        """Merge into the file: another process may have written; the last rename must hold everything."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._directory / f"{FILE}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            heads = _parsed(self._file.read_bytes()) if self._file.exists() else {}
            for name, head in more.items():
                heads[name] = _higher(head, heads.get(name))
            fresh = self._directory / f"{FILE}.new"
            with fresh.open("w") as file:
                json.dump({"version": 1, "heads": heads}, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._file)
            folder = os.open(self._directory, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _above(head: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    return other is None or (head["epoch"], head["number"]) > (other["epoch"], other["number"])


def _higher(head: dict[str, Any], other: dict[str, Any] | None) -> dict[str, Any]:
    return head if other is None or _above(head, other) else other


def _parsed(content: bytes) -> Heads:
    """Raises ValueError, KeyError or TypeError for what is no witness file."""
    document = json.loads(content)
    if document["version"] != 1:
        raise ValueError("of another version")
    heads: Heads = document["heads"]
    for head in heads.values():
        if not (isinstance(head["epoch"], int) and isinstance(head["number"], int) and isinstance(head["hash"], str)):
            raise ValueError("no head")
    return heads
