"""The simplex method in rational numbers: max c x, A x <= b, 0 <= x <= u with b >= 0. Slow, exact, and it ends."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pg_epsilon.mechanisms.waiting import check_for_cancel

_ZERO = Fraction(0)


class Tableau:
    """The state between pivots. Variables 0 … n-1 are given, n … n+m-1 are the slacks of the m constraints.

    rows[i]: the equation of basic variable basic[i], sparse: its value + sum of rows[i][j] x_j is constant.
    """

    def __init__(
        self, columns: Sequence[dict[int, int]], limits: Sequence[int], uppers: Sequence[int], costs: Sequence[int]
    ) -> None:
        self._uppers: list[int | None] = [*uppers, *([None] * len(limits))]
        self._rows: list[dict[int, Fraction]] = [{} for _ in limits]
        for j, column in enumerate(columns):
            for i, coefficient in column.items():
                self._rows[i][j] = Fraction(coefficient)
        self._basic = [len(columns) + i for i in range(len(limits))]
        self._values = [Fraction(limit) for limit in limits]
        self._gains = {j: Fraction(cost) for j, cost in enumerate(costs) if cost}
        self._at_upper: set[int] = set()
        self._stalled = False
        self.objective = _ZERO

    def step(self) -> bool:
        """One pivot or one flip from bound to bound; False at the optimum.

        It ends: as long as the objective stands still, Bland's rule (the lowest number enters, and of those that
        block, the lowest leaves) visits no basis twice; and there are finitely many bases. Else the largest gain.
        """
        eligible = [j for j, gain in self._gains.items() if (gain < 0) == (j in self._at_upper) and gain]
        if not eligible:
            return False
        enters = min(eligible) if self._stalled else max(eligible, key=lambda j: (abs(self._gains[j]), -j))
        sign = -1 if enters in self._at_upper else 1
        length, row, to_upper = self._blocking(enters, sign)
        self._stalled = not length
        self.objective += sign * self._gains[enters] * length
        for i, equation in enumerate(self._rows):
            coefficient = equation.get(enters)
            if coefficient is not None:
                self._values[i] -= sign * coefficient * length
        if row < 0:
            self._at_upper ^= {enters}
        else:
            self._pivot(row, enters, sign * length, to_upper=to_upper)
        return True

    def _blocking(self, enters: int, sign: int) -> tuple[Fraction, int, bool]:
        """How far the variable can go, the row that stops it (-1: its own other bound), at that one's upper bound?"""
        upper = self._uppers[enters]
        best = None if upper is None else (Fraction(upper), enters, -1, False)
        for i, equation in enumerate(self._rows):
            coefficient = equation.get(enters)
            if coefficient is None:
                continue
            falls = coefficient * sign
            top = self._uppers[self._basic[i]]
            if falls > 0:
                found = (self._values[i] / falls, self._basic[i], i, False)
            elif top is not None:
                found = ((self._values[i] - top) / falls, self._basic[i], i, True)
            else:
                continue
            if best is None or found[:2] < best[:2]:
                best = found
        if best is None:  # cannot be: every given variable has an upper bound, and slacks enter with such ones falling
            return _ZERO, -1, False
        return best[0], best[2], best[3]

    def _pivot(self, row: int, enters: int, moved: Fraction, *, to_upper: bool) -> None:
        leaves = self._basic[row]
        start = self._uppers[enters] or 0 if enters in self._at_upper else 0
        self._at_upper.discard(enters)
        if to_upper:
            self._at_upper.add(leaves)
        equation = self._rows[row]
        pivot = equation.pop(enters)
        equation = {j: coefficient / pivot for j, coefficient in equation.items()}
        equation[leaves] = 1 / pivot
        self._rows[row], self._basic[row], self._values[row] = equation, enters, start + moved
        for i, other in enumerate(self._rows):
            if i != row and (factor := other.pop(enters, None)) is not None:
                _subtract(other, factor, equation)
        gain = self._gains.pop(enters)
        _subtract(self._gains, gain, equation)


def _subtract(target: dict[int, Fraction], factor: Fraction, source: dict[int, Fraction]) -> None:
    for j, coefficient in source.items():
        rest = target.get(j, _ZERO) - factor * coefficient
        if rest:
            target[j] = rest
        else:
            target.pop(j, None)


def maximum(
    columns: Sequence[dict[int, int]], limits: Sequence[int], uppers: Sequence[int], costs: Sequence[int]
) -> Fraction:
    """max sum of costs_j x_j with 0 <= x_j <= uppers_j and, for every i, sum of columns_j[i] x_j <= limits_i >= 0."""
    tableau = Tableau(columns, limits, uppers, costs)
    while tableau.step():
        check_for_cancel()
    return tableau.objective
