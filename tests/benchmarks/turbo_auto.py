"""`auto` on the Turbo paper's experiments: nothing said, the number of queries forecast, the workload declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.turbo_data import Array, Workload
from benchmarks.turbo_experiments import Case, Outcome, PoolBooks, Seeded
from pg_epsilon.turbo import auto, trust
from pg_epsilon.turbo.designs import Outlook


class AutoBooks(PoolBooks):
    """Books whose bins can be released too."""

    def __init__(self, load: Workload) -> None:
        super().__init__(load)
        self.table = load.counts

    def bins(self, part: int) -> Array:
        counts: Array = self.table[part]
        return counts


def undeclared(case: Case) -> Outlook:
    return Outlook(partitioned=case.partitions > 1)


def forecast(case: Case) -> Outlook:
    """The owner knows how many distinct questions there will be, and partitions."""
    distinct = len(np.unique(np.column_stack([case.asked, case.spans]), axis=0))
    return Outlook(distinct, (), case.partitions > 1, case.partitions)


def declared(case: Case) -> Outlook:
    """The owner lists the pool, and knows how many distinct questions there will be."""
    return replace(forecast(case), workload=tuple(case.load.pool))


def run(case: Case, method: str, outlook: Outlook) -> Outcome:
    books, noise, out = AutoBooks(case.load), Seeded(case.seed), Outcome(method)
    sums = case.sums()
    for n, (i, (first, last)) in enumerate(zip(case.asked.tolist(), case.spans.tolist(), strict=True), 1):
        (reply,) = auto.answer([case.load.pool[i]], first, last, case.view, books, noise, outlook)
        assert reply.value is not None
        truth = int(sums[i, last + 1] - sums[i, first])
        out.note(reply.path, abs(reply.value - truth), case.alpha * books.scale(first, last))
        if n % case.every() == 0:
            out.mark(n, books.average_spent())
    out.paid = dict(books.paid)
    return out


def without_histogram(case: Case) -> Outcome:
    """Rent or buy alone: epochs never pay."""
    before, trust.LARGE = trust.LARGE, 1 << 60
    try:
        return run(case, "auto-rent", undeclared(case))
    finally:
        trust.LARGE = before


METHODS: dict[str, Callable[[Case], Outcome]] = {
    "auto": lambda case: run(case, "auto", undeclared(case)),
    "auto-forecast": lambda case: run(case, "auto-forecast", forecast(case)),
    "auto-declared": lambda case: run(case, "auto-declared", declared(case)),
}
