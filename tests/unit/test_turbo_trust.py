"""Histogram + sparse vector inside `auto` (turbo/trust.py): evidence, what epochs may lose, no state in vain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_epsilon.errors import DPError
from pg_epsilon.noise import Noise
from pg_epsilon.turbo import auto, trust
from pg_epsilon.turbo.bins import Domain, Query, box_query
from pg_epsilon.turbo.books import MemoryBooks, Payment
from pg_epsilon.turbo.calibration import Calibration
from pg_epsilon.turbo.designs import Outlook, design_for
from pg_epsilon.turbo.load import Load, unit_of
from pg_epsilon.turbo.sparse_vector import SparseVector
from pg_epsilon.turbo.split import WHOLE
from pg_epsilon.turbo.view import Answer, View

DOMAIN = Domain((64, 64))
ALPHA, BETA = Fraction(1, 20), Fraction(1, 1000)
PRICES = Calibration(ALPHA, BETA)
VIEW = View(DOMAIN, PRICES, bits=5)
SCALE = 40_960
UNIFORM = np.full(DOMAIN.bins, 10)
DIRECT = float(PRICES.direct(SCALE).amount)
EPOCH = 3 * float(PRICES.epoch(SCALE))
CLOSE = 1e-3 * DIRECT
ORDERS: dict[Decimal | None, Decimal] = {Decimal(8): Decimal(1000)}


def boxes(count: int, seed: int = 1, low: int = 0) -> list[Query]:
    """Questions that all have the bin of the first values: each costs an answer."""
    rng = np.random.default_rng(seed)
    halves = [[{low, *np.flatnonzero(rng.random(64) < 0.5).tolist()} for _ in range(2)] for _ in range(count)]
    return [box_query(DOMAIN, half) for half in halves]


DESIGN = design_for(boxes(1)[0], PRICES, BETA, Outlook(), SCALE)
C = float((DESIGN and DESIGN.price(PRICES, SCALE)) or 0)


class Scripted(Noise):
    """Noise of the right law, or what a script says: answers off by three alpha ñ, tests that fail."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.off = False
        self.passes: bool | None = None
        self.tests: list[bool] = []

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Any, epsilon: Any, label: str) -> list[int]:
        if self.off:
            return [value + round(3 * float(ALPHA) * SCALE) * int(l1_sensitivity) for value in exact]
        both = self.rng.geometric(-math.expm1(-float(epsilon) / float(l1_sensitivity)), (2, len(exact)))
        return [value + int(z) for value, z in zip(exact, both[0] - both[1], strict=True)]

    def gaussian(self, exact: Sequence[int], *, l2_squared: Any, rho: Any, label: str) -> list[int]:
        return list(exact)

    def sparse_start(self, threshold: int, *, sensitivity: Any, epsilon: Any, label: str) -> int:
        return threshold

    def sparse_test(self, error: int, noisy_threshold: int, *, sensitivity: Any, epsilon: Any, label: str) -> bool:
        self.tests.append(error < noisy_threshold if self.passes is None else self.passes)
        return self.tests[-1]


def shelf(caps: dict[Decimal | None, Decimal] | None = None, counts: Any = UNIFORM) -> MemoryBooks:
    return MemoryBooks([counts], [SCALE], caps)


def ask(query: Query, books: MemoryBooks, noise: Noise, outlook: Outlook = auto.UNKNOWN, view: View = VIEW) -> Answer:
    (reply,) = auto.answer([query], 0, 0, view, books, noise, outlook)
    return reply


def spent(books: MemoryBooks) -> float:
    return float(books.spent[0][0]) * 1e-15


def trained(books: MemoryBooks, noise: Noise, seed: int = 1) -> list[Query]:
    """Asks until an epoch is open; the questions that are left."""
    rest = boxes(200, seed)
    while not books.sparse_vector(trust.KEY).active:
        ask(rest.pop(), books, noise)
    return rest


def test_what_agrees_earns_an_epoch_and_passes_are_free() -> None:
    books, noise = shelf(), Scripted()
    rest = trained(books, noise)
    before = spent(books)
    assert 2 * EPOCH + EPOCH <= before <= 3 * EPOCH + 6 * DIRECT  # the first few answers taught nothing
    replies = [ask(query, books, noise) for query in rest[:40]]
    assert {reply.path for reply in replies} == {"r1"}
    assert spent(books) == before
    for query, reply in zip(rest[:40], replies, strict=True):
        assert abs((reply.value or 0) - query.total(UNIFORM)) <= ALPHA * SCALE
        assert ask(query, books, noise) == Answer(reply.value, "exact")
    assert books.paid["epoch"] == 1 and len(noise.tests) == 41


