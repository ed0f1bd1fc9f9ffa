"""A lower bound of epsilon for the installed mechanisms, from their answers alone (lower_bound.py).

The installed engine plans the question and reads its statistics once, on D and on D′ (a unit removed); then its core
runs as the channel's backend runs it. A bound is above the true epsilon with probability `ERROR` at most, and below
what a test asks of it as rarely as `falls_short` says, from the law of the noise.
"""

from __future__ import annotations

import base64
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster
from fix_privacy import TWIN_EPSILON, TWINS, audit_cluster, tap, tapped, twin_stack
from fix_stack import Stack
from pg_epsilon import noise
from pg_epsilon.mechanisms import group_by
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.plan import Plan
from privacy.broken_noise import WrongScale
from privacy.lower_bound import ERROR, bound, choose, epsilon_at_least, falls_short, nearer

RUNS = 100_000, 20_000  # on D, and as many on D′; and of each to choose an event
MANY = 1_000_000, 200_000
RUNS_OF = {"dp_sum": (30_000, 20_000)}  # the same primitive as a count's, at another scale
CONTROL_RUNS = 20_000, 5_000
CONTROL_RUNS_OF = {"dp_count": (3_000, 1_500)}  # half the noise shows in few answers of few values
EPSILON = 1.0
Group = tuple[str | None, ...]
Statistics = Mapping[Group, Sequence[int]]
Core = Callable[[Statistics, Plan], list[int]]


@dataclass(frozen=True)
class Pair:
    """A planned question, and its exact statistics on two neighbouring databases."""

    plan: Plan
    one: Statistics
    two: Statistics

    def cells(self, statistics: Statistics) -> list[int]:
        empty = [0] * sum(measure.width for measure in self.plan.measures)
        groups = group_by.groups([key.domain for key in self.plan.request.keys])
        return [value for group in groups for value in statistics.get(group, empty)]

    def score(self, answer: Sequence[int]) -> int:
        """How much nearer (L1) an answer is to D than to D′: the likelihood ratio's order, were the noise Laplace."""
        one, two = self.cells(self.one), self.cells(self.two)
        return sum(abs(y - b) - abs(y - a) for y, a, b in zip(answer, one, two, strict=True))


def installed(statistics: Statistics, plan: Plan) -> list[int]:
    """The core as entry.py calls it."""
    domains = [key.domain for key in plan.request.keys]
    noisy = group_by.core(statistics, domains, plan.measures, noise.current())
    return [value for values in noisy for value in values]


def half_the_noise(statistics: Statistics, plan: Plan) -> list[int]:
    domains = [key.domain for key in plan.request.keys]
    noisy = group_by.core(statistics, domains, plan.measures, WrongScale("2"))
    return [value for values in noisy for value in values]


def no_noise_on_empty_cells(statistics: Statistics, plan: Plan) -> list[int]:
    domains = [key.domain for key in plan.request.keys]
    exact = [value for group in group_by.groups(domains) for value in statistics.get(group, [0])]
    return [y if x else 0 for x, y in zip(exact, installed(statistics, plan), strict=True)]


def one_cell_for_all(statistics: Statistics, plan: Plan) -> list[int]:
    """A unit in several groups, noised as if it were in one."""
    domains = [key.domain for key in plan.request.keys]
    how = [Additive(1, 1, epsilon=each.epsilon) for each in plan.measures if isinstance(each, Additive)]
    return [value for values in group_by.core(statistics, domains, how, noise.current()) for value in values]


@pytest.fixture(scope="module")
def audited() -> Iterator[Cluster]:
    with audit_cluster() as running:
        yield running


def request(conn: psycopg.Connection[Any], call: str) -> Any:
    row = conn.execute("SELECT dp." + call).fetchone()
    assert row is not None
    return row[0]


def read(conn: psycopg.Connection[Any], document: Any) -> tuple[Plan, Statistics]:
    """The installed engine's plan of a request, and the statistics that its statement reads now."""
    found = tap(conn, "read_once", document)
    plan: Plan = pickle.loads(base64.b64decode(found["plan"]))  # noqa: S301 -- from the server that we started
    n, m = len(plan.request.keys), sum(measure.width for measure in plan.measures)
    return plan, {
        tuple(row[f"k{i}"] for i in range(1, n + 1)): [int(row[f"a{i}"]) for i in range(1, m + 1)]
        for row in found["statistics"]
    }


