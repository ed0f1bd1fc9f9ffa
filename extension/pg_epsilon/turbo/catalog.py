"""Turbo's views and partitions in schema dp: what is read and written, as SQL through a function it is given."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pg_epsilon.errors import SHAPE, UNDECLARED, DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.query.attributes import Attribute, attribute, check_size, index_sql
from pg_epsilon.query.literals import identifier, quote
from pg_epsilon.query.partition import Cell, number_of
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.source import table
from pg_epsilon.turbo.bins import Domain


@dataclass(frozen=True)
class Part:
    """A partition that was sealed; public. scale: ñ. The whole relation, of a view without partitions, is part 0.

    counted: its counts are there, unlike in a restored copy, where only stored answers are served. removed: since when
    its rows are gone by dp.retain, and kept: whether the counts of its seal stayed.
    """

    part: int
    leaf_key: str | None
    lower: str | None
    upper: str | None
    scale: int
    sealed: bool
    data_version: int
    as_of: str
    counted: bool = True
    removed: str | None = None
    kept: bool | None = None


@dataclass(frozen=True)
class View:
    """A relation that Turbo is enabled for, its bins as declared now; public."""

    view: int
    attributes: tuple[Attribute, ...]
    alpha: Decimal
    beta: Decimal
    partitioned: bool
    scale: Decimal | None
    settings: Mapping[str, Any]
    parts: Mapping[int, Part]

    @property
    def domain(self) -> Domain:
        return Domain(tuple(len(one.keys) for one in self.attributes))

    @property
    def lost(self) -> list[Part]:
        """Partitions whose rows were removed and whose counts were kept, but not in this copy: no dump has them."""
        return [p for p in self.parts.values() if p.sealed and p.removed is not None and p.kept and not p.counted]


def attributes_of(policy: Policy, names: Sequence[str]) -> tuple[Attribute, ...]:
    """The bins of a relation's columns. DP004 for a column that is not declared, as `attribute` otherwise."""
    found = []
    for name in names:
        column = policy.relation.columns.get(name)
        if column is None or column.policy is None:
            raise DPError(
                UNDECLARED,
                f"column {name} of {policy.relation.qualified} is not declared, or not published",
                f"CALL dp.describe_column({quote(policy.relation.qualified)}, {quote(name)}, ...) and dp.publish it.",
            )
        found.append(attribute(column, policy.relation.qualified))
    check_size(found)
    return tuple(found)


def digest_of(attributes: Sequence[Attribute]) -> str:
    """What the bins mean: equal as long as every row is in the same bin, and every bin has the same values.

    A column's name is no part of it: policy follows a renamed column.
    """
    facts = [[one.bin_sql.replace(f"r.{identifier(one.name)}", "r.x"), one.keys] for one in attributes]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


