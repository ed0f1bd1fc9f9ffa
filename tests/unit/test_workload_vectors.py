"""Cases of batches of sums, computed by an independent slow programme: what the engine's functions give for them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from workload_cases import CASES, FINE, OF_PARTS, SAME, Asked, ids, same

from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.matrix import strategies
from pg_epsilon.mechanisms.matrix.bars import chernoff, two_sided_quantile
from pg_epsilon.mechanisms.matrix.greedyh import greedyh
from pg_epsilon.mechanisms.matrix.lattice import on_lattice
from pg_epsilon.mechanisms.matrix.optimal import optimal
from pg_epsilon.mechanisms.matrix.p_identity import loss_and_gradient, matrix_of, p_identity
from pg_epsilon.mechanisms.matrix.queries import Weighted, Written, gram_diagonal, gram_matrix, prefixes
from pg_epsilon.mechanisms.matrix.strategies import Strategy
from pg_epsilon.workload.columns import pairs_of
from pg_epsilon.workload.designs import designs
from pg_epsilon.workload.shown import smoothed

OF_QUERIES = (
    "noiseless",
    "exact",
    "truncation_bias",
    "variance",
    "stddev",
    "scale",
    "norm",
    "noise_rmse",
    "total_rmse",
    "sensitivity",
)


def rows(matrix: Any) -> list[list[float]]:
    """A strategy's rows, in an order of their own."""
    return sorted(np.round(np.asarray(matrix, dtype=float), 9).tolist())


def alone(asked: Asked) -> dict[str, Any]:
    """Each query by the share that the strategy gives it; drawn together they cost its norm, which is no more."""
    share = np.abs(asked.strategy.matrix).max(axis=1)
    scale = np.abs(asked.columns.totals.dense()).max(axis=1) / share / float(asked.amount)
    variances = 2 * np.square(scale)
    return {"share": share, "scale": scale, "variance": variances, "noise_rmse": math.sqrt(variances.mean())}


RELEASES = ids("release", (*OF_PARTS, "zero-row", "edges-unsorted", "group-by"))


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_has_the_numbers_of_the_slow_programme(name: str) -> None:
    expected = CASES[name]["expected"]
    asked = Asked(CASES[name]["input"])
    own = asked.variances()
    wanted = {key: expected[key] for key in OF_QUERIES if key in expected}
    norm = (
        math.sqrt(np.square(asked.strategy.matrix).sum(axis=0).max()) if asked.gaussian else asked.strategy.sensitivity
    )
    found: dict[str, Any] = {"variance": own, "stddev": np.sqrt(own), "noise_rmse": asked.root_mean(own)}
    found["norm"] = norm * asked.scale
    noise = math.sqrt(2 * asked.amount) if asked.gaussian else float(asked.amount)
    found["scale"] = found["norm"] * asked.units / noise
    if asked.given["method"].startswith("sqm"):
        found |= alone(asked)
        assert (own <= found["variance"] * (1 + SAME)).all()
    if "rows" not in asked.given:  # which SQL picks
        whole = asked.noiseless(asked.lattice.high)
        found |= {"noiseless": asked.noiseless(asked.theta), "exact": whole}
        found["truncation_bias"] = found["noiseless"] - whole
        found["total_rmse"] = asked.root_mean(own + np.square(found["truncation_bias"]))
    else:
        wanted = {key: value for key, value in wanted.items() if key in found}
    for key in wanted.keys() & found.keys():
        same(found[key], wanted[key], key)
    if "strategy" in expected:
        scaled = np.array(expected["strategy"]) / asked.scale
        assert rows(asked.strategy.matrix) == rows(scaled)
    if "target" in expected:
        same(asked.columns.totals.dense(), expected["target"])
    if "block_t" in expected:
        same(asked.columns.weights, expected["block_t"])


@pytest.mark.parametrize("name", RELEASES)
def test_what_is_drawn_of_it_differs_by_the_rounding_of_the_lattice_alone(name: str) -> None:
    """The integers' own norm and least squares: what is really drawn."""
    asked = Asked(CASES[name]["input"])
    drawn = on_lattice(asked.strategy, asked.columns.weights, 10_000).strategy("drawn")
    assert asked.variances(drawn) == pytest.approx(asked.variances(), rel=1e-4)


@pytest.mark.parametrize("name", ["zero-row", "edges-unsorted"])
def test_what_the_slow_programme_refuses_is_refused(name: str) -> None:
    with pytest.raises(DPError) as refused:
        _ = Asked({"method": "identity", **CASES[name]["input"]}).workload
    assert refused.value.sqlstate == "DP005"


