"""`pg-epsilon plot family`: the answers of a published release, with their bars.

Nothing is paid: all of it is what dp.release_answers and dp.families show to who asks.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pg_epsilon_proxy.plot_release import STYLE, save, shorten
from pg_epsilon_proxy.plots import NothingToPlot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LABELS = 60  # that can be read one below another
MOST_POINTS = 2000  # that can be told apart
LONGEST_QUERY = 200  # characters
BELOW = "no rows that could be told from noise: the answer is 0, the truth is in the bar"
NONE = "no answer: an average of no rows"
_ANSWERS = """SELECT dataset, parameters, answer, low, high, below_resolution,
  confidence::text AS confidence, simultaneous
FROM dp.release_answers WHERE name = $1"""
_FAMILY = "SELECT dataset, query, yours, as_of::text AS as_of FROM dp.families WHERE name = $1"


@dataclass(frozen=True)
class Point:
    """A query: its parameters as they were written, its answer and bar. None: NULL, not finite.

    below: no rows could be told from noise.
    """

    parameters: Sequence[str | None]
    answer: float | None
    low: float | None
    high: float | None
    below: bool


@dataclass(frozen=True)
class Drawn:
    """What is drawn. places: where each point stands on the axis of queries, which `axis` names.

    labels: what stands at the places, from above to below; empty where numbers do, on an axis of
    numbers. heading: lines above the picture.
    """

    points: Sequence[Point]
    places: Sequence[float]
    axis: str
    labels: Sequence[str]
    heading: Sequence[str]


async def fetch(connection: Any, name: str) -> Drawn:
    """The answers to the grid of the published family of this name, if this role may see them.

    Free. Error: NothingToPlot. A name stands for one published family of all datasets.
    """
    families = await connection.fetch(_FAMILY, name)
    answers = await connection.fetch(_ANSWERS, name)
    return arrange(name, families, answers)


def arrange(name: str, families: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> Drawn:
    """What is drawn, from rows of dp.families and dp.release_answers for this name.

    One parameter whose values are numbers is the axis. Other queries have a label each, up to
    MOST_LABELS; more of them stand at their number in the grid, and above MOST_POINTS the first
    ones are drawn; the heading counts the rest. NothingToPlot: no answers are shown to this role.
    """
    if not answers:
        raise NothingToPlot(_why_none(name, families))
    points = [_read(row) for row in answers[:MOST_POINTS]]
    dataset = answers[0]["dataset"]
    heading = [f"family {shorten(name)} of dataset {shorten(dataset)}"]
    heading += [
        f"{shorten(row['query'], LONGEST_QUERY)}, released as of {row['as_of']}"
        for row in families
        if row["dataset"] == dataset
    ]
    heading.append(_of_bars(answers[0], points))
    if len(points) < len(answers):
        heading.append(f"{len(answers) - len(points)} more queries")
    places, axis = _places(points)
    by_label = axis == "" and len(points) <= MOST_LABELS
    if axis == "" and not by_label:
        axis = "number of the query in the grid"
    labels = [", ".join(map(_label, one.parameters)) for one in points] if by_label else []
    return Drawn(points, places, axis or _names(len(points[0].parameters)), labels, heading)


def draw(drawn: Drawn, output: str) -> None:
    """Write the picture to a .png or .svg file. Error: OSError."""
    save(lambda: make_figure(drawn), output)


def make_figure(drawn: Drawn) -> Figure:
    """A point and a bar for each query: beside its label, or above its place on the axis."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    lines = len(drawn.labels)
    size = (9.0, 2.0 + 0.26 * lines if lines else 5.0)
    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axis = figure.subplots()
        _draw_points(axis, drawn)
        if lines:
            axis.set_yticks(range(1, lines + 1), drawn.labels)
            axis.set_ylim(lines + 0.5, 0.5)
            axis.set_ylabel(drawn.axis)
            axis.set_xlabel("answer")
        else:
            axis.set_xlabel(drawn.axis)
            axis.set_ylabel("answer")
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.25)
        figure.legend(loc="outside lower center", fontsize=7)
        figure.suptitle("\n".join(textwrap.fill(line, 100) for line in drawn.heading), fontsize=10)
    return figure


