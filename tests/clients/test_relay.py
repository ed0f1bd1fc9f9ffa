"""What is not ours arrives as PostgreSQL sent it (facade-and-channel.md §6)."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from fix_proxy import BareFacade, ThreadedProxy
from fix_raw import RawClient, shape, split_messages, talk
from fix_waiting import PATIENCE, SLEEPING, backends, cancelling, once
from pg_epsilon_proxy.wire import messages, startup

SAME = {
    "select": [messages.query(b"select 1, 'x'::text")],
    "empty": [messages.query(b"")],
    "several": [messages.query(b"select 1; select 2; set work_mem = '8MB'")],
    "error": [messages.query(b"select 1/0")],
    "error among several": [messages.query(b"select 1; select 1/0; select 2")],
    "block": [messages.query(b"begin"), messages.query(b"select 1/0"), messages.query(b"select 1")],
    "text with nul": [messages.message(b"Q", b"select 1\0 garbage\0")],
    "extended": [messages.parse(b"", b"select $1::int") + messages.bind(b"", b"", (), (b"7",))
                 + messages.describe(b"P", b"") + messages.execute(b"") + messages.SYNC],
    "bad parse": [messages.parse(b"", b"selct") + messages.bind(b"", b"") + messages.execute(b"") + messages.SYNC],
    "bind to nothing": [messages.bind(b"", b"nosuch") + messages.query(b"select 1") + messages.SYNC],
    "pipeline": [(messages.parse(b"", b"select 1") + messages.bind(b"", b"") + messages.execute(b"")
                  + messages.SYNC) * 3],
    "suspended": [messages.parse(b"", b"select generate_series(1, 5)") + messages.bind(b"p", b"")
                  + messages.execute(b"p", 2) * 3 + messages.close(b"P", b"p") + messages.SYNC],
    "duplicate name": [messages.parse(b"s", b"select 1") * 2 + messages.SYNC,
                       messages.close(b"S", b"s") + messages.SYNC],
    "copy out": [messages.query(b"copy (select 1) to stdout")],
    "copy in": [messages.query(b"create temp table t(a int)"), messages.query(b"copy t from stdin")
                + messages.message(b"d", b"1\n") + messages.message(b"c"), messages.query(b"select a + 0 from t")],
    "copy in fails": [messages.query(b"create temp table t(a int); copy t from stdin")
                      + messages.message(b"f", b"no\0")],
    "copy in extended": [messages.query(b"create temp table t(a int)"),
                         messages.parse(b"", b"copy t from stdin") + messages.bind(b"", b"") + messages.execute(b"")
                         + messages.SYNC + messages.message(b"d", b"1\n") + messages.message(b"c") + messages.SYNC],
    "copy in extended fails": [messages.query(b"create temp table t(a int)"),
                               messages.parse(b"", b"copy t from stdin") + messages.bind(b"", b"")
                               + messages.execute(b"") + messages.message(b"d", b"x\n") + messages.message(b"c")
                               + messages.SYNC],
    "commit in pipeline": [messages.query(b"begin"), messages.parse(b"", b"commit") + messages.bind(b"", b"")
                           + messages.execute(b"") + messages.SYNC],
    "stray copy messages": [messages.message(b"d", b"x") + messages.message(b"c") + messages.query(b"select 1")],
}  # fmt: skip


@pytest.mark.parametrize("rounds", SAME.values(), ids=SAME)
def test_the_proxy_is_transparent(raw: RawClient, direct: RawClient, rounds: list[bytes]) -> None:
    """Byte for byte what a direct connection answers, server line numbers and all."""
    for data in rounds:
        answers = []
        for client in (direct, raw):
            client.send(data)
            syncs = sum(part[:1] == b"S" for part in split_messages(data))
            answers.append(client.until(b"Z", 1 if b"copy t from stdin\0" in data else max(1, syncs)))
        assert answers[1] == answers[0]


def test_large_values_stream_through(db: psycopg.Connection[Any]) -> None:
    size = 5_000_000
    assert db.execute(f"SELECT repeat('x', {size})").fetchone() == ("x" * size,)
    assert len(db.execute("SELECT generate_series(1, 20000)").fetchall()) == 20000


def test_copy_both_ways(db: psycopg.Connection[Any]) -> None:
    db.execute("CREATE TEMP TABLE mine (a int, b text)")
    with db.cursor() as cursor:
        with cursor.copy("COPY mine FROM STDIN") as copy:
            for i in range(5000):
                copy.write_row((i, "y" * 50))
        with cursor.copy("COPY mine TO STDOUT") as copy:
            assert sum(1 for _ in copy.rows()) == 5000
        assert cursor.execute("SELECT count(*) FROM mine").fetchone() == (5000,)


def test_listen_and_notify(relay: ThreadedProxy, db: psycopg.Connection[Any]) -> None:
    db.execute("LISTEN bell")
    with psycopg.connect(**relay.conninfo(autocommit=True)) as other:
        other.execute("NOTIFY bell, 'rings'")
    assert [(n.channel, n.payload) for n in db.notifies(timeout=PATIENCE, stop_after=1)] == [("bell", "rings")]


def test_function_call_refused_and_in_step(raw: RawClient) -> None:
    raw.send(messages.message(b"F", (1299).to_bytes(4, "big") + bytes(6)), messages.query(b"select 1"))
    found = raw.until(b"Z", 2)
    assert shape(found) == ["E", "ZI", "T", "D", "C", "ZI"]
    assert messages.read_fields(found[0])["C"] == b"0A000"


def test_unknown_message_and_oversize_end_the_session(raw: RawClient) -> None:
    raw.send(b"Q" + (2 << 20).to_bytes(4, "big"))
    found = raw.until(b"E")
    assert messages.read_fields(found[-1])["C"] == b"54000"
    assert raw.receive() == b""


def test_cancel_reaches_the_facade(db: psycopg.Connection[Any], bare_facade: BareFacade) -> None:
    with cancelling(db.cancel_safe, bare_facade.superuser), pytest.raises(psycopg.errors.QueryCanceled):
        db.execute("SELECT pg_sleep(600)")
    assert db.execute("SELECT 1").fetchone() == (1,)


def test_cancel_with_a_wrong_key_does_nothing(
    relay: ThreadedProxy, db: psycopg.Connection[Any], bare_facade: BareFacade
) -> None:
    wrong = startup.cancel_packet(db.info.backend_pid, b"\0\0\0\0")
    with bare_facade.superuser() as root:

        def wrong_then_right() -> None:
            talk(relay.port, wrong)
            assert backends(root, SLEEPING), "it sleeps on"
            db.cancel_safe()

        with once(lambda: backends(root, SLEEPING), wrong_then_right), pytest.raises(psycopg.errors.QueryCanceled):
            db.execute("SELECT pg_sleep(600)")


def test_statement_timeout_between_messages(raw: RawClient, direct: RawClient) -> None:
    """A client that pauses longer than its statement_timeout between Parse and Bind."""
    parse = messages.parse(b"", b"select 1") + messages.FLUSH
    rest = messages.bind(b"", b"") + messages.execute(b"") + messages.SYNC
    for client in (direct, raw):
        client.send(messages.query(b"set statement_timeout = '1s'"))
        client.until(b"Z")
        client.send(parse)
    time.sleep(1.5)
    seen = []
    for client in (direct, raw):
        client.send(rest)
        seen.append(shape(client.until(b"Z")))
    assert seen[1] == seen[0]
