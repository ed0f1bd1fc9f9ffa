"""What operators see of the proxy: its log without an analyst's literals, its metrics."""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from fix_cluster import PASSWORD
from fix_ops import Proxy, code_of, databases_at_work, proxy_at_work
from fix_stack import Stack
from fix_waiting import PATIENCE, soon

SECRET = "zyzzyva"  # in every literal below, in any case and form


@pytest.fixture(scope="module")
def databases() -> Iterator[Stack]:
    with databases_at_work() as stack:
        yield stack


def talkative_session(proxy: Proxy) -> list[str | None]:
    """One session that says SECRET wherever a client can; the SQLSTATEs that it got."""
    codes = []
    with proxy.connect(application_name=SECRET, options=f"-c dp.tau={SECRET}") as alice:

        def run(sql: str, parameters: list[str] | None) -> None:
            if sql.startswith("COPY"):
                with alice.cursor().copy(sql) as rows:
                    assert list(rows)
            else:
                alice.execute(sql, parameters)

        for sql, *parameters in (
            (f"SELECT '{SECRET}', 1 AS {SECRET}",),
            ("SELECT %s::text", SECRET),
            (f"SELECT count(*) FROM people WHERE city = '{SECRET}'",),
            (f"SELECT count(*) FROM people WHERE city = '{SECRET}'",),
            ("SELECT count(*) FROM people WHERE city = %s", SECRET),
            (f"SELECT * FROM people WHERE city = '{SECRET}'",),
            (f"SELECT count(*) FROM people WHERE nosuch = '{SECRET}'",),
            (f"SELECT count(*) FROM people WHERE lower(city) LIKE '{SECRET}%' AND random() < 1",),
            (f"SELECT '{SECRET}'::int",),
            (f"SELEKT {SECRET}",),
            (f"SET dp.epsilon = '{SECRET}'",),
            ("SELECT count(*) FROM people WHERE age > 31",),
            ("RESET dp.epsilon",),
            (f"DO $$ BEGIN RAISE EXCEPTION '{SECRET}' USING ERRCODE = 'ZYZ01', HINT = '{SECRET}'; END $$",),
            (f"DO $$ BEGIN RAISE EXCEPTION '{SECRET}' USING ERRCODE = 'DP003', DETAIL = '{SECRET}'; END $$",),
            (f"PREPARE {SECRET} AS SELECT count(*) FROM people WHERE city = '{SECRET}'",),
            (f"EXECUTE {SECRET}",),
            (f"CREATE TEMP TABLE {SECRET} AS SELECT count(*) FROM people WHERE city = '{SECRET}'",),
            (f"EXPLAIN SELECT count(*) FROM people WHERE city = '{SECRET}'",),
            (f"COPY (SELECT count(*) FROM people WHERE city = '{SECRET}') TO STDOUT",),
            (f"LISTEN {SECRET}",),
            (f"NOTIFY {SECRET}, '{SECRET}'",),
        ):
            codes.append(code_of(lambda sql=sql, given=parameters: run(sql, given or None)))
    assert code_of(lambda: proxy.connect(dbname=SECRET)) is not None
    assert code_of(lambda: proxy.connect(password=SECRET)) is not None
    return codes


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_no_literal_of_an_analyst_is_logged(databases: Stack, tmp_path: Path, form: str) -> None:
    """All of a session that says one word everywhere, at level debug: the word is not in the log, the events are."""
    log = {"format": form, "level": "debug"}
    with proxy_at_work(databases, tmp_path, log=log) as proxy:
        codes = talkative_session(proxy)
        assert {None, "DP002", "DP003", "ZYZ01", "22P02", "42601"} <= set(codes)
        assert soon(lambda: "session ends" in proxy.log)
    text = proxy.log
    assert not re.search(SECRET, text, re.I), [line for line in text.splitlines() if SECRET in line.lower()]
    assert PASSWORD not in text and not re.search(r"\bselect\b|people", text, re.I)
    for word in ("session begins", "dp call", "refused", "session ends", "login failed", "policy in force", "stopped"):
        assert word in text
    assert "ZYZ01" not in text, "five letters that an analyst chose are a literal too"
    for line in text.splitlines():
        assert line.startswith("{" if form == "json" else "time="), line
        if form == "json":
            assert isinstance(json.loads(line), dict)


