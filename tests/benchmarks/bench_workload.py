"""`make bench-workload`: how near batches of sums are to what is predicted, and what finding a strategy costs.

BENCH_RUNS: draws a cell (200; a quarter where each of the thousand queries of Q1 has noise of its own,
and where each draw has another strategy to be found: an hour for all). BENCH_WORKLOADS: of Q1,Q2,Q3
(all). BENCH_THETAS: of none,public,svt,exponential,recursive (all). BENCH_FIGURES: 2,3,4 (all), or none.
The rows are the CPS-like incomes of tests/data, cut at 800,000, in PostgreSQL; every draw is of the
engine as installed, in a superuser's backend, where nothing is charged.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / part) for part in ("tests", "tests/unit", "scripts", "extension", "proxy", "tests/benchmarks")
]

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in the server

import numpy as np  # noqa: E402
import psycopg  # noqa: E402
from report import Row, paired, publish, row  # noqa: E402
from workload_cases import CASES, OF_PARTS  # noqa: E402
from workload_figures import figures, read  # noqa: E402

from fix_cluster import Cluster, private_cluster, standard  # noqa: E402
from pg_epsilon.mechanisms.matrix.greedyh import greedyh  # noqa: E402
from pg_epsilon.mechanisms.matrix.p_identity import p_identities, p_identity  # noqa: E402
from pg_epsilon.mechanisms.matrix.queries import Weighted, prefixes  # noqa: E402

RUNS = int(os.environ.get("BENCH_RUNS", "200"))
UPPER, EPSILON = 800_000, 1.0
STEPS = {"Q1": 800, "Q2": 8_000, "Q3": 80_000}  # the paper's: all, every 10th, every 100th of a thousand edges
WORKLOADS = {
    name: range(STEPS[name], UPPER + 1, STEPS[name])
    for name in os.environ.get("BENCH_WORKLOADS", "Q1,Q2,Q3").split(",")
}
FIGURES = [int(one) for one in os.environ.get("BENCH_FIGURES", "2,3,4").split(",") if one.isdigit()]
THETAS: dict[str, dict[str, Any]] = {
    "none": {},
    "public": {"theta": 100_000},
    "svt": {"theta": "svt"},
    "exponential": {"theta": "exponential"},
    "recursive": {"theta": "recursive"},
}
THETAS = {name: THETAS[name] for name in os.environ.get("BENCH_THETAS", ",".join(THETAS)).split(",")}
METHODS: dict[str, dict[str, Any]] = {
    "sqm": {"method": "sqm"},
    "identity": {"method": "identity"},
    "workload": {"method": "workload"},
    "timm": {"method": "timm"},
    "tamm": {"method": "tamm", "strategy": "greedyh"},
    "auto": {},
}
TABLE = """
CREATE TABLE cps (id int PRIMARY KEY, inctot int NOT NULL);
CREATE TABLE cps_renyi (LIKE cps INCLUDING ALL);
"""
POLICY = f"""
CALL dp.create_dataset('cps', unit => 'row', epsilon => 1000);
CALL dp.protect('cps', 'cps', max_rows => 2000000);
CALL dp.describe_column('cps', 'inctot', bounds => '{{0,{UPPER}}}');
CALL dp.publish('cps');
CALL dp.allot('alice', 'cps', epsilon => 1000);
INSERT INTO cps_renyi SELECT * FROM cps;
CALL dp.create_dataset('cps_renyi', unit => 'row', epsilon => 1000, delta => 1e-6, accountant => 'renyi');
CALL dp.protect('cps_renyi', 'cps_renyi', max_rows => 200000);
CALL dp.describe_column('cps_renyi', 'inctot', bounds => '{{0,{UPPER}}}');
CALL dp.publish('cps_renyi');
"""
# One read, many draws: what each gave, with the theta of each and what was predicted of it. The decoding of a strategy
# is computed once a theta; how long an answer takes is measured where all of it is done every time (seconds).
DRAWS = """
CREATE FUNCTION public.draws(request jsonb, runs int, timed boolean) RETURNS jsonb LANGUAGE plpython3u AS $$
import json, time
import numpy as np
from pg_epsilon import entry, noise
from pg_epsilon.mechanisms.matrix import strategies
from pg_epsilon.workload import shown
from pg_epsilon.workload.batch import core, read
plan = entry._compile(json.loads(request))
measure = plan.measures[0]
cells = plpy.execute(plan.statement)[0]["b"]
step = float(measure.workload.lattice.step)
found, inverses = {}, {}
seconds = 0.0
for _ in range(runs):
    start = time.perf_counter()
    raw = core(cells, measure, noise.current(), "bench")
    if timed:
        shown.rows(raw, measure, plan.request.confidence)
    seconds += time.perf_counter() - start
    drawn = read(raw, measure)
    key = str(drawn.theta)
    if key not in inverses:
        inverses[key] = strategies.inverse(drawn.lattice.strategy(drawn.strategy))
        facts = shown.facts(measure, drawn.theta, drawn.name)
        found[key] = {"answers": [], "averages": [], "predicted": facts["expected_rmse"], "strategy": facts["strategy"]}
    values = inverses[key] @ (np.array([float(one) for one in drawn.answers]) / drawn.lattice.factor)
    totals = drawn.columns.totals.times(values) * step
    one = found[key]
    one["answers"].append(totals.tolist())
    if drawn.columns.counts is not None:
        counts = np.maximum(drawn.columns.counts.times(values), 1)
        one["averages"].append((totals / counts).tolist())
