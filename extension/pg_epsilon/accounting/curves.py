"""Rényi curves and the caps of a Rényi account (composition.md §3.4 and §4). Pure functions of public numbers.

Results are Decimals with at most 18 decimals, rounded against us: costs up, caps down. They are computed with 60
significant digits (Python's Decimal exp and ln are correctly rounded), so the error before rounding is below 1e-45
for every argument in range; that much is added to a cost, or taken off a cap, before it is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from pg_epsilon.accounting.margins import EPSILON_MAX, Number, rational
from pg_epsilon.errors import OUT_OF_RANGE, DPError

DECIMALS = 18

DEFAULT_ORDERS = tuple(Decimal(a) for a in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024))
"""Grid A of a new dataset, about two orders per doubling. Measured on Gaussian charges, epsilon 0.1 to 10 and delta
1e-5 to 1e-9: it allows three quarters to nine tenths of the rho that the best single order, known beforehand, would. A
fine grid does worse, and turbo.md's list no better, because every order kept costs ln|A+| in each cap."""

_ORDER_MIN, _ORDER_MAX = Decimal("1.001"), Decimal(10**6)
_WORK = Context(prec=60)
_UP = Context(prec=60, rounding=ROUND_CEILING)
_DOWN = Context(prec=60, rounding=ROUND_FLOOR)
_UNIT = Decimal(1).scaleb(-DECIMALS)
_GUARD = Decimal("1e-45")


def round_up(value: Number) -> Decimal:
    """The smallest Decimal of at most 18 decimals that is >= value; exact for a decimal that has no more."""
    return _rounded(value, _UP)


def round_down(value: Number) -> Decimal:
    """The largest Decimal of at most 18 decimals that is <= value; exact for a decimal that has no more."""
    return _rounded(value, _DOWN)


