"""`pg-epsilon plot release`: pictures of one's own answers, by either way, and free."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from fix_cluster import PASSWORD, PRIVATE
from fix_ledger import no_charge, one
from fix_stack import Stack

TEXT = "{http://www.w3.org/2000/svg}text"
BY_CITY = "SELECT sex, city, count(*), avg(age) FROM people GROUP BY sex, city"
BUCKET = "width_bucket(age, 18, 80, 6)"
BATCH = ", ".join(f"sum(age) FILTER (WHERE age <= {age})" for age in (30, 40, 50, 60, 70))


def answered(stack: Stack, sql: str, user: str = "alice", **settings: str) -> dict[str, Any]:
    """Ask, and what dp_shown says of the answer."""
    with stack.connect(user) as conn:
        for name, value in {"epsilon": "0.3", **settings}.items():
            conn.execute(f"SET dp.{name} = '{value}'".encode())
        conn.execute(sql.encode())
        last = conn.execute("SELECT request_id FROM dp.last_answer").fetchone()
        told = one(conn, "SELECT dp.dp_shown(%s)", *(last or ()))
    assert isinstance(told, dict)
    return told


def texts(file: Path) -> set[str]:
    """What is written in an SVG."""
    return {(part.text or "").strip() for part in ET.parse(file).getroot().iter(TEXT)}  # noqa: S314


def test_a_group_by_is_drawn(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the proxy of the settings: every group by name, and what is said of the release."""
    told = answered(stack, BY_CITY)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    file = tmp_path / "a.svg"
    with no_charge(stack.cluster):
        done = stack.cli("plot", "release", told["request_id"], "-o", str(file), "--user", "alice")
    assert (done.returncode, done.stderr) == (0, "")
    cities = ("north", "south", "east", "NULL")
    groups = {f"{sex}, {city}" for sex in ("f", "m", "x") for city in cities}
    said = {
        f"released as of {told['as_of']}, discrete Laplace",
        "error intervals, each with confidence 0.95",
    }
    assert groups | said | {"count", "avg", "sex, city"} <= texts(file)


def test_a_direct_connection_will_do(stack: Stack, tmp_path: Path) -> None:
    told = answered(stack, "SELECT sex, count(*) FROM people GROUP BY sex")
    dsn = f"postgresql://alice:{PASSWORD}@127.0.0.1:{stack.cluster.port}/{PRIVATE}"
    file = tmp_path / "a.png"
    done = stack.cli("plot", "release", told["request_id"], "-o", str(file), "--dsn", dsn)
    assert (done.returncode, done.stderr) == (0, "")
    assert file.read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize(
    ("sql", "how", "said"),
    [
        ("sex, sum(income)", "r2t", "arrow: this end is not known"),
        ("sex, percentile_disc(0.5) WITHIN GROUP (ORDER BY age)", "auto", "values only: no error"),
        (f"{BUCKET}, sum(sum(age)) OVER (ORDER BY {BUCKET})", "auto", "values only: no error"),
    ],
)
def test_the_unknown_is_said(stack: Stack, tmp_path: Path, sql: str, how: str, said: str) -> None:
    """R2T promises one end; of a median and of what running sums are made of, none is known."""
    told = answered(stack, f"SELECT {sql} FROM people GROUP BY 1", mechanism=how)
    file = tmp_path / "a.svg"
    words = ("release", told["request_id"], "-o", str(file), "--dsn", stack.dsn_url("alice"))
    done = stack.cli("plot", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert [text for text in texts(file) if text.startswith(said)]


def test_who_was_served_may_draw_it_until_it_is_redacted(stack: Stack, tmp_path: Path) -> None:
    """Without the names that its asker gave: under those of the columns. Others are refused."""
    sql = "SELECT city AS town, count(*) FROM people WHERE age > 41 GROUP BY city"
    told = answered(stack, sql)
    file = tmp_path / "a.svg"
    words = ("release", told["request_id"], "-o", str(file), "--dsn", stack.dsn_url("bob"))
    done = stack.cli("plot", *words)
    assert (done.returncode, "was given to you" in done.stderr) == (2, True)
    assert not file.exists()
    assert answered(stack, sql, "bob")["request_id"] == told["request_id"]
    done = stack.cli("plot", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"north", "NULL", "k1", "a1"} <= texts(file)
    stack.cluster.psql(f"CALL dp.redact('{told['request_id']}')", user="boss")
    done = stack.cli("plot", *words)
    assert (done.returncode, "redacted" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT count(*) FROM people WHERE age > 40", "has no groups"),
        (f"SELECT {BATCH} FROM people", "pg-epsilon plot workload draws it"),
        (
            "SELECT * FROM dp_sum_workload('people', 'income', '{1000,9000}', by => 'sex')",
            "pg-epsilon plot workload draws it",
        ),
    ],
)
def test_what_has_no_groups_is_refused(stack: Stack, tmp_path: Path, sql: str, said: str) -> None:
    told = answered(stack, sql)
    file = tmp_path / "a.png"
    words = ("release", told["request_id"], "-o", str(file), "--dsn", stack.dsn_url("alice"))
    done = stack.cli("plot", *words)
    assert (done.returncode, said in done.stderr, file.exists()) == (2, True, False)


@pytest.mark.parametrize("picture", ["workload", "release"])
@pytest.mark.parametrize(
    ("identifier", "name", "said"),
    [
        ("00000000-0000-4000-8000-000000000000", "a.png", "FROM dp.spending"),
        ("abc", "a.png", "abc: a release is named by the id of its request, a uuid"),
        ("abc", "a.pdf", "a.pdf: a plot is written as .png or .svg"),
    ],
)
def test_what_names_nothing_is_refused(
    stack: Stack, tmp_path: Path, picture: str, identifier: str, name: str, said: str
) -> None:
    """The server's hint is said once."""
    file = tmp_path / name
    words = (picture, identifier, "-o", str(file), "--dsn", stack.dsn_url("alice"))
    done = stack.cli("plot", *words)
    assert (done.returncode, done.stderr.count(said), file.exists()) == (2, 1, False)
