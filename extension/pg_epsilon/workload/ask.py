"""What dp_sum_workload asks for: the request member "workload", validated by public facts (sum-workloads.md §1, §2)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, UNDECLARED, DPError
from pg_epsilon.query import members
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.workload.runs import Rows, Runs
from pg_epsilon.workload.shapes import example, listed, number, numbers, of_matrix, of_ranges, of_thresholds

MAX_CELLS = 1_000_000
MAX_PAIR_CELLS = 62_500  # above it counts and averages are not answered beside sums: four times as many cells
MAX_QUERIES = 4_000
METHODS = ("auto", "sqm", "identity", "workload", "timm", "tamm")
STRATEGIES = ("auto", "greedyh", "p-identity", "tree", "wavelet", "identity", "workload", "optimal")
EXAMPLE_OF_OPTIONS = 'options => \'{"theta": "svt", "method": "timm"}\''
MOST_WEIGHT = 10**6
THRESHOLDS = ("none", "public", "svt", "recursive", "exponential")
AGGREGATES = ("sum", "count", "avg")
_MEMBERS = frozenset({"thresholds", "ranges", "matrix", "per", "options"})
_OPTIONS = frozenset(
    {"theta", "method", "strategy", "isotonic", "rho_split", "ratio", "aggregates", "split", "weights"}
)
_LISTS = frozenset({"own", "weights"})  # told where they are given, so that other questions keep their names


@dataclass(frozen=True)
class Options:
    """How a workload is answered; every default is the paper's or the cheapest by prediction.

    theta: how the truncation threshold is chosen, with `public_theta` where the asker names one. rho_split: the share
    of the budget for it. ratio: of rows that the sparse vector and the exponential mechanism leave untouched.
    split: how the method sqm shares the budget out, by size or equally. own: of the strategy `custom`, the rows that
    the asker gave, a weight for each bucket. weights: of each query, what its variance is multiplied by where methods
    are compared; none: 1 each.
    """

    theta: str = "none"
    public_theta: Decimal | None = None
    method: str = "auto"
    strategy: str = "auto"
    isotonic: str = "auto"
    rho_split: Decimal = Decimal("0.1")
    ratio: Decimal = Decimal("0.998")
    aggregates: tuple[str, ...] = ("sum",)
    split: str = "optimal"
    own: tuple[tuple[Fraction, ...], ...] = ()
    weights: tuple[Fraction, ...] = ()

    @property
    def is_private(self) -> bool:
        """Whether choosing the threshold is paid for."""
        return self.theta in ("svt", "recursive", "exponential")


@dataclass(frozen=True)
class Workload:
    """p linear queries over blocks of values.

    lattice: of the value, whose integers start at 0 or above. cuts: block j holds the integers above cuts[j] and up to
    cuts[j + 1]; ascending, the first is below every value. Above the lattice's upper bound they are of values before
    they are clamped: queries see those (§0), sums do not. rows: per query its weight of each block. edges: per query
    the ends to show, in the value's unit, None where the query has none. prefixes: whether every query starts at the
    lowest value with weight 1, so that true answers do not decrease with their thresholds, whose order may be any.
    """

    lattice: Lattice
    cuts: tuple[int, ...]
    rows: Rows
    edges: tuple[tuple[Decimal | None, Decimal | None], ...]
    prefixes: bool
    per: str
    options: Options

    @property
    def blocks(self) -> int:
        return len(self.cuts) - 1

    @property
    def top(self) -> int:
        """The integer of all values that no query tells apart, because they are above its ends and the upper bound."""
        return max(self.lattice.high + 1, self.cuts[-1])

    @property
    def largest(self) -> int:
        """The largest size of a value: what theta is at most."""
        return max(abs(self.lattice.low), abs(self.lattice.high))

    def cut(self, value: int, theta: int) -> int:
        """What a row of this value is summed as: nothing above the upper bound, and nothing larger than theta."""
        return max(min(value, theta, self.lattice.high), -theta)

    @cached_property
    def distinct(self) -> Workload:
        """With equal queries once: they are measured once, and answered in every place (§0)."""
        if isinstance(self.rows, Runs):
            runs = tuple(dict.fromkeys(zip(self.rows.starts, self.rows.ends, strict=True)))
            starts, ends = zip(*runs, strict=True)
            rows: Rows = Runs(starts, ends, self.rows.blocks)
        else:
            rows = tuple(dict.fromkeys(self.rows))
        return self if len(rows) == len(self.rows) else replace(self, rows=rows)

    @cached_property
    def unread(self) -> frozenset[int]:
        """Blocks that no query reads."""
        if isinstance(self.rows, Runs):
            runs = set(zip(self.rows.starts, self.rows.ends, strict=True))
            read = {block for start, end in runs for block in range(start, end)}
        else:
            read = {block for row in self.rows for block, weight in enumerate(row) if weight}
        return frozenset(range(self.blocks)) - read

    @cached_property
    def text(self) -> str:
        """`canonical` as text: equal workloads over equal lattices have equal ones."""
        return json.dumps([self.canonical(), self.lattice.high, str(self.lattice.step)], sort_keys=True)

    def canonical(self) -> dict[str, Any]:
        """What tells this workload from another; the aggregate says the value and its bounds."""
        options = {name: str(value) for name, value in sorted(vars(self.options).items()) if name not in _LISTS}
        lists = {
            "own": [[str(weight) for weight in row] for row in self.options.own],
            "weights": [str(weight) for weight in self.options.weights],
        }
        return {
            "cuts": list(self.cuts),
            **self._queries(),
            "per": self.per,
            "options": {**options, **{name: found for name, found in lists.items() if found}},
        }

    def _queries(self) -> dict[str, Any]:
        if isinstance(self.rows, Runs):
            return {"runs": list(zip(self.rows.starts, self.rows.ends, strict=True))}
        return {"rows": [[str(weight) for weight in row] for row in self.rows]}


def compile_workload(document: Mapping[str, Any], lattice: Lattice | None, kappa: int | None) -> Workload | None:
    """The request's member "workload" -> `Workload`, if there is one.

    lattice: of the summed value. kappa: declared rows of a user, where a unit may own several.

    Errors: DP003 for a document of another form, DP005 for what is out of range.
    """
    if document.get("workload") is None:
        return None
    given = members.mapping(document["workload"], "workload")
    if set(given) - _MEMBERS or lattice is None or document.get("decide"):
        raise DPError(SHAPE, "a workload of an unknown form", "SELECT * FROM dp_sum_workload(relation, value, ...)")
    per = str(given.get("per") or "row")
    if per not in ("row", "user"):
        raise DPError(OUT_OF_RANGE, "per must be row or user", "per => 'row': each row; per => 'user': a user's total.")
    if per == "user":
        lattice = _of_users(lattice, kappa)
    options = _options(given.get("options"))
    thresholds, ranges = numbers(given.get("thresholds"), "thresholds", signed=True), given.get("ranges")
    if given.get("matrix") is not None:
        shape = of_matrix(listed(given["matrix"], "workload"), thresholds, lattice, merged=not options.own)
    elif ranges is not None and not thresholds:
        shape = of_ranges(listed(ranges, "ranges"), lattice)
    elif thresholds and ranges is None:
        shape = of_thresholds(thresholds, lattice)
    else:
        raise DPError(
            OUT_OF_RANGE,
            "a workload needs thresholds, or ranges, or a matrix over thresholds",
            "thresholds => '{30000,40000,50000}', or ranges => '{\"[0,30000)\",\"[30000,60000)\"}'.",
        )
    cuts, rows, edges, prefixes = shape
    if len(rows) > MAX_QUERIES or len(rows) * (len(cuts) - 1) > MAX_CELLS:
        raise DPError(
            OUT_OF_RANGE,
            f"more than {MAX_QUERIES} queries, or more than {MAX_CELLS} cells of queries by buckets",
            "Ask fewer queries at once.",
        )
    _check_own(options, len(cuts) - 1)
    if options.weights and len(options.weights) != len(rows):
        raise DPError(OUT_OF_RANGE, f"weights are one for each of the {len(rows)} queries", example("weights"))
    return Workload(lattice, cuts, rows, edges, prefixes and lattice.low >= 0, per, options)


def _of_users(lattice: Lattice, kappa: int | None) -> Lattice:
    """The lattice of a user's total: up to kappa values; DP004 where no kappa is declared."""
    if kappa is None:
        raise DPError(
            UNDECLARED,
            "how many rows one user may own is not declared, so neither is the largest total",
            "The owner protects the relation with max_rows_per_unit; per => 'row' where the unit is a row.",
        )
    return replace(lattice, low=min(lattice.low, 0) * kappa, high=max(lattice.high, 0) * kappa)


