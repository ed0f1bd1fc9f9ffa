"""What may be drawn for a workload, and what each is predicted to cost in error: public facts only, so it is free.

`auto` takes the least total variance of what is asked for: sums, counts in units of each query's upper edge, averages
times the count; of sums, if it can, among what is further off for none than that sum by itself would be
(composition.md §7.5, sum-workloads.md §0, §7.7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

import numpy as np

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.mechanisms.matrix import strategies
from pg_epsilon.mechanisms.matrix.greedyh import greedyh
from pg_epsilon.mechanisms.matrix.lattice import LatticeStrategy, few_bits, on_lattice, survives
from pg_epsilon.mechanisms.matrix.optimal import LARGEST, optimal
from pg_epsilon.mechanisms.matrix.p_identity import p_identities
from pg_epsilon.mechanisms.matrix.queries import Array, Queries, Written
from pg_epsilon.mechanisms.matrix.strategies import Strategy
from pg_epsilon.workload.ask import MAX_PAIR_CELLS, Options, Workload
from pg_epsilon.workload.columns import Columns, objective, pairs_of, read_from, sums_of, weights_of
from pg_epsilon.workload.runs import Runs

MOST_COLUMNS = 2_000  # for strategies that are optimised; above it identity and the workload itself
MAX_TRIED = 2_500  # cells up to which pairs are tried for sums alone, for which they are seldom better
P_IDENTITY = (1, 4, 16)
TREES = (2, 4, 8, 16)
CUSTOM = "custom"
SAME = 1e-9  # relative: errors that differ by rounding alone
Build = Callable[[], Strategy]


@dataclass(frozen=True)
class Design:
    """One way to answer: the columns, the strategy over columns divided by their weights, and its error.

    factors: per query, the variance of its sum when noise has variance 1 for a sensitivity of 1, lattice units².
    total: of what `auto` compares.
    """

    method: str
    columns: Columns
    strategy: Strategy
    factors: Array
    total: float
    _drawn: dict[int, LatticeStrategy | DPError] = field(default_factory=dict, compare=False, repr=False)
    _found: dict[int, Array] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.method if self.method == self.strategy.name else f"{self.method} {self.strategy.name}"

    def on_lattice(self, most_rows: int) -> LatticeStrategy:
        """The integers that are drawn for, remembered; DP005 where they have no room, or the strategy does not survive
        being rounded to them (lattice.py, `survives`)."""
        if most_rows not in self._drawn:
            self._drawn[most_rows] = self._rounded(most_rows)
        found = self._drawn[most_rows]
        if isinstance(found, DPError):
            raise found.with_traceback(None)  # remembered: it would keep the frames of every call
        return found

    def drawn_factors(self, most_rows: int, *, gaussian: bool) -> Array:
        """`factors` of the integers that are drawn for: with few bits left, up to LOSS² times those of the strategy.

        Errors: as `on_lattice`.
        """
        drawn = self.on_lattice(most_rows)
        if not few_bits(drawn):
            return self.factors
        if most_rows not in self._found:
            rounded = drawn.strategy(self.strategy.name)
            self._found[most_rows] = strategies.query_errors(rounded, self.columns.totals, gaussian=gaussian)
        return self._found[most_rows]

    def _rounded(self, most_rows: int) -> LatticeStrategy | DPError:
        try:
            drawn = on_lattice(self.strategy, self.columns.weights, most_rows)
        except DPError as refused:
            return refused
        if self.strategy.name == CUSTOM and not strategies.spans(drawn.strategy(CUSTOM), self.columns.totals):
            return DPError(
                OUT_OF_RANGE,
                "the weights of this strategy are too far apart: the small ones vanish beside the large ones",
                "Give rows of weights of about one size.",
            )
        targets = [one for one in (self.columns.totals, self.columns.counts) if one is not None]
        if not survives(drawn, self.strategy, *targets):
            return DPError(
                OUT_OF_RANGE,
                f"the declared bounds and number of rows leave too few bits for the strategy {self.name}",
                "Use a coarser resolution, tighter bounds, a smaller max_rows, or method => identity.",
            )
        return drawn


def designs(workload: Workload, theta: int, *, gaussian: bool) -> list[Design]:
    """The candidates for a threshold, best first; each tightened, because the largest column is paid for anyway.

    DP005 where the asked method does not answer what is asked. At every theta a method that answers at one is there:
    whether a strategy spans the queries does not depend on weights above 0.
    """
    if workload.options.strategy == "optimal" and not gaussian:
        raise DPError(OUT_OF_RANGE, "strategy optimal is for Gaussian noise", "Ask with rho, or strategy => auto.")
    found: list[tuple[bool, float, str, int, Design]] = []
    apart, roots = workload.distinct, np.sqrt(weights_apart(workload))
    most = separate(workload, theta, gaussian=gaussian) if _compares(workload.options) else None
    for columns in _data(apart, theta):
        asked, aims = replace(columns, queries=workload.rows), _aims(apart, columns, theta, roots)
        for method, build in _strategies(workload.options, columns, aims, gaussian=gaussian):
            # An optimiser may diverge at a theta that was drawn, after the charge: then this candidate is out.
            with suppress(np.linalg.LinAlgError):
                strategy = strategies.tightened(build(), gaussian=gaussian)
                inverted = strategies.inverse(strategy)
                errors = strategies.query_errors(strategy, aims.chosen_for, gaussian=gaussian, inverted=inverted)
                total = float(errors.sum())
                if math.isfinite(total) and strategies.spans(strategy, aims.read, inverted):
                    own = strategies.query_errors(strategy, asked.totals, gaussian=gaussian, inverted=inverted)
                    worse = most is not None and bool((own > most * (1 + SAME)).any())
                    design = Design(method, asked, strategy, own, total)
                    found.append((worse, total, design.name, len(found), design))
    if not found:
        raise DPError(
            OUT_OF_RANGE,
            f"method {workload.options.method} with strategy {workload.options.strategy} does not answer this workload",
            "Leave method and strategy to auto.",
        )
    return [design for *_, design in sorted(found)]


def _compares(options: Options) -> bool:
    """Whether the method is ours to choose, and each sum has an error by itself to be held against."""
    return options.method == "auto" and options.strategy == "auto" and options.aggregates == ("sum",)


def separate(workload: Workload, theta: int, *, gaussian: bool) -> Array:
    """The factors (Design) of every query by itself: its own sensitivity, at an equal share of the budget for each
    different one (composition.md §14.3)."""
    sensitivity = np.abs(sums_of(workload, theta).totals.dense()).max(axis=1, initial=0.0)
    count = len(workload.distinct.rows)
    return np.asarray(np.square(sensitivity) * (count if gaussian else count**2))


def weights_apart(workload: Workload) -> Array:
    """What the variance of each different query counts for: 1, or the weights of its places together."""
    given = workload.options.weights
    if not given:
        return np.ones(len(workload.distinct.rows))
    rows = workload.rows
    names = list(zip(rows.starts, rows.ends, strict=True)) if isinstance(rows, Runs) else list(rows)
    sums: dict[object, float] = {}
    for name, weight in zip(names, given, strict=True):
        sums[name] = sums.get(name, 0.0) + float(weight)
    return np.array(list(sums.values()))  # in the order of `distinct`


def mean_variance(workload: Workload, factors: Array) -> float:
    """Of the queries as they are asked, by their weights."""
    return float(np.average(factors, weights=[float(one) for one in workload.options.weights] or None))


def variance(amount: Fraction, *, gaussian: bool) -> float:
    """Of the noise for a sensitivity of 1: 2 / epsilon² (Laplace), 1 / (2 rho) (Gaussian)."""
    return 1 / (2 * float(amount)) if gaussian else 2 / float(amount) ** 2


@dataclass(frozen=True)
class Aims:
    """read: what a strategy must answer. chosen_for: what its error is measured on, which may be less or more."""

    read: Queries
    chosen_for: Queries


def _aims(workload: Workload, columns: Columns, theta: int, roots: Array) -> Aims:
    """roots: of what each query's variance counts for."""
    asked = workload.options.aggregates
    if asked == ("sum",):
        weighted = workload.options.weights
        return Aims(columns.totals, Written.of(columns.totals.dense() * roots[:, None]) if weighted else columns.totals)
    inside = weights_of(workload.rows) != 0
    highs = np.array([workload.cut(high, theta) for high in workload.cuts[1:]], dtype=float)
    lows = np.array([workload.cut(below + 1, theta) for below in workload.cuts[:-1]], dtype=float)
    highest = np.where(inside, highs, -np.inf).max(axis=1)
    lowest = np.where(inside, lows, np.inf).min(axis=1)
    values = np.maximum(np.maximum(np.abs(highest), np.abs(lowest)), 1.0)  # what a row counts for
    return Aims(read_from(columns, values), objective(columns, values, (lowest + highest) / 2, asked, roots))


