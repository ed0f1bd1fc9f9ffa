"""`pg-epsilon plot family`: pictures of published releases, through the proxy and directly, free."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_release_plot import texts

from fix_cluster import PASSWORD, PRIVATE
from fix_ledger import no_charge
from fix_stack import Stack
from pg_epsilon_proxy.plot_family import BELOW

BY_SEX = "SELECT count(*) FROM people WHERE sex = $1"
BY_AGE = "SELECT count(*) FROM people WHERE age BETWEEN $1 AND $2 AND sex = ''f''"


def released(stack: Stack, name: str, query: str, grid: str, more: str) -> list[Any]:
    call = f"dp_release_numeric('{name}', '{query}', '{grid}', epsilon => 0.5{more})"
    with stack.connect() as conn:
        return conn.execute(f"SELECT * FROM {call}".encode()).fetchall()


def test_who_published_draws_it_and_others_where_the_grid_is_shown(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the proxy of the settings: every query by its label. Nobody pays."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    query = BY_SEX.replace("= $1", "IN ($1, $2)")
    grid = "{{f,m},{x,x}}"
    rows = released(stack, "drawn", query, grid, ", publish => true")
    assert len(rows) == 2
    file = tmp_path / "a.svg"
    words = ("plot", "family", "drawn", "-o", str(file), "--user")
    with no_charge(stack.cluster):
        done = stack.cli(*words, "alice")
        assert (done.returncode, done.stderr) == (0, "")
        assert {"f, m", "x, x", "family drawn of dataset people", "answer", "$1, $2"} <= texts(file)
        assert any(line.startswith(query) for line in texts(file))
        file.unlink()
        done = stack.cli(*words, "bob")
        assert (done.returncode, "are shown to you" in done.stderr, file.exists()) == (2, True, False)
        released(stack, "drawn", query, grid, ", publish => true, shows_grid => true")
        done = stack.cli(*words, "bob")
    assert (done.returncode, done.stderr) == (0, "")
    assert {"f, m", "x, x", "bars of all queries hold at once with confidence 0.95"} <= texts(file)


def test_a_direct_connection_will_do(stack: Stack, tmp_path: Path) -> None:
    """The legend says what a hollow point is, where there is one."""
    rows = released(stack, "drawn_ages", BY_AGE, "{{18,80},{30,29}}", ", publish => true")
    dsn = f"postgresql://alice:{PASSWORD}@127.0.0.1:{stack.cluster.port}/{PRIVATE}"
    for name, start in (("a.png", b"\x89PNG\r\n"), ("a.svg", b"<?xml")):
        file = tmp_path / name
        done = stack.cli("plot", "family", "drawn_ages", "-o", str(file), "--dsn", dsn)
        assert (done.returncode, done.stderr) == (0, "")
        assert file.read_bytes().startswith(start)
    assert any(row[5] for row in rows) == (BELOW in texts(tmp_path / "a.svg"))


def test_what_is_not_published_or_not_there_is_refused(stack: Stack, tmp_path: Path) -> None:
    released(stack, "undrawn", BY_SEX, "{f}", "")
    file = tmp_path / "a.png"
    for name, said in (("undrawn", "publish => true"), ("nowhere", "SELECT * FROM dp.families")):
        words = ("plot", "family", name, "-o", str(file), "--dsn", stack.dsn_url("alice"))
        done = stack.cli(*words)
        assert (done.returncode, said in done.stderr, file.exists()) == (2, True, False)
    done = stack.cli("plot", "family", "undrawn", "-o", str(tmp_path / "a.pdf"))
    assert (done.returncode, "is written as .png or .svg" in done.stderr) == (2, True)
