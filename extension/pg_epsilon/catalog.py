"""What the engine reads and writes in schema dp, as SQL through a function it is given: no plpy, no private row."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.words import scope_text
from pg_epsilon.answer import stored
from pg_epsilon.engine.entitlements import Entitlements, is_paid
from pg_epsilon.engine.links import Links
from pg_epsilon.engine.payments import Payments
from pg_epsilon.engine.tasks import is_for_everybody
from pg_epsilon.errors import CHANNEL, PRIVILEGE, DPError
from pg_epsilon.ledger import LIFE, Accounts, Execute
from pg_epsilon.plan import Plan, scope_of
from pg_epsilon.query.copies import Summed, Synthetic
from pg_epsilon.query.policy import Policy, policy_from_json, public_from_json
from pg_epsilon.query.request import Request
from pg_epsilon.query.schema import Relation, written
from pg_epsilon.query.sizes import Limits
from pg_epsilon.refusals import (
    PLANNER,
    check_not_frozen,
    check_published,
    half_declared,
    no_allotment,
    not_published,
    repriced,
)

# Most relations have no foreign key, nor has a partition or child of theirs: the walk along them, ten times as long, is
# not begun then (the conditions on $1 alone are gates above it, the cheap one first: a key of a table is a trigger).
_HALF_DECLARED = """
SELECT dataset, shown, problem, hint FROM dp._half_declared_told($1) WHERE strict AND EXISTS (
  SELECT FROM pg_catalog.pg_class c WHERE c.oid = $1 AND (c.relhastriggers OR c.relhassubclass OR c.relkind <> 'r')
) AND EXISTS (SELECT FROM dp.dataset d WHERE d.strict) AND EXISTS (
  WITH RECURSIVE holding AS (
    SELECT $1 AS oid UNION SELECT i.inhrelid FROM holding h JOIN pg_catalog.pg_inherits i ON i.inhparent = h.oid)
  SELECT FROM holding h JOIN pg_catalog.pg_constraint k ON k.conrelid = h.oid WHERE k.contype = 'f') LIMIT 1
"""


@dataclass(frozen=True)
class Released:
    """A release: every group's released integers, in the order of the declared groups."""

    request_id: str
    who: str
    raw: list[list[int]]
    as_of: str


def _raw(text: str) -> list[list[int]]:
    return [[int(value) for value in cell] for cell in json.loads(text)]


def check_paid(plan: Plan, paid: dict[str, Any]) -> None:
    """DP006 unless a committed charge is this plan's own: one of another mechanism, as Turbo's, bought another draw."""
    if not is_paid(plan, paid):
        raise repriced()


