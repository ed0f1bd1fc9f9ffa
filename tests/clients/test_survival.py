"""What a proxy that serves must survive, and follow: killed backends, restarts, another policy; TLS on both sides."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import PASSWORD
from fix_stack import Stack, stack_at_work
from fix_waiting import LOCKED, PATIENCE, backends, cancelling, soon
from pg_epsilon_proxy.config import Config, load
from pg_epsilon_proxy.policy import gateway
from pg_epsilon_proxy.session.login import LoginRefused, connect_facade
from pg_epsilon_proxy.upstream import UpstreamPool

pytestmark = pytest.mark.chance(fix_chance.laplace(10, 249, 4))

COUNT = "SELECT count(*) FROM people WHERE age > {}"


def raised(action: Callable[[], Any]) -> str | None:
    """The SQLSTATE of the error that `action` ends with; "lost" for a connection without a last word."""
    try:
        action()
        return None
    except psycopg.Error as error:
        return error.sqlstate or "lost"


def ended(session: psycopg.Connection[Any]) -> list[str | None]:
    """How it ended, error by error; at once for who knows, at the next statement for who does not."""
    heard: list[str | None] = []

    def asked() -> bool:
        code = raised(lambda: session.execute("SELECT 1"))
        if code is not None:
            heard.append(code)
        return session.closed

    assert soon(asked), heard
    return heard


def pid_of(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def count(connection: psycopg.Connection[Any], age: int) -> int:
    row = connection.execute(COUNT.format(age)).fetchone()
    assert row is not None
    return int(row[0])


# -- what is asked for -------------------------------------------------------------------------------------------------


def test_what_is_left_can_be_asked_for(stack: Stack) -> None:
    with stack.connect() as alice:
        whole = alice.execute("SELECT your_epsilon_left FROM dp.budget WHERE dataset = 'people'").fetchone()
        for sql, parameters in (
            ("SELECT dp_budget_left('people')", None),
            ("SELECT x FROM dp.dp_budget_left(dataset => 'people') AS x", None),
            ("SELECT dp_budget_left(%s)", ("people",)),
        ):
            assert alice.execute(sql, parameters).fetchone() == whole
        assert raised(lambda: alice.execute("SELECT dp_budget_left('nosuch')")) in ("DP005", "DP002", "42501", "42704")


def test_a_predicates_place_is_the_clients(stack: Stack) -> None:
    """The engine refuses; psql shows a caret in the client's own text, in both protocols."""
    sql = "/* é */ SELECT sex, count(*) FROM people p WHERE p.age > {} AND random() < 1 GROUP BY sex"
    with stack.connect() as alice:
        for text, parameters in ((sql.format(30), None), (sql.format("%s"), (30,))):
            with pytest.raises(psycopg.DatabaseError) as caught:
                alice.execute(text, parameters)
            assert caught.value.sqlstate == "DP003"
            sent = text.replace("%s", "$1")
            assert caught.value.diag.statement_position == str(sent.index("random") + 1)