def _draw_points(axis: Axes, drawn: Drawn) -> None:
    """Full points and bars; hollow ones below resolution; a cross where there is no answer."""
    across = bool(drawn.labels)
    both = list(zip(drawn.places, drawn.points, strict=True))
    kinds: list[tuple[str, str, dict[str, Any], list[tuple[float, Point]]]] = [
        ("answer", "C0", {"marker": "o"}, [b for b in both if not b[1].below]),
        (BELOW, "C1", {"marker": "o", "fillstyle": "none"}, [b for b in both if b[1].below]),
    ]
    for words, color, style, found in kinds:
        bars = [(at, p.low, p.high) for at, p in found if p.low is not None and p.high is not None]
        lines = axis.hlines if across else axis.vlines
        at, lows, highs = ([one[part] for one in bars] for part in range(3))
        if bars:
            lines(at, lows, highs, color=color, linewidth=1.2)
        marks = [(at, p.answer) for at, p in found if p.answer is not None]
        if marks:
            _mark(axis, marks, across, color=color, label=words, **style)
    missing = [place for place, point in both if point.answer is None]
    if missing:
        rest: Any = axis.get_yaxis_transform() if across else axis.get_xaxis_transform()
        edge = [(place, 0.02) for place in missing]
        _mark(axis, edge, across, color="C3", marker="x", label=NONE, transform=rest)


def _mark(axis: Axes, marks: Sequence[tuple[float, float]], across: bool, **style: Any) -> None:
    places, values = ([one[part] for one in marks] for part in range(2))
    x, y = (values, places) if across else (places, values)
    axis.plot(x, y, linestyle="none", markersize=5, **style)


def _of_bars(row: Mapping[str, Any], points: Sequence[Point]) -> str:
    """What the bars promise; of all rows it is the same."""
    if all(one.low is None and one.high is None for one in points):
        return "no bars: how far the answers are off was not measured"
    if row["simultaneous"]:
        return f"bars of all queries hold at once with confidence {row['confidence']}"
    return f"bars hold each by itself with confidence {row['confidence']}"


def _places(points: Sequence[Point]) -> tuple[list[float], str]:
    """Where the points stand, and the axis' name; an empty name where it is no parameter."""
    if all(len(one.parameters) == 1 for one in points):
        values = [_number(one.parameters[0]) for one in points]
        known = [one for one in values if one is not None]
        if len(known) == len(values):
            return known, "$1"
    return [float(number) for number in range(1, len(points) + 1)], ""


def _names(parameters: int) -> str:
    return ", ".join(f"${number}" for number in range(1, parameters + 1))


def _why_none(name: str, families: Sequence[Mapping[str, Any]]) -> str:
    if not families:
        return f"{name}: there is no family of this name that you may see: SELECT * FROM dp.families"
    if any(row["yours"] for row in families):
        return (
            f"family {name} is not published, and the answers to its grid are kept for published "
            "ones: repeat its call with publish => true, which costs nothing"
        )
    return (
        f"no answers of family {name} are shown to you: it is another analyst's, who publishes "
        "them with shows_grid => true"
    )


def _read(row: Mapping[str, Any]) -> Point:
    answer, low, high = (_finite(row[part]) for part in ("answer", "low", "high"))
    return Point(row["parameters"], answer, low, high, bool(row["below_resolution"]))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _number(text: str | None) -> float | None:
    try:
        return _finite(None if text is None else float(text))
    except ValueError:
        return None


def _label(value: str | None) -> str:
    """A parameter; a text that looks like NULL, or like nothing, stands in quotation marks."""
    if value is None:
        return "NULL"
    return f"'{value}'" if value.strip() in ("", "NULL") else shorten(value)
