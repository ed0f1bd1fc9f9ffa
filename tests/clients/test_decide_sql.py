"""Sessions that are answered from a synthetic table, and decisions by function, in SQL through the whole product.

At epsilon 20 a decision is the truth and a private count exact, but with probability below 5e-9 each, and 5e-7 for all
of this file together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

import fix_chance
from fix_decide import EPSILON, Connection, Heard, decide_stack, one, refused, spent, truth
from fix_stack import Stack

pytestmark = pytest.mark.chance(
    fix_chance.union(fix_chance.laplace(1 / 20, 0, 10), fix_chance.laplace(5, 120), fix_chance.laplace(1 / 10, 4))
)

SATISFIED, UNMET = "distance bound satisfied", "distance bound unmet"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with decide_stack() as running:
        yield running


@pytest.fixture
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect() as connection:
        yield connection


def ask(connection: Connection, table: str = "adult_syn", tau: str = "5%", policy: str | None = None) -> None:
    """Set the session's synthetic table."""
    connection.execute(f"SET dp.synthetic = '{table}'; SET dp.tau = '{tau}'; SET dp.notices = on")
    connection.execute("RESET dp.synthetic_policy" if policy is None else f"SET dp.synthetic_policy = '{policy}'")


def types(connection: Connection, sql: str, **kwargs: Any) -> list[tuple[str, int]]:
    cursor = connection.execute(sql.encode(), **kwargs)
    return [(column.name, column.type_code) for column in cursor.description or ()]


def near(found: Any, expected: Any) -> bool:
    """Numbers to 5 digits behind the point, everything else exactly."""
    if isinstance(found, Decimal | float):
        return abs(Decimal(str(found)) - Decimal(str(expected))) <= Decimal("1e-5")
    return bool(found == expected)


# -- the synthetic table answers ---------------------------------------------------------------------------------------

STATEMENTS = (
    "SELECT count(*) FROM adult",
    "SELECT count(*) AS n, count(city), count(*) FILTER (WHERE sex = 'f') AS women FROM adult a WHERE a.age > 20",
    "SELECT sum(age), sum(hours), avg(age), avg(hours) FROM adult WHERE sex = 'f'",
    "SELECT median(age), percentile_disc(0.25) WITHIN GROUP (ORDER BY hours) AS q FROM public.adult",
    "SELECT count(*) - 1 AS less, count(*) / 2.0 AS half, count(*)::text AS shown FROM adult WHERE city = 'north'",
    "SELECT count(*) FROM adult HAVING count(*) > 10 ORDER BY count(*) LIMIT 1",
    "SELECT count(*) FROM adult HAVING count(*) < 10",
    "WITH c AS (SELECT sum(age) AS s FROM adult) SELECT s % 7 AS r FROM c",
    "SELECT 'f' AS sex, count(*) FROM adult WHERE sex = 'f' UNION ALL SELECT 'm', count(*) FROM adult WHERE sex = 'm'",
    "SELECT (SELECT count(*) FROM adult WHERE age < 30) AS young, (SELECT count(*) FROM adult_far) AS far",
    "SELECT count(*) FROM (SELECT age AS a FROM adult WHERE sex = 'm') m WHERE m.a BETWEEN 30 AND 50",
)


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_session_is_answered_from_the_synthetic_table(alice: Connection, sql: str, prepare: bool) -> None:
    """Names, types and values are those of the same statement over the copy, which anybody may read."""
    ask(alice)
    copied = re.sub(r"\badult\b", "adult_syn", sql)
    expected = alice.execute(copied.encode()).fetchall()
    heard = Heard(alice)
    cursor = alice.execute(sql.encode(), prepare=prepare)
    assert [(c.name, c.type_code) for c in cursor.description or ()] == types(alice, copied)
    rows = cursor.fetchall()
    assert len(rows) == len(expected)
    assert all(near(a, b) for row, other in zip(rows, expected, strict=True) for a, b in zip(row, other, strict=True))
    assert heard and all(SATISFIED in text and "the synthetic one" in text for text in heard)


def test_a_view_over_the_relation_is_asked_of_the_copy(alice: Connection) -> None:
    ask(alice)
    assert one(alice, "SELECT count(*) FROM grown_ups WHERE sex = 'f'") == one(
        alice, "SELECT count(*) FROM adult_syn WHERE age >= 21 AND sex = 'f'"
    )


