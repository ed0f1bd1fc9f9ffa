"""Engines that break one rule each: what the audit by replay must catch. Runs inside the server, as recorder.py does.

Each control says which dataset's session shows it and which rule of replay.py it must be caught by, and patches the
engine through `replace(owner, name, value)`, which `end` undoes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from pg_epsilon import noise as door
from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.filters import Leaves
from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.mechanisms import additive, group_by
from pg_epsilon.query import origin as origin_module
from pg_epsilon.query.partition import Partitions

Replace = Callable[[Any, str, Any], None]
Rows = list[dict[str, Any]]


class Control(NamedTuple):
    """An engine that breaks a rule. call: the question of the dataset's session that it is seen by."""

    dataset: str
    rule: str
    call: str
    breaks: Callable[[Replace], None]

    def __call__(self, replace: Replace) -> None:
        self.breaks(replace)


origins: Any = origin_module


def _engine() -> Any:
    from pg_epsilon import entry

    return entry


def _planner() -> Any:
    from pg_epsilon import plan

    return plan


def _rewrite(replace: Replace, pattern: str, into: str) -> None:
    """Every statistics statement with `pattern` replaced."""
    planner = _planner()
    sound = planner.statement
    replace(planner, "statement", lambda *facts: re.sub(pattern, into, sound(*facts)))


def charged_once(replace: Replace) -> None:
    """A user in five groups is charged as if he were in one ("disjoint, so parallel": composition.md §2.4)."""
    from pg_epsilon import choice

    engine: Any = choice
    sound = engine.Share.additive
    replace(engine.Share, "additive", lambda share, l1, l2_squared=None: sound(share, 1, 1))


def cell_by_cell(replace: Replace) -> None:
    """Each group's users are a draw of their own, of sensitivity 1: right draw by draw, and charged once (§13)."""
    sound = additive.core

    def core(exact: Sequence[int], how: Any, source: Any, label: str) -> list[int]:
        if how.l1 != how.l2_squared:
            return sound(exact, how, source, label)
        single = dataclasses.replace(how, l1=1, l2_squared=1)
        return [sound([value], single, source, label)[0] for value in exact]

    replace(additive, "core", core)


def every_row_counts(replace: Replace) -> None:
    """Rows of users are counted without their declared cap."""
    planner = _planner()
    sound = planner.statement

    def statement(*facts: Any) -> str:
        uncapped = re.sub(r"LEAST\((count\(.*?\)(?: FILTER \(WHERE .*?\))?), \d+\) AS n", r"\1 AS n", sound(*facts))
        return re.sub(r"WHERE rn <= \d+", "WHERE rn <= 1000000", uncapped)

    replace(planner, "statement", statement)


def values_not_clamped(replace: Replace) -> None:
    """Integers are summed as they are, beyond their declared bounds too."""
    from pg_epsilon.query import bounds

    engine: Any = bounds
    sound = engine.lattice_sql

    def sql(expression: Any, *facts: Any) -> str:
        plain = expression.kind is engine.Kind.INT and len(expression.columns) == 1
        return f"({expression.sql})::pg_catalog.int8" if plain else sound(expression, *facts)

    replace(engine, "lattice_sql", sql)


def totals_not_clamped(replace: Replace) -> None:
    """A user contributes all he has, whatever his declared bound."""
    _rewrite(replace, r"LEAST\(GREATEST\((coalesce\(.*?\)), -?\d+\), -?\d+\)::pg_catalog\.int8 AS n", r"\1 AS n")


def average_not_centred(replace: Replace) -> None:
    """The sum of an average is noised as if about the middle of the range, and read about 0."""
    _rewrite(replace, r" - 60\)", " - 0)")


def one_level_off(replace: Replace) -> None:
    """Every sum of R2T's ladder is cut at the threshold above the one that its noise is for."""
    from pg_epsilon import choice

    engine: Any = choice
    sound = engine._sides
    replace(engine, "_sides", lambda ladder: tuple((*side[1:], 2 * side[-1]) for side in sound(ladder)))


