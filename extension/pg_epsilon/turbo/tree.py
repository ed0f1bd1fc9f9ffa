"""PMW-Bypass over a tree of partitions (turbo.md §6.11, Alg. 2 made executable), with a sparse vector for each run.

A window is covered by nodes I. A run J of them whose histograms are ready is answered by the histograms and tested by
the sparse vector of exactly J; each other node (L) by noise, or by its stored noisy answer. Costs go to the leaves of
the nodes that they read: nodes share no partition, so they compose in parallel. Each half has beta/2, and the sum of
two answers that are alpha-accurate for their rows is alpha-accurate for all rows.

A batch is of queries that share no bin: a unit is in one partition and one bin, so each leaf pays the dearest noise
among the keys, not their sum; an epoch serves all keys with the same J until its first FAIL, whose noise they share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import groupby

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.noise import NoiseSource
from pg_epsilon.turbo import refine, sparse_vector
from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.books import Books, Payment
from pg_epsilon.turbo.calibration import Draw, epoch_charge
from pg_epsilon.turbo.histogram import Change
from pg_epsilon.turbo.nodes import histogram_of
from pg_epsilon.turbo.sparse_vector import SparseVector
from pg_epsilon.turbo.split import Node, dyadic, flat, forest, run_key
from pg_epsilon.turbo.steps import Learner, checked, exhausted, stored, trivial
from pg_epsilon.turbo.view import Answer, View


def cover(view: View, first: int, last: int) -> tuple[Node, ...]:
    """The nodes that answer a window, by the view's planner. DP005: longer than the forest allows."""
    if view.planner == "flat":
        return flat(first, last)
    if view.longest is None:
        return dyadic(first, last)
    nodes = forest(first, last, view.longest)
    if nodes is None:
        raise DPError(
            OUT_OF_RANGE,
            f"a window of this view spans at most {view.longest} partitions",
            "Ask for a shorter window, or without dp.alpha.",
        )
    return nodes


@dataclass
class Plan:
    """How one query is answered: run J with its epoch and hard price, the nodes drawn anew, the stored answers."""

    query: Query
    run: tuple[Node, ...]
    fresh: tuple[Node, ...]
    draw: Draw | None
    stored: Fraction
    run_scale: int

    @property
    def key(self) -> str:
        return run_key(self.run)


def spans(nodes: Sequence[Node], charge: Charge, why: str) -> list[Payment]:
    """One charge on every leaf of these nodes, which are in order; neighbours are one payment."""
    found: list[Payment] = []
    for node in nodes:
        if found and found[-1].last == node.first - 1:
            found[-1] = found[-1]._replace(last=node.last)
        else:
            found.append(Payment(node.first, node.last, charge, why))
    return found


def merge(amounts: dict[int, Draw], why: str) -> list[Payment]:
    """Payments from a draw per leaf: neighbouring leaves that pay the same are one payment."""
    found: list[Payment] = []
    for draw, group in groupby(sorted(amounts), key=lambda leaf: amounts[leaf]):
        for leaf in group:
            if found and found[-1].last == leaf - 1 and found[-1].charge == draw.charge():
                found[-1] = found[-1]._replace(last=leaf)
            else:
                found.append(Payment(leaf, leaf, draw.charge(), why))
    return found


def dearest(draws: Iterable[tuple[Node, Draw]]) -> dict[int, Draw]:
    """Per leaf the dearest of the draws whose nodes contain it: of one mechanism, for keys without a common bin."""
    amounts: dict[int, Draw] = {}
    for node, draw in draws:
        for leaf in range(node.first, node.last + 1):
            if leaf not in amounts or amounts[leaf].amount < draw.amount:
                amounts[leaf] = draw
    return amounts


def answer(
    queries: Sequence[Query], first: int, last: int, view: View, books: Books, noise: NoiseSource
) -> list[Answer]:
    """One answer per query over the partitions first … last (sealed), each within alpha ñ of the truth w.p. 1 - beta.

    As `bypass.answer`: one query, or a batch that shares no bin; DP001 with nothing read or changed if a leaf cannot
    pay the worst case; the transaction commits if this returns. ñ is that of the window.
    """
    return _Request(queries, first, last, view, books, noise).answers()


