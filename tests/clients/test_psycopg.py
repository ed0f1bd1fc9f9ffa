"""psycopg 3 through the proxy, on real rows: what people and programs send, in every style that psycopg has."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.numeric import Int2, Int4, Int8
from shapes import DERIVED, PLAIN, SHAPES, check_near, margin, over, truth

from clients import shapes
from fix_stack import Stack

pytestmark = pytest.mark.chance(shapes.CHANCE)

Connection = psycopg.Connection[Any]
STYLES: dict[str, dict[str, Any]] = {
    "simple": {},
    "prepared": {"prepare": True},
    "binary": {"binary": True},
    "prepared and binary": {"prepare": True, "binary": True},
}


@pytest.fixture(scope="module", autouse=True)
def _allotment(stack: Stack) -> None:
    """These tests ask more than the standard allotment of epsilon 5 pays for."""
    stack.cluster.psql("CALL dp.allot('alice', 'people', epsilon => 10)", user="boss")


@pytest.fixture
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect() as connection:
        for statement in PLAIN:
            connection.execute(statement)
        yield connection


def one(connection: Connection, question: str, *arguments: Any, **style: Any) -> Any:
    """The only row of an answer."""
    rows = connection.execute(question.encode(), *arguments, **style).fetchall()
    assert len(rows) == 1
    return rows[0]


def columns(cursor: psycopg.Cursor[Any]) -> list[tuple[Any, ...]]:
    """Names, types, modifiers and sizes of a result's columns."""
    return [(c.name, c.type_code, c._fmod, c.internal_size) for c in cursor.description or ()]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("shape, parts", SHAPES)
def test_an_answer_has_the_columns_of_postgresql_and_is_near_the_truth(
    stack: Stack, alice: Connection, shape: str, parts: int, style: str
) -> None:
    cursor = alice.execute(over(shape).encode(), **STYLES[style])
    plain = alice.execute(over(shape, "plain").encode(), **STYLES[style])
    assert columns(cursor) == columns(plain)
    check_near(cursor.fetchall(), truth(stack, over(shape)), margin(0.1 / parts))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("shape", DERIVED)
def test_expressions_over_answers_keep_their_types(alice: Connection, shape: str, style: str) -> None:
    cursor = alice.execute(over(shape).encode(), **STYLES[style])
    plain = alice.execute(over(shape, "plain").encode(), **STYLES[style])
    assert columns(cursor) == columns(plain)
    assert cursor.fetchall()


def test_expressions_follow_from_the_one_answer(alice: Connection) -> None:
    (n,) = one(alice, "SELECT count(*) FROM people")
    row = alice.execute(over(DERIVED[0])).fetchone()
    assert row == (2 * n, Decimal(n) / 3 if n % 3 == 0 else row[1] if row else None, -n, str(n))
    assert row is not None and abs(row[1] - Decimal(n) / 3) < Decimal("1e-9")


VALUES: dict[str, tuple[str, Any]] = {
    "int2": ("age > {}", Int2(30)),
    "int4": ("age > {}", Int4(31)),
    "int8": ("age > {}", Int8(32)),
    "int": ("age BETWEEN {} AND 60", 33),
    "numeric": ("income > {}", Decimal("12.50")),
    "float8": ("income::float8 > {}", 13.25),
    "text": ("sex = {}", "f"),
    "text that must be escaped": ("city = {} OR age > 70", 'it\'s \\ "$1" ; --'),
    "non-ASCII text": ("city = {} OR age > 71", "Zürich ソ €"),
    "date": ("joined >= {}", datetime.date(2024, 1, 17)),
    "timestamp": ("joined >= {}", datetime.datetime(2024, 1, 18, 12, 30)),
    "timestamptz": ("joined < {}", datetime.datetime(2024, 1, 19, 12, tzinfo=datetime.UTC)),
    "bool": ("(age > 40) = {}", True),
    "null": ("city IS NOT DISTINCT FROM {}::text", None),
}


