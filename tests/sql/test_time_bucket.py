"""time_bucket as the proxy writes it, without TimescaleDB: what TimescaleDB gave, at every edge of a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_buckets
from fix_cluster import Cluster

Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def edges(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect() as conn:
        conn.execute(fix_buckets.TABLE)
        yield conn


@pytest.mark.parametrize("form", fix_buckets.FORMS)
def test_every_form_gives_what_timescaledb_gives(edges: Connection, form: str) -> None:
    expected = fix_buckets.recorded()
    for zone in fix_buckets.ZONES:
        edges.execute(f"SET TimeZone = '{zone}'")
        sql = fix_buckets.rewritten(edges, fix_buckets.query(form))
        assert "time_bucket" not in sql
        assert fix_buckets.values(edges, sql) == expected[f"{zone}\t{form}"]


def test_the_record_has_every_form() -> None:
    assert set(fix_buckets.recorded()) == {f"{z}\t{form}" for z in fix_buckets.ZONES for form in fix_buckets.FORMS}
