"""Deciders that break one rule each: what test_decide_replay.py must catch. Runs inside the server.

Each control says which session shows it, which of its questions (a part of their text), and by which rule of
replay.py it must be caught.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from pg_epsilon.accounting.charges import share
from pg_epsilon.decide import bits, ranks, sums, synthetic
from pg_epsilon.decide import choice as choice_module
from pg_epsilon.mechanisms import additive, covering, r2t
from pg_epsilon.mechanisms.grain import FINEST

Replace = Callable[[Any, str, Any], None]
choice: Any = choice_module


class Control(NamedTuple):
    """A decider that breaks a rule. place: of the question of the session that it is seen by."""

    session: str
    place: int
    rule: str
    breaks: Callable[[Replace], None]

    def __call__(self, replace: Replace) -> None:
        self.breaks(replace)


def _engine() -> Any:
    from pg_epsilon import entry

    return entry


def _rewrite(replace: Replace, pattern: str, into: str) -> None:
    """Every statistics statement with `pattern` replaced."""
    from pg_epsilon import plan

    planner: Any = plan
    sound = planner.statement
    replace(planner, "statement", lambda *facts: re.sub(pattern, into, sound(*facts)))


def raw_exponentials(replace: Replace) -> None:
    """EM_count by exp of the raw scores, as in the paper's prototype: where they overflow, a fair coin (§2.5)."""

    def core(count: int, how: Any, noise: Any, label: str) -> int:
        off = abs(count - how.target)
        near = max(Fraction(0), 1 - off / (2 * how.tau))
        scores = [1 - near, near]
        if max(scores) * Fraction(how.epsilon) * how.tau >= TOO_LARGE:
            scores = [Fraction(0), Fraction(0)]
        moved = 1 / (2 * how.tau)
        answer: int = noise.select(scores, sensitivity=moved, epsilon=how.epsilon, label=label)
        return answer

    replace(bits, "core", core)


TOO_LARGE = Fraction(709)


def values_not_clamped(replace: Replace) -> None:
    """Integers are summed as they are, beyond their declared bounds too (§2.2)."""
    from pg_epsilon.query import bounds

    engine: Any = bounds
    sound = engine.lattice_sql

    def sql(expression: Any, *facts: Any) -> str:
        plain = expression.kind is engine.Kind.INT and len(expression.columns) == 1
        return f"({expression.sql})::pg_catalog.int8" if plain else sound(expression, *facts)

    replace(engine, "lattice_sql", sql)


def threshold_drawn_twice(replace: Replace) -> None:
    """Each loop of SVT_sum with a threshold noise of its own (§5.4)."""

    def sparse(cell: Sequence[int], how: Any, noise: Any, label: str) -> int:
        loops = [noise.first_above(gaps, **_run(how, label)) for gaps in _loops(cell, how)]
        return int(loops[0] is None and loops[1] is not None)

    replace(sums, "sparse", sparse)


