"""Every row of the attack-surface table is covered by attacks and tests that exist; and what nothing else shows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from test_attacks import EVERY

from pg_epsilon_proxy.session.facade_link import FacadeLink
from pg_epsilon_proxy.wire import messages

ROOT = Path(__file__).resolve().parents[2]
ROWS = 23


def load() -> dict[int, tuple[str, list[str]]]:
    """By number: the surface, and what covers it."""
    found: dict[int, tuple[str, list[str]]] = {}
    number = 0
    for line in Path(__file__).with_name("a7_rows.txt").read_text().splitlines():
        if line.startswith("  "):
            found[number][1].append(line.strip())
        elif line and not line.startswith("#"):
            first, _, surface = line.partition(" | ")
            number = int(first)
            assert number not in found
            found[number] = (surface, [])
    return found


TABLE = load()


def functions(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_table_is_whole() -> None:
    assert sorted(TABLE) == list(range(1, ROWS + 1))


@pytest.mark.parametrize("number", TABLE, ids=[surface for surface, _ in TABLE.values()])
def test_a_row_is_covered(number: int) -> None:
    """By at least one attack or test, and all that it names exist."""
    _, cover = TABLE[number]
    names = {attack.name for attack in EVERY}
    assert cover
    for item in cover:
        path, _, function = item.partition("::")
        if function:
            assert function in functions(path), item
        else:
            assert item in names


def test_the_engine_keeps_nothing_of_an_analyst_in_its_session() -> None:
    """PL/Python's GD and SD outlive SET ROLE and DISCARD ALL: the engine uses neither, in SQL or in Python."""
    sources = [*(ROOT / "sql").rglob("*.sql"), *(ROOT / "extension/pg_epsilon").rglob("*.py")]
    assert len(sources) > 50
    assert [str(path) for path in sources if re.search(r"\b(GD|SD)\b", path.read_text())] == []


def test_the_residue_of_time_is_named() -> None:
    assert "Timing is outside the formal guarantee" in (ROOT / "README.md").read_text()


def test_an_error_without_a_code_is_an_error() -> None:
    """Neither taken for a success, nor for a reason to end the process."""
    raw = messages.message(b"E", b"SERROR\0Mnothing\0\0")
    link = FacadeLink.__new__(FacadeLink)
    link.statuses = {}
    error = link.error(raw)
    assert error.sqlstate == ""
    assert error.raw == raw
