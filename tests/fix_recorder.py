"""A relay that notes the statements a client sends, a file format for them, and their replay by libpq.

The file: sessions, each introduced by `-- session`; statements, each introduced by a line `-- {...}` of JSON:
  how      "simple" (Query), "extended" (Parse, Bind, Execute) or "parse" (Parse that no Bind followed)
  outcome  "answered", or the SQLSTATE of the refusal, when it was replayed through the proxy
  types    parameter OIDs as the client gave them; values: strings, null, or {"hex": "..."} for the binary format
"""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from psycopg import pq

SSL, GSS, CANCEL = 80877103, 80877104, 80877102
# Ended by a cancel, or different in each run.
UNREPEATABLE = ("pg_sleep",)
# Asked twice, it shows nothing more.
QUESTION = re.compile(r"\s*(SELECT|WITH|SHOW|TABLE|VALUES)\b", re.I)
Value = tuple[bytes | None, int]


@dataclass(frozen=True)
class Statement:
    how: str
    sql: str
    types: tuple[int, ...] = ()
    values: tuple[Value, ...] = ()
    outcome: str = ""


Session = list[Statement]


def _text(body: bytes) -> tuple[str, bytes]:
    text, rest = body.split(b"\0", 1)
    return text.decode(), rest


def _numbers(body: bytes, code: str) -> tuple[tuple[int, ...], bytes]:
    """A count and as many numbers."""
    (count,) = struct.unpack_from("!H", body)
    end = 2 + count * struct.calcsize("!" + code)
    return struct.unpack_from(f"!{count}{code}", body, 2), body[end:]


def _bound(body: bytes) -> tuple[Value, ...]:
    """The values of a Bind message, after the two names."""
    formats, body = _numbers(body, "H")
    (count,) = struct.unpack_from("!H", body)
    place, values = 2, []
    for i in range(count):
        (size,) = struct.unpack_from("!i", body, place)
        place += 4
        shape = 0 if not formats else formats[0] if len(formats) == 1 else formats[i]
        values.append((None if size < 0 else body[place : place + size], shape))
        place += max(size, 0)
    return tuple(values)


@dataclass
class _Listener:
    """Reads the messages of one client."""

    session: Session = field(default_factory=list)
    parsed: dict[str, Statement] = field(default_factory=dict)
    unbound: dict[str, Statement] = field(default_factory=dict)

    def message(self, kind: bytes, body: bytes) -> None:
        if kind == b"Q":
            self._note(Statement("simple", _text(body)[0]))
        elif kind == b"P":
            name, rest = _text(body)
            sql, rest = _text(rest)
            self.parsed[name] = self.unbound[name] = Statement("extended", sql, _numbers(rest, "I")[0])
        elif kind == b"B":
            name, rest = _text(_text(body)[1])
            if name in self.parsed:
                self.unbound.pop(name, None)
                self._note(replace(self.parsed[name], values=_bound(rest)))
        elif kind in b"SX":
            for statement in self.unbound.values():
                self._note(replace(statement, how="parse"))
            self.unbound.clear()

    def _note(self, statement: Statement) -> None:
        if self.session[-1:] != [statement] and not any(word in statement.sql for word in UNREPEATABLE):
            self.session.append(statement)


