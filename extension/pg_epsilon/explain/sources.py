"""An explanation from what was paid before: the member "explain" with source "paid", validated by public facts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain.column import Column
from pg_epsilon.explain.comparison import Comparison
from pg_epsilon.explain.forms import Barred, Form, Linear
from pg_epsilon.explain.groups import Keys
from pg_epsilon.explain.members import explained, flag, whole
from pg_epsilon.explain.paid import LEAST_MISS, Paid, Source, Split, missed, pairs_of
from pg_epsilon.explain.tried import MOST_PREDICATES, attribute_of, described_attributes, named_columns
from pg_epsilon.explain.why import MOST_PICKS, compared, groups_of, method_of
from pg_epsilon.query import members
from pg_epsilon.query.aggregates import compile_aggregate, parts_of
from pg_epsilon.query.domain import key_domain
from pg_epsilon.query.keys import Key
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.literals import quote
from pg_epsilon.query.names import column_sql, named
from pg_epsilon.query.parse import ast, deparse, parse_expression
from pg_epsilon.query.released import Stored
from pg_epsilon.query.released import named as release_of

MOST_CELLS = 100_000  # of the compared groups, in all answers that are used
MOST_WORK = 5_000_000  # cells that are added up, for all predicates together
ROWS_ALONE = ("predicates", "options")  # they say how rows are looked at
Groups = Sequence[tuple[str | None, ...]]


def compile_paid(head: Head, asked: Mapping[str, Any]) -> Paid:
    """The member "explain" of a request with source "paid". Free: what is used was released.

    Errors: those of a comparison and of its verdict; DP003 for averages, which no sum of released numbers explains, and
    for what is about rows; DP005 where nothing that was paid tells about the asked columns, and for k out of range.
    """
    given = [name for name in ROWS_ALONE if asked.get(name) is not None]
    if given:
        raise DPError(
            SHAPE, f"{given[0]} is about rows, which source 'paid' does not look at", "Leave it out, or the source."
        )
    if asked.get("method") == "cells":
        raise DPError(SHAPE, "method 'cells' draws noise; source 'paid' looks at no row", "Leave out one of them.")
    method_of(asked)
    measure = compile_aggregate(explained(head), head.source, head.scope, head.fold)
    comparison, kind, _ = compared(head, asked, measure)
    if comparison.question.expression is not None:
        raise DPError(
            SHAPE,
            "an expression is explained by rows, not by sums of released numbers",
            "Leave source out, or compare by weights => '{1,-1}'.",
        )
    if kind == "avg":
        raise DPError(
            SHAPE,
            "averages are explained from rows, not from what was paid",
            "Leave source out; or compare and explain the count or the sum: aggregate => 2.",
        )
    keys, groups, weights = groups_of(head, comparison)
    totals = _totals(head, comparison, groups)
    left, chosen = named_columns(head, asked, "leave_out"), named_columns(head, asked, "attributes")
    only = None if asked.get("attributes") is None else {column_sql(item, one.name) for item, one in chosen}
    out = {column_sql(item, one.name) for item, one in left}
    every = [one for one in _sources(head, keys, groups) if _wanted(one, only, out)]
    sources = _usable(every, totals, comparison.question.confidence, comparison.released or len(weights))
    tests = _tests(sources, only, out)
    missing = _missing(head, asked, tests)
    most, up_to = whole(asked, "l", 1, max(1, len(tests))), flag(asked, "up_to")
    pairs = pairs_of(comparison, weights)
    found = Paid(comparison, weights, totals, tuple(sources), tests, most, up_to, 1, missing, pairs)
    if not tests or (only is not None and missing):
        raise _nothing(keys, missing)
    if not found.subsets:
        names = ", ".join(test.name for test in tests)
        hint = (
            f"Ask for a smaller l, or the same aggregate with GROUP BY {', '.join(['...', *names.split(', ')[:most]])}."
        )
        raise DPError(OUT_OF_RANGE, f"no answer that you were given has {most} of {names} as keys together", hint)
    k = whole(asked, "k", 5, MOST_PICKS)
    if k > found.predicates:
        what = f"k is at most {found.predicates}, the number of predicates that what was paid tells about"
        raise DPError(OUT_OF_RANGE, what, f"k => {found.predicates}")
    if found.predicates > MOST_PREDICATES or found.work > MOST_WORK or min(found.miss) < LEAST_MISS:
        what = f"{found.predicates} predicates of {len(found.sources)} answers are too many for this confidence"
        raise DPError(OUT_OF_RANGE, what, "Name fewer columns (attributes => '{age}'), or ask for less confidence.")
    return replace(found, k=k)


def _sources(head: Head, keys: Sequence[Key], groups: Groups) -> Iterator[Source]:
    """What was released to the asker of the same rows and aggregate, by these keys and by others: newest first."""
    room = MOST_CELLS
    for stored in head.releases.about(head.document, head.policy.dataset.name):
        found = _source(head, stored, keys, groups, room)
        if found is not None:
            room -= sum(map(len, found.values))
            yield found


def _source(head: Head, stored: Stored, keys: Sequence[Key], groups: Groups, room: int) -> Source | None:
    """None for a release that does not tell about these groups, has more than `room` cells of theirs, or numbers
    without bounds."""
    own, columns = _keys(head, stored), _columns(head, stored)
    if not columns or not own:
        return None
    domains = {key.sql: key.domain for _, key in own}
    if any(domains.get(key.sql) != key.domain for key in keys):
        return None
    sqls, declared = list(domains), stored.presentation["keys"]
    common = [sqls.index(key.sql) for key in keys]
    others = [place for place in range(len(own)) if place not in common]
    if not others or any(tuple(declared[place][1]) != key.domain for place, (_, key) in enumerate(own)):
        return None
    fixed = [{place: keys[at].domain.index(group[at]) for at, place in enumerate(common)} for group in groups]
    sizes = [len(key.domain) for _, key in own]
    if len(groups) * prod(sizes[place] for place in others) > room:
        return None
    try:
        found = [tuple(_cells(column, sizes, others, one) for one in fixed) for column in columns]
    except DPError:  # nothing that may be told bounds an answer's error
        return None
    if not all(isinstance(form, Linear | Barred) for part in found for group in part for form in group):
        return None
    tests = tuple(_test(head, *own[place]) for place in others)
    return Source(stored.request_id, stored.as_of, tests, found[0], found[-1])


def _cells(column: Column, sizes: Sequence[int], others: Sequence[int], fixed: Mapping[int, int]) -> tuple[Form, ...]:
    """What was released of the groups that have these places of the compared keys' values."""
    found = []
    for values in product(*(range(sizes[place]) for place in others)):
        places, at = {**fixed, **dict(zip(others, values, strict=True))}, 0
        for place, size in enumerate(sizes):
            at = at * size + places[place]
        found.append(column.form(at))
    return tuple(found)


