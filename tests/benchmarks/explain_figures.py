"""Figures 7 to 10 and 13 to 15 of the paper on explanations: build/bench/explain-figureN.png.

Drawn by the engine's own functions from the exact cells of each question, with the paper's budgets
unless a figure sweeps them, once with our sensitivities and once with the paper's. Groups are taken
for named beforehand. Figure 15 has numpy's noise: the exact selection of every predicate would take
hours. explain-figures.json has all numbers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from benchmarks.explain_data import MEASURES, Tables
from benchmarks.explain_scores import Reading, Scored, Setting, kendall_by_law, pick, precision
from pg_epsilon.explain.forms import Cell, Form, Halves
from pg_epsilon.explain.forms import Noise as Law
from pg_epsilon.explain.question import Interval, Question, compare
from pg_epsilon.explain.table import denominator
from pg_epsilon.mechanisms.additive import Additive, core
from pg_epsilon.noise import Noise

PAPER = Setting(top=0.5, influence=0.5, rank=1.0)
RHO_Q = 0.1
RHOS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
OF_QUERIES = (*RHOS, 5.0, 10.0)
SIZES = tuple(range(3, 9))
LEVELS = (*(n / 10 for n in range(1, 10)), 0.95, 0.99)
RUNS, DECISIONS = 10, 50  # a point
TAKEN = {"I1": (67, 3078, 79634), "G1": (40, 1587, 39922)}  # seconds of l = 1, 2, 3 in the paper
MODES = {"our sensitivities": False, "the paper's sensitivities": True}
Curves = dict[str, tuple[list[float], list[float]]]
Pair = tuple[Form, Form]
Right = Callable[[Interval, bool], bool]


@dataclass(frozen=True)
class Panel:
    """One system of axes. bars: seconds by name, in place of curves."""

    title: str
    across: str
    up: str
    curves: Curves = field(default_factory=dict)
    bars: dict[str, float] = field(default_factory=dict)
    log_x: bool = True
    log_y: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure of the paper: rows of panels."""

    number: int
    caption: str
    panels: list[list[Panel]]


@dataclass(frozen=True)
class Material:
    """What figures are made of: each question's cells, and its predicates of one value."""

    tables: Tables
    readings: Mapping[str, Reading]

    def scored(self) -> dict[str, Scored]:
        """By question."""
        return {name: one.scored(self.tables, 1) for name, one in self.readings.items()}


def releases(scored: Scored, rho: float, runs: int) -> list[Pair]:
    """The averages of a question, so often: rho halved for sums and rows (dpxplain.md §4)."""
    _, low, high = MEASURES[scored.reading.asked.table]
    centre, half = (low + high) // 2, Decimal(str(rho)) / 2
    reach = max(high - centre, centre - low)
    total, count = Additive(reach, reach**2, rho=half), Additive(1, 1, rho=half)
    cells, groups = scored.found.cells, []
    for rows, summed in zip(cells.rows, cells.sums, strict=True):
        sums = core([summed - centre * rows] * runs, total, Noise(), "bench")
        counts = core([rows] * runs, count, Noise(), "bench")
        halves = [
            Halves(Cell(s, Law.of(total)), Cell(n, Law.of(count)), Fraction(1), low, high, centre)
            for s, n in zip(sums, counts, strict=True)
        ]
        groups.append(halves)
    return list(zip(*groups, strict=True))


def compared(pair: Pair, method: str = "auto") -> Interval:
    """For groups that were named beforehand."""
    return compare(Question(pair, method=method))


def divisors(scored: Scored, runs: int) -> list[float]:
    """What influences are divided by to be relative, of so many releases (dpxplain.md §6.8)."""
    found = []
    for pair in releases(scored, RHO_Q, runs):
        counts = [form.count.number for form in pair if isinstance(form, Halves)]
        found.append(denominator("avg", compared(pair, "box").difference, counts))
    return found


def share_width(scored: Scored, setting: Setting, by: Sequence[float]) -> float:
    """The mean width of intervals of relative influences; all k have one width."""
    how = scored.how(setting)
    return mean(float(2 * how.margin / how.steps) / one for one in by)


def rank_width(scored: Scored, setting: Setting, runs: int = RUNS) -> float:
    """The mean of highest less lowest rank, over the k picks of so many runs."""
    how = scored.how(setting)
    points, noise = scored.points(how), Noise()
    ordered, epsilon = sorted(points, reverse=True), Fraction(how.price.selection)
    picks = [place for _ in range(runs) for place in pick(points, how, how.k, epsilon)]
    ends = [how.search.interval(points[place], ordered, noise, "bench") for place in picks]
    return mean(high - low for low, high in ends)


def _by(
    names: Mapping[str, Scored],
    xs: Sequence[float],
    value: Callable[[Scored, float], float],
) -> Curves:
    return {name: (list(xs), [value(one, x) for x in xs]) for name, one in names.items()}


