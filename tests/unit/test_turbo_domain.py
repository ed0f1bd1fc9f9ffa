"""Linear queries over bins: one form for equal queries, exact values, sums on a lattice."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_epsilon.errors import DPError
from pg_epsilon.turbo.bins import Domain, Query, box_query, disjoint, mask_query, sum_queries, value_query

SOME = settings(database=None, deadline=None, max_examples=60)
SHAPE = (3, 4, 2, 5)
DOMAIN = Domain(SHAPE)
COUNTS = np.random.default_rng(1).integers(0, 1000, DOMAIN.bins)
BOXES = st.tuples(*(st.one_of(st.none(), st.sets(st.integers(0, n - 1), min_size=1)) for n in SHAPE))


def mask_of(box: tuple[set[int] | None, ...]) -> np.ndarray:
    mask = np.zeros(SHAPE, bool)
    for cell in itertools.product(*(range(n) if s is None else sorted(s) for n, s in zip(SHAPE, box, strict=True))):
        mask[cell] = True
    return mask


@given(BOXES)
@SOME
def test_a_box_is_the_same_query_however_it_is_written(box: tuple[set[int] | None, ...]) -> None:
    one, two = box_query(DOMAIN, box), mask_query(DOMAIN, mask_of(box))
    assert one.id == two.id
    assert one.total(COUNTS) == int(COUNTS[mask_of(box).ravel()].sum())
    assert Query.from_bytes(one.to_bytes()).id == one.id
    assert Query.from_bytes(one.to_bytes()).total(COUNTS) == one.total(COUNTS)


@given(st.integers(1, 2**32))
@SOME
def test_any_set_of_bins_is_a_query(seed: int) -> None:
    mask = np.random.default_rng(seed).random(DOMAIN.bins) < 0.5
    query = mask_query(DOMAIN, mask)
    assert query.total(COUNTS) == int(COUNTS[mask].sum())
    again = Query.from_bytes(query.to_bytes())
    assert (again.id, again.total(COUNTS)) == (query.id, query.total(COUNTS))
    put = np.zeros(DOMAIN.bins, int)
    query.put(put, query.of(put) + 1)
    assert (put == mask).all()


def test_bins_are_numbered_row_major() -> None:
    """turbo.md §2.2: the last attribute is the fastest."""
    mask = np.zeros(DOMAIN.bins, bool)
    mask[((2 * 4 + 1) * 2 + 1) * 5 + 3] = True
    assert box_query(DOMAIN, [[2], [1], [1], [3]]).id == mask_query(DOMAIN, mask).id


def test_trivial_queries() -> None:
    assert box_query(DOMAIN, [None] * 4).full
    assert box_query(DOMAIN, [range(3), range(4), range(2), range(5)]).full
    nothing = box_query(DOMAIN, [[1], [], None, None])
    assert nothing.empty
    assert not nothing.full
    assert nothing.id == mask_query(DOMAIN, np.zeros(DOMAIN.bins, bool)).id
    row = box_query(DOMAIN, [[1], None, None, None])
    assert not row.empty
    assert not row.full
    assert not value_query(DOMAIN, [1, *[2] * (DOMAIN.bins - 1)], 1).full


def test_different_queries_have_different_ids() -> None:
    queries = [box_query(DOMAIN, [[i], None, None, None]) for i in range(3)]
    queries += [value_query(DOMAIN, np.full(DOMAIN.bins, v), 3) for v in (1, 7, 8)]
    queries.append(value_query(DOMAIN, np.full(DOMAIN.bins, 8), 4))
    assert len({query.id for query in queries}) == len(queries)


@given(st.integers(1, 2**32))
@SOME
def test_sums_are_exact_on_their_lattice(seed: int) -> None:
    values = np.random.default_rng(seed).integers(-50, 80, DOMAIN.bins)
    terms = sum_queries(DOMAIN, values, 10)
    found = sum((t.coefficient * t.query.total(COUNTS) for t in terms), Fraction(0))
    rounding = Fraction(80, 2 << 10) * int(COUNTS.sum())
    assert abs(found - int((values * COUNTS).sum())) <= rounding
    assert disjoint([t.query for t in terms])
    assert all(t.query.unit == 1 << 10 and max(t.query.weights.ravel().tolist()) <= 1 << 10 for t in terms)  # type: ignore[union-attr]


def test_weights_outside_the_lattice_are_refused() -> None:
    for values, bits in ((np.full(DOMAIN.bins, 9), 3), (np.full(DOMAIN.bins, -1), 3), (np.ones(3), 0)):
        with pytest.raises(ValueError, match="weight"):
            value_query(DOMAIN, values, bits)
    with pytest.raises(ValueError, match="declared"):
        box_query(DOMAIN, [[3], None, None, None])


def test_queries_that_share_a_bin_are_seen() -> None:
    keys = [box_query(DOMAIN, [None, [i], None, None]) for i in range(4)]
    assert disjoint(keys)
    assert not disjoint([*keys, box_query(DOMAIN, [[0], [0], [0], [0]])])
    assert disjoint([keys[0], box_query(DOMAIN, [[], None, None, None]), keys[1]])


def test_domains_have_a_limit() -> None:
    with pytest.raises(DPError) as refused:
        Domain((4096, 4097))
    assert refused.value.sqlstate == "DP005"
