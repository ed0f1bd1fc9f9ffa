"""Checks of what an owner declares, and what is left of what he gave: public facts, through functions of SQL."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from pg_epsilon.accounting.curves import DEFAULT_ORDERS, checked_orders, renyi_cap
from pg_epsilon.catalog import Catalog
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.query import partition
from pg_epsilon.refusals import check_not_frozen


class Declared:
    """One method for each call of dp._engine that is no dry run. Errors: DP001, DP005, DP006."""

    def __init__(self, catalog: Catalog, execute: Execute) -> None:
        self._catalog = catalog
        self._execute = execute

    def renyi_orders(self, epsilon: str, delta_rdp: str, orders: Sequence[str] | None) -> list[str]:
        """The grid of a new Rényi dataset or allotment, checked. See dp._renyi_orders."""
        grid = checked_orders([Decimal(a) for a in orders]) if orders is not None else DEFAULT_ORDERS
        renyi_cap(Decimal(epsilon), Decimal(delta_rdp), grid)
        return [str(a) for a in grid]

    def check_grid(self, relation: str, dataset: str, partition_by: str | None, grid: Any) -> bool:
        """Refuse a partition grid that cannot be charged for. See dp._check_grid."""
        found = self._execute(
            "SELECT d.unit, format_type((dp._base_type(a.atttypid, a.atttypmod)).base, NULL) AS type"
            " FROM dp.dataset d, pg_attribute a WHERE d.name = $1 AND a.attrelid = $2::oid AND a.attname = $3",
            ["text", "regclass", "name"],
            [dataset, relation, partition_by],
        )
        if not found or grid is None:
            raise DPError(
                OUT_OF_RANGE,
                "partition_by names a column and goes together with grid",
                'partition_by => \'day\', grid => \'{"origin": "2024-01-01", "width": "7 days"}\'',
            )
        if found[0]["unit"] != "row":
            raise DPError(
                OUT_OF_RANGE,
                "partition accounts need a dataset whose unit is a row",
                "Leave partition_by and grid out.",
            )
        partition.check_grid(grid, found[0]["type"])
        return True

    def budget(self, dataset: str, who: str | None) -> dict[str, str]:
        """What is left of a dataset or of one role's allotment. See dp._budget_left."""
        left = self._catalog.payments.budget(dataset, who)
        return {"epsilon": str(left.epsilon), "delta": str(left.delta), "used": str(left.used)}

    def import_price(self, schema: str, name: str, epsilon: str, delta: str) -> dict[str, Any]:
        """What an outside release about a protected relation adds to the accounts. See dp._import_release."""
        policy = self._catalog.policy(schema, name)
        check_not_frozen(self._execute, policy.dataset.name)
        return self._catalog.payments.import_price(policy, Decimal(epsilon), Decimal(delta))
