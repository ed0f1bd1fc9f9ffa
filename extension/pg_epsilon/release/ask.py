"""What dp_release_numeric asks for: the request member "release", validated by public facts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.query import members
from pg_epsilon.query.aggregates import Aggregate
from pg_epsilon.query.copies import Copies
from pg_epsilon.query.kinds import Head
from pg_epsilon.release.automatic import Grid, automatic, universe_of
from pg_epsilon.release.classes import Axis, Compared, axis_of, canonical_values, constant_value
from pg_epsilon.release.decompose import Decomposition
from pg_epsilon.release.ends import Ends, ends_of
from pg_epsilon.release.layout import STRATEGIES, TREES, Layout, layout
from pg_epsilon.release.published import MEMBERS, Publication, publication
from pg_epsilon.release.sets import Masks, Sets
from pg_epsilon.release.template import Condition, Template, read
from pg_epsilon.release.trees import Tree
from pg_epsilon.release.weights import Weights, weights_of

if TYPE_CHECKING:
    from pg_epsilon.release.kronecker import Kronecker

AUTO = "auto"
ALG2 = "alg2"
COMPOSITION = "composition"
NORMALISATION = "normalisation"
GLOBAL = "global"
RANGE = "range"
MECHANISMS = (AUTO, "cells", ALG2, COMPOSITION, NORMALISATION, GLOBAL, RANGE)
BITS = "bits"
WITHOUT_TABLE = {
    COMPOSITION: "composition makes answers",
    RANGE: "range makes sums of many classes",
    BITS: "decomposition into bits counts a row several times",
}
_ROUNDS = frozenset({"rounds"})
_HAVE = {  # options
    AUTO: frozenset({"rows"}),
    ALG2: _ROUNDS | {"threshold_share", "decomposition"},
    NORMALISATION: _ROUNDS,
    GLOBAL: _ROUNDS,
    RANGE: frozenset({"strategy"}),
}
WITH_DELTA = frozenset({AUTO, ALG2, COMPOSITION, NORMALISATION, GLOBAL})
"""Mechanisms of several steps, which auto may choose; cells and range are one draw, which delta buys nothing for."""
MOST_ROUNDS = 200
MOST_QUERIES = 100_000
MOST_GRID = 64 * 1024 * 1024  # bytes of the grid's values
MOST_COMPARED = 50_000_000  # different values of an axis, or different sets of its classes, times classes
MOST_NAME = 55  # so that NAME_answers is a name too
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_MEMBERS = frozenset({"name", "query", "path", "grid", "mechanism", "simultaneous", "options", "delta"}) | MEMBERS
OPTIONS = (
    'mechanism => \'alg2\', options => \'{"rounds": 10, "threshold_share": 0.5, "decomposition": "none"}\';'
    " normalisation and global have rounds, auto has rows, range has strategy (trees, matrix); others have none."
)
GRID = "grid => '{{17,20},{17,30}}': one row for each query, one column for each parameter; '{17,18}' for one."


@dataclass(frozen=True)
class Options:
    """rounds: of multiplicative weights; None: chosen. share: of alpha~, a number of rows is few if it is at most that
    (numeric-release.md §0.0). rows: of the relation, as the asker expects them, for the choice of a mechanism.
    decomposition: of values into cells, split between two steps; none: each value has a cell; bits: a row is in as many
    cells as a value has bits (§6.1, §6.2). None: nobody said. strategy: of range (layout.py)."""

    rounds: int | None = None
    share: Fraction = Fraction(1)
    rows: int | None = None
    decomposition: Decomposition | None = None
    strategy: str = TREES


@dataclass(frozen=True)
class Family:
    """A declared family of queries; all of it is public.

    name: of the family. grid: the values of the parameters as the asker wrote them, a row for each query.
    axes, masks: the classes, and which of them each query reads: those that the masks of all axes hold.
    simultaneous: the bars of all queries hold at once. mechanism: one of MECHANISMS, but not auto. average: averages
    are asked for, and the aggregate is their sum: what is released is the same. spread: which variance or standard
    deviation is; the aggregate is the sum then, and each value has a cell.
    published: whether as a table of schema dp_release. trees: of range, of each axis; or its strategy. chosen: auto
    was asked for.
    ends: where the values of each class end, which cells go by. delta: what steps may cost beside epsilon.
    weights: what the rows of each class count in each query; None: 1. What cells draw does not depend on them.
    universe: how Algorithm 2 makes cells of values, where nobody says.
    """

    name: str
    query: str
    aggregate: Aggregate
    axes: tuple[Axis, ...]
    masks: tuple[Masks, ...]
    grid: tuple[tuple[str, ...], ...]
    simultaneous: bool
    mechanism: str = "cells"
    options: Options = Options()
    average: bool = False
    published: Publication | None = None
    trees: tuple[Tree, ...] = ()
    chosen: bool = False
    ends: Ends | None = None
    spread: str | None = None
    delta: Fraction = Fraction(0)
    weights: Weights | None = None
    universe: Decomposition = "split"
    strategy: Kronecker | None = None

    @cached_property
    def sets(self) -> Sets:
        return Sets.of_masks(self.masks, self.weights)

    @property
    def classes(self) -> int:
        return prod(axis.size for axis in self.axes)

    def canonical(self) -> dict[str, Any]:
        """What is drawn; the request's aggregate says of which value. Cells are, whatever the grid."""
        classes = [axis.key.canonical() for axis in self.axes]
        if self.mechanism == "cells":
            own = {"decomposition": "none"} if self.is_exact else {}
            ends = {"ends": self.ends.canonical()} if self.ends is not None and not self.is_exact else {}
            return {"classes": classes, "mechanism": "cells", **ends, **own}
        if self.mechanism == RANGE:
            return {"classes": classes, "mechanism": RANGE, **Layout(self.trees, self.strategy).canonical()}
        rounds = {"rounds": self.options.rounds} if "rounds" in _HAVE.get(self.mechanism, ()) else {}
        how = self.decomposition
        cells = {"decomposition": how} if how != "split" else {}
        own = {"delta": str(self.delta)} if self.delta else {}
        return {
            "classes": classes,
            "mechanism": self.mechanism,
            "queries": self.sets.digest(),
            **rounds,
            **cells,
            **own,
        }

    @property
    def decomposition(self) -> Decomposition:
        return self.options.decomposition or (self.universe if self.mechanism == ALG2 else "split")

    @property
    def is_exact(self) -> bool:
        """Whether each value has a cell of its own."""
        return self.spread is not None or self.decomposition == "none"


