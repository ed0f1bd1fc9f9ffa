"""A hint that names a relation or a column can be typed as it is, whatever the name: with `...` filled in it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg import sql

from fix_cluster import Cluster, standard_cluster
from pg_epsilon.query.parse import written

Connection = psycopg.Connection[Any]
NUMBER = count()
# Schema, table, column: capital, blank, quotes; keywords of each kind; beyond ASCII, and a backslash.
NAMES = [
    ("My Schema", 'a "table"', "hour's"),
    ("select", "left", "between"),
    ("öffentlich", "back\\slash", "Länge"),
]
TABLE = """
CREATE TABLE {table} (uid int PRIMARY KEY, {undeclared} int, {bare} int, {keyed} int, {joined} int, {made} int);
INSERT INTO {table} SELECT i, i % 3, i % 3, i % 3, i % 3, i % 3 FROM generate_series(1, 50) i;
CALL dp.protect({name}, {dataset}, unit_column => {unit}, max_rows_per_unit => {most}, max_rows => 1000000);
CALL dp.describe_column({name}, {bare:L}, nullable => false);
CALL dp.describe_column({name}, {keyed:L}, nullable => false);
CALL dp.describe_column({name}, {joined:L}, nullable => false);
CALL dp.publish({name});
"""
# What stands for `...`, by what is before it.
FILLED = {
    "domain => ARRAY[...]": "domain => ARRAY['0', '1', '2']",
    "max_rows_per_value => ...": "max_rows_per_value => 50",
    "epsilon => ...": "epsilon => 5",
    ", ...": ", domain => ARRAY['0', '1', '2']",
}


COLUMNS = ("undeclared", "bare", "keyed", "joined", "made")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        yield running


@pytest.fixture(params=NAMES, ids=lambda names: names[1])
def names(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Two tables of such names, of users and of rows, as calls name them, and columns, bare and quoted."""
    schema, table, column = request.param
    columns = {name: f"{column}{number}" for number, name in enumerate(COLUMNS)}
    found = {name: sql.Identifier(text).as_string() for name, text in columns.items()}
    found |= {f"{name}_name": text for name, text in columns.items()}
    with cluster.connect("boss") as boss:
        boss.execute(f"CREATE SCHEMA {ident(schema)}; GRANT USAGE ON SCHEMA {ident(schema)} TO dp_analyst")
        for unit, name in (("user", table), ("row", table + "s")):
            found[f"{unit}_set"] = dataset = f"o'set {next(NUMBER)}"
            boss.execute(
                "CALL dp.create_dataset(%s, unit => %s, epsilon => 100, default_epsilon => 1)", [dataset, unit]
            )
            boss.execute("CALL dp.allot('alice', %s, epsilon => 100)", [dataset])
            found[unit] = sql.Identifier(schema, name).as_string()
            text = TABLE.format(
                table=found[unit],
                name=literal(found[unit]),
                dataset=literal(dataset),
                unit="'uid'" if unit == "user" else "NULL",
                most="1" if unit == "user" else "NULL",
                **{key: Column(value) for key, value in columns.items()},
            )
            boss.execute(text)
        yield found
        for unit in ("user", "row"):
            boss.execute("CALL dp.unprotect(%s)", [found[unit]])
        boss.execute(f"DROP SCHEMA {ident(schema)} CASCADE")


class Column(str):
    """A column's name: quoted, or as a literal with the format L."""

    def __format__(self, spec: str) -> str:
        return literal(str(self)) if spec == "L" else ident(str(self))


def ident(name: str) -> str:
    return sql.Identifier(name).as_string()


def literal(text: str) -> str:
    return sql.Literal(text).as_string()


def typed(hint: str, kind: str) -> str:
    """The CALL or SELECT in a hint, up to its end, with what it leaves open filled in."""
    assert kind in hint, hint
    start = hint.index(kind)
    depth, quote, end = 0, "", start
    for letter in hint[start:]:
        end += 1
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
            if depth == 0:
                break
    found = hint[start:end]
    for dots, text in FILLED.items():
        found = found.replace(dots, text)
    assert "..." not in found
    return found


