"""`pg-epsilon plot release`: a released GROUP BY as a picture, asked for as its analyst.

Nothing is paid: all of it is what dp_shown says of the release.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pg_epsilon_proxy.plots import NothingToPlot, read_shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_GROUPS = 60  # labels that can be read one below another
MOST_PANELS = 12
IN_A_ROW = 4  # panels
LONGEST = 40  # characters of a name
# Names are text, whatever stands between two dollars in them, and stay text in an SVG, where they
# can be searched.
STYLE: Any = {"text.parse_math": False, "svg.fonttype": "none"}
# Members of an answer, and what it is then.
_OTHERS = {
    "decisions": "is a decision, and no GROUP BY",
    "synthesis": "made a synthetic table, and is no GROUP BY",
    "workload": "is a workload of sums: pg-epsilon plot workload draws it",
    "explain": "explains a difference: pg-epsilon plot explanation draws it",
}


@dataclass(frozen=True)
class Mark:
    """A group's value, and the ends of its error interval. None: NULL, an end that is not known."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Panel:
    """One aggregate: its name, and a mark for each group."""

    name: str
    marks: Sequence[Mark]


@dataclass(frozen=True)
class Grouped:
    """What is drawn of a release.

    keys: names of the key columns. groups: a label for each group. heading: lines above the panels.
    """

    keys: str
    groups: Sequence[str]
    panels: Sequence[Panel]
    heading: Sequence[str]


async def fetch(connection: Any, identifier: str) -> Grouped:
    """The release of a request, if it was given to this role. Free. Error: NothingToPlot."""
    return arrange(await read_shown(connection, identifier))


def arrange(told: Mapping[str, Any]) -> Grouped:
    """What is drawn of a release, from what dp_shown says of it.

    Of more than MOST_GROUPS groups those with the largest values of the first aggregate, in the
    release's order; of more than MOST_PANELS aggregates the first ones; the heading says how many
    there are besides. NothingToPlot: a release without groups, another kind of question, or values
    that are no numbers.
    """
    _refuse_others(told)
    keys, rows = told["keys"], told["rows"]
    panels = _read_panels(told)
    drawn = panels[:MOST_PANELS]
    chosen = _choose_groups(panels[0].marks)
    heading = _write_heading(told, drawn)
    if len(chosen) < len(rows):
        more = len(rows) - len(chosen)
        heading.append(f"{more} more groups, with no larger values of {panels[0].name}")
    if len(drawn) < len(panels):
        heading.append(f"{len(panels) - len(drawn)} more aggregates")
    return Grouped(
        ", ".join(map(shorten, told["names"][:keys])),
        [_write_label(rows[number][:keys]) for number in chosen],
        [Panel(one.name, [one.marks[number] for number in chosen]) for one in drawn],
        heading,
    )


def draw(release: Grouped, output: str) -> None:
    """Write the picture to a .png or .svg file. Error: OSError."""
    save(lambda: make_figure(release), output)


def save(make: Callable[[], Figure], output: str) -> None:
    """Make a figure and write it to a .png or .svg file. Error: OSError."""
    from matplotlib import rc_context

    with rc_context(STYLE), warnings.catch_warnings():
        # A PNG has boxes there, which are seen; an SVG has the text.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        make().savefig(output, dpi=130)


