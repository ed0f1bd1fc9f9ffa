"""The planner against the exact law of every decider: what it promises holds, and a tight bound is tight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from statistics import NormalDist
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fix_decide_oracles as law
from pg_epsilon.decide import planner
from pg_epsilon.decide.planner import AVG, COUNT, QUANTILE, SUM, Facts, epsilon_needed, recommend, tau_min, warning

SOME = settings(database=None, deadline=None, max_examples=40)
TENTH, TWENTIETH = Fraction(1, 10), Fraction(1, 20)
COUNTS = Facts(COUNT, epsilon=TENTH, tau=Fraction(10))
TAXI = Facts(SUM, sensitivity=Fraction(2_000_000), levels=21, epsilon=TENTH, tau=Fraction(1000))
DELTAS = [Fraction(1, 1000), TWENTIETH, Fraction(3, 10), Fraction(45, 100)]


def known(mechanism: str, facts: Facts) -> float:
    """The least tau, where there is a theorem."""
    found = tau_min(mechanism, facts)
    assert found is not None
    return found


# counts and sums by noise: the theorems are equalities ------------------------------------------------------------


@pytest.mark.parametrize(("delta", "rows"), list(product(DELTAS, [1, 7])))
def test_lm_is_effective_from_its_least_tau_on_and_not_before(delta: Fraction, rows: int) -> None:
    tau = known("lm", replace(COUNTS, delta=delta, rows=rows))
    scale = rows / TENTH
    assert law.additive(0, -tau, tau, scale) == pytest.approx(1 - delta)
    assert law.additive(2 * tau, -tau, tau, scale) <= delta
    shorter = tau * 0.999
    assert law.additive(0, -shorter, shorter, scale) < 1 - delta


def test_the_printed_bound_is_wrong_by_a_factor_of_two() -> None:
    """Errata 1 and 2: at the paper's ln(1 / 2 delta) / epsilon the error is 2 delta."""
    tau = math.log(1 / (2 * TWENTIETH)) / TENTH
    assert law.additive(0, -tau, tau, 1 / TENTH) == pytest.approx(1 - 2 * TWENTIETH)
    assert tau < known("lm", COUNTS)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(
    ("mechanism", "form", "rows"), [("em", "em", 1), ("em", "em", 5), ("em_unclamped", "unclamped", 1)]
)
def test_em_is_effective_from_its_least_tau_on_and_not_before(
    mechanism: str, form: str, rows: int, delta: Fraction
) -> None:
    tau = known(mechanism, replace(COUNTS, delta=delta, rows=rows))
    assert law.bit(0, 0, tau, TENTH, form, rows) == pytest.approx(1 - delta)
    assert law.bit(2 * tau, 0, tau, TENTH, form, rows) == pytest.approx(delta)
    assert law.bit(0, 0, tau * 0.999, TENTH, form, rows) < 1 - delta


def test_from_a_half_on_em_needs_no_distance() -> None:
    assert tau_min("em", replace(COUNTS, delta=Fraction(1, 2))) == 0


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("mechanism", "form"), [("em_naive", "naive"), ("randomised_response", "randomised")])
def test_a_coin_needs_its_epsilon_whatever_tau_is(mechanism: str, form: str, delta: Fraction) -> None:
    facts = replace(COUNTS, delta=delta)
    needed = epsilon_needed(mechanism, facts)
    assert needed is not None
    assert law.bit(0, 0, 10, needed, form) == pytest.approx(1 - delta)
    assert tau_min(mechanism, replace(facts, epsilon=Fraction(needed) * Fraction(101, 100))) == 0
    assert tau_min(mechanism, replace(facts, epsilon=Fraction(needed) * Fraction(99, 100))) is None


@pytest.mark.parametrize("delta", DELTAS)
def test_gaussian_noise_has_a_least_tau_too(delta: Fraction) -> None:
    tau = known("lm", replace(COUNTS, epsilon=None, rho=Fraction(1, 50), delta=delta))
    noise = NormalDist(0, 5)
    assert noise.cdf(tau) - noise.cdf(-tau) == pytest.approx(float(1 - delta))
    assert noise.cdf(3 * tau) - noise.cdf(tau) <= delta
    assert tau_min("em", replace(COUNTS, epsilon=None, rho=Fraction(1, 50))) is None