@pytest.mark.parametrize("protocol", ["text", "binary", "prepared"])
@pytest.mark.parametrize("name", VALUES)
def test_parameters_mean_what_they_mean_in_postgresql(
    stack: Stack, alice: Connection, name: str, protocol: str
) -> None:
    condition, value = VALUES[name]
    mark = {"text": "%t", "binary": "%b", "prepared": "%s"}[protocol]
    if name in ("bool", "null") and protocol == "binary":
        mark = "%s"
    question = f"SELECT count(*) FROM people WHERE {condition.format(mark)}"
    (n,) = one(alice, question, [value], prepare=protocol == "prepared")
    with stack.cluster.connect() as owner:
        (exact,) = one(owner, question, [value])
    assert abs(n - exact) <= margin(0.1)


def test_one_question_in_any_protocol_is_one_question(stack: Stack, alice: Connection) -> None:
    before = ledger(stack)
    answers = {alice.execute("SELECT count(*) FROM people WHERE age > 37").fetchone()}
    for _ in range(8):
        answers.add(alice.execute("SELECT count(*) FROM people WHERE age > %s", [37]).fetchone())
    answers.add(alice.execute("SELECT count(*) FROM people WHERE age > %b", [37], prepare=True, binary=True).fetchone())
    with alice.cursor() as cursor:
        cursor.executemany("SELECT count(*) FROM people WHERE age > %s", [(37,), (37,)], returning=True)
        answers.add(cursor.fetchone())
        assert cursor.nextset()
        answers.add(cursor.fetchone())
    assert len(answers) == 1
    assert ledger(stack) == before + 1


def status_of(connection: Connection) -> psycopg.pq.TransactionStatus:
    return connection.info.transaction_status


def ledger(stack: Stack) -> int:
    with stack.cluster.connect() as owner:
        return int((owner.execute("SELECT count(*) FROM dp.ledger").fetchone() or (0,))[0])


def test_a_prepared_statement_is_asked_anew_with_each_value(stack: Stack, alice: Connection) -> None:
    for age in range(20, 80, 8):
        question = "SELECT count(*) FROM people WHERE age < %s"
        (n,) = one(alice, question, [age], prepare=True)
        assert abs(n - truth(stack, question.replace("%s", str(age)))[0][0]) <= margin(0.1)


def test_server_side_cursors(alice: Connection) -> None:
    expected = alice.execute("SELECT sex, city, count(*) FROM people GROUP BY 1, 2 ORDER BY 1, 2").fetchall()
    with alice.transaction():
        for binary in (False, True):
            with alice.cursor(name="c", binary=binary) as cursor:
                cursor.itersize = 5
                cursor.execute("SELECT sex, city, count(*) FROM people GROUP BY 1, 2 ORDER BY 1, 2")
                assert [c.name for c in cursor.description or ()] == ["sex", "city", "count"]
                assert cursor.fetchmany(3) == expected[:3]
                assert list(cursor) == expected[3:]
    with alice.cursor(name="held", withhold=True, scrollable=True) as cursor:
        cursor.execute("SELECT sex, city, count(*) FROM people WHERE age > %s GROUP BY 1, 2 ORDER BY 1, 2", [25])
        rows = cursor.fetchall()
        cursor.scroll(0, "absolute")
        assert cursor.fetchall() == rows and len(rows) == 12


def test_pipeline_mode(alice: Connection) -> None:
    one = alice.execute("SELECT count(*) FROM people").fetchone()
    with alice.pipeline():
        cursors = [alice.execute("SELECT count(*) FROM people") for _ in range(4)]
        plain = alice.execute("SELECT 7")
        last = alice.execute("SELECT count(*) + %s FROM people", [1])
    assert [cursor.fetchone() for cursor in cursors] == [one] * 4
    assert plain.fetchone() == (7,)
    assert one is not None and last.fetchone() == (one[0] + 1,)


def test_a_refusal_inside_a_pipeline_ends_it_as_any_error_does(alice: Connection) -> None:
    with pytest.raises(psycopg.errors.DatabaseError) as refused, alice.pipeline():
        first = alice.execute("SELECT 1")
        alice.execute("SELECT * FROM people")
        alice.execute("SELECT 2")
    assert refused.value.sqlstate == "DP002"
    assert first.fetchone() == (1,)
    assert alice.execute("SELECT 3").fetchone() == (3,)


