"""What the proxy serves by: the facade in step with the policy, its net whole, the rewriter made from it (§4, §5)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import asyncpg

from pg_epsilon_proxy import facade as facades
from pg_epsilon_proxy.config import Config
from pg_epsilon_proxy.logs import event, failure
from pg_epsilon_proxy.metrics import Metrics
from pg_epsilon_proxy.rewrite.driver import SqlRewriter
from pg_epsilon_proxy.rewrite.names import Names
from pg_epsilon_proxy.session.login import verifying_tls
from pg_epsilon_proxy.session.rewriting import Rewriter

log = logging.getLogger("pg_epsilon_proxy.policy")

CHANNEL = "pg_epsilon_policy"
RETRY_SECONDS = 2.0
ATTEMPTS = 3  # a policy is often changed by several CALLs in a row
# A server that restarts, and nothing else: any other failure could be a damaged facade.
AWAY = (OSError, TimeoutError, asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError)
FUNCTIONS = """SELECT DISTINCT p.proname
  FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
 WHERE n.nspname = 'dp' AND p.proname LIKE 'dp\\_%' AND p.proname !~ '_(request|result)$'"""


class Source(Protocol):
    """Where a policy comes from. Tests put their own in its place."""

    async def refresh(self) -> tuple[list[str], Rewriter | None]:
        """Bring the facade into step, look for problems, make the rewriter. Any problem: nobody is served."""
        ...

    async def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` at each policy change; returns when it can hear no more."""
        ...


class FacadeSource:
    """The gateway role's view of both databases."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._again: Callable[[], None] = lambda: None
        self._behind = False
        self.version = 0
        self.left_out: tuple[Any, ...] = ()

    async def refresh(self) -> tuple[list[str], Rewriter | None]:
        async with gateway(self._config) as private, gateway(self._config, facade=True) as facade:
            for _ in range(ATTEMPTS):
                try:
                    await facades.sync(private, facade, again=not self.version)
                except facades.FacadeBusy:
                    break
                if not await facades.check(facade, private):
                    self._behind = False
                    return [], await self._rewriter(facade)
            # The policy moves on, or an open transaction holds what it changed. A whole net around an older shape
            # refuses every row, and the engine judges by today's policy: nobody is sent away for that.
            if problems := await facades.check(facade):
                return problems, None
            if not self._behind:
                log.warning("the facade is behind the policy: trying again until open transactions let it follow")
            self._behind = True
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._again)
            return [], await self._rewriter(facade, await _changed(private, facade))

    async def listen(self, changed: Callable[[], None]) -> None:
        self._again = changed
        lost = asyncio.Event()
        async with gateway(self._config) as private:
            private.add_termination_listener(lambda connection: lost.set())
            await private.add_listener(CHANNEL, lambda *event: changed())
            changed()
            await lost.wait()

    async def _rewriter(self, facade: Any, changed: frozenset[tuple[str, str]] = frozenset()) -> Rewriter:
        self.version = int(await facade.fetchval("SELECT version FROM dp_state.facade_state"))
        shown = await facades.relations(facade)
        functions = frozenset(row[0] for row in await facade.fetch(FUNCTIONS))
        published = await facades.held(facade)
        self.left_out = published.left_out
        return SqlRewriter(
            Names(
                frozenset((r.schema, r.name) for r in shown if r.kind == "protected"),
                frozenset((r.schema, r.name) for r in shown if r.kind == "catalog"),
                functions,
                changed,
                published.public,
                published.views,
                published.columns,
                left_out=published.unserved(),
            )
        )


async def _changed(private: Any, facade: Any) -> frozenset[tuple[str, str]]:
    """(schema, name) of the relations that the facade shows in another shape than the policy's, or not at all."""
    shapes = []
    for place, sql in (
        (private, "SELECT dp.facade_definition()"),
        (facade, "SELECT definition FROM dp_state.facade_state"),
    ):
        relations = json.loads(await place.fetchval(sql))["relations"]
        shapes.append({(relation["schema"], relation["name"]): relation for relation in relations})
    wanted, held = shapes
    return frozenset(name for name in wanted.keys() | held.keys() if wanted.get(name) != held.get(name))


