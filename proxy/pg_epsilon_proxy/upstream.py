"""The private database, over asyncpg as the gateway role (facade-and-channel.md §3). No analyst SQL passes (R1)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import asyncpg

from pg_epsilon_proxy.backoff import Backoff
from pg_epsilon_proxy.config import Config
from pg_epsilon_proxy.logs import event
from pg_epsilon_proxy.metrics import Metrics
from pg_epsilon_proxy.outdated import Versions
from pg_epsilon_proxy.session.login import verifying_tls
from pg_epsilon_proxy.session.rewriting import Refusal
from pg_epsilon_proxy.upstream_errors import Lost, is_ended, not_completed, refusal_of, unavailable
from pg_epsilon_proxy.witness import Witness, WitnessError

log = logging.getLogger("pg_epsilon_proxy.upstream")

Heard = Callable[[str], None]
CLOSE_SECONDS = 5.0
MAX_NAME = 63  # bytes
KEEP_SECONDS = 2.0
BUDGETS = (
    "pg_epsilon_budget_epsilon",
    "pg_epsilon_budget_epsilon_left",
    "pg_epsilon_budget_used_ratio",
    "pg_epsilon_budget_frozen",
)
# One round trip: a statement is its own transaction, and the row that names the analyst exists before the call is made.
_AS = "WITH who AS MATERIALIZED (SELECT pg_catalog.set_config('dp.analyst', $1, true) AS name)"
_QUERY = (
    "WITH who AS MATERIALIZED (SELECT pg_catalog.set_config('dp.analyst', $1, true) AS name,"
    " pg_catalog.set_config('dp.witness', $3, true) AS witness)"
    " SELECT dp.dp_query($2::jsonb)::text FROM who WHERE name = $1 AND witness = $3"
)
_TOTALS = "SELECT dataset, epsilon, epsilon_left, used, frozen FROM dp.budget_totals()"
_PLAN = f"{_AS} SELECT dp.dp_plan($2::jsonb)::text FROM who WHERE name = $1"


class UpstreamPool:
    """A small pool: a call holds one connection for one transaction, and names the analyst in it.

    Some connections are kept open with the engine loaded in them and behind them (`dp.warm`), before anybody asks.
    """

    def __init__(self, config: Config, metrics: Metrics | None = None) -> None:
        self._config = config
        self._metrics = metrics or Metrics()
        self.witness = Witness(state) if (state := config.state_dir()) else None
        self._pool: Any = None
        self._retiring: set[asyncio.Task[None]] = set()
        self._backoff = Backoff(lambda: asyncio.get_running_loop().time())
        self._warm: set[int] = set()
        self._versions = Versions()
        self._can_warm = True
        self._keeper: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Raises what asyncpg raises if the private database cannot be reached, and WitnessError."""
        if self.witness is None:
            event(log, logging.WARNING, "no witness of the ledger: proxy.state_dir is empty")
        else:
            self.witness.open()
        self._pool = await asyncpg.create_pool(
            **self.connect_arguments(),
            min_size=1,
            max_size=self._config.private.pool_size,
            max_inactive_connection_lifetime=0,
            statement_cache_size=64,
            connect=self._connect,
            init=self._prepare,
            reset=_nothing_to_reset,
        )
        await self.warm()
        self._keeper = asyncio.ensure_future(self._keep())

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        if self._retiring:
            await asyncio.wait(self._retiring)
        if self._pool is not None:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._pool.close()
            except TimeoutError:
                self._pool.terminate()

    def reload(self, config: Config) -> None:
        """Takes over how long a call waits for a connection."""
        self._config = config

    def count(self) -> None:
        """Put the pool's state into the metrics."""
        size, idle = self._pool.get_size(), self._pool.get_idle_size()
        retiring = len(self._retiring)
        for state, number in (("idle", idle), ("busy", max(0, size - idle - retiring)), ("retiring", retiring)):
            self._metrics.set("pg_epsilon_pool_connections", number, state)

    async def _connect(self, *args: Any, **kwargs: Any) -> Any:
        """Calls that come while the database is away wait for their turn within their own time limit."""
        if (seconds := self._backoff.wait) > 0:
            await asyncio.sleep(seconds)
        try:
            connection = await asyncpg.connect(*args, **kwargs)
        except Exception:  # not a cancel, which says nothing about the database
            self._tried(False)
            raise
        self._tried(True)
        return connection

    def _tried(self, ok: bool) -> None:
        self._backoff.tried(ok)
        self._metrics.add("pg_epsilon_pool_connects_total", "yes" if ok else "no")

    async def _prepare(self, connection: Any) -> None:
        """An `ALTER ROLE dp_gateway SET dp.analyst` would be believed: such a connection is not used."""
        if await connection.fetchval("SELECT pg_catalog.current_setting('dp.analyst', true)"):
            raise asyncpg.InterfaceError(
                "dp.analyst is set outside a transaction: reset it for the gateway role and database"
            )
        await self._versions.note(connection)

    async def warm(self) -> None:
        """Open the wanted number of connections, with the engine loaded. A channel in trouble is logged, no more."""
        private = self._config.private
        busy = self._pool.get_size() - self._pool.get_idle_size()
        wanted = min(private.pool_warm, private.pool_size - busy)
        held: list[Any] = []
        try:
            for _ in range(wanted):
                held.append(await self._pool.acquire(timeout=self._config.limits.acquire_timeout))
            await asyncio.gather(*(self._load(connection) for connection in held))
        finally:
            for connection in held:
                await self._pool.release(connection)

    async def _load(self, connection: Any) -> None:
        pid = connection.get_server_pid()
        if pid in self._warm or not self._can_warm:
            return
        try:
            await connection.fetchval("SELECT dp.warm()")
        except (asyncpg.UndefinedFunctionError, asyncpg.InvalidSchemaNameError):
            self._can_warm = False  # an extension of an earlier version: it works, its first calls are slow
        except asyncpg.PostgresError as error:
            event(log, logging.WARNING, "the engine does not answer", sqlstate=error.sqlstate)
        else:
            self._warm.add(pid)

    async def _keep(self) -> None:
        """A connection that ended is opened again before somebody needs it."""
        down = False
        while True:
            await asyncio.sleep(max(KEEP_SECONDS, self._backoff.wait))
            try:
                await self.warm()
            except Exception as error:  # whatever it is, it is tried again
                if not down:
                    event(log, logging.ERROR, "private database cannot be reached", error=type(error).__name__)
                down = True
            else:
                if down:
                    event(log, logging.INFO, "private database is back")
                down = False

    async def budgets(self) -> None:
        """Put every dataset's cap and remainder into the metrics: sums of charges, public facts. Raises Refusal."""
        rows = await self.call(None, _TOTALS, reads=True)
        for name in BUDGETS:
            self._metrics.forget(name)
        for dataset, *figures in rows:
            for name, figure in zip(BUDGETS, figures, strict=True):
                if figure is not None:
                    self._metrics.set(name, float(figure), str(dataset))

    def connect_arguments(self) -> dict[str, Any]:
        private = self._config.private
        return {
            "host": private.host,
            "port": private.port,
            "database": private.dbname,
            "user": private.user,
            "password": self._config.gateway_password(),
            "server_settings": {"application_name": "pg-epsilon proxy"},
            **({"ssl": verifying_tls(private)} if private.tls else {}),
        }

    def as_analyst(self, analyst: str) -> Upstream:
        return Upstream(self, analyst)

    async def verifier(self, role: str) -> str | None:
        """The SCRAM verifier of a role that may log in as an analyst; None for any other. Raises Refusal."""
        if len(role.encode()) > MAX_NAME:
            return None  # PostgreSQL would cut it, and then it would be another role's name
        rows = await self.call(None, "SELECT dp.verifier($1)", (role,), reads=True)
        return None if rows[0][0] is None else str(rows[0][0])

    async def call(
        self,
        analyst: str | None,
        sql: str,
        args: Sequence[Any] = (),
        timeout: float | None = None,  # noqa: ASYNC109  (the analyst's own limit)
        *,
        reads: bool = False,
        kept: bool = False,
        heard: Heard | None = None,
    ) -> list[tuple[Any, ...]]:
        """Rows of one statement of ours in a transaction of its own, on behalf of `analyst`. Raises Refusal.

        analyst None: the statement needs no identity, or names it itself. reads: it changes and charges nothing; where
        its connection ends, it is asked once more over another one, so that one that died in the pool refuses nobody.
        kept: asked again it is not charged again, because the engine keeps its answer, or owes it; where the backend
        was outdated, it is asked once more over a new one. heard: called with each NOTICE of the engine's own that
        comes before the rows.
        """
        try:
            return await self._attempt(analyst, sql, args, timeout, heard)
        except Lost as lost:
            outdated = await self._versions.differ(lost.pid, self._apart, self._config.limits.acquire_timeout)
            if outdated:  # and so is every other one that was open by then
                await self._pool.expire_connections()
            if not (reads or (kept and outdated)):
                raise unavailable(lost.error) from None
        event(log, logging.WARNING, "a connection of the pool has ended; what it was asked is asked again")
        try:
            return await self._attempt(analyst, sql, args, timeout, heard)
        except Lost as lost:
            raise unavailable(lost.error) from None

    async def _attempt(
        self,
        analyst: str | None,
        sql: str,
        args: Sequence[Any],
        timeout: float | None,  # noqa: ASYNC109
        heard: Heard | None,
    ) -> list[tuple[Any, ...]]:
        """`call` over one connection. Raises Refusal, and Lost where that connection ended."""
        try:
            connection = await self._pool.acquire(timeout=self._config.limits.acquire_timeout)
        except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise unavailable(error) from None
        pid = connection.get_server_pid()
        try:
            with _listening(connection, heard):
                async with asyncio.timeout(timeout):
                    rows = await _transaction(connection, analyst, sql, args)
        except asyncpg.PostgresError as error:
            if is_ended(error):
                self._retire(connection)
                raise Lost(error, pid) from None
            await self._rolled_back(connection, analyst is not None)
            raise refusal_of(error) from None
        except TimeoutError:
            self._retire(connection)
            raise Refusal("57014", "canceling statement due to statement timeout") from None
        except asyncio.CancelledError:
            self._retire(connection)
            raise
        except Exception as error:
            self._retire(connection)
            raise Lost(error, pid) from None
        await self._pool.release(connection)
        return rows

    async def _apart(self) -> Any:
        """A connection outside the pool, whose places may all be taken."""
        return await self._connect(**self.connect_arguments())

    async def _rolled_back(self, connection: Any, in_transaction: bool) -> None:
        """A connection that cannot roll back is dropped; so is one whose caller is cancelled meanwhile."""
        try:
            if in_transaction:
                await connection.execute("ROLLBACK")
            await self._pool.release(connection)
        except asyncio.CancelledError:
            self._retire(connection)
            raise
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            self._retire(connection)

    def _retire(self, connection: Any) -> None:
        """A backend inside PL/Python may not notice a cancel for seconds: nobody waits for it, nobody gets it next."""
        self._metrics.add("pg_epsilon_pool_retired_total")
        task = asyncio.ensure_future(self._close(connection))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _close(self, connection: Any) -> None:
        # A close that fails has cut the connection by itself, and one that the server ended is in nobody's place.
        with contextlib.suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            self._warm.discard(connection.get_server_pid())
            self._versions.forget(connection.get_server_pid())
            await connection.close(timeout=CLOSE_SECONDS)
        await self._pool.release(connection)


