"""A ratio, root, logarithm or power of released values that has no result is NULL, and no error after payment.

The noise is drawn at epsilon 20, so that counts are exact but for a chance that the mark states; what is 0 or negative
is made so by the statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_ledger import one
from fix_stack import Stack

Connection = psycopg.Connection[Any]
EPSILON = 20
# 400 rows, a third in each city: expression over one row of released values, and the SQLSTATE of PostgreSQL's own.
UNDEFINED = [
    ("n / (n - 400)", "22012"),
    ("n::int / (n - 400)::int", "22012"),
    ("n::int2 / (n - 400)", "22012"),
    ("n::numeric / (n - 400)", "22012"),
    ("n::float8 / (n - 400)", "22012"),
    ("n::float4 / (n - 400)::float4", "22012"),
    ("n / '0'", "22012"),
    ("n / 0", "22012"),
    ("n / 0.00", "22012"),
    ("n % (n - 400)", "22012"),
    ("mod(n, n - 400)", "22012"),
    ("mod(n::numeric, n - 400)", "22012"),
    ("div(n, n - 400)", "22012"),
    ("interval '1 hour' / (n - 400)", "22012"),
    ("n::money / (n - 400)::money", "22012"),
    ("sqrt(-n)", "2201F"),
    ("sqrt(-n::numeric)", "2201F"),
    ("|/ -n", "2201F"),
    ("ln(n - 400)", "2201E"),
    ("ln(-n::numeric)", "2201E"),
    ("log(-n)", "2201E"),
    ("log10(n::numeric - 400)", "2201E"),
    ("log(n - 399, 10)", "22012"),
    ("log(2, n - 400)", "2201E"),
    ("log(-n, 2)", "2201E"),
    ("(n - 400) ^ -1", "2201F"),
    ("power(-n, 0.5)", "2201F"),
    ("pow(-n::float8, 0.5::float8)", "2201F"),
    ("power(n::numeric - 400, -1)", "2201F"),
]
DEFINED = [
    *(
        "n / 7",
        "n::int2 / 7::int2",
        "n / 7.0",
        "n::float4 / 3::float4",
        "n / '7'",
        "-n / 7",
        "-n % 7",
        "n % -7::numeric",
    ),
    *("mod(n, 7)", "div(n, 7)", "div(-n, 7.5)", "interval '1 hour' / n", "n::money / 7", "n::money / 7::money"),
    *("sqrt(n)", "sqrt(n::numeric)", "|/ n", "ln(n)", "ln(n::numeric)", "log(n)", "log10(n::numeric)", "log(2, n)"),
    *(
        "n ^ 2",
        "2 ^ n",
        "-n ^ 2",
        "power(n, 0.5)",
        "power(-n, 2)",
        "pow(n, -1)",
        "(n - 400) ^ 0",
        "sqrt(n) / n ^ 2 * 3 - n % 7",
    ),
    *(
        "n / NULL::int",
        "sqrt(NULL::float8)",
        "n / 'NaN'::float8",
        "ln('NaN'::numeric * n)",
        "0.5 ^ 'Infinity'::float8 * n",
    ),
    *("n / 7 / 2", "n / (7 / 2)", "100 - n / 7 - 1", "NOT n / 7 > 3", "(n + 1) / 7", "n / 7 || 'x'", "- (n / 7)"),
]
COUNTED = "(SELECT count(*) AS n FROM shop) q"
CONSTANT = "(SELECT 400::bigint AS n OFFSET 0) q"
# Of the whole table and of three cities, each stored once, by block and by call.
pytestmark = pytest.mark.chance(fix_chance.laplace(1 / EPSILON, 0, 10))


@pytest.fixture(scope="module")
def stack(reports_stack: Stack) -> Stack:
    return reports_stack


class Heard:
    """A session, and the notices about NULL that it heard."""

    def __init__(self, session: Connection) -> None:
        self.session = session
        self.notices: list[str] = []
        session.add_notice_handler(lambda diagnostic: self.notices.append(diagnostic.message_primary or ""))
        session.execute(f"SET dp.epsilon = {EPSILON}")
        session.execute("SET dp.notices = on")

    def said(self) -> list[str]:
        """How many values are NULL, by statement, as heard since the last call."""
        found = [text.split()[1] for text in self.notices if "NULL" in text]
        self.notices.clear()
        return found


@pytest.fixture
def heard(stack: Stack) -> Iterator[Heard]:
    with stack.connect("alice") as session:
        yield Heard(session)


@pytest.fixture(scope="module")
def owner(stack: Stack) -> Iterator[Connection]:
    with stack.cluster.connect() as session:
        yield session


def kind(session: Connection, expression: str, source: str) -> int:
    """The OID of the type that an expression over no row has."""
    described = session.execute(f"SELECT {expression} FROM {source} LIMIT 0").description
    assert described is not None
    return described[0].type_code


@pytest.mark.parametrize(("expression", "state"), UNDEFINED)
def test_what_has_no_result_is_null(heard: Heard, owner: Connection, expression: str, state: str) -> None:
    """And with dp.division = 'error' it is PostgreSQL's own error."""
    asked = f"SELECT {expression} FROM {COUNTED}"
    with pytest.raises(psycopg.Error) as theirs:
        owner.execute(f"SELECT {expression} FROM {CONSTANT}")
    found = heard.session.execute(asked)
    assert found.description is not None
    assert found.fetchall() == [(None,)]
    assert found.description[0].type_code == kind(owner, expression, CONSTANT)
    assert heard.said() == ["1"]
    heard.session.execute("SET dp.division = ' Error'")
    with pytest.raises(psycopg.Error) as ours:
        heard.session.execute(asked)
    assert ours.value.sqlstate == theirs.value.sqlstate == state
    assert ours.value.diag.message_primary == theirs.value.diag.message_primary
    assert heard.said() == []


