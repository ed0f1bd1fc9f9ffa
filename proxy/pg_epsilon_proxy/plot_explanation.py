"""`pg-epsilon plot explanation`: what explains a difference, with the intervals of shares and ranks.

Nothing is paid: all of it is what dp_shown says of the answer.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pg_epsilon_proxy.plots import NothingToPlot, read_shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LONGEST = 48  # characters of a line of a label
MANY = 60  # predicates, above which ranks are drawn by their logarithm
# Names are text, whatever stands between two dollars in them, and stay text in an SVG.
_STYLE: Any = {"text.parse_math": False, "svg.fonttype": "none"}
NOISE = "the difference may be noise:\nno share of it is told"
UNBOUNDED = "one row could change an expression by any amount:\nno share of it is told"


@dataclass(frozen=True)
class Row:
    """A predicate; share: (value, low, high), or None where no share of the difference is told."""

    label: str
    share: tuple[float, float, float] | None
    ranks: tuple[int, int]


@dataclass(frozen=True)
class Explanation:
    """What is drawn. predicates: how many there are, of which the rows are some; heading: lines above the panels;
    unknown: why no share is told, where none is."""

    rows: Sequence[Row]
    predicates: int
    confidence: str
    heading: Sequence[str]
    unknown: str


async def fetch(connection: Any, identifier: str) -> Explanation:
    """The explanation of a request, if it was given to this role. Free. Error: NothingToPlot."""
    return arrange(await read_shown(connection, identifier))


def arrange(told: Mapping[str, Any]) -> Explanation:
    """What is drawn, from what dp_shown says. NothingToPlot: it is no explanation."""
    if told.get("explain") is None:
        raise NothingToPlot(f"request {told['request_id']} is no explanation of a difference")
    facts = told["facts"]["explain"]
    rows = [_read(row) for row in told["explain"]["rows"]]
    heading = [
        f"{_question(facts)}: {len(rows)} of {facts['predicates']} predicates",
        f"released as of {told['as_of']}; intervals hold with confidence {facts['confidence']}; no cause is claimed",
    ]
    unknown = UNBOUNDED if facts.get("expression") else NOISE
    return Explanation(rows, int(facts["predicates"]), str(facts["confidence"]), heading, unknown)


def _read(row: Sequence[Any]) -> Row:
    text, share, low, high, first, last = row
    known = None if share is None else (float(share), float(low), float(high))
    return Row("\n".join(textwrap.wrap(str(text), LONGEST)), known, (int(first), int(last)))


def _question(facts: Mapping[str, Any]) -> str:
    """What was explained, in words."""
    groups = [", ".join("NULL" if value is None else str(value) for value in group) for group in facts["groups"]]
    if facts.get("expression"):
        return f"why {facts['expression']} is large, o1, ... being {facts['aggregate']} of {'; '.join(groups)}"
    if facts["weights"] == ["1", "-1"]:
        return f"why {facts['aggregate']} of {groups[0]} is above that of {groups[1]}"
    return f"why a weighted sum of {facts['aggregate']} over {len(facts['weights'])} groups is large"


def draw(explanation: Explanation, output: str) -> None:
    """Write the picture to a .png or .svg file. Error: OSError."""
    from matplotlib import rc_context

    with rc_context(_STYLE), warnings.catch_warnings():
        # A PNG has boxes there, which are seen; an SVG has the text.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        make_figure(explanation).savefig(output, dpi=130)


def make_figure(explanation: Explanation) -> Figure:
    """Two panels, a line for each predicate: its share of the difference, and its rank among all predicates."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    rows = explanation.rows
    lines = sum(row.label.count("\n") + 1 for row in rows)
    with rc_context(_STYLE):
        figure = Figure(figsize=(11, 1.6 + 0.2 * lines + 0.2 * len(rows)), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _shares(left, rows, explanation.unknown)
        _ranks(right, rows, explanation.predicates)
        left.set_yticks(range(len(rows)), [row.label for row in rows])
        left.set_ylim(len(rows) - 0.5, -0.5)
        for axis in (left, right):
            axis.tick_params(labelsize=8)
            axis.grid(alpha=0.25)
        figure.suptitle("\n".join(textwrap.fill(line, 120) for line in explanation.heading), fontsize=10)
    return figure


def _shares(axis: Axes, rows: Sequence[Row], unknown: str) -> None:
    known = [(place, row.share) for place, row in enumerate(rows) if row.share is not None]
    axis.set_title("share of the difference", fontsize=9)
    if not known:
        middle: Any = {"transform": axis.transAxes, "ha": "center", "va": "center"}
        axis.text(0.5, 0.5, unknown, fontsize=8, **middle)
        return
    for x in (0, 1):
        axis.axvline(x, color="0.6", linewidth=0.8)
    _intervals(axis, [(place, low, high) for place, (_, low, high) in known])
    axis.plot([share for _, (share, _, _) in known], [place for place, _ in known], "o", color="C0", markersize=5)


def _ranks(axis: Axes, rows: Sequence[Row], predicates: int) -> None:
    axis.set_title(f"rank among {predicates} predicates", fontsize=9)
    if predicates > MANY:
        axis.set_xscale("log")
    axis.set_xlim(0.8 if predicates > MANY else 0, predicates * 1.05 + 0.5)
    _intervals(axis, [(place, *row.ranks) for place, row in enumerate(rows)])


def _intervals(axis: Axes, found: Sequence[tuple[int, float, float]]) -> None:
    heights, starts, ends = ([one[part] for one in found] for part in range(3))
    axis.hlines(heights, starts, ends, color="C0", linewidth=1.4)
    axis.plot([*starts, *ends], [*heights, *heights], color="C0", linestyle="none", marker="|", markersize=7)