def test_what_was_free_is_stored_with_small_questions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that costs nothing could be asked for without end: what is stored of it is small."""
    books, noise = shelf(), Scripted()
    query = trained(books, noise)[0]
    monkeypatch.setattr(trust, "_STORED_BYTES", len(query.to_bytes()) - 1)
    assert [ask(query, books, noise).path for _ in range(2)] == ["r1", "r1"]
    monkeypatch.setattr(trust, "_STORED_BYTES", len(query.to_bytes()))
    assert [ask(query, books, noise).path for _ in range(2)] == ["r1", "exact"]


def test_what_does_not_agree_earns_nothing() -> None:
    """Noise that is never where the histogram is: rent, then the synopsis, as if there were no histogram."""
    books, noise, paths = shelf(), Scripted(), []
    noise.off = True
    for i, query in enumerate(boxes(150)):
        noise.off = i % 3 < 2
        paths.append(ask(query, books, noise).path)
    assert "epoch" not in books.paid and books.paid["synopsis"] == 1
    assert set(paths) == {"r3", "synopsis"}


def test_a_fail_is_answered_by_noise_and_evidence_must_be_earned_again() -> None:
    books, noise = shelf(), Scripted()
    rest = trained(books, noise)
    noise.passes = False
    before = spent(books)
    query = rest.pop()
    reply = ask(query, books, noise)
    assert reply.path == "r2" and not books.sparse_vector(trust.KEY).active
    hard = float(PRICES.hard(SCALE).amount)
    assert before + DIRECT - CLOSE <= spent(books) <= before + hard + CLOSE
    assert ask(query, books, noise) == Answer(reply.value, "exact")
    assert ask(rest.pop(), books, noise).path == "r3"
    assert books.paid["epoch"] == 1


def test_a_batch_is_tested_until_its_first_fail_and_the_rest_shares_one_noise() -> None:
    books, noise = shelf(), Scripted()
    trained(books, noise)
    cells = [box_query(DOMAIN, [[i], None]) for i in range(64)]
    before = spent(books)
    noise.passes = True
    assert {a.path for a in auto.answer(cells[:8], 0, 0, VIEW, books, noise)} <= {"r1"}
    assert spent(books) == before
    noise.passes = False
    paths = [a.path for a in auto.answer([*cells[8:16], cells[0]], 0, 0, VIEW, books, noise)]
    assert set(paths) <= {"r2", "r3", "exact"} and paths[-1] == "exact"
    assert spent(books) <= before + float(PRICES.hard(SCALE).amount) + CLOSE


class Failing(MemoryBooks):
    """Writing a noisy answer goes wrong."""

    broken = False

    def truth(self, query: Query, node: Any) -> int:
        if self.broken and not self.sparse_vectors[trust.KEY].active:
            raise RuntimeError("the disk is full")
        return super().truth(query, node)


def test_an_error_after_a_fail_leaves_the_epoch_closed() -> None:
    """E-22: the answer is an error, the transaction commits: the threshold is gone, the noise was paid."""
    books, noise = Failing([UNIFORM], [SCALE]), Scripted()
    query = trained(books, noise).pop()
    books.broken, noise.passes = True, False
    before = spent(books)
    reply = ask(query, books, noise)
    assert reply.value is None and reply.path == "failed" and isinstance(reply.error, RuntimeError)
    assert books.sparse_vector(trust.KEY).threshold is None
    assert spent(books) > before


@pytest.mark.parametrize("room", [0.5, 1.05, 2.0])
def test_what_follows_a_fail_can_be_paid_before_anything_is_tested(room: float) -> None:
    """With less than that left, questions are rented as if there were no epoch, or refused; none is tested."""
    books, noise = shelf({None: Decimal(5)}), Scripted()
    rest = trained(books, noise)
    books.caps = books.spent[:, 0] + round(room * DIRECT * 1e15)
    tested, noise.passes = len(noise.tests), False
    try:
        reply = ask(rest.pop(), books, noise)
        assert reply.path == ("r2" if room > 1.2 else "r3")
    except DPError as refused:
        assert refused.sqlstate == "DP001" and room < 1
    assert (len(noise.tests) > tested) is (room > 1.2)


def test_an_epoch_does_not_use_up_what_the_synopsis_needs() -> None:
    books, noise = shelf({None: Decimal(str(round(C + 2.5 * EPOCH, 12)))}), Scripted()
    paths = [ask(query, books, noise).path for query in boxes(60)]
    assert "epoch" not in books.paid and books.paid["synopsis"] == 1
    assert paths.count("r3") >= 28


Script = list[tuple[int, bool, bool]]


@pytest.mark.long
@settings(database=None, deadline=None, max_examples=12)
@given(
    st.integers(0, 99), st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=8, max_size=40)
)
def test_epochs_cost_at_most_half_of_what_renting_alone_would(seed: int, script: Script) -> None:
    """Whatever agrees or fails, in stretches of eight questions about regions that overlap or do not.

    Independently counted: renting alone costs the number of distinct questions about the busiest bin.
    """
    books, noise = shelf(), Scripted(seed)
    alone, left = np.zeros(DOMAIN.bins, int), [boxes(400, seed + low, low) for low in range(4)]
    fails = 0
    for region, agrees, passes in script:
        for _ in range(8):
            noise.off, noise.passes = not agrees, passes
            query, opened, tested = left[region].pop(), books.paid.get("epoch", 0), len(noise.tests)
            ask(query, books, noise)
            if "synopsis" in books.paid:
                assert spent(books) <= 2 * C + DIRECT + CLOSE
                return
            renting = int(alone.max()) * DIRECT
            if books.paid.get("epoch", 0) > opened:  # at most one epoch, or an eighth, above renting alone
                paid = spent(books) - (0 if all(noise.tests[tested:]) else 1.1 * DIRECT)
                assert paid <= renting + max(EPOCH, renting / 8) + 0.11 * fails * DIRECT + CLOSE
            query.put(alone, query.of(alone) + 1)
            fails += noise.tests[tested:].count(False)
            renting = int(alone.max()) * DIRECT
            assert spent(books) <= 1.5 * renting + 0.11 * fails * DIRECT + CLOSE
            assert spent(books) <= C + 0.11 * DIRECT


def test_no_state_where_it_cannot_pay() -> None:
    """A small grid, a large one that is little asked, windows, a Rényi dataset: no histogram, no note, no epoch."""
    small = View(Domain((2, 4, 8)), PRICES, bits=5)
    books = MemoryBooks([np.full(64, 640)], [SCALE])
    rng = np.random.default_rng(2)
    for _ in range(60):
        box = [np.flatnonzero(rng.random(n) < 0.5).tolist() for n in small.domain.sizes]
        ask(box_query(small.domain, box), books, Scripted(), view=small)
    grouped, renyi, parted = shelf(), shelf(ORDERS), shelf()
    for i in range(64):
        ask(box_query(DOMAIN, [[i], None]), grouped, Scripted())
    for query in boxes(60):
        ask(query, renyi, Scripted())
        ask(query, parted, Scripted(), Outlook(partitioned=True))
    for one in (books, grouped, renyi, parted):
        assert not one.nodes and not one.sparse_vectors and "epoch" not in one.paid
        assert {name for name, _ in one.notes} <= {"load", "asked", "synopsis"}


def test_a_table_too_small_for_an_epoch_is_answered_by_noise() -> None:
    """Where its epsilon would be above what noise.py draws, the question is rented as if there were no histogram."""
    prices = Calibration(ALPHA, Fraction(1, 10**9))
    view, books, noise = View(DOMAIN, prices, bits=5), MemoryBooks([np.zeros(DOMAIN.bins, int)], [1]), Scripted()
    assert prices.epoch(1) > 1000
    assert {ask(query, books, noise, view=view).path for query in boxes(40)} == {"r3"}
    assert not books.nodes


def test_after_a_purchase_everything_starts_anew() -> None:
    books, noise = shelf(), Scripted()
    trained(books, noise)
    noise.passes, paths = False, []
    for query in boxes(400, seed=9):
        paths.append(ask(query, books, noise).path)
        if books.paid.get("synopsis"):
            break
    assert paths[-1] == "synopsis"
    assert books.notes["load", trust.ALONE] == b""
    assert trust.Evidence.from_bytes(books.notes["trust", WHOLE]) == trust.Evidence()


def test_evidence_is_the_rent_between_disagreements() -> None:
    seen = trust.Evidence()
    for _ in range(19):
        seen.note(10, agreed=True)
    assert not seen.earned(100)
    seen.note(10, agreed=True)
    assert seen.earned(100)
    seen.note(10, agreed=False)
    assert (seen.gained, seen.failed, seen.since) == (100, 0.5, 200) and seen.earned(100)
    seen.note(10, agreed=False)
    assert (seen.gained, seen.failed, seen.since) == (50, 0.75, 200) and not seen.earned(100)
    for _ in range(5):
        seen.note(10, agreed=True)
    assert seen.earned(100)
    assert trust.Evidence.from_bytes(seen.to_bytes()) == seen
    assert trust.Evidence.from_bytes(None) == trust.Evidence()


def test_it_learns_what_is_not_noise() -> None:
    """Far off: most of the way. As far off as noise is: nothing."""
    seen = trust.Evidence()
    for _ in range(10):
        seen.off(3.0)
    assert trust.step(2_000, 8_000, 10_000, 0.05, seen.gain(0.001)) > 0.5
    assert trust.step(8_000, 2_000, 10_000, 0.05, seen.gain(0.001)) < -0.5
    for _ in range(300):
        seen.off(math.sqrt(2) / math.log(1000))
    assert seen.gain(0.001) < 1e-3
    assert trust.step(2_000, 8_000, 10_000, 0.05, seen.gain(0.001)) == 0


@pytest.mark.long
def test_a_skewed_table_is_learnt_and_its_questions_pass() -> None:
    """A product of five marginals, conjunctions of one to three conditions, noise and thresholds of the right law."""
    domain, scale = Domain((8,) * 5), 400_000
    view, share = View(domain, PRICES, bits=5), np.ones(1)
    for side in (
        [1, 2, 3, 4, 4, 3, 2, 1],
        [5, 1, 1, 1, 1, 1, 1, 5],
        [1, 1, 1, 1, 2, 2, 2, 2],
        [1] * 8,
        [8, 4, 2, 1] * 2,
    ):
        share = np.outer(share, side).ravel()
    counts = np.random.default_rng(3).multinomial(scale, share / share.sum())
    books, noise, rng = MemoryBooks([counts], [scale]), Scripted(5), np.random.default_rng(6)
    paths, off, alone = [], 0, np.zeros(domain.bins, int)
    for _ in range(900):
        box: list[Any] = [None] * 5
        for axis in rng.permutation(5)[: rng.integers(1, 4)]:
            box[axis] = rng.permutation(8)[:4].tolist()
        query = box_query(domain, box)
        reply = ask(query, books, noise, view=view)
        paths.append(reply.path)
        off += abs((reply.value or 0) - query.total(counts)) > ALPHA * scale
        if reply.path != "exact":
            query.put(alone, query.of(alone) + 1)
    assert paths.count("r1") > 300 and "synopsis" not in books.paid
    assert spent(books) < 0.75 * int(alone.max()) * float(PRICES.direct(scale).amount)
    assert off <= 9  # beta = 0.001 of 900; the noise is seeded


def test_a_copied_load_goes_its_own_way() -> None:
    load = Load.empty(DOMAIN.bins, 3, unit_of(PRICES.direct(SCALE)))
    load.take(boxes(1)[0], PRICES.direct(SCALE))
    copy = load.copy()
    assert copy.to_bytes() == load.to_bytes()
    copy.take(boxes(1)[0], PRICES.direct(SCALE))
    assert (copy.rent, load.rent, int(load.used.max())) == (2 * load.rent, load.rent, load.level)


def test_the_histogram_is_what_its_log_says() -> None:
    """State = snapshot and log, as for `planner => 'turbo'`: 16 bytes a bin."""
    books, noise = shelf(), Scripted()
    trained(books, noise)
    node = books.nodes[WHOLE]
    made = type(node).uniform(DOMAIN.bins, VIEW.heuristic)
    made.replay([e for e, _ in books.logs[WHOLE]], {q.id: q for _, q in books.logs[WHOLE]}, VIEW.heuristic)
    assert made.weights.tobytes() == node.weights.tobytes()
    assert isinstance(books.sparse_vector(trust.KEY), SparseVector)
    assert Payment(0, 0, trust.epoch_charge(PRICES.epoch(SCALE)), "epoch").charge.pure()[0] == 3 * PRICES.epoch(SCALE)


def test_no_epoch_is_opened_for_what_another_aggregate_of_the_request_has_taught() -> None:
    """The request's dry run could not know of it; an epoch that is open is used all the same."""

    class Begun(MemoryBooks):
        begun = False

    books, noise = Begun([UNIFORM.copy()], [SCALE]), Scripted()
    rest = boxes(200)
    while not trust.Evidence.from_bytes(books.note(trust.EVIDENCE, WHOLE)).earned(epoch_units()):
        ask(rest.pop(), books, noise)
    books.begun = True
    assert ask(rest.pop(), books, noise).path == "r3" and "epoch" not in books.paid
    books.begun = False
    assert ask(rest.pop(), books, noise).path == "r1" and books.paid["epoch"] == 1
    books.begun = True
    assert ask(rest.pop(), books, noise).path == "r1"


def epoch_units() -> int:
    return int(3 * PRICES.epoch(SCALE) / unit_of(PRICES.direct(SCALE))) + 1
