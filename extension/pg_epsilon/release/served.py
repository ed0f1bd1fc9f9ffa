"""A question that a published family answers: its values, bars and what is said of them. Post-processing.

Its bars hold together with those of the other queries of the family's last grid, where who asks gave that grid and the
question is one of it; else with those of every set of classes (everywhere.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.accounting.words import notice_text
from pg_epsilon.decimals import plain
from pg_epsilon.mechanisms.estimators import EXTRA_DIGITS, UNKNOWN, Bar, digits_of, text
from pg_epsilon.mechanisms.group_by import groups, reading_order
from pg_epsilon.noise import LATTICE_MAX, LATTICE_MIN
from pg_epsilon.query.released import text_of
from pg_epsilon.query.request import Request
from pg_epsilon.release import kronecker
from pg_epsilon.release.answers import Answer, Noise, Sums, counted, summed
from pg_epsilon.release.averages import average
from pg_epsilon.release.ends import Ends
from pg_epsilon.release.everywhere import Boxes, Everywhere, Levels, Shared
from pg_epsilon.release.factors import Factors
from pg_epsilon.release.members import AVERAGE, EVERY, ITSELF, QUOTIENTS, SPREAD, Member, Table, digest, of_grid
from pg_epsilon.release.ranges import Read, read_bits, trees_of
from pg_epsilon.release.recalled import recalled
from pg_epsilon.release.spreads import spread
from pg_epsilon.release.trees import nodes_of

OUTSIDE = "rows of no declared class are left out"


@dataclass(frozen=True)
class Origin:
    """Which family answers, since when it stands; the question's accounts in words, and what is left there."""

    name: str
    as_of: str
    accounts: str
    left: Mapping[str, str]


@dataclass(frozen=True)
class Served:
    """One aggregate's answer. queries: with whose bars its bar holds; None: with those of all sets of classes."""

    member: Member
    answer: Answer
    queries: int | None


def noise_of(facts: Mapping[str, Any]) -> Noise:
    scale, gaussian, grain = facts["noise"]
    return Noise(float(scale), bool(gaussian), float(grain))


def deviation(facts: Mapping[str, Any], member: Member) -> float:
    """The standard deviation of the member's unbiased answer: what it may be compared with others by."""
    steps = _steps(facts)
    sums = member.way in (ITSELF, AVERAGE) and steps is not None and "sum" in facts["question"]["aggregate"]
    weights = steps if sums and steps is not None else np.ones(len(facts["values"]))
    read, strategy = _read(facts, member.bits), kronecker.of_facts(facts)
    many: float = member.classes if read is None else len(read.nodes)
    if strategy is not None:
        many = float(np.square(strategy.weights(member.bits)).sum())
    times = _times(facts, member)
    squares = np.square(weights)
    if member.weights is not None:
        times = _factors(facts, member, len(facts["values"])).squares
    of_all = many * float(squares.sum()) if times is None else float(times[: len(squares)] @ squares)
    return noise_of(facts).deviation * math.sqrt(of_all)


def served(
    facts: Mapping[str, Any], cells: npt.NDArray[Any], member: Member, queries: int | None, miss: float
) -> Served:
    """One aggregate's answer from the released integers. miss: of all bars that hold together."""
    if not member.classes:
        return Served(member, Answer(0.0, 0.0, 0.0, 0.0, False), queries)
    if of_grid(facts):
        return Served(member, recalled(facts, cells, member.bits, miss, member.weights), queries)
    noise, steps = noise_of(facts), _steps(facts)
    grain = noise.grain if steps is not None else 1.0
    if (strategy := kronecker.of_facts(facts)) is not None:
        sums = strategy.read(cells.reshape(-1, len(facts["values"])) * grain, member.bits)
        nulls = [domain[-1] is None for _, domain in facts["classes"]]
        own_bars = (
            (kronecker.everywhere(noise, member.bits, nulls), miss) if queries is None else (noise, miss / queries)
        )
        return Served(member, _added(facts, member, sums, *own_bars), queries)
    read = _read(facts, member.bits)
    if read is None:
        count = member.classes
        each = cells.reshape(member.bits.size, -1)[member.bits.reshape(-1)]
        own = (each if member.weights is None else each * member.weights[member.bits][:, None]).sum(
            axis=0, keepdims=True
        )
        own = own * grain
    else:
        count, own = len(read.nodes), read.of(cells.reshape(-1, len(facts["values"])))[None, :] * grain
    all_sets = _everywhere(facts, noise, member, read)
    bars: tuple[Noise, float] = (all_sets, miss) if queries is None else (noise, miss / queries)
    sums = _sums(facts, member, own, count, alone=queries is not None)
    if member.way == AVERAGE and steps is not None and member.aggregate.lattice is not None:
        lattice = member.aggregate.lattice
        ends = float(lattice.low * lattice.step), float(lattice.high * lattice.step)
        one = average(own[0, : len(steps)], steps, count, noise, all_sets, miss, ends)
        return Served(member, one, None)
    if member.way == SPREAD and steps is not None and member.aggregate.lattice is not None:
        lattice, how = member.aggregate.lattice, member.aggregate.function
        ends = float(lattice.low * lattice.step), float(lattice.high * lattice.step)
        return Served(member, spread(own[0, : len(steps)], steps, count, noise, all_sets, miss, ends, how), None)
    return Served(member, _added(facts, member, sums, *bars), queries)


