"""Figures 1 to 7 of the paper, and one over |Q|: build/bench/release-figureN.png.

A box has the quartiles of the errors of all queries, its whisker the largest, each the median over
the runs; delta = 0, but in figures of -delta at epsilon 1, where it is 0 and 1e-6. Noise is
production's. T is the paper's 10, but chosen on Transfusion, where a run is short, and where delta
is compared, because it buys nothing for ten rounds. Composition answers 300 queries, at the price of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import release_tables as tables
from benchmarks.release_mechanisms import MECHANISMS, SAMPLE, WITH_DELTA, errors
from benchmarks.release_tables import Table

FOLDER = Path(__file__).resolve().parents[2] / "build" / "bench"
Array = np.ndarray[Any, np.dtype[Any]]
EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
ROUNDS = 10
DELTAS = {"0": Fraction(0), "1e-6": Fraction(1, 10**6)}
QUARTILES = (25, 50, 75, 100)
STATS = ("whislo", "q1", "med", "q3", "whishi")
LABELS = {"cells": "split cells", "alg2": "Algorithm 2", "alg2_split": "Algorithm 2, split"}
LABELS |= {"two": "two runs", "global": "global truncation", "range": "range"}
SHOWN = ("cells", "alg2", "normalisation", "composition", "global", "zero")


def rounds_of(table: Table) -> int | None:
    return None if table.name.startswith("transfusion") else ROUNDS


def mechanisms(table: Table) -> tuple[str, ...]:
    return tuple(name for name in MECHANISMS if name != "range" or table.ranges)


@dataclass(frozen=True)
class Measured:
    """Of each run of one mechanism: the quartiles and the largest of its errors, and their mean."""

    quartiles: Array
    means: Array

    @property
    def box(self) -> Array:
        return np.asarray(np.median(self.quartiles, axis=0))

    @property
    def medians(self) -> Array:
        return np.asarray(self.quartiles[:, 1])


def measured(mechanism: str, table: Table, epsilon: Fraction, runs: int) -> Measured:
    return of_runs([errors(mechanism, table, epsilon, rounds_of(table)) for _ in range(runs)])


def of_runs(own: Sequence[Array]) -> Measured:
    return Measured(
        np.array([np.percentile(each, QUARTILES) for each in own]),
        np.array([each.mean() for each in own]),
    )


Sweep = dict[tuple[str, str], Measured]
"""(group, mechanism): the group is what the figure sweeps, as text."""


def over_epsilon(table: Table, epsilons: Iterable[Fraction], runs: int) -> Sweep:
    return {
        (f"{float(epsilon):g}", name): measured(name, table, epsilon, 1 if name == "zero" else runs)
        for epsilon in epsilons
        for name in mechanisms(table)
    }


def over_delta(table: Table, runs: int) -> Sweep:
    """Mechanisms of many steps at epsilon 1, pure and with delta; T is chosen, by delta too."""
    return {
        (label, name): of_runs([errors(name, table, Fraction(1), None, delta) for _ in range(runs)])
        for label, delta in DELTAS.items()
        for name in WITH_DELTA
    }


def at_one(groups: dict[str, Table], runs: int) -> Sweep:
    """All mechanisms on each of these tables, at epsilon 1."""
    return {
        (group, name): measured(name, table, Fraction(1), runs)
        for group, table in groups.items()
        for name in mechanisms(table)
    }


def over_bound(table: Table, factors: Sequence[int], runs: int) -> Sweep:
    """Figure 5: times up to 200, 400, …, at epsilon 1."""
    made = [replace(table, name=f"{table.name}-{n}", bound=table.bound * n) for n in factors]
    return at_one({str(one.bound): one for one in made}, runs)


def over_queries(table: Table, sizes: Sequence[int], runs: int) -> Sweep:
    """Random parts of the family, at epsilon 1."""
    rng = np.random.default_rng(1)
    parts = [rng.choice(table.queries, size, replace=False) for size in sizes]
    made = [table.some(part, f"{table.name}-{len(part)}") for part in parts]
    return at_one({str(one.queries): one for one in made}, runs)


def draw(
    number: int | str,
    title: str,
    across: str,
    sweep: Sweep,
    shown: Sequence[str] = SHOWN,
    folder: Path = FOLDER,
) -> str:
    """A figure's file. Errors of 0 are drawn at the bottom: the axis is logarithmic."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    names = [name for name in shown if any(name == own for _, own in sweep)]
    groups = list(dict.fromkeys(group for group, _ in sweep))
    above = [x for one in sweep.values() for x in one.box.tolist() if x > 0]
    bottom = 10.0 ** math.floor(math.log10(max(min(above), 1e-1)))
    figure = Figure(figsize=(8, 4.5))
    axis = figure.subplots()
    for turn, name in enumerate(names):
        boxes = [np.maximum(sweep[group, name].box, bottom) for group in groups]
        stats = [dict(zip(STATS, (one[0], *one), strict=True), fliers=[]) for one in boxes]
        shift = (turn - (len(names) - 1) / 2) * 0.8 / len(names)
        at = [place + shift for place in range(len(groups))]
        style = {"facecolor": f"C{turn}", "alpha": 0.7}
        middle = {"color": "black"}
        axis.bxp(
            stats,
            positions=at,
            widths=0.7 / len(names),
            patch_artist=True,
            showfliers=False,
            boxprops=style,
            medianprops=middle,
            manage_ticks=False,
        )
    axis.set(yscale="log", title=title, xlabel=across, ylabel="error of a query")
    axis.set_xticks(range(len(groups)), groups)
    handles = [Patch(color=f"C{n}", alpha=0.7, label=LABELS.get(o, o)) for n, o in enumerate(names)]
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14)}
    axis.legend(handles=handles, fontsize=8, ncols=len(names), **below)
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"release-figure{number}.png"
    figure.savefig(file, dpi=120)
    return file.name


OVER_EPSILON = {1: "adult_loss", 2: "adult_gain", 3: "bank", 4: "transfusion", 7: "tpch"}
RANGE = ("cells", "alg2", "alg2_split", "range", "zero")


def figures(sweeps: dict[str, Sweep], deltas: dict[str, Sweep], runs: int) -> list[str]:
    """All of them, from sweeps over epsilon and delta by table and what is measured here."""
    files = []
    for number, name in OVER_EPSILON.items():
        if name in deltas:
            many = len(deltas[name]["0", WITH_DELTA[0]].means)
            title = f"{name}, epsilon 1, T chosen, {many} runs"
            files.append(draw(f"{number}-delta", title, "delta", deltas[name], WITH_DELTA))
    for number, name in OVER_EPSILON.items():
        if name in sweeps:
            files.append(draw(number, f"{name}, {runs} runs", "epsilon", sweeps[name]))
    files.append(draw(6, f"bank, {runs} runs", "epsilon", sweeps["bank"], RANGE))
    own = tables.transfusion()
    by_bound = over_bound(own, (1, 2, 4), runs)
    files.append(draw(5, f"transfusion, epsilon 1, {runs} runs", "largest time", by_bound))
    by_size = over_queries(own, (10, 100, own.queries), runs)
    files.append(draw(8, f"transfusion, epsilon 1, {runs} runs", "|Q|", by_size))
    note = f", composition on {SAMPLE} queries of each family"
    print(f"figures, {runs} runs each{note}: {', '.join(sorted(files))}")
    return files
