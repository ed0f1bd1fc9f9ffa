"""Who is asking: start-up packets, SCRAM messages and sessions that pretend; what analysts see of each other."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import socket
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_cluster import PASSWORD
from fix_raw import RawClient, Refused, keys_of, packet, sasl_first
from fix_stack import FACADE, Stack
from fix_waiting import PATIENCE, SLEEPING, backends, soon, until_closed
from pg_epsilon_proxy.wire import messages, scram

NONCE = "abcdefghijklmnopqrstuvwx"
SOURCE = "127.0.0.77"  # failures are counted by address: not against the other tests'


@pytest.fixture(scope="module")
def keys(stack: Stack) -> dict[str, scram.Keys]:
    with stack.cluster.connect() as owner:
        found = owner.execute("SELECT rolname, rolpassword FROM pg_authid WHERE rolname IN ('alice', 'bob')").fetchall()
    return {name: keys_of(PASSWORD, verifier) for name, verifier in found}


@pytest.fixture(scope="module")
def owner(stack: Stack) -> Iterator[psycopg.Connection[Any]]:
    with stack.cluster.connect() as connection:
        yield connection


class Login:
    """A SCRAM exchange by hand, from the start-up packet on."""

    def __init__(self, stack: Stack, parameters: list[tuple[str, str]]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", stack.port), timeout=PATIENCE, source_address=(SOURCE, 0))
        body = b"".join(part.encode() + b"\0" for pair in parameters for part in pair) + b"\0"
        self.socket.sendall((len(body) + 8).to_bytes(4, "big") + (3 << 16).to_bytes(4, "big") + body)
        self.kind, self.body = self.receive()

    def receive(self) -> tuple[bytes, bytes]:
        head = self._exactly(5)
        return head[:1], self._exactly(int.from_bytes(head[1:], "big") - 4) if head else b""

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except ConnectionError:  # it was closed with bytes of ours unread
                part = b""
            if not part:
                return b""
            data += part
        return data

    def first(self, header: str = "n,,", user: str = "alice") -> str:
        """Returns the server's first message; empty if it refused."""
        self.socket.sendall(sasl_first(f"{header}n={user},r={NONCE}".encode()))
        self.kind, self.body = self.receive()
        return self.body[4:].decode() if self.kind == b"R" else ""

    def proof(
        self, answer: str, password: str = PASSWORD, header: str = "n,,", user: str = "alice", nonce: str | None = None
    ) -> bytes:
        facts = dict(item.split("=", 1) for item in answer.split(","))
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(facts["s"]), int(facts["i"]))
        client = hmac.digest(salted, b"Client Key", "sha256")
        without = f"c={base64.b64encode(header.encode()).decode()},r={nonce or facts['r']}"
        signed = f"n={user},r={NONCE},{answer},{without}".encode()
        signature = hmac.digest(hashlib.sha256(client).digest(), signed, "sha256")
        mixed = bytes(a ^ b for a, b in zip(client, signature, strict=True))
        return f"{without},p={base64.b64encode(mixed).decode()}".encode()

    def final(self, proof: bytes) -> bool:
        """Whether it let us in."""
        self.socket.sendall(messages.message(b"p", proof))
        self.kind, self.body = self.receive()
        return self.kind == b"R" and self.body[:4] == (12).to_bytes(4, "big")

    def who(self) -> bytes:
        """The session's user, as PostgreSQL says it."""
        while self.receive()[0] not in (b"Z", b""):
            pass
        self.socket.sendall(messages.query(b"SELECT session_user || ' ' || current_user"))
        while self.kind != b"D":
            self.kind, self.body = self.receive()
        return self.body[6:]

    def close(self) -> None:
        self.socket.close()


ALICE = [("user", "alice"), ("database", FACADE)]


@contextlib.contextmanager
def login(stack: Stack, *parameters: tuple[str, str]) -> Iterator[Login]:
    session = Login(stack, list(parameters) or ALICE)
    try:
        yield session
    finally:
        session.close()


def test_the_exchange_by_hand_lets_in(stack: Stack) -> None:
    """The control of the tests below."""
    with login(stack) as session:
        assert session.final(session.proof(session.first()))
        assert session.who() == b"alice alice"


@pytest.mark.parametrize("other", ["bob", "postgres", "dp_gateway", ""])
def test_the_name_inside_scram_is_not_believed(stack: Stack, other: str) -> None:
    """PostgreSQL ignores it; the start-up packet's name is whose password was checked and who asks."""
    with login(stack) as session:
        answer = session.first(user=other)
        assert session.final(session.proof(answer, user=other))
        assert session.who() == b"alice alice"


