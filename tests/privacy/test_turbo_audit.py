"""Turbo audited: the law of an epoch, and sessions of the whole cached path on recorded neighbours (composition §13).

A session runs on books in memory and notes every draw; it is run again on the table with one row more, with every
output repeated. Everything seen must be equal, and the losses of all draws together, those of an epoch's bits as one
output, at most what the leaf of the row paid. The controls each break one rule, and must be caught.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fix_chance
from fix_decide_oracles import run_law
from pg_epsilon.accounting.margins import Number, laplace_scale
from pg_epsilon.noise import Noise, current
from pg_epsilon.turbo import auto, bypass, nodes, refine, synopsis, tree, window
from pg_epsilon.turbo.bins import Domain, Query, box_query
from pg_epsilon.turbo.books import MemoryBooks, Payment
from pg_epsilon.turbo.calibration import Calibration, Draw
from pg_epsilon.turbo.histogram import Heuristic
from pg_epsilon.turbo.sparse_vector import SparseVector
from pg_epsilon.turbo.split import Node
from pg_epsilon.turbo.view import Answer, View

FALSE_ALARM = 1e-9
EPOCHS = 8_000
ERRORS = [6, 2, 9, 4, 30]
THRESHOLD, EPSILON, SENSITIVITY = 8, Fraction(1, 4), 2
SCALE = float(SENSITIVITY / EPSILON)


# --- the law of an epoch ------------------------------------------------------------------------------------------


def epoch(noise: Noise, errors: Sequence[int] = ERRORS) -> int | None:
    """The index of the FAIL, None if all pass."""
    noisy = noise.sparse_start(THRESHOLD, sensitivity=SENSITIVITY, epsilon=EPSILON, label="law")
    for i, error in enumerate(errors):
        if not noise.sparse_test(error, noisy, sensitivity=SENSITIVITY, epsilon=EPSILON, label="law"):
            return i
    return None


class NoThresholdNoise(Noise):
    def sparse_start(self, threshold: int, *, sensitivity: Number, epsilon: Number, label: str) -> int:
        return threshold


class HalfQueryNoise(Noise):
    def sparse_test(
        self, error: int, noisy_threshold: int, *, sensitivity: Number, epsilon: Number, label: str
    ) -> bool:
        doubled = 2 * Fraction(epsilon)
        return super().sparse_test(error, noisy_threshold, sensitivity=sensitivity, epsilon=doubled, label=label)


class RowsForSteps(Noise):
    """Sensitivity 1 where the lattice has 2 steps a row."""

    def sparse_start(self, threshold: int, *, sensitivity: Number, epsilon: Number, label: str) -> int:
        return super().sparse_start(threshold, sensitivity=1, epsilon=epsilon, label=label)


OUTCOMES = [*range(len(ERRORS)), None]


def law_of(threshold_scale: float, query_scale: float) -> list[float]:
    """Of which question fails, exactly, on the lattice."""
    gaps = [error - THRESHOLD for error in ERRORS]
    return [math.exp(run_law(gaps, i, threshold_scale, query_scale, lattice=True)) for i in OUTCOMES]


LAW = law_of(SCALE, SCALE)


def fit(noise: Noise) -> float:
    seen = Counter(epoch(noise) for _ in range(EPOCHS))
    return fix_chance.fit([seen[i] for i in OUTCOMES], LAW)


def test_the_law_is_whole() -> None:
    assert sum(LAW) == pytest.approx(1, rel=1e-9)


@pytest.mark.chance(FALSE_ALARM)
def test_an_epoch_has_the_law_that_its_proof_assumes() -> None:
    assert fit(Noise()) > FALSE_ALARM


WRONG = {NoThresholdNoise: (1e-3, SCALE), HalfQueryNoise: (SCALE, SCALE / 2), RowsForSteps: (SCALE / 2, SCALE)}
"""The scales of their thresholds and questions."""


@pytest.mark.chance(lambda wrong: fix_chance.fits_although(law_of(*WRONG[wrong]), LAW, EPOCHS, FALSE_ALARM))
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_noise_is_rejected(wrong: type[Noise]) -> None:
    assert fit(wrong()) <= FALSE_ALARM


def neighbours() -> Iterator[list[int]]:
    for shift in range(3**4):
        yield [error + SENSITIVITY * (shift // 3**i % 3 - 1) for i, error in enumerate(ERRORS[:4])]


def worst(threshold_scale: float) -> float:
    """The largest |ln ratio| of any output of an epoch of 4 over all neighbouring errors."""
    base = [run_law([e - THRESHOLD for e in ERRORS[:4]], i, threshold_scale, SCALE, lattice=True) for i in OUTPUTS]
    return max(
        abs(run_law([e - THRESHOLD for e in errors], i, threshold_scale, SCALE, lattice=True) - base[j])
        for errors in neighbours()
        for j, i in enumerate(OUTPUTS)
    )


OUTPUTS = [0, 1, 2, 3, None]


def test_an_epoch_costs_three_epsilon_and_nearly_needs_them() -> None:
    """Exact law, all 81 neighbours of four errors; without the threshold's noise it costs more, growing with them."""
    assert worst(SCALE) <= 3 * float(EPSILON) + 1e-9
    assert worst(SCALE) > 0.75 * 3 * float(EPSILON)
    assert worst(1e-3) > 3 * float(EPSILON)


