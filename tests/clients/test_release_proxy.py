"""dp_release_numeric through the proxy: psql and psycopg (text, binary, prepared), EXPLAIN, NOTICE, errors."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_ledger import no_charge, refused
from fix_stack import Stack, stack_at_work

Connection = psycopg.Connection[Any]
# Two dozen counts of up to four draws each, and a family's answers, whose bars hold at SURE.
SURE = "0.999999999"
pytestmark = pytest.mark.chance(fix_chance.union(30 * 1e-9))

QUERY = "SELECT count(*) FROM people WHERE sex = $1"
ASKED = f"dp_release_numeric('by_sex', $q${QUERY}$q$, '{{f,m,x}}', epsilon => 1)"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work() as running:
        yield running


@pytest.fixture
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect() as session:
        session.execute(f"SET dp.confidence = {SURE}")
        yield session


@pytest.fixture
def bob(stack: Stack) -> Iterator[Connection]:
    """What alice may spend, the other tests spend."""
    with stack.connect("bob") as session:
        session.execute(f"SET dp.confidence = {SURE}")
        yield session


def test_every_way_gives_the_same_rows(stack: Stack, alice: Connection) -> None:
    """Paid once: as text, in binary, prepared, with parameters of its own; a part of its columns; by psql."""
    plain = alice.execute(f"SELECT * FROM {ASKED}").fetchall()
    assert [row[0] for row in plain] == [["f"], ["m"], ["x"]]
    assert all(row[3] <= row[1] <= row[4] and row[5] is False for row in plain)
    with stack.cluster.connect() as root:
        true = dict(root.execute("SELECT sex, count(*) FROM people GROUP BY sex").fetchall())
    assert all(row[3] <= true.get(row[0][0], 0) <= row[4] for row in plain)
    with no_charge(stack.cluster):
        assert alice.execute(f"SELECT * FROM {ASKED}", binary=True).fetchall() == plain
        sql = "SELECT * FROM dp_release_numeric(%s, %s, %s, epsilon => %s)"
        for _ in range(7):
            assert alice.execute(sql, ["by_sex", QUERY, ["f", "m", "x"], 1]).fetchall() == plain
        some = alice.execute(f"SELECT parameters[1], answer FROM {ASKED} ORDER BY 1 DESC LIMIT 1").fetchall()
        assert some == [("x", plain[2][1])]
        script = f"SET dp.confidence = {SURE};\nSELECT answer FROM {ASKED};\n"
        words = [str(stack.cluster.paths.bindir / "psql"), "-AtqX", "-d", stack.dsn("alice")]
        done = subprocess.run(words, input=script, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert [float(line) for line in done.stdout.splitlines()] == [row[1] for row in plain]


def test_the_price_is_said_before_and_after(stack: Stack, alice: Connection) -> None:
    call = f"dp_release_numeric('by_sex', $q${QUERY}$q$, '{{f,m}}', epsilon => 0.5)"
    with no_charge(stack.cluster):
        plan = "\n".join(row[0] for row in alice.execute(f"EXPLAIN SELECT * FROM {call}"))
    assert "0.5" in plan and "split cells" in plan
    assert f"dp_release_numeric('by_sex', '{QUERY}', grid => [2 rows])" in plan
    said: list[str] = []
    alice.execute("SET dp.notices = on")
    alice.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    alice.execute(f"SELECT * FROM {call}")
    (notice,) = said
    assert "epsilon 0.5 charged" in notice
    assert "2 queries from" in notice
    assert "all bars hold at once" in notice


def test_algorithm_2(stack: Stack, alice: Connection) -> None:
    """Released by the proxy's call; its grid answers plain SQL, and the cells of another family what is beside it."""
    query = "SELECT count(*) FROM people WHERE sex = $1 AND age > 30"
    call = f"dp_release_numeric('alg2_by_sex', $q${query}$q$, '{{f,m}}', epsilon => 0.25, mechanism => 'alg2')"
    with no_charge(stack.cluster):
        plan = "\n".join(row[0] for row in alice.execute(f"EXPLAIN SELECT * FROM {call}"))
    assert "Algorithm 2 (multiplicative weights)" in plan and "mechanism => 'alg2')" in plan
    found = alice.execute(f"SELECT * FROM {call}").fetchall()
    with stack.cluster.connect() as root:
        true = dict(root.execute("SELECT sex, count(*) FROM people WHERE age > 30 GROUP BY sex").fetchall())
    for parameters, answer, unbiased, low, high, below in found:
        assert low <= true.get(parameters[0], 0) <= high and unbiased is None
        assert not below or answer == 0
    with no_charge(stack.cluster):
        own = alice.execute("SELECT count(*) FROM people WHERE sex = 'f' AND age > 30").fetchone()
        grouped = alice.execute(
            "SELECT sex, count(*) FROM people WHERE sex IN ('f', 'm') AND age > 30 GROUP BY sex"
        ).fetchall()
    assert own == (round(found[0][1]),)
    assert {key: value for key, value in grouped if key in ("f", "m")} == {row[0][0]: round(row[1]) for row in found}


