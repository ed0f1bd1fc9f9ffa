"""The facade is generated from catalogs, follows the policy, its check sees holes (facade-and-channel.md §4, §5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from fix_waiting import PATIENCE
from pg_epsilon_proxy import facade as facade_package
from pg_epsilon_proxy.facade.command import main
from pg_epsilon_proxy.rewrite import settings

if TYPE_CHECKING:
    from fix_facade import FacadeCluster

pytest_plugins = ["fix_facade"]


def one(connection: psycopg.Connection[Any], sql: str, *values: object) -> Any:
    row = connection.execute(sql, values or None).fetchone()
    assert row is not None
    return row[0]


@contextmanager
def published(cluster: FacadeCluster, change: str, undo: str) -> Iterator[int]:
    """The facade in step after a policy change, and back in step after its undoing."""
    cluster.policy(change)
    try:
        yield cluster.sync()
    finally:
        cluster.policy(undo)
        cluster.sync()
        assert cluster.check() == []


@contextmanager
def damaged(cluster: FacadeCluster, damage: str, repair: str) -> Iterator[list[str]]:
    """What the check says of a facade that someone damaged."""
    with cluster.psycopg("facade") as root:
        root.execute(damage)
        try:
            yield cluster.check()
        finally:
            root.execute(repair)
            assert cluster.check() == []


def test_a_fresh_facade_has_no_problem(facade_cluster: FacadeCluster) -> None:
    assert facade_cluster.check() == []


def test_columns_are_the_private_ones(facade_cluster: FacadeCluster) -> None:
    """Same name, type, typmod, collation, NOT NULL and order; dropped and unpublished columns leave no trace."""
    sql = """SELECT c.oid::regclass::text, a.attname, format_type(a.atttypid, a.atttypmod), l.collname, a.attnotnull
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_collation l ON l.oid = a.attcollation
      WHERE c.relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('clinic', 'Odd "Schema'))
        AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0 AND NOT a.attisdropped
        AND c.relname NOT IN ('hidden', 'event_471108') AND a.attname <> 'taxpayerid' ORDER BY c.relname, a.attnum"""
    with facade_cluster.psycopg("private") as private, facade_cluster.psycopg("facade") as shown:
        expected = private.execute(sql).fetchall()
        assert len(expected) > 20
        assert shown.execute(sql).fetchall() == expected
        # Plain columns of plain tables: identity, generated columns, defaults and checks carry private literals.
        assert one(shown, "SELECT count(*) FROM pg_attrdef WHERE adrelid <> 'dp_state.facade_state'::regclass") == 0
        assert one(shown, "SELECT count(*) FROM pg_attribute WHERE attidentity <> '' OR attgenerated <> ''") == 0
        checks = (
            "SELECT count(*) FROM pg_constraint WHERE contype = 'c' AND "
            "connamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema', 'dp', 'dp_state')"
        )
        assert one(shown, checks) == 0


def test_keys_are_those_whose_columns_are_published(facade_cluster: FacadeCluster) -> None:
    with facade_cluster.psycopg("facade") as shown:
        keys = shown.execute(
            "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE contype IN ('p', 'u', 'f') AND connamespace::regnamespace::text !~ '^(pg_catalog|dp|dp_state)$' "
            "ORDER BY 1, 2"
        ).fetchall()
    assert keys == [
        ('"Odd ""Schema"."Odd \'Table"', 'PRIMARY KEY ("a ""b")'),
        ("clinic.event", "FOREIGN KEY (visit) REFERENCES clinic.visit(id)"),
        ("clinic.event", "PRIMARY KEY (at, visit)"),
        ("clinic.patient", "PRIMARY KEY (id)"),
        ("clinic.patient", "UNIQUE NULLS NOT DISTINCT (born, label)"),
        ("clinic.visit", "FOREIGN KEY (patient) REFERENCES clinic.patient(id)"),
        ("clinic.visit", "PRIMARY KEY (id)"),
    ]


def test_types_and_collations_are_rebuilt(facade_cluster: FacadeCluster) -> None:
    with facade_cluster.psycopg("facade", "alice") as shown:
        assert one(shown, "SELECT enum_range(NULL::clinic.mood)::text") == "{zest,calm,o'clock}"
        assert one(shown, "SELECT '[1,2)'::clinic.span @> 1.5::float8") is True
        assert one(shown, "SELECT '{[1,2)}'::clinic.spans::text") == "{[1,2)}"
        assert one(shown, "SELECT (ROW('x', '{calm}')::clinic.place).moods[1]::text") == "calm"
        assert one(shown, "SELECT 'abc'::clinic.citext OPERATOR(clinic.=) 'ABC'") is True
        assert one(shown, "SELECT 'a' = 'A' COLLATE clinic.ci") is True
        # A bare domain: its CHECK, DEFAULT and NOT NULL are literals, and values were checked where they live.
        assert (
            one(shown, "SELECT 'zecret check'::varchar(10)::clinic.code IS NOT NULL AND NULL::clinic.code IS NULL")
            is True
        )


def test_no_private_literal_reaches_the_facade(facade_cluster: FacadeCluster) -> None:
    """Literals of checks, defaults, indexes, comments, views, bodies and bounds, unpublished names: nowhere."""
    with facade_cluster.psycopg("private") as private, facade_cluster.psycopg("facade") as shown:
        texts = [one(private, "SELECT dp.facade_definition()::text")]
        catalogs = shown.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 11 AND relkind = 'r' AND NOT relisshared "
            "AND relname NOT IN ('pg_statistic', 'pg_attribute') OR oid = 'dp_state.facade_state'::regclass"
        ).fetchall()
        texts += [one(shown, f"SELECT COALESCE(string_agg(t::text, ' '), '') FROM {name} t") for (name,) in catalogs]
        texts.append(one(shown, "SELECT string_agg(attname, ' ') FROM pg_attribute"))
        assert "zecret" in one(private, "SELECT string_agg(t::text, ' ') FROM pg_description t")
    for text in texts:
        for word in ("zecret", "471108", "hidden", "taxpayerid", "1999-01-01"):
            assert word not in text


def test_comments_only_where_asked(facade_cluster: FacadeCluster) -> None:
    with (
        published(
            facade_cluster,
            "COMMENT ON TABLE clinic.visit IS 'a visit''s \\ charge';"
            "COMMENT ON COLUMN clinic.visit.charge IS 'in euro';"
            "UPDATE dp.publication SET comments = true WHERE relation = 'clinic.visit'::regclass",
            "UPDATE dp.publication SET comments = false WHERE relation = 'clinic.visit'::regclass",
        ),
        facade_cluster.psycopg("facade", "alice") as shown,
    ):
        assert one(shown, "SELECT obj_description('clinic.visit'::regclass)") == "a visit's \\ charge"
        assert one(shown, "SELECT col_description('clinic.visit'::regclass, 4)") == "in euro"
        assert one(shown, "SELECT obj_description('clinic.patient'::regclass)") is None


def test_a_view_over_published_relations_is_a_view_and_any_other_a_table(facade_cluster: FacadeCluster) -> None:
    with facade_cluster.psycopg("facade") as shown:
        kinds = shown.execute(
            "SELECT relname, relkind, relowner::regrole::text FROM pg_class "
            "WHERE relname IN ('recent', 'recent2', 'mixed', 'frozen', 'event', 'region') ORDER BY 1"
        ).fetchall()
    assert kinds == [
        ("event", "r", "dp_facade"),
        ("frozen", "r", "dp_facade"),
        ("mixed", "r", "dp_facade"),
        ("recent", "v", "dp_facade"),
        ("recent2", "v", "dp_facade"),
        ("region", "f", "dp_facade"),
    ]


def test_stubs_have_the_same_signatures(facade_cluster: FacadeCluster) -> None:
    sql = """SELECT p.oid::regprocedure::text, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
        has_function_privilege('dp_analyst', p.oid, 'EXECUTE'), has_function_privilege('public', p.oid, 'EXECUTE')
      FROM pg_proc p WHERE p.pronamespace = 'dp'::regnamespace AND p.proname ~ '^dp_' ORDER BY 1"""
    with facade_cluster.psycopg("private") as private, facade_cluster.psycopg("facade") as shown:
        functions = shown.execute(sql).fetchall()
        assert functions == private.execute(sql).fetchall()
        names = {name.split("(")[0] for name, *_ in functions}
        assert names >= {"dp_count", "dp_count_request", "dp_count_result", "dp_query", "dp_rows"}
        assert all(analyst and not public for *_, analyst, public in functions)
        volatile = "SELECT bool_and(provolatile = 'v' AND NOT proisstrict) FROM pg_proc WHERE prosrc ~ 'DP003'"
        assert one(shown, volatile) is True


def test_settings_can_be_shown_and_reset(analyst: psycopg.Connection[Any]) -> None:
    for name in (name.removeprefix("dp.") for name in settings.KNOWN):
        assert one(analyst, f"SHOW dp.{name}") == ""
        analyst.execute(f"SET dp.{name} = 'x'")
        assert one(analyst, f"SHOW dp.{name}") == "x"
        analyst.execute(f"RESET dp.{name}")
        assert one(analyst, f"SHOW dp.{name}") == ""
    assert [one(analyst, f"SHOW {name}") for name in ("TimeZone", "DateStyle", "search_path")] == [
        "Asia/Kolkata",
        "ISO, DMY",
        '"$user", public, dp',
    ]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        analyst.execute("SET temp_file_limit = -1")


async def test_locale_is_the_private_one(facade_cluster: FacadeCluster) -> None:
    """Encoding, collation, ctype, provider, ICU locale, of a libc and an ICU database: ORDER BY must agree."""
    locale = """SELECT count(DISTINCT (encoding, datcollate, datctype, datlocprovider,
        COALESCE(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale'))), bool_or(datlocprovider = 'i')
      FROM pg_database d WHERE datname = ANY (%s)"""
    with facade_cluster.psycopg("postgres") as root:
        assert root.execute(locale, (["private", "facade"],)).fetchone() == (1, False)
        root.execute(
            "CREATE DATABASE icu_private TEMPLATE template0 "
            "LOCALE_PROVIDER icu ICU_LOCALE 'sv' LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        try:
            private = await facade_cluster.asyncpg("icu_private")
            await facade_package.create(private, "icu_facade")
            await private.close()
            assert root.execute(locale, (["icu_private", "icu_facade"],)).fetchone() == (1, True)
        finally:
            root.execute("DROP DATABASE icu_private")
            root.execute("DROP DATABASE IF EXISTS icu_facade")


def test_sync_does_nothing_when_nothing_changed(facade_cluster: FacadeCluster) -> None:
    sql = "SELECT oid, relname FROM pg_class WHERE oid > 16384 ORDER BY 1"
    with facade_cluster.psycopg("facade") as shown:
        before = shown.execute(sql).fetchall()
        version = facade_cluster.sync()
        facade_cluster.policy("SELECT 1")
        assert facade_cluster.sync() == version + 1
        assert shown.execute(sql).fetchall() == before
        facade_cluster.sync(rebuild=True)
        assert shown.execute(sql).fetchall() != before
    assert facade_cluster.check() == []


def test_sync_makes_the_operations_that_an_older_facade_lacks(facade_cluster: FacadeCluster) -> None:
    """And PUBLIC may call none of them."""
    called = (
        "SELECT count(*), bool_or(has_function_privilege('public', p.oid, 'EXECUTE')) FROM pg_proc p "
        "JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = 'dp_null'"
    )
    with facade_cluster.psycopg("facade") as root:
        before = root.execute(called).fetchone()
        root.execute("DROP SCHEMA dp_null CASCADE")
        assert facade_cluster.check() == ["schema dp_null is missing"]
        facade_cluster.sync()
        assert facade_cluster.check() == []
        assert one(root, "SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'dp_null'") == "dp_facade"
        assert before is not None
        assert root.execute(called).fetchone() == before == (max(before[0], 30), False)


def test_sync_rebuilds_only_what_changed(facade_cluster: FacadeCluster) -> None:
    oid = "SELECT 'clinic.patient'::regclass::oid"
    with facade_cluster.psycopg("facade", "alice") as shown:
        before = one(shown, oid)
        with published(
            facade_cluster,
            "ALTER TABLE clinic.visit ADD COLUMN extra text COLLATE clinic.ci",
            "ALTER TABLE clinic.visit DROP COLUMN extra",
        ):
            assert one(shown, "SELECT count(*) FROM information_schema.columns WHERE column_name = 'extra'") == 1
            assert one(shown, oid) == before
            with pytest.raises(psycopg.Error, match="private") as caught:
                shown.execute("SELECT extra FROM clinic.visit")
            assert caught.value.sqlstate == "DP002"
        assert one(shown, "SELECT count(*) FROM information_schema.columns WHERE column_name = 'extra'") == 0


def test_a_relation_published_later_and_withdrawn(facade_cluster: FacadeCluster) -> None:
    with facade_cluster.psycopg("facade", "alice") as shown:
        with published(
            facade_cluster,
            "CREATE SCHEMA late; CREATE TYPE late.size AS ENUM ('s'); CREATE TABLE late.thing (s late.size);"
            "INSERT INTO dp.publication VALUES ('late.thing', 'protected')",
            "DELETE FROM dp.publication WHERE relation = 'late.thing'::regclass; DROP SCHEMA late CASCADE",
        ):
            with pytest.raises(psycopg.Error) as caught:
                shown.execute("SELECT * FROM late.thing")
            assert caught.value.sqlstate == "DP002"
            with published(facade_cluster, "ALTER TYPE late.size ADD VALUE 'm'", "SELECT 1"):
                assert one(shown, "SELECT enum_range(NULL::late.size)::text") == "{s,m}"
        assert one(shown, "SELECT to_regnamespace('late')") is None


def test_what_an_owner_publishes_by_call(facade_cluster: FacadeCluster) -> None:
    """The owner's own procedures, from protect to unpublish, and NOTIFY for the proxy that listens."""
    with facade_cluster.psycopg("private", "boss") as boss, facade_cluster.psycopg("facade", "alice") as shown:
        boss.execute("LISTEN pg_epsilon_policy")
        for statement in (
            "CREATE SCHEMA shop",
            "GRANT USAGE ON SCHEMA shop TO dp_reader",
            "CREATE TABLE shop.people AS SELECT 1 AS id, 30 AS age",
            "CREATE TABLE shop.town AS SELECT 'A' AS name",
            "CALL dp.create_dataset('facade_people', unit => 'row', epsilon => 1)",
            "CALL dp.protect('shop.people', 'facade_people', max_rows => 10, scale => 10)",
            "CALL dp.publish('shop.people', columns => '{age}')",
            "CALL dp.publish('shop.town', kind => 'public')",
        ):
            boss.execute(statement)
        version = facade_cluster.sync()
        assert any(notice.payload == str(version) for notice in boss.notifies(timeout=PATIENCE))
        assert facade_cluster.check() == []
        with pytest.raises(psycopg.Error) as caught:
            shown.execute("SELECT age FROM shop.people")
        assert caught.value.sqlstate == "DP002"
        with pytest.raises(psycopg.errors.UndefinedColumn):
            shown.execute("SELECT id FROM shop.people")
        assert one(shown, "SELECT name FROM shop.town") == "A"
        boss.execute("CALL dp.unpublish('shop.people')")
        boss.execute("DROP TABLE shop.town")
        facade_cluster.sync()
        assert facade_cluster.check() == []
        assert one(shown, "SELECT to_regclass('shop.people') IS NULL AND to_regclass('shop.town') IS NULL") is True


def test_a_foreign_key_added_later(facade_cluster: FacadeCluster) -> None:
    """Adding it validates through the policy and fails unless the net is lifted in the same transaction."""
    with facade_cluster.psycopg("facade") as root:
        before = one(root, "SELECT 'clinic.visit'::regclass::oid")
        with pytest.raises(psycopg.Error) as caught, root.transaction(force_rollback=True):
            root.execute(
                "SET LOCAL ROLE dp_facade; ALTER TABLE clinic.frozen ADD FOREIGN KEY (n) REFERENCES clinic.patient"
            )
        assert caught.value.sqlstate == "DP002"
        with published(
            facade_cluster,
            "ALTER TABLE clinic.visit ADD CONSTRAINT later FOREIGN KEY (ward) REFERENCES clinic.patient (id) NOT VALID",
            "ALTER TABLE clinic.visit DROP CONSTRAINT later",
        ):
            assert one(root, "SELECT count(*) FROM pg_constraint WHERE conname = 'later' AND convalidated") == 1
            assert one(root, "SELECT 'clinic.visit'::regclass::oid") == before
            assert facade_cluster.check() == []
        assert one(root, "SELECT count(*) FROM pg_constraint WHERE conname = 'later'") == 0


def test_an_analysts_temp_view_does_not_stop_a_rebuild(facade_cluster: FacadeCluster) -> None:
    with facade_cluster.psycopg("facade", "alice") as shown:
        shown.execute("CREATE TEMP VIEW mine AS SELECT * FROM clinic.visit")
        shown.execute("CREATE TEMP TABLE moods (m clinic.mood, n int)")
        facade_cluster.sync(rebuild=True)
        assert one(shown, "SELECT to_regclass('mine')") is None
    assert facade_cluster.check() == []


def test_an_open_transaction_makes_the_facade_busy(
    facade_cluster: FacadeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pg_epsilon_proxy.facade.build.LOCK_TIMEOUT", "200ms")
    with facade_cluster.psycopg("facade", "alice") as shown:
        shown.execute("BEGIN; PREPARE s AS SELECT * FROM clinic.visit")
        with pytest.raises(facade_package.FacadeBusy):
            facade_cluster.sync(rebuild=True)
        shown.execute("ROLLBACK")
    assert facade_cluster.check() == []


def test_check_catches_a_version_behind(facade_cluster: FacadeCluster) -> None:
    facade_cluster.policy("SELECT 1")
    problems = facade_cluster.check()
    assert len(problems) == 1 and "policy version" in problems[0]
    facade_cluster.sync()
    assert facade_cluster.check() == []


def load_damages() -> dict[str, tuple[str, str, str]]:
    """name → (damage, repair, part of the problem) of each case in facade_damages.sql."""
    file = Path(__file__).parent.parent / "attacks" / "facade_damages.sql"
    damages = {}
    for part in file.read_text(encoding="utf-8").split("\n== ")[1:]:
        head, _, body = part.partition("\n")
        name, _, expected = head.partition(" | ")
        damage, _, repair = body.partition("\n---\n")
        damages[name] = (damage, repair, expected)
    return damages


DAMAGES = load_damages()


@pytest.mark.parametrize("name", DAMAGES)
def test_check_catches(facade_cluster: FacadeCluster, name: str) -> None:
    damage, repair, expected = DAMAGES[name]
    with damaged(facade_cluster, damage, repair) as problems:
        assert any(expected in problem for problem in problems), problems


def test_the_relations_that_the_rewriter_sees(facade_cluster: FacadeCluster) -> None:
    listed = facade_cluster.gateway(lambda private, facade: facade_package.relations(facade))
    kinds = {(r.schema, r.name): r.kind for r in listed}
    assert kinds == {
        ('Odd "Schema', "Odd 'Table"): "protected",
        **{("clinic", name): "protected" for name in ("event", "frozen", "mixed", "patient", "visit")},
        **{("clinic", name): "view" for name in ("recent", "recent2")},
        ("clinic", "region"): "public",
        **{
            ("dp", name): "catalog"
            for name in (
                "budget",
                "cache_status",
                "families",
                "release_answers",
                "last_answer",
                "published",
                "spending",
                "strategies",
                "turbo",
            )
        },
    }
    with facade_cluster.psycopg("facade") as root:
        assert all(one(root, "SELECT relname FROM pg_class WHERE oid = %s", r.oid) == r.name for r in listed)


@pytest.mark.parametrize("attribute", ["SUPERUSER", "BYPASSRLS", "CREATEROLE", "CREATEDB", "REPLICATION"])
def test_unsafe_attributes(facade_cluster: FacadeCluster, attribute: str) -> None:
    with facade_cluster.psycopg("postgres") as root:
        root.execute(f"CREATE ROLE mallory LOGIN {attribute} IN ROLE dp_analyst")
        try:
            unsafe = facade_cluster.gateway(lambda private, facade: facade_package.unsafe_analysts(facade))
        finally:
            root.execute("DROP ROLE mallory")
    assert "mallory" in unsafe and "alice" not in unsafe


@pytest.mark.parametrize("group", ["dp_owner", "dp_admin", "dp_gateway", "dp_channel", "dp_facade", "pg_read_all_data"])
def test_unsafe_memberships(facade_cluster: FacadeCluster, group: str) -> None:
    with facade_cluster.psycopg("postgres") as root:
        root.execute(f"CREATE ROLE mallory LOGIN NOINHERIT IN ROLE dp_analyst, {group}")
        try:
            assert "mallory" in facade_cluster.gateway(lambda private, facade: facade_package.unsafe_analysts(facade))
        finally:
            root.execute("DROP ROLE mallory")


@pytest.mark.parametrize("compiled", [False, True])
def test_nothing_of_the_definition_is_compiled(facade_cluster: FacadeCluster, compiled: bool) -> None:
    """JIT took twenty times as long as the reading itself. True is the control: how the test would see it."""
    said: list[str] = []
    with facade_cluster.psycopg("private") as private:
        private.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        private.execute("LOAD 'auto_explain'")
        for name, value in (("log_min_duration", "0"), ("log_nested_statements", "on"), ("log_level", "notice")):
            private.execute(f"SET auto_explain.{name} = {value}".encode())
        private.execute("SET auto_explain.log_analyze = on; SET jit_above_cost = 0")
        private.execute("BEGIN")
        if compiled:
            private.execute("ALTER FUNCTION dp.facade_definition() SET jit = on")
        private.execute("SELECT dp.facade_definition()")
        private.execute("ROLLBACK")
    body = [text for text in said if "WITH RECURSIVE published" in text]
    assert len(body) == 1
    assert ("JIT:" in body[0]) is compiled


def test_definition_is_for_the_gateway_only(facade_cluster: FacadeCluster) -> None:
    with facade_cluster.psycopg("private") as private:
        for role in ("dp_analyst", "dp_admin", "dp_channel", "public"):
            assert one(private, "SELECT has_function_privilege(%s, 'dp.facade_definition()', 'EXECUTE')", role) is False


def test_column_types(facade_cluster: FacadeCluster, analyst: psycopg.Connection[Any]) -> None:
    """Types of a RowDescription as the splice spells them: typmod, COLLATE if not the type's own, domains."""
    wire = analyst.pgconn
    wire.prepare(b"t", b"SELECT label, code, price, at, home, moods, nick, 1::int8, 'x'::text FROM clinic.patient")
    described = wire.describe_prepared(b"t")
    columns = range(described.nfields)
    args = [[f(i) for i in columns] for f in (described.ftable, described.ftablecol, described.ftype, described.fmod)]
    arrays = ["{" + ",".join(str(v) for v in values) + "}" for values in args]
    call = "SELECT dp.column_types(%s::oid[], %s::int2[], %s::oid[], %s::int4[])"
    expected = [
        "character varying(10) COLLATE clinic.ci",
        "clinic.code",
        "numeric(8,2)",
        "timestamp(3) with time zone",
        "clinic.place",
        "clinic.mood[]",
        "clinic.citext",
        "bigint",
        "text",
    ]
    assert one(analyst, call, *arrays) == expected
    # Types shadowed in the session's pg_temp come out in a form that still means the built-in ones.
    analyst.execute("CREATE DOMAIN pg_temp.int8 AS text; CREATE DOMAIN pg_temp.text AS int")
    assert one(analyst, call, *arrays)[-2:] == ["bigint", "pg_catalog.text"]
    assert one(analyst, "SELECT dp.column_types('{}', '{}', '{}', '{}')") == []


def test_raise(analyst: psycopg.Connection[Any]) -> None:
    for detail, hint in ((None, None), ("why", None), (None, "do this"), ("why", "do this")):
        with pytest.raises(psycopg.Error) as caught:
            analyst.execute("SELECT dp.raise(%s, %s, %s, %s)", ("DP001", "budget 100% \\ used", detail, hint))
        diag = caught.value.diag
        assert (diag.sqlstate, diag.message_primary) == ("DP001", "budget 100% \\ used")
        assert (diag.message_detail, diag.message_hint) == (detail, hint)
    # VOLATILE: planning or describing it raises nothing.
    assert analyst.execute("EXPLAIN (COSTS OFF) SELECT dp.raise('DP001', 'x', NULL, NULL)").fetchone() == ("Result",)


def test_password_of_the_reader_is_in_no_log(facade_cluster: FacadeCluster) -> None:
    with facade_cluster.psycopg("facade") as root:
        options = one(root, "SELECT to_json(umoptions)::text FROM pg_user_mapping")
        password = next(o.split("=", 1)[1] for o in json.loads(options) if o.startswith("password="))
        log = one(root, "SELECT pg_read_file(%s)", f"{facade_cluster.server.folder}/log")
    assert len(password) == 64 and password not in log


def test_the_command(facade_cluster: FacadeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    def dsn(user: str, database: str = "") -> str:
        return f"postgresql://{user}:unused@/{database}?host={facade_cluster.server.folder}&port={facade_cluster.server.port}"

    both = ["--private", dsn("dp_gateway", "private"), "--facade", dsn("dp_gateway", "facade")]
    setup = ["setup", "--superuser", dsn("postgres"), "--gateway", dsn("dp_gateway"), "--private", "private"]
    assert main([*setup, "--facade", "facade", "--reader-port", str(facade_cluster.server.port)]) == 0
    assert "in step with policy version" in capsys.readouterr().out
    assert main(["check", *both]) == 0
    facade_cluster.policy("SELECT 1")
    assert main(["check", *both]) == 1
    assert "policy version" in capsys.readouterr().err
    assert main(["sync", "--rebuild", *both]) == 0
