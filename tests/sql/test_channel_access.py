"""Who can reach the ledger channel: nobody but the engine (facade-and-channel.md §2.1)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fix_cluster import PASSWORD, Cluster, private_cluster, standard
from fix_ledger import count, one, refused


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_cluster(log_statement="all", log_min_duration_statement="0") as running:
        standard(running)
        yield running


def test_nothing_but_seven_functions_for_the_channels_login(cluster: Cluster) -> None:
    login = cluster.channel()
    with cluster.connect() as root:
        found = root.execute(
            "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'dp'::regnamespace"
            " AND has_function_privilege(%s, p.oid, 'EXECUTE') ORDER BY 1",
            [login],
        ).fetchall()
        assert [name for (name,) in found] == [
            "_answer",
            "_charge",
            "_charge_and_answer",
            "_count_start",
            "_hello",
            "_probe",
            "_publish_release",
        ]
        readable = root.execute(
            "SELECT c.oid::regclass FROM pg_class c"
            " WHERE c.relnamespace IN ('dp'::regnamespace, 'public'::regnamespace)"
            " AND c.relkind IN ('r', 'v', 'p') AND has_any_column_privilege(%s, c.oid, 'SELECT')",
            [login],
        ).fetchall()
        assert readable == []
        groups = "SELECT array_agg(roleid::regrole::text) FROM pg_auth_members WHERE member = %s::regrole"
        assert one(root, groups, login) == ["dp_channel"]
        assert one(root, "SELECT count(*) FROM pg_auth_members WHERE member = 'dp_channel'::regrole") == 0
        others = (
            "SELECT count(*) FROM pg_user_mappings WHERE srvname = 'dp_ledger' AND usename IS DISTINCT FROM 'dp_owner'"
        )
        assert one(root, others) == 0


def test_every_dblink_function_is_closed_to_analysts(cluster: Cluster) -> None:
    """A named dblink connection belongs to the backend: who can call any dblink function can use the channel."""
    with cluster.connect() as root:
        found = root.execute(
            "SELECT p.proname, array(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) t) FROM pg_proc p"
            " JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'"
            " JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'dblink'"
        ).fetchall()
        assert len(found) > 30
        schema_open = one(root, "SELECT has_schema_privilege('alice', 'dp_link', 'USAGE')")
        assert not schema_open
        leaks = one(
            root,
            "SELECT count(*) FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass"
            " JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'dblink' AND d.deptype = 'e'"
            " CROSS JOIN unnest(ARRAY['alice', 'dp_gateway', 'dp_channel', 'dp_admin', 'dp_analyst']) r"
            " WHERE has_function_privilege(r, p.oid, 'EXECUTE')",
        )
        assert leaks == 0
    with cluster.connect("alice") as alice:
        count(alice)  # the channel is open in this backend
        for name, types in found:
            arguments = ", ".join(f"NULL::{t}" for t in types)
            for schema in ("dp_link.", ""):
                with refused("42501" if schema else "42883", hint=False):
                    alice.execute(f"SELECT {schema}{name}({arguments})")


def test_untrusted_objects_of_the_channel_are_closed_to_analysts(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice:
        for statement in (
            "CREATE SERVER s FOREIGN DATA WRAPPER dblink_fdw",
            "CREATE USER MAPPING FOR alice SERVER dp_ledger",
            "SET SESSION AUTHORIZATION dp_owner",
            "SET ROLE dp_channel",
            "SELECT dp._charge(gen_random_uuid(), 'bob', '{}')",
            "SELECT dp._answer(gen_random_uuid())",
            "SELECT dp._answer(gen_random_uuid(), stop => true)",
            "SELECT dp._go_on(gen_random_uuid(), 'bob', '{}', '{\"more\": {}}')",
            "SELECT dp._channel_ask('SELECT 1', gen_random_uuid())",
        ):
            with refused("42501", hint=False):
                alice.execute(statement)
        shown = alice.execute("SELECT umoptions FROM pg_user_mappings WHERE srvname = 'dp_ledger'").fetchall()
        assert shown == [(None,)]


def test_the_channels_password_is_in_no_log(cluster: Cluster) -> None:
    """log_statement = all and durations of everything: repair_channel builds and sets the password inside."""
    cluster.psql("CALL dp.repair_channel()")
    with cluster.connect() as root:
        options = dict(
            option.split("=", 1)
            for option in one(root, "SELECT umoptions FROM pg_user_mappings WHERE usename = 'dp_owner'")
        )
        assert len(options["password"]) == 64
        verifier = one(root, "SELECT rolpassword FROM pg_authid WHERE rolname ~ '^dp_channel_'")
        assert verifier.startswith("SCRAM-SHA-256$")
    with cluster.connect("alice") as alice:
        count(alice)
    assert "CALL dp.repair_channel()" in cluster.log
    assert options["password"] not in cluster.log
    assert PASSWORD in cluster.log, "the log does hold passwords that were set in plain statements"
