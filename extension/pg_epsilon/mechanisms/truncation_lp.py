"""Truncation by linear programming, for result rows that belong to several units: joins that meet, graphs (R2T).

Q(D, t), defined in mechanisms/lp_bounds.py, never exceeds the true value, equals it once t is the largest unit's
contribution, and one unit more or less changes it by at most t: a solution without the unit is one with it, and the
unit's own rows add at most t.

What leaves this module is `rounded(Q, t)`: a function of D and t alone. A value that is only near Q would not do,
however near: which of several near values came out would depend on the solver's history, and so on the noise of
levels before (an abandoned level leaves another basis), and the proof of the noise needs an exact value that does
not depend on the noise. So each step below only narrows an interval that holds Q, in exact arithmetic, until all of
it rounds alike. A step that fails, lies or is missing leaves the interval as it was. Hence neither the solver nor
the machine can change an answer, or turn one into an error (composition.md §10.3 b).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import isqrt
from typing import Any, Protocol

from pg_epsilon.mechanisms.grain import GRAIN
from pg_epsilon.mechanisms.lp_bounds import (
    DUAL_BITS,
    Problem,
    largest,
    lower_bound,
    lower_bound_of_integers,
    total,
    upper_bound,
    upper_bound_of_integers,
)
from pg_epsilon.mechanisms.lp_exact import is_flow, optimum, reduced
from pg_epsilon.mechanisms.lp_wire import BITS

HOW = ("dual simplex", "primal simplex", "interior point")


class Solver(Protocol):
    """Who may know a solution: numbers near an optimum, or None. Nothing of it is believed (lp_solver.Solver)."""

    def solve(self, problem: Problem, t: int, stop: float | None, how: str) -> tuple[Any, Any] | None: ...

    def refine(self, problem: Problem, t: int, how: str) -> tuple[list[int], list[int]] | None: ...


def rounded(value: Fraction, t: int) -> int:
    """t floor(GRAIN value / t + theta), theta = sqrt(2) - 6/5 = 0.214…: an integer of 1/GRAIN, a multiple of t.

    Between GRAIN value - t and GRAIN value + t/4. Values that differ by at most t have results that differ by at most
    GRAIN t, since GRAIN value / t then differs by at most the integer GRAIN. Where it jumps is irrational and no
    optimum, which is rational, is there; so an interval that shrinks to an optimum is at last rounded to one integer.

    Proof of the form. With p/q = GRAIN value / t, floor((5p - 6q + 5q sqrt 2) / 5q), in which 5q sqrt 2 is irrational
    and may be replaced by its integer part, isqrt(50 q^2).
    """
    p, q = GRAIN * value.numerator, t * value.denominator
    return t * ((5 * p - 6 * q + isqrt(50 * q * q)) // (5 * q))


class Truncation:
    """`rounded(Q(D, t), t)` of one problem for falling t: what was learnt of one level helps with the next."""

    def __init__(self, problem: Problem, solver: Solver | None) -> None:
        self._problem = problem
        self._solver = solver
        self._total = total(problem)
        self._largest = largest(problem)
        self._duals: list[Any] = []

    def value(self, t: int, need: int | None = None) -> int | None:
        """`rounded(Q, t)`; None if it is proved to be below `need` before it is known.

        t: an integer of at least 1, in units of the values. Guarantee: one unit with all its rows moves it by at most
        r2t_join.sensitivity(t). Whether None comes depends on what is proved first; r2t_join.core is the same for
        None and for any value below `need`. Errors: none but a cancel.
        """
        if t >= self._largest:
            return rounded(Fraction(self._total), t)
        low, high = Fraction(0), Fraction(self._total)
        for below, above in self._steps(t, need):
            low, high = max(low, below), min(high, above)
            top = rounded(high, t)
            if need is not None and top < need:
                return None
            if rounded(low, t) == top:
                return top
        return rounded(optimum(self._problem, t), t)

    def _steps(self, t: int, need: int | None) -> Iterator[tuple[Fraction, Fraction]]:
        """Bounds of Q(D, t), cheap ones first; what is always right and always ends comes after the last of them."""
        problem, most = self._problem, Fraction(self._total)
        if self._duals:
            yield Fraction(0), min(upper_bound(problem, t, dual, DUAL_BITS[:1]) for dual in self._duals)
        yield from self._solved(t, need, HOW[0])
        if is_flow(problem, reduced(problem, t)[1]):
            yield (optimum(problem, t),) * 2
        for how in HOW:
            yield from self._solved(t, None, how)
            refined = self._solver.refine(problem, t, how) if self._solver is not None else None
            if refined is not None:
                dual, values = refined
                below = lower_bound_of_integers(problem, t, values[: len(problem.values)], BITS)
                yield below, min(most, upper_bound_of_integers(problem, t, dual, BITS))

    def _solved(self, t: int, need: int | None, how: str) -> Iterator[tuple[Fraction, Fraction]]:
        found = self._solver.solve(self._problem, t, self._stop(t, need), how) if self._solver is not None else None
        if found is None:
            return
        dual, values = found
        self._duals = [*self._duals[-1:], dual]
        yield lower_bound(self._problem, t, values), upper_bound(self._problem, t, dual)

    def _stop(self, t: int, need: int | None) -> float | None:
        """The solver minimises -Q/t (labels: -Q): it may stop when its lower bound says that Q is too small.

        A margin on top pays for its tolerances and for our rounding.
        """
        if need is None:
            return None
        enough = (need - t) / GRAIN
        unit = 1 if self._problem.labels is not None else t
        return -enough / unit + 1e-6 * (1.0 + abs(enough) / unit)
