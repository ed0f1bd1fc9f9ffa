"""Histogram + sparse vector inside the planner `auto`: what noise has released trains, what agrees earns an epoch.

For a view without partitions. Every noisy answer is released, so a histogram learns from it for free; and before it
does, what it would have said is compared with that answer. Where the two agree, an epoch of the sparse vector would
have saved the rent. An epoch is opened when that evidence has earned it (`Evidence`). Then questions that noise would
be paid for are tested first: PASS is the histogram's estimate, free; FAIL ends the epoch and is answered by noise.

What it can cost. A second load counts what renting alone would have cost, R. When an epoch is opened, what was paid is
at most R and one epoch, or R (1 + 1/_RISKED) if that is more; and since the one before, questions that agreed have been
worth _EARNED epochs, so that all epochs together never cost more than R / _EARNED. (Not less: what an epoch has saved
about some bins, later questions about others may have to pay, which the second load has room for.) Epochs are rent,
which stays within the price of a synopsis (auto.py). Where a synopsis costs only a few epochs, and before rent has
reached a part of one, there is no state of this, and no work.

Privacy: an epoch is paid before it is opened, and what follows a FAIL can be paid before anything is tested; both are
durable whatever goes wrong later (E-5, E-22). Whether to test is decided by prices and released values alone: noisy
answers, and the bits PASS and FAIL. A PASS is within alpha ñ except with probability beta/2 (calibration.py), what
follows a FAIL except with beta/2 more: grade `oblivious`. Rényi datasets rent Gaussian noise, of which an epoch costs
some 600 answers: not there.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from pg_epsilon.noise import NoiseSource
from pg_epsilon.turbo import sparse_vector
from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.books import AutoBooks, Payment, Released
from pg_epsilon.turbo.calibration import epoch_charge
from pg_epsilon.turbo.histogram import Change, Event, Heuristic, Histogram
from pg_epsilon.turbo.load import PARTS, Load
from pg_epsilon.turbo.sparse_vector import SparseVector
from pg_epsilon.turbo.split import WHOLE, Node, run_key
from pg_epsilon.turbo.view import View

KEY = run_key((WHOLE,))
PASSED = "histogram"
"""The mechanism under which an estimate that passed is stored: asked again, it is a hit."""
EVIDENCE, RECALL, LOAD = "trust", "recall", "load"
ALONE = Node(1, 0, 0)
"""Where the load of renting alone is noted, beside the one of WHOLE."""

LARGE = 4  # a synopsis that costs less epochs than this is always waited for
_STARTED = 3  # rent of an epoch's price / _STARTED, and the histogram begins to learn
_EARNED, _MARGIN = 2, 1.25
_AGREES = 0.75  # of alpha ñ: noise alone is off by more in 1 of 180 answers (beta = 0.001)
_FORGETS = 0.5  # what a disagreement leaves of the evidence before it
_GAIN, _SMALLEST_STEP, _LARGEST_STEP = 0.7, 0.01, 1.0
_SPREAD, _MOST, _REMEMBERS = 0.05, 4.0, 0.95
_RECALLED, _KEPT, _KEPT_BYTES = 3, 128, 1024
_STORED_BYTES = 1 << 16  # an answer that cost nothing is stored with its question only if that is small
_RISKED = 8  # epochs may have lost one epoch's price, or this part of what renting alone would have cost
_LARGEST_EPSILON = 1000  # noise.py draws no more; only a table of very few rows would need it
_STATE = struct.Struct("<dddQ")


@dataclass
class Evidence:
    """gained: what questions that agreed would be rented for (units of the load); failed: how many did not agree. Both
    forget at each disagreement. since: gained since the last epoch was opened, whole. spread: the mean square of how
    far the histogram was off of late, in alpha ñ; the noise is part of it."""

    gained: float = 0.0
    failed: float = 0.0
    spread: float = _SPREAD
    since: int = 0

    def note(self, rent: int, agreed: bool) -> None:
        """A question that is worth `rent`."""
        if agreed:
            self.gained, self.since = self.gained + rent, self.since + rent
        else:
            self.gained, self.failed = self.gained * _FORGETS, (self.failed + 1) * _FORGETS

    def off(self, far: float) -> None:
        """The histogram was that far off a noisy answer, in alpha ñ."""
        self.spread = _REMEMBERS * self.spread + (1 - _REMEMBERS) * min(far * far, _MOST)

    def gain(self, beta: float) -> float:
        """How far to go towards a noisy answer: what of the spread is not the answers' noise, as a linear filter."""
        return _GAIN * max(0.0, 1 - 2 / math.log(beta) ** 2 / self.spread)

    def earned(self, epoch: int) -> bool:
        """Whether epochs of this price would, by what was seen, save more than they cost: gained / failed is the mean
        of what agreed between two disagreements."""
        return self.since >= _EARNED * epoch and self.gained >= _MARGIN * self.failed * epoch

    def to_bytes(self) -> bytes:
        return _STATE.pack(self.gained, self.failed, self.spread, self.since)

    @staticmethod
    def from_bytes(data: bytes | None) -> Evidence:
        return Evidence(*_STATE.unpack(data)) if data else Evidence()