def spelled_out(document: Mapping[str, Any], copies: Copies) -> Mapping[str, Any]:
    """A document with a query's text → with its from, where and aggregates."""
    given = members.mapping(document["release"], "release")
    found = read(members.text(given.get("query"), "query") or "")
    path = [members.text(name, "path") or "" for name in members.items(given.get("path"), "path")]
    schema = found.schema or copies.schema_of(found.name, path) or next(iter(path), "public")
    source = {"schema": schema, "name": found.name, "alias": found.alias}
    return {**document, "from": source, "where": found.where, "aggregates": [found.aggregate]}


def compile_family(head: Head) -> Family | None:
    """The request's member "release" → `Family`, if there is one.

    Errors: DP003 for a query or a grid of another form, DP004 for a column without declared values, DP005 for what is
    out of range; nothing is charged and no row is read.
    """
    if head.document.get("release") is None:
        return None
    given = members.mapping(head.document["release"], "release")
    query = members.text(given.get("query"), "query") or ""
    if set(given) - _MEMBERS or head.document.get("joins") or head.document.get("keys"):
        raise DPError(
            SHAPE, "a request of an unknown form", "SELECT * FROM dp_release_numeric('name', 'query', grid => ...)"
        )
    asked = given.get("mechanism") or AUTO
    if asked not in MECHANISMS:
        raise DPError(OUT_OF_RANGE, "unknown mechanism", f"mechanism is one of {', '.join(MECHANISMS)}.")
    _ = head.budget  # how much it may cost is refused before what it is about
    template = read(query)
    weight = template.weight.columns if template.weight is not None else ()
    columns = dict.fromkeys((*(one.column for one in template.conditions), *weight))
    axes = {text: axis_of(text, head) for text in columns}
    distinct = {axis.name: axis for axis in axes.values()}  # a.age and age are one column
    rows = _grid(given.get("grid"), template.parameters)
    masks = _masks(template, axes, distinct, rows, head)
    weights = weights_of(template, axes, masks, rows, head)
    delta = _delta(given.get("delta"), asked, head)
    options, name = _options(given.get("options"), asked), _name(members.text(given.get("name"), "name") or "")
    mechanism, lattice, grid = asked, head.aggregates[0].lattice, Grid.of(masks, weights)
    if asked == AUTO:
        sums = not (template.average or template.spread)
        mechanism = automatic(head, name, grid, sums=sums, rows=options.rows)
    laid = Layout()
    if mechanism == RANGE:
        laid = layout(list(distinct.values()), masks, options.strategy, gaussian=head.budget.kind == "rho")
    return Family(
        name,
        query,
        head.aggregates[0],
        tuple(distinct.values()),
        masks,
        rows,
        given.get("simultaneous") is not False,
        "cells" if mechanism == RANGE and laid.cells else mechanism,
        options,
        template.average,
        _publication(given, BITS if options.decomposition == BITS else mechanism),
        laid.trees,
        asked == AUTO,
        ends_of(head, list(distinct.values())),
        template.spread,
        Fraction(0) if mechanism not in WITH_DELTA else delta,
        weights,
        universe_of(lattice, prod(axis.size for axis in distinct.values()), grid.weights),
        laid.strategy,
    )