class _Server:
    """Takes clients on a port of its own and carries every byte to 127.0.0.1:`target`; answers N to TLS and GSS."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._listeners: list[_Listener] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def sessions(self) -> list[Session]:
        """What changes a session, and each different question once, whatever its values and numbers."""
        seen: set[tuple[Any, ...]] = set()
        found = []
        for listener in self._listeners:
            session = []
            for statement in listener.session:
                kind = (statement.how == "simple", re.sub(r"\d+", "0", statement.sql))
                if kind not in seen or not QUESTION.match(statement.sql):
                    session.append(statement)
                seen.add(kind)
            if any(QUESTION.match(statement.sql) for statement in session):
                found.append(session)
        return found

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as server:
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            try:
                self._forward(client, server)
                server.shutdown(socket.SHUT_WR)
            except OSError:
                server.close()
            back.join()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with client.makefile("rb") as stream:
            while True:
                head = stream.read(8)
                if len(head) < 8:
                    return
                length, code = struct.unpack("!II", head)
                if code not in (SSL, GSS):
                    break
                client.sendall(b"N")
            server.sendall(head + stream.read(length - 8))
            if code == CANCEL:
                return
            listener = _Listener()
            self._listeners.append(listener)
            while len(head := stream.read(5)) == 5:
                kind, length = head[:1], struct.unpack("!I", head[1:])[0]
                body = stream.read(length - 4)
                listener.message(kind, body)
                server.sendall(head + body)


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def outcome(connection: pq.abc.PGconn, statement: Statement) -> str:
    """Send a statement as it was sent; "answered", or the SQLSTATE."""
    sql = statement.sql.encode()
    if statement.how == "simple":
        connection.send_query(sql)
    elif statement.how == "parse":
        connection.send_prepare(b"", sql, statement.types)
    else:
        values, formats = [v for v, _ in statement.values], [pq.Format(f) for _, f in statement.values]
        # libpq wants an OID for each parameter; 0 leaves it to the server, as a client does that gives none
        types = [*statement.types, *[0] * (len(values) - len(statement.types))]
        connection.send_query_params(sql, values, param_types=types, param_formats=formats)
    connection.flush()
    said = "answered"
    while (result := connection.get_result()) is not None:
        if result.status == pq.ExecStatus.FATAL_ERROR:
            said = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"?????").decode()
        elif result.status == pq.ExecStatus.COPY_OUT:
            while connection.get_copy_data(0)[0] != -1:
                pass
        elif result.status == pq.ExecStatus.COPY_IN:
            connection.put_copy_end()
    return said


def replayed(dsn: str, sessions: Iterable[Session]) -> list[Session]:
    """The sessions with their outcomes of now, each in a session of its own."""
    found = []
    for session in sessions:
        connection = pq.PGconn.connect(dsn.encode())
        assert connection.status == pq.ConnStatus.OK, connection.error_message
        connection.notice_handler = lambda _: None
        found.append([replace(statement, outcome=outcome(connection, statement)) for statement in session])
        connection.finish()
    return found


def _shown(value: Value) -> Any:
    data, shape = value
    return None if data is None else {"hex": data.hex()} if shape else data.decode()


def _read(value: Any) -> Value:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"]), 1
    return None if value is None else value.encode(), 0


def written(sessions: Iterable[Session]) -> str:
    lines = []
    for session in sessions:
        lines.append("-- session")
        for statement in session:
            facts: dict[str, Any] = {"how": statement.how, "outcome": statement.outcome}
            if statement.types:
                facts["types"] = statement.types
            if statement.values:
                facts["values"] = [_shown(value) for value in statement.values]
            lines += [f"-- {json.dumps(facts)}", statement.sql]
    return "\n".join(lines) + "\n"


def read(text: str) -> list[Session]:
    """The inverse of `written`."""
    sessions: list[Session] = []
    facts: dict[str, Any] | None = None
    sql: list[str] = []

    def finish() -> None:
        if facts is not None:
            values = tuple(_read(value) for value in facts.get("values", ()))
            statement = Statement(facts["how"], "\n".join(sql), tuple(facts.get("types", ())), values, facts["outcome"])
            sessions[-1].append(statement)

    for line in text.removesuffix("\n").split("\n"):
        if line == "-- session" or line.startswith("-- {"):
            finish()
            facts, sql = None, []
            if line == "-- session":
                sessions.append([])
            else:
                facts = json.loads(line[3:])
        else:
            sql.append(line)
    finish()
    return sessions


class Relay:
    """A _Server in a process of its own: pyodbc holds the interpreter's lock while it waits for an answer."""

    def __init__(self, target: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def finish(self) -> list[Session]:
        """End it; what it noted."""
        if self._process.poll() is not None:
            return []
        return read(self._process.communicate(timeout=120)[0])


if __name__ == "__main__":
    server = _Server(int(sys.argv[1]))
    print(server.port, flush=True)
    sys.stdin.read()
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    print(written(server.sessions), end="")