return json.dumps({"thetas": found, "seconds": seconds / runs})
$$
"""


def load(cluster: Cluster) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The incomes, in the table as they are summed: clamped."""
    cluster.psql(TABLE, user="boss")
    read_of = read(ROOT / "tests/data/cps_income_like.csv.gz", "inctot")
    incomes = [min(max(int(one), 0), UPPER) for one in read_of]
    with cluster.connect("boss") as conn, conn.cursor() as cursor:
        with cursor.copy("COPY cps FROM STDIN") as copy:
            for number, income in enumerate(incomes):
                copy.write_row((number, income))
        conn.execute("ANALYZE cps")
    cluster.psql(POLICY, user="boss")
    return np.asarray(incomes)


def request(
    root: psycopg.Connection[Any],
    edges: Sequence[int],
    options: dict[str, Any],
    budget: str = f"epsilon => {EPSILON}",
    relation: str = "cps",
) -> Any:
    """The request of a dp_sum_workload call."""
    found = root.execute(
        f"SELECT dp.dp_sum_workload_request('{relation}', 'inctot', %s::numeric[], {budget}, options => %s)".encode(),
        (list(edges), json.dumps({"isotonic": "off", **options})),
    ).fetchone()
    assert found is not None
    return found[0]


def draws(root: psycopg.Connection[Any], asked: Any, runs: int, *, timed: bool = False) -> dict[str, Any]:
    found = root.execute("SELECT public.draws(%s, %s, %s)", (json.dumps(asked), runs, timed)).fetchone()
    assert found is not None
    return dict(found[0])


def truth(values: Any, edges: Sequence[int], theta: int | None = None) -> Any:
    """Sums of values at most each edge; of values cut at theta, chosen by what they were."""
    cut = values if theta is None else np.minimum(values, theta)
    return np.array([cut[values <= edge].sum() for edge in edges], dtype=float)


