"""Values below 0 in batches of sums: 0 is no special edge, theta cuts both sides (sum-workloads.md §0, §9)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from test_workload_core import NoNoise, batch, text

from pg_epsilon.query.bounds import Lattice
from pg_epsilon.workload import shown
from pg_epsilon.workload.ask import Workload, compile_workload
from pg_epsilon.workload.batch import _blocks, core
from pg_epsilon.workload.columns import pairs_of, sums_of
from pg_epsilon.workload.statement import edges_of, parse

LATTICE = Lattice("x", -600, 1000, Fraction(1), whole=True)
EDGES = [-500, -100, 0, 50, 300, 1000]


def asked(thresholds: Sequence[object] = EDGES, *, ranges: Sequence[str] = (), **options: Any) -> Workload:
    given: dict[str, Any] = {"ranges": list(ranges)} if ranges else {"thresholds": list(thresholds)}
    given["options"] = {"aggregates": ["sum", "count", "avg"], **options}
    found = compile_workload({"workload": given}, LATTICE, None)
    assert found is not None
    return found


def read(workload: Workload, values: Sequence[int]) -> list[int]:
    """What the statement makes of raw values."""
    return [min(max(value, -600), workload.top) for value in values]


def test_the_clamped_ends_weigh_what_they_are() -> None:
    """Of the bucket that reaches across 0, the larger end; of the first, the lower bound; above the upper, that."""
    found = sums_of(asked(ranges=["(,-100]", "(-100,50]", "(,)"], aggregates=["sum"]), 1000)
    assert found.weights == (600, 99, 1000)
    assert sums_of(asked(aggregates=["sum"]), 40).weights == (40,) * 6


@pytest.mark.parametrize("rho", [None, "0.5"])
@pytest.mark.parametrize(
    "options",
    [{}, {"method": "identity"}, {"aggregates": ["sum"]}, {"theta": 250}, {"theta": 700, "aggregates": ["sum"]}],
    ids=str,
)
def test_without_noise_the_answer_is_the_truncated_sum(options: dict[str, Any], rho: str | None) -> None:
    numbers = random.Random(8)
    values = [numbers.randint(-900, 1200) for _ in range(300)] + [-600, -250, -251, 250, 251, 0]
    how = batch(asked(**options), rho=rho)
    raw = core(text(how, read(how.workload, values)), how, NoNoise(), "w")  # type: ignore[arg-type]
    theta, plain = raw[0], [min(max(value, -600), 1000) for value in values]
    for row, edge in zip(shown.rows(raw, how, Decimal("0.95")), EDGES, strict=True):
        inside = [min(max(cut, -theta), theta) for cut, value in zip(plain, values, strict=True) if value <= edge]
        assert float(str(row[3])) == pytest.approx(sum(inside), abs=1)
        if "aggregates" not in options:
            assert int(str(row[4])) == len(inside)
            assert float(str(row[5])) == pytest.approx(sum(inside) / len(inside), abs=0.1)


@pytest.mark.parametrize("data", [sums_of, pairs_of])
@pytest.mark.parametrize("theta", [1, 60, 599, 600, 777, 1000])
def test_one_row_moves_one_block_by_its_weight_at_most(data: Any, theta: int) -> None:
    """Every value that a row may have, those beyond the bounds too; and some reach the weight."""
    workload = asked(ranges=["(,-100]", "(-100,50]", "(0,)", "[-7,3)", "(,)"])
    edges = edges_of(workload, (theta, 1000))
    columns, reached = data(workload, theta), Fraction(0)
    for value in range(-600, workload.top + 1):
        cell = next(k for k in range(len(edges) - 1) if edges[k] < value <= edges[k + 1])
        cells = parse(f"{cell} 1 {value}", len(edges) - 1)
        moved = columns.exact(_blocks(workload, edges, cells, theta))
        share = sum(Fraction(abs(one), weight) for one, weight in zip(moved, columns.weights, strict=True))
        assert share <= 1
        reached = max(reached, share)
    assert reached == 1


@pytest.mark.parametrize("kind", ["svt", "exponential", "recursive"])
def test_a_row_moves_what_theta_is_chosen_by_within_its_declaration(kind: str) -> None:
    numbers = random.Random(12)
    how = batch(asked(theta=kind))
    values = [numbers.randint(-600, 1001) for _ in range(60)]
    for extra in (-600, -599, -100, -1, 0, 1, 63, 64, 1000, 1001):
        recorded = []
        for rows in (values, [*values, extra]):
            noise = NoNoise()
            core(text(how, rows), how, noise, "w")  # type: ignore[arg-type]
            recorded.append(noise.asked[0])
        before, after = (one["exact"] for one in recorded)
        most = recorded[0].get("sensitivity") or recorded[0].get("l1_sensitivity")
        falls = recorded[0].get("fall", most)
        assert all(-falls <= b - a <= most for a, b in zip(before, after, strict=True))


def test_an_end_that_theta_moved_is_not_told() -> None:
    """Large values make a sum too low, large negative ones too high; a query that neither is in keeps both ends."""
    how = batch(asked(ranges=["[-200,200]", "[-600,0]", "[0,)", "(,)", "(,-300)"], theta=250, aggregates=["sum"]))
    rows = shown.rows(core(None, how, NoNoise(), "w"), how, Decimal("0.95"))  # type: ignore[arg-type]
    assert [(row[7] is not None, row[8] is not None) for row in rows] == [
        (True, True),
        (False, True),
        (True, False),
        (False, False),
        (False, True),
    ]


def test_answers_may_decrease() -> None:
    """Prefix sums of values below 0 do: no isotonic regression, asked for or not."""
    how = batch(asked(isotonic="on", aggregates=["sum"]))
    raw = core(text(how, [-500] * 4 + [-50] * 3 + [20]), how, NoNoise(), "w")  # type: ignore[arg-type]
    rows = shown.rows(raw, how, Decimal("0.95"))
    assert [float(str(row[3])) for row in rows] == pytest.approx([-2000, -2000, -2150, -2130, -2130, -2130], abs=1)
