"""time_bucket as the proxy writes it, beside TimescaleDB's own, row by row. make test-timescale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_buckets
from fix_cluster import Cluster, standard_cluster

Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    preload = {"shared_preload_libraries": "timescaledb", "timescaledb.max_background_workers": "0"}
    with standard_cluster(**preload, **{"timescaledb.telemetry_level": "off"}) as running:
        running.execute("CREATE EXTENSION timescaledb")
        yield running


@pytest.fixture(scope="module")
def edges(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect() as conn:
        conn.execute(fix_buckets.TABLE)
        yield conn


@pytest.mark.parametrize("form", fix_buckets.FORMS)
def test_every_form_gives_what_time_bucket_gives(edges: Connection, form: str) -> None:
    for zone in fix_buckets.ZONES:
        edges.execute(f"SET TimeZone = '{zone}'")
        own = fix_buckets.values(edges, fix_buckets.query(form))
        assert fix_buckets.values(edges, fix_buckets.rewritten(edges, fix_buckets.query(form))) == own
        assert fix_buckets.recorded()[f"{zone}\t{form}"] == own
