"""Refinement of Gaussian answers (composition.md §7.2): its price, its draws, that it is as accurate as promised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, ncx2

import fix_chance
from pg_epsilon.accounting.margins import gaussian_scale
from pg_epsilon.noise import Noise
from pg_epsilon.turbo import refine, tree, window
from pg_epsilon.turbo.bins import Domain, Query, box_query
from pg_epsilon.turbo.books import MemoryBooks, Payment, Released
from pg_epsilon.turbo.calibration import Calibration, Draw
from pg_epsilon.turbo.histogram import Heuristic
from pg_epsilon.turbo.split import Node
from pg_epsilon.turbo.view import Answer, View

DOMAIN = Domain((4, 2))
COUNTS = [np.array([100 * p + 40 * v for v in range(8)]) for p in range(9)]
ROWS = 10_000
PRICES = Calibration(Fraction(5, 100), Fraction(1, 1000), gaussian=True)
VIEW = View(DOMAIN, PRICES, Heuristic(c0=10**6))
ROW = [box_query(DOMAIN, [[i], None]) for i in range(4)]
ORDER = Decimal(2)
FOUR, FIVE = PRICES.node(1, 4 * ROWS), PRICES.node(2, 5 * ROWS)
"""What a window of the node 0-3 alone needs, and one of 0-3 and 4-4."""


class Scripted(Noise):
    """Noise as told: the next numbers."""

    def __init__(self, *noise: int) -> None:
        self.noise = list(noise)
        self.draws: list[tuple[str, Decimal]] = []

    def _plus(self, exact: Sequence[int], label: str, amount: Any) -> list[int]:
        self.draws.append((label, amount))
        return [value + (self.noise.pop(0) if self.noise else 0) for value in exact]

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Any, epsilon: Any, label: str) -> list[int]:
        return self._plus(exact, label, epsilon)

    def gaussian(self, exact: Sequence[int], *, l2_squared: Any, rho: Any, label: str) -> list[int]:
        return self._plus(exact, label, rho)

    def sparse_start(self, threshold: int, *, sensitivity: Any, epsilon: Any, label: str) -> int:
        return threshold

    def sparse_test(self, error: int, noisy_threshold: int, *, sensitivity: Any, epsilon: Any, label: str) -> bool:
        return False


def books(shelf: type[MemoryBooks] = MemoryBooks, counts: Sequence[Any] = COUNTS) -> MemoryBooks:
    return shelf(list(counts), [ROWS] * len(counts), {ORDER: Decimal(1000)})


def rho(shelf: MemoryBooks) -> list[float]:
    return [float(x) * 1e-15 / float(ORDER) for x in shelf.spent[0]]


def one(query: Query, last: int, shelf: MemoryBooks, noise: Noise, view: View = VIEW) -> Answer:
    (reply,) = tree.answer([query], 0, last, view, shelf, noise)
    return reply


def true(query: Query, last: int) -> int:
    return sum(query.total(counts) for counts in COUNTS[: last + 1])


def test_an_answer_pays_what_it_lacks_and_is_joined_to_what_was_known() -> None:
    assert FOUR.amount < FIVE.amount
    shelf, noise = books(), Scripted(700, -300, 11)
    one(ROW[1], 3, shelf, noise)
    assert rho(shelf) == pytest.approx([float(FOUR.amount)] * 4 + [0] * 5)
    reply = one(ROW[1], 4, shelf, noise)
    assert rho(shelf) == pytest.approx([float(FIVE.amount)] * 5 + [0] * 4), "r(a) - r_1(a), exactly"
    lacked = FIVE.amount - FOUR.amount
    assert [amount for _, amount in noise.draws] == [FOUR.amount, lacked, FIVE.amount]
    joined = (Fraction(FOUR.amount) * 700 - Fraction(lacked) * 300) / Fraction(FIVE.amount)
    assert reply == (true(ROW[1], 4) + round(joined + 11), "r3", None)
    kept = shelf.exacts[ROW[1].id, Node(0, 0, 3), refine.REFINED]
    assert kept.amount == FIVE.amount
    assert abs(refine.value(kept) - true(ROW[1], 3) - joined) <= Fraction(1, 1 << 41)
    for last in (4, 3):
        assert one(ROW[1], last, shelf, noise).path == "exact"
    assert len(noise.draws) == 3


def test_a_refined_answer_is_refined_again() -> None:
    """Three amounts: their draws' variance adds up to that of the last one; nothing but the last one was paid."""
    shelf, noise, node = books(), Scripted(900, 900, 900), Node(0, 0, 3)
    for amount in ("0.001", "0.0015", "0.004"):
        draw = Draw("gaussian", Decimal(amount), refines=True)
        shelf.pay([Payment(0, 3, refine.lacking(shelf, ROW[0], node, draw).charge(), "node")])
        shelf.keep_exact(ROW[0], node, refine.release(shelf, ROW[0], node, draw, noise))
    assert [amount for _, amount in noise.draws] == [Decimal("0.001"), Decimal("0.0005"), Decimal("0.0025")]
    assert rho(shelf)[0] == pytest.approx(0.004)
    assert round(refine.value(shelf.exacts[ROW[0].id, node, refine.REFINED])) == true(ROW[0], 3) + 900