def test_parameters(alice: Connection) -> None:
    ask(alice)
    sql = "SELECT count(*) FROM {} WHERE age > %s AND city = ANY (%s)"
    for binary in (False, True):
        found = alice.execute(sql.format("adult").encode(), (40, ["north", "east"]), binary=binary).fetchone()
        assert found == alice.execute(sql.format("adult_syn").encode(), (40, ["north", "east"])).fetchone()


def test_a_weighted_table_counts_by_its_weights(alice: Connection) -> None:
    """A count is a whole number, whatever the weights add up to; the weights of 11 rows are 91.3."""
    ask(alice, "adult_w", "30%")
    row = one(alice, "SELECT count(*), sum(age), avg(age), median(age) FROM adult WHERE id <= 11")
    plain = (
        "SELECT round(sum(w))::bigint, round(sum(age * w))::bigint, sum(age * w) / sum(w) FROM adult_w WHERE id <= 11"
    )
    expected = one(alice, plain)
    assert row[:2] == expected[:2] and near(row[2], expected[2])
    assert row[3:] == one(alice, "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY age) FROM adult_w WHERE id <= 11")


def test_the_copy_itself_is_an_ordinary_table(stack: Stack, alice: Connection) -> None:
    """Whatever the session has set: rows, groups, joins with itself, at no charge and without a notice."""
    ask(alice)
    before, heard = spent(stack), Heard(alice)
    assert len(alice.execute("SELECT * FROM adult_syn WHERE age = 30").fetchall()) == 33
    assert one(alice, "SELECT count(*) FROM adult_w") == (240,)
    rows = alice.execute("SELECT s.sex, count(*) FROM adult_syn s JOIN adult_far f USING (id) GROUP BY 1").fetchall()
    assert sorted(rows) == [("f", 250), ("m", 250)]
    assert spent(stack) == before and heard == []


# -- what the decision is, and what it costs ---------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [None, "synthetic"])
def test_an_unmet_bound_is_said_and_the_synthetic_answer_shown(alice: Connection, policy: str | None) -> None:
    ask(alice, "adult_far", policy=policy)
    heard = Heard(alice)
    assert one(alice, "SELECT count(*) FROM adult WHERE age > 25") == one(
        alice, "SELECT count(*) FROM adult_far WHERE age > 25"
    )
    assert len(heard) == 1 and UNMET in heard[0] and "the synthetic one" in heard[0]


FALLBACKS = (
    # (statement, mechanism, tolerance of a private answer)
    ("SELECT count(*) FROM adult WHERE age > 26", "auto", 0),
    ("SELECT count(*) FROM adult WHERE age > 27", "em", 0),
    ("SELECT sum(age) FROM adult WHERE sex = 'f'", "auto", 120),
    ("SELECT sum(age) FROM adult WHERE sex = 'm'", "svt_basic", 120),
    ("SELECT count(*) AS n, count(city) FROM adult WHERE age > 28", "em", 4),
)


@pytest.mark.parametrize(("sql", "mechanism", "off"), FALLBACKS)
@pytest.mark.parametrize("table", ["adult_syn", "adult_far"])
def test_a_fallback_answers_privately_where_the_bound_is_unmet(
    stack: Stack, alice: Connection, sql: str, mechanism: str, off: int, table: str
) -> None:
    """And pays what the notice says: a decision alone, or with the answer, never what was only reserved.

    Noise of scale 100 / 20 in a sum is beyond 120 with probability below 1e-10, of scale 1 / 10 in a count beyond 4.
    """
    ask(alice, table, "8%", "fallback")
    alice.execute(f"SET dp.mechanism = '{mechanism}'")
    before, heard = spent(stack), Heard(alice)
    row = one(alice, sql)
    met = table == "adult_syn"
    expected = one(alice, sql.replace("adult", table)) if met else truth(stack, sql)
    assert all(abs(a - b) <= (0 if met else off) for a, b in zip(row, expected, strict=True))
    assert len(heard) == 1 and (SATISFIED if met else UNMET) in heard[0]
    assert f"the answer is the {'synthetic' if met else 'private'} one" in heard[0]
    paid = spent(stack) - before
    drawn = mechanism in ("em", "svt_basic")
    assert paid == (2 * EPSILON if drawn and not met else EPSILON)
    assert f"epsilon {paid.normalize():f} charged" in heard[0]