def signs_in_parallel(replace: Replace) -> None:
    """Positive and negative parts of a user's sum are charged as if he had one of them (§2.4)."""
    from pg_epsilon import choice

    engine: Any = choice
    sound = engine.Ladder
    replace(engine, "Ladder", lambda *facts: dataclasses.replace(sound(*facts), joint=1))


def one_row_of_each(replace: Replace) -> None:
    """A quantile's score is scaled for one row of a user, who has more."""
    from pg_epsilon.mechanisms import quantile

    engine: Any = quantile
    replace(engine, "sensitivity", lambda fraction, rows, tight=True: max(fraction, 1 - fraction))


def cap_by_limit(replace: Replace) -> None:
    """The cap keeps the first rows of the whole table: one unit's going moves another's rows in (§2.3)."""
    _rewrite(replace, r"row_number\(\) OVER \(PARTITION BY u ORDER BY o\) AS rn", "row_number() OVER () / 8 AS rn")


def nobody_counts(replace: Replace) -> None:
    """Rows that lead to no unit are counted: nobody pays for them (§1.3)."""
    _rewrite(replace, r'r\."customer_id" IS NOT NULL', "true")


def noise_for_full_groups_only(replace: Replace) -> None:
    """Only groups with rows are drawn for: the number of draws tells how many there are."""

    def core(statistics: Mapping[Any, Sequence[int]], domains: Any, how: Any, source: Any) -> list[list[int]]:
        there = [group for group in group_by.groups(domains) if group in statistics]
        noisy = [additive.core([statistics[g][i] for g in there], m, source, f"a{i + 1}") for i, m in enumerate(how)]
        found = {g: [column[j] for column in noisy] for j, g in enumerate(there)}
        return [found.get(group, [0] * len(how)) for group in group_by.groups(domains)]

    replace(group_by, "core", core)


def zeros_stay_zero(replace: Replace) -> None:
    """Every cell is drawn for, but an empty group is answered by 0."""

    def core(exact: Sequence[int], how: Any, source: Any, label: str) -> list[int]:
        noisy = sound(exact, how, source, label)
        return [y if x else 0 for x, y in zip(exact, noisy, strict=True)]

    sound = additive.core
    replace(additive, "core", core)


def keys_from_the_data(replace: Replace) -> None:
    """The groups of the answer are those that have rows."""
    engine = _engine()
    sound_read, sound_answer, there = engine._read_statistics, engine._answer, set()

    def read(plan: Any) -> Rows:
        found: Rows = sound_read(plan)
        there.clear()
        there.update(tuple(row[f"k{i}"] for i in range(1, len(plan.request.keys) + 1)) for row in found)
        return found

    def answer(plan: Any, *facts: Any) -> dict[str, Any]:
        found: dict[str, Any] = sound_answer(plan, *facts)
        n = len(plan.request.keys)
        found["rows"] = [row for row in found["rows"] if tuple(row[:n]) in there or not n]
        return found

    replace(engine, "_read_statistics", read)
    replace(engine, "_answer", answer)


def draw_again_for_odd(replace: Replace) -> None:
    """An odd count is drawn a second time."""
    sound = additive.core

    def core(exact: Sequence[int], how: Any, source: Any, label: str) -> list[int]:
        first = sound(exact, how, source, label)
        return sound(exact, how, source, label) if sum(exact) % 2 else first

    replace(additive, "core", core)


def statement_by_the_data(replace: Replace) -> None:
    """A second statement is issued if the first one found an odd number."""
    engine = _engine()
    sound = engine._read_statistics

    def read(plan: Any) -> Rows:
        found: Rows = sound(plan)
        if sum(row["a1"] for row in found) % 2:
            engine.plpy.execute("SELECT 1 AS odd")
        return found

    replace(engine, "_read_statistics", read)