def errors(root: psycopg.Connection[Any], values: Any) -> Iterator[Row]:
    """rmse:<workload>:<theta>:<method>: measured against the noise at the drawn thetas plus the bias on these rows."""
    for workload, edges in WORKLOADS.items():
        exact = truth(values, edges)
        for theta, how in THETAS.items():
            for method, options in METHODS.items():
                slow = method in ("sqm", "workload") or (theta, method) == ("recursive", "auto")
                number = max(RUNS // 4, 10) if workload == "Q1" and slow else RUNS
                asked = request(root, edges, {**how, **options})
                found = draws(root, asked, number)["thetas"]
                squares, expected, runs = 0.0, 0.0, 0
                for level, one in found.items():
                    answers = np.array(one["answers"])
                    bias = truth(values, edges, int(level)) - exact
                    squares += float(np.square(answers - exact).mean(axis=1).sum())
                    expected += len(answers) * (one["predicted"] ** 2 + float(np.square(bias).mean()))
                    runs += len(answers)
                names = ", ".join(sorted({one["strategy"] for one in found.values()}))
                note = f"{runs} draws; {len(found)} thetas; {names}"
                yield row(f"rmse:{workload}:{theta}:{method}", (squares / runs) ** 0.5, (expected / runs) ** 0.5, note)


def table(rows: Sequence[Row]) -> str:
    """The paper's table: workloads by thresholds by methods, the measured RMSE and, in brackets, the predicted one."""
    known = {str(one["metric"]): one for one in rows}
    lines = ["| workload | theta | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 2) + "|"]
    for workload in WORKLOADS:
        for theta in THETAS:
            cells = [known[f"rmse:{workload}:{theta}:{method}"] for method in METHODS]
            shown = " | ".join(f"{one['ours']:.3g} ({one['baseline']:.3g})" for one in cells)
            lines.append(f"| {workload} | {theta} | {shown} |")
    return "\n".join(lines)


def twenty(root: psycopg.Connection[Any], values: Any) -> Iterator[Row]:
    """Twenty thresholds, 20,000 i, U = 400,000: one strategy against sums of sensitivity min(i, U), a twentieth of the
    budget each; pure, and zCDP with a rho of 1/2."""
    edges, rho = list(range(20_000, 400_001, 20_000)), 0.5
    pure = math.sqrt(sum(2 * (edge * 20 / EPSILON) ** 2 for edge in edges) / 20)
    renyi = math.sqrt(sum(edge**2 * 20 / (2 * rho) for edge in edges) / 20)
    ways = (
        ("sql_twenty_thresholds", f"epsilon => {EPSILON}", "cps", pure, 0.111),
        ("sql_twenty_renyi", f"rho => {rho}", "cps_renyi", renyi, 0.34),
    )
    for name, budget, relation, baseline, most in ways:
        asked = request(root, edges, {}, budget, relation)
        asked["aggregates"][0]["parameters"] = {"lower": "0", "upper": "400000"}
        (one,) = draws(root, asked, max(RUNS, 1000))["thetas"].values()
        ours = float(np.sqrt(np.square(np.array(one["answers"]) - truth(values, edges)).mean()))
        note = f"{len(one['answers'])} draws; {one['strategy']}; target {most}"
        yield row(name, ours, baseline, note)


def top_bin(root: psycopg.Connection[Any], values: Any) -> Row:
    """The average of the highest of twenty bins, against a sum and a count at half the budget each."""
    upper = 100_000  # incomes above it are in no bin
    width = upper // 20
    asked = request(root, [upper - width, upper], {"aggregates": ["avg"]})
    asked["aggregates"][0]["parameters"] = {"lower": "0", "upper": str(upper)}
    asked["workload"] = {
        **{name: value for name, value in asked["workload"].items() if name != "thresholds"},
        "ranges": [f"({low},{low + width}]" for low in range(0, upper, width)],
    }
    found = draws(root, asked, RUNS)
    (one,) = found["thetas"].values()
    inside = values[(values > upper - width) & (values <= upper)]
    exact, count = float(inside.mean()), len(inside)
    got = np.clip([averages[-1] for averages in one["averages"]], 0, upper)
    numbers = np.random.default_rng(5)  # the baseline's noise, which nobody is answered with
    sums = inside.sum() + numbers.laplace(0, upper * 2 / EPSILON, 20_000)
    counts = np.maximum(count + numbers.laplace(0, 2 / EPSILON, 20_000), 1)
    halves = float(np.sqrt(np.square(np.clip(sums / counts, 0, upper) - exact).mean()))
    ours = float(np.sqrt(np.square(got - exact).mean()))
    return row("avg_top_bin", ours, halves, f"{count} rows in it; {one['strategy']}; target .02")


def cold() -> Iterator[Row]:
    """A thousand buckets: seconds of CPU until a strategy is found."""
    weights = np.minimum(800.0 * np.arange(1, 1001), 100_000)
    queries = Weighted(prefixes(range(1, 1001), 1000), tuple(float(w) for w in weights))
    p_identity(Weighted(prefixes(range(1, 21), 20), (1.0,) * 20), 4)  # imports

    def seconds(call: Any) -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    sizes = (1, 4, 16, 62)
    each = {rows: seconds(build) for rows, build in zip(sizes, p_identities(queries, sizes), strict=True)}
    yield row("strategy_cold_seconds:pidentity", sum(each.values()), None, "n = 1,000; 1, 4, 16, 62 rows; target 3")
    yield row("strategy_cold_seconds:pidentity_16", each[16], None, "n = 1,000, 16 rows")
    yield row("strategy_cold_seconds:greedyh", seconds(lambda: greedyh(queries)), None, "n = 1,000; target 1.5")


def speed(cluster: Cluster, root: psycopg.Connection[Any]) -> Iterator[Row]:
    ten = range(80_000, UPPER + 1, 80_000)
    asked = request(root, list(ten), {})
    draws(root, asked, 1)
    cached = draws(root, asked, 50, timed=True)["seconds"] * 1000
    yield row("strategy_cached_ms", cached, None, "draw and decoding of ten queries; target 5")
    arms = [f"sum(inctot) FILTER (WHERE inctot <= {edge})" for edge in range(40_000, UPPER + 1, 40_000)]
    plain, listed = ", ".join(arms), ",".join(f'"{arm}"' for arm in arms)
    ours = f"SELECT * FROM dp.dp_group_by('cps', '{{}}', '{{{listed}}}', epsilon => 0.001, fresh => true)"
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        for metric, times in (("scan_ratio:100,000", 1), ("scan_ratio", 10)):
            boss.execute(
                "INSERT INTO cps SELECT id + n * 1000000, inctot FROM cps, generate_series(1, %s) n", (times - 1,)
            )
            boss.execute("VACUUM ANALYZE cps")
            rows = root.execute("SELECT count(*) FROM cps").fetchone()
            a, b, ratio = paired(
                lambda: alice.execute(ours.encode()).fetchall(),
                lambda: root.execute(f"SELECT {plain} FROM cps".encode()).fetchall(),
                15,
            )
            note = f"{rows and rows[0]:,} rows, seconds, 20 FILTER arms against the plain statement; target 1.2"
            yield row(metric, a, b, note, ratio)


def same_numbers() -> Row:
    """Cases of the slow programme that come out alike; a case is missed for each failed test that is of none by its
    name."""
    files = sorted(str(path) for path in (ROOT / "tests/unit").glob("test_workload_vectors*.py"))
    call = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *files]
    told = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    failed = [line for line in told.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    missed = {name for name in CASES if any(f"[{name}]" in line for line in failed)}
    others = sum(not any(f"[{name}]" in line for name in CASES) for line in failed)
    passed = 0 if told.returncode > 1 else len(CASES) - len(missed) - others
    return row("vectors", passed, len(CASES), f"{len(OF_PARTS)} are of parts of the engine: workload_cases.py")


def main() -> None:
    with private_cluster() as cluster:
        standard(cluster)
        values = load(cluster)
        with cluster.connect() as root:
            root.execute(DRAWS)
            measured = list(errors(root, values))
            rows = [
                same_numbers(),
                *measured,
                *twenty(root, values),
                top_bin(root, values),
                *cold(),
                *speed(cluster, root),
            ]
    publish("workload", rows)
    folder = ROOT / "build/bench"
    (folder / "workload_table.md").write_text(table(measured) + "\n")
    print(f"\n{table(measured)}\n")
    for path in figures(folder, FIGURES):
        print(f"figure: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