# --- sessions -----------------------------------------------------------------------------------------------------

DOMAIN = Domain((3, 4))
PARTS = 6
TABLES = [np.random.default_rng(7).integers(20, 200, DOMAIN.bins) for _ in range(PARTS)]
SCALE_DECLARED = 1420
PRICES = Calibration(Fraction(10, 100), Fraction(1, 100))
VIEW = View(DOMAIN, PRICES, Heuristic(c0=1, s0=1, tau=0.01))
GAUSSIAN = View(DOMAIN, replace(PRICES, gaussian=True), Heuristic(c0=10**6))
ORDER = 2
"""Of the Rényi losses of Gaussian draws: a rho."""


class Recorder(Noise):
    """Draws, or repeats; notes kind, label, public parameters, secret exact values, output."""

    def __init__(self, frozen: list[list[int]] | None = None) -> None:
        self.frozen = frozen
        self.public: list[tuple[Any, ...]] = []
        self.exact: list[list[int]] = []
        self.output: list[list[int]] = []

    def _note(self, public: tuple[Any, ...], exact: Sequence[int], draw: Callable[[], list[int]]) -> list[int]:
        at = len(self.output)
        cells = len(exact) or 1
        output = draw() if self.frozen is None else [*(self.frozen[at : at + 1] or [[]])[0], *[0] * cells][:cells]
        self.public.append(public)
        self.exact.append(list(exact))
        self.output.append(list(output))
        return list(output)

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        def draw() -> list[int]:
            return super(Recorder, self).laplace(exact, l1_sensitivity=l1_sensitivity, epsilon=epsilon, label=label)

        return self._note(("laplace", label, l1_sensitivity, epsilon), exact, draw)

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        def draw() -> list[int]:
            return super(Recorder, self).gaussian(exact, l2_squared=l2_squared, rho=rho, label=label)

        return self._note(("gaussian", label, l2_squared, rho), exact, draw)

    def sparse_start(self, threshold: int, *, sensitivity: Number, epsilon: Number, label: str) -> int:
        def draw() -> list[int]:
            return [
                super(Recorder, self).sparse_start(threshold, sensitivity=sensitivity, epsilon=epsilon, label=label)
            ]

        return self._note(("start", label, sensitivity, epsilon, threshold), [], draw)[0]

    def sparse_test(
        self, error: int, noisy_threshold: int, *, sensitivity: Number, epsilon: Number, label: str
    ) -> bool:
        def draw() -> list[int]:
            ask = super(Recorder, self).sparse_test
            return [int(ask(error, noisy_threshold, sensitivity=sensitivity, epsilon=epsilon, label=label))]

        public = ("test", label, sensitivity, epsilon, noisy_threshold)
        return bool(self._note(public, [error], draw)[0])