def argument_by_the_data(replace: Replace) -> None:
    """A statement has an exact count for an argument."""
    engine = _engine()
    sound = engine._read_statistics

    def read(plan: Any) -> Rows:
        found: Rows = sound(plan)
        engine.rows("SELECT $1::bigint AS n", ["bigint"], [sum(row["a1"] for row in found)])
        return found

    replace(engine, "_read_statistics", read)


def refusal_by_the_data(replace: Replace) -> None:
    """A question that no row answers is refused."""
    engine = _engine()
    sound = engine._think

    def think(plan: Any, statistics: Rows) -> list[list[int]]:
        if sum(row["a1"] for row in statistics) == 0:
            raise DPError(SHAPE, "no row matches", "Ask something else.")
        raw: list[list[int]] = sound(plan, statistics)
        return raw

    replace(engine, "_think", think)


def failure_by_the_data(replace: Replace) -> None:
    """A large group makes the core fail: the shape closes, or the error's text is another."""
    sound = group_by.core

    def core(statistics: Mapping[Any, Sequence[int]], domains: Any, how: Any, source: Any) -> list[list[int]]:
        if any(row[0] % 7 == 3 for row in statistics.values()):
            raise ValueError("a cell is too large")
        return sound(statistics, domains, how, source)

    replace(group_by, "core", core)


def notice_with_a_count(replace: Replace) -> None:
    """The NOTICE says how many rows were read."""
    engine = _engine()
    sound_read, sound_answer, last = engine._read_statistics, engine._answer, [0]

    def read(plan: Any) -> Rows:
        found: Rows = sound_read(plan)
        last[0] = sum(row["a1"] for row in found)
        return found

    def answer(*facts: Any) -> dict[str, Any]:
        found: dict[str, Any] = sound_answer(*facts)
        found["notice"]["text"] += f", of {last[0]}"
        return found

    replace(engine, "_read_statistics", read)
    replace(engine, "_answer", answer)


def plan_with_a_count(replace: Replace) -> None:
    """dp_plan forecasts from the rows."""
    engine = _engine()
    sound = engine.describe

    def forecast(plan: Any, **facts: Any) -> dict[str, Any]:
        info: dict[str, Any] = sound(plan, **facts)
        if plan.statement is not None:
            with engine.plpy.subtransaction():
                info["margin"] = str(sum(row["a1"] for row in engine.read(plan.statement)))
        return info

    replace(engine, "describe", forecast)


def log_with_a_count(replace: Replace) -> None:
    """A log line says how many rows were read."""
    engine = _engine()
    sound = engine._read_statistics

    def read(plan: Any) -> Rows:
        found: Rows = sound(plan)
        engine.plpy.info(f"{sum(row['a1'] for row in found)} rows")
        return found

    replace(engine, "_read_statistics", read)


def record_with_a_count(replace: Replace) -> None:
    """The release is recorded with the exact count beside it, in an innocent column."""
    engine = _engine()
    sound_read, sound_record, last = engine._read_statistics, engine.catalog.record, [0]

    def read(plan: Any) -> Rows:
        found: Rows = sound_read(plan)
        last[0] = sum(row["a1"] for row in found)
        return found

    class Marked:
        def __init__(self, plan: Any) -> None:
            self.request, self.cache_key = plan.request, plan.cache_key
            self.mechanism = f"{plan.mechanism} {last[0]}"

    def record(plan: Any, request_id: str, raw: list[list[int]]) -> None:
        sound_record(Marked(plan), request_id, raw)

    replace(engine, "_read_statistics", read)
    replace(engine.catalog, "record", record)


def price_by_the_data(replace: Replace) -> None:
    """Some answers cost more, afterwards: what is charged depends on the rows."""
    engine = _engine()
    sound = engine._think

    def think(plan: Any, statistics: Rows) -> list[list[int]]:
        if sum(row["a1"] for row in statistics) % 2:
            engine.rows("UPDATE dp.account SET spent_epsilon = spent_epsilon + 1 WHERE node = 'root'")
        raw: list[list[int]] = sound(plan, statistics)
        return raw

    replace(engine, "_think", think)


