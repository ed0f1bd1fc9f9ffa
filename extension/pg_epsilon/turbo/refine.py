"""A Gaussian answer made more accurate for what it lacks (composition.md §7.2): rho_1 of it were paid, rho are needed.

y_2 is drawn afresh with rho_2 = rho - rho_1, which alone is paid: r(a) - r_1(a) = a rho_2 exactly. The answer is
(rho_1 y_1 + rho_2 y_2) / rho, of variance 1 / (2 rho). The same query, node and data version only (what `Books.exact`
finds), as often as wanted, never for Laplace noise. Which answer is refined, and by how much, is decided by amounts.

*Privacy.* Given all that was released before, y_2 is a Gaussian draw at rho_2, which was paid; the rest is
post-processing. *Accuracy.* Let Z be discrete Gaussian of variance s^2, s >= 2 steps, N normal of the same. With the
normaliser S = sum of e^(-k^2 / 2 s^2) over that of the integral, 1 <= S <= 1 + 3 e^(-2 pi^2 s^2) < 1 + 1e-33, and the
weights falling away from 0: Pr[Z >= j] <= Pr[N > j - 1] for j >= 1, and Pr[Z >= j] = 1 - Pr[Z >= 1 - j]
<= 1 - Pr[N > 1 - j] / S <= (1 + 1e-33) Pr[N + 1 > j] for j <= 0. So Z is stochastically at most N + 1, but for that
factor. The noise of an answer refined any number of times is a mean of such Z_i with weights w_i = rho_i / rho; of k
answers together it is at most a normal variable of variance k / (2 rho) at most, plus k steps; the values that are kept
are off by 2^-41 steps a refinement, and the sum is rounded once: half a step. Together that is less than k + 1 steps,
which are at most k + 1 rows. `Calibration.node` takes those off the tolerance, for all its draws, and says `refines`
where it did and s >= 2; beta has room for the factor (`_normal_quantile`). An answer that a sum of draws without this
room would be made of is never a refined one. 7.4 applies: whoever asks for a refinement because of what came out is
promised one more draw.
"""

from __future__ import annotations

from fractions import Fraction

from pg_epsilon.noise import NoiseSource
from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.books import Books, Released
from pg_epsilon.turbo.calibration import Draw
from pg_epsilon.turbo.split import Node

REFINED = "refined"
"""The mechanism under which a refined answer is stored: `value` is in 2^-40 of the query's steps, `amount` is rho."""

_FINE = 1 << 40


def best(books: Books, query: Query, node: Node, draw: Draw) -> Released | None:
    """The dearest stored answer that may stand for this draw, or a part of it."""
    plain = books.exact(query, node, draw.mechanism)
    refined = books.exact(query, node, REFINED) if draw.refines else None
    if plain is None or (refined is not None and refined.amount > plain.amount):
        return refined
    return plain


def value(released: Released) -> Fraction:
    """In the query's steps."""
    return Fraction(released.value, _FINE if released.mechanism == REFINED else 1)


def lacking(books: Books, query: Query, node: Node, draw: Draw) -> Draw:
    """What is to be paid and drawn for a node's answer of which nothing good enough is stored."""
    known = best(books, query, node, draw) if draw.refines else None
    return draw if known is None else draw._replace(amount=draw.amount - known.amount)


def release(books: Books, query: Query, node: Node, draw: Draw, noise: NoiseSource) -> Released:
    """The answer at `draw.amount`, of which `lacking` was paid: drawn now, joined with what was known. Not stored."""
    known = best(books, query, node, draw) if draw.refines else None
    rest = lacking(books, query, node, draw)
    (fresh,) = rest.release([books.truth(query, node)], query.unit, noise, f"turbo node {node.key()}")
    if known is None:
        return Released(fresh, draw.mechanism, draw.amount)
    joined = (Fraction(known.amount) * value(known) + Fraction(rest.amount) * fresh) / Fraction(draw.amount)
    return Released(round(joined * _FINE), REFINED, draw.amount)