def _added(facts: Mapping[str, Any], member: Member, sums: Sums, noise: Noise, miss: float) -> Answer:
    """A sum or a number of rows."""
    steps = _steps(facts)
    if member.way == ITSELF and steps is not None and "sum" in facts["question"]["aggregate"]:
        (found,) = summed(sums.part(slice(len(steps))), steps.tolist(), noise, miss)
    else:
        without = facts["values"].index("NULL") if member.way != EVERY and "NULL" in facts["values"] else None
        (found,) = counted(sums if without is None else sums.without(without), noise, miss)
    return found


def _sums(facts: Mapping[str, Any], member: Member, own: npt.NDArray[Any], count: int, *, alone: bool) -> Sums:
    """The cells of one member, added up. alone: its bar is of this one sum, which weights make narrower."""
    if member.weights is None:
        times = _times(facts, member)
        return Sums(own, np.array([count]), None if times is None else times[None, :])
    factors = _factors(facts, member, own.shape[1])
    return Sums(own, np.array([count]), factors.squares[None, :], [factors] if alone else None)


def _factors(facts: Mapping[str, Any], member: Member, steps: int) -> Factors:
    """The weights of the member's classes."""
    counts = np.zeros(member.bits.size) if member.weights is None else np.where(member.bits, member.weights, 0).ravel()
    return Factors.of(counts, _there(facts, member), steps)


def _read(facts: Mapping[str, Any], bits: npt.NDArray[np.bool_]) -> Read | None:
    """Which nodes a set of classes is read from; None of a release whose classes have cells."""
    trees = trees_of(facts)
    return read_bits(trees, bits) if trees else None


def _times(facts: Mapping[str, Any], member: Member) -> npt.NDArray[np.float64] | None:
    """Of each cell, how many of the member's classes have it; None: all of them have all."""
    there = _there(facts, member)
    return None if there is None else np.asarray(there[member.bits.reshape(-1)].sum(axis=0), np.float64)


def _there(facts: Mapping[str, Any], member: Member) -> npt.NDArray[np.bool_] | None:
    """[class, cell]: which exist; None: all."""
    ends = Ends.read(member.bits.shape, facts.get("ends"))
    if ends is None:
        return None
    steps = [Fraction(one) for one in facts["values"] if one not in ("NULL", "NaN")]
    return ends.there(sum(one < 0 for one in steps), len(steps), len(facts["values"]))


def _everywhere(facts: Mapping[str, Any], noise: Noise, member: Member, read: Read | None) -> Everywhere:
    """The noise whose bars hold for all that could be asked at once: of ranges half of what they may miss is for all
    ranges, half for all sets of nodes."""
    if member.weights is not None:
        return Levels.by(noise, member.bits.size, member.weights[member.bits])
    if read is None:
        return Everywhere.of(noise, member.bits.size)
    trees = trees_of(facts)
    if read.box:
        return Boxes(noise.scale, noise.gaussian, noise.grain, nodes_of(trees), math.prod(one.ranges for one in trees))
    return Shared(noise.scale, noise.gaussian, noise.grain, nodes_of(trees))


def is_candidate(member: Member) -> int | None:
    """The digest by which a member may be one of the grid's; None: it cannot be one."""
    weights = np.broadcast_to(1.0, member.bits.shape) if member.weights is None else member.weights
    return digest(member.bits, weights) if member.way == ITSELF else None


Answers = Sequence[Sequence[Served]]
"""Of each group, by its number, one answer for each aggregate."""


def document(request: Request, found: Answers, origin: Origin, request_id: str) -> dict[str, Any]:
    """The answer document (docs/internals.md §1). request_id: under which a grouped answer is kept."""
    names = [key.domain for key in request.keys]
    order, labels = reading_order(names, request.places), groups(names)
    n, m = len(request.places), len(request.aggregates)
    rows = [
        [*(labels[number][place] for place in request.places), *(_value(one) for one in found[number])]
        for number in order
    ]
    return {
        "request_id": request_id,
        **({"release": text_of(request_id, request.places, request.numbers)} if n else {}),
        "keys": n,
        "columns": [f"k{i}" for i in range(1, n + 1)] + [f"a{i}" for i in range(1, m + 1)],
        "names": [request.keys[place].name for place in request.places] + [one.name for one in request.aggregates],
        "rows": rows,
        **({"bars": [[_bar(one) for one in found[number]] for number in order]} if request.bars else {}),
        "notice": notice(request, tuple(tuple(one.member for one in row) for row in found), found, origin),
    }


