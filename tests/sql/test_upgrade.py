"""From 0.1.0 to today's version, under load: a fresh installation's objects, no answer lost, no charge forgotten."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from fix_cluster import ROLES, Cluster, cluster_at_work, standard
from fix_ledger import balanced, count, no_charge, one, refused, spent
from fix_turbo import EVEN
from fix_upgrade import BEFORE, OBJECTS, UPDATE, OldCluster, differences, objects, old_cluster, told
from fix_waiting import soon

MORE = """
CREATE TABLE days (id int PRIMARY KEY, day date);
CALL dp.create_dataset('days', epsilon => 1);
CALL dp.protect('days', 'days', partition_by => 'day', grid => '{"origin": "2024-01-01", "width": "7 days"}');
CALL dp.describe_column('days', 'day'); CALL dp.publish('days'); CALL dp.allot('alice', 'days', epsilon => 1);
CREATE TABLE bent (id int PRIMARY KEY);
CALL dp.create_dataset('bent', epsilon => 1, delta => 1e-6, accountant => 'renyi');
CALL dp.protect('bent', 'bent'); CALL dp.publish('bent'); CALL dp.allot('alice', 'bent', epsilon => 1);
CREATE TABLE people_syn AS SELECT * FROM people;
CALL dp.register_synthetic('people', 'people_syn', 'declassified');
CALL dp.allot('dp_planner', 'people', epsilon => 1);
CALL dp.describe_column('items', 'price', bounds => '{0,100}', resolution => '0.01');
CREATE TABLE stream (day date, a int);
CALL dp.create_dataset('stream', epsilon => 1);
CALL dp.protect('stream', 'stream', partition_by => 'day', grid => '{"origin": "2024-01-01", "width": "1 day"}');
CALL dp.describe_column('stream', 'day');
CALL dp.describe_column('stream', 'a', bounds => '{0,3}', nullable => false);
CALL dp.publish('stream');
CALL dp.enable_turbo('stream', '{a}', 0.1, 0.01, 'day', true, scale => 1000);
CALL dp.seal_partition('stream', '2024-01-01'); CALL dp.seal_partition('stream', '2024-01-03');
"""
QUESTIONS = {  # answered under 0.1.0, and asked again afterwards: the same answers, for nothing
    "count": "dp.dp_count_request('people', 'age > 30')",
    "sum": "dp.dp_sum_request('people', 'income', epsilon => 0.2)",
    "median": "dp.dp_median_request('people', 'age', epsilon => 0.2)",
    "groups": "dp.dp_group_by_request('people', '{sex}', '{count(*)}', epsilon => 0.2)",
    "users": "dp.dp_count_request('items', epsilon => 0.5)",
    "r2t": "dp.dp_sum_r2t_request('items', 'price', epsilon => 0.5)",
    "leaf": "dp.dp_count_request('days', 'day = ''2024-01-03''', epsilon => 0.25)",
    "curve": "dp.dp_count_request('bent', epsilon => 0.1)",
    "decide": "dp.dp_decide_detail_request('SELECT count(*) FROM people', 'people_syn', tau => 900, epsilon => 0.2,"
    " mechanism => 'em', fallback => true)",
    "turbo": "dp.dp_count_request('even', 'a < 3', alpha => 0.05, beta => 0.001)",
}
ANEW = {"sum", "r2t"}  # of numbers that may be NaN, which 0.1.0 took for the upper bound
LANGUAGES = """
SELECT p.proname, string_agg(l.lanname, ' ' ORDER BY p.oid) FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
WHERE p.pronamespace = 'dp'::regnamespace GROUP BY 1
"""
UNANSWERED = "dp.dp_count_request('people', 'age > 77', epsilon => 0.125)"


def answers(conn: psycopg.Connection[Any], but: Collection[str] = ()) -> dict[str, Any]:
    asked = {name: text for name, text in QUESTIONS.items() if name not in but}
    return {name: one(conn, f"SELECT dp.dp_query({text})")["rows"] for name, text in asked.items()}


@pytest.fixture(scope="module")
def fresh() -> Iterator[dict[str, str]]:
    """What a new installation of today holds."""
    with cluster_at_work() as cluster:
        cluster.install()
        cluster.psql(ROLES)
        yield objects(cluster)


@dataclass
class Load:
    """Analysts who ask on and on, paid and free, and connect anew after every refusal."""

    cluster: Cluster
    answered: int = 0
    refusals: list[psycopg.Error] = field(default_factory=list)
    wrong: list[BaseException] = field(default_factory=list)
    over: bool = False

    def ask(self, free: Any) -> None:
        try:
            while not self.over:
                try:
                    with self.cluster.connect("bob") as bob:
                        while not self.over:
                            count(bob, epsilon=0.001)
                            self.answered += 1
                            assert one(bob, f"SELECT dp.dp_query({QUESTIONS['count']})")["rows"] == free
                except psycopg.Error as refusal:
                    self.refusals.append(refusal)
        except BaseException as failure:
            self.wrong.append(failure)


@dataclass
class Upgraded:
    cluster: OldCluster
    before: dict[str, Any]
    load: Load
    spent: Any
    unanswered: str
    languages: dict[str, str]  # of the functions of 0.1.0


@pytest.fixture(scope="module")
def upgraded() -> Iterator[Upgraded]:
    """0.1.0 filled, brought to today's version while three analysts ask."""
    with old_cluster() as cluster:
        standard(cluster)
        cluster.psql(MORE, user="boss")
        cluster.psql(EVEN.format(name="even"), user="boss")
        cluster.execute("INSERT INTO dp.closed_shape VALUES ('public.items group by')")
        with cluster.connect("alice") as alice, cluster.connect() as root:
            assert one(root, "SELECT extversion FROM pg_extension WHERE extname = 'pg_epsilon'") == BEFORE
            before = answers(alice)
            languages = dict(root.execute(LANGUAGES.encode()).fetchall())
            lost = str(uuid.uuid4())
            assert "charged" in one(root, f"SELECT dp._charge(%s, 'alice', {UNANSWERED})", lost)
        balanced(cluster)
        load = Load(cluster)
        threads = [threading.Thread(target=load.ask, args=(before["count"],)) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            assert soon(lambda: load.answered > 5 or load.wrong)
            cluster.bring_scripts()
            cluster.bring_package()
            cluster.psql((cluster.scripts / "pg_epsilon_install.sql").read_text())
            done = load.answered
            assert soon(lambda: load.answered > done + 5 or load.wrong)
        finally:
            load.over = True
            for thread in threads:
                thread.join(60)
        yield Upgraded(cluster, before, load, spent(cluster, role="bob"), lost, languages)


def test_it_holds_what_a_fresh_installation_holds(upgraded: Upgraded, fresh: dict[str, str]) -> None:
    found = objects(upgraded.cluster)
    assert differences(found, fresh) == [], told(found, fresh)


DAMAGES = {
    "column dp.ledger.note": "ALTER TABLE dp.ledger ADD COLUMN note text",
    "column dp.ledger.who": "ALTER TABLE dp.ledger ALTER COLUMN who SET DEFAULT 'x'",
    "trigger dp.ledger append_only": "ALTER TABLE dp.ledger DISABLE TRIGGER append_only",
    "constraint dp.ledger ledger_kind_check": "ALTER TABLE dp.ledger DROP CONSTRAINT ledger_kind_check",
    "index dp.ledger_returns": "DROP INDEX dp.ledger_returns",
    "event trigger dp_keep_ledger": "ALTER EVENT TRIGGER dp_keep_ledger DISABLE",
    "routine dp._who()": "ALTER FUNCTION dp._who() SET work_mem = '1MB'",
    "routine dp._hello()": "ALTER FUNCTION dp._hello() OWNER TO postgres",
    "routine dp._engine(text,jsonb)": "GRANT EXECUTE ON FUNCTION dp._engine(text, jsonb) TO dp_analyst",
    "routine dp.dp_plan(jsonb)": "COMMENT ON FUNCTION dp.dp_plan(jsonb) IS 'x'",
    "relation dp.account": "GRANT SELECT ON dp.account TO dp_analyst",
    "relation dp.budget": "ALTER VIEW dp.budget SET (security_barrier)",
    "member table dp.release": "ALTER EXTENSION pg_epsilon DROP TABLE dp.release",
    "dumped dp.release": "SELECT pg_extension_config_dump('dp.release', 'WHERE false')",
    "role dp_admin": "ALTER ROLE dp_admin LOGIN",
    "settings of dp_reader in every database": "ALTER ROLE dp_reader SET work_mem = '1MB'",
    "access to function pg_control_system()": "GRANT EXECUTE ON FUNCTION pg_control_system() TO dp_analyst",
}


def test_the_comparison_names_every_damage(upgraded: Upgraded, fresh: dict[str, str]) -> None:
    """Controls: a difference of each kind, which must be found, and by its name alone."""
    for name, damage in DAMAGES.items():
        with upgraded.cluster.connect(autocommit=False) as root:
            if "pg_extension_config_dump" in damage:  # callable in an extension's script only
                damage = (
                    "UPDATE pg_extension SET extcondition[array_position(extconfig, 'dp.release'::regclass)] = 'x'"
                    " WHERE extname = 'pg_epsilon'"
                )
            root.execute(damage.encode())
            found = differences(objects_in(root), fresh)
            root.rollback()
        assert name in found, (name, found)
        assert len(found) <= 2, (name, found)


def objects_in(root: psycopg.Connection[Any]) -> dict[str, str]:
    root.execute("SET LOCAL search_path = pg_catalog")
    return dict(root.execute(OBJECTS.encode()).fetchall())


def test_what_was_paid_is_answered_for_nothing(upgraded: Upgraded) -> None:
    with no_charge(upgraded.cluster), upgraded.cluster.connect("alice") as alice:
        kept = {name: rows for name, rows in upgraded.before.items() if name not in ANEW}
        assert answers(alice, but=ANEW) == kept


def test_what_means_another_thing_now_is_asked_anew(upgraded: Upgraded) -> None:
    """An answer by the old meaning is not served, and its form of question is not shown as one of the new."""
    for name in sorted(ANEW):
        with upgraded.cluster.connect("alice") as alice:
            answer = one(alice, f"SELECT dp.dp_query({QUESTIONS[name]})")
        assert answer["notice"]["path"] == "direct"
        assert "NaN is left out, as NULL is" in answer["notice"]["warnings"]


def test_what_was_stored_is_shown_or_refused(upgraded: Upgraded) -> None:
    """dp_shown of releases of 0.1.0, which are integers alone: as its question is understood today, or DP006."""
    own = "SELECT request_id, answer -> 'raw' FROM dp.release JOIN dp.ledger USING (request_id) WHERE who = 'alice'"
    found: list[Any] = []
    with upgraded.cluster.connect() as root, upgraded.cluster.connect("alice") as alice:
        for request_id, raw in root.execute(own).fetchall():
            try:
                found.append((len(one(alice, "SELECT dp.dp_shown(%s)", request_id)["rows"]), len(raw)))
            except psycopg.Error as error:
                assert (error.sqlstate, "older version" in str(error)) == ("DP006", True)
    assert len(found) >= len(QUESTIONS) - 1 - len(ANEW)  # Turbo's is no release
    assert all(groups == cells for groups, cells in found)


def of_another_language(sqlstate: str | None, context: str | None, changed: Collection[str]) -> bool:
    """Whether a call began in the instant of the commit, and found a function's old language and its new body.

    PostgreSQL itself reads a function twice as it starts, its language and then its text (fmgr_security_definer,
    init_sql_fcache): a CREATE OR REPLACE that commits in between is a syntax error. Nothing has been asked by then.
    """
    started = re.match(r'SQL function "(\w+)" during startup|compilation of PL/pgSQL function "(\w+)"', context or "")
    return sqlstate == "42601" and started is not None and (started[1] or started[2]) in changed


def test_the_instant_of_the_commit_excuses_nothing_else() -> None:
    startup = 'SQL function "dp_count_request" during startup'
    assert of_another_language("42601", startup, {"dp_count_request"})
    for sqlstate, context, changed in (
        ("42601", startup, {"dp_count"}),
        ("42703", startup, {"dp_count_request"}),
        ("42601", 'SQL function "dp_count_request" statement 1', {"dp_count_request"}),
        ("42601", None, {"dp_count_request"}),
    ):
        assert not of_another_language(sqlstate, context, changed)


def test_whoever_asked_meanwhile_got_an_answer_or_was_told(upgraded: Upgraded) -> None:
    """DP006, never Python's words; and who got an answer had paid for it."""
    load = upgraded.load
    assert load.wrong == []
    with upgraded.cluster.connect() as root:
        languages = dict(root.execute(LANGUAGES.encode()).fetchall())
    changed = {name for name, was in upgraded.languages.items() if languages.get(name, was) != was}
    assert "dp_count_request" in changed
    unexpected = [
        (error.sqlstate, error.diag.message_primary, error.diag.context)
        for error in load.refusals
        if error.sqlstate != "DP006" and not of_another_language(error.sqlstate, error.diag.context, changed)
    ]
    assert unexpected == []
    said = [f"{error.diag.message_primary} {error.diag.context}" for error in load.refusals]
    assert not [words for words in said if "Traceback" in words or "PL/Python" in words]
    with upgraded.cluster.connect() as root:
        paid = one(root, "SELECT count(*) FROM dp.ledger WHERE who = 'bob' AND kind = 'charge'")
        got = "SELECT count(*) FROM dp.ledger l JOIN dp.release USING (request_id) WHERE l.who = 'bob'"
        assert one(root, got) >= load.answered
        assert paid - len(load.refusals) <= load.answered <= paid
    balanced(upgraded.cluster)


def test_an_old_charge_without_an_answer_is_no_entitlement(upgraded: Upgraded) -> None:
    """composition.md 10.3 c: the question is charged anew."""
    before = spent(upgraded.cluster, role="alice")
    with upgraded.cluster.connect("alice") as alice:
        one(alice, f"SELECT dp.dp_query({UNANSWERED})")
    assert float(spent(upgraded.cluster, role="alice") - before) == 0.125


def test_the_chain_holds_what_is_older(upgraded: Upgraded) -> None:
    with upgraded.cluster.connect("boss") as boss, upgraded.cluster.connect() as root:
        words = "problem ~ '(ledger|chain|frozen|version|trigger)'"
        assert boss.execute(f"SELECT * FROM dp.check() WHERE severity = 'error' AND {words}".encode()).fetchall() == []
        unlinked = (
            "SELECT count(*) FROM dp.ledger l"
            " WHERE NOT EXISTS (SELECT FROM dp.chain c WHERE c.request_id = l.request_id)"
            " AND l.seq > (SELECT min(u.seq) FROM dp.ledger u WHERE u.kind = 'upgrade')"
        )
        assert one(root, unlinked) == 0
        assert one(root, "SELECT count(*) FROM dp.ledger WHERE kind = 'upgrade' AND dataset = 'people'") == 1


def test_datasets_of_the_old_version_are_not_strict(upgraded: Upgraded) -> None:
    """They answer what they answered; what is made after the upgrade is strict."""
    with upgraded.cluster.connect() as root:
        assert one(root, "SELECT bool_or(strict) FROM dp.dataset") is False
        with root.transaction(force_rollback=True):
            root.execute("CALL dp.create_dataset('new', epsilon => 1)")
            assert one(root, "SELECT strict FROM dp.dataset WHERE name = 'new'") is True


def test_versions_that_differ_are_told_the_command() -> None:
    """Each other's command to run, uncharged; a session that has loaded the older package connects anew."""
    plan = "SELECT dp.dp_plan(dp.dp_count_request('people'))"
    with old_cluster() as cluster:
        standard(cluster)
        with cluster.connect("bob") as bob:
            one(bob, plan)
            cluster.bring_scripts()
            with pytest.raises(psycopg.Error) as told_old, cluster.connect() as root:
                root.execute(UPDATE)  # the package is the older one
            assert told_old.value.sqlstate == "DP006"
            assert "Install the package" in str(told_old.value.diag.message_hint)
            cluster.bring_package()
            with cluster.connect("alice") as alice, refused("DP006", "ALTER EXTENSION"):
                count(alice)
            cluster.execute(UPDATE)
            with refused("DP006", "has loaded version 0.1.0"):
                one(bob, plan)
        assert spent(cluster) == 0
        with cluster.connect("alice") as alice:
            count(alice)
        balanced(cluster)


def test_what_was_sealed_stays_sealed_by_the_triggers_of_today(upgraded: Upgraded) -> None:
    """Also for replication's workers; a day between sealed ones takes rows without a call, as new ones do."""
    made = """SELECT string_agg(pg_get_triggerdef(oid), E'\n' ORDER BY tgname) FROM pg_trigger
              WHERE tgrelid = 'stream'::regclass AND tgname ~ '~dp_sealed'"""
    with upgraded.cluster.connect("boss") as boss, upgraded.cluster.connect() as root:
        first, second = str(one(boss, made)).splitlines()
        assert "AFTER INSERT" in first and "'2024-01-02'::date" in first and '"~dp_sealed_replica" AFTER' in second
        for day in ("2024-01-01", "2024-01-03"):
            for conn in (boss, root):
                with refused("42501", "is sealed"):
                    conn.execute("INSERT INTO stream VALUES (%s, 1)", [day])
            root.execute("SET session_replication_role = replica")
        boss.execute("INSERT INTO stream VALUES ('2024-01-02', 1), ('2024-01-04', 1)")
        boss.execute("CALL dp.seal_partition('stream', '2024-01-02')")
        wrong = "SELECT problem FROM dp.check() WHERE object ~ 'stream' AND problem ~ 'trigger'"
        assert boss.execute(wrong).fetchall() == []