def twice_the_epsilon(replace: Replace) -> None:
    """epsilon is charged, 2 epsilon is drawn."""
    sound = additive.core

    def core(exact: Sequence[int], how: Any, source: Any, label: str) -> list[int]:
        if how.epsilon is not None:
            how = dataclasses.replace(how, epsilon=2 * how.epsilon)
        return sound(exact, how, source, label)

    replace(additive, "core", core)


def twice_the_rho(replace: Replace) -> None:
    """rho is charged, 2 rho is drawn."""
    sound = additive.core

    def core(exact: Sequence[int], how: Any, source: Any, label: str) -> list[int]:
        return sound(exact, dataclasses.replace(how, rho=2 * how.rho) if how.rho else how, source, label)

    replace(additive, "core", core)


def smaller_scale_than_declared(replace: Replace) -> None:
    """The draw is declared at the right cost, but the noise is that of a finer lattice."""
    sound = door.current

    class Finer:
        def laplace(self, exact: Sequence[int], *, l1_sensitivity: Any, epsilon: Any, label: str) -> list[int]:
            l1 = Fraction(l1_sensitivity) / 2
            return sound().laplace(exact, l1_sensitivity=l1, epsilon=epsilon, label=label)

    replace(door, "current", lambda: Finer())


def shares_not_split(replace: Replace) -> None:
    """The budget is charged split over the aggregates, and each is drawn at the whole of it."""
    sound = group_by.core

    def core(statistics: Any, domains: Any, how: Sequence[Any], source: Any) -> list[list[int]]:
        whole = [
            dataclasses.replace(each, epsilon=each.epsilon * len(how)) if each.epsilon is not None else each
            for each in how
        ]
        return sound(statistics, domains, whole, source)

    replace(group_by, "core", core)


def one_leaf_pays(replace: Replace) -> None:
    """Of the partitions that a request reads, one pays."""
    planner = _planner()
    sound = planner.scope_of

    def scope(request: Any) -> Any:
        found = sound(request)
        return Leaves(found.relation, frozenset([min(found.leaves)])) if isinstance(found, Leaves) else found

    replace(planner, "scope_of", scope)


def reads_beyond_its_leaves(replace: Replace) -> None:
    """The leaf that is charged is not what is read: another leaf pays, and the restriction is missing."""
    sound = origins.touched_partitions

    def touched(*arguments: Any) -> Partitions | None:
        found = sound(*arguments)
        return None if found is None else Partitions(frozenset({"[1999-12-27,2000-01-03)"}), "true")

    replace(origins, "touched_partitions", touched)


def cheap_repeats(replace: Replace) -> None:
    """A repeat with fresh => true draws anew for a thousandth."""
    engine = _engine()
    sound = engine.catalog.pay

    def pay(plan: Any, *rest: Any) -> None:
        cheap = dataclasses.replace(plan, charges=(Charge.of("laplace", epsilon=Fraction(1, 1000)),))
        sound(cheap if plan.request.fresh else plan, *rest)

    replace(engine.catalog, "pay", pay)
    # the draw's own look at what was paid would refuse it
    replace(engine, "check_paid", lambda plan, paid: None)


