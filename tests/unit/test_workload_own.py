"""A strategy of the asker's own (sum-workloads.md §14): what it means, what is drawn, what is refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from test_workload_core import LATTICE, NoNoise, batch, text, workload

from pg_epsilon.errors import DPError
from pg_epsilon.workload import found, shown
from pg_epsilon.workload.ask import compile_workload
from pg_epsilon.workload.batch import core

HALVES = [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]  # a tree of four buckets, without what follows
SUMS = {"aggregates": ["sum"]}
EDGES = [100, 250, 300, 1000]


@pytest.mark.parametrize("theta", ["none", 280])
@pytest.mark.parametrize("rho", [None, "0.5"])
def test_without_noise_the_answer_is_the_truncated_sum(rho: str | None, theta: object) -> None:
    values = [3, 99, 100, 101, 240, 260, 299, 300, 301, 900, 1000]
    how = batch(workload(EDGES, method="timm", strategy=HALVES, theta=theta, **SUMS), rho=rho)
    raw = core(text(how, values), how, NoNoise(), "w")  # type: ignore[arg-type]
    rows = shown.rows(raw, how, Decimal("0.95"))
    cut = 1000 if theta == "none" else 280
    true = [sum(min(value, cut) for value in values if value <= edge) for edge in EDGES]
    assert [float(str(row[3])) for row in rows] == pytest.approx(true, abs=2)
    assert how.best(cut).name == "timm custom"


def test_what_is_drawn_is_the_rows_that_were_given() -> None:
    """Sums of buckets, in one proportion, and beneath them what the largest column pays for anyway (§8.4)."""
    how = batch(workload(EDGES, method="timm", strategy=HALVES, **SUMS))
    design = how.best(1000)
    drawn = design.on_lattice(how.most_rows)
    given = np.array(HALVES, dtype=float)
    exact = np.array([[dict(row).get(column, 0) for column in range(4)] for row in drawn.rows[: len(HALVES)]])
    assert np.all((exact > 0) == (given > 0))
    assert exact[exact > 0] == pytest.approx(exact.max(), rel=1e-4)
    sizes = [sum(abs(dict(row).get(column, 0)) for row in drawn.rows) for column in range(4)]
    one_row = max(weight * size for weight, size in zip(design.columns.weights, sizes, strict=True))
    assert drawn.l1 == one_row


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1, 3), Fraction(10**6)])
def test_a_multiple_is_the_same_strategy(scale: Fraction) -> None:
    scaled = [[float(scale * entry) for entry in row] for row in HALVES]
    ours = found.find(workload(EDGES, method="timm", strategy=scaled, **SUMS), 500, gaussian=False)
    same = found.find(workload(EDGES, method="timm", strategy=HALVES, **SUMS), 500, gaussian=False)
    assert ours.best.factors == pytest.approx(same.best.factors, rel=1e-9)


def test_auto_takes_it_where_it_is_best() -> None:
    """Beside identity and the workload itself: a good strategy is drawn for, a poor one is not."""
    edges, buckets = list(range(1, 257)), np.arange(256)
    sixteens = (buckets // 16 == np.arange(16)[:, None]).astype(int).tolist()
    every = np.eye(256, dtype=int).tolist()
    good = found.find(workload(edges, strategy=[*sixteens, *every], theta=1, **SUMS), 1, gaussian=False)
    assert list(good.variances) == ["timm custom", "identity", "workload"]
    poor = found.find(workload(edges, strategy=[*every, *(40 * [every[0]])], theta=1, **SUMS), 1, gaussian=False)
    assert poor.best.name == "identity"


def test_it_is_another_question_and_kept_as_such() -> None:
    """Other rows, another workload; without own rows the text is what it was, so that stored answers are found."""
    ours, plain = workload(EDGES, strategy=HALVES, **SUMS), workload(EDGES, **SUMS)
    other = workload(EDGES, strategy=[*HALVES[:3], [0, 0, 0, 1]], **SUMS)
    assert len({ours.text, plain.text, other.text}) == 3
    assert "own" not in plain.text
    assert workload(EDGES, strategy=[[f"{entry}.0" for entry in row] for row in HALVES], **SUMS).text == ours.text
    fresh = found.find(ours, 777, gaussian=False)
    again = found.read(found.written(fresh), ours, 777)
    assert again.best.on_lattice(10**6) == fresh.best.on_lattice(10**6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": [], **SUMS}, "1 to"),
        ({"strategy": [[1, 1, 1]], **SUMS}, "each of the 4 buckets"),
        ({"strategy": [[1, 1, 1, 1], [0, 0, 0, 0]], **SUMS}, "not all of them 0"),
        ({"strategy": [[1, 1, 1, "many"]], **SUMS}, "must be numbers"),
        ({"strategy": [[1, 1, 1, "Infinity"]], **SUMS}, "must be numbers"),
        ({"strategy": HALVES, "aggregates": ["sum", "avg"]}, "answers sums alone"),
        ({"strategy": HALVES, "method": "tamm", **SUMS}, "takes no strategy of your own"),
        ({"strategy": "custom", **SUMS}, "unknown strategy"),
        ({"strategy": [[0] * 4] * 5000, **SUMS}, "at most"),
    ],
    ids=str,
)
def test_what_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DPError) as refused:
        workload(EDGES, **options)
    assert (refused.value.sqlstate, words in refused.value.message) == ("DP005", True), refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("rows", "theta", "words"),
    [
        ([[1, 1, 1, 1]], 50, "does not answer this workload"),  # what every column pays for leaves nothing to add
        ([[1, 1, 1, 1], [1e-7, 0, 0, 0], [0, 1e-7, 0, 0], [0, 0, 1e-7, 0]], 50, "too far apart"),
    ],
)
def test_rows_that_do_not_tell_the_queries_are_refused(rows: list[list[float]], theta: int, words: str) -> None:
    """Before anything is charged: no answer would follow from them, or none that survives being rounded."""
    how = batch(workload(EDGES, method="timm", strategy=rows, theta=theta, **SUMS))
    with pytest.raises(DPError, match=words) as refused:
        how.best(theta).on_lattice(how.most_rows)
    assert refused.value.sqlstate == "DP005"
    assert how.sure(theta).method == "identity"


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        ({"thresholds": ["NaN"]}, "thresholds => '{"),
        ({"thresholds": [[1, 2], [3, 4]]}, "thresholds => '{"),
        ({"thresholds": 5}, "thresholds => '{"),
        ({"ranges": "[1,2)"}, "ranges => '{"),
        ({"ranges": ["[1,x)"]}, "ranges => '{"),
        ({"thresholds": [300, 1000], "matrix": [1, 2]}, "workload => '{{"),
        ({"thresholds": [300, 1000], "matrix": [[1, None]]}, "workload => '{{"),
        ({"thresholds": [300], "options": [1]}, "options => '{"),
        ({"thresholds": [300], "options": {"theta": [1]}}, '"theta": 100000'),
        ({"thresholds": [300], "options": {"ratio": "most"}}, '"ratio": 0.1'),
        ({"thresholds": [300], "options": {"weights": 3}}, '"weights": ['),
        ({"thresholds": [300], "options": {"strategy": ["a"]}}, '"strategy": [['),
    ],
    ids=str,
)
def test_a_hint_says_what_to_type(given: dict[str, Any], typed: str) -> None:
    """For the argument that is wrong, whether it is of another form or holds what is no number."""
    with pytest.raises(DPError) as refused:
        compile_workload({"workload": given}, LATTICE, None)
    assert typed in str(refused.value.hint)