def test_the_numbers_of_the_specification() -> None:
    """dp-pqd.md §4.1, §5.1, §5.2, §9."""
    assert round(known("lm", COUNTS), 2) == 29.96
    assert round(known("lm", TAXI) / 1e7, 2) == 5.99
    assert round(known("lm", replace(TAXI, sensitivity=Fraction(2))), 1) == 59.9
    for gs, levels, printed, geo in [(500_000, 19, 0.0066, 0.063), (377, 9, 0.016, 0.072)]:
        for mechanism, ratio in [("r2t", printed), ("r2t_geo", geo)]:
            for near, better in [(0.95, True), (1.05, False)]:
                guess = Fraction(gs * ratio * near).limit_denominator(1000)
                facts = Facts(SUM, Fraction(gs), levels=levels, epsilon=Fraction(1), largest=guess)
                assert (known(mechanism, facts) < known("lm", facts)) is better


# sums by truncation: bounds, for any data below the guess ---------------------------------------------------------


def ladder(values: Sequence[int], levels: int) -> list[int]:
    """S_1 … S_L: what is left of the sum when values above 2^j are dropped."""
    return [sum(v for v in values if v <= 2**j) for j in range(1, levels + 1)]


@SOME
@given(st.lists(st.integers(0, 13), max_size=60), st.integers(13, 16))
def test_r2t_is_effective_for_any_data_below_the_guess(values: list[int], guess: int) -> None:
    facts = Facts(SUM, Fraction(100), levels=7, epsilon=Fraction(1), largest=Fraction(guess))
    sums, total = ladder(values, 7), sum(values)
    for mechanism, weight in [("r2t", None), ("r2t_geo", 2)]:
        tau = known(mechanism, facts)
        assert law.r2t(sums, total - tau, total + tau, 1, TWENTIETH, weight) >= 1 - TWENTIETH
        for centre in (total + 2 * tau, total - 2 * tau):
            assert law.r2t(sums, centre - tau, centre + tau, 1, TWENTIETH, weight) <= TWENTIETH


def test_r2t_has_no_bound_without_a_guess_or_above_its_beta() -> None:
    """Erratum 12: the bound depends on the data's largest value, and holds at error level beta."""
    assert tau_min("r2t", TAXI) is None
    assert "largest => " in planner.note("r2t", TAXI)
    guessed = replace(TAXI, largest=Fraction(100))
    assert tau_min("r2t", guessed) is not None
    assert tau_min("r2t", replace(guessed, beta=Fraction(6, 100))) is None
    assert "beta => 0.05" in planner.note("r2t", replace(guessed, beta=Fraction(6, 100)))
    assert tau_min("r2t_split", guessed) is None
    assert tau_min("r2t_split", replace(guessed, beta=TWENTIETH / 2)) is not None


@pytest.mark.long
@SOME
@given(st.lists(st.integers(0, 13), max_size=60))
def test_svt_is_effective_where_its_bound_leaves_nothing_out(values: list[int]) -> None:
    facts = Facts(SUM, Fraction(100), levels=7, epsilon=Fraction(2), largest=Fraction(13))
    sums, total = ladder(values, 7), sum(values)
    for mechanism, level, part in [("svt", 4, Fraction(2, 3)), ("svt_basic", 7, Fraction(1))]:
        tau = known(mechanism, facts)
        assert law.svt(sums[:level], total - tau, total + tau, part, part) >= 1 - TWENTIETH
        for centre in (total + 2 * tau, total - 2 * tau):
            assert law.svt(sums[:level], centre - tau, centre + tau, part, part) <= TWENTIETH


def test_the_ladder_is_in_units_of_the_resolution() -> None:
    """Cents instead of dollars: the same question, so the same tau in dollars."""
    dollars = Facts(SUM, Fraction(1000), levels=10, epsilon=Fraction(1), largest=Fraction(50))
    cents = replace(dollars, step=Fraction(1, 100), levels=17)
    assert known("lm", cents) == known("lm", dollars)
    assert known("svt", cents) == pytest.approx(known("svt", replace(cents, sensitivity=Fraction(100_000),
        step=Fraction(1), largest=Fraction(5000))) / 100)  # fmt: skip
    assert known("r2t", cents) / known("r2t", dollars) == pytest.approx(17 * math.log(340) / (10 * math.log(200)))


# epsilon needed ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["lm", "r2t", "r2t_geo", "svt", "svt_basic"])
def test_epsilon_needed_is_the_inverse_of_the_least_tau(mechanism: str) -> None:
    facts = replace(TAXI, largest=Fraction(100))
    needed = epsilon_needed(mechanism, facts)
    assert needed is not None
    assert known(mechanism, replace(facts, epsilon=Fraction(needed))) == pytest.approx(1000)


