"""The benchmark's cases and figures: exact scores of Adult and of taxis, widths, what is found."""

from __future__ import annotations

import csv
import gzip
import math
from collections import Counter
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

import fix_chance
from benchmarks import explain_data
from benchmarks.explain_cases import OF_THE_PAPER, WEIGHTS, Rides, Told
from benchmarks.explain_data import ADULT, AGES, OF_ADULT, Tables, bounds
from benchmarks.explain_figures import PAPER, divisors, rank_width, share_width
from benchmarks.explain_scores import Reading, Scored, Setting, by_gumbel, kendall_by_law, precision
from pg_epsilon.explain.cells import RECORD, Layout
from pg_epsilon.explain.influence import influences

STRONG = Setting(top=100_000, rank=1000, k=1, confidence=0.999999999)
# A selection of scores a thousand scales apart; 14 comparisons and four numbers, ten sigma each; the rank of one.
pytestmark = pytest.mark.chance(fix_chance.union(fix_chance.beyond(30, 20), 1e-9))


@pytest.fixture(scope="module")
def adult() -> Scored:
    """Cells of Adult's two groups, added up here as the engine's statement does."""
    with gzip.open(explain_data.ROOT / "demo/data/adult.csv.gz", "rt") as file:
        lines = list(csv.DictReader(file))
    names = OF_ADULT.split()
    values = {name: sorted({line[name] for line in lines} - {""}) for name in names}
    domains = {name: tuple(some) for name, some in values.items()} | {"age": AGES}
    optional = frozenset(name for name in names if any(not line[name] for line in lines))
    tables = Tables({"adult": len(lines)}, {"adult": domains}, {"adult": optional})
    attributes = explain_data.space(tables, ADULT, 1).attributes
    places = {name: {value: n for n, value in enumerate(some)} for name, some in domains.items()}
    places["age"] = {str(age): (age - 11) // 10 for age in range(11, 91)}
    tested = [(one.name, one.size, places[one.name], len(domains[one.name])) for one in attributes]
    rows, sums = Counter[int](), Counter[int]()
    for line in lines:
        if line["marital_status"] not in ADULT.groups:
            continue
        cell = ADULT.groups.index(line["marital_status"])
        for name, size, known, null in tested:
            cell = cell * size + known.get(line[name], null)
        rows[cell] += 1
        sums[cell] += line["income"] == ">50K"
    assert max(rows) < Layout(2, tuple(one.size for one in attributes)).cells
    records = [(cell, rows[cell], sums[cell]) for cell in rows]
    packed = np.array(records, np.dtype(list(RECORD))).tobytes()
    return Reading("adult", ADULT, packed, len(lines), 0.0).scored(tables, 1)


def test_the_mean_of_the_authors_scores(adult: Scored) -> None:
    """5.7333 over 103 values, NULL among them (dpxplain.md §0.0); the other predicates have 0."""
    assert round(float(adult.values.sum()) / OF_THE_PAPER, 4) == 5.7333
    assert [adult.own.text(place) for place in sorted(adult.best(2))] == [
        "education = 'Bachelors'",
        "occupation = 'Exec-managerial'",
    ]
    assert adult.gap == pytest.approx(0.446133 - 0.045480, abs=1e-6)


def test_widths_are_by_the_formula(adult: Scored) -> None:
    """2 z sensitivity / sqrt(2 rho / k) / (difference * rows), with sensitivities of 2 and 16."""
    for printed, change in ((False, 2), (True, 16)):
        assert bounds(ADULT, printed=printed)[0] == change
        setting = Setting(influence=0.3, confidence=0.9, printed=printed)
        formula = 2 * NormalDist().inv_cdf(0.95) * change / math.sqrt(2 * 0.3 / 5) / 1000
        assert share_width(adult, setting, [1000.0]) == pytest.approx(formula, rel=1e-5)
    assert divisors(adult, 1)[0] == pytest.approx(adult.gap * 16117, rel=0.02)


def test_without_noise_precision_and_rank_correlation_are_1(adult: Scored) -> None:
    assert precision(adult, STRONG, 1) == [1.0]
    assert rank_width(adult, STRONG, 1) == 0
    order = kendall_by_law(adult, {1e12: STRONG}, 1, np.random.default_rng(1))
    assert order[1e12] == pytest.approx(1, abs=0.01)  # of equal scores
    assert float(PAPER.price.selection) ** 2 * 5 / 8 == pytest.approx(0.5)


def test_gumbel_noise_of_any_size() -> None:
    """None finds all; so much that scores do not matter finds one of ten in ten on the average."""
    values, rng = np.arange(10.0), np.random.default_rng(1)
    assert by_gumbel(values, {8, 9}, 0.0, 3, rng) == 1
    assert by_gumbel(values, {8, 9}, 1e9, 4000, rng) == pytest.approx(0.2, abs=0.03)


def test_rides_between_two_boroughs() -> None:
    """1,842 against 286: 412 more than five times; zones of either end (dpxplain.md §0.0)."""
    rides = Rides.read()
    cells = rides.cells()
    assert cells.rows == [1842, 286]
    assert WEIGHTS[0] * 1842 + WEIGHTS[1] * 286 == 412
    found = dict(zip(rides.tried, influences("count", WEIGHTS, cells), strict=True))
    assert found["Brooklyn Heights"] == Fraction((320 - 5 * 11) * (286 - 11), 1843)
    assert found["Brooklyn Heights"] == max(found.values())
    assert len(rides.predicates) == 128
    assert any("Governor''s" in text for text in rides.predicates)


def test_what_holds_is_counted() -> None:
    """Shares times what they were divided by, and ranks that equal scores share."""
    true = {"a": 3.0, "b": 1.0, "c": 1.0}
    told = Told([[("a", 1.0, 0.9, 1.1, 1, 1), ("b", 0.5, 0.4, 0.6, 2, 2)]], [3.0])
    assert told.precision({"a", "c"}) == 0.5
    assert told.hold(true) == (0.5, 0.5)
    assert Told([[("b", 0.3, 0.3, 0.4, 2, 3)]], [3.0]).hold(true) == (1.0, 1.0)
