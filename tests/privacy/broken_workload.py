"""Workloads that break one rule each, for test_replay_workload.py; runs inside the server as broken_mechanisms.py."""

from __future__ import annotations

import dataclasses
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from pg_epsilon import plan
from pg_epsilon.mechanisms.matrix import lattice, strategies
from pg_epsilon.workload import batch, choice, designs, found, running, thresholds

Replace = Callable[[Any, str, Any], None]
parts: Any = choice


def every_query_spends_all(replace: Replace) -> None:
    """The paper's Algorithms 2 and 3: p queries at the whole budget each (sum-workloads.md §12, 1)."""

    def one_query(drawn: Any) -> int:
        each = (max(abs(entry) * drawn.weights[column] for column, entry in row) for row in drawn.rows)
        return max(each, default=1)

    replace(lattice.LatticeStrategy, "l1", property(one_query))


def signed_column_sums(replace: Replace) -> None:
    """A sensitivity without absolute values (§12, 6): of [-3, 1] it is that of the 1."""

    def plain(drawn: Any) -> int:
        sums = [0] * len(drawn.weights)
        for row in drawn.rows:
            for column, entry in row:
                sums[column] += entry
        return max(1, *(t * total for t, total in zip(drawn.weights, sums, strict=True)))

    replace(lattice.LatticeStrategy, "l1", property(plain))
    replace(strategies, "tightened", lambda strategy, **_: strategy)
    replace(found, "_remembered", OrderedDict())  # of sound strategies


def answers_twice(replace: Replace) -> None:
    """The paper's Algorithm 9: a second release from the same budget (§12, 2)."""
    sound = batch.cores

    def cores(texts: Any, how: Any, noise: Any, label: str) -> list[list[int]]:
        sound(texts, how, noise, label)
        return sound(texts, how, noise, label)

    replace(batch, "cores", cores)


def threshold_for_all(replace: Replace) -> None:
    """The paper's Algorithm 4: the threshold is chosen at the whole budget, and its share is charged (§12, 3)."""
    sound = thresholds.Threshold.choose

    def choose(how: Any, *exact: Any) -> int:
        whole = dataclasses.replace(how, epsilon=how.epsilon and how.epsilon * 10)
        return sound(whole, *exact)

    replace(thresholds.Threshold, "choose", choose)


def monotone_threshold(replace: Replace) -> None:
    """The gaps f - rN fall as well as rise; the sparse vector is told that they only rise (§0, §5.1)."""
    sound = thresholds._gaps

    class Monotone:
        def __init__(self, noise: Any) -> None:
            self.noise = noise

        def first_above(self, gaps: Sequence[int], **how: Any) -> Any:
            return self.noise.first_above(gaps, **{**how, "fall": 0})

    choices = dict(thresholds._CHOICES)
    svt = choices["svt"]
    choices["svt"] = lambda how, below, rows, noise, label: svt(how, below, rows, Monotone(noise), label)
    replace(thresholds, "_CHOICES", choices)
    replace(thresholds, "_gaps", sound)


def one_row_a_user(replace: Replace) -> None:
    """Users own several rows, and the noise is scaled for one (composition.md §2.2)."""
    sound = choice.Batch
    replace(parts, "Batch", lambda workload, ways, units, *rest: sound(workload, ways, 1, *rest))


def rows_in_different_buckets(replace: Replace) -> None:
    """Gaussian noise: a user's rows are taken to be in buckets of their own, where all may be in one: units for its
    square (composition.md §2.2)."""
    replace(batch.Batch, "units_squared", property(lambda how: how.units))


def every_query_spends_all_of_rho(replace: Replace) -> None:
    """The same as `every_query_spends_all`, of the L2 norm."""

    def one_query(drawn: Any) -> int:
        each = (max(abs(entry) * drawn.weights[column] for column, entry in row) ** 2 for row in drawn.rows)
        return max(each, default=1)

    replace(lattice.LatticeStrategy, "l2_squared", property(one_query))


def one_group_a_user(replace: Replace) -> None:
    """Groups are taken for disjoint, as they are for rows: a user stands in several (composition.md §2.4)."""
    sound = choice._units
    replace(choice, "_units", lambda request, workload: 1 if request.keys else sound(request, workload))


def every_row_counts(replace: Replace) -> None:
    """The cap on a user's rows is declared and not enforced (composition.md §2.3)."""
    sound = parts.statement
    replace(parts, "statement", lambda *facts: re.sub(r" WHERE n <= \d+", "", sound(*facts)))


def overlapping_buckets(replace: Replace) -> None:
    """The paper's bins overlap: a row at an edge counts in two (§12, 5)."""
    sound = batch._blocks

    def blocks(workload: Any, edges: Any, cells: Any, theta: int) -> Any:
        own = sound(workload, edges, cells, theta)
        return [
            (count + before[0], total + before[1])
            for (count, total), before in zip(own, [(0, 0), *own[:-1]], strict=True)
        ]

    replace(batch, "_blocks", blocks)


