"""What Turbo saves on the paper's Covid workload (alpha 0.05, beta 0.001), simulated with seeds: runs can be repeated.

`make bench-turbo` has all experiments and sizes; this keeps the two figures that the project promises.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from benchmarks import turbo_auto
from benchmarks.turbo_data import covid, merged, picks
from benchmarks.turbo_experiments import METHODS, Case, stream, whole, windows
from pg_epsilon.turbo.calibration import Calibration
from pg_epsilon.turbo.histogram import Heuristic
from pg_epsilon.turbo.view import View

PRICES = Calibration(Fraction(5, 100), Fraction(1, 1000))


@pytest.mark.long
def test_uniform_queries_of_one_table_cost_a_fifteenth_of_the_exact_cache() -> None:
    """70,000 queries, uniform over 34,425; off by more than alpha less often than beta."""
    load = merged(covid(), 1)
    asked = picks(len(load.pool), 70_000, 0, 20231023)
    case = Case("covid-k0", load, View(load.domain, PRICES), asked, whole(asked))
    turbo, exact = METHODS["turbo"](case), METHODS["exact"](case)
    assert exact.final > 15 * turbo.final
    assert turbo.violations < 0.001


@pytest.mark.slow
def test_a_stream_with_warm_start_costs_a_quarter_of_the_best_cache() -> None:
    """300,000 queries of the latest partitions of 50."""
    load = covid()
    asked = picks(len(load.pool), 300_000, 0, 20231023)
    view = View(load.domain, PRICES, Heuristic(c0=50), warm=True)
    case = Case("stream-covid-k0-warm", load, view, asked, stream(asked, 50, 20231023), growing=True)
    turbo = METHODS["turbo"](case)
    best = min(METHODS[method](case).final for method in ("exact", "tree-exact"))
    assert best > 4 * turbo.final
    assert turbo.violations < 0.001


@pytest.mark.long
@pytest.mark.parametrize("count", [200, 1000, 3000])
@pytest.mark.parametrize("kind", ["one table", "static", "stream"])
def test_what_was_declared_is_never_a_tenth_dearer_than_the_best_single_method(kind: str, count: int) -> None:
    """In hindsight, of the exact cache and a synopsis fixed beforehand, whose margin is the weaker one. 50 partitions:
    200 questions are too few for a synopsis, 3,000 enough."""
    load = merged(covid(), 1) if kind == "one table" else covid()
    asked = picks(len(load.pool), count, 0, 20231023)
    spans = {
        "one table": lambda: whole(asked),
        "static": lambda: windows(asked, 50, 1),
        "stream": lambda: stream(asked, 50, 1),
    }
    case = Case(kind, load, View(load.domain, PRICES), asked, spans[kind](), growing=kind == "stream")
    best = min(METHODS[method](case).final for method in ("exact", "synopsis"))
    for method in ("auto-declared", "auto-forecast"):
        assert turbo_auto.METHODS[method](case).final <= 1.1 * best
