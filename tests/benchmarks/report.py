"""The form of every benchmark: a table on the terminal, build/bench/NAME.json, ratios from pairs of one run."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
Row = dict[str, object]


def paired(ours: Callable[[], object], baseline: Callable[[], object], times: int) -> tuple[float, float, float]:
    """Median seconds of each, and the median of the ratios of neighbouring runs: drift of the machine cancels."""
    a, b = [], []
    ours(), baseline()
    for _ in range(times):
        a.append(_seconds(ours))
        b.append(_seconds(baseline))
    return statistics.median(a), statistics.median(b), statistics.median(x / y for x, y in zip(a, b, strict=True))


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def row(metric: str, ours: float | None, baseline: float | None, note: str, ratio: float | None = None) -> Row:
    """One line of a report; `ratio` defaults to ours / baseline. Without a number, the note says how to get it."""
    if ratio is None and baseline and ours is not None:
        ratio = ours / baseline
    return {
        "metric": metric,
        "ours": None if ours is None else _short(ours),
        "baseline": None if baseline is None else _short(baseline),
        "ratio": None if ratio is None else round(ratio, 3),
        "note": note,
    }


def _short(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.4g}")  # what is counted is told exactly


def publish(name: str, rows: Sequence[Row], hidden: tuple[str, ...] = ()) -> None:
    """Print the table, but metrics that start with what is hidden, and write all to build/bench/NAME.json."""
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(list(rows), indent=1) + "\n")
    shown = [r for r in rows if not str(r["metric"]).startswith(hidden)]
    width = max(len(str(r["metric"])) for r in shown)
    print(f"\n{'metric':{width}}  {'ours':>10}  {'baseline':>10}  {'ratio':>7}  note")
    for r in shown:
        ours, base, ratio = ("-" if r[k] is None else r[k] for k in ("ours", "baseline", "ratio"))
        print(f"{r['metric']:{width}}  {ours:>10}  {base:>10}  {ratio:>7}  {r['note']}")
    print(f"\nwritten: build/bench/{name}.json")
