"""Random decisions on random databases: what a unit changes, by brute force, against what was declared and charged.

As test_random_requests.py: the installed engine compiles each request, its statement is run on D and on D without each
unit in turn; the deciders' own cores run on D with some outputs, and again on the neighbour with the same. Each measure
is held against its own charges, so that what a fallback gives back is in no other's price. Deterministic (seeded).
"""

from __future__ import annotations

import base64
import json
import pickle
import random
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.rows import dict_row

from fix_cluster import ROLES, private_cluster
from fix_decide_tape import Tape as BaseTape
from fix_privacy import LOADER, tap
from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.margins import gaussian_scale, laplace_scale
from pg_epsilon.decide.estimator import Reserved
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.query.statistics import Statistic, collect
from privacy.replay import Loss, _sensitivity, curve, loss_of
from privacy.test_random_requests import ARGUMENTS, CONDITIONS, RANGES, ROWS, USERS, fill
from privacy.test_random_requests import WORLD as RELATIONS

COMPILER = """
import base64, json, pickle, plpy
from pg_epsilon import entry
from pg_epsilon.errors import DPError
def one(document):
    try:
        with plpy.subtransaction():
            plan = entry._compile(document)
            read = [statistic for choice in plan.choices for statistic in choice.statistics]
            policy = plan.request.policy
            facts = [plan.measures, read, plan.statement, plan.charges, policy.has_user_units, policy.dataset.orders]
            return base64.b64encode(pickle.dumps(facts)).decode()
    except DPError as error:
        return error.sqlstate
def compiled(documents):
    return json.dumps([one(document) for document in json.loads(documents)])
"""
COPIES = "".join(
    f"CREATE TABLE {name}_syn AS TABLE {name}; CALL dp.register_synthetic('{name}', '{name}_syn', 'public');"
    for name in ("reading", "member", "bill")
)
NAMES = ["reading", "reading", "reading", "bill", "bill", "bill", "member"]
FUNCTIONS = ["count", "count", "sum", "sum", "sum", "avg", "median", "median", "percentile_disc"]
MECHANISMS = {
    "count": ["auto", "lm", "em", "em_naive", "em_unclamped", "randomised_response"],
    "sum": ["auto", "lm", "r2t", "r2t_geo", "r2t_split", "svt_basic", "svt"],
    "median": ["auto", "hist", "hist_one", "em", "em_tight"],
    "percentile_disc": ["auto", "hist", "hist_one", "em", "em_tight"],
    "avg": ["auto", "lm", "r2t", "avg_direct"],
}
TAUS = ["0.01", "0.5", "1", "3", "7.3", "50"]
SEEDS = range(9)
ORDERS = 3  # of a Rényi dataset, for each pair of databases


class Facts(NamedTuple):
    """What the installed engine made of a request."""

    measures: tuple[Measure, ...]
    read: Sequence[Statistic]
    statement: str
    charges: tuple[Charge, ...]
    users: bool
    orders: Sequence[Any]


def aggregate(rng: random.Random) -> dict[str, Any]:
    function, parameters = rng.choice(FUNCTIONS), {}
    if function != "count" and rng.random() < 0.4:
        parameters["lower"], parameters["upper"] = rng.choice([*RANGES, ("0", "70"), ("0", "9")])
    if function != "count" and rng.random() < 0.2:
        parameters["resolution"] = rng.choice(["0.5", "2"])
    if function == "percentile_disc":
        parameters["fraction"] = rng.choice(["0.9", "0.25", "0.5"])
    if function in ("count", "sum") and rng.random() < 0.15:
        parameters["max_contribution"] = rng.choice(["1", "3"])
    argument = "*" if function == "count" and rng.random() < 0.5 else rng.choice(ARGUMENTS)
    condition = rng.choice(CONDITIONS) if rng.random() < 0.3 else None
    return {"function": function, "argument": argument, "filter": condition, "parameters": parameters}


