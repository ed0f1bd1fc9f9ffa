"""The same question of the synthetic table: one statement over public rows, exact (dp-pqd.md §2.1, §2.2, §2.6).

The condition, the clamp and the lattice are the compiled ones of the private question, to the letter: relation r is the
copy instead of the original. A weight says for how many rows one stands; without one, or below 0, it stands for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pg_epsilon.decide.question import Question
from pg_epsilon.errors import SHAPE, UNDECLARED, DPError
from pg_epsilon.query.aggregates import COLUMN, UNITS, Aggregate
from pg_epsilon.query.copies import Synthetic
from pg_epsilon.query.literals import identifier
from pg_epsilon.query.request import Request

_ALIAS, _COPY = "r", "s"
_WEIGHT_MAX = 10**15


def statement(request: Request, question: Question) -> str:
    """SQL over the synthetic table: columns a1.. and b1.., numerator and denominator of each distinct aggregate.

    DP003 for what cannot be asked of it.
    """
    columns = []
    for number, aggregate in enumerate(request.distinct, 1):
        above, below = _fraction(request, aggregate, question.synthetic)
        columns += [f"({above})::pg_catalog.text AS a{number}", f"({below})::pg_catalog.text AS b{number}"]
    # quantiles are sub-queries: beside them alone, FROM would give a row for each row of the copy, none if it is empty
    read = any(aggregate.function != "quantile" for aggregate in request.distinct)
    source = f" FROM {_rows(question.synthetic)}{_where(request)}" if read else ""
    return f"SELECT {', '.join(columns)}{source}"


def answers(row: Mapping[str, Any], request: Request) -> tuple[Fraction | None, ...]:
    """The statement's row → exact answers in the aggregates' units; None: a median or an average of no rows."""
    found: list[Fraction | None] = []
    for number, aggregate in enumerate(request.distinct, 1):
        above, below = row[f"a{number}"], row[f"b{number}"]
        step = aggregate.lattice.step if aggregate.lattice is not None else Fraction(1)
        empty = above is None or below is None or Fraction(below) == 0
        found.append(None if empty else Fraction(above) / Fraction(below) * step)
    return tuple(found)


def _rows(synthetic: Synthetic) -> str:
    """The copy as relation r, which has the columns that both have and no others: what a copy has besides, its weight
    and a release's value, may bear the name of a column of the original.
    """
    columns = ", ".join(f"{_COPY}.{identifier(name)}" for name in synthetic.columns)
    return f"{synthetic.sql} AS {_COPY} CROSS JOIN LATERAL (SELECT {columns}) AS {_ALIAS}"


def _where(request: Request) -> str:
    return f" WHERE {request.predicate}" if request.predicate is not None else ""


def _weight(synthetic: Synthetic) -> str | None:
    if synthetic.weight is None:
        return None
    column = f"{_COPY}.{identifier(synthetic.weight)}"
    return f"CASE WHEN {column} > 0 AND {column} < {_WEIGHT_MAX} THEN {column}::pg_catalog.numeric ELSE 0 END"


def _filter(*conditions: str | None) -> str:
    given = [f"({one})" for one in conditions if one is not None]
    return f" FILTER (WHERE {' AND '.join(given)})" if given else ""


def _fraction(request: Request, aggregate: Aggregate, synthetic: Synthetic) -> tuple[str, str]:
    """SQL of (numerator, denominator)."""
    weight = _weight(synthetic)
    if aggregate.function == "count":
        if aggregate.of == UNITS:
            return f"count(DISTINCT {_unit(request, synthetic)}){_filter(aggregate.filter)}", "1"
        present = f"{aggregate.argument} IS NOT NULL" if aggregate.of == COLUMN else None
        chosen = _filter(aggregate.filter, present)
        return (f"count(*){chosen}" if weight is None else f"coalesce(sum({weight}){chosen}, 0)"), "1"
    if aggregate.lattice is None:
        raise ValueError("an aggregate of values without its lattice")
    value = aggregate.lattice.sql
    if aggregate.function == "quantile":
        return _quantile(request, aggregate, synthetic, weight or "1"), "1"
    weighted = f"({value})" if weight is None else f"({value}) * {weight}"
    total = f"coalesce(sum({weighted}){_filter(aggregate.filter)}, 0)"
    if aggregate.function == "sum":
        return total, "1"
    present = _filter(aggregate.filter, f"({value}) IS NOT NULL")
    return total, f"count(*){present}" if weight is None else f"coalesce(sum({weight}){present}, 0)"


def _quantile(request: Request, aggregate: Aggregate, synthetic: Synthetic, weight: str) -> str:
    """The smallest value up to which the weights reach p of their sum: percentile_disc, exactly, for any weights."""
    if aggregate.lattice is None:
        raise ValueError("a quantile without its lattice")
    conditions = [c for c in (request.predicate, aggregate.filter) if c is not None]
    where = f" WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
    rows = f"SELECT {aggregate.lattice.sql} AS v, {weight} AS w FROM {_rows(synthetic)}{where}"
    by_value = f"SELECT v, sum(w)::pg_catalog.numeric AS w FROM ({rows}) AS y WHERE v IS NOT NULL AND w > 0 GROUP BY v"
    running = f"SELECT v, sum(w) OVER (ORDER BY v) AS c, sum(w) OVER () AS n FROM ({by_value}) AS x"
    return f"SELECT min(v) FROM ({running}) AS z WHERE c >= n * {aggregate.parameters.fraction}"


def _unit(request: Request, synthetic: Synthetic) -> str:
    """The unit's column, if the copy has it and stands for whole users."""
    columns = {f"{_ALIAS}.{identifier(name)}" for name in synthetic.columns}
    own = sorted(columns & request.source.unit_columns)
    if not own or synthetic.weight is not None:
        raise DPError(
            UNDECLARED if not own else SHAPE,
            f"{synthetic.qualified} does not say which of its rows belong to one unit",
            "Compare numbers of rows, count(*), or register a copy without weights that has the unit's column.",
        )
    return own[0]
