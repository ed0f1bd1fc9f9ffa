"""Budget and rounds of Algorithm 2 (numeric-release.md §0.0, §2, §3, §4.1). Public parameters
alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.curves import part_of_rounds, round_down

SHARE_SCALE = Fraction(2, 100)
SHARE_ALPHA = Fraction(1, 10)
MOST_ROUNDS = 200
_GRID = 1 << 80  # an epsilon of the second formula is a multiple of 2^-80


@dataclass(frozen=True)
class Shares:
    """epsilon = scale + alpha + rounds: what the scale n~, the error alpha~ and the rounds cost, in
    this order.
    """

    scale: Fraction
    alpha: Fraction
    rounds: Fraction


def shares(epsilon: Fraction, share_scale: Fraction = SHARE_SCALE, share_alpha: Fraction = SHARE_ALPHA) -> Shares:
    """The parts of epsilon. share_scale: 0 where the scale is declared or bought already."""
    scale, alpha = share_scale * epsilon, share_alpha * epsilon
    return Shares(scale, alpha, epsilon - scale - alpha)


def eps0_of(epsilon: Fraction, delta: Fraction, rounds: int) -> Fraction:
    """What each of `rounds` adaptive rounds may cost: the larger of two formulas (§2).

    epsilon / rounds; and, with delta > 0, the largest e with e sqrt(2 T ln(1 / delta)) + T e
    (exp(e) - 1) <= epsilon (Dwork, Rothblum, Vadhan 2010), which wins from about 30 rounds on,
    rounded down by more than doubles can be off. T pure eps0-DP rounds are then (epsilon, delta)-DP
    in all.
    """
    plain = epsilon / rounds
    if delta <= 0:
        return plain
    low, high = 0.0, float(epsilon)
    while low < (middle := (low + high) / 2) < high:
        if _advanced(middle, delta, rounds) <= float(epsilon):
            low = middle
        else:
            high = middle
    return max(plain, _down(Fraction(low)))


def helps(epsilon: Fraction, delta: Fraction, rounds: int) -> bool:
    """Whether the second formula gives so many rounds more than epsilon / rounds: then any more, too.

    At eps0 = epsilon / T it is epsilon (sqrt(2 ln(1 / delta) / T) + exp(epsilon / T) - 1), which falls with T.
    """
    return eps0_of(epsilon, delta, rounds) * rounds > epsilon


def charge_of(epsilon: Fraction, delta: Fraction, rounds: int, least: int = 1) -> Charge:
    """What rounds cost together, of which there are from `least` to `rounds`: delta only where it can help."""
    if helps(epsilon, delta, rounds):
        return Charge.of("advanced", epsilon=epsilon, delta=delta)
    return Charge.of("rounds", epsilon=epsilon, rounds=least)


def left_over(charged: Charge, epsilon: Fraction, delta: Fraction, rounds: int, done: int) -> Charge | None:
    """What of that charge comes back where `done` of so many rounds were drawn; None: nothing.

    Of one with delta all that was not spent, whichever formula fits their number: what stays has delta still.
    """
    if done >= rounds:
        return None
    spare = unspent(epsilon, delta, rounds, done)
    if charged.kind == "advanced":
        part = round_down(spare)
        return Charge.of("pure", epsilon=part) if part else None
    part = part_of_rounds(spare / (rounds - done), rounds - done)
    return Charge.of("rounds", epsilon=part, rounds=rounds - done) if part else None


def unspent(epsilon: Fraction, delta: Fraction, rounds: int, done: int) -> Fraction:
    """What comes back of epsilon, reserved for `rounds` rounds, where only `done` were drawn (§0.0).

    (rounds - done) eps0, or the difference of the second formula's values if eps0 was made with that;
    rounded down. A function of the number of rounds, which is public.
    """
    eps0 = eps0_of(epsilon, delta, rounds)
    if eps0 * rounds <= epsilon:
        return (rounds - done) * eps0
    values = (_advanced(float(eps0), delta, count) for count in (rounds, done))
    whole, part = map(Fraction, values)
    return max(Fraction(0), _down(whole - part))


def _advanced(eps0: float, delta: Fraction, rounds: int) -> float:
    """The second formula's epsilon of so many rounds, in doubles."""
    factor = math.sqrt(2 * rounds * math.log(1 / float(delta)))
    return eps0 * factor + rounds * eps0 * math.expm1(eps0)


def _down(value: Fraction) -> Fraction:
    """By more than the doubles it was made of can be off."""
    return Fraction(math.floor(value * (1 - Fraction(1, 10**13)) * _GRID), _GRID)


def theory_alpha(mass: float, cells: int, candidates: int, eps0: float, rounds: int) -> float:
    """An error that averaged weights keep but with probability 2 rounds / candidates (§3).

    Far too large to be shown: it compares numbers of rounds.
    """
    return 2 * mass * math.sqrt(math.log(cells) / rounds) + 10 * math.log(candidates) / eps0


def rounds_auto(
    epsilon: Fraction, delta: Fraction, mass: float, cells: int, candidates: int, most: int = MOST_ROUNDS
) -> int:
    """T: the fewest rounds, at most min(most, candidates), for which theory_alpha is least. mass:
    released.
    """

    def error(rounds: int) -> float:
        eps0 = float(eps0_of(epsilon, delta, rounds))
        return theory_alpha(mass, max(cells, 2), max(candidates, 2), eps0, rounds)

    return min(range(1, min(most, candidates) + 1), key=error)


def rounds_of_theory(epsilon: float, mass: float, cells: int, candidates: int) -> float:
    """The minimum of theory_alpha over real T, delta = 0 (§3)."""
    return float((epsilon * mass * math.sqrt(math.log(cells)) / (10 * math.log(candidates))) ** (2 / 3))
