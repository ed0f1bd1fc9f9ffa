"""Figures 2 to 4 of the paper on summation queries, in its metric |ŷ - y| / max(y, 100), as PNGs.

Per data set and figure one picture: rows are the sparse vector's grids (geometric, linear), columns the share rho of
the budget that buys theta, without and with isotonic regression; of every method the mean over the trials and the band
from 5 to 95 %. Strategies are the engine's; the noise is numpy's, because nobody is answered with it.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from pg_epsilon import noise
from pg_epsilon.mechanisms.matrix import strategies
from pg_epsilon.mechanisms.matrix.greedyh import greedyh
from pg_epsilon.mechanisms.matrix.queries import Weighted, prefixes
from pg_epsilon.workload.ask import Options
from pg_epsilon.workload.thresholds import threshold

ROOT = Path(__file__).resolve().parents[2]
TRIALS, EPSILON, BUCKETS, RATIO = 100, 0.01, 1000, 0.998
FLOOR = 100  # the paper's delta
SHARES, GRIDS = (0.1, 0.5), ("geometric", "linear")
LEVELS = 17  # of either grid, from U / 16 to U
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Data:
    """Values, cut at the public bound; edges: of the thousand buckets."""

    name: str
    values: Array
    upper: int

    @property
    def edges(self) -> Array:
        return np.arange(1, BUCKETS + 1) * (self.upper / BUCKETS)

    def sums(self, theta: float) -> Array:
        """Of every edge, the sum of values at most it, cut at theta."""
        ordered = np.sort(self.values)
        totals = np.concatenate([[0.0], np.cumsum(np.minimum(ordered, theta))])
        return np.asarray(totals[np.searchsorted(ordered, self.edges, side="right")])

    def below(self, grid: Array) -> Array:
        """Rows at most each value of a grid."""
        return np.searchsorted(np.sort(self.values), grid, side="right").astype(float)


def read(path: Path, column: str) -> Array:
    """One column of a packed CSV file."""
    lines = csv.DictReader(io.StringIO(gzip.decompress(path.read_bytes()).decode()))
    return np.array([float(line[column]) for line in lines if line[column] != ""])


def data_sets() -> list[Data]:
    """Incomes like the Current Population Survey's up to 800,000, and Adult's capital gains up to 100,000."""
    incomes = read(ROOT / "tests/data/cps_income_like.csv.gz", "inctot")
    gains = read(ROOT / "demo/data/adult.csv.gz", "capital_gain")
    return [
        Data("cps", np.clip(incomes, 0, 800_000), 800_000),
        Data("adult", np.clip(gains, 0, 100_000), 100_000),
    ]


def grid_of(data: Data, form: str) -> Array:
    """17 values from U / 16 to U, by the factor 1.2 or in equal steps."""
    if form == "linear":
        return np.linspace(data.upper / 16, data.upper, LEVELS)
    return np.minimum(data.upper / 16 * 1.2 ** np.arange(LEVELS), data.upper)


def by_sparse_vector(data: Data, form: str, epsilon: float, shape: tuple[int, ...], numbers: Any) -> Array:
    """theta of so many independent runs: threshold noise of scale max(r, 1 - r) / e, query noise 1 / e, e a half."""
    grid, half = grid_of(data, form), epsilon / 2
    gaps = data.below(grid) - RATIO * len(data.values)
    bar = numbers.laplace(0, RATIO / half, (*shape, 1))
    fired = gaps + numbers.laplace(0, 1 / half, (*shape, len(grid))) >= bar
    place = np.where(fired.any(axis=-1), fired.argmax(axis=-1), len(grid) - 1)
    return np.asarray(grid[place])


def by_recursion(data: Data, epsilon: float) -> Array:
    """theta of every trial, by the engine's own recursive mechanism."""
    how = threshold(Options(theta="recursive"), data.upper, Fraction(1), 1, Decimal(f"{epsilon:.6f}"))
    below = [int(rows) for rows in data.below(np.array(how.grid, dtype=float))]
    source = noise.current()
    return np.array([float(how.choose(below, len(data.values), source, "figures")) for _ in range(TRIALS)])


@cache
def reconstruction(method: str, theta: float, upper: int) -> tuple[Array, float]:
    """(W T A+ of every prefix, the strategy's sensitivity): answers are the truncated ones plus its noise."""
    weights = np.minimum(np.arange(1, BUCKETS + 1) * (upper / BUCKETS), theta)
    plain = prefixes(range(1, BUCKETS + 1), BUCKETS)
    queries = Weighted(plain, tuple(float(weight) for weight in weights))
    if method == "identity":
        return np.asarray(queries.dense()), 1.0
    if method == "tamm":
        strategy = strategies.tightened(greedyh(queries))
    else:  # timm: chosen without theta, drawn over truncated columns
        base = _greedy(BUCKETS)
        strategy = strategies.tightened(strategies.Strategy(base.name, base.matrix * (weights / weights.max())))
    return np.asarray(queries.times(strategies.inverse(strategy).T).T), strategy.sensitivity


@cache
def _greedy(buckets: int) -> strategies.Strategy:
    return greedyh(prefixes(range(1, buckets + 1), buckets))


