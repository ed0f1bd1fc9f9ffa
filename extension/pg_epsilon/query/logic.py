"""AND, OR, NOT and comparisons in one form each: what is provably the same has the same SQL.

Then it is one question, which is paid once (composition.md §7.1). Proved is what holds in
three-valued logic, whatever the rows are: De Morgan's laws; NOT over a comparison (`<=` and `>` are
each other's negators in pg_operator, for every type that is compared here, NaN included); IN as an
OR of `=`, NOT IN as an AND of `<>`. Constants whose texts differ although they may be equal (0 and
-0, '30 days' and '1 mon') stay as they were written.
"""

from __future__ import annotations

from collections.abc import Sequence

from pg_epsilon.query.literals import literal, trimmed
from pg_epsilon.query.types import BOOL, EXACT, TEXT, Kind, Listing, Term, Test

FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATORS = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
Pair = tuple[str, str]
_DUAL = {"AND": "OR", "OR": "AND"}
_LISTED = {"=": "IN", "<>": "NOT IN"}
_TRUE, _FALSE = literal(BOOL, "true"), literal(BOOL, "false")


def columns_of(terms: Sequence[Term]) -> frozenset[str]:
    """Return the columns that any of the terms reads."""
    return frozenset().union(*(term.columns for term in terms))


def combine(operator: str, terms: Sequence[Term]) -> Term:
    """Return AND or OR of booleans, sorted, flattened, without duplicates and neutral constants.

    Comparisons of one value with constants, of which a list says the same, are that list.
    """
    neutral, absorbing = (_TRUE, _FALSE) if operator == "AND" else (_FALSE, _TRUE)
    flat: dict[str, Term] = {}
    for term in terms:
        for part in term.parts[1] if term.parts and term.parts[0] == operator else (term,):
            flat.setdefault(part.sql, part)
    if absorbing.sql in flat:
        return absorbing
    flat.pop(neutral.sql, None)
    gathered = _gathered("=" if operator == "OR" else "<>", tuple(flat.values()))
    flat = {part.sql: part for part in gathered}
    operands = tuple(flat[sql] for sql in sorted(flat))
    if not operands:
        return neutral
    if len(operands) == 1:
        return operands[0]
    sql = "(" + f" {operator} ".join(term.sql for term in operands) + ")"
    return Term(sql, BOOL, columns_of(operands), parts=(operator, operands))


def negate(term: Term) -> Term:
    """Return NOT term."""
    if term.literal and term.value is not None:
        return _FALSE if term.value == "true" else _TRUE
    if term.parts is not None:
        operator, operands = term.parts
        return combine(_DUAL[operator], [negate(one) for one in operands])
    return opposed(term, term.opposite or Term(f"(NOT {term.sql})", BOOL, term.columns))[1]


def opposed(term: Term, opposite: Term) -> tuple[Term, Term]:
    """Both, each of which knows the other as its NOT: NULL where the other is, and else unlike."""
    one, other = term.but(opposite=None), opposite.but(opposite=None)
    return one.but(opposite=other), other.but(opposite=one)


def comparison(operator: str, left: Term, right: Term, equates: Pair | None = None) -> Term:
    """Return `left operator right`, a constant on the right: of types that compare as they are.

    equates: the columns that are equal where the two are.
    """
    if (left.constant, left.sql) > (right.constant, right.sql):
        left, right, operator = right, left, FLIPPED[operator]
    left, right = trimmed(left), trimmed(right)
    names = (operator, _NEGATORS[operator])
    one, other = (_comparison(name, left, right, equates) for name in names)
    return opposed(one, other)[0]


def _comparison(operator: str, left: Term, right: Term, equates: Pair | None) -> Term:
    sql = f"({left.sql} {operator} {right.sql})"
    listing = None
    if operator in _LISTED and right.literal and not left.constant and _one_type(left, right):
        listing = Listing(operator, left, (right,))
    return Term(
        sql,
        BOOL,
        left.columns | right.columns,
        test=_test(operator, left, (right,)),
        equates=equates if operator == "=" else None,
        listing=listing,
    )


def listed(operator: str, target: Term, values: Sequence[Term]) -> Term:
    """Return `target [NOT] IN (values)`, constants of one type; operator: = or <>.

    One form for any order and number of each value; of one value it is the comparison.
    """
    ordered = [one for _, one in sorted({one.sql: one for one in map(trimmed, values)}.items())]
    if len(ordered) == 1:
        return comparison(operator, target, ordered[0])
    one, other = (_listed(name, target, ordered) for name in (operator, _NEGATORS[operator]))
    return opposed(one, other)[0]


def _listed(operator: str, target: Term, values: Sequence[Term]) -> Term:
    sql = f"({target.sql} {_LISTED[operator]} ({', '.join(one.sql for one in values)}))"
    known = [one for one in values if not one.null] if operator == "=" else []
    alike = all(_one_type(target, one) for one in values)
    listing = Listing(operator, target, tuple(values)) if alike else None
    return Term(sql, BOOL, target.columns, test=_test("=", target, known), listing=listing)


def _gathered(operator: str, terms: Sequence[Term]) -> list[Term]:
    """The terms, with those that say what one value is (or is not) as one list."""
    found: dict[str, list[Listing]] = {}
    for term in terms:
        if term.listing is not None and term.listing.operator == operator:
            found.setdefault(term.listing.target.sql, []).append(term.listing)
    several = {sql: lists for sql, lists in found.items() if len(lists) > 1}
    inside = {id(one) for lists in several.values() for one in lists}
    return [one for one in terms if id(one.listing) not in inside] + [
        listed(operator, lists[0].target, [value for one in lists for value in one.values])
        for lists in several.values()
    ]


def _one_type(target: Term, value: Term) -> bool:
    """Whether the value compares in a list as it does alone: a list may convert both sides."""
    return target.type.name == value.type.name or {target.kind, value.kind} <= EXACT


def _test(operator: str, left: Term, values: Sequence[Term]) -> Test | None:
    """Describe a comparison of a bare column with constants of its type, for restrictions."""
    if left.column is None or operator == "<>" or not values:
        return None
    texts = [_in_type_of(left, value) for value in values]
    several = left.type.name != TEXT.name or not left.type.deterministic
    if None in texts or (left.kind is Kind.TEXT and several):  # equal texts may be unlike
        return None
    if left.kind is Kind.DATE and values[0].kind is Kind.TIMESTAMP and operator in "<>":
        operator += "="  # the date of the moment itself may satisfy it
    return Test(left.column, operator, tuple(str(text) for text in texts))


def _in_type_of(column: Term, value: Term) -> str | None:
    if not value.literal or value.value is None:
        return None
    if value.kind is column.kind or (column.kind, value.kind) == (Kind.NUMERIC, Kind.INT):
        return value.value
    moment = (column.kind, value.kind) == (Kind.DATE, Kind.TIMESTAMP)
    if moment and "infinity" not in value.value:
        day, _, clock = value.value.partition(" ")
        return f"{day} BC" if clock.endswith(" BC") else day
    return None