def test_a_repeated_question_is_free_and_says_the_same(stack: Stack, alice: Connection) -> None:
    ask(alice, "adult_far", policy="fallback")
    heard = Heard(alice)
    first = one(alice, "SELECT count(*) FROM adult WHERE age > 31")
    before = spent(stack)
    for prepare in (False, True):
        assert one(alice, "SELECT count(*) AS n FROM adult WHERE age > 31", prepare=prepare) == first
    assert spent(stack) == before
    assert [text.split("; ")[1:] for text in heard] == [heard[0].split("; ")[1:]] * 3
    assert "free" in heard[1] and "free" in heard[2]


def test_a_block_is_one_price_split_over_its_decisions(stack: Stack, alice: Connection) -> None:
    ask(alice)
    before, heard = spent(stack), Heard(alice)
    alice.execute("SELECT count(*), sum(age), avg(hours), median(age) FROM adult WHERE age > 33")
    assert spent(stack) - before == EPSILON
    assert len(heard) == 1 and heard[0].count(SATISFIED) == 4


def test_the_price_and_the_mechanism_are_the_sessions(stack: Stack, alice: Connection) -> None:
    ask(alice)
    alice.execute("SET dp.epsilon = 3; SET dp.mechanism = 'em'")
    before, heard = spent(stack), Heard(alice)
    alice.execute("SELECT count(*) FROM adult WHERE age > 34")
    assert spent(stack) - before == 3 and "EM_count" in heard[0]


def test_notices_are_for_those_who_want_them(alice: Connection) -> None:
    ask(alice)
    heard = Heard(alice)
    alice.execute("RESET dp.notices")
    alice.execute("SELECT count(*) FROM adult")
    assert heard == []
    alice.execute("SET application_name = 'psql'")
    alice.execute("SELECT count(*) FROM adult")
    assert len(heard) == 1 and SATISFIED in heard[0]


def test_bars_of_a_synthetic_answer_are_unknown(alice: Connection) -> None:
    ask(alice)
    sql = "SELECT count(*), dp_low(count(*)), dp_high(count(*)), dp_stderr(count(*)) FROM adult"
    assert one(alice, sql) == (1980, None, None, None)


@pytest.mark.parametrize("prepare", [False, True])
def test_a_decision_is_a_column_for_programs_that_hear_no_notice(
    stack: Stack, alice: Connection, prepare: bool
) -> None:
    """Free: it was released with the answer. NULL where nothing is decided."""
    sql = "SELECT count(*) AS n, dp_decision(count(*)) FROM adult"
    assert one(alice, sql, prepare=prepare) == (2000, None)
    ask(alice)
    one(alice, "SELECT count(*) FROM adult")
    before = spent(stack)
    assert one(alice, sql, prepare=prepare) == (1980, True)
    assert types(alice, sql)[1] == ("dp_decision", 16)
    rows = alice.execute("SELECT count(*) FROM adult HAVING NOT dp_decision(count(*))").fetchall()
    assert rows == [] and spent(stack) == before
    ask(alice, "adult_far")
    assert one(alice, f"{sql} ORDER BY dp_decision(count(*))", prepare=prepare) == (500, False)


# -- the settings of a session -----------------------------------------------------------------------------------------

PRIVATE, COPY, FAR = 2000, 1980, 500
COUNT = "SELECT count(*) FROM adult"


def count(connection: Connection, **kwargs: Any) -> int:
    return int(one(connection, COUNT, **kwargs)[0])


def test_a_prepared_statement_follows_the_settings(stack: Stack, alice: Connection) -> None:
    """One statement of the protocol, one of SQL and one that the proxy has kept, over every way to change a setting."""
    alice.execute("PREPARE p AS SELECT count(*) FROM adult")

    def everywhere() -> set[int]:
        return {count(alice), count(alice, prepare=True), int(one(alice, "EXECUTE p")[0])}

    assert everywhere() == {PRIVATE}
    ask(alice)
    assert everywhere() == {COPY}
    alice.execute("SET dp.synthetic = 'public.adult_far'")
    assert everywhere() == {FAR}
    alice.execute("SET dp.synthetic_policy = 'fallback'")
    assert everywhere() == {PRIVATE}
    alice.execute("SET dp.tau = '5000'")
    assert everywhere() == {FAR}
    alice.execute("SELECT set_config('dp.synthetic', 'adult_syn', false)")
    assert everywhere() == {COPY}
    alice.execute("RESET dp.synthetic")
    assert everywhere() == {PRIVATE}


