"""The one door for randomness (design.md R3): nothing else in pg_epsilon draws noise.

Every draw is one call that names its kind, its declared sensitivity, its scale (by epsilon or rho) and the exact
values. Integer noise comes from OpenDP's exact samplers (Canonne, Kamath, Steinke 2020, from the operating system's
entropy); selection and AboveThreshold are ours, from `secrets`, with their proofs. There is no seed and no replay
in here. A mechanism takes a `NoiseSource` as an argument and `current()` is what production passes, so that a test
can pass an object that records or replays.

The lattice is that of 64-bit integers. Exact values beyond it are moved to its ends first (this shrinks distances, so
no sensitivity grows), and a noisy value beyond it is answered as its end: OpenDP adds in unbounded integers and
saturates, which is post-processing. Hence no value, however large, raises an error or wraps around (rule R5). Whether
a result can get that large is checked on public bounds, before the charge, elsewhere (composition.md §10.3).
"""

from __future__ import annotations

import operator
import secrets
from bisect import bisect_right
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import lcm
from typing import NamedTuple, Protocol, cast

from pg_epsilon.accounting.margins import (
    Number,
    checked_epsilon,
    checked_sensitivity,
    gaussian_scale,
    laplace_scale,
    rational,
)

LATTICE_MIN = -(2**63)
LATTICE_MAX = 2**63 - 1

Draw = Callable[[list[int]], list[int]]


# exact(j, need): the exact value of level j, or None if it is below need and so cannot be the highest.
Exact = Callable[[int, int | None], int | None]


class Level(NamedTuple):
    """One of the values that `highest` compares: its sensitivity to one unit, and a public handicap; lattice units."""

    sensitivity: int
    penalty: int


class NoiseSource(Protocol):
    """What a mechanism's core may ask for. All sensitivities are to one unit of the dataset (add/remove).

    `label` names the draw in an audit ("count", "sum of a2"); it must be public and does not influence the draw.
    """

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        """exact + DLap per cell; epsilon-DP when the cells' joint L1 sensitivity is l1_sensitivity."""
        ...

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        """exact + discrete Gaussian per cell; rho-zCDP when the cells' joint squared L2 sensitivity is l2_squared."""
        ...

    def select(self, scores: Sequence[Number], *, sensitivity: Number, epsilon: Number, label: str) -> int:
        """The exponential mechanism: i with probability proportional to exp(epsilon * scores[i] / 2 sensitivity)."""
        ...

    def select_in_runs(
        self,
        sizes: Sequence[int],
        scores: Sequence[Number],
        *,
        sensitivity: Number,
        epsilon: Number,
        label: str,
        name: Callable[[int], int] | None = None,
    ) -> int:
        """The same over sum(sizes) candidates, the first sizes[0] of score scores[0] and so on."""
        ...

    def ladder(
        self, exact: Sequence[Sequence[int]], thresholds: Sequence[int], *, weight: Number, epsilon: Number, label: str
    ) -> list[list[int]]:
        """exact + DLap(t weight / epsilon) per level of threshold t; epsilon-DP if sum of |change| / t <= weight."""
        ...

    def highest(self, levels: Sequence[Level], exact: Exact, *, epsilon: Number, label: str) -> int:
        """max(0, max over levels of exact(j) + DLap_j - penalty_j); epsilon-DP, split equally over the levels."""
        ...

    def first_above(
        self,
        gaps: Sequence[int],
        *,
        sensitivity: Number,
        threshold_epsilon: Number,
        query_epsilon: Number,
        label: str,
        fall: Number = 0,
    ) -> int | None:
        """AboveThreshold: the first i with gaps[i] + DLap_i >= DLap; threshold + query epsilon for all."""
        ...

    def sparse_start(self, threshold: int, *, sensitivity: Number, epsilon: Number, label: str) -> int:
        """The noisy threshold of an epoch of the sparse vector: SECRET; 3 epsilon for the whole epoch."""
        ...

    def sparse_test(
        self, error: int, noisy_threshold: int, *, sensitivity: Number, epsilon: Number, label: str
    ) -> bool:
        """True: PASS (error + DLap below the noisy threshold). False: FAIL, and the epoch is over."""
        ...


