"""Why a difference between released groups is there: the request member "explain", validated by public facts alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, prod
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain.attributes import attribute, has_many_values, public_attribute
from pg_epsilon.explain.column import aggregate
from pg_epsilon.explain.comparison import Comparison, compile_comparison
from pg_epsilon.explain.forms import Barred, Form, Halves, Linear, Pair
from pg_epsilon.explain.groups import Keys
from pg_epsilon.explain.influence import Kind
from pg_epsilon.explain.space import Attribute, Listed, Predicates, Space
from pg_epsilon.explain.statement import Read
from pg_epsilon.query import members
from pg_epsilon.query.aggregates import COLUMN, ROWS, VALUE, Aggregate, parts_of
from pg_epsilon.query.expression import compile_expression
from pg_epsilon.query.keys import Key, compile_key
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.names import column_sql, named
from pg_epsilon.query.parse import ast, parse_expression
from pg_epsilon.query.released import Named, Stored, gone
from pg_epsilon.query.released import named as release_of
from pg_epsilon.query.request import checked_confidence
from pg_epsilon.query.schema import Column, written
from pg_epsilon.query.types import Item

COMPARED = frozenset({"groups", "weights", "constant", "aggregate", "confidence", "simultaneous"})
MEMBERS = COMPARED | {"k", "l", "up_to", "attributes", "leave_out", "predicates", "anyway", "options", "source"}
OPTIONS = frozenset({"split", "lower", "joint"})
MOST_PREDICATES = 1_000_000
MOST_LISTED = 1_000  # conditions that each row is tried with
MOST_PICKS = 100
MOST_ATTRIBUTES = 64
USUAL_VALUES = 1_000  # attributes with more are looked at only where they are named
EXAMPLE = "SELECT * FROM dp_explain_difference('Sales', 'Tech-support', k => 5)"


@dataclass(frozen=True)
class Why:
    """What an explanation is about: public.

    comparison: the free answer that it explains. read: which rows count. left_out: columns with too many values to be
    looked at unasked. split: shares of the price for predicates, influences and ranks; lower: that of ranks' lower
    bounds; joint: the influences' intervals hold together.
    """

    comparison: Comparison
    kind: Kind
    weights: tuple[Fraction, ...]
    read: Read
    bounds: tuple[Fraction, Fraction]
    step: Fraction
    space: Predicates
    k: int
    left_out: tuple[str, ...]
    anyway: bool
    split: tuple[Fraction, Fraction, Fraction]
    lower: Fraction
    joint: bool

    def canonical(self) -> dict[str, Any]:
        """What tells this question from another of its kind; the policy says what the attributes are."""
        return {
            "comparison": self.comparison.canonical(),
            "attributes": [[one.name, one.sql, list(one.conditions)] for one in self.space.attributes],
            "size": [self.space.most, self.space.up_to],
            "listed": [self.space.texts, self.space.conditions] if isinstance(self.space, Listed) else None,
            "k": self.k,
            "split": [str(part) for part in (*self.split, self.lower)],
            "joint": self.joint,
        }

    @property
    def counts(self) -> tuple[float, ...]:
        """Of averages, the released numbers of rows of the compared groups; of others, none."""
        if self.kind != "avg":
            return ()
        question = self.comparison.question
        weights = question.weights or (1, -1)
        return tuple(_rows_of(form) for form, weight in zip(question.groups, weights, strict=True) if weight)


def compile_why(head: Head) -> Why:
    """The member "explain" of a request about a release.

    Errors: those of a comparison; DP003 for answers that no rows explain, DP004 for an attribute without a domain,
    DP005 for numbers out of range, for a difference that may be noise or has the other sign, and for more predicates
    than are looked at.
    """
    asked = members.mapping(head.document["explain"], "explain")
    comparison, kind, anyway = compared(head, asked, head.aggregates[0])
    keys, groups, weights = groups_of(head, comparison)
    k, options = whole(asked, "k", 5, MOST_PICKS), _options(asked)
    space, left_out = _predicates(head, asked)
    if k > len(space):
        raise DPError(OUT_OF_RANGE, f"k is at most {len(space)}, the number of predicates", f"k => {len(space)}")
    explained = head.aggregates[0]
    lattice = explained.lattice
    value = None if lattice is None else lattice.sql
    return Why(
        comparison,
        kind,
        weights,
        Read(head.source, keys, groups, value, explained.present, explained.filter),
        (Fraction(0), Fraction(1)) if lattice is None else (Fraction(lattice.low), Fraction(lattice.high)),
        Fraction(1) if lattice is None else lattice.step,
        space,
        k,
        left_out,
        anyway,
        *options,
    )


def compared(head: Head, asked: Mapping[str, Any], one: Aggregate) -> tuple[Comparison, Kind, bool]:
    """(what is explained, of which aggregate, whether also where it may be noise).

    Errors: those of a comparison; DP003 for answers that no rows explain; DP005 for a difference that may be noise or
    has the other sign.
    """
    if set(asked) - MEMBERS:
        raise DPError(SHAPE, "an explanation of an unknown form", EXAMPLE)
    of = release_of(head.document)
    parts = {name: asked[name] for name in COMPARED if name in asked}
    confidence = checked_confidence(head.settings.get("dp.confidence"))
    comparison = compile_comparison(parts, of, head.releases, confidence)
    kind, anyway = _kind(one, comparison), flag(asked, "anyway")
    _check_verdict(comparison, anyway=anyway)
    return comparison, kind, anyway


def number_of(stored: Stored, of: Named, asked: Any) -> int:
    """Which aggregate of the stored question an explanation is about. DP005: there is none of it."""
    given = members.mapping(asked, "explain").get("aggregate")
    return aggregate(stored, of, given, Fraction(19, 20))[1].number


def explained(head: Head) -> Any:
    """The aggregate that an explanation is about, as the release's question has it."""
    of = release_of(head.document)
    stored = head.releases.stored(of.request_id)
    items = members.items(stored.asked("aggregates").get("aggregates"), "aggregates")
    return items[number_of(stored, of, head.document["explain"])]


