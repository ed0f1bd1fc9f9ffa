"""Margins that hold for all queries of a class together, and the designs calibrated by them (composition.md §7.3)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from pg_epsilon.turbo.bins import Domain, Query, box_query, mask_query, value_query
from pg_epsilon.turbo.calibration import Calibration, sum_quantile, sum_tail
from pg_epsilon.turbo.derive import Table, cover, tables_from_bytes, tables_to_bytes
from pg_epsilon.turbo.designs import BOXES, EVERY, WORKLOAD, Grid, Outlook, design_for, workload_design
from pg_epsilon.turbo.split import Node
from pg_epsilon.turbo.uniform import (
    _gamma_tail,
    _log_tail,
    _power,
    _shapes,
    box_quantile,
    box_sizes,
    class_quantile,
    every_quantile,
    grouped,
    positive_tail,
)

BETA = Fraction(1, 1000)
DOMAIN = Domain((2, 3, 4))
PRICES = Calibration(Fraction(1, 20), BETA)


def test_the_tail_of_a_sum_of_positive_parts_is_the_mixture_of_gamma_variables() -> None:
    for n, t in ((1, 3.0), (5, 7.5), (128, 100.0), (900, 520.0)):
        b = np.arange(1, n + 1)
        exact = float((stats.binom.pmf(b, n, 0.5) * stats.gamma.sf(t, b)).sum())
        assert positive_tail(n, t) == pytest.approx(exact, rel=1e-9)


def test_vectors() -> None:
    assert float(every_quantile(128, BETA)) == pytest.approx(100.039, abs=1e-3)
    assert float(every_quantile(1, BETA)) == pytest.approx(math.log(1000), abs=1e-6)
    assert float(class_quantile(((128, 1.0),), BETA)) == pytest.approx(float(sum_quantile(128, BETA)), rel=1e-6)
    assert float(class_quantile(((128, 34_425.0),), BETA)) == pytest.approx(91.05, abs=0.01)
    boxes = box_sizes((2, 2, 4, 8))
    assert boxes is not None and sum(n for _, n in boxes) == 3 * 3 * 15 * 255
    assert float(class_quantile(boxes, BETA)) == pytest.approx(62.727, abs=1e-3)
    assert box_sizes((700,)) is None and box_quantile((700,), BETA) is None
    tighter = box_quantile((2, 2, 4, 8), BETA)
    assert tighter is not None and float(tighter[0]) == pytest.approx(58.273, abs=1e-2) and tighter[1] == 8
    one = box_quantile((5,), BETA)  # all sets of one attribute's values are all 0/1 weightings of its bins
    assert one is not None and one[0] <= every_quantile(5, BETA) * Fraction(1000001, 1000000)


@pytest.mark.parametrize("cells", [513, 600, 2000])
def test_beyond_the_exact_sums_the_tail_is_bounded_from_above(cells: int) -> None:
    for sigmas in (1.0, 3.0, 6.0):
        t = sigmas * math.sqrt(2 * cells)
        assert sum_tail(cells, t) <= math.exp(_log_tail(cells, t, False)) <= 30 * sum_tail(cells, t)
    beyond = every_quantile(5000, BETA)
    assert positive_tail(5000, float(beyond)) <= 0.0005


def test_gaussian_positive_parts_are_bounded_from_above() -> None:
    """Exactly, for one and two cells; and not by more than Chernoff must give away."""
    for beta in (Fraction(1, 10), BETA):
        one = float(every_quantile(1, beta, gaussian=True))
        assert stats.norm.sf(one) <= float(beta) / 2 <= 30 * stats.norm.sf(one)
        two = float(every_quantile(2, beta, gaussian=True))
        # both positive: the sum is sqrt(2) times a normal one, along one direction; integrate the other
        grid = np.linspace(0, two, 20_001)
        tail = float(np.trapezoid(stats.norm.pdf(grid) * stats.norm.sf(two - grid), grid)) + stats.norm.sf(two) * 0.5
        assert tail + stats.norm.sf(two) <= float(beta) / 2


@pytest.mark.long
@pytest.mark.parametrize(("terms", "cells", "t"), [(1, 1, 4.0), (1, 7, 9.0), (4, 1, 8.0), (8, 16, 40.0), (3, 2, 1.5)])
def test_the_largest_error_over_one_attribute_is_a_mixture_of_gamma_variables(terms: int, cells: int, t: float) -> None:
    """Against 400,000 draws of a fixed seed, within 6 standard errors."""
    law = _power(_shapes(cells), terms)
    assert law.sum() == pytest.approx(1)
    exact = _gamma_tail(law, t)
    if terms == 1:
        assert 2 * exact == pytest.approx(sum_tail(cells, t), rel=1e-9)
    rng, hits, rounds = np.random.default_rng(7), 0, 40
    for _ in range(rounds):
        drawn = rng.laplace(size=(10_000, terms, cells)).sum(axis=2)
        hits += int((np.maximum(drawn, 0).sum(axis=1) > t).sum())
    n = rounds * 10_000
    assert abs(hits / n - exact) <= 6 * math.sqrt(exact * (1 - exact) / n) + 1e-9


@settings(database=None, deadline=None, max_examples=30)
@given(st.dictionaries(st.integers(1, 500), st.integers(1, 1000), min_size=1, max_size=20))
def test_sizes_taken_together_are_no_smaller(sizes: dict[int, int]) -> None:
    found = grouped((k, float(n)) for k, n in sizes.items())
    assert sum(n for _, n in found) == sum(sizes.values())
    assert max(k for k, _ in found) == max(sizes)
    for k in range(1, 501):
        assert sum(n for size, n in found if size >= k) >= sum(n for size, n in sizes.items() if size >= k)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 1.9])
def test_drawn_noise_is_no_larger_than_the_continuous_one_that_it_is_priced_by(epsilon: float) -> None:
    """The exact law of the sum of positive parts of discrete Laplace noise, against t / epsilon + n / 2 rows."""
    n, p = 6, math.exp(-epsilon)
    length = int(60 / epsilon) + 50
    one = np.array([1 / (1 + p), *((1 - p) / (1 + p) * p**k for k in range(1, length))])
    law = np.array([1.0])
    for _ in range(n):
        law = np.convolve(law, one)[: 6 * length]
    tails = np.append(np.cumsum(law[::-1])[::-1], 0.0)
    for beta in (Fraction(1, 10), BETA):
        allowed = math.floor(every_quantile(n, beta) / Fraction(epsilon) + Fraction(n, 2))
        assert tails[min(allowed + 1, len(tails) - 1)] <= float(beta) / 2


boxes = st.tuples(*(st.sets(st.integers(0, n - 1), min_size=1) for n in DOMAIN.sizes)).map(
    lambda sets: box_query(DOMAIN, list(sets))
)


@settings(database=None, deadline=None, max_examples=40)
@given(st.lists(boxes, min_size=1, max_size=12), st.integers(0, 2**32))
def test_every_declared_query_is_a_sum_of_cells_of_some_grid(queries: list[Query], seed: int) -> None:
    bins = np.random.default_rng(seed).integers(0, 100, DOMAIN.bins)
    asked = [query for query in queries if not query.empty]
    if not asked:
        return
    for gaussian in (False, True):
        design = workload_design(DOMAIN, asked, BETA, gaussian=gaussian)
        for query in asked:
            values = [
                mapped.total(part.grid.counts(bins)) for part in design.parts if (mapped := part.grid.mapped(query))
            ]
            assert query.total(bins) in values and set(values) == {query.total(bins)}


def test_a_workload_of_two_group_bys_is_two_grids() -> None:
    """Neither is a sum of few cells of the other; 200 + 200 cells, and no bin is told apart."""
    domain = Domain((200, 200))
    queries = [box_query(domain, [[i], None]) for i in range(200)] + [
        box_query(domain, [None, [i]]) for i in range(200)
    ]
    design = workload_design(domain, queries, BETA)
    assert sorted(part.grid.cells.sizes for part in design.parts) == [(1, 200), (200, 1)]
    assert {part.kind for part in design.parts} == {WORKLOAD}
    assert [float(p.reach) for p in design.parts] == pytest.approx([float(sum_quantile(1, BETA / 400))] * 2, rel=1e-6)


def test_a_coarser_group_by_is_read_off_the_finer_one() -> None:
    domain = Domain((3, 50))
    queries = [box_query(domain, [[i], [j]]) for i in range(3) for j in range(50)]
    queries += [box_query(domain, [None, [j]]) for j in range(50)]
    assert [part.grid for part in workload_design(domain, queries, BETA).parts] == [Grid(domain, (None, None))]


def test_which_class_is_bought() -> None:
    scale, box = 100_000, box_query(DOMAIN, [[0], [1, 2], None])
    odd = mask_query(DOMAIN, np.arange(24) % 5 == 0)
    weights = value_query(DOMAIN, np.arange(24), 5)
    plain = Outlook()
    kinds = [design_for(q, PRICES, BETA, plain, scale) for q in (box, odd, weights)]
    assert [d.parts[0].kind for d in kinds if d] == [BOXES, EVERY, EVERY]
    few = Outlook(workload=(box, odd))
    assert [d.parts[0].kind for q in (box, odd, weights) if (d := design_for(q, PRICES, BETA, few, scale))] == [
        WORKLOAD,
        WORKLOAD,
        EVERY,
    ]
    assert design_for(box, PRICES, BETA, plain, 100) is None  # 5 rows of tolerance: no noise is that small


def test_a_synopsis_is_stored_as_it_was() -> None:
    design = design_for(box_query(DOMAIN, [[0], None, None]), PRICES, BETA, Outlook(), 10_000)
    assert design is not None
    draws = design.draws(PRICES, 10_000)
    assert draws is not None
    grid = Grid(DOMAIN, (None, (0, 1, 0), (0, 0, 1, 1)))
    tables = [
        Table(BOXES, design.parts[0].grid, draws[0], np.arange(24) - 5),
        Table(WORKLOAD, grid, draws[0], np.arange(8) * 3),
    ]
    again = tables_from_bytes(tables_to_bytes(tables))
    for one, other in zip(tables, again, strict=True):
        assert (one.kind, one.grid, one.draw) == (other.kind, other.grid, other.draw)
        assert one.noisy.tolist() == other.noisy.tolist()


@settings(database=None, deadline=None, max_examples=60)
@given(
    st.integers(1, 7),
    st.sets(st.integers(0, 6)),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=5),
    st.lists(st.integers(0, 9), min_size=7, max_size=7),
)
def test_the_tiling_leaves_the_fewest_rows(
    count: int, known: set[int], spans: list[tuple[int, int]], rows: list[int]
) -> None:
    parts, scales = range(count), dict(enumerate(rows))
    synopses = {p: 100 + p for p in known if p < count}
    stored = [(Node(0, a, b), 1000 * a + b) for a, b in spans if a <= b < count]
    found = cover(parts, scales, synopses, stored)

    def least(at: int) -> int:
        if at == count:
            return 0
        options = [(0 if at in synopses else scales[at]) + least(at + 1)]
        return min(options + [least(node.last + 1) for node, _ in stored if node.first == at])

    assert sum(scales[p] for p in found.fresh) == least(0)
    assert list(found.fresh) == sorted(found.fresh) and all(scales[p] for p in found.fresh)


@settings(database=None, deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 62), min_size=1, max_size=8, unique=True), st.integers(1, 62))
def test_no_combination_of_other_answers_is_as_accurate_as_they_are(masks: list[int], wanted: int) -> None:
    """The lemma of derive.py: sum |w_i| >= 1 whenever sum w_i q_i = q; above 1 if q is none of them."""
    design = np.array([[(m >> i) & 1 for i in range(6)] for m in masks if m != wanted], float).T.reshape(6, -1)
    goal = np.array([(wanted >> i) & 1 for i in range(6)], float)
    n = design.shape[1]
    if n == 0:
        return
    found = optimize.linprog(np.ones(2 * n), A_eq=np.hstack([design, -design]), b_eq=goal, bounds=(0, None))
    assert found.status == 2 or found.fun > 1 + 1e-6


@pytest.mark.parametrize("gaussian", [False, True])
def test_a_synopsis_beside_noise_leaves_it_half_of_beta(gaussian: bool) -> None:
    """Over partitions a class has all of beta; any one query, fixed beforehand, at most half of it, as noise has."""
    domain, beta = Domain((2, 4, 4)), Fraction(1, 1000)
    prices = Calibration(Fraction(5, 100), beta, gaussian=gaussian)
    query = box_query(domain, [[0], None, None])
    for workload in ((), (query,), tuple(box_query(domain, [None, [i], [j]]) for i in range(4) for j in range(4))):
        whole, parted = (Outlook(None, workload, partitioned) for partitioned in (False, True))
        for outlook in (whole, parted):
            asked = workload[0] if workload else query
            made = design_for(asked, prices, beta, outlook, 100_000)
            assert made is not None
            for part in made.parts:
                cells = part.grid.cells.bins
                largest = 1 if part.kind == WORKLOAD else cells - cells // 4
                alone = class_quantile(((largest, 1.0),), beta / 2, gaussian=gaussian)
                assert part.reach >= alone or not outlook.partitioned
                assert outlook.partitioned or len(workload) != 1 or part.reach < alone
        if len(workload) != 1:
            prices_of = [design_for(asked, prices, beta, outlook, 100_000) for outlook in (whole, parted)]
            assert prices_of[0] is not None and prices_of[1] is not None
            assert prices_of[0].price(prices, 100_000) == prices_of[1].price(prices, 100_000), "no share is lost"
