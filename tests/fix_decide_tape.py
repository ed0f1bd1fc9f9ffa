"""Deciders under audit without a database: a tape of what they draw, neighbours, and the loss.

Source: composition.md §13.

`Tape` notes draws in the form of tests/privacy/recorder.py, so that tests/privacy/replay.py prices them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from pg_epsilon.accounting.charges import total_pure
from pg_epsilon.accounting.margins import laplace_scale
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.noise import Noise
from privacy.replay import _sensitivity, loss_of

Cell = Sequence[Any]


class Tape:
    """A noise source that draws (or repeats frozen outputs) and notes every argument of every draw."""

    def __init__(self, frozen: Sequence[list[int]] | None = None) -> None:
        self._frozen = None if frozen is None else iter(frozen)
        self.draws: list[dict[str, Any]] = []

    @property
    def outputs(self) -> list[list[int]]:
        return [draw["output"] for draw in self.draws]

    def _note(
        self, kind: str, exact: Sequence[Any], declared: Any, cost: Any, scale: float, draw: Callable[[], list[int]]
    ) -> list[int]:
        output = draw() if self._frozen is None else next(self._frozen)
        facts = {"kind": kind, "declared": Fraction(declared), "cost": Fraction(cost), "scale": scale.hex()}
        self.draws.append({**facts, "exact": list(map(Fraction, exact)), "output": output})
        return output

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Any, epsilon: Any, label: str) -> list[int]:
        def draw() -> list[int]:
            return Noise().laplace(exact, l1_sensitivity=l1_sensitivity, epsilon=epsilon, label=label)

        return self._note("laplace", exact, l1_sensitivity, epsilon, laplace_scale(l1_sensitivity, epsilon), draw)

    def select(self, scores: Sequence[Any], *, sensitivity: Any, epsilon: Any, label: str) -> int:
        def draw() -> list[int]:
            return [Noise().select(scores, sensitivity=sensitivity, epsilon=epsilon, label=label)]

        scale = float(2 * Fraction(sensitivity) / Fraction(epsilon))
        return self._note("select", scores, sensitivity, epsilon, scale, draw)[0]

    def select_in_runs(
        self, sizes: Sequence[int], scores: Sequence[Any], *, sensitivity: Any, epsilon: Any, label: str
    ) -> int:
        each = [score for size, score in zip(sizes, scores, strict=True) for _ in range(size)]
        return self.select(each, sensitivity=sensitivity, epsilon=epsilon, label=label)

    def first_above(
        self, gaps: Sequence[int], *, sensitivity: Any, threshold_epsilon: Any, query_epsilon: Any, label: str
    ) -> int | None:
        shares: dict[str, Any] = {"threshold_epsilon": threshold_epsilon, "query_epsilon": query_epsilon}

        def draw() -> list[int]:
            index = Noise().first_above(gaps, sensitivity=sensitivity, **shares, label=label)
            return [-1 if index is None else index]

        scale, query = (float(Fraction(sensitivity) / Fraction(share)) for share in shares.values())
        cost = sum(map(Fraction, shares.values()))
        index = self._note("first_above", gaps, sensitivity, cost, scale, draw)[0]
        self.draws[-1]["query_scale"] = query.hex()
        return None if index < 0 else index


class Fixed:
    """A noise source that adds nothing and notes the keyword arguments of every draw: the decision without noise."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def laplace(self, exact: Sequence[int], **how: Any) -> list[int]:
        self.asked.append({"exact": list(exact), **how})
        return list(exact)

    def select(self, scores: Sequence[Any], **how: Any) -> int:
        self.asked.append({"scores": list(scores), **how})
        return max(range(len(scores)), key=lambda i: scores[i])

    def select_in_runs(self, sizes: Sequence[int], scores: Sequence[Any], **how: Any) -> int:
        self.asked.append({"sizes": list(sizes), "scores": list(scores), **how})
        best = max(range(len(scores)), key=lambda i: scores[i])
        return sum(sizes[:best])

    def first_above(self, gaps: Sequence[int], **how: Any) -> int | None:
        self.asked.append({"gaps": list(gaps), **how})
        return next((i for i, gap in enumerate(gaps) if gap >= 0), None)


def violations(measure: Measure, cell: Cell, other: Cell) -> list[str]:
    """What one session on `cell`, replayed on its neighbour with frozen outputs, shows: by tests/privacy/replay.py.

    sensitivity: a draw's exact values differ by more than declared (or gaps not in one direction); price: the draws
    were declared dearer than the measure's charge; loss: the realised losses add up to more than that; answers: the
    bit differs although all noisy values are the same; draws: others than before.
    """
    one = Tape()
    answer = measure.release([cell], one, "x")  # type: ignore[arg-type]
    two = Tape(one.outputs)
    again = measure.release([other], two, "x")  # type: ignore[arg-type]
    shapes = [[(d["kind"], d["declared"], d["cost"], d["scale"], len(d["exact"])) for d in t.draws] for t in (one, two)]
    if shapes[0] != shapes[1]:
        return ["draws"]
    pairs = list(zip(one.draws, two.draws, strict=True))
    paid = Fraction(total_pure(measure.charges())[0])
    found = {
        "answers": list(answer) != list(again),
        "sensitivity": any(_sensitivity(a, b) > a["declared"] for a, b in pairs),
        "price": sum(d["cost"] for d in one.draws) > paid,
        "loss": sum(loss_of(a, b).epsilon for a, b in pairs) > paid,
    }
    return [name for name, broken in found.items() if broken]


def ladder(values: Sequence[int], levels: int) -> list[int]:
    """c_1 … c_L, S_1 … S_L."""
    kept = [[v for v in values if v <= 2**j] for j in range(1, levels + 1)]
    return [*map(len, kept), *map(sum, kept)]


def ranks(values: Sequence[int], low: Any, high: Any) -> list[int]:
    """n, q1, q2."""
    return [len(values), sum(v <= low for v in values), sum(v >= high for v in values)]
