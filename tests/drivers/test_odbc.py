"""psqlODBC through the proxy, by pyodbc: with and without cursors of its own, prepared on either side."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator
from typing import Any

import pyodbc
import pytest

from fix_drivers import CHANCE, NEAR, DriversStack
from fix_waiting import cancelling

pytestmark = pytest.mark.chance(CHANCE)

MODES: dict[str, dict[str, str]] = {
    "prepared by the driver": {"UseDeclareFetch": "0", "UseServerSidePrepare": "0"},
    "prepared by the server": {"UseDeclareFetch": "0", "UseServerSidePrepare": "1"},
    "cursors": {"UseDeclareFetch": "1", "UseServerSidePrepare": "0", "Fetch": "7"},
    "cursors, prepared by the server": {"UseDeclareFetch": "1", "UseServerSidePrepare": "1", "Fetch": "7"},
    "an error ends the transaction": {"Protocol": "7.4-1"},
    "an error is the program's business": {"Protocol": "7.4-0"},
    "own types": {"BoolsAsChar": "0", "ByteaAsLongVarBinary": "1", "LFConversion": "0"},
}


def connect(stack: DriversStack, port: int, **settings: str) -> pyodbc.Connection:
    facts = {
        "Driver": "{PostgreSQL Unicode}",
        "Servername": stack.host,
        "Port": str(port),
        "Database": stack.dbname,
        "UID": stack.user,
        "PWD": f"{{{stack.password}}}",
        **settings,
    }
    return pyodbc.connect(";".join(f"{name}={value}" for name, value in facts.items()), autocommit=True, timeout=120)


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def connection(mode: str, drivers_stack: DriversStack) -> Iterator[pyodbc.Connection]:
    opened = connect(drivers_stack, drivers_stack.recorded("odbc"), SSLmode="disable", **MODES[mode])
    yield opened
    opened.close()


@pytest.fixture
def odbc(connection: pyodbc.Connection) -> Iterator[pyodbc.Cursor]:
    with connection.cursor() as cursor:
        yield cursor
    connection.rollback()
    connection.autocommit = True


def one(cursor: pyodbc.Cursor, sql: str, *values: Any) -> Any:
    """The only value of the only row."""
    ((value,),) = cursor.execute(sql, *values).fetchall()
    return value


def refused(cursor: pyodbc.Cursor, sql: str, *values: Any) -> tuple[str, str]:
    """SQLSTATE and message. psqlODBC has no place for a hint."""
    with pytest.raises(pyodbc.Error) as caught:
        cursor.execute(sql, *values).fetchall()
    state, message = caught.value.args
    return state, message


def test_connects_over_verified_tls_with_scram(drivers_stack: DriversStack) -> None:
    believed = f"{{sslrootcert={drivers_stack.certificate}}}"
    opened = connect(drivers_stack, drivers_stack.port, SSLmode="verify-full", pqopt=believed)
    assert one(opened.cursor(), "SELECT current_user") == "alice"
    opened.close()


def test_an_unknown_certificate_is_not_believed(drivers_stack: DriversStack) -> None:
    with pytest.raises(pyodbc.OperationalError, match="certificate verify failed"):
        connect(
            drivers_stack,
            drivers_stack.port,
            SSLmode="verify-full",
            pqopt="{sslrootcert=/etc/ssl/certs/ca-certificates.crt}",
        )


def test_a_wrong_password_is_told(drivers_stack: DriversStack) -> None:
    with pytest.raises(pyodbc.OperationalError, match='password authentication failed for user "alice"'):
        connect(drivers_stack, drivers_stack.port, PWD="wrong")


def test_a_count(odbc: pyodbc.Cursor) -> None:
    assert abs(one(odbc, "SELECT count(*) AS n FROM samples") - 1000) <= NEAR
    assert odbc.description[0][:2] == ("n", int)


def test_counts_by_one_statement_with_many_values(odbc: pyodbc.Cursor) -> None:
    for top in range(100, 900, 100):
        assert abs(one(odbc, "SELECT count(*) FROM samples WHERE whole <= ?", top) - top) <= NEAR


def test_groups_with_several_parameters(odbc: pyodbc.Cursor) -> None:
    sql = "SELECT code, count(*) AS n FROM samples WHERE whole <= ? AND word <> ? GROUP BY code ORDER BY code"
    rows = odbc.execute(sql, 500, "ü").fetchall()
    assert [row.code for row in rows] == [f"c{i}" for i in range(10)]
    assert all(abs(row.n - 50) <= NEAR for row in rows)


def test_many_rows_are_read_in_parts(odbc: pyodbc.Cursor) -> None:
    odbc.execute("SELECT age, count(*) AS n FROM people GROUP BY age ORDER BY age")
    ages = []
    while rows := odbc.fetchmany(10):
        ages += [row.age for row in rows]
    assert ages == list(range(18, 81))
    assert len(odbc.execute("SELECT generate_series(1, 99)").fetchall()) == 99


def test_many_rows_in_a_transaction(connection: pyodbc.Connection, odbc: pyodbc.Cursor) -> None:
    """Here UseDeclareFetch has cursors for parameters, too."""
    connection.autocommit = False
    for low in (18, 30):
        rows = odbc.execute("SELECT age, count(*) FROM people WHERE age >= ? GROUP BY age ORDER BY age", low).fetchall()
        assert [row[0] for row in rows] == list(range(18, 81))
    connection.commit()


def test_an_answer_joins_a_public_table(odbc: pyodbc.Cursor) -> None:
    rows = odbc.execute(
        "SELECT r.label, c.n, r.people FROM regions r JOIN (SELECT city, count(*) AS n FROM people GROUP BY city) c"
        " USING (city) WHERE r.label <> ? ORDER BY 1",
        "The South",
    ).fetchall()
    assert [(row[0], row[2]) for row in rows] == [("The East", None), ("The North", 3)]


def test_a_raw_read_is_refused(odbc: pyodbc.Cursor) -> None:
    for _ in range(3):
        for arguments in (("SELECT * FROM people",), ("SELECT * FROM people WHERE id = ?", 1)):
            state, message = refused(odbc, *arguments)
            assert state == "DP002" and "rows of people are private" in message


def test_errors_are_postgresqls(odbc: pyodbc.Cursor) -> None:
    for sql, state in (
        ("SELEC 1", "42601"),
        ("SELECT nothing FROM people", "42703"),  # ODBC has states of its own for some; psqlODBC passes these on
        ("SELECT count(*) FROM nobody", "42P01"),
        ("SELECT 1/0", "22012"),
        ("INSERT INTO people (id) VALUES (1)", "42501"),
    ):
        assert refused(odbc, sql)[0] == state
    assert one(odbc, "SELECT 1") == 1


def test_the_explicit_function(odbc: pyodbc.Cursor) -> None:
    assert abs(one(odbc, "SELECT dp.dp_count('samples', ?)", "whole <= 250") - 250) <= NEAR
    assert abs(one(odbc, "{call dp.dp_count('samples')}") - 1000) <= NEAR


def test_a_refusal_in_a_transaction(connection: pyodbc.Connection, odbc: pyodbc.Cursor, mode: str) -> None:
    """psqlODBC's own savepoints keep the transaction, unless told otherwise."""
    connection.autocommit = False
    odbc.execute("CREATE TEMP TABLE kept (n bigint) ON COMMIT DROP")
    odbc.execute("INSERT INTO kept SELECT count(*) FROM samples WHERE whole < ?", 700)
    assert refused(odbc, "SELECT * FROM samples")[0] == "DP002"
    if mode == "an error ends the transaction":
        assert refused(odbc, "SELECT n FROM kept")[0] == "42P01"
    elif mode == "an error is the program's business":
        assert refused(odbc, "SELECT n FROM kept")[0] == "25P02"
    else:
        assert abs(one(odbc, "SELECT n FROM kept") - 699) <= NEAR
    connection.rollback()
    assert one(odbc, "SELECT 2") == 2