def test_composition(stack: Stack, alice: Connection) -> None:
    """Two totals over all ages by the proxy's call, and free as plain SQL afterwards."""
    query = "SELECT count(*) FROM people WHERE sex = $1 AND age > 31"
    call = f"dp_release_numeric('single_by_sex', $q${query}$q$, '{{f,m}}', epsilon => 0.2, mechanism => 'composition')"
    with no_charge(stack.cluster):
        plan = "\n".join(row[0] for row in alice.execute(f"EXPLAIN SELECT * FROM {call}"))
    assert "composition (a threshold and a sum for each query)" in plan and "mechanism => 'composition')" in plan
    found = alice.execute(f"SELECT * FROM {call}").fetchall()
    with stack.cluster.connect() as root:
        true = dict(root.execute("SELECT sex, count(*) FROM people WHERE age > 31 GROUP BY sex").fetchall())
    for parameters, answer, unbiased, low, high, below in found:
        assert low <= true.get(parameters[0], 0) <= high and answer == unbiased and not below
    with no_charge(stack.cluster):
        own = alice.execute("SELECT count(*) FROM people WHERE sex = 'f' AND age > 31").fetchone()
    assert own == (round(found[0][1]),)


@pytest.mark.parametrize(("mechanism", "words"), [("normalisation", "normalisation"), ("global", "global truncation")])
def test_what_algorithm_2_is_compared_with(stack: Stack, alice: Connection, mechanism: str, words: str) -> None:
    """Answers without bars by the proxy's call, and the same ones free as plain SQL, where a bar is NULL too."""
    query = f"SELECT count(*) FROM people WHERE sex = $1 AND age > {32 + (mechanism == 'global')}"
    call = f"dp_release_numeric('{mechanism}_by_sex', $q${query}$q$, '{{f,m}}', epsilon => 0.02, mechanism => "
    with no_charge(stack.cluster):
        plan = "\n".join(row[0] for row in alice.execute(f"EXPLAIN SELECT * FROM {call}'{mechanism}')"))
    assert f"{words} (multiplicative weights)" in plan and f"mechanism => '{mechanism}')" in plan
    found = alice.execute(f"SELECT * FROM {call}'{mechanism}')").fetchall()
    assert [row[2:] for row in found] == [(None, None, None, False)] * 2
    with no_charge(stack.cluster):
        own = query.replace("count(*)", "count(*), dp_low(count(*)), dp_high(count(*))").replace("$1", "'f'")
        assert alice.execute(own).fetchone() == (round(found[0][1]), None, None)


def test_ranges(stack: Stack, bob: Connection) -> None:
    """Wide ranges of ages by the proxy's call; any other range of them free as plain SQL afterwards."""
    query = "SELECT count(*) FROM people WHERE age >= $1 AND sex = 'f'"
    call = f"dp_release_numeric('by_range', $q${query}$q$, '{{0,2}}', epsilon => 0.25, mechanism => 'range')"
    with no_charge(stack.cluster):
        plan = "\n".join(row[0] for row in bob.execute(f"EXPLAIN SELECT * FROM {call}"))
    assert (
        "ranges of split cells (discrete Laplace)" in plan and '"rmse": 11.31' in plan and '"cells_rmse": 44.9' in plan
    )
    found = bob.execute(f"SELECT * FROM {call}").fetchall()
    with stack.cluster.connect() as root:
        true = root.execute("SELECT count(*), count(*) FILTER (WHERE age <= 60) FROM people WHERE sex = 'f'").fetchone()
    assert true is not None and found[0][3] <= true[0] <= found[0][4]
    with no_charge(stack.cluster):
        own = "SELECT dp_low(count(*)), dp_high(count(*)) FROM people WHERE sex = 'f' AND age <= 60"
        (bar,) = bob.execute(own).fetchall()
    assert bar[0] <= true[1] <= bar[1]


