"""SQLAlchemy 2 through the proxy, by each of its PostgreSQL dialects that we have: reflection, ORM, cursors, pandas."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import ssl
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from fix_drivers import CHANCE, NEAR, DriversStack
from fix_waiting import left_behind

# A login over TLS that fails ends asyncpg's loop before the transport has said goodbye, now and then.
pytestmark = [
    pytest.mark.filterwarnings(r"ignore:Exception ignored in.*Transport:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.chance(CHANCE),
]
T = TypeVar("T")
DIALECTS = ("psycopg", "psycopg_async", "asyncpg")


class Base(DeclarativeBase):
    pass


class Person(Base):
    __tablename__ = "people"
    id: Mapped[int] = mapped_column(primary_key=True)
    age: Mapped[int]
    sex: Mapped[str]
    city: Mapped[str | None]
    income: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(10, 2))
    joined: Mapped[datetime.date]


class Sample(Base):
    __tablename__ = "samples"
    id: Mapped[int] = mapped_column(primary_key=True)
    yes: Mapped[bool]
    small: Mapped[int] = mapped_column(sa.SmallInteger)
    whole: Mapped[int]
    big: Mapped[int] = mapped_column(sa.BigInteger)
    exact: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(12, 3))
    single: Mapped[float] = mapped_column(sa.REAL)
    double: Mapped[float] = mapped_column(sa.Double)
    word: Mapped[str] = mapped_column(sa.Text)
    code: Mapped[str] = mapped_column(sa.String(10))
    flag: Mapped[str] = mapped_column(sa.CHAR(3))
    day: Mapped[datetime.date]
    at: Mapped[datetime.datetime] = mapped_column(sa.TIMESTAMP)
    moment: Mapped[datetime.datetime] = mapped_column(sa.TIMESTAMP(timezone=True))
    clock: Mapped[datetime.time]
    uid: Mapped[uuid.UUID]


@dataclass
class Client:
    """Runs functions of a SQLAlchemy connection, on the loop that an asynchronous dialect wants."""

    stack: DriversStack
    dialect: str

    def url(self, port: int, password: str) -> sa.URL:
        stack = self.stack
        return sa.URL.create(f"postgresql+{self.dialect}", stack.user, password, stack.host, port, stack.dbname)

    def secure(self, **changes: Any) -> dict[str, Any]:
        """Arguments for a connection that believes only our certificate."""
        if self.dialect == "asyncpg":
            return {"ssl": ssl.create_default_context(cafile=str(self.stack.certificate)), **changes}
        return {"sslmode": "verify-full", "sslrootcert": str(self.stack.certificate), **changes}

    def clear(self) -> dict[str, Any]:
        return {"ssl": False} if self.dialect == "asyncpg" else {"sslmode": "disable"}

    def run(
        self,
        work: Callable[[sa.Connection], T],
        *,
        arguments: dict[str, Any] | None = None,
        password: str | None = None,
        **options: Any,
    ) -> T:
        """By a recording relay, unless `arguments` say how to connect; psycopg sends the same in both its styles."""
        direct = arguments or self.dialect == "psycopg_async"
        port = self.stack.port if direct else self.stack.recorded(f"sqlalchemy-{self.dialect}")
        url = self.url(port, password or self.stack.password)
        options["connect_args"] = arguments or self.clear()
        if self.dialect == "psycopg":
            engine = sa.create_engine(url, **options)
            try:
                with engine.connect() as connection:
                    return work(connection)
            finally:
                engine.dispose()

        async def main() -> T:
            engine = create_async_engine(url, **options)
            try:
                async with engine.connect() as connection:
                    return await connection.run_sync(work)
            finally:
                await engine.dispose()

        return asyncio.run(main())


@pytest.fixture(scope="module", params=DIALECTS)
def client(request: pytest.FixtureRequest, drivers_stack: DriversStack) -> Iterator[Client]:
    yield Client(drivers_stack, request.param)


def refusal(error: sa.exc.DBAPIError) -> tuple[str, str | None]:
    """SQLSTATE and HINT, as each driver has them."""
    cause: Any = error.orig
    while cause.__cause__ is not None:  # asyncpg's own error is under SQLAlchemy's adapter
        cause = cause.__cause__
    hint = cause.hint if hasattr(cause, "hint") else cause.diag.message_hint
    return str(cause.sqlstate), hint


def refused(connection: sa.Connection, statement: Any, *arguments: Any) -> tuple[str, str | None]:
    with pytest.raises(sa.exc.DBAPIError) as caught:
        connection.execute(statement, *arguments)
    return refusal(caught.value)


def test_connects_over_tls_with_scram(client: Client) -> None:
    def work(connection: sa.Connection) -> tuple[Any, bool]:
        driver: Any = connection.connection.driver_connection
        encrypted = (
            driver._transport.get_extra_info("ssl_object") is not None
            if client.dialect == "asyncpg"
            else driver.pgconn.ssl_in_use
        )
        return connection.scalar(sa.text("SELECT current_user")), encrypted

    assert client.run(work, arguments=client.secure()) == ("alice", True)


def test_a_wrong_password_is_told(client: Client) -> None:
    with left_behind(), pytest.raises(Exception, match='password authentication failed for user "alice"'):
        client.run(lambda c: None, arguments=client.secure(), password="wrong")


def test_an_unknown_certificate_is_not_believed(client: Client) -> None:
    changes = {"ssl": True} if client.dialect == "asyncpg" else {"sslrootcert": "system"}
    with left_behind(), pytest.raises(Exception, match=r"(?i)certificate verify failed"):
        client.run(lambda c: None, arguments=client.secure(**changes))


def test_reflection_sees_tables_and_keys(client: Client) -> None:
    def work(connection: sa.Connection) -> None:
        seen = sa.inspect(connection)
        assert {"public", "dp"} <= set(seen.get_schema_names())
        assert {"customers", "orders", "items", "people", "samples"} <= set(seen.get_table_names(schema="public"))
        assert seen.get_foreign_table_names(schema="public") == ["regions"]  # type: ignore[attr-defined]
        assert seen.get_pk_constraint("people")["constrained_columns"] == ["id"]
        assert seen.get_pk_constraint("items")["constrained_columns"] == []
        (key,) = seen.get_foreign_keys("orders")
        assert (key["constrained_columns"], key["referred_table"], key["referred_columns"]) == (
            ["customer_id"], "customers", ["id"],
        )  # fmt: skip
        for ask in (seen.get_indexes, seen.get_unique_constraints, seen.get_check_constraints):
            assert list(ask("people")) == []
        assert seen.get_table_comment("people") == {"text": None}
        assert seen.has_table("people") and not seen.has_table("nobody")
        assert seen.get_view_names(schema="public") == []
        assert seen.get_sequence_names() == []
        assert seen.get_enums() == []  # type: ignore[attr-defined]

    client.run(work)


def test_reflection_sees_the_types_of_columns(client: Client) -> None:
    columns = client.run(lambda c: sa.inspect(c).get_columns("samples"))
    expected = {
        "id": "INTEGER", "yes": "BOOLEAN", "small": "SMALLINT", "whole": "INTEGER", "big": "BIGINT",
        "exact": "NUMERIC(12, 3)", "single": "REAL", "double": "DOUBLE PRECISION", "word": "TEXT",
        "code": "VARCHAR(10)", "flag": "CHAR(3)", "day": "DATE", "at": "TIMESTAMP WITHOUT TIME ZONE",
        "moment": "TIMESTAMP WITH TIME ZONE", "clock": "TIME WITHOUT TIME ZONE", "uid": "UUID", "span": "INTERVAL",
        "raw": "BYTEA", "doc": "JSONB",
    }  # fmt: skip
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    assert {c["name"]: c["type"].compile(dialect) for c in columns} == expected
    assert [c["name"] for c in columns if not c["nullable"]] == ["id"]


def test_a_whole_schema_is_reflected_and_asked(client: Client) -> None:

    def work(connection: sa.Connection) -> None:
        metadata = sa.MetaData()
        metadata.reflect(connection, schema="public")
        order = [table.name for table in metadata.sorted_tables]
        assert order.index("customers") < order.index("orders") < order.index("items")
        samples = metadata.tables["public.samples"]
        question = sa.select(samples.c.code, sa.func.count()).group_by(samples.c.code).order_by(samples.c.code)
        rows = connection.execute(question).all()
        assert [row[0] for row in rows] == [f"c{i}" for i in range(10)]
        assert all(abs(row[1] - 100) <= NEAR for row in rows)

    client.run(work)


def test_a_public_table_is_read_and_joined(client: Client) -> None:
    def work(connection: sa.Connection) -> None:
        regions = sa.Table("regions", sa.MetaData(), autoload_with=connection)
        assert len(connection.execute(sa.select(regions)).all()) == 3
        counts = sa.select(Person.city, sa.func.count().label("n")).group_by(Person.city).subquery()
        joined = sa.select(regions.c.label, counts.c.n).join(counts, counts.c.city == regions.c.city)
        rows = connection.execute(joined.order_by(counts.c.n.desc())).all()
        assert {row.label for row in rows} == {"The North", "The South", "The East"}
        assert [row.n for row in rows] == sorted((row.n for row in rows), reverse=True)

    client.run(work)


# Name: a statement, and its truth on samples.
QUESTIONS: dict[str, tuple[Callable[[], sa.Select[Any]], str]] = {
    "count()": (lambda: sa.select(sa.func.count()).select_from(Sample), "true"),
    "count(id)": (lambda: sa.select(sa.func.count(Sample.id)).where(Sample.small >= 40), "small >= 40"),
    "in": (
        lambda: sa.select(sa.func.count()).select_from(Sample).where(Sample.code.in_(["c1", "c2"])),
        "code IN ('c1','c2')",
    ),
    "between": (
        lambda: sa.select(sa.func.count()).select_from(Sample).where(Sample.whole.between(100, 300)),
        "whole BETWEEN 100 AND 300",
    ),
    "like": (
        lambda: sa.select(sa.func.count()).select_from(Sample).where(Sample.word.startswith("word 3")),
        "word LIKE 'word 3%'",
    ),
    "or": (
        lambda: sa.select(sa.func.count()).where(sa.or_(Sample.whole < 10, ~Sample.yes)),
        "whole < 10 OR NOT yes",
    ),
    "filter": (
        lambda: sa.select(sa.func.count().filter(Sample.yes)).select_from(Sample),
        "yes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_orm_counts(client: Client, name: str) -> None:
    statement, condition = QUESTIONS[name]
    exact = client.stack.exact(f"SELECT count(*) FROM samples WHERE {condition}")

    def work(connection: sa.Connection) -> Any:
        with Session(connection) as session:
            return session.scalar(statement())

    answer = client.run(work)
    assert answer is not None and abs(answer - exact) <= NEAR


def test_the_orm_refuses_to_load_objects(client: Client) -> None:
    def work(connection: sa.Connection) -> None:
        with Session(connection) as session:
            for load in (lambda: session.get(Person, 1), lambda: session.scalars(sa.select(Person).limit(1)).all()):
                with pytest.raises(sa.exc.DBAPIError) as caught:
                    load()
                state, hint = refusal(caught.value)
                assert state == "DP002" and hint and "count(*)" in hint
                session.rollback()

    client.run(work)


def test_one_statement_with_many_values(client: Client) -> None:
    """Past the thresholds where psycopg (5) and asyncpg (1) prepare it."""

    def work(connection: sa.Connection) -> None:
        question = sa.select(sa.func.count()).select_from(Sample).where(Sample.whole <= sa.bindparam("top"))
        for top in range(50, 650, 50):
            answer: Any = connection.scalar(question, {"top": top})
            assert abs(answer - top) <= NEAR

    client.run(work)


def test_a_server_side_cursor_streams(client: Client) -> None:
    def work(connection: sa.Connection) -> None:
        question = sa.select(Person.age, sa.func.count()).group_by(Person.age).order_by(Person.age)
        with connection.execution_options(stream_results=True, max_row_buffer=10).execute(question) as rows:
            sizes = [len(part) for part in rows.partitions(25)]
        assert sizes == [25, 25, 13]
        with connection.execute(question, execution_options={"yield_per": 7}) as rows:
            assert [row.age for row in rows] == list(range(18, 81))
        assert refused(connection, sa.select(Person))[0] == "DP002"

    client.run(work)


def test_errors_are_postgresqls(client: Client) -> None:
    def work(connection: sa.Connection) -> None:
        for text, state in (
            ("SELEC 1", "42601"),
            ("SELECT nothing FROM people", "42703"),
            ("SELECT count(*) FROM nobody", "42P01"),
            ("SELECT 1/0", "22012"),
            ("SELECT * FROM people", "DP002"),
            ("INSERT INTO people (id) VALUES (1)", "42501"),
        ):
            assert refused(connection, sa.text(text))[0] == state, text
            connection.rollback()
        assert connection.scalar(sa.text("SELECT 1")) == 1

    client.run(work)


def test_transactions_and_savepoints(client: Client) -> None:
    def work(connection: sa.Connection) -> None:
        question = sa.select(sa.func.count()).select_from(Sample).where(Sample.whole < 777)
        with connection.begin():
            connection.execute(sa.text("CREATE TEMP TABLE kept (n bigint) ON COMMIT PRESERVE ROWS"))
            first = connection.scalar(question)
            with pytest.raises(sa.exc.DBAPIError), connection.begin_nested():
                connection.execute(sa.select(Person))
            with connection.begin_nested() as inner:
                connection.execute(sa.text("INSERT INTO kept VALUES (1)"))
                inner.rollback()
            assert connection.scalar(question) == first
            connection.execute(sa.text("INSERT INTO kept SELECT count(*) FROM samples WHERE whole < 777"))
        assert connection.execute(sa.text("SELECT n FROM kept")).all() == [(first,)]

    client.run(work)


def test_autocommit_and_a_pool_that_pings(client: Client) -> None:
    def work(connection: sa.Connection) -> Any:
        connection.execute(sa.text("CREATE TEMP TABLE own AS SELECT city, count(*) AS n FROM people GROUP BY city"))
        connection.rollback()
        own = sa.Table("own", sa.MetaData(), autoload_with=connection)
        return connection.scalar(sa.select(sa.func.count()).select_from(own))

    assert client.run(work, isolation_level="AUTOCOMMIT", pool_pre_ping=True) == 4


def test_isolation_levels(client: Client) -> None:
    def work(connection: sa.Connection) -> Any:
        level = connection.scalar(sa.text("SHOW transaction_isolation"))
        return level, connection.scalar(sa.select(sa.func.count()).select_from(Sample))

    level, n = client.run(work, isolation_level="SERIALIZABLE")
    assert level == "serializable" and abs(n - 1000) <= NEAR


def test_many_rows_into_a_temporary_table(client: Client) -> None:
    def work(connection: sa.Connection) -> None:
        own = sa.Table("own", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("word", sa.Text),
                       prefixes=["TEMPORARY"])  # fmt: skip
        own.create(connection)
        connection.execute(sa.insert(own), [{"word": f"w{i}"} for i in range(20)])
        made = connection.scalars(sa.insert(own).returning(own.c.id), [{"word": "x"}, {"word": "y"}]).all()
        assert len(made) == 2
        assert connection.scalar(sa.select(sa.func.count()).select_from(own)) == 22

    client.run(work)


UTC = datetime.UTC
# Column of samples, a value of the i-th row: as many rows are not above it.
VALUES: dict[str, Callable[[int], Any]] = {
    "whole": lambda i: i,
    "big": lambda i: i * 10_000_000_000,
    "exact": lambda i: decimal.Decimal("1.125") * i,
    "single": lambda i: i / 4,
    "double": lambda i: i / 3 + 0.01,
    "at": lambda i: datetime.datetime(2024, 1, 1) + i * datetime.timedelta(hours=1),
    "moment": lambda i: datetime.datetime(2024, 1, 1, tzinfo=UTC) + i * datetime.timedelta(hours=1),
    "clock": lambda i: datetime.time(i // 60, i % 60),
    "uid": lambda i: uuid.UUID(int=int(str(i), 16)),
}


@pytest.mark.parametrize("column", VALUES)
def test_bound_parameters_of_each_type(client: Client, column: str) -> None:

    def work(connection: sa.Connection) -> Any:
        attribute = getattr(Sample, column)
        return connection.scalar(sa.select(sa.func.count()).where(attribute <= VALUES[column](321)))

    assert abs(client.run(work) - 321) <= NEAR


@pytest.mark.parametrize(
    "column, value, exact",
    [("yes", True, 500), ("small", 40, 10), ("word", "word 3", 100), ("code", "c4", 100), ("flag", "abc", 1000),
     ("day", datetime.date(2024, 1, 11), 4), ("word", "it's “\\”; --", 0)],
)  # fmt: skip
def test_bound_parameters_that_are_compared(client: Client, column: str, value: Any, exact: int) -> None:

    def work(connection: sa.Connection) -> Any:
        return connection.scalar(sa.select(sa.func.count()).where(getattr(Sample, column) == value))

    assert abs(client.run(work) - exact) <= NEAR


CONSTANTS: list[tuple[Any, Any]] = [
    (sa.Boolean(), True),
    (sa.SmallInteger(), -32768),
    (sa.Integer(), 2147483647),
    (sa.BigInteger(), -9223372036854775808),
    (sa.Numeric(30, 10), decimal.Decimal("12345678901234567890.0123456789")),
    (sa.REAL(), 0.25),
    (sa.Double(), 1e300),
    (sa.Text(), "Zürich ソ € 'x' \\ \n"),
    (sa.LargeBinary(), bytes(range(256))),
    (sa.Date(), datetime.date(4, 2, 29)),
    (sa.Time(), datetime.time(23, 59, 59, 999999)),
    (sa.TIMESTAMP(), datetime.datetime(2024, 2, 29, 12, 0, 0, 1)),
    (sa.TIMESTAMP(timezone=True), datetime.datetime(2024, 2, 29, 12, tzinfo=UTC)),
    (sa.Interval(), datetime.timedelta(days=3, seconds=4, microseconds=5)),
    (sa.Uuid(), uuid.UUID("12345678-1234-5678-1234-567812345678")),
    (sa.JSON(), {"a": [1, None, "ü"]}),
    (postgresql.JSONB(), {"a": [1, None, "ü"]}),
    (postgresql.ARRAY(sa.Integer), [1, None, 3]),
    (postgresql.INET(), "192.0.2.1"),
    (postgresql.INT4RANGE(), postgresql.Range(1, 5)),
]


@pytest.mark.parametrize("kind, value", CONSTANTS, ids=lambda v: str(v) if isinstance(v, sa.types.TypeEngine) else "")
def test_values_come_back_as_they_went(client: Client, kind: Any, value: Any) -> None:
    answer = client.run(lambda c: c.scalar(sa.select(sa.cast(sa.literal(value, kind), kind))))
    assert answer == value or str(answer) == str(value)


def test_pandas_reads_answers(client: Client) -> None:

    def work(connection: sa.Connection) -> None:
        text = sa.text("SELECT code, count(*) AS n FROM samples WHERE whole > :low GROUP BY code ORDER BY code")
        frame = pandas.read_sql(text, connection, params={"low": 500}, index_col="code")
        assert list(frame.index) == [f"c{i}" for i in range(10)]
        assert frame["n"].dtype == "int64" and ((frame["n"] - 50).abs() <= NEAR).all()
        parts = list(pandas.read_sql(sa.select(Person.age, sa.func.count("*")).group_by(Person.age), connection,
                                     chunksize=20))  # fmt: skip
        assert [len(part) for part in parts] == [20, 20, 20, 3]
        kinds = pandas.read_sql_query("SELECT * FROM regions ORDER BY city", connection, dtype={"people": "Int64"})
        assert kinds["people"].isna().tolist() == [True, False, False]

    client.run(work)


def test_pandas_cannot_read_a_protected_table(client: Client) -> None:
    def work(connection: sa.Connection) -> None:
        for read in (
            lambda: pandas.read_sql_table("people", connection),
            lambda: pandas.read_sql("people", connection),
        ):
            with pytest.raises((sa.exc.DBAPIError, pandas.errors.DatabaseError), match="rows of people are private"):
                read()
            connection.rollback()

    client.run(work)
