"""The same question of the synthetic table: one statement over public rows, exact (dp-pqd.md §2.1, §2.2, §2.6).

The condition, the clamp and the lattice are the compiled ones of the private question, to the letter: relation r is the
copy instead of the original. A weight says for how many rows one stands; without one, or below 0, it stands for none.

The table of a published family has no column that was summed up, but its values: sum(x), avg(x) and count(x) of the
family's own x are read from these (numeric-release.md §0). The family's conditions hold of all its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pg_epsilon.decide.question import Question
from pg_epsilon.errors import SHAPE, UNDECLARED, DPError
from pg_epsilon.query.aggregates import COLUMN, UNITS, Aggregate
from pg_epsilon.query.bounds import Lattice
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
    source = f" FROM {_rows(question.synthetic)}{_where(request, question.synthetic)}" if read else ""
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


def _where(request: Request, synthetic: Synthetic) -> str:
    predicate = _predicate(request, synthetic)
    return f" WHERE {predicate}" if predicate is not None else ""


def _predicate(request: Request, synthetic: Synthetic) -> str | None:
    """The question's condition; of a family's table without the family's own, which the question must have."""
    if synthetic.release is None or not synthetic.release.where:
        return request.predicate
    rest = [term.sql for term in request.conjuncts]
    for one in synthetic.release.where:
        if one not in rest:
            raise DPError(
                SHAPE,
                f"{synthetic.qualified} has only rows that meet the conditions of its family",
                "Ask with the family's own conditions (SELECT name, query FROM dp.families), or without the table.",
            )
        rest.remove(one)
    return " AND ".join(f"({one})" for one in rest) or None


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
        value = _own_value(aggregate, synthetic) or aggregate.argument
        present = f"{value} IS NOT NULL" if aggregate.of == COLUMN else None
        chosen = _filter(aggregate.filter, present)
        return (f"count(*){chosen}" if weight is None else f"coalesce(sum({weight}){chosen}, 0)"), "1"
    if aggregate.lattice is None:
        raise ValueError("an aggregate of values without its lattice")
    if aggregate.function == "quantile":
        return _quantile(request, aggregate, synthetic, weight or "1"), "1"
    own = _own_value(aggregate, synthetic)
    if own is not None:
        return _of_values(own, aggregate, aggregate.lattice, weight)
    value = aggregate.lattice.sql
    weighted = f"({value})" if weight is None else f"({value}) * {weight}"
    total = f"coalesce(sum({weighted}){_filter(aggregate.filter)}, 0)"
    if aggregate.function == "sum":
        return total, "1"
    present = _filter(aggregate.filter, f"({value}) IS NOT NULL")
    return total, f"count(*){present}" if weight is None else f"coalesce(sum({weight}){present}, 0)"


def _own_value(aggregate: Aggregate, synthetic: Synthetic) -> str | None:
    """The column that has the argument's values, where the copy is the table of a family that sums it up."""
    own = synthetic.release.aggregate if synthetic.release is not None else {}
    if synthetic.release is None or "sum" not in own or own.get("argument") != aggregate.argument:
        return None
    if aggregate.lattice is not None and aggregate.canonical()["lattice"][:4] != own["lattice"][:4]:
        return None  # other bounds, or another resolution
    return f"{_COPY}.{identifier(synthetic.release.value)}"


def _of_values(value: str, aggregate: Aggregate, lattice: Lattice, weight: str | None) -> tuple[str, str]:
    """Sum or average of values that are in the aggregate's unit, as a fraction of lattice units."""
    number = f"NULLIF({value}, 'NaN')::pg_catalog.numeric"
    over, under = lattice.step.denominator, lattice.step.numerator
    total = f"coalesce(sum({number} * {weight or '1'}){_filter(aggregate.filter)}, 0) * {over}"
    if aggregate.function == "sum":
        return total, str(under)
    present = _filter(aggregate.filter, f"{number} IS NOT NULL")
    return total, f"coalesce(sum({weight or '1'}){present}, 0) * {under}"


def _quantile(request: Request, aggregate: Aggregate, synthetic: Synthetic, weight: str) -> str:
    """The smallest value up to which the weights reach p of their sum: percentile_disc, exactly, for any weights."""
    if aggregate.lattice is None:
        raise ValueError("a quantile without its lattice")
    conditions = [c for c in (_predicate(request, synthetic), aggregate.filter) if c is not None]
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
