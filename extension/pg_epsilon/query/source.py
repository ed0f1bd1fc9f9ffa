"""FROM and WHERE of a question, and what a privacy unit is in its rows (composition.md §1, §2): all public facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.query.classes import Classes, Instance, Node, generators
from pg_epsilon.query.extent import join_of, member
from pg_epsilon.query.extent import step as on_the_way
from pg_epsilon.query.literals import identifier
from pg_epsilon.query.policy import Dataset, Hop, Policy
from pg_epsilon.query.sizes import Join
from pg_epsilon.query.types import INT4, INT8, Item, Term, type_of

_INTEGERS = frozenset({INT4.name, INT8.name, "pg_catalog.int2"})


@dataclass(frozen=True)
class Source:
    """The result rows that a question is about; every alias in it is ours, every condition validated SQL.

    sql: what follows FROM. conditions: what follows WHERE, to be joined by AND; rows without a unit are excluded there
    (§1.3). unit: SQL of the one unit of a result row; None on row-unit datasets, where a row is its unit, and where a
    result row has several units, `units`. unit_columns: the columns, as SQL, that always equal `unit`. integer_units:
    whether keys of units are integers. fanout: in how many result rows one unit may have a part, by the declared rows
    per unit of each relation; None if one is undeclared. order: a total order of one unit's result rows, a function of
    those rows alone (§2.3). kappa: how many result rows of one unit an enforced cap may keep: the bound declared for a
    relation of which every result row has at most one row of each other; None if there is none. relations: the
    protected ones, that one first. shape: what is closed if the statement fails. join: what bounds its size.
    items: the protected occurrences; conjuncts: the operands of the top-level AND of all that is written of them.
    """

    sql: str
    conditions: tuple[str, ...]
    unit: str | None
    units: tuple[str, ...]
    unit_columns: frozenset[str]
    integer_units: bool
    fanout: int | None
    order: str
    kappa: int | None
    relations: tuple[Policy, ...]
    shape: str
    join: Join
    items: tuple[Item, ...] = ()
    conjuncts: tuple[Term, ...] = ()

    @property
    def dataset(self) -> Dataset:
        """The one dataset of all protected relations read."""
        return self.relations[0].dataset

    @property
    def has_user_units(self) -> bool:
        """Whether a unit may own several result rows."""
        return self.relations[0].has_user_units

    @property
    def where(self) -> str:
        """` WHERE …`, or nothing."""
        return f" WHERE {' AND '.join(f'({c})' for c in self.conditions)}" if self.conditions else ""


@dataclass(frozen=True)
class Occurrence:
    """A relation in FROM; policy None: a public table."""

    item: Item
    policy: Policy | None

    @property
    def alias(self) -> str:
        return self.item.sql_alias

    @property
    def table(self) -> str:
        return table(self.item.relation.schema, self.item.relation.name)


@dataclass(frozen=True)
class _Step:
    """A hop of a unit path as an occurrence of its own: `alias`.referenced = `source`.column."""

    alias: str
    source: str
    hop: Hop

    @property
    def table(self) -> str:
        return table(self.hop.schema or "", self.hop.name or "")


def build(occurrences: Sequence[Occurrence], conjuncts: Sequence[Term], conditions: Sequence[str]) -> Source:
    """The inner join of `occurrences` where all `conditions` hold; conjuncts: the conditions' top-level terms.

    Rows of one unit: the classes of columns that are equal in every result row, by the equalities among `conjuncts`,
    the foreign keys of unit paths, and unique keys. Errors: DP003 for what has no privacy statement (§1.2, §2.6).
    """
    protected = [o for o in occurrences if o.policy is not None]
    dataset = _one_dataset([o.policy for o in protected if o.policy is not None])
    steps, ends = _unit_paths(protected) if dataset.unit == "user" else ([], [])
    classes = _classes(occurrences, steps, conjuncts)
    _check_public(occurrences, protected, classes)
    bounds = {o.alias: o.policy.max_rows_per_unit if o.policy is not None else None for o in protected}
    chosen = generators(classes, [o.alias for o in protected], bounds)
    kept = [step for step in steps if classes.row(step.alias) == step.alias]
    joins = [
        f"{step.alias}.{identifier(step.hop.referenced or '')}"
        f" = {classes.row(step.source)}.{identifier(step.hop.column)}"
        for step in kept
    ]
    units = _units(ends, classes)
    one = len(units) == 1
    anchor = next(o for o in protected if o.alias == chosen[0])
    policies = {o.item.relation.qualified: o.policy for o in (anchor, *protected) if o.policy is not None}
    return Source(
        sql=", ".join(
            [f"{o.table} AS {o.alias}" for o in occurrences]
            + [f"{'ONLY ' if step.hop.only else ''}{step.table} AS {step.alias}" for step in kept]
        ),
        conditions=(*conditions, *joins, *(f"{unit} IS NOT NULL" for unit in units)),
        unit=next(iter(units)) if one else None,
        units=() if one else tuple(units),
        integer_units=_integers(protected),
        fanout=_fanout([bounds[o.alias] for o in protected]),
        unit_columns=_equal_to(ends[0], occurrences, classes) if one else frozenset(),
        order=_order([o for o in protected if o.alias in chosen]),
        kappa=anchor.policy.max_rows_per_unit if anchor.policy and one and len(chosen) == 1 else None,
        relations=tuple(policies.values()),
        shape=" ".join(sorted({_shape_name(o) for o in occurrences})),
        join=_join(occurrences, kept, conjuncts, classes),
        items=tuple(o.item for o in protected),
        conjuncts=tuple(conjuncts),
    )


def _join(
    occurrences: Sequence[Occurrence], steps: Sequence[_Step], conjuncts: Sequence[Term], classes: Classes
) -> Join:
    """What bounds the size of the join: the equalities that are written, as PostgreSQL has them."""
    nodes = _nodes(occurrences)
    members = [member(o.alias, o.item.relation, o.policy) for o in occurrences]
    members += [on_the_way(s.alias, f"{s.hop.schema}.{s.hop.name}", s.hop.referenced or "") for s in steps]
    written = [(nodes[term.equates[0]], nodes[term.equates[1]]) for term in conjuncts if term.equates is not None]
    ways = [((s.alias, s.hop.referenced or ""), (classes.row(s.source), s.hop.column)) for s in steps]
    constants = [nodes[term.test.column] for term in conjuncts if term.test is not None and _is_constant(term)]
    named = [frozenset(nodes[column][0] for column in term.columns if column in nodes) for term in conjuncts]
    return join_of(members, [*written, *ways], constants, named)


def _is_constant(term: Term) -> bool:
    return term.test is not None and term.test.operator == "=" and len(term.test.values) == 1


def _nodes(occurrences: Sequence[Occurrence]) -> dict[str, Node]:
    """The SQL of each column → its node."""
    return {
        f"{o.alias}.{identifier(column)}": (o.alias, column) for o in occurrences for column in o.item.relation.columns
    }


def _integers(protected: Sequence[Occurrence]) -> bool:
    """Whether all keys of units are of an integer type: by the first column of each way to them."""
    firsts = [
        o.policy.relation.columns.get(
            o.policy.unit_path[0].column if o.policy.unit_path else o.policy.unit_column or ""
        )
        for o in protected
        if o.policy is not None
    ]
    return all(column is not None and type_of(column).name in _INTEGERS for column in firsts)


def _fanout(rows: Sequence[int | None]) -> int | None:
    """In how many result rows a unit may have a part: through each occurrence, its rows there times those elsewhere."""
    product = 1
    for count in rows:
        if count is None:
            return None
        product *= count
    return len(rows) * product


def _one_dataset(policies: Sequence[Policy]) -> Dataset:
    if not policies:
        raise DPError(SHAPE, "no protected relation is read", "Ask about a relation that dp.published lists.")
    first = policies[0]
    for other in policies[1:]:
        if other.dataset.name != first.dataset.name:
            raise DPError(
                SHAPE,
                f"{first.relation.qualified} and {other.relation.qualified} belong to different datasets",
                "One question is paid by one dataset: ask two, or let the owner protect both in one dataset whose unit"
                " is a user.",
            )
    if first.dataset.unit == "row" and len(policies) > 1:
        raise DPError(
            SHAPE,
            "on a dataset whose unit is a row, a question reads one protected relation, once",
            "A joined row would belong to two units: let the owner protect both relations in a dataset whose unit is a"
            " user, or join public tables.",
        )
    return first.dataset


def _unit_paths(protected: Sequence[Occurrence]) -> tuple[list[_Step], list[Node]]:
    """(Every hop as an occurrence p1, p2, …, the columns that are the units of the protected occurrences)."""
    steps: list[_Step] = []
    ends: list[Node] = []
    for occurrence in protected:
        policy, alias = occurrence.policy, occurrence.alias
        if policy is None:
            continue
        for hop in policy.unit_path[:-1]:
            steps.append(_Step(f"p{len(steps) + 1}", alias, hop))
            alias = steps[-1].alias
        last = policy.unit_path[-1].column if policy.unit_path else policy.unit_column
        ends.append((alias, last or ""))
        ends += [(occurrence.alias, column) for column in policy.other_units]
    return steps, ends


def _classes(occurrences: Sequence[Occurrence], steps: Sequence[_Step], conjuncts: Sequence[Term]) -> Classes:
    instances = [Instance(o.alias, o.table, o.item.relation.unique) for o in occurrences]
    instances += [Instance(step.alias, step.table, ((step.hop.referenced or "",),)) for step in steps]
    classes = Classes(instances)
    nodes = _nodes(occurrences)
    for term in conjuncts:
        if term.equates is not None:
            classes.union(nodes[term.equates[0]], nodes[term.equates[1]])
        if term.test is not None and _is_constant(term):
            classes.fix(nodes[term.test.column])
    for step in steps:
        if step.hop.same:
            classes.union((step.source, step.hop.column), (step.alias, step.hop.referenced or ""))
    classes.close()
    return classes


def _check_public(occurrences: Sequence[Occurrence], protected: Sequence[Occurrence], classes: Classes) -> None:
    """A public table adds no rows: one at most matches, by a unique key (§2.6)."""
    single = classes.determined([o.alias for o in protected])
    for occurrence in occurrences:
        if occurrence.alias not in single:
            name = occurrence.item.relation.qualified
            raise DPError(
                SHAPE,
                f"the join with {name} may multiply rows: it is not on a primary key or unique constraint of {name}",
                f"Join all columns of a unique key of {name} by =, or use a condition: EXISTS (SELECT FROM {name}"
                " WHERE ...).",
            )


def _units(ends: Sequence[Node], classes: Classes) -> list[str]:
    """SQL of each distinct unit of a result row, that of the first occurrence first."""
    found: dict[Node, str] = {}
    for alias, column in ends:
        found.setdefault(classes.find((alias, column)), f"{classes.row(alias)}.{identifier(column)}")
    return list(found.values())


def _equal_to(unit: Node, occurrences: Sequence[Occurrence], classes: Classes) -> frozenset[str]:
    return frozenset(
        f"{o.alias}.{identifier(column)}"
        for o in occurrences
        for column in o.item.relation.columns
        if classes.equal((o.alias, column), unit)
    )


def _order(occurrences: Sequence[Occurrence]) -> str:
    """A total order of result rows that depends on nothing but the rows: primary keys, else whole rows.

    Not a cast to text: the table's owner could say what function that is.
    """
    parts: list[str] = []
    for o in occurrences:
        keys = o.policy.primary_key if o.policy is not None else ()
        whole = f"pg_catalog.textin(pg_catalog.record_out({o.alias}.*))"
        parts += [f"{o.alias}.{identifier(name)}" for name in keys] or [whole]
    return f"ROW({', '.join(parts)})"


def _shape_name(occurrence: Occurrence) -> str:
    """A part of stored keys: it must stay what it was."""
    policy, relation = occurrence.policy, occurrence.item.relation
    return policy.relation_key if policy is not None else f"{relation.schema}.{relation.name}"


def table(schema: str, name: str) -> str:
    """A relation's qualified name in generated SQL."""
    return f"{identifier(schema)}.{identifier(name)}"
