"""`pg-epsilon plot explanation`: pictures of one's own answers, through the proxy and directly, and free."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_release_plot import texts

import fix_chance
from fix_cluster import PASSWORD, PRIVATE
from fix_ledger import no_charge
from fix_stack import Stack

# Counts of 500 and none with noise of scale 1, in intervals some 20 wide.
pytestmark = pytest.mark.chance(fix_chance.laplace(1, 100, 8))
BY_SEX = "SELECT sex, count(*) FROM people GROUP BY sex"


def explained(stack: Stack, call: str) -> tuple[str, list[str]]:
    """Ask, and the request's id and the predicates."""
    with stack.connect() as conn:
        conn.execute("SET dp.epsilon = 1")
        conn.execute(BY_SEX)
        rows = conn.execute(f"SELECT * FROM dp_explain_difference({call})".encode()).fetchall()
        found = conn.execute("SELECT request_id::text FROM dp.last_answer").fetchone()
    assert found is not None
    return found[0], [row[0] for row in rows]


def test_an_explanation_is_drawn(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the proxy of the settings, as the analyst of PGUSER: every predicate by its text."""
    identifier, predicates = explained(stack, "'f', 'x', k => 3, epsilon => 0.25")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    file = tmp_path / "a.svg"
    with no_charge(stack.cluster):
        done = stack.cli("plot", "explanation", identifier, "-o", str(file), "--user", "alice")
    assert (done.returncode, done.stderr) == (0, "")
    written = texts(file)
    assert {one for one in predicates if len(one) <= 48} <= written
    assert any(line.startswith("why count of f is above that of x: 3 of ") for line in written), written


def test_a_direct_connection_will_do(stack: Stack, tmp_path: Path) -> None:
    """And no share is drawn of a difference that may be noise."""
    identifier, _ = explained(stack, "'f', 'm', k => 2, epsilon => 0.25, anyway => true, confidence => 0.99999999")
    dsn = f"postgresql://alice:{PASSWORD}@127.0.0.1:{stack.cluster.port}/{PRIVATE}"
    file = tmp_path / "a.svg"
    done = stack.cli("plot", "explanation", identifier, "-o", str(file), "--dsn", dsn)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no share of it is told" in " ".join(texts(file))


def test_other_answers_are_other_pictures(stack: Stack, tmp_path: Path) -> None:
    identifier, _ = explained(stack, "'f', 'x', k => 3, epsilon => 0.25")
    with stack.connect() as conn:
        conn.execute("SET dp.epsilon = 1")
        conn.execute(BY_SEX)
        row = conn.execute("SELECT request_id::text FROM dp.last_answer").fetchone()
    assert row is not None
    for kind, request, said in (
        ("explanation", row[0], "is no explanation of a difference"),
        ("release", identifier, "pg-epsilon plot explanation draws it"),
    ):
        file = tmp_path / f"{kind}.png"
        done = stack.cli("plot", kind, request, "-o", str(file), "--dsn", stack.dsn_url("alice"))
        assert done.returncode == 2
        assert said in done.stderr
        assert not file.exists()