REFUSED = [
    ("SELECT * FROM people", "DP002"),
    ("SELECT count(*) FROM people WHERE 1 / (age - 37) > 0", "DP003"),
    ("SELECT count(*) FROM people WHERE score > 1", "DP004"),
    ("SELECT dp_count('people', epsilon => -1)", "DP005"),
    ("SELECT dp_count('people', epsilon => 900)", "DP001"),
    ("DELETE FROM people", "42501"),
    ("SELECT count(*) FROM people WHERE wage > 1", "42703"),
    ("SELECT count(* FROM people", "42601"),
]


@pytest.mark.parametrize("statement, state", REFUSED)
@pytest.mark.parametrize("prepare", [False, True])
def test_refusals_leave_the_transaction_as_any_error_does(
    stack: Stack, alice: Connection, statement: str, state: str, prepare: bool
) -> None:
    before = ledger(stack)
    status = psycopg.pq.TransactionStatus
    with pytest.raises(psycopg.DatabaseError) as refused:
        alice.execute(statement.encode(), prepare=prepare)
    assert refused.value.sqlstate == state
    assert refused.value.diag.message_hint or not state.startswith("DP")
    assert status_of(alice) == status.IDLE
    alice.autocommit = False
    alice.execute("CREATE TEMP TABLE kept (x int)")
    with pytest.raises(psycopg.DatabaseError), alice.transaction():
        alice.execute("INSERT INTO kept VALUES (1)")
        alice.execute(statement.encode(), prepare=prepare)
    assert status_of(alice) == status.INTRANS
    assert alice.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    with pytest.raises(psycopg.DatabaseError):
        alice.execute(statement.encode(), prepare=prepare)
    assert status_of(alice) == status.INERROR
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        alice.execute("SELECT count(*) FROM people")
    alice.rollback()
    assert ledger(stack) == before
    assert alice.execute("SELECT to_regclass('kept')").fetchone() == (None,)
    alice.rollback()


def test_a_rollback_gives_nothing_back(stack: Stack, alice: Connection) -> None:
    before = ledger(stack)
    with pytest.raises(ZeroDivisionError), alice.transaction():
        first = alice.execute("SELECT count(*) FROM people WHERE age > 44").fetchone()
        raise ZeroDivisionError
    assert ledger(stack) == before + 1
    assert alice.execute("SELECT count(*) FROM people WHERE age > 44").fetchone() == first
    assert ledger(stack) == before + 1


def test_copy_out(alice: Connection) -> None:
    rows = alice.execute("SELECT city, count(*) FROM people GROUP BY city ORDER BY 2").fetchall()
    with alice.cursor() as cursor:
        with cursor.copy("COPY (SELECT city, count(*) FROM people GROUP BY city ORDER BY 2) TO STDOUT") as copy:
            copy.set_types(["text", "int8"])
            assert list(copy.rows()) == rows
        with cursor.copy(
            "COPY (SELECT city, count(*) FROM people GROUP BY city ORDER BY 2) TO STDOUT (FORMAT binary)"
        ) as copy:
            copy.set_types(["text", "int8"])
            assert list(copy.rows()) == rows
        with cursor.copy("COPY (SELECT count(*) AS n FROM people) TO STDOUT (FORMAT csv, HEADER)") as copy:
            assert b"".join(bytes(block) for block in copy).startswith(b"n\n")


def test_temporary_tables_keep_answers(alice: Connection) -> None:
    for style in STYLES.values():
        cursor = alice.execute(
            "CREATE TEMP TABLE kept AS SELECT city, count(*) AS n FROM people GROUP BY city", **style
        )
        assert cursor.statusmessage == "SELECT 4"
        alice.execute("INSERT INTO kept SELECT 'all', count(*) FROM people", **style)
        types = alice.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = 'kept'::regclass AND attnum > 0 ORDER BY attnum"
        )
        assert types.fetchall() == [("city", "text"), ("n", "bigint")]
        alice.execute("UPDATE kept SET n = n - 1 WHERE n > (SELECT count(*) FROM people) ", **style)
        assert alice.execute("SELECT count(*) FROM kept").fetchone() == (5,)
        alice.execute("DROP TABLE kept")
    alice.execute("CREATE TEMP TABLE loaded (a int)")
    with alice.cursor().copy("COPY loaded FROM STDIN") as copy:
        copy.write_row((5,))
    assert alice.execute("SELECT a FROM loaded").fetchone() == (5,)


