"""What the mark `chance` says of every test, collected by another pytest, and what is wrong with it.

Also the plugin of that pytest, `-p chance_report`: prints every item's probability and words as JSON.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import fix_chance

MARK = "chance: "
ROOT = Path(__file__).resolve().parents[1]
STATES = re.compile(
    r"false[- ]alarm|missed (with|by|only)|once in \d|with probability (below|under|at most|\d*e-|\d+ e\^|e\^)", re.I
)
"""A docstring of a test that says how probable something is."""
CERTAIN = re.compile(r"deterministic|probability is 0|seeded|fixed seed", re.I)


def pytest_collection_finish(session: pytest.Session) -> None:
    for item in session.items:
        print(MARK + json.dumps([item.nodeid, fix_chance.of(item), words(item)]), flush=True)


def words(item: pytest.Item) -> str:
    """The docstring of a test's function."""
    return inspect.getdoc(getattr(item, "function", None)) or ""


class Item(NamedTuple):
    """A test as collected: its node id, what its mark says, its docstring."""

    node: str
    chance: float | None
    words: str


def own(items: list[pytest.Item]) -> list[Item]:
    """The same of what this pytest has collected."""
    return [Item(item.nodeid, fix_chance.of(item), words(item)) for item in items]


def read(lines: list[str]) -> list[Item]:
    return [Item(*json.loads(line.removeprefix(MARK))) for line in lines if line.startswith(MARK)]


def report(*arguments: str, cwd: Path = ROOT) -> list[Item]:
    path = os.pathsep.join(str(ROOT / folder) for folder in ("tests", "extension", "proxy"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "chance_report", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=580,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return read(done.stdout.splitlines())


def too_likely(items: list[Item]) -> list[Item]:
    return [item for item in items if item.chance is not None and not 0 < item.chance <= fix_chance.LIMIT]


def unmarked(items: list[Item]) -> list[str]:
    """Tests whose docstring states a probability, without the mark."""
    stating = {item.node for item in items if STATES.search(item.words) and not CERTAIN.search(item.words)}
    return sorted({item.node.partition("[")[0] for item in items if item.node in stating and item.chance is None})


def silent(items: list[Item], texts: dict[str, str]) -> list[str]:
    """Modules that say so of helpers, in comments or at their head, without a marked test."""
    marked = {item.node.partition("::")[0] for item in items if item.chance is not None}
    return sorted(name for name, text in texts.items() if STATES.search(text) and name not in marked)