def strategy_from_data(replace: Replace) -> None:
    """The design is chosen by what is in the buckets."""
    sound = batch.Batch.best
    seen: dict[str, int] = {}
    blocks = batch._blocks

    def noted(*facts: Any) -> Any:
        cells = blocks(*facts)
        seen["rows"] = sum(count for count, _ in cells)
        return cells

    def best(how: Any, theta: int) -> Any:
        listed = designs.designs(how.workload, theta, gaussian=how.gaussian)
        return listed[seen.get("rows", 0) % len(listed)] if "rows" in seen else sound(how, theta)

    replace(batch, "_blocks", noted)
    replace(batch.Batch, "best", best)


def groups_of_small_values(replace: Replace) -> None:
    """Running sums: the noise is scaled for values of 1 in every group."""
    sound = running.on_lattice
    replace(running, "on_lattice", lambda strategy, weights, rows: sound(strategy, [1] * len(weights), rows))


def totals_of_one_row(replace: Replace) -> None:
    """Nested sums of users: a total is clamped to several rows, the noise is scaled for one (composition.md §2.2)."""
    sound = parts.nested

    def one_row(workload: Any, reads: Any) -> Any:
        found = sound(workload, reads)
        if found is None:
            return None
        whole, read = found
        one = dataclasses.replace(whole.lattice, high=workload.lattice.high)
        return dataclasses.replace(whole, lattice=one), read

    replace(parts, "nested", one_row)


def totals_not_clamped(replace: Replace) -> None:
    """per => 'user': a user's total goes into its bucket as it is, beyond her declared bound too (sum-workloads.md §0).

    Above, nothing follows: whatever lies beyond the last edge is in the last cell, which sums a bound for each of its
    totals (`summands_not_clamped`). Below, the first cell sums what it holds."""
    sound = parts.statement
    pattern = r"LEAST\(GREATEST\(sum\(v\), -?\d+\), -?\d+\)::pg_catalog\.int8 AS v"
    replace(parts, "statement", lambda *facts: re.sub(pattern, "sum(v)::pg_catalog.int8 AS v", sound(*facts)))


def summands_not_clamped(replace: Replace) -> None:
    """per => 'user': what lies above the bound is told apart, as it must be, and summed as it is told."""

    def blocks(workload: Any, edges: Any, cells: Any, theta: int) -> Any:
        found = [(0, 0)] * workload.blocks
        block = 0
        for (count, total), high in zip(cells, edges[1:], strict=True):
            while block < workload.blocks and high > workload.cuts[block + 1]:
                block += 1
            if block < workload.blocks:
                found[block] = found[block][0] + count, found[block][1] + total
        return found

    replace(batch, "_blocks", blocks)


def neither_clamped(replace: Replace) -> None:
    """Both: a user contributes all he has."""
    totals_not_clamped(replace)
    summands_not_clamped(replace)


def nested_totals_not_clamped(replace: Replace) -> None:
    """Nested sums of plain SQL: a user contributes to each all he has (composition.md §2.3)."""
    planner: Any = plan
    sound = planner.statement
    pattern = r"LEAST\(GREATEST\((coalesce\(.*?\)), -?\d+\), -?\d+\)::pg_catalog\.int8 AS n"
    replace(planner, "statement", lambda *facts: re.sub(pattern, r"\1::pg_catalog.int8 AS n", sound(*facts)))


def running_of_one_row(replace: Replace) -> None:
    """Running sums: several rows of a user count, and the noise is scaled for one (composition.md §2.2)."""
    sound = running.RunningSums
    replace(running, "RunningSums", lambda *facts: sound(*facts[:-1], 1))


def a_row_in_every_group(replace: Replace) -> None:
    """Every group is shown the sums of all rows, and the noise is scaled for a row in one (sum-workloads.md §8.6)."""
    sound = batch.cores

    def cores(texts: Any, how: Any, noise: Any, label: str) -> list[list[int]]:
        cells: dict[str, tuple[int, int]] = {}
        for part in ";".join(text for text in texts if text).split(";"):
            cell, rows, total = part.split() if part else ("0", "0", "0")
            before = cells.get(cell, (0, 0))
            cells[cell] = before[0] + int(rows), before[1] + int(total)
        whole = ";".join(f"{cell} {rows} {total}" for cell, (rows, total) in cells.items())
        return sound([whole for _ in texts], how, noise, label)

    replace(batch, "cores", cores)


CONTROLS: dict[str, Callable[[Replace], None]] = {
    breaks.__name__: breaks
    for breaks in (
        every_query_spends_all,
        signed_column_sums,
        answers_twice,
        threshold_for_all,
        monotone_threshold,
        one_row_a_user,
        rows_in_different_buckets,
        every_query_spends_all_of_rho,
        one_group_a_user,
        every_row_counts,
        overlapping_buckets,
        strategy_from_data,
        groups_of_small_values,
        a_row_in_every_group,
        totals_of_one_row,
        totals_not_clamped,
        summands_not_clamped,
        neither_clamped,
        nested_totals_not_clamped,
        running_of_one_row,
    )
}