def test_settings_follow_transactions_and_savepoints(stack: Stack, alice: Connection) -> None:
    ask(alice)
    alice.execute("RESET dp.synthetic")
    with alice.transaction():
        alice.execute("SET LOCAL dp.synthetic = 'adult_syn'")
        assert count(alice) == COPY
        with pytest.raises(ZeroDivisionError), alice.transaction():
            alice.execute("SET dp.synthetic = 'adult_far'")
            assert count(alice, prepare=True) == FAR
            raise ZeroDivisionError
        assert count(alice, prepare=True) == COPY
    assert count(alice) == PRIVATE
    with pytest.raises(ZeroDivisionError), alice.transaction():
        alice.execute("SET dp.synthetic = 'adult_syn'")
        raise ZeroDivisionError
    assert count(alice, prepare=True) == PRIVATE
    with alice.pipeline():
        alice.execute("SET dp.synthetic = 'adult_far'")
        cursor = alice.execute(COUNT)
        assert cursor.fetchone() == (FAR,)
    alice.execute("DISCARD ALL")
    assert count(alice) == PRIVATE


def test_settings_from_the_start(stack: Stack) -> None:
    """By the packet's options, and by the role's own settings on the facade."""
    with stack.connect(options="-c dp.synthetic=adult_syn -c dp.tau=5%") as session:
        assert count(session) == COPY
        assert one(session, "SELECT current_setting('dp.tau')") == ("5%",)
        session.execute("RESET dp.synthetic")
        assert count(session) == COPY
    stack.cluster.execute(
        "ALTER ROLE bob IN DATABASE facade SET dp.synthetic = 'adult_far'",
        "ALTER ROLE bob IN DATABASE facade SET dp.tau = '10'",
    )
    try:
        with stack.connect("bob") as bob:
            assert count(bob) == FAR and count(bob, prepare=True) == FAR
    finally:
        stack.cluster.execute("ALTER ROLE bob IN DATABASE facade RESET ALL")


def test_explicit_calls_ask_the_private_table(alice: Connection) -> None:
    ask(alice)
    assert one(alice, "SELECT dp_count('adult')") == (PRIVATE,)


def test_every_setting_can_be_shown(alice: Connection) -> None:
    shown = [one(alice, f"SHOW dp.{name}")[0] for name in ("synthetic", "tau", "synthetic_policy")]
    assert shown == ["", "", ""]


REFUSED = (
    # (settings, statement, SQLSTATE, words of the hint)
    ("", "SELECT sex, count(*) FROM adult GROUP BY sex", "DP003", "RESET dp.synthetic"),
    ("", "SELECT count(*) FROM adult a JOIN adult_syn s ON s.id = a.id", "DP003", "RESET dp.synthetic"),
    ("", "SELECT stddev(age) FROM adult", "DP003", "RESET dp.synthetic"),
    ("", "SELECT count(*) FROM visits", "DP005", "dp.register_synthetic"),
    ("SET dp.tau = ''", COUNT, "DP005", "SET dp.tau"),
    ("SET dp.tau = '0'", COUNT, "DP005", "tau"),
    ("SET dp.tau = '0%'", COUNT, "DP005", "tau"),
    ("SET dp.tau = '-5%'", COUNT, "DP005", "tau"),
    ("SET dp.tau = 'five'", COUNT, "DP005", "tau"),
    ("SET dp.tau = '5'", "SELECT avg(age) FROM adult WHERE age > 99", "DP005", "widen"),
    ("SET dp.tau = '5'", "SELECT median(age) FROM adult WHERE age > 99", "DP005", "widen"),
    ("", "SELECT count(*) FROM adult WHERE age > 99", "DP005", "absolute"),
    ("SET dp.synthetic = 'nothing'", COUNT, "DP005", "dp.register_synthetic"),
    ("SET dp.synthetic = 'adult'", COUNT, "DP005", "dp.register_synthetic"),
    ("SET dp.synthetic = 'visits_syn'", COUNT, "DP005", "dp.register_synthetic"),
    ("SET dp.synthetic_policy = 'guess'", COUNT, "DP005", "fallback"),
    ("SET dp.mechanism = 'r2t'", COUNT, "DP005", "auto"),
    ("SET dp.alpha = 0.1; SET dp.beta = 0.1", COUNT, "DP005", "epsilon"),
)