def test_groups_have_the_same_answers_each() -> None:
    given, expected = CASES["group-by"]["input"], CASES["group-by"]["expected"]
    each = [Asked({**given, "values": values, "by": None}) for values in given["by"]["values"]]
    same(np.concatenate([one.noiseless(one.theta) for one in each]), expected["noiseless"])
    same(np.concatenate([one.variances() for one in each]), expected["variance"])
    same(each[0].strategy.sensitivity, expected["norm"])


@pytest.mark.parametrize("name", ["bars", "bars-kappa"])
def test_bars_are_those_of_the_slow_programme(name: str) -> None:
    asked = Asked(CASES[name]["input"])
    weights = asked.columns.totals.times(strategies.inverse(asked.strategy).T).T
    scale = asked.strategy.sensitivity * asked.units / float(asked.amount)
    bars = [two_sided_quantile(row, asked.given["bars"]) * scale for row in weights]
    same(bars, CASES[name]["expected"]["bar"])


@pytest.mark.parametrize("miss", [0.5, 0.05, 1e-6])
@pytest.mark.parametrize("other", [1.0, 0.999, 0.3])
def test_the_quantile_of_two_draws_is_the_closed_form(other: float, miss: float) -> None:
    """Pr[|X + wY| > t] of unit Laplace X, Y: (e^-t - w² e^(-t/w)) / (1 - w²), and (1 + t/2) e^-t where w is 1."""
    t = two_sided_quantile(np.array([1.0, -other]), miss)
    square = other**2
    equal = other == 1
    tail = (1 + t / 2) * math.exp(-t) if equal else (math.exp(-t) - square * math.exp(-t / other)) / (1 - square)
    assert tail == pytest.approx(miss, rel=1e-7)
    assert t < chernoff(np.array([1.0, other]), miss)


def test_given_measurements_are_decoded_as_by_the_slow_programme() -> None:
    """The tree's rows by what they hold: from the root down, as the case has them."""
    asked, expected = Asked(CASES["decode"]["input"]), CASES["decode"]["expected"]
    answers = asked.columns.totals.times(strategies.inverse(asked.strategy) @ _in_order(asked))
    same(answers, expected["answers"])
    same(smoothed(answers, 1 / asked.variances()), expected["isotonic"])


def _in_order(asked: Asked) -> Any:
    top_down = [[1, 1, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0], [0, 0, 1]]
    return np.array([asked.given["noisy"][top_down.index(row.tolist())] for row in asked.strategy.matrix])


@pytest.mark.parametrize("name", ids("isotonic"))
def test_smoothing(name: str) -> None:
    given = CASES[name]["input"]
    found = smoothed(
        np.array(given["y"], dtype=float), np.array(given.get("weights", [1] * len(given["y"])), dtype=float)
    )
    same(found, CASES[name]["expected"]["isotonic"])


@pytest.mark.parametrize("name", [*ids("tree"), *ids("wavelet"), *ids("tighten")])
def test_fixed_strategies(name: str) -> None:
    given, expected = CASES[name]["input"], CASES[name]["expected"]
    found = {
        "tree": lambda: strategies.tree(given["n"], given["b"]),
        "wavelet": lambda: strategies.wavelet(given["n"]),
        "tighten": lambda: strategies.tightened(Strategy("given", np.array(given["S"], dtype=float))),
    }[given["kind"]]()
    assert rows(found.matrix) == rows(expected["strategy"])
    same(found.sensitivity, expected["norm"])


WITH_GRAM = {
    "greedyh-prefix": prefixes(range(1, 9), 8),
    "greedyh-blocks": prefixes([3, 5], 6),
    "p-identity-loss": Weighted(prefixes(range(1, 7), 6), (3.0, 8.0, 15.0, 24.0, 24.0, 24.0)),
    "p-identity-best": prefixes(range(1, 17), 16),
    "l2-best": prefixes(range(1, 7), 6),
}


@pytest.mark.parametrize("name", WITH_GRAM)
def test_strategies_of_a_gram_matrix(name: str) -> None:
    """Queries that have the case's Gram matrix; a least loss is reached within .5 %."""
    given, expected, queries = CASES[name]["input"], CASES[name]["expected"], WITH_GRAM[name]
    same(gram_matrix(queries), given["gram"])
    if given["kind"] == "greedyh":
        assert rows(greedyh(queries).matrix) == rows(expected["strategy"])
    elif given["kind"] == "p_identity":
        extra = np.array(given["B"], dtype=float)
        loss, slope = loss_and_gradient(extra, queries, gram_diagonal(queries))
        same(loss, expected["loss"])
        same(slope, expected["gradient"])
        assert rows(matrix_of(extra)) == rows(expected["strategy"])
    else:
        gaussian = given["kind"] == "l2_best"
        found = optimal(queries) if gaussian else p_identity(queries, given["p0"])
        loss = float(strategies.query_errors(found, queries, gaussian=gaussian).sum())
        assert 0.995 * expected["loss"] <= loss <= 1.005 * expected["loss"]