def _publication(given: Mapping[str, Any], mechanism: str) -> Publication | None:
    found = publication(given)
    if found is not None and mechanism in WITHOUT_TABLE:
        hint = "Publish a release of mechanism => 'cells' or 'alg2'."
        raise DPError(OUT_OF_RANGE, f"{WITHOUT_TABLE[mechanism]} and no table that could be published", hint)
    return found


def _options(given: Any, mechanism: str) -> Options:
    """The member "options". DP005 for what the mechanism has not."""
    found = members.mapping(given or {}, "options")
    if set(found) - _HAVE.get(mechanism, frozenset()):
        raise DPError(OUT_OF_RANGE, "unknown options of the mechanism", OPTIONS)
    rounds, share = found.get("rounds"), found.get("threshold_share", 1)
    if rounds is not None and (type(rounds) is not int or not 1 <= rounds <= MOST_ROUNDS):
        raise DPError(OUT_OF_RANGE, f"rounds is a whole number from 1 to {MOST_ROUNDS}", OPTIONS)
    if type(share) not in (int, float, Decimal) or not 0 < share <= 1:
        raise DPError(OUT_OF_RANGE, "threshold_share is above 0 and at most 1", OPTIONS)
    many = found.get("rows")
    if many is not None and (type(many) is not int or not 0 <= many < 2**62):
        raise DPError(OUT_OF_RANGE, "rows is a whole number, of the rows that you expect", OPTIONS)
    cells = found.get("decomposition")
    if cells not in (None, "none", "split", BITS):
        raise DPError(OUT_OF_RANGE, "decomposition is none, split or bits", OPTIONS)
    strategy = found.get("strategy", TREES)
    if strategy not in STRATEGIES:
        raise DPError(OUT_OF_RANGE, "strategy is trees or matrix", OPTIONS)
    return Options(rounds, Fraction(str(share)), many, cells, strategy)


def _delta(given: Any, mechanism: str, head: Head) -> Fraction:
    """The member "delta", a number or its text; 0 where there is none. DP005 where nothing could be bought with it."""
    if given is None:
        return Fraction(0)
    try:
        delta = Decimal(str(given))
    except InvalidOperation:
        delta = Decimal("NaN")
    if not delta.is_finite() or not Decimal("1e-18") <= delta < 1:
        raise DPError(
            OUT_OF_RANGE,
            "delta must be a number from 1e-18 to below 1",
            "delta => 1e-6; leave it out for a release without delta.",
        )
    if mechanism not in WITH_DELTA:
        raise DPError(OUT_OF_RANGE, f"{mechanism} is one draw, which delta buys nothing for", "Leave out delta.")
    if head.policy.dataset.accountant != "pure":
        raise DPError(
            OUT_OF_RANGE,
            "the accountant of this dataset is 'renyi', and delta is for 'pure' ones",
            "Leave out delta: what is asked of this dataset shares the delta that the owner declared.",
        )
    return Fraction(delta)


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None or len(text) > MOST_NAME:
        raise DPError(
            OUT_OF_RANGE,
            f"a family's name has 1 to {MOST_NAME} small letters, digits and underscores",
            "dp_release_numeric('loss_by_age', ...)",
        )
    return text


