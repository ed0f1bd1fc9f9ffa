"""What the facade cannot be made with is left out, and all others are served (facade-and-channel.md §5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest

from pg_epsilon_proxy import facade as facade_package

if TYPE_CHECKING:
    from fix_facade import FacadeCluster

pytest_plugins = ["fix_facade"]

# earthdistance is not trusted: dp_facade may not make it, and so not its type, nor what uses that.
FAR = """
CREATE SCHEMA far; CREATE EXTENSION cube SCHEMA far; CREATE EXTENSION earthdistance SCHEMA far;
CREATE DOMAIN far.spot AS far.earth;
CREATE TABLE far.home (id int PRIMARY KEY, place far.earth, note text);
CREATE TABLE far.trip (id int PRIMARY KEY, home int REFERENCES far.home, spot far.spot);
CREATE TABLE far.walk (id int PRIMARY KEY, home int REFERENCES far.home);
CREATE VIEW far.notes AS SELECT id, note FROM far.home;
CREATE VIEW far.walks AS SELECT id FROM far.walk;
CREATE TABLE far.town (name text, place far.earth);
GRANT USAGE ON SCHEMA far TO dp_reader; GRANT SELECT ON far.town TO dp_reader;
INSERT INTO far.town VALUES ('zecret town', NULL);
INSERT INTO dp.publication SELECT r::regclass, 'protected'
  FROM unnest(ARRAY['far.home', 'far.trip', 'far.walk', 'far.notes', 'far.walks']) r;
INSERT INTO dp.publication VALUES ('far.town', 'public');
"""
UNDO = "DELETE FROM dp.publication WHERE relation::text ~ '^far[.]'; DROP SCHEMA far CASCADE"
LOST = {"home": "42704", "trip": "42704", "town": "42704", "notes": "42P01"}


def one(connection: psycopg.Connection[Any], sql: str, *values: object) -> Any:
    row = connection.execute(sql, values or None).fetchone()
    assert row is not None
    return row[0]


def left_out(cluster: FacadeCluster) -> dict[tuple[str, ...], str]:
    """(part, name …) → SQLSTATE."""
    held = cluster.gateway(lambda private, facade: facade_package.held(facade))
    return {(item["part"], *item["name"]): item["sqlstate"] for item in held.left_out}


def sync(cluster: FacadeCluster, **more: bool) -> int:
    return cluster.gateway(lambda private, facade: facade_package.sync(private, facade, **more))


@pytest.fixture
def far(facade_cluster: FacadeCluster) -> Iterator[FacadeCluster]:
    facade_cluster.policy(FAR)
    sync(facade_cluster)
    yield facade_cluster
    facade_cluster.policy(UNDO)
    sync(facade_cluster)
    assert facade_cluster.check() == [] and left_out(facade_cluster) == {}


def test_what_hangs_on_it_is_left_out_and_nothing_else(far: FacadeCluster) -> None:
    assert far.check() == []
    assert left_out(far) == {
        ("extensions", "earthdistance"): "42501",
        ("types", "far", "spot"): "42704",
        **{("relations", "far", name): state for name, state in LOST.items()},
        ("foreign_keys", "far", "trip", "trip_home_fkey"): "42P01",
        ("foreign_keys", "far", "walk", "walk_home_fkey"): "42P01",
    }
    listed = far.gateway(lambda private, facade: facade_package.relations(facade))
    kinds = {(r.schema, r.name): r.kind for r in listed}
    assert {name for schema, name in kinds if schema == "far"} == {"walk", "walks"}
    assert kinds[("clinic", "patient")] == "protected" and kinds[("clinic", "region")] == "public"


def test_none_of_it_can_be_read(far: FacadeCluster) -> None:
    """It is nowhere on the facade; what is there has its net."""
    with far.psycopg("facade", "alice") as shown:
        for name in LOST:
            with pytest.raises(psycopg.errors.UndefinedTable):
                shown.execute(f"SELECT * FROM far.{name}")
        for name in ("far.walk", "far.walks", "clinic.patient"):
            with pytest.raises(psycopg.Error) as caught:
                shown.execute(f"SELECT * FROM {name}")
            assert caught.value.sqlstate == "DP002"
        assert one(shown, "SELECT count(*) FROM clinic.region") == 2


def test_the_reasons_hold_no_row(far: FacadeCluster) -> None:
    with far.psycopg("facade") as root:
        text = one(root, "SELECT definition::text FROM dp_state.facade_state")
    assert "permission denied to create extension" in text and "zecret" not in text


def test_it_is_tried_again_when_asked_and_with_the_next_policy(far: FacadeCluster) -> None:
    """An administrator makes the extension on the facade: the check stays whole, and the relations come."""
    with far.psycopg("facade") as root:
        before = one(root, "SELECT 'far.walks'::regclass::oid")
        root.execute("CREATE EXTENSION earthdistance SCHEMA far")
        version = sync(far)
        assert one(root, "SELECT 'far.walks'::regclass::oid") == before
        assert far.check() == [] and set(LOST) == {name[-1] for name in left_out(far) if name[0] == "relations"}
        assert sync(far, again=True) == version
        assert far.check() == [] and left_out(far) == {}
        far.policy("SELECT 1")
        root.execute("DROP EXTENSION earthdistance CASCADE")
        assert any("extension earthdistance is missing" in problem for problem in far.check())
        sync(far, rebuild=True)
        assert far.check() == [] and ("extensions", "earthdistance") in left_out(far)


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_sync_that_changes_nothing_keeps_what_is_there(far: FacadeCluster, rebuild: bool) -> None:
    before = left_out(far)
    with far.psycopg("facade") as root:
        oid = one(root, "SELECT 'clinic.patient'::regclass::oid")
        far.policy("SELECT 1")
        sync(far, rebuild=rebuild)
        assert (one(root, "SELECT 'clinic.patient'::regclass::oid") == oid) is not rebuild
    assert left_out(far) == before and far.check() == []


def test_a_schema_that_is_not_the_policys_gets_nothing(facade_cluster: FacadeCluster) -> None:
    """The facade has a schema of its own of that name: neither relations nor types go into it."""
    facade_cluster.policy(
        "CREATE SCHEMA dp_state; CREATE TYPE dp_state.size AS ENUM ('s');"
        "CREATE TABLE dp_state.things (s dp_state.size);"
        "CREATE TABLE dp_state.facade_state (secret text);"
        "INSERT INTO dp.publication VALUES ('dp_state.things', 'protected'), ('dp_state.facade_state', 'protected')"
    )
    try:
        sync(facade_cluster)
        names = [("schemas",), ("types", "size"), ("relations", "things"), ("relations", "facade_state")]
        assert left_out(facade_cluster) == {(part, "dp_state", *rest): "42P06" for part, *rest in names}
        assert facade_cluster.check() == []
        with facade_cluster.psycopg("private") as private:
            told = private.execute("SELECT object, problem FROM dp._problems() WHERE object ~ '^dp_state'").fetchall()
        assert {name for name, problem in told if "has a schema of its own" in problem} == {
            "dp_state.things",
            "dp_state.facade_state",
        }
        with facade_cluster.psycopg("facade") as root:
            assert one(root, "SELECT to_regclass('dp_state.things') IS NULL") is True
            assert one(root, "SELECT count(*) FROM dp_state.facade_state WHERE definition IS NOT NULL") == 1
    finally:
        facade_cluster.policy(
            "DELETE FROM dp.publication WHERE relation::text ~ '^dp_state[.]'; DROP SCHEMA dp_state CASCADE"
        )
        sync(facade_cluster)
    assert facade_cluster.check() == [] and left_out(facade_cluster) == {}


def test_a_name_that_is_taken(facade_cluster: FacadeCluster) -> None:
    """By a type of somebody's on the facade: the relation is left out until it is gone."""
    with facade_cluster.psycopg("facade") as root:
        root.execute("CREATE DOMAIN clinic.taken AS int")
        facade_cluster.policy(
            "CREATE TABLE clinic.taken (n int); INSERT INTO dp.publication VALUES ('clinic.taken', 'protected')"
        )
        try:
            sync(facade_cluster)
            assert left_out(facade_cluster) == {("relations", "clinic", "taken"): "42710"}
            root.execute("DROP DOMAIN clinic.taken")
            sync(facade_cluster, again=True)
            assert left_out(facade_cluster) == {} and facade_cluster.check() == []
        finally:
            facade_cluster.policy(
                "DELETE FROM dp.publication WHERE relation = 'clinic.taken'::regclass; DROP TABLE clinic.taken"
            )
            sync(facade_cluster)


