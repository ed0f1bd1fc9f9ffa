"""What an owner does to a Turbo view: enable, seal, reopen, refresh. Functions of declarations, clock and his words.

Counts are moved inside the database and never leave it; the one draw here buys a scale, after it was paid (§1.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.catalog import Catalog
from pg_epsilon.errors import OUT_OF_RANGE, PRIVILEGE, DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.noise import NoiseSource
from pg_epsilon.query.domain import text_sql
from pg_epsilon.query.literals import quote
from pg_epsilon.query.partition import Cell, cell, number_of
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.schema import written
from pg_epsilon.query.types import Kind, type_of
from pg_epsilon.refusals import PLANNER
from pg_epsilon.turbo import nodes
from pg_epsilon.turbo.bins import Domain
from pg_epsilon.turbo.books import Payment
from pg_epsilon.turbo.catalog import Part, TurboCatalog, View, attributes_of, check_row_units
from pg_epsilon.turbo.designs import Outlook
from pg_epsilon.turbo.payer import Payer
from pg_epsilon.turbo.retention import boundary, check_kept
from pg_epsilon.turbo.settings import check, view_of
from pg_epsilon.turbo.sql_books import SqlBooks, Warm
from pg_epsilon.turbo.steps import heuristic_of

MOST_SEALED = 1000  # partitions that one call seals


class Owner:
    """The calls behind dp.enable_turbo and its kin; who may call them is checked in SQL."""

    def __init__(
        self,
        catalog: Catalog,
        views: TurboCatalog,
        execute: Execute,
        noise: Callable[[], NoiseSource],
        outlook: Callable[[Policy, View], Outlook],
    ) -> None:
        self._catalog = catalog
        self._views = views
        self._execute = execute
        self._noise = noise
        self._outlook = outlook

    def enable(
        self,
        schema: str,
        name: str,
        attributes: Sequence[str],
        alpha: str,
        beta: str,
        partition_by: str | None,
        scale: str | None,
        scale_epsilon: str | None,
        settings: Mapping[str, Any],
    ) -> int:
        """A view; one without partitions is counted into its bins now. The view's number."""
        policy = self._protected(schema, name)
        check_row_units(policy)
        check(settings)
        _check_partitions(policy, partition_by, attributes)
        if not attributes or len(set(attributes)) != len(attributes):
            raise DPError(
                OUT_OF_RANGE, "attributes names different columns, one at least", "attributes => '{sex,age,city}'"
            )
        if settings.get("noise") == "gaussian" and policy.dataset.accountant == "pure":
            raise DPError(
                OUT_OF_RANGE,
                "Gaussian noise has no price on a dataset whose accountant is 'pure'",
                "Leave noise out, or protect the relation in a dataset whose accountant is 'renyi'.",
            )
        bins = attributes_of(policy, attributes)
        declared = _declared(policy, partition_by, scale, scale_epsilon)
        domain = Domain(tuple(len(one.keys) for one in bins))
        view_of(domain, Decimal(alpha), Decimal(beta), settings, partitioned=partition_by is not None)
        number = self._views.create(
            policy,
            bins,
            {
                "alpha": Decimal(alpha),
                "beta": Decimal(beta),
                "partitioned": partition_by is not None,
                "scale": declared,
                "settings": {**settings, **({"scale_epsilon": scale_epsilon} if declared is None else {})},
            },
        )
        view = self._view(policy)
        self._outlook(policy, view)  # refused now, not at the first question
        if partition_by is None:
            self._seal(policy, view, Part(0, None, None, None, 1, True, 1, ""), None, declared)
        return number

    def refresh(self, schema: str, name: str) -> int:
        """Read counts anew: of a view without partitions, and of sealed partitions that lack them (a restored copy)."""
        policy = self._catalog.policy(schema, name)
        view = self._views.view(policy, lock=True)
        if view is None:
            return 0
        todo = self._views.uncounted(view.view) if view.partitioned else [0]
        for number in todo:
            part = view.parts[number]
            self._views.put_part(view.view, part, Decimal(part.scale))
            where = cell(policy, number).sql if view.partitioned else None
            self._views.fill(view.view, number, policy, view.attributes, where)
        return len(todo)

    def problems(self) -> list[dict[str, str]]:
        """Why a view answers nothing, for dp.check()."""
        found = []
        for schema, name in self._views.enabled():
            try:
                policy = self._catalog.policy(schema, name)
            except DPError:  # dp.check() says what is wrong with the relation itself
                continue
            view, relation = self._views.view(policy), policy.relation.qualified
            if view is None:
                problem, hint = (
                    "its columns were declared anew",
                    f"CALL dp.disable_turbo({quote(relation)}), then enable it",
                )
            elif self._views.uncounted(view.view):
                problem, hint = "its counts are missing, as in a restored copy", f"CALL dp.refresh({quote(relation)})"
            elif view.lost:
                upper = quote(max(view.lost, key=lambda part: part.part).upper or "")
                problem = "counts that dp.retain kept are missing, as in a restored copy, and their rows were removed"
                hint = (
                    f"CALL dp.retain({quote(relation)}, {upper}, keep_counts => false) counts none of them from now on"
                )
            else:
                continue
            found.append({"object": relation, "problem": f"Turbo does not answer from it: {problem}", "hint": hint})
        return found

    def seal(self, schema: str, name: str, partition: str, scale: str | None) -> str:
        """Seal the partition that a value of the key is in. Its leaf account's name."""
        policy, view = self._partitioned(schema, name)
        number = number_of(policy, partition)
        if number is None:
            raise DPError(OUT_OF_RANGE, "no partition of the declared grid holds this value", _inside(policy))
        return self._seal_cell(policy, view, cell(policy, number), Decimal(scale) if scale is not None else None)

    def seal_until(self, schema: str, name: str, until: str) -> int:
        """Seal every partition that ends at `until`, a value of the key, or before: how many were sealed now."""
        policy, view = self._partitioned(schema, name)
        todo = _unsealed(policy, view, until)
        for number in todo:
            self._seal_cell(policy, view, cell(policy, number), None)
        return len(todo)

    def due(self, schema: str, name: str, until: str) -> int:
        """How many partitions `seal_until` would seal. Holds no lock: the one on the table comes first."""
        return len(_unsealed(*self._partitioned(schema, name, lock=False), until))

    def reopen(self, schema: str, name: str, partition: str) -> str:
        """Take a partition's seal off: what was cached of it is served no more, its epochs close, its account stays."""
        policy, view = self._partitioned(schema, name)
        number = number_of(policy, partition)
        if number is None or number not in view.parts or not view.parts[number].sealed:
            raise DPError(
                OUT_OF_RANGE, "no sealed partition holds this value", "SELECT relation, partition, sealed FROM dp.turbo"
            )
        self._views.reopen(view.view, number)
        return cell(policy, number).leaf

    def boundary(self, schema: str, name: str, until: str, keep_counts: bool) -> dict[str, Any]:
        """Where `retain` would remove rows up to, a value of the key. DP005 if it would refuse. Holds no lock."""
        policy, view = self._partitioned(schema, name, lock=False)
        end = boundary(policy, until)
        if keep_counts:
            check_kept(policy, view, end)
        return {"until": end.value, "exact": end.exact, "asked": until}

    def retain(self, schema: str, name: str, until: str, keep_counts: bool) -> int:
        """Rows before `until`, where a partition ends, were removed: their counts stay as their seal made them, or are
        of no rows from now on. Nothing is paid, and nothing given back. How many partitions end there, or before."""
        policy, view = self._partitioned(schema, name)
        end = boundary(policy, until)
        if keep_counts:
            check_kept(policy, view, end)
            self._views.keep_counts(view.view, end.number)
        else:
            self._views.empty_counts(view.view, end.number, view.domain.bins)
        return end.number

    def _protected(self, schema: str, name: str) -> Policy:
        """The policy of a protected relation, in an owner's words if it is none."""
        try:
            return self._catalog.policy(schema, name)
        except DPError as error:
            if error.sqlstate != PRIVILEGE:
                raise
            raise DPError(
                OUT_OF_RANGE,
                f"{written(schema, name)} is not a protected relation that is published",
                "CALL dp.protect(relation, dataset, ...), declare its columns and dp.publish it first.",
            ) from None

    def _view(self, policy: Policy, *, lock: bool = True) -> View:
        view = self._views.view(policy, lock=lock)
        if view is None:
            raise DPError(
                OUT_OF_RANGE,
                f"Turbo is not enabled for {policy.relation.qualified} with its columns as they are declared now",
                "CALL dp.disable_turbo(relation) if they were declared anew, then dp.enable_turbo(relation, ...).",
            )
        return view

    def _partitioned(self, schema: str, name: str, *, lock: bool = True) -> tuple[Policy, View]:
        policy = self._catalog.policy(schema, name)
        view = self._view(policy, lock=lock)
        if not view.partitioned or policy.grid is None:
            raise DPError(
                OUT_OF_RANGE,
                f"Turbo was enabled for {policy.relation.qualified} without partitions",
                "CALL dp.refresh(relation) counts it anew; for partitions dp.disable_turbo, then dp.enable_turbo(...,"
                " partition_by => key, partition_key_is_public => true, scale => rows of a partition).",
            )
        return policy, view

    def _seal_cell(self, policy: Policy, view: View, place: Cell, scale: Decimal | None) -> str:
        known = view.parts.get(place.number)
        if known is not None and known.sealed:
            raise DPError(OUT_OF_RANGE, f"partition {place.leaf} is sealed already", "CALL dp.reopen_partition first.")
        part = Part(place.number, place.leaf, place.lower, place.upper, 1, True, 1, "")
        if scale is None and known is not None:
            scale = Decimal(known.scale)
        self._seal(policy, view, part, place.sql, scale if scale is not None else view.scale)
        self._views.raise_horizon(view.view, policy, place)
        self._start_nodes(policy, place.number)
        return place.leaf

    def _start_nodes(self, policy: Policy, number: int) -> None:
        """Nodes that the partition completes copy what is known now (warm start, §6.13): post-processing."""
        view = self._view(policy)
        how = view_of(view.domain, view.alpha, view.beta, view.settings, partitioned=True)
        payer = Payer(self._catalog, self._execute, policy, PLANNER, view.parts, call="dp.seal_partition")
        nodes.sealed(number, how, SqlBooks(self._execute, view, payer, heuristic_of(how), Warm()))

    def _seal(self, policy: Policy, view: View, part: Part, where: str | None, scale: Decimal | None) -> None:
        if scale is None:
            scale = self._buy_scale(policy, view, part, where)
        if scale < 1 or not scale.is_finite():
            raise DPError(OUT_OF_RANGE, "a scale is at least 1", "It is the number of rows to expect.")
        self._views.put_part(view.view, part, scale)
        self._views.fill(view.view, part.part, policy, view.attributes, where)

    def _buy_scale(self, policy: Policy, view: View, part: Part, where: str | None) -> Decimal:
        """max(1, n + DLap(epsilon)): paid by dp_planner, once for the partition (composition.md §1.4)."""
        self._catalog.check_declared(policy)
        epsilon = Decimal(view.settings["scale_epsilon"])
        payer = Payer(
            self._catalog, self._execute, policy, PLANNER, {**view.parts, part.part: part}, call="dp.seal_partition"
        )
        payer.pay([Payment(part.part, part.part, Charge.of("laplace", epsilon=epsilon), "scale")])
        exact = self._views.rows(policy, where)
        (noisy,) = self._noise().laplace([exact], l1_sensitivity=1, epsilon=epsilon, label="turbo scale")
        return Decimal(max(1, noisy))


