"""TPC-H at scale 0.01 whose unit is a customer, and a graph whose unit is a vertex: for questions over joins."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterable
from pathlib import Path

from fix_cluster import Cluster

DATA = Path(__file__).parent / "data"
SHOP_PATH = "SET search_path = tpch, public;"
FIXTURES = Path(__file__).parent / "fixtures"


def load_shop(cluster: Cluster, *, owner: str = "boss") -> None:
    """The five tables and their rows in schema tpch, protected and published; customers are the units."""
    cluster.psql("CREATE SCHEMA tpch;" + SHOP_PATH + _script("tpch"), user=owner)
    with cluster.connect(owner) as connection:
        for table in ("region", "nation", "customer", "orders", "lineitem"):
            with connection.cursor().copy(f"COPY tpch.{table} FROM STDIN (FORMAT csv, HEADER)") as copy:
                copy.write(gzip.decompress((DATA / "tpch" / f"{table}.csv.gz").read_bytes()))
        connection.execute("ANALYZE")
    cluster.psql(SHOP_PATH + _script("tpch_policy"), user=owner)


def load_graph(cluster: Cluster, edges: Iterable[tuple[int, int]], *, owner: str = "boss") -> None:
    """Undirected edges, each stored in both directions, as R2T's queries expect; vertices are the units."""
    cluster.psql(_script("graph"), user=owner)
    both = sorted({pair for a, b in edges for pair in ((a, b), (b, a)) if a != b})
    with cluster.connect(owner) as connection:
        with connection.cursor().copy("COPY node FROM STDIN") as copy:
            for vertex in sorted({a for a, _ in both}):
                copy.write_row((vertex,))
        with connection.cursor().copy("COPY edge FROM STDIN") as copy:
            for pair in both:
                copy.write_row(pair)
        connection.execute("ANALYZE")
    cluster.psql(_script("graph_policy"), user=owner)


def power_law_graph(vertices: int, edges: int, seed: int) -> set[tuple[int, int]]:
    """Chung-Lu: the ends of an edge by weights (i + 5)^-0.62, so that few vertices have many edges and triangles."""
    source = random.Random(seed)
    weights = [(i + 5) ** -0.62 for i in range(vertices)]
    found: set[tuple[int, int]] = set()
    while len(found) < edges:
        a, b = source.choices(range(1, vertices + 1), weights, k=2)
        if a != b:
            found.add((min(a, b), max(a, b)))
    return found


def _script(name: str) -> str:
    return (FIXTURES / f"{name}.sql").read_text()
