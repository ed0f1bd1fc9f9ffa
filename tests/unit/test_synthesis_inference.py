"""Synthetic tables: exact tables with given sums, distributions from released counts, rows in proportion."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fix_seeded import Seeded
from pg_epsilon.accounting.margins import Number
from pg_epsilon.choice_parts import Share
from pg_epsilon.noise import Noise
from pg_epsilon.synthesis import sampling, tables
from pg_epsilon.synthesis.ask import Layout, Synthesis
from pg_epsilon.synthesis.choice import _measure
from pg_epsilon.synthesis.marginals import Marginals, Phase, core, findings
from pg_epsilon.synthesis.model import Findings, Model, Table, fitted
from pg_epsilon.synthesis.statement import RECORD
from pg_epsilon.synthesis.variables import Variable

masses = st.lists(st.integers(-50, 200), min_size=1, max_size=12)


@given(masses, st.integers(1, 1000))
@settings(database=None, deadline=None, max_examples=100)
def test_the_nearest_vector_of_a_sum_is_shifted_and_cut(values: list[int], total: int) -> None:
    found = tables.on_simplex(np.array(values, float), total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total)
    kept = found > 1e-9
    moved = np.array(values, float)[kept] - found[kept]
    assert np.ptp(moved) == pytest.approx(0, abs=1e-6)  # one shift for all that stay,
    assert (np.array(values, float)[~kept] <= moved[0] + 1e-6).all()  # and what it would make negative is 0


@pytest.mark.parametrize("seed", range(40))
def test_a_table_gets_the_sums_it_must_have(seed: int) -> None:
    draw = np.random.default_rng(seed)
    height, width = draw.integers(1, 7, 2)
    noisy = draw.integers(-30, 91, (height, width)).astype(float)
    rows = draw.integers(0, 41, height) * (draw.random(height) < 0.7) + np.eye(1, height)[0]
    columns = tables.on_simplex(noisy.sum(axis=0), rows.sum())
    found = tables.with_sums(noisy, rows, columns)
    assert found.min() >= 0
    assert found.sum(axis=0) == pytest.approx(columns, abs=1e-6 * rows.sum())
    assert found.sum(axis=1) == pytest.approx(rows, abs=0.01 * rows.sum())


def test_a_table_that_has_its_sums_already_stays() -> None:
    table = np.array([[3.0, 1.0, 0.0], [2.0, 0.0, 4.0]])
    assert tables.with_sums(table, table.sum(axis=1), table.sum(axis=0)) == pytest.approx(table, abs=1e-4)


def test_groups_of_neighbours_and_of_rare_values() -> None:
    counts = np.array([10.0, 1, 1, 1, 30, 2])
    assert tables.groups(counts, True, 3).tolist() == [0, 1, 1, 1, 2, 2]
    assert tables.groups(counts, False, 3).tolist() == [0, 2, 2, 2, 1, 2]
    assert tables.groups(counts, True, 1000).tolist() == [0] * 6


def test_smoothing_levels_noise_and_leaves_a_spike() -> None:
    counts = np.array([5.0, -4, 3, -2, 1, 2, -5, 400])
    found = tables.smoothed(counts, 16)
    assert found[-1] == 400
    assert len(set(found[:4])) == 1
    assert found.sum() == pytest.approx(counts.sum())


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20), st.integers(0, 5000), st.integers(0, 2**32))
@settings(database=None, deadline=None, max_examples=100)
def test_shares_are_whole_and_within_one_of_their_due(weights: list[int], count: int, seed: int) -> None:
    found = sampling.apportioned(np.array(weights, float), count, np.random.default_rng(seed))
    assert found.sum() == count
    assert found.min() >= 0
    due = np.array(weights) / sum(weights) * count if sum(weights) else np.full(len(weights), count / len(weights))
    assert np.abs(found - due).max() <= 1 + 1e-6


LAYOUT = Layout((3, 4, 2))


def truth() -> np.ndarray[Any, Any]:
    """400 rows over 3 × 4 × 2 cells: the second column follows the first, the third is even."""
    rows = [(i % 3, (i % 3) + (i // 3) % 2, i % 2) for i in range(400)]
    return np.array(rows)


def counts_of(rows: np.ndarray[Any, Any], layout: Layout = LAYOUT) -> bytes:
    """What the statement sends for these rows."""
    counts = np.zeros(layout.total, np.int64)
    for row in rows.tolist():
        counts[0] += 1
        for start, cell in zip(layout.ones, row, strict=True):
            counts[start + cell] += 1
        for start, (i, j) in zip(layout.twos, layout.pairs, strict=True):
            counts[start + row[i] * layout.sizes[j] + row[j]] += 1
    full = np.flatnonzero(counts)
    records = np.zeros(len(full), np.dtype(list(RECORD)))
    records["cell"], records["rows"] = full, counts[full]
    return records.tobytes()


def measure(epsilon: str = "1000", rows: int = 1) -> Marginals:
    part = Decimal(epsilon)
    return Marginals(LAYOUT, (False, True, False), rows, part, False, (Phase(2, part, part, False),) * 2)


class Quiet(Noise):
    """Notes what is drawn for, and draws as production does."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, Any, int]] = []

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        self.calls.append(("laplace", l1_sensitivity, epsilon, len(exact)))
        return super().laplace(exact, l1_sensitivity=l1_sensitivity, epsilon=epsilon, label=label)

    def select(self, scores: Sequence[Number], *, sensitivity: Number, epsilon: Number, label: str) -> int:
        self.calls.append(("select", sensitivity, epsilon, len(scores)))
        return super().select(scores, sensitivity=sensitivity, epsilon=epsilon, label=label)


