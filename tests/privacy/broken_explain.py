"""Explanations that break one rule each, for test_replay_explain.py; runs inside the server as broken_mechanisms.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pg_epsilon.explain import expressed, images, marginals, measure, priced, ranking
from pg_epsilon.noise import NoiseSource

Replace = Callable[[Any, str, Any], None]
shop: Any = priced


def unclamped_values(replace: Replace) -> None:
    """Sums of values as they are: a bound of the influence needs theirs (dpxplain.md §6.4)."""
    sound = shop.by_cells

    def statement(read: Any, *rest: Any) -> Any:
        return sound(dataclasses.replace(read, value=read.value and read.present), *rest)

    replace(priced, "by_cells", statement)


def predicates_with_rows(replace: Replace) -> None:
    """Only predicates that some row satisfies can be picked (§6.2)."""
    sound = measure.drawn

    def drawn(points: Any, *rest: Any) -> Any:
        return sound([one for one in points if one], *rest)

    replace(measure, "drawn", drawn)


def every_comparison_spends_all(replace: Replace) -> None:
    """Each comparison of a search at the price of the whole bound."""

    def comparison(search: Any, share: Any) -> Any:
        return search.budget.part(share / search.picks)

    replace(ranking.RankSearch, "comparison", comparison)


def printed_loop(replace: Replace) -> None:
    """The paper's Algorithm 4: ends that are clamped, so that it may ask without end at the first rank (§8, §10 E1)."""

    def rank_bound(above: Any, predicates: int, direction: int, margin: float) -> int:
        low, high, asked = 1, predicates, 0
        while high >= low and asked < 300:
            middle = max((low + high) // 2, 1)
            asked += 1
            if above(middle) >= direction * margin:
                high = max(middle - 1, 1)
            else:
                low = min(middle + 1, predicates)
        return high

    replace(ranking, "rank_bound", rank_bound)


def picks_with_little_noise(replace: Replace) -> None:
    """Half of a score's range of changes is what a selection needs; this one takes an eighth (§0.0, Γ)."""
    sound = ranking.top

    def top(scores: Any, k: int, *, apart: int, **rest: Any) -> Any:
        return sound(scores, k, apart=apart // 4, **rest)

    replace(measure, "top", top)


def one_row_a_user(replace: Replace) -> None:
    """Sensitivities of one row, where a unit has several."""
    replace(priced, "units_of", lambda request: 1)


def every_row_counts(replace: Replace) -> None:
    """Rows of a unit beyond its cap."""
    sound = shop.by_cells

    def statement(read: Any, *rest: Any) -> Any:
        return sound(dataclasses.replace(read, source=dataclasses.replace(read.source, kappa=10**6)), *rest)

    replace(priced, "by_cells", statement)


def draws_twice(replace: Replace) -> None:
    """A second table from the same budget."""
    sound = measure.drawn

    def drawn(*asked: Any) -> Any:
        sound(*asked)
        return sound(*asked)

    replace(measure, "drawn", drawn)


def true_order(replace: Replace) -> None:
    """The rank is looked up, without noise."""

    def interval(search: Any, score: int, ordered: Any, noise: Any, label: str) -> tuple[int, int]:
        return ordered.index(score) + 1, ordered.index(score) + 1

    replace(ranking.RankSearch, "interval", interval)


def limits_that_are_not_nested(replace: Replace) -> None:
    """Any limits that hold are not enough (§10, E12): these are wider, by how much depends on the number of rows."""
    sound = expressed.Influences.limits

    def limits(found: Any, away: int) -> Any:
        wide = away * 0.01 * (1 + int(found.whole[0].rows) % 7)
        own = sound(found, away)
        return images.Ends(own.low - wide, own.high + wide)

    replace(expressed.Influences, "limits", limits)


def one_set_of_several(replace: Replace) -> None:
    """Marginals with the noise of a single one, in which each row is once (§0, method)."""
    replace(marginals.Marginals, "l2_squared", property(lambda how: (how.units * how.reach) ** 2))


def one_number_of_a_pair(replace: Replace) -> None:
    """The noise of a sum less its centre, which one row moves by half of the range, for both numbers of an average."""
    replace(marginals.Marginals, "l2_squared", property(lambda how: how.sets * (how.units * how.reach) ** 2 // 2))


def cells_twice(replace: Replace) -> None:
    """A second release of all cells from the same budget."""
    sound = marginals.core

    def core(*asked: Any) -> Any:
        sound(*asked)
        return sound(*asked)

    replace(marginals, "core", core)


def groups_from_data(replace: Replace) -> None:
    """The first group is whichever has more rows, where the comparison's own order is public (§6.3)."""
    sound = measure.scores

    def scores(kind: Any, weights: Any, cells: Any, steps: Any) -> Any:
        larger_first = cells.rows[0] >= cells.rows[-1]
        return sound(kind, weights if larger_first else [-one for one in weights], cells, steps)

    replace(measure, "scores", scores)


def rates_for_scales(replace: Replace) -> None:
    """The rate of the noise is given where its scale belongs, as libraries differ in what they take (§6.6)."""

    def noisy(budget: Any, exact: Any, moved: int, noise: NoiseSource, label: str) -> Any:
        l1 = len(exact) * moved
        return noise.laplace(exact, l1_sensitivity=l1, epsilon=1 / budget.epsilon, label=label)

    replace(ranking.Budget, "noisy", noisy)


CONTROLS = {
    one.__name__: one
    for one in (
        unclamped_values,
        predicates_with_rows,
        every_comparison_spends_all,
        printed_loop,
        picks_with_little_noise,
        one_row_a_user,
        every_row_counts,
        draws_twice,
        true_order,
        limits_that_are_not_nested,
        one_set_of_several,
        one_number_of_a_pair,
        cells_twice,
        groups_from_data,
        rates_for_scales,
    )
}
