"""The two tiers of the tests: what tests/thorough.txt names gets the mark `thorough` and leaves `make test`.

Pure: node ids in, marks out; conftest.py applies them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

LIST = Path(__file__).with_name("thorough.txt")
THIRDS = "thirds "


class Rule(NamedTuple):
    """A line of the list: a pattern of node ids, and whether a third of what it names stays."""

    pattern: str
    keeps_a_third: bool

    def names(self, node: str) -> bool:
        return fnmatchcase(node, self.pattern)

    def is_thorough(self, node: str) -> bool:
        """Which third stays depends on the node id alone, not on what else was selected."""
        return self.names(node) and not (self.keeps_a_third and zlib.crc32(node.encode()) % 3 == 0)


def read(lines: Iterable[str]) -> tuple[Rule, ...]:
    """Comments start with # and fill a line, because node ids may hold one."""
    kept = (line.strip() for line in lines)
    return tuple(
        Rule(line.removeprefix(THIRDS), line.startswith(THIRDS)) for line in kept if line and not line.startswith("#")
    )


RULES = read(LIST.read_text(encoding="utf-8").splitlines())


def is_thorough(node: str) -> bool:
    return any(rule.is_thorough(node) for rule in RULES)
