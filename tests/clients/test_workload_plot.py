"""`pg-epsilon plot workload`: pictures of one's own answers, through the proxy and directly, and nothing charged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fix_cluster import PASSWORD, PRIVATE
from fix_stack import Stack
from pg_epsilon_proxy import plots
from pg_epsilon_proxy.config import ConfigError

CALL = "dp_sum_workload('people', 'income', '{1000,2000,4000,8000,10000,50000,100000}', epsilon => 0.4)"
BLOCK = ", ".join(f"sum(age) FILTER (WHERE age <= {age})" for age in (30, 40, 50, 60, 70))
PNG, SVG = b"\x89PNG\r\n", b"<?xml"


@pytest.mark.parametrize(
    ("edges", "places"),
    [
        ([(None, "9"), (None, "1"), (None, "9")], ([9.0, 1.0, 9.0], "threshold of pay")),
        ([("1", "9"), ("2", "9")], ([1.0, 2.0], "lower edge of pay")),
        ([("1", "9"), ("1", "9"), ("1", "3")], ([9.0, 9.0, 3.0], "threshold of pay")),
        ([("1", "9"), ("2", "9"), ("1", "3")], ([1.0, 2.0, 3.0], "query")),
        ([(None, None), (None, None)], ([1.0, 2.0], "query")),
    ],
    ids=str,
)
def test_where_queries_stand(edges: list[tuple[str | None, str | None]], places: tuple[list[float], str]) -> None:
    """By an edge that tells different queries apart, though one is asked for twice; else by their numbers."""
    rows = [[number + 1, *ends, "5"] for number, ends in enumerate(edges)]
    assert plots.Answered(rows, {}, {}, "pay").places() == places


def answered(stack: Stack, sql: str, user: str = "alice") -> str:
    """Ask, and the id of the charge."""
    with stack.connect(user) as conn:
        conn.execute("SET dp.epsilon = 0.3")
        conn.execute(sql.encode())
        row = conn.execute("SELECT request_id::text FROM dp.spending WHERE who = current_user ORDER BY at DESC LIMIT 1")
        found = row.fetchone()
    assert found is not None
    return str(found[0])


def left(stack: Stack) -> object:
    with stack.connect() as conn:
        return conn.execute("SELECT dp_budget_left('people')").fetchone()


@pytest.mark.parametrize(
    ("sql", "name"), [(f"SELECT * FROM {CALL}", "call.png"), (f"SELECT {BLOCK}, count(*) FROM people", "block.svg")]
)
def test_an_answer_is_drawn(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, name: str) -> None:
    """Through the proxy of the settings, as the analyst of PGUSER."""
    identifier = answered(stack, sql)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    before = left(stack)
    done = stack.cli("plot", "workload", identifier, "-o", str(tmp_path / name), "--user", "alice")
    assert (done.returncode, done.stderr) == (0, "")
    picture = (tmp_path / name).read_bytes()
    assert picture.startswith(PNG if name.endswith("png") else SVG)
    assert len(picture) > 10_000
    assert left(stack) == before


def test_a_direct_connection_will_do(stack: Stack, tmp_path: Path) -> None:
    identifier = answered(stack, f"SELECT * FROM {CALL}")
    dsn = f"postgresql://alice:{PASSWORD}@127.0.0.1:{stack.cluster.port}/{PRIVATE}"
    done = stack.cli("plot", "workload", identifier, "-o", str(tmp_path / "a.png"), "--dsn", dsn)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("sql", "user", "said"),
    [
        ("SELECT count(*) FROM people WHERE age > 40", "alice", "is no workload of sums"),
        (f"SELECT * FROM {CALL.replace('0.4', '0.2')}", "bob", "was given to you"),
    ],
)
def test_there_is_nothing_to_draw(stack: Stack, tmp_path: Path, sql: str, user: str, said: str) -> None:
    """Of another question, and of another analyst's."""
    identifier = answered(stack, sql, user)
    dsn = stack.dsn_url("alice")
    done = stack.cli("plot", "workload", identifier, "-o", str(tmp_path / "a.png"), "--dsn", dsn)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "a.png").exists()


def test_what_is_served_no_more_is_drawn_and_not_paid_again(stack: Stack, tmp_path: Path) -> None:
    """From what is stored: each method has a bar there, its errors being those of a question that would cost again."""
    identifier = answered(stack, f"SELECT * FROM {CALL.replace('0.4', '0.1')}")
    stack.cluster.psql("CALL dp.refresh('people')", user="boss")
    before = left(stack)
    done = stack.cli("plot", "workload", identifier, "-o", str(tmp_path / "a.png"), "--dsn", stack.dsn_url("alice"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
    assert left(stack) == before


def test_who_was_served_may_draw_it(stack: Stack, tmp_path: Path) -> None:
    """Another's answer, once the same question was answered from it; and neither before nor after it was redacted."""
    sql = f"SELECT * FROM {CALL.replace('0.4', '0.05')}"
    identifier = answered(stack, sql)
    with stack.connect("bob") as bob:
        bob.execute("SET dp.epsilon = 0.3")
        bob.execute(sql.encode())
    words = ("plot", "workload", identifier, "-o", str(tmp_path / "a.png"), "--dsn", stack.dsn_url("bob"))
    done = stack.cli(*words)
    assert (done.returncode, done.stderr) == (0, "")
    stack.cluster.psql(f"CALL dp.redact('{identifier}')", user="boss")
    done = stack.cli(*words)
    assert (done.returncode, "redacted" in done.stderr) == (2, True)


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'pg-epsilon\[plots\]'"):
        plots.check("a.png")
    with pytest.raises(ConfigError, match=r"written as \.png or \.svg"):
        plots.check("a.pdf")
