"""The two tiers of the tests: what tests/thorough.txt names gets the mark `thorough` and leaves `make test`.

Pure: node ids in, marks out; conftest.py applies them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

LIST = Path(__file__).with_name("thorough.txt")
PART = re.compile(r"1/(\d+) (.+)")


class Rule(NamedTuple):
    """A line of the list: a pattern of node ids, and one of how many that it names stays (0: none)."""

    pattern: str
    stays: int

    def names(self, node: str) -> bool:
        return fnmatchcase(node, self.pattern)

    def is_thorough(self, node: str) -> bool:
        """Which ones stay depends on the node id alone, not on what else was selected."""
        return self.names(node) and not (self.stays and zlib.crc32(node.encode()) % self.stays == 0)


def read(lines: Iterable[str]) -> tuple[Rule, ...]:
    """Comments start with # and fill a line, because node ids may hold one."""
    kept = (line.strip() for line in lines)
    return tuple(_rule(line) for line in kept if line and not line.startswith("#"))


def _rule(line: str) -> Rule:
    part = PART.fullmatch(line)
    return Rule(part[2], int(part[1])) if part else Rule(line, 0)


RULES = read(LIST.read_text(encoding="utf-8").splitlines())


def is_thorough(node: str) -> bool:
    return any(rule.is_thorough(node) for rule in RULES)