class Catalog:
    """Policy, authorisation, releases and payments. Policies are kept per backend until the policy version moves."""

    def __init__(self, execute: Execute, given: Callable[[Plan, str, str], None] = lambda *_: None) -> None:
        """given: told of every release that answers somebody, its request and who asked."""
        self._execute = execute
        self._given = given
        self.entitlements = Entitlements(execute)
        self.links = Links(execute)
        self.payments = Payments(execute, self.links)
        self._policies: dict[tuple[str, str], tuple[int, Policy | Relation]] = {}
        self._limits: tuple[int, Limits] | None = None

    def policy_version(self) -> int:
        return int(self._execute("SELECT version FROM dp.policy_state", [], [])[0]["version"])

    def relation(self, schema: str, name: str) -> Policy | Relation:
        """What a name in a question means: a protected relation's policy or a public table; 42501 if neither."""
        key, version = (schema, name), self.policy_version()
        kept = self._policies.get(key)
        if kept is None or kept[0] != version:
            found = self._protected(schema, name) or self._public(schema, name)
            if found is None:
                raise not_published(written(schema, name))
            self._policies[key] = kept = version, found
        return kept[1]

    def asked(self, schema: str, name: str) -> Policy | Relation:
        """What a name in a question means. 42501 of what is not published, DP004 of what is half declared."""
        found = self.relation(schema, name)
        if isinstance(found, Policy):
            check_published(found)
        self.check_declared(found)
        return found

    def check_declared(self, found: Policy | Relation) -> None:
        """DP004 for a relation that leads to units through which it is not protected, if its dataset is strict.

        Asked at every question, kept nowhere: a foreign key anywhere on the way counts at once (composition.md §1.7).
        """
        relation = found.relation if isinstance(found, Policy) else found
        half = self._execute(_HALF_DECLARED, ["oid"], [relation.oid])
        if half:
            raise half_declared(relation.qualified, **half[0])

    def limits(self) -> Limits:
        """How large joins may get, as the administrator declared."""
        version = self.policy_version()
        if self._limits is None or self._limits[0] != version:
            found = self._execute("SELECT rows, bytes, memory, undeclared_rows FROM dp._limits()", [], [])[0]
            self._limits = version, Limits(**{name: int(found[name]) for name in found})
        return self._limits[1]

    def policy(self, schema: str, name: str) -> Policy:
        """The policy of a protected relation; 42501 for anything else."""
        found = self.relation(schema, name)
        if not isinstance(found, Policy):
            raise not_published(written(schema, name))
        return found

    def _protected(self, schema: str, name: str) -> Policy | None:
        found = self._execute("SELECT dp._policy_of($1, $2)::text AS policy", ["name", "name"], [schema, name])
        if found[0]["policy"] is None:
            return None
        document = json.loads(found[0]["policy"])
        if document.pop("unit_path_broken"):
            raise DPError(
                CHANNEL,
                f"the way from {written(schema, name)} to its privacy unit is broken",
                "The owner restores the foreign keys of its unit_path and the protection of its steps: see dp.check().",
            )
        if document.pop("part_protected"):
            raise DPError(
                CHANNEL,
                f"{written(schema, name)} shares rows with another protected relation",
                "One row has one account: the owner detaches the part or unprotects one of them: see dp.check().",
            )
        return policy_from_json(document)

    def of(self, policy: Policy) -> Sequence[Synthetic]:
        """The synthetic tables of a relation (query/copies.py, Copies)."""
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
                release=Summed(*(one["release"][part] for part in ("aggregate", "where", "value")))
                if one["release"] is not None
                else None,
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

    def schema_of(self, name: str, path: Sequence[str]) -> str | None:
        """Where a name without a schema is found. One that is not published is passed over: it is nobody's to know."""
        for schema in path:
            try:
                found = self.relation(schema, name)
            except DPError as refused:
                if refused.sqlstate != PRIVILEGE:
                    raise
                continue
            if not isinstance(found, Policy) or found.published:
                return schema
        return None

    def _public(self, schema: str, name: str) -> Relation | None:
        found = self._execute("SELECT dp._public_of($1, $2)::text AS public", ["name", "name"], [schema, name])
        if found[0]["public"] is None:
            return None
        document = json.loads(found[0]["public"])
        if document["part_protected"]:
            raise DPError(
                CHANNEL,
                f"{written(schema, name)} shares rows with a protected relation",
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
        policy, planned = request.policy, is_for_everybody(request)
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

    def cached(self, plan: Plan) -> Released | None:
        """The newest release of the same canonical question, or None (composition.md §7.1)."""
        found = self._execute(
            "SELECT r.request_id::text, l.who::text, (r.answer -> 'raw')::text AS raw,"
            " r.as_of::timestamptz(0)::text AS as_of FROM dp.release r JOIN dp.ledger l USING (request_id)"
            " WHERE r.cache_key = $1 AND r.answer ? 'raw' ORDER BY r.as_of DESC LIMIT 1",
            ["text"],
            [plan.cache_key],
        )
        if not found:
            return None
        row = found[0]
        return Released(row["request_id"], row["who"], _raw(row["raw"]), row["as_of"])

    def charged(self, request_id: str) -> dict[str, Any] | None:
        """The committed charge of a request. Its row is not locked: whoever draws for it may lock the accounts."""
        found = self._execute(
            "SELECT who::text, request::text, mechanism, charge::text, scope::text FROM dp.ledger"
            " WHERE request_id = $1 AND kind = 'charge'",
            ["uuid"],
            [request_id],
        )
        return found[0] if found else None

    def recorded(self, request_id: str) -> list[list[int]] | None:
        """The released integers of a request, if the release was made."""
        sql = "SELECT (answer -> 'raw')::text AS raw FROM dp.release WHERE request_id = $1"
        found = self._execute(sql, ["uuid"], [request_id])
        return _raw(found[0]["raw"]) if found else None

    def record(self, plan: Plan, request_id: str, raw: list[list[int]]) -> None:
        """Publish: the released integers of every group and measure, and how they are shown, by public facts."""
        policy = plan.request.policy
        self.links.publish(
            [
                request_id,
                plan.cache_key,
                policy.dataset.name,
                policy.relation_key,
                policy.data_version,
                plan.mechanism,
                json.dumps({"raw": raw, "presentation": stored(plan, raw)}),
            ],
        )

    def left(self, request: Request, who: str) -> tuple[str, dict[str, str]]:
        """A question's accounts in words, and what one further charge there may cost who asks."""
        scope = scope_of(request)
        return scope_text(scope), self.payments.left(request.policy, scope, who)

    def serve(self, plan: Plan, request_id: str, payer: str, asker: str) -> None:
        """Note whom a release of another's payment answers, so that dp_shown shows it to them; the first time only.

        A single number is not noted: whoever asks so has it in one row, and dashboards ask so every minute.
        """
        if asker != payer and (plan.request.keys or plan.request.kinds or plan.joint is not None):
            sql = "INSERT INTO dp.served (request_id, who) VALUES ($1, $2) ON CONFLICT DO NOTHING"
            self._execute(sql, ["uuid", "name"], [request_id, asker])
        self._given(plan, request_id, asker)

    def pay(
        self,
        plan: Plan,
        request_id: str,
        who: str,
        document: dict[str, Any],
        unpaid: Callable[[], dict[str, Any] | None],
    ) -> dict[str, Any] | None:
        """Lock, check both trees, update, write the ledger row and what it owes; a request pays once.

        unpaid: looks, under the lock, for what answers the question without paying: returned, and nothing changes.
        DP001 if a cap would be passed, DP006 in a copy of the ledger, and for a repeated step that is another plan by
        now: nothing changes.
        """
        policy = plan.request.policy
        accounts = self.payments.accounts(policy.dataset.name, who)
        trees = accounts.lock(plan.scope)
        check_not_frozen(self._execute, policy.dataset.name)
        before = self.charged(request_id)
        if before is not None:  # a repeated step: the first one may have committed while this waited
            check_paid(plan, before)
            return None
        if (instead := unpaid()) is not None:
            return instead
        caps = self.payments.caps(policy, who)
        amount = self.payments.put(accounts, trees, policy, who, caps, plan.scope, plan.charges, plan.charge_text())
        self.payments.enter(
            policy,
            who,
            kind="charge",
            call=plan.request.call,
            mechanism=plan.mechanism,
            charges=plan.charges,
            amount=amount,
            scope=accounts.entered(plan.scope),
            document=document,
            request_id=request_id,
        )
        self.entitlements.owe(plan, request_id)
        return None

    def give_back(self, plan: Plan, request_id: str, who: str, unused: Sequence[Charge]) -> None:
        """Take back what was reserved and, as a released bit says, is not needed (composition.md §4, §11).

        In the transaction that records the release: both are seen, or neither. The ledger row of kind 'return', which
        names the charge, comes first; both trees are lowered by exactly what the charge put on them, the asker's of the
        period that paid.
        """
        paid = self._execute(
            "SELECT scope ->> 'period' AS period FROM dp.ledger WHERE request_id = $1", ["uuid"], [request_id]
        )
        policy = plan.request.policy
        accounts = Accounts(self._execute, policy.dataset.name, who, paid[0]["period"] or LIFE)
        trees = accounts.lock(plan.scope)
        check_not_frozen(self._execute, policy.dataset.name)
        caps = self.payments.caps(policy, who)
        self.payments.enter(
            policy,
            who,
            kind="return",
            call=plan.request.call,
            mechanism=plan.mechanism,
            charges=unused,
            amount=-caps[0].amount(unused),
            scope=accounts.entered(plan.scope),
            document={"of": request_id},
        )
        self.payments.take_back(accounts, trees, who, caps, plan.scope, unused)