def test_a_rollback_gives_nothing_back(
    connection: pyodbc.Connection, odbc: pyodbc.Cursor, drivers_stack: DriversStack
) -> None:
    connection.autocommit = False
    sql = "SELECT count(*) FROM samples WHERE whole < 602"
    first = one(odbc, sql)
    charged = drivers_stack.exact("SELECT count(*) FROM dp.ledger")
    connection.rollback()
    assert one(odbc, sql) == first
    assert drivers_stack.exact("SELECT count(*) FROM dp.ledger") == charged


@pytest.mark.parametrize("fast", [False, True])
def test_many_rows_into_a_temporary_table(connection: pyodbc.Connection, odbc: pyodbc.Cursor, fast: bool) -> None:
    connection.autocommit = False
    odbc.execute("CREATE TEMP TABLE many (n int, word varchar(20)) ON COMMIT DROP")
    odbc.fast_executemany = fast
    odbc.executemany("INSERT INTO many VALUES (?, ?)", [(i, f"w{i}") for i in range(50)])
    assert one(odbc, "SELECT count(*) FROM many") == 50


def test_a_timeout(odbc: pyodbc.Cursor) -> None:
    odbc.execute("SET statement_timeout = 300")
    try:
        assert refused(odbc, "SELECT pg_sleep(30)")[0] == "57014"
    finally:
        odbc.execute("RESET statement_timeout")
    assert one(odbc, "SELECT 1") == 1


def test_cancel(drivers_stack: DriversStack, odbc: pyodbc.Cursor) -> None:
    with cancelling(odbc.cancel, drivers_stack.cluster.connect):
        assert refused(odbc, "SELECT pg_sleep(600)")[0] == "57014"


# Of a column of samples: the value of row 321 (as many rows are not above it).
ORDERED: dict[str, Any] = {
    "whole": 321,
    "big": 3210000000000,
    "exact": decimal.Decimal("361.125"),
    "double": 107.001,
    "single": 80.25,
    "at": datetime.datetime(2024, 1, 14, 9),
    "moment": datetime.datetime(2024, 1, 14, 9),
    "clock": datetime.time(5, 21),
}


