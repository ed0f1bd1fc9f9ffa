"""`make bench-sums`: what R2T costs in time and memory, and how near its answers are, on real and generated rows."""

from __future__ import annotations

import csv
import gzip
import io
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "scripts", "extension", "proxy", "tests/benchmarks")]

import psycopg  # noqa: E402
from memory import peak_mb  # noqa: E402
from report import Row, paired, publish, row  # noqa: E402

from fix_cluster import PRIVATE, Cluster, private_cluster, standard  # noqa: E402
from fix_tpch import load_graph, load_shop, power_law_graph  # noqa: E402

ROWS, USERS, VERTICES, EDGES = 3_000_000, 300_000, 25_000, 100_000
EPSILONS = (0.1, 1.0, 8.0)
RUNS = 11
BIG = f"""
CREATE TABLE sales (id int PRIMARY KEY, x int NOT NULL);
INSERT INTO sales SELECT i, (exp(12 * (hashint4(i)::bigint + 2147483648) / 4294967296.0))::int
  FROM generate_series(1, {ROWS}) i;
CREATE TABLE basket (buyer int NOT NULL, x int NOT NULL);
INSERT INTO basket SELECT (i::bigint * 7919 % {USERS})::int, i % 1000 FROM generate_series(1, {ROWS}) i;
CALL dp.create_dataset('rows', epsilon => 1000);
CALL dp.create_dataset('users', unit => 'user', epsilon => 1000);
CALL dp.protect('sales', 'rows');
CALL dp.protect('basket', 'users', unit_column => 'buyer', max_rows_per_unit => 500);
CALL dp.describe_column('sales', 'x', bounds => '{{0,500000}}', resolution => '1');
CALL dp.describe_column('basket', 'x', bounds => '{{0,1000}}', resolution => '1');
CALL dp.publish('sales'); CALL dp.publish('basket');
CALL dp.allot('alice', 'rows', epsilon => 1000); CALL dp.allot('alice', 'users', epsilon => 1000);
"""
REAL = """
CREATE TABLE adult (capital_gain int); CREATE TABLE cps (inctot int); CREATE TABLE taxi (fare numeric(8,2));
CALL dp.create_dataset('real', epsilon => 1000);
CALL dp.protect('adult', 'real'); CALL dp.protect('cps', 'real'); CALL dp.protect('taxi', 'real');
CALL dp.describe_column('adult', 'capital_gain', bounds => '{0,1000000}', resolution => '1');
CALL dp.describe_column('cps', 'inctot', bounds => '{0,2000000}', resolution => '1');
CALL dp.describe_column('taxi', 'fare', bounds => '{0,5000}', resolution => '0.01');
CALL dp.publish('adult'); CALL dp.publish('cps'); CALL dp.publish('taxi');
CALL dp.allot('alice', 'real', epsilon => 1000);
"""
TRIANGLES = {
    "version": 1,
    "from": {"schema": "public", "name": "edge", "alias": "e1"},
    "joins": [{"schema": "public", "name": "edge", "alias": alias, "on": None} for alias in ("e2", "e3")],
    "where": "e1.to_id = e2.from_id AND e2.to_id = e3.to_id AND e1.from_id = e3.from_id"
    " AND e1.from_id < e1.to_id AND e2.from_id < e2.to_id",
    "aggregates": [{"function": "count", "argument": "*", "parameters": {"max_contribution": "65536"}}],
    "budget": {"epsilon": "1"},
    "fresh": True,
    "settings": {},
}


@dataclass(frozen=True)
class Data:
    """A sum whose error is measured: the largest contribution of a unit is for the reference only."""

    name: str
    relation: str
    argument: str
    joins: str
    true: float
    largest: float


def ask(connection: psycopg.Connection[Any], statement: str) -> Callable[[], Any]:
    return lambda: connection.execute(statement.encode()).fetchall()