class _Request:
    def __init__(
        self, queries: Sequence[Query], first: int, last: int, view: View, books: Books, noise: NoiseSource
    ) -> None:
        self.queries, self.view, self.books, self.noise = queries, view, books, noise
        self.unit = checked(queries, view)
        self.scale = books.scale(first, last)
        scales = {node: books.scale(node.first, node.last) for node in cover(view, first, last)}
        self.scales = {node: scale for node, scale in scales.items() if scale > 0}
        self.learners: dict[Node, Learner] = {}
        self.fail_is_out = False

    def answers(self) -> list[Answer]:
        found = {i: trivial() for i, q in enumerate(self.queries) if q.empty or not self.scales}
        plans = {i: self._plan(query) for i, query in enumerate(self.queries) if i not in found}
        runs = {plan.key: plan for plan in plans.values() if plan.run}
        fresh = self._fresh(plans.values())
        worst = [payment for plan in runs.values() for payment in self._worst(plan)]
        if not self.books.can_pay([*fresh, *worst]):
            raise exhausted()
        self.books.pay(fresh)
        parts = {i: plan.stored for i, plan in plans.items()}
        paths = {i: self._stored_path(plan) for i, plan in plans.items()}
        for i, drawn in self._nodes(plans).items():
            parts[i] += drawn
            paths[i].add("r3")
        failed: dict[int, Exception] = {}
        for key in runs:
            members = {i: plan for i, plan in plans.items() if plan.key == key}
            for i, (value, path, error) in self._surely(key, members).items():
                paths[i].add(path)
                if value is None:
                    failed[i] = error or exhausted()
                else:
                    parts[i] += value
        for i in plans:
            found[i] = Answer(None, "failed", failed[i]) if i in failed else Answer(round(parts[i]), _path(paths[i]))
        return [found[i] for i in range(len(self.queries))]

    def _stored_path(self, plan: Plan) -> set[str]:
        return {"exact"} if len(plan.fresh) + len(plan.run) < len(self.scales) else set()

    def _learner(self, node: Node) -> Learner:
        if node not in self.learners:
            histogram = histogram_of(node, self.view, self.books)
            self.learners[node] = Learner(node, histogram, self.scales[node], self.view, self.books)
        return self.learners[node]

    def _plan(self, query: Query) -> Plan:
        """Lines 2 to 7; public facts and released values only."""
        nodes, prices = tuple(self.scales), self.view.prices
        cheapest = prices.node(len(nodes), self.scale)
        ready = [self._learner(node).ready(query) for node in nodes]
        trusted = [
            is_ready and stored(self.books, query, node, cheapest) is None
            for node, is_ready in zip(nodes, ready, strict=True)
        ]
        plan = self._plan_with(query, nodes, trusted)
        if plan.draw is not None:
            # Note 1: a ready node whose stored answer is not good enough for L is better in J than paid again.
            again = [t or (r and node in plan.fresh) for node, r, t in zip(nodes, ready, trusted, strict=True)]
            if again != trusted:
                plan = self._plan_with(query, nodes, again)
        return plan

    def _plan_with(self, query: Query, nodes: tuple[Node, ...], trusted: Sequence[bool]) -> Plan:
        run = self._longest(nodes, trusted)
        rest = [node for node in nodes if node not in run]
        run_scale = sum(self.scales[node] for node in run)
        draw = self.view.prices.node(len(rest), self.scale - run_scale) if rest else None
        kept = {node: stored(self.books, query, node, draw) for node in rest} if draw else {}
        fresh = tuple(node for node, value in kept.items() if value is None)
        return Plan(
            query, run, fresh, draw, sum((value or Fraction(0) for value in kept.values()), Fraction(0)), run_scale
        )

    def _longest(self, nodes: tuple[Node, ...], trusted: Sequence[bool]) -> tuple[Node, ...]:
        """The run of consecutive trusted nodes with the most rows; of equal ones the leftmost (E-8)."""
        runs = [
            tuple(node for node, _ in group)
            for is_trusted, group in groupby(zip(nodes, trusted, strict=True), key=lambda pair: pair[1])
            if is_trusted
        ]
        return max(runs, key=lambda run: sum(self.scales[node] for node in run), default=())

    def _fresh(self, plans: Iterable[Plan]) -> list[Payment]:
        """Each node pays what it lacks, each leaf the most that a key lacks of it (composition.md §7.2)."""
        draws = (
            (node, refine.lacking(self.books, plan.query, node, plan.draw))
            for plan in plans
            if plan.draw
            for node in plan.fresh
        )
        return merge(dearest(draws), "node")

    def _epsilon(self, plan: Plan) -> Decimal:
        return self.view.prices.run_epoch(plan.run_scale)

    def _opening(self, plan: Plan) -> list[Payment]:
        return spans(plan.run, epoch_charge(self._epsilon(plan)), "epoch")

    def _failing(self, plan: Plan) -> list[Payment]:
        return spans(plan.run, self.view.prices.run_hard(plan.run_scale).charge(), "hard")

    def _worst(self, plan: Plan) -> list[Payment]:
        active = self.books.sparse_vector(plan.key).active
        return self._failing(plan) if active else [*self._opening(plan), *self._failing(plan)]

    def _surely(self, key: str, members: dict[int, Plan]) -> dict[int, Answer]:
        """`_run`; once a FAIL is out, no error may roll it back, of whichever run (E-22)."""
        try:
            return self._run(key, members)
        except Exception as error:
            if not self.fail_is_out:
                raise
            return {i: Answer(None, "failed", error) for i in members}

    def _run(self, key: str, members: dict[int, Plan]) -> dict[int, Answer]:
        """Lines 10 to 15, for the keys of a batch whose run is this one."""
        some = next(iter(members.values()))
        state = self.books.sparse_vector(key)
        if not state.active:
            self.books.pay(self._opening(some))
            threshold = self.view.prices.threshold(some.run_scale, self.view.unit)
            state = sparse_vector.opened(
                state, key, threshold, sensitivity=self.view.unit, epsilon=self._epsilon(some), noise=self.noise
            )
            self.books.keep_sparse_vector(key, state)
        found: dict[int, Answer] = {}
        order = list(members)
        for at, i in enumerate(order):
            plan = members[i]
            estimate = self._estimate(plan)
            if self._passes(key, plan, estimate, state):
                found[i] = Answer(estimate, "r1")
                continue
            self.books.keep_sparse_vector(key, state.closed())
            self.fail_is_out, rest = True, order[at:]
            noisy = self._after_fail([members[j] for j in rest], estimate)
            found.update({j: Answer(value, "r2") for j, value in zip(rest, noisy, strict=True)})
            break
        return found

    def _estimate(self, plan: Plan) -> int:
        return round(sum(self._learner(node).estimate(plan.query) for node in plan.run))

    def _truth(self, plan: Plan) -> int:
        return sum(self.books.truth(plan.query, node) for node in plan.run)

    def _passes(self, key: str, plan: Plan, estimate: int, state: SparseVector) -> bool:
        error = abs(self._truth(plan) - estimate) * (self.view.unit // self.unit)
        return sparse_vector.passes(state, key, error, sensitivity=self.view.unit, noise=self.noise)

    def _after_fail(self, plans: Sequence[Plan], estimate: int) -> list[int]:
        self.books.pay(self._failing(plans[0]))
        hard = self.view.prices.run_hard(plans[0].run_scale)
        noisy = hard.release([self._truth(plan) for plan in plans], self.unit, self.noise, "turbo r2")
        for plan, value in zip(plans, noisy, strict=True):
            guess = estimate if plan is plans[0] else self._estimate(plan)
            for node in plan.run:
                learner = self._learner(node)
                if plan is plans[0]:
                    learner.penalize(plan.query)
                    learner.internal(plan.query, value - guess)
                else:
                    learner.beyond(plan.query, value - guess, plan.run_scale, Change.HARD)
        return noisy

    def _nodes(self, plans: dict[int, Plan]) -> dict[int, Fraction]:
        """Line 16, done before the runs are tested: noise on the nodes that are not in one."""
        found: dict[int, Fraction] = {}
        for i, plan in plans.items():
            if plan.draw is None or not plan.fresh:
                continue
            found[i] = Fraction(0)
            for node in plan.fresh:
                found[i] += self._learner(node).draw(plan.query, plan.draw, Change.BYPASS, self.noise)
        return found


def _path(parts: set[str]) -> str:
    """The path of an answer by those of its parts."""
    return parts.pop() if len(parts) == 1 else "mixed"
