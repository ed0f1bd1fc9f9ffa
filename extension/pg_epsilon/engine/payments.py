"""Money: what an asker pays in a dataset, on both account trees and in the ledger (composition.md §3, §4).

The one place that writes a charge's ledger row and both trees. A plan pays for itself in one payment (catalog.py),
Turbo in a list of them (turbo/payer.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.filters import (
    Cap,
    PureCap,
    Remaining,
    RenyiCap,
    Root,
    Scope,
    Spent,
    Tree,
    decide,
    nodes,
    remaining,
)
from pg_epsilon.accounting.filters import Relation as RelationScope
from pg_epsilon.decimals import plain
from pg_epsilon.engine.links import Links
from pg_epsilon.errors import EXHAUSTED, DPError
from pg_epsilon.ledger import LIFE, Accounts, Execute, scope_to_json
from pg_epsilon.query.policy import Policy
from pg_epsilon.refusals import exhausted, no_allotment

_AMOUNTS = ("epsilon", "delta", "delta_rdp", "delta_add")
_ALLOTMENT = (
    "SELECT a.epsilon::text, a.delta::text, a.delta_rdp::text, a.delta_add::text,"
    " coalesce(p.begins, '-infinity')::text AS begins, p.ends::text AS ends"
    # now() is one time for the whole transaction, so that all of its payments are of one period
    " FROM dp.role_allotment a LEFT JOIN LATERAL dp._period(a.since, a.per, now()) p ON true"
    " WHERE a.role = $1 AND a.dataset = $2"
)


class Payments:
    """Caps, trees and ledger rows, through a function that runs SQL."""

    def __init__(self, execute: Execute, links: Links) -> None:
        self._execute = execute
        self._links = links

    def accounts(self, dataset: str, who: str) -> Accounts:
        """The dataset's tree and the asker's, of the present period if it renews (composition.md §3.6)."""
        own = self._own(dataset, who)
        return Accounts(self._execute, dataset, who, own[0]["begins"] if own else LIFE)

    def renews(self, dataset: str, who: str) -> str | None:
        """When the next period of an allotment begins; None: it is for life."""
        own = self._own(dataset, who)
        return own[0]["ends"] if own else None

    def caps(self, policy: Policy, who: str) -> tuple[Cap, Cap]:
        """The dataset's cap and the asker's allotment, as filters (composition.md §3.6)."""
        return self._caps(policy, self._own(policy.dataset.name, who)[0])

    def _own(self, dataset: str, who: str) -> list[dict[str, Any]]:
        return self._execute(_ALLOTMENT, ["name", "text"], [who, dataset])

    def _caps(self, policy: Policy, own: Mapping[str, Any]) -> tuple[Cap, Cap]:
        data = policy.dataset
        shared = {
            "epsilon": data.epsilon,
            "delta": data.delta_add,
            "delta_rdp": data.delta_rdp,
            "delta_add": data.delta_add,
        }
        mine = {name: Decimal(own[name]) for name in _AMOUNTS}
        return _cap(data.accountant, shared, data.orders), _cap(data.accountant, mine, data.orders)

    def put(
        self,
        accounts: Accounts,
        trees: Mapping[str, Tree],
        policy: Policy,
        who: str,
        caps: tuple[Cap, Cap],
        scope: Scope,
        charges: Sequence[Charge],
        told: Mapping[str, str],
    ) -> Spent:
        """What the charges are on the dataset's tree, once both trees, which are locked, hold them.

        told: the price in words, for DP001, which is raised if a cap would be passed.
        """
        shared, own = caps
        updates = {}
        for cap, role in ((own, who), (shared, "")):  # his own limit first: it is what he can do something about
            decision = decide(cap, trees[role], scope, charges)
            if not decision.allowed:
                left = remaining(cap, trees[role], scope)
                raise exhausted(policy.dataset.name, role, told, left, self.renews(policy.dataset.name, role))
            updates[role] = decision.updates
        accounts.store(updates)
        return shared.amount(charges)

    def take_back(
        self,
        accounts: Accounts,
        trees: Mapping[str, Tree],
        who: str,
        caps: tuple[Cap, Cap],
        scope: Scope,
        charges: Sequence[Charge],
    ) -> None:
        """Lower both trees, which are locked, by exactly what these charges put on them. The ledger row comes first."""
        shared, own = caps
        updates = {}
        for cap, role in ((own, who), (shared, "")):
            amount = -cap.amount(charges)
            updates[role] = {node: trees[role].spent(node) + amount for node in nodes(scope)}
        accounts.store(updates)

    def enter(
        self,
        policy: Policy,
        who: str,
        *,
        kind: str,
        call: str,
        mechanism: str,
        charges: Sequence[Charge],
        amount: Spent,
        scope: Mapping[str, Any],
        document: Mapping[str, Any] | None,
        request_id: str | None = None,
    ) -> None:
        """Write one ledger row.

        amount: of the charges on the dataset's tree; scope: as `Accounts.entered` gives it; document: what was asked,
        None where nobody asked; request_id: None for a new one.
        """
        self._links.enter(
            [
                request_id,
                who,
                policy.dataset.name,
                kind,
                call,
                mechanism,
                json.dumps([charge.to_json() for charge in charges]),
                amount.epsilon,
                amount.delta,
                list(amount.rdp) or None,
                json.dumps(scope),
                json.dumps(document) if document is not None else None,
                policy.version,
                policy.data_version,
            ],
        )

    def left(self, policy: Policy, scope: Scope, who: str) -> dict[str, str]:
        """What one further charge of this scope may cost this analyst: the smaller of his and the dataset's."""
        own = self._own(policy.dataset.name, who)[0]
        trees = Accounts(self._execute, policy.dataset.name, who, own["begins"]).load(scope)
        pairs = zip(self._caps(policy, own), ("", who), strict=True)
        return {"epsilon": plain(min(remaining(cap, trees[role], scope).epsilon for cap, role in pairs))}

    def import_price(self, policy: Policy, epsilon: Decimal, delta: Decimal) -> dict[str, Any]:
        """What an outside release adds to the dataset's own tree, whose root the caller has locked; DP001 if too much.

        One relation's rows for row units, else everybody's (composition.md §3.1); no allotment pays for it.
        """
        data, charge = policy.dataset, Charge.of("import", epsilon=epsilon, delta=delta)
        scope = Root() if policy.has_user_units else RelationScope(policy.relation_key)
        shared = {"epsilon": data.epsilon, "delta": data.delta_add, "delta_rdp": data.delta_rdp}
        cap = _cap(data.accountant, {**shared, "delta_add": data.delta_add}, data.orders)
        tree = Accounts(self._execute, data.name, "").load(scope)[""]
        if not decide(cap, tree, scope, [charge]).allowed:
            left = remaining(cap, tree, scope)
            raise DPError(
                EXHAUSTED,
                f"the budget of dataset {data.name} does not allow this release",
                f"epsilon {plain(left.epsilon)} and delta {plain(left.delta)} are left for an outside release;"
                " its rows cannot be shown under this guarantee, unless you declassify them.",
            )
        amount = cap.amount([charge])
        return {
            "charge": charge.to_json(),
            "scope": scope_to_json(scope),
            "epsilon": str(amount.epsilon),
            "delta": str(amount.delta),
            "rdp": [str(r) for r in amount.rdp] or None,
        }

    def budget(self, dataset: str, who: str | None) -> Remaining:
        """What is left of a dataset (who None) or of one role's allotment, at its most spent leaf."""
        found = self._execute(
            "SELECT accountant, epsilon::text, delta_rdp::text, delta_add::text, delta::text, orders::text[] AS orders"
            " FROM dp.dataset WHERE name = $1",
            ["text"],
            [dataset],
        )
        own = found if who is None else self._own(dataset, who)
        if not found or not own:
            raise no_allotment(dataset)
        orders = tuple(Decimal(o) for o in found[0]["orders"] or ())
        cap = _cap(found[0]["accountant"], {name: Decimal(own[0][name]) for name in _AMOUNTS}, orders)
        return remaining(cap, self.accounts(dataset, who or "").load(Root())[who or ""])


def _cap(accountant: str, amounts: dict[str, Decimal], orders: tuple[Decimal, ...]) -> Cap:
    if accountant == "pure":
        return PureCap(amounts["epsilon"], amounts["delta"])
    if amounts["epsilon"] == 0:  # an allotment of nothing: there is no curve for it
        return RenyiCap(orders, (Decimal(0),) * len(orders))
    return RenyiCap.of(amounts["epsilon"], amounts["delta_rdp"], amounts["delta_add"], orders)