def seconds(cluster: Cluster) -> list[Row]:
    """R2T against the plain SQL that it replaces, on the same rows, in the server."""
    alice, root = cluster.connect("alice"), cluster.connect()
    grouped = "SELECT sum(s) FROM (SELECT buyer, sum(x) AS s FROM basket WHERE buyer IS NOT NULL GROUP BY buyer) t"
    ours, base, ratio = paired(
        ask(alice, "SELECT dp.dp_sum_r2t('basket', 'x', epsilon => 0.01, fresh => true)"), ask(root, grouped), 9
    )
    note = f"{ROWS:,} rows, {USERS:,} users; seconds; target 1.1"
    found = [row("r2t_user_vs_groupby", ours, base, note, ratio)]
    for name, rung, target in (("base2", "2", 3.5), ("base55", "5.5", 2.2)):
        ours, base, ratio = paired(
            ask(alice, f"SELECT dp.dp_sum_r2t('sales', 'x', base => {rung}, epsilon => 0.01, fresh => true)"),
            ask(root, "SELECT sum(x) FROM sales"),
            9,
        )
        note = f"{ROWS:,} rows, bound 500,000; seconds; target {target}"
        found.append(row(f"r2t_row_vs_sum_{name}", ours, base, note, ratio))
    return found


def triangles(cluster: Cluster) -> list[Row]:
    """Triangles of a graph whose unit is a vertex, against counting them."""
    edges = power_law_graph(VERTICES, EDGES, 3)
    load_graph(cluster, edges)
    cluster.execute("VACUUM ANALYZE edge", dbname=PRIVATE)
    alice, root = cluster.connect("alice"), cluster.connect()
    question = json.dumps(TRIANGLES)
    plain = (
        "SELECT count(*) FROM edge e1, edge e2, edge e3 WHERE e1.to_id = e2.from_id AND e2.to_id = e3.to_id"
        " AND e1.from_id = e3.from_id AND e1.from_id < e1.to_id AND e2.from_id < e2.to_id"
    )
    times = []
    for _ in range(3):
        start = time.perf_counter()
        alice.execute("SELECT dp.dp_query(%s::jsonb)", [question])
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    counted = root.execute(plain.encode()).fetchone()
    base = time.perf_counter() - start
    engine = root.execute("SELECT pid FROM pg_stat_activity WHERE usename ~ '^dp_channel_'").fetchall()
    peak = max(peak_mb(pid) for (pid,) in engine)
    true = counted[0] if counted else 0
    note = f"{EDGES:,} edges, {VERTICES:,} vertices, {true:,} triangles, 16 levels up to 65,536; baseline: counting"
    return [
        row("lp_triangles_seconds", statistics.median(times), base, note),
        row("lp_triangles_mb", peak, None, "most memory of the engine's backend, with numpy and HiGHS loaded"),
    ]


def errors(cluster: Cluster) -> list[Row]:
    """Median relative error of fresh answers, by mechanism, with Laplace noise at the true largest contribution as
    the reference that nobody may have."""
    found = []
    for data in _sums(cluster):
        for epsilon in EPSILONS:
            reference = data.largest / epsilon * 0.6931471805599453 / data.true  # the median of |Laplace|
            for mechanism in ("r2t", "laplace"):
                error = statistics.median(
                    abs(y - data.true) / data.true for y in _answers(cluster, data, epsilon, mechanism)
                )
                name = f"relative_error:{data.name}:{epsilon:g}:{mechanism}"
                found.append(row(name, error, reference, "baseline: Laplace at the largest contribution there is"))
    return found


