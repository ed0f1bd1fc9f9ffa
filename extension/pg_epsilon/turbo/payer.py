"""Turbo's payments on the account trees: one ledger row each (composition.md §3, §14.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.filters import Cap, Leaves, Relation, Scope, Spent, Tree, decide, remaining
from pg_epsilon.accounting.words import amounts_text
from pg_epsilon.catalog import Catalog
from pg_epsilon.decimals import plain
from pg_epsilon.engine.failures import Failures
from pg_epsilon.ledger import Accounts, Execute
from pg_epsilon.query.policy import Policy
from pg_epsilon.refusals import PLANNER, check_not_frozen, exhausted, no_allotment
from pg_epsilon.turbo.books import Payment
from pg_epsilon.turbo.catalog import Part


class Payer:
    """Pays for one call of one asker; `paid` is what it paid so far, in order.

    parts: the view's partitions, whose leaves pay; the relation's own account, where a partition has no leaf. Accounts
    are locked from the first question about them until the transaction ends, so what could be paid can be paid.
    """

    def __init__(
        self,
        catalog: Catalog,
        execute: Execute,
        policy: Policy,
        who: str,
        parts: Mapping[int, Part],
        *,
        call: str,
        request_id: str | None = None,
        document: Mapping[str, Any] | None = None,
        question: str | None = None,
    ) -> None:
        self._catalog = catalog
        self._money = catalog.payments
        self._execute = execute
        self._policy = policy
        self._who = who
        self._parts = parts
        self._call = call
        self._request_id = request_id
        self._document = document
        self._question = question
        self.paid: list[Payment] = []
        self._free = False  # whether a row that costs nothing was entered

    def scope(self, first: int, last: int) -> Scope:
        """Whose accounts a payment of these partitions concerns."""
        leaves = [self._parts[part].leaf_key for part in range(first, last + 1)]
        known = frozenset(leaf for leaf in leaves if leaf is not None)
        if len(known) < len(leaves):
            return Relation(self._policy.relation_key)
        return Leaves(self._policy.relation_key, known)

    def can_pay(self, payments: Sequence[Payment]) -> bool:
        """Whether all of them fit, together, into the asker's allotment and the dataset's cap; nothing changes."""
        return self._refused(payments) is None

    def pay(self, payments: Sequence[Payment]) -> None:
        """All of them or none: DP001. A ledger row each."""
        refused = self._refused(payments)
        if refused is not None:
            raise refused
        for payment in payments:
            who, scope = self._role(payment), self.scope(payment.first, payment.last)
            caps, charges = self._money.caps(self._policy, who), [payment.charge]
            accounts = self._accounts(who)
            trees = accounts.load(scope)
            amount = self._money.put(accounts, trees, self._policy, who, caps, scope, charges, total([payment]))
            self._enter(who, payment.why, charges, amount, accounts.entered(scope))
            self.paid.append(payment)

    def enter_free_draw(self, first: int, last: int) -> None:
        """A ledger row that costs nothing, for a request whose draws earlier payments cover: a link of the chain.

        Without one, a witness could not tell a copy that lacks the draw, and would draw on the payment once more.
        """
        if not self.paid and not self._free:
            self._free = True
            self._enter(self._who, "shared", [], Spent(), self._accounts(self._who).entered(self.scope(first, last)))

    def check_not_frozen(self) -> None:
        """DP006 where nothing may be drawn, paid for or not (composition.md §12)."""
        check_not_frozen(self._execute, self._policy.dataset.name)

    def _enter(self, who: str, why: str, charges: Sequence[Charge], amount: Spent, scope: dict[str, Any]) -> None:
        self._money.enter(
            self._policy,
            who,
            kind="charge",
            call=self._call,
            mechanism=f"turbo {why}",
            charges=charges,
            amount=amount,
            scope=scope,
            document=self._document,
            request_id=self._own_id() if not self.paid else None,
        )

    def _own_id(self) -> str | None:
        """The request's id for its first row; None for a step repeated after its reply was lost, which has that row."""
        known = self._request_id is not None and self._catalog.charged(self._request_id) is not None
        return None if known else self._request_id

    def could_pay(self, payments: Sequence[Payment]) -> bool:
        """As `can_pay`, without locking anything: for a dry run."""
        return self._refused(payments, lock=False) is None

    @property
    def entered(self) -> bool:
        """Whether the ledger has a row of this request."""
        return bool(self.paid) or self._free

    @property
    def pure(self) -> bool:
        return self._policy.dataset.accountant == "pure"

    def _role(self, payment: Payment) -> str:
        """Who pays: what everybody uses is the planner's (composition.md §14.5)."""
        return PLANNER if payment.why in ("synopsis", "scale") else self._who

    def _accounts(self, who: str) -> Accounts:
        return self._money.accounts(self._policy.dataset.name, who)

    def _refused(self, payments: Sequence[Payment], *, lock: bool = True) -> Exception | None:
        if not payments:
            return None
        if self._question is not None:
            Failures(self._execute).check_open(self._question, self._policy.dataset.name, self._who)
        whole = self.scope(min(p.first for p in payments), max(p.last for p in payments))
        for who in sorted({self._role(payment) for payment in payments}):
            own = [payment for payment in payments if self._role(payment) == who]
            try:
                shared, cap = self._money.caps(self._policy, who)
            except IndexError:
                return no_allotment(self._policy.dataset.name, who)
            accounts = self._accounts(who)
            trees = accounts.lock(whole) if lock else accounts.load(whole)
            check_not_frozen(self._execute, self._policy.dataset.name)
            refused = self._too_much(cap, who, trees[who], own)  # his own limit first: he can do something about it
            if refused is None:
                refused = self._too_much(shared, "", trees[""], payments)
            if refused is not None:
                return refused
        return None

    def _too_much(self, cap: Cap, role: str, tree: Tree, payments: Sequence[Payment]) -> Exception | None:
        before = tree
        for payment in payments:
            scope = self.scope(payment.first, payment.last)
            decision = decide(cap, tree, scope, [payment.charge])
            if not decision.allowed:
                renews, left = self._money.renews(self._policy.dataset.name, role), remaining(cap, before, scope)
                return exhausted(self._policy.dataset.name, role, total(payments), left, renews)
            tree = tree.with_updates(decision.updates)
        return None

    def left(self, first: int, last: int) -> dict[str, str]:
        """What one further charge on these partitions may cost the asker."""
        return self._money.left(self._policy, self.scope(first, last), self._who)


def total(payments: Sequence[Payment]) -> dict[str, str]:
    """What payments add up to on the account that pays most: those of disjoint partitions are parallel."""
    totals: dict[str, Decimal] = {}
    for part in {p for payment in payments for p in range(payment.first, payment.last + 1)}:
        own = [payment.charge for payment in payments if payment.first <= part <= payment.last]
        for name, text in amounts_text([_as_epsilon(charge) for charge in own]).items():
            totals[name] = max(totals.get(name, Decimal(0)), Decimal(text))
    return {name: plain(value) for name, value in totals.items()}


def _as_epsilon(charge: Charge) -> Charge:
    """An epoch by its whole epsilon, for people."""
    if charge.kind != "above_threshold":
        return charge
    return Charge.of("laplace", epsilon=charge.pure()[0])