def _rounded(value: Number, context: Context) -> Decimal:
    exact = Fraction(value) * 10**DECIMALS
    units = -(-exact.numerator // exact.denominator) if context is _UP else exact.numerator // exact.denominator
    return context.scaleb(Decimal(units), -DECIMALS)


def checked_orders(orders: Sequence[Number]) -> tuple[Decimal, ...]:
    """A grid of Rényi orders as it is stored: increasing, in [1.001, 10^6], at most 3 decimals; DP005 otherwise."""
    grid = tuple(round_up(rational(order, "order")) for order in orders)
    fits = all(_ORDER_MIN <= a <= _ORDER_MAX and a == a.quantize(Decimal("0.001"), context=_WORK) for a in grid)
    if not grid or not fits or any(a >= b for a, b in pairwise(grid)):
        raise DPError(
            OUT_OF_RANGE,
            "orders must be increasing numbers between 1.001 and 1000000 with at most 3 decimals",
            "Leave orders out to get the default grid.",
        )
    return grid


@lru_cache(maxsize=8192, typed=True)
def pure_to_rdp(epsilon: Decimal, order: Decimal) -> Decimal:
    """P(epsilon, a): the Rényi divergence of order a that no epsilon-DP mechanism exceeds; 18 decimals, rounded up.

    P = ln{(sinh(a e) - sinh((a-1) e)) / sinh e} / (a-1)   (turbo.md §6.2), which is attained by randomised response and
    equals ln{cosh((a-1/2) e) / cosh(e/2)} / (a-1), by sinh x - sinh y = 2 cosh((x+y)/2) sinh((x-y)/2), and so
    e + [ln(1 + exp(-(2a-1) e)) - ln(1 + exp(-e))] / (a-1): nothing overflows. At most min(e, a e^2 / 2).

    epsilon in [0, 1000]; order in [1.001, 10^6]. A Decimal with at most 18 decimals, at most 1e-18 + 1e-44 above P.
    """
    if epsilon == 0:
        return Decimal(0)
    _check_epsilon(epsilon)
    exponent = _WORK.multiply(_WORK.subtract(_WORK.multiply(Decimal(2), order), Decimal(1)), epsilon)
    excess = _WORK.subtract(_softplus_of_minus(exponent), _softplus_of_minus(epsilon))
    value = _WORK.add(epsilon, _WORK.divide(excess, _WORK.subtract(order, Decimal(1))))
    return min(round_up(_WORK.add(value, _GUARD)), round_up(epsilon))


def part_of_pure(epsilon: Fraction, roundings: int = 3) -> Decimal:
    """What of a charge of kind pure may be taken back, where `epsilon` >= 0 of it was not spent: at most that much less
    what rounding needs, 0 where that is too little.

    At every order what stays is at least what was spent: P(x + y, a) - P(y, a) >= P(x, a), because P(e, a) / e never
    falls: (a - 1) P = ln cosh((a - 1/2) e) - ln cosh(e / 2), and x tanh x - ln cosh x grows. By the same, a part
    1 - s of y has P at most (1 - s) P(y, a): s P(y, a) covers the roundings, each of 1e-18 at most, and is least at the
    least order.
    """
    whole = round_down(epsilon)
    if not whole:
        return whole
    least = Fraction(pure_to_rdp(whole, _ORDER_MIN)) - Fraction(_UNIT + _GUARD)
    slack = roundings * Fraction(_UNIT)
    return round_down(Fraction(whole) * (1 - slack / least)) if least > slack else Decimal(0)


def part_of_rounds(each: Fraction, rounds: int) -> Decimal:
    """What of a charge of kind rounds may be taken back, as one of that kind, where so many rounds of `each` >= 0 were
    not drawn: at most rounds times that less what rounding needs, 0 where that is too little.

    At every order what stays covers the rounds that were drawn: a round's curve min(P(h, a), a h^2 / 8) + P(h, a) over
    h never falls either, so that `part_of_pure` holds of its halves, with four roundings each and a share of one.
    """
    return round_down(2 * rounds * Fraction(part_of_pure(each / 2, roundings=6)))


def bounded_range_to_rdp(epsilon: Decimal, order: Decimal) -> Decimal:
    """min(P(epsilon, a), a epsilon^2 / 8): log-odds of any two outcomes move by at most epsilon; rounded up.

    Holds for the exponential mechanism and for a bit (composition.md §4; Cesar and Rogers 2021). Same ranges as
    `pure_to_rdp`.
    """
    return min(pure_to_rdp(epsilon, order), round_up(Fraction(order) * Fraction(epsilon) ** 2 / 8))


def gaussian_to_rdp(rho: Decimal, order: Decimal) -> Decimal:
    """a rho, rho = L2^2 / (2 sigma^2): discrete Gaussian, or anything that is rho-zCDP; rounded up at 18 decimals."""
    return round_up(Fraction(order) * Fraction(rho))


def renyi_cap(epsilon_cap: Decimal, delta_r: Decimal, orders: Sequence[Decimal]) -> dict[Decimal, Decimal]:
    """A+ and its caps: {a: cap(a)}, cap(a) = e_G - (ln(|A+|/d_R) - ln a)/(a-1) - ln(1 - 1/a), rounded down (§3.4).

    A filter that stops at cap(a), for one order a by itself, is (e_G, d_R / |A+|)-DP; a charge is allowed as long as
    one order allows it, and the union over A+ gives (e_G, d_R). cap grows as |A+| falls; the set returned is the
    largest that is consistent: m orders, computed with |A+| = m, all caps > 0. (Where m + 1 orders are too many but
    with m in the formula more than m caps are positive, the m largest are kept.)

    epsilon_cap in (0, 1000], delta_r in (0, 1), orders as `checked_orders`. DP005 if no order is left.
    """
    _check_epsilon(epsilon_cap)
    if not 0 < delta_r < 1:
        raise DPError(
            OUT_OF_RANGE, "delta must be greater than 0 and less than 1", "Usual values of delta: 1e-6 to 1e-9."
        )
    for count in range(len(orders), 0, -1):
        caps = {order: _cap(epsilon_cap, delta_r, order, count) for order in orders}
        positive = sorted((a for a in orders if caps[a] > 0), key=lambda a: (-caps[a], a))
        if len(positive) >= count:
            return {a: caps[a] for a in sorted(positive[:count])}
    raise DPError(
        OUT_OF_RANGE,
        "epsilon and delta of the dataset are too small for its Rényi orders: nothing could ever be paid",
        "Use a larger epsilon or delta, larger orders, or the 'pure' accountant.",
    )


def _cap(epsilon_cap: Decimal, delta_r: Decimal, order: Decimal, count: int) -> Decimal:
    one_less = _WORK.subtract(order, Decimal(1))
    union = _WORK.subtract(_WORK.ln(Decimal(count)), _WORK.ln(delta_r))
    slack = _WORK.divide(_WORK.subtract(union, _WORK.ln(order)), one_less)
    value = _WORK.subtract(_WORK.subtract(epsilon_cap, slack), _WORK.ln(_WORK.divide(one_less, order)))
    return round_down(_WORK.subtract(value, _GUARD))


def _softplus_of_minus(x: Decimal) -> Decimal:
    """ln(1 + e^-x), x >= 0; absolute error below 1e-58."""
    return _WORK.ln(_WORK.add(Decimal(1), _WORK.exp(-x)))


def _check_epsilon(epsilon: Decimal) -> None:
    if not (epsilon.is_finite() and 0 < epsilon <= EPSILON_MAX):
        raise DPError(
            OUT_OF_RANGE, f"epsilon must be greater than 0 and at most {EPSILON_MAX}", "Usual values: 0.01 to 10."
        )
