"""The scripts behind make: what goes into the extension, who can read it, and what the demo demands of its session."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "demo")]

import build_sql  # noqa: E402
import cluster  # noqa: E402
import guided  # noqa: E402
import paths  # noqa: E402


def tree(root: Path, **files: str) -> Path:
    (root / "extension/pg_epsilon").mkdir(parents=True)
    (root / "extension/pg_epsilon/_version.py").write_text('VERSION = "1.2.3"\n')
    (root / "extension/pg_epsilon.control").write_text("default_version = '1.2.3'\n")
    for name, text in files.items():
        file = root / "sql" / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_suffix(".sql").write_text(text)
    return root


def test_one_version_everywhere() -> None:
    version = build_sql.version(ROOT)
    meta = json.loads((ROOT / "extension/META.json").read_text())
    assert meta["version"] == meta["provides"]["pg_epsilon"]["version"] == version
    assert meta["provides"]["pg_epsilon"]["file"].endswith(f"--{version}.sql")
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_two_versions_are_refused(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "extension/pg_epsilon.control").write_text("default_version = '1.2.4'\n")
    with pytest.raises(SystemExit, match="two versions"):
        build_sql.version(tmp_path)


def test_script_holds_the_numbered_files_in_path_order(tmp_path: Path) -> None:
    root = tree(
        tmp_path, **{"20_b__10_x": "B", "10_a__20_z": "A2", "10_a__10_y": "A1", "90_last": "C", "install__10_i": "I"}
    )
    text = build_sql.scripts(root)["pg_epsilon--1.2.3.sql"]
    assert re.findall(r"^[A-Z]\d?$", text, re.M) == ["A1", "A2", "B", "C"]
    assert text.startswith('\\echo Use "CREATE EXTENSION pg_epsilon" to load this file. \\quit\n')
    assert text.index("SET LOCAL search_path = pg_catalog, pg_temp;") < text.index("A1")


def test_install_script_is_apart_and_stops_at_errors(tmp_path: Path) -> None:
    root = tree(tmp_path, **{"10_a": "A", "install__20_j": "J", "install__10_i": "I"})
    text = build_sql.scripts(root)["pg_epsilon_install.sql"]
    assert re.findall(r"^[A-Z]$", text, re.M) == ["I", "J"]
    assert text.startswith("\\set ON_ERROR_STOP on\n")


def test_stale_scripts_go(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "pg_epsilon--0.0.1.sql").write_text("old")
    build_sql.write(tree(tmp_path / "root"), folder)
    assert sorted(file.name for file in folder.iterdir()) == [
        "pg_epsilon--1.2.3.sql",
        "pg_epsilon.control",
        "pg_epsilon_install.sql",
    ]


def test_a_closed_folder_is_closed_to_others() -> None:
    # pytest's own temporary folders are closed to others already
    with tempfile.TemporaryDirectory(prefix="pge-") as name:
        place, inner, file = Path(name), Path(name, "inner"), Path(name, "inner/file")
        inner.mkdir()
        file.write_text("x")
        modes = {place: 0o755, inner: 0o755, file: 0o644}
        for path, mode in modes.items():
            path.chmod(mode)
        assert paths.open_to_others(file)
        for path, mode in ((place, 0o700), (inner, 0o750), (file, 0o640)):
            path.chmod(mode)
            assert not paths.open_to_others(file), path
            path.chmod(modes[path])


def test_runtime_directory_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "runtime"
    place.mkdir()
    place.chmod(0o777)
    monkeypatch.setenv("PG_EPSILON_RUNTIME", str(place))
    with pytest.raises(paths.NotFound, match="not a directory of ours"):
        paths.runtime_directory()
    place.rmdir()
    assert paths.runtime_directory() == place
    assert place.stat().st_mode & 0o777 == 0o755


def test_copy_follows_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path / "root")
    (root / "proxy/pg_epsilon_proxy").mkdir(parents=True)
    (root / "proxy/pg_epsilon_proxy/cli.py").write_text("new")
    monkeypatch.setattr(paths, "ROOT", root)
    copy = tmp_path / "copy"
    (copy / "extension/pg_epsilon").mkdir(parents=True)
    (copy / "extension/pg_epsilon/gone.py").write_text("old")
    paths.refresh_copy(copy)
    assert [file.name for file in (copy / "extension/pg_epsilon").iterdir()] == ["_version.py"]
    assert (copy / "proxy/pg_epsilon_proxy/cli.py").read_text() == "new"
    assert (copy / "extension/pg_epsilon/_version.py").stat().st_mode & 0o777 == 0o644


def test_a_copy_that_is_current_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Running servers read it, and what they have compiled of it."""
    root = tree(tmp_path / "root")
    (root / "proxy/pg_epsilon_proxy").mkdir(parents=True)
    (root / "proxy/pg_epsilon_proxy/cli.py").write_text("new")
    monkeypatch.setattr(paths, "ROOT", root)
    copied = tmp_path / "copy/extension/pg_epsilon/_version.py"
    paths.refresh_copy(tmp_path / "copy")
    compiled = copied.parent / "__pycache__/_version.cpython-311.pyc"
    compiled.parent.mkdir()
    compiled.write_text("compiled")
    first = copied.stat().st_ino
    paths.refresh_copy(tmp_path / "copy")
    assert (copied.stat().st_ino, compiled.read_text()) == (first, "compiled")


