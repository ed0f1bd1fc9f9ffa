"""Plots of bench_turbo: build/bench/turbo-NAME.png."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.turbo_experiments import Outcome

FOLDER = Path(__file__).resolve().parents[2] / "build" / "bench"


def _save(name: str, curves: Mapping[str, Iterable[tuple[float, float]]], across: str, up: str, style: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for label, points in curves.items():
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, style, label=label)
    axes.set(xlabel=across, ylabel=up, title=name, yscale="log", xscale="log" if "o" in style else "linear")
    axes.legend(fontsize="small")
    figure.tight_layout()
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / f"turbo-{name}.png", dpi=120)
    pyplot.close(figure)


def budgets(name: str, outcomes: Mapping[str, Outcome]) -> None:
    """The budget as it grows with the queries, a curve for each method."""
    curves = {method: list(zip(out.at, out.budget, strict=True)) for method, out in outcomes.items()}
    _save(name, curves, "queries", "mean epsilon over partitions", "-")


def sweep(name: str, found: Iterable[tuple[str, float, float]], across: str) -> None:
    """A result by a parameter."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for curve, x, y in found:
        curves.setdefault(curve, []).append((x, y))
    _save(name, curves, across, "updates" if name == "convergence" else "epsilon", "o-")
