"""Which expressions cut a moment's seconds to equal cells, and how far apart samples of every cell may be."""

from __future__ import annotations

import pytest

from pg_epsilon.query import epochs
from pg_epsilon.query.parse import parse_expression

CUT: list[tuple[str, int]] = [
    ("floor(extract(epoch FROM at) / 300)", 150),
    ("floor((EXTRACT(epoch FROM at) / (300)::numeric))", 150),
    ("floor(extract(epoch FROM at) / 300.000)", 150),
    ("floor(extract(epoch FROM at) / '300'::int2)", 150),
    ("ceil(extract(epoch FROM at::timestamptz) / 3600)", 1800),
    ("round(pg_catalog.date_part('EPOCH', e.at) / 90)", 45),
    ("trunc(extract(epoch FROM at) / 75)", 25),
    ("(extract(epoch FROM at) / 7)::int", 1),
    ("extract(epoch FROM at)::bigint / 60", 30),
    ("floor(date_part('epoch', at))::int8 / 60::int8", 30),
    ("div(extract(epoch FROM at), 2)", 1),
]
# Not cut, or by what nobody knows, or into cells too short, or of more than one column's moment.
OTHERS = [
    "at",
    "extract(epoch FROM at)",
    "extract(epoch FROM at) / 300",
    "extract(epoch FROM at)::bigint / 300.0",
    "floor(extract(epoch FROM at)) / 300",
    "floor(extract(epoch FROM at))",
    "floor(extract(epoch FROM at) / 1)",
    "floor(extract(epoch FROM at) / 2.5)",
    "floor(extract(epoch FROM at) / -300)",
    "floor(extract(epoch FROM at) / n)",
    "floor(extract(epoch FROM at) / 'NaN'::numeric)",
    "floor(extract(epoch FROM at) / 'x'::numeric)",
    "floor(extract(epoch FROM at) / NULL)",
    "floor(extract(epoch FROM at) / 10000000000)",
    "floor(extract(epoch FROM at) / 300 + 1)",
    "floor(extract(minute FROM at) / 15)",
    "floor(extract(epoch FROM b - a) / 300)",
    "floor(extract(epoch FROM timezone('Europe/Paris', at)) / 300)",
    "floor(n / 300)",
    "round(extract(epoch FROM at) / 300, 2)",
    "div(extract(epoch FROM at), 300, 1)",
    "1200 / 300",
    "abs(extract(epoch FROM at) / 300)",
]


@pytest.mark.parametrize(("text", "seconds"), CUT)
def test_seconds_between_samples(text: str, seconds: int) -> None:
    found = epochs.cell(parse_expression(text))
    assert found is not None
    column, apart = found
    assert [field.sval for field in column.fields][-1] == "at"
    assert apart == seconds


@pytest.mark.parametrize("text", OTHERS)
def test_of_others_nothing_is_known(text: str) -> None:
    assert epochs.cell(parse_expression(text)) is None


@pytest.mark.parametrize("width", [2, 3, 9, 10, 35, 49, 97, 900, 86_400, 99_999])
def test_they_divide_the_width_and_are_half_of_it_or_less(width: int) -> None:
    found = epochs.cell(parse_expression(f"floor(extract(epoch FROM at) / {width})"))
    assert found is not None
    assert width % found[1] == 0
    assert 1 <= found[1] <= width / 2
