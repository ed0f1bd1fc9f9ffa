"""Marks by node id: what tests/thorough.txt names is `thorough` and leaves `make test`; tests/versions.txt: `versions`;
fixtures/controls.txt: `control`.

Pure: node ids in, marks out; conftest.py applies them.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
LIST = HERE / "thorough.txt"
WILD = re.compile(r"[*?[]")
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
CONTROLS = frozenset((HERE / "fixtures" / "controls.txt").read_text(encoding="utf-8").split())
# What there was before tests moved between tiers: collected at ba58045; controls at a4baae1, where the list begins.
TESTS_THEN, CONTROLS_THEN = 10842, 70
VERSIONS = read((HERE / "versions.txt").read_text(encoding="utf-8").splitlines())


class List:
    """Rules by the file that they name: a collection asks for 15,000 node ids, and each knows its file."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._of: dict[str, list[Rule]] = defaultdict(list)
        for rule in rules:
            file = rule.pattern.partition("::")[0]
            self._of["" if WILD.search(file) else file].append(rule)

    def of(self, node: str) -> Iterator[Rule]:
        """Those that may name a test."""
        return chain(self._of.get(node.partition("::")[0], ()), self._of.get("", ()))


_thorough, _versions = List(RULES), List(VERSIONS)


def is_thorough(node: str) -> bool:
    return any(rule.is_thorough(node) for rule in _thorough.of(node))


def is_of_versions(node: str) -> bool:
    return any(rule.is_chosen(node) for rule in _versions.of(node))


def is_control(node: str) -> bool:
    """Whether a test is a negative control, which unit/test_controls.py finds by name or docstring."""
    return node.partition("[")[0].removeprefix("tests/") in CONTROLS
