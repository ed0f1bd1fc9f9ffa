"""What `pg-epsilon plot family` draws of a published release, from what the views show of it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pg_epsilon_proxy import plot_family
from pg_epsilon_proxy.plot_family import (
    BELOW,
    MOST_LABELS,
    MOST_POINTS,
    NONE,
    Drawn,
    arrange,
    make_figure,
)
from pg_epsilon_proxy.plots import NothingToPlot

QUERY = "SELECT sum(loss) FROM adult WHERE age = $1"
FAMILY = {"dataset": "adult", "query": QUERY, "yours": True, "as_of": "2026-01-02 03:04:05+00"}
PROMISE = {"confidence": "0.95", "simultaneous": True}
Value = float | None


def row(parameters: Sequence[str], answer: Value, low: Value, high: Value, *, below: bool = False) -> dict[str, Any]:
    return {
        "dataset": "adult",
        "parameters": parameters,
        "answer": answer,
        "low": low,
        "high": high,
        "below_resolution": below,
        **PROMISE,
    }


def told(rows: Sequence[dict[str, Any]]) -> Drawn:
    return arrange("loss", [FAMILY], rows)


def drawn(axis: Any) -> tuple[list[list[tuple[float, float]]], dict[str, list[tuple[float, float]]]]:
    """The ends of the bars, and where the markers are by the words of the legend."""
    bars = [[(float(x), float(y)) for x, y in one] for found in axis.collections for one in found.get_segments()]
    marks = {str(one.get_label()): [(float(x), float(y)) for x, y in one.get_xydata()] for one in axis.lines}
    return bars, marks


def test_answers_stand_above_the_one_parameter() -> None:
    """At its numbers, whatever their order; hollow where nothing could be told from noise."""
    rows = [row(["30"], 10, 8, 15), row(["2.5"], 0, -3, 9, below=True), row(["-4"], 7, 7, 7)]
    figure = make_figure(told(rows))
    (axis,) = figure.axes
    bars, marks = drawn(axis)
    assert bars == [[(30, 8), (30, 15)], [(-4, 7), (-4, 7)], [(2.5, -3), (2.5, 9)]]
    assert marks == {"answer": [(30, 10), (-4, 7)], BELOW: [(2.5, 0)]}
    assert [one.get_fillstyle() for one in axis.lines] == ["full", "none"]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("$1", "answer")
    assert [one.get_text() for one in figure.legends[0].get_texts()] == ["answer", BELOW]
    assert figure.get_suptitle().splitlines() == [
        "family loss of dataset adult",
        f"{QUERY}, released as of 2026-01-02 03:04:05+00",
        "bars of all queries hold at once with confidence 0.95",
    ]


def test_the_title_says_what_bars_promise() -> None:
    """Each by itself where the publisher asked so; nothing where there are none."""
    alone = row(["30"], 10, 8, 15) | {"confidence": "0.8", "simultaneous": False}
    assert told([alone]).heading[-1] == "bars hold each by itself with confidence 0.8"
    bare = [row(["30"], 10, None, None), row(["31"], 9, float("nan"), float("inf"))]
    assert told(bare).heading[-1] == "no bars: how far the answers are off was not measured"


def test_ranges_have_a_label_each_from_above_to_below() -> None:
    rows = [row(["17", "25"], 10, 8, 15), row(["", "NULL"], 0, -3, 9, below=True)]
    (axis,) = make_figure(told(rows)).axes
    assert [one.get_text() for one in axis.get_yticklabels()] == ["17, 25", "'', 'NULL'"]
    assert list(axis.get_yticks()) == [1, 2]
    bars, marks = drawn(axis)
    assert bars == [[(8, 1), (15, 1)], [(-3, 2), (9, 2)]]
    assert marks == {"answer": [(10, 1)], BELOW: [(0, 2)]}
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("answer", "$1, $2")
    bottom, top = axis.get_ylim()
    assert bottom > top


@pytest.mark.parametrize("values", [["north", "3"], ["2024-01-01", "2024-02-01"], ["NaN", "1"]])
def test_a_parameter_that_is_no_number_has_labels(values: list[str]) -> None:
    found = told([row([value], 1, 0, 2) for value in values])
    assert (found.labels, list(found.places), found.axis) == (values, [1, 2], "$1")


def test_an_average_of_no_rows_is_a_cross_at_the_edge() -> None:
    (axis,) = make_figure(told([row(["1"], None, None, None), row(["2"], 5, 4, 6)])).axes
    bars, marks = drawn(axis)
    assert bars == [[(2, 4), (2, 6)]]
    assert marks == {"answer": [(2, 5)], NONE: [(1, 0.02)]}
    assert [one.get_marker() for one in axis.lines] == ["o", "x"]


def test_an_end_that_is_not_finite_leaves_the_point_alone() -> None:
    (axis,) = make_figure(told([row(["1"], 5, 4, float("inf")), row(["2"], float("nan"), 1, 2)])).axes
    assert drawn(axis) == ([[(2, 1), (2, 2)]], {"answer": [(1, 5)], NONE: [(2, 0.02)]})


def test_many_ranges_stand_at_their_number_and_the_rest_is_counted() -> None:
    rows = [row([str(n), "x"], n, n - 1, n + 1) for n in range(MOST_POINTS + 7)]
    few = told(rows[:MOST_LABELS])
    assert (len(few.labels), few.axis, few.heading[-1][:4]) == (MOST_LABELS, "$1, $2", "bars")
    some = told(rows[: MOST_LABELS + 1])
    assert (some.labels, some.axis) == ([], "number of the query in the grid")
    many = told(rows)
    assert (list(many.places), many.heading[-1]) == (list(range(1, MOST_POINTS + 1)), "7 more queries")
    (axis,) = make_figure(some).axes
    assert drawn(axis)[1] == {"answer": [(n + 1, n) for n in range(MOST_LABELS + 1)]}


@pytest.mark.parametrize(
    ("families", "said"),
    [
        ([], "there is no family of this name that you may see"),
        ([FAMILY], "repeat its call with publish => true, which costs nothing"),
        ([FAMILY | {"yours": False}], "is another analyst's, who publishes them with shows_grid"),
    ],
)
def test_a_family_without_answers_is_refused(families: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(NothingToPlot, match=said):
        arrange("loss", families, [])


def test_who_may_not_see_the_family_draws_what_is_shown() -> None:
    """Of another dataset's family of that name, whose query the picture must not bear, too."""
    for families in ([], [FAMILY | {"dataset": "second"}]):
        found = arrange("loss", families, [row(["1"], 5, 4, 6)])
        assert [line[:6] for line in found.heading] == ["family", "bars o"]


def test_names_stand_in_an_svg_as_they_are(tmp_path: Path) -> None:
    """No formula between two dollars, nothing that XML could not hold, of any length."""
    file = tmp_path / "a.svg"
    long = "SELECT sum(x) FROM t WHERE a = '\x07$1$' OR b = '" + "y" * 300
    rows = [row(["$10 - $20"], 1, 0, 2), row(["<b>\x07"], 1, 0, 2), row(["x" * 200], 1, 0, 2)]
    plot_family.draw(arrange("loss", [FAMILY | {"query": long}], rows), str(file))
    root = ET.parse(file).getroot()  # noqa: S314  (our own)
    texts = {(one.text or "").strip() for one in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"$10 - $20", "<b>", "x" * 39 + "…", "answer", "$1"} <= texts
    assert any("' $1$'" in text for text in texts)
