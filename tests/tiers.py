"""Marks by node id: what tests/thorough.txt names is `thorough` and leaves `make test`; tests/versions.txt: `versions`.

Pure: node ids in, marks out; conftest.py applies them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
LIST = HERE / "thorough.txt"
PART = re.compile(r"1/(\d+) (.+)")


class Rule(NamedTuple):
    """A line of a list: a pattern of node ids, and one of how many is the part that stays (0: no part of its own)."""

    pattern: str
    stays: int

    def names(self, node: str) -> bool:
        return fnmatchcase(node, self.pattern)

    def is_thorough(self, node: str) -> bool:
        """Which ones stay depends on the node id alone, not on what else was selected."""
        return self.names(node) and not (self.stays and self._is_in_part(node))

    def is_chosen(self, node: str) -> bool:
        """Of a list that chooses: what the part holds, or all."""
        return self.names(node) and (not self.stays or self._is_in_part(node))

    def _is_in_part(self, node: str) -> bool:
        return zlib.crc32(node.encode()) % self.stays == 0


def read(lines: Iterable[str]) -> tuple[Rule, ...]:
    """Comments start with # and fill a line, because node ids may hold one."""
    kept = (line.strip() for line in lines)
    return tuple(_rule(line) for line in kept if line and not line.startswith("#"))


def _rule(line: str) -> Rule:
    part = PART.fullmatch(line)
    return Rule(part[2], int(part[1])) if part else Rule(line, 0)


RULES = read(LIST.read_text(encoding="utf-8").splitlines())
VERSIONS = read((HERE / "versions.txt").read_text(encoding="utf-8").splitlines())


def is_thorough(node: str) -> bool:
    return any(rule.is_thorough(node) for rule in RULES)


def is_of_versions(node: str) -> bool:
    return any(rule.is_chosen(node) for rule in VERSIONS)