def test_what_has_a_result_is_what_postgresql_computes(heard: Heard, owner: Connection) -> None:
    columns = ", ".join(DEFINED)
    ours = heard.session.execute(f"SELECT {columns} FROM {COUNTED}")
    theirs = owner.execute(f"SELECT {columns} FROM {CONSTANT}")
    assert ours.description is not None and theirs.description is not None
    values = (cursor.fetchone() or () for cursor in (ours, theirs))
    wrong = [item for item in zip(DEFINED, *values, strict=True) if repr(item[1]) != repr(item[2])]
    assert wrong == []
    assert [(c.name, c.type_code) for c in ours.description] == [(c.name, c.type_code) for c in theirs.description]
    assert heard.said() == []


STATEMENTS = [
    # statement, its rows, how many values are NULL; of the cities Lyon and Nice have 133 rows, Metz has 134
    (
        "SELECT city, 1 / (count(*) - 134) FROM shop GROUP BY city ORDER BY 1",
        [("Lyon", -1), ("Metz", None), ("Nice", -1)],
        1,
    ),
    ("SELECT city FROM shop GROUP BY city HAVING 1 / (count(*) - 134) < 0 ORDER BY 1", [("Lyon",), ("Nice",)], 1),
    (
        "SELECT city FROM shop GROUP BY city ORDER BY 1 / (count(*) - 134) NULLS FIRST, city",
        [("Metz",), ("Lyon",), ("Nice",)],
        1,
    ),
    (
        "SELECT city, count(*) / (count(*) - lag(count(*)) OVER (ORDER BY city)) FROM shop GROUP BY city ORDER BY 1",
        [("Lyon", None), ("Metz", 134), ("Nice", -133)],
        0,
    ),
    (
        "SELECT sum(count(*)) OVER (ORDER BY city) / (sum(count(*)) OVER () - 400) FROM shop GROUP BY city",
        [(None,), (None,), (None,)],
        3,
    ),
    ("WITH c AS (SELECT count(*) AS n FROM shop) SELECT n / (n - 400), sqrt(n - 401) FROM c", [(None, None)], 2),
    ("SELECT round(100.0 * 5 / ((SELECT count(*) FROM shop) - 400), 1) IS NULL", [(True,)], 1),
    ("SELECT CASE WHEN n = 400 THEN 7 ELSE 1 / (n - 400) END FROM (SELECT count(*) AS n FROM shop) q", [(7,)], 0),
    (
        "SELECT r FROM (SELECT 1 / (count(*) - 134) AS r, city FROM shop GROUP BY city) q WHERE city = 'Lyon'",
        [(-1,)],
        0,
    ),
    ("SELECT ln(dp_count('shop') - 400) IS NULL", [(True,)], 1),
]


@pytest.mark.parametrize(("statement", "rows", "nulls"), STATEMENTS)
@pytest.mark.parametrize("division", ["null", "error"])
def test_wherever_it_stands(
    heard: Heard, statement: str, rows: list[tuple[Any, ...]], nulls: int, division: str
) -> None:
    heard.session.execute(f"SET dp.division = '{division}'")
    if division == "error" and nulls:
        with pytest.raises(psycopg.DataError):
            heard.session.execute(statement)
        assert heard.said() == []
        return
    assert heard.session.execute(statement).fetchall() == rows
    assert heard.said() == ([str(nulls)] if nulls else [])


NULL_COUNT = "SELECT n / (n - %s::bigint) FROM (SELECT count(*) AS n FROM shop) q"