def _data(workload: Workload, theta: int) -> Iterator[Columns]:
    """Pairs answer counts too; sums alone where only sums are asked for, or a method of the paper, or many cells."""
    options = workload.options
    sums_only = options.aggregates == ("sum",)
    large = len(workload.rows) * workload.blocks > (MAX_TRIED if sums_only else MAX_PAIR_CELLS)
    if large and not sums_only:
        raise DPError(
            OUT_OF_RANGE,
            f"counts and averages are answered for at most {MAX_PAIR_CELLS} cells of queries by buckets",
            "Ask for sums alone, without aggregates, or for fewer queries.",
        )
    if sums_only and (sums := sums_of(workload, theta)).columns:
        yield sums
    if not large and workload.per != "total":  # whose parts are no values of a block
        yield pairs_of(workload, theta)


def _strategies(options: Options, columns: Columns, aims: Aims, *, gaussian: bool) -> Iterator[tuple[str, Build]]:
    """(method, how to build the strategy) of every candidate."""
    count, wanted, aim = len(columns.columns), options.method, aims.read
    if wanted in ("auto", "identity"):
        yield "identity", partial(strategies.identity, count)
    if wanted in ("auto", "workload"):
        yield "workload", partial(strategies.workload, aim)
    if wanted == "sqm":
        yield "sqm", partial(_single, aim, gaussian=gaussian, equal=options.split == "equal")
    if wanted in ("auto", "tamm") and count <= MOST_COLUMNS:
        for build in _chosen(options, columns, aims, gaussian=gaussian):
            yield "tamm", build
    if wanted in ("auto", "timm") and count <= MOST_COLUMNS:
        yield from _independent(options, columns, aims, gaussian=gaussian)


