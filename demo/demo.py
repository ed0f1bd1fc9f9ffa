"""`make demo` and `make demo-stop`: pg_epsilon on real data, in a cluster of its own, and a guided psql session.

Each run makes the private database and the facade anew (from a loaded template: a second), because a ledger is for
ever: after a few demos the budget of a kept one would be spent, and only the demo may start over.
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
import os
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

from cluster import SUPERUSER, Cluster, Failed, free_port, is_listening
from guided import Session, read

HERE = Path(__file__).resolve().parent
PRIVATE, FACADE, TEMPLATE = "census", "census_facade", "census_rows"
OWNER, ANALYSTS = "census_owner", ("alice", "bob", "carol")
ROWS = 48842
PROXY_CONFIG = """\
[listen]
host = "127.0.0.1"
port = {proxy_port}

[private]
host = "127.0.0.1"
port = {port}
dbname = "{private}"
password = "{password}"

[facade]
host = "127.0.0.1"
port = {port}
dbname = "{facade}"
"""


def say(text: str) -> None:
    print(f"==> {text}", flush=True)


class Demo:
    def __init__(self) -> None:
        self.cluster = Cluster.here()

    def start(self) -> None:
        self.stop_proxy()
        say(f"PostgreSQL {self.cluster.paths.pg_version}: a cluster of its own in {self.cluster.directory}")
        self.cluster.create()
        self.cluster.start()
        self.make_roles()
        self.load()
        say("the extension, its roles and its channel, in a fresh private database with a full budget")
        self.make_private()
        say(f"policy: what {OWNER} declares (demo/policy.sql)")
        self.cluster.psql(PRIVATE, (HERE / "policy.sql").read_text(), role=OWNER)
        problems = self.cluster.psql(
            PRIVATE, "SELECT object, problem FROM dp.check() WHERE severity = 'error'", role=OWNER
        )
        if problems:
            raise Failed(f"dp.check() finds:\n{problems}")
        say("the facade: the shape of what is published, no rows")
        self.configure()
        self.make_facade()
        self.start_proxy()
        self.guide()
        self.farewell()

    def stop(self) -> None:
        proxy, server = self.stop_proxy(), self.cluster.stop()
        print("make demo-stop: OK (" + ("stopped" if proxy or server else "nothing was running") + ")")

    def make_roles(self) -> None:
        """The owner and the analysts: those that are missing, because an older demo's cluster may lack one."""
        there = self.cluster.psql("postgres", "SELECT rolname FROM pg_roles").splitlines()
        for role in (OWNER, *ANALYSTS):
            if role not in there:
                # The password in the server's log would be no secret: as a verifier, which is what the server keeps.
                self.cluster.psql("postgres", f"CREATE ROLE {role} LOGIN PASSWORD '{self.verifier(role)}'")

    def load(self) -> None:
        """Once: a database with the table and its rows, to copy from."""
        if self.cluster.psql("postgres", f"SELECT 1 FROM pg_database WHERE datname = '{TEMPLATE}' AND datistemplate"):
            return
        self.cluster.psql("postgres", f"ALTER ROLE {SUPERUSER} PASSWORD '{self.verifier(SUPERUSER)}'")
        say(f"loading UCI Adult: {ROWS:,} people")
        rows = gzip.decompress((HERE / "data/adult.csv.gz").read_bytes())
        self.cluster.psql("postgres", f"DROP DATABASE IF EXISTS {TEMPLATE}")
        self.cluster.psql("postgres", f"CREATE DATABASE {TEMPLATE}")
        self.cluster.psql(TEMPLATE, (HERE / "schema.sql").read_text())
        self.cluster.psql(TEMPLATE, "", command="\\copy adult FROM pstdin CSV HEADER", data=rows)
        found = self.cluster.psql(TEMPLATE, "VACUUM ANALYZE adult; SELECT count(*) FROM adult")
        if found != str(ROWS):
            raise Failed(f"adult has {found} rows instead of {ROWS}")
        self.cluster.psql("postgres", f"ALTER DATABASE {TEMPLATE} IS_TEMPLATE true")

    def verifier(self, role: str) -> str:
        return scram_verifier(self.cluster.password(role))

    def make_private(self) -> None:
        for database in (FACADE, PRIVATE):
            self.cluster.psql("postgres", f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        self.cluster.psql("postgres", f"CREATE DATABASE {PRIVATE} TEMPLATE {TEMPLATE}")
        self.cluster.psql(PRIVATE, (self.cluster.paths.build / "sql/pg_epsilon_install.sql").read_text())
        grants = f"GRANT dp_admin TO {OWNER}; GRANT dp_analyst TO {', '.join(ANALYSTS)};"
        grants += f"ALTER ROLE dp_gateway LOGIN PASSWORD '{self.verifier('dp_gateway')}';"
        grants += f"GRANT CONNECT ON DATABASE {PRIVATE} TO {OWNER}; GRANT CREATE ON SCHEMA public TO {OWNER};"
        # An analyst's login is good for the whole cluster, and any database's catalogs tell the sizes of all of them.
        grants += f"REVOKE CONNECT ON DATABASE postgres, template1, {TEMPLATE} FROM PUBLIC"
        self.cluster.psql(PRIVATE, grants)

    @property
    def config(self) -> str:
        return str(self.cluster.directory / "proxy.toml")

    def configure(self) -> None:
        """The proxy's settings; its port stays the same from run to run, unless somebody else has taken it."""
        if is_listening(int(self.cluster.remember("proxy port", str(free_port())))):
            del self.cluster.state["proxy port"]
        settings = PROXY_CONFIG.format(
            proxy_port=self.cluster.remember("proxy port", str(free_port())),
            port=self.cluster.port,
            private=PRIVATE,
            facade=FACADE,
            password=self.cluster.password("dp_gateway"),
        )
        self.cluster.write("proxy.toml", settings, private=True)

    def make_facade(self) -> None:
        """As a DBA does it: by the command, which reads the proxy's settings."""
        paths = self.cluster.paths
        more = {"PYTHONPATH": paths.proxy_pythonpath, "PG_EPSILON_ADMIN_PASSWORD": self.cluster.password(SUPERUSER)}
        for action in ("create", "sync"):
            command = [str(paths.python), "-m", "pg_epsilon_proxy.cli", "facade", action, "--config", self.config]
            self.cluster.run([*paths.as_server_user(), *command], self.cluster.environment(**more))

    def start_proxy(self) -> None:
        port = int(self.cluster.state["proxy port"])
        say(f"the proxy, on 127.0.0.1:{port}")
        paths = self.cluster.paths
        log = self.cluster.write("proxy.log", "", private=True)
        with log.open("ab") as out:
            process = subprocess.Popen(  # noqa: S603
                [str(paths.python), "-m", "pg_epsilon_proxy.cli", "proxy", "--config", self.config],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.cluster.directory,
                env=self.cluster.environment(PYTHONPATH=paths.proxy_pythonpath),
                user=paths.os_user,
                group=paths.os_user,
                extra_groups=[] if paths.os_user else None,
            )
        self.cluster.write("proxy.pid", str(process.pid))
        wait_until(lambda: process.poll() is not None or is_listening(port), 120)
        if process.poll() is not None or not is_listening(port):
            raise Failed(f"the proxy did not start:\n{log.read_text().strip()}")

    def stop_proxy(self) -> bool:
        """Ends the proxy that an earlier run started, if that process is still it."""
        remembered = self.cluster.directory / "proxy.pid"
        if not remembered.exists():
            return False
        process = Path("/proc") / remembered.read_text()
        try:
            # The number may belong to something else by now.
            ours = str(self.cluster.directory / "proxy.toml").encode() in (process / "cmdline").read_bytes()
        except OSError:
            ours = False
        if ours:
            os.kill(int(process.name), signal.SIGTERM)
            if not wait_until(lambda: not process.exists(), 10):
                os.kill(int(process.name), signal.SIGKILL)
        remembered.unlink()
        return ours

    def guide(self) -> None:
        say("a guided psql session, through the proxy (demo/session.sql)")
        sessions: dict[str, Session] = {}
        answers: dict[str, str] = {}
        user = ANALYSTS[0]
        try:
            for step in read(HERE / "session.sql"):
                user = step.user or user
                if user not in sessions:
                    sessions[user] = self.session(user)
                sessions[user].show(step, answers)
        finally:
            for session in sessions.values():
                session.close()

    def session(self, user: str) -> Session:
        where = f"host=127.0.0.1 port={self.cluster.state['proxy port']} dbname={PRIVATE} user={user}"
        environment = self.cluster.environment(PGPASSWORD=self.cluster.password(user))
        return Session([str(self.cluster.paths.bindir / "psql"), where], environment, f"{user}@{PRIVATE}")

    def farewell(self) -> None:
        print("\nConnect yourself, with psql or any other client (budgets start anew at the next `make demo`):\n")
        for user in ANALYSTS:
            where = f"host=127.0.0.1 port={self.cluster.state['proxy port']} dbname={PRIVATE} user={user}"
            print(f"  PGPASSWORD={self.cluster.password(user)} psql '{where}'")
        where = f"host=127.0.0.1 port={self.cluster.port} dbname={PRIVATE} user={OWNER}"
        print("\nThe owner sees the rows, and connects to the private database itself:\n")
        print(f"  PGPASSWORD={self.cluster.password(OWNER)} psql '{where}'\n")
        print("make demo: OK (every answer and every refusal was as expected; `make demo-stop` stops it)")


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def scram_verifier(password: str, iterations: int = 4096) -> str:
    """What PostgreSQL stores for a password (RFC 5803), so that the password itself is in no statement and no log."""
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt, iterations)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    parts = [b64encode(part).decode() for part in (salt, stored, server)]
    return f"SCRAM-SHA-256${iterations}:{parts[0]}${parts[1]}:{parts[2]}"


def main(arguments: list[str]) -> int:
    actions: dict[str, Callable[[Demo], None]] = {"start": Demo.start, "stop": Demo.stop}
    if len(arguments) != 1 or arguments[0] not in actions:
        print("usage: demo.py start | stop", file=sys.stderr)
        return 2
    try:
        actions[arguments[0]](Demo())
    except Failed as problem:
        print(f"\nmake demo: FAILED: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