def test_laplace_answers_are_paid_in_full() -> None:
    prices = replace(PRICES, gaussian=False)
    view = replace(VIEW, prices=prices)
    shelf, noise = MemoryBooks(COUNTS, [ROWS] * 9), Scripted()
    one(ROW[1], 7, shelf, noise, view)
    one(ROW[1], 8, shelf, noise, view)
    both = float(prices.node(1, 8 * ROWS).amount + prices.node(2, 9 * ROWS).amount)
    assert shelf.spent[0, 0] * 1e-15 == pytest.approx(both)


def test_a_batch_pays_the_most_that_a_key_lacks() -> None:
    """Keys are disjoint: one that was never asked makes all of them cost that; two that were, what they lack."""
    shelf = books()
    tree.answer(ROW[:2], 0, 3, VIEW, shelf, Scripted())
    tree.answer(ROW[:2], 0, 4, VIEW, shelf, Scripted())
    assert rho(shelf)[0] == pytest.approx(float(FIVE.amount))
    shelf = books()
    tree.answer(ROW[:2], 0, 3, VIEW, shelf, Scripted())
    noise = Scripted()
    tree.answer(ROW[:3], 0, 4, VIEW, shelf, noise)
    assert rho(shelf)[0] == pytest.approx(float(FOUR.amount + FIVE.amount))
    own = [amount for label, amount in noise.draws if label == "turbo node 0:0-3"]
    assert own == [FIVE.amount - FOUR.amount] * 2 + [FIVE.amount]


def test_an_answer_of_exactly_0_is_a_hit_and_is_refined() -> None:
    nothing = [np.zeros(8, int)] * 9
    shelf, noise = books(counts=nothing), Scripted()
    for last, path in ((3, "r3"), (3, "exact"), (4, "r3"), (4, "exact")):
        assert one(ROW[0], last, shelf, noise) == (0, path, None)
    assert len(noise.draws) == 3
    assert rho(shelf)[0] == pytest.approx(float(FIVE.amount))


def test_where_there_is_no_room_for_it_nothing_is_refined() -> None:
    """Tolerances of a few rows: the old price, from integer noise alone; a refined answer is no hit."""
    small = MemoryBooks(COUNTS, [200] * 9, {ORDER: Decimal(1000)})
    noise = Scripted()
    need, low = PRICES.node(2, 1000), PRICES.node(1, 800)
    assert not need.refines
    assert low.amount < need.amount
    one(ROW[1], 3, small, noise)
    small.keep_exact(ROW[1], Node(0, 0, 3), Released(7, refine.REFINED, Decimal(100)))
    one(ROW[1], 4, small, noise)
    assert [amount for _, amount in noise.draws] == [low.amount, need.amount, need.amount]
    assert rho(small)[0] == pytest.approx(float(low.amount + need.amount))


def test_a_window_that_fails_pays_what_its_nodes_lack() -> None:
    """Scope "window": after a FAIL each node needs the draw of all of them; what was stored counts towards it."""
    view = replace(VIEW, heuristic=Heuristic(c0=0, s0=5), scope="window")
    shelf, noise = books(), Scripted()
    every, known = PRICES.window_node(2, 5 * ROWS), PRICES.window_node(1, 4 * ROWS)
    shelf.keep_exact(ROW[1], Node(0, 0, 3), Released(true(ROW[1], 3), "gaussian", known.amount))
    (reply,) = window.answer([ROW[1]], 0, 4, view, shelf, noise)
    assert reply == (true(ROW[1], 4), "r2", None)
    assert [amount for _, amount in noise.draws] == [every.amount - known.amount, every.amount]
    assert shelf.paid == {"epoch": 1, "hard": 2}