def test_sql_prepare_and_execute(alice: Connection) -> None:
    alice.execute("PREPARE older (int, text) AS SELECT count(*) FROM people WHERE age > $1 AND sex = $2")
    first = alice.execute("EXECUTE older (50, 'f')").fetchall()
    assert alice.execute("EXECUTE older (50, 'f')", binary=True).fetchall() == first
    assert alice.execute("SELECT count(*) FROM people WHERE age > 50 AND sex = 'f'").fetchall() == first
    alice.execute("DEALLOCATE older")
    with pytest.raises(psycopg.errors.InvalidSqlStatementName):
        alice.execute("EXECUTE older (50, 'f')")


def test_explicit_calls(stack: Stack, alice: Connection) -> None:
    question = "SELECT dp_count('people', 'age > 30', epsilon => %s) AS n"
    (n,) = one(alice, question, [1.0])
    assert abs(n - truth(stack, "SELECT count(*) FROM people WHERE age > 30")[0][0]) <= margin(1)
    assert alice.execute(question, [1.0], prepare=True, binary=True).fetchone() == (n,)
    rows = alice.execute("SELECT * FROM dp_group_by('people', '{sex,city}', epsilon => 1)").fetchall()
    exact = {(s, c): k for s, c, k in truth(stack, "SELECT sex, city, count(*) FROM people GROUP BY 1, 2")}
    assert len(rows) == 12
    for key, value in rows:
        assert abs(value["count(*)"] - exact.get((key["sex"], key["city"]), 0)) <= margin(1)
    total = "SELECT sum((value ->> 'count(*)')::int) FROM dp.dp_group_by('people', '{sex,city}', epsilon => 1) g"
    assert alice.execute(total).fetchone() == (sum(value["count(*)"] for _, value in rows),)


def test_user_units(stack: Stack, alice: Connection) -> None:
    """Counts of users, and of rows under the declared cap of 5."""
    alice.execute("SET dp.epsilon = 1")
    (users,) = one(alice, "SELECT count(DISTINCT customer_id) FROM orders")
    exact = truth(stack, "SELECT count(DISTINCT customer_id) FROM orders")[0][0]
    assert abs(users - exact) <= margin(1)
    (placed,) = one(alice, "SELECT count(*) FROM orders")
    capped = (
        "SELECT sum(least(n, 5)) FROM"
        " (SELECT count(*) AS n FROM orders WHERE customer_id IS NOT NULL GROUP BY customer_id) c"
    )
    assert abs(placed - truth(stack, capped)[0][0]) <= margin(1, 5)
    rows = alice.execute("SELECT sku, count(*) FROM items GROUP BY sku ORDER BY sku").fetchall()
    assert [sku for sku, _ in rows] == ["sku0", "sku1", "sku2", "sku3", "sku4"]


def test_settings_are_the_sessions_own(alice: Connection) -> None:
    assert alice.execute("SHOW dp.epsilon").fetchone() is not None
    alice.execute("SET dp.epsilon = 0.25")
    spent = spending(alice)
    alice.execute("SELECT count(*) FROM people WHERE age > 46")
    assert spending(alice) - spent == Decimal("0.25")
    with alice.transaction():
        alice.execute("SET LOCAL dp.epsilon = 0.01")
        alice.execute("SELECT count(*) FROM people WHERE age > 47")
    assert spending(alice) - spent == Decimal("0.26")
    alice.execute("SELECT set_config('dp.epsilon', '0.02', false)")
    alice.execute("SELECT count(*) FROM people WHERE age > 48", prepare=True)
    assert spending(alice) - spent == Decimal("0.28")
    alice.execute("RESET dp.epsilon")
    alice.execute("SELECT count(*) FROM people WHERE age > 49")
    assert spending(alice) - spent == Decimal("0.38")
    with pytest.raises(ZeroDivisionError), alice.transaction():
        alice.execute("SET dp.epsilon = 3")
        raise ZeroDivisionError
    alice.execute("SELECT count(*) FROM people WHERE age > 51")
    assert spending(alice) - spent == Decimal("0.48")


def spending(connection: Connection) -> Decimal:
    """What the asker's allotment for people has lost, by the view that he may see."""
    row = connection.execute(
        "SELECT your_epsilon - your_epsilon_left FROM dp.budget WHERE dataset = 'people'"
    ).fetchone()
    assert row is not None
    return Decimal(row[0])


