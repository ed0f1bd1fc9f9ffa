"""Runs inside the server: notes what the installed engine draws, issues and logs, and can freeze its outputs (rule R3).

Its source is sent to the backend (tests/fix_privacy.py), so it imports nothing but the engine. `begin` installs a tap
on the engine's only two doors, `noise.current()` and `plpy`; `collect` returns what went through them since the last
call. In replay, every draw returns what the same draw returned when it was recorded; only the exact values that reach
it are new. A draw that was never recorded is answered by zeros: the comparison of the two sessions reports it.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pg_epsilon import entry, noise
from pg_epsilon.accounting.margins import gaussian_scale, laplace_scale
from pg_epsilon.engine import ready
from pg_epsilon.query import attributes

Number = int | Fraction | Decimal
LOUD = frozenset({"debug", "log", "info", "notice", "warning", "error", "fatal"})


class Recorder:
    """A noise source that draws (or repeats frozen outputs) and notes every argument of every draw."""

    def __init__(self, frozen: list[list[int]] | None) -> None:
        self._real = noise.Noise()
        self._frozen = frozen
        self.draws: list[dict[str, Any]] = []
        self._count = 0
        self._epochs: dict[str, int] = {}

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        def draw() -> list[int]:
            return self._real.laplace(exact, l1_sensitivity=l1_sensitivity, epsilon=epsilon, label=label)

        scale = laplace_scale(l1_sensitivity, epsilon)
        return self._note("laplace", label, exact, l1_sensitivity, epsilon, scale, draw)

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        def draw() -> list[int]:
            return self._real.gaussian(exact, l2_squared=l2_squared, rho=rho, label=label)

        return self._note("gaussian", label, exact, l2_squared, rho, gaussian_scale(l2_squared, rho), draw)

    def select(self, scores: Sequence[Number], *, sensitivity: Number, epsilon: Number, label: str) -> int:
        def draw() -> list[int]:
            return [self._real.select(scores, sensitivity=sensitivity, epsilon=epsilon, label=label)]

        scale = float(2 * Fraction(sensitivity) / Fraction(epsilon))
        return self._note("select", label, scores, sensitivity, epsilon, scale, draw)[0]

    def select_in_runs(
        self,
        sizes: Sequence[int],
        scores: Sequence[Number],
        *,
        sensitivity: Number,
        epsilon: Number,
        label: str,
        name: Callable[[int], int] | None = None,
    ) -> int:
        """Noted candidate by candidate, in the order of their names: how they fall into runs is private."""
        each = [score for size, score in zip(sizes, scores, strict=True) for _ in range(size)]
        order = sorted(range(len(each)), key=name)
        found = self.select([each[place] for place in order], sensitivity=sensitivity, epsilon=epsilon, label=label)
        return order[found]

    def ladder(
        self, exact: Sequence[Sequence[int]], thresholds: Sequence[int], *, weight: Number, epsilon: Number, label: str
    ) -> list[list[int]]:
        """Noted as one vector, each change in units of its threshold: that is what its weight bounds."""

        def draw() -> list[int]:
            noisy = self._real.ladder(exact, thresholds, weight=weight, epsilon=epsilon, label=label)
            return [value for level in noisy for value in level]

        shares = [Fraction(value, t) for cells, t in zip(exact, thresholds, strict=True) for value in cells]
        scale = laplace_scale(weight, epsilon)
        flat = iter(self._note("laplace", label, shares, weight, epsilon, scale, draw))
        return [[next(flat) for _ in cells] for cells in exact]

    def highest(self, levels: Sequence[noise.Level], exact: noise.Exact, *, epsilon: Number, label: str) -> int:
        """Noted level by level, each computed to the end: what the early stop may skip is no part of the draw."""
        share = Fraction(epsilon) / len(levels)
        noisy = [
            self.laplace([exact(j, None) or 0], l1_sensitivity=level.sensitivity, epsilon=share, label=label)[0]
            - level.penalty
            for j, level in enumerate(levels)
        ]
        return max(0, *noisy)

    def first_above(
        self,
        gaps: Sequence[int],
        *,
        sensitivity: Number,
        threshold_epsilon: Number,
        query_epsilon: Number,
        label: str,
        fall: Number = 0,
    ) -> int | None:
        """Noted as the index that it returns, -1 for None: the whole run is one output (composition.md §13)."""

        def draw() -> list[int]:
            index = self._real.first_above(
                gaps,
                sensitivity=sensitivity,
                threshold_epsilon=threshold_epsilon,
                query_epsilon=query_epsilon,
                label=label,
                fall=fall,
            )
            return [-1 if index is None else index]

        cost = Fraction(threshold_epsilon) + Fraction(query_epsilon)
        rise, down = Fraction(sensitivity), Fraction(fall)
        scale = float(max(rise, down) / Fraction(threshold_epsilon))
        index = self._note("first_above", label, gaps, sensitivity, cost, scale, draw)[0]
        self.draws[-1]["query_scale"] = float((rise + down) / Fraction(query_epsilon)).hex()
        self.draws[-1]["fall"] = str(down)
        return None if index < 0 else index

    def sparse_start(self, threshold: int, *, sensitivity: Number, epsilon: Number, label: str) -> int:
        """Noted with the price of its whole epoch; what it returns is state, not output, and repeated in replay."""

        def draw() -> list[int]:
            return [self._real.sparse_start(threshold, sensitivity=sensitivity, epsilon=epsilon, label=label)]

        scale = float(Fraction(sensitivity) / Fraction(epsilon))
        noisy = self._note("sparse_start", label, [threshold], sensitivity, 3 * Fraction(epsilon), scale, draw)[0]
        self.draws[-1]["threshold"] = threshold
        self._epochs[label] = noisy
        return noisy

    def sparse_test(
        self, error: int, noisy_threshold: int, *, sensitivity: Number, epsilon: Number, label: str
    ) -> bool:
        """Noted as its bit, 1 for PASS; the bits of an epoch are one output (composition.md §13), known by its label.

        paid_for: whether the threshold is the one that the epoch of this label was opened with.
        """

        def draw() -> list[int]:
            test = self._real.sparse_test
            return [int(test(error, noisy_threshold, sensitivity=sensitivity, epsilon=epsilon, label=label))]

        scale = float(Fraction(sensitivity) / Fraction(epsilon))
        bit = self._note("sparse_test", label, [error], sensitivity, 0, scale, draw)[0]
        self.draws[-1]["paid_for"] = self._epochs.get(label) == noisy_threshold
        return bool(bit)

    def _note(
        self,
        kind: str,
        label: str,
        exact: Sequence[Number],
        declared: Number,
        cost: Number,
        scale: float,
        draw: Callable[[], list[int]],
    ) -> list[int]:
        if self._frozen is None:
            output = draw()
        elif self._count < len(self._frozen):
            output = self._frozen[self._count]
        else:
            output = [0]
        cells = 1 if kind in ("select", "first_above") else len(exact)
        output = (output + [0] * cells)[:cells]
        self._count += 1
        self.draws.append(
            {
                "kind": kind,
                "label": label,
                "cells": len(exact),
                "declared": str(Fraction(declared)),
                "cost": str(Fraction(cost)),
                "scale": scale.hex(),
                "exact": [str(Fraction(value)) for value in exact],
                "output": output,
            }
        )
        return list(output)


class Prepared:
    """A prepared plan that remembers its text."""

    def __init__(self, sql: str, plan: Any) -> None:
        self.sql = sql
        self.plan = plan


class Tap:
    """Stands for plpy: the same answers, every statement with its arguments and every log line noted."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.statements: list[list[Any]] = []
        self.said: list[list[str]] = []
        self.clock: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name not in LOUD:
            return getattr(self._real, name)

        def say(*words: Any, **more: Any) -> Any:
            self.said.append([name, *map(str, words), json.dumps(more, default=str, sort_keys=True)])
            return getattr(self._real, name)(*words, **more)

        return say

    def prepare(self, sql: str, types: Sequence[str] = ()) -> Prepared:
        self.statements.append(["prepare", sql, list(types)])
        return Prepared(sql, self._real.prepare(sql, list(types)))

    def execute(self, query: Prepared | str, args: Sequence[Any] = ()) -> Any:
        sql = query if isinstance(query, str) else query.sql
        self.statements.append(["execute", sql, list(args)])
        result = self._real.execute(query) if isinstance(query, str) else self._real.execute(query.plan, list(args))
        for row in result:
            if isinstance(row, dict):
                timed = row if "clock_timestamp()" in sql else {k: row[k] for k in row if k == "as_of"}
                self.clock.update(str(value) for value in timed.values())
        return result


