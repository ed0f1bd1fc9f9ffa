"""The demo's own PostgreSQL: an unprivileged user, a unix socket for the superuser, a loopback port for the rest."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
import paths as locations

SUPERUSER = "postgres"
# The superuser only over the socket, only for the operating system's users that run the server and the demo; everybody
# else with a password, the ledger channel's login too: dblink insists on one.
HBA = """\
local all {superuser} peer map=demo
host all all 127.0.0.1/32 scram-sha-256
"""
CONFIGURATION = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{socket}'
unix_socket_permissions = 0700
password_encryption = 'scram-sha-256'
extension_destdir = '{destdir}'
max_connections = 60
shared_buffers = '64MB'
log_destination = 'stderr'
log_statement = 'none'
"""


class Failed(Exception):
    """A step of the demo did not do what it should; the message is for the person who runs it."""


def free_port() -> int:
    """Below those that the kernel gives to clients' connections: it is used again at every start."""
    while True:
        port = 10_240 + secrets.randbelow(20_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Cluster:
    """Cluster, ports and passwords, remembered in DIRECTORY/state.json."""

    paths: locations.Paths
    directory: Path = field(init=False)
    state: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.directory = self.paths.runtime / "demo"
        self.directory.mkdir(mode=0o755, exist_ok=True)
        self.directory.chmod(0o755)
        self.give(self.directory)
        remembered = self.directory / "state.json"
        self.state = json.loads(remembered.read_text()) if remembered.exists() else {}

    @classmethod
    def here(cls) -> Cluster:
        try:
            return cls(locations.discover(refresh=True))
        except locations.NotFound as problem:
            raise Failed(str(problem)) from None

    def remember(self, name: str, value: str) -> str:
        """The remembered value of `name`; `value` becomes it the first time."""
        if name not in self.state:
            self.state[name] = value
            self.write("state.json", json.dumps(self.state, indent=2), private=True)
        return self.state[name]

    def password(self, role: str) -> str:
        return self.remember(f"password of {role}", secrets.token_urlsafe(12))

    def write(self, name: str, text: str, private: bool = False) -> Path:
        """A file of the demo's, readable by the server's user (if private: by nobody else)."""
        file = self.directory / name
        file.unlink(missing_ok=True)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            out.write(text)
        self.give(file)
        if not private:
            file.chmod(0o644)
        return file

    def give(self, path: Path) -> None:
        if self.paths.os_user:
            shutil.chown(path, self.paths.os_user)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def port(self) -> int:
        return int(self.state["port"])

    @property
    def socket_directory(self) -> Path:
        # A socket's path has at most 107 bytes.
        here = self.directory / "socket"
        if len(str(here)) < 90:
            return here
        return Path(self.remember("socket", f"/tmp/pg_epsilon-demo-{secrets.token_hex(6)}"))  # noqa: S108

    def environment(self, **more: str) -> dict[str, str]:
        """For the server and its tools: nothing of ours but what they need (PG* variables would redirect them)."""
        kept = {"PATH": "/usr/bin:/bin", "HOME": str(self.directory), "LC_ALL": "C.UTF-8"}
        return kept | self.paths.server_environment | more

    def tool(self, name: str, *arguments: str) -> str:
        """Run one of the server's programs as the server's user; its output, or Failed with what it said."""
        return self.run([*self.paths.as_server_user(), str(self.paths.bindir / name), *arguments], self.environment())

    def psql(
        self, database: str, sql: str, *, role: str | None = None, command: str | None = None, data: bytes = b""
    ) -> str:
        """Statements as the superuser over the socket, or as `role` over TCP; or one command that reads `data`."""
        where = ["-h", "127.0.0.1" if role else str(self.socket_directory), "-p", str(self.port), "-d", database]
        options = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", role or SUPERUSER]
        options += ["-c", command] if command else ["-f", "-"]
        environment = self.environment(PGPASSWORD=self.password(role)) if role else self.environment()
        return self.run([str(self.paths.bindir / "psql"), *where, *options], environment, data or sql.encode())

    def run(self, command: list[str], environment: dict[str, str], data: bytes = b"") -> str:
        done = subprocess.run(  # noqa: S603
            command,
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=self.directory,
            check=False,
        )
        text = done.stdout.decode(errors="replace").strip()
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}\n{text}")
        return text

    def create(self) -> None:
        """initdb and the configuration files; the ports are chosen once."""
        accounts = {pwd.getpwuid(os.geteuid()).pw_name, self.paths.os_user} - {None}
        if not (self.data / "PG_VERSION").exists():
            shutil.rmtree(self.data, ignore_errors=True)
            self.data.mkdir(mode=0o700)
            self.give(self.data)
            options = ["--encoding=UTF8", "--locale=C.UTF-8", "--auth=reject", "--no-sync", "--no-instructions"]
            self.tool("initdb", "-D", str(self.data), "-U", SUPERUSER, *options)
        if (self.data / "PG_VERSION").read_text().strip() != str(self.paths.pg_version):
            raise Failed(
                f"{self.data} was made by another PostgreSQL: `make demo-stop`, remove {self.directory}, try again"
            )
        self.remember("port", str(free_port()))
        self.socket_directory.mkdir(mode=0o700, exist_ok=True)
        self.give(self.socket_directory)
        settings = CONFIGURATION.format(port=self.port, socket=self.socket_directory, destdir=self.paths.destdir)
        for name, text in {
            "pg_hba.conf": HBA.format(superuser=SUPERUSER),
            "pg_ident.conf": "".join(f"demo {account} {SUPERUSER}\n" for account in accounts),
            "postgresql.auto.conf": settings,
        }.items():
            self.write(f"data/{name}", text, private=True)

    def is_running(self) -> bool:
        try:
            self.tool("pg_ctl", "status", "-D", str(self.data))
        except Failed:
            return False
        return True

    def start(self) -> None:
        if self.is_running():
            self.tool("pg_ctl", "restart", "-m", "fast", "-w", "-D", str(self.data), "-l", str(self.log))
        else:
            if is_listening(self.port):
                del self.state["port"]
                self.create()
            self.tool("pg_ctl", "start", "-w", "-D", str(self.data), "-l", str(self.log))

    @property
    def log(self) -> Path:
        return self.directory / "postgresql.log"

    def stop(self) -> bool:
        if not (self.data / "PG_VERSION").exists() or not self.is_running():
            return False
        self.tool("pg_ctl", "stop", "-m", "fast", "-w", "-D", str(self.data))
        return True