@pytest.mark.parametrize("parameters", [[("user", "alice"), ("user", "bob")], [("user", "bob"), ("user", "alice")]])
def test_two_users_in_one_packet_are_one_or_none(stack: Stack, parameters: list[tuple[str, str]]) -> None:
    """Whichever is meant, the password that is checked and the session are of the same."""
    with login(stack, *parameters, ("database", FACADE)) as session:
        answer = session.first()
        if answer and session.final(session.proof(answer)):
            assert session.who() in (b"alice alice", b"bob bob")


@pytest.mark.parametrize("header", ["n,a=bob,", "n,a=alice,", "y,a=bob,", "n,x=1,", "z,,", "p=tls-unique,,", "n,", ""])
def test_a_name_to_act_for_is_refused(stack: Stack, header: str) -> None:
    with login(stack) as session:
        answer = session.first(header)
        assert not answer or not session.final(session.proof(answer, header=header))
        assert session.kind == b"E"


def test_a_proof_seen_before_is_worth_nothing(stack: Stack) -> None:
    with login(stack) as session:
        proof = session.proof(session.first())
        assert session.final(proof)
    with login(stack) as session:
        session.first()
        assert not session.final(proof)


def test_a_proof_for_another_nonce_or_binding(stack: Stack) -> None:
    with login(stack) as session:
        assert not session.final(session.proof(session.first(), nonce=NONCE))
    with login(stack) as session:
        assert not session.final(session.proof(session.first(), header="y,,"))
    with login(stack) as session:
        assert not session.final(session.proof(session.first()) + b"x")


def test_nothing_is_answered_before_the_login_ends(stack: Stack) -> None:
    """A question sent together with a wrong proof is never asked."""
    with login(stack) as session:
        proof = session.proof(session.first(), password="wrong")
        question = messages.query(b"SELECT dp_count('people', epsilon => 5)")
        session.socket.sendall(messages.message(b"p", proof) + question)
        assert session.receive()[0] == b"E"
        assert session.receive()[0] == b""


