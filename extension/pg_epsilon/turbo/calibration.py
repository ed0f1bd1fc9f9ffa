"""How much each draw costs so that an answer is within alpha n~ of the truth except with probability beta (§5, §6.14).

Every epsilon is x / D, with D = min(alpha n~, floor(alpha n~) + 1/2), rounded up to 12 digits.

Why D, and the tails of continuous noise, are right for integers. A Laplace variable of scale 1/epsilon is Z + W, where
Z = DLap(epsilon), independent of W = F - F', F and F' being exponential variables of that rate truncated to [0, 1)
(floor and fraction of an exponential variable are independent). For k of them, S_X = S_Z + S_W. S_Z is symmetric and
unimodal on the integers, so h(y) = Pr[|S_Z + y| <= m + 1/2] falls with |y|; and h(y) = Pr[|S_Z| <= m] for |y| < 1/2.
Let U be uniform in (-1/2, 1/2). The density of S_W is largest at 0, where for k >= 2 it is at most the integral of
f_W^2, which is below 1 for epsilon <= 2; so |S_W| is stochastically larger than |U|, and Pr[|S_X| <= m + 1/2] =
E h(S_W) <= E h(U) = Pr[|S_Z| <= m]. For k = 1: Pr[|Z| > m] = e^(-epsilon (m + 1/2)) / cosh(epsilon / 2). With more
than epsilon = 2 a union bound over the k draws, each with its exact tail, is used instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.margins import checked_beta, laplace_epsilon, rational
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.noise import NoiseSource

_ROUND = Context(prec=12, rounding=ROUND_CEILING)
_GUARD = 1 + 1e-9  # covers the double-precision arithmetic of the tails
_BISECTIONS = 45
_LARGE = 64
_LARGEST_SUM = 2  # epsilon up to which the proof above covers sums
_REFINED = ("node", "window_node")  # the draws on tree nodes: how much is needed depends on the window
_REFINED_VARIANCE = 4  # sigma of 2 rows: refine.py


def _up(value: Fraction) -> Decimal:
    """At least value, 12 significant digits."""
    return _ROUND.divide(Decimal(value.numerator), Decimal(value.denominator))


@lru_cache(maxsize=256)
def log_inverse(beta: Fraction) -> Fraction:
    """ln(1 / beta), rounded up in the 30th digit: the tail of one Laplace draw, in units of its scale."""
    context = Context(prec=30, rounding=ROUND_CEILING)
    ratio = context.divide(Decimal(beta.denominator), Decimal(beta.numerator))
    return Fraction(context.next_plus(context.ln(ratio)))


def sum_tail(k: int, t: float) -> float:
    """Pr[|S_k| > t], S_k the sum of k independent unit Laplace variables, exactly (within 1e-9, relative).

    2^-(k-1) sum over j < k of C(k-1+j, j) 2^-j Q(k-j, t), Q(n, t) = e^-t sum over i < n of t^i / i!.
    """
    if k > _LARGE:
        return _sum_tail_large(k, t)
    term, poisson = math.exp(-t), []
    running = 0.0
    for i in range(k):
        running += term
        poisson.append(running)
        term *= t / (i + 1)
    weights = (math.comb(k - 1 + j, j) / 2.0 ** (k - 1 + j) for j in range(k))
    return math.fsum(weight * poisson[k - j - 1] for j, weight in enumerate(weights))


def _sum_tail_large(k: int, t: float) -> float:
    """The same in logarithms, with numpy."""
    import numpy as np

    j = np.arange(1, k, dtype=np.float64)
    logs = np.concatenate(([0.0], np.cumsum(np.log((k - 1 + j) / j)))) - (k - 1 + np.arange(k)) * math.log(2)
    poisson = np.cumsum(np.exp(np.concatenate(([0.0], np.cumsum(math.log(t) - np.log(j)))) - t))
    return float((np.exp(logs) * poisson[::-1]).sum())


def _root(tail: Callable[[float], float], beta: float, high: float) -> float:
    """The t at which a falling tail is beta, from above: tail(t) <= beta."""
    low = 0.0
    while tail(high) * _GUARD > beta:
        low, high = high, 2 * high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) * _GUARD > beta else (low, middle)
    return high


@lru_cache(maxsize=4096)
def sum_quantile(k: int, beta: Fraction) -> Fraction:
    """t*_k(beta): |S_k| > t* with probability at most beta, in units of the scale; no Monte Carlo (E-13)."""
    if k == 1:
        return log_inverse(beta)
    start = math.sqrt(2 * k) * 4 + 1
    return Fraction(_root(lambda t: sum_tail(k, t), float(beta), start))


@lru_cache(maxsize=256)
def tight_x(beta: Fraction) -> Fraction:
    """The root of (1/2 + x/8) e^(-x/2) = beta: NOT enough for an epoch, whose threshold serves many queries (E-6)."""
    return Fraction(_root(lambda x: (0.5 + x / 8) * math.exp(-x / 2), float(beta), 16.0))


class Draw(NamedTuple):
    """One noisy answer: "laplace" of `amount` epsilon, or "gaussian" of `amount` rho. Sensitivity: the query's unit.

    refines: an older Gaussian answer, of a smaller rho, may be made as good as this draw (refine.py).
    """

    mechanism: str
    amount: Decimal
    refines: bool = False

    def charge(self) -> Charge:
        return _charge(self.mechanism, self.amount)

    def release(self, exact: Sequence[int], unit: int, noise: NoiseSource, label: str) -> list[int]:
        """Noisy values of queries that share no bin, so that one unit moves one of them, by at most `unit`.

        Guarantee: `amount`, for all of them together. The charge must have been paid.
        """
        if self.mechanism == "laplace":
            return noise.laplace(exact, l1_sensitivity=unit, epsilon=self.amount, label=label)
        return noise.gaussian(exact, l2_squared=unit * unit, rho=self.amount, label=label)


@lru_cache(maxsize=65536)
def _charge(mechanism: str, amount: Decimal) -> Charge:
    return Charge.of("laplace", epsilon=amount) if mechanism == "laplace" else Charge.of("gaussian", rho=amount)


@lru_cache(maxsize=65536)
def epoch_charge(epsilon: Decimal) -> Charge:
    """What an epoch of the sparse vector costs, paid when it is opened: threshold epsilon, queries 2 epsilon."""
    return Charge.of("above_threshold", threshold_epsilon=epsilon, query_epsilon=2 * epsilon)


@dataclass(frozen=True)
class Calibration:
    """The prices of a view (public). alpha in (0, 1), beta in [1e-15, 1/2).

    printed: x = 4 ln(1/beta) for every draw, as Alg. 1 has it (vanilla PMW; `guaranteed` convergence). Else the split
    of §5: ln(1/beta) direct, 4 ln(1/beta) epoch, ln(2/beta) after a FAIL; in a tree 4 ln(2/beta), ln(4/beta), t*_k.
    gaussian: direct and hard answers are Gaussian (6.14; Rényi datasets). preserving: their sigma keeps the updates'
    directions right as Lemma A.10 meant (E-2), with tau; else it is by accuracy alone.
    """

    alpha: Fraction
    beta: Fraction
    printed: bool = False
    gaussian: bool = False
    preserving: Fraction | None = None
    _kept: dict[tuple[str, int, int], Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < rational(self.alpha, "alpha") < 1:
            raise DPError(
                OUT_OF_RANGE, "alpha must be greater than 0 and less than 1", "Usual values of alpha: 0.01 to 0.1."
            )
        if checked_beta(self.beta) >= Fraction(1, 2):
            raise DPError(OUT_OF_RANGE, "beta must be less than 0.5", "Usual values of beta: 0.001, 1e-6.")

    def tolerance(self, scale: int) -> Fraction:
        """alpha n~: the error allowed, in rows."""
        return self.alpha * scale

    def threshold(self, scale: int, unit: int) -> int:
        """floor(alpha n~ / 2), in steps of 1/unit."""
        return math.floor(self.alpha * scale * unit / 2)

    def direct(self, scale: int) -> Draw:
        """One answer by noise alone (bypass, exact cache)."""
        return self._draw("direct", 1, scale, self.beta)

    def hard(self, scale: int) -> Draw:
        """The answer after a FAIL: beta/2, the other half being the epoch's."""
        return self._draw("hard", 1, scale, self.beta / 2)

    def epoch(self, scale: int) -> Decimal:
        """epsilon of an epoch, which costs three times as much; x = 4 ln(1/beta), because of E-6."""
        return self._epoch("epoch", scale, self.beta)

    def node(self, count: int, scale: int) -> Draw:
        """One of `count` nodes whose noise adds up, over `scale` rows together: beta/2 for their sum."""
        return self._draw("node", count, scale, self.beta / 2)

    def run_hard(self, scale: int) -> Draw:
        """The answer of a run of nodes after a FAIL: beta/4."""
        return self._draw("run_hard", 1, scale, self.beta / 4)

    def run_epoch(self, scale: int) -> Decimal:
        """epsilon of an epoch of a run of nodes: x = 4 ln(2/beta)."""
        return self._epoch("run_epoch", scale, self.beta / 2)

    def window_node(self, count: int, scale: int) -> Draw:
        """As `node`, with all of beta: [R]'s `sv_scope` window."""
        return self._draw("window_node", count, scale, self.beta)

    def _draw(self, name: str, count: int, scale: int, beta: Fraction) -> Draw:
        key = (name, count, scale)
        if key not in self._kept:
            self._kept[key] = _draw(self, name, scale, count, self._x(beta, count), beta)
        found: Draw = self._kept[key]
        return found

    def _epoch(self, name: str, scale: int, beta: Fraction) -> Decimal:
        key = (name, 1, scale)
        if key not in self._kept:
            self._kept[key] = _laplace_amount(self.tolerance(scale), 4 * log_inverse(beta))
        found: Decimal = self._kept[key]
        return found

    def _x(self, beta: Fraction, count: int = 1) -> Fraction:
        if self.printed:
            return max(4 * log_inverse(self.beta), sum_quantile(count, beta))
        return sum_quantile(count, beta)