def test_events_say_what_an_operator_needs(databases: Stack, tmp_path: Path) -> None:
    with proxy_at_work(databases, tmp_path) as proxy:
        with proxy.connect() as alice:
            for sql in (*["SELECT count(*) FROM people WHERE age > 33"] * 2, "SELECT DISTINCT sex FROM people"):
                alice.execute(sql)
            assert code_of(lambda: alice.execute("SELECT * FROM people")) == "DP002"
            alice.execute("SET dp.epsilon = 9")
            assert code_of(lambda: alice.execute("SELECT count(*) FROM people")) == "DP001"
        for user, password in (("alice", "wrong"), ("nobody", "wrong"), ("postgres", "wrong")):
            with pytest.raises(psycopg.OperationalError, match=f'authentication failed for user "{user}"'):
                proxy.connect(user, password=password)
        databases.cluster.psql("CALL dp.describe_column('people', 'score', bounds => '{0,143}')", user="boss")
        policy = proxy.wait_for("policy in force", 2)
        ended = proxy.wait_for("session ends")[0]
        begun = proxy.events("session begins")[0]
        facts = {"user": "alice", "address": "127.0.0.1", "tls": "off", "protocol": "3.0", "session": ended["session"]}
        assert facts.items() <= begun.items()
        assert ended["how"] == "closed" and 0 < ended["seconds"] < 600
        calls = proxy.events("dp call")
        assert [call["path"] for call in calls] == ["paid", "cached", "free", "refused"]
        assert calls[0]["request"] == calls[1]["request"] and calls[0]["ms"] > 0
        assert calls[0]["mechanism"] == "discrete Laplace"
        assert calls[3]["sqlstate"] == "DP001"
        assert [line["sqlstate"] for line in proxy.events("refused")] == ["DP002", "DP001"]
        failed = [(line["user"], line["sqlstate"], line["reason"]) for line in proxy.events("login failed")]
        assert failed == [
            ("alice", "28P01", "wrong password"),
            ("nobody", "28P01", "no such analyst"),
            ("postgres", "28P01", "no such analyst"),
        ]
        assert policy[1]["version"] > policy[0]["version"] == policy[1]["before"]