@pytest.mark.parametrize(("setting", "sql", "sqlstate", "hint"), REFUSED)
def test_what_cannot_be_decided_is_refused_with_what_to_do(
    stack: Stack, alice: Connection, setting: str, sql: str, sqlstate: str, hint: str
) -> None:
    """In either protocol, before anything is charged; the session goes on."""
    ask(alice)
    before = spent(stack)
    if setting:
        alice.execute(setting.encode())
    for prepare in (False, True):
        error = refused(alice, sql, prepare=prepare)
        assert error.sqlstate == sqlstate and hint in (error.diag.message_hint or ""), str(error)
    assert refused(alice, f"EXPLAIN {sql}").sqlstate == sqlstate
    assert spent(stack) == before
    alice.execute("RESET ALL")
    assert count(alice) == PRIVATE


def test_a_refusal_shows_the_part_that_is_too_much(alice: Connection) -> None:
    ask(alice)
    sql = "SELECT sex, count(*) FROM adult GROUP BY sex"
    for prepare in (False, True):
        assert refused(alice, sql, prepare=prepare).diag.statement_position == str(1 + sql.rindex("sex"))
    sql = "SELECT count(*) FROM adult a WHERE 1 / (age - 37) > 0"
    assert refused(alice, sql).diag.statement_position == str(1 + sql.index("/ (age"))
    assert refused(alice, f"EXPLAIN {sql}").diag.statement_position == str(9 + sql.index("/ (age"))


def test_a_copy_that_changed_or_is_withdrawn_answers_nothing(stack: Stack, alice: Connection) -> None:
    """Also what it answered before: its name means nothing any more. Its rows are public, and decided about anew."""
    sql = "SELECT count(*) FROM visits WHERE age < 80"
    register = "CALL dp.register_synthetic('visits', 'visits_two', provenance => 'public')"
    stack.cluster.psql(f"CREATE TABLE visits_two AS TABLE visits_syn; {register}", user="boss")
    ask(alice, "visits_two", "100")
    heard = Heard(alice)
    assert one(alice, sql) == one(alice, "SELECT count(*) FROM visits_syn WHERE age < 80")
    stack.cluster.psql("INSERT INTO visits_two VALUES (-1, 3)", user="boss")
    assert one(alice, sql) == one(alice, "SELECT count(*) + 1 FROM visits_syn WHERE age < 80")
    assert ["charged" in text for text in heard] == [True, True]
    stack.cluster.psql("ALTER TABLE visits_two ALTER COLUMN age TYPE bigint", user="boss")
    assert refused(alice, sql).sqlstate == "DP006"
    stack.cluster.psql("ALTER TABLE visits_two ALTER COLUMN age TYPE int", user="boss")
    assert one(alice, sql)[0] > 200 and "free" in heard[-1]
    stack.cluster.psql("CALL dp.unregister_synthetic('visits_two')", user="boss")
    assert refused(alice, sql).sqlstate == "DP005"
    stack.cluster.psql("DROP TABLE visits_two", user="boss")
    assert refused(alice, sql).sqlstate == "DP005"


def test_the_domain_of_a_column_needs_no_decision(alice: Connection) -> None:
    ask(alice)
    assert sorted(alice.execute("SELECT DISTINCT sex FROM adult").fetchall()) == [("f",), ("m",)]


# -- by function -------------------------------------------------------------------------------------------------------

NEAR = "'SELECT count(*) FROM adult WHERE age > 30', synthetic => 'adult_syn', tau_percent => 5"
QUERIES = (
    "SELECT count(*) FROM adult WHERE age > 30",
    "SELECT count(*) FROM public.adult WHERE adult.age > 30",
    "SELECT count(*) FROM {table} WHERE age > 30",
    "SELECT count(*) FROM adult_syn WHERE age > 30",
    "SELECT count(*) AS n FROM adult AS a WHERE a.age > 30",
    "  select COUNT(*) from ADULT where AGE>30 ; ",
)


@pytest.mark.parametrize("query", QUERIES)
def test_one_question_in_any_spelling(stack: Stack, alice: Connection, query: str) -> None:
    """The second and further ones are free: they are the same question."""
    one(alice, f"SELECT dp_decide({NEAR}, epsilon => 1)")
    before = spent(stack)
    call = "SELECT dp.dp_decide(%s, 'adult_syn', tau_percent => 5, epsilon => 1)"
    assert one(alice, call, query) == (True,)
    assert one(alice, call, query, binary=True) == (True,)
    assert spent(stack) == before


