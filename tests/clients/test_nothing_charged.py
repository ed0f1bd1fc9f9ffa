"""Nothing is charged for what is publicly known or cannot be kept (composition.md §10.3 a; findings A9 and D1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_ledger import charges, one
from fix_stack import Stack, stack_at_work

Connection = psycopg.Connection[Any]
COUNT = "SELECT count(*) AS n FROM people WHERE age > {}"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work() as running:
        yield running


@pytest.fixture
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect() as connection:
        connection.prepare_threshold = None
        yield connection


EMPTY = [
    ("SELECT * FROM people WHERE 1=0", []),
    ("SELECT * FROM people LIMIT 0", []),
    ("SELECT sex, count(*) FROM people GROUP BY sex LIMIT 0", []),
    ("SELECT sex, count(*) FROM people GROUP BY sex HAVING count(*) > 3 AND false", []),
    ("SELECT count(*), sum(age) FROM people WHERE false", [(0, None)]),
    ("SELECT CASE WHEN false THEN (SELECT count(*) FROM people) END", [(None,)]),
    ("SELECT dp_count('people') LIMIT 0", []),
    ("SELECT * FROM dp_group_by('people', keys => '{sex}') WHERE false", []),
    ("EXPLAIN SELECT * FROM people WHERE false", None),
]


@pytest.mark.parametrize("binary", [False, True], ids=["simple", "extended"])
@pytest.mark.parametrize(("sql", "rows"), EMPTY, ids=[sql for sql, _ in EMPTY])
def test_what_is_publicly_empty_is_free(
    stack: Stack, alice: Connection, sql: str, rows: list[Any] | None, binary: bool
) -> None:
    before = charges(stack.cluster)
    found = alice.execute(sql.encode(), binary=binary).fetchall()
    assert charges(stack.cluster) == before
    if rows is not None:
        assert found == rows


def test_a_notice_says_why(stack: Stack) -> None:
    heard: list[str] = []
    with stack.connect(application_name="psql") as psql:
        psql.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
        psql.execute("SELECT count(*) FROM people WHERE false")
        psql.execute("EXPLAIN SELECT count(*) FROM people WHERE false")
    assert heard == ["dp: no row of people is read, by LIMIT 0 or a constant condition: answered, nothing charged"]


def test_a_driver_may_describe_what_it_may_not_run(stack: Stack, alice: Connection) -> None:
    """JDBC's getMetaData, asyncpg's prepare: the columns are published, the rows are DP002."""
    with stack.cluster.connect() as owner:
        plain = owner.execute("SELECT * FROM people LIMIT 0").description or []
    protocol = alice.pgconn
    assert protocol.prepare(b"p", b"SELECT * FROM people WHERE age > $1").status == psycopg.pq.ExecStatus.COMMAND_OK
    shape = protocol.describe_prepared(b"p")
    assert [(shape.fname(i), shape.ftype(i), shape.fmod(i)) for i in range(shape.nfields)] == [
        (column.name.encode(), column.type_code, column._fmod) for column in plain
    ]
    assert shape.nparams == 1
    before = charges(stack.cluster)
    for _ in range(2):
        ran = protocol.exec_prepared(b"p", [b"30"])
        assert ran.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"DP002"
        assert ran.error_field(psycopg.pq.DiagnosticField.STATEMENT_POSITION) == b"15"
    assert charges(stack.cluster) == before


def test_a_prepared_probe_is_free(stack: Stack, alice: Connection) -> None:
    before = charges(stack.cluster)
    alice.execute("PREPARE probe (int) AS SELECT age, $1 AS x FROM people WHERE false")
    assert alice.execute("EXECUTE probe (3)").fetchall() == []
    assert alice.execute("SELECT age, %s::int AS x FROM people LIMIT 0", [3]).fetchall() == []
    assert charges(stack.cluster) == before


def test_an_empty_copy_of_the_shape(stack: Stack, alice: Connection) -> None:
    """dbt, Spark: CREATE TABLE AS ... WHERE false. The types are the relation's."""
    before = charges(stack.cluster)
    alice.execute("CREATE TEMP TABLE shape AS SELECT * FROM people WHERE false")
    types = (
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'shape'::regclass AND attnum > 0"
    )
    assert ("numeric(10,2)",) in alice.execute(types.encode()).fetchall()
    assert one(alice, "SELECT count(*) FROM shape") == 0
    assert charges(stack.cluster) == before


