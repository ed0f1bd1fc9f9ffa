"""A request → the linear queries that answer it, if it is a union of bins of an enabled relation (turbo.md §2.3, §2.4).

Public facts only: the declared grid and the request. `NotBins` where Turbo does not apply: another mechanism answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from pg_epsilon.decimals import plain
from pg_epsilon.query.aggregates import COLUMN, ROWS, Aggregate
from pg_epsilon.query.attributes import Attribute, NotBins, key_of_bins, truth, values_of_bins
from pg_epsilon.query.domain import key_sql
from pg_epsilon.query.partition import window
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.request import Request
from pg_epsilon.query.source import table
from pg_epsilon.query.types import Item, Texts
from pg_epsilon.turbo.bins import Domain, Query, Term, box_query, mask_query, sum_queries
from pg_epsilon.turbo.catalog import View
from pg_epsilon.turbo.series import Spans, spans, split, whole
from pg_epsilon.turbo.view import Answer

SUM_BITS = 20  # a sum's values are rounded to 2^-20 of their bound
MAX_CELLS = 10_000  # queries of one request


@dataclass(frozen=True)
class Factor:
    """A condition on some attributes: '1' or '0' for each of their bins, row-major."""

    places: tuple[int, ...]
    bits: str


@dataclass(frozen=True)
class Batch:
    """The queries of one component of an aggregate, which share no bin.

    cells: of each group, its terms: a query, and what one row of weight 1 stands for in the aggregate's own unit (1 for
    a count, less than 0 for the negative values of a sum).
    """

    cells: tuple[tuple[tuple[Fraction, Query], ...], ...]

    @property
    def queries(self) -> tuple[Query, ...]:
        """All of them, group by group."""
        return tuple(query for cell in self.cells for _, query in cell)

    def split(self, answers: Sequence[Answer]) -> list[tuple[Answer, ...]]:
        """Answers of `queries`, by group."""
        rest = iter(answers)
        return [tuple(next(rest) for _ in cell) for cell in self.cells]


@dataclass(frozen=True)
class Shape:
    """How one aggregate is shown: the numbers of its batches (a count, a sum; a sum and a count for an average)."""

    function: str
    batches: tuple[int, ...]
    step: Fraction = Fraction(1)
    whole: bool = True
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(1)


@dataclass(frozen=True)
class Asked:
    """A request that Turbo answers. first, last: the partitions it is about (0, 0 without partitions).

    shapes: of the distinct aggregates; places: which of them each aggregate of the request is. windows: of which
    partitions the batches are asked, one window after the other, and where the answers are shown. said: how the
    request was rounded (sealed.py), for people.
    """

    first: int
    last: int
    batches: tuple[Batch, ...]
    shapes: tuple[Shape, ...]
    places: tuple[int, ...]
    windows: Spans
    said: str | None = None


def unfit(request: Request, view: View) -> str | None:
    """Why a request asks for something else than the view's accuracy, or better, of its relation; None: it does not."""
    budget, policy = request.budget, request.policy
    alpha, beta = budget.alpha, budget.beta
    if budget.kind != "accuracy" or alpha is None or beta is None or request.kinds:
        return "it is not asked by alpha and beta"
    unless = {
        f"alpha is below {plain(view.alpha)}, its own": alpha >= view.alpha,
        f"beta is below {plain(view.beta)}, its own": beta >= view.beta,
        f"the mechanism {request.mechanism} is asked for": request.mechanism == "auto",
        "a fresh answer is asked for": not request.fresh,
        "there is no aggregate": bool(request.aggregates),
        "it does not read the relation alone": request.source.sql
        == f"{table(policy.relation.schema, policy.relation.name)} AS r",
        f"it has more than {MAX_CELLS} groups": request.cells * len(request.aggregates) <= MAX_CELLS,
    }
    return next((why for why, right in unless.items() if not right), None)