def pays(view: View, scale: int, price: Decimal | None) -> bool:
    """Whether epochs can ever pay beside a synopsis of this price (None: none is to be had)."""
    if scale == 0 or view.prices.epoch(scale) > _LARGEST_EPSILON:
        return False
    return price is None or price >= LARGE * _epoch_price(view, scale)


def _epoch_price(view: View, scale: int) -> Decimal:
    return 3 * view.prices.epoch(scale)


def step(estimate: float, noisy: int, most: int, alpha: float, gain: float) -> float:
    """The signed step of an update: a part of the way in log odds. most: the largest value that there is."""
    far = gain * (_log_odds(noisy / most, alpha) - _log_odds(estimate / most, alpha))
    return max(-_LARGEST_STEP, min(_LARGEST_STEP, far)) if abs(far) >= _SMALLEST_STEP else 0.0


def _log_odds(share: float, alpha: float) -> float:
    inside = min(max(share, alpha / 8), 1 - alpha / 8)
    return math.log(inside / (1 - inside))


class Trust:
    """One request's dealings with the histogram. load: of the view's partition, before this request takes from it."""

    def __init__(self, view: View, books: AutoBooks, noise: NoiseSource, scale: int, unit: Decimal, load: Load) -> None:
        self._view, self._books, self._noise, self._scale, self._load = view, books, noise, scale, load
        self._unit, self._direct = unit, view.prices.direct(scale)
        self._alpha = float(view.prices.alpha)
        self.epoch = int((_epoch_price(view, scale) / unit).to_integral_value(rounding=ROUND_CEILING))
        self._histogram: Histogram | None = None
        self._evidence, self._state = Evidence(), SparseVector()
        self._alone: Load | None = None
        if not self._started:
            return
        self._histogram = books.node(WHOLE)
        self._evidence = Evidence.from_bytes(books.note(EVIDENCE, WHOLE))
        alone = books.note(LOAD, ALONE)
        self._alone = Load.from_bytes(alone, unit) if alone else None
        self._state = books.sparse_vector(KEY)

    @property
    def _started(self) -> bool:
        return self._load.rent * _STARTED >= self.epoch

    # --- deciding ----------------------------------------------------------------------------------------------------

    def tests(self, rise: int, price: Decimal | None) -> bool:
        """Whether to test before renting. rise: what renting these questions would cost now; price: of a synopsis."""
        if 2 * rise < PARTS or self._histogram is None:
            return False
        if self._state.active:
            return True
        if self._books.begun:  # what its first aggregate has earned, dp_plan could not know of
            return False
        rent = self._load.rent
        alone = rent if self._alone is None else self._alone.rent
        within = price is None or (rent + self.epoch + rise) * self._unit <= price
        lost = rent - alone
        return within and (lost <= 0 or _RISKED * (lost + self.epoch) <= alone) and self._evidence.earned(self.epoch)

    def opening(self) -> list[Payment]:
        """What has to be paid before testing."""
        if self._state.active:
            return []
        return [Payment(0, 0, epoch_charge(self._view.prices.epoch(self._scale)), "epoch")]

    # --- testing -----------------------------------------------------------------------------------------------------

    def passing(self, queries: Sequence[Query]) -> list[int]:
        """The estimates of the first of these queries, up to the one that fails. The opening is paid here; what follows
        a FAIL must be payable. The closing of the epoch is kept before this returns."""
        found: list[int] = []
        self._open()
        for query in queries:
            estimate = round(self._estimate(query))
            error = abs(self._books.truth(query, WHOLE) - estimate) * (self._view.unit // query.unit)
            if not sparse_vector.passes(self._state, KEY, error, sensitivity=self._view.unit, noise=self._noise):
                self._state = self._state.closed()
                self._books.keep_sparse_vector(KEY, self._state)
                break
            found.append(estimate)
        return found

    def _open(self) -> None:
        if self._state.active:
            return
        self._books.pay(self.opening())
        if self._alone is None:
            self._alone = self._load.copy()
        self._load.rent += self.epoch
        self._books.keep_note(LOAD, WHOLE, self._load.to_bytes())
        self._evidence.since = 0
        view, prices = self._view, self._view.prices
        self._state = sparse_vector.opened(
            self._state,
            KEY,
            prices.threshold(self._scale, view.unit),
            sensitivity=view.unit,
            epsilon=prices.epoch(self._scale),
            noise=self._noise,
        )
        self._books.keep_sparse_vector(KEY, self._state)

    def passed(self, queries: Sequence[Query], estimates: Sequence[int]) -> None:
        """Note what was answered by the histogram: stored, and what it saved."""
        for query, value in zip(queries, estimates, strict=True):
            if len(query.to_bytes()) <= _STORED_BYTES:
                self._books.keep_exact(query, WHOLE, Released(value, PASSED, self._direct.amount))
        rent = self._rent_alone(queries, 0)
        self._evidence.note(rent, agreed=True)
        self._keep()
        self._load.to_bytes()  # known by what is stored of it: it is decoded once

    # --- learning ----------------------------------------------------------------------------------------------------

    def rented(self, queries: Sequence[Query], noisy: Sequence[int], rise: int, *, failed: bool = False) -> None:
        """Learn from answers by noise that cost `rise`. failed: the first of them did not pass."""
        rent = self._rent_alone(queries, rise)
        if not self._started:
            return
        self._histogram = self._histogram or self._books.node(WHOLE)  # an older one: refreshed data starts from it
        if self._histogram is None:
            self._histogram = Histogram.uniform(self._view.domain.bins, Heuristic())
            self._books.make_node(WHOLE, self._histogram)
        for i, (query, value) in enumerate(zip(queries, noisy, strict=True)):
            off = abs(value - self._estimate(query)) / (self._alpha * self._scale * query.unit)
            agreed = off <= _AGREES and not (failed and i == 0)
            self._evidence.off(off)
            if agreed or rise:
                self._evidence.note(rent // len(queries), agreed)
            self._learn(query, value)
        self._recall(queries, noisy)
        self._keep()

    def _learn(self, query: Query, noisy: int) -> None:
        if self._histogram is None:
            return
        gain = self._evidence.gain(float(self._view.prices.beta))
        how_far = step(self._estimate(query), noisy, self._scale * query.unit, self._alpha, gain)
        if how_far:
            event = Event(Change.BYPASS, query.id, how_far)
            self._histogram.apply(event, query, Heuristic())
            self._books.log(WHOLE, event, query)

    def _recall(self, queries: Sequence[Query], noisy: Sequence[int]) -> None:
        """Learn from a few older answers again: later updates have moved what they taught."""
        data = self._books.note(RECALL, WHOLE)
        at, kept = json.loads(data) if data else (0, [])
        for _ in range(min(_RECALLED, len(kept))):
            head, value = kept[at % len(kept)]
            self._learn(Query.from_bytes(bytes.fromhex(head)), value)
            at += 1
        for query, value in zip(queries, noisy, strict=True):
            head = query.to_bytes()
            if len(head) <= _KEPT_BYTES:
                kept = [*kept, (head.hex(), value)][-_KEPT:]
        self._books.keep_note(RECALL, WHOLE, json.dumps((at % _KEPT, kept)).encode())

    def _estimate(self, query: Query) -> float:
        if self._histogram is None:
            raise ValueError("a histogram that was never made")
        return self._histogram.estimate(query, self._scale)

    def _rent_alone(self, queries: Sequence[Query], rise: int) -> int:
        """What these questions add to the rent of renting alone: until the first epoch, what was paid."""
        if self._alone is None:
            return rise
        before = self._alone.rent
        for query in queries:
            self._alone.take(query, self._direct)
        return self._alone.rent - before

    def _keep(self) -> None:
        self._books.keep_note(EVIDENCE, WHOLE, self._evidence.to_bytes())
        if self._alone is not None:
            self._books.keep_note(LOAD, ALONE, self._alone.to_bytes())


def forget(books: AutoBooks) -> None:
    """A synopsis was bought: rent, and what it would have been, start anew."""
    if books.note(LOAD, ALONE):
        books.keep_note(LOAD, ALONE, b"")
    if books.note(EVIDENCE, WHOLE):
        books.keep_note(EVIDENCE, WHOLE, Evidence().to_bytes())