def _columns(head: Head, stored: Stored) -> list[Column]:
    """Of a release, what is compared and how many rows it is of: of counts one column. None of them if one is missing.

    By the meaning of the aggregates, under the policy of now.
    """
    item = parts_of(explained(head))
    wanted = [compile_aggregate(item, head.source, head.scope, head.fold)]
    if wanted[0].function != "count":
        rows = {"function": "count", "argument": item.get("argument"), "filter": item.get("filter")}
        wanted.append(compile_aggregate(rows, head.source, head.scope, head.fold))
    meanings = []
    for one in members.items(stored.asked("aggregates").get("aggregates"), "aggregates"):
        try:
            meanings.append(compile_aggregate(one, head.source, head.scope, head.fold).canonical())
        except DPError:  # an aggregate that the policy of now does not allow
            meanings.append({})
    level = Fraction(str(stored.presentation.get("confidence") or "0.95"))
    found = [Column(stored, meanings.index(one.canonical()), level) for one in wanted if one.canonical() in meanings]
    return found if len(found) == len(wanted) else []


def _totals(head: Head, comparison: Comparison, groups: Groups) -> tuple[Form, ...]:
    """How many rows each compared group has, as released. DP003 where the release does not say it."""
    columns = _columns(head, comparison.stored)
    if not columns:
        name = parts_of(explained(head)).get("argument")
        raise DPError(
            SHAPE,
            "what was compared has no number of rows, which shares are made of",
            f"Ask for both: SELECT ..., count({name}), sum({name}) ... GROUP BY ...",
        )
    numbers = Keys.of(comparison.stored, release_of(head.document).keys)
    chosen = [
        group for group, weight in zip(comparison.groups, comparison.question.weights or (1, -1), strict=True) if weight
    ]
    return tuple(columns[-1].form(numbers.number(group)) for group in chosen)


