"""Which predicates an explanation tries: the asker's own, or conjunctions of declared values (dpxplain.md §6.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import comb
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain.attributes import attribute, has_many_values, public_attribute
from pg_epsilon.explain.members import explained, flag, whole
from pg_epsilon.explain.space import Attribute, Listed, Predicates, Space
from pg_epsilon.query import members
from pg_epsilon.query.aggregates import parts_of
from pg_epsilon.query.expression import compile_expression
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.names import column_sql, named
from pg_epsilon.query.parse import ast, parse_expression
from pg_epsilon.query.released import named as release_of
from pg_epsilon.query.schema import Column, written
from pg_epsilon.query.types import BPCHAR, Item, Term

MOST_PREDICATES = 1_000_000
MOST_LISTED = 1_000  # conditions that each row is tried with
MOST_ATTRIBUTES = 64
USUAL_VALUES = 1_000  # attributes with more are looked at only where they are named


def predicates(head: Head, asked: Mapping[str, Any]) -> tuple[Predicates, tuple[str, ...]]:
    """(what is tried, which columns have too many values to be tried unasked): the asker's own list, or a space.

    Errors: DP003 for a form that is not understood, DP004 for an attribute without a domain, DP005 for none, and for
    more than are looked at.
    """
    most, up_to = whole(asked, "l", 1, MOST_ATTRIBUTES), flag(asked, "up_to")
    if asked.get("predicates") is None:
        attributes, left_out = _attributes(head, asked)
        return _space(attributes, most, up_to=up_to), left_out
    if asked.get("attributes") is not None or asked.get("leave_out") is not None or most > 1 or up_to:
        hint = "predicates => ARRAY['age > 40', 'sex = ''f'' OR remote'] names all that is tried."
        raise DPError(SHAPE, "predicates stand alone: without attributes, leave_out, l and up_to", hint)
    texts = [members.text(one, "predicates") or "" for one in members.items(asked["predicates"], "predicates")]
    if not 1 <= len(texts) <= MOST_LISTED or len(set(texts)) < len(texts):
        what = f"predicates has {len(texts)} items" if len(set(texts)) == len(texts) else "predicates names one twice"
        raise DPError(OUT_OF_RANGE, what, f"Name from 1 to {MOST_LISTED} different conditions.")
    return Listed(tuple(texts), tuple(members.condition(one, head.scope, head.fold).sql for one in texts)), ()


def _attributes(head: Head, asked: Mapping[str, Any]) -> tuple[tuple[Attribute, ...], tuple[str, ...]]:
    """(what predicates test, which columns have too many values to be tested unasked)."""
    left = {column_sql(item, column.name) for item, column in named_columns(head, asked, "leave_out")}
    if asked.get("attributes") is not None:
        columns = [
            one for one in named_columns(head, asked, "attributes") if column_sql(one[0], one[1].name) not in left
        ]
        return tuple(attribute_of(head, *one) for one in columns), ()
    found: list[Attribute] = []
    out: list[str] = []
    for item, column in _described(head):
        if column_sql(item, column.name) in left:
            continue
        if has_many_values(column, USUAL_VALUES):
            out.append(_name(head, item, column))
            continue
        try:
            one = attribute_of(head, item, column)
        except DPError:  # no domain that is declared: there is nothing that a predicate could test
            continue
        if one.size <= USUAL_VALUES:
            found.append(one)
        else:
            out.append(one.name)
    return tuple(found), tuple(out)


def idle_columns(head: Head, asked: Mapping[str, Any]) -> tuple[str, ...]:
    """The named attributes that have one value in each group, by its key or by WHERE: their predicates take no row or
    leave none, and so have no influence (dpxplain.md §6.1)."""
    constant = {column for term in head.conjuncts for column in _fixed_by(term)} | _keys(head)
    columns = named_columns(head, asked, "attributes")
    return tuple(_name(head, item, column) for item, column in columns if column_sql(item, column.name) in constant)


def _keys(head: Head) -> set[str]:
    """The columns that are keys of the groups as they are, not in an expression."""
    texts = members.items(head.releases.stored(release_of(head.document).request_id).asked("keys").get("keys"), "keys")
    found: set[str] = set()
    for text in texts:
        node = parse_expression(members.text(text, "keys") or "")
        if isinstance(node, ast.ColumnRef):
            item, column = named(node, head.scope)
            found.add(column_sql(item, column.name))
    return found


def named_columns(head: Head, asked: Mapping[str, Any], member: str) -> list[tuple[Item, Column]]:
    """The columns that a member names. DP003, 42703 for what is none, DP005 for one named twice."""
    found = []
    for text in members.items(asked.get(member), member):
        try:
            node = parse_expression(members.text(text, member) or "")
        except DPError:
            node = None
        if not isinstance(node, ast.ColumnRef):
            hint = f"""{member} => '{{age,education}}'; quoted as in SQL: {member} => ARRAY['"Marital Status"']"""
            raise DPError(SHAPE, f"{member} has names of columns", hint)
        found.append(named(node, head.scope))
    names = [column_sql(item, column.name) for item, column in found]
    if len(set(names)) < len(names):
        raise DPError(OUT_OF_RANGE, f"{member} names a column twice", "Name each once.")
    return found


def described_attributes(head: Head, asked: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the columns that predicates on rows would test."""
    found, out = _attributes(head, asked)
    return (*(one.name for one in found), *out)