def make_figure(release: Grouped) -> Figure:
    """A panel for each aggregate, in it a point and an error interval for each group."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    across = min(len(release.panels), IN_A_ROW)
    down = math.ceil(len(release.panels) / across)
    width = 3.0 + 3.6 * across  # inches
    height = 1.0 + down * (1.0 + 0.26 * len(release.groups))
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(down, across, sharey=True, squeeze=False)
        for axis, panel in zip(axes.flat, release.panels, strict=False):
            _draw_panel(axis, panel)
        for axis in list(axes.flat)[len(release.panels) :]:
            axis.set_visible(False)
        axes[0][0].set_yticks(range(len(release.groups)), release.groups)
        axes[0][0].set_ylim(len(release.groups) - 0.5, -0.5)
        for axis in axes[:, 0]:
            axis.set_ylabel(release.keys)
        lines = [textwrap.fill(line, int(12 * width)) for line in release.heading]
        figure.suptitle("\n".join(lines), fontsize=10)
    return figure


def _refuse_others(told: Mapping[str, Any]) -> None:
    """NothingToPlot for all but a release with groups and values."""
    request = f"request {told['request_id']}"
    for member, words in _OTHERS.items():
        if member in told:
            raise NothingToPlot(f"{request} {words}")
    if not told["keys"] or not told["rows"]:
        raise NothingToPlot(f"{request} has no groups: only a GROUP BY is drawn by its groups")


def _read_panels(told: Mapping[str, Any]) -> list[Panel]:
    """All aggregates and all groups. NothingToPlot: a value is no number."""
    rows, keys = told["rows"], told["keys"]
    names = told["names"][keys:]
    bars = told.get("bars") or [[(None, None, None)] * len(names)] * len(rows)
    found = []
    for place, name in enumerate(_name_aggregates(names)):
        marks = []
        for row, bar in zip(rows, bars, strict=True):
            ends = (row[keys + place], *bar[place][:2])
            marks.append(Mark(*(_read_number(one, name) for one in ends)))
        found.append(Panel(name, marks))
    return found


def _draw_panel(axis: Axes, panel: Panel) -> None:
    """Intervals with two ends, arrows away from the only end that is known, and points."""
    places = [x for mark in panel.marks for x in (mark.value, mark.low, mark.high) if x is not None]
    beyond = (0.1 * (max(places) - min(places)) or 1.0) if places else 1.0
    spans: list[tuple[int, float, float]] = []
    tips: dict[str, list[tuple[float, int]]] = {"|": [], "<": [], ">": [], "o": []}
    for y, mark in enumerate(panel.marks):
        start, end = _locate(mark, beyond)
        if start is not None and end is not None:
            spans.append((y, start, end))
            tips["<" if mark.low is None else "|"].append((start, y))
            tips[">" if mark.high is None else "|"].append((end, y))
        if mark.value is not None:
            tips["o"].append((mark.value, y))
        else:
            place: Any = {"transform": axis.get_yaxis_transform(), "va": "center"}
            axis.text(0.02, y, "NULL", fontsize=7, color="C3", **place)
    heights, starts, ends = ([one[part] for one in spans] for part in range(3))
    axis.hlines(heights, starts, ends, color="C0", linewidth=1.4)
    for marker, found in tips.items():
        across, down = ([one[part] for one in found] for part in range(2))
        axis.plot(across, down, color="C0", linestyle="none", marker=marker, markersize=5)
    lines = [textwrap.fill(line, 44) for line in (panel.name, *_describe_ends(panel))]
    axis.set_title("\n".join(lines), fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25)


def _locate(mark: Mark, beyond: float) -> tuple[float | None, float | None]:
    """Where its interval is drawn: an end that is not known, so far beyond value and known end."""
    known = [x for x in (mark.value, mark.low, mark.high) if x is not None]
    if mark.low is None and mark.high is None:
        return None, None
    start = min(known) - beyond if mark.low is None else mark.low
    end = max(known) + beyond if mark.high is None else mark.high
    return start, end


def _describe_ends(panel: Panel) -> list[str]:
    """What its marks do not say by themselves."""
    known = {(mark.low is not None) + (mark.high is not None) for mark in panel.marks}
    if known == {0}:
        return ["values only: no error intervals are known"]
    said = {1: "arrow: this end is not known", 0: "point alone: no error interval is known"}
    return [words for ends, words in said.items() if ends in known]


def _write_heading(told: Mapping[str, Any], panels: Sequence[Panel]) -> list[str]:
    """Where the values come from, and what the intervals promise, if there are any."""
    lines = [f"released as of {told['as_of']}, {told['mechanism']}"]
    marks = [mark for panel in panels for mark in panel.marks]
    if any(mark.low is not None or mark.high is not None for mark in marks):
        lines.append(f"error intervals, each with confidence {told['confidence']}")
    return lines


def _choose_groups(marks: Sequence[Mark]) -> list[int]:
    """The places of the groups that are drawn; one without a value is below all others."""
    values = [-math.inf if mark.value is None else mark.value for mark in marks]
    by_value = sorted(range(len(values)), key=lambda number: -values[number])
    return sorted(by_value[:MOST_GROUPS])


def _read_number(text: Any, name: str) -> float | None:
    """A value of an answer. NaN and the infinities have no place on an axis: None.

    NothingToPlot: a date, or another text.
    """
    try:
        value = math.nan if text is None else float(text)
    except ValueError:
        found = shorten(str(text))
        raise NothingToPlot(f"only numbers are drawn, and {name} is {found}") from None
    return value if math.isfinite(value) else None


def _name_aggregates(names: Sequence[str]) -> list[str]:
    """The aggregates' names, with the place in the statement of those that have the same one."""
    times = Counter(names)
    return [
        f"{shorten(name)} (aggregate {place})" if times[name] > 1 else shorten(name)
        for place, name in enumerate(names, 1)
    ]


def _write_label(group: Sequence[str | None]) -> str:
    """A group's keys. A text that looks like NULL, or like nothing, stands in quotation marks."""
    return ", ".join("NULL" if key is None else _quote(shorten(key)) for key in group)


def _quote(key: str) -> str:
    return f"'{key}'" if key.strip() in ("", "NULL") else key


def shorten(text: str, longest: int = LONGEST) -> str:
    """One short line of what can be printed: an SVG may hold no control character."""
    line = "".join(one if one.isprintable() else " " for one in text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