class Upstream:
    """AnalystUpstream (session/rewriting.py)."""

    def __init__(self, pool: UpstreamPool, analyst: str) -> None:
        self._pool = pool
        self._analyst = analyst

    async def query(
        self,
        request: dict[str, Any],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  (the analyst's own limit)
        heard: Heard | None = None,
    ) -> dict[str, Any]:
        """What a paid reply says of the chain is kept before the reply goes on. Raises Refusal."""
        witness = self._pool.witness
        try:
            seen = "" if witness is None else witness.text()
            kept = not request.get("fresh")  # a fresh answer is a new charge: who asks for it repeats it
            document = await self._document(_QUERY, request, timeout, seen, kept=kept, heard=heard)
            chain = document.pop("chain", None)
            if witness is not None and chain is not None:
                await witness.keep(chain)
        except WitnessError as error:
            event(log, logging.ERROR, "the witness of the ledger failed", error=str(error))
            raise not_completed() from None
        return document

    async def plan(self, request: dict[str, Any]) -> dict[str, Any]:
        return await self._document(_PLAN, request, None, reads=True)

    async def rows(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a view or a look-up shows; such a statement only reads. Raises Refusal."""
        return await self._pool.call(self._analyst, sql, args, reads=True)

    async def _document(
        self,
        sql: str,
        request: dict[str, Any],
        seconds: float | None,
        *more: str,
        reads: bool = False,
        kept: bool = False,
        heard: Heard | None = None,
    ) -> dict[str, Any]:
        arguments = (self._analyst, json.dumps(request), *more)
        rows = await self._pool.call(None, sql, arguments, seconds, reads=reads, kept=kept, heard=heard)
        document = json.loads(rows[0][0]) if rows and rows[0][0] is not None else None
        if not isinstance(document, dict):
            raise not_completed()
        return document


async def _nothing_to_reset(connection: Any) -> None:
    """The gateway's sessions hold no state: the analyst's name is local to a transaction."""


@contextlib.contextmanager
def _listening(connection: Any, heard: Heard | None) -> Iterator[None]:
    """PostgreSQL's own notices can name what was not published: those of class DP are the engine's words."""
    if heard is None:
        yield
        return

    def pass_on(_: Any, message: Any) -> None:
        if (message.sqlstate or "").startswith("DP0"):
            heard(str(message.message))

    connection.add_log_listener(pass_on)
    try:
        yield
    finally:
        connection.remove_log_listener(pass_on)


async def _transaction(connection: Any, analyst: str | None, sql: str, args: Sequence[Any]) -> list[tuple[Any, ...]]:
    if analyst is None:
        return [tuple(row) for row in await connection.fetch(sql, *args)]
    # Not asyncpg's context manager: on a cancel it would wait for the backend before it lets go.
    await connection.execute("BEGIN")
    await connection.fetchval("SELECT pg_catalog.set_config('dp.analyst', $1, true)", analyst)
    rows = [tuple(row) for row in await connection.fetch(sql, *args)]
    await connection.execute("COMMIT")
    return rows