def _denominator(tolerance: Fraction) -> Fraction:
    return min(tolerance, math.floor(tolerance) + Fraction(1, 2))


def _laplace_amount(tolerance: Fraction, x: Fraction) -> Decimal:
    return _up(x / _denominator(tolerance))


def sum_draw(tolerance: Fraction, count: int, beta: Fraction) -> Draw:
    """The Laplace draw of which `count` may be added up within `tolerance` rows, except with probability beta."""
    amount = _laplace_amount(tolerance, sum_quantile(count, beta))
    if count > 1 and amount > _LARGEST_SUM:
        amount = max(amount, laplace_epsilon(tolerance / count, beta / count))
    return Draw("laplace", amount)


def _draw(how: Calibration, name: str, scale: int, count: int, x: Fraction, beta: Fraction) -> Draw:
    tolerance = how.tolerance(scale)
    if how.gaussian:
        return _gaussian_draw(how, scale, count, x, beta, room=count + 1 if name in _REFINED else 0)
    amount = _laplace_amount(tolerance, x)
    if count > 1 and amount > _LARGEST_SUM:
        amount = max(amount, laplace_epsilon(tolerance / count, beta / count))
    return Draw("laplace", amount)


def _normal_quantile(beta: Fraction) -> Fraction:
    """z with Pr[|N(0, 1)| > z] <= beta, a little more than needed."""
    return Fraction(-NormalDist().inv_cdf(float(beta) / 2 * (1 - 1e-5)))