@pytest.mark.parametrize(
    ("query", "grid", "sqlstate"),
    [
        ("SELECT count(*) FROM people WHERE sex = $1 OR age = $1", "{f}", "DP003"),
        ("SELECT count(*) FROM people WHERE nothing = $1", "{f}", "42703"),
        ("SELECT count(*) FROM nowhere WHERE sex = $1", "{f}", "42501"),
        ("SELECT count(*) FROM people WHERE age = $1", "{old}", "DP003"),
    ],
)
def test_refusals(stack: Stack, alice: Connection, query: str, grid: str, sqlstate: str) -> None:
    with no_charge(stack.cluster), refused(sqlstate, hint=sqlstate != "42703"):
        alice.execute(f"SELECT * FROM dp_release_numeric('f', $q${query}$q$, '{grid}', epsilon => 1)")


def test_plain_questions_about_its_classes_are_free(stack: Stack, alice: Connection) -> None:
    """A family by age and sex answers ordinary SQL: also with parameters, FILTER, and in a dashboard's own words."""
    call = "dp_release_numeric('by_age', $q$SELECT count(*) FROM people WHERE sex = $1 AND age >= $2$q$, '{{f,40}}', "
    rows = alice.execute(f"SELECT * FROM {call} epsilon => 2)").fetchall()
    with stack.cluster.connect() as root:
        sql = "SELECT count(*) FROM people WHERE sex IN ('f', 'm') AND age BETWEEN 30 AND 39"
        (true,) = root.execute(sql).fetchone() or (0,)
    said: list[str] = []
    alice.execute("SET dp.notices = on")
    alice.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    with no_charge(stack.cluster):
        (found,) = alice.execute("SELECT count(*) AS n FROM people WHERE sex = 'f' AND age >= 40").fetchall()
        assert found == (round(rows[0][1]),)
        sql = (
            "SELECT count(*), dp_low(count(*)), dp_high(count(*)) FROM people WHERE sex IN ('f', 'm') AND age / 10 = %s"
        )
        ((_, low, high),) = alice.execute(sql, [3], prepare=True).fetchall()
        assert low <= true <= high
        (path, facts) = alice.execute("SELECT path, facts FROM dp.last_answer").fetchone() or (None, None)
        assert path == "family" and facts["family"]["name"] == "by_age"
        plan = "\n".join(row[0] for row in alice.execute("EXPLAIN SELECT count(*) FROM people WHERE age < 9"))
        assert "family by_age" in plan
        (listed,) = alice.execute("SELECT query, yours FROM dp.families WHERE name = 'by_age'").fetchall()
        assert listed == ("SELECT count(*) FROM people WHERE sex = $1 AND age >= $2", True)
    assert "family by_age, free" in said[0] and "the 1 queries of its grid" in said[0]
    assert "hold at once for every set of its classes" in said[1]
    with refused("42P01", hint=False):  # the table itself is shown to nobody
        alice.execute("SELECT * FROM dp.family")


