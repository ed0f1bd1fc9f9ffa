"""A private database that publishes a small world, and its facade, in a throw-away cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import psycopg
import pytest

from fix_cluster import Cluster, cluster_at_work
from pg_epsilon_proxy import facade as facade_package

T = TypeVar("T")

WORLD = Path(__file__).parent / "sql" / "facade_world.sql"


@dataclass(frozen=True)
class FacadeCluster:
    """A running server with databases `private` (the extension installed) and `facade`."""

    server: Cluster

    def dsn(self, database: str, user: str = "postgres") -> str:
        return self.server.dsn(user, database)

    def psycopg(self, database: str, user: str = "postgres") -> psycopg.Connection[Any]:
        return self.server.connect(user, database)

    async def asyncpg(self, database: str, user: str = "postgres") -> asyncpg.Connection[Any]:
        return await asyncpg.connect(
            host=str(self.server.folder), port=self.server.port, database=database, user=user, password="unused"
        )

    def policy(self, sql: str) -> None:
        """Runs `sql` in the private database and moves the policy version, as every policy procedure does."""
        with self.psycopg("private") as connection:
            connection.execute(f"{sql}; SELECT dp._bump_policy()")

    def gateway(self, job: Callable[[asyncpg.Connection[Any], asyncpg.Connection[Any]], Coroutine[Any, Any, T]]) -> T:
        """`job(private, facade)` with both connections logged in as dp_gateway."""

        async def run() -> T:
            private, facade = await self.asyncpg("private", "dp_gateway"), await self.asyncpg("facade", "dp_gateway")
            try:
                return await job(private, facade)
            finally:
                await private.close()
                await facade.close()

        return asyncio.run(run())

    def sync(self, *, rebuild: bool = False) -> int:
        return self.gateway(lambda private, facade: facade_package.sync(private, facade, rebuild=rebuild))

    def check(self) -> list[str]:
        return self.gateway(lambda private, facade: facade_package.check(facade, private))

    async def create(self) -> None:
        private = await self.asyncpg("private")
        await facade_package.create(private, "facade")
        await private.close()

    async def prepare(self) -> None:
        """With the same cluster as the source of public tables."""
        root = await self.asyncpg("facade")
        source = facade_package.ReaderSource("127.0.0.1", self.server.port, "private")
        await facade_package.prepare(root, "private", source)
        await root.close()


def _populate(cluster: FacadeCluster) -> None:
    server = cluster.server
    server.install()
    server.execute(
        "CREATE ROLE alice LOGIN IN ROLE dp_analyst",
        "CREATE ROLE boss LOGIN IN ROLE dp_admin",
        "GRANT CREATE ON DATABASE private TO boss",
        "ALTER DATABASE private SET TimeZone = 'Asia/Kolkata'",
        "ALTER DATABASE private SET DateStyle = 'ISO, DMY'",
        WORLD.read_text(encoding="utf-8"),
    )
    # Each step twice: all of them are repeatable.
    for _ in range(2):
        asyncio.run(cluster.create())
        asyncio.run(cluster.prepare())
        cluster.sync()


@pytest.fixture(scope="session")
def facade_cluster() -> Iterator[FacadeCluster]:
    """The cluster with the facade in step; a test that changes the policy or the facade puts it back."""
    with cluster_at_work(log_statement="all", max_prepared_transactions="2") as server:
        cluster = FacadeCluster(server)
        _populate(cluster)
        yield cluster


@pytest.fixture
def analyst(facade_cluster: FacadeCluster) -> Iterator[psycopg.Connection[Any]]:
    """alice's own session on the facade."""
    with facade_cluster.psycopg("facade", "alice") as connection:
        yield connection