def _keys(head: Head, stored: Stored) -> list[tuple[str, Key]]:
    """The distinct keys of a release in its own order, each as it was written; none if it is no GROUP BY."""
    how = stored.presentation
    if how["kind"] != "block" or not how["keys"]:
        return []
    texts = [members.text(one, "keys") or "" for one in members.items(stored.asked("keys").get("keys"), "keys")]
    order = list(how["order"])
    try:
        found = [(one, head.key(one)) for one in texts]
    except DPError:  # a key that has no declared domain any more
        return []
    return [found[order.index(place)] for place in range(len(how["keys"]))]


def _test(head: Head, text: str, key: Key) -> Split:
    """What may be tested of a key: of a column its declared values, of an expression that it has a value."""
    node = parse_expression(text)
    if not isinstance(node, ast.ColumnRef):
        name = deparse(node)
        found = [f"{name} IS NULL" if value is None else f"{name} = {quote(value)}" for value in key.domain]
        return Split(name, key.sql, tuple(found))
    item, column = named(node, head.scope)
    whole_ = key.domain if item.relation.public else key_domain(column, item.relation.qualified)
    one = attribute_of(head, item, column)
    conditions = tuple(one.conditions[whole_.index(value)] for value in key.domain)  # WHERE may leave out others
    return Split(one.name, column_sql(item, column.name), conditions)


def _wanted(source: Source, only: set[str] | None, out: set[str]) -> bool:
    return any((only is None or test.sql in only) and test.sql not in out for test in source.tests)


def _usable(sources: Sequence[Source], totals: Sequence[Form], confidence: Fraction, groups: int) -> list[Source]:
    """Those whose intervals can hold together: noisy cells of any number of releases, else the newest of bars.

    DP005 where the bars of what was compared, or those of all that was paid, hold too seldom.
    """
    cells, bars = [], []
    for source in sources:
        forms = [form for part in (source.values, source.rows) for group in part for form in group]
        if all(isinstance(form, Linear) for form in forms):
            cells.append(source)
        elif all(_is_bar(form) for form in forms):
            bars.append(source)
    left = 1 - confidence - missed(totals[:1], groups)
    fit = cells or [one for one in bars if one.missed(groups) < left][:1]
    if not all(isinstance(form, Linear) or _is_bar(form) for form in totals) or left <= 0 or (bars and not fit):
        raise DPError(
            OUT_OF_RANGE,
            "the bars of what was paid hold too seldom for this confidence",
            "Ask for less: confidence => 0.8; or ask again for answers to which noise was added for themselves: SET"
            " dp.mechanism = 'laplace'.",
        )
    return fit


def _is_bar(form: Form) -> bool:
    return isinstance(form, Barred) and all(map(math.isfinite, (form.value, form.low, form.high)))


def _tests(sources: Sequence[Source], only: set[str] | None, out: set[str]) -> tuple[Split, ...]:
    found: dict[str, Split] = {}
    for source in sources:
        for test in source.tests:
            if (only is None or test.sql in only) and test.sql not in out:
                found.setdefault(test.sql, test)
    return tuple(sorted(found.values(), key=lambda test: test.name))


def _missing(head: Head, asked: Mapping[str, Any], tests: Sequence[Split]) -> tuple[str, ...]:
    """Columns that could be tested on rows, and about which nothing was paid."""
    covered = {test.name for test in tests}
    return tuple(name for name in described_attributes(head, asked) if name not in covered)


def _nothing(keys: Sequence[Key], missing: Sequence[str]) -> DPError:
    said = f" about {', '.join(missing[:5])}" if missing else ""
    example = ", ".join([*(["..."] * len(keys)), missing[0] if missing else "another column"])
    return DPError(
        OUT_OF_RANGE,
        f"nothing that you were given tells{said} by these groups",
        f"Ask the same aggregate with GROUP BY {example} first, or leave source out: rows are looked at then, and paid"
        " for.",
    )
