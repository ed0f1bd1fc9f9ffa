"""docs/notebook.ipynb, executed against the demo, which is started in a place of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

import fix_chance
from fix_notebook import ROOT, charged, faults, read, untold

# Slow, so that `make test` does without the packages that scripts/notebook.sh installs. The guided session
# and the notebook call differences of averages over thousands of people real: noise that hides one of them
# is hundreds of its scales.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.chance(fix_chance.beyond(100, 64))]


@dataclass
class Demo:
    place: Path

    def try_to_run(self, *command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        """A program that finds this demo by paths.py."""
        environment = os.environ | {"PG_EPSILON_RUNTIME": str(self.place), "PG_EPSILON_VENV": sys.prefix}
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=500)

    def run(self, *command: str) -> None:
        done = self.try_to_run(*command)
        assert done.returncode == 0, done.stdout + done.stderr

    def execute(self, target: Path) -> None:
        self.run(sys.executable, "scripts/notebook.py", str(target))

    def left(self) -> float:
        """Of Carol's budget."""
        state = json.loads((self.place / "demo/state.json").read_text())
        login = {"user": "carol", "password": state["password of carol"]}
        with psycopg.connect(host="127.0.0.1", port=state["proxy port"], dbname="census", **login) as conn:
            row = conn.execute("SELECT your_epsilon_left FROM dp.budget").fetchone()
        assert row is not None
        return float(row[0])


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    # pytest's own folders are closed to the server's user.
    with tempfile.TemporaryDirectory(prefix="pge-demo-") as name:
        Path(name).chmod(0o755)
        running = Demo(Path(name))
        running.run("/usr/bin/python3", "scripts/build_sql.py")
        try:
            running.run("/usr/bin/python3", "demo/demo.py", "start")
            yield running
        finally:
            running.run("/usr/bin/python3", "demo/demo.py", "stop")


def test_every_cell_runs_and_pays_once(demo: Demo, tmp_path: Path) -> None:
    """The first run spends what the text says; the second one, on the spent budget, nothing."""
    kept = read()
    demo.execute(tmp_path / "first.ipynb")
    first = read(tmp_path / "first.ipynb")
    assert faults(first) == []
    assert untold(first) == []
    assert (charged(first), demo.left()) == (1, 0)
    assert [cell.source for cell in first.cells] == [cell.source for cell in kept.cells]

    demo.execute(tmp_path / "second.ipynb")
    second = read(tmp_path / "second.ipynb")
    assert faults(second) == []
    assert (charged(second), demo.left()) == (0, 0)


BROKEN = """
import sys

import nbformat
import notebook

read = nbformat.read


def broken(*arguments, **more):
    found = read(*arguments, **more)
    found.cells[2].source = "1 / 0"
    return found


nbformat.read = broken
sys.exit(notebook.main(sys.argv[1:]))
"""


def test_a_cell_that_raises_ends_the_program(demo: Demo, tmp_path: Path) -> None:
    """With status 1; it names the error, and writes nothing."""
    target = tmp_path / "failed.ipynb"
    done = demo.try_to_run(sys.executable, "-c", BROKEN, str(target), cwd=ROOT / "scripts")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert not target.exists()