def _kind(one: Aggregate, comparison: Comparison) -> Kind:
    """What is explained. DP003 for what is not of rows: distinct units, truncated sums, what has no counts."""
    kinds: dict[str, Kind] = {"count": "count", "sum": "sum", "avg": "avg"}
    kind = kinds.get(one.function)
    known = {"avg": (Halves, Pair)}.get(one.function, (Linear, Barred))
    of_rows = one.of in (ROWS, COLUMN, VALUE)
    cells = "estimators" in comparison.stored.presentation  # else a histogram's values, with bars
    forms = comparison.question.groups
    fits = all(isinstance(form, known) and not (cells and isinstance(form, Barred)) for form in forms)
    if kind is None or not of_rows or not fits:
        raise DPError(
            SHAPE,
            f"differences of this aggregate are compared, not explained ({comparison.stored.mechanism})",
            "Ask the GROUP BY for count(*), sum or avg of a column with noise on counts and sums (SET dp.mechanism ="
            " 'laplace' or 'gaussian'), and explain that.",
        )
    return kind


def _rows_of(form: Form) -> float:
    if isinstance(form, Halves):
        return form.count.number
    return float(form.a + form.b) / float(form.high - form.low) if isinstance(form, Pair) else 1.0


def _check_verdict(comparison: Comparison, *, anyway: bool) -> None:
    """DP005 unless the difference is real and has the asked sign (dpxplain.md §0.0)."""
    found = comparison.interval.verdict
    if found == "the other way round":
        raise DPError(
            OUT_OF_RANGE,
            "the difference is the other way round: what explains it would make it larger",
            "Exchange the names of the groups, resp. the signs of the weights.",
        )
    if found == "cannot tell" and not anyway:
        raise DPError(
            OUT_OF_RANGE,
            "this difference may be noise: there may be nothing to explain",
            "anyway => true explains it all the same; a GROUP BY with more epsilon may tell.",
        )


