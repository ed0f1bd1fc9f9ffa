"""The planner `auto`: per view and query the cheapest path that still meets (alpha, beta) (composition.md §7.5).

In this order: from public facts (no bin); from what was released (derive.py); from a synopsis, bought when
that is worth it; by noise, of whose price only that part is paid that the bins asked about have used up (load.py); and
on a large grid by a histogram that this noise has trained, tested by a sparse vector, once that has earned its epoch.

*Rent or buy*, on every partition's account: noise is rented as long as the rent, with the next request's, stays within
the price C of the cheapest synopsis that answers the query (designs.py); then the synopsis is bought. So at most 2
min(rent, C) + one charge is spent, against renting for ever and against buying at first. Epochs are rent (trust.py says
what they can add to what renting alone would cost). A `workload` or a `forecast` decides at once (rent.py): if all
declared queries together would be rented for more than C, the synopsis is bought when the first one comes; with a
forecast, as soon as so many like those asked cost more than 2 C however well they share, or would, at the rate so far,
be rented for more than C. And a synopsis is bought while it can be, if the rent would otherwise use up what it costs.

Every decision is made by public facts, prices and whether accounts can pay: neither data nor even noise decides, but
for an epoch, which released values earn. Everything is paid before anything is read; a refusal (DP001) changes nothing.
Only a FAIL of the sparse vector has to survive an error (E-22): what else is rolled back has told nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from typing import NamedTuple

from pg_epsilon.noise import NoiseSource
from pg_epsilon.turbo import trust as trusting
from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.books import AutoBooks, Payment, Released
from pg_epsilon.turbo.calibration import Draw
from pg_epsilon.turbo.derive import Cover, Table, cover, tables_from_bytes, tables_to_bytes
from pg_epsilon.turbo.designs import WORKLOAD, Design, Outlook, design_for
from pg_epsilon.turbo.load import PARTS, Load, unit_of
from pg_epsilon.turbo.rent import Account, Tally, declared_rent, worth_buying
from pg_epsilon.turbo.split import WHOLE, Node, stretches
from pg_epsilon.turbo.steps import checked, exhausted, trivial
from pg_epsilon.turbo.tree import merge
from pg_epsilon.turbo.trust import PASSED, Trust
from pg_epsilon.turbo.view import Answer, View

SYNOPSIS, LOAD, ASKED = "synopsis", "load", "asked"
UNKNOWN = Outlook()


def answer(
    queries: Sequence[Query],
    first: int,
    last: int,
    view: View,
    books: AutoBooks,
    noise: NoiseSource,
    outlook: Outlook = UNKNOWN,
) -> list[Answer]:
    """One answer per query over the partitions first … last, each within alpha ñ of the truth w.p. 1 - beta.

    queries: one, or a batch that shares no bin (checked), which costs one noise together. A view that is not
    partitioned has the partition 0. Privacy: what was paid through `books`. DP001, nothing read or changed, if it
    cannot be paid. A value is None only if something goes wrong after a FAIL: the transaction commits all the same.
    Paths: trivial, exact (stored answers), synopsis, r3 (noise), r1 (histogram, PASS), r2 (noise after a FAIL), mixed.
    A Rényi dataset's noise is Gaussian.
    """
    return _Request(queries, first, last, view, books, noise, outlook).answers()


class _Run(NamedTuple):
    """A fresh draw for one query on neighbouring partitions."""

    asked: int
    node: Node
    draw: Draw

    def on(self, part: int) -> bool:
        return self.node.first <= part <= self.node.last


class _Plan(NamedTuple):
    """The runs, and the level to which they raise each partition's load. bought: the synopses that come first. why:
    "bypass", or "hard" after a FAIL."""

    bought: dict[int, Design]
    runs: list[_Run]
    levels: dict[int, int]
    why: str = "bypass"


class _Request:
    def __init__(
        self,
        queries: Sequence[Query],
        first: int,
        last: int,
        view: View,
        books: AutoBooks,
        noise: NoiseSource,
        outlook: Outlook,
    ) -> None:
        self.queries, self.books, self.noise, self.outlook = queries, books, noise, outlook
        self.unit = checked(queries, view)
        self.prices = replace(view.prices, gaussian=not books.pure)
        self.view = replace(view, prices=self.prices)
        self.mechanism = "laplace" if books.pure else "gaussian"
        self.beta = self.prices.beta
        self.parts = range(first, last + 1)
        self.scales = {part: books.scale(part, part) for part in self.parts}
        self.scale = books.scale(first, last)
        self.covers: dict[int, Cover] = {}
        self.rented: dict[int, list[tuple[Node, Decimal]]] = {}
        self.loads: dict[int, Load] = {}
        self.units: dict[int, Decimal] = {}
        self.failed: dict[int, Answer] = {}
        self.tally: Tally | None = None

    def answers(self) -> list[Answer]:
        found = {i: trivial() for i, q in enumerate(self.queries) if q.empty or self.scale == 0}
        self.covers = {i: self._cover(i) for i in range(len(self.queries)) if i not in found}
        parts = {i: one.value for i, one in self.covers.items()}
        paths = {i: one.paths() for i, one in self.covers.items()}
        if any(one.fresh for one in self.covers.values()):
            for i, path, value in self._bought_or_rented(self._affordable()):
                parts[i] += value
                paths[i].add(path)
        for i, value in parts.items():
            found[i] = Answer(value, paths[i].pop() if len(paths[i]) == 1 else "mixed")
        return [self.failed.get(i) or found[i] for i in range(len(self.queries))]

    def _bought_or_rented(self, plan: _Plan) -> list[tuple[int, str, int]]:
        """What a plan gives: (query, path, value). Rent may be saved by a histogram that passes (trust.py)."""
        trust, price = self._trust(plan)
        if trust is not None and trust.tests(self._rise(plan, 0), price):
            hard = self._plan({}, "hard")
            worst = [*trust.opening(), *self._payments(hard)]
            if self._spares(plan, worst):
                if self.books.reserve(worst):
                    self._take(hard)
                    return []
                return self._tested(trust, [run.asked for run in hard.runs])
        rise = 0 if trust is None else self._rise(plan, 0)
        self._pay(plan)
        found = [*self._released(plan), *self._drawn(plan)]
        if trust is not None:
            trust.rented([self.queries[i] for i, _, _ in found], [value for _, _, value in found], rise)
        return found

    def _spares(self, plan: _Plan, worst: list[Payment]) -> bool:
        """Whether this can be paid, and the synopsis afterwards if it could be before."""
        buying = [payment for part, design in self._designs(plan) for payment in self._buying(part, design)]
        return self.books.can_pay([*worst, *buying]) or (self.books.can_pay(worst) and not self.books.can_pay(buying))

    def _trust(self, plan: _Plan) -> tuple[Trust | None, Decimal | None]:
        """The view's histogram, where one may pay: beside noise, on one partition; and the price of its synopsis."""
        if self.outlook.partitioned or plan.bought or not plan.runs or not self.books.pure:
            return None, None
        if any(self.queries[run.asked].full for run in plan.runs):
            return None, None
        prices = (design.price(self.prices, self.scale) for _, design in self._designs(plan))
        price = min((one for one in prices if one is not None), default=None)
        if not trusting.pays(self.view, self.scale, price):
            return None, price
        return Trust(self.view, self.books, self.noise, self.scale, self._unit(0), self._load(0)), price

    def _tested(self, trust: Trust, asked: list[int]) -> list[tuple[int, str, int]]:
        """The histogram's estimates, while they pass. Once a FAIL is out, no error may roll it back (E-22)."""
        estimates = trust.passing([self.queries[i] for i in asked])
        passed, rest = asked[: len(estimates)], asked[len(estimates) :]
        found = [(i, "r1", value) for i, value in zip(passed, estimates, strict=True)]
        try:
            if passed:
                trust.passed([self.queries[i] for i in passed], estimates)
                shares = sum((self.queries[i].share for i in passed), Decimal(0))
                self._keep_tally(self._tally().plus(shares, Decimal(0), len(passed)))
            if rest:
                found += self._after_fail(trust, rest)
        except Exception as error:
            self.failed = {i: Answer(None, "failed", error) for i in asked}
        return found

    def _after_fail(self, trust: Trust, rest: list[int]) -> list[tuple[int, str, int]]:
        plan = self._plan({}, "hard", rest)
        rise = self._rise(plan, 0)
        self._pay(plan)
        drawn = {i: (i, path, value) for i, path, value in self._drawn(plan)}
        trust.rented([self.queries[i] for i in rest], [drawn[i][2] for i in rest], rise, failed=True)
        return list(drawn.values())

    def _direct(self, scale: int) -> Draw:
        return self.prices.node(1, scale) if self.outlook.partitioned else self.prices.direct(scale)

    def _cover(self, i: int) -> Cover:
        query = self.queries[i]
        by_law: dict[bool, dict[int, int]] = {}
        for part in self.parts:
            data = self.books.note(SYNOPSIS, Node(0, part, part))
            for table in () if data is None else tables_from_bytes(data):
                known = by_law.setdefault(table.kind == WORKLOAD, {})
                value = None if part in known else table.value(query, self.outlook)
                if value is not None:
                    known[part] = value
        # of one law: only then its sums over partitions keep the promise. Noise for every q is that for boxes, but less
        synopses = max(by_law.values(), key=lambda own: sum(self.scales[part] for part in own), default={})
        stored = list(self.books.answers(query, self.mechanism))
        if self.books.pure and not self.outlook.partitioned:  # no other view has a histogram
            stored += self.books.answers(query, PASSED)
        self.rented[i] = [(node, released.amount) for node, released in stored]
        usable = [
            (node, released.value)
            for node, released in stored
            if self.parts[0] <= node.first
            and node.last <= self.parts[-1]
            and released.amount >= self._direct(self.books.scale(node.first, node.last)).amount
        ]
        return cover(self.parts, self.scales, synopses, usable)

    # --- what to pay for ---------------------------------------------------------------------------------------------

    def _affordable(self) -> _Plan:
        """The plan by the rule of rent or buy; if it cannot be paid, the one that rents only. DP001."""
        plan = self._plan({})
        while wanted := self._worth_buying(plan):
            plan = self._plan(plan.bought | wanted)
        if not plan.bought:
            return self._reserving(plan)
        for one in (plan, self._plan({})):
            if self.books.can_pay(self._payments(one)):
                return one
        raise exhausted()

    def _reserving(self, plan: _Plan) -> _Plan:
        """A plan that rents, unless it takes the last chance to buy: then the synopses are bought at once."""
        rent, designs = self._payments(plan), dict(self._designs(plan))
        payable = self.books.can_pay(rent)
        every = [payment for part, design in designs.items() for payment in self._buying(part, design)]
        if payable and self.books.can_pay([*rent, *every]):
            return plan
        last_chance = {}
        for part, design in designs.items():
            own = [p._replace(first=part, last=part) for p in rent if p.first <= part <= p.last]
            buying = self._buying(part, design)
            if self.books.can_pay(buying) and not self.books.can_pay([*own, *buying]):
                last_chance[part] = design
        buying_plan = self._plan(last_chance)
        if last_chance and self.books.can_pay(self._payments(buying_plan)):
            return buying_plan
        if not payable:
            raise exhausted()
        return plan

    def _designs(self, plan: _Plan) -> list[tuple[int, Design]]:
        """Of every partition that runs touch: the synopsis that would answer the first of them, if one is to be had."""
        first: dict[int, int] = {}
        for run in plan.runs:
            for part in range(run.node.first, run.node.last + 1):
                first.setdefault(part, run.asked)
        found = []
        for part, i in first.items():
            design = design_for(self.queries[i], self.prices, self.beta, self.outlook, self.scales[part])
            if design is not None:
                found.append((part, design))
        return found

    def _worth_buying(self, plan: _Plan) -> dict[int, Design]:
        """The synopses that are worth their price on the partitions that runs touch."""
        before, declared, found = self._tally(), None, {}
        now = self._with(plan, before)
        if all(self.queries[run.asked].id in self.outlook.ids for run in plan.runs):
            declared = declared_rent(self.queries[0].domain, self.outlook)
        for part, design in self._designs(plan):
            unit, load, price = self._unit(part), self._load(part), design.price(self.prices, self.scales[part])
            if price is None:
                continue
            answer, rise = self._direct(self.scales[part]).amount, self._rise(plan, part) * unit
            account = Account(answer, load.rent * unit, rise, load.since)
            if worth_buying(price, account, self.outlook, before, now, declared):
                found[part] = design
        return found

    def _with(self, plan: _Plan, before: Tally) -> Tally:
        """The view's questions with these. All have the same number of bins and partitions together, whoever has them:
        what they raise is one sum, in answers on a partition alone."""
        asked = {run.asked for run in plan.runs}
        shares = sum((self.queries[i].share for i in asked), Decimal(0))
        rent = Decimal(sum(self._rise(plan, part) for part in plan.levels)) / PARTS
        return before.plus(shares, rent, len(asked))

    def _plan(self, bought: dict[int, Design], why: str = "bypass", asked: Sequence[int] | None = None) -> _Plan:
        levels: dict[int, int] = {}
        runs: list[_Run] = []
        for i in self.covers if asked is None else asked:
            query, one = self.queries[i], self.covers[i]
            left = [p for p in one.fresh if not (p in bought and bought[p].covers(query, self.outlook))]
            for node in self._runs(i, left):
                scale = self.books.scale(node.first, node.last)
                run = _Run(i, node, self.prices.hard(scale) if why == "hard" else self._direct(scale))
                runs.append(run)
                for part in range(node.first, node.last + 1):
                    if self.scales[part]:
                        needed = self._load(part).needed(query, run.draw)
                        levels[part] = max(levels.get(part, 0), needed)
        return _Plan(bought, runs, levels, why)

    def _runs(self, i: int, parts: Sequence[int]) -> list[Node]:
        """Neighbouring partitions together; a partition by itself, once the query's windows cost it as much as that."""
        found: list[Node] = []
        for node in stretches(parts):
            amount = self._direct(self.books.scale(node.first, node.last)).amount
            own = range(node.first, node.last + 1)
            single = [p for p in own if node.size > 1 and self._spent_on(i, p) + amount > self._alone(p)]
            found += stretches([p for p in own if p not in single]) + [Node(0, p, p) for p in single if self.scales[p]]
        return found

    def _spent_on(self, i: int, part: int) -> Decimal:
        return sum((a for node, a in self.rented[i] if node.first <= part <= node.last and node.size > 1), Decimal(0))

    def _alone(self, part: int) -> Decimal:
        return self._direct(self.scales[part]).amount if self.scales[part] else Decimal("Infinity")

    def _rise(self, plan: _Plan, part: int) -> int:
        return plan.levels[part] - self._load(part).level

    def _unit(self, part: int) -> Decimal:
        if part not in self.units:
            self.units[part] = unit_of(self._direct(self.scales[part]))
        return self.units[part]

    def _load(self, part: int) -> Load:
        if part not in self.loads:
            data, unit = self.books.note(LOAD, Node(0, part, part)), self._unit(part)
            found = None if data is None else Load.from_bytes(data, unit)
            self.loads[part] = found or Load.empty(self.queries[0].domain.bins, self._tally().asked, unit)
        return self.loads[part]

    def _tally(self) -> Tally:
        if self.tally is None:
            self.tally = Tally.from_bytes(self.books.note(ASKED, WHOLE))
        return self.tally

    def _keep_tally(self, tally: Tally) -> None:
        self.tally = tally
        self.books.keep_note(ASKED, WHOLE, tally.to_bytes())

    # --- paying and drawing ------------------------------------------------------------------------------------------

    def _buying(self, part: int, design: Design) -> list[Payment]:
        draws = design.draws(self.prices, self.scales[part]) or []
        return [Payment(part, part, draw.charge(), "synopsis") for draw in draws]

    def _payments(self, plan: _Plan) -> list[Payment]:
        rises = {p: Draw(self.mechanism, n * self._unit(p)) for p in plan.levels if (n := self._rise(plan, p))}
        buying = [payment for part, design in plan.bought.items() for payment in self._buying(part, design)]
        return [*merge(rises, plan.why), *buying]

    def _pay(self, plan: _Plan) -> None:
        self.books.pay(self._payments(plan))
        self._take(plan)

    def _take(self, plan: _Plan) -> None:
        """Note what was paid for."""
        first = sum(self.books.note(SYNOPSIS, Node(0, part, part)) is None for part in plan.bought)
        tally = self._with(plan, self._tally())._replace(bought=self._tally().bought + first)
        for run in plan.runs:
            for part in range(run.node.first, run.node.last + 1):
                if self.scales[part]:
                    self._load(part).take(self.queries[run.asked], run.draw)
        for part in plan.bought:
            self._load(part).rent = 0
        if plan.bought and not self.outlook.partitioned:
            trusting.forget(self.books)
        for part in plan.bought.keys() | plan.levels.keys():
            self.books.keep_note(LOAD, Node(0, part, part), self._load(part).to_bytes())
        if plan.runs or plan.bought:
            self._keep_tally(tally)

    def _released(self, plan: _Plan) -> list[tuple[int, str, int]]:
        """The synopses bought now, and what they say of the queries that waited for them."""
        found = []
        for part, design in plan.bought.items():
            node, bins = Node(0, part, part), self.books.bins(part)
            before = self.books.note(SYNOPSIS, node)
            tables = [
                Table.release(own.kind, own.grid, draw, bins, self.noise)
                for own, draw in zip(design.parts, design.draws(self.prices, self.scales[part]) or [], strict=True)
            ]
            known = () if before is None else tables_from_bytes(before)
            self.books.keep_note(SYNOPSIS, node, tables_to_bytes([*known, *tables]))
            for i, one in self.covers.items():
                if part in one.fresh and design.covers(self.queries[i], self.outlook):
                    values = (table.value(self.queries[i], self.outlook) for table in tables)
                    found.append((i, "synopsis", next(value for value in values if value is not None)))
        return found

    def _drawn(self, plan: _Plan) -> list[tuple[int, str, int]]:
        """The runs, those of queries that share no bin and have one node together."""
        found = []
        order = sorted(plan.runs, key=lambda run: run.node)
        for node, group in groupby(order, key=lambda run: run.node):
            runs = list(group)
            truths = [self.books.truth(self.queries[run.asked], node) for run in runs]
            noisy = runs[0].draw.release(truths, self.unit, self.noise, f"turbo node {node.key()}")
            for run, value in zip(runs, noisy, strict=True):
                self.books.keep_exact(self.queries[run.asked], node, Released(value, self.mechanism, run.draw.amount))
                found.append((run.asked, "r2" if plan.why == "hard" else "r3", value))
        return found