def test_a_decision_in_larger_statements(alice: Connection) -> None:
    call = f"dp_decide({NEAR})"
    far = "dp_decide('SELECT count(*) FROM adult', 'adult_far', tau => 10)"
    assert one(alice, f"SELECT CASE WHEN {call} AND NOT {far} THEN 'near' ELSE 'far' END") == ("near",)
    assert one(alice, f"SELECT count(*) FROM adult_syn WHERE {call}") == (COPY,)
    assert one(alice, f"SELECT count(*) FROM adult_far WHERE {far}") == (0,)
    sql = f"WITH d AS (SELECT {call} AS ok) SELECT s.n FROM d, (SELECT count(*) AS n FROM adult_syn) s WHERE d.ok"
    assert one(alice, sql) == (COPY,)
    assert one(alice, f"SELECT EXISTS (SELECT 1 FROM dp_decide_detail({NEAR}) d WHERE d.decision)") == (True,)
    assert one(alice, f"SELECT array_agg(g) FROM generate_series(1, 2) g WHERE {call}") == ([1, 2],)


def test_the_detail_is_a_table(stack: Stack, alice: Connection) -> None:
    before = spent(stack)
    cursor = alice.execute(f"SELECT * FROM dp_decide_detail({NEAR}, epsilon => 15, mechanism => 'lm')".encode())
    names = [column.name for column in cursor.description or ()]
    (row,) = cursor.fetchall()
    found = dict(zip(names, row, strict=True))
    assert (found["decision"], found["text"], found["mechanism"]) == (True, SATISFIED, "LM_count")
    assert (found["epsilon"], found["extension"], found["provenance"]) == (15, False, "public")
    (synthetic,) = one(alice, "SELECT count(*) FROM adult_syn WHERE age > 30")
    (private,) = truth(stack, "SELECT count(*) FROM adult WHERE age > 30")
    assert found["synthetic_answer"] == found["answer"] == synthetic and abs(found["estimate"] - private) < 3
    assert (found["low"], found["high"]) == (synthetic * Decimal("0.95"), synthetic * Decimal("1.05"))
    assert spent(stack) - before == 15
    call = f"dp_decide_detail({NEAR}, epsilon => 15, mechanism => 'lm')"
    assert one(alice, f"SELECT d.decision, d.estimate FROM {call} AS d") == (True, found["estimate"])
    assert one(alice, f"SELECT ({call}).text") == (SATISFIED,)
    assert spent(stack) - before == 15


def test_a_detail_falls_back(stack: Stack, alice: Connection) -> None:
    sql = (
        "SELECT answer, decision FROM dp_decide_detail(%s, 'adult_far', tau => 10, mechanism => 'em', fallback => true)"
    )
    before = spent(stack)
    query = "SELECT count(*) FROM {table} WHERE age > 35"
    assert one(alice, sql, query) == (*truth(stack, query.replace("{table}", "adult")), False)
    assert spent(stack) - before == 2 * EPSILON


def test_a_plan_of_decisions_is_free(stack: Stack, alice: Connection) -> None:
    before = spent(stack)
    rows = alice.execute(
        f"SELECT mechanism, tau_min, recommended FROM dp_decide_plan({NEAR}, epsilon => 0.1)"
    ).fetchall()
    found = {mechanism: (tau_min, recommended) for mechanism, tau_min, recommended in rows}
    assert abs(found["lm"][0] - Decimal("29.957")) < Decimal("0.01") and found["lm"][1]
    assert abs(found["em"][0] - Decimal("29.444")) < Decimal("0.01") and not found["em"][1]
    (document,) = one(alice, f"SELECT dp_plan(dp_decide_request({NEAR}, epsilon => 0.1))")
    assert document["decisions"][0]["synthetic"] == "1551"
    assert spent(stack) == before


def test_a_bound_is_a_power_of_two_or_the_largest_declared_value(stack: Stack, alice: Connection) -> None:
    before = spent(stack)
    (found,) = one(alice, "SELECT dp_bound('adult', 'age', epsilon => 20)")
    assert found in {2, 4, 8, 16, 32, 64, 100}
    assert spent(stack) - before == 20


def test_names_follow_the_clients_path(stack: Stack, alice: Connection) -> None:
    call = "SELECT dp.dp_decide('SELECT count(*) FROM {}', synthetic => '{}', tau => 50)"
    alice.execute("SET search_path = dp, pg_catalog")
    assert refused(alice, call.format("adult", "public.adult_syn")).sqlstate == "DP003"
    assert refused(alice, call.format("public.adult", "adult_syn")).sqlstate == "42P01"
    assert one(alice, call.format("public.adult", "public.adult_syn")) == (True,)


