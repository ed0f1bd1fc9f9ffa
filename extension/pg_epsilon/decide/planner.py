"""What a decider can tell apart, before anything is spent: least tau, epsilon needed, recommendation (dp-pqd.md §9).

Pure functions of public facts. Effective at delta (§1): where the two answers are equal the decision is "satisfied",
where they are 2 tau or more apart it is "unmet", each with probability 1 - delta. The paper's ln(1 / 2 delta) is
ln(1 / delta) here (errata 1 and 2), R2T's bound is stated for a guess of the largest value (erratum 12), SVT's is ours
(§5.4), and for quantiles there is a guarantee in ranks only (§6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple

COUNT, SUM, QUANTILE, AVG = "count", "sum", "quantile", "avg"
# Where epsilon * tau is below this, EM_count errs less than LM_count everywhere inside the interval (dp-pqd.md §4.3).
EM_WINS_BELOW = 1.20


class Decider(NamedTuple):
    """One mechanism of one aggregate. extension: not in the paper. users: units may own several rows."""

    name: str
    extension: bool = False
    users: bool = False
    negative: bool = True


DECIDERS: Mapping[str, tuple[Decider, ...]] = {
    COUNT: (
        Decider("lm", users=True),
        Decider("em", users=True),
        Decider("em_naive"),
        Decider("em_unclamped", True),
        Decider("randomised_response", True),
    ),
    SUM: (
        Decider("lm", users=True),
        Decider("r2t", users=True, negative=False),
        Decider("r2t_geo", True, negative=False),
        Decider("r2t_split", True),
        Decider("svt_basic", negative=False),
        Decider("svt", negative=False),
    ),
    QUANTILE: (
        Decider("hist", users=True),
        Decider("hist_one", True),
        Decider("em", users=True),
        Decider("em_tight", True),
    ),
    AVG: (Decider("lm", users=True), Decider("r2t", users=True, negative=False), Decider("avg_direct", True)),
}


@dataclass(frozen=True)
class Facts:
    """Public facts of one decision. Values, tau and largest are in the unit of the answer.

    sensitivity: the most that one unit moves a sum (GS). step: the resolution of the values, the unit of the ladder;
    levels: the ladder's L. rows: the most that one unit moves a count (kappa). negative: the declared values reach
    below 0. domain: the number of values that EM may answer. epsilon of this decision, or rho (Gaussian); tau, delta,
    beta and theta as given; largest: the asker's guess of the largest value (of a user's contribution), or None.
    """

    aggregate: str
    sensitivity: Fraction = Fraction(1)
    step: Fraction = Fraction(1)
    levels: int = 1
    rows: int = 1
    users: bool = False
    negative: bool = False
    domain: int | None = None
    fraction: Fraction = Fraction(1, 2)
    epsilon: Fraction | None = None
    rho: Fraction | None = None
    tau: Fraction | None = None
    delta: Fraction = Fraction(1, 20)
    beta: Fraction = Fraction(1, 20)
    theta: Fraction = Fraction(19, 20)
    largest: Fraction | None = None


class Law(NamedTuple):
    """A least tau: offset + slope / epsilon."""

    slope: float
    offset: float = 0.0


def available(facts: Facts) -> tuple[Decider, ...]:
    """The deciders that can be asked: refused are the rows-only ones for users, and truncations of negative values."""
    return tuple(
        one
        for one in DECIDERS[facts.aggregate]
        if (one.users or not facts.users) and (one.negative or not facts.negative)
    )


def tau_min(mechanism: str, facts: Facts) -> float | None:
    """The least tau at which the mechanism is effective at delta for this budget; None: there is no such theorem."""
    if facts.rho is not None:
        return _gaussian(mechanism, facts)
    if facts.epsilon is None:
        return None
    fixed = _coin(mechanism, facts)
    if fixed is not None:
        return 0.0 if float(facts.epsilon) >= fixed else None
    law = _law(mechanism, facts)
    return None if law is None else law.offset + law.slope / float(facts.epsilon)


def epsilon_needed(mechanism: str, facts: Facts) -> float | None:
    """The least epsilon at which the mechanism is effective at delta for this tau; None: none, or no such theorem."""
    fixed = _coin(mechanism, facts)
    if fixed is not None:
        return fixed
    law = _law(mechanism, facts)
    if law is None or facts.tau is None or float(facts.tau) <= law.offset:
        return None
    return law.slope / (float(facts.tau) - law.offset)


def recommend(facts: Facts) -> str:
    """The mechanism for 'auto' (dp-pqd.md §9), never an extension. It sees public facts only, so it tells nothing.

    COUNT: lm, but em where epsilon * tau is too small for either to be reliable (§4.3). SUM: the smallest least tau
    among lm and, with a guess of the largest value, r2t and svt. Quantiles: hist. Averages: lm.
    """
    if facts.aggregate == QUANTILE:
        return "hist"
    if facts.aggregate == COUNT and facts.epsilon is not None and facts.tau is not None:
        reach = float(facts.epsilon * facts.tau) / facts.rows
        return "em" if reach < min(EM_WINS_BELOW, math.log(1 / float(facts.delta))) else "lm"
    if facts.aggregate == SUM and facts.epsilon is not None and facts.largest is not None:
        offered = {one.name for one in available(facts)}
        known = [(tau_min(name, facts), name) for name in ("lm", "r2t", "svt") if name in offered]
        return min(((least, name) for least, name in known if least is not None), key=lambda pair: pair[0])[1]
    return "lm"


def warning(mechanism: str, facts: Facts) -> str | None:
    """What the asker should know of this decision, from public values only; None if the mechanism is effective."""
    said = []
    if mechanism == "svt":
        said.append(_truncation(facts))
    least = tau_min(mechanism, facts)
    if least is not None and facts.tau is not None and float(facts.tau) < least:
        needed = None if facts.rho is not None else epsilon_needed(mechanism, facts)
        more = "" if needed is None else f" at this tau it needs epsilon {shown(needed)};"
        said.append(
            f"tau {_plain(facts.tau)} is below {shown(least)}, the least that {mechanism} tells apart with"
            f" probability {_plain(1 - facts.delta)};{more} the decision may be wrong"
        )
    fixed = _coin(mechanism, facts)
    if fixed is not None and facts.epsilon is not None and float(facts.epsilon) < fixed:
        wrong = 1 / (1 + math.exp(_exponent(mechanism, float(facts.epsilon))))
        said.append(f"{mechanism} is wrong with probability {shown(wrong)}, whatever tau is")
    return "; ".join(said) or None


def note(mechanism: str, facts: Facts) -> str:
    """One line about a mechanism: what its least tau rests on, or what is guaranteed instead."""
    return _NOTES[facts.aggregate, mechanism](facts)


def table(facts: Facts) -> list[dict[str, Any]]:
    """The rows of dp.dp_decide_plan, as texts: every mechanism that can be asked, the recommended one marked."""
    best = recommend(facts)
    return [
        {
            "mechanism": one.name,
            "extension": one.extension,
            "tau_min": shown(tau_min(one.name, facts)),
            "epsilon_needed": shown(epsilon_needed(one.name, facts)),
            "recommended": one.name == best,
            "note": note(one.name, facts),
        }
        for one in available(facts)
    ]


def shown(value: float | None) -> str | None:
    """Six significant digits, rounded up: what is shown suffices."""
    if value is None:
        return None
    return format(Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float(value).normalize(), "f")


def rank_margin(mechanism: str, facts: Facts) -> float | None:
    """Rows between the quantile and an end of the interval from which on a decision is right w. p. 1 - delta (§6).

    em: how far the chosen value's rank may lie from the quantile's, with probability 1 - delta. The paper has no
    theorem for hist: T(g) of §6.2 for the fraction p, both tests wrong at most delta together.
    """
    if facts.epsilon is None:
        return None
    scale, delta = facts.rows / float(facts.epsilon), float(facts.delta)
    larger = float(max(facts.fraction, 1 - facts.fraction))
    if mechanism == "hist":
        near = math.inf if larger == 1 else math.log(1 / (delta * (1 - larger**2)))
        return 2 * scale * min(near, 2 * math.log(1 / delta)) + 1
    if mechanism == "hist_one":
        return max(0.0, larger * scale * math.log(1 / (2 * delta))) + 1
    if facts.domain is None:
        return None
    return (2 * larger if mechanism == "em_tight" else 2) * scale * math.log(facts.domain / delta)


def _law(mechanism: str, facts: Facts) -> Law | None:
    found = _LAWS.get((facts.aggregate, mechanism))
    return None if found is None else found(facts)


def _lm_count(facts: Facts) -> Law:
    return Law(facts.rows * math.log(1 / float(facts.delta)))


def _em_count(facts: Facts) -> Law:
    delta = float(facts.delta)
    return Law(facts.rows * max(0.0, math.log((1 - delta) / delta)))


def _lm_sum(facts: Facts) -> Law:
    return Law(float(facts.sensitivity) * math.log(1 / float(facts.delta)))


def _r2t(facts: Facts, *, factor: float, sides: int = 1) -> Law | None:
    """(19): factor * ln(L / beta) * DS / epsilon, for the guessed DS, if the error level of beta is within delta."""
    if facts.largest is None or sides * facts.beta > facts.delta:
        return None
    return Law(factor * math.log(facts.levels / float(facts.beta)) * float(_guess(facts)))


def _svt(facts: Facts, *, level: int | None, share: int) -> Law | None:
    """§5.4 at K = level with epsilon / share for the threshold and for the queries, no mass above 2^K."""
    if level is None:
        return None
    draws = math.log((2 * level + 1) / float(facts.delta))
    return Law(float(facts.step) * 2.0**level * 2 * share * draws, float(facts.step))


def _guess(facts: Facts) -> Fraction:
    return max(facts.step, min(facts.largest or facts.sensitivity, facts.sensitivity))


def _level(facts: Facts) -> int | None:
    """The least level of the ladder that holds the guess: ceil(log2(guess / step)), at least 1."""
    if facts.largest is None:
        return None
    return min(facts.levels, max(1, (math.ceil(_guess(facts) / facts.step) - 1).bit_length()))


_LAWS: Mapping[tuple[str, str], Callable[[Facts], Law | None]] = {
    (COUNT, "lm"): _lm_count,
    (COUNT, "em"): _em_count,
    (COUNT, "em_unclamped"): _em_count,
    (SUM, "lm"): _lm_sum,
    (SUM, "r2t"): lambda facts: _r2t(facts, factor=4 * facts.levels),
    (SUM, "r2t_geo"): lambda facts: _r2t(facts, factor=8),
    (SUM, "r2t_split"): lambda facts: _r2t(facts, factor=4 * facts.levels, sides=2),
    (SUM, "svt_basic"): lambda facts: _svt(facts, level=facts.levels, share=2),
    (SUM, "svt"): lambda facts: _svt(facts, level=_level(facts), share=3),
}


def _gaussian(mechanism: str, facts: Facts) -> float | None:
    """The least tau of lm with Gaussian noise of rho: both errors are tails of one normal variable."""
    if mechanism != "lm" or facts.aggregate not in (COUNT, SUM) or facts.rho is None:
        return None
    unit = facts.rows if facts.aggregate == COUNT else float(facts.sensitivity)
    return unit / math.sqrt(2 * float(facts.rho)) * NormalDist().inv_cdf(1 - float(facts.delta) / 2)


def _exponent(mechanism: str, epsilon: float) -> float:
    return epsilon / 2 if mechanism == "em_naive" else epsilon


def _coin(mechanism: str, facts: Facts) -> float | None:
    """The epsilon from which on a decider that errs alike everywhere is effective; None for the others."""
    if mechanism not in ("em_naive", "randomised_response"):
        return None
    delta = float(facts.delta)
    odds = max(0.0, math.log((1 - delta) / delta))
    return 2 * odds if mechanism == "em_naive" else odds


def _plain(value: Fraction) -> str:
    return f"{float(value):.12g}"


def _truncation(facts: Facts) -> str:
    """Of SVT improved: what its private bound leaves out, and from how many rows on it means anything (§5.3, §5.5)."""
    share = 1 - facts.theta
    rows = (
        "" if facts.epsilon is None else f", and is chosen reliably from about {_rows(27 / share / facts.epsilon)} on"
    )
    return (
        f"svt leaves out the largest values, about {_plain(100 * share)} % of the rows{rows}: heavy tails need theta"
        " close to 1 or another mechanism"
    )


def _rows(value: float | Fraction) -> str:
    return f"{math.ceil(value)} rows"


def _guessed(text: str) -> Callable[[Facts], str]:
    """The note of a bound that rests on the asker's guess of the largest value."""

    def words(facts: Facts) -> str:
        if facts.largest is None:
            return f"{text}; no least tau without a guess of the largest value: largest => ..."
        return f"{text}; for a largest value of {_plain(_guess(facts))}, which is your guess"

    return words