def test_options_and_startup_settings_arrive(stack: Stack) -> None:
    with stack.connect(options="-c dp.epsilon=0.03 -c TimeZone=Asia/Tokyo", application_name="report") as session:
        assert session.execute("SHOW TimeZone").fetchone() == ("Asia/Tokyo",)
        assert session.execute(
            "SELECT current_setting('application_name'), current_setting('dp.epsilon')"
        ).fetchone() == (
            "report",
            "0.03",
        )
        spent = spending(session)
        session.execute("SELECT count(*) FROM people WHERE age > 52")
        assert spending(session) - spent == Decimal("0.03")


def test_notices(alice: Connection) -> None:
    heard: list[str] = []
    alice.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    alice.execute("SELECT count(*) FROM people WHERE age > 53")
    assert heard == []
    alice.execute("SET dp.notices = on")
    alice.execute("SELECT count(*) FROM people WHERE age > 54")
    alice.execute("SELECT count(*) FROM people WHERE age > 54")
    assert len(heard) == 2
    assert "epsilon 0.1 charged" in heard[0] and "±" in heard[0]
    assert "free" in heard[1] or "nothing" in heard[1]


def test_explain_charges_nothing_and_names_the_call(stack: Stack, alice: Connection) -> None:
    before = ledger(stack)
    for style in STYLES.values():
        cursor = alice.execute("EXPLAIN SELECT city, count(*) FROM people WHERE age > 55 GROUP BY city", **style)
        assert [c.name for c in cursor.description or ()] == ["QUERY PLAN"]
        text = "\n".join(row[0] for row in cursor.fetchall())
        assert "dp_group_by" in text and "epsilon 0.1" in text and "Seq Scan" not in text
    (document,) = one(alice, "EXPLAIN (FORMAT JSON) SELECT count(*) FROM people")
    assert document[0]["DP Blocks"]
    assert ledger(stack) == before


def test_budget_views(stack: Stack, alice: Connection) -> None:
    alice.execute("SELECT count(*) FROM people WHERE age > 56")
    row = alice.execute("SELECT who, call, question FROM dp.spending ORDER BY at DESC LIMIT 1").fetchone()
    assert row is not None and row[0] == "alice" and "age > 56" in row[2]
    names = alice.execute("SELECT * FROM dp.budget").description or ()
    assert [c.name for c in names][:3] == ["dataset", "unit", "accountant"]
    left, own = alice.execute(
        "SELECT epsilon_left, your_epsilon_left FROM dp.budget WHERE dataset = 'people'"
    ).fetchone() or (0, 0)
    assert alice.execute("SELECT dp_budget_left('people')").fetchone() == (min(left, own),)
    with stack.connect("bob") as bob:
        assert bob.execute(
            "SELECT count(*) FROM dp.spending WHERE question IS NOT NULL OR who IS NOT NULL"
        ).fetchone() == (0,)
    published = alice.execute("SELECT column_name FROM dp.published WHERE relation = 'public.people'").fetchall()
    assert ("age",) in published


def test_composed_names(alice: Connection) -> None:
    query = sql.SQL("SELECT {key}, count(*) FROM {table} GROUP BY {key} ORDER BY 1").format(
        key=sql.Identifier("sex"), table=sql.Identifier("public", "people")
    )
    assert [row[0] for row in alice.execute(query)] == ["f", "m", "x"]


async def test_async_connections(stack: Stack) -> None:
    async with await psycopg.AsyncConnection.connect(stack.dsn(), autocommit=True) as session:
        cursor = await session.execute("SELECT sex, count(*) FROM people GROUP BY sex ORDER BY sex", binary=True)
        rows = await cursor.fetchall()
        assert [row[0] for row in rows] == ["f", "m", "x"]
        async with session.transaction(), session.cursor(name="c") as named:
            await named.execute("SELECT sex, count(*) FROM people GROUP BY sex ORDER BY sex")
            assert [row async for row in named] == rows
        with pytest.raises(psycopg.DatabaseError) as refused:
            await session.execute("SELECT * FROM people")
        assert refused.value.sqlstate == "DP002"
        async with session.pipeline():
            first = await session.execute("SELECT count(*) FROM people")
            second = await session.execute("SELECT count(*) FROM people")
        assert await first.fetchall() == await second.fetchall()
