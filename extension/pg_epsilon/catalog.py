"""What the engine reads and writes in schema dp, as SQL through a function it is given: no plpy, no private row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.filters import Cap, PureCap, Remaining, RenyiCap, Root, Spent, decide, nodes, remaining
from pg_epsilon.accounting.filters import Relation as RelationScope
from pg_epsilon.decide.question import Synthetic
from pg_epsilon.decimals import plain
from pg_epsilon.errors import CHANNEL, EXHAUSTED, PRIVILEGE, DPError
from pg_epsilon.ledger import Accounts, Execute, scope_to_json
from pg_epsilon.plan import Plan
from pg_epsilon.query.policy import Policy, policy_from_json, public_from_json
from pg_epsilon.query.request import Request
from pg_epsilon.query.schema import Relation
from pg_epsilon.refusals import PLANNER, exhausted, no_allotment, not_published, repriced

_AMOUNTS = ("epsilon", "delta", "delta_rdp", "delta_add")
_ALLOTMENT = (
    "SELECT epsilon::text, delta::text, delta_rdp::text, delta_add::text FROM dp.role_allotment"
    " WHERE role = $1 AND dataset = $2"
)
LEDGER_ROW = (
    "INSERT INTO dp.ledger (request_id, who, dataset, kind, call, mechanism, charge, epsilon, delta, rdp, scope,"
    " request, policy_version, data_version)"
    " VALUES (coalesce($1, gen_random_uuid()), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
)
LEDGER_TYPES = [
    "uuid",
    "name",
    "text",
    "text",
    "text",
    "text",
    "jsonb",
    "numeric",
    "numeric",
    "numeric[]",
    "jsonb",
    "jsonb",
    "bigint",
    "bigint",
]


@dataclass(frozen=True)
class Released:
    """A release: every group's released integers, in the order of the declared groups."""

    request_id: str
    raw: list[list[int]]
    as_of: str


def _raw(answer: str) -> list[list[int]]:
    return [[int(value) for value in cell] for cell in json.loads(answer)["raw"]]


def check_paid(plan: Plan, paid: dict[str, Any]) -> None:
    """DP006 unless a committed charge is this plan's own: one of another mechanism, as Turbo's, bought another draw."""
    now = [plan.mechanism, [charge.to_json() for charge in plan.charges], scope_to_json(plan.scope)]
    if now != [paid["mechanism"], json.loads(paid["charge"]), json.loads(paid["scope"])]:
        raise repriced()