def request(rng: random.Random) -> dict[str, Any]:
    """A decision, or a block under session settings."""
    name, bound = rng.choice(NAMES), rng.choice(TAUS)
    budget = "rho" if name == "reading" and rng.random() < 0.2 else "epsilon"
    aggregates = [aggregate(rng) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    common = set.intersection(*(set(MECHANISMS[a["function"]]) for a in aggregates))
    document: dict[str, Any] = {
        "version": 1,
        "from": {"schema": "public", "name": name, "alias": "x"},
        "where": rng.choice(CONDITIONS) if rng.random() < 0.4 else None,
        "aggregates": aggregates,
        "budget": {budget: rng.choice(["1", "0.3", "4"])},
        "mechanism": rng.choice(sorted(common)) if budget == "epsilon" else "lm",
    }
    policy = rng.choice(["fallback", "synthetic"])
    if rng.random() < 0.5:
        document["settings"] = {"dp.synthetic": f"{name}_syn", "dp.tau": bound, "dp.synthetic_policy": policy}
    else:
        score, theta = rng.choice(["ties", "printed"]), rng.choice(["0.95", "0.4"])
        copy = {"schema": "public", "name": f"{name}_syn"}
        more = {"score": score, "theta": theta, "largest": rng.choice(["1", "3"])}
        document["decide"] = {"synthetic": copy, "tau": bound, "policy": policy, "parameters": more}
        document["call"] = "dp_decide_detail"
    return {key: value for key, value in document.items() if value}


class Tape(BaseTape):
    """A tape that answers quickly, and with anything: outputs are random, so that every one is tried in the end."""

    def __init__(self, rng: random.Random, frozen: Sequence[list[int]] | None = None) -> None:
        super().__init__(frozen)
        self._rng = rng

    def _values(self, exact: Sequence[int], scale: float) -> list[int]:
        return [int(x) + round(self._rng.uniform(-4, 4) * min(scale, 2.0**60)) for x in exact]

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Any, epsilon: Any, label: str) -> list[int]:
        scale = laplace_scale(l1_sensitivity, epsilon)
        return self._note("laplace", exact, l1_sensitivity, epsilon, scale, lambda: self._values(exact, scale))

    def gaussian(self, exact: Sequence[int], *, l2_squared: Any, rho: Any, label: str) -> list[int]:
        scale = gaussian_scale(l2_squared, rho)
        return self._note("gaussian", exact, l2_squared, rho, scale, lambda: self._values(exact, scale))

    def select(self, scores: Sequence[Any], *, sensitivity: Any, epsilon: Any, label: str) -> int:
        scale = float(2 * Fraction(sensitivity) / Fraction(epsilon))
        draw = [self._rng.randrange(len(scores))]
        return self._note("select", scores, sensitivity, epsilon, scale, lambda: draw)[0]

    def ladder(
        self, exact: Sequence[Sequence[int]], thresholds: Sequence[int], *, weight: Any, epsilon: Any, label: str
    ) -> list[list[int]]:
        """Noted as recorder.py does: one vector, each change in units of its threshold."""
        shares = [Fraction(value, t) for cells, t in zip(exact, thresholds, strict=True) for value in cells]
        scale = laplace_scale(weight, epsilon)
        flat = iter(self._note("laplace", shares, weight, epsilon, scale, lambda: [0] * len(shares)))
        return [[next(flat) for _ in cells] for cells in exact]

    def first_above(
        self, gaps: Sequence[int], *, sensitivity: Any, threshold_epsilon: Any, query_epsilon: Any, label: str
    ) -> int | None:
        scale, query = (float(Fraction(sensitivity) / Fraction(e)) for e in (threshold_epsilon, query_epsilon))
        cost, draw = Fraction(threshold_epsilon) + Fraction(query_epsilon), [self._rng.randrange(-1, len(gaps))]
        index = self._note("first_above", gaps, sensitivity, cost, scale, lambda: draw)[0]
        self.draws[-1]["query_scale"] = query.hex()
        return None if index < 0 else index


def flat(measures: Sequence[Measure]) -> list[Measure]:
    """A fallback's bit and the answer behind it, apart: both are looked at, each at its own price."""
    return [one for m in measures for one in ((m.decider, *m.answer) if isinstance(m, Reserved) else (m,))]


def exact(conn: psycopg.Connection[Any], facts: Facts, change: Callable[[str], str]) -> list[Any]:
    """The statistics of now, an entry for each integer that the measures read."""
    with conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(change(facts.statement).encode()).fetchall()
    return collect(rows, 0, facts.read).get((), [0] * sum(m.width for m in facts.measures))


def compared(facts: Facts, one: Sequence[Any], two: Sequence[Any], rng: random.Random) -> Iterator[str]:
    """Every measure on both cells, with the same outputs: its draws, its price, its losses, its answer."""
    start = 0
    for measure in flat(facts.measures):
        cells = [cell[start : start + measure.width] for cell in (one, two)]
        start += measure.width
        name = type(getattr(measure, "measure", measure)).__name__
        first = Tape(rng)
        try:
            answer = measure.release([cells[0]], first, "x")  # type: ignore[arg-type]
            second = Tape(rng, first.outputs)
            again = measure.release([cells[1]], second, "x")  # type: ignore[arg-type]
        except ValueError:
            yield f"failure by the data: {name}"
            continue
        if [{**d, "exact": 0} for d in first.draws] != [{**d, "exact": 0} for d in second.draws]:
            yield f"draws: {name}"
            continue
        if list(answer) != list(again):
            yield f"answers: {name}"
        pairs = list(zip(first.draws, second.draws, strict=True))
        for a, b in pairs:
            if _sensitivity(a, b) > a["declared"]:
                yield f"sensitivity: {name} moves by {float(_sensitivity(a, b))}, declared {float(a['declared'])}"
        losses = [_width(a, b) if a["kind"] == "select" else loss_of(a, b) for a, b in pairs]
        costs = [Loss(rho=d["cost"]) if d["kind"] == "gaussian" else _cost(d) for d in first.draws]
        for what, found in (("loss", losses), ("price", costs)):
            if _above(found, measure.charges(), facts.orders, rng):
                yield f"{what}: {name}"