def test_groups_come_from_it_too(stack: Stack, alice: Connection) -> None:
    """With labels, HAVING, ORDER BY and LIMIT over the released groups, as of any grouped answer."""
    query = "SELECT sum(age) FROM people WHERE sex = $1 AND age < $2"
    alice.execute(f"SELECT * FROM dp_release_numeric('ages', $q${query}$q$, '{{{{f,40}}}}', epsilon => 1)")
    sql = """SELECT age / 10 AS decade, sum(age), avg(age) AS mean, dp_low(sum(age)), dp_high(sum(age)) FROM people
      WHERE sex IN ('f', 'm') AND age BETWEEN 20 AND 59 GROUP BY 1 HAVING sum(age) > -1e9 ORDER BY decade DESC"""
    with stack.cluster.connect() as root:
        plain = sql.replace(", dp_low(sum(age)), dp_high(sum(age))", "")
        true = {row[0]: row for row in root.execute(plain).fetchall()}
    with no_charge(stack.cluster):
        found = alice.execute(sql).fetchall()
        decades = [row[0] for row in found]
        assert decades == sorted(decades, reverse=True) and {2, 3, 4, 5} <= set(decades)
        for decade, _, mean, low, high in found:
            assert low <= (true[decade][1] if decade in true else 0) <= high
            assert mean is None or 0 <= mean <= 120
        (path,) = alice.execute("SELECT path FROM dp.last_answer").fetchone() or (None,)
        assert path == "family"
        (reply,) = alice.execute("SELECT verdict FROM dp_compare('2', '3', aggregate => 1)").fetchall()
        assert reply[0] in ("yes", "cannot tell", "the other way round")


def test_plain_variances_are_free_from_a_family_of_them(stack: Stack, bob: Connection) -> None:
    """Six functions from one release, also of groups, with bars that hold at once."""
    query = "SELECT stddev(age) FROM people WHERE sex = $1 AND age > -22"
    bob.execute(f"SELECT * FROM dp_release_numeric('spread', $q${query}$q$, '{{f,m}}', epsilon => 2)")
    where = "WHERE sex IN ('f', 'm') AND age > -22"
    functions = ("variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop")
    with no_charge(stack.cluster):
        for function in functions:
            call = f"{function}(age)"
            sql = f"SELECT sex, {call}, dp_low({call}), dp_high({call}) FROM people {where} GROUP BY sex ORDER BY sex"
            found = bob.execute(sql).fetchall()
            assert bob.execute("SELECT path FROM dp.last_answer").fetchone() == ("family",)
            with stack.cluster.connect() as root:
                true = dict(root.execute(f"SELECT sex, {call} FROM people {where} GROUP BY sex").fetchall())
            assert found[2] == ("x", None, None, None) and [row[0] for row in found[:2]] == ["f", "m"]
            assert all(low <= true[sex] <= high and low <= value <= high for sex, value, low, high in found[:2])


def test_delta_goes_through(stack: Stack, bob: Connection) -> None:
    """As a parameter too; this dataset has none, which the refusal says."""
    pairs = [f"{{{low},{high}}}" for low in range(20, 29) for high in range(low, 29)]
    sql = (
        "SELECT * FROM dp_release_numeric('by_delta', 'SELECT count(*) FROM people WHERE age BETWEEN $1 AND $2',"
        f" '{{{','.join(pairs)}}}', epsilon => 0.1, delta => %s, mechanism => 'composition')"
    )
    with no_charge(stack.cluster), refused("DP001", "and delta 0 are left"):
        bob.execute(sql, [1e-6])
    with no_charge(stack.cluster), refused("DP005", "delta must be a number"):
        bob.execute(sql, [float("nan")])


def test_weights_go_through(stack: Stack, bob: Connection) -> None:
    """As text and with a grid of its own; other weights over the same classes, and a plain sum of them, are free."""
    query = "SELECT sum(CASE WHEN sex = $1 THEN 1 ELSE 0.25 END * age) FROM people WHERE age > 19"
    sql = "SELECT parameters, low, high FROM dp_release_numeric('by_weight', %s, %s, epsilon => 0.5)"
    found = bob.execute(sql, [query, ["f", "m"]]).fetchall()
    with stack.cluster.connect() as root:
        for (sex,), low, high in found:
            true = root.execute(query.replace("$1", "%s"), [sex]).fetchone()
            assert true is not None and low <= true[0] <= high
    with no_charge(stack.cluster):
        bob.execute(sql, [query.replace("0.25", "0.5 + $2"), [["x", "0.125"], ["f", "0.25"]]])
        bob.execute("SELECT sum(age) FROM people WHERE sex <> 'x' AND age > 19")
        with refused("DP005", "the weight is 1.5 where $1 = f, $2 = 1, sex = m"):
            bob.execute(sql, [query.replace("0.25", "0.5 + $2"), [["f", "1"]]])