def test_a_relation_of_somebodys_in_its_place_stops_everybody(facade_cluster: FacadeCluster) -> None:
    """It could hold rows: left out of the shape, it is a relation without a net."""
    with facade_cluster.psycopg("facade") as root:
        root.execute("CREATE TABLE clinic.squat (n int)")
        facade_cluster.policy(
            "CREATE TABLE clinic.squat (n int); INSERT INTO dp.publication VALUES ('clinic.squat', 'protected')"
        )
        try:
            sync(facade_cluster)
            assert left_out(facade_cluster) == {("relations", "clinic", "squat"): "42P07"}
            assert "clinic.squat has row-level security disabled" in facade_cluster.check()
        finally:
            root.execute("DROP TABLE clinic.squat")
            facade_cluster.policy(
                "DELETE FROM dp.publication WHERE relation = 'clinic.squat'::regclass; DROP TABLE clinic.squat"
            )
            sync(facade_cluster)
    assert facade_cluster.check() == []


def test_without_schema_dp_nothing_changes(
    facade_cluster: FacadeCluster, far: FacadeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view of ours that cannot be made is nobody's to leave out."""
    before = left_out(far)
    for place in ("statements", "pieces"):
        monkeypatch.setattr(f"pg_epsilon_proxy.facade.{place}.create_catalog_view", lambda view: ["SELECT 1 / 0"])
    with pytest.raises(asyncpg.DivisionByZeroError):
        sync(facade_cluster, rebuild=True)
    assert facade_cluster.check() == [] and left_out(far) == before


def test_what_is_no_relations_fault_is_raised(far: FacadeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator's cancel, or a lock: nothing is left out for it."""
    before = left_out(far)
    raising = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '57014'; END $$"
    for place in ("statements", "pieces"):
        monkeypatch.setattr(f"pg_epsilon_proxy.facade.{place}.create_type", lambda item: [raising])
    with pytest.raises(asyncpg.QueryCanceledError):
        sync(far, rebuild=True)
    assert far.check() == [] and left_out(far) == before
