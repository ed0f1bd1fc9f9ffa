"""Turbo's payments on the account trees: one ledger row each (composition.md §3, §14.5)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.filters import Cap, Leaves, Relation, Scope, Tree, decide, remaining
from pg_epsilon.catalog import LEDGER_ROW, LEDGER_TYPES, Catalog
from pg_epsilon.catalog_turbo import Part
from pg_epsilon.decimals import plain
from pg_epsilon.ledger import Accounts, Execute, scope_to_json
from pg_epsilon.plan import amounts_text
from pg_epsilon.query.policy import Policy
from pg_epsilon.refusals import PLANNER, check_not_frozen, exhausted, no_allotment
from pg_epsilon.turbo.books import Payment


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
    ) -> None:
        self._catalog = catalog
        self._execute = execute
        self._policy = policy
        self._who = who
        self._parts = parts
        self._call = call
        self._request_id = request_id
        self._document = document
        self.paid: list[Payment] = []

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
            shared, own = self._catalog.caps(self._policy, who)
            accounts = self._accounts(who)
            trees = accounts.load(scope)
            for cap, role in ((own, who), (shared, "")):
                accounts.store(role, decide(cap, trees[role], scope, [payment.charge]).updates)
            amount = shared.amount([payment.charge])
            self._execute(
                LEDGER_ROW,
                LEDGER_TYPES,
                [
                    self._own_id() if not self.paid else None,
                    who,
                    self._policy.dataset.name,
                    "charge",
                    self._call,
                    f"turbo {payment.why}",
                    json.dumps([payment.charge.to_json()]),
                    amount.epsilon,
                    amount.delta,
                    list(amount.rdp) or None,
                    json.dumps(scope_to_json(scope)),
                    json.dumps(self._document) if self._document is not None else None,
                    self._policy.version,
                    self._policy.data_version,
                ],
            )
            self.paid.append(payment)

    def _own_id(self) -> str | None:
        """The request's id for its first row; None for a step repeated after its reply was lost, which has that row."""
        known = self._request_id is not None and self._catalog.charged(self._request_id) is not None
        return None if known else self._request_id

    def could_pay(self, payments: Sequence[Payment]) -> bool:
        """As `can_pay`, without locking anything: for a dry run."""
        return self._refused(payments, lock=False) is None

    @property
    def pure(self) -> bool:
        return self._policy.dataset.accountant == "pure"

    def _role(self, payment: Payment) -> str:
        """Who pays: what everybody uses is the planner's (composition.md §14.5)."""
        return PLANNER if payment.why in ("synopsis", "scale") else self._who

    def _accounts(self, who: str) -> Accounts:
        return Accounts(self._execute, self._policy.dataset.name, who)

    def _refused(self, payments: Sequence[Payment], *, lock: bool = True) -> Exception | None:
        if not payments:
            return None
        check_not_frozen(self._policy)
        whole = self.scope(min(p.first for p in payments), max(p.last for p in payments))
        for who in sorted({self._role(payment) for payment in payments}):
            own = [payment for payment in payments if self._role(payment) == who]
            try:
                shared, cap = self._catalog.caps(self._policy, who)
            except IndexError:
                return no_allotment(self._policy.dataset.name, who)
            accounts = self._accounts(who)
            trees = accounts.lock(whole) if lock else accounts.load(whole)
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
                return exhausted(self._policy.dataset.name, role, total(payments), remaining(cap, before, scope))
            tree = tree.with_updates(decision.updates)
        return None

    def left(self, first: int, last: int) -> dict[str, str]:
        """What one further charge on these partitions may cost the asker."""
        scope = self.scope(first, last)
        trees = self._accounts(self._who).load(scope)
        shared, own = self._catalog.caps(self._policy, self._who)
        amounts = [remaining(cap, trees[role], scope).epsilon for cap, role in ((shared, ""), (own, self._who))]
        return {"epsilon": plain(min(amounts))}


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