def test_svt_tells_nothing_apart_within_a_step() -> None:
    assert epsilon_needed("svt_basic", replace(TAXI, tau=Fraction(1))) is None


# quantiles: ranks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(99, 100)])
@pytest.mark.parametrize("mechanism", ["hist", "hist_one"])
def test_hist_is_right_from_its_rank_margin_on(mechanism: str, fraction: Fraction) -> None:
    facts = Facts(QUANTILE, epsilon=TENTH, fraction=fraction)
    margin, n = planner.rank_margin(mechanism, facts), 10_000
    assert margin is not None
    rows, target = math.ceil(margin), fraction * n
    decide = {"hist": law.hist, "hist_one": law.hist_one}[mechanism]
    below, above = math.floor(target) - rows, math.floor(n - target) - rows
    assert decide(n, below, above, fraction, TENTH) >= 1 - TWENTIETH
    assert decide(n, math.ceil(target) + rows, 0, fraction, TENTH) <= TWENTIETH
    assert decide(n, 0, math.ceil(n - target) + rows, fraction, TENTH) <= TWENTIETH


@pytest.mark.parametrize(
    ("mechanism", "fraction"), list(product(["em", "em_tight"], [Fraction(1, 2), Fraction(9, 10)]))
)
def test_em_med_stays_within_its_rank_margin(mechanism: str, fraction: Fraction) -> None:
    size, values = 50, [v for v in range(50) for _ in range(40)]
    margin = planner.rank_margin(mechanism, Facts(QUANTILE, epsilon=TENTH, fraction=fraction, domain=size))
    assert margin is not None
    moved = max(fraction, 1 - fraction) if mechanism == "em_tight" else 1
    pmf = law.em_pmf(values, range(size), fraction, TENTH, "ties", moved)
    target = fraction * len(values)
    off = [max(Fraction(0), 40 * e - target, target - 40 * (e + 1)) for e in range(size)]
    assert sum(p for p, away in zip(pmf, off, strict=True) if away > margin) <= TWENTIETH
    assert margin < len(values) / 2


def test_quantiles_and_averages_have_no_guarantee_in_values() -> None:
    for facts in (
        Facts(QUANTILE, epsilon=TENTH, tau=Fraction(1), domain=81),
        Facts(AVG, epsilon=TENTH, tau=Fraction(1)),
    ):
        for row in planner.table(facts):
            assert row["tau_min"] is None
            assert row["epsilon_needed"] is None
            words = "no value-space guarantee" if facts.aggregate == QUANTILE else "no theorem"
            assert row["note"].startswith(words)


# recommendation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"tau": Fraction(30)}, "lm"),  # epsilon * tau = 3 >= ln 20
        ({"tau": Fraction(13)}, "lm"),  # between 1.2 and ln 20: with a warning
        ({"tau": Fraction(11)}, "em"),
        ({"tau": Fraction(30), "rows": 3, "users": True}, "em"),
        ({"tau": Fraction(10), "delta": Fraction(2, 5)}, "lm"),  # 1 >= ln 2.5
        ({"epsilon": None, "rho": Fraction(1, 10)}, "lm"),
        ({"tau": None}, "lm"),
    ],
)
def test_counts_are_recommended_as_the_specification_says(changes: dict[str, Any], expected: str) -> None:
    assert recommend(replace(COUNTS, **changes)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "lm"),
        ({"largest": Fraction(100)}, "svt"),
        ({"largest": Fraction(100), "users": True}, "r2t"),
        ({"largest": Fraction(1_000_000)}, "lm"),
        ({"largest": Fraction(100), "negative": True}, "lm"),
        ({"largest": Fraction(100), "users": True, "beta": Fraction(1, 2)}, "lm"),
    ],
)
def test_sums_are_recommended_by_the_smallest_public_threshold(changes: dict[str, Any], expected: str) -> None:
    facts = replace(TAXI, **changes)
    assert recommend(facts) == expected
    offered = [one.name for one in planner.available(facts) if not one.extension]
    known_ = [tau for name in offered if (tau := tau_min(name, facts)) is not None]
    assert known(expected, facts) == min(known_)


def test_quantiles_and_averages_are_recommended() -> None:
    assert recommend(Facts(QUANTILE, epsilon=TENTH)) == "hist"
    assert recommend(Facts(AVG, epsilon=TENTH)) == "lm"