def presentation(request: Request, found: Answers, origin: Origin) -> dict[str, Any]:
    """What `answer.again` and a comparison need of a grouped answer, as JSON (docs/internals.md §1)."""
    return {
        "kind": "block",
        "call": request.call,
        "confidence": plain(request.confidence),
        "keys": [[key.name, key.domain] for key in request.keys],
        "order": request.places,
        "aggregates": request.numbers,
        "names": [one.name for one in request.aggregates],
        "values": [[_value(one) for one in row] for row in found],
        "bars": [[_bar(one) for one in row] for row in found],
        "uniform": True,
        "facts": {"family": {"name": origin.name}, "warnings": [OUTSIDE]},
    }


def notice(request: Request, members: Table, found: Answers, origin: Origin) -> dict[str, Any]:
    """What may be said of the answer; no released value is in it, but where there was nothing to be told from noise.

    found: the answers; none in a plan.
    """
    below = _below(request, found)
    together = {_together(one) for row in found for one in row}
    names, mechanism = [one.name for one in request.aggregates], f"family {origin.name}"
    classes = [sum(row[place].classes for row in members) for place in range(len(names))]
    info: dict[str, Any] = {
        "call": request.call,
        "relation": request.source.shape,
        "where": request.predicate,
        "keys": [request.keys[place].name for place in request.places],
        "groups": request.cells if request.keys else None,
        "path": "family",
        "mechanism": mechanism,
        "charge": {},
        "accounts": origin.accounts,
        "confidence": plain(request.confidence),
        **({} if any(math.isnan(one.answer.low) for row in found for one in row) else {"grade": "uniform"}),
        "left": dict(origin.left),
        "as_of": origin.as_of,
        "warnings": [*below.values(), OUTSIDE],
        "aggregates": [{"aggregate": name, "mechanism": mechanism} for name in names],
        "family": {"name": origin.name, "classes": classes, "below_resolution": list(below)},
    }
    own = "SET dp.mechanism = 'laplace' pays for an answer of its own"
    info["text"] = notice_text(info, [*sorted(together), own])
    return info


def _together(one: Served) -> str:
    if math.isnan(one.answer.low):
        return "no error bar: how far it is off was not measured"
    if one.queries is None:
        weights = ", whatever the weights" if one.member.weights is not None else ""
        return f"bars hold at once for every set of its classes{weights}"
    return f"bars hold at once for the {one.queries} queries of its grid"


def _below(request: Request, found: Answers) -> dict[str, str]:
    """Aggregate → in words, where its rows cannot be told from noise."""
    told: dict[str, str] = {}
    for place, aggregate in enumerate(request.aggregates):
        those = [row[place].answer for row in found if row[place].answer.below_resolution]
        if those:
            where = f"in {len(those)} of {len(found)} groups " if request.keys else ""
            words = "is below resolution: no rows can be told from noise"
            if math.isnan(those[0].low):
                words = "may be below resolution: the release was stopped before its error was measured"
            told[aggregate.name] = f"{aggregate.name} {where}{words}"
    return told


def _value(one: Served) -> str | None:
    """Of no class there is no average, as in SQL."""
    if one.member.way in QUOTIENTS and not one.member.classes:
        return None
    return _shown(one.answer.answer, one.member)


def _steps(facts: Mapping[str, Any]) -> npt.NDArray[np.float64] | None:
    """The values of a class' cells that have one; None: a release of counts, of one cell a class."""
    if facts["whole"] == 1:
        return None
    return np.array([float(Fraction(one)) for one in facts["values"] if one not in ("NULL", "NaN")])


def _bar(one: Served) -> Bar:
    if _value(one) is None or not math.isfinite(one.answer.high - one.answer.low):
        return UNKNOWN
    low, high = (_shown(end, one.member, up) for end, up in ((one.answer.low, -1), (one.answer.high, 1)))
    return low, high, None


def _shown(value: float, member: Member, up: int = 0) -> str:
    """As the aggregate's type has it: of a bar's end the next one outwards."""
    lattice = member.aggregate.lattice
    if member.way in QUOTIENTS and lattice is not None:
        digits = min(digits_of(lattice.step) + EXTRA_DIGITS, 18)
        return text(Fraction(math.nextafter(value, up * math.inf) if up else value), digits)
    if member.aggregate.function == "count" or lattice is None or lattice.whole:
        whole = round(value) if not up else math.floor(value) if up < 0 else math.ceil(value)
        return str(min(max(whole, LATTICE_MIN), LATTICE_MAX))
    exact = Fraction(value) / lattice.step
    steps = round(exact) if not up else math.floor(exact) if up < 0 else math.ceil(exact)
    return text(steps * lattice.step, digits_of(lattice.step))
