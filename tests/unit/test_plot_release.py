"""What `pg-epsilon plot release` draws of a release, from what dp_shown says of it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pg_epsilon_proxy import plot_release
from pg_epsilon_proxy.plot_release import MOST_GROUPS, MOST_PANELS, Mark, arrange, make_figure
from pg_epsilon_proxy.plots import NothingToPlot

Row = list[str | None]


def told(rows: Sequence[Row], bars: Any = None, *, keys: int = 1, **more: Any) -> dict[str, Any]:
    """What dp_shown says of a release with these rows; bars: (low, high) by row and aggregate."""
    values = len(rows[0]) - keys
    found = {
        "request_id": "0cd0e1a2-0000-4000-8000-000000000001",
        "mechanism": "discrete Laplace",
        "as_of": "2026-01-02 03:04:05+00",
        "confidence": "0.95",
        "keys": keys,
        "names": [f"key{n}" for n in range(keys)] + [f"agg{n}" for n in range(values)],
        "rows": rows,
    }
    if bars is not None:
        found["bars"] = [[[*ends, "1.5"] for ends in row] for row in bars]
    return {**found, **more}


Intervals = list[tuple[float, list[float]]]
Markers = dict[str, list[tuple[float, float]]]


def drawn(axis: Any) -> tuple[Intervals, Markers]:
    """The panel's intervals by the group's place, and where its markers are."""
    (intervals,) = axis.collections
    found = [(float(one[0][1]), [float(x) for x, _ in one]) for one in intervals.get_segments()]
    markers: Markers = {}
    for one in axis.lines:
        if len(one.get_xydata()):
            markers[one.get_marker()] = [(float(x), float(y)) for x, y in one.get_xydata()]
    return found, markers


def labels(axis: Any) -> list[str]:
    return [one.get_text() for one in axis.get_yticklabels()]


def test_each_group_is_a_point_with_its_interval() -> None:
    rows: list[Row] = [["a", "10.5"], ["b", "-3"]]
    figure = make_figure(arrange(told(rows, [[("8", "13")], [("-5.5", "-0.5")]])))
    (axis,) = figure.axes
    assert labels(axis) == ["a", "b"]
    assert drawn(axis) == (
        [(0, [8.0, 13.0]), (1, [-5.5, -0.5])],
        {"|": [(8.0, 0), (13.0, 0), (-5.5, 1), (-0.5, 1)], "o": [(10.5, 0), (-3.0, 1)]},
    )
    assert (axis.get_title(), axis.get_ylabel()) == ("agg0", "key0")
    assert figure.get_suptitle().splitlines() == [
        "released as of 2026-01-02 03:04:05+00, discrete Laplace",
        "error intervals, each with confidence 0.95",
    ]
    bottom, top = axis.get_ylim()
    assert bottom > top  # the first group is at the top


def test_each_aggregate_has_a_panel() -> None:
    """Those that bear one name are told apart by their place. A second row has labels too."""
    values = [str(n) for n in range(5)]
    names = ["city", "count", "sum", "sum", "avg", "avg of x"]
    found = arrange(told([["a", *values], ["b", *values]], names=names))
    figure = make_figure(found)
    titles = [axis.get_title().splitlines()[0] for axis in figure.axes if axis.get_visible()]
    assert titles == ["count", "sum (aggregate 2)", "sum (aggregate 3)", "avg", "avg of x"]
    for n, axis in enumerate(figure.axes[:5]):
        assert drawn(axis)[1] == {"o": [(float(n), 0), (float(n), 1)]}
    assert [axis.get_ylabel() for axis in figure.axes[:5]] == ["city", "", "", "", "city"]


def test_several_keys_and_null_are_told_apart() -> None:
    rows: list[Row] = [["a", "b", "1"], ["a", None, "2"], ["NULL", "", "3"], [" ", "a\nb\x01", "4"]]
    assert arrange(told(rows, keys=2)).groups == ["a, b", "a, NULL", "'NULL', ''", "' ', a b "]
    assert arrange(told(rows, keys=2)).keys == "key0, key1"


@pytest.mark.parametrize(
    ("ends", "known", "end", "marker"),
    [(("40", None), 40.0, 60.0, ">"), ((None, "60"), 60.0, 41.0, "<")],
)
def test_an_end_that_is_not_known_is_an_arrow(
    ends: tuple[str | None, str | None], known: float, end: float, marker: str
) -> None:
    """From the end that is known, past the value by a tenth of what is drawn (100, and 90)."""
    rows: list[Row] = [["a", "50"], ["b", "100"]]
    (axis,) = make_figure(arrange(told(rows, [[ends], [("90", "140")]]))).axes
    intervals, markers = drawn(axis)
    assert intervals == [(0, sorted([known, end])), (1, [90.0, 140.0])]
    assert (markers[marker], markers["|"][0]) == ([(end, 0)], (known, 0))
    assert markers.keys() == {"|", "o", marker}
    assert axis.get_title().splitlines() == ["agg0", "arrow: this end is not known"]


def test_values_without_intervals_are_points_and_said_to_be() -> None:
    """Whether the release has no bars or its aggregates have none. No confidence is told."""
    rows: list[Row] = [["a", "1", "2"], ["b", "3", "4"]]
    unknown = [[(None, None), (None, None)]] * 2
    for bars in (None, unknown):
        figure = make_figure(arrange(told(rows, bars)))
        for axis in figure.axes:
            said = axis.get_title().splitlines()[1:]
            assert said == ["values only: no error intervals are known"]
            assert (drawn(axis)[0], list(drawn(axis)[1])) == ([], ["o"])
        assert "confidence" not in figure.get_suptitle()
    first_only = [[("0", "2"), (None, None)], [("2", "4"), (None, None)]]
    half = make_figure(arrange(told(rows, first_only)))
    assert [len(axis.get_title().splitlines()) for axis in half.axes] == [1, 2]
    assert half.get_suptitle().endswith("each with confidence 0.95")


def test_a_group_of_its_own_without_interval_is_said_to_be() -> None:
    rows: list[Row] = [["a", "1"], ["b", "3"]]
    (axis,) = make_figure(arrange(told(rows, [[("0", "2")], [(None, None)]]))).axes
    assert axis.get_title().splitlines() == ["agg0", "point alone: no error interval is known"]


def test_a_null_value_has_no_point() -> None:
    """A standard deviation of too few rows: its interval stands alone. NaN has no place either."""
    rows: list[Row] = [["a", None], ["b", "NaN"]]
    (axis,) = make_figure(arrange(told(rows, [[("0", "2")], [("2", "Infinity")]]))).axes
    texts = [(one.get_text(), one.get_position()[1]) for one in axis.texts]
    assert texts == [("NULL", 0), ("NULL", 1)]
    assert drawn(axis) == (
        [(0, [0.0, 2.0]), (1, [2.0, 2.2])],
        {"|": [(0.0, 0), (2.0, 0), (2.0, 1)], ">": [(2.2, 1)]},
    )


def test_of_many_groups_the_largest_are_drawn() -> None:
    """By the first aggregate, in the release's order. A group without a value is left out first."""
    many = MOST_GROUPS + 5
    rows: list[Row] = [[f"g{n}", str(n), str(-n)] for n in range(many)]
    rows[many - 1][1] = None
    found = arrange(told(rows))
    assert found.groups == [f"g{n}" for n in range(4, many - 1)]
    assert found.panels[1].marks[0] == Mark(-4.0, None, None)
    assert found.heading[-1] == "5 more groups, with no larger values of agg0"
    assert arrange(told(rows[:MOST_GROUPS])).heading[1:] == []


