"""The net (facade-and-channel.md §4): no statement of an analyst reads a protected relation, whatever its shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import psycopg.types.string
import pytest

if TYPE_CHECKING:
    from fix_facade import FacadeCluster

pytest_plugins = ["fix_facade"]

NET = """ALTER TABLE {0} ENABLE ROW LEVEL SECURITY; ALTER TABLE {0} FORCE ROW LEVEL SECURITY;
CREATE POLICY pg_epsilon ON {0} FOR SELECT USING (dp.refuse('{0}')); GRANT SELECT ON {0} TO dp_analyst;"""
# What the facade never has but the net must hold all the same: partitions, and code of dp_facade that others call.
TRAPS = f"""
SET ROLE dp_facade;
CREATE TABLE clinic.trap_parted (k int) PARTITION BY LIST (k);
CREATE TABLE clinic.trap_part PARTITION OF clinic.trap_parted DEFAULT;
{NET.format("clinic.trap_parted")} {NET.format("clinic.trap_part")}
CREATE VIEW clinic.trap_view AS SELECT count(*) FROM clinic.visit; GRANT SELECT ON clinic.trap_view TO dp_analyst;
CREATE FUNCTION clinic.trap_definer() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS
  'SELECT count(*) FROM clinic.visit';
CREATE FUNCTION clinic.trap_plpgsql() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS
  'DECLARE n bigint; BEGIN EXECUTE ''SELECT count(*) FROM clinic.visit'' INTO n; RETURN n; END';
CREATE FUNCTION clinic.trap_catches() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS
  'BEGIN RETURN (SELECT count(*) FROM clinic.visit); EXCEPTION WHEN division_by_zero THEN RETURN 0; END';