def fits(request: Request, view: View) -> bool:
    """Whether the view's accuracy is what is asked for, or better, and nothing else is."""
    return unfit(request, view) is None


def asked(request: Request, view: View, texts: Texts) -> Asked:
    """The queries of a request that `fits`. NotBins if it cuts through a bin or a partition, or is not linear."""
    conjuncts, first, last = request.conjuncts, 0, 0
    if view.partitioned:
        found = window(request.policy, Item(request.policy.relation, None, "r"), conjuncts)
        if found is None:
            listed = "list" in (request.policy.grid or {})
            why = (
                "names no neighbours of the declared list; see dp.turbo"
                if listed
                else "has no two ends, or cuts through a partition; see dp.turbo, or SET dp.windows = 'sealed'"
            )
            raise NotBins(f"its condition on {request.policy.partition_by} {why}")
        first, last, conjuncts = found
    parts = [view.parts.get(part) for part in range(first, last + 1)]
    if not all(part is not None and part.sealed for part in parts):
        raise NotBins("a partition of it is not sealed; see dp.turbo, or SET dp.windows = 'sealed'")
    build = _Builder(view.attributes, view.domain, texts)
    where = [build.factor(term.sql) for term in conjuncts]
    windows = spans(request, first, last, texts) if view.partitioned else whole(request, first, last)
    groups = _groups(request, view, build)
    batches: list[Batch] = []
    shapes = tuple(_shape(a, where, groups, build, batches) for a in request.distinct)
    order = [a.meaning for a in request.distinct]
    places = tuple(order.index(a.meaning) for a in request.aggregates)
    return Asked(first, last, tuple(batches), shapes, places, windows)


def declared(request: Request, view: View, texts: Texts) -> tuple[Query, ...]:
    """The queries of a question that an owner expects, about any partitions. NotBins as `asked`."""
    build = _Builder(view.attributes, view.domain, texts)
    where = [build.factor(term.sql) for term in request.conjuncts]
    groups = _groups(request, view, build)
    batches: list[Batch] = []
    for aggregate in request.distinct:
        _shape(aggregate, where, groups, build, batches)
    return tuple(query for batch in batches for query in batch.queries)


class _Builder:
    """Conditions and values on the view's bins."""

    def __init__(self, attributes: Sequence[Attribute], domain: Domain, texts: Texts) -> None:
        self.attributes = attributes
        self.domain = domain
        self.texts = texts

    def factor(self, condition: str) -> Factor:
        return Factor(*truth(condition, self.attributes, self.texts))

    def query(self, factors: Sequence[Factor]) -> Query:
        """The bins where all factors hold."""
        if any(not factor.places and factor.bits == "0" for factor in factors):
            return box_query(self.domain, [()] * len(self.domain.sizes))
        if all(len(factor.places) < 2 for factor in factors):
            return box_query(self.domain, self._box(factors))
        return mask_query(self.domain, self._mask(factors))

    def sums(self, factors: Sequence[Factor], places: tuple[int, ...], values: Sequence[int]) -> tuple[Term, ...]:
        """The queries whose values add up to the sum of `values`, integers, where all factors hold."""
        import numpy as np

        weights = self._spread(np.array(values, np.int64), places)
        return sum_queries(self.domain, np.where(self._mask(factors), weights, 0), SUM_BITS)

    def _mask(self, factors: Sequence[Factor]) -> Any:
        import numpy as np

        box = self._box(factors)
        mask = np.zeros(self.domain.sizes, bool)
        mask[np.ix_(*(range(n) if s is None else sorted(s) for n, s in zip(self.domain.sizes, box, strict=True)))] = (
            True
        )
        for factor in factors:
            if len(factor.places) != 1:
                mask &= self._spread(np.frombuffer(factor.bits.encode(), np.uint8) == ord("1"), factor.places)
        return mask

    def _box(self, factors: Sequence[Factor]) -> list[set[int] | None]:
        """What the factors on one attribute leave of each."""
        box: list[set[int] | None] = [None] * len(self.domain.sizes)
        for factor in factors:
            if len(factor.places) != 1:
                continue
            (place,) = factor.places
            chosen = {i for i, bit in enumerate(factor.bits) if bit == "1"}
            known = box[place]
            box[place] = chosen if known is None else known & chosen
        return box

    def _spread(self, cells: Any, places: tuple[int, ...]) -> Any:
        """Cells of some attributes, in the shape of the whole grid."""
        shape = [size if place in places else 1 for place, size in enumerate(self.domain.sizes)]
        return cells.reshape(shape)