def pair(cluster: Cluster, call: str, removed: str) -> Pair:
    """The plan of a call, and its statistics before and after the unit's rows are deleted."""
    with tapped(cluster) as conn:
        document = request(conn, call)
        plan, one = read(conn, document)
        conn.execute(removed)
        _, two = read(conn, document)
    return Pair(plan, one, two)


def count_pair(cluster: Cluster) -> Pair:
    """dp_count by row; the one row of audit.lone is removed."""
    call = "dp_count_request('audit.lone', epsilon => 1)"
    return pair(cluster, call, "DELETE FROM audit.lone")


def group_pair(cluster: Cluster) -> Pair:
    """dp_group_by over users with kappa = 3; the one user of three groups is removed."""
    call = "dp_group_by_request('audit.trio', '{host}', '{count(distinct who)}', epsilon => 1)"
    return pair(cluster, call, "DELETE FROM audit.trio")


def sum_pair(cluster: Cluster) -> Pair:
    """dp_sum by row; the one row of audit.lone, with the largest legal value, is removed."""
    call = "dp_sum_request('audit.lone', 'age + 200', lower => 0, upper => 120, epsilon => 1)"
    return pair(cluster, call, "DELETE FROM audit.lone")


def measured(found: Pair, core: Core, runs: tuple[int, int]) -> float:
    return epsilon_at_least(
        lambda: found.score(core(found.one, found.plan)),
        lambda: found.score(core(found.two, found.plan)),
        runs=runs[0],
        choosing=runs[1],
    )


PAIRS = {"dp_count": count_pair, "dp_group_by": group_pair, "dp_sum": sum_pair}
CELLS = {"dp_count": ([1], [0]), "dp_group_by": ([1, 1, 1], [0, 0, 0]), "dp_sum": ([120], [0])}
"""The exact cells of each pair, and below the scale of their noise."""
SCALES = {"dp_count": 1.0, "dp_group_by": 3.0, "dp_sum": 120.0}
PARTS = {"dp_sum": 0.7}  # of epsilon, in the fewest runs; 0.8 of the others


def short(mechanism: str, least: float, runs: tuple[int, int], first: float = 1.0, second: float = 1.0) -> float:
    """The probability that the bound is below `least` with noise of such parts of its scale on D and on D′."""
    scale = SCALES[mechanism]
    laws = nearer(*CELLS[mechanism], (first * scale, second * scale))
    return falls_short(least, *laws, runs=runs[0], choosing=runs[1])


def control_runs(mechanism: str) -> tuple[int, int]:
    return CONTROL_RUNS_OF.get(mechanism, CONTROL_RUNS)


def alarm(mechanism: str) -> float:
    return ERROR + short(mechanism, PARTS.get(mechanism, 0.8) * EPSILON, RUNS_OF.get(mechanism, RUNS))


@pytest.mark.chance(lambda mechanism: alarm(mechanism))
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mechanism", PAIRS)
def test_epsilon_is_what_was_charged(audited: Cluster, mechanism: str) -> None:
    """200,000 runs of the core at epsilon 1: 0.8 <= bound <= 1 (60,000 of a sum: 0.7)."""
    found = PAIRS[mechanism](audited)
    assert [charge.to_json()["epsilon"] for charge in found.plan.charges] == ["1"]
    least = PARTS.get(mechanism, 0.8) * EPSILON
    assert least <= measured(found, installed, RUNS_OF.get(mechanism, RUNS)) <= EPSILON


@pytest.mark.chance(lambda mechanism: ERROR + short(mechanism, 0.9 * EPSILON, MANY))
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mechanism", PAIRS)
def test_epsilon_is_what_was_charged_in_two_million_runs(audited: Cluster, mechanism: str) -> None:
    """2,000,000 runs: 0.9 <= bound <= 1."""
    assert 0.9 * EPSILON <= measured(PAIRS[mechanism](audited), installed, MANY) <= EPSILON


CONTROLS: list[tuple[str, Core]] = [
    ("dp_sum", half_the_noise),
    ("dp_count", half_the_noise),
    ("dp_count", no_noise_on_empty_cells),
    ("dp_group_by", half_the_noise),
    ("dp_group_by", no_noise_on_empty_cells),
    ("dp_group_by", one_cell_for_all),
]
LEFT: dict[Core, tuple[float, float]] = {
    half_the_noise: (0.5, 0.5),
    no_noise_on_empty_cells: (1, 0),
    one_cell_for_all: (1 / 3, 1 / 3),
}
"""Of the noise's scale, on D and on D′."""