def _loops(cell: Sequence[int], how: Any) -> list[list[int]]:
    count, unit = len(how.levels), max(how.levels[-1], FINEST)
    ends = math.ceil(how.high), math.floor(how.low) + 1
    steps = list(zip(cell[count:], how.levels, strict=True))
    return [[(total - end) * (unit // t) for total, t in steps] for end in ends]


def _run(how: Any, label: str) -> dict[str, Any]:
    unit = max(how.levels[-1], FINEST)
    return {"sensitivity": unit, "threshold_epsilon": how.part, "query_epsilon": how.part, "label": label}


def goes_on_after_a_positive(replace: Replace) -> None:
    """SVT_sum goes on after its run, whatever it found: another one for what is left (or all), at no charge (§5.4)."""

    def sparse(cell: Sequence[int], how: Any, noise: Any, label: str) -> int:
        first, second = _loops(cell, how)
        gaps = first + second
        index = noise.first_above(gaps, **_run(how, label))
        again = noise.first_above(gaps[(index or 0) + 1 :] or gaps, **_run(how, label))
        return int(index is not None and index >= len(first) and again is None)

    replace(sums, "sparse", sparse)


def negative_rows_in_svt(replace: Replace) -> None:
    """SVT_sum of values below 0: sums that a row lowers beside sums that it raises (§2.3)."""

    _rewrite(replace, r"< 0 THEN 0 WHEN", "< -60 THEN -60 WHEN")


def floor_from_the_data(replace: Replace) -> None:
    """R2T's floor is read from D, not the constant 0 (erratum 7): here the exact sum itself."""
    sound = r2t.core

    def core(exact: Sequence[Sequence[int]], *facts: Any) -> list[tuple[int, ...]]:
        return [tuple(max(y, cell[-1]) for y in noisy) for cell, noisy in zip(exact, sound(exact, *facts), strict=True)]

    replace(r2t, "core", core)


def real_logarithm(replace: Replace) -> None:
    """R2T's noise for log2(GS) levels, a real number, where there are its ceiling (§5.2)."""

    def share_of(ladder: Any) -> Fraction:
        return Fraction(ladder.epsilon) / Fraction(math.log2(max(ladder.sides) / ladder.levels[0] * 2))

    replace(r2t.Ladder, "share", property(share_of))


def geo_with_cut_values(replace: Replace) -> None:
    """r2t_geo's noise on values cut at a threshold instead of left out: each moves every level (§2.5)."""
    sound = choice.Statistic

    def statistic(*facts: Any, **more: Any) -> Any:
        return sound(*facts, **{**more, "drop": False})

    replace(choice, "Statistic", statistic)


def bound_with_exact_rows(replace: Replace) -> None:
    """PrivateBoundDS with theta n instead of theta n~: thresholds that the row moves too (§5.3)."""

    def bound(counts: Sequence[int], how: Any, noise: Any, label: str) -> int:
        part, grain, n = how.part, how.grain, counts[-1]
        noise.laplace([grain * n], l1_sensitivity=grain, epsilon=part, label=f"{label} n")
        a, b = Fraction(how.theta).as_integer_ratio()
        gaps = [grain * (b * count - a * n) for count in counts]
        index = noise.first_above(gaps, sensitivity=b * grain, threshold_epsilon=part, query_epsilon=part, label=label)
        return len(counts) if index is None else index + 1

    replace(covering, "bound", bound)


def tau_of_zero(replace: Replace) -> None:
    """Hist_med with l = r: a row at the synthetic median is in both counts (§2.1)."""
    replace(choice.Interval, "low", property(lambda interval: interval.answer))
    replace(choice.Interval, "high", property(lambda interval: interval.answer))


def one_row_in_hist(replace: Replace) -> None:
    """Hist_med's noise for one row of a user, who has more (composition.md §14.8)."""
    sound = choice.Hist
    replace(choice, "Hist", lambda fraction, rows, epsilon: sound(fraction, 1, epsilon))


def sides_in_parallel(replace: Replace) -> None:
    """Hist_med for users at L1 sensitivity rows + 1: "n, and either q1 or q2", as if a user had rows on one side."""

    def hist(cell: Sequence[int], how: Any, noise: Any, label: str) -> int:
        grain = how.grain
        fine = [grain * value for value in cell]
        n, q1, q2 = noise.laplace(fine, l1_sensitivity=(how.rows + 1) * grain, epsilon=how.epsilon, label=label)
        return int(2 * q1 < n and 2 * q2 < n)

    replace(ranks, "hist", hist)


def one_row_in_em(replace: Replace) -> None:
    """EM_count's log-odds for one row of a user, who has more (composition.md §14.8)."""
    sound = choice.Bit
    replace(choice, "Bit", lambda target, tau, rows, epsilon, form: sound(target, tau, 1, epsilon, form))


def tight_for_users(replace: Replace) -> None:
    """EM_med scaled for one row of a user, who has more."""
    sound = choice.Ranks

    def ranks_(size: int, fraction: Any, rows: int, *rest: Any) -> Any:
        return sound(size, fraction, 1, *rest)

    replace(choice, "Ranks", ranks_)


def few_rows_count_as_one(replace: Replace) -> None:
    """An average of fewer rows than 31 is over one row: the exact number decides."""
    sound = additive.core

    def core(exact: Sequence[int], how: Any, noise: Any, label: str) -> list[int]:
        noisy = sound(exact, how, noise, label)
        few = label == "a2" and exact[0] < 31 * (how.l1 or 1)
        return [0 for _ in noisy] if few else noisy

    replace(additive, "core", core)


def few_rows_draw_nothing(replace: Replace) -> None:
    """An average of fewer rows than 31 is not drawn for."""
    sound = additive.core

    def core(exact: Sequence[int], how: Any, noise: Any, label: str) -> list[int]:
        if label == "a2" and exact[0] < 31 * (how.l1 or 1):
            return [0]
        return sound(exact, how, noise, label)

    replace(additive, "core", core)


def returned_by_the_count(replace: Replace) -> None:
    """What was reserved is given back if the exact count is odd, whatever the released bit is (composition.md §4)."""
    engine = _engine()
    sound_read, last = engine._read_statistics, [0]

    def read(plan: Any) -> Any:
        found = sound_read(plan)
        last[0] = int(next(iter(found))["a1"])
        return found

    replace(engine, "_read_statistics", read)
    replace(choice.Drawn, "unused", lambda drawn, raw: drawn.reserved if last[0] % 2 else ())


def returned_always(replace: Replace) -> None:
    """The fallback's price is given back although the fallback was drawn."""
    replace(choice.Drawn, "unused", lambda drawn, raw: drawn.reserved)


def fallback_by_the_truth(replace: Replace) -> None:
    """The answer is drawn if the bound is truly unmet, whatever the noisy bit says."""
    from pg_epsilon.decide import estimator

    engine: Any = estimator
    sound = engine.Reserved.release

    def release(reserved: Any, exact: Any, noise: Any, label: str) -> Any:
        (cell,) = exact
        ((bit, *found),) = sound(reserved, exact, noise, label)
        if bit == 1 and cell[0] % 2:
            start = reserved.decider.width
            for measure in reserved.answer:
                measure.release([cell[start : start + measure.width]], noise, label)
                start += measure.width
        return [(bit, *found)]

    replace(engine.Reserved, "release", release)


def bound_of_the_data(replace: Replace) -> None:
    """LM_sum with noise for the largest sum that was found instead of the declared bound (GS read from D, §2.1)."""
    sound = additive.core

    def core(exact: Sequence[int], how: Any, noise: Any, label: str) -> list[int]:
        return sound(exact, dataclasses.replace(how, l1=max(1, *map(abs, exact))), noise, label)

    replace(additive, "core", core)


def distance_in_the_notice(replace: Replace) -> None:
    """The sentence of a decision says how far the exact count is off."""
    engine = _engine()
    sound_read, sound_answer, last = engine._read_statistics, engine._answer, [0]

    def read(plan: Any) -> Any:
        found = sound_read(plan)
        last[0] = int(next(iter(found))["a1"])
        return found

    def answer(*facts: Any) -> dict[str, Any]:
        found: dict[str, Any] = sound_answer(*facts)
        for one in found.get("decisions", ()):
            one["warning"] = f"the true distance is {abs(last[0] - 20)}"
        return found

    replace(engine, "_read_statistics", read)
    replace(engine, "_answer", answer)


def mechanism_by_the_data(replace: Replace) -> None:
    """`auto` takes EM_count where the true count is near: another plan, another draw."""
    planner: Any = choice.planner
    engine, sound = _engine(), planner.recommend

    def recommend(facts: Any) -> Any:
        (found,) = engine.plpy.execute("SELECT count(*) % 2 AS n FROM decide.fare")
        return "em" if found["n"] and facts.aggregate == "count" else sound(facts)

    replace(planner, "recommend", recommend)


def synthetic_answer_of_the_data(replace: Replace) -> None:
    """q of the synthetic table falls back on the private one where the copy has no row."""
    engine = _engine()
    sound = synthetic.answers

    def answers(found: Any, request: Any) -> Any:
        (row,) = engine.plpy.execute("SELECT count(*) AS n FROM decide.fare")
        return tuple(Fraction(row["n"]) if a == 0 else a for a in sound(found, request))

    replace(synthetic, "answers", answers)


def half_of_the_split(replace: Replace) -> None:
    """SVT_sum improved with a half for the bound and a half for each noise: more than the whole (§7)."""
    replace(sums.Sparse, "part", property(lambda how: share(how.epsilon, 2)))


CONTROLS: dict[str, Control] = {
    f"{breaks.__name__} {session} {rule}": Control(session, place, rule, breaks)
    for session, place, rule, breaks in [
        ("fare", 24, "sensitivity", raw_exponentials),
        ("fare", 6, "sensitivity", values_not_clamped),
        ("fare", 9, "price", threshold_drawn_twice),
        ("fare", 9, "price", goes_on_after_a_positive),
        ("fare", 9, "sensitivity", negative_rows_in_svt),
        ("fare", 7, "answers", floor_from_the_data),
        ("fare", 7, "price", real_logarithm),
        ("fare", 8, "sensitivity", geo_with_cut_values),
        ("fare", 40, "sensitivity", bound_with_exact_rows),
        ("fare", 10, "price", half_of_the_split),
        ("fare", 30, "sensitivity", tau_of_zero),
        ("guild", 7, "sensitivity", one_row_in_hist),
        ("guild", 7, "sensitivity", sides_in_parallel),
        ("guild", 2, "sensitivity", one_row_in_em),
        ("guild", 8, "sensitivity", tight_for_users),
        ("fare", 17, "answers", few_rows_count_as_one),
        ("fare", 17, "draws", few_rows_draw_nothing),
        ("fare", 32, "accounts", returned_by_the_count),
        ("fare", 33, "price", returned_always),
        ("fare", 32, "draws", fallback_by_the_truth),
        ("fare", 6, "draws", bound_of_the_data),
        ("fare", 0, "answers", distance_in_the_notice),
        ("fare", 22, "draws", mechanism_by_the_data),
        ("fare", 25, "plans", synthetic_answer_of_the_data),
    ]
}
