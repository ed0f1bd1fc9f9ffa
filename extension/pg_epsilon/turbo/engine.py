"""A Turbo request: one transaction in the channel's backend, under the lock of its view (turbo.md §11).

Nothing is rolled back once a payment was made: what a draw or a FAIL has told is paid and stays (E-22), and an error
after it is a reply like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from pg_epsilon.accounting.words import scope_text
from pg_epsilon.catalog import Catalog
from pg_epsilon.engine.failures import question_of
from pg_epsilon.engine.ready import check_ready
from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.mechanisms.task import Answerer, PaidFor
from pg_epsilon.mechanisms.told import keep
from pg_epsilon.noise import NoiseSource
from pg_epsilon.query.attributes import NotBins
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.request import Request
from pg_epsilon.query.types import Texts
from pg_epsilon.turbo import auto, bypass, tree, window
from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.books import Payment
from pg_epsilon.turbo.catalog import TurboCatalog, View
from pg_epsilon.turbo.designs import Outlook
from pg_epsilon.turbo.dry import AutoPlanBooks, PlanBooks, Planned, Still
from pg_epsilon.turbo.payer import Payer, total
from pg_epsilon.turbo.request import Asked, asked, declared, fits
from pg_epsilon.turbo.sealed import rounded, wanted
from pg_epsilon.turbo.settings import is_auto, view_of
from pg_epsilon.turbo.shown import as_of, candidates_text, document, notice, presentation, table
from pg_epsilon.turbo.sql_books import PLANNED_COUNTS, SqlBooks, Warm
from pg_epsilon.turbo.steps import exhausted, heuristic_of
from pg_epsilon.turbo.view import Answer
from pg_epsilon.turbo.view import View as Algorithms
from pg_epsilon.turbo.why import why_not

Compiled = Callable[[Mapping[str, Any]], Request]


class TurboEngine(Answerer):
    """Answers requests that a view covers. One per backend: `warm` outlives the transactions."""

    name = "turbo"

    def __init__(
        self,
        catalog: Catalog,
        execute: Execute,
        noise: Callable[[], NoiseSource],
        compiled: Compiled,
        texts: Texts,
        plan: Callable[[str], None],
    ) -> None:
        self._compiled = compiled
        self._texts = texts
        self._outlooks: dict[tuple[int, str], Outlook] = {}
        self.views = TurboCatalog(execute)
        self._catalog = catalog
        self._execute = execute
        self._noise = noise
        self._warm = Warm()
        self._loaded = False
        self._check_plan = plan

    def view(self, request: Request, *, lock: bool) -> View | None:
        """The view whose accuracy the request asks for, if there is one; locked until the transaction ends."""
        policy = request.policy
        other = request.kinds or len(request.source.relations) > 1
        if request.budget.kind != "accuracy" or policy.has_user_units or other:
            return None
        view = self.views.view(policy, lock=lock)
        return view if view is not None and fits(request, view) else None

    def asked(self, request: Request, view: View) -> tuple[Request, Asked] | None:
        """The request, rounded if it says so (sealed.py), and the queries that answer it; None where another mechanism
        does."""
        may_round = wanted(request.document.get("settings") or {})
        try:
            return request, asked(request, view, self._texts)
        except NotBins:
            found = rounded(request, view) if may_round else None
        if found is None:
            return None
        window, document = found
        request = self._compiled(document)
        try:
            return request, replace(asked(request, view, self._texts), said=window.said)
        except NotBins:
            return None

    def reply(self, request: Request, request_id: str, who: str, sent: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer document of the relation's view, if it has one that covers the question; None otherwise.

        Compiled before the lock is taken, and again beneath it (from what the backend remembers): others do not wait.
        """
        view = self.view(request, lock=False)
        if view is None or self.asked(request, view) is None:
            return None
        self._load()
        self._check_plan(PLANNED_COUNTS)  # before the lock, and so before anything is paid (composition.md §10.3 a)
        view = self.view(request, lock=True)
        found = None if view is None else self.asked(request, view)
        if view is None or found is None:
            return None
        request, question = found
        return self.answer(
            request, view, question, request_id, who, sent if question.said is None else request.document
        )

    def outlook(self, policy: Policy, view: View) -> Outlook:
        """What the owner of a view expects of it. DP003 for a declared question that is no set of bins."""
        key = (view.view, policy.digest)
        if key not in self._outlooks:
            queries: list[Query] = []
            for number, members in enumerate(view.settings.get("workload", ()), 1):
                document = {
                    "version": 1,
                    "from": {"schema": policy.relation.schema, "name": policy.relation.name},
                    "budget": {"alpha": str(view.alpha), "beta": str(view.beta)},
                    "aggregates": ["count(*)"],
                    **members,
                }
                try:
                    queries += declared(self._compiled(document), view, self._texts)
                except NotBins as reason:
                    raise DPError(
                        SHAPE,
                        f"question {number} of the declared workload is no set of bins of the attributes: {reason}",
                        "Turbo would not answer it: leave it out.",
                    ) from None
                except DPError as error:
                    raise DPError(
                        error.sqlstate,
                        f"question {number} of the declared workload: {error.message}",
                        error.hint,
                        detail=error.detail,
                        position=error.position,
                    ) from None
            own = {query.id: query for query in queries if not query.empty}
            found = Outlook(
                view.settings.get("forecast"), tuple(own.values()), view.partitioned, view.settings.get("partitions")
            )
            while len(self._outlooks) >= 64:
                self._outlooks.pop(next(iter(self._outlooks)))
            self._outlooks[key] = found
        return self._outlooks[key]

    def _load(self) -> None:
        """What a backend loads once, a second's work: not while others wait for the lock. DP006 where it fails."""
        if not self._loaded:
            check_ready()
            import numpy as np

            self._noise().laplace(np.zeros(0, np.int64).tolist(), l1_sensitivity=1, epsilon=1, label="none")
            self._loaded = True

    def answer(
        self, request: Request, view: View, question: Asked, request_id: str, who: str, sent: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Pay, draw, learn, record: the answer document. DP001 before anything is read; else `PaidFor`."""
        payer = self._payer(request, view, who, request_id, sent)
        how, outlook = _algorithms(view), self.outlook(request.policy, view)
        books = SqlBooks(self._execute, view, payer, heuristic_of(how), self._warm)

        try:
            # all or nothing: before the first of several windows is paid, and read
            if len(question.windows.spans) > 1 and not books.can_pay(self._dry(request, view, question, payer)[0]):
                raise exhausted()
            answers = []
            for span in question.windows.spans:
                ask = partial(_ask, span=span, view=view, how=how, books=books, noise=self._noise(), outlook=outlook)
                answers.append([batch.split(_by_lattice(batch.queries, ask)) for batch in question.batches])
            every = [one for own in answers for batch in own for cell in batch for one in cell]
            failed = next((one.error for one in every if one.error is not None), None)
            if failed is not None:
                raise failed
            cells, paths = table(view, question, answers), [one.path for one in every]
            if request.keys:
                request_id = keep(
                    self._execute,
                    request_id,
                    presentation(request, view, question, cells, paths),
                    mechanism="turbo",
                    who=who,
                    dataset=request.policy.dataset.name,
                    as_of=as_of(view, question),
                    canonical=request.canonical(),
                    document=sent,
                    paid=payer.entered,
                )
            return document(
                request,
                view,
                question,
                cells,
                request_id=request_id,
                paths=paths,
                charge=total(payer.paid),
                accounts=scope_text(payer.scope(question.first, question.last)),
                left=payer.left(question.first, question.last),
            )
        except Exception as error:
            if payer.paid or books.changed:
                raise PaidFor(error) from error
            raise

    def plan(self, request: Request, who: str) -> dict[str, Any] | None:
        """A dry run from public facts (composition.md §9): candidate paths, worst and best charge. None as `reply`."""
        view = self.view(request, lock=False)
        found = None if view is None else self.asked(request, view)
        if view is None or found is None:
            return None
        request, question = found
        payer = self._payer(request, view, who, None, {})
        worst, paths = self._dry(request, view, question, payer)
        whys = {payment.why for payment in worst}
        if whys and view.partitioned:
            whys.add("mixed")  # with a synopsis for some partitions, answers by noise may be stored for others
        info = notice(
            request,
            view,
            question,
            paths=sorted(paths | whys),
            path=candidates_text([payment.why for payment in worst], sorted(paths)),
            charge=total(worst),
            accounts=scope_text(payer.scope(question.first, question.last)),
            left=payer.left(question.first, question.last),
        )
        best = total([payment for payment in worst if payment.why != "hard"])
        return {**info, "charge": {"worst": total(worst), "best": best}}

    def _dry(self, request: Request, view: View, question: Asked, payer: Payer) -> tuple[list[Payment], set[str]]:
        """What a question would pay at most, by public facts, and by which paths what needs no payment is answered."""
        how, outlook = _algorithms(view), self.outlook(request.policy, view)
        books = (AutoPlanBooks if is_auto(view.settings) else PlanBooks)(
            self._execute, view, payer, heuristic_of(how), Warm()
        )
        worst: list[Payment] = []

        def ask(queries: list[Query], span: tuple[int, int]) -> list[Answer]:
            try:
                found = _ask(queries, span, view, how, books, Still(), outlook)
                reserved = books.taken() if isinstance(books, AutoPlanBooks) else []
                if not reserved:
                    return found
                worst.extend(reserved)
            except Planned as planned:
                worst.extend(planned.payments)
            return [Answer(None, "")] * len(queries)

        paths = {
            one.path
            for span in question.windows.spans
            for batch in question.batches
            for one in _by_lattice(batch.queries, partial(ask, span=span))
        }
        return worst, paths - {""}

    def why_not(self, request: Request) -> str | None:
        """Why a question with alpha and beta about an enabled relation is not answered by its view."""
        return why_not(request, self.views, self._texts)

    def _payer(self, request: Request, view: View, who: str, request_id: str | None, sent: Mapping[str, Any]) -> Payer:
        return Payer(
            self._catalog,
            self._execute,
            request.policy,
            who,
            view.parts,
            call=request.call,
            request_id=request_id,
            document=sent,
            question=question_of(request),
        )


def _ask(
    queries: list[Query],
    span: tuple[int, int],
    view: View,
    how: Algorithms,
    books: SqlBooks,
    noise: NoiseSource,
    outlook: Outlook,
) -> list[Answer]:
    """By the view's planner: `auto` takes the cheapest path, `turbo` is the paper's."""
    if is_auto(view.settings):
        return auto.answer(queries, *span, how, books, noise, outlook)
    if not view.partitioned:
        return bypass.answer(queries, how, books, noise)
    answer = window.answer if how.scope == "window" else tree.answer
    return answer(queries, *span, how, books, noise)


def _by_lattice(queries: Sequence[Query], answer: Callable[[list[Query]], list[Answer]]) -> list[Answer]:
    """Answers of queries that share no bin, those of one lattice together (a sum's equal weights make it a count)."""
    found: dict[int, Answer] = {}
    order = sorted(range(len(queries)), key=lambda i: queries[i].unit)
    for _, places in groupby(order, key=lambda i: queries[i].unit):
        own = list(places)
        found.update(zip(own, answer([queries[i] for i in own]), strict=True))
    return [found[i] for i in range(len(queries))]


def _algorithms(view: View) -> Algorithms:
    return view_of(view.domain, view.alpha, view.beta, view.settings, partitioned=view.partitioned)
