"""Selection and intervals of influence and rank (dpxplain.md §6): cases V57 to V79, every path of the search."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explain_draws import Given, Idle

import fix_chance
from pg_epsilon.explain.ranking import LOWER, UPPER, Budget, RankSearch, comparisons, rank_bound, top
from pg_epsilon.noise import current

FILE = Path(__file__).resolve().parents[2] / "fixtures/explain/ranking.json"
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in json.loads(FILE.read_text())["cases"]}
FINE = 10**9  # steps to a unit: the law of the grid is then the continuous one to nine digits
SHARES = {"low": Fraction(1, 10), "high": Fraction(9, 10)}


def ids(kind: str, *, refused: bool = False, idle: bool = False) -> list[str]:
    found = [name for name, case in CASES.items() if case["input"]["kind"] == kind]
    found = [name for name in found if ("idle_count" in CASES[name]["input"]) == idle]
    return [name for name in found if ("error" in CASES[name]["expected"]) == refused]


def exact(number: float | str) -> Fraction:
    return Fraction(str(number))


def grid(number: float | str, steps: int = FINE) -> int:
    return round(exact(number) * steps)


def budget(case: dict[str, Any]) -> Budget:
    return Budget(*(exact(case[name]) if name in case else None for name in ("epsilon", "rho")))


def each(case: dict[str, Any]) -> Fraction:
    """Epsilon of one selection: a k-th, resp. the one whose rho is a k-th."""
    if "epsilon" in case:
        return exact(case["epsilon"]) / int(case["k"])
    return Fraction(math.sqrt(8 * case["rho"] / case["k"]))


@pytest.mark.parametrize("name", ids("top_k"))
def test_picks_are_those_of_the_slow_programme(name: str) -> None:
    case, expected, steps = CASES[name]["input"], CASES[name]["expected"], 4
    given: Any = Given(case["gumbel"])
    scores = [grid(score, steps) for score in case["scores"]]
    apart = 2 * grid(case["sensitivity"], steps)
    assert top(scores, case["k"], apart=apart, epsilon=each(case), noise=given, label="x") == expected["picks"]
    assert given.scales == pytest.approx([expected["scale"] * steps] * case["k"], rel=1e-11)


@pytest.mark.parametrize("name", ids("top_k", idle=True))
def test_predicates_without_rows_are_one_run(name: str) -> None:
    """Three predicates, and 997 of score 0: those that are picked are any of these."""
    case, expected = CASES[name]["input"], CASES[name]["expected"]
    given: Any = Idle(case["gumbel"], case["exponential"])
    active = len(case["scores"])
    scores = [*case["scores"], *[0] * case["idle_count"]]
    found = top(scores, case["k"], apart=2 * case["sensitivity"], epsilon=each(case), noise=given, label="x")
    assert ["idle" if place >= active else place for place in found] == expected["picks"]
    assert len(set(found)) == case["k"]
    assert given.scales == pytest.approx([expected["scale"]] * case["k"], rel=1e-11)


def test_runs_are_of_neighbours_so_that_a_place_has_one_number() -> None:
    """Which candidate a number is must not depend on the scores, because the order of equal ones would tell them."""
    sizes: list[tuple[list[int], list[int]]] = []

    class Watch:
        def select_in_runs(self, runs: list[int], scores: list[int], **rest: Any) -> int:
            sizes.append((runs, scores))
            return 2

    noise: Any = Watch()
    assert top([5, 0, 0, 0, 5, 5], 3, apart=2, epsilon=Fraction(1), noise=noise, label="x") == [2, 3, 4]
    assert sizes == [([1, 3, 2], [5, 0, 5]), ([1, 2, 2], [5, 0, 5]), ([1, 1, 2], [5, 0, 5])]


@pytest.mark.parametrize("name", ids("top_k", refused=True))
def test_numbers_of_picks_that_are_refused(name: str) -> None:
    case = CASES[name]["input"]
    with pytest.raises(ValueError) as refused:
        top(case["scores"], case["k"], apart=2, epsilon=Fraction(1), noise=current(), label="x")
    assert str(refused.value) == CASES[name]["expected"]["error"]


@pytest.mark.chance(fix_chance.NEVER * 12 + 12 * 2 * math.exp(-2 * 4_000 * 0.05**2))
def test_pairs_of_picks_come_as_often_as_the_law_says() -> None:
    """4,000 draws of two of four: every ordered pair within 0.05 of its probability (Hoeffding)."""
    (case,) = (CASES[name] for name in ids("top_k_law"))
    asked = case["input"]
    seen: dict[str, int] = {}
    for _ in range(4_000):
        picks = top(asked["scores"], 2, apart=2, epsilon=each(asked), noise=current(), label="x")
        seen[",".join(map(str, picks))] = seen.get(",".join(map(str, picks)), 0) + 1
    for picks_, chance in case["expected"]["law"].items():
        assert abs(seen.get(picks_, 0) / 4_000 - chance) <= 0.05


@pytest.mark.parametrize("name", ids("influence_intervals"))
def test_intervals_are_those_of_the_slow_programme(name: str) -> None:
    case, pure = CASES[name]["input"], "epsilon" in CASES[name]["input"]
    unit = 1 if pure else FINE
    k = len(case["influences"])
    miss = Fraction(1, 20) / (k if case.get("simultaneous") else 1)
    moved, price = grid(case["sensitivity"], unit), budget(case)
    given: Any = Given(case["draws"])
    noisy = price.noisy([grid(one, unit) for one in case["influences"]], moved, given, "x")
    margin = price.margin(k, moved, miss)
    for found, expected in zip(noisy, CASES[name]["expected"]["intervals"], strict=True):
        assert found / unit == pytest.approx(expected["noisy"], rel=1e-8)
        assert (found - margin) / unit == pytest.approx(expected["low"], rel=1e-8)
        assert (found + margin) / unit == pytest.approx(expected["high"], rel=1e-8)


class Watched(list[int]):
    """Scores that note at which places they are looked up."""

    asked: list[int]

    def __getitem__(self, place: Any) -> Any:
        self.asked.append(place + 1)
        return super().__getitem__(place)


def search_of(case: dict[str, Any], unit: int) -> RankSearch:
    moved = 2 * grid(case.get("sensitivity", 1), unit)
    price = budget(case)
    return RankSearch(len(case["scores"]), case.get("k", 1), moved, price, Fraction(19, 20))


def by_rule(name: str) -> bool:
    """Chernoff's margin, and no noise at all: of the search alone, below."""
    return CASES[name]["input"].get("xi") == "chernoff" or "noise_off" in CASES[name]["input"]


