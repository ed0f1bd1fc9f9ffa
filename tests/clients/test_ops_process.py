"""The proxy as a process: drain, reload, systemd's protocol, several workers on one port."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import PASSWORD, PRIVATE
from fix_ops import Proxy, code_of, databases_at_work, proxy_at_work
from fix_ports import free_port
from fix_stack import FACADE, Stack
from fix_waiting import LOCKED, PATIENCE, SLEEPING, backends, cancelling, soon, until_closed
from pg_epsilon_proxy.config import ConfigError, load
from pg_epsilon_proxy.preflight import preflight

pytestmark = pytest.mark.chance(fix_chance.laplace(10, 249, 4))

COUNT = "SELECT count(*) FROM people WHERE age > {}"


@pytest.fixture(scope="module")
def databases() -> Iterator[Stack]:
    with databases_at_work() as stack:
        yield stack


@pytest.fixture(scope="module")
def pair(databases: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Two workers, also on a unix socket; shared by the tests that do not end it."""
    folder = tmp_path_factory.mktemp("pair")
    listen = {"unix_socket": str(folder)}
    with proxy_at_work(databases, folder, process={"workers": 2}, listen=listen, metrics={"port": "free"}) as proxy:
        yield proxy


# -- drain -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_drain_lets_work_finish_and_sends_the_idle_away(databases: Stack, tmp_path: Path, workers: int) -> None:
    """Idle: 57P01 at once. A running statement: its answer, then 57P01. An open transaction: until its COMMIT."""
    settings: dict[str, Any] = {"process": {"workers": workers, "drain_timeout": 600}}
    with proxy_at_work(databases, tmp_path, **settings) as proxy, databases.cluster.connect(dbname=FACADE) as root:
        idle, running, open_ = (proxy.connect() for _ in range(3))
        open_.execute("BEGIN")
        answers: list[Any] = []
        root.execute("SELECT pg_advisory_lock(7)")
        waits = "SELECT pg_advisory_lock_shared(7), 7"
        asking = threading.Thread(target=lambda: answers.append(running.execute(waits).fetchone()))
        asking.start()
        assert soon(lambda: backends(root, f"{LOCKED} AND query = '{waits}'"))
        proxy.signal(signal.SIGTERM)
        assert code_of(lambda: idle.execute("SELECT 1")) in (None, "57P01", "lost"), "it may come at the last moment"
        assert soon(lambda: code_of(lambda: idle.execute("SELECT 1")) in ("57P01", "lost"))
        assert soon(lambda: code_of(lambda: proxy.connect().close()) == "lost"), "nobody new is accepted"
        root.execute("SELECT pg_advisory_unlock(7)")
        asking.join()
        assert answers == [("", 7)]
        assert soon(lambda: code_of(lambda: running.execute("SELECT 1")) in ("57P01", "lost"))
        row = open_.execute(COUNT.format(30)).fetchone()
        assert row is not None and abs(row[0] - 780) < 250
        assert proxy.process.poll() is None
        open_.execute("COMMIT")
        assert proxy.ended() == 0
        # who tried to come before every worker had heard of it may have got in, to be sent away
        ends = {line["session"]: line["how"] for line in proxy.events("session ends")}
        begun = [line["session"] for line in proxy.events("session begins")]
        assert [ends[session] for session in begun[:3]] == ["shut down"] * 3
        assert set(ends) == set(begun) and set(ends.values()) <= {"shut down", "closed"}


@pytest.mark.parametrize("how", ["time limit", "second signal"])
def test_a_drain_ends(databases: Stack, tmp_path: Path, how: str) -> None:
    timeout = 1 if how == "time limit" else 600
    with proxy_at_work(databases, tmp_path, process={"drain_timeout": timeout}) as proxy:
        alice = proxy.connect()
        alice.execute("BEGIN")
        proxy.signal(signal.SIGTERM)
        if how == "second signal":
            proxy.wait_for("draining")
            proxy.signal(signal.SIGTERM)
        assert proxy.ended() == 0
        assert code_of(lambda: alice.execute("SELECT 1")) == "57P01"


# -- reload ------------------------------------------------------------------------------------------------------------