def _sums(cluster: Cluster) -> Iterator[Data]:
    load_shop(cluster)
    cluster.psql(REAL, user="boss")
    values: dict[str, Sequence[float]] = {
        "adult": _column(ROOT / "demo/data/adult.csv.gz", "capital_gain"),
        "cps": _column(ROOT / "tests/data/cps_income_like.csv.gz", "inctot"),
        "taxi": _column(ROOT / "tests/data/taxi_fares.csv.gz", "fare_amount"),
    }
    with cluster.connect("boss") as boss:
        for name, numbers in values.items():
            with boss.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
                for number in numbers:
                    copy.write_row((number if name == "taxi" else int(number),))
    columns = {"adult": "capital_gain", "cps": "inctot", "taxi": "fare"}
    for name, numbers in values.items():
        yield Data(name, name, columns[name], "", sum(numbers), max(numbers))
    revenue = "l_extendedprice * (1 - l_discount)"
    with cluster.connect() as root:
        row_ = root.execute(
            f"SELECT sum(s), max(s) FROM (SELECT o_custkey, sum({revenue}) AS s FROM tpch.lineitem"
            " JOIN tpch.orders ON o_orderkey = l_orderkey GROUP BY 1) t".encode()
        ).fetchone()
    if row_ is None:
        raise RuntimeError("TPC-H is empty")
    yield Data("tpch_revenue", "lineitem", revenue, "orders", float(row_[0]), float(row_[1]))


def _answers(cluster: Cluster, data: Data, epsilon: float, mechanism: str) -> list[float]:
    join = (
        [{"schema": "tpch", "name": data.joins, "alias": None, "on": "o_orderkey = l_orderkey"}] if data.joins else []
    )
    request = {
        "version": 1,
        "from": {"schema": "tpch" if data.joins else "public", "name": data.relation},
        "joins": join,
        "aggregates": [{"function": "sum", "argument": data.argument}],
        "budget": {"epsilon": f"{epsilon:g}"},
        "mechanism": mechanism,
        "fresh": True,
        "settings": {},
    }
    with cluster.connect("alice") as alice:
        replies = [
            alice.execute("SELECT dp.dp_query(%s::jsonb) #>> '{rows,0,0}'", [json.dumps(request)]).fetchone()
            for _ in range(RUNS)
        ]
    return [float(reply[0]) for reply in replies if reply is not None]


def _column(file: Path, name: str) -> list[float]:
    with io.TextIOWrapper(gzip.open(file)) as lines:
        return [max(0.0, float(line[name])) for line in csv.DictReader(lines) if line[name]]


def plot(rows: Sequence[Row]) -> None:
    """build/bench/sums.png: relative error by epsilon, a panel for each data set."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for one in rows:
        kind, *words = str(one["metric"]).split(":")
        if kind == "relative_error":
            name, epsilon, mechanism = words
            panel = curves.setdefault(name, {})
            panel.setdefault(mechanism, []).append((float(epsilon), float(str(one["ours"]))))
            if mechanism == "r2t":
                panel.setdefault("largest known", []).append((float(epsilon), float(str(one["baseline"]))))
    figure, axes = pyplot.subplots(1, len(curves), figsize=(4 * len(curves), 3.5), sharey=True)
    for axis, (name, panel) in zip(axes, curves.items(), strict=True):
        for mechanism, points in panel.items():
            axis.loglog(*zip(*points, strict=True), marker="o", label=mechanism)
        axis.set(title=name, xlabel="epsilon")
    axes[0].set_ylabel("median relative error")
    axes[-1].legend()
    figure.tight_layout()
    figure.savefig(ROOT / "build" / "bench" / "sums.png", dpi=120)


def main() -> None:
    with private_cluster(shared_buffers="512MB", fsync="on", max_parallel_workers_per_gather="2") as cluster:
        standard(cluster)
        cluster.psql(BIG, user="boss")
        cluster.execute("VACUUM ANALYZE", dbname=PRIVATE)
        print(f"{ROWS:,} rows loaded", flush=True)
        rows = seconds(cluster) + triangles(cluster) + errors(cluster)
        cluster.stop("fast")
    publish("sums", rows)
    plot(rows)


if __name__ == "__main__":
    main()
