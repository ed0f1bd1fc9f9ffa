"""Cases of the slow programme for batches of sums, as questions to the engine's own functions."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pg_epsilon.mechanisms.matrix import strategies
from pg_epsilon.mechanisms.matrix.p_identity import matrix_of
from pg_epsilon.mechanisms.matrix.queries import Array
from pg_epsilon.mechanisms.matrix.strategies import Strategy
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.workload.ask import Workload, compile_workload
from pg_epsilon.workload.batch import _blocks
from pg_epsilon.workload.columns import Columns, sums_of
from pg_epsilon.workload.designs import Aims, _strategies, mean_variance, variance
from pg_epsilon.workload.runs import Runs
from pg_epsilon.workload.statement import edges_of

FILE = Path(__file__).resolve().parents[1] / "fixtures/workload/vectors.json"
CASES: dict[str, dict[str, Any]] = {one["id"]: one for one in json.loads(FILE.read_text())["cases"]}
FINE = Fraction(1, 10**9)  # a step at which "below 10" and "at most 10" weigh the same, to nine digits
SAME = 1e-9  # of the cases' numbers, which are given to twelve digits

# Cases that the engine has no question for; its parts are held against them, each by a test of its own.
OF_PARTS = {
    "values-counts": "counts times upper edges belong to the paper's experiments; the engine releases sums (§0, §2)",
    "negative-bounds": "what lies below the lower bound is in no bucket of its own, but in the first",
    "group-by-totals": "groups are answered each by itself: no strategy over groups",
}


def same(found: Any, expected: Any, name: str = "", rel: float = SAME) -> None:
    wanted = np.array(expected, dtype=float)
    assert np.asarray(found, dtype=float) == pytest.approx(wanted, rel=rel, abs=1e-9), name


def ids(kind: str, without: Sequence[str] = ()) -> list[str]:
    """The cases of a kind."""
    return [name for name, one in CASES.items() if one["input"]["kind"] == kind and name not in without]


@dataclass(frozen=True)
class Asked:
    """A case's workload at its threshold, as the engine compiles it."""

    given: dict[str, Any]

    @property
    def step(self) -> Fraction:
        return FINE if self.given.get("side") == "left" else Fraction(1)

    @property
    def lattice(self) -> Lattice:
        low, high = self.given["edges"][0], self.given["edges"][-1]
        return Lattice("x", int(low / self.step), int(high / self.step), self.step, whole=self.step == 1)

    @cached_property
    def workload(self) -> Workload:
        """By the request's member; on the case's own buckets where it does not merge them, which the engine does."""
        given = self.given
        options: dict[str, Any] = {
            "aggregates": ["sum"],
            "split": "optimal" if given.get("method") == "sqm_split" else "equal",
        }
        options["method"] = str(given.get("method", "tamm")).partition("_")[0]
        if isinstance(given.get("strategy"), str):
            options["strategy"] = given["strategy"]
        if given.get("theta") is not None:
            options["theta"] = given["theta"]
        if "query_weights" in given:
            options["weights"] = given["query_weights"]
        document = {**self.queries(), "per": given.get("per"), "options": options}
        found = compile_workload({"workload": document}, self.lattice, given.get("kappa"))
        assert found is not None
        fine = "prefix" in given["workload"] and not given.get("merge") and self.step == 1
        return self.on_own_buckets(found) if fine else found

    def queries(self) -> dict[str, Any]:
        of, edges = self.given["workload"], self.given["edges"]
        if "matrix" in of:
            return {"thresholds": edges[1:], "matrix": of["matrix"]}
        if "prefix" in of and self.given.get("side") == "left":
            return {"ranges": [f"(,{end})" for end in of["prefix"]]}
        if "prefix" in of:
            return {"thresholds": of["prefix"]}
        if "union" in of:
            return {"ranges": [f"(,{end}]" for one in of["union"] for end in one.get("prefix", [])] + ["(,)"]}
        spans = of.get("ranges") or [[end, None] for end in of.get("complement", [None])]
        return {"ranges": [f"({'' if a is None else a},{']' if b is None else f'{b}]'}" for a, b in spans]}

    def on_own_buckets(self, merged: Workload) -> Workload:
        edges, prefix = self.given["edges"], self.given["workload"]["prefix"]
        ends = tuple(edges.index(end) for end in prefix)
        rows = Runs((0,) * len(ends), ends, len(edges) - 1)
        return replace(merged, cuts=(merged.lattice.low - 1, *edges[1:]), rows=rows)

    @property
    def theta(self) -> int:
        theta = self.given.get("theta")
        return self.lattice.high if theta is None else int(theta / self.step)

    @cached_property
    def columns(self) -> Columns:
        return sums_of(self.workload, self.theta)

    def blocks(self, values: Sequence[int], theta: int) -> list[tuple[int, int]]:
        """Rows and sum of every block, as of the statement's cells."""
        edges = edges_of(self.workload, (theta,))
        cells = [[int(v / self.step) for v in values if a < v / self.step <= b] for a, b in pairwise(edges)]
        return _blocks(self.workload, edges, [(len(cell), sum(cell)) for cell in cells], theta)

    def values(self) -> list[int]:
        """Those that a condition of the case's queries reads: the call clamps those beyond the bounds to them, where
        a statement's own FILTER tells them by what they are; upper ends stand for counts of buckets."""
        given, top = self.given, self.given["edges"][-1]
        if "counts" in given:
            return [end for end, count in zip(given["edges"][1:], given["counts"], strict=True) for _ in range(count)]
        told = [value for value in given.get("values", []) if value is not None]
        if "union" in given["workload"] or given["edges"][0] < 0:  # which tell those above the bounds apart
            return [min(max(v, given["edges"][0]), self.workload.top) for v in told]
        bounded = "prefix" in given["workload"] or "matrix" in given["workload"]
        return [v for v in told if v <= top] if bounded else [min(v, top) for v in told]

    def sums(self, values: Sequence[int], theta: int) -> Array:
        """What is released but for its noise, divided by weights."""
        columns = sums_of(self.workload, theta)
        found = columns.exact(self.blocks(values, theta))
        return np.array([float(one) for one in found]) / np.array([float(weight) for weight in columns.weights])

    def noiseless(self, theta: int) -> Array:
        columns = sums_of(self.workload, theta)
        return columns.totals.times(self.sums(self.values(), theta)) * float(self.step)

    @property
    def scale(self) -> float:
        """What a strategy of TiMM is divided by: its heaviest bucket's weight."""
        return float(max(self.columns.weights)) if self.given.get("method") == "timm" else 1.0

    @cached_property
    def strategy(self) -> Strategy:
        given = self.given
        named = given.get("strategy")
        if isinstance(named, dict):
            found = Strategy("p-identity", matrix_of(np.array(named["B"], dtype=float)))
        else:
            # tree of two, the first of the method's: others come behind
            workload = self.workload.distinct if given.get("distinct") else self.workload
            aim = sums_of(workload, self.theta).totals
            (_, build), *_ = _strategies(workload.options, self.columns, Aims(aim, aim), gaussian=False)
            found = build()
        return strategies.tightened(found, gaussian=self.gaussian) if given.get("tighten") else found

    @property
    def gaussian(self) -> bool:
        return self.given.get("noise") == "gaussian"

    @property
    def amount(self) -> Fraction:
        return Fraction(str(self.given["rho"] if self.gaussian else self.given["eps2"]))

    @property
    def units(self) -> int:
        return 1 if self.given.get("per") == "user" else int(self.given.get("kappa", 1))

    def root_mean(self, variances: Array) -> float:
        """By the queries' weights."""
        return math.sqrt(mean_variance(self.workload, variances))

    def variances(self, strategy: Strategy | None = None) -> Array:
        factors = strategies.query_errors(strategy or self.strategy, self.columns.totals, gaussian=self.gaussian)
        return factors * variance(self.amount, gaussian=self.gaussian) * self.units**2 * float(self.step) ** 2


class Recorded:
    """Noise that adds what it is told to, and remembers what was asked of it."""

    def __init__(self, added: int = 0) -> None:
        self.added = added
        self.asked: dict[str, Any] = {}

    def laplace(self, exact: Sequence[int], **how: Any) -> list[int]:
        self.asked = {"exact": list(exact), **how}
        return [value + self.added for value in exact]

    def first_above(self, gaps: Sequence[int], **how: Any) -> int | None:
        self.asked = {"exact": list(gaps), **how}
        return None

    def select(self, scores: Sequence[int], **how: Any) -> int:
        self.asked = {"exact": list(scores), **how}
        return 0


def decimal(number: float) -> Decimal:
    """As it is written."""
    return Decimal(str(number))