def certificate(folder: Path, name: str) -> tuple[str, str]:
    key, cert = str(folder / f"{name}.key"), str(folder / f"{name}.crt")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    subprocess.run([*words, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


@pytest.mark.parametrize("workers", [1, 2])
def test_reload(databases: Stack, tmp_path: Path, workers: int) -> None:
    """Certificate, limits and logging change for new sessions; old ones go on; what cannot change is named."""
    old, new = certificate(tmp_path, "old"), certificate(tmp_path, "new")
    listen = dict(zip(("tls_cert", "tls_key"), old, strict=True))
    with proxy_at_work(databases, tmp_path, process={"workers": workers}, listen=listen) as proxy:
        before = proxy.connect(sslmode="verify-ca", sslrootcert=old[0])
        proxy.write(
            listen=dict(zip(("tls_cert", "tls_key"), new, strict=True)),
            limits={"max_message": 5000, "parser_threads": 2},
            log={"level": "warning"},
            private={"pool_size": 3},
        )
        proxy.signal(signal.SIGHUP)
        waiting = proxy.wait_for("settings wait for a restart")[0]["settings"]
        assert waiting == "private.pool_size,limits.parser_threads"
        begun = len(proxy.events("session begins"))
        with pytest.raises(psycopg.OperationalError, match="certificate"):
            proxy.connect(sslmode="verify-ca", sslrootcert=old[0])
        with proxy.connect(sslmode="verify-ca", sslrootcert=new[0]) as after:
            assert code_of(lambda: after.execute(f"SELECT '{'x' * 6000}'")) in ("54000", "lost")
        assert before.execute(f"SELECT length('{'x' * 6000}')").fetchone() == (6000,)
        assert len(proxy.events("session begins")) == begun, "level warning says nothing of sessions"


@pytest.mark.parametrize("broken", ["not toml", "[nosuch]", "[listen]\ntls_cert = '/nowhere'\ntls_key = '/nowhere'"])
def test_a_broken_file_keeps_the_old_settings(pair: Proxy, broken: str) -> None:
    file = pair.folder / "proxy.toml"
    good, count = file.read_text(), len(pair.events("reload failed: the settings stay as they were"))
    file.write_text(broken if broken.startswith("n") else good.replace("[listen]\n", broken + "\n"))
    try:
        pair.signal(signal.SIGHUP)
        pair.wait_for("reload failed: the settings stay as they were", count + 1)
        with pair.connect() as alice:
            assert alice.execute("SELECT 1").fetchone() == (1,)
    finally:
        file.write_text(good)


# -- systemd -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_what_systemd_is_told(databases: Stack, tmp_path: Path, workers: int) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(PATIENCE)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        with proxy_at_work(databases, tmp_path, environment, process={"workers": workers}) as proxy:
            assert heard.recv(1000).decode().split("\n")[:2] == ["READY=1", f"MAINPID={proxy.process.pid}"]
            with proxy.connect():
                pass
            proxy.signal(signal.SIGHUP)
            assert heard.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
            assert heard.recv(1000) == b"READY=1"
            proxy.signal(signal.SIGTERM)
            assert heard.recv(1000).startswith(b"STOPPING=1")
            assert proxy.ended() == 0


def test_a_database_that_is_away_is_an_exit_status(databases: Stack, tmp_path: Path) -> None:
    """systemd starts it again; with several workers just the same."""
    for workers in ("1", "2"):
        environment = {"PG_EPSILON_PRIVATE_PORT": str(free_port()), "PG_EPSILON_PROCESS_WORKERS": workers}
        command = [str(databases.cluster.paths.python), "-m", "pg_epsilon_proxy.cli", "proxy"]
        done = subprocess.run(
            command, env={**databases.environment(), **environment}, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 1, done.stderr
        assert "Connect call failed" in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr


# -- workers -----------------------------------------------------------------------------------------------------------


def workers_of(proxy: Proxy) -> dict[int, list[psycopg.Connection[Any]]]:
    """Worker number → sessions that it serves, at least one each."""
    found: dict[int, list[psycopg.Connection[Any]]] = {}
    for _ in range(40):
        begun = len(proxy.events("session begins"))
        connection = proxy.connect()
        found.setdefault(proxy.wait_for("session begins", begun + 1)[-1]["worker"], []).append(connection)
        if len(found) == proxy.settings["process"]["workers"]:
            return found
    raise AssertionError("the kernel gave every connection to one worker")


def test_connections_spread_over_workers(pair: Proxy) -> None:
    sessions = workers_of(pair)
    assert set(sessions) == {1, 2}
    for connection in (item for several in sessions.values() for item in several):
        with connection:
            assert connection.execute("SELECT current_user").fetchone() == ("alice",)


def libraries_of(pid: int) -> set[str]:
    """Python packages whose compiled parts a process has loaded."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.partition("/site-packages/")[2].partition("/")[0] for line in lines if "/site-packages/" in line}


def test_what_the_proxy_and_the_engine_have_loaded(pair: Proxy) -> None:
    """Supervisor and workers have nothing of the engine's; a channel that answered counts has OpenDP, no solver."""
    notices: list[str] = []
    with pair.connect() as alice:
        alice.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        alice.execute("SET dp.notices = on")
        assert alice.execute(COUNT.format(17)).fetchone() is not None
    assert notices, "a count was answered"
    supervisor = pair.process.pid
    workers = [int(child) for child in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()]
    assert len(workers) == 2
    engine = {"opendp", "numpy", "numpy.libs", "highspy", "scipy", "scipy.libs", "matplotlib"}
    for pid in (supervisor, *workers):
        assert libraries_of(pid) & engine == set()
    assert all("pglast" in libraries_of(pid) and "asyncpg" in libraries_of(pid) for pid in workers)
    with pair.stack.cluster.connect() as root:
        found = root.execute("SELECT pid FROM pg_stat_activity WHERE usename ~ '^dp_channel_'").fetchall()
    loaded = [libraries_of(pid) for (pid,) in found]
    assert any("opendp" in packages for packages in loaded)
    assert not any(packages & {"highspy", "scipy", "scipy.libs", "matplotlib", "asyncpg"} for packages in loaded)
    pair.hang_up()


def test_a_cancel_finds_its_session_in_any_worker(pair: Proxy) -> None:
    """The cancel's own connection lands on either worker; ten of each session's go to both, but for one in 2^9."""
    sessions = workers_of(pair)
    for several in sessions.values():
        connection = several[0]
        for _ in range(10):
            with cancelling(connection.cancel, pair.stack.cluster.connect):
                assert code_of(lambda c=connection: c.execute("SELECT pg_sleep(600)")) == "57014"
    pair.hang_up()
    assert soon(lambda: pair.metrics().get('pg_epsilon_cancels_total{found="yes"}', 0) >= 20)


def test_a_cancel_reaches_a_running_dp_call_in_any_worker(pair: Proxy) -> None:
    sessions = workers_of(pair)
    with pair.stack.cluster.connect() as holder:
        for worker, several in sessions.items():
            holder.execute("BEGIN; LOCK dp.account IN EXCLUSIVE MODE")
            for times in range(3):
                asked = COUNT.format(40 + 3 * worker + times)  # one that was asked may be answered after its cancel
                with cancelling(several[0].cancel, pair.stack.cluster.connect, LOCKED):
                    # the lock's own time limit would be DP006
                    assert code_of(lambda c=several[0], sql=asked: c.execute(sql)) == "57014"
            holder.execute("COMMIT")
    pair.hang_up()


def test_psql_cancels_over_two_workers(pair: Proxy) -> None:
    environment = {**os.environ, "PGPASSWORD": PASSWORD}
    where = f"host=127.0.0.1 port={pair.port} user=alice dbname={PRIVATE}"
    for _ in range(4):
        psql = subprocess.Popen(
            [pair.stack.cluster.paths.bindir / "psql", "-X", "-d", where, "-c", "SELECT pg_sleep(600)"],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        with pair.stack.cluster.connect() as root:
            assert soon(lambda root=root: backends(root, SLEEPING) == 1)
        psql.send_signal(signal.SIGINT)
        assert "canceling statement due to user request" in psql.communicate(timeout=PATIENCE)[1]


def test_a_wrong_key_cancels_nothing_anywhere(pair: Proxy) -> None:
    missed = pair.metrics().get('pg_epsilon_cancels_total{found="no"}', 0)
    with pair.connect() as alice, pair.stack.cluster.connect() as root:
        codes: list[str | None] = []
        sleep = threading.Thread(target=lambda: codes.append(code_of(lambda: alice.execute("SELECT pg_sleep(600)"))))
        sleep.start()
        assert soon(lambda: backends(root, SLEEPING))
        pid = alice.info.backend_pid
        for key in (b"\0\0\0\0", b"\xff\xff\xff\xff", b"abcd", b"1234"):
            with socket.create_connection(("127.0.0.1", pair.port)) as wrong:
                wrong.sendall((16).to_bytes(4, "big") + (80877102).to_bytes(4, "big") + pid.to_bytes(4, "big") + key)
                assert until_closed(wrong) == b""
        assert backends(root, SLEEPING) and not codes, "it sleeps on"
        alice.cancel_safe()
        sleep.join()
        assert codes == ["57014"]
        assert alice.execute("SELECT 1").fetchone() == (1,)
    assert pair.counts({'pg_epsilon_cancels_total{found="no"}': missed + 4})


def test_a_unix_socket_is_served_by_all_workers(pair: Proxy) -> None:
    with pair.connect(host=str(pair.folder)) as alice:
        assert alice.execute("SELECT 1").fetchone() == (1,)
        assert pair.wait_for("session begins")[-1]["address"] == "unix"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_unix_socket_alone(databases: Stack, tmp_path: Path, workers: int) -> None:
    """And it is gone afterwards, whoever was last to use it."""
    listen = {"host": "", "port": 7777, "unix_socket": str(tmp_path)}
    with proxy_at_work(databases, tmp_path, listen=listen, process={"workers": workers}) as proxy:
        with proxy.connect(host=str(tmp_path)) as alice:
            assert alice.execute("SELECT 1").fetchone() == (1,)
        proxy.signal(signal.SIGTERM)
        assert proxy.ended() == 0
        assert not (tmp_path / ".s.PGSQL.7777").exists()


@pytest.mark.parametrize(("how", "told"), [(signal.SIGKILL, "lost"), (signal.SIGTERM, "57P01")])
def test_a_worker_that_ends_is_replaced_and_the_other_serves_on(pair: Proxy, how: signal.Signals, told: str) -> None:
    """Killed, or told to end by itself: then it drains."""
    restarts = pair.metrics().get("pg_epsilon_worker_restarts_total", 0)
    sessions = workers_of(pair)
    pid = pair.process.pid
    victims = {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    assert len(victims) == 2
    killed = victims.pop()
    before = len(pair.events("worker ended"))
    os.kill(killed, how)
    ended = pair.wait_for("worker ended", before + 1)[-1]["number"]
    (other,) = set(sessions) - {ended}
    assert code_of(lambda: sessions[ended][0].execute("SELECT 1")) == told
    assert sessions[other][0].execute("SELECT 1").fetchone() == (1,)
    assert pair.counts({"pg_epsilon_workers": 2, "pg_epsilon_worker_restarts_total": restarts + 1})
    with pair.connect() as alice:
        assert alice.execute("SELECT 1").fetchone() == (1,)
    pair.hang_up()


def test_workers_end_with_their_supervisor(databases: Stack, tmp_path: Path) -> None:
    """Nothing serves on that nobody watches."""
    with proxy_at_work(databases, tmp_path, process={"workers": 2}) as proxy:
        proxy.signal(signal.SIGKILL)
        proxy.process.wait()
        assert soon(lambda: code_of(lambda: proxy.connect().close()) == "lost")


# -- the command -------------------------------------------------------------------------------------------------------


def test_check_changes_nothing_and_sees_a_facade_that_is_behind(databases: Stack) -> None:
    done = databases.cli("proxy", "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    databases.cluster.execute("UPDATE dp.policy_state SET version = version + 1")
    assert asyncio.run(preflight(load(str(databases.config), {})))
    done = databases.cli("proxy", "--check")
    assert done.returncode == 1 and "the facade shows policy version" in done.stderr
    assert databases.cli("facade", "sync").returncode == 0
    assert databases.cli("proxy", "--version").stdout.startswith("pg-epsilon ")


WRONG = {
    "the private database cannot be asked": {"PRIVATE_PASSWORD": "another secret"},
    "the facade cannot be asked": {"FACADE_DBNAME": "nowhere"},
    "listen.tls_cert, listen.tls_key: No such file": {"LISTEN_TLS_CERT": "/nowhere", "LISTEN_TLS_KEY": "/nowhere"},
    "private.passfile: No such file": {"PRIVATE_PASSWORD": "", "PRIVATE_PASSFILE": "/nowhere"},
    "listen.unix_socket: ": {"LISTEN_UNIX_SOCKET": "/nowhere"},
    "facade.tls_ca: No such file": {"FACADE_TLS": "on", "FACADE_TLS_CA": "/nowhere"},
}


@pytest.mark.parametrize("problem", WRONG)
def test_check_names_what_is_wrong_and_no_secret(databases: Stack, problem: str) -> None:
    settings = {f"PG_EPSILON_{name}": value for name, value in WRONG[problem].items()}
    found = asyncio.run(preflight(load(str(databases.config), settings)))
    assert [line for line in found if line.startswith(problem)], found
    assert not [line for line in found if "secret" in line or PASSWORD in line]


MISTAKES = ["[listen]\nnonsense = 'secret'", "[log]\nlevel = 'secret'", "[private]\nport = 'secret'"]


@pytest.mark.parametrize("text", MISTAKES)
def test_settings_with_a_mistake_are_named_without_their_value(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(str(tmp_path / "bad.toml"), {})
    assert text[1:4] in str(caught.value) and "secret" not in str(caught.value)