def test_commit_is_never_lost_to_a_probe(stack: Stack) -> None:
    """In an open block `COMMIT; SELECT bad` is refused as a whole, like a syntax error; nothing of it has run."""
    with stack.connect() as alice:
        alice.execute("BEGIN")
        alice.execute("CREATE TEMP TABLE kept (x int)")
        with pytest.raises(psycopg.DatabaseError) as caught:
            alice.execute("COMMIT; SELECT count(nope) FROM people")
        assert caught.value.sqlstate == "DP003" and "send it alone" in (caught.value.diag.message_hint or "").lower()
        assert alice.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        alice.execute("ROLLBACK")
        alice.execute("BEGIN; SELECT 1")
        assert alice.execute("COMMIT; SELECT 1").statusmessage == "COMMIT"
        assert alice.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_what_sql_prepared_shows_no_parameter_of_ours(stack: Stack) -> None:
    """The extended protocol meets a statement that SQL PREPARE has made."""
    with stack.connect() as alice:
        alice.execute("PREPARE counted (int) AS SELECT count(*) FROM people WHERE age > $1")
        answer = alice.execute("EXECUTE counted (30)").fetchone()
        assert answer is not None and abs(answer[0] - 780) < 250
        described = alice.pgconn.describe_prepared(b"counted")
        assert [described.param_type(i) for i in range(described.nparams)] == [23]
        spent = alice.execute("SELECT your_epsilon_left FROM dp.budget WHERE dataset = 'people'").fetchone()
        for parameters, code, text in (
            ([], "08P01", 'supplies 0 parameters, but prepared statement "counted" requires 1'),
            ([b"30", b"[]"], "08P01", 'supplies 2 parameters, but prepared statement "counted" requires 1'),
        ):
            result = alice.pgconn.exec_prepared(b"counted", parameters)
            assert (result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode() == code
            assert text in result.error_message.decode()
        bound = alice.pgconn.exec_prepared(b"counted", [b"30"])
        assert bound.get_value(0, 0) == str(answer[0]).encode()
        assert alice.execute("EXECUTE counted (30)").fetchone() == answer
        alice.execute("DEALLOCATE counted")
        gone = alice.pgconn.exec_prepared(b"counted", [b"30"])
        assert (gone.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"") == b"26000"
        alice.execute("PREPARE counted (int, jsonb) AS SELECT $1")
        plain = alice.pgconn.exec_prepared(b"counted", [b"30", b"[]"])
        assert plain.get_value(0, 0) == b"30", "another statement under the same name"
        left = alice.execute("SELECT your_epsilon_left FROM dp.budget WHERE dataset = 'people'").fetchone()
        assert left == spent


NOT_LET_IN = {
    "no analyst": "REVOKE dp_analyst FROM guest",
    "NOLOGIN": "ALTER ROLE guest NOLOGIN",
    "expired": "ALTER ROLE guest VALID UNTIL '2020-01-01'",
    "no password": "ALTER ROLE guest PASSWORD NULL",
    "more than an analyst": "ALTER ROLE guest CREATEROLE",
}


def test_only_analysts_are_let_in(stack: Stack) -> None:
    """Whatever is wrong with a role, it hears what an unknown one hears, with the right password too."""
    create = f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}' VALID UNTIL '2990-01-01'; GRANT dp_analyst TO guest"
    heard = {}
    for how, change in NOT_LET_IN.items():
        stack.cluster.execute(create)
        stack.connect("guest").close()
        stack.cluster.execute(change)
        with pytest.raises(psycopg.OperationalError) as caught:
            stack.connect("guest")
        heard[how] = str(caught.value).split("FATAL:")[-1].strip()
        stack.cluster.execute("DROP ROLE guest")
    with pytest.raises(psycopg.OperationalError) as caught:
        stack.connect("guest")
    heard["unknown"] = str(caught.value).split("FATAL:")[-1].strip()
    assert set(heard.values()) == {'password authentication failed for user "guest"'}, heard


# -- what dies ---------------------------------------------------------------------------------------------------------


def test_a_killed_facade_backend_ends_one_session(stack: Stack) -> None:
    with stack.connect() as alice, stack.connect("bob") as bob:
        stack.cluster.execute(f"SELECT pg_terminate_backend({pid_of(alice)})")
        assert ended(alice)[0] == "57P01"
        assert abs(count(bob, 30) - 780) < 250
    with stack.connect() as alice:
        assert abs(count(alice, 30) - 780) < 250


def test_a_facade_backend_killed_during_a_private_call(stack: Stack) -> None:
    """The client hears that its session ended; the charge stands and its answer can be asked for again, free."""
    with stack.connect() as alice, stack.cluster.connect() as holder, stack.cluster.connect() as root:
        pid = pid_of(alice)
        holder.execute("BEGIN; LOCK dp.account IN EXCLUSIVE MODE")
        heard: list[str | None] = []
        asking = threading.Thread(target=lambda: heard.append(raised(lambda: count(alice, 31))))
        asking.start()
        assert soon(lambda: backends(root, LOCKED))
        stack.cluster.execute(f"SELECT pg_terminate_backend({pid})")
        asking.join(PATIENCE)
        holder.execute("COMMIT")
    assert heard == ["57P01"]
    with stack.connect() as alice:
        assert abs(count(alice, 31) - 770) < 250