_undo: list[Callable[[], None]] = []
_now: dict[str, Any] = {}


def replace(owner: Any, name: str, value: Any) -> None:
    """Patch one attribute of the engine until `end`."""
    before = getattr(owner, name)
    _undo.append(lambda: setattr(owner, name, before))
    setattr(owner, name, value)


def forget() -> None:
    """What the backend keeps between calls: a fresh backend must see the same (an answer's path is public)."""
    entry.planning.forget()
    entry.catalog._limits = None
    vars(entry.families).pop("engine", None)
    for kept in (entry._plans, entry._pending, ready._facts, entry.catalog._policies, attributes._known):
        kept.clear()


def begin(document: str) -> str:
    """Start a session. `frozen`: the outputs to repeat, in order, or null to draw; `controls`: what to break."""
    order = json.loads(document)
    if _undo:
        end("")
    forget()
    engine: Any = entry
    _now.update(noise=Recorder(order["frozen"]), tap=Tap(engine.plpy))
    replace(noise, "current", lambda: _now["noise"])
    replace(engine, "plpy", _now["tap"])
    for name in order["controls"]:
        import privacy_controls  # type: ignore[import-not-found,unused-ignore]

        privacy_controls.CONTROLS[name](replace)
    return "{}"


def collect(_: str) -> str:
    """What went through the doors since the last call."""
    recorder, tap = _now["noise"], _now["tap"]
    found = {
        "draws": recorder.draws,
        "statements": tap.statements,
        "said": tap.said,
        "clock": sorted(tap.clock),
    }
    recorder.draws, tap.statements, tap.said = [], [], []
    return json.dumps(found, default=str)


def end(_: str) -> str:
    """Put the engine back as it was installed."""
    while _undo:
        _undo.pop()()
    forget()
    return "{}"


def plain(value: Any) -> Any:
    """A row, or an exact number, for JSON."""
    return int(value) if isinstance(value, Decimal) else dict(value)


def read_once(document: str) -> str:
    """A request's plan (pickled) and its exact statistics, by the engine's own steps; nothing is charged or drawn."""
    plan = entry._compile(json.loads(document))
    statistics = entry._read_statistics(plan)
    return json.dumps({"plan": base64.b64encode(pickle.dumps(plan)).decode(), "statistics": statistics}, default=plain)
