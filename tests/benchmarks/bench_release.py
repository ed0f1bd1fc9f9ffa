"""`make bench-release`: how near the answers of released families are, whether their bars hold, and what they take.

Errors of split cells are those of dp_release_numeric in PostgreSQL, as installed; of Algorithm 2, which has no SQL yet,
those of its core with production noise. Of each run the median over all queries, then the median (mean_error: the mean)
over the runs. `zero` answers 0 everywhere. Coverage is the share of queries inside bars that hold one by one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("tests", "tests/unit/release", "scripts", "extension", "proxy", "tests/benchmarks")
sys.path[:0] = [str(ROOT / part) for part in PARTS]

import numpy as np  # noqa: E402
import psycopg  # noqa: E402
import release_data as data  # noqa: E402
from release_mwem import MOST_SECONDS, adult_rounds  # noqa: E402
from release_vectors import CASES  # noqa: E402
from report import Row, paired, publish, row  # noqa: E402

from fix_cluster import private_cluster, standard  # noqa: E402
from fix_stack import stack_at_work  # noqa: E402
from pg_epsilon import noise  # noqa: E402
from pg_epsilon.release.algorithm2 import Algorithm2, Plan, places_of  # noqa: E402
from pg_epsilon.release.candidates import Family, histogram  # noqa: E402
from pg_epsilon.release.decompose import Measure  # noqa: E402
from pg_epsilon.release.predicates import Boxes  # noqa: E402
from pg_epsilon.release.rounds import shares  # noqa: E402
from pg_epsilon.release.truncation import Rounding, alpha_of, answer_all  # noqa: E402

RUNS = 30
BUDGETS = ("0.5", "1", "2")
CELLS = {"1": 50, "2": 34}  # at most, numeric-release.md §0.0
MEAN = 110
NOMINAL, FLOOR = 0.95, 0.939
CONFIDENCE = 0.95

# Of one run: the answers, the unbiased ones, and which bars hold, of every query.
Run = tuple[np.ndarray, np.ndarray, np.ndarray]


def runs(alice: psycopg.Connection[Any], epsilon: str, exact: np.ndarray) -> list[Run]:
    """Releases of the family as installed, each with noise of its own; bars of each query by itself."""
    call = (
        f"SELECT answer, unbiased, low, high FROM dp.dp_release_numeric('pace', '{data.QUERY}', '{data.GRID}',"
        f" epsilon => {epsilon}, simultaneous => false, fresh => true)"
    )
    found = []
    for _ in range(RUNS):
        answer, unbiased, low, high = np.array(alice.execute(call.encode()).fetchall(), float).T
        found.append((answer, unbiased, (low <= exact) & (exact <= high)))
    return found


def cells(exact: np.ndarray) -> Iterator[Row]:
    with private_cluster() as cluster:
        standard(cluster)
        cluster.psql(data.SCHEMA, user="boss")
        with cluster.connect("boss") as boss, boss.cursor() as cursor:
            rows = [(number, frequency, float(pace)) for number, (frequency, pace) in enumerate(data.donors())]
            cursor.executemany("INSERT INTO donor VALUES (%s, %s, %s)", rows)
        inside = []
        with cluster.connect("alice") as alice:
            for epsilon in BUDGETS:
                own = runs(alice, epsilon, exact)
                inside += [float(held.mean()) for *_, held in own]
                for name, place in (("cells", 0), ("cells_unbiased", 1)):
                    errors = [float(np.median(np.abs(one[place] - exact))) for one in own]
                    limit = f"at most {CELLS[epsilon]}" if name == "cells" and epsilon in CELLS else "no limit"
                    note = f"{RUNS} releases in PostgreSQL, {len(exact):,} ranges; baseline: zero; {limit}"
                    zero = float(np.median(exact))
                    yield row(f"median_error:transfusion:{epsilon}:{name}", float(np.median(errors)), zero, note)
        note = f"{len(inside)} releases of {len(exact):,} bars; at least {FLOOR}"
        yield row("coverage:cells:bars", float(np.mean(inside)), NOMINAL, note)


def algorithm(decomposition: str, rows: list[tuple[int, Fraction]]) -> Algorithm2:
    """Algorithm 2 over the ranges; T auto."""
    low, high = np.array(data.RANGES).T
    values = tuple(sorted({Fraction(0), *(pace for _, pace in rows)})) if decomposition == "none" else ()
    measure = Measure(decomposition, Fraction(200), values=values)  # type: ignore[arg-type]
    boxes = Boxes((data.MOST,), (low - 1)[:, None], high[:, None])
    return Algorithm2(Family(measure, boxes), Plan(shares(Fraction(1)), max_rows=1000))


def of_algorithm(exact: np.ndarray) -> Iterator[Row]:
    rows = data.donors()
    for name, decomposition in (("alg2", "none"), ("alg2_split", "split")):
        own = algorithm(decomposition, rows)
        places = places_of(own.plan.max_rows)
        private = histogram(own.family, [(frequency - 1, pace) for frequency, pace in rows], places)
        errors, broken = [], 0
        for number in range(RUNS):
            released = own.release(private, noise.current(), f"run {number}")
            alpha = alpha_of(released.worst, own.family, own.sensitivity, own.plan.shares.alpha, own.places)
            found = answer_all(own.family, own.masses(released), alpha, Rounding(own.places, own.plan.max_rows))
            errors.append(float(np.median(np.abs(found.answer - exact))))
            broken += bool(((found.low > exact + 1e-9) | (exact - 1e-9 > found.high)).any())
        zero = float(np.median(exact))
        note = f"{RUNS} runs of the core, T auto; baseline: zero"
        yield row(f"median_error:transfusion:1:{name}", float(np.median(errors)), zero, note)
        yield row(f"mean_error:transfusion:1:{name}", float(np.mean(errors)), MEAN, f"{RUNS} runs; baseline: the limit")
        note = f"runs of {RUNS} with a bar that misses; baseline: what {1 - CONFIDENCE:.0%} would be"
        yield row(f"runs_outside:transfusion:1:{name}", broken, RUNS * (1 - CONFIDENCE), note)


def free() -> Iterator[Row]:
    """A question that a family answers, through the proxy, against the same one from the cache; and as plain SQL."""
    with stack_at_work() as stack, stack.connect("alice") as alice:
        query = "SELECT sum(age) FROM people WHERE sex = $1 AND age >= $2"
        alice.execute(f"SELECT * FROM dp_release_numeric('ages', $q${query}$q$, '{{{{f,40}}}}', epsilon => 1)".encode())
        alice.execute("SET dp.epsilon = 0.1")
        called = "SELECT dp_sum('people', 'age', 'sex = ''f'' AND age < 30')"
        plain = "SELECT sum(age) FROM people WHERE sex = 'f' AND age < 30"

        def asked(mechanism: str, sql: str) -> None:
            alice.execute(f"SET dp.mechanism = '{mechanism}'".encode())  # 'auto': the family answers
            alice.execute(sql.encode()).fetchall()

        for metric, sql in (("free_answer_ms", called), ("free_answer_ms:plain_sql", plain)):
            ours, cached, ratio = paired(lambda sql=sql: asked("auto", sql), lambda: asked("laplace", called), 60)
            note = (
                "through the proxy, each with a SET; baseline: dp_sum of the same question from the cache; at most 1.2"
            )
            yield row(metric, 1000 * ours, 1000 * cached, note, ratio)


def vectors() -> Row:
    """Cases of the slow programme that come out alike."""
    call = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "tests/unit/release"]
    told = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    failed = [line for line in told.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    passed = 0 if told.returncode > 1 else max(0, len(CASES) - len(failed))
    return row("vectors", passed, len(CASES), "tests/unit/release; every failed test counts as a missed case")


def main() -> None:
    exact = data.truth(data.donors())
    seconds = adult_rounds()["rounds"]
    note = f"10 rounds, 50 sweeps, production sampler; at most {MOST_SECONDS}"
    rows = [
        vectors(),
        row("adult_rounds_cpu_seconds", seconds, MOST_SECONDS, note),
        *cells(exact),
        *of_algorithm(exact),
        *free(),
    ]
    publish("release", rows)


if __name__ == "__main__":
    main()