def _options(found: Any) -> Options:
    given = {
        name: value
        for name, value in members.mapping({} if found is None else found, "options", EXAMPLE_OF_OPTIONS).items()
        if value is not None
    }
    if unknown := sorted(set(given) - _OPTIONS):
        raise DPError(
            OUT_OF_RANGE, f"unknown option {json.dumps(unknown[0])[:60]}", f"Options: {', '.join(sorted(_OPTIONS))}."
        )
    theta, public = str(given.get("theta", "none")), None
    if theta not in THRESHOLDS:
        theta, public = "public", number(theta, "theta")
    elif theta == "public":
        raise DPError(OUT_OF_RANGE, "a public theta is a number", "options => '{\"theta\": 100000}'")
    if public is not None and public <= 0:
        raise DPError(OUT_OF_RANGE, "theta must be above 0", "options => '{\"theta\": 100000}'")
    aggregates = given.get("aggregates", ["sum"])
    if not isinstance(aggregates, list) or not aggregates or set(aggregates) - set(AGGREGATES):
        raise DPError(OUT_OF_RANGE, "aggregates is a list of sum, count and avg", "aggregates => '{sum,count,avg}'")
    strategy = given.get("strategy")
    own = _own(strategy) if isinstance(strategy, list) else ()
    return Options(
        theta,
        public,
        _one_of(given, "method", METHODS),
        "custom" if own else _one_of(given, "strategy", STRATEGIES),
        _one_of(given, "isotonic", ("auto", "on", "off")),
        _fraction(given.get("rho_split", "0.1"), "rho_split"),
        _fraction(given.get("ratio", "0.998"), "ratio"),
        tuple(one for one in AGGREGATES if one in aggregates),
        _one_of({"split": "optimal", **given}, "split", ("optimal", "equal")),
        own,
        _weights(given.get("weights", [])),
    )