class Policy:
    """The current rewriter, or the reason why there is none. on_problem: called when serving must stop."""

    def __init__(self, source: Source, on_problem: Callable[[], None], metrics: Metrics | None = None) -> None:
        self._source = source
        self._on_problem = on_problem
        self._metrics = metrics or Metrics()
        self._version: int | None = None
        self._left_out: tuple[Any, ...] = ()
        self._changed = asyncio.Event()
        self._rewriter: Rewriter | None = None
        self._unsure = False
        self.problems: list[str] = ["the policy has not been read yet"]

    @property
    def serving(self) -> bool:
        return self._rewriter is not None

    def rewriter(self) -> Rewriter:
        """Raises RuntimeError while nobody is served: such sessions are being closed."""
        if self._rewriter is None:
            raise RuntimeError("not serving")
        return self._rewriter

    async def refresh(self) -> None:
        try:
            problems, rewriter = await self._source.refresh()
            self._unsure = False
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            if self.serving and isinstance(error, AWAY):
                # The net was whole; an older shape refuses every row, and the engine judges by today's policy.
                self._unsure = True
                event(log, logging.WARNING, "policy cannot be read now", error=type(error).__name__)
                return
            problems, rewriter = [f"the databases cannot be asked: {type(error).__name__}: {error}"], None
        except Exception as error:  # whatever it is, serving on would be worse than serving nobody
            known = failure(error)
            problems, rewriter = [f"the policy cannot be read: {known['error']} at {known['place']}"], None
        if problems != self.problems:
            for problem in problems:
                event(log, logging.ERROR, "serving nobody", problem=problem)
        self.problems, self._rewriter = problems, rewriter if not problems else None
        self._metrics.set("pg_epsilon_serving", 1 if self.serving else 0)
        if self._rewriter is None:
            self._on_problem()
        else:
            self._note(getattr(self._source, "version", 0))
            self._tell(getattr(self._source, "left_out", ()))

    def _note(self, version: int) -> None:
        if version == self._version:
            return
        event(log, logging.INFO, "policy in force", version=version, before=self._version)
        if self._version is not None:
            self._metrics.add("pg_epsilon_policy_changes_total")
        self._version = version
        self._metrics.set("pg_epsilon_policy_version", version)

    def _tell(self, left_out: tuple[Any, ...]) -> None:
        """Names, SQLSTATE and PostgreSQL's sentence about a CREATE of public shape: no row was read for it."""
        relations = sum(item["part"] == "relations" for item in left_out)
        self._metrics.set("pg_epsilon_relations_left_out", relations)
        if left_out == self._left_out:
            return
        for item in left_out:
            facts = {"part": item["part"], "item": ".".join(item["name"]), "sqlstate": item["sqlstate"]}
            event(log, logging.ERROR, "left out of the facade", **facts, why=item["why"])
        if not left_out:
            event(log, logging.INFO, "nothing is left out of the facade any more")
        self._left_out = left_out

    async def keep(self) -> None:
        """Follow the policy for ever: at each notification, and again while something is wrong."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._forever(self._listen))
            group.create_task(self._forever(self._follow))

    async def _follow(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if self.serving and not self._unsure else RETRY_SECONDS):
                await self._changed.wait()
        self._changed.clear()
        await self.refresh()

    async def _listen(self) -> None:
        try:
            await self._source.listen(self._changed.set)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            log.warning("policy changes cannot be heard: %s", type(error).__name__)
        await asyncio.sleep(RETRY_SECONDS)

    async def _forever(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            await step()


@contextlib.asynccontextmanager
async def gateway(config: Config, *, facade: bool = False) -> AsyncIterator[Any]:
    """A connection of the gateway role to the private database, or to the facade."""
    place = config.facade if facade else config.private
    connection = await asyncpg.connect(
        host=place.host,
        port=place.port,
        database=place.dbname,
        user=config.private.user,
        password=config.gateway_password(),
        timeout=config.limits.login_timeout,
        **({"ssl": verifying_tls(place)} if place.tls else {}),
        server_settings={"application_name": "pg-epsilon policy"},
    )
    try:
        yield connection
    finally:
        await connection.close(timeout=config.limits.login_timeout)
