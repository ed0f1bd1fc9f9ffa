"""What `pg-epsilon plot explanation` draws of an answer, from what dp_shown says of it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from pg_epsilon_proxy import plot_explanation
from pg_epsilon_proxy.plot_explanation import arrange, make_figure
from pg_epsilon_proxy.plots import NothingToPlot

ROWS: list[list[Any]] = [
    ["degree = 'MSc'", "0.75", "0.7", "0.8", 1, 1],
    ["age >= 20 AND age < 30 AND occupation = 'a very long name of what somebody does'", "-0.1", "-0.2", "0", 2, 9],
]


def told(rows: list[list[Any]] = ROWS, **facts: Any) -> dict[str, Any]:
    known = {
        "groups": [["Sales"], ["Tech"]],
        "weights": ["1", "-1"],
        "aggregate": "avg(income)",
        "predicates": 12,
        "confidence": "0.95",
    }
    return {
        "request_id": "0cd0e1a2-0000-4000-8000-000000000001",
        "as_of": "2026-01-02 03:04:05+00",
        "explain": {"rows": rows},
        "facts": {"explain": {**known, **facts}},
    }


def segments(axis: Any) -> list[tuple[float, float, float]]:
    """(place, start, end) of the panel's intervals."""
    (found,) = [one for one in axis.collections if len(one.get_segments())]
    return [(float(a[1]), float(a[0]), float(b[0])) for a, b in found.get_segments()]


def test_each_predicate_has_a_share_and_a_rank() -> None:
    figure = make_figure(arrange(told()))
    left, right = figure.axes
    assert segments(left) == [(0, 0.7, 0.8), (1, -0.2, 0.0)]
    assert segments(right) == [(0, 1.0, 1.0), (1, 2.0, 9.0)]
    (points,) = [one for one in left.lines if one.get_marker() == "o"]
    assert [tuple(map(float, one)) for one in points.get_xydata()] == [(0.75, 0), (-0.1, 1)]
    labels = [one.get_text() for one in left.get_yticklabels()]
    assert labels[0] == ROWS[0][0]
    assert labels[1].replace("\n", " ") == ROWS[1][0] and max(map(len, labels[1].splitlines())) <= 48
    assert figure.get_suptitle().splitlines() == [
        "why avg(income) of Sales is above that of Tech: 2 of 12 predicates",
        "released as of 2026-01-02 03:04:05+00; intervals hold with confidence 0.95; no cause is claimed",
    ]
    bottom, top = left.get_ylim()
    assert bottom > top  # the largest share is at the top
    assert right.get_xscale() == "linear"


def test_no_share_is_drawn_of_what_may_be_noise() -> None:
    figure = make_figure(arrange(told([[row[0], None, None, None, *row[4:]] for row in ROWS], predicates=5000)))
    left, right = figure.axes
    assert not left.collections
    assert "no share of it is told" in left.texts[0].get_text()
    assert (len(segments(right)), right.get_xscale()) == (2, "log")


def test_an_expression_has_ranks_alone() -> None:
    rows = [[row[0], None, None, None, *row[4:]] for row in ROWS]
    found = arrange(told(rows, weights=[], expression="o1 / o2"))
    assert found.heading[0].startswith("why o1 / o2 is large, o1, ... being avg(income) of Sales; Tech: 2 of 12")
    left, right = make_figure(found).axes
    assert "one row could change" in left.texts[0].get_text()
    assert len(segments(right)) == 2


def test_weighted_sums_and_null_groups() -> None:
    weighted = arrange(told(weights=["1", "-1/2", "-1/2"], groups=[["a"], ["b"], ["c"]]))
    assert weighted.heading[0].startswith("why a weighted sum of avg(income) over 3 groups is large")
    assert "Sales, NULL is above that of Tech, f" in arrange(told(groups=[["Sales", None], ["Tech", "f"]])).heading[0]


@pytest.mark.parametrize("name", ["a.png", "a.svg"])
def test_the_file_is_what_its_name_says(tmp_path: Path, name: str) -> None:
    """Names stay text, dollars and other scripts among them."""
    file = tmp_path / name
    rows = [["x = '$a$ ☃ <b>'", "0.5", "0.4", "0.6", 1, 2]]
    plot_explanation.draw(arrange(told(rows)), str(file))
    if name.endswith("svg"):
        texts = {(part.text or "").strip() for part in ET.parse(file).getroot().iter()}  # noqa: S314
        assert rows[0][0] in texts
    else:
        assert file.read_bytes().startswith(b"\x89PNG\r\n")


def test_another_answer_is_refused() -> None:
    with pytest.raises(NothingToPlot, match="is no explanation of a difference"):
        arrange({"request_id": "0cd0e1a2-0000-4000-8000-000000000001", "facts": {}, "rows": []})
