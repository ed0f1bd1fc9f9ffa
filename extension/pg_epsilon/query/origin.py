"""`from`, `joins` and `where` of a request → the scope of its expressions and its Source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.query import members
from pg_epsilon.query.expression import Fold, Scope
from pg_epsilon.query.logic import combine
from pg_epsilon.query.partition import Partitions, touched_partitions
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.schema import Relation
from pg_epsilon.query.source import Occurrence, Source, build
from pg_epsilon.query.types import Item, Term

# What a name means: a protected relation's policy, or a public table. 42501 if neither.
Lookup = Callable[[str, str], Policy | Relation]
MAX_RELATIONS = 16
_FORM = "Use dp_count, dp_group_by, or plain SQL through the proxy."


@dataclass(frozen=True)
class Origin:
    """What a question is asked of: scope and source, the predicate of all ON and WHERE (conjuncts: the operands of its
    top-level AND), the partitions it touches."""

    scope: Scope
    source: Source
    predicate: str | None
    partitions: Partitions | None
    conjuncts: tuple[Term, ...] = ()


def compile_origin(document: Mapping[str, Any], lookup: Lookup, settings: Scope, fold: Fold) -> Origin:
    """Validate `from`, `joins` and `where`; `settings` gives the session's part of the scope.

    Inner joins only: ON and WHERE are one predicate of total operators. Errors: DP003, DP004, DP005, 42702, 42703,
    42712, 42P01, 42P09.
    """
    occurrences, conditions = _relations(document, lookup)
    first, *others = (occurrence.item for occurrence in occurrences)
    scope = replace(
        settings, relation=first.relation, alias=first.alias, sql_alias=first.sql_alias, others=tuple(others)
    )
    texts = [*conditions, members.text(document.get("where"), "where")]
    compiled = [members.condition(text, scope, fold) for text in texts if text is not None]
    conjuncts: tuple[Term, ...] = ()
    predicate = None
    if compiled:
        whole = combine("AND", [term for expression in compiled for term in expression.conjuncts])
        conjuncts = whole.parts[1] if whole.parts and whole.parts[0] == "AND" else (whole,)
        predicate = whole.sql
    row_units = [o for o in occurrences if o.policy is not None]
    partitions = None
    if len(row_units) == 1 and row_units[0].policy is not None:
        partitions = touched_partitions(row_units[0].policy, row_units[0].item, conjuncts)
    restrictions = ([partitions.sql] if partitions else []) + ([predicate] if predicate else [])
    return Origin(scope, build(occurrences, conjuncts, restrictions), predicate, partitions, conjuncts)


def _relations(document: Mapping[str, Any], lookup: Lookup) -> tuple[list[Occurrence], list[str | None]]:
    """The relations read, protected ones first, by name, so that the order in which they were written says nothing."""
    joins = [members.texts(item, "joins") for item in members.items(document.get("joins"), "joins")]
    if len(joins) >= MAX_RELATIONS:
        raise DPError(OUT_OF_RANGE, f"more than {MAX_RELATIONS} relations in one block", "Ask in parts.")
    origin = members.texts(document.get("from"), "from")
    written = []
    for item, known in [(origin, {"schema", "name", "alias"})] + [
        (item, {"schema", "name", "alias", "on"}) for item in joins
    ]:
        schema, name = item.get("schema"), item.get("name")
        if set(item) - known or schema is None or name is None:
            raise DPError(SHAPE, "a request of an unknown form", _FORM)
        found = lookup(schema, name)
        relation, policy = (found.relation, found) if isinstance(found, Policy) else (found, None)
        written.append(Occurrence(Item(relation, item.get("alias"), ""), policy))
    _check_names([occurrence.item for occurrence in written])
    ordered = sorted(written, key=lambda o: (o.policy is None, o.item.relation.schema, o.item.relation.name))
    aliases = ["r", *(f"j{i}" for i in range(1, len(ordered)))]
    named = [replace(o, item=replace(o.item, sql_alias=alias)) for o, alias in zip(ordered, aliases, strict=True)]
    return named, [item.get("on") for item in joins]


def _check_names(items: list[Item]) -> None:
    """Two tables may share a bare name only if neither has an alias and their schemas differ."""
    for i, one in enumerate(items):
        for other in items[:i]:
            apart = one.alias is None and other.alias is None and one.relation.schema != other.relation.schema
            if one.name == other.name and not apart:
                raise DPError("42712", f'table name "{one.name}" specified more than once', "Give one an alias.")
