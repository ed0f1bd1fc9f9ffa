"""Multiplicative weights at the size of Adult's losses: CPU seconds of 10 rounds with 50 sweeps
(numeric-release.md §0.0).

    tests/benchmarks/release_mwem.py [ROUNDS]

907,060 candidates (32,395 boxes of age and education) over 24,000 cells, 48,842 rows of which 2,282
have a loss; rows are made up. With production noise. At most 2 seconds of the process for 10
rounds.
"""

from __future__ import annotations

import sys
import time
from fractions import Fraction
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "extension")]

import numpy as np  # noqa: E402

from pg_epsilon import noise  # noqa: E402
from pg_epsilon.mechanisms import mwem  # noqa: E402
from pg_epsilon.release.algorithm2 import Algorithm2, Plan, places_of  # noqa: E402
from pg_epsilon.release.candidates import Family, histogram  # noqa: E402
from pg_epsilon.release.decompose import Measure  # noqa: E402
from pg_epsilon.release.predicates import Boxes  # noqa: E402
from pg_epsilon.release.rounds import shares  # noqa: E402
from pg_epsilon.release.truncation import Rounding, alpha_of, answer_all  # noqa: E402

SIZES, QUERIES, BOUND = (100, 16), 32_395, 4396
ROWS, LOSSES = 48_842, 2_282
MOST_SECONDS = 2.0


def family() -> Family:
    rng = np.random.default_rng(1)
    low = np.stack([rng.integers(0, size, QUERIES) for size in SIZES], axis=1)
    ends = [rng.integers(first + 1, size + 1) for first, size in zip(low.T, SIZES, strict=True)]
    return Family(Measure("split", Fraction(BOUND)), Boxes(SIZES, low, np.stack(ends, axis=1)))


def masses(asked: Family, places: int) -> mwem.Array:
    rng = np.random.default_rng(2)
    ages = np.clip(rng.normal(38, 13, ROWS), 17, 90).astype(int)
    classes = ages * SIZES[1] + rng.integers(0, SIZES[1], ROWS)
    losses = np.where(np.arange(ROWS) < LOSSES, np.clip(rng.normal(1870, 380, ROWS), 155, 4356), 0)
    pairs = zip(classes.tolist(), losses.astype(int).tolist(), strict=True)
    return histogram(asked, [(place, Fraction(loss)) for place, loss in pairs], places)


def adult_rounds(rounds: int = 10) -> dict[str, float]:
    """CPU seconds of this process: of the rounds, of the answers and bars of all queries."""
    noise.try_sampler()  # OpenDP is loaded once a session
    asked = family()
    plan = Plan(shares(Fraction(1)), max_rows=10**5, rounds=rounds)
    algorithm = Algorithm2(asked, plan)
    private = masses(asked, places_of(plan.max_rows))
    start = time.process_time()
    released = algorithm.release(private, noise.current(), "adult")
    drawn = time.process_time()
    alpha = alpha_of(released.worst, asked, algorithm.sensitivity, plan.shares.alpha, algorithm.places)
    data = algorithm.masses(released)
    answer_all(asked, data, alpha, Rounding(algorithm.places, plan.max_rows))
    return {"rounds": drawn - start, "answers": time.process_time() - drawn, "alpha": float(alpha)}


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    found = adult_rounds(wanted)
    print(f"{wanted} rounds: {found['rounds']:.2f} CPU s; answers and bars: {found['answers']:.2f} CPU s")
    print(f"alpha~: {found['alpha']:.0f} rows")
    sys.exit(wanted == 10 and found["rounds"] > MOST_SECONDS)
