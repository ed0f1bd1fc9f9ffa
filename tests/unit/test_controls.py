"""Negative controls are counted: a broken variant that a test must catch is not lost by moving tests about.

A control is a test whose name says that something broken is caught, seen, found or rejected, or whose docstring says
that it is a control. tests/fixtures/controls.txt lists them; all of them run in CI, so none is marked slow.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
LISTED = TESTS / "fixtures" / "controls.txt"
NAMED = re.compile(r"_(is|are)_(caught|seen|found|rejected)$")
TOLD = re.compile(r"\bcontrols?\b", re.I)


@cache
def controls(root: Path) -> tuple[tuple[str, bool], ...]:
    """(file::test, whether it is marked slow) of every negative control."""
    return tuple(_controls(root))


def _controls(root: Path) -> Iterator[tuple[str, bool]]:
    for file in sorted(root.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
                continue
            if NAMED.search(node.name) or TOLD.search(ast.get_docstring(node) or ""):
                slow = any("slow" in ast.unparse(one) for one in node.decorator_list)
                yield f"{file.relative_to(root)}::{node.name}", slow


def test_no_control_was_lost() -> None:
    """A control that is gone, renamed or new is a change of tests/fixtures/controls.txt, which a review sees."""
    assert sorted({name for name, _ in controls(TESTS)}) == LISTED.read_text(encoding="utf-8").split()


def test_every_control_runs_in_ci() -> None:
    """Of tests in two sizes the large one may be slow, if the small one is a control too."""
    slow = {name for name, is_slow in controls(TESTS) if is_slow}
    fast = {name.partition("::")[0] for name, is_slow in controls(TESTS) if not is_slow}
    assert {name for name in slow if name.partition("::")[0] not in fast} == set()


def test_a_control_is_known_by_its_name_or_its_docstring(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_the_printed_rule_is_caught(): ...\n"
        "@pytest.mark.slow\n"
        'def test_other():\n    """The control."""\n'
        "def test_that_nothing_is_said(): ...\n"
    )
    assert dict(controls(tmp_path)) == {
        "test_it.py::test_the_printed_rule_is_caught": False,
        "test_it.py::test_other": True,
    }