def test_layout_numbers_every_cell_once() -> None:
    assert LAYOUT.ones == (1, 4, 8)
    assert LAYOUT.twos == (10, 22, 28)
    assert LAYOUT.total == 1 + 9 + 12 + 6 + 8
    assert Layout((60_000, 2, 3)).pairs == ((1, 2),)


def test_what_is_drawn_is_what_is_charged() -> None:
    how, noise = measure("2"), Quiet()
    raw = core(counts_of(truth()), how, noise, "a1")
    spent = Fraction(0)
    for kind, sensitivity, epsilon, size in noise.calls:
        spent += epsilon
        assert size >= 1
        assert sensitivity == 1 or kind == "laplace"
    assert noise.calls[0] == ("laplace", 4, 2, 10)  # the total and three columns: a row is in four cells
    tree = next(call for call in noise.calls[1:] if call[0] == "laplace")
    assert tree[1] == len(fitted(findings(raw, how), how.ordered).edges)
    assert spent <= sum(Fraction(charge.pure()[0]) for charge in how.charges())


def test_units_with_several_rows_scale_every_draw() -> None:
    noise = Quiet()
    core(counts_of(truth()), measure("2", rows=5), noise, "a1")
    assert {call[1] for call in noise.calls if call[0] == "select"} == {5}
    assert noise.calls[0][1] == 20
    assert all(call[1] % 5 == 0 for call in noise.calls)


def test_released_integers_are_read_as_written_and_bounded() -> None:
    how = measure()
    raw = core(counts_of(truth()), how, Noise(), "a1")
    found = findings(raw, how)
    assert found.total == 400
    assert [one.sum() for one in found.ones] == [400, 400, 400]
    assert (0, 1) in {table.pair for table in found.tables}
    assert len(raw) <= how.released
    assert all(isinstance(value, int) for value in raw)
    json.dumps(raw)


def test_without_rows_there_is_still_a_distribution() -> None:
    how = measure("0.5")
    raw = core(b"", how, Noise(), "a1")
    model = fitted(findings(raw, how), how.ordered)
    assert all(one.min() >= 0 and one.sum() == pytest.approx(model.total) for one in model.masses)


def test_without_noise_the_measured_tables_come_out() -> None:
    how, rows = measure(), truth()
    raw = core(counts_of(rows), how, Noise(), "a1")
    variables = tuple(
        Variable(f"v{i}", "", False, tuple(str(cell) for cell in range(size))) for i, size in enumerate(LAYOUT.sizes)
    )
    chunks = list(sampling.rows(fitted(findings(raw, how), how.ordered), variables, 400, raw))
    made = np.hstack([np.array(chunk) for chunk in chunks]).T
    assert made.shape == (400, 3)
    for i, j in LAYOUT.pairs:
        shape = (LAYOUT.sizes[i], LAYOUT.sizes[j])
        one, two = np.zeros(shape), np.zeros(shape)
        np.add.at(one, (rows[:, i], rows[:, j]), 1)
        np.add.at(two, (made[:, i], made[:, j]), 1)
        assert np.abs(one - two).sum() / 800 < 0.05


def test_the_same_release_makes_the_same_rows_and_another_one_others() -> None:
    model = fitted(Findings(50, (np.array([25.0, 25.0]), np.array([30.0, 20.0])), 1.0, ()), (False, False))
    variables = tuple(Variable(name, "", False, ("a", "b")) for name in "xy")
    one, again, other = (list(sampling.rows(model, variables, 50, raw)) for raw in ([1, 2], [1, 2], [1, 3]))
    assert one == again
    assert one != other