def test_of_many_aggregates_the_first_are_drawn() -> None:
    found = arrange(told([["a", *map(str, range(MOST_PANELS + 3))]]))
    assert [panel.name for panel in found.panels] == [f"agg{n}" for n in range(MOST_PANELS)]
    assert found.heading[-1] == "3 more aggregates"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"keys": 0, "names": ["count", "x"]}, "has no groups"),
        ({"rows": []}, "has no groups"),
        ({"workload": {"rows": []}}, "plot workload draws it"),
        ({"decisions": [{}]}, "is a decision"),
        ({"synthesis": {}}, "made a synthetic table"),
        ({"rows": [["a", "2024-02-29"]]}, "only numbers are drawn, and agg0 is 2024-02-29"),
    ],
)
def test_what_is_no_group_by_of_numbers_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(NothingToPlot, match=said):
        arrange({**told([["a", "1"]]), **change})


def test_names_stand_in_an_svg_as_they_are(tmp_path: Path) -> None:
    """No formula between two dollars, nothing that XML could not hold, of any length and script."""
    names: list[str | None] = ["$10 - $20", "<b> & 'c'", "\x07bell", "x" * 200, "東京"]
    file = tmp_path / "a.svg"
    rows: list[Row] = [[name, "1"] for name in names]
    plot_release.draw(arrange(told(rows, names=["$k$", "sum($x$_1)"])), str(file))
    root = ET.parse(file).getroot()  # noqa: S314  (our own)
    texts = {(one.text or "").strip() for one in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"$10 - $20", "<b> & 'c'", "bell", "x" * 39 + "…", "東京", "$k$", "sum($x$_1)"} <= texts


@pytest.mark.long
def test_the_largest_picture_can_be_written(tmp_path: Path) -> None:
    rows: list[Row] = [[f"group {n}", *["1"] * MOST_PANELS] for n in range(MOST_GROUPS)]
    plot_release.draw(arrange(told(rows)), str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n")
