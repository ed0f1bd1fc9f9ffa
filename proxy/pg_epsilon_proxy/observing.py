"""Watches connections from outside the session: what is counted and logged of them, never a statement or a value.

A session's relay, statements and refusals know nothing of this: the watch stands where the server hands them their
private side and their queue of owed answers.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncpg

from pg_epsilon_proxy.logs import event
from pg_epsilon_proxy.metrics import Metrics
from pg_epsilon_proxy.session.pending import Expected, Pending
from pg_epsilon_proxy.session.rewriting import AnalystUpstream, Refusal
from pg_epsilon_proxy.tls import ClientStream
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Piece
from pg_epsilon_proxy.wire.startup import packet_code

log = logging.getLogger("pg_epsilon_proxy.session")

REFUSALS = frozenset({"DP001", "DP002", "DP003", "DP004", "DP005", "DP006", "42501"})
# An analyst may RAISE any five letters: only codes of this list become labels, or the metrics would grow without end.
CODES = REFUSALS | {
    str(item.sqlstate) for item in vars(asyncpg.exceptions).values() if isinstance(getattr(item, "sqlstate", None), str)
}
ERROR = ord("E")
_numbers = itertools.count(1)


def known(code: str) -> str:
    return code if code in CODES else "other"


def sqlstate_of(raw: bytes) -> str:
    return known(messages.read_fields(raw).get("C", b"").decode("latin-1"))


class Watch:
    """One connection, from accept to close."""

    def __init__(self, metrics: Metrics, address: str) -> None:
        self.metrics = metrics
        self.asked = False
        self._address = address
        self._user: str | None = None
        self._found: bool | None = None
        self._session: str | None = None
        self._started = time.monotonic()
        metrics.add("pg_epsilon_connections_total")

    def look_up(self, verifier: Callable[[str], Awaitable[str | None]]) -> Callable[[str], Awaitable[str | None]]:
        """The same look-up, remembering for the log whether there was a verifier: the client is never told."""

        async def remembered(role: str) -> str | None:
            self._user = role
            text = await verifier(role)
            self._found = text is not None
            return text

        return remembered

    def refused(self, raw: bytes) -> None:
        """An error before the session began. The log says which kind of failure it was, the client is not told."""
        if self._session is not None:
            return
        code = sqlstate_of(raw)
        self.metrics.add("pg_epsilon_logins_failed_total", code)
        reason = None
        if code in ("28P01", "28000") and self._found is not None:
            reason = "wrong password" if self._found else "no such analyst"
        event(
            log, logging.WARNING, "login failed", user=self._user, address=self._address, sqlstate=code, reason=reason
        )

    def began(self, user: str, client: ClientStream, packet: bytes) -> None:
        tls = client.writer.get_extra_info("ssl_object")
        version = packet_code(packet)
        self._user, self._session = user, f"{os.getpid()}-{next(_numbers)}"
        self._started = time.monotonic()
        self.metrics.add("pg_epsilon_sessions_total", "off" if tls is None else "on")
        self.metrics.add("pg_epsilon_sessions")
        self._tell(
            logging.INFO,
            "session begins",
            user=user,
            address=self._address,
            tls="off" if tls is None else str(tls.version()),
            protocol=f"{version >> 16}.{version & 0xFFFF}",
        )

    def ended(self, how: str) -> None:
        if self._session is None:
            return
        self.metrics.add("pg_epsilon_sessions", by=-1)
        self._tell(
            logging.INFO, "session ends", user=self._user, seconds=round(time.monotonic() - self._started, 3), how=how
        )

    def error(self, raw: bytes) -> None:
        """An ErrorResponse that the client gets in its session."""
        code = sqlstate_of(raw)
        self.metrics.add("pg_epsilon_errors_total", code)
        if code in REFUSALS:
            self._tell(logging.INFO, "refused", user=self._user, sqlstate=code)

    def wrote(self, write: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """`write`, for messages that do not come through the queue of owed answers."""

        def counted(data: bytes) -> None:
            if data[:1] == b"E":
                self.error(data)
            write(data)

        return counted

    def called(self, path: str, seconds: float, **facts: str | None) -> None:
        self.metrics.observe("pg_epsilon_dp_call_seconds", seconds, path)
        self._tell(logging.INFO, "dp call", user=self._user, path=path, ms=round(seconds * 1000, 1), **facts)

    def _tell(self, level: int, name: str, **facts: str | float | None) -> None:
        event(log, level, name, session=self._session, **facts)


class WatchedPending(Pending):
    """The facade's debts, and with them: errors that the client gets, seconds from a message to its ReadyForQuery."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch
        self._since: float | None = None

    @property
    def idle(self) -> bool:
        """Between two statements, outside a transaction block."""
        return self._since is None and self.status == b"I"

    def sent(self, expected: Expected) -> None:
        if self._since is None:
            self._since = time.perf_counter()
        super().sent(expected)

    def received(self, piece: Piece) -> bytes:
        data = super().received(piece)
        if piece.kind == ERROR and data:
            self._watch.error(data)
        elif piece.kind == ord("Z") and data:  # without data: it ends probes of ours, the statement follows
            self._ended()
        return data

    def _ended(self) -> None:
        if self._since is not None:
            asked = "yes" if self._watch.asked else "no"
            self._watch.metrics.observe("pg_epsilon_statement_seconds", time.perf_counter() - self._since, asked)
        # Pipelined: the next batch has been under way since then at the latest.
        self._since = time.perf_counter() if len(self) else None
        self._watch.asked = False


class WatchedUpstream:
    """AnalystUpstream (session/rewriting.py) that counts and logs calls."""

    def __init__(self, inner: AnalystUpstream, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    async def query(
        self,
        request: dict[str, Any],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  (the analyst's own limit)
        heard: Callable[[str], None] | None = None,
    ) -> dict[str, Any]:
        started, told = time.perf_counter(), False
        self._watch.asked = True
        try:
            answer = await self._inner.query(request, timeout=timeout, heard=heard)
            self._answered(answer, time.perf_counter() - started)
            told = True
        except Refusal as refusal:
            path = "cancelled" if refusal.sqlstate == "57014" else "refused"
            self._watch.called(path, time.perf_counter() - started, sqlstate=known(refusal.sqlstate))
            told = True
            raise
        except asyncio.CancelledError:
            self._watch.called("cancelled", time.perf_counter() - started)
            told = True
            raise
        finally:
            if not told:
                self._watch.called("failed", time.perf_counter() - started)
        return answer

    def _answered(self, answer: dict[str, Any], seconds: float) -> None:
        """Public facts of the answer only: no column, no value, no text of the question."""
        notice = answer.get("notice")
        notice = notice if isinstance(notice, dict) else {}
        path = "cached" if notice.get("path") == "cache" else "paid" if notice.get("charge") else "free"
        facts = {"request": answer.get("request_id"), "mechanism": notice.get("mechanism")}
        self._watch.called(path, seconds, **{key: None if v is None else str(v) for key, v in facts.items()})

    async def plan(self, request: dict[str, Any]) -> dict[str, Any]:
        self._watch.asked = True
        return await self._inner.plan(request)

    async def rows(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self._watch.asked = True
        return await self._inner.rows(sql, args)