def test_a_prepared_statement_follows_the_setting(heard: Heard) -> None:
    """In the extended protocol, with parameters, run again."""
    session = heard.session
    for shift, expected in [(400, None), (399, 400), (400, None)]:
        assert session.execute(NULL_COUNT, (shift,), prepare=True).fetchone() == (expected,)
    assert heard.said() == ["1", "1"]
    session.execute("SET dp.division = error")
    with pytest.raises(psycopg.errors.DivisionByZero):
        session.execute(NULL_COUNT, (400,), prepare=True)
    session.execute("SET dp.division = 'null'")
    assert session.execute(NULL_COUNT, (400,), prepare=True).fetchone() == (None,)


def test_statements_of_sql(heard: Heard) -> None:
    """PREPARE, a cursor, COPY, a table of one's own; several statements in one message are told one by one."""
    session, asked = heard.session, "SELECT 1 / (count(*) - 134) AS r FROM shop GROUP BY city"
    session.execute(f"PREPARE ratio(int) AS {asked.replace('134', '$1')}")
    assert session.execute("EXECUTE ratio(134)").fetchall().count((None,)) == 1
    assert heard.said() == ["1"]
    with session.cursor().copy(f"COPY ({asked}) TO STDOUT") as copy:
        assert b"".join(map(bytes, copy)).count(b"\\N") == 1
    assert heard.said() == ["1"]
    session.execute(f"CREATE TEMP TABLE kept AS {asked}")
    assert one(session, "SELECT count(*) FROM kept WHERE r IS NULL") == 1
    assert heard.said() == ["1"]
    session.execute(f"BEGIN; DECLARE c CURSOR FOR {asked}")
    assert heard.said() == []
    assert session.execute("FETCH ALL FROM c").fetchall().count((None,)) == 1
    session.execute("COMMIT")
    assert heard.said() == ["1"]
    session.execute(f"{asked}; SELECT 1; {asked} UNION ALL {asked}")
    assert heard.said() == ["1", "2"]


def test_no_notice_for_who_wants_none(heard: Heard) -> None:
    heard.session.execute("SET dp.notices = off")
    assert heard.session.execute(STATEMENTS[0][0]).fetchall() == STATEMENTS[0][1]
    assert heard.said() == []


@pytest.mark.parametrize(
    "statement", ["SELECT count(*) + 1 / (SELECT 0) FROM shop", "SELECT count(*) + (SELECT 1 / x FROM zero) FROM shop"]
)
def test_what_is_not_released_keeps_its_error(heard: Heard, statement: str) -> None:
    """Constants, and a table of the session's own."""
    heard.session.execute("CREATE TEMP TABLE zero AS SELECT 0 AS x")
    with pytest.raises(psycopg.errors.DivisionByZero):
        heard.session.execute(statement)


def test_a_wrong_value_is_refused_and_nothing_charged(heard: Heard) -> None:
    session = heard.session
    before = one(session, "SELECT dp_budget_left('rep')")
    session.execute("SET dp.division = 'zero'")
    with pytest.raises(psycopg.Error) as refused:
        session.execute("SELECT 7 / count(*) FROM acc")
    assert (refused.value.sqlstate, refused.value.diag.message_hint) == (
        "DP005",
        "SET dp.division = 'null', or 'error' for PostgreSQL's own error.",
    )
    session.execute("RESET dp.division")
    assert one(session, "SELECT dp_budget_left('rep')") == before


def test_explain_says_what_happens_at_zero_and_charges_nothing(heard: Heard) -> None:
    session = heard.session
    before = one(session, "SELECT dp_budget_left('rep')")

    def undefined(statement: str) -> list[str]:
        plan = session.execute(f"EXPLAIN {statement}").fetchall()
        return [line for (line,) in plan if line.startswith("Undefined: ")]

    ratio = "SELECT v, sum(v) / count(*) FROM acc WHERE v > 3 GROUP BY v"
    assert [line.rsplit("(", 1)[1] for line in undefined(ratio)] == ["dp.division = null)"]
    session.execute(f"PREPARE p AS {ratio}")
    session.execute("SET dp.division = 'error'")
    for statement in (ratio, "EXECUTE p"):
        assert [line.rsplit("(", 1)[1] for line in undefined(statement)] == ["dp.division = error)"]
    assert undefined("SELECT count(*) / 2 FROM acc WHERE v > 3") == []
    ((document,),) = session.execute(f"EXPLAIN (FORMAT JSON) {ratio}").fetchall()
    assert document[0]["Undefined"].endswith("(dp.division = error)")
    assert one(session, "SELECT dp_budget_left('rep')") == before