class TurboCatalog:
    """Views and their partitions. Everything here is public but what `fill` moves inside the database."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._bins: dict[tuple[int, str], tuple[Attribute, ...] | None] = {}

    def view(self, policy: Policy, *, lock: bool = False) -> View | None:
        """The relation's view, None if there is none whose bins are still declared as they were.

        lock: until the transaction ends, nobody else answers from it or moves its partitions (turbo.md §11.3).
        """
        found = self._execute(
            "SELECT view, attributes::text[] AS attributes, digest, alpha::text, beta::text, partitioned,"
            " scale::text, settings::text FROM dp.turbo_view WHERE relation = $1::oid"
            + (" FOR UPDATE" if lock else ""),
            ["bigint"],
            [policy.relation.oid],
        )
        if not found:
            return None
        row = found[0]
        attributes = self._bins_of(policy, row)
        if attributes is None:
            return None
        return View(
            row["view"],
            attributes,
            Decimal(row["alpha"]),
            Decimal(row["beta"]),
            row["partitioned"],
            Decimal(row["scale"]) if row["scale"] is not None else None,
            json.loads(row["settings"]),
            self.parts(row["view"]),
        )

    def _bins_of(self, policy: Policy, row: Mapping[str, Any]) -> tuple[Attribute, ...] | None:
        key = (row["view"], policy.digest)
        if key not in self._bins:
            try:
                found: tuple[Attribute, ...] | None = attributes_of(policy, row["attributes"])
            except DPError:
                found = None
            if found is not None and digest_of(found) != row["digest"]:
                found = None
            while len(self._bins) >= 64:
                self._bins.pop(next(iter(self._bins)))
            self._bins[key] = found
        return self._bins[key]

    def parts(self, view: int) -> dict[int, Part]:
        """The view's partitions that are sealed, or were."""
        found = self._execute(
            "SELECT p.part, p.leaf_key, p.lower, p.upper, floor(p.scale)::text AS scale,"
            " p.sealed, EXISTS (SELECT FROM dp.turbo_leaf_counts c WHERE c.view = p.view AND c.part = p.part)"
            " AS counted, p.data_version, p.as_of::timestamptz(0)::text AS as_of,"
            " p.rows_removed::timestamptz(0)::text AS removed, p.counts_kept AS kept"
            " FROM dp.turbo_partition p WHERE p.view = $1",
            ["bigint"],
            [view],
        )
        return {row["part"]: Part(**{**row, "scale": int(row["scale"])}) for row in found}

    def uncounted(self, view: int) -> list[int]:
        """Partitions that are sealed, but whose counts a restored copy lacks: they are in no dump.

        Not those whose rows were removed and whose counts were kept: rows that are there now would say something else.
        """
        found = self._execute(
            "SELECT part FROM dp.turbo_partition p WHERE view = $1 AND sealed AND counts_kept IS NOT TRUE"
            " AND NOT EXISTS (SELECT FROM dp.turbo_leaf_counts c WHERE c.view = p.view AND c.part = p.part)"
            " ORDER BY part",
            ["bigint"],
            [view],
        )
        return [row["part"] for row in found]

    def enabled(self) -> list[tuple[str, str]]:
        """Schema and name of every relation that Turbo is enabled for."""
        found = self._execute(
            "SELECT n.nspname::text AS schema, c.relname::text AS name FROM dp.turbo_view v"
            " JOIN pg_class c ON c.oid = v.relation JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY 1, 2",
            [],
            [],
        )
        return [(row["schema"], row["name"]) for row in found]

    def create(self, policy: Policy, attributes: Sequence[Attribute], row: Mapping[str, Any]) -> int:
        """A new view; 42710 if the relation has one."""
        if self._execute("SELECT 1 FROM dp.turbo_view WHERE relation = $1::oid", ["bigint"], [policy.relation.oid]):
            raise DPError(
                "42710",
                f"Turbo is enabled for {policy.relation.qualified} already",
                "CALL dp.disable_turbo(relation) first: what it learned and cached goes, what was spent stays spent.",
            )
        return int(
            self._execute(
                "INSERT INTO dp.turbo_view (relation, attributes, sizes, digest, alpha, beta, partitioned, scale,"
                " settings) VALUES ($1::oid, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING view",
                ["bigint", "name[]", "integer[]", "text", "numeric", "numeric", "boolean", "numeric", "jsonb"],
                [
                    policy.relation.oid,
                    [one.name for one in attributes],
                    [len(one.keys) for one in attributes],
                    digest_of(attributes),
                    row["alpha"],
                    row["beta"],
                    row["partitioned"],
                    row["scale"],
                    json.dumps(row["settings"]),
                ],
            )[0]["view"]
        )

    def put_part(self, view: int, part: Part, scale: Decimal) -> None:
        """A partition sealed for the first time, or sealed again after it was reopened: its data version moves on."""
        self._execute(
            "INSERT INTO dp.turbo_partition AS p (view, part, leaf_key, lower, upper, scale, sealed)"
            " VALUES ($1, $2, $3, $4, $5, $6, true) ON CONFLICT ON CONSTRAINT turbo_partition_pkey DO UPDATE"
            " SET sealed = true, scale = EXCLUDED.scale, data_version = p.data_version + 1, as_of = clock_timestamp()",
            ["bigint", "integer", "text", "text", "text", "numeric"],
            [view, part.part, part.leaf_key, part.lower, part.upper, scale],
        )
        self.close_epochs(view, part.part, part.part)

    def reopen(self, view: int, part: int) -> None:
        """Sealed no more: no answers from it, its counts are forgotten, its data version moves on."""
        self._execute(
            "UPDATE dp.turbo_partition SET sealed = false, data_version = data_version + 1, as_of = clock_timestamp(),"
            " rows_removed = NULL, counts_kept = NULL WHERE view = $1 AND part = $2",
            ["bigint", "integer"],
            [view, part],
        )
        self._execute(
            "DELETE FROM dp.turbo_leaf_counts WHERE view = $1 AND part = $2", ["bigint", "integer"], [view, part]
        )
        self.close_epochs(view, part, part)

    def keep_counts(self, view: int, end: int) -> None:
        """The rows of sealed partitions before number `end` are removed: their counts stay, and all that was cached."""
        self._execute(
            "UPDATE dp.turbo_partition SET rows_removed = statement_timestamp(), counts_kept = true"
            " WHERE view = $1 AND part < $2 AND sealed AND rows_removed IS NULL",
            ["bigint", "integer"],
            [view, end],
        )

    def empty_counts(self, view: int, end: int, bins: int) -> None:
        """The same, and none is counted any more: every count is 0, which reads no row; what was cached is served no
        more, epochs close, accounts stay."""
        emptied = self._execute(
            "UPDATE dp.turbo_partition SET rows_removed = COALESCE(rows_removed, statement_timestamp()),"
            " counts_kept = false, data_version = data_version + 1, as_of = clock_timestamp()"
            " WHERE view = $1 AND part < $2 AND sealed AND counts_kept IS NOT FALSE RETURNING part",
            ["bigint", "integer"],
            [view, end],
        )
        self._execute(
            "INSERT INTO dp.turbo_leaf_counts (view, part, counts)"
            " SELECT $1, p, decode(repeat('00000000', $3), 'hex') FROM unnest($2) AS p"
            " ON CONFLICT ON CONSTRAINT turbo_leaf_counts_pkey DO UPDATE SET counts = EXCLUDED.counts",
            ["bigint", "integer[]", "integer"],
            [view, [row["part"] for row in emptied], bins],
        )
        if emptied:
            self.close_epochs(view, 0, end - 1)

    def raise_horizon(self, view: int, policy: Policy, place: Cell) -> None:
        """What writers' triggers look at first: nothing was ever sealed at or above it. Lists have none."""
        if place.upper is None:
            return
        known = self._execute("SELECT sealed_until FROM dp.turbo_view WHERE view = $1", ["bigint"], [view])
        until = known[0]["sealed_until"]
        at = None if until is None else number_of(policy, until)
        if until is None or (at is not None and at <= place.number):
            self._execute(
                "UPDATE dp.turbo_view SET sealed_until = $2 WHERE view = $1", ["bigint", "text"], [view, place.upper]
            )

    def close_epochs(self, view: int, first: int, last: int) -> None:
        """Every sparse vector that reads one of these partitions is UNINIT (§6.12): its threshold is erased."""
        for row in self._execute("SELECT run FROM dp.turbo_sv WHERE view = $1 FOR UPDATE", ["bigint"], [view]):
            if any(low <= last and first <= high for low, high in _spans(row["run"])):
                self._execute(
                    "UPDATE dp.turbo_sv SET threshold = NULL WHERE view = $1 AND run = $2",
                    ["bigint", "text"],
                    [view, row["run"]],
                )

    def fill(self, view: int, part: int, policy: Policy, attributes: Sequence[Attribute], where: str | None) -> None:
        """Count a partition's rows into its bins, inside the database (composition.md §14.7).

        One statement, so one snapshot; a row outside the declarations is in no bin. where: the partition, literally.
        """
        bins = check_size(attributes)
        counted = f"SELECT {index_sql(attributes)} AS bin, count(*) AS n FROM {_table(policy)} AS r"
        counted += f" WHERE {where}" if where else ""
        self._execute(
            "INSERT INTO dp.turbo_leaf_counts (view, part, counts) SELECT $1, $2, string_agg(int4send("
            f"least(coalesce(c.n, 0), 2147483647)::integer), ''::bytea ORDER BY g.bin)"
            f" FROM generate_series(0::bigint, {bins - 1}) AS g(bin) LEFT JOIN ({counted} GROUP BY 1) AS c USING (bin)"
            " ON CONFLICT ON CONSTRAINT turbo_leaf_counts_pkey DO UPDATE SET counts = EXCLUDED.counts",
            ["bigint", "integer"],
            [view, part],
        )

    def rows(self, policy: Policy, where: str | None) -> int:
        """How many rows a partition has: exact and secret, for the noise that buys its scale."""
        sql = f"SELECT count(*) AS n FROM {_table(policy)} AS r" + (f" WHERE {where}" if where else "")
        return int(self._execute(sql, [], [])[0]["n"])


def _spans(run: str) -> list[tuple[int, int]]:
    """The partitions of a run's nodes: "tree:first-last,…"."""
    spans = [node.partition(":")[2].partition("-") for node in run.split(",")]
    return [(int(first), int(last)) for first, _, last in spans]


def _table(policy: Policy) -> str:
    return table(policy.relation.schema, policy.relation.name)


def check_row_units(policy: Policy) -> None:
    """DP003 for a dataset with user units: their counts need an enforced cap of rows (composition.md §2.2, §5.4)."""
    if policy.has_user_units:
        raise DPError(
            SHAPE,
            "Turbo answers relations of datasets whose unit is a row",
            "dp_count, dp_sum and dp_avg answer this relation directly.",
        )