def _unsealed(policy: Policy, view: View, until: str) -> list[int]:
    """Partitions that end at `until` or before, and were never sealed: a reopened one its owner seals himself."""
    if policy.grid is None or policy.partition_by is None or "list" in policy.grid:
        raise DPError(OUT_OF_RANGE, "partitions of a list have no age", "CALL dp.seal_partition(relation, value)")
    last = number_of(policy, until)
    todo = [number for number in range(last or 0) if number not in view.parts]
    if len(todo) > MOST_SEALED:
        raise DPError(
            OUT_OF_RANGE,
            f"{len(todo)} partitions since the origin of the grid, more than {MOST_SEALED} for one call",
            "Seal up to an earlier value first.",
        )
    return todo


def _check_partitions(policy: Policy, partition_by: str | None, attributes: Sequence[str]) -> None:
    if partition_by is None:
        return
    if policy.partition_by != partition_by or policy.grid is None:
        raise DPError(
            OUT_OF_RANGE,
            f"{policy.relation.qualified} is not partitioned by {partition_by}",
            "A view's partitions are those of its leaf accounts: dp.protect(..., partition_by => ..., grid => ...).",
        )
    type_ = type_of(policy.relation.columns[partition_by])
    if "list" in policy.grid and (type_.kind is Kind.FLOAT or text_sql(type_, "x") is None):
        # '1 day' and '24:00:00', 0 and -0: a row would be in both partitions, at the cost of one in each
        raise DPError(
            OUT_OF_RANGE,
            f"equal values of {partition_by} can be written in several ways, so a row could be in two partitions",
            "Partition by an integer, a date, a text or an enum: in a generated column, if need be.",
        )
    if partition_by in attributes:
        raise DPError(OUT_OF_RANGE, "the partition key is no attribute", "Windows of partitions are asked for by it.")