def _described(head: Head) -> Iterator[tuple[Item, Column]]:
    """Columns that may tell something: described ones, and those of public tables, but for those of the groups, of the
    measure and its FILTER, of the privacy unit, and what WHERE fixes."""
    fixed = _fixed(head)
    for item in head.scope.items:
        for column in item.relation.columns.values():
            described = item.relation.public or column.policy is not None
            if described and column.published and column_sql(item, column.name) not in fixed:
                yield item, column


def _fixed(head: Head) -> set[str]:
    stored = head.releases.stored(release_of(head.document).request_id)
    texts = [members.text(one, "keys") for one in members.items(stored.asked("keys").get("keys"), "keys")]
    measure = parts_of(explained(head))
    texts += [members.text(measure.get("argument"), "argument"), members.text(measure.get("filter"), "filter")]
    found = set(head.source.unit_columns)
    for text in texts:
        if text and text != "*":
            found |= compile_expression(text, head.scope, head.fold).columns
    for policy, item in zip(head.source.relations, head.scope.items, strict=False):
        found |= {column_sql(item, name) for name in policy.other_units}
    for term in head.conjuncts:
        found |= _fixed_by(term) | set(term.equates or ())
    return found


def _fixed_by(term: Term) -> set[str]:
    """The column that a condition gives one value. Of char(n), which pads what is equal, a test says nothing."""
    if term.test is not None:
        return {term.test.column} if term.test.operator == "=" and len(term.test.values) == 1 else set()
    listing = term.listing
    if listing is None or listing.operator != "=" or len(listing.values) > 1:
        return set()
    padded = listing.target.column if listing.target.type.name == BPCHAR.name else None
    return set() if padded is None else {padded}


def attribute_of(head: Head, item: Item, column: Column) -> Attribute:
    """What predicates may test of a column. DP003, DP004, DP005 of one without a domain that is declared."""
    name = _name(head, item, column)
    if not item.relation.public:
        return attribute(name, column, item.sql_alias, item.relation.qualified)
    key = head.key(written(item.name, column.name))
    return public_attribute(name, column, key.sql, key.domain)


def _name(head: Head, item: Item, column: Column) -> str:
    """As predicates name it: of several relations, with its own."""
    return written(item.name, column.name) if len(head.scope.items) > 1 else written(column.name)


def _space(attributes: Sequence[Attribute], most: int, *, up_to: bool) -> Space:
    """DP005: there are no such predicates, or too many."""
    many = len(attributes)
    if most > many:
        said = f"{many} columns may be tested here" if many else "no column may be tested here"
        hint = "The owner describes columns: dp.describe_column(..., domain => ARRAY[...])."
        raise DPError(OUT_OF_RANGE, f"l is {most}, and {said}", f"l => {many}" if many else hint)
    if many > MOST_ATTRIBUTES:
        hint = "Name those that may matter: attributes => '{age,education}'."
        raise DPError(OUT_OF_RANGE, f"{many} columns could be tested, more than {MOST_ATTRIBUTES}", hint)
    sizes = range(1 if up_to else most, most + 1)
    size = sum(_products([one.size for one in attributes], most)[n] for n in sizes)
    if size > MOST_PREDICATES or sum(comb(many, n) for n in sizes) > MOST_PREDICATES:
        raise DPError(
            OUT_OF_RANGE,
            f"{size} predicates, more than {MOST_PREDICATES}",
            "Ask for a smaller l, or name fewer columns: attributes => '{age,education}'.",
        )
    return Space(tuple(attributes), most, up_to)


def _products(sizes: Sequence[int], most: int) -> list[int]:
    """Of every number of different attributes up to `most`, how many conjunctions of their values there are."""
    found = [1] + [0] * most
    for size in sizes:
        for n in range(most, 0, -1):
            found[n] += found[n - 1] * size
    return found
