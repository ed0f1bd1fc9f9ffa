"""Decisions from outside: the developer vectors through PostgreSQL, their law, and lower bounds of epsilon.

The installed engine plans each question and reads its statistics, here and on a neighbour; its cores then run as the
channel's backend runs them, many times, and an analyst asks the same through PostgreSQL, some times. Each lower bound
is above the true epsilon with probability `ERROR` at most (lower_bound.py). A number of hits is in neither tail, of
probability `LEVEL`, of its binomial law.
"""

from __future__ import annotations

import base64
import math
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from scipy.stats import binom

import fix_chance
import fix_decide_oracles as law
from fix_cluster import ROLES, Cluster, private_cluster
from fix_decide_tape import ladder, ranks
from fix_privacy import LOADER, tap
from pg_epsilon.decide.bits import Bit
from pg_epsilon.decide.ranks import Hist
from pg_epsilon.decide.sums import Sparse
from pg_epsilon.mechanisms.covering import Bound
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.noise import Noise, current
from pg_epsilon.query.statistics import collect
from privacy.lower_bound import ERROR, Event, Law, bound, epsilon_at_least, falls_short, named_falls_short
from privacy.test_decide_replay import HERE

LEVEL = 5e-9
WIRE = 60  # decisions of each vector through PostgreSQL
MANY = 20_000
# As in tests/sql/test_decide.py: the largest cap that an owner may set is 1000.
DEEP = """ALTER TABLE dp.dataset DISABLE TRIGGER USER; UPDATE dp.dataset SET epsilon = 1e9;
ALTER TABLE dp.dataset ENABLE TRIGGER USER; UPDATE dp.role_allotment SET epsilon = 1e9; SELECT dp._bump_policy()"""
PLANNER = """
import base64, json, pickle
from pg_epsilon import entry
def planned(document):
    plan = entry._compile(json.loads(document))
    read = [statistic for choice in plan.choices for statistic in choice.statistics]
    return json.dumps(base64.b64encode(pickle.dumps([plan.measures, read, plan.statement])).decode())
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_cluster() as running:
        running.psql(ROLES)
        running.psql((HERE / "decide_vectors.sql").read_text(), user="boss")
        running.psql(DEEP)
        yield running


@pytest.fixture(scope="module")
def root(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect(autocommit=False) as conn:
        conn.execute(LOADER)
        conn.execute("SELECT tap.load('privacy_recorder', %s)", (PLANNER,))
        conn.commit()
        yield conn
        conn.rollback()


def call(name: str, query: str, copy: str, rest: str) -> str:
    return f"dp.{name}($q${query}$q$, '{copy}', {rest})"


def _read(conn: psycopg.Connection[Any], sql: str, removed: str | None = None) -> tuple[tuple[Measure, ...], list[Any]]:
    """Measures and exact statistics of a request, with some rows removed if they are named."""
    row = conn.execute(f"SELECT {sql}".encode()).fetchone()
    assert row is not None
    measures, read, statement = pickle.loads(base64.b64decode(tap(conn, "planned", row[0])))  # noqa: S301 -- our own
    if removed is not None:
        conn.execute(removed.encode())
    with conn.cursor(row_factory=dict_row) as cursor:
        found = collect(cursor.execute(statement.encode()).fetchall(), 0, read)[()]
    conn.rollback()
    return measures, found


# --- the developer vectors through PostgreSQL ---------------------------------------------------------------------

COUNTS, SUMS = ladder([5] * 100, 4)[:4], ladder([5] * 100, 4)[4:]
NINE, HALF = [1, 2, 2, 3, 3, 3, 4, 4, 5], Fraction(1, 2)
GEO = Fraction(15, 8)  # what a contribution moves all levels by, in thresholds, at four levels: not the printed 2
Vector = tuple[str, str, str, float]
VECTORS: dict[str, Vector] = {}
for tau, count, lm, em in [
    (10, 749, 0.6321, 0.7311),
    (10, 759, 0.4323, 0.5000),
    (10, 769, 0.1590, 0.2689),
    (30, 749, 0.9502, 0.9526),
    (30, 769, 0.8127, 0.7311),
    (30, 779, 0.4988, 0.5000),
    (30, 809, 0.0248, 0.0474),
]:
    for mechanism, wanted in (("lm", lm), ("em", em)):
        rest = f"tau => {tau}, epsilon => 0.1, mechanism => '{mechanism}'"
        query = f"SELECT count(*) FROM {{table}} WHERE id <= {count}"
        VECTORS[f"count {mechanism} {tau} {count}"] = query, "people_syn", rest, wanted
for answer, row in [
    (500, (0.9981, 0.1662, 0.9396, 0.910)),
    (700, (0.0010, 0.0015, 0.0564, 0.066)),
    (400, (0.5000, 0.9213, 0.3333, 0.433)),
]:
    geo = law.r2t(SUMS, answer - 100, answer + 100, 1, 0.05, weight=GEO)
    for mechanism, wanted in zip(("lm", "r2t", "svt_basic", "svt", "r2t_geo"), (*row, geo), strict=True):
        rest = f"tau => 100, epsilon => 1, mechanism => '{mechanism}'"
        VECTORS[f"sum {mechanism} {answer}"] = "SELECT sum(amount) FROM {table}", f"fives_{answer}", rest, wanted
for tau, medians in [(1, (0.2937, 0.3995, 0.6264)), (2, (0.6954, 0.7769, 0.8390))]:
    ways = ("'em', score => 'printed'", "'em', score => 'ties'", "'hist'")
    for mechanism, wanted in zip(ways, medians, strict=True):
        rest = f"tau => {tau}, epsilon => 1, mechanism => {mechanism}"
        query = "SELECT median(x) FROM {table} WHERE id <= 9"
        VECTORS[f"median {mechanism} {tau}"] = query, "nine_syn", rest, wanted


BOTH_TAILS = 2 * LEVEL


def fits(seen: int, runs: int, probability: float, off: float = 0.0) -> bool:
    """Whether a number of hits is within the tails of its law; off: what the probability was rounded by."""
    low, high = max(0.0, probability - off), min(1.0, probability + off)
    return bool(binom.ppf(LEVEL, runs, low) <= seen <= binom.isf(LEVEL, runs, high))


@pytest.mark.chance(BOTH_TAILS)
@pytest.mark.parametrize("name", VECTORS)
def test_a_developer_vector_through_postgresql(cluster: Cluster, name: str) -> None:
    """60 decisions of an analyst on real rows, fresh => true: as many ones as §8 says."""
    query, copy, rest, wanted = VECTORS[name]
    sql = call("dp_decide", query, copy, f"{rest}, fresh => true")
    with cluster.connect("alice") as conn:
        row = conn.execute(f"SELECT count(*) FILTER (WHERE {sql}) FROM generate_series(1, {WIRE})".encode()).fetchone()
    assert row is not None
    assert fits(row[0], WIRE, wanted, 0.0006), row


def test_what_postgresql_reads_for_the_vectors(root: psycopg.Connection[Any]) -> None:
    """The exact statistics are those that §8 computes with: the rest is arithmetic on them (test_decide_vectors.py)."""
    wanted = {"lm": [500], "r2t": SUMS, "r2t_geo": SUMS, "svt": [*COUNTS, *SUMS], "svt_basic": [*COUNTS, *SUMS]}
    for name, (query, copy, rest, _) in VECTORS.items():
        _, found = _read(root, call("dp_decide_request", query, copy, rest))
        kind, mechanism, last = name.split()[0], name.split()[1], name.split()[-1]
        if kind == "count":
            assert found == [int(last)]
        elif kind == "sum":
            assert found == wanted[mechanism]
        elif mechanism.startswith("'hist"):
            assert found == ranks(NINE, 3 - int(last), 3 + int(last))
        else:
            assert sorted(found[0]) == sorted(Counter(NINE).items())


@pytest.mark.chance(lambda pmf: len(pmf) * BOTH_TAILS)
@pytest.mark.parametrize(
    ("score", "pmf"),
    [
        ("printed", (0.0655, 0.0655, 0.1080, 0.2937, 0.2937, 0.1080, 0.0655)),
        ("ties", (0.0421, 0.0694, 0.1887, 0.3995, 0.1887, 0.0694, 0.0421)),
    ],
)
def test_the_median_by_em_point_by_point_through_postgresql(cluster: Cluster, score: str, pmf: Sequence[float]) -> None:
    """100 noisy medians of nine rows: each value as often as §8 says."""
    query = "SELECT median(x) FROM {table} WHERE id <= 9"
    rest = f"tau => 1, epsilon => 1, mechanism => 'em', score => '{score}'"
    sql = call("dp_decide_detail", query, "nine_syn", f"{rest}, fresh => true")
    with cluster.connect("alice") as conn:
        found = [conn.execute(f"SELECT estimate::int FROM {sql}".encode()).fetchall()[0] for _ in range(100)]
    seen = Counter(row[0] for row in found)
    assert sum(seen.values()) == 100
    assert all(fits(seen[value], 100, p, 0.0001) for value, p in enumerate(pmf)), seen


NEVER_SEEN = [law.bound_law(COUNTS, Fraction(95, 100), Fraction(1, 3))[j] for j in (0, 1)]


@pytest.mark.chance(2 * BOTH_TAILS + fix_chance.binomial(100, sum(NEVER_SEEN), 0, 5))
def test_private_bound_through_postgresql(cluster: Cluster) -> None:
    """100 calls of dp_bound at epsilon 1/3: 8 with probability .604, 16 with .396; 2 or 4 are as good as never seen."""
    sql = "dp.dp_bound('fives', 'amount', epsilon => 1/3.0, fresh => true)"
    with cluster.connect("alice") as conn:
        rows = conn.execute(f"SELECT {sql} FROM generate_series(1, 100)".encode()).fetchall()
    seen = Counter(int(row[0]) for row in rows)
    assert fits(seen[8], 100, 0.604, 0.0006)
    assert fits(seen[16], 100, 0.396, 0.0006)
    assert seen[2] + seen[4] <= 5


# --- worst-case neighbours ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """One measure, as planned, and its exact cell on D and on D′."""

    measure: Measure
    one: Sequence[Any]
    two: Sequence[Any]

    def draw(self, cell: Sequence[Any]) -> int:
        return int(self.measure.release([cell], current(), "x")[0][0])


COUNT = "SELECT count(*) FROM {table} WHERE id <= "
ASKED: dict[str, tuple[str, str, str, str]] = {
    "em": (f"{COUNT}762", "people_syn", "tau => 10, epsilon => 1, mechanism => 'em'", "people WHERE id = 762"),
    "em_unclamped": (
        f"{COUNT}762",
        "people_syn",
        "tau => 10, epsilon => 1, mechanism => 'em_unclamped'",
        "people WHERE id = 762",
    ),
    "em_naive": (
        f"{COUNT}759",
        "people_syn",
        "tau => 10, epsilon => 1, mechanism => 'em_naive'",
        "people WHERE id = 759",
    ),
    "randomised_response": (
        f"{COUNT}759",
        "people_syn",
        "tau => 10, epsilon => 1, mechanism => 'randomised_response'",
        "people WHERE id = 759",
    ),
    "hist": (
        "SELECT median(x) FROM {table} WHERE id <= 10",
        "nine_syn",
        "tau => 1, epsilon => 1, mechanism => 'hist'",
        "nine WHERE id = 10",
    ),
    "hist_one": (
        "SELECT median(x) FROM {table} WHERE id <= 10",
        "nine_syn",
        "tau => 1, epsilon => 1, mechanism => 'hist_one'",
        "nine WHERE id = 10",
    ),
    "avg_direct": (
        "SELECT avg(x) FROM {table}",
        "nine_syn",
        "tau => 2, epsilon => 1, mechanism => 'avg_direct'",
        "nine WHERE id = 11",
    ),
    "svt_basic": (
        "SELECT sum(x) FROM {table}",
        "two_syn",
        "tau => 1, epsilon => 2, mechanism => 'svt_basic'",
        "two WHERE id = 3",
    ),
    "svt": ("SELECT sum(x) FROM {table}", "two_syn", "tau => 1, epsilon => 2, mechanism => 'svt'", "two WHERE id = 3"),
    "users, em": (
        "SELECT count(*) FROM {table}",
        "owned_syn",
        "tau => 8, epsilon => 1, mechanism => 'em'",
        "owned WHERE who = 999",
    ),
}
# What the bound must show of epsilon.
POWER = {
    "em": 0.45,
    "em_unclamped": 0.45,
    "em_naive": 0.35,
    "randomised_response": 0.8,
    "hist_one": 0.5,
    "users, em": 0.5,
}


def pair(conn: psycopg.Connection[Any], name: str) -> Pair:
    query, copy, rest, removed = ASKED[name]
    sql = call("dp_decide_request", query, copy, rest)
    (measure,), one = _read(conn, sql)
    (again,), two = _read(conn, sql, f"DELETE FROM {removed}")
    assert measure == again
    assert one != two
    return Pair(measure, one, two)


LAWS: dict[str, tuple[float, float]] = {
    "em": (law.bit(762, 749, 10, 1), law.bit(761, 749, 10, 1)),
    "em_unclamped": (law.bit(762, 749, 10, 1, "unclamped"), law.bit(761, 749, 10, 1, "unclamped")),
    "em_naive": (law.bit(759, 749, 10, 1, "naive"), law.bit(758, 749, 10, 1, "naive")),
    "randomised_response": (law.bit(759, 749, 10, 1, "randomised"), law.bit(758, 749, 10, 1, "randomised")),
    "hist_one": (law.hist_one(*ranks([*NINE, 1], 2, 4), HALF, 1), law.hist_one(*ranks(NINE, 2, 4), HALF, 1)),
    "users, em": (law.bit(53, 40, 8, 1, rows=3), law.bit(50, 40, 8, 1, rows=3)),
}
"""Probability of 1 on D and on D′, of those in POWER."""


def choosing(name: str, runs: int) -> int:
    """How many of each are to choose an event: it matters where the bound has to show something."""
    return max(runs // 4, min(runs, MANY)) if name in POWER else runs // 4


def coins(one: float, two: float) -> tuple[Law, Law]:
    return {0: 1 - one, 1: one}, {0: 1 - two, 1: two}


def alarm(name: str, runs: int) -> float:
    """The bound is above epsilon, or below the part of it."""
    if name not in POWER:
        return ERROR
    return ERROR + falls_short(POWER[name], *coins(*LAWS[name]), runs=runs, choosing=choosing(name, runs))


def measured(found: Pair, runs: int, choice: int) -> float:
    return epsilon_at_least(lambda: found.draw(found.one), lambda: found.draw(found.two), runs=runs, choosing=choice)


def unseen(event: Event, runs: int, one: float, two: float, least: float) -> float:
    """The probability that `shown` is `least` or below; one, two: the probabilities of a bit of 1."""
    return named_falls_short(least, event, *coins(one, two), runs=runs)


def shown(event: Event, runs: int, draw: Callable[[Sequence[Any]], int], one: Any, two: Any) -> float:
    """The bound that an event gives which was named beforehand."""
    return bound(event, *(Counter(draw(cell) for _ in range(runs)) for cell in (one, two)))


@pytest.mark.chance(lambda name: alarm(name, MANY))
@pytest.mark.parametrize("name", ASKED)
def test_epsilon_is_what_was_charged(root: psycopg.Connection[Any], name: str) -> None:
    """40,000 runs of the core on worst-case neighbours (10,000 of the weak ones): a part of it <= bound <= epsilon."""
    found = pair(root, name)
    epsilon = 2.0 if "svt" in name else 1.0
    assert sum(float(c.pure()[0]) for c in found.measure.charges()) == epsilon
    runs = MANY if name in POWER else 5_000
    assert POWER.get(name, -1.0) * epsilon <= measured(found, runs, choosing(name, runs)) <= epsilon


@pytest.mark.chance(lambda name: alarm(name, 500_000))
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ASKED)
def test_epsilon_is_what_was_charged_in_a_million_runs(root: psycopg.Connection[Any], name: str) -> None:
    """As above, 1,000,000 runs (100,000 of a sum's)."""
    found = pair(root, name)
    epsilon = 2.0 if "svt" in name else 1.0
    runs = 50_000 if "svt" in name else 500_000
    assert POWER.get(name, -1.0) * epsilon <= measured(found, runs, choosing(name, runs)) <= epsilon


@pytest.mark.chance(ERROR)
def test_the_bound_s_epsilon_is_what_was_charged(root: psycopg.Connection[Any]) -> None:
    """PrivateBoundDS on few rows, epsilon 1: 10,000 runs, bound <= 1."""
    sql = "dp.dp_bound_request('two', 'x', epsilon => 1)"
    (measure,), one = _read(root, sql)
    (_,), two = _read(root, sql, "DELETE FROM two WHERE id > 2")
    assert isinstance(measure, Bound)
    assert measured(Pair(measure, one, two), 5_000, 1_250) <= 1.0


# --- broken ones, from outside ------------------------------------------------------------------------------------


def one_noise_for_all(cell: Sequence[int], how: Sparse) -> int:
    """SVT_sum whose comparisons share one noise: a narrow interval is hit by it or not, which a row decides."""
    count, scale = len(how.levels), Fraction(how.part)
    noisy = [current().laplace([0], l1_sensitivity=2**20, epsilon=scale, label="x")[0] for _ in range(2)]
    sums_ = list(zip(cell[count:], how.levels, strict=True))
    gaps = [max((total - end) * (2**20 // t) for total, t in sums_) for end in (how.high, how.low + 1)]
    fired = [gap + noisy[0] >= noisy[1] for gap in gaps]
    return int(fired[1] and not fired[0])


def test_one_noise_for_all_comparisons_is_seen() -> None:
    """epsilon 0.5, three rows of 1 or four, l = 2, r = 5: 250 times as likely to be 1, the bound is above 0.5."""
    how = Sparse(tuple(2**j for j in range(1, 11)), Fraction(2), Fraction(5), Decimal("0.5"))
    one, two = ladder([1] * 3, 10), ladder([1] * 4, 10)
    assert shown(Event("equal", 1, False), 5_000, lambda cell: one_noise_for_all(cell, how), one, two) > 0.5


@pytest.mark.chance(unseen(Event("equal", 1, False), 2_000, law.bit(51, 40, 8, 1), law.bit(48, 40, 8, 1), 1.0))
def test_a_user_counted_as_a_row_is_seen(root: psycopg.Connection[Any]) -> None:
    """EM_count with kappa = 1 where a user has three rows: the bound is above epsilon = 1."""
    found = pair(root, "users, em")
    assert isinstance(found.measure, Bit)
    assert found.measure.rows == 3
    broken = Pair(replace(found.measure, rows=1), [51], [48])
    assert shown(Event("equal", 1, False), 2_000, broken.draw, broken.one, broken.two) > 1.0


TWICE = {
    "em": (Event("equal", 1, False), [760], [759]),
    "randomised_response": (Event("equal", 1, False), [759], [758]),
    "hist_one": (Event("equal", 0, True), [10, 5, 3], [9, 4, 3]),
}


LAWS_AT_TWICE = {
    "em": (law.bit(760, 749, 10, 2), law.bit(759, 749, 10, 2)),
    "randomised_response": (law.bit(759, 749, 10, 2, "randomised"), law.bit(758, 749, 10, 2, "randomised")),
    "hist_one": (law.hist_one(10, 5, 3, HALF, 2), law.hist_one(9, 4, 3, HALF, 2)),
}


ENOUGH = {"em": 8_000, "randomised_response": 2_000, "hist_one": 4_000}


@pytest.mark.chance(lambda name: unseen(TWICE[name][0], ENOUGH[name], *LAWS_AT_TWICE[name], 1.0))
@pytest.mark.parametrize("name", TWICE)
def test_half_the_noise_is_seen(root: psycopg.Connection[Any], name: str) -> None:
    """The same decisions drawn at twice their epsilon: the bound is above 1."""
    event, one, two = TWICE[name]
    measure: Any = pair(root, name).measure
    twice = replace(measure, epsilon=2 * measure.epsilon)
    assert shown(event, ENOUGH[name], Pair(twice, one, two).draw, one, two) > 1.0


@pytest.mark.chance(ERROR + unseen(Event("equal", 0, True), 1_000, 0.5, 1.0, 1.0))
def test_raw_exponentials_are_seen() -> None:
    """EM_count by floats that overflow: epsilon 1, tau 710 about 1000; 1000 rows are a coin, fewer are not (§2.5)."""

    def draw(cell: Sequence[int]) -> int:
        near = _raw_exp(710 - abs(cell[0] - 1000) / 2)
        if math.isinf(near):
            return int(Noise().select([0, 0], sensitivity=1, epsilon=1, label="x"))
        return int(near > _raw_exp(abs(cell[0] - 1000) / 2))

    sound = Pair(Bit(Fraction(1000), Fraction(710), 1, Decimal(1)), [1000], [999])
    event = Event("equal", 0, True)
    assert shown(event, 1_000, draw, [1000], [999]) > 1.0
    assert shown(event, 1_000, sound.draw, [1000], [999]) <= 1.0


def _raw_exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


# --- over the wire ------------------------------------------------------------------------------------------------


FLIPPED = law.bit(758, 749, 10, 2, "randomised"), law.bit(759, 749, 10, 2, "randomised")


@pytest.mark.chance(ERROR + unseen(Event("equal", 1, True), 300, *FLIPPED, 0.3))
def test_epsilon_over_the_wire(cluster: Cluster) -> None:
    """300 fresh decisions of an analyst at epsilon 2, on either side of a row: 0.3 <= bound <= 2.

    Two predicates that differ by one row stand for two databases: the plan is the same.
    """
    event = Event("equal", 1, True)
    samples = []
    with cluster.connect("alice") as conn:
        for last in (758, 759):
            rest = "tau => 10, epsilon => 2, mechanism => 'randomised_response', fresh => true"
            sql = call("dp_decide", f"{COUNT}{last}", "people_syn", rest)
            rows = conn.execute(f"SELECT {sql} FROM generate_series(1, 300)".encode()).fetchall()
            samples.append(Counter(int(row[0]) for row in rows))
    assert 0.3 <= bound(event, *samples) <= 2.0


# --- the law, and no other ----------------------------------------------------------------------------------------

CASES: dict[str, tuple[Callable[[Decimal], tuple[Measure, Sequence[Any]]], Callable[[Any], float], int]] = {
    "em": (
        lambda e: (Bit(Fraction(749), Fraction(10), 1, e), [762]),
        lambda e: law.bit(762, 749, 10, e),
        40_000,
    ),
    "em, users": (
        lambda e: (Bit(Fraction(749), Fraction(10), 3, e), [767]),
        lambda e: law.bit(767, 749, 10, e, rows=3),
        40_000,
    ),
    "em_naive": (
        lambda e: (Bit(Fraction(749), Fraction(10), 1, 3 * e, "naive"), [767]),
        lambda e: law.bit(767, 749, 10, 3 * e, "naive"),
        40_000,
    ),
    "randomised_response": (
        lambda e: (Bit(Fraction(749), Fraction(10), 1, 2 * e, "randomised"), [767]),
        lambda e: law.bit(767, 749, 10, 2 * e, "randomised"),
        40_000,
    ),
    "hist": (
        lambda e: (Hist(HALF, 1, e), [40, 16, 16]),
        lambda e: law.hist(40, 16, 16, HALF, e),
        40_000,
    ),
    "svt_basic": (
        lambda e: (Sparse((2, 4, 8, 16), Fraction(460), Fraction(560), e), ladder([5] * 100, 4)),
        lambda e: law.svt(SUMS, 460, 560, Fraction(e) / 2, Fraction(e) / 2),
        26_000,
    ),
}


def law_alarm(name: str) -> float:
    """The bit does not fit its law, or fits one of the two others."""
    _, wanted, runs = CASES[name]
    p = wanted(Decimal(1))
    missed = []
    for other in map(wanted, (Decimal("0.9"), Decimal("1.1"))):
        low, high = int(binom.ppf(LEVEL, runs, other)), int(binom.isf(LEVEL, runs, other))
        missed.append(float(binom.cdf(high, runs, p) - binom.cdf(low - 1, runs, p)))
    return fix_chance.union(BOTH_TAILS, *missed)


@pytest.mark.chance(lambda name: law_alarm(name))
@pytest.mark.parametrize("name", CASES)
def test_the_law_is_that_of_epsilon_and_of_no_other(name: str) -> None:
    """40,000 decisions (26,000 of a sum) fit the law at epsilon 1, and not those at 0.9 and 1.1."""
    build, wanted, runs = CASES[name]
    measure, cell = build(Decimal(1))
    seen = sum(measure.release([cell], Noise(), "x")[0][0] for _ in range(runs))
    assert fits(seen, runs, wanted(Decimal(1)))
    assert not fits(seen, runs, wanted(Decimal("0.9")))
    assert not fits(seen, runs, wanted(Decimal("1.1")))