def hint_of(session: Connection, question: str, values: Mapping[str, str] | None = None) -> str:
    with pytest.raises(psycopg.Error) as refused:
        session.execute(question, values or {})
    assert refused.value.diag.message_hint is not None, refused.value
    return refused.value.diag.message_hint


# What alice asks and the owner calls, so that the hint is a CALL.
ASKED = [
    ("alice", "SELECT dp.dp_sum(%(user)s, %(undeclared)s)"),
    ("alice", "SELECT dp.dp_group_by(%(user)s, ARRAY[%(bare)s], ARRAY['count(*)'])"),
    ("alice", "SELECT dp.dp_group_by(%(user)s, ARRAY[%(keyed)s || ' + 1'], ARRAY['count(*)'])"),
    ("boss", "CALL dp.enable_turbo(%(row)s, ARRAY[%(undeclared_name)s]::name[], alpha => 0.1, beta => 0.1)"),
    ("boss", "CALL dp.make_synthetic(%(user)s, epsilon => 1, columns => ARRAY[%(made_name)s]::name[])"),
    (
        "alice",
        "SELECT dp.dp_count(%(user)s, 'a.' || %(joined)s || ' = b.' || %(joined)s,"
        " joins => ARRAY[%(user)s]::regclass[], aliases => '{a,b}')",
    ),
]


def test_a_hinted_call_runs(cluster: Cluster, names: dict[str, str]) -> None:
    """And afterwards the refusal is no longer the same."""
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        for who, question in ASKED:
            session = alice if who == "alice" else boss
            hint = hint_of(session, question, names)
            call = typed(hint, "CALL")
            assert call.startswith("CALL dp.describe_column("), question
            boss.execute(call.encode())
            try:
                session.execute(question, names)
            except psycopg.Error as error:
                assert error.diag.message_hint != hint, question


def test_what_the_check_says_runs(cluster: Cluster, names: dict[str, str]) -> None:
    kinds = ("CALL dp.describe_column", "CALL dp.publish")
    with cluster.connect("boss") as boss:

        def hints() -> list[str]:
            return [hint for (hint,) in boss.execute("SELECT hint FROM dp.check()") if hint.startswith(kinds)]

        boss.execute("CALL dp.unpublish(%s)", [names["user"]])
        found = hints()
        assert {kind for kind in kinds for hint in found if hint.startswith(kind)} == set(kinds)
        for hint in found:
            boss.execute(typed(hint, "CALL").encode())
        assert hints() == []


def test_the_planners_allotment_and_a_copys_name(cluster: Cluster, names: dict[str, str]) -> None:
    """The dataset has a quote in its name; the name of the copy is taken."""
    relation = literal(names["user"])
    make = f"CALL dp.make_synthetic({relation}, epsilon => 1)".replace("%", "%%")
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.describe_column(%s, %s, domain => '{0,1}')", [names["user"], names["made_name"]])
        boss.execute(typed(hint_of(boss, make), "CALL").encode())
        boss.execute(make)
        taken = re.search(r"synthetic => \S.*$", hint_of(boss, make))
        assert taken is not None
        boss.execute(f"CALL dp.make_synthetic({relation}, epsilon => 1, {taken[0]})".encode())
        copies = [
            copy for (copy,) in boss.execute("SELECT published.relation FROM dp.published WHERE copy_of IS NOT NULL")
        ]
        assert len(set(copies)) == 2
        for copy in set(copies):
            boss.execute("CALL dp.unregister_synthetic(%s)", [copy])


def test_a_name_is_quoted_wherever_postgresql_quotes_it(cluster: Cluster) -> None:
    with cluster.connect() as owner:
        words = owner.execute(
            "SELECT w, quote_ident(w) FROM (SELECT word FROM pg_get_keywords() UNION SELECT unnest(%s::text[])) k(w)",
            [["plain", "_x1", "Capital", "a b", 'a"b', "1a", "größe", "a$b", "dot.ted", "back\\slash"]],
        ).fetchall()
    assert len(words) > 400
    assert [word for word, quoted in words if quoted != word and written(word) != quoted] == []
    assert written("public", "plain") == "public.plain"