@pytest.mark.parametrize("column", ORDERED)
def test_bound_parameters_of_each_type(odbc: pyodbc.Cursor, column: str) -> None:
    """The session's time zone is UTC."""
    assert abs(one(odbc, f"SELECT count(*) FROM samples WHERE {column} <= ?", ORDERED[column]) - 321) <= NEAR


COMPARED: list[tuple[str, Any, int]] = [
    ("small", 40, 10),
    ("word", "word 3", 100),
    ("code", "c4", 100),
    ("flag", "abc", 1000),
    ("day", datetime.date(2024, 1, 11), 4),
    ("uid", uuid.UUID(int=int("77", 16)), 1),
    ("yes", True, 500),
    ("word", "it's “\\”; -- ?", 0),
]


@pytest.mark.parametrize("column, value, exact", COMPARED)
def test_bound_parameters_that_are_compared(odbc: pyodbc.Cursor, column: str, value: Any, exact: int) -> None:
    assert abs(one(odbc, f"SELECT count(*) FROM samples WHERE {column} = ?", value) - exact) <= NEAR


def test_a_parameter_is_null(odbc: pyodbc.Cursor) -> None:
    assert abs(one(odbc, "SELECT count(*) FROM samples WHERE word = ? OR whole < ?", None, 9) - 8) <= NEAR


CONSTANTS: list[tuple[str, Any]] = [
    ("int2", -32768),
    ("int4", 2147483647),
    ("int8", -9223372036854775808),
    ("numeric(28,8)", decimal.Decimal("12345678901234567890.12345678")),
    ("float4", 0.25),
    ("float8", 1e300),
    ("text", "it's \\ \n?"),
    ("varchar(5)", "abc"),
    ("date", datetime.date(2024, 2, 29)),
    ("time", datetime.time(23, 59, 59)),
    ("timestamp", datetime.datetime(2024, 2, 29, 12, 0, 0, 1)),
    ("text", None),
    ("text", ""),
]


@pytest.mark.parametrize("kind, value", CONSTANTS)
def test_values_come_back_as_they_went(odbc: pyodbc.Cursor, kind: str, value: Any) -> None:
    assert one(odbc, f"SELECT ?::{kind}", value) == value


def test_booleans_bytes_and_uuids(odbc: pyodbc.Cursor, mode: str) -> None:
    answer = odbc.execute("SELECT true, '\\x00ff'::bytea, '12345678-1234-5678-1234-567812345678'::uuid").fetchone()
    assert answer is not None
    assert answer[0] == (True if mode == "own types" else "1")
    assert answer[1] == b"\x00\xff"
    assert str(answer[2]).lower() == "12345678-1234-5678-1234-567812345678"


# Catalog functions.


def test_tables(odbc: pyodbc.Cursor) -> None:
    tables = {row.table_name: row.table_type for row in odbc.tables(schema="public")}
    assert set(tables) == {"customers", "items", "orders", "people", "regions", "samples"}
    assert tables["people"] == "TABLE"
    assert {row.table_name for row in odbc.tables(table="ord%", schema="public")} == {"orders"}
    assert "dp" in {row.table_schem for row in odbc.tables(schema="%")}


def test_columns(odbc: pyodbc.Cursor) -> None:
    columns = {row.column_name: (row.type_name, row.column_size, row.nullable) for row in odbc.columns(table="samples")}
    assert list(columns)[:4] == ["id", "yes", "small", "whole"] and len(columns) == 19
    assert columns["id"] == ("int4", 10, 0)
    assert columns["exact"] == ("numeric", 12, 1)
    assert columns["code"][:2] == ("varchar", 10)
    assert columns["moment"][0] == "timestamptz"


def test_keys(odbc: pyodbc.Cursor) -> None:
    assert [row.column_name for row in odbc.primaryKeys(table="people", schema="public")] == ["id"]
    assert odbc.primaryKeys(table="items", schema="public").fetchall() == []
    (key,) = odbc.foreignKeys(foreignTable="orders", foreignSchema="public").fetchall()
    assert (key.pktable_name, key.pkcolumn_name, key.fkcolumn_name) == ("customers", "id", "customer_id")
    (key,) = odbc.foreignKeys(table="orders", schema="public").fetchall()
    assert (key.fktable_name, key.fkcolumn_name) == ("items", "order_id")


def test_other_catalog_functions(odbc: pyodbc.Cursor) -> None:
    assert "people_pkey" in {row.index_name for row in odbc.statistics(table="people", schema="public")}
    assert odbc.rowIdColumns(table="people", schema="public").fetchall() == []
    assert odbc.getTypeInfo().fetchall()
    assert "dp_count" in {row.procedure_name for row in odbc.procedures(schema="dp")}
    assert odbc.procedureColumns(procedure="dp_count", schema="dp").fetchall()


def test_what_the_driver_knows_of_the_server(connection: pyodbc.Connection) -> None:
    assert connection.getinfo(pyodbc.SQL_DBMS_NAME) == "PostgreSQL"
    assert connection.getinfo(pyodbc.SQL_USER_NAME) == "alice"
    assert connection.getinfo(pyodbc.SQL_DATABASE_NAME) == "private"