def _gaussian_draw(how: Calibration, scale: int, count: int, x: Fraction, beta: Fraction, *, room: int) -> Draw:
    """rho = 1 / (2 sigma^2), sigma in rows: D / (sqrt(count) z), z the normal quantile of beta/2 (§6.14).

    The tail of discrete Gaussian noise beyond m is at most the normal one beyond m + 1/2 (margins.gaussian_tail); that
    of a sum differs from it by less than 1e-6, relatively, for sigma >= 1, and z is taken for a beta smaller by that;
    below, a union bound is used. room: rows by which D is lessened, so that answers may be refined (refine.py); not if
    that is more than a 32nd of it.
    """
    tolerance = how.tolerance(scale)
    refines = 0 < 32 * room <= tolerance
    reach = tolerance - room if refines else _denominator(tolerance)
    sigma_squared = reach**2 / (count * _normal_quantile(beta) ** 2)
    if count > 1 and sigma_squared < 1:
        sigma_squared = (_denominator(tolerance / count) / _normal_quantile(beta / count)) ** 2
    if how.preserving is not None:
        reach = how.preserving * tolerance
        sigma_squared = min(sigma_squared, reach**2 / (Fraction(72 * math.log(2)) + 12 * how.preserving * x))
    return Draw("gaussian", _up(1 / (2 * sigma_squared)), refines and sigma_squared >= _REFINED_VARIANCE)


class Guarantee(NamedTuple):
    """The worst case of `guaranteed` convergence (§9): at most `updates` paid updates, except with `failure`."""

    calibration: Calibration
    rate: float
    tau: float
    updates: int
    failure: Fraction


def printed_updates(bins: int, alpha: Fraction, rate: float, tau: float) -> int:
    """Thm A.4 as printed: ln N / (rate (tau alpha - rate) / 2), for rate / alpha < tau <= 1/2 (E-9: not exact)."""
    return math.ceil(math.log(bins) / (rate * (tau * float(alpha) - rate) / 2))


def guaranteed(alpha: Fraction, beta: Fraction, bins: int, queries: int, failure: Fraction) -> Guarantee:
    """Prices and rates under which the bound of Thm A.4, corrected (E-9, E-10), holds for `queries` queries.

    tau = 1/2, rate = alpha/8, x = 4 ln(1/beta') everywhere. With g = ln(3 queries / failure), rho = failure / queries:
    needed is 3 g alpha / x < alpha / 2; then kappa = 2 g alpha / x and U = ln N / (rate (tau alpha - kappa - rate/2)).
    x = 8 g at least, that is beta' <= (failure / 3 queries)^2, gives kappa = alpha/4. A tree has no such bound (E-11).
    """
    if queries < 1 or not 0 < failure < 1:
        raise DPError(
            OUT_OF_RANGE,
            "guaranteed convergence needs the number of queries and a failure probability between 0 and 1",
            "For example 10000 queries and 0.1.",
        )
    needed = (failure / (3 * queries)) ** 2
    prices = Calibration(alpha, min(beta, needed), printed=True)
    x, g = 4 * log_inverse(prices.beta), math.log(3 * queries / float(failure))
    a = float(alpha)
    rate = a / 8
    gain = a / 2 - 2 * g * a / float(x) - rate / 2
    return Guarantee(prices, rate, 0.5, math.ceil(math.log(bins) / (rate * gain)), failure)