def _chosen(options: Options, columns: Columns, aims: Aims, *, gaussian: bool) -> Iterator[Build]:
    """Strategies for queries over columns; the first, where the noise is Gaussian, is the best for its L2 norm."""
    count, wanted, aim = aims.read.shape[1], options.strategy, aims.read
    if gaussian and (wanted == "optimal" or (wanted == "auto" and count <= LARGEST)):
        yield partial(optimal, aims.chosen_for)
    if wanted in ("auto", "greedyh"):
        yield partial(greedyh, aim)
    if wanted in ("auto", "p-identity"):
        sizes = sorted({min(rows, count) for rows in (*P_IDENTITY, max(1, min(count // 16, 62)))})
        yield from p_identities(aims.chosen_for, sizes)
    if wanted in ("auto", "tree") and columns.data == "sums":
        for branching in TREES:
            yield partial(strategies.tree, count, branching)
    if wanted in ("auto", "wavelet") and columns.data == "sums":
        yield partial(strategies.wavelet, count)
    if wanted == "identity":
        yield partial(strategies.identity, count)
    if wanted == "workload":
        yield partial(strategies.workload, aim)


def _own(options: Options, columns: Columns) -> Strategy:
    """The asker's rows, without the buckets that can have no sum."""
    matrix = weights_of(options.own)[:, [column.block for column in columns.columns]]
    return Strategy(CUSTOM, matrix[np.any(matrix != 0, axis=1)])


def _independent(options: Options, columns: Columns, aims: Aims, *, gaussian: bool) -> Iterator[tuple[str, Build]]:
    """TiMM: a strategy for the queries before truncation, over truncated columns; S = A T (§7.5)."""
    weights = np.asarray(columns.weights, dtype=float)
    whole = Aims(*(Written.of(one.dense() / weights) for one in (aims.read, aims.chosen_for)))
    if options.strategy == CUSTOM and columns.data == "sums":
        yield "timm", partial(_truncated, partial(_own, options, columns), weights)
    usual = replace(options, strategy="greedyh") if options.strategy == "auto" else options
    for build in _chosen(usual, columns, whole, gaussian=gaussian):
        yield "timm", partial(_truncated, build, weights)


def _truncated(build: Build, weights: Array) -> Strategy:
    strategy = build()
    return Strategy(strategy.name, strategy.matrix * (weights / weights.max()))


def _single(aim: Queries, *, gaussian: bool, equal: bool) -> Strategy:
    """Every query by itself: an equal split of the budget, or the one that is least in total variance.

    In the latter a query of sensitivity s takes a share of the L1 norm in proportion to s^(2/3); of the squared L2
    norm (Gaussian noise), to s.
    """
    matrix = aim.dense()
    sensitivity = np.abs(matrix).max(axis=1)
    rows = matrix[sensitivity > 0] / sensitivity[sensitivity > 0][:, None]
    shares = np.power(sensitivity[sensitivity > 0], 0 if equal else 1 / 2 if gaussian else 2 / 3)
    return Strategy("sqm", rows * (shares / shares.sum())[:, None])


def root_mean_square(design: Design, amount: Fraction, *, gaussian: bool) -> float:
    """Predicted RMSE of the sums, lattice units, at a share of the budget."""
    return math.sqrt(float(np.mean(design.factors)) * variance(amount, gaussian=gaussian))
