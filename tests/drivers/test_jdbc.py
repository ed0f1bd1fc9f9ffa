"""pgjdbc through the proxy, in each of its query modes; Jdbc.java does what these tests tell it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fix_drivers import CHANCE, NEAR, DriversStack

pytestmark = pytest.mark.chance(CHANCE)

DRIVER = "/usr/share/java/postgresql.jar"
MODES: dict[str, dict[str, str]] = {
    "default": {},
    "prepareThreshold=0": {"prepareThreshold": "0"},
    "prepareThreshold=1": {"prepareThreshold": "1"},
    "binary from the first": {"prepareThreshold": "-1"},
    "never binary": {"prepareThreshold": "1", "binaryTransfer": "false"},
    "simple": {"preferQueryMode": "simple"},
    "extendedForPrepared": {"preferQueryMode": "extendedForPrepared"},
    "extendedCacheEverything": {"preferQueryMode": "extendedCacheEverything"},
    "three rows a fetch": {"defaultRowFetchSize": "3"},
    "savepoint before each": {"autosave": "always"},
}
# Where the mode changes no more than how text and binary values travel.
FEW = pytest.mark.parametrize("mode", ["default", "binary from the first", "simple"], indirect=True, scope="module")
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _unescaped(word: str) -> str | None:
    if word == "\\N":
        return None
    parts = word.split("\\\\")
    return "\\".join(p.replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r") for p in parts)


@dataclass
class Answer:
    """What one command said."""

    columns: list[str | None] = field(default_factory=list)
    rows: list[list[str | None]] = field(default_factory=list)
    updated: list[str | None] = field(default_factory=list)
    warnings: list[str | None] = field(default_factory=list)
    parameters: list[str | None] = field(default_factory=list)
    values: list[str | None] = field(default_factory=list)
    errors: list[tuple[str | None, ...]] = field(default_factory=list)

    @property
    def one(self) -> int:
        """The only value of the only row."""
        assert len(self.rows) == 1 and not self.errors, self
        return int(self.rows[0][0] or "")

    @property
    def state(self) -> str | None:
        return self.errors[0][0] if self.errors else None


class Java:
    """The running program; `ask` sends one command."""

    def __init__(self, classes: Path) -> None:
        self._process = subprocess.Popen(
            ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{DRIVER}", "Jdbc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def ask(self, *words: str | None) -> Answer:
        assert self._process.stdin is not None and self._process.stdout is not None
        line = "\t".join("\\N" if word is None else word.translate(ESCAPES) for word in words)
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = Answer()
        while True:
            kind, *rest = self._process.stdout.readline().rstrip("\n").split("\t")
            facts = [_unescaped(word) for word in rest]
            match kind:
                case "done":
                    return answer
                case "columns":
                    answer.columns = facts
                case "row":
                    answer.rows.append(facts)
                case "parameters":
                    answer.parameters = facts
                case "error":
                    answer.errors.append(tuple(facts))
                case "updated" | "warning" | "value":
                    {"updated": answer.updated, "warning": answer.warnings, "value": answer.values}[kind] += facts
                case _:
                    raise AssertionError(f"the Java program said {kind!r}")

    def open(self, stack: DriversStack, port: int, host: str = "127.0.0.1", **properties: str) -> Answer:
        facts = {"user": stack.user, "password": stack.password, **properties}
        words = [word for pair in facts.items() for word in pair]
        return self.ask("open", f"jdbc:postgresql://{host}:{port}/{stack.dbname}", *words)

    def close(self) -> None:
        self._process.communicate(timeout=120)


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    classes = tmp_path_factory.mktemp("classes")
    subprocess.run(
        ["javac", "-Werror", "-d", str(classes), "-cp", DRIVER, str(Path(__file__).with_name("Jdbc.java"))],
        check=True,
        timeout=240,
    )
    program = Java(classes)
    yield program
    program.close()


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest, java: Java, drivers_stack: DriversStack) -> str:
    """A connection in this mode is open."""
    port = drivers_stack.recorded("jdbc")
    assert not java.open(drivers_stack, port, sslmode="disable", **MODES[request.param]).errors
    return str(request.param)


@pytest.fixture
def jdbc(java: Java, mode: str) -> Iterator[Java]:
    yield java
    java.ask("rollback")
    java.ask("auto", "true")
    java.ask("fetch", "0")


# Connecting. These leave no connection of any mode open, so they come first.


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_connects_over_verified_tls_with_scram(java: Java, drivers_stack: DriversStack, host: str) -> None:
    how = {"sslmode": "verify-full", "sslrootcert": str(drivers_stack.certificate)}
    assert not java.open(drivers_stack, drivers_stack.port, host, **how).errors
    assert java.ask("statement", "SELECT current_user").rows == [["alice"]]


def test_a_wrong_password_is_told(java: Java, drivers_stack: DriversStack) -> None:
    refused = java.open(drivers_stack, drivers_stack.port, password="wrong", sslmode="require")
    assert refused.errors[0][:2] == ("28P01", 'password authentication failed for user "alice"')


def test_an_unknown_certificate_is_not_believed(java: Java, drivers_stack: DriversStack) -> None:
    assert java.open(drivers_stack, drivers_stack.port, sslmode="verify-full").state == "08006"


# Questions.


def test_a_count_by_a_statement(jdbc: Java) -> None:
    answer = jdbc.ask("statement", "SELECT count(*) FROM samples")
    assert answer.columns == ["count int8"]
    assert abs(answer.one - 1000) <= NEAR


def test_counts_by_one_prepared_statement(jdbc: Java) -> None:
    """Past every threshold."""
    for top in range(100, 900, 100):
        answer = jdbc.ask("prepared", "SELECT count(*) AS n FROM samples WHERE whole <= ?", "int", str(top))
        assert answer.columns == ["n int8"]
        assert abs(answer.one - top) <= NEAR


def test_groups_with_several_parameters(jdbc: Java) -> None:
    sql = "SELECT code, count(*) AS n, ? AS said FROM samples WHERE whole <= ? AND yes = ? GROUP BY code ORDER BY code"
    for _ in range(3):
        answer = jdbc.ask("prepared", sql, "string", "ü", "int", "500", "boolean", "true")
        assert [column and column.split()[0] for column in answer.columns] == ["code", "n", "said"]
        assert [row[0] for row in answer.rows] == [f"c{i}" for i in range(10)]
        # even rows have even codes
        assert all(abs(int(row[1] or "") - (50 if i % 2 == 0 else 0)) <= NEAR for i, row in enumerate(answer.rows))
        assert {row[2] for row in answer.rows} == {"ü"}


def test_an_answer_joins_a_public_table(jdbc: Java) -> None:
    answer = jdbc.ask(
        "prepared",
        "SELECT r.label, c.n FROM regions r JOIN (SELECT city, count(*) AS n FROM people GROUP BY city) c USING (city)"
        " WHERE r.label <> ? ORDER BY 1",
        "string", "The East",
    )  # fmt: skip
    assert answer.columns == ["label varchar", "n int8"]
    assert [row[0] for row in answer.rows] == ["The North", "The South"]


def test_a_raw_read_is_refused_with_a_hint(jdbc: Java) -> None:
    for _ in range(6):
        for how, arguments in (("statement", ()), ("prepared", ("int", "1"))):
            sql = "SELECT * FROM people" + (" WHERE id = ?" if arguments else "")
            ((state, message, hint, position),) = jdbc.ask(how, sql, *arguments).errors
            assert (state, message, position) == ("DP002", "rows of people are private", "15")
            assert hint and "SELECT count(*) FROM people" in hint


def test_errors_are_postgresqls(jdbc: Java) -> None:
    for sql, state in (
        ("SELEC 1", "42601"),
        ("SELECT nothing FROM people", "42703"),
        ("SELECT count(*) FROM nobody", "42P01"),
        ("SELECT 1/0", "22012"),
        ("INSERT INTO people (id) VALUES (1)", "42501"),
        ("SELECT 1", None),
    ):
        assert jdbc.ask("statement", sql).state == state
        assert jdbc.ask("prepared", sql).state == state


def test_types_of_a_question_before_it_is_asked(jdbc: Java, mode: str, drivers_stack: DriversStack) -> None:
    before = drivers_stack.exact("SELECT count(*) FROM dp.ledger")
    sql = "SELECT city, count(*) AS n FROM people WHERE age > ? AND income < ? AND joined >= ? GROUP BY city"
    answer = jdbc.ask("describe", sql)
    if mode == "simple":  # pgjdbc does not ask the server then
        assert answer.parameters == answer.columns == []
    else:
        assert answer.parameters == ["int4", "numeric", "date"]
        assert answer.columns == ["city text", "n int8"]
    assert drivers_stack.exact("SELECT count(*) FROM dp.ledger") == before


def test_the_explicit_function_is_called(jdbc: Java) -> None:
    for sql in ("SELECT dp.dp_count('samples')", "SELECT dp.dp_count('samples'::regclass, 'whole > 0')"):
        assert abs(jdbc.ask("statement", sql).one - 1000) <= NEAR


def test_the_explicit_function_is_called_by_a_callable_statement(jdbc: Java, mode: str) -> None:
    """The OUT parameter is an argument of type void, which PostgreSQL leaves out."""
    answer = jdbc.ask("call", "{? = call dp.dp_count('samples', ?)}", "string", "whole <= 250")
    if mode == "simple":
        # pgjdbc writes a plain NULL there: dp_count(NULL, 'samples', 'whole <= 250')
        assert answer.state == "22P02"
        return
    assert not answer.errors
    assert abs(int(answer.values[0] or "") - 250) <= NEAR


def test_notices_are_warnings(jdbc: Java) -> None:
    assert jdbc.ask("statement", "SELECT count(*) FROM samples").warnings == []
    jdbc.ask("statement", "SET dp.notices = on")
    said = jdbc.ask("statement", "SELECT count(*) FROM samples").warnings
    jdbc.ask("statement", "SET dp.notices = off")
    assert len(said) == 1 and str(said[0]).startswith("dp: ")


# Cursors and batches.


@pytest.mark.parametrize("size", ["1", "7", "25", "100"])
def test_a_fetch_size_reads_in_parts(jdbc: Java, size: str) -> None:
    jdbc.ask("auto", "false")
    jdbc.ask("fetch", size)
    sql = "SELECT age, count(*) FROM people GROUP BY age ORDER BY age"
    expected = [str(age) for age in range(18, 81)]
    for answer in (jdbc.ask("statement", sql), jdbc.ask("prepared", sql)):
        assert [row[0] for row in answer.rows] == expected
    assert len(jdbc.ask("statement", "SELECT generate_series(1, 99)").rows) == 99
    assert jdbc.ask("prepared", "SELECT * FROM people").state == "DP002"


def test_a_scrollable_result_is_read_backwards(jdbc: Java) -> None:
    answer = jdbc.ask("scroll", "SELECT age, count(*) FROM people GROUP BY age ORDER BY age")
    assert [row[0] for row in answer.rows] == [str(age) for age in range(80, 17, -1)]


def test_cursors_of_sql(jdbc: Java) -> None:
    jdbc.ask("auto", "false")
    jdbc.ask("statement", "DECLARE c SCROLL CURSOR FOR SELECT age, count(*) FROM people GROUP BY age ORDER BY age")
    assert [row[0] for row in jdbc.ask("statement", "FETCH 2 FROM c").rows] == ["18", "19"]
    assert [row[0] for row in jdbc.ask("statement", "FETCH LAST FROM c").rows] == ["80"]
    assert jdbc.ask("statement", "CLOSE c").state is None


def test_several_statements_in_one_execute(jdbc: Java, mode: str) -> None:
    """pgjdbc itself cuts them into statements of their own."""
    answer = jdbc.ask("statement", "BEGIN; SELECT count(*) FROM samples; SELECT 5; COMMIT")
    if mode in ("simple", "extendedForPrepared"):
        assert answer.state is None or answer.state == "DP003"
    else:
        assert len(answer.rows) == 2 and answer.state is None


def test_a_batch_of_inserts(jdbc: Java) -> None:
    jdbc.ask("auto", "false")
    jdbc.ask("statement", "CREATE TEMP TABLE kept (n bigint) ON COMMIT DROP")
    assert jdbc.ask("batch", "INSERT INTO kept VALUES (?)", "long", "1", "2", "3").values == ["[1, 1, 1]"]
    answer = jdbc.ask(
        "prepared", "INSERT INTO kept SELECT count(*) FROM samples WHERE whole < ?", "int", "700"
    )  # fmt: skip
    assert answer.updated == ["1"]
    assert len(jdbc.ask("statement", "SELECT n FROM kept").rows) == 4


def test_a_batch_that_is_refused_says_so(jdbc: Java) -> None:
    jdbc.ask("auto", "false")
    answer = jdbc.ask("batch", "INSERT INTO people (id) VALUES (?)", "int", "1", "2")
    assert "42501" in [error[0] for error in answer.errors]


def test_copy_in_and_out(jdbc: Java) -> None:
    """The manager of pgjdbc."""
    jdbc.ask("statement", "CREATE TEMP TABLE IF NOT EXISTS copied (n int, word text)")
    assert jdbc.ask("copyin", "COPY copied FROM STDIN", "1\tx\n2\t\\N\n").values == ["2"]
    assert jdbc.ask("copyout", "COPY copied TO STDOUT (FORMAT csv)").values[0] == "1,x\n2,\n"
    text = jdbc.ask("copyout", "COPY (SELECT count(*) FROM samples) TO STDOUT").values[0]
    assert abs(int(text or "") - 1000) <= NEAR
    assert jdbc.ask("copyout", "COPY people TO STDOUT").state == "DP002"
    jdbc.ask("statement", "DROP TABLE copied")


# Transactions.


def test_savepoints_and_a_refusal(jdbc: Java, mode: str) -> None:
    jdbc.ask("auto", "false")
    first = jdbc.ask("statement", "SELECT count(*) FROM samples WHERE whole < 600").one
    jdbc.ask("savepoint", "here")
    assert jdbc.ask("statement", "SELECT * FROM samples").state == "DP002"
    after = jdbc.ask("statement", "SELECT 1").state
    assert after == (None if mode == "savepoint before each" else "25P02")
    jdbc.ask("back", "here")
    assert jdbc.ask("statement", "SELECT count(*) FROM samples WHERE whole < 600").one == first
    assert not jdbc.ask("release", "here").errors
    assert not jdbc.ask("commit").errors


def test_a_rollback_gives_nothing_back(jdbc: Java, drivers_stack: DriversStack) -> None:
    jdbc.ask("auto", "false")
    sql = "SELECT count(*) FROM samples WHERE whole < 601"
    first = jdbc.ask("statement", sql).one
    charged = drivers_stack.exact("SELECT count(*) FROM dp.ledger")
    jdbc.ask("rollback")
    assert jdbc.ask("statement", sql).one == first
    assert drivers_stack.exact("SELECT count(*) FROM dp.ledger") == charged


def test_isolation_read_only_and_schema(jdbc: Java) -> None:
    jdbc.ask("isolation", "8")
    jdbc.ask("readonly", "true")
    jdbc.ask("auto", "false")
    assert jdbc.ask("statement", "SHOW transaction_isolation").rows == [["serializable"]]
    assert jdbc.ask("statement", "SELECT count(*) FROM samples").state is None
    jdbc.ask("rollback")
    jdbc.ask("auto", "true")
    jdbc.ask("readonly", "false")
    jdbc.ask("isolation", "2")
    jdbc.ask("schema", "pg_catalog")
    assert jdbc.ask("statement", "SELECT count(*) FROM samples").state == "42P01"
    assert jdbc.ask("statement", "SELECT count(*) FROM public.samples").state is None
    jdbc.ask("schema", "public")
    assert jdbc.ask("valid").values == ["true"]


def test_cancel(jdbc: Java) -> None:
    assert jdbc.ask("cancel", "SELECT pg_sleep(30)").state == "57014"
    assert jdbc.ask("statement", "SELECT 1").one == 1


# Types.

# Of a column of samples: how it is bound, the value of row 321 (as many rows are not above it).
ORDERED = {
    "whole": ("int", "321"),
    "big": ("long", "3210000000000"),
    "exact": ("decimal", "361.125"),
    "single": ("float", "80.25"),
    "double": ("double", "107.001"),
    "at": ("timestamp", "2024-01-14 09:00:00"),
    "moment": ("offsetdatetime", "2024-01-14T09:00:00Z"),
    "uid": ("uuid", "00000000-0000-0000-0000-000000000321"),
    "clock": ("localtime", "05:21"),
    "at::timestamp": ("localdatetime", "2024-01-14T09:00:00"),
}


@pytest.mark.parametrize("column", ORDERED)
def test_bound_parameters_of_each_type(jdbc: Java, column: str) -> None:
    for _ in range(2):
        answer = jdbc.ask("prepared", f"SELECT count(*) FROM samples WHERE {column} <= ?", *ORDERED[column])
        assert abs(answer.one - 321) <= NEAR


COMPARED = [
    ("yes", "boolean", "true", 500),
    ("small", "short", "40", 10),
    ("word", "string", "word 3", 100),
    ("code", "string", "c4", 100),
    ("flag", "string", "abc", 1000),
    ("day", "date", "2024-01-11", 4),
    ("day", "localdate", "2024-01-11", 4),
    ("word", "string", "it's “\\”; -- ?", 0),
]


@pytest.mark.parametrize("column, how, value, exact", COMPARED)
def test_bound_parameters_that_are_compared(jdbc: Java, column: str, how: str, value: str, exact: int) -> None:
    for _ in range(2):
        answer = jdbc.ask("prepared", f"SELECT count(*) FROM samples WHERE {column} = ?", how, value)
        assert abs(answer.one - exact) <= NEAR


def test_a_parameter_is_null(jdbc: Java) -> None:
    answer = jdbc.ask(
        "prepared", "SELECT count(*) FROM samples WHERE word = ? OR whole < ?", "string", None, "int", "9"
    )
    assert abs(answer.one - 8) <= NEAR


def test_arrays_are_parameters(jdbc: Java) -> None:
    answer = jdbc.ask("prepared", "SELECT count(*) FROM samples WHERE whole = ANY (?)", "ints", "1,2,3")
    assert abs(answer.one - 3) <= NEAR
    answer = jdbc.ask("prepared", "SELECT count(*) FROM samples WHERE code = ANY (?)", "texts", "c1,c2")
    assert abs(answer.one - 200) <= NEAR


# Type of PostgreSQL, setter, value, and what getObject shows.
CONSTANTS: list[tuple[str, str, str, str | None]] = [
    ("bool", "boolean", "true", "true"),
    ("int2", "short", "-32768", "-32768"),
    ("int4", "int", "2147483647", "2147483647"),
    ("int8", "long", "-9223372036854775808", "-9223372036854775808"),
    ("numeric", "decimal", "12345678901234567890.0123456789", "12345678901234567890.0123456789"),
    ("float4", "float", "0.25", "0.25"),
    ("float8", "double", "1.0E300", "1.0E300"),
    ("text", "string", "Zürich ソ € 'x' \\ \n?", "Zürich ソ € 'x' \\ \n?"),
    ("bytea", "bytes", "00ff27", "00ff27"),
    ("date", "date", "2024-02-29", "2024-02-29"),
    ("time", "localtime", "23:59:59", "23:59:59"),
    ("timestamp", "timestamp", "2024-02-29 12:00:00.000001", "2024-02-29 12:00:00.000001"),
    ("uuid", "uuid", "12345678-1234-5678-1234-567812345678", "12345678-1234-5678-1234-567812345678"),
    ("int4[]", "ints", "1,2", "{1,2}"),
    ("jsonb", "jsonb", '{"a": [1, null]}', '{"a": [1, null]}'),
    ("interval", "interval", "1 day", "0 years 0 mons 1 days 0 hours 0 mins 0.0 secs"),
    ("inet", "inet", "192.0.2.1", "192.0.2.1"),
    ("text", "string", "", ""),
]


@pytest.mark.parametrize("kind, how, value, shown", CONSTANTS)
def test_values_come_back_as_they_went(jdbc: Java, mode: str, kind: str, how: str, value: str, shown: str) -> None:
    if (mode, how) == ("simple", "bytes"):
        how, value = "string", f"\\x{value}"  # pgjdbc 42.5 writes an empty text for bytes in a simple query
    for _ in range(2):
        ((found,),) = jdbc.ask("prepared", f"SELECT ?::{kind} AS v", how, value).rows
        # pgjdbc quotes the elements of an array that came in binary
        assert (found.replace('"', "") if kind.endswith("[]") and found else found) == shown


GENERIC = [
    ("int4", "int", "7", "INTEGER"),
    ("int8", "long", "7", "BIGINT"),
    ("numeric", "decimal", "7.50", "NUMERIC"),
    ("text", "string", "seven", "VARCHAR"),
    ("bool", "boolean", "true", "BOOLEAN"),
    ("date", "localdate", "2024-02-29", "DATE"),
    ("timestamp", "localdatetime", "2024-02-29T12:00:00.000001", "TIMESTAMP"),
    ("timestamptz", "offsetdatetime", "2024-02-29T12:00Z", "TIMESTAMP_WITH_TIMEZONE"),
    ("time", "localtime", "12:34:56", "TIME"),
    ("uuid", "uuid", "12345678-1234-5678-1234-567812345678", "OTHER"),
    ("float8", "double", "0.1", "DOUBLE"),
]


@FEW
@pytest.mark.parametrize("kind, how, value, constant", GENERIC)
def test_set_object_and_get_object(jdbc: Java, kind: str, how: str, value: str, constant: str) -> None:
    for words in ((), (constant,)):
        answer = jdbc.ask("generic", f"SELECT ?::{kind}", how, value, *words)
        assert answer.values == [value]


@FEW
def test_the_types_of_a_public_table(jdbc: Java) -> None:
    answer = jdbc.ask("statement", "SELECT * FROM regions ORDER BY city")
    assert answer.columns == ["city text", "label varchar", "people int4"]
    assert answer.rows[0] == ["east", "The East", None]


# Metadata.


def names(answer: Answer, column: int) -> list[str | None]:
    assert not answer.errors
    return [row[column] for row in answer.rows]


METADATA: list[tuple[tuple[str | None, ...], int, list[str]]] = [
    (("getTables", None, "public", "%", "TABLE"), 2, ["customers", "items", "orders", "people", "samples"]),
    (("getTables", None, "public", "%", "FOREIGN TABLE"), 2, ["regions"]),
    (("getTables", None, "public", "%", "VIEW"), 2, []),
    (("getColumns", None, "public", "items", "%"), 3, ["order_id", "sku", "price"]),
    (("getColumns", None, "public", "samples", "exact"), 8, ["3"]),
    (("getColumns", None, "public", "samples", "code"), 6, ["10"]),
    (("getPrimaryKeys", None, "public", "people"), 3, ["id"]),
    (("getPrimaryKeys", None, "public", "items"), 3, []),
    (("getImportedKeys", None, "public", "orders"), 2, ["customers"]),
    (("getExportedKeys", None, "public", "orders"), 6, ["items"]),
    (("getCrossReference", None, "public", "customers", None, "public", "orders"), 7, ["customer_id"]),
    (("getIndexInfo", None, "public", "people", "true", "true"), 5, ["people_pkey"]),
    (("getBestRowIdentifier", None, "public", "people", "2", "false"), 1, ["id"]),
    (("getTableTypes",), 0, []),
    (("getCatalogs",), 0, ["private"]),
    (("getFunctions", None, "dp", "dp_count"), 2, ["dp_count"]),
    (("getProcedures", None, "public", "%"), 2, []),
    (("getVersionColumns", None, "public", "people"), 1, ["ctid"]),
]  # fmt: skip


@FEW
@pytest.mark.parametrize("call, column, expected", METADATA, ids=lambda v: v[0] if isinstance(v, tuple) else "")
def test_metadata(jdbc: Java, call: tuple[str | None, ...], column: int, expected: list[str]) -> None:
    found = names(jdbc.ask("meta", *call), column)
    if call[0] == "getTableTypes":
        assert {"TABLE", "VIEW", "FOREIGN TABLE"} <= set(found)
    elif call[0] == "getVersionColumns":
        assert expected[0] in found
    else:
        assert found == expected


@FEW
@pytest.mark.parametrize(
    "call",
    [("getSchemas",), ("getTypeInfo",), ("getColumns", None, None, "%", "%"), ("getTables", None, None, "%", None),
     ("getTablePrivileges", None, "public", "people"), ("getColumnPrivileges", None, "public", "people", "%"),
     ("getClientInfoProperties",), ("getUDTs", None, "public", "%", None),
     ("getFunctionColumns", None, "dp", "dp_count", "%"), ("getIndexInfo", None, None, "people", "false", "false")],
    ids=lambda call: call[0],
)  # fmt: skip
def test_metadata_answers(jdbc: Java, call: tuple[str | None, ...]) -> None:
    answer = jdbc.ask("meta", *call)
    assert not answer.errors and answer.rows


@FEW
def test_metadata_as_values(jdbc: Java) -> None:
    def value(name: str) -> Any:
        return jdbc.ask("meta", name).values[0]

    assert value("getDatabaseProductName") == "PostgreSQL"
    assert value("getUserName") == "alice"
    assert int(value("getDatabaseMajorVersion")) >= 15
    assert "count" not in value("getSQLKeywords").split(",")
    assert int(value("getMaxTableNameLength")) == 63