def test_a_query_that_is_no_sql_shows_its_place(alice: Connection) -> None:
    error = refused(alice, "SELECT dp_decide('SELECT count(*) FORM adult', 'adult_syn', tau => 50)")
    assert error.sqlstate == "42601" and "character 22 of the query" in str(error.diag.message_detail)


def test_what_cannot_be_an_argument(alice: Connection) -> None:
    error = refused(alice, "SELECT dp_decide(q, 'adult_syn', tau => 50) FROM (VALUES ('SELECT 1')) t(q)")
    assert error.sqlstate == "DP003" and "'query'" in str(error.diag.message_hint)


# -- EXPLAIN -----------------------------------------------------------------------------------------------------------


def explained(connection: Connection, sql: str) -> str:
    return "\n".join(row[0] for row in connection.execute(f"EXPLAIN {sql}".encode()).fetchall())


def test_explain_of_a_session_that_asks_a_copy(stack: Stack, alice: Connection) -> None:
    ask(alice, policy="fallback")
    alice.execute("SET dp.epsilon = 0.01; SET dp.mechanism = 'em'")
    before = spent(stack)
    text = explained(alice, "SELECT count(*) FROM adult WHERE age > 30")
    assert text.startswith("DP block $1: SELECT count(*) FROM public.adult WHERE age > 30\n")
    for line in (
        "answer: from adult_syn, the private one where the bound is unmet",
        "mechanism: EM_count",
        "charge, worst: epsilon 0.02",
        "charge, best: epsilon 0.01",
        "warning: tau 77.55 is below 294.444",
        "synthetic answer: 1551, by public.adult_syn (public)",
        "satisfied: strictly between 1473.45 and 1628.55, tau 77.55, at epsilon 0.01",
        "decider: lm, least tau 299.574",
    ):
        assert line in text, line
    assert "±" not in text and "Scan" not in text
    assert spent(stack) == before


def test_explain_of_a_call(stack: Stack, alice: Connection) -> None:
    before = spent(stack)
    text = explained(alice, f"SELECT dp_decide({NEAR}, epsilon => 0.1)")
    assert text.startswith("DP block $1: dp_decide('SELECT count(*) FROM adult WHERE age > 30', synthetic => ")
    assert "charge, worst: epsilon 0.1" in text and "decider: lm (recommended)" in text
    assert "charge: nothing" in explained(alice, f"SELECT * FROM dp_decide_plan({NEAR}, epsilon => 0.1)")
    (document,) = one(alice, f"EXPLAIN (FORMAT JSON) SELECT dp_decide({NEAR}, epsilon => 0.1)")
    value = document if isinstance(document, list) else json.loads(document)
    assert value[0]["DP Blocks"][0]["Facts"]["decisions"][0]["tau"] == "77.55"
    assert spent(stack) == before


def test_explain_runs_nothing_on_rows(stack: Stack, alice: Connection) -> None:
    """The same words on other data: a plan sees public values only."""
    ask(alice, "people_syn")
    sql = "SELECT count(*), median(age) FROM people WHERE sex = 'f'"
    before = explained(alice, sql)
    stack.cluster.execute("DELETE FROM people WHERE id <= 100")
    assert re.sub(r"as of: .*", "", explained(alice, sql)) == re.sub(r"as of: .*", "", before)


def test_user_units_are_decided_by_the_deciders_that_take_them(stack: Stack, alice: Connection) -> None:
    """At most 5 rows a user are declared: the interval is public and the same, the price as asked."""
    ask(alice, "orders_syn", "100")
    before, heard = spent(stack, "shop"), Heard(alice)
    assert one(alice, "SELECT count(*) FROM orders") == (380,)
    assert spent(stack, "shop") - before == Decimal("0.5")
    assert re.search(
        "public.orders_syn gives 380, which is (not )?within 100 of the private answer, by LM_count", heard[0]
    )
    error = refused(alice, "SELECT dp_decide('SELECT count(*) FROM orders', 'orders_syn', 10, mechanism => 'em_naive')")
    assert error.sqlstate == "DP003" and "em, lm" in str(error.diag.message_hint)
    assert spent(stack, "shop") - before == Decimal("0.5")