def batch(data: Data, method: str, thetas: Array, epsilon: float, picks: Array, numbers: Any) -> Array:
    """Answers of every trial to the picked prefixes, by one strategy each."""
    found = np.empty((len(thetas), len(picks)))
    for theta in np.unique(thetas):
        chosen = np.flatnonzero(thetas == theta)
        exact = data.sums(float(theta))[picks]
        if method == "workload":
            weights = np.minimum(data.edges, theta)
            asked = len(picks) - np.searchsorted(data.edges[picks], data.edges)  # queries that hold each bucket
            draws = numbers.laplace(0, float((asked * weights).max()) / epsilon, (len(chosen), len(picks)))
            found[chosen] = exact + draws
            continue
        matrix, sensitivity = reconstruction(method, float(theta), data.upper)
        draws = numbers.laplace(0, sensitivity / epsilon, (len(chosen), matrix.shape[1]))
        found[chosen] = exact + draws @ matrix[picks].T
    return found


def single(data: Data, form: str, share: float, picks: Array, numbers: Any) -> Array:
    """Every query by itself, theta too, at its part of the budget (Algorithm 2, corrected: divided by p)."""
    each = EPSILON / len(picks)
    thetas = by_sparse_vector(data, form, share * each, (TRIALS, len(picks)), numbers)
    found = np.empty_like(thetas)
    for theta in np.unique(thetas):
        inside = thetas == theta
        found[inside] = np.broadcast_to(data.sums(float(theta))[picks], thetas.shape)[inside]
    scale = np.minimum(thetas, data.edges[picks]) / ((1 - share) * each)
    return np.asarray(found + numbers.laplace(0, 1, thetas.shape) * scale)


def lines(data: Data, figure: int, form: str, share: float, numbers: Any) -> Iterator[tuple[str, Array, Array]]:
    """(name, which prefixes, answers of every trial) of a figure's methods."""
    step = 10 if figure == 4 else 1
    picks = np.arange(step - 1, BUCKETS, step)
    left = (1 - share) * EPSILON
    svt = by_sparse_vector(data, form, share * EPSILON, (TRIALS,), numbers)
    if figure == 2:
        whole = np.full(TRIALS, float(data.upper))
        yield "Identity, no truncation", picks, batch(data, "identity", whole, EPSILON, picks, numbers)
        yield "Identity, sparse vector", picks, batch(data, "identity", svt, left, picks, numbers)
        recursive = by_recursion(data, share * EPSILON)
        yield "Identity, recursive", picks, batch(data, "identity", recursive, left, picks, numbers)
        return
    methods = {3: ("identity", "timm", "tamm", "workload"), 4: ("workload",)}[figure]
    for method in methods:
        yield method, picks, batch(data, method, svt, left, picks, numbers)
    yield "sqm", picks, single(data, form, share, picks, numbers)


def smoothed(answers: Array) -> Array:
    """Isotonic regression of every trial."""
    return np.array([isotonic_regression(one).x for one in answers])


def draw(data: Data, figure: int, folder: Path) -> Path:
    """One figure on one data set."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, MaxNLocator

    picture = Figure(figsize=(18, 7.6), layout="constrained")
    axes = picture.subplots(len(GRIDS), 2 * len(SHARES), sharex=True, sharey=True)
    exact = data.sums(float(data.upper))
    for row, form in enumerate(GRIDS):
        for column, share in enumerate(SHARES):
            for name, picks, answers in lines(data, figure, form, share, np.random.default_rng(figure)):
                for isotonic in (0, 1):
                    shown = smoothed(answers) if isotonic else answers
                    errors = np.abs(shown - exact[picks]) / np.maximum(exact[picks], FLOOR)
                    _line(axes[row][2 * column + isotonic], data.edges[picks], errors, name)
            for isotonic, words in enumerate(("without", "with")):
                title = f"rho {share}, {form} grid, {words} isotonic regression"
                axes[row][2 * column + isotonic].set_title(title, fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel("threshold")
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    for row_axes in axes:
        row_axes[0].set_ylabel(f"|error| / max(answer, {FLOOR})")
    axes[0][0].legend(fontsize=8)
    words = {2: "Q1: truncation", 3: "Q1: methods, sparse vector", 4: "Q2: one theta for all, or one each"}[figure]
    picture.suptitle(f"Figure {figure} on {data.name}, epsilon {EPSILON}: {words}; mean, 5 to 95 % of {TRIALS} trials")
    path = folder / f"workload_figure{figure}_{data.name}.png"
    picture.savefig(path, dpi=90)
    return path


def _line(axis: Any, edges: Array, errors: Array, name: str) -> None:
    (line,) = axis.plot(edges, errors.mean(axis=0), label=name, linewidth=1.2)
    low, high = np.quantile(errors, [0.05, 0.95], axis=0)
    axis.fill_between(edges, low, high, alpha=0.15, color=line.get_color(), linewidth=0)
    axis.set_yscale("log")


def figures(folder: Path, wanted: Sequence[int] = (2, 3, 4)) -> list[Path]:
    """All of them, for every data set."""
    folder.mkdir(parents=True, exist_ok=True)
    return [draw(data, figure, folder) for data in data_sets() for figure in wanted]
