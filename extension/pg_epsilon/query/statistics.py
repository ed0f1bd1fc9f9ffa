"""`Request` → the one statement that reduces rows to a few exact integers (rule R6, composition.md §2).

Every statement scans the relation once. Columns of the result: the keys' texts k1.. (grouped requests), then one exact
count a1.. per aggregate. With user units, rows whose unit is NULL or dangling count nowhere (§1.3), and a cap on rows
per unit keeps, of each unit, a function of that unit's own rows (§2.3).
"""

from __future__ import annotations

from pg_epsilon.query.aggregates import COLUMN, UNITS, Aggregate
from pg_epsilon.query.request import Request


def statement(request: Request) -> str:
    """The statistics statement of a request: total operators over declared columns only, one scan."""
    if not request.source.has_user_units:
        return _row_statement(request)
    return _grouped_user_statement(request) if request.keys else _user_statement(request)


def needs_row_cap(request: Request) -> bool:
    """Whether rows beyond max_rows_per_unit must be dropped: rows count, or a unit may stand in too many groups."""
    if not request.source.has_user_units or request.source.kappa is None:
        return False
    rows_counted = any(a.of != UNITS for a in request.aggregates)
    return rows_counted or request.source.kappa < request.cells


def _row_statement(request: Request) -> str:
    keys = [f"{key.sql} AS k{i}" for i, key in enumerate(request.keys, 1)]
    counts = [f"{_count(a.argument, a.filter)} AS a{i}" for i, a in enumerate(request.aggregates, 1)]
    inner = f"SELECT {', '.join(keys + counts)} FROM {request.source.sql}{request.source.where}"
    if not keys:
        return inner
    grouped = f"{inner} GROUP BY {', '.join(str(i) for i in range(1, len(keys) + 1))}"
    return f"SELECT * FROM ({grouped}) AS g WHERE {_in_domain(request, 'g')}"


def _user_statement(request: Request) -> str:
    """Ungrouped, user units: per unit first, then over units; keeping κ of a unit's matching rows is least(n, κ)."""
    source = request.source
    simple = all(a.of == UNITS and a.filter is None for a in request.aggregates)
    inner = [f"{source.unit} AS u"]
    outer = []
    for i, a in enumerate(request.aggregates, 1):
        if simple:
            outer.append(f"count(*) AS a{i}")
        elif a.of == UNITS:
            inner.append(f"bool_or({a.filter or 'true'}) AS b{i}")
            outer.append(f"count(*) FILTER (WHERE b{i}) AS a{i}")
        else:
            inner.append(f"least({_count(a.argument, a.filter)}, {source.kappa}) AS n{i}")
            outer.append(f"coalesce(sum(n{i}), 0)::bigint AS a{i}")
    per_unit = f"SELECT {', '.join(inner)} FROM {source.sql}{source.where} GROUP BY 1"
    return f"SELECT {', '.join(outer)} FROM ({per_unit}) AS s"


def _grouped_user_statement(request: Request) -> str:
    """Grouped, user units: rows (capped per unit, if they must be) → per key and unit → per key."""
    source, n = request.source, len(request.keys)
    names = [f"k{i}" for i in range(1, n + 1)]
    columns = [f"{key.sql} AS {name}" for key, name in zip(request.keys, names, strict=True)] + [f"{source.unit} AS u"]
    columns += [f"{_flag(a)} AS f{i}" for i, a in enumerate(request.aggregates, 1)]
    capped = needs_row_cap(request)
    columns += [f"{source.order} AS o"] if capped else []
    rows = f"SELECT {', '.join(columns)} FROM {source.sql}{source.where}"
    rows = f"({rows}) AS q WHERE {_in_domain(request, 'q')}"
    if capped:
        ranked = f"SELECT q.*, row_number() OVER (PARTITION BY u ORDER BY o) AS rn FROM {rows}"
        rows = f"({ranked}) AS p WHERE rn <= {source.kappa}"
    positions = ", ".join(str(i) for i in range(1, n + 2))
    inner = [*names, "u"]
    outer = list(names)
    for i, a in enumerate(request.aggregates, 1):
        if a.of == UNITS:
            inner.append(f"bool_or(f{i}) AS b{i}")
            outer.append(f"count(*) FILTER (WHERE b{i}) AS a{i}")
        else:
            inner.append(f"count(*) FILTER (WHERE f{i}) AS n{i}")
            outer.append(f"sum(n{i})::bigint AS a{i}")
    per_unit = f"SELECT {', '.join(inner)} FROM {rows} GROUP BY {positions}"
    return f"SELECT {', '.join(outer)} FROM ({per_unit}) AS s GROUP BY {', '.join(names)}"


def _count(argument: str | None, condition: str | None) -> str:
    return f"count({argument or '*'})" + (f" FILTER (WHERE {condition})" if condition else "")


def _flag(aggregate: Aggregate) -> str:
    parts = [f"({aggregate.filter})"] if aggregate.filter else []
    if aggregate.of == COLUMN:
        parts.append(f"({aggregate.argument}) IS NOT NULL")
    return f"coalesce({' AND '.join(parts)}, false)" if parts else "true"


def _in_domain(request: Request, alias: str) -> str:
    """Keeps only declared keys, so that what reaches the core is bounded by a public number."""
    parts = []
    for i, key in enumerate(request.keys, 1):
        texts = ", ".join(_literal(value) for value in key.domain if value is not None)
        known = f"{alias}.k{i} = ANY (ARRAY[{texts}]::text[])"
        parts.append(f"({known} OR {alias}.k{i} IS NULL)" if None in key.domain else known)
    return " AND ".join(parts)


def _literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"E'{escaped.replace(chr(92), chr(92) * 2)}'" if "\\" in text else f"'{escaped}'"
