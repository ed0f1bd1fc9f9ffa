"""A copy of the product with one more kind of question (tests/echo), and a cluster that runs it.

What a new kind costs outside its own folder is what `foreign_files` finds: a line of engine/tasks.py, which imports the
folder, and a row of sql/60_public/functions.toml.
"""

from __future__ import annotations

import dataclasses
import filecmp
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fix_cluster import Cluster, _folder, build_sql, built, locations, private_cluster

ROOT = Path(__file__).resolve().parent.parent
ECHO = ROOT / "tests/echo"
FOLDER = "extension/pg_epsilon/echo"
TASKS = "extension/pg_epsilon/engine/tasks.py"
TABLE = "sql/60_public/functions.toml"
LOAD = """def _echo() -> Task[Any]:
    from pg_epsilon.echo.task import EchoTask

    return EchoTask()


"""
LINE = 'Line("echo", frozenset({"echo"}), _echo, reads=True)'


def _listed(text: str) -> str:
    """engine/tasks.py with the kind: a function that imports it, and its line."""
    where, last = "DECIDE = Line(", "SYNTHESIS)\n"
    assert text.count(where) == text.count(last) == 1
    return text.replace(where, LOAD + where).replace(last, f"SYNTHESIS, {LINE})\n")


def add_kind(tree: Path) -> None:
    """Put the kind into a copy of the checkout."""
    shutil.copytree(ECHO, tree / FOLDER, ignore=shutil.ignore_patterns("__pycache__", "*.toml"))
    tasks, table = tree / TASKS, tree / TABLE
    tasks.write_text(_listed(tasks.read_text()))
    table.write_text(table.read_text() + (ECHO / "function.toml").read_text())


def foreign_files(tree: Path) -> list[str]:
    """Files of the product that differ in the tree, or are new there, outside the kind's own folder."""
    files = [file for area in ("extension", "proxy", "sql") for file in (tree / area).rglob("*") if file.is_file()]
    names = [file.relative_to(tree).as_posix() for file in files if "__pycache__" not in file.parts]
    own = [name for name in names if not name.startswith(FOLDER)]
    return sorted(
        name for name in own if not (ROOT / name).exists() or not filecmp.cmp(ROOT / name, tree / name, shallow=False)
    )


@contextmanager
def echo_tree() -> Iterator[locations.Paths]:
    """The checkout's product with the kind, in a folder that the server can read."""
    paths = built()
    tree = _folder(paths)
    try:
        for area in ("extension", "proxy", "sql"):
            shutil.copytree(ROOT / area, tree / area, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        add_kind(tree)
        own = dataclasses.replace(
            paths,
            root=tree,
            build=tree / "build",
            destdir=tree / "build/destdir",
            source=(tree / "extension", tree / "proxy"),
        )
        build_sql.build(own)
        yield own
    finally:
        shutil.rmtree(tree, ignore_errors=True)


@contextmanager
def echo_cluster(paths: locations.Paths) -> Iterator[Cluster]:
    """A cluster whose engine has the kind."""
    with private_cluster(paths=paths) as cluster:
        yield cluster