@pytest.mark.parametrize("name", ids("pair"))
def test_pairs_of_every_bin(name: str) -> None:
    """The pair's exact integers, and the errors of count and sum, on a step at which a bin's lower end is its own."""
    given = CASES[name]["input"]
    spans = [[a, b] for a, b in itertools.pairwise(given["edges"])]
    asked = Asked(
        {**given, "workload": {"ranges": spans}, "eps2": given["epsilon"], "method": "identity", "side": "left"}
    )
    columns = pairs_of(asked.workload, asked.theta)
    values = [value for value in given["values"] if value <= given["edges"][-1]]
    exact = columns.exact(asked.blocks(values, asked.theta))
    own = strategies.identity(len(columns.columns))
    assert columns.counts is not None
    counts, totals = (np.sqrt(2 * strategies.query_errors(own, of)) for of in (columns.counts, columns.totals))
    for block, bucket in enumerate(CASES[name]["expected"]["buckets"]):
        places = [
            k for k, column in enumerate(columns.columns) if column.block == block + 1
        ]  # the first: below the lowest edge
        if not bucket["height"]:
            (place,) = places
            assert exact[place] == bucket["count"]
            same(float(columns.columns[place].total * exact[place] * FINE), bucket["sum"])
            continue
        first, second = places
        same([float(exact[first] * FINE), float(exact[second] * FINE)], [bucket["A"], bucket["B"]])
        heights = [float(columns.weights[place] * FINE) for place in places]
        same(heights, [bucket["L1_of_one_row"]] * 2)
        same([counts[block], totals[block] * float(FINE)], [bucket["sd_count"], bucket["sd_sum"]])


def test_the_lattice() -> None:
    """Another power of two than the case's: equal but for what either rounds."""
    given, expected = CASES["lattice"]["input"], CASES["lattice"]["expected"]
    drawn = on_lattice(Strategy("given", np.array(given["S"])), given["t"], 2**20)
    wanted, unit = np.array(expected["K"]) / 2 ** given["q"], 2.0 ** given["q"]
    entries = np.zeros(wanted.shape)
    for place, row in enumerate(drawn.rows):
        for column, entry in row:
            entries[place, column] = entry / drawn.factor
    assert np.abs(entries - wanted).max() <= 1 / drawn.factor
    assert drawn.l1 / drawn.factor == pytest.approx(expected["norm_steps"] / unit, abs=100 / drawn.factor)
    measured = np.array(drawn.answers(given["sums"])) / drawn.factor
    assert measured == pytest.approx(np.array(expected["measured_steps"]) / unit, abs=70 / drawn.factor)
    target = Weighted(Written.of(given["W"]), tuple(map(float, given["t"])))
    errors = 2 * strategies.query_errors(drawn.strategy("given"), target)
    same(errors, expected["variance"], rel=1e-5)


@pytest.mark.parametrize("name", ids("sensitivity"))
def test_brute_force_sensitivities(name: str) -> None:
    """Every unit of the domain, added to no rows: the measured integers move by the norm, and never by more."""
    asked, expected = Asked(CASES[name]["input"]), CASES[name]["expected"]
    drawn = on_lattice(asked.strategy, asked.columns.weights, 1000)
    worst = 0
    for count in range(1, asked.units + 1):
        for unit in itertools.combinations_with_replacement(asked.given["domain"], count):
            inside = [min(max(value, 0), asked.given["edges"][-1]) for value in unit]
            moved = sum(map(abs, drawn.answers(asked.columns.exact(asked.blocks(inside, asked.theta)))))
            assert moved <= drawn.l1 * asked.units
            worst = max(worst, moved)
    norm = asked.strategy.sensitivity * asked.scale
    same(norm * asked.units, expected.get("kappa_norm") or expected["norm"])
    same(worst / drawn.factor * norm, expected["add_remove"], rel=1e-5)