@pytest.mark.parametrize("name", [name for name in ids("rank") if not by_rule(name)])
def test_ranks_are_those_of_the_slow_programme(name: str) -> None:
    case, expected = CASES[name]["input"], CASES[name]["expected"]
    unit = 1 if "epsilon" in case else FINE
    given: Any = Given([*case.get("draws_low", []), *case.get("draws_high", [])])
    scores = [grid(score, unit) for score in case["scores"]]
    ordered = Watched(sorted(scores, reverse=True))
    ordered.asked = []
    low = len(expected["asked_low"])
    given.draws = [*case.get("draws_low", [])[:low], *case.get("draws_high", [])]
    found = search_of(case, unit).interval(scores[case["index"]], ordered, given, "x")
    assert found == (expected["low"], expected["high"])
    assert ordered.asked == [*expected["asked_low"], *expected["asked_high"]]


@pytest.mark.parametrize("name", [name for name in ids("rank") if by_rule(name)])
def test_the_search_alone_is_that_of_the_slow_programme(name: str) -> None:
    case, expected = CASES[name]["input"], CASES[name]["expected"]
    ordered, n = sorted(case["scores"], reverse=True), len(case["scores"])
    found = []
    for direction, which in ((LOWER, "low"), (UPPER, "high")):
        draws, sigma, margin, asked = iter(case.get(f"draws_{which}", [])), 0.0, 0.0, []  # type: Any, float, float, list[int]
        if "noise_off" not in case:
            rho = float(SHARES[which]) * case["rho"] / case["k"]
            sigma = 2 * case["sensitivity"] / math.sqrt(2 * rho / comparisons(n))
            margin = sigma * math.sqrt(2 * math.log(comparisons(n) / 0.025))

        def above(place: int, asked: list[int] = asked, draws: Any = draws, sigma: float = sigma) -> float:
            asked.append(place)
            return float(case["scores"][case["index"]] - ordered[place - 1] + (sigma * next(draws) if sigma else 0))

        found.append(rank_bound(above, n, direction, margin))
        assert asked == expected[f"asked_{which}"]
    assert (min(found), max(found)) == (expected["low"], expected["high"])


@pytest.mark.parametrize("name", ids("rank_settings"))
def test_settings_are_those_of_the_slow_programme(name: str) -> None:
    case, expected = CASES[name]["input"], CASES[name]["expected"]
    steps = comparisons(case["count"])
    assert steps == expected["steps"]
    unit = 1 if "epsilon" in case else FINE
    price = budget(case).part(Fraction(1, steps))
    margin = price.margin(1, grid(case["sensitivity"], unit), 2 * (1 - exact(case["beta"])) / steps)
    assert margin / unit == pytest.approx(expected["margin"], rel=1e-8)


