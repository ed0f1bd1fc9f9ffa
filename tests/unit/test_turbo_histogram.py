"""The histogram: vectors of turbo.md §13, readiness and penalties (§6.6), and that a log restores it bit for bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_epsilon.turbo.bins import Domain, Query, box_query, value_query
from pg_epsilon.turbo.histogram import Change, Event, Heuristic, Histogram

FOUR = Domain((4,))
PAIR = box_query(FOUR, [[0, 1]])
ONCE = Heuristic(c0=0)


def shares(histogram: Histogram) -> list[float]:
    return (histogram.weights / histogram.mass).tolist()


def test_an_update_of_a_predicate() -> None:
    h = Histogram.uniform(4, ONCE)
    h.update(PAIR, 0.25)
    assert shares(h) == pytest.approx([0.28108825, 0.28108825, 0.21891175, 0.21891175], abs=6e-9)
    assert h.counts.tolist() == [1, 1, 0, 0]


def test_an_update_of_a_query_with_values() -> None:
    h = Histogram.uniform(4, ONCE)
    h.update(value_query(FOUR, [2, 1, 0, 0], 1), -0.1)
    assert shares(h) == pytest.approx([0.23465294, 0.24668385, 0.2593316, 0.2593316], abs=6e-9)
    assert h.counts.tolist() == [1, 1, 0, 0]


def test_a_tie_counts_nothing() -> None:
    h = Histogram.uniform(4, ONCE)
    h.update(PAIR, 0.0)
    assert (h.counts.tolist(), h.updates, shares(h)) == ([0] * 4, 0, [0.25] * 4)


def test_estimates_are_in_steps_of_the_query() -> None:
    h = Histogram.uniform(4, ONCE)
    assert h.estimate(PAIR, 1000) == 500
    assert h.estimate(value_query(FOUR, [2, 1, 0, 0], 1), 1000) == 750


def test_a_penalty_raises_the_least_updated_bins_only() -> None:
    h = Histogram.uniform(4, Heuristic(c0=2, s0=5))
    h.counts[:] = [3, 7, 3, 0]
    h.penalize(box_query(FOUR, [[0, 1, 2]]), Heuristic(c0=2, s0=5))
    assert h.thresholds.tolist() == [8, 2, 8, 2]  # max(C, c) + S0, never lower (E-15)
    assert not h.ready(PAIR, Heuristic(c0=2, s0=5))


def test_after_a_penalty_it_takes_s0_updates_to_be_ready() -> None:
    heuristic = Heuristic(c0=2, s0=5)
    h = Histogram.uniform(4, heuristic)
    for _ in range(2):
        assert not h.ready(PAIR, heuristic)
        h.update(PAIR, 0.1)
    assert h.ready(PAIR, heuristic)
    h.penalize(PAIR, heuristic)
    for _ in range(5):
        assert not h.ready(PAIR, heuristic)
        h.update(PAIR, 0.1)
    assert h.ready(PAIR, heuristic)
    assert not h.ready(box_query(FOUR, [[0, 2]]), heuristic)


def test_fixed_thresholds_do_not_move() -> None:
    fixed = Heuristic(c0=2, s0=0)
    h = Histogram.uniform(4, fixed)
    h.penalize(PAIR, fixed)
    assert h.thresholds.tolist() == [2] * 4


def test_the_coarse_heuristic_counts_for_the_histogram() -> None:
    coarse = Heuristic(c0=2, s0=3, per_bin=False)
    h = Histogram.uniform(4, coarse)
    h.update(PAIR, 0.1)
    h.update(PAIR, 0.1)
    assert h.ready(box_query(FOUR, [[3]]), coarse)
    h.penalize(PAIR, coarse)
    assert not h.ready(PAIR, coarse)
    assert h.limit == 5


def test_the_cut_off_makes_everything_ready() -> None:
    limited = Heuristic(c0=100, bypass_limit=2)
    h = Histogram.uniform(4, limited)
    for _ in range(2):
        assert not h.ready(PAIR, limited)
        h.apply(Event(Change.BYPASS, PAIR.id, 0.0), PAIR, limited)
    assert h.ready(PAIR, limited)


def test_the_learning_rate_falls_with_the_least_count() -> None:
    h, usual = Histogram.uniform(4, ONCE), Heuristic()
    for least, rate in ((0, 0.25), (49, 0.25), (50, 0.0625), (99, 0.0625), (100, 0.025), (10**6, 0.025)):
        h.counts[:] = [least, least + 3, 0, 0]
        assert h.rate(PAIR, usual) == rate
    assert h.rate(PAIR, Heuristic(rates=((0.0, 0.5),))) == 0.5


def events(seed: int, count: int) -> list[tuple[Event, Query]]:
    rng = np.random.default_rng(seed)
    queries = [box_query(FOUR, [rng.permutation(4)[: rng.integers(1, 4)].tolist()]) for _ in range(5)]
    queries.append(value_query(FOUR, [3, 0, 1, 8], 3))
    made = []
    for _ in range(count):
        query = queries[rng.integers(len(queries))]
        change = Change(int(rng.integers(1, 4)))
        step = 0.0 if change is Change.PENALIZE else float(rng.choice([-0.25, 0.0, 0.0625]))
        made.append((Event(change, query.id, step), query))
    return made


@given(st.integers(0, 2**32), st.integers(0, 60), st.booleans())
@settings(database=None, deadline=None, max_examples=40)
def test_a_snapshot_and_its_log_are_the_histogram(seed: int, cut: int, per_bin: bool) -> None:
    heuristic = Heuristic(c0=3, s0=2, per_bin=per_bin)
    live = Histogram.uniform(4, heuristic)
    snapshot, log = live.to_bytes(), []
    for at, (event, query) in enumerate(events(seed, 60)):
        if at == cut:
            snapshot, log = live.to_bytes(), []
        live.apply(event, query, heuristic)
        log.append((event.to_bytes(), query.to_bytes()))
    again = Histogram.from_bytes(snapshot)
    queries = {q.id: q for q in (Query.from_bytes(data) for _, data in log)}
    again.replay([Event.from_bytes(data) for data, _ in log], queries, heuristic)
    assert again.to_bytes() == live.to_bytes()


def test_a_bin_takes_16_bytes() -> None:
    assert len(Histogram.uniform(1000, ONCE).to_bytes()) == 28 + 16 * 1000
    h = Histogram.uniform(1000, ONCE)
    assert h.weights.nbytes + h.counts.nbytes + h.thresholds.nbytes == 16 * 1000
    with pytest.raises(ValueError, match="snapshot"):
        Histogram.from_bytes(h.to_bytes()[:-1])


def test_weights_never_leave_the_range_of_doubles() -> None:
    """10,000 updates by e^0.25 in one direction: e^2500 overflows, the histogram does not."""
    h, one = Histogram.uniform(4, ONCE), box_query(FOUR, [[0]])
    for _ in range(10_000):
        h.update(one, 0.25)
    assert math.isfinite(h.mass)
    assert h.estimate(one, 1000) == pytest.approx(1000)


def test_warm_starts() -> None:
    a, b = Histogram.uniform(4, Heuristic(c0=10)), Histogram.uniform(4, Heuristic(c0=10))
    a.update(PAIR, 1.0)
    b.thresholds[:] = 15
    b.counts[:] = 3
    mean = Histogram.average([a, b], [1, 3])
    expected = (a.weights / a.mass + 3 * b.weights / b.mass) / 4
    assert shares(mean) == pytest.approx(expected.tolist())
    assert mean.counts.tolist() == [2, 2, 1, 1]
    assert mean.thresholds.tolist() == [12] * 4
    copy = a.copy()
    copy.update(PAIR, 1.0)
    assert a.counts.tolist() == [1, 1, 0, 0]
    mixed = a.copy().mixed(0.2)
    assert min(shares(mixed)) >= 0.05
