"""The sockets that clients connect to."""

from __future__ import annotations

import socket
from pathlib import Path

from pg_epsilon_proxy.config import Listen

BACKLOG = 128


def listen_tcp(host: str, port: int, *, shared: bool = False, waiting: bool = True) -> socket.socket:
    """shared: other processes of this user may listen on the same port. waiting: false only reserves it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if not waiting:
        reserved = socket.socket(family)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((host, port))
        return reserved
    return socket.create_server((host, port), family=family, backlog=BACKLOG, reuse_port=shared)


def unix_path(listen: Listen, port: int) -> Path:
    return Path(listen.unix_socket) / f".s.PGSQL.{port}"


def listen_unix(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(str(path))
    path.chmod(0o777)  # as PostgreSQL's: the login decides, not the file
    unix.listen(BACKLOG)
    return unix


def listen_all(listen: Listen) -> list[socket.socket]:
    """For a proxy of one process. Raises OSError if an address cannot be bound."""
    sockets = [listen_tcp(listen.host, listen.port)] if listen.host else []
    if listen.unix_socket:
        sockets.append(listen_unix(unix_path(listen, sockets[0].getsockname()[1] if sockets else listen.port)))
    return sockets