def test_the_worst_joined_law_keeps_the_promise() -> None:
    """Exactly, on the lattice of both draws: k = 1 at the smallest tolerance that has room, for several shares."""
    scale = 1_280
    draw, most = PRICES.node(1, scale), Fraction(5, 100) * scale - Fraction(1, 2)
    assert draw.refines
    for share in ("0.03", "0.3", "0.5", "0.8"):
        first = draw.amount * Decimal(share)
        laws = []
        for amount in (first, draw.amount - first):
            sigma = gaussian_scale(1, amount)
            law = np.exp(-((np.arange(-int(10 * sigma), int(10 * sigma) + 1) / sigma) ** 2) / 2)
            laws.append(law / law.sum())
        z1, z2 = (np.arange(len(law)) - len(law) // 2 for law in laws)
        joined = abs(float(share) * z1[:, None] + (1 - float(share)) * z2[None, :])
        outside = float((laws[0][:, None] * laws[1][None, :])[joined > float(most)].sum())
        assert float(PRICES.beta) / 8 < outside <= float(PRICES.beta) / 2


# --- the noise of joined answers, with controls --------------------------------------------------------------------

TIMES = 400
LOW, LIMIT = chi2.ppf(1e-9, TIMES), chi2.isf(1e-9, TIMES)


class Moving(MemoryBooks):
    """Data that change: `refresh` begins a new data version."""

    def refresh(self, counts: Sequence[Any]) -> None:
        self.counts = list(counts)
        self._summed.clear()
        self.exacts.clear()


class Mixing(Moving):
    """Stored answers of the data as they were are refined: a control."""

    def refresh(self, counts: Sequence[Any]) -> None:
        kept = dict(self.exacts)
        super().refresh(counts)
        self.exacts.update(kept)


def unjoined(books: Any, query: Query, node: Node, draw: Draw, noise: Any) -> Released:
    """What was lacking is drawn, what was known is thrown away: a control."""
    rest = refine.lacking(books, query, node, draw)
    (fresh,) = rest.release([books.truth(query, node)], query.unit, noise, "control")
    return Released(fresh << 40, refine.REFINED, draw.amount)


def spread(shelf: type[Moving], *, moved: int = 0) -> float:
    """Of the errors of a node's refined answers, in their variance: chi-squared of TIMES degrees if all is right."""
    total, noise, node = 0.0, Noise(), Node(0, 0, 3)
    sigma = 1 / math.sqrt(2 * FIVE.amount)
    for _ in range(TIMES):
        own = shelf(COUNTS, [ROWS] * 9, {ORDER: Decimal(1000)})
        one(ROW[1], 3, own, noise)
        if moved:
            own.refresh([counts + moved for counts in COUNTS])
        one(ROW[1], 4, own, noise)
        kept = refine.best(own, ROW[1], node, FIVE)
        assert kept is not None
        total += float((refine.value(kept) - own.truth(ROW[1], node)) / Fraction(sigma)) ** 2
    return total


@pytest.mark.chance(float(chi2.cdf(LOW, TIMES) + chi2.sf(LIMIT, TIMES)))
@pytest.mark.parametrize("moved", [0, 200])
def test_a_joined_answer_has_the_noise_that_was_bought(moved: int) -> None:
    """Also over a change of the data, after which it is paid in full."""
    assert LOW < spread(Moving, moved=moved) < LIMIT


@pytest.mark.chance(float(chi2.cdf(LIMIT / 4.5, TIMES)))
def test_a_draw_that_is_not_joined_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variance is 4.6 times what was bought."""
    monkeypatch.setattr(refine, "release", unjoined)
    assert spread(Moving) > LIMIT


@pytest.mark.chance(max(fix_chance.NEVER, float(ncx2.cdf(LIMIT, TIMES, TIMES * 2.4**2))))
def test_an_answer_joined_across_data_versions_is_caught() -> None:
    """Off by 2.5 deviations each time."""
    assert spread(Mixing, moved=200) > LIMIT