def _weights(given: Any) -> tuple[Fraction, ...]:
    found = tuple(Fraction(value) for value in numbers(given, "weights"))
    if any(not 0 < value <= MOST_WEIGHT or value < Fraction(1, MOST_WEIGHT) for value in found):
        raise DPError(OUT_OF_RANGE, "weights are from a millionth to a million", example("weights"))
    return found


def _own(given: Any) -> tuple[tuple[Fraction, ...], ...]:
    """A strategy of the asker's own: rows of weights of buckets."""
    rows = tuple(
        tuple(Fraction(number(str(value), "strategy", signed=True)) for value in listed(row, "strategy"))
        for row in listed(given, "strategy")
    )
    if not rows or len(rows) > MAX_QUERIES or len(rows) * max(map(len, rows)) > MAX_CELLS:
        raise DPError(
            OUT_OF_RANGE,
            f"a strategy has 1 to {MAX_QUERIES} rows, and at most {MAX_CELLS} weights",
            example("strategy"),
        )
    return rows


def _check_own(options: Options, buckets: int) -> None:
    """DP005 for a strategy of the asker's own that is not over these buckets, or is asked for counts."""
    if not options.own:
        return
    if any(len(row) != buckets or not any(row) for row in options.own):
        raise DPError(
            OUT_OF_RANGE,
            f"each row of a strategy needs a weight for each of the {buckets} buckets, not all of them 0",
            example("strategy"),
        )
    if options.method not in ("auto", "timm"):
        raise DPError(
            OUT_OF_RANGE,
            f"method {options.method} takes no strategy of your own",
            "method => timm, or leave it out: rows over buckets are rows whatever theta is.",
        )
    if options.aggregates != ("sum",):
        raise DPError(
            OUT_OF_RANGE,
            "a strategy of your own answers sums alone",
            "Leave aggregates out, or the strategy to auto.",
        )


def _one_of(given: Mapping[str, Any], name: str, known: Sequence[str]) -> str:
    value = str(given.get(name, "auto"))
    if value not in known:
        more = ", or a matrix of your own" if name == "strategy" else ""
        raise DPError(OUT_OF_RANGE, f"unknown {name}", f"{name} is one of {', '.join(known)}{more}.")
    return value


def _fraction(value: Any, name: str) -> Decimal:
    found = number(str(value), name)
    if not 0 < found < 1 or found != round(found, 9):
        raise DPError(OUT_OF_RANGE, f"{name} must be above 0 and below 1, of nine decimals at most", f"{name}: 0.1")
    return found