Ask = Callable[[MemoryBooks, Noise, int], list[Answer]]
"""One request of a session, the n-th."""


class Run:
    """One session: its draws, what was answered and paid."""

    def __init__(
        self,
        tables: Sequence[Any],
        ask: Ask,
        shelf: type[MemoryBooks],
        frozen: list[list[int]] | None,
        count: int,
        scale: int = SCALE_DECLARED,
    ) -> None:
        self.noise = Recorder(frozen)
        self.books = shelf(list(tables), [scale] * len(tables))
        self.seen = [[a[:2] for a in ask(self.books, self.noise, n)] for n in range(count)]

    @property
    def shown(self) -> Any:
        """Everything but the exact values."""
        kept = {node: histogram.to_bytes() for node, histogram in self.books.nodes.items()}
        tables = (self.books.exacts, self.books.sparse_vectors, self.books.paid, kept, self.books.spent.tolist())
        return self.noise.public, self.seen, tables, self.books.notes


def audit(
    ask: Ask,
    shelf: type[MemoryBooks] = MemoryBooks,
    count: int = 120,
    tables: Sequence[Any] = TABLES,
    scale: int = SCALE_DECLARED,
) -> list[str]:
    """What is wrong with a session, on several neighbours."""
    record = Run(tables, ask, shelf, None, count, scale)
    problems = []
    for partition, cell in ((0, 0), (3, 5), (PARTS - 1, 11)):
        more = [table.copy() for table in tables]
        more[partition][cell] += 1
        replay = Run(more, ask, shelf, record.noise.output, count, scale)
        if record.shown != replay.shown:
            problems.append("something but the exact values depends on the row")
            continue
        leaf = partition if record.books.spent.shape[1] > 1 else 0
        problems += losses(record.noise, replay.noise, Fraction(int(record.books.spent[0, leaf]), 10**15))
    return problems


def losses(one: Recorder, two: Recorder, paid: Fraction) -> list[str]:
    problems, total = [], Fraction(0)
    epochs: dict[str, list[tuple[int, int, int]]] = {}
    starts: dict[str, tuple[int, int]] = {}
    for public, a, b, output in zip(one.public, one.exact, two.exact, one.output, strict=True):
        if public[0] == "laplace":
            change = sum(abs(x - y) for x, y in zip(a, b, strict=True))
            total += Fraction(change) / Fraction(laplace_scale(public[2], public[3]))
            problems += ["a draw is moved by more than it declares"] if change > public[2] else []
        elif public[0] == "gaussian":
            change = sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
            total += ORDER * Fraction(change) * Fraction(public[3]) / Fraction(public[2])
            problems += ["a draw is moved by more than it declares"] if change > public[2] else []
        elif public[0] == "start":
            starts[public[1]] = (public[4], output[0])
        else:
            problems += (
                ["a test without its epoch's threshold"] if starts.get(public[1], (0, None))[1] != public[4] else []
            )
            problems += ["a test is moved by more than it declares"] if abs(a[0] - b[0]) > public[2] else []
            epochs.setdefault(public[1], []).append((a[0], b[0], output[0]))
    scales = {p[1]: float(Fraction(p[2]) / Fraction(p[3])) for p in one.public if p[0] == "start"}
    for label, tests in epochs.items():
        if not all(bit for _, _, bit in tests[:-1]):
            problems.append("an epoch is used after its FAIL")
        elif label in starts:
            index = next((i for i, test in enumerate(tests) if not test[2]), None)
            logs = [
                run_law([t[side] - starts[label][0] for t in tests], index, scales[label], scales[label], lattice=True)
                for side in (0, 1)
            ]
            total += Fraction(max(0.0, abs(logs[0] - logs[1]) - 1e-9))
    return problems + (["the losses are above what was paid"] if total > paid else [])