class Catalog:
    """Policy, authorisation, releases and payments. Policies are kept per backend until the policy version moves."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._policies: dict[tuple[str, str], tuple[int, Policy | Relation]] = {}

    def policy_version(self) -> int:
        return int(self._execute("SELECT version FROM dp.policy_state", [], [])[0]["version"])

    def relation(self, schema: str, name: str) -> Policy | Relation:
        """What a name in a question means: a protected relation's policy or a public table; 42501 if neither."""
        key, version = (schema, name), self.policy_version()
        kept = self._policies.get(key)
        if kept is None or kept[0] != version:
            found = self._protected(schema, name) or self._public(schema, name)
            if found is None:
                raise not_published(f"{schema}.{name}")
            self._policies[key] = kept = version, found
        return kept[1]

    def policy(self, schema: str, name: str) -> Policy:
        """The policy of a protected relation; 42501 for anything else."""
        found = self.relation(schema, name)
        if not isinstance(found, Policy):
            raise not_published(f"{schema}.{name}")
        return found

    def _protected(self, schema: str, name: str) -> Policy | None:
        found = self._execute("SELECT dp._policy_of($1, $2)::text AS policy", ["name", "name"], [schema, name])
        if found[0]["policy"] is None:
            return None
        document = json.loads(found[0]["policy"])
        if document.pop("unit_path_broken"):
            raise DPError(
                CHANNEL,
                f"the way from {schema}.{name} to its privacy unit is broken",
                "The owner restores the foreign keys of its unit_path and the protection of its steps: see dp.check().",
            )
        if document.pop("part_protected"):
            raise DPError(
                CHANNEL,
                f"{schema}.{name} shares rows with another protected relation",
                "One row has one account: the owner detaches the part or unprotects one of them: see dp.check().",
            )
        return policy_from_json(document)

    def of(self, policy: Policy) -> Sequence[Synthetic]:
        """The synthetic tables of a relation (decide/question.py, Copies)."""
        found = self._execute("SELECT dp._synthetics_of($1)::text AS copies", ["oid"], [policy.relation.oid])
        return [
            Synthetic(
                schema=one["schema"],
                name=one["name"],
                columns={column["name"]: column["type"] for column in one["columns"]},
                weight=one["weight"],
                provenance=one["provenance"],
                epsilon=Decimal(one["epsilon"]) if one["epsilon"] is not None else None,
                delta=Decimal(one["delta"]) if one["delta"] is not None else None,
                valid=one["valid"],
            )
            for one in json.loads(found[0]["copies"])
        ]

    def original(self, schema: str, name: str) -> tuple[str, str] | None:
        """Of which relation a table is a synthetic copy."""
        found = self._execute(
            "SELECT n.nspname::text AS schema, c.relname::text AS name FROM dp.synthetic s"
            " JOIN pg_class t ON t.oid = s.synthetic JOIN pg_namespace m ON m.oid = t.relnamespace"
            " JOIN pg_class c ON c.oid = s.relation JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE m.nspname = $1 AND t.relname = $2",
            ["name", "name"],
            [schema, name],
        )
        return (found[0]["schema"], found[0]["name"]) if found else None

    def _public(self, schema: str, name: str) -> Relation | None:
        found = self._execute("SELECT dp._public_of($1, $2)::text AS public", ["name", "name"], [schema, name])
        if found[0]["public"] is None:
            return None
        document = json.loads(found[0]["public"])
        if document["part_protected"]:
            raise DPError(
                CHANNEL,
                f"{schema}.{name} shares rows with a protected relation",
                "The owner unpublishes it: see dp.check().",
            )
        if not document["readable"]:
            raise DPError(
                CHANNEL,
                f"the engine may not read {schema}.{name}",
                "The owner publishes it again, kind => 'public', and without row-level security.",
            )
        return public_from_json(document)

    def authorise(self, request: Request, who: str) -> None:
        """42501 unless the asker is an analyst with an allotment in the dataset, now (composition.md §14.11).

        What is made for everybody is paid by dp_planner, and by no other (§3.6); it pays for nothing else.
        """
        policy, planned = request.policy, request.synthesize is not None
        if planned != (who == PLANNER):
            raise DPError(PRIVILEGE, f"{PLANNER} pays for synthetic tables alone", "CALL dp.make_synthetic(relation).")
        found = self._execute(
            "SELECT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = $1 AND r.rolcanlogin"
            " AND pg_has_role(r.oid, 'dp_analyst', 'MEMBER')) AS analyst,"
            " EXISTS (SELECT FROM dp.role_allotment a WHERE a.role = $1 AND a.dataset = $2) AS allotted",
            ["name", "text"],
            [who, policy.dataset.name],
        )[0]
        if not planned and not found["analyst"]:
            raise DPError(PRIVILEGE, "the asking role is not an analyst", "The administrator grants dp_analyst to it.")
        if not found["allotted"]:
            raise no_allotment(policy.dataset.name, who)

    def is_closed(self, shape: str) -> bool:
        return bool(self._execute("SELECT 1 FROM dp.closed_shape WHERE shape = $1", ["text"], [shape]))

    def close(self, shape: str) -> None:
        self._execute("INSERT INTO dp.closed_shape (shape) VALUES ($1) ON CONFLICT DO NOTHING", ["text"], [shape])

    def cached(self, plan: Plan) -> Released | None:
        """The newest release of the same canonical question, or None (composition.md §7.1)."""
        found = self._execute(
            "SELECT request_id::text, answer::text, as_of::timestamptz(0)::text AS as_of FROM dp.release"
            " WHERE cache_key = $1 AND answer ? 'raw' ORDER BY release.as_of DESC LIMIT 1",
            ["text"],
            [plan.cache_key],
        )
        return Released(found[0]["request_id"], _raw(found[0]["answer"]), found[0]["as_of"]) if found else None

    def charged(self, request_id: str) -> dict[str, Any] | None:
        """The committed charge of a request, its row locked so that two answers never draw twice."""
        found = self._execute(
            "SELECT who::text, request::text, mechanism, charge::text, scope::text FROM dp.ledger"
            " WHERE request_id = $1 AND kind = 'charge' FOR UPDATE",
            ["uuid"],
            [request_id],
        )
        return found[0] if found else None

    def recorded(self, request_id: str) -> list[list[int]] | None:
        """The released integers of a request, if the release was made."""
        found = self._execute("SELECT answer::text FROM dp.release WHERE request_id = $1", ["uuid"], [request_id])
        return _raw(found[0]["answer"]) if found else None

    def record(self, plan: Plan, request_id: str, raw: list[list[int]]) -> None:
        """Publish: released integers only, of every group and measure; what is shown is computed from them."""
        policy = plan.request.policy
        self._execute(
            "INSERT INTO dp.release (request_id, cache_key, dataset, relation_key, data_version, mechanism, answer)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7)",
            ["uuid", "text", "text", "text", "bigint", "text", "jsonb"],
            [
                request_id,
                plan.cache_key,
                policy.dataset.name,
                policy.relation_key,
                policy.data_version,
                plan.mechanism,
                json.dumps({"raw": raw}),
            ],
        )

    def caps(self, policy: Policy, who: str) -> tuple[Cap, Cap]:
        """The dataset's cap and the asker's allotment, as filters (composition.md §3.6)."""
        data = policy.dataset
        own = self._execute(_ALLOTMENT, ["name", "text"], [who, data.name])[0]
        shared = {
            "epsilon": data.epsilon,
            "delta": data.delta_add,
            "delta_rdp": data.delta_rdp,
            "delta_add": data.delta_add,
        }
        mine = {name: Decimal(own[name]) for name in _AMOUNTS}
        return _cap(data.accountant, shared, data.orders), _cap(data.accountant, mine, data.orders)

    def pay(self, plan: Plan, request_id: str, who: str, document: dict[str, Any]) -> None:
        """Lock, check both trees, update, write the ledger row; a request pays once.

        DP001 if a cap would be passed, DP006 for a repeated step that is another plan by now: nothing changes.
        """
        policy = plan.request.policy
        accounts = Accounts(self._execute, policy.dataset.name, who)
        trees = accounts.lock(plan.scope)
        before = self.charged(request_id)
        if before is not None:  # a repeated step: the first one may have committed while this waited
            check_paid(plan, before)
            return
        amount = Spent()
        shared, own = self.caps(policy, who)
        for cap, role in ((own, who), (shared, "")):  # his own limit first: it is what he can do something about
            decision = decide(cap, trees[role], plan.scope, plan.charges)
            if not decision.allowed:
                raise exhausted(policy.dataset.name, role, plan.charge_text(), remaining(cap, trees[role], plan.scope))
            if not role:
                amount = cap.amount(plan.charges)
            accounts.store(role, decision.updates)
        self._ledger_row(plan, request_id, who, "charge", plan.charges, amount, document)

    def _ledger_row(
        self,
        plan: Plan,
        request_id: str | None,
        who: str,
        kind: str,
        charges: Sequence[Charge],
        amount: Spent,
        document: dict[str, Any],
    ) -> None:
        policy = plan.request.policy
        self._execute(
            LEDGER_ROW,
            LEDGER_TYPES,
            [
                request_id,
                who,
                policy.dataset.name,
                kind,
                plan.request.call,
                plan.mechanism,
                json.dumps([charge.to_json() for charge in charges]),
                amount.epsilon,
                amount.delta,
                list(amount.rdp) or None,
                json.dumps(scope_to_json(plan.scope)),
                json.dumps(document),
                policy.version,
                policy.data_version,
            ],
        )

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

    def give_back(self, plan: Plan, request_id: str, who: str, unused: Sequence[Charge]) -> None:
        """Take back what was reserved and, as a released bit says, is not needed (composition.md §4, §11).

        In the transaction that records the release: both are seen, or neither. The ledger row of kind 'return', which
        names the charge, comes first; both trees are lowered by exactly what the charge put on them.
        """
        accounts = Accounts(self._execute, plan.request.policy.dataset.name, who)
        trees = accounts.lock(plan.scope)
        shared, own = self.caps(plan.request.policy, who)
        self._ledger_row(plan, None, who, "return", unused, -shared.amount(unused), {"of": request_id})
        for cap, role in ((own, who), (shared, "")):
            amount = -cap.amount(unused)
            accounts.store(role, {node: trees[role].spent(node) + amount for node in nodes(plan.scope)})

    def left(self, plan: Plan, who: str) -> dict[str, str]:
        """What one further charge of the same scope may cost this analyst: the smaller of his and the dataset's."""
        policy = plan.request.policy
        trees = Accounts(self._execute, policy.dataset.name, who).load(plan.scope)
        amounts = [
            remaining(cap, trees[role], plan.scope).epsilon
            for cap, role in zip(self.caps(policy, who), ("", who), strict=True)
        ]
        return {"epsilon": plain(min(amounts))}

    def budget(self, dataset: str, who: str | None) -> Remaining:
        """What is left of a dataset (who None) or of one role's allotment, at its most spent leaf."""
        found = self._execute(
            "SELECT accountant, epsilon::text, delta_rdp::text, delta_add::text, delta::text, orders::text[] AS orders"
            " FROM dp.dataset WHERE name = $1",
            ["text"],
            [dataset],
        )
        own = found if who is None else self._execute(_ALLOTMENT, ["name", "text"], [who, dataset])
        if not found or not own:
            raise no_allotment(dataset)
        orders = tuple(Decimal(o) for o in found[0]["orders"] or ())
        cap = _cap(found[0]["accountant"], {name: Decimal(own[0][name]) for name in _AMOUNTS}, orders)
        return remaining(cap, Accounts(self._execute, dataset, who or "").load(Root())[who or ""])


def _cap(accountant: str, amounts: dict[str, Decimal], orders: tuple[Decimal, ...]) -> Cap:
    if accountant == "pure":
        return PureCap(amounts["epsilon"], amounts["delta"])
    if amounts["epsilon"] == 0:  # an allotment of nothing: there is no curve for it
        return RenyiCap(orders, (Decimal(0),) * len(orders))
    return RenyiCap.of(amounts["epsilon"], amounts["delta_rdp"], amounts["delta_add"], orders)
