"""CI leaves out a heavy target only where it passed on the very same inputs (scripts/stamps.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import stamps  # noqa: E402

PASS, FAIL = [sys.executable, "-c", ""], [sys.executable, "-c", "raise SystemExit(3)"]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PYTEST_ARGS", raising=False)
    (tmp_path / "tests/timescale").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    for name in ("Makefile", "tests/timescale/test_it.py", "docs/page.md"):
        (tmp_path / name).write_text(name)

    def files(root: Path) -> list[str]:  # a bare machine has no git
        return sorted(
            str(file.relative_to(root)) for file in root.rglob("*") if ".ci" not in file.parts and file.is_file()
        )

    monkeypatch.setattr(stamps, "tracked", files)
    return tmp_path


def test_what_passed_is_not_needed_until_an_input_changes(tree: Path) -> None:
    assert stamps.is_needed(tree, "test-timescale")
    assert stamps.run(tree, "test-timescale", PASS) == 0
    assert not stamps.is_needed(tree, "test-timescale")
    (tree / "docs/page.md").write_text("no input of this target")
    assert not stamps.is_needed(tree, "test-timescale")
    (tree / "Makefile").write_text("another")
    assert stamps.is_needed(tree, "test-timescale")


def test_an_input_that_is_new_or_gone_counts(tree: Path) -> None:
    stamps.run(tree, "test-timescale", PASS)
    (tree / "tests/timescale/test_it.py").rename(tree / "tests/timescale/test_that.py")
    assert stamps.is_needed(tree, "test-timescale")


def test_a_failure_takes_the_stamp_away(tree: Path) -> None:
    stamps.run(tree, "test-timescale", PASS)
    assert stamps.run(tree, "test-timescale", FAIL) == 3
    assert stamps.is_needed(tree, "test-timescale")


def test_inputs_that_change_while_it_runs_leave_no_stamp(tree: Path) -> None:
    stamps.run(tree, "test-timescale", [sys.executable, "-c", "open('Makefile', 'w').write('changed')"])
    assert stamps.is_needed(tree, "test-timescale")


def test_a_part_of_the_tests_leaves_no_stamp(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ARGS", "-k one")
    assert stamps.run(tree, "test-timescale", PASS) == 0
    assert stamps.is_needed(tree, "test-timescale")


def test_without_git_everything_is_needed(tmp_path: Path) -> None:
    assert stamps.run(tmp_path, "test-timescale", PASS) == 0
    assert stamps.is_needed(tmp_path, "test-timescale")


def test_targets_without_inputs_are_always_needed(tree: Path) -> None:
    assert stamps.is_needed(tree, "test")


@pytest.mark.parametrize("target", stamps.INPUTS)
def test_every_pattern_names_something_here(target: str) -> None:
    names = stamps.tracked(ROOT)
    if names is None:  # a copy of the checkout, as in a chroot: its files are all there is
        names = [str(file.relative_to(ROOT)) for file in ROOT.rglob("*")]
    for pattern in stamps.INPUTS[target]:
        assert any(stamps.fnmatchcase(name, pattern) for name in names), pattern


def test_ci_and_the_makefile_ask_for_every_stamp() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in stamps.INPUTS:
        assert f"scripts/stamps.py run {target} " in makefile
    assert "scripts/stamps.py need" in (ROOT / ".ci/run").read_text()
