"""The interval of a question that holds: which rule answers it, and at which level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from pg_epsilon.decimals import plain
from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.explain import arithmetic, averages, joint, linear
from pg_epsilon.explain.asked import Asked, is_gaussian_average
from pg_epsilon.explain.averages import Ends
from pg_epsilon.explain.forms import Barred, Form, Halves, Linear, Pair
from pg_epsilon.explain.image import image, outward
from pg_epsilon.explain.quantiles import above, joint_square, sidak

BOUNDED = "The exact law was too long to add up: the interval is valid, and wider than need be."
EMPTY = "The interval of a count holds 0: nothing follows by method box."
RANGE = "A count is too small for its noise: of that average only its declared range is known."
UNDEFINED = "Somewhere in the intervals of its answers the expression is undefined or unbounded."

Found = tuple[Ends, str, str | None]
"""An interval, the name of its rule, and a sentence or None."""


@dataclass(frozen=True)
class Valid:
    """Averages that are named after the release keep one promise too, whatever is asked of them.

    With Gaussian noise that is the joint region, from which each average's own interval follows
    (at the root of `joint_square`); with Laplace noise every average at 1 - (1 - confidence) / G.
    Counts and sums: `linear.margin`. A question about answers of several kinds, and a method that
    was asked for by name, hold for themselves: every group at 1 - (1 - confidence) / G.
    """

    asked: Asked

    def answer(self) -> Found:
        asked = self.asked
        if asked.tree is not None:
            return self.by_image(asked.tree)
        if all(isinstance(form, Linear) for form in asked.forms):
            return self.by_margin(asked.weights)
        gaussian = all(map(is_gaussian_average, asked.forms))
        if asked.method == "joint" or (asked.is_auto and gaussian and asked.is_pair):
            return self.by_region(asked.weights)
        return self.by_groups(asked.weights)

    def by_margin(self, weights: tuple[Fraction, ...]) -> Found:
        """Counts and sums: the released value and a margin, rounded outwards."""
        asked = self.asked
        forms = [form for form in asked.forms if isinstance(form, Linear)]
        terms = [(w * form.step, form.cell) for w, form in zip(weights, forms, strict=True)]
        middle = sum((a * Fraction(cell.value) for a, cell in terms), -asked.constant)
        found, method = linear.margin(terms, float(asked.allowed), asked.groups)
        margin = Fraction(found)
        note = BOUNDED if method == linear.BOUND else None
        return outward(middle - margin, middle + margin), method, note

    def by_region(self, weights: tuple[Fraction, ...]) -> Found:
        """The difference of two averages with Gaussian noise."""
        asked = self.asked
        forms = [form for form in asked.forms if isinstance(form, (Halves, Pair))]
        first, second = forms if weights[0] > 0 else forms[::-1]
        square = joint_square(float(asked.allowed), asked.groups or 2)
        low, high = joint.difference(first, second, square)
        size, constant = abs(float(weights[0])), float(asked.constant)
        unknown = any(averages.upper(form)(math.sqrt(square)) is None for form in forms)
        return (size * low - constant, size * high - constant), "joint", RANGE if unknown else None

    def by_groups(self, weights: tuple[Fraction, ...]) -> Found:
        """The sum of the ends of each group's own interval."""
        box = self.intervals()
        low = high = -float(self.asked.constant)
        for w, ends in zip(map(float, weights), box, strict=True):
            low, high = low + min(w * end for end in ends), high + max(w * end for end in ends)
        return (low, high), self._name(), self._note(box)

    def by_image(self, tree: arithmetic.Node) -> Found:
        """An expression: interval arithmetic on each group's own interval."""
        asked, box = self.asked, self.intervals()
        shifted = arithmetic.Operation("-", (tree, arithmetic.Constant(asked.constant)))
        ends = image(shifted if asked.constant else tree, box)
        note = UNDEFINED if math.isinf(ends[1] - ends[0]) else self._note(box)
        return ends, "interval arithmetic", note

    def _name(self) -> str:
        forms = self.asked.forms
        if all(isinstance(form, Barred) for form in forms):
            return "bars"
        if not all(isinstance(form, (Halves, Pair)) for form in forms):
            return "cell by cell"
        return "fieller" if self.asked.is_auto else self.asked.method

    def _note(self, box: list[Ends]) -> str | None:
        if averages.EVERYTHING in box and self.asked.method == "box":
            return EMPTY
        for form, ends in zip(self.asked.forms, box, strict=True):
            if isinstance(form, (Halves, Pair)) and averages.whole(form) == ends:
                return RANGE
        return None

    def intervals(self) -> list[Ends]:
        """One for each group, all of which hold at once with the confidence asked for."""
        rest = float(self.asked.allowed - self._bars_miss())
        return [self._interval(form, rest) for form in self.asked.forms]

    def _bars_miss(self) -> Fraction:
        """What the bars miss together; DP003 if that is too much for what is asked."""
        asked = self.asked
        bars = [form for form in asked.forms if isinstance(form, Barred)]
        own = [1 - Fraction(bar.confidence) for bar in bars if not bar.uniform]
        shared = [1 - Fraction(bar.confidence) for bar in bars if bar.uniform]
        lost = max(shared, default=Fraction(0))
        lost += max(own, default=Fraction(0)) * asked.groups if asked.groups else sum(own)
        if lost > asked.allowed or (lost == asked.allowed and len(bars) < len(asked.forms)):
            raise DPError(
                SHAPE,
                "the error bars of these answers do not hold together with this confidence",
                self._together(lost),
            )
        return lost

    def _together(self, lost: Fraction) -> str:
        """What may be asked of bars that miss so much together."""
        lower = Decimal(math.floor((1 - lost) * 10**9)).scaleb(-9)  # a level that they do hold at
        alone = all(isinstance(form, Barred) for form in self.asked.forms)
        most = f"confidence => {plain(lower)} or less" if alone else f"a confidence below {plain(lower)}"
        ways = [f"ask for {most}"] if lower > 0 else []
        ways += ["write simultaneous => false for groups that were named beforehand"] if self.asked.groups else []
        said = ", or ".join([*ways, "compare answers that have noise of their own"])
        return f"{said[0].upper()}{said[1:]}."

    def _interval(self, form: Form, miss: float) -> Ends:
        asked = self.asked
        if isinstance(form, Barred):
            return form.low, form.high
        parts = asked.groups or sum(not isinstance(other, Barred) for other in asked.forms)
        if isinstance(form, Linear):
            each = self._cell_miss(miss, parts)
            margin, middle = Fraction(form.cell.noise.margin(each)), Fraction(form.cell.value)
            return outward((middle - margin) * form.step, (middle + margin) * form.step)
        if isinstance(form, Halves) and asked.method == "box":
            return averages.box(form, miss / (2 * parts))
        if isinstance(form, Halves) and asked.method == "box_tight":
            return averages.box_tight(form, sidak(miss, 2 * parts))
        return averages.fieller(form, self._average_miss(miss, parts))

    def _cell_miss(self, miss: float, parts: int) -> float:
        """What a count or sum may miss: its share of the promise of one family."""
        forms = self.asked.forms
        families = {isinstance(form, Linear) and form.cell.noise.family for form in forms}
        if self.asked.groups is None or len(families) > 1:
            return miss / parts
        return linear.cell_miss(families == {"gaussian"}, miss, parts)

    def _average_miss(self, miss: float, parts: int) -> float:
        """What one average may miss: what follows from the joint region where there is one."""
        shared = self.asked.is_auto and all(map(is_gaussian_average, self.asked.forms))
        if self.asked.groups is None or parts == 1 or not shared:
            return miss / parts
        return 2 * above(math.sqrt(joint_square(miss, parts)))