def _groups(request: Request, view: View, build: _Builder) -> list[list[Factor]]:
    """The conditions of every group of a window, in the order of the declared keys."""
    keys = []
    for place in split(request)[1] if view.partitioned else range(len(request.keys)):
        key = request.keys[place]
        places, found = _key(key.sql, request.policy, view.attributes, build)
        bits: dict[str | None, list[str]] = {value: ["0"] * len(found) for value in key.domain}
        for i, value in enumerate(found):
            if value in bits:
                bits[value][i] = "1"
        keys.append([Factor(places, "".join(bits[value])) for value in key.domain])
    return [list(group) for group in product(*keys)]


def _key(
    sql: str, policy: Policy, attributes: Sequence[Attribute], build: _Builder
) -> tuple[tuple[int, ...], Sequence[str | None]]:
    """A group key's value on each bin of the attributes it reads."""
    for place, one in enumerate(attributes):
        if sql == key_sql(policy.relation.columns[one.name]):
            return (place,), one.keys
    return key_of_bins(sql, attributes, build.texts)


def _shape(
    aggregate: Aggregate,
    where: Sequence[Factor],
    groups: Sequence[Sequence[Factor]],
    build: _Builder,
    batches: list[Batch],
) -> Shape:
    own = [*where, *([build.factor(aggregate.filter)] if aggregate.filter is not None else [])]
    given = aggregate.parameters
    if any(one is not None for one in (given.max_contribution, given.base, given.beta, given.truncation)):
        raise NotBins

    def count(*extra: Factor) -> int:
        batches.append(Batch(tuple(((Fraction(1), build.query([*own, *extra, *group])),) for group in groups)))
        return len(batches) - 1

    if aggregate.function == "count" and aggregate.of == ROWS:
        return Shape("count", (count(),))
    if aggregate.function == "count" and aggregate.of == COLUMN:
        return Shape("count", (count(build.factor(f"({aggregate.argument}) IS NOT NULL")),))
    values = aggregate.lattice
    if aggregate.function not in ("sum", "avg") or values is None or max(-values.low, values.high) >= 1 << 40:
        raise NotBins(f"{aggregate.function} is not what it answers")
    places, found = values_of_bins(values.sql, build.attributes, build.texts)
    weight = values.step * (1 << SUM_BITS)
    sums = [build.sums([*own, *group], places, [v or 0 for v in found]) for group in groups]
    batches.append(Batch(tuple(tuple((t.coefficient * weight, t.query) for t in terms) for terms in sums)))
    total, ends = len(batches) - 1, {"low": values.low * values.step, "high": values.high * values.step}
    if aggregate.function == "sum":
        return Shape("sum", (total,), values.step, values.whole, **ends)
    rows = count(Factor(places, "".join("0" if v is None else "1" for v in found)))
    return Shape("avg", (total, rows), values.step, False, **ends)


_PATHS: Mapping[str, str] = {
    "trivial": "public",
    "exact": "exact",
    "r1": "histogram (PASS)",
    "r2": "noise after FAIL",
    "r3": "bypass",
    "synopsis": "synopsis",
    "mixed": "several, node by node",
}


def path_text(paths: Sequence[str]) -> str:
    """How the answers came about, each way once, for people (composition.md §9)."""
    return ", ".join(dict.fromkeys(_PATHS.get(path, path) for path in paths)) or "public"