@pytest.mark.parametrize("workers", [1, 2])
def test_metrics_count_what_happened(databases: Stack, tmp_path: Path, workers: int) -> None:
    """Over all workers; budgets are the datasets' own; a code that an analyst made up is no label."""
    with proxy_at_work(databases, tmp_path, metrics={"port": "free"}, process={"workers": workers}) as proxy:
        before = proxy.metrics()
        assert before["pg_epsilon_workers"] == workers
        assert proxy.counts({"pg_epsilon_serving": 1})
        assert before['pg_epsilon_pool_connections{state="idle"}'] >= 2 * workers, "warm before anybody asks"
        with databases.cluster.connect() as root:
            channels = root.execute("SELECT count(*) FROM pg_stat_activity WHERE usename ~ '^dp_channel_'").fetchone()
        assert channels is not None and channels[0] >= 2 * workers, "and so is the channel behind each"
        sessions = [proxy.connect() for _ in range(6)]
        for number, session in enumerate(sessions):
            session.execute(f"SELECT count(*) FROM people WHERE age > {40 + number + 10 * workers}")
            session.execute("SELECT 1")
            assert code_of(lambda s=session: s.execute("SELECT * FROM people")) == "DP002"
            made_up = f"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = 'ZZ00{number}'; END $$"
            assert code_of(lambda s=session, sql=made_up: s.execute(sql)) == f"ZZ00{number}"
        assert code_of(lambda: proxy.connect(password="wrong")) is not None
        expected = {
            "pg_epsilon_sessions": 6,
            'pg_epsilon_sessions_total{tls="off"}': 6,
            'pg_epsilon_logins_failed_total{sqlstate="28P01"}': 1,
            'pg_epsilon_errors_total{sqlstate="DP002"}': 6,
            'pg_epsilon_errors_total{sqlstate="other"}': 6,
            'pg_epsilon_dp_call_seconds_count{path="paid"}': 6,
            'pg_epsilon_dp_call_seconds_bucket{path="paid",le="+Inf"}': 6,
            'pg_epsilon_statement_seconds_count{asked="yes"}': 6,
            'pg_epsilon_statement_seconds_count{asked="no"}': 18,
            'pg_epsilon_budget_epsilon{dataset="people"}': 10,
            'pg_epsilon_budget_frozen{dataset="people"}': 0,
        }
        assert proxy.counts(expected), {name: proxy.metrics().get(name) for name in expected}
        now = proxy.metrics()
        used = 'pg_epsilon_budget_used_ratio{dataset="people"}'
        assert soon(lambda: 0 < proxy.metrics().get(used, 0) < 1)
        left = 'pg_epsilon_budget_epsilon_left{dataset="people"}'
        assert soon(lambda: 0 < proxy.metrics().get(left, 0) < 10)
        with databases.cluster.connect() as root:
            version = root.execute("SELECT version FROM dp.policy_state").fetchone()
        assert version is not None and now["pg_epsilon_policy_version"] == version[0]
        assert not [name for name in now if "ZZ00" in name or "alice" in name]
        proxy.hang_up()
        assert proxy.counts({"pg_epsilon_sessions": 0})


def test_numbers_are_told_also_when_the_database_is_stuck(databases: Stack, tmp_path: Path) -> None:
    with proxy_at_work(databases, tmp_path, metrics={"port": "free"}, process={"workers": 2}) as proxy:
        with databases.cluster.connect() as holder:
            holder.execute("BEGIN; LOCK dp.dataset IN ACCESS EXCLUSIVE MODE")
            assert proxy.counts({"pg_epsilon_workers": 2})
            numbers = proxy.metrics()
            holder.execute("ROLLBACK")
        assert 'pg_epsilon_budget_epsilon{dataset="people"}' not in numbers
        assert soon(lambda: 'pg_epsilon_budget_epsilon{dataset="people"}' in proxy.metrics())


def test_the_metrics_port_understands_little(databases: Stack, tmp_path: Path) -> None:
    with proxy_at_work(databases, tmp_path, metrics={"port": "free"}) as proxy:
        place = f"http://127.0.0.1:{proxy.settings['metrics']['port']}"

        def status(path: str, data: bytes | None = None) -> int:
            try:
                with urllib.request.urlopen(place + path, data=data, timeout=PATIENCE) as answer:  # noqa: S310
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                error.close()
                return error.code
            except (OSError, http.client.HTTPException):  # the port opens after the proxy serves
                return 0

        places: tuple[tuple[str, bytes | None], ...] = (
            ("/metrics", None),
            ("/healthz", None),
            ("/", None),
            ("/metrics", b"x"),
        )
        for place_, said in zip(places, (200, 200, 404, 405), strict=True):
            assert soon(lambda asked=place_, code=said: status(*asked) == code)
        databases.cluster.execute("ALTER TABLE people NO FORCE ROW LEVEL SECURITY", dbname="facade")
        try:
            databases.cluster.execute("NOTIFY pg_epsilon_policy")
            assert soon(lambda: status("/healthz") == 503)
            assert proxy.metrics()["pg_epsilon_serving"] == 0
        finally:
            databases.cluster.execute("ALTER TABLE people FORCE ROW LEVEL SECURITY", dbname="facade")
        assert soon(lambda: status("/healthz") == 200)