def test_columns_that_no_table_ties_are_independent() -> None:
    model = fitted(Findings(100, (np.array([50.0, 50.0]), np.array([80.0, 20.0])), 1.0, ()), (False, False))
    both = [np.arange(2), np.arange(2)]
    assert model.predicted((0, 1), both) == pytest.approx(np.array([[40.0, 10.0], [40.0, 10.0]]))
    assert model.edges == model.others == []


def test_a_prediction_follows_a_path_of_tables() -> None:
    """0 — 1 — 2 with equal columns: the prediction of (0, 2) is the identity."""
    group, diagonal = np.arange(2), np.array([[50.0, 0.0], [0.0, 50.0]])
    edges = [Table((0, 1), group, group, diagonal, 1.0), Table((1, 2), group, group, diagonal, 1.0)]
    half = np.array([50.0, 50.0])
    model = fitted(Findings(100, (half, half, half), 1.0, tuple(edges)), (False,) * 3)
    assert model.predicted((0, 2), [group] * 3) == pytest.approx(diagonal, abs=0.01)
    assert model.predicted((2, 0), [group] * 3) == pytest.approx(diagonal, abs=0.01)


def test_a_cycle_of_tables_is_raked() -> None:
    """The third table says what the two of the tree cannot: weights bring it out."""
    group = np.arange(2)
    even, equal = np.full((2, 2), 25.0), np.array([[45.0, 5.0], [5.0, 45.0]])
    parts = (
        Table((0, 1), group, group, even, 1.0),
        Table((1, 2), group, group, even, 1.0),
        Table((0, 2), group, group, equal, 1.0),
    )
    half = np.array([50.0, 50.0])
    model: Model = fitted(Findings(100, (half, half, half), 1.0, parts), (False,) * 3)
    assert (len(model.edges), len(model.others)) == (2, 1)
    draw = np.random.default_rng(1)
    pool = sampling.forest(model, 10_000, draw)
    weights = sampling.raked(model, pool)
    assert weights[pool[:, 0] == pool[:, 2]].sum() == pytest.approx(90, abs=0.1)
    assert weights[pool[:, 0] == pool[:, 1]].sum() == pytest.approx(50, abs=0.5)


def test_points_of_a_cell_are_all_as_likely() -> None:
    """10,000 draws over 5 points: each within 6 standard deviations of 2,000 (seeded); -1 is NULL."""
    from pg_epsilon.synthesis.variables import Points

    one = Variable("x", "", True, None, Points("number", "0", "1"), ((0, 5), (5, 1)))
    found = sampling.numbers(one, np.array([0] * 10_000 + [1, 2]), np.random.default_rng(5))
    assert found[-2:].tolist() == [5, -1]
    counts = np.bincount(found[:10_000], minlength=5)
    assert len(counts) == 5
    assert np.abs(counts - 2000).max() < 6 * 40


def test_what_depends_is_found_and_comes_out_at_epsilon_one() -> None:
    """20,000 rows, a chain of three columns and one apart: within 0.08 in total variation, where columns
    taken by themselves miss 0.5. The noise has a fixed seed: the sum of 64 cells' is 0.02 on average."""
    draw = np.random.default_rng(7)
    first = draw.integers(0, 8, 20_000)
    second = np.where(draw.random(20_000) < 0.8, first, draw.integers(0, 8, 20_000))
    third = np.where(draw.random(20_000) < 0.8, second, draw.integers(0, 8, 20_000))
    rows = np.array([first, second, third, draw.integers(0, 8, 20_000)]).T
    layout = Layout((8,) * 4)
    variables = tuple(Variable(name, "", False, tuple("abcdefgh")) for name in "wxyz")
    how = _measure(Synthesis(variables, 128, "marginals"), 1, Share("epsilon", Decimal(1)))
    raw = core(counts_of(rows, layout), how, Seeded(20261127), "a1")
    model = fitted(findings(raw, how), how.ordered)
    assert {(0, 1), (1, 2)} <= {table.pair for table in model.edges}
    made = np.hstack([np.array(chunk) for chunk in sampling.rows(model, variables, raw[0], raw)]).T
    for i, j in layout.pairs:
        one, two = (np.bincount(table[:, i] * 8 + table[:, j], minlength=64) / len(table) for table in (rows, made))
        assert np.abs(one - two).sum() / 2 < 0.08
    apart = np.outer(np.bincount(first), np.bincount(second)).ravel() / 20_000**2
    assert np.abs(np.bincount(first * 8 + second, minlength=64) / 20_000 - apart).sum() / 2 > 0.5
