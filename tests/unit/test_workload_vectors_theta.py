"""Cases of the slow programme for batches of sums: how theta is chosen."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from workload_cases import CASES, FINE, Recorded, decimal, ids, same

from fix_decide_oracles import lattice_tail, run_law
from pg_epsilon.workload.ask import Options
from pg_epsilon.workload.thresholds import Threshold, threshold


def chosen_by(given: dict[str, Any], kind: str, values: list[int]) -> dict[str, Any]:
    """What the engine asks of the noise to choose theta."""
    grid = tuple(round(edge / FINE) for edge in given.get("grid", ())) or _grid_of(given)
    how = Threshold(kind, grid, given.get("kappa", 1), Fraction(*given["r"]), decimal(given["eps1"]))
    noise = Recorded()
    how.choose([sum(v <= edge * FINE for v in values) for edge in grid], len(values), noise, "")  # type: ignore[arg-type]
    return {**noise.asked, "grid": grid, "denominator": how.ratio.denominator}


def _grid_of(given: dict[str, Any]) -> tuple[int, ...]:
    """The engine's own: from a sixteenth of the bound."""
    assert given["start"] * 16 == given["cap"]
    return threshold(Options(theta="svt"), round(given["cap"] / FINE), FINE, 1, Decimal(1)).grid


@pytest.mark.parametrize("name", ids("svt"))
def test_the_sparse_vector(name: str) -> None:
    """The engine's gaps and scales are the case's, and so is their exact law; it does not try the last of the grid,
    which is taken if nothing fires."""
    given, expected = CASES[name]["input"], CASES[name]["expected"]
    asked = chosen_by(given, "svt", given["values"])
    unit, gaps = asked["denominator"], asked["exact"]
    first = Fraction(max(asked["sensitivity"], asked["fall"])) / asked["threshold_epsilon"]
    second = Fraction(asked["sensitivity"] + asked["fall"]) / asked["query_epsilon"]
    if given.get("form") == "paper":  # twice and four times the share, for gaps of sensitivity 1
        first, second = (times * unit / Fraction(str(given["eps1"])) for times in (2, 4))
    law = [
        math.exp(run_law(gaps, k, first, second, lattice=bool(given.get("discrete"))))
        for k in (*range(len(gaps)), None)
    ]
    if "gaps_times_denominator" in expected:
        assert gaps == expected["gaps_times_denominator"][:-1]
    if "threshold_scale" in expected:
        same([float(first) / unit, float(second) / unit], [expected["threshold_scale"], expected["query_scale"]])
    if "grid" in expected:
        same([float(edge * FINE) for edge in asked["grid"]], expected["grid"])
    if "median_theta" in expected:
        assert float(asked["grid"][int(np.searchsorted(np.cumsum(law), 0.5))] * FINE) == expected["median_theta"]
    wanted = expected.get("theta_law") or [*expected.get("law", [])[:-2], sum(expected.get("law", [])[-2:])]
    if "median_theta" not in expected:
        assert law == pytest.approx(wanted, abs=1e-9)


def selected(given: dict[str, Any], values: list[int]) -> tuple[list[float], Any]:
    """(Scores, law) of the selection that the engine asks for."""
    asked = chosen_by(given, "exponential", values)
    scores = np.array([float(score) for score in asked["exact"]])
    weights = np.exp(float(asked["epsilon"]) * (scores - scores.max()) / (2 * asked["sensitivity"]))
    return list(scores / asked["denominator"]), weights / weights.sum()


@pytest.mark.parametrize("name", ids("exponential"))
def test_selection_of_theta(name: str) -> None:
    """Without `tight` the case's sensitivity is 1, for which the amended one is max(r, 1 - r) (§0): scores alone."""
    given, expected = CASES[name]["input"], CASES[name]["expected"]
    scores, law = selected(given, given["values"])
    if "score" in expected:
        same(scores, expected["score"])
    if given.get("tight"):
        assert law == pytest.approx(np.array(expected["law"]), abs=1e-9)


def recursion(given: dict[str, Any]) -> Threshold:
    """The case's levels; the engine's own start at a sixteenth of the bound and go on by e^(2/5 epsilon)."""
    count = math.ceil(math.log(given["cap"] / given["theta0"]) / given["beta"])
    grid = [math.floor(given["theta0"] * math.exp(given["beta"] * j) / FINE) for j in range(count)]
    units, epsilon = given.get("kappa", 1), decimal(given.get("eps1", 1))
    return Threshold(
        "recursive", (*grid, round(given["cap"] / FINE)), units, Fraction(9, 10), epsilon, float(given["beta"])
    )


def index_of(how: Threshold, values: list[int], noise: Recorded) -> int:
    """Where the recursion stops; noise.added moves what it then chooses."""
    below = [sum(v <= edge * FINE for v in values) for edge in how.grid]
    theta = how.choose(below, len(values), noise, "")  # type: ignore[arg-type]
    assert theta in how.grid
    return int(noise.asked["exact"][0])


@pytest.mark.parametrize("name", ids("recursive"))
def test_the_recursion(name: str) -> None:
    """Index, Δ, scale; the quantiles of theta within a level, because noise is drawn in levels (§0)."""
    given, expected = CASES[name]["input"], CASES[name]["expected"]
    how, noise = recursion(given), Recorded()
    index = index_of(how, given["values"], noise)
    found = {
        "j": index,
        "count_form": index,
        "J": len(how.grid) - 1,
        "delta": float(how.grid[index] * FINE),
        "noise_scale": given["beta"] * noise.asked["l1_sensitivity"] / float(noise.asked["epsilon"]),
        "theta_noise_off": theta_at(how, given["values"], 0),
    }
    for key in expected.keys() & found.keys():
        same(found[key], expected[key], key)
    levels = np.arange(-400, 400)
    upper = 1 - lattice_tail(levels + 1, how.units / float(how.epsilon or 1))
    for share, theta in expected.get("theta_quantiles", {}).items():
        moved = int(levels[np.searchsorted(upper, float(share))])
        assert abs(math.log(theta_at(how, given["values"], moved) / theta)) <= given["beta"] * (1 + 1e-9)


def theta_at(how: Threshold, values: list[int], added: int) -> float:
    below = [sum(v <= edge * FINE for v in values) for edge in how.grid]
    return float(how.choose(below, len(values), Recorded(added), "") * FINE)  # type: ignore[arg-type]


def databases(given: dict[str, Any]) -> Any:
    """Every pair of neighbours: up to `rows` rows of the domain, and one to kappa more."""
    for size in range(given["rows"] + 1):
        for base in itertools.combinations_with_replacement(given["domain"], size):
            for more in range(1, given.get("kappa", 1) + 1):
                for extra in itertools.combinations_with_replacement(given["domain"], more):
                    yield list(base), [*base, *extra]


def test_audit_of_the_selection() -> None:
    given, expected = CASES["audit-exponential"]["input"], CASES["audit-exponential"]["expected"]
    losses = [np.abs(np.log(selected(given, a)[1] / selected(given, b)[1])).max() for a, b in databases(given)]
    assert max(losses) == pytest.approx(expected["worst_loss"], abs=1e-9)


def test_audit_of_the_recursion() -> None:
    given, expected = CASES["audit-recursive"]["input"], CASES["audit-recursive"]["expected"]
    how, noise = recursion(given), Recorded()
    moved = {abs(index_of(how, a, noise) - index_of(how, b, noise)) for a, b in databases(given)}
    assert max(moved) == expected["index_moves"] == noise.asked["l1_sensitivity"]