PUBLIC = st.builds(
    Facts,
    st.sampled_from([COUNT, SUM, QUANTILE, AVG]),
    sensitivity=st.fractions(1, 10**7, max_denominator=100),
    levels=st.integers(1, 40),
    rows=st.integers(1, 20),
    users=st.booleans(),
    negative=st.booleans(),
    domain=st.none() | st.integers(1, 2**21),
    fraction=st.fractions(0, 1, max_denominator=20),
    epsilon=st.none() | st.fractions(Fraction(1, 10**6), 1000),
    tau=st.none() | st.fractions(Fraction(1, 1000), 10**9),
    delta=st.fractions(Fraction(1, 1000), Fraction(999, 1000)),
    beta=st.fractions(Fraction(1, 1000), Fraction(999, 1000)),
    theta=st.fractions(Fraction(1, 1000), Fraction(999, 1000)),
    largest=st.none() | st.fractions(Fraction(1, 1000), 10**9),
)


@pytest.mark.long
@settings(database=None, deadline=None, max_examples=300)
@given(PUBLIC)
def test_a_table_is_of_what_can_be_asked_and_recommends_one_of_the_papers(facts: Facts) -> None:
    table = planner.table(facts)
    assert [row["mechanism"] for row in table] == [one.name for one in planner.available(facts)]
    (best,) = [row for row in table if row["recommended"]]
    assert best["extension"] is False
    for row in table:
        assert row["note"]
        assert all(row[name] is None or float(row[name]) >= 0 for name in ("tau_min", "epsilon_needed"))
        said = warning(row["mechanism"], facts)
        if facts.tau is not None and facts.epsilon is not None and row["tau_min"] is not None:
            least = known(row["mechanism"], facts)
            assert float(row["tau_min"]) >= least
            assert (facts.tau < least) is (said is not None and f"tau {float(facts.tau):.12g} is below" in said)


# warnings ---------------------------------------------------------------------------------------------------------


def test_a_tau_that_is_too_small_is_warned_of_and_what_it_would_cost() -> None:
    assert warning("lm", COUNTS) == (
        "tau 10 is below 29.9574, the least that lm tells apart with probability 0.95; at this tau it needs epsilon"
        " 0.299574; the decision may be wrong"
    )
    assert warning("lm", replace(COUNTS, tau=Fraction(30))) is None


def test_a_coin_is_warned_of() -> None:
    assert warning("em_naive", COUNTS) == "em_naive is wrong with probability 0.487503, whatever tau is"
    assert warning("em_naive", replace(COUNTS, epsilon=Fraction(6))) is None


def test_svt_warns_of_heavy_tails_and_of_how_many_rows_its_bound_needs() -> None:
    """dp-pqd.md §5.3 and §5.5: up to (1 - theta) of the rows are left out; 540 / epsilon rows at theta = 0.95."""
    said = warning("svt", replace(TAXI, tau=Fraction(10**9), largest=Fraction(100)))
    assert said is not None
    assert "about 5 % of the rows" in said
    assert "from about 5400 rows on" in said
    assert "theta close to 1" in said
    assert "below" not in said


def test_what_is_shown_suffices() -> None:
    """Six digits, rounded up."""
    assert planner.shown(29.9573227) == "29.9574"
    assert planner.shown(59914645.47) == "59914700"
    assert planner.shown(0.0) == "0"
    assert planner.shown(None) is None


def test_deciders_are_those_of_the_paper_and_ours_are_labelled() -> None:
    """dp-pqd.md's feature checklist; composition.md 14.8 and 2.5: extensions and SVT take rows only."""
    paper = {kind: {d.name for d in all_ if not d.extension} for kind, all_ in planner.DECIDERS.items()}
    assert paper == {
        COUNT: {"lm", "em", "em_naive"},
        SUM: {"lm", "r2t", "svt_basic", "svt"},
        QUANTILE: {"hist", "em"},
        AVG: {"lm", "r2t"},
    }
    users = {kind: {d.name for d in all_ if d.users} for kind, all_ in planner.DECIDERS.items()}
    assert users == {COUNT: {"lm", "em"}, SUM: {"lm", "r2t"}, QUANTILE: {"hist", "em"}, AVG: {"lm", "r2t"}}
    assert not any(d.users for all_ in planner.DECIDERS.values() for d in all_ if d.extension)
