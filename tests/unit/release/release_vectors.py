"""The 110 cases of releases that an independent slow programme computed: fixtures/release/vectors.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[2] / "fixtures/release/vectors.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text())["vectors"]


def cases(kind: str) -> dict[str, dict[str, Any]]:
    """Name → input and expected values, of one kind."""
    return {case["name"]: case for case in CASES if case["kind"] == kind}


def same(found: Any, expected: Any) -> bool:
    """Equal to 12 digits, in every place of nested lists and objects."""
    if isinstance(expected, Mapping):
        return set(found) == set(expected) and all(same(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if expected is None or isinstance(expected, bool | str):
        return bool(found == expected)
    return abs(float(found) - expected) <= 1e-11 * max(1, abs(expected))
