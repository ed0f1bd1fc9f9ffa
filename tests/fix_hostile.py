"""A throw-away cluster with tables of hostile rows: every value that makes some PostgreSQL function raise."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from fix_cluster import find_postgres
from pg_epsilon.query.expression import FoldError, Scope
from pg_epsilon.query.schema import Column, ColumnPolicy, Relation

ZONE = "America/New_York"
NOW = "2026-11-21 02:00:00+00"
LABELS = ("sad", "ok", 'happy\'s "day"')
_HUGE = "'1e131071'"
_STAMP_SQL = (
    "'infinity'",
    "'-infinity'",
    "'4714-11-24 00:00:00 BC'",
    "'4713-01-01 BC'",
    "'0001-01-01 BC'",
    "'1969-12-31 23:59:59.999999'",
    "'2000-02-29'",
    "'2024-03-10 02:30'",
    "'2024-11-03 01:30'",
    "'2020-11-21 02:00'",
    "'294276-12-31 23:59:59.999999'",
    "'9999-12-31'",
)
_TEXTS = (
    "''",
    "' '",
    "'a'",
    "'A'",
    "'abc'",
    "'a%b_c'",
    r"'\'",
    r"'a\%'",
    "'  x  '",
    "'é'",
    "'ÉÈ straße ﬁ İı'",
    "'日本語'",
    "E'\\t\\n\\r'",
    "U&'\\00A0\\2003x'",
    "U&'\\+01F600\\+10FFFF'",
    "U&'e\\0301'",
    "'NULL'",
    "'1e400'",
    "repeat('ab%', 700000)",
)

# column: (type, OID or None to look it up, typmod, values as SQL)
COLUMNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "i2": ("smallint", ("0", "1", "-1", "5", "32767", "-32768")),
    "i4": ("integer", ("0", "1", "-1", "7", "100", "2147483647", "-2147483648")),
    "i8": ("bigint", ("0", "1", "-1", "3", "9007199254740993", "9223372036854775807", "-9223372036854775808")),
    "n": ("numeric(10,2)", ("0", "1", "-1.5", "2.50", "'NaN'", "99999999.99", "-99999999.99", "0.01")),
    "np": ("numeric(38,10)", ("0", "1", "'NaN'", "9999999999999999999999999999.9999999999", "-0.0000000001", "3")),
    "nu": ("numeric", ("0", "1.5", "'NaN'", "'Infinity'", "'-Infinity'", _HUGE, "'-9e131071'", "'1e-16383'", "2")),
    "f4": ("real", ("0", "'-0'", "1.5", "0.1", "'NaN'", "'Infinity'", "'-Infinity'", "3.4e38", "1e-45")),
    "f8": (
        "double precision",
        (
            "0",
            "'-0'",
            "0.1",
            "2147483647.5",
            "-2147483648.5",
            "9223372036854775807",
            "'NaN'",
            "'Infinity'",
            "'-Infinity'",
            "1.7976931348623157e308",
            "5e-324",
            "2.5",
        ),
    ),
    "b": ("boolean", ("true", "false")),
    "t": ("text", _TEXTS),
    "v": ("varchar(40)", tuple(text for text in _TEXTS if "repeat" not in text)),
    "bp": ("char(6)", ("''", "'a'", "'ab  '", "'é'", "'abcdef'", "'%_'")),
    "tc": ('text COLLATE "C"', ("''", "'a'", "'A'", "'é'", "'abc'")),
    "d": (
        "date",
        (
            "'infinity'",
            "'-infinity'",
            "'4714-11-24 BC'",
            "'4000-01-01 BC'",
            "'0001-01-01 BC'",
            "'2000-02-29'",
            "'2024-03-10'",
            "'2020-11-21'",
            "'294276-12-31'",
            "'294277-01-01'",
            "'5874897-12-31'",
            "'1900-01-01'",
        ),
    ),
    "ts": ("timestamp", _STAMP_SQL),
    "tz": ("timestamptz", _STAMP_SQL),
    "tm": ("time", ("'00:00'", "'24:00'", "'12:34:56.789'", "'23:59:59.999999'")),
    "u": ("uuid", ("'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'")),
    "m": ("public.mood", ("'sad'", "'ok'")),
    "iv": ("interval", ("'0'", "'1 mon'", "'30 days'", "'-178000000 years'", "'178000000 years'", "'1 us'")),
    "ja": ("integer[]", ("'{}'", "'{1,NULL}'")),
}
_STEPS = (1, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
ROWS = 96


@dataclass(frozen=True)
class Server:
    """A running cluster: connect with `dsn(database)`."""

    directory: Path

    def dsn(self, database: str) -> str:
        return f"host={self.directory} port=5432 user=postgres dbname={database}"

    def connect(
        self, database: str = "utf8", zone: str = "UTC", path: str = "pg_catalog, pg_temp"
    ) -> psycopg.Connection:
        connection = psycopg.connect(self.dsn(database), autocommit=True)
        connection.execute("SET client_encoding = 'UTF8'")
        connection.execute(f"SET TimeZone = '{zone}'")
        connection.execute(f"SET search_path = {path}")
        return connection


@pytest.fixture(scope="session")
def hostile_server() -> Iterator[Server]:
    """A server of `started_server` for the whole session."""
    yield from started_server()


def started_server() -> Iterator[Server]:
    """Start a cluster as an unprivileged user, with the databases utf8, latin1 and ascii, and stop it afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="pge-hostile-", dir="/tmp"))
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    if os.geteuid() == 0:
        shutil.chown(directory, user, user)
    run = {"user": user, "cwd": directory, "check": True, "capture_output": True, "timeout": 240}
    if os.geteuid() != 0:
        del run["user"]
    (_, bin_), data = find_postgres(), directory / "data"
    options = f"-k {directory} -c listen_addresses= -c fsync=off -c max_connections=20 -c shared_buffers=32MB"
    subprocess.run(  # type: ignore[call-overload]
        [bin_ / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
        **run,
    )
    server = Server(directory)
    try:
        subprocess.run(  # type: ignore[call-overload]
            [bin_ / "pg_ctl", "-D", data, "-w", "-t", "200", "-l", directory / "log", "-o", options, "start"], **run
        )
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE utf8")
            for name, encoding in (("latin1", "LATIN1"), ("ascii", "SQL_ASCII")):
                connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
        _fill(server)
        yield server
    finally:
        stop = [bin_ / "pg_ctl", "-D", data, "-m", "immediate", "stop"]
        subprocess.run(stop, **{**run, "check": False})  # type: ignore[call-overload]  (it may never have started)
        shutil.rmtree(directory, ignore_errors=True)


_PADDED = (
    ("", " ", "  "),
    ("a", "a  ", "a"),
    ("a", "a", "a  "),
    ("ab", "ab ", "ab "),
    ("ab", "b", "ab   "),
    ("b", "ab ", "b"),
)


def _fill(server: Server) -> None:
    labels = ", ".join("'" + label.replace("'", "''") + "'" for label in LABELS)
    with server.connect(path="public") as connection:
        connection.execute(f"CREATE TYPE mood AS ENUM ({labels})")
        connection.execute("CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
        declared = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
        connection.execute(f"CREATE TABLE hostile (id int PRIMARY KEY, {declared}, tn text COLLATE loose)")
        for row in range(ROWS):
            values = [
                "NULL" if row % 16 == 15 else values[(row * _STEPS[i % len(_STEPS)] + row // 7) % len(values)]
                for i, (_, values) in enumerate(COLUMNS.values())
            ]
            connection.execute(f"INSERT INTO hostile VALUES ({row}, {', '.join(values)}, 'Aé')")
        # strings that are equal as bpchar and not as text, in both arms of a CASE
        for row, (bp, v, t) in enumerate(_PADDED, ROWS):
            for number, sign in ((2 * row, 1), (2 * row + 1, -9)):
                values = f"{number}, {sign}, '{bp}', '{v}', '{t}', 'Aé'"
                connection.execute(f"INSERT INTO hostile (id, i4, bp, v, t, tn) VALUES ({values})")
        connection.execute(_ORACLE)
    for database, text in (("latin1", r"convert_from('\xe9c6a0ff41'::bytea, 'LATIN1')"), ("ascii", "'x'")):
        with server.connect(database, path="public") as connection:
            connection.execute("CREATE TABLE hostile (id int PRIMARY KEY, t text, v varchar(40), bp char(6))")
            connection.execute(
                f"INSERT INTO hostile VALUES (1, {text}, {text}, {text}), (2, '', '', ''), (3, NULL, NULL, NULL)"
            )
    with server.connect("ascii", path="public") as connection:
        connection.execute("SET client_encoding = SQL_ASCII")
        odd = r"E'\xff\xc3\x28 \xe9A\x80%'"
        connection.execute(f"INSERT INTO hostile VALUES (4, {odd}, {odd}, E'\\xf0\\x9f')".encode("ascii"))


# PostgreSQL's own evaluation of the original text, row by row: an error on one row must not hide the others.
_ORACLE = """
CREATE FUNCTION public.oracle(expression text) RETURNS TABLE (row_id int, outcome text) LANGUAGE plpgsql AS $$
BEGIN
  FOR row_id IN SELECT id FROM public.hostile ORDER BY id LOOP
    BEGIN
      EXECUTE format('SELECT ((%s)::boolean)::text FROM public.hostile WHERE id = %s', expression, row_id) INTO outcome;
      outcome := coalesce(outcome, 'null');
    EXCEPTION WHEN OTHERS THEN
      outcome := 'error';
    END;
    RETURN NEXT;
  END LOOP;
END $$
"""


def hostile_relation(connection: psycopg.Connection) -> Relation:
    """Read the hostile table's columns from the catalog, all declared."""
    rows = connection.execute(
        "SELECT a.attname, a.atttypid::int, pg_catalog.format_type(a.atttypid, NULL), a.atttypmod,"
        " coalesce(c.collisdeterministic, true), CASE WHEN a.attcollation <> t.typcollation THEN c.collname END,"
        " (SELECT array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = a.atttypid)"
        " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation c ON c.oid = a.attcollation"
        " WHERE a.attrelid = 'public.hostile'::regclass AND a.attnum > 0 ORDER BY a.attnum"
    ).fetchall()
    policy = ColumnPolicy("opaque")
    columns = {
        name: Column(name, oid, type_, typmod, fixed, collation, tuple(labels) if labels else None, policy)
        for name, oid, type_, typmod, fixed, collation, labels in rows
    }
    return Relation("public", "hostile", 1, columns)


def folding(connection: psycopg.Connection):  # type: ignore[no-untyped-def]
    """Return a Fold over a connection that has the asker's settings."""

    def fold(texts: Sequence[str]) -> list[str | None]:
        try:
            row = connection.execute("SELECT " + ", ".join(texts)).fetchone()
        except psycopg.Error as error:
            raise FoldError(str(error)) from None
        assert row is not None
        return list(row)

    return fold


def scope_of(relation: Relation, encoding: str = "UTF8") -> Scope:
    """Return the scope in which tests compile."""
    return Scope(relation, encoding=encoding, timezone=ZONE, now=NOW)