def _declared(policy: Policy, partition_by: str | None, scale: str | None, epsilon: str | None) -> Decimal | None:
    """The declared scale of a partition; None if it is bought. DP005 for neither, or both."""
    if scale is not None and epsilon is not None:
        raise DPError(OUT_OF_RANGE, "a scale is declared or bought", "Give scale, or scale_epsilon.")
    if epsilon is not None:
        Charge.of("laplace", epsilon=Decimal(epsilon))
        return None
    if scale is not None:
        if not Decimal(scale).is_finite() or Decimal(scale) < 1:
            raise DPError(OUT_OF_RANGE, "a scale is at least 1", "It is the number of rows to expect.")
        return Decimal(scale)
    if policy.scale is not None and partition_by is None:
        return policy.scale
    of = " of a partition" if partition_by is not None else ""
    raise DPError(
        OUT_OF_RANGE,
        f"alpha is a fraction of the public number of rows{of}, and none is declared",
        f"scale => rows to expect{' in each partition' if of else ''}, or scale_epsilon => 0.01 to buy it with noise.",
    )


def _inside(policy: Policy) -> str:
    """Where the declared grid is."""
    grid = policy.grid or {}
    if "list" in grid:
        return f"Its values: {', '.join(grid['list'][:20])}{', ...' if len(grid['list']) > 20 else ''}."
    return f"It begins at {grid.get('origin')}."
