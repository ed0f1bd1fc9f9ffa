"""A basic solution to many binary digits: the solver's basis, its float solves, and residuals in integers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pg_epsilon.mechanisms.lp_wire import BYTES

ROUNDS = 40


def refined(model: Any, t: int, how: str, bits: int) -> tuple[Any, Any]:
    """(duals of the limits, values of the variables) of the basis that the last solve left, as 24-byte integers.

    Multiples of 2^-bits. Each round solves for what is still missing, to the 13 digits or so that floats give. What
    comes out is as good as the basis: the parent finds out. model: a lp_child.Model, solved for t by `how`.
    """
    solver = model.with_basis(t, how)
    columns, limits = _structure(model)
    basic = np.asarray(solver.getBasicVariables()[1], np.int64)
    statuses = solver.getBasis().col_status
    tops = [min(v, t) for v in model.values.tolist()] if model.labels is None else [1] * len(columns)
    in_basis = {int(j) for j in basic if j >= 0}
    free_rows = {-int(j) - 1 for j in basic if j < 0}
    values = [tops[j] << bits if j not in in_basis and _upper(statuses[j]) else 0 for j in range(len(columns))]
    right = [(t if i < model.units else 0) << bits for i in range(limits)]
    primal = _primal(solver, basic, columns, values, right, free_rows)
    costs = [0 if model.labels is not None and j < len(model.values) else 1 << bits for j in range(len(columns))]
    dual = _dual(solver, basic, columns, costs, limits, free_rows)
    return _packed(dual), _packed(primal)


def _structure(model: Any) -> tuple[list[list[tuple[int, int]]], int]:
    """Column by column (row, coefficient), and the number of rows."""
    starts, index, coefficient = model.matrix()
    pairs = list(zip(index.tolist(), coefficient.astype(np.int64).tolist(), strict=True))
    edges = starts.tolist()
    return [pairs[a:b] for a, b in pairwise(edges)], model.units + (model.labels or 0)


def _upper(status: Any) -> bool:
    return str(status).endswith("kUpper")


def _primal(solver: Any, basic: Any, columns: Any, values: list[int], right: list[int], free: set[int]) -> list[int]:
    for _ in range(ROUNDS):
        missing = list(right)
        for column, value in zip(columns, values, strict=True):
            if value:
                for i, coefficient in column:
                    missing[i] -= coefficient * value
        for i in free:
            missing[i] = 0
        scale = max(map(abs, missing), default=0)
        if scale <= len(right):
            break
        found = np.asarray(solver.getBasisSolve(np.array([m / scale for m in missing]))[1])
        for j, step in zip(basic.tolist(), found.tolist(), strict=True):
            if j >= 0:
                values[j] += _times(step, scale)
    return values


def _dual(solver: Any, basic: Any, columns: Any, costs: list[int], limits: int, free: set[int]) -> list[int]:
    duals = [0] * limits
    for _ in range(ROUNDS):
        missing = [
            costs[j] - sum(coefficient * duals[i] for i, coefficient in columns[j]) if j >= 0 else 0
            for j in basic.tolist()
        ]
        scale = max(map(abs, missing), default=0)
        if scale <= limits:
            break
        found = np.asarray(solver.getBasisTransposeSolve(np.array([m / scale for m in missing]))[1])
        for i, step in enumerate(found.tolist()):
            if i not in free:
                duals[i] += _times(step, scale)
    return duals


def _times(step: float, scale: int) -> int:
    """step * scale as an integer, whatever the float is."""
    if not abs(step) < 2.0**60:
        return 0
    return (int(step * 2.0**60) * scale) >> 60


def _packed(numbers: list[int]) -> Any:
    """24 bytes each, little-endian; what does not fit is at the end of the range."""
    most = (1 << (8 * BYTES - 1)) - 1
    data = b"".join(max(-most, min(most, n)).to_bytes(BYTES, "little", signed=True) for n in numbers)
    return np.frombuffer(data, np.uint8)
