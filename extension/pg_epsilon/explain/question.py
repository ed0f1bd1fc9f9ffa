"""Is a difference of released answers real? Post-processing: it reads no data and costs nothing.

dpxplain.md §5. What is promised: the true value of the weighted sum, or of the expression, lies
between `low` and `high` with the confidence that was asked for; over the noise alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pg_epsilon.explain import bootstrap
from pg_epsilon.explain.asked import METHODS, Asked, Question
from pg_epsilon.explain.valid import Valid

__all__ = ["METHODS", "Interval", "Question", "compare", "level", "verdict"]

APPROXIMATE = "The ends are redrawn noise and promise nothing; the verdict is that of 'auto'."


@dataclass(frozen=True)
class Interval:
    """The released difference and an interval for the true one, in units of the value.

    difference: NaN where nothing is shown. low, high: also infinite. verdict: of `verdict`. method:
    the rule that gave the ends. approximate: they promise nothing. note: a sentence, or None.
    """

    difference: float
    low: float
    high: float
    verdict: str
    method: str
    approximate: bool = False
    note: str | None = None


def verdict(low: float, high: float) -> str:
    """'yes' if the interval is above 0, 'the other way round' if below (dpxplain.md §5.5)."""
    return "yes" if low > 0 else "the other way round" if high < 0 else "cannot tell"


def level(confidence: Fraction, groups: int, simultaneous: int | None) -> Fraction:
    """The level at which each of so many bars has to hold that hold for themselves only."""
    return 1 - (1 - confidence) / (simultaneous or groups)


def compare(question: Question, draws: bootstrap.Draws | None = None) -> Interval:
    """The interval and the verdict of a question.

    draws: n to n standard normals, for method 'bootstrap'; None: those of a public generator,
    seeded by the released numbers. Errors: DP003 where the method does not fit the answers, or
    where the expression or the weights cannot be read; DP005 for a number out of its range, and for
    a bootstrap of counts below 5 deviations of their noise.
    """
    asked = Asked.of(question)
    (low, high), method, note = Valid(asked).answer()
    found = Interval(asked.shown(), low, high, verdict(low, high), method, False, note)
    return _redrawn(asked, found, draws) if asked.method == "bootstrap" else found


def _redrawn(asked: Asked, valid: Interval, draws: bootstrap.Draws | None) -> Interval:
    """Ends by the bootstrap, the verdict by the interval that holds, because the ends do not."""
    for form, divides in asked.divides():
        bootstrap.check(form, divides)
    cells = [cell for form in asked.forms for cell in bootstrap.cells_of(form)]
    seed = repr([(cell.value, cell.noise) for cell in cells])
    given = draws or bootstrap.public_draws(seed)
    low, high = bootstrap.interval(cells, asked.at, float(asked.allowed), asked.replicates, given)
    return Interval(valid.difference, low, high, valid.verdict, "bootstrap", True, APPROXIMATE)