@pytest.mark.chance(lambda mechanism, core: short(mechanism, EPSILON, control_runs(mechanism), *LEFT[core]))
@pytest.mark.parametrize(("mechanism", "core"), CONTROLS, ids=[f"{m} {c.__name__}" for m, c in CONTROLS])
def test_too_little_noise_is_seen(audited: Cluster, mechanism: str, core: Core) -> None:
    """Negative controls, 40,000 runs (6,000 of a count): the bound is above epsilon."""
    assert measured(PAIRS[mechanism](audited), core, control_runs(mechanism)) > EPSILON


def test_the_pairs_are_neighbours(audited: Cluster) -> None:
    """What the installed statements read: one row, one user in three groups, one value, resp. nothing."""
    found = count_pair(audited)
    assert (found.cells(found.one), found.cells(found.two)) == ([1], [0])
    found = group_pair(audited)
    assert (found.cells(found.one), found.cells(found.two)) == ([1, 1, 1], [0, 0, 0])
    assert [measure.l1 for measure in found.plan.measures if isinstance(measure, Additive)] == [3]
    found = sum_pair(audited)
    assert (found.cells(found.one), found.cells(found.two)) == ([120], [0])
    assert [measure.l1 for measure in found.plan.measures if isinstance(measure, Additive)] == [120]


@pytest.fixture(scope="module")
def twins() -> Iterator[Stack]:
    with twin_stack() as running:
        yield running


CALLS = {"dp_count": "dp_count{form}('{table}', ", "dp_group_by": "dp_group_by{form}('{table}', '{{kind}}', "}
WIRE_RUNS = {"dp_count": (1_000, 0.35), "dp_group_by": (500, 0.1)}
"""Calls on each table, and the part of epsilon that they must show."""


def wire_alarm(mechanism: str) -> float:
    """One cell has the row; those that are alike on both tables do not count."""
    runs, part = WIRE_RUNS[mechanism]
    laws = nearer([1], [0], (1 / TWIN_EPSILON, 1 / TWIN_EPSILON))
    return ERROR + falls_short(part * TWIN_EPSILON, *laws, runs=runs, choosing=CONTROL_RUNS[0])


def answers(conn: psycopg.Connection[Any], mechanism: str, table: str, runs: int) -> list[list[int]]:
    """What an analyst gets: one number, or one a group."""
    call = CALLS[mechanism].format(form="", table=table) + f"epsilon => {TWIN_EPSILON}, fresh => true)"
    if mechanism == "dp_count":
        call = f"SELECT dp.{call}"
    else:
        call = f"SELECT (value ->> 'count(*)')::bigint FROM dp.{call} ORDER BY key ->> 'kind'"
    return [[int(row[0]) for row in conn.execute(call).fetchall()] for _ in range(runs)]


@pytest.mark.chance(lambda mechanism: wire_alarm(mechanism))
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("way", "mechanism"), TWINS)
def test_epsilon_over_the_wire(twins: Stack, way: str, mechanism: str) -> None:
    """An analyst's calls, by TCP or through the proxy: a part of epsilon <= bound <= epsilon.

    Two tables that differ in one row; 2,000 calls of dp_count, 1,000 of dp_group_by, at epsilon 1 with fresh => true.
    The event is chosen on runs of the core.
    """
    runs, part = WIRE_RUNS[mechanism]
    tables = TWINS[way, mechanism]
    form = CALLS[mechanism] + f"epsilon => {TWIN_EPSILON})"
    with tapped(twins.cluster) as conn:
        (plan, one), (_, two) = (read(conn, request(conn, form.format(form="_request", table=t))) for t in tables)
    assert [charge.to_json() for charge in plan.charges] == [{"kind": "laplace", "epsilon": str(TWIN_EPSILON)}]
    found = Pair(plan, one, two)
    assert sum(found.cells(one)) == sum(found.cells(two)) + 1
    event = choose(*([found.score(installed(exact, plan)) for _ in range(CONTROL_RUNS[0])] for exact in (one, two)))
    with twins.cluster.connect("alice", tcp=True) if way == "channel" else twins.connect("alice") as conn:
        samples = [Counter(map(found.score, answers(conn, mechanism, table, runs))) for table in tables]
    assert part * TWIN_EPSILON <= bound(event, *samples) <= TWIN_EPSILON
