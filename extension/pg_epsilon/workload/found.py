"""The strategy for a workload at a theta: remembered, or kept in the catalog, or found anew by designs.py."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from pg_epsilon.mechanisms.matrix.strategies import Strategy
from pg_epsilon.workload import shelf
from pg_epsilon.workload.ask import Workload
from pg_epsilon.workload.columns import pairs_of, sums_of
from pg_epsilon.workload.designs import Design, designs, mean_variance

FORMAT = 4  # of a definition, and of how strategies are found: raised, nothing older is used
REMEMBERED = 32  # strategies a process


@dataclass(frozen=True)
class Found:
    """The design of least predicted error. variances: of every candidate, by its name, the mean over queries of the
    variance of a sum when noise has variance 1 for a sensitivity of 1, lattice units²; ascending in what was compared.
    """

    best: Design
    variances: dict[str, float]


_remembered: OrderedDict[shelf.Key, Found] = OrderedDict()


def find(workload: Workload, theta: int, *, gaussian: bool) -> Found:
    """By public facts only. DP005 where the asked method does not answer the workload."""
    key = digest(workload, gaussian=gaussian)
    found = _remembered.get((key, theta))
    if found is None:
        kept = shelf.find(key, theta)
        found = _compute(workload, theta, gaussian=gaussian) if kept is None else read(kept, workload, theta)
        _remembered[(key, theta)] = found
        while len(_remembered) > REMEMBERED:
            _remembered.popitem(last=False)
    else:
        _remembered.move_to_end((key, theta))
    shelf.note(key, theta, lambda: _kept(found, workload, theta))
    return found


def forget() -> None:
    """What this process remembers."""
    _remembered.clear()


def digest(workload: Workload, *, gaussian: bool) -> str:
    """What a strategy depends on, but for theta."""
    return hashlib.sha256(f"{FORMAT} {gaussian} {workload.text}".encode()).hexdigest()


def _compute(workload: Workload, theta: int, *, gaussian: bool) -> Found:
    listed = designs(workload, theta, gaussian=gaussian)
    variances: dict[str, float] = {}
    for one in listed:
        variances.setdefault(one.name, mean_variance(workload, one.factors))
    return Found(listed[0], variances)


def written(found: Found) -> bytes:
    """A line of JSON, then the strategy's entries that are not 0 (row, column, value), then each query's variance."""
    matrix = found.best.strategy.matrix
    rows, columns = np.nonzero(matrix)
    head = {
        "method": found.best.method,
        "data": found.best.columns.data,
        "strategy": found.best.strategy.name,
        "shape": matrix.shape,
        "entries": len(rows),
        "total": found.best.total,
        "variances": list(found.variances.items()),
    }
    numbers = [rows.astype("<i4"), columns.astype("<i4"), matrix[rows, columns].astype("<f8")]
    parts = [json.dumps(head).encode(), b"\n", *(part.tobytes() for part in numbers)]
    return b"".join([*parts, found.best.factors.astype("<f8").tobytes()])


def read(kept: bytes, workload: Workload, theta: int) -> Found:
    """The inverse of `written`: the same doubles, so the same integers are drawn."""
    line, _, rest = kept.partition(b"\n")
    head = json.loads(line)
    count = int(head["entries"])
    rows = np.frombuffer(rest, "<i4", count)
    columns = np.frombuffer(rest, "<i4", count, 4 * count)
    matrix = np.zeros(head["shape"])
    matrix[rows, columns] = np.frombuffer(rest, "<f8", count, 8 * count)
    factors = np.frombuffer(rest, "<f8", -1, 16 * count)
    data = (sums_of if head["data"] == "sums" else pairs_of)(workload, theta)
    best = Design(head["method"], data, Strategy(head["strategy"], matrix), factors, head["total"])
    return Found(best, dict(head["variances"]))


def _kept(found: Found, workload: Workload, theta: int) -> shelf.Kept:
    shown = {
        "workload": workload.canonical(),
        "theta": float(theta * workload.lattice.step),
        "variances": found.variances,
    }
    return shelf.Kept(
        found.best.name, len(workload.rows), len(found.best.columns.columns), json.dumps(shown), written(found)
    )
