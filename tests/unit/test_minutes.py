"""Minutes by folder (tests/fix_minutes.py): every phase of every worker is summed once, the dearest is first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fix_minutes
from fix_minutes import Phase, Share

TESTS = Path(fix_minutes.__file__).parent
SQL, UNIT = "tests/sql/test_a.py::test_x[a/b::c]", "tests/unit/wire/test_b.py::test_y"


@pytest.mark.parametrize(
    ("node", "folder", "file"),
    [
        (SQL, "sql", "sql/test_a.py"),
        (UNIT, "unit", "unit/wire/test_b.py"),
        ("tests/test_c.py::test_z", "test_c.py", "test_c.py"),
        ("test_c.py::test_z", "test_c.py", "test_c.py"),
    ],
)
def test_where_a_test_is(node: str, folder: str, file: str) -> None:
    assert (fix_minutes.folder(node), fix_minutes.file(node)) == (folder, file)


def test_a_test_counts_once_and_its_phases_are_summed() -> None:
    phases = [Phase(SQL, 1.0), Phase(SQL, 2.0), Phase(SQL, 0.5), Phase(UNIT, 4.0)]
    named = ((fix_minutes.folder(phase.node), phase) for phase in phases)
    assert fix_minutes.shares(named) == [Share("unit", 1, 4.0), Share("sql", 1, 3.5)]


def test_the_table() -> None:
    phases = [Phase(SQL, 60.0), Phase(SQL, 15.0), Phase(UNIT, 25.0)]
    assert [line.split() for line in fix_minutes.lines(phases)] == [
        ["folder", "tests", "seconds", "share"],
        ["sql", "1", "75.0", "75%"],
        ["unit", "1", "25.0", "25%"],
        ["all", "2", "100.0", "100%"],
        ["slowest:", "sql/test_a.py", "(1", "tests,", "75.0", "s)"],
        ["slowest:", "unit/wire/test_b.py", "(1", "tests,", "25.0", "s)"],
    ]


def test_a_short_run_has_none() -> None:
    assert fix_minutes.lines([Phase(SQL, 59.9)]) == []
    assert fix_minutes.lines([], least=0) == []


def test_many_folders_are_one_line() -> None:
    phases = [Phase(f"tests/f{n:02}/test_{n}.py::test", 100.0 - n) for n in range(30)]
    table = fix_minutes.lines(phases)
    assert len(table) == fix_minutes.FOLDERS + fix_minutes.FILES + 3
    assert table[fix_minutes.FOLDERS + 1].split()[:2] == ["others", str(30 - fix_minutes.FOLDERS)]


@pytest.mark.long
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_prints_it(workers: str, tmp_path: Path) -> None:
    """Of a run of its own, with and without workers. Nothing is too short for it here."""
    for name in ("sql", "unit"):
        (tmp_path / "tests" / name).mkdir(parents=True)
        text = "import time\ndef test_it(): time.sleep(0.05)\ndef test_failing(): assert False\n"
        (tmp_path / "tests" / name / f"test_{name}.py").write_text(text)
    (tmp_path / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(TESTS)!r})\nimport fix_minutes\n"
        "fix_minutes.lines.__defaults__ = (0.0,)\nfrom fix_minutes import pytest_terminal_summary\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    words += ["-c", "/dev/null", "tests"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line[:1].isalpha()}
    assert done.returncode == 1, done.stdout + done.stderr
    assert (rows["sql"][0], rows["unit"][0], rows["all"][0]) == ("2", "2", "4")
    assert float(rows["all"][1]) >= 0.1