# -- what the facade will not keep -------------------------------------------------------------------------------------

REFUSED = [
    ("CREATE TABLE {here} AS " + COUNT.format(31), "42501"),
    ("CREATE TABLE nowhere.t AS " + COUNT.format(31), "3F000"),
    ("SELECT count(*) INTO {here} FROM people WHERE age > 31", "42501"),
    ("CREATE TEMP TABLE there AS " + COUNT.format(31), "42P07"),
    ("CREATE TEMP TABLE twice AS SELECT count(*) AS n, sum(age) AS n FROM people", "42701"),
    ("INSERT INTO pg_class (relname) " + "SELECT count(*)::text FROM people WHERE age > 31", "42501"),
    ("INSERT INTO there (n) SELECT count(*)::text::date FROM people WHERE age > 31", "42804"),
    ("WITH w AS (INSERT INTO pg_class (relname) SELECT 'x' RETURNING 1) " + COUNT.format(31), "42501"),
    ("DECLARE c CURSOR FOR " + COUNT.format(31), "25P01"),
    ("CREATE MATERIALIZED VIEW mv AS " + COUNT.format(31), "DP003"),
]


@pytest.mark.parametrize("binary", [False, True], ids=["simple", "extended"])
@pytest.mark.parametrize(("sql", "sqlstate"), REFUSED, ids=[sql for sql, _ in REFUSED])
def test_what_cannot_be_kept_is_refused_before_the_charge(
    stack: Stack, alice: Connection, sql: str, sqlstate: str, binary: bool
) -> None:
    alice.execute("CREATE TEMP TABLE there (n bigint)")
    before = charges(stack.cluster)
    with pytest.raises(psycopg.Error) as refused:
        alice.execute(sql.replace("{here}", "public.kept").encode(), binary=binary)
    assert refused.value.sqlstate == sqlstate
    assert refused.value.diag.context is None, "no word of how it was tried"
    assert charges(stack.cluster) == before


@pytest.mark.parametrize("binary", [False, True], ids=["simple", "extended"])
def test_a_read_only_transaction_keeps_nothing(stack: Stack, alice: Connection, binary: bool) -> None:
    alice.execute("CREATE TEMP TABLE own (n bigint)")
    before = charges(stack.cluster)
    alice.execute("BEGIN READ ONLY")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        alice.execute(("CREATE TEMP TABLE kept AS " + COUNT.format(32)).encode(), binary=binary)
    alice.execute("ROLLBACK")
    assert charges(stack.cluster) == before
    alice.execute("BEGIN READ ONLY")
    alice.execute(("INSERT INTO own " + COUNT.format(33)).encode(), binary=binary)
    alice.execute("COMMIT")
    assert one(alice, "SELECT count(*) FROM own") == 1


@pytest.mark.parametrize("binary", [False, True], ids=["simple", "extended"])
def test_if_not_exists_skips_the_question_too(stack: Stack, alice: Connection, binary: bool) -> None:
    sql = ("CREATE TEMP TABLE IF NOT EXISTS once AS " + COUNT.format(34 + binary)).encode()
    before = charges(stack.cluster)
    alice.execute(sql, binary=binary)
    assert charges(stack.cluster) == before + 1
    again = ("CREATE TEMP TABLE IF NOT EXISTS once AS " + COUNT.format(36)).encode()
    assert alice.execute(again, binary=binary).statusmessage == "CREATE TABLE AS"
    assert charges(stack.cluster) == before + 1
    assert one(alice, "SELECT count(*) FROM once") == 1


