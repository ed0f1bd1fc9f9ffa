"""The planner `auto`: rent or buy, what is shared, what a row loses, and that no decision depends on data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pg_epsilon.accounting.curves import renyi_cap
from pg_epsilon.errors import DPError
from pg_epsilon.noise import Noise
from pg_epsilon.turbo import auto
from pg_epsilon.turbo.bins import Domain, Query, box_query, mask_query
from pg_epsilon.turbo.books import MemoryBooks
from pg_epsilon.turbo.calibration import Calibration
from pg_epsilon.turbo.derive import Table
from pg_epsilon.turbo.designs import Outlook, covers, design_for
from pg_epsilon.turbo.load import Load, unit_of
from pg_epsilon.turbo.split import Node
from pg_epsilon.turbo.view import View

DOMAIN = Domain((2, 3, 4))
ALPHA, BETA = Fraction(1, 20), Fraction(1, 1000)
PRICES = Calibration(ALPHA, BETA)
VIEW = View(DOMAIN, PRICES, bits=5)
SCALE = 10_000
PLAIN, WINDOWS = Outlook(), Outlook(partitioned=True)
ORDERS = {Decimal(a): Decimal(1000) for a in (2, 8, 32)}


class Heard(Noise):
    """Noise of the right law from a seed; notes every draw."""

    def __init__(self, seed: int = 0, silent: bool = False) -> None:
        self.rng, self.silent = np.random.default_rng(seed), silent
        self.draws: list[tuple[str, float, int]] = []

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Any, epsilon: Any, label: str) -> list[int]:
        self.draws.append(("laplace", float(epsilon), len(exact)))
        if self.silent:
            return list(exact)
        both = self.rng.geometric(-np.expm1(-float(epsilon) / float(l1_sensitivity)), (2, len(exact)))
        return [value + int(z) for value, z in zip(exact, both[0] - both[1], strict=True)]

    def gaussian(self, exact: Sequence[int], *, l2_squared: Any, rho: Any, label: str) -> list[int]:
        self.draws.append(("gaussian", float(rho), len(exact)))
        sigma = (float(l2_squared) / (2 * float(rho))) ** 0.5
        return [value + round(z) for value, z in zip(exact, self.rng.normal(0, sigma, len(exact)), strict=True)]


class Watched(MemoryBooks):
    """Notes what is read of the data, and every payment."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.reads: list[tuple[Query | None, Node]] = []
        self.payments: list[Any] = []

    def truth(self, query: Query, node: Node) -> int:
        self.reads.append((query, node))
        return super().truth(query, node)

    def bins(self, part: int) -> Any:
        self.reads.append((None, Node(0, part, part)))
        return super().bins(part)

    def pay(self, payments: Any) -> None:
        super().pay(payments)
        self.payments += payments


