"""`make bench-explain`: explanations through PostgreSQL against grouping sets, their steps, and how right they are.

Sizes: 1,146,552 CPS-like and 1,000,000 German-credit-like rows; BENCH_ROWS makes both smaller. Ratios are of one run.
Precision and rank correlation are of the engine's own selection on the exact scores, against numpy's Gumbel noise on
the same scores: they measure the mechanism, and the baseline is its law. Adult's and the taxis' case (explain_cases.py)
go through PostgreSQL as a whole. The paper's figures (explain_figures.py) are drawn unless BENCH_FIGURES is 0 or none.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist, mean
from typing import Any

import numpy as np
import psycopg

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("extension", "tests", "tests/benchmarks", "scripts")]

from scipy.stats import kendalltau  # noqa: E402

from benchmarks.explain_cases import Rides, adult, load_rides, policy_of_rides, taxi  # noqa: E402
from benchmarks.explain_data import PAIR, QUESTIONS, Asked, Tables, bounds, load, policy, sets  # noqa: E402
from benchmarks.explain_figures import Material, figures  # noqa: E402
from benchmarks.explain_scores import (  # noqa: E402
    RHO,
    K,
    Reading,
    Scored,
    Setting,
    pick,
    precision,
    precision_by_law,
    reading,
)
from benchmarks.report import Row, paired, publish, row  # noqa: E402
from fix_cluster import private_cluster, standard  # noqa: E402
from pg_epsilon.explain.measure import Explaining, Price, drawn  # noqa: E402
from pg_epsilon.explain.space import Attribute, Space  # noqa: E402
from pg_epsilon.noise import Noise  # noqa: E402

Conn = psycopg.Connection[Any]
ROWS = {"cps": 1_146_552, "credit": 1_000_000}
PRODUCT = Setting()
FIGURES = os.environ.get("BENCH_FIGURES", "1") not in ("0", "none")
VALID = {"I1": 1, "I2": 1, "I3": -1, "I4": 1, "I5": -1, "G1": 1, "G2": 1, "G3": -1, "G4": -1, "G5": -1}
GROUP_BY = "SELECT * FROM dp.dp_group_by('{table}', '{{{key}}}', '{{avg({measure})}}', rho => 0.1)"
DRAWS, RUNS = 10_000, 60
CASES = 86


def groups(asked: Asked) -> str:
    return ", ".join("'" + group.replace("'", "''") + "'" for group in asked.groups)


def call(asked: Asked, most: int, more: str = "fresh => true") -> str:
    return f"SELECT * FROM dp.dp_explain_difference({groups(asked)}, k => {K}, l => {most}, rho => 0.04, {more})"


def grouped(alice: Conn, asked: Asked) -> None:
    text = GROUP_BY.format(table=asked.table, key=asked.key, measure=asked.measure)
    alice.execute(text.encode())


def speed(alice: Conn, root: Conn, tables: Tables) -> Iterator[Row]:
    """Question I1 with one, two and three values, against its grouping sets; G1 with three."""
    asked, limits = QUESTIONS["I1"], {1: 1.25, 2: 0.4, 3: 0.25}
    grouped(alice, asked)
    for most, limit in limits.items():
        bare = sets(tables, asked, most)
        ours, baseline, ratio = paired(
            lambda most=most: alice.execute(call(asked, most).encode()).fetchall(),
            lambda bare=bare: root.execute(bare.encode()).fetchall(),
            3 if most < 3 else 1,
        )
        told = alice.execute("SELECT facts -> 'explain' ->> 'predicates' FROM dp.last_answer").fetchone()
        note = f"I1, {told[0] if told else '?'} predicates; baseline: GROUPING SETS, the bare statement; limit {limit}"
        yield row(f"seconds:l{most}", ours, baseline, note, ratio)
    german = QUESTIONS["G1"]
    grouped(alice, german)
    taken = timed(lambda: alice.execute(call(german, 3, "fresh => true, anyway => true").encode()).fetchall())[0]
    yield row("seconds:german_l3", taken, 10, f"G1, {tables.rows['credit']:,} rows; baseline: the limit")


def timed(what: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = what()
    return time.perf_counter() - start, found


def steps(one: Reading, tables: Tables) -> Iterator[Row]:
    """Where the time of I1 with three values goes."""
    scored = one.scored(tables, 3)
    how = scored.how(PRODUCT)
    score_seconds, points = timed(lambda: scored.points(how))
    draw_seconds, _ = timed(lambda: drawn(points, how, Noise(), "bench"))
    whole = one.seconds + scored.seconds + score_seconds + draw_seconds
    for name, seconds, note in (
        ("statement", one.seconds, f"{len(one.cells) // 24:,} cells of {tables.rows['cps']:,} rows"),
        ("marginals", scored.seconds, f"of {len(scored.own.subsets)} choices of attributes"),
        ("influences", score_seconds, f"of {len(scored.found.places):,} predicates with rows, exact"),
        ("draws", draw_seconds, f"among {len(scored.own):,} predicates"),
    ):
        yield row(f"seconds:{name}", seconds, whole, f"I1, l = 3: {note}; baseline: all steps")


def quality(readings: Sequence[Reading], tables: Tables) -> Iterator[Row]:
    """Of each question, what selection finds of the true five, and of the whole order."""
    rng = np.random.default_rng(20261127)
    for one in readings:
        scored = one.scored(tables, 1)
        note = f"{RUNS} runs, rho .01; baseline: numpy, 4,000"
        ours, theirs = mean(precision(scored, PRODUCT, RUNS)), precision_by_law(scored, PRODUCT, 4000, rng)
        yield row(f"precision_at_5:{one.name}", ours, theirs, note)
        yield kendall(scored, rng)
        note = f"{one.asked.groups[0]} less {one.asked.groups[1]}: {scored.gap:+.4f}"
        yield row(f"valid:{one.name}", float(np.sign(scored.gap)), VALID[one.name], note)


def longer(readings: Sequence[Reading], tables: Tables) -> Iterator[Row]:
    """The same of conjunctions of two and of three values; of three only for the first of the credit questions, which
    have most predicates: a selection among them takes seconds."""
    rng = np.random.default_rng(20261128)
    for most in (2, 3):
        for one in readings:
            if most == 3 and one.asked.table == "credit" and one.name != "G1":
                continue
            scored = one.scored(tables, most)
            runs = RUNS if most == 2 else 20
            ours, theirs = mean(precision(scored, PRODUCT, runs)), precision_by_law(scored, PRODUCT, 200, rng)
            note = f"{len(scored.own):,} predicates, {runs} runs, rho .01; baseline: numpy, 200"
            yield row(f"precision_at_l{most}:{one.name}", ours, theirs, note)


def kendall(scored: Scored, rng: Any) -> Row:
    """All predicates in the order of their selections, rho .5 for all of them (Figure 15)."""
    values, many, rho = scored.values, len(scored.own), 0.5
    how, epsilon = scored.how(PRODUCT), Fraction(math.sqrt(8 * rho / many))
    points = scored.points(how)
    order = np.argsort(-values, kind="stable")
    rank = np.empty(many)
    rank[order] = np.arange(many)
    ours = [kendalltau(rank[pick(points, how, many, epsilon)], np.arange(many)).statistic for _ in range(20)]
    noisy = values + rng.gumbel(0, float(how.apart / epsilon), (200, many))
    theirs = [kendalltau(rank[one], np.arange(many)).statistic for one in np.argsort(-noisy, axis=1)]
    note = f"{many} predicates, l = 1, rho {rho}, 20 runs; baseline: numpy, 200"
    return row(f"kendall:{scored.reading.name}", mean(ours), mean(theirs), note)


def coverage() -> Iterator[Row]:
    """By the drawn laws: how often intervals hold the truth. Ranks among two, where the bound is met exactly."""
    price_ = Price(Decimal("0.1"), Decimal("0.01"), Decimal("0.02"), rho=True)
    two = Space((Attribute("x", ("x = 1", "x = 2"), "0"),))
    how = Explaining(two, "count", PAIR, 1, Fraction(1), Fraction(5, 4), price_, Fraction(19, 20), fine=2**20)
    noise, inside, ranked = Noise(), 0, 0
    budget = price_.budget(price_.influences)
    for _ in range(DRAWS):
        (noisy,) = budget.noisy([0], how.moved, noise, "bench")
        inside += abs(noisy) <= how.margin
        low, high = how.search.interval(0, [0, 0], noise, "bench")
        ranked += low <= 1 and high >= 2  # of equal scores, every rank that they share
    note = f"of {DRAWS:,} draws; baseline: the least that 10,000 draws of .95 give"
    yield row("coverage:influence", inside / DRAWS, 0.939, note)
    yield row("coverage:rank", ranked / DRAWS, 0.939, f"two equal predicates, {note}")


def width(alice: Conn) -> Row:
    """The shown interval of a share against the formula: 2 z sensitivity / sqrt(2 rho / k) / (difference * rows)."""
    asked = QUESTIONS["I1"]
    grouped(alice, asked)
    found = alice.execute(call(asked, 1).encode()).fetchall()
    told = alice.execute("SELECT facts -> 'explain' FROM dp.last_answer").fetchone()
    assert told is not None
    change, _ = bounds(asked)
    divisor = float(told[0]["difference"]) * float(told[0]["rows"])
    formula = 2 * NormalDist().inv_cdf(0.975) * float(change) / math.sqrt(2 * RHO["influence"] / K) / divisor
    shown = found[0][3] - found[0][2]
    note = "I1, l = 1; baseline: 2 z sensitivity / sqrt(2 rho / k) / (difference * rows)"
    return row("influence_width", shown, formula, f"{note}; off by {abs(shown / formula - 1):.0e}")


def vectors() -> Row:
    """Cases of the slow programme that come out alike."""
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        str(ROOT / "tests/unit/explain"),
    ]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    failed = [line for line in told.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    passed = 0 if told.returncode > 1 else CASES - len(failed)
    return row("vectors", passed, CASES, "V01 to V86")


def main() -> None:
    rows = {name: int(os.environ.get("BENCH_ROWS", many)) for name, many in ROWS.items()}
    with private_cluster() as cluster:
        standard(cluster)
        with cluster.connect() as root:
            tables, rides = load(root, "boss", rows), Rides.read()
            load_rides(root, rides)
            cluster.psql(f"{policy(tables, 'explained')};\n{policy_of_rides(rides)}", user="boss")
            readings = [reading(root, tables, name, asked) for name, asked in QUESTIONS.items()]
            with cluster.connect("alice") as alice:
                found = [
                    vectors(),
                    *speed(alice, root, tables),
                    *steps(readings[0], tables),
                    width(alice),
                    *coverage(),
                    *quality(readings, tables),
                    *longer(readings, tables),
                    *adult(alice, root, tables),
                    *taxi(alice),
                ]
    publish("explain", found)
    if FIGURES:
        for path in figures(Material(tables, {one.name: one for one in readings}), ROOT / "build/bench"):
            print(f"figure: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