# What the start-up packet may ask for besides a user and a database: refused, or the session is alice's all the same.
SETTINGS = {
    "role": "bob", "session_authorization": "bob", "dp.analyst": "bob", "is_superuser": "on", "row_security": "off",
    "search_path": "pg_temp, public", "session_preload_libraries": "x", "local_preload_libraries": "x",
    "options": "-c=", "replication": "off", "_pq_.command": "x", "default_transaction_read_only": "on",
    "standard_conforming_strings": "off", "client_encoding": "LATIN1", "lc_messages": "C", "backslash_quote": "on",
    "statement_timeout": "1", "role ": "bob", "ROLE": "bob", "dp.epsilon": "1000", "": "x",
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_in_the_packet_makes_nobody_another(stack: Stack, keys: dict[str, scram.Keys], name: str) -> None:
    try:
        client = RawClient(stack.port, keys["alice"], source=SOURCE, **{name: SETTINGS[name]})
    except Refused as refused:
        assert refused.code[:2] in ("08", "0A", "22", "42", "28", "DP", "58"), refused.code
        return
    with contextlib.closing(client):
        for text in (b"RESET statement_timeout", b"SELECT session_user = 'alice', current_user = 'alice'"):
            client.send(messages.query(text))
            found = client.until(b"Z")
        rows = [messages.read_data_row(raw[5:]) for raw in found if raw[:1] == b"D"]
        assert rows in ([], [[b"t", b"t"]])
        client.send(messages.query(b"SELECT age FROM public.people"))
        assert not [raw for raw in client.until(b"Z") if raw[:1] == b"D"]


@pytest.mark.parametrize(
    "user", ["Alice", "ALICE", " alice", "alice ", '"alice"', "alice\u200b", "a\u0301lice", "x" * 70]
)
def test_a_name_like_hers_is_not_hers(stack: Stack, keys: dict[str, scram.Keys], user: str) -> None:
    with pytest.raises(Refused) as refused:
        RawClient(stack.port, keys["alice"], source=SOURCE, user=user)
    assert refused.value.code == "28P01"


def test_cancel_of_anothers_session(stack: Stack, keys: dict[str, scram.Keys]) -> None:
    """The key of one session cancels no other."""
    with contextlib.ExitStack() as opened:
        mine = RawClient(stack.port, keys["alice"], source=SOURCE)
        opened.callback(mine.close)
        other = RawClient(stack.port, keys["bob"], source=SOURCE, user="bob")
        opened.callback(other.close)
        other.send(messages.query(b"SELECT pg_sleep(600)"))
        with stack.cluster.connect() as root:
            assert soon(lambda: backends(root, SLEEPING))
            pid, right = other.key
            _, wrong = mine.key
            for key in (wrong, right):
                assert backends(root, SLEEPING), "it sleeps on"
                with socket.create_connection(("127.0.0.1", stack.port), timeout=PATIENCE) as request:
                    body = (80877102).to_bytes(4, "big") + pid.to_bytes(4, "big") + key
                    request.sendall((len(body) + 4).to_bytes(4, "big") + body)
                    assert until_closed(request) == b""
        assert any(b"57014" in raw for raw in other.until(b"Z"))


# -- what analysts can see of each other ------------------------------------------------------------------------------


def test_notifications_between_analysts_hold_what_they_wrote_and_nothing_else(
    stack: Stack, owner: psycopg.Connection[Any]
) -> None:
    """Expected: analysts of one facade can talk, as they can by telephone. That is no leak: what two of them learn
    together is bounded by the dataset's cap, which both spend from; a notification holds no row, and costs nothing."""
    before = owner.execute("SELECT count(*) FROM dp.ledger").fetchone()
    with stack.connect() as alice, stack.connect("bob") as bob:
        bob.execute("LISTEN talk")
        alice.execute("NOTIFY talk, 'hello'")
        assert [notify.payload for notify in bob.notifies(timeout=PATIENCE, stop_after=1)] == ["hello"]
        with pytest.raises(psycopg.DatabaseError) as refused:
            alice.execute("SELECT pg_notify('talk', age::text) FROM people")
        assert refused.value.sqlstate in ("DP002", "DP003")
        assert list(bob.notifies(timeout=0.3)) == []
    assert owner.execute("SELECT count(*) FROM dp.ledger").fetchone() == before


def test_what_one_keeps_the_other_cannot_read(stack: Stack) -> None:
    """Temporary tables, cursors, prepared statements, settings and statements belong to their session."""
    with stack.connect() as alice, stack.connect("bob") as bob:
        alice.execute("CREATE TEMP TABLE kept AS SELECT 7 AS answer")
        alice.execute("PREPARE p AS SELECT 7")
        alice.execute("SET dp.epsilon = 0.125")
        alice.execute("DECLARE c CURSOR WITH HOLD FOR SELECT 7")
        (schema,) = alice.execute("SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()").fetchone() or ()
        for statement, state in (
            (f"SELECT * FROM {schema}.kept", "42501"),
            (f"SELECT count(*) FROM {schema}.kept", "42501"),
            (f"INSERT INTO {schema}.kept VALUES (1)", "42501"),
            (f"CREATE TABLE {schema}.mine (a int)", "42501"),
            ("EXECUTE p", "26000"),
            ("FETCH ALL FROM c", "34000"),
            ("SELECT query FROM pg_stat_activity", "42501"),
            ("SELECT pg_stat_get_backend_activity(1)", "42501"),
            ("SELECT pg_cancel_backend(pid) FROM generate_series(1, 9) pid", "42501"),
        ):
            with pytest.raises(psycopg.DatabaseError) as refused:
                bob.execute(statement.encode())
            assert refused.value.sqlstate == state, statement
        assert bob.execute("SELECT current_setting('dp.epsilon', true)").fetchone() != ("0.125",)


def test_locks_of_one_stop_no_question_of_another(stack: Stack) -> None:
    """Advisory locks and open transactions are on the facade: the engine uses neither."""
    with stack.connect() as alice, stack.connect("bob") as bob:
        alice.execute("SELECT pg_advisory_lock(g), pg_advisory_lock(g, g) FROM generate_series(-5, 200) g")
        alice.execute("BEGIN")
        alice.execute("SELECT count(*) FROM people WHERE age > 61")
        bob.execute("SET statement_timeout = '60s'")
        assert bob.execute("SELECT count(*) FROM people WHERE age > 62").fetchone() is not None
        alice.execute("ROLLBACK")
    with stack.cluster.connect("alice", tcp=True) as alice, stack.cluster.connect("bob", tcp=True) as bob:
        alice.execute("SELECT pg_advisory_lock(g), pg_advisory_lock(g, g) FROM generate_series(-5, 200) g")
        bob.execute("SET statement_timeout = '60s'")
        assert bob.execute("SELECT dp_count('people', 'age > 63')").fetchone() is not None


def test_the_facade_has_no_extension_that_knows_other_data(stack: Stack) -> None:
    """No TimescaleDB (whose views show chunks and sizes to anyone), no dblink, no statement statistics."""
    with stack.connect() as alice:
        found = {name for (name,) in alice.execute("SELECT extname FROM pg_extension").fetchall()}
        assert found <= {"plpgsql", "postgres_fdw"}
        for relation in ("timescaledb_information.chunks", "_timescaledb_catalog.chunk", "pg_stat_statements"):
            with pytest.raises(psycopg.DatabaseError) as refused:
                alice.execute(f"SELECT * FROM {relation}".encode())
            assert refused.value.sqlstate == "42P01"


def test_the_packet_of_another_protocol_is_no_login(stack: Stack) -> None:
    with socket.create_connection(("127.0.0.1", stack.port), timeout=PATIENCE, source_address=(SOURCE, 0)) as s:
        s.sendall(packet({"user": "alice", "database": FACADE}) + messages.query(b"SELECT 1"))
        answer = until_closed(s)
    assert b"\0C08P01\0" in answer
    assert b"SELECT 1" not in answer
