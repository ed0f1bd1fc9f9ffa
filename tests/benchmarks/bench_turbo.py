"""`make bench-turbo`: the Turbo paper's experiments on data like its own: budgets, wrong answers, convergence, time.

`python tests/benchmarks/bench_turbo.py --quick` asks a tenth of the queries; names of experiments select some.
Budgets are the mean epsilon over partitions at alpha = 0.05 and beta = 0.001, simulated with noise of the same law.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "extension", "tests/benchmarks")]

import numpy as np  # noqa: E402
from report import Row, publish, row  # noqa: E402

from benchmarks import turbo_auto, turbo_plots, turbo_speed  # noqa: E402
from benchmarks.turbo_data import Array, Workload, citibike, conjunctions, covid, merged, picks  # noqa: E402
from benchmarks.turbo_experiments import METHODS, Case, Outcome, convergence, gaussian_windows, stream, whole, windows  # noqa: E402
from pg_epsilon.turbo.calibration import Calibration  # noqa: E402
from pg_epsilon.turbo.histogram import Heuristic  # noqa: E402
from pg_epsilon.turbo.view import View  # noqa: E402

ALPHA, BETA = Fraction(5, 100), Fraction(1, 1000)
SEED = 20231023
ONE, MANY = 70_000, 300_000
COVID = Heuristic()  # (C0, S0) = (100, 5), rates 0.25 → 0.025, tau 0.05
COVID_TREE = replace(COVID, c0=50, s0=1)
CITIBIKE = Heuristic(c0=5, s0=1, rates=((math.inf, 0.5),), tau=0.01)
CITIBIKE_TREE = replace(CITIBIKE, c0=1)
AUTO = tuple(turbo_auto.METHODS)
SINGLE = ("turbo", "exact", "pmw", "laplace", "synopsis", *AUTO)
LARGE = ("turbo", "exact", "synopsis", "auto-rent", "auto")
PARTITIONED = ("turbo", "exact", "tree-exact", "synopsis")  # auto on a large grid: a minute for 3,000 queries
PARTITIONED_SMALL = (*PARTITIONED, *AUTO)
Build = Callable[[float], Case]


def view(load: Workload, heuristic: Heuristic, alpha: Fraction = ALPHA, **more: object) -> View:
    return replace(View(load.domain, Calibration(alpha, BETA), heuristic), **more)  # type: ignore[arg-type]


def asked(load: Workload, count: float, skew: float) -> Array:
    return picks(len(load.pool), max(200, int(count)), skew, SEED)


def one_table(name: str, source: str, skew: float, alpha: Fraction = ALPHA, count: int = ONE) -> Build:
    def build(share: float) -> Case:
        load = merged(covid(), 1) if source == "covid" else merged(citibike(), 50)
        queries = asked(load, count * share if count > 1000 else count, skew)
        shape = view(load, COVID if source == "covid" else CITIBIKE, alpha)
        return Case(name, load, shape, queries, whole(queries))

    return build


def large(name: str, data: str) -> Build:
    """Overlapping questions about a large grid, few of them twice: what epochs in `auto` are for."""

    def build(share: float) -> Case:
        load = conjunctions(data, int(20_000 * share))
        places: dict[bytes, int] = {}
        queries = np.array([places.setdefault(query.id, i) for i, query in enumerate(load.pool)])
        return Case(name, load, view(load, COVID), queries, whole(queries))

    return build


def parted(name: str, source: str, skew: float, kind: str, count: int = MANY) -> Build:
    def build(share: float) -> Case:
        load = covid() if source == "covid" else citibike()
        queries = asked(load, count * share if count == MANY else count, skew)
        shape = view(load, COVID_TREE if source == "covid" else CITIBIKE_TREE, warm=kind == "warm")
        spans = windows(queries, 50, SEED) if kind == "static" else stream(queries, 50, SEED)
        return Case(name, load, shape, queries, spans, growing=kind != "static")

    return build


EXPERIMENTS: dict[str, tuple[Build, tuple[str, ...]]] = {
    # Figure 8a, 8b, 8c; Figure 3 is the first half of 8a, with and without a cache
    "covid-k0": (one_table("covid-k0", "covid", 0), SINGLE),
    "covid-k1": (one_table("covid-k1", "covid", 1), SINGLE),
    "citibike-k0": (one_table("citibike-k0", "citibike", 0), SINGLE),
    # a large grid and broad questions; by the histogram's luck
    **{f"large-{data}": (large(f"large-{data}", data), LARGE) for data in ("uniform", "product", "citibike")},
    # other accuracies and sizes
    "covid-k0-alpha01": (
        one_table("covid-k0-alpha01", "covid", 0, Fraction(1, 100)),
        ("turbo", "exact", "synopsis", *AUTO),
    ),
    "small-200": (one_table("small-200", "covid", 0, count=200), ("turbo", "exact", "synopsis", *AUTO)),
    # Figure 10
    "static-covid-k0": (parted("static-covid-k0", "covid", 0, "static"), (*PARTITIONED_SMALL, "window")),
    "static-covid-k1": (parted("static-covid-k1", "covid", 1, "static"), PARTITIONED_SMALL),
    "static-citibike-k0": (parted("static-citibike-k0", "citibike", 0, "static"), PARTITIONED),
    # Figure 11
    "stream-covid-k0-cold": (parted("stream-covid-k0-cold", "covid", 0, "cold"), PARTITIONED_SMALL),
    "stream-covid-k0-warm": (parted("stream-covid-k0-warm", "covid", 0, "warm"), PARTITIONED_SMALL),
    "stream-covid-k1-warm": (parted("stream-covid-k1-warm", "covid", 1, "warm"), PARTITIONED_SMALL),
    "stream-citibike-k0-warm": (parted("stream-citibike-k0-warm", "citibike", 0, "warm"), PARTITIONED),
    # so few questions on 50 partitions that a synopsis does not pay, about pays, and pays
    **{
        f"{kind}-{count}": (parted(f"{kind}-{count}", "covid", 0, kind, count), ("turbo", "exact", "synopsis", *AUTO))
        for kind in ("static", "warm")
        for count in (200, 1000, 2000, 3000)
    },
}


def run(name: str, method: str, share: float) -> Outcome:
    """One method on one experiment."""
    every = {**METHODS, **turbo_auto.METHODS, "auto-rent": turbo_auto.without_histogram}
    return every[method](EXPERIMENTS[name][0](share))


Sweep = list[tuple[str, float, float]]
"""(curve, x, budget)."""


def sweep(load: Workload, queries: Array, changes: Sequence[tuple[str, float, Heuristic]]) -> Sweep:
    cases = [(c, x, Case(c, load, view(load, h), queries, whole(queries))) for c, x, h in changes]
    return [(curve, x, METHODS["turbo"](case).final) for curve, x, case in cases]


def starting_counts(share: float) -> Sweep:
    """Figure 9a (per bin, S0 = 1) and Question 4: per bin or not, adaptive (S0 > 0) or not, by C0 in updates of a bin.

    With S0 = 1 the update that follows a penalty already makes up for it (§6.6): the same as no penalty.
    """
    load = merged(covid(), 1)
    changes = [
        (f"{'per bin' if fine else 'global'}, S0 = {s0}", c0, replace(COVID, c0=c0, s0=s0, per_bin=fine))
        for fine, s0, factor in ((True, 1, 1), (True, 5, 1), (True, 0, 1), (False, 80, 16), (False, 0, 16))
        for c0 in (factor * count for count in (1, 10, 20, 50, 100, 200, 1000))
    ]
    return sweep(load, asked(load, ONE * share, 1), changes)


def learning_rates(share: float) -> Sweep:
    """Figure 9b: one learning rate for ever, C0 = 100."""
    load = merged(covid(), 1)
    rates = (0.00625, 0.0125, 0.025, 0.05, 0.125, 0.25)
    changes = [("turbo", rate, replace(COVID, rates=((math.inf, rate),))) for rate in rates]
    return sweep(load, asked(load, ONE * share, 1), changes)


def updates_to_converge(share: float) -> Sweep:
    """Figure 8d: updates until 90 % of a validation set is within alpha / 2, PMW-Bypass and PMW, by learning rate."""
    load, found = merged(covid(), 1), []
    queries = asked(load, ONE * share, 1)
    for rate in (0.00625, 0.0125, 0.025, 0.05, 0.1, 0.2, 0.4):
        bypass = view(load, replace(COVID, rates=((math.inf, rate),)))
        vanilla = replace(bypass, mode="pmw", pmw_rate=rate, prices=replace(bypass.prices, printed=True))
        for name, shape in (("pmw-bypass", bypass), ("pmw", vanilla)):
            updates, _ = convergence(load, shape, queries)
            if updates is not None:
                found.append((name, rate, float(updates)))
    return found


def window_sizes(share: float) -> Sweep:
    """Question 6: tree or one node for each partition, by the windows' mean length (Gaussian, deviation 5)."""
    load, found = covid(), []
    queries = asked(load, MANY * share / 3, 1)
    for mean in (1, 5, 10, 25, 40, 50):
        case = Case("", load, view(load, COVID_TREE), queries, gaussian_windows(queries, 50, mean, SEED))
        found += [("tree", mean, METHODS["turbo"](case).final), ("flat", mean, METHODS["flat"](case).final)]
    return found