def test_killed_gateway_connections_are_replaced(stack: Stack) -> None:
    """More calls than the pool has places: a dead connection that kept its place would starve them."""
    gateways = "FROM pg_stat_activity WHERE usename = 'dp_gateway' AND application_name = 'pg-epsilon proxy'"
    with stack.connect() as alice:
        for _ in range(3):
            assert soon(lambda: raised(lambda: count(alice, 30)) is None), "a question may meet a dead one: DP006"
            stack.cluster.execute(f"SELECT pg_terminate_backend(pid, 60000) {gateways}")
            codes = [raised(lambda: alice.execute("SELECT count(*) FROM dp.budget")) for _ in range(12)]
            assert set(codes) <= {None, "DP006"} and codes[-1] is None
        with stack.cluster.connect() as admin:
            busy = f"SELECT count(*) {gateways} AND (state <> 'idle' OR xact_start IS NOT NULL)"
            assert soon(lambda: admin.execute(busy).fetchone() == (0,)), "new ones are being warmed, none is stuck"


def test_a_facade_backend_killed_without_a_word(stack: Stack) -> None:
    """kill -9: its client hears so from the proxy, the others from PostgreSQL, which recovers."""
    with stack.connect() as alice, stack.connect("bob") as bob:
        stack.cluster.run("kill", "-9", str(pid_of(alice)))
        assert ended(alice)[0] == "08006"
        assert ended(bob)[0] in ("57P02", "08006", "DP006")
    assert soon(lambda: raised(lambda: stack.connect().close()) is None)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_ends_sessions_and_nothing_else(stack: Stack, mode: str) -> None:
    with stack.connect() as alice, stack.connect("bob") as bob:
        before = count(alice, 30)
        alice.execute("BEGIN")
        stack.cluster.stop(mode)
        assert raised(lambda: stack.connect().close()) in ("DP006", "08006", "57P03", "lost"), "no server, no session"
        stack.cluster.start()
        for session in (alice, bob):
            assert ended(session)[0] in ("57P01", "57P02", "08006", "DP006")
    assert stack.process is not None and stack.process.poll() is None, "the proxy lives"
    assert soon(lambda: raised(lambda: stack.connect().close()) is None)
    with stack.connect() as alice:
        assert count(alice, 30) == before, "released answers outlive a restart"
        assert alice.execute("SELECT 1 FROM dp.budget").fetchone() is not None


# -- what changes ------------------------------------------------------------------------------------------------------


def test_the_facade_follows_the_policy(stack: Stack) -> None:
    """A live session sees a new relation, then a new column of it, then no relation: an error, never a 0."""
    with stack.connect() as alice:
        stack.cluster.psql(
            "CREATE TABLE later (n int, m int); INSERT INTO later SELECT i % 4, i % 3 FROM generate_series(1, 400) i;"
            "CALL dp.protect('later', 'people', max_rows => 1000, scale => 400);"
            "CALL dp.describe_column('later', 'n', domain => '{0,1,2,3}');",
            user="boss",
        )
        assert raised(lambda: alice.execute("SELECT count(*) FROM later")) == "42P01"
        stack.cluster.psql("CALL dp.publish('later')", user="boss")
        assert soon(lambda: raised(lambda: alice.execute("SELECT n, count(*) FROM later GROUP BY n")) is None)
        undeclared = "SELECT m, count(*) FROM later GROUP BY m"
        assert raised(lambda: alice.execute(undeclared)) == "DP004"
        stack.cluster.psql("CALL dp.describe_column('later', 'm', domain => '{0,1,2}')", user="boss")
        assert soon(lambda: raised(lambda: alice.execute(undeclared)) is None)
        with stack.connect("bob") as bob:
            bob.execute("BEGIN")
            assert raised(lambda: bob.execute("SELECT n, count(*) FROM later GROUP BY n")) is None
            stack.cluster.psql("CALL dp.unpublish('later')", user="boss")
            # bob's transaction holds the old shape: nobody is sent away, and nothing is asked about it
            asked = lambda: raised(lambda: alice.execute("SELECT count(*) FROM later WHERE n = 2"))  # noqa: E731
            assert soon(lambda: asked() == "DP006")
            assert abs(count(alice, 30) - 780) < 250
        codes = set()

        def gone() -> bool:
            codes.add(raised(lambda: alice.execute("SELECT count(*) FROM later WHERE n = 1")))
            return "42P01" in codes

        assert soon(gone)
        assert codes <= {None, "42P01", "42501", "DP002", "DP004", "DP006"}, codes
        assert raised(lambda: alice.execute("SELECT 'later'::regclass")) == "42P01"