def _cost(draw: dict[str, Any]) -> Loss:
    return Loss(epsilon=draw["cost"], ranged=draw["kind"] == "select")


def _width(one: dict[str, Any], two: dict[str, Any]) -> Loss:
    """How far the log-odds of any two candidates move: the worst over all outcomes, and more."""
    changes = [x - y for x, y in zip(one["exact"], two["exact"], strict=True)]
    return Loss(epsilon=(max(changes) - min(changes)) / Fraction(float.fromhex(one["scale"])), ranged=True)


def _above(losses: Sequence[Loss], paid: Sequence[Charge], orders: Sequence[Any], rng: random.Random) -> bool:
    slack = Fraction(1, 10**9)
    if not orders:
        return sum(x.epsilon for x in losses) > sum(Fraction(c.pure()[0]) for c in paid) * (1 + slack)
    few = rng.sample(list(orders), ORDERS)
    return any(
        sum(curve(x, float(a)) for x in losses) > sum(float(c.rdp([a])[0]) for c in paid) * (1 + 1e-9) for a in few
    )


def copies(conn: psycopg.Connection[Any], rng: random.Random) -> None:
    """Synthetic tables of other rows than the private ones."""
    fill(conn, rng)
    for name in ("reading", "member", "bill"):
        conn.execute(f"TRUNCATE {name}_syn; INSERT INTO {name}_syn SELECT * FROM {name} WHERE id % 4 <> 3".encode())


def audit(
    conn: psycopg.Connection[Any], seed: int, change: Callable[[str], str] = lambda sql: sql, asked: int = 110
) -> tuple[int, set[str], list[str]]:
    """(How many pairs were compared, which measures were seen, the violations)."""
    rng, count, seen, found = random.Random(seed), 0, set(), []
    copies(conn, rng)
    fill(conn, rng)
    documents = [request(rng) for _ in range(asked)]
    texts = tap(conn, "compiled", documents)
    plans = []
    for document, text in zip(documents, texts, strict=True):
        if len(text) > 5:
            plans.append((document, Facts(*pickle.loads(base64.b64decode(text)))))  # noqa: S301 -- our own
    wholes = [exact(conn, facts, change) for _, facts in plans]
    for users, neighbour in [(False, n) for n in ROWS] + [(True, n) for n in USERS]:
        conn.execute("SAVEPOINT whole")
        for statement in neighbour:
            conn.execute(statement.encode())
        for (document, facts), whole in zip(plans, wholes, strict=True):
            if facts.users is users:
                count += 1
                problems = compared(facts, whole, exact(conn, facts, change), rng)
                found += [f"{problem}: {neighbour[0]}: {json.dumps(document)}" for problem in problems]
        conn.execute("ROLLBACK TO whole")
    for _, facts in plans:
        seen |= {type(getattr(m, "measure", m)).__name__ for m in flat(facts.measures)}
        assert [c for m in facts.measures for c in m.charges()] == list(facts.charges)
    conn.rollback()
    return count, seen, found


@pytest.fixture(scope="module")
def conn() -> Iterator[psycopg.Connection[Any]]:
    with private_cluster() as cluster:
        cluster.psql(ROLES)
        cluster.psql(RELATIONS + COPIES, user="boss")
        with cluster.connect(autocommit=False) as connection:
            connection.execute(LOADER)
            connection.execute("SELECT tap.load('privacy_recorder', %s)", (COMPILER,))
            connection.commit()
            yield connection
            connection.rollback()


MEASURES = {"Bit", "Hist", "HistOne", "Direct", "Sparse", "Ranks", "Additive", "Ladder"}


def test_no_unit_moves_a_decision_by_more_than_was_paid(conn: psycopg.Connection[Any]) -> None:
    seen: set[str] = set()
    for seed in SEEDS:
        count, measures, found = audit(conn, seed)
        seen |= measures
        assert count > 100
        assert found == []
    assert seen == MEASURES


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(10))
def test_no_unit_moves_a_decision_in_many_databases(conn: psycopg.Connection[Any], part: int) -> None:
    for seed in range(1000 + 20 * part, 1020 + 20 * part):
        assert audit(conn, seed)[2] == []


CONTROLS = {
    "no cap on rows": (r"rn <= \d+", "rn <= 999"),
    "no truncation": (r"LEAST\(([pmnv]\d+|count\(.*?\)), \d+\)", r"\1"),
    "no clamp of a value": (r"< (-?\d+) THEN \1 ", r"< \1 THEN -1000 "),
    "both sides of a quantile": (r"\) >= (-?\d+)\)", r") >= -1000)"),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_a_broken_statement_is_caught(conn: psycopg.Connection[Any], name: str) -> None:
    """Negative controls: on some database, some decision shows it."""
    pattern, into = CONTROLS[name]
    assert any(audit(conn, seed, lambda sql: re.sub(pattern, into, sql))[2] for seed in range(8)), name