def test_every_candidate_is_predicted_as_by_the_slow_programme() -> None:
    """On the case's own buckets and merged, tightened or not; then what `auto` takes is at least as good."""
    given, expected = CASES["auto"]["input"], CASES["auto"]["expected"]
    for name, wanted in expected["noise_rmse"].items():
        method, *others = name.split("+")
        merged, tight = "merged" in others, "tight" in others
        if method.startswith("p-identity"):
            columns = Asked({**given, "method": "identity", "merge": True}).columns
            found = p_identity(columns.totals, min(int(method[-1]), len(columns.columns)))
            best = math.sqrt(2 * strategies.query_errors(found, columns.totals).mean())
            assert best <= 1.005 * wanted
            continue
        how = {
            "method": method,
            "merge": merged,
            "tighten": tight,
            "strategy": others[0] if method in ("timm", "tamm") else None,
        }
        asked = Asked({**given, **how})
        of_sqm = method.startswith("sqm")
        same(alone(asked)["noise_rmse"] if of_sqm else math.sqrt(asked.variances().mean()), wanted, name)
    free = Asked({**given, "method": "auto", "merge": True})
    (least, *_) = designs(free.workload, free.theta, gaussian=False)
    assert math.sqrt(2 * least.factors.mean()) <= 1.005 * expected["best_rmse"]


def test_every_case_is_tested() -> None:
    """By kind; those that the engine does not have say why."""
    kinds = {"release", "tree", "wavelet", "tighten", "greedyh", "p_identity", "p_identity_best", "l2_best", "isotonic"}
    kinds |= {"svt", "exponential", "recursive", "pair", "lattice", "sensitivity", "auto", "audit"}
    assert {one["input"]["kind"] for one in CASES.values()} == kinds
    assert len(CASES) == 71
    assert set(OF_PARTS) < set(CASES)


def test_counts_times_upper_edges() -> None:
    """The paper's own data, which over-state by less than a bucket's width (values-counts)."""
    given, expected = CASES["values-counts"]["input"], CASES["values-counts"]["expected"]
    asked = Asked(given)
    rows = [value for value in asked.values() if value]  # 0 has a bucket of its own there, which weighs nothing
    counts = np.array([float(count) for count, _ in asked.blocks(rows, asked.theta)])
    found, exact = asked.columns.totals.times(counts), asked.noiseless(asked.lattice.high)
    same(found, expected["noiseless"])
    truncated = asked.noiseless(asked.theta)
    same(truncated - exact, expected["truncation_bias"])
    same(found - truncated, expected["discretisation_bias"])
    same(asked.root_mean(asked.variances() + np.square(found - exact)), expected["total_rmse"])


def test_bounds_below_zero() -> None:
    """One bucket fewer than the case has: rows below the lower bound are in the first, as what they are clamped to; and
    the least value above -10 is -9 (negative-bounds)."""
    asked, expected = Asked(CASES["negative-bounds"]["input"]), CASES["negative-bounds"]["expected"]
    exact = asked.noiseless(20)
    same(exact, expected["exact"])
    same(asked.noiseless(asked.theta), expected["noiseless"])
    same(asked.noiseless(asked.theta) - exact, expected["truncation_bias"])
    assert list(asked.columns.weights) == [15, 10 - 1, 10, 15]
    same(asked.variances() + 2 * (15**2 + np.array([0, 1, 1, 1]) * (10**2 - 9**2)), expected["variance"])


def test_a_strategy_over_groups_and_buckets() -> None:
    """Norms multiply, and errors too: a Kronecker product of the engine's own matrices (group-by-totals)."""
    given, expected = CASES["group-by-totals"]["input"], CASES["group-by-totals"]["expected"]
    asked, groups = (
        Asked(given),
        {name: np.array(found, dtype=float) for name, found in given["by"].items() if name != "values"},
    )
    product = Strategy("product", np.kron(groups["A"], asked.strategy.matrix))
    target = Written.of(np.kron(groups["W"], asked.columns.totals.dense()))
    assert strategies.spans(product, target)
    same(product.sensitivity, expected["norm"])
    variances = strategies.query_errors(product, target) * 2
    same(variances, expected["variance"])
    same(math.sqrt(variances.mean()), expected["noise_rmse"])
    sums = [asked.columns.exact(asked.blocks(values, asked.theta)) for values in given["by"]["values"]]
    shares = [np.array([float(one) for one in found]) / asked.columns.weights for found in sums]
    same(target.times(np.concatenate(shares)), expected["noiseless"])


@pytest.mark.parametrize("method", ["workload", "sqm", "tamm"])
def test_equal_queries_are_measured_once(method: str) -> None:
    """In any place and any order they have the error that each has where it is asked once."""
    given = {**CASES["duplicates-distinct"]["input"], "method": method, "strategy": "workload", "merge": True}
    once, often = (
        designs(one.workload, one.theta, gaussian=False)[0]
        for one in (Asked({**given, "workload": {"prefix": ends}}) for ends in ([20, 40], [40, 20, 40, 20]))
    )
    same(often.factors, [once.factors[1], once.factors[0]] * 2)
    assert often.strategy.matrix.shape == once.strategy.matrix.shape