def paths(predicates: int, direction: int) -> Iterator[tuple[int, int]]:
    """(Bound, comparisons) of every sequence of outcomes."""
    for outcomes in itertools.product((math.inf, -math.inf), repeat=comparisons(predicates)):
        left = list(outcomes)

        def above(_: int, left: list[float] = left) -> float:
            return left.pop(0)

        yield rank_bound(above, predicates, direction, 0.0), len(outcomes) - len(left)


@pytest.mark.parametrize("direction", [UPPER, LOWER])
@pytest.mark.parametrize("predicates", [*range(1, 18), 64, 103, 128])
def test_every_path_ends_within_the_comparisons_that_are_paid(predicates: int, direction: int) -> None:
    """No path asks for a draw more (the list would be empty), leaves 1 to n, or cannot reach a rank (§6.7)."""
    found = list(paths(predicates, direction))
    assert {bound for bound, _ in found} == set(range(1, predicates + 1))
    assert max(asked for _, asked in found) == comparisons(predicates)


@pytest.mark.parametrize("scores", [[9, 7, 7, 7, 1], [5], [3, 3], list(range(40)), [0] * 9], ids=str)
def test_without_noise_the_rank_is_exact(scores: list[int]) -> None:
    """Of equal scores the whole block."""
    ordered = sorted(scores, reverse=True)
    for score in scores:

        def above(place: int, score: int = score) -> float:
            return score - ordered[place - 1]

        bounds = [rank_bound(above, len(scores), direction, 0.0) for direction in (LOWER, UPPER)]
        first = ordered.index(score) + 1
        assert bounds == [first, first + ordered.count(score) - 1]


@pytest.mark.chance(fix_chance.hoeffding(800, 0.1))
@pytest.mark.parametrize("price", [Budget(Fraction(2), None), Budget(None, Fraction(1, 2))], ids=["pure", "zCDP"])
def test_ranks_are_within_as_often_as_promised(price: Budget) -> None:
    """800 searches among thirty near scores at 90 %: each as the engine draws, 0.1 is left to chance."""
    scores = [3 * place for place in range(30)]
    ordered = sorted(scores, reverse=True)
    search = RankSearch(30, 1, 2, price, Fraction(9, 10))
    held = 0
    for run in range(800):
        rank = run % 30 + 1
        low, high = search.interval(ordered[rank - 1], ordered, current(), "x")
        held += low <= rank <= high
    assert held / 800 >= 0.9 - 0.1


def printed_loop(above: Callable[[int], float], predicates: int, direction: int, margin: float) -> int:
    """The search as the paper prints it (§8, §10): it goes on at equal ends, which clamps keep between 1 and n."""
    low, high = 1, predicates
    while high >= low:
        middle = (low + high) // 2
        if above(middle) >= direction * margin:
            high = max(middle - 1, 1)
        else:
            low = min(middle + 1, predicates)
    return high


def test_the_printed_loop_is_seen() -> None:
    """Negative control: for the first of 103 it asks for more draws than the seven that are paid for."""
    scores = list(range(103, 0, -1))

    def asked_by(search: Callable[..., int]) -> int:
        left = list(range(100))

        def above(place: int) -> float:
            if not left:
                raise OverflowError
            left.pop()
            return float(scores[0] - scores[place - 1])

        with suppress(OverflowError):
            search(above, 103, LOWER, 0.5)
        return 100 - len(left)

    assert asked_by(rank_bound) <= comparisons(103) == 7
    assert asked_by(printed_loop) == 100


@pytest.mark.parametrize("moved", [1, 3])
@pytest.mark.parametrize("price", [Budget(Fraction(1), None), Budget(None, Fraction(1, 8))], ids=["pure", "zCDP"])
def test_the_price_of_several_integers_is_that_of_all(price: Budget, moved: int) -> None:
    """What the source is asked for: the norm of all of them, at the whole price."""
    asked: list[dict[str, Any]] = []

    class Asked:
        def laplace(self, exact: Sequence[int], **how: Any) -> list[int]:
            asked.append(how)
            return list(exact)

        gaussian = laplace

    source: Any = Asked()
    assert price.noisy([5, 6, 7], moved, source, "y") == [5, 6, 7]
    if price.rho is None:
        assert asked == [{"l1_sensitivity": 3 * moved, "epsilon": Fraction(1), "label": "y"}]
    else:
        assert asked == [{"l2_squared": Fraction(3 * moved**2), "rho": Fraction(1, 8), "label": "y"}]
    spread = np.std([price.noisy([0], moved, current(), "z")[0] for _ in range(200)])
    assert spread > 0