# -- TLS on both sides -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose logins to both databases must be TLS, and whose proxy asks its clients for TLS."""
    with stack_at_work() as stack:
        stack.stop()
        for name in ("server", "proxy"):
            certificate(stack, name)
        stack.cluster.execute("ALTER SYSTEM SET ssl = on")
        stack.cluster.execute(f"ALTER SYSTEM SET ssl_cert_file = '{stack.cluster.folder}/server.crt'")
        stack.cluster.execute(f"ALTER SYSTEM SET ssl_key_file = '{stack.cluster.folder}/server.key'")
        hba = stack.cluster.data / "pg_hba.conf"
        hba.write_text("hostnossl facade,private +dp_analyst,dp_gateway all reject\n" + hba.read_text())
        stack.cluster.stop("fast")
        stack.cluster.start()
        folder = stack.cluster.folder
        text = stack.config.read_text()
        listen = f'tls_cert = "{folder}/proxy.crt"\ntls_key = "{folder}/proxy.key"\ntls_required = true\n'
        text = text.replace("[listen]\n", f"[listen]\n{listen}")
        verify = f'tls = true\ntls_ca = "{folder}/server.crt"\n'
        text = text.replace("[private]\n", f"[private]\n{verify}")
        stack.config.write_text(text + verify)
        stack.start()
        yield stack


def certificate(stack: Stack, name: str) -> None:
    folder = stack.cluster.folder
    stack.cluster.run(
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
        "-addext", "subjectAltName=IP:127.0.0.1",
        "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.crt",
    )  # fmt: skip


def test_tls_from_client_to_facade(encrypted: Stack) -> None:
    """pg_hba rejects whoever comes to the facade in clear."""
    trusted = f"{encrypted.cluster.folder}/proxy.crt"
    for how in ({"sslmode": "require"}, {"sslmode": "verify-full", "sslrootcert": trusted}):
        with encrypted.connect(**how) as alice:
            assert alice.pgconn.ssl_in_use
            assert abs(count(alice, 30) - 780) < 250
    with pytest.raises(psycopg.OperationalError, match="over TLS only"):
        encrypted.connect(sslmode="disable")


def test_a_cancel_reaches_a_facade_behind_tls(encrypted: Stack) -> None:
    with encrypted.connect(sslmode="require") as alice, cancelling(alice.cancel, encrypted.cluster.connect):
        assert raised(lambda: alice.execute("SELECT pg_sleep(600)")) == "57014"


def test_a_facade_with_another_certificate_is_not_believed(encrypted: Stack) -> None:
    """Neither by a session, nor by what follows the policy as the gateway."""
    config = load(str(encrypted.config), {})
    asyncio.run(_look(config))
    other = replace(config, facade=replace(config.facade, tls_ca=config.listen.tls_cert))
    with pytest.raises(LoginRefused):
        asyncio.run(connect_facade(other.facade))
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(_look(other))


def test_a_private_database_with_another_certificate_is_not_asked(encrypted: Stack) -> None:
    config = load(str(encrypted.config), {})
    other = replace(config, private=replace(config.private, tls_ca=config.listen.tls_cert))
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(UpstreamPool(other).open())
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(_look(other, facade=False))


async def _look(config: Config, *, facade: bool = True) -> None:
    async with gateway(config, facade=facade) as connection:
        assert await connection.fetchval("SELECT 1") == 1