def validity(some: Mapping[str, Scored]) -> Picture:
    """Figure 7: of 50 releases, how many are judged rightly."""

    def judged(method: str, right: Right, one: Scored, rho: float) -> float:
        found = [compared(pair, method) for pair in releases(one, rho, DECISIONS)]
        return mean(right(interval, one.gap > 0) for interval in found)

    def above(interval: Interval, valid: bool) -> bool:
        return (interval.low > 0) == valid

    def below(interval: Interval, valid: bool) -> bool:
        return not valid and interval.high < 0

    invalid = {name: one for name, one in some.items() if one.gap < 0}
    words = ("rho of the query", "judged rightly")
    ours, box = partial(judged, "auto", above), partial(judged, "box", above)
    reversed_ = partial(judged, "auto", below)
    panels = [
        Panel("valid: low > 0, joint region", *words, _by(some, OF_QUERIES, ours)),
        Panel("valid: low > 0, the paper's box", *words, _by(some, OF_QUERIES, box)),
        Panel("invalid ones: high < 0, joint region", *words, _by(invalid, OF_QUERIES, reversed_)),
    ]
    caption = f"the probability of judging a question rightly, {DECISIONS} releases a point"
    return Picture(7, caption, [panels])


def precisions(some: Mapping[str, Scored]) -> Picture:
    """Figure 8: how many of the picks are among the true k, by rho and by k."""
    rows: list[list[Panel]] = [[], []]
    for words, printed in MODES.items():
        base = replace(PAPER, printed=printed)

        def by_rho(one: Scored, rho: float, base: Setting = base) -> float:
            return mean(precision(one, replace(base, top=rho), RUNS))

        def by_k(one: Scored, k: float, base: Setting = base) -> float:
            return mean(precision(one, replace(base, k=int(k)), RUNS))

        title, curves = f"(a) k = 5, {words}", _by(some, RHOS, by_rho)
        rows[0].append(Panel(title, "rho of the selection", "precision at k", curves))
        curves = _by(some, SIZES, by_k)
        rows[1].append(Panel(f"(b) rho .5, {words}", "k", "precision at k", curves, log_x=False))
    return Picture(8, f"precision at k, {RUNS} runs a point", rows)


def widths(some: Mapping[str, Scored]) -> Picture:
    """Figure 9: widths of both kinds of intervals by rho."""
    by = {name: divisors(one, RUNS) for name, one in some.items()}
    rows: list[list[Panel]] = [[], []]
    for words, printed in MODES.items():
        base = replace(PAPER, printed=printed)

        def shares(one: Scored, rho: float, base: Setting = base) -> float:
            return share_width(one, replace(base, influence=rho), by[one.reading.name])

        def ranks(one: Scored, rho: float, base: Setting = base) -> float:
            return rank_width(one, replace(base, rank=rho))

        first = Panel(f"(a) {words}", "rho of influences", "width, relative influence")
        rows[0].append(replace(first, curves=_by(some, RHOS, shares), log_y=True))
        rows[1].append(Panel(f"(b) {words}", "rho of ranks", "width, rank", _by(some, RHOS, ranks)))
    return Picture(9, f"the width of intervals at .95, mean of {RUNS} runs a point", rows)


def by_level(some: Mapping[str, Scored]) -> Iterator[Picture]:
    """Figures 13 and 14: widths by confidence."""
    by = {name: divisors(one, RUNS) for name, one in some.items()}
    shares, ranks = [], []
    for words, printed in MODES.items():
        base = replace(PAPER, printed=printed)

        def share(one: Scored, level: float, base: Setting = base) -> float:
            return share_width(one, replace(base, confidence=level), by[one.reading.name])

        def rank(one: Scored, level: float, base: Setting = base) -> float:
            return rank_width(one, replace(base, confidence=level))

        first = Panel(words, "confidence", "width, relative influence", _by(some, LEVELS, share))
        second = Panel(words, "confidence", "width, rank", _by(some, LEVELS, rank))
        shares.append(replace(first, log_x=False, log_y=True))
        ranks.append(replace(second, log_x=False))
    told = f"by confidence, mean of {RUNS} runs a point"
    yield Picture(13, f"the width of intervals of relative influences {told}", [shares])
    yield Picture(14, f"the width of intervals of ranks {told}", [ranks])


def seconds(scored: Scored, setting: Setting, runs: int) -> dict[str, float]:
    """What each step takes; draws and comparison: the mean of so many."""
    how, noise, pairs = scored.how(setting), Noise(), releases(scored, RHO_Q, runs)
    clock = [time.perf_counter()]

    def lap() -> float:
        clock.append(time.perf_counter())
        return clock[-1] - clock[-2]

    points = scored.points(how)
    steps = {"statement": scored.reading.seconds, "marginals": scored.seconds, "influences": lap()}
    for pair in pairs:
        compared(pair)
    steps["comparison"] = lap() / runs
    epsilon = Fraction(how.price.selection)
    picks = [pick(points, how, how.k, epsilon) for _ in range(runs)]
    steps["selection"] = lap() / runs
    budget = how.price.budget(how.price.influences)
    for some in picks:
        budget.noisy([points[place] for place in some], how.moved, noise, "bench")
    steps["intervals of influences"] = lap() / runs
    for some in picks:
        ordered = sorted(points, reverse=True)
        for place in some:
            how.search.interval(points[place], ordered, noise, "bench")
    steps["intervals of ranks"] = lap() / runs
    return steps


