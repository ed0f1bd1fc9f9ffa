"""A superuser's window onto the exact statistics of a request, which nobody else ever has."""

from __future__ import annotations

# In the order in which keys and aggregates are asked for; the statement has an order of its own (composition.md §7.1).
EXACT = """
CREATE FUNCTION public.exact(request jsonb) RETURNS jsonb LANGUAGE plpython3u AS $$
import json, plpy
from pg_epsilon import entry
plan = entry._compile(json.loads(request))
keys = len(plan.request.keys)
parts, start = [], keys
for choice in plan.choices:
    width = sum(measure.width for measure in choice.estimator.measures)
    parts.append(range(start, start + width))
    start += width
order = [*plan.request.places, *(n for place in dict.fromkeys(plan.places) for n in parts[place])]
rows = [list(row.values()) for row in plpy.execute(plan.statement)]
if rows and len(order) < len(rows[0]):  # a quantile's histogram: rows of other columns, in the statement's order
    order = range(len(rows[0]))
return json.dumps([[row[n] for n in order] for row in rows], default=int)
$$
"""