def test_two_who_refresh_a_copy_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the two workers of a run do at its start: each would delete the other's unfinished files."""
    inside: list[int] = []
    together: list[int] = []
    first_is_in, second_may_enter = threading.Event(), threading.Event()

    def copying(target: Path) -> None:
        inside.append(1)
        together.append(len(inside))
        first_is_in.set()
        second_may_enter.wait(0.3)  # the time in which a second one without a lock would come in
        inside.pop()

    monkeypatch.setattr(paths, "copy_packages", copying)
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(paths.refresh_copy, tmp_path / "copy")
        assert first_is_in.wait(60)
        two = pool.submit(paths.refresh_copy, tmp_path / "copy")
        one.result(60)
        second_may_enter.set()
        two.result(60)
    assert together == [1, 1]


def test_every_step_of_the_demo_says_what_must_come_back() -> None:
    steps = list(guided.read(ROOT / "demo/session.sql"))
    expected = [step.expected for step in steps]
    assert {"DP001", "DP002", "DP003"} <= set(expected)
    assert any(step.statement.startswith("EXPLAIN") for step in steps)
    assert any(step.same for step in steps)
    assert all(step.explanation and not step.explanation.startswith("@") for step in steps)


@pytest.mark.parametrize(
    ("expected", "sqlstate", "rows", "met"),
    [
        ("ok", "00000", 7, True),
        ("ok", "DP001", 0, False),
        ("ok rows=2", "00000", 2, True),
        ("ok rows=2", "00000", 3, False),
        ("ok rows>=2", "00000", 3, True),
        ("ok rows>=2", "DP002", 3, False),
        ("DP002", "DP002", 0, True),
        ("DP002", "42501", 0, False),
        ("DP002", "00000", 5, False),
    ],
)
def test_outcomes(expected: str, sqlstate: str, rows: int, met: bool) -> None:
    assert guided.Outcome(sqlstate, rows, "").is_expected(expected) is met


def test_an_unknown_expectation_is_an_error() -> None:
    with pytest.raises(cluster.Failed):
        guided.Outcome("00000", 1, "").is_expected("okay")


def test_no_two_test_files_share_a_name() -> None:
    """pytest imports them by their names: two of one name cannot be run together."""
    names = [file.name for file in (ROOT / "tests").rglob("test_*.py") if "node_modules" not in file.parts]
    assert sorted(names) == sorted(set(names))