def times(material: Material, some: Mapping[str, Scored]) -> Picture:
    """Figure 10: where the time goes, and how it grows with k and with the size of predicates."""
    each = [seconds(one, PAPER, RUNS) for one in some.values()]
    bars = {step: mean(one[step] for one in each) for step in each[0]}
    by_k = _by(some, SIZES, lambda one, k: sum(seconds(one, replace(PAPER, k=int(k)), 3).values()))
    by_l: Curves = {}
    sizes = [1.0, 2.0, 3.0]
    for name, theirs in TAKEN.items():
        own = [material.readings[name].scored(material.tables, int(most)) for most in sizes]
        by_l[name] = sizes, [sum(seconds(one, PAPER, 1).values()) for one in own]
        by_l[f"{name}, as the paper tells"] = sizes, [float(one) for one in theirs]
    panels = [
        Panel("(a) mean of the questions, l = 1, k = 5", "seconds", "", bars=bars, log_x=False),
        Panel("(b) by k, l = 1", "k", "seconds", by_k, log_x=False),
        Panel("(c) by the number of values", "l", "seconds", by_l, log_x=False, log_y=True),
    ]
    caption = "time of an explanation: the statement once, draws in the engine's own functions"
    return Picture(10, caption, [panels])


def orders(material: Material, some: Mapping[str, Scored]) -> Picture:
    """Figure 15: Kendall's tau of the order of all predicates, by numpy's noise."""
    rng = np.random.default_rng(15)
    rows: list[list[Panel]] = [[] for _ in MODES]
    for most in (1, 2, 3):
        two = {name: material.readings[name] for name in TAKEN if most > 1}
        longer = {name: one.scored(material.tables, most) for name, one in two.items()}
        asked = longer or some
        for row, (words, printed) in zip(rows, MODES.items(), strict=True):
            settings = {rho: replace(PAPER, top=rho, printed=printed) for rho in RHOS}
            curves: Curves = {}
            for name, one in asked.items():
                found = kendall_by_law(one, settings, RUNS if most == 1 else 3, rng)
                curves[name] = list(found), list(found.values())
            title = f"l = {most}, {words}"
            row.append(Panel(title, "rho of the selection", "Kendall's tau-b", curves))
    caption = "all predicates ranked, k = |P|, by numpy's Gumbel noise, not the exact selection"
    return Picture(15, f"{caption}; {RUNS} runs a point (l = 1), 3 (l = 2, 3)", rows)


def pictures(material: Material) -> Iterator[Picture]:
    """All of them."""
    some = material.scored()
    yield validity(some)
    yield precisions(some)
    yield widths(some)
    yield times(material, some)
    yield from by_level(some)
    yield orders(material, some)


def draw(picture: Picture, folder: Path) -> Path:
    """One figure as a PNG."""
    from matplotlib.figure import Figure

    rows, columns = len(picture.panels), max(map(len, picture.panels))
    canvas = Figure(figsize=(5.4 * columns, 3.9 * rows + 0.5), layout="constrained")
    grid = canvas.subplots(rows, columns, squeeze=False)
    for axes, panels in zip(grid, picture.panels, strict=True):
        for axis, panel in zip(axes, panels, strict=True):
            _panel(axis, panel)
    canvas.suptitle(f"Figure {picture.number}: {picture.caption}", fontsize=10)
    path = folder / f"explain-figure{picture.number}.png"
    canvas.savefig(path, dpi=90)
    return path


def _panel(axis: Any, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_title(panel.title, fontsize=9)
    axis.set(xlabel=panel.across, ylabel=panel.up)
    if panel.bars:
        bars = axis.barh(list(panel.bars), list(panel.bars.values()))
        axis.bar_label(bars, fmt="%.3g", fontsize=8, padding=2)
        axis.invert_yaxis()
        axis.margins(x=0.15)
        return
    for number, (name, (xs, ys)) in enumerate(panel.curves.items()):
        style = "o--" if name.startswith("G") else "s-"
        axis.plot(xs, ys, style, color=f"C{number % 10}", label=name, linewidth=1.1, markersize=3.5)
    axis.set_xscale("log" if panel.log_x else "linear")
    axis.set_yscale("log" if panel.log_y else "linear")
    if panel.across in ("k", "l"):
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend(fontsize=7, ncols=2 if len(panel.curves) > 5 else 1)


def figures(material: Material, folder: Path) -> list[Path]:
    """Draws all figures, and writes their numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    found = list(pictures(material))
    numbers = json.dumps([asdict(one) for one in found], indent=1)
    (folder / "explain-figures.json").write_text(numbers + "\n")
    return [draw(one, folder) for one in found]
