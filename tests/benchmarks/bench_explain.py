"""`make bench-explain`: explanations through PostgreSQL against grouping sets, their steps, and how right they are.

Sizes: 1,146,552 CPS-like and 1,000,000 German-credit-like rows; BENCH_ROWS makes both smaller. Ratios are of one run.
Precision and rank correlation are of the engine's own selection on the exact scores, against numpy's Gumbel noise on
the same scores: they measure the mechanism, and the baseline is its law.
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

from explain_data import (  # noqa: E402
    PAIR,
    QUESTIONS,
    Asked,
    Tables,
    bounds,
    exact,
    load,
    policy,
    read,
    sets,
)
from report import Row, paired, publish, row  # noqa: E402
from scipy.stats import kendalltau  # noqa: E402

from fix_cluster import private_cluster, standard  # noqa: E402
from pg_epsilon.explain.cells import unpacked  # noqa: E402
from pg_epsilon.explain.influence import scores  # noqa: E402
from pg_epsilon.explain.measure import Explaining, Price, drawn, fineness  # noqa: E402
from pg_epsilon.explain.ranking import top  # noqa: E402
from pg_epsilon.explain.space import Attribute, Space  # noqa: E402
from pg_epsilon.noise import Noise  # noqa: E402

Conn = psycopg.Connection[Any]
ROWS = {"cps": 1_146_552, "credit": 1_000_000}
K, RHO = 5, {"top": 0.01, "influence": 0.01, "rank": 0.02}
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


def price() -> Price:
    selection = Decimal(math.isqrt(int(8 * RHO["top"] / K * 10**36))).scaleb(-18)
    return Price(selection, Decimal(str(RHO["influence"])), Decimal(str(RHO["rank"])), rho=True)


def measure(asked: Asked, own: Space, k: int, rows: int) -> Explaining:
    change, apart = bounds(asked)
    how = own, "avg", PAIR, k, change, apart, price(), Fraction(19, 20)
    return Explaining(*how, fine=fineness(rows))  # type: ignore[arg-type]


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


def steps(root: Conn, tables: Tables) -> Iterator[Row]:
    """Where the time of I1 with three values goes."""
    asked = QUESTIONS["I1"]
    read_seconds, (_, own, found) = timed(lambda: read(root, tables, asked, 3))
    how = measure(asked, own, K, tables.rows["cps"])
    unpack_seconds, cells = timed(lambda: unpacked(found, own, 2))
    score_seconds, some = timed(lambda: scores("avg", PAIR, cells.cells, how.steps))
    points = [0] * len(own)
    for place, one in zip(cells.places, some, strict=True):
        points[place] = one
    draw_seconds, _ = timed(lambda: drawn(points, how, Noise(), "bench"))
    whole = read_seconds + unpack_seconds + score_seconds + draw_seconds
    for name, seconds, note in (
        ("statement", read_seconds, f"{len(found) // 24:,} cells of {tables.rows['cps']:,} rows"),
        ("marginals", unpack_seconds, f"of {len(own.subsets)} choices of attributes"),
        ("influences", score_seconds, f"of {len(cells.places):,} predicates with rows, exact"),
        ("draws", draw_seconds, f"among {len(own):,} predicates"),
    ):
        yield row(f"seconds:{name}", seconds, whole, f"I1, l = 3: {note}; baseline: all steps")


def quality(root: Conn, tables: Tables, names: Sequence[str]) -> Iterator[Row]:
    """Of each question, what selection finds of the true five, and of the whole order."""
    rng = np.random.default_rng(20261127)
    for name in names:
        asked = QUESTIONS[name]
        _, own, found = read(root, tables, asked, 1)
        true, cells = exact(found, own)
        how = measure(asked, own, K, tables.rows[asked.table])
        points = scores_of(true, how)
        values = np.array([float(one) for one in true])
        best = set(np.argsort(-values, kind="stable")[:K].tolist())
        epsilon, scale = Fraction(how.price.selection), float(how.apart / Fraction(how.price.selection))
        ours = [len(best & set(pick(points, how, K, epsilon))) / K for _ in range(RUNS)]
        noisy = values + rng.gumbel(0, scale, (4000, len(values)))
        theirs = [len(best & set(one)) / K for one in np.argsort(-noisy, axis=1)[:, :K].tolist()]
        yield row(f"precision_at_5:{name}", mean(ours), mean(theirs), f"{RUNS} runs, rho .01; baseline: numpy, 4,000")
        yield kendall(name, points, values, how, rng)
        gap = cells.sums[0] / cells.rows[0] - cells.sums[1] / cells.rows[1]
        yield row(
            f"valid:{name}", float(np.sign(gap)), VALID[name], f"{asked.groups[0]} less {asked.groups[1]}: {gap:+.4f}"
        )


def scores_of(true: Sequence[Fraction], how: Explaining) -> list[int]:
    return [math.floor(one * how.steps + Fraction(1, 2)) for one in true]


def pick(points: Sequence[int], how: Explaining, k: int, epsilon: Fraction) -> list[int]:
    return top(points, k, apart=how.search.moved, epsilon=epsilon, noise=Noise(), label="bench")


def kendall(name: str, points: Sequence[int], values: Any, how: Explaining, rng: Any) -> Row:
    """All predicates in the order of their selections, rho .5 for all of them (Figure 15)."""
    many, rho = len(points), 0.5
    epsilon = Fraction(math.sqrt(8 * rho / many))
    order = np.argsort(-values, kind="stable")
    rank = np.empty(many)
    rank[order] = np.arange(many)
    ours = [kendalltau(rank[pick(points, how, many, epsilon)], np.arange(many)).statistic for _ in range(5)]
    noisy = values + rng.gumbel(0, float(how.apart / epsilon), (200, many))
    theirs = [kendalltau(rank[one], np.arange(many)).statistic for one in np.argsort(-noisy, axis=1)]
    return row(f"kendall:{name}", mean(ours), mean(theirs), f"{many} predicates, l = 1, rho {rho}; baseline: numpy")


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
            tables = load(root, "boss", rows)
            cluster.psql(policy(tables, "explained"), user="boss")
            with cluster.connect("alice") as alice:
                found = [
                    vectors(),
                    *speed(alice, root, tables),
                    *steps(root, tables),
                    width(alice),
                    *coverage(),
                    *quality(root, tables, list(QUESTIONS)),
                ]
    publish("explain", found)


if __name__ == "__main__":
    main()