def _grid(given: Any, parameters: int) -> tuple[tuple[str, ...], ...]:
    """The rows of the grid; of one parameter a plain list is enough."""
    items = members.items(given, "grid")
    if not items:
        raise DPError(SHAPE, "a family needs a grid of the parameters' values", GRID)
    if len(items) > MOST_QUERIES:
        raise DPError(OUT_OF_RANGE, f"more than {MOST_QUERIES} queries in a family", "Give a coarser grid.")
    rows = [one if isinstance(one, list) else [one] for one in items]
    if any(len(row) != parameters or not all(isinstance(one, str) for one in row) for row in rows):
        raise DPError(SHAPE, f"each row of the grid has a value for each of the {parameters} parameters", GRID)
    if sum(len(one) for row in rows for one in row) > MOST_GRID:
        raise DPError(OUT_OF_RANGE, "a grid of more than 64 MB", "Give a coarser grid.")
    return tuple(tuple(row) for row in rows)


def _masks(
    template: Template,
    axes: Mapping[str, Axis],
    distinct: Mapping[str, Axis],
    rows: Sequence[Sequence[str]],
    head: Head,
) -> tuple[Masks, ...]:
    """Of each axis the masks of all queries; a query reads the classes that meet all conditions of the axis."""
    found = []
    for axis in distinct.values():
        own = [one for one in template.conditions if axes[one.column].name == axis.name]
        values = [[_values(value, rows, axis, head) for value in one.values] for one in own]
        constants = dict.fromkeys(text for one in values for column in one for text in column)
        _check_size(len(constants), axis)
        compared = Compared.of(axis, list(constants), head.texts)
        found.append(_together(own, values, compared, len(rows)))
    return tuple(found)


def _together(
    conditions: Sequence[Condition], values: Sequence[Sequence[Sequence[str]]], compared: Compared, queries: int
) -> Masks:
    """Conditions of one axis, each with the values of all queries → the different masks."""
    masks: dict[tuple[tuple[str, ...], ...], int] = {}
    different: list[str] = []
    places: dict[str, int] = {}
    of = []
    for number in range(queries):
        asked = tuple(tuple(column[number] for column in one) for one in values)
        if asked not in masks:
            each = ["1" * compared.axis.size]
            each += [compared.mask(one, own) for one, own in zip(conditions, asked, strict=True)]
            mask = "".join("1" if set(bits) == {"1"} else "0" for bits in zip(*each, strict=True))
            if mask not in places:
                places[mask] = len(different)
                different.append(mask)
                _check_size(len(different), compared.axis)
            masks[asked] = places[mask]
        of.append(masks[asked])
    return Masks(tuple(different), tuple(of))


def _check_size(many: int, axis: Axis) -> None:
    if many * axis.size > MOST_COMPARED:
        raise DPError(
            OUT_OF_RANGE,
            f"the grid has too many different values for the {axis.size} classes of {axis.name}",
            "Ask the grid in parts: after the first one they cost nothing.",
        )


def _values(value: int | str, rows: Sequence[Sequence[str]], axis: Axis, head: Head) -> list[str]:
    """The values that a place of a condition has in each query, in the engine's spelling."""
    if isinstance(value, str):
        return [constant_value(value, axis, head)] * len(rows)
    written = [row[value - 1] for row in rows]
    different = list(dict.fromkeys(written))
    known = dict(zip(different, canonical_values(different, axis, head.fold, f"${value} of the grid"), strict=True))
    return [known[one] for one in written]