RNG = np.random.default_rng(11)
BOXES = [
    box_query(DOMAIN, [RNG.permutation(3)[: RNG.integers(1, 4)], RNG.permutation(4)[: RNG.integers(1, 5)]])
    for _ in range(40)
]
SPANS = [sorted(RNG.integers(0, PARTS, 2).tolist()) for _ in range(200)]
ROWS = [box_query(DOMAIN, [[i], None]) for i in range(3)]


def queries(n: int) -> list[Query]:
    return ROWS if n % 10 == 9 else [BOXES[n * 7 % len(BOXES)]]


class Whole(MemoryBooks):
    """All partitions as one."""

    def __init__(self, counts: Sequence[Any], scales: Sequence[int]) -> None:
        super().__init__([np.sum(counts, axis=0)], [sum(scales)])


def whole(books: MemoryBooks, noise: Noise, n: int) -> list[Answer]:
    return bypass.answer(queries(n), VIEW, books, noise)


def vanilla(books: MemoryBooks, noise: Noise, n: int) -> list[Answer]:
    return bypass.answer(queries(n), View(DOMAIN, PRICES, mode="pmw"), books, noise)


def same(books: MemoryBooks, noise: Noise, n: int) -> list[Answer]:
    """One query with the bins of all neighbours: every hard answer loses all that it pays, so an epoch must be paid.

    The error is near the threshold from the start, so the bits tell something.
    """
    everywhere = box_query(DOMAIN, [None, [0, 1, 3]])
    return bypass.answer([everywhere], View(DOMAIN, PRICES, mode="pmw"), books, noise)


def windows(books: MemoryBooks, noise: Noise, n: int) -> list[Answer]:
    return tree.answer(queries(n), *SPANS[n], VIEW, books, noise)


def artifact(books: MemoryBooks, noise: Noise, n: int) -> list[Answer]:
    return window.answer(queries(n), *SPANS[n % 6], VIEW, books, noise)


def daily(books: MemoryBooks, noise: Noise, n: int) -> list[Answer]:
    """A series: one request of as many windows as there are partitions, each by its rows, and every third by all."""
    asked = queries(n) if n % 3 else [box_query(DOMAIN, [None, None])]
    return [one for part in range(PARTS) for one in tree.answer(asked, part, part, VIEW, books, noise)]


class Renyi(MemoryBooks):
    """Accounts of one order."""

    def __init__(self, counts: Sequence[Any], scales: Sequence[int]) -> None:
        super().__init__(counts, scales, {Decimal(ORDER): Decimal(9000)})