@pytest.mark.parametrize("binary", [False, True], ids=["simple", "extended"])
def test_what_can_be_kept_is_kept_once(stack: Stack, alice: Connection, binary: bool) -> None:
    """Controls: each rehearsed way pays once and keeps one row; a rehearsal leaves nothing behind."""
    before = charges(stack.cluster)
    alice.execute(
        ("CREATE TEMP TABLE a ON COMMIT PRESERVE ROWS AS " + COUNT.format(40 + binary)).encode(), binary=binary
    )
    alice.execute(f"SELECT count(*) AS n INTO TEMP b FROM people WHERE age > {42 + binary}".encode(), binary=binary)
    alice.execute(("INSERT INTO a " + COUNT.format(44 + binary)).encode(), binary=binary)
    alice.execute(f"UPDATE b SET n = ({COUNT.format(46 + binary)})".encode(), binary=binary)
    alice.execute(f"PREPARE keep (int) AS INSERT INTO a SELECT count(*) + $1 FROM people WHERE age > {48 + binary}")
    alice.execute("EXECUTE keep (1)", binary=binary)
    with alice.transaction():
        alice.execute(("DECLARE c CURSOR FOR " + COUNT.format(50 + binary)).encode(), binary=binary)
        assert len(alice.execute("FETCH ALL FROM c").fetchall()) == 1
    alice.execute(("DECLARE h CURSOR WITH HOLD FOR " + COUNT.format(52 + binary)).encode(), binary=binary)
    assert len(alice.execute("FETCH ALL FROM h").fetchall()) == 1
    assert one(alice, "SELECT count(*) FROM a") == 3 and one(alice, "SELECT count(*) FROM b") == 1
    assert charges(stack.cluster) == before + 7
    message = f"BEGIN; DECLARE m CURSOR FOR {COUNT.format(54 + binary)}; FETCH m; COMMIT"
    alice.execute(message.encode())
    assert charges(stack.cluster) == before + 8


def test_a_relation_declared_by_halves_is_refused_for_nothing(stack: Stack, alice: Connection) -> None:
    """A key of two columns to units of another kind, added after protect; dropped again, questions are answered."""
    count_items = "SELECT count(*) AS n FROM items WHERE sku = 'sku1'"
    follow(
        stack,
        "CREATE TABLE stock (sku text, price numeric(8,2), firm int, PRIMARY KEY (sku, price));"
        "CALL dp.protect('stock', 'shop', unit_column => 'firm');"
        "ALTER TABLE items ADD CONSTRAINT stock FOREIGN KEY (sku, price) REFERENCES stock NOT VALID",
    )
    before = charges(stack.cluster)
    for sql in (count_items, f"EXPLAIN {count_items}", f"SELECT n + 1 FROM ({count_items}) t WHERE n > %s"):
        with pytest.raises(psycopg.Error) as refused:
            alice.execute(sql.encode(), [3] if "%s" in sql else None)
        assert refused.value.sqlstate == "DP004"
        assert "items is declared by halves" in str(refused.value)
        assert "dp.check()" in str(refused.value.diag.message_hint)
        assert "stock" not in str(refused.value)  # not published, hence not named
    follow(stack, "CALL dp.publish('stock')")
    with pytest.raises(psycopg.Error, match=r"declared by halves.* units of public\.stock") as refused:
        alice.execute(count_items.encode())
    assert "CALL dp.set_strict('shop', false)" in str(refused.value.diag.message_hint)
    assert charges(stack.cluster) == before
    follow(stack, "CALL dp.set_strict('shop', false)")
    assert alice.execute(count_items.encode()).fetchone()
    follow(stack, "CALL dp.set_strict('shop', true); DROP TABLE stock CASCADE")
    assert alice.execute(count_items.encode()).fetchone()


def follow(stack: Stack, calls: str) -> None:
    """What the owner does, and a proxy that has heard of it."""
    stack.cluster.psql(calls, user="boss")
    stack.sync()
