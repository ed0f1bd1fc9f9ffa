"""How fast noise is drawn: one call for a vector (noise.laplace) against one OpenDP call for each cell.

Both draw from the same exact sampler (discrete Laplace on integers, operating system entropy), so the ratio is the
price of crossing into the library once per cell. `python -m benchmarks.laplace_draws` prints the rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from pg_epsilon.accounting.margins import laplace_scale
from pg_epsilon.noise import current

CELLS = 20_000
SCALAR_CELLS = 2_000
REPEATS = 3


def _rate(draw: Callable[[], object], draws: int) -> float:
    """Draws a second, best of REPEATS."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        draw()
        best = min(best, time.perf_counter() - start)
    return draws / best


def measure() -> list[dict[str, object]]:
    """One bench row: {"metric", "ours", "baseline", "ratio", "note"}; rates in draws per second, higher is better."""
    source = current()
    vector = [1000] * CELLS
    source.laplace([0], l1_sensitivity=1, epsilon=1, label="imports the library")
    ours = _rate(lambda: source.laplace(vector, l1_sensitivity=1, epsilon=1, label="bench"), CELLS)

    from opendp.domains import atom_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import absolute_distance

    scalar = make_laplace(atom_domain(T="i64"), absolute_distance(T="i64"), laplace_scale(1, 1))
    baseline = _rate(lambda: [scalar(1000) for _ in range(SCALAR_CELLS)], SCALAR_CELLS)
    return [
        {
            "metric": "laplace_draws_per_second",
            "ours": round(ours),
            "baseline": round(baseline),
            "ratio": round(ours / baseline, 2),
            "note": f"exact discrete Laplace, epsilon 1: one noise.laplace call of {CELLS} cells, "
            "against one scalar OpenDP call per cell; same law, same sampler",
        }
    ]


if __name__ == "__main__":
    for row in measure():
        print(json.dumps(row))