def _r2t_note(sides: int) -> Callable[[Facts], str]:
    def words(facts: Facts) -> str:
        if sides * facts.beta > facts.delta:
            level = _plain(facts.delta / sides)
            return f"answers from below; its bound holds with beta = delta: ask with beta => {level} or less"
        return _guessed("answers from below")(facts)

    return words


def _ranks(text: str) -> Callable[[Facts], str]:
    def words(facts: Facts) -> str:
        return f"no value-space guarantee; {text}"

    return words


def _hist_note(mechanism: str) -> Callable[[Facts], str]:
    def words(facts: Facts) -> str:
        margin = rank_margin(mechanism, facts)
        if margin is None:
            return _ranks("the more rows lie between the quantile and the ends of the interval, the surer")(facts)
        sure = _plain(1 - facts.delta)
        return _ranks(
            f"right with probability {sure} if {_rows(margin)} or more lie between the quantile and either end of the"
            " interval"
        )(facts)

    return words


def _em_quantile_note(mechanism: str) -> Callable[[Facts], str]:
    def words(facts: Facts) -> str:
        margin = rank_margin(mechanism, facts)
        if margin is None:
            return _ranks("the noisy quantile comes with it")(facts)
        sure = _plain(1 - facts.delta)
        return _ranks(
            f"with probability {sure} the rank of the noisy quantile, which comes with it, is off by at most"
            f" {_rows(margin)}"
        )(facts)

    return words