SWEEPS: dict[str, tuple[Callable[[float], Sweep], str]] = {
    "c0": (starting_counts, "C0"),
    "learning-rate": (learning_rates, "learning rate"),
    "window-size": (window_sizes, "mean length of a window, partitions"),
    "convergence": (updates_to_converge, "learning rate"),
}


def rows_of(name: str, outcomes: dict[str, Outcome]) -> list[Row]:
    base, found = outcomes["exact"].final, []
    for method, out in outcomes.items():
        note = f"mean epsilon over partitions after {out.asked} queries; ratio to the exact cache"
        found.append(row(f"budget:{name}:{method}", out.final, base, note))
        paths = ", ".join(f"{path} {count}" for path, count in sorted(out.paths.items()))
        found.append(
            row(f"violations:{name}:{method}", out.violations, float(BETA), f"off by more than alpha; {paths}")
        )
    return found


def rows_of_sweep(name: str, found: Sweep) -> list[Row]:
    what = "updates to 90 %" if name == "convergence" else "mean epsilon over partitions, Covid k=1"
    return [row(f"{name}:{curve}:{x:g}", y, None, what) for curve, x, y in found]


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    share = 0.1 if "--quick" in sys.argv else float(os.environ.get("BENCH_TURBO_SHARE", "1"))
    chosen = [name for name in EXPERIMENTS if not words or name in words]
    sweeps = [name for name in SWEEPS if not words or name in words]
    if any("citibike" in name or "large" in name for name in chosen):
        citibike()  # made once, before the workers ask for it
    rows: list[Row] = []
    start = time.perf_counter()
    with ProcessPoolExecutor(2) as pool:
        jobs = {(n, m): pool.submit(run, n, m, share) for n in chosen for m in EXPERIMENTS[n][1]}
        asked_sweeps = {n: pool.submit(SWEEPS[n][0], share) for n in sweeps}
        for name in chosen:
            outcomes = {method: jobs[name, method].result() for method in EXPERIMENTS[name][1]}
            rows += rows_of(name, outcomes)
            turbo_plots.budgets(name, outcomes)
            print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
        for name, job in asked_sweeps.items():
            found = job.result()
            rows += rows_of_sweep(name, found)
            turbo_plots.sweep(name, found, SWEEPS[name][1])
    if not words:
        rows += turbo_speed.measure()
    publish("turbo", rows)


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main()
