"""What a run has collected, before anything was deselected: a test about all tests need not collect them again."""

from __future__ import annotations

from pathlib import Path

import pytest

COLLECTED = pytest.StashKey[list[pytest.Item]]()
HERE = Path(__file__).parent


def everything(config: pytest.Config) -> list[pytest.Item]:
    """All items, where the run began with every file that `make test` begins with; else none."""
    found = config.stash.get(COLLECTED, [])
    elsewhere = set(config.getini("norecursedirs"))
    files = {file for file in HERE.rglob("test_*.py") if not elsewhere & {*file.relative_to(HERE).parts}}
    return found if files <= {item.path for item in found} else []