def _says(text: str) -> Callable[[Facts], str]:
    def words(facts: Facts) -> str:
        return text

    return words


_NOTES: Mapping[tuple[str, str], Callable[[Facts], str]] = {
    (COUNT, "lm"): _says("the noisy count comes with it"),
    (COUNT, "em"): _says("the decision alone"),
    (COUNT, "em_naive"): _says("a baseline: errs alike for every tau"),
    (COUNT, "em_unclamped"): _says("the decision alone; surer than em outside the interval"),
    (COUNT, "randomised_response"): _says("a baseline: errs alike for every tau"),
    (SUM, "lm"): _says("the noisy sum comes with it"),
    (SUM, "r2t"): _r2t_note(1),
    (SUM, "r2t_geo"): _r2t_note(1),
    (SUM, "r2t_split"): _r2t_note(2),
    (SUM, "svt_basic"): _says("the decision alone; the bound is ours, the paper has none"),
    (SUM, "svt"): _guessed("the decision alone; the bound is ours, and holds if nothing above its level is left out"),
    (QUANTILE, "hist"): _hist_note("hist"),
    (QUANTILE, "hist_one"): _hist_note("hist_one"),
    (QUANTILE, "em"): _em_quantile_note("em"),
    (QUANTILE, "em_tight"): _em_quantile_note("em_tight"),
    (AVG, "lm"): _says("no theorem; a noisy sum over a noisy count, which comes with it"),
    (AVG, "r2t"): _says("no theorem; a sum from below over a noisy count, which comes with it"),
    (AVG, "avg_direct"): _says("no theorem in the paper; the decision alone"),
}