def shelf(partitions: int = 1, caps: Any = None, seed: int = 5, scale: int = SCALE) -> Watched:
    rng = np.random.default_rng(seed)
    return Watched([rng.integers(0, 2 * scale // 24, 24) for _ in range(partitions)], [scale] * partitions, caps)


def spent(books: MemoryBooks) -> list[float]:
    return [float(x) * 1e-15 for x in books.spent[0]]


def price(query: Query, beta: Fraction = BETA, outlook: Outlook = PLAIN) -> float:
    design = design_for(query, PRICES, beta, outlook, SCALE)
    assert design is not None
    return float(design.price(PRICES, SCALE) or 0)


DIRECT = float(PRICES.direct(SCALE).amount)
ALONE = float(PRICES.node(1, SCALE).amount)
C = price(box_query(DOMAIN, [[0], None, None]))
boxes = st.tuples(*(st.sets(st.integers(0, n - 1), min_size=1) for n in DOMAIN.sizes)).map(
    lambda sets: box_query(DOMAIN, list(sets))
)
spans = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda ends: (min(ends), max(ends)))


def busiest(queries: Sequence[Query]) -> int:
    """How many distinct queries have one bin in common, at most: what renting alone costs, in answers by noise."""
    ones = {query.id: query for query in queries if not query.empty}
    used = np.zeros(24, int)
    for query in ones.values():
        query.put(used, query.of(used) + 1)
    return int(used.max())


@settings(database=None, deadline=None, max_examples=30)
@given(st.lists(boxes, max_size=60))
def test_rent_or_buy_costs_at_most_twice_the_cheaper_one_and_one_charge(queries: list[Query]) -> None:
    books, noise = shelf(), Heard()
    for query in queries:
        auto.answer([query], 0, 0, VIEW, books, noise)
        rent = busiest(queries) * DIRECT
    assert not queries or spent(books)[0] <= 2 * min(rent, C) + DIRECT + 1e-9


def test_it_rents_up_to_the_price_then_buys_and_is_free_ever_after() -> None:
    books, noise = shelf(), Heard()
    rng = np.random.default_rng(1)
    seen = []
    for _ in range(300):
        query = box_query(DOMAIN, [[0], *(rng.choice(n, rng.integers(1, n + 1), replace=False) for n in (3, 4))])
        (reply,) = auto.answer([query], 0, 0, VIEW, books, noise)
        seen.append((reply.path, spent(books)[0]))
    assert books.paid["synopsis"] == 1 and seen[-1][0] in ("synopsis", "exact")
    rent = next(total for (_, total), (path, _) in pairwise(seen) if path == "synopsis")
    assert rent <= C < rent + DIRECT + 1e-9 and seen[-1][1] == pytest.approx(rent + C)


def test_cells_of_a_group_by_cost_one_noise_whether_asked_together_or_one_by_one() -> None:
    cells = [box_query(DOMAIN, [None, [i], [j]]) for i in range(3) for j in range(4)]
    together, single = shelf(), shelf()
    auto.answer(cells, 0, 0, VIEW, together, Heard())
    for cell in cells:
        auto.answer([cell], 0, 0, VIEW, single, Heard())
    assert spent(together) == spent(single) == [pytest.approx(DIRECT, rel=1e-4)]
    assert together.paid == single.paid == {"bypass": 1}
    auto.answer([box_query(DOMAIN, [[1], None, None])], 0, 0, VIEW, single, Heard())
    assert spent(single) == [pytest.approx(2 * DIRECT, rel=1e-4)]


@settings(database=None, deadline=None, max_examples=30)
@given(st.lists(st.tuples(boxes, spans), max_size=25), st.booleans(), st.sampled_from([None, 40]))
def test_what_a_row_loses_was_paid_by_its_partition(
    asked: list[tuple[Query, tuple[int, int]]], renyi: bool, forecast: int | None
) -> None:
    """Over all draws of a session together (composition.md §13): a row of any partition and bin."""
    books, noise = shelf(4, ORDERS if renyi else None), Heard()
    outlook = Outlook(forecast, partitioned=True)
    lost = np.zeros((4, 24))
    for query, (first, last) in asked:
        before, drawn = len(books.reads), len(noise.draws)
        auto.answer([query], first, last, VIEW, books, noise, outlook)
        for (read, node), (_, amount, _) in zip(books.reads[before:], noise.draws[drawn:], strict=True):
            for part in range(node.first, node.last + 1):
                cells = lost[part]
                if read is None:
                    cells += amount
                else:
                    read.put(cells, read.of(cells) + amount)
    factor = 2 if renyi else 1  # the curve of rho at order 2
    paid = books.spent[0][:4].astype(float) * 1e-15
    assert (lost.max(axis=1) * factor <= paid + 1e-12).all()
    if not renyi:  # rent or buy, on every partition
        assert paid.max() <= 2 * price(asked[0][0] if asked else _cells()[0], BETA / 2) + ALONE + 1e-9
    assert {kind for kind, _, _ in noise.draws} <= {"gaussian" if renyi else "laplace"}


@settings(database=None, deadline=None, max_examples=20)
@given(st.lists(st.tuples(boxes, spans), max_size=25), st.integers(0, 3), st.integers(0, 23))
def test_no_decision_depends_on_the_data(asked: list[tuple[Query, tuple[int, int]]], part: int, cell: int) -> None:
    """Neighbours: the same payments, draws and reads in the same order. So does any other table, any other noise."""
    seen = []
    for change, seed in ((0, 1), (1, 1), (5000, 2)):
        books, noise = shelf(4), Heard(seed)
        books.counts[part][cell] += change
        paths = [auto.answer([q], a, b, VIEW, books, noise, WINDOWS)[0].path for q, (a, b) in asked]
        reads = [(None if q is None else q.id, node) for q, node in books.reads]
        seen.append((paths, books.payments, noise.draws, reads, set(books.notes)))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.long
@pytest.mark.parametrize("gaussian", [False, True])
def test_a_synopsis_is_within_alpha_also_for_whoever_asks_for_what_came_out_high(gaussian: bool) -> None:
    """The bins that came out high, the worst box, a fixed one. beta = 0.05: of 600 at most 59 (p < 1e-6)."""
    prices = Calibration(ALPHA, Fraction(1, 20), gaussian=gaussian)
    truth, off, noise = shelf().counts[0], {"chosen": 0, "box": 0, "declared": 0}, Heard(1)
    every = [box_query(DOMAIN, [[a], [b], c]) for a in range(2) for b in range(3) for c in _subsets()]
    few = Outlook(workload=tuple(every[:20]))
    designs = [
        (mask_query(DOMAIN, np.arange(24) % 5 == 0), PLAIN, "chosen"),
        (every[0], PLAIN, "box"),
        (every[0], few, "declared"),
    ]
    for wanted, outlook, name in designs:
        design = design_for(wanted, prices, prices.beta, outlook, SCALE)
        assert design is not None
        for _ in range(600):
            for part, draw in zip(design.parts, design.draws(prices, SCALE) or [], strict=True):
                table = Table.release(part.kind, part.grid, draw, truth, noise)
                asked = every if name == "box" else every[:20]
                if name == "chosen":
                    asked = [mask_query(DOMAIN, table.noisy > truth), mask_query(DOMAIN, table.noisy < truth)]
                wrong = [abs((table.value(q, outlook) or 0) - q.total(truth)) for q in asked if not q.empty]
                off[name] += max(wrong) > ALPHA * SCALE
    assert stats.binom.sf(59, 600, 0.05) < 1e-6
    assert max(off.values()) <= 59


@pytest.mark.parametrize("outlook", [PLAIN, WINDOWS])
def test_the_number_of_rows_is_a_question_like_any_other(outlook: Outlook) -> None:
    """20,000 rows were declared where fewer are. Whatever synopsis there is answers it, with its margin."""
    counts, everything = shelf().counts[0], box_query(DOMAIN, [None, None, None])
    books, noise = Watched([counts], [2 * SCALE]), Heard(silent=True)
    for path in ("r3", "exact"):
        (reply,) = auto.answer([everything], 0, 0, VIEW, books, noise, outlook)
        assert (reply.value, reply.path) == (int(counts.sum()), path)
    assert [payment.why for payment in books.payments] == ["bypass"]
    assert covers("all boxes", everything, outlook)
    assert covers("every", everything, outlook)
    assert not covers("boxes", everything, outlook)
    assert covers("boxes", box_query(DOMAIN, [[0], None, None]), outlook)


def _cells() -> list[Query]:
    return [mask_query(DOMAIN, np.arange(24) == v) for v in range(24)]


@pytest.mark.long
def test_fresh_and_mixed_answers_over_windows_are_within_alpha() -> None:
    """beta = 0.05: of 1,500 answers at most 120 (p < 1e-6); those asked again come from what was stored."""
    view, rng = View(DOMAIN, Calibration(ALPHA, Fraction(1, 20)), bits=5), np.random.default_rng(3)
    off, paths = 0, set()
    for seed in range(60):
        books, noise = shelf(4), Heard(seed)
        for _ in range(25):
            query = box_query(DOMAIN, [rng.choice(n, rng.integers(1, n + 1), replace=False) for n in DOMAIN.sizes])
            first, last = sorted(rng.integers(0, 4, 2))
            (reply,) = auto.answer([query], first, last, view, books, noise, WINDOWS)
            exact = sum(query.total(books.counts[p]) for p in range(first, last + 1))
            assert reply.value is not None
            off += reply.path != "trivial" and abs(reply.value - exact) > ALPHA * SCALE * (last - first + 1)
            paths.add(reply.path)
    assert stats.binom.sf(120, 1500, 0.05) < 1e-6
    assert off <= 120 and {"r3", "mixed", "synopsis"} <= paths


def test_a_workload_decides_at_once() -> None:
    every = [box_query(DOMAIN, [[a], [b], [c]]) for a in range(2) for b in range(2) for c in range(4)]
    dear = Outlook(workload=tuple(every) + tuple(_cells()) + tuple(_overlapping()))
    books = shelf()
    auto.answer([every[0]], 0, 0, VIEW, books, Heard(), dear)
    assert books.paid == {"synopsis": 1}
    few = Outlook(workload=tuple(every[:8]))
    books = shelf()
    for query in every[:8]:
        auto.answer([query], 0, 0, VIEW, books, Heard(), few)
    assert "synopsis" not in books.paid
    assert spent(books)[0] <= price(every[0], outlook=few) + DIRECT


def _overlapping() -> list[Query]:
    return [box_query(DOMAIN, [None, list(b), list(c)]) for b in ((0,), (0, 1), (0, 2)) for c in _subsets() if 0 in c]


def _subsets() -> list[tuple[int, ...]]:
    return [tuple(i for i in range(4) if m >> i & 1) for m in range(1, 16)]


def test_a_forecast_buys_as_soon_as_the_rate_is_known() -> None:
    for forecast, bought in ((10**6, True), (3, False)):
        books = shelf()
        for query in _overlapping()[:3]:
            auto.answer([query], 0, 0, VIEW, books, Heard(), Outlook(forecast))
        assert ("synopsis" in books.paid) is bought
        if bought:
            assert spent(books)[0] <= C + 2 * DIRECT


def test_a_refusal_changes_nothing_and_reads_nothing() -> None:
    books, noise = shelf(1, {None: Decimal(str(DIRECT * 1.5))}), Heard()
    first, second = _overlapping()[:2]
    auto.answer([first], 0, 0, VIEW, books, noise)
    state = dict(books.notes), books.spent.copy(), list(books.reads)
    with pytest.raises(DPError) as refused:
        auto.answer([second], 0, 0, VIEW, books, noise)
    assert refused.value.sqlstate == "DP001"
    assert (dict(books.notes), books.reads) == (state[0], state[2]) and (books.spent == state[1]).all()
    assert auto.answer([first], 0, 0, VIEW, books, noise)[0].path == "exact"


def test_it_buys_while_it_still_can() -> None:
    """Less than twice the price is left: the rent may use up what the synopsis does not need."""
    books, paths = shelf(1, {None: Decimal(str(C + 1.5 * DIRECT))}), []
    for query in _overlapping()[:6]:
        paths.append(auto.answer([query], 0, 0, VIEW, books, Heard())[0].path)
    assert paths[0] == "r3" and paths[1:] == ["synopsis"] * 5
    books = shelf(1, {None: Decimal(str(C * 0.9))})  # it never could: it rents as long as that lasts
    for query in _overlapping()[:3]:
        assert auto.answer([query], 0, 0, VIEW, books, Heard())[0].path == "r3"


def test_windows_pay_their_share_and_a_partition_is_answered_alone_once_that_is_no_dearer() -> None:
    books, noise, query = shelf(4), Heard(), box_query(DOMAIN, [[0], [0], None])
    auto.answer([query], 0, 3, VIEW, books, noise, WINDOWS)
    assert spent(books) == [pytest.approx(ALONE / 4, rel=1e-3)] * 4
    assert auto.answer([query], 0, 3, VIEW, books, noise, WINDOWS)[0].path == "exact"
    for first, last in ((0, 1), (0, 2), (1, 2), (0, 0), (1, 1), (2, 2), (3, 3), (2, 3), (1, 3)):
        auto.answer([query], first, last, VIEW, books, noise, WINDOWS)
    assert max(spent(books)) <= 2 * ALONE * 1.001
    before = spent(books)
    for first in range(4):
        for last in range(first, 4):
            assert auto.answer([query], first, last, VIEW, books, noise, WINDOWS)[0].path == "exact"
    assert spent(books) == before


def test_a_rényi_dataset_is_answered_with_gaussian_noise() -> None:
    caps = dict(zip(ORDERS, renyi_cap(Decimal(5), Decimal("1e-6"), list(ORDERS)).values(), strict=False)) or ORDERS
    books, noise = shelf(1, caps), Heard()
    for query in _overlapping()[:10]:
        auto.answer([query], 0, 0, VIEW, books, noise)
    assert {kind for kind, _, _ in noise.draws} == {"gaussian"}


def _stored(data: bytes, unit: Decimal) -> Load:
    found = Load.from_bytes(data, unit)
    assert found is not None
    return found


@settings(database=None, deadline=None, max_examples=40)
@given(st.lists(boxes, min_size=1, max_size=30), st.booleans())
def test_a_load_is_stored_as_it_is(queries: list[Query], often: bool) -> None:
    unit, draw = unit_of(PRICES.direct(SCALE)), PRICES.direct(SCALE)
    load = Load.empty(24, 7, unit)
    exact = np.zeros(24)
    for query in queries:
        rise = load.needed(query, draw) - load.level
        load.take(query, draw)
        query.put(exact, query.of(exact) + float(draw.amount))
        assert rise >= 0 and load.level * float(unit) >= exact.max() - 1e-12
        if often:
            load = _stored(bytes(bytearray(load.to_bytes())), unit)
    again = _stored(load.to_bytes(), unit)
    assert again.used.tolist() == load.used.tolist()
    assert (again.level, again.rent, again.since) == (load.level, load.rent, 7)
    assert load.level == int(load.used.max())


@pytest.mark.parametrize("dearer", [True, False])
def test_what_was_paid_by_another_price_pays_for_nothing(dearer: bool) -> None:
    """Finding A10: an answer about other bins is paid by what was paid before (the control), unless that was less."""
    books, noise = shelf(), Heard(silent=True)
    halves = [box_query(DOMAIN, [[i], None, None]) for i in range(2)]
    auto.answer([halves[0]], 0, 0, VIEW, books, noise)
    before = spent(books)[0]
    assert before == pytest.approx(DIRECT)
    prices = replace(PRICES, alpha=ALPHA / 2) if dearer else PRICES
    auto.answer([halves[1]], 0, 0, replace(VIEW, prices=prices), books, noise)
    cost = float(prices.direct(SCALE).amount)
    assert spent(books)[0] - before == pytest.approx(cost if dearer else 0)


def test_a_large_load_is_stored_with_a_log() -> None:
    domain = Domain((100, 100))
    unit, draw = unit_of(PRICES.direct(SCALE)), PRICES.direct(SCALE)
    load = Load.empty(10_000, 0, unit)
    datas = []
    for i in range(100):
        load.take(box_query(domain, [[i], None]), draw)
        datas.append(load.to_bytes())
        load = _stored(datas[-1], unit)
    assert load.level == -(-int(draw.amount / unit * 1000) // 1000) and set(load.used.tolist()) == {load.level}
    # A transaction that was rolled back: what is stored is older than what is known.
    old = _stored(datas[49], unit)
    assert old.used.reshape(100, 100)[:50].all() and not old.used.reshape(100, 100)[50:].any()
    assert len(datas[-1]) < 40_000