def groups_of(
    head: Head, comparison: Comparison
) -> tuple[tuple[Key, ...], tuple[tuple[str | None, ...], ...], tuple[Fraction, ...]]:
    """(keys, texts of the keys of each compared group, weights): without groups of weight 0.

    DP006 where the keys have other values by now.
    """
    of, stored = release_of(head.document), comparison.stored
    released = Keys.of(stored, of.keys)
    order = list(stored.presentation["order"])
    texts = members.items(stored.asked("keys").get("keys"), "keys")
    found = [compile_key(members.text(one, "keys") or "", head.scope, head.fold, head.texts) for one in texts]
    keys = tuple(found[order.index(place)] for place in range(len(released.domains)))
    if any(tuple(domain) != key.domain for domain, key in zip(released.domains, keys, strict=True)):
        raise gone(stored.request_id, "has groups that were declared otherwise since")
    given = comparison.question.weights or (Fraction(1), Fraction(-1))
    numbers = [released.number(group) for group in comparison.groups]
    chosen = [(number, weight) for number, weight in zip(numbers, given, strict=True) if weight]
    groups = tuple(
        tuple(
            domain[number // stride % len(domain)]
            for domain, stride in zip(released.domains, released.strides, strict=True)
        )
        for number, _ in chosen
    )
    return keys, groups, tuple(weight for _, weight in chosen)


def _predicates(head: Head, asked: Mapping[str, Any]) -> tuple[Predicates, tuple[str, ...]]:
    """(what is tried, which columns have too many values to be tried unasked): the asker's own list, or a space."""
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


def named_columns(head: Head, asked: Mapping[str, Any], member: str) -> list[tuple[Item, Column]]:
    """The columns that a member names. DP003, 42703 for what is none, DP005 for one named twice."""
    found = []
    for text in members.items(asked.get(member), member):
        node = parse_expression(members.text(text, member) or "")
        if not isinstance(node, ast.ColumnRef):
            raise DPError(SHAPE, f"{member} has names of columns", f"{member} => '{{age,education}}'")
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
        if term.test is not None and term.test.operator == "=" and len(term.test.values) == 1:
            found.add(term.test.column)
        found |= set(term.equates or ())
    return found


def attribute_of(head: Head, item: Item, column: Column) -> Attribute:
    """What predicates may test of a column. DP003, DP004, DP005 of one without a domain that is declared."""
    name = _name(head, item, column)
    if not item.relation.public:
        return attribute(name, column, item.sql_alias, item.relation.qualified)
    key = compile_key(written(item.name, column.name), head.scope, head.fold, head.texts)
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


def whole(asked: Mapping[str, Any], member: str, default: int, most: int) -> int:
    value = default if asked.get(member) is None else asked[member]
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise DPError(OUT_OF_RANGE, f"{member} must lie between 1 and {most}", f"{member} => {default}")
    return value


def flag(asked: Mapping[str, Any], member: str) -> bool:
    value = asked.get(member)
    if not isinstance(value, bool | None):
        raise DPError(SHAPE, f"{member} is true or false", f"{member} => true")
    return value is True


def _options(asked: Mapping[str, Any]) -> tuple[tuple[Fraction, Fraction, Fraction], Fraction, bool]:
    """(split of the price, share of lower bounds in that of the ranks, whether influences hold together)."""
    given = {} if asked.get("options") is None else members.mapping(asked["options"], "options")
    if set(given) - OPTIONS:
        hint = f"Options: {', '.join(sorted(OPTIONS))}."
        raise DPError(OUT_OF_RANGE, f"unknown option {min(set(given) - OPTIONS)[:40]!r}", hint)
    split = given.get("split", [1, 1, 2])
    parts = [_part(one, 1000) for one in split] if isinstance(split, list) else []
    lower = _part(given.get("lower", 0.1), 1)
    if len(parts) != 3 or 0 in parts or prod(parts) == 0 or not 0 < lower < 1:
        raise DPError(
            OUT_OF_RANGE,
            "split is three numbers from 0.001 to 1000, lower one between 0 and 1",
            """options => '{"split": [1, 1, 2], "lower": 0.1}'""",
        )
    whole = sum(parts, Fraction(0))
    first, second, third = (part / whole for part in parts)
    return (first, second, third), lower, flag(given, "joint")


def _part(value: Any, most: int) -> Fraction:
    """0 for what is no number in range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= most:
        return Fraction(0)
    return Fraction(str(value))