RESET ROLE;
"""
DROP_TRAPS = """DROP TABLE clinic.trap_parted; DROP VIEW clinic.trap_view;
DROP FUNCTION clinic.trap_definer, clinic.trap_plpgsql, clinic.trap_catches;"""


def load_shapes() -> list[tuple[str, str, list[str]]]:
    """(name, expected SQLSTATE or value, steps) of each case in facade_net_shapes.sql."""
    text = Path(__file__).with_name("facade_net_shapes.sql").read_text(encoding="utf-8")
    shapes = []
    for part in text.split("\n== ")[1:]:
        head, _, body = part.partition("\n")
        name, _, expected = head.partition(" | ")
        shapes.append((name, expected, body.split("\n---\n")))
    return shapes


SHAPES = load_shapes()


@pytest.fixture(scope="module")
def trapped(facade_cluster: FacadeCluster) -> Iterator[FacadeCluster]:
    with facade_cluster.psycopg("facade") as root:
        root.execute(TRAPS)
        yield facade_cluster
        root.execute(DROP_TRAPS)


def outcome(connection: psycopg.Connection[Any], sql: str) -> str:
    """SQLSTATE of the error, or the text of the only value."""
    try:
        cursor = connection.execute(sql)
        while cursor.nextset():
            pass
    except psycopg.Error as error:
        if error.sqlstate in {"42704", "22023"} and "parameter" in str(error):
            return "DP002"  # a setting that this major version does not have: nothing was read
        return error.sqlstate or repr(error)
    if cursor.description is None:
        return "no rows"
    rows = [tuple(str(value) if value is not True else "t" for value in row) for row in cursor.fetchall()]
    return rows[0][0] if len(rows) == 1 and len(rows[0]) == 1 else repr(rows)


def test_there_are_enough_shapes() -> None:
    assert len(SHAPES) >= 60
    assert len({name for name, _, _ in SHAPES}) == len(SHAPES)
    assert sum(expected == "DP002" for _, expected, _ in SHAPES) >= 60


@pytest.mark.parametrize(("expected", "steps"), [shape[1:] for shape in SHAPES], ids=[shape[0] for shape in SHAPES])
def test_shape(trapped: FacadeCluster, expected: str, steps: list[str]) -> None:
    with trapped.psycopg("facade", "alice") as connection:
        connection.adapters.register_loader("jsonb", psycopg.types.string.TextLoader)
        for step in steps[:-1]:
            connection.execute(step)
        assert outcome(connection, steps[-1]) == expected


def test_error_text(analyst: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.Error) as caught:
        analyst.execute('SELECT * FROM "Odd ""Schema"."Odd \'Table"')
    assert caught.value.diag.message_primary == 'rows of "Odd ""Schema"."Odd \'Table" are private'
    assert caught.value.diag.message_hint is not None and "Ask for aggregates" in caught.value.diag.message_hint
    assert "published a moment ago: try again" in caught.value.diag.message_hint


def test_refuse_is_immutable(analyst: psycopg.Connection[Any]) -> None:
    row = analyst.execute(
        "SELECT provolatile, proparallel, prosecdef FROM pg_proc WHERE oid = 'dp.refuse(text)'::regprocedure"
    )
    assert row.fetchone() == ("i", "s", False)


def test_without_immutable_the_net_answers_zero(
    facade_cluster: FacadeCluster, analyst: psycopg.Connection[Any]
) -> None:
    """The control: what the tests above would see if the net had the hole that IMMUTABLE closes."""
    with facade_cluster.psycopg("facade") as root:
        root.execute("ALTER FUNCTION dp.refuse(text) STABLE")
        try:
            assert outcome(analyst, "SELECT count(*) FROM clinic.visit") == "0"
        finally:
            root.execute("ALTER FUNCTION dp.refuse(text) IMMUTABLE")
    assert outcome(analyst, "SELECT count(*) FROM clinic.visit") == "DP002"


def test_plans_made_before_the_net_are_made_again(facade_cluster: FacadeCluster) -> None:
    """A statement prepared, and a plan cached, while the relation was open: the net invalidates both."""
    with facade_cluster.psycopg("facade") as root, facade_cluster.psycopg("facade", "alice") as analyst:
        root.execute(
            "SET ROLE dp_facade; CREATE TABLE clinic.trap_late (n int); GRANT SELECT ON clinic.trap_late TO dp_analyst"
        )
        try:
            analyst.execute("SET plan_cache_mode = force_generic_plan")
            analyst.execute("PREPARE s AS SELECT count(*) FROM clinic.trap_late")
            analyst.execute(
                "CREATE FUNCTION pg_temp.f() RETURNS bigint LANGUAGE plpgsql AS "
                "'BEGIN RETURN (SELECT count(*) FROM clinic.trap_late); END'"
            )
            for statement in ("EXECUTE s", "SELECT pg_temp.f()"):
                assert outcome(analyst, statement) == "0"
            root.execute(NET.format("clinic.trap_late"))
            for statement in ("EXECUTE s", "SELECT pg_temp.f()"):
                assert outcome(analyst, statement) == "DP002"
        finally:
            root.execute("DROP TABLE clinic.trap_late CASCADE")


def test_superuser_and_bypassrls_are_why_such_analysts_are_refused(facade_cluster: FacadeCluster) -> None:
    """§1: for them the net answers a silent 0, so `unsafe_analysts` must name them."""
    with facade_cluster.psycopg("facade") as root:
        assert outcome(root, "SELECT count(*) FROM clinic.visit") == "0"


def test_parse_and_describe_stay_normal(analyst: psycopg.Connection[Any]) -> None:
    """Parse and Describe over protected relations give names, types and parameters; only planning raises."""
    wire = analyst.pgconn
    wire.prepare(
        b"s", b"SELECT id, charge AS c, label FROM clinic.visit JOIN clinic.patient USING (id) WHERE ward = $1"
    )
    described = wire.describe_prepared(b"s")
    assert [described.fname(i) for i in range(3)] == [b"id", b"c", b"label"]
    assert [described.ftype(i) for i in range(3)] == [20, 701, 1043]
    assert described.fmod(2) == 14
    assert described.nparams == 1 and described.param_type(0) == 23
    result = wire.exec_prepared(b"s", [b"1"])
    assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"DP002"


def test_transaction_state_after_the_net_is_postgresql_s(analyst: psycopg.Connection[Any]) -> None:
    analyst.execute("BEGIN; SAVEPOINT s")
    assert outcome(analyst, "SELECT count(*) FROM clinic.visit") == "DP002"
    assert outcome(analyst, "SELECT 1") == "25P02"
    analyst.execute("ROLLBACK TO s")
    assert outcome(analyst, "SELECT 1") == "1"
    analyst.execute("ROLLBACK")
