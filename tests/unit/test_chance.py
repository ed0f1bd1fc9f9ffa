"""The mark `chance`: how it is read, what is found wrong with it, and the laws behind it. test_tiers.py adds all up."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import pytest

import fix_chance
from chance_report import report, silent, too_likely, unmarked

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


SAMPLE = '''
import pytest
NEAR = 2e-7
@pytest.mark.chance(NEAR)
def test_one(): pass
@pytest.mark.chance(lambda n: n * 1e-6)
@pytest.mark.parametrize(("n", "m"), [(0.5, 1), (2, 1)])
def test_two(n, m): pass
def test_three():
    """False alarm below 1e-9."""
'''


def test_what_is_too_likely_or_not_marked_is_found(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = chance(p): x\n")
    (tmp_path / "test_it.py").write_text(SAMPLE)
    items = report(cwd=tmp_path)
    assert [item.chance for item in items] == [2e-7, 5e-7, 2e-6, None]
    assert [item.node for item in too_likely(items)] == ["test_it.py::test_two[2-1]"]
    assert unmarked(items) == ["test_it.py::test_three"]
    texts = {"test_it.py": SAMPLE, "test_else.py": "# passed once in 3e7"}
    assert silent(items, texts) == ["test_else.py"]
    assert math.fsum(item.chance or 0 for item in items * 50) > fix_chance.SUITE


# --- the laws -----------------------------------------------------------------------------------------------------


def test_noise_beyond_a_bound() -> None:
    p = math.exp(-1 / 3)
    law = {k: (1 - p) / (1 + p) * p ** abs(k) for k in range(-400, 401)}
    beyond = math.fsum(q for k, q in law.items() if abs(k) > 12)
    assert fix_chance.laplace(3, 12) == pytest.approx(beyond) == fix_chance.laplace(3, 12.9)
    assert fix_chance.laplace(3, 12, draws=5) == pytest.approx(5 * beyond)
    assert fix_chance.laplace(3, 0.5, draws=5) == 1
    weights = [math.exp(-((k / 3) ** 2) / 2) for k in range(-60, 61)]
    beyond = math.fsum(w for k, w in enumerate(weights, -60) if abs(k) > 12) / math.fsum(weights)
    assert fix_chance.gaussian(3, 12) == pytest.approx(beyond)


def test_noise_in_its_scales_and_deviations() -> None:
    for scale in (0.1, 1.0, 1000.0):
        assert fix_chance.laplace(scale, 7 * scale) <= fix_chance.beyond(7)
    assert fix_chance.near(1e6, 10) == pytest.approx(21 / 2e6, rel=0.1)
    assert fix_chance.laplace_sum(1, 5) == pytest.approx(math.exp(-5) / 2)
    assert fix_chance.accuracy(2.5, 4) == pytest.approx(4 * 1e-3**2.5)
    for terms in (1, 2, 10):  # of deviation sqrt(2) each
        assert 2 * fix_chance.laplace_sum(terms, 8 * math.sqrt(2 * terms)) <= fix_chance.deviations(8)
    assert fix_chance.deviations(8, 3) == pytest.approx(3 * fix_chance.deviations(8))


def test_hits_outside_a_range() -> None:
    law = [math.comb(20, k) * 0.3**k * 0.7 ** (20 - k) for k in range(21)]
    assert fix_chance.binomial(20, 0.3, 3, 9) == pytest.approx(sum(law[:3]) + sum(law[10:]))
    assert fix_chance.binomial(20, 0.3, 0, 9) == pytest.approx(sum(law[10:]))
    assert fix_chance.binomial(20, 0.3, 3, 20) == pytest.approx(sum(law[:3]))


def test_sessions_that_miss() -> None:
    """None of n: the bound at 0.999 is 1 - 0.001^(1/n)."""
    assert fix_chance.sessions(0, 150, 3) == pytest.approx((1 - 0.001 ** (1 / 150)) ** 3)
    assert fix_chance.sessions(150 - 1, 150, 1) > 149 / 150


def multinomial(n: int, law: list[float]) -> list[tuple[tuple[int, ...], float]]:
    found = []
    for counts in product(range(n + 1), repeat=len(law)):
        if sum(counts) == n:
            ways = math.factorial(n) / math.prod(map(math.factorial, counts))
            found.append((counts, ways * math.prod(p**c for p, c in zip(law, counts, strict=True))))
    return found


LAWS = [[0.3, 0.7], [0.01, 0.99], [0.2, 0.3, 0.5], [0.01, 0.09, 0.9]]


@pytest.mark.parametrize("n", [1, 5, 40])
@pytest.mark.parametrize("law", LAWS)
def test_a_fit_is_as_rare_as_it_says(law: list[float], n: int) -> None:
    """Exactly, over all outcomes: a fit of p or less has probability p at most."""
    each = sorted((fix_chance.fit(counts, law), p) for counts, p in multinomial(n, law))
    total = 0.0
    for found, p in each:
        total += p
        assert total <= found * (1 + 1e-9)


@pytest.mark.parametrize("true", [[0.6, 0.4], [0.05, 0.95], [0.5, 0.3, 0.2], [0.3, 0.1, 0.6]])
def test_a_wrong_law_is_missed_no_more_often_than_is_said(true: list[float]) -> None:
    law = LAWS[0] if len(true) == 2 else LAWS[2]
    missed = math.fsum(p for counts, p in multinomial(40, true) if fix_chance.fit(counts, law) > 1e-3)
    assert missed <= fix_chance.fits_although(true, law, 40, 1e-3) * (1 + 1e-9)


@pytest.mark.parametrize(("n", "off"), [(20, 0.2), (100, 0.1)])
def test_a_mean_far_off(n: int, off: float) -> None:
    low, high = math.floor(n * (0.5 - off)) + 1, math.ceil(n * (0.5 + off)) - 1
    assert fix_chance.binomial(n, 0.5, low, high) <= fix_chance.hoeffding(n, off)