class Noise:
    """The production source: operating system entropy, exact samplers."""

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        """exact + independent discrete Laplace noise, Pr[Z = k] proportional to e^(-|k| / s), on the integer lattice.

        l1_sensitivity > 0: how far one unit can move all cells together (sum of |changes|), lattice units.
        epsilon in (0, 1000]: the privacy loss, pure; s = `laplace_scale(l1_sensitivity, epsilon)` >= l1/epsilon.
        Returns one integer per cell, saturated to 64 bits. DP005 for parameters out of range. composition.md §4, row 1.
        """
        draw = _laplace(laplace_scale(l1_sensitivity, epsilon))
        return draw(_on_lattice(exact)) if len(exact) else []

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        """exact + independent discrete Gaussian noise, Pr[Z = k] proportional to e^(-k^2 / 2 s^2), k integer.

        l2_squared > 0: the largest sum of squared changes that one unit can cause, lattice units squared.
        rho in (0, 1000]: zCDP, that is RDP a*rho at every order a; s = `gaussian_scale(l2_squared, rho)`.
        Returns one integer per cell, saturated to 64 bits. DP005 for parameters out of range. composition.md §4, row 2.
        """
        draw = _gaussian(gaussian_scale(l2_squared, rho))
        return draw(_on_lattice(exact)) if len(exact) else []

    def select(self, scores: Sequence[Number], *, sensitivity: Number, epsilon: Number, label: str) -> int:
        """Exponential mechanism: i with probability exactly proportional to exp(epsilon * scores[i] / 2 sensitivity).

        `select_in_runs` with a run for each candidate. The number of scores must be public and at least 1.
        """
        return self.select_in_runs([1] * len(scores), scores, sensitivity=sensitivity, epsilon=epsilon, label=label)

    def select_in_runs(
        self,
        sizes: Sequence[int],
        scores: Sequence[Number],
        *,
        sensitivity: Number,
        epsilon: Number,
        label: str,
        name: Callable[[int], int] | None = None,
    ) -> int:
        """Exponential mechanism over sum(sizes) candidates in a row, the first sizes[0] of score scores[0] and so on.

        Candidate i is returned with probability exactly proportional to exp(epsilon * its score / 2 sensitivity). The
        number of candidates must be public and at least 1; how they fall into runs of one score may be private. name:
        where their order is private too, what the candidate at a place is to whoever is told of it; nothing is drawn
        by it, and an audit compares outcomes of neighbours by it.
        sensitivity > 0: the largest change of any one score that one unit can cause, in units of the scores.
        epsilon in (0, 1000]: the log-odds of any two outcomes move by at most epsilon (so pure epsilon and, the
        mechanism being epsilon-bounded-range, a*epsilon^2/8 at order a; composition.md §4, row 3).
        DP005 for parameters out of range.

        Proof. Let g_j = epsilon (max - scores[j]) / (2 sensitivity) >= 0, rational, and h_j an integer with
        0 <= h_j <= g_j / ln 2, hence e^(-g_j) <= 2^(-h_j). A round proposes run j with probability proportional to
        the integer sizes[j] 2^(H - h_j), H = max h, and accepts it with probability e^(-g_j) 2^(h_j) <= 1: the first
        accepted run is j with probability proportional to sizes[j] e^(-g_j), and the candidate is uniform in it. The
        proposal is exact (integers), and so is the acceptance (`_bernoulli_scaled`): no weight over- or underflows
        (dp-pqd.md §2.5). With h_j = floor(g_j / ln 2), cut at _DEPTH, every second round is accepted. OpenDP's noisy
        max is not used: for pure DP it is permute-and-flip, which is not bounded-range.
        """
        factor = checked_epsilon(epsilon) / (2 * checked_sensitivity(sensitivity))
        if len(sizes) != len(scores) or min(sizes, default=0) < 1:
            raise ValueError("a selection needs at least one score, and a positive size for each")
        exact = [rational(score, "score") for score in scores]
        common = lcm(*(score.denominator for score in exact))
        lattice = [score.numerator * (common // score.denominator) for score in exact]
        best, factor = max(lattice), factor / common
        up, down = factor.numerator * _HALVINGS.numerator, factor.denominator * _HALVINGS.denominator
        halvings = [min((best - score) * up // down, _DEPTH) for score in lattice]
        ends = list(accumulate(size << (_DEPTH - h) for size, h in zip(sizes, halvings, strict=True)))
        while True:
            run = bisect_right(ends, secrets.randbelow(ends[-1]))
            if _bernoulli_scaled((best - lattice[run]) * factor, halvings[run]):
                return sum(sizes[:run]) + secrets.randbelow(sizes[run])

    def ladder(
        self, exact: Sequence[Sequence[int]], thresholds: Sequence[int], *, weight: Number, epsilon: Number, label: str
    ) -> list[list[int]]:
        """exact[j] + discrete Laplace noise of scale t_j weight / epsilon per cell, for each level j of a ladder.

        weight > 0: how much one unit can change all cells of all levels together, each change counted in units of its
        threshold: sum over j of |change of exact[j]| / t_j. epsilon in (0, 1000]: the whole privacy loss, since a cell
        of level j loses |change| epsilon / (t_j weight). thresholds: public, above 0. Returns integers of 64 bits, as
        `laplace`. dp-pqd.md §5.2, r2t_geo; composition.md §4.
        """
        ratio = checked_sensitivity(weight)
        return [
            self.laplace(cells, l1_sensitivity=t * ratio, epsilon=epsilon, label=label)
            for cells, t in zip(exact, thresholds, strict=True)
        ]

    def highest(self, levels: Sequence[Level], exact: Exact, *, epsilon: Number, label: str) -> int:
        """The highest of noisy values and 0: max(0, max_j exact(j) + DLap(L s_j / epsilon) - penalty_j).

        levels: L >= 1 levels, public, s_j > 0. exact: called once for each level in turn. epsilon in (0, 1000], for
        the whole; each level has epsilon/L. Guarantee: epsilon-DP by composition of the L values, of which only the
        maximum is told. The noise of every level is drawn before any value is known, so that a level which provably
        cannot be the highest need not be computed: the answer is the same. composition.md §4, row R2T.
        """
        share = checked_epsilon(epsilon) / len(levels)
        noise = [self.laplace([0], l1_sensitivity=s, epsilon=share, label=label)[0] for s, _ in levels]
        best = 0
        for j, (level, z) in enumerate(zip(levels, noise, strict=True)):
            offset = z - level.penalty
            value = exact(j, best - offset)
            if value is not None:
                best = max(best, value + offset)
        return best

    def first_above(
        self,
        gaps: Sequence[int],
        *,
        sensitivity: Number,
        threshold_epsilon: Number,
        query_epsilon: Number,
        label: str,
        fall: Number = 0,
    ) -> int | None:
        """AboveThreshold with one positive: the first i with gaps[i] + nu_i >= rho, None if there is none.

        gaps: query minus its public threshold, integers, as many as are public; one unit more moves each of them by
        -fall … sensitivity (fall 0: monotone). rho = DLap(max(sensitivity, fall) / threshold_epsilon), drawn once for
        the run; nu_i = DLap((sensitivity + fall) / query_epsilon), drawn anew for every comparison; the run halts at
        the first positive. Both epsilons in (0, 1000]; DP005 for parameters out of range. Guarantee:
        (threshold_epsilon + query_epsilon)-DP for the whole run, whichever i or None it returns (composition.md §4;
        dp-pqd.md §5.4; sum-workloads.md §0).

        Proof. Write e1, e2 for the epsilons, g and g' for the gaps of two neighbours, u for the largest rise and d for
        the largest fall from g to g', integers as gaps are: {u, d} = {floor(sensitivity), floor(fall)}. Given rho = z,
        f_i(z) = Pr[g_i + nu < z] and h_i(z) = Pr[g_i + nu >= z]; the run returns k with probability
        E_rho[f_0 … f_(k-1) h_k], and None with E_rho[f_0 f_1 …]. As u is an integer and at most the threshold's shift,
        E_rho[F(rho)] <= e^(e1) E_rho[F(rho - u)] for every F >= 0 (with u = 0, at no cost). f_i(z - u) =
        Pr[g_i + u + nu < z] <= f_i'(z), since g_i + u >= g_i'. And h_k(z - u) = Pr[nu >= z - u - g_k], where z - g_k'
        <= z - g_k + d is at most u + d larger: h_k(z - u) <= e^(e2) h_k'(z), by a shift of nu. The ratio is at most
        e^(e1 + e2), and at most e^(e1) for None. Neither step survives saturation of the noise at 64 bits (the shift
        would stop at the ends), so it is drawn in unbounded integers (`_unbounded_laplace`), not by OpenDP.
        """
        rise, down = checked_sensitivity(sensitivity), rational(fall, "fall")
        ours = (rise + down) / checked_epsilon(query_epsilon, "query_epsilon")
        threshold = _unbounded_laplace(max(rise, down) / checked_epsilon(threshold_epsilon, "threshold_epsilon"))
        return next((i for i, gap in enumerate(gaps) if gap + _unbounded_laplace(ours) >= threshold), None)

    def sparse_start(self, threshold: int, *, sensitivity: Number, epsilon: Number, label: str) -> int:
        """Opens an epoch of the sparse vector with cut-off 1: threshold + DLap(sensitivity / epsilon).

        One mechanism in two calls, this one and `sparse_test`, which may be called until it says FAIL, with errors and
        questions chosen after looking at everything released, the earlier bits of this epoch included. What is returned
        here is part of the mechanism's state and must be SECRET: no output may depend on it but through `sparse_test`.

        threshold: public, lattice units. sensitivity > 0: how far one unit can move any error of the epoch, up or
        down. epsilon in (0, 1000]. Guarantee: all bits of the epoch together are 3 epsilon-DP for adding or removing
        one unit; 3 epsilon is paid before this call. DP005 for parameters out of range. turbo.md §4.2, §7 item 2; the
        variant of Lyu, Su, Li (2017) with threshold noise epsilon, query noise 2 epsilon.

        Proof. m = floor(sensitivity); errors are integers, so neighbours' e_i, e_i' differ by at most m. X and the Y_i
        are DLap of scale sensitivity / epsilon. Given X = x a question passes with probability F_i(x) = Pr[Y < T + x -
        e_i], and G_i = 1 - F_i. The bits PASS^(k-1) FAIL have probability E_X[F_1 … F_(k-1) G_k], an open epoch
        E_X[F_1 F_2 …]. As X is DLap, E_X[H(X)] <= e^epsilon E_X[H(X - m)] for every H >= 0. And F_i(x - m) =
        Pr[Y < T + x - m - e_i] <= Pr[Y < T + x - e_i'] = F_i'(x), since e_i + m >= e_i'; while T + x - m - e_k >=
        (T + x - e_k') - 2 m, and a shift of Y by 2 m or less costs e^(2 epsilon): G_k(x - m) <= e^(2 epsilon)
        G_k'(x). Together e^(3 epsilon), and e^epsilon while the epoch is open. Adaptivity: e_i depends on released
        values only, which are equal on both sides. The noise is drawn in unbounded integers, as in `first_above`.
        """
        return operator.index(threshold) + _unbounded_laplace(
            checked_sensitivity(sensitivity) / checked_epsilon(epsilon)
        )

    def sparse_test(
        self, error: int, noisy_threshold: int, *, sensitivity: Number, epsilon: Number, label: str
    ) -> bool:
        """One test of the epoch that `sparse_start` opened: True (PASS) iff error + DLap(sensitivity / epsilon) < it.

        The same sensitivity and epsilon as at the start, and fresh noise. After False (FAIL) the noisy threshold must
        not be used again. Costs nothing: the epoch was paid at its start, where the proof is.
        """
        return (
            operator.index(error) + _unbounded_laplace(checked_sensitivity(sensitivity) / checked_epsilon(epsilon))
            < noisy_threshold
        )


# 1 / ln 2, from below, and how many halvings a proposal of `select` looks at; more of them only cost time.
_HALVINGS = Fraction(14426950408889634, 10**16)
_DEPTH = 192
_BITS = 96


def _bernoulli_scaled(gap: Fraction, halvings: int) -> bool:
    """True with probability exactly e^(-gap) 2^halvings, for 0 <= halvings <= gap / ln 2.

    Proof. U is uniform in [0, 1), its bits drawn as they are needed: after b bits it lies in [k, k + 1) / 2^b. The
    probability p is enclosed in p' - e, p' + e with e = 10^-digits (`_scaled`). U < p is decided once the intervals
    do not meet; so the answer is that of the comparison of U with p itself. Each pass is undecided with probability
    below 2^-90.
    """
    drawn, bits = 0, 0
    while True:
        drawn, bits = drawn << _BITS | secrets.randbits(_BITS), bits + _BITS
        digits = bits * 3 // 10
        middle, error = _scaled(gap, halvings, digits), Fraction(1, 10**digits)
        if Fraction(drawn + 1, 1 << bits) <= middle - error:
            return True
        if Fraction(drawn, 1 << bits) >= middle + error:
            return False


def _unbounded_laplace(scale: Fraction) -> int:
    """Z with Pr[Z = k] proportional to e^(-|k| / scale), exactly; any scale > 0 (Canonne, Kamath, Steinke 2020).

    Proof, scale = t/s. u is uniform in 0 … t - 1, accepted with e^(-u/t); v counts successes of probability 1/e: x =
    u + t v has Pr[x] proportional to e^(-x/t). floor(x / s) is then k with probability proportional to e^(-k s/t).
    With a random sign, "minus zero" rejected, 0 is as likely as it must be.
    """
    t, s = scale.numerator, scale.denominator
    while True:
        u = secrets.randbelow(t)
        if not _bernoulli_exp(u, t):
            continue
        v = 0
        while _bernoulli_exp(1, 1):
            v += 1
        magnitude, minus = (u + t * v) // s, secrets.randbits(1)
        if magnitude or not minus:
            return -magnitude if minus else magnitude


def _bernoulli_exp(u: int, t: int) -> bool:
    """True with probability exactly e^(-u/t), for 0 <= u <= t, t > 0; by von Neumann, in integers.

    Proof. With x = u/t, the k-th trial succeeds with probability x/k, so the first k all do with x^k / k!. The first
    failure is at an odd k with probability 1 - x + x^2/2! - x^3/3! + … = e^-x.
    """
    k = 1
    while secrets.randbelow(t * k) < u:
        k += 1
    return k % 2 == 1


def _scaled(gap: Fraction, halvings: int, digits: int) -> Fraction:
    """e^(-gap) 2^halvings to within 10^-digits.

    decimal's ln and exp are correctly rounded: x = gap - halvings ln 2 >= 0 has an error below 10^-(digits + 3), which
    changes e^-x <= 1 by at most as much.
    """
    context = Context(prec=digits + len(str(gap.numerator // gap.denominator)) + 6, Emin=-(10**9), Emax=10**9)
    numerator, denominator = context.create_decimal(gap.numerator), context.create_decimal(gap.denominator)
    x = context.subtract(
        context.divide(numerator, denominator), context.multiply(Decimal(halvings), context.ln(Decimal(2)))
    )
    if x > 3 * (digits + 2):
        return Fraction(0)
    return Fraction(context.exp(x.copy_negate()))


def _on_lattice(exact: Sequence[int]) -> list[int]:
    """The values as integers of the 64-bit lattice; a distance never grows by this."""
    return [min(max(operator.index(value), LATTICE_MIN), LATTICE_MAX) for value in exact]


# OpenDP is imported at the first draw: 0.1 s, against 0.3 s for its prelude. "contrib" is the feature flag of every
# noise measurement (it says that its proof was written outside the core team); nothing else is enabled.


@lru_cache(maxsize=256)
def _laplace(scale: float) -> Draw:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return cast(Draw, make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale))


@lru_cache(maxsize=256)
def _gaussian(scale: float) -> Draw:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return cast(Draw, make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale))


_PRODUCTION = Noise()


def current() -> NoiseSource:
    """The source of all noise in production; the entry point passes it to a mechanism's core."""
    return _PRODUCTION


def try_sampler() -> None:
    """Draw once from the production source and throw the draw away: whatever fails, fails here and not after a charge.

    Never from `current()`: the draw depends on no row, and a recorded run has nothing to replay of it.
    """
    _PRODUCTION.laplace([0], l1_sensitivity=1, epsilon=1, label="none")
