"""A PgBouncer in front of a test cluster's facade: session pooling, SCRAM with the analyst's own verifier."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from fix_cluster import PASSWORD, free_port
from fix_stack import FACADE, Stack

PROGRAM = "pgbouncer"
# It logs in to the server with the keys that it learns from the client's proof, as the proxy does.
CONFIG = """\
[databases]
{database} = host=127.0.0.1 port={server_port} dbname={database}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/pgbouncer.users
pool_mode = session
default_pool_size = 1000
max_client_conn = 2000
logfile = {folder}/pgbouncer.log
pidfile = {folder}/pgbouncer.pid
log_connections = 0
log_disconnections = 0
"""


@dataclass
class Bouncer:
    """A running PgBouncer."""

    port: int
    pid: int

    def connect(self) -> psycopg.Connection[object]:
        """A session of alice's on the facade, the same that the proxy would give her."""
        where = psycopg.conninfo.make_conninfo(
            host="127.0.0.1", port=self.port, user="alice", password=PASSWORD, dbname=FACADE
        )
        return psycopg.connect(where, autocommit=True)


def program() -> str:
    """Where PgBouncer is; raises SystemExit, saying how to get it."""
    found = shutil.which(PROGRAM) or shutil.which(PROGRAM, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise SystemExit("PgBouncer is missing: apt-get install pgbouncer (make bench-proxy does it)")
    return found


@contextmanager
def bouncer_at_work(stack: Stack) -> Iterator[Bouncer]:
    """A PgBouncer for alice, stopped at the end."""
    cluster, port = stack.cluster, free_port()
    with cluster.connect() as root:
        found = root.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'alice'").fetchone()
    assert found is not None
    users, config = cluster.folder / "pgbouncer.users", cluster.folder / "pgbouncer.ini"
    users.write_text(f'"alice" "{found[0]}"\n')
    config.write_text(CONFIG.format(database=FACADE, server_port=cluster.port, port=port, folder=cluster.folder))
    if cluster.paths.os_user:
        shutil.chown(users, cluster.paths.os_user)
    users.chmod(0o600)
    # It refuses to be root, and its log's file is its own.
    command = [*cluster.paths.as_server_user(), program(), "-q", str(config)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield Bouncer(port, _wait(process, cluster.folder / "pgbouncer.pid"))
    finally:
        process.terminate()
        process.wait(10)


def _wait(process: subprocess.Popen[bytes], path: Path) -> int:
    """The daemon's own process id: it is a child of the command that changes the user."""
    end = time.monotonic() + 10
    while not (path.exists() and path.read_text().strip()):
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError("PgBouncer did not start")
        time.sleep(0.02)
    return int(path.read_text())