CONTROLS: dict[str, Control] = {
    f"{breaks.__name__} {dataset} {rule}": Control(dataset, rule, call, breaks)
    for dataset, rule, breaks, call in [
        ("shop", "sensitivity", charged_once, "dp_count('audit.purchase')"),
        ("web", "sensitivity", charged_once, "dp_count('audit.login', rho => 0.01)"),
        ("shop", "loss", cell_by_cell, "dp_group_by('audit.purchase', '{status}', '{count(distinct customer_id)}')"),
        ("web", "loss", cell_by_cell, "dp_group_by('audit.login', '{host}', '{count(distinct who)}', rho => 0.02)"),
        ("shop", "sensitivity", every_row_counts, "dp_count('audit.purchase')"),
        ("pay", "sensitivity", values_not_clamped, "dp_avg('audit.pay', 'age')"),
        ("trade", "sensitivity", totals_not_clamped, "dp_sum('audit.line', 'price')"),
        ("pay", "sensitivity", average_not_centred, "dp_avg('audit.pay', 'age')"),
        (
            "pay",
            "sensitivity",
            one_level_off,
            "dp_sum_r2t('audit.pay', 'score', lower => -8, upper => 6, resolution => 1)",
        ),
        ("trade", "sensitivity", one_level_off, "dp_sum_r2t('audit.line', 'qty', max_contribution => 1000)"),
        ("trade", "sensitivity", signs_in_parallel, "dp_sum_r2t('audit.line', 'qty * (3 - qty)')"),
        ("trade", "sensitivity", one_row_of_each, "dp_median('audit.line', 'qty')"),
        ("trade", "sensitivity", every_row_counts, "dp_avg('audit.line', 'qty')"),
        ("pay", "loss", shares_not_split, "dp_avg('audit.pay', 'age')"),
        ("shop", "sensitivity", cap_by_limit, "dp_group_by('audit.purchase', '{status,placed}', '{count(*)}')"),
        ("shop", "loss", nobody_counts, "dp_count('audit.purchase')"),
        ("clinic", "draws", noise_for_full_groups_only, "dp_group_by('audit.lone', '{ward}', predicate => 'insured')"),
        ("clinic", "answers", zeros_stay_zero, "dp_count('audit.lone')"),
        ("clinic", "answers", keys_from_the_data, "dp_group_by('audit.lone', '{ward}', predicate => 'insured')"),
        ("clinic", "draws", draw_again_for_odd, "dp_count('audit.lone')"),
        ("clinic", "statements", statement_by_the_data, "dp_count('audit.lone')"),
        ("clinic", "statements", argument_by_the_data, "dp_count('audit.lone')"),
        (
            "clinic",
            "answers",
            refusal_by_the_data,
            "dp_count('audit.visit_week', $$day = '2024-01-10'$$, epsilon => 0.5)",
        ),
        (
            "clinic",
            "answers",
            failure_by_the_data,
            "dp_count('audit.visit', $$CASE WHEN stage = 'red' THEN age ELSE 1 END BETWEEN 0 AND 40$$)",
        ),
        ("clinic", "answers", notice_with_a_count, "dp_count('audit.lone')"),
        ("shop", "plans", plan_with_a_count, "dp_count('audit.customer')"),
        ("clinic", "notices", log_with_a_count, "dp_count('audit.lone')"),
        ("clinic", "records", record_with_a_count, "dp_count('audit.lone')"),
        ("shop", "accounts", price_by_the_data, "dp_count('audit.customer')"),
        ("clinic", "price", twice_the_epsilon, "dp_count('audit.visit', epsilon => 0.1)"),
        ("clinic", "loss", twice_the_epsilon, "dp_count('audit.lone')"),
        ("lab", "loss", twice_the_rho, "dp_count('audit.sample', rho => 0.01)"),
        ("clinic", "loss", smaller_scale_than_declared, "dp_count('audit.lone')"),
        (
            "clinic",
            "loss",
            shares_not_split,
            "dp_group_by('audit.visit', '{stage}', '{count(*),count(charge),count(*) FILTER (WHERE age > 40)}')",
        ),
        ("clinic", "loss", cheap_repeats, "dp_count('audit.visit', 'age > 30', epsilon => 0.1, fresh => true)"),
        (
            "clinic",
            "loss",
            one_leaf_pays,
            "dp_group_by('audit.visit_week', '{ward}', predicate => $$day BETWEEN '2024-01-05' AND '2024-02-01'$$)",
        ),
        (
            "lab",
            "loss",
            reads_beyond_its_leaves,
            "dp_count('audit.sample_hour', $$taken = '2024-01-01 02:17+01'$$, epsilon => 0.4)",
        ),
    ]
}
