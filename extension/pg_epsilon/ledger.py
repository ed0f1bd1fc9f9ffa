"""Accounts as rows: which are locked, read and written for a charge (composition.md §3.1, §3.6).

Every charge of a dataset first locks the root of the dataset's tree, then the root of the asker's allotment: one order,
so charges never deadlock, and none is ever checked against a total that another is about to change.

An allotment that renews has a tree of accounts for every period (composition.md §3.6). Nothing is reset, and a return
goes to the period that paid, which the scope of the charge's ledger row names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pg_epsilon.accounting.filters import Leaves, Node, Relation, Root, Scope, Spent, Tree

Execute = Callable[[str, Sequence[str], Sequence[Any]], list[dict[str, Any]]]

LIFE = "-infinity"  # the period of the dataset's own tree, and of an allotment that does not renew
_COLUMNS = (
    "role::text, node, relation_key, leaf_key, spent_epsilon::text, spent_delta::text, spent_rdp::text[] AS spent_rdp"
)
# The dataset's own tree and, of the asker's, that of the period.
_TREES = "(role = '' OR role = $2 AND period = $3)"


class Accounts:
    """The two account trees that one charge of one analyst concerns."""

    def __init__(self, execute: Execute, dataset: str, who: str, period: str = LIFE) -> None:
        self._execute = execute
        self._dataset = dataset
        self._who = who
        self._period = period

    def lock(self, scope: Scope) -> dict[str, Tree]:
        """Lock both roots (making them if need be) and read what the scope concerns, as committed under the lock."""
        if len(self._locked()) < 2:
            self._execute(
                "INSERT INTO dp.account (dataset, role, period, node) SELECT $1, r, p, 'root'"
                " FROM (SELECT ''::name, '-infinity'::timestamptz UNION SELECT $2, $3) t(r, p) WHERE NOT EXISTS"
                " (SELECT FROM dp.account a WHERE a.dataset = $1 AND a.role = r AND a.period = p AND a.node = 'root')"
                " ORDER BY r ON CONFLICT DO NOTHING",
                ["text", "name", "timestamptz"],
                [self._dataset, self._who, self._period],
            )
            self._locked()
        return self.load(scope)

    def _locked(self) -> list[dict[str, Any]]:
        return self._execute(
            f"SELECT 1 FROM dp.account WHERE dataset = $1 AND {_TREES} AND node = 'root' ORDER BY role FOR UPDATE",
            ["text", "name", "timestamptz"],
            [self._dataset, self._who, self._period],
        )

    def load(self, scope: Scope) -> dict[str, Tree]:
        """Read the accounts at, above and below the scope, by tree ('' is the dataset's)."""
        relation = None if isinstance(scope, Root) else scope.relation
        leaves = sorted(scope.leaves) if isinstance(scope, Leaves) else None
        found = self._execute(
            f"SELECT {_COLUMNS} FROM dp.account WHERE dataset = $1 AND {_TREES} AND (node = 'root'"
            " OR $4::text IS NULL OR (relation_key = $4 AND"
            " (node = 'relation' OR $5::text[] IS NULL OR leaf_key = ANY ($5))))",
            ["text", "name", "timestamptz", "text", "text[]"],
            [self._dataset, self._who, self._period, relation, leaves],
        )
        spent: dict[str, dict[Node, Spent]] = {"": {}, self._who: {}}
        for row in found:
            spent[row["role"]][_node(row)] = _spent(row)
        return {role: Tree().with_updates(nodes) for role, nodes in spent.items()}

    def store(self, updates: Mapping[str, Mapping[Node, Spent]]) -> None:
        """Write the new totals of the paying accounts, by tree: one statement, since others wait for the roots."""
        each = [(role, node, spent) for role, totals in updates.items() for node, spent in totals.items()]
        self._execute(
            "INSERT INTO dp.account"
            " (dataset, role, period, node, relation_key, leaf_key, spent_epsilon, spent_delta, spent_rdp)"
            " SELECT $1, u.role, u.period, u.node, u.relation, u.leaf, u.epsilon, u.delta, u.rdp::numeric[]"
            " FROM unnest($2, $3, $4, $5, $6, $7, $8, $9) AS u(role, period, node, relation, leaf, epsilon, delta, rdp)"
            " ON CONFLICT ON CONSTRAINT account_pkey DO UPDATE SET"
            " spent_epsilon = EXCLUDED.spent_epsilon, spent_delta = EXCLUDED.spent_delta,"
            " spent_rdp = EXCLUDED.spent_rdp",
            ["text", "name[]", "timestamptz[]", "text[]", "text[]", "text[]", "numeric[]", "numeric[]", "text[]"],
            [
                self._dataset,
                [role for role, _, _ in each],
                [self._period if role else LIFE for role, _, _ in each],
                [("root", "relation", "leaf")[len(node)] for _, node, _ in each],
                [node[0] if node else "" for _, node, _ in each],
                [node[1] if len(node) == 2 else "" for _, node, _ in each],
                [spent.epsilon for _, _, spent in each],
                [spent.delta for _, _, spent in each],
                [f"{{{','.join(str(r) for r in spent.rdp)}}}" if spent.rdp else None for _, _, spent in each],
            ],
        )

    def entered(self, scope: Scope) -> dict[str, Any]:
        """Where a charge goes, as its ledger row says it: with the period of an allotment that renews."""
        document = scope_to_json(scope)
        return document if self._period == LIFE else {**document, "period": self._period}


def _node(row: Mapping[str, Any]) -> Node:
    if row["node"] == "root":
        return ()
    return (row["relation_key"],) if row["node"] == "relation" else (row["relation_key"], row["leaf_key"])


def _spent(row: Mapping[str, Any]) -> Spent:
    rdp = tuple(Decimal(v) for v in row["spent_rdp"] or ())
    return Spent(Decimal(row["spent_epsilon"]), Decimal(row["spent_delta"]), rdp)


def scope_to_json(scope: Scope) -> dict[str, Any]:
    """The ledger's form of which accounts a charge concerns."""
    if isinstance(scope, Root):
        return {"node": "root"}
    if isinstance(scope, Relation):
        return {"node": "relation", "relation": scope.relation}
    return {"node": "leaf", "relation": scope.relation, "leaves": sorted(scope.leaves)}