def refining(books: MemoryBooks, noise: Noise, n: int) -> list[Answer]:
    """Windows 0 … 3 and longer ones: their node 0-3 is refined. All Gaussian, so that losses are of one measure."""
    return tree.answer(queries(n // 3), 0, 3 + n % 3, GAUSSIAN, books, noise)


def refining_one(books: MemoryBooks, noise: Noise, n: int) -> list[Answer]:
    """Of one query that has the bins of all neighbours, which lose all that is paid."""
    return tree.answer([box_query(DOMAIN, [None, [0, 1, 3]])], 0, 3 + n % 3, GAUSSIAN, books, noise)


def streamed(books: MemoryBooks, noise: Noise, n: int) -> list[Answer]:
    view = View(DOMAIN, PRICES, Heuristic(c0=1, s0=1), warm=True, longest=4)
    newest = min(n // 20, PARTS - 1)
    nodes.sealed(newest, view, books)
    return tree.answer(queries(n), max(0, newest - n % 4), newest, view, books, noise)


@pytest.mark.parametrize(
    ("ask", "shelf"),
    [
        (whole, Whole),
        (vanilla, Whole),
        (same, Whole),
        (windows, MemoryBooks),
        (artifact, MemoryBooks),
        (streamed, MemoryBooks),
        (daily, MemoryBooks),
        (refining, Renyi),
        (refining_one, Renyi),
    ],
)
def test_a_session_loses_no_more_than_it_pays(ask: Ask, shelf: type[MemoryBooks]) -> None:
    assert audit(ask, shelf) == []


# --- histogram + sparse vector inside the planner `auto` (trust.py) --------------------------------------------------

GRID = Domain((64, 64))
GRID_SCALE = 4_096
SHARES = np.full(GRID.bins, 0.7 / GRID.bins)
SHARES[[0, 40]] += 0.15
GRID_TABLES = [np.random.default_rng(seed).multinomial(GRID_SCALE, SHARES) for seed in range(PARTS)]
GRID_VIEW = View(GRID, PRICES, bits=3)
SIDES = np.random.default_rng(13).random((200, 2, 64)) < 0.5


def overlapping(n: int) -> Query:
    """Questions that all have the bins of all neighbours, so that rent loses all that it pays, and epochs must be paid.

    The first fifty do not tell apart the two bins that hold most rows: estimates for those after them are off.
    """
    first, second = (set(np.flatnonzero(side).tolist()) for side in SIDES[n])
    return box_query(GRID, [{0, *first}, {0, 5, 11, *second} | {40} if n < 50 else {0, 5, 11, *second} - {40}])


OVERLAPPING = [overlapping(n) for n in range(len(SIDES))]
BANDS = [box_query(GRID, [range(32), [0, 5, 11]]), box_query(GRID, [range(32, 64), range(12, 40)])]


GRID_COUNT = 150


def earning(books: MemoryBooks, noise: Noise, n: int) -> list[Answer]:
    asked = BANDS if n == 60 else [OVERLAPPING[n - n % 9 // 8]]
    return auto.answer(asked, 0, 0, GRID_VIEW, books, noise)


def audited(shelf: type[MemoryBooks]) -> list[str]:
    return audit(earning, shelf, GRID_COUNT, GRID_TABLES, GRID_SCALE)


def test_a_session_whose_histogram_earns_epochs_loses_no_more_than_it_pays() -> None:
    assert audited(Whole) == []


SESSIONS = 12


@pytest.mark.chance(fix_chance.union(*(fix_chance.sessions(lacking, 150, SESSIONS) for lacking in (18, 6, 0, 0, 0, 0))))
def test_that_session_passes_and_fails() -> None:
    """After question 50 estimates are off by 0.75 alpha ñ. What is met is collected over at most twelve sessions.

    Of 150 sessions 18 had no r1 and 6 no r2, the rest of what is asserted every one had.
    """
    paths: set[str] = set()
    paid: set[str] = set()
    for _ in range(SESSIONS):
        run = Run(GRID_TABLES, earning, Whole, None, GRID_COUNT, GRID_SCALE)
        paths |= {path for answers in run.seen for _, path in answers}
        paid |= set(run.books.paid)
        if {"r1", "r2", "r3", "exact"} <= paths and {"epoch", "hard"} <= paid:
            return
    pytest.fail(f"twelve sessions met only {sorted(paths)} and paid only for {sorted(paid)}")


def test_the_session_that_refines_does() -> None:
    """What is drawn depends on no noise: 27 always."""
    books = Run(TABLES, refining, Renyi, None, 120).books
    assert sum(mechanism == refine.REFINED for _, _, mechanism in books.exacts) > 20


def test_a_synopsis_loses_what_it_pays() -> None:
    draw = Draw("laplace", Decimal("0.25"))

    def ask(books: MemoryBooks, noise: Noise, n: int) -> list[Answer]:
        books.pay([Payment(n, n, draw.charge(), "synopsis")])
        made = synopsis.release(books.counts[n], draw, noise)
        return [Answer(made.value(query), "synopsis") for query in BOXES]

    assert audit(ask, count=PARTS) == []


class Revived(Whole):
    """A FAIL that is rolled back: the used threshold lives (E-22)."""

    def keep_sparse_vector(self, key: str, state: SparseVector) -> None:
        if state.active:
            super().keep_sparse_vector(key, state)


class Unpaid(Whole):
    """An epoch that is opened although it was not paid (E-5)."""

    def pay(self, payments: Sequence[Payment]) -> None:
        super().pay([payment for payment in payments if payment.why != "epoch"])


class Shared(MemoryBooks):
    """One sparse vector for all runs: an epoch is tested by others than paid for it (E-1)."""

    def sparse_vector(self, key: str) -> SparseVector:
        return super().sparse_vector("all")

    def keep_sparse_vector(self, key: str, state: SparseVector) -> None:
        super().keep_sparse_vector("all", state)


class Exact(Whole):
    """The exact cache keeps the true value (E-14)."""

    def exact(self, query: Query, node: Node, mechanism: str) -> Any:
        kept = super().exact(query, node, mechanism)
        return kept and kept._replace(value=self.truth(query, node))


class Peeking(Whole):
    """Readiness that depends on the data."""

    def node(self, node: Node) -> Any:
        found = super().node(node)
        if found is not None and self.truth(BOXES[0], node) % 2:
            found.counts[:] = 10**6
        return found


class Overdrawn(Renyi):
    """What is lacking is paid, but the whole is drawn: the stored answer is not there when it is to be joined."""

    def pay(self, payments: Sequence[Payment]) -> None:
        super().pay(payments)
        self.lost = True

    def exact(self, query: Query, node: Node, mechanism: str) -> Any:
        return None if getattr(self, "lost", False) else super().exact(query, node, mechanism)

    def scale(self, first: int, last: int) -> int:  # what a request asks first
        self.lost = False
        return super().scale(first, last)


class Shown(Whole):
    """The threshold as it is, without its noise."""

    def keep_sparse_vector(self, key: str, state: SparseVector) -> None:
        super().keep_sparse_vector(key, state._replace(threshold=state.threshold and 8_000))


# Of so many sessions of each so many did not show the breach: no test failed, or no epoch was used.
MISSED = {Revived: (4, 150), Unpaid: (0, 150), Shown: (15, 150)}


@pytest.mark.chance(lambda shelf: fix_chance.sessions(*MISSED[shelf], SESSIONS))
@pytest.mark.parametrize(
    ("shelf", "caught"),
    [
        (Revived, "an epoch is used after its FAIL"),
        (Unpaid, "the losses are above what was paid"),
        (Shown, "a test without its epoch's threshold"),
    ],
)
def test_a_rule_broken_where_epochs_are_earned_is_caught(shelf: type[MemoryBooks], caught: str) -> None:
    """As soon as a session fails a test."""
    assert any(caught in audited(shelf) for _ in range(SESSIONS))


@pytest.mark.chance(fix_chance.sessions(0, 150, 7))
@pytest.mark.parametrize(
    ("ask", "shelf", "caught"),
    [
        (vanilla, Revived, "an epoch is used after its FAIL"),
        (same, Unpaid, "the losses are above what was paid"),
        (windows, Shared, "a test without its epoch's threshold"),
        (whole, Exact, "something but the exact values depends on the row"),
        (whole, Peeking, "something but the exact values depends on the row"),
        (refining_one, Overdrawn, "the losses are above what was paid"),
    ],
)
def test_a_broken_rule_is_caught(ask: Ask, shelf: type[MemoryBooks], caught: str) -> None:
    """Missed only by a session without a FAIL (30 to 40 of 120 questions fail) or a repeat: none of 150 of each.

    Without its epochs `Unpaid` pays for the answers alone, which lose all of that: any loss of an epoch is too much.
    """
    assert any(caught in audit(ask, shelf) for _ in range(7))


def test_production_noise_has_the_two_calls() -> None:
    noisy = current().sparse_start(100, sensitivity=1, epsilon=1000, label="far")
    assert noisy == 100
    assert current().sparse_test(90, noisy, sensitivity=1, epsilon=1000, label="far")
    assert not current().sparse_test(110, noisy, sensitivity=1, epsilon=1000, label="far")
