"""`make bench-decide`: how often each decider of DP-PQD is wrong, and what it costs, on the paper's 60 questions.

Errors at every tau and epsilon of the paper are exact: §8's laws on the true statistics of generated rows. The laws
themselves are held against decisions through PostgreSQL: every question and decider at the paper's default tau and
epsilon, on 100,000 rows of each relation, RUNS fresh times. Seconds are of the whole relations.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "scripts", "extension", "proxy", "tests/benchmarks")]

import numpy as np  # noqa: E402
import psycopg  # noqa: E402
from decide_data import COPIES, PAPER, PARAMETERS, QUERIES, SMALL, Query, load, truth  # noqa: E402
from decide_laws import EXTENSIONS, LAWS, Case, Truth, error  # noqa: E402
from report import Row, paired, publish, row  # noqa: E402
from scipy.stats import binom  # noqa: E402

from fix_cluster import PRIVATE, ROLES, Cluster, private_cluster  # noqa: E402

RUNS = 25  # of each question and decider: the account of a relation, 1000, pays for 28
TAUS, EPSILONS = PARAMETERS["tau_percent"], PARAMETERS["epsilon"]
TAU, EPSILON = PARAMETERS["tau_percent_default"], PARAMETERS["epsilon_default"]
FALSE_ALARM = 1e-6  # that a law which is right is found wrong, all deciders together
NAMES = {
    ("count", "lm"): "LM_count",
    ("count", "em"): "EM_count",
    ("count", "em_naive"): "EM_count_naive",
    ("sum", "lm"): "LM_sum",
    ("sum", "r2t"): "R2T_sum",
    ("sum", "svt_basic"): "SVT_sum_basic",
    ("sum", "svt"): "SVT_sum",
    ("median", "em"): "EM_med",
    ("median", "hist"): "Hist_med",
}
TARGETS = {"R2T_sum": 3.5, "r2t_geo": 3.5, "SVT_sum_basic": 3.5, "SVT_sum": 3.5}
ALL_ROWS = Query("all", "ipums_cps", "sum", "inctot", "SELECT SUM(inctot) FROM {table}")  # a ladder's worst case
CALL = """dp.dp_decide(%(query)s, %(copy)s::regclass, tau_percent => %(tau)s, epsilon => %(epsilon)s,
  mechanism => %(mechanism)s, fresh => true)"""
STATEMENT = """CREATE FUNCTION public.statement(request jsonb) RETURNS text LANGUAGE plpython3u AS $$
import json
from pg_epsilon import entry
return entry._compile(json.loads(request)).statement
$$"""
Connection = psycopg.Connection[Any]
Key = tuple[str, str, str, float, float]  # copy, question, decider, tau in percent, epsilon


@dataclass(frozen=True)
class Outcome:
    """RUNS decisions of one question by one decider: how many were wrong, and how likely a wrong one is."""

    query: str
    decider: str
    wrong: int
    exact: float

    @property
    def gap(self) -> float:
        return abs(self.wrong / RUNS - self.exact)

    def bound(self, alarm: float) -> float:
        """What the gap exceeds with at most this probability if the law is right."""
        low, high = binom.ppf(alarm / 2, RUNS, self.exact), binom.isf(alarm / 2, RUNS, self.exact)
        return float(max(high - RUNS * self.exact, RUNS * self.exact - low)) / RUNS


def name_of(query: Query, mechanism: str) -> str:
    return NAMES.get((query.aggregate, mechanism), mechanism)


def arguments(query: Query, mechanism: str, suffix: str) -> dict[str, Any]:
    return {
        "query": query.on(suffix),
        "copy": query.table(f"{suffix}_privbayes"),
        "tau": str(TAU),
        "epsilon": str(EPSILON),
        "mechanism": mechanism,
    }


def target(root: Connection, query: Query, copy: str) -> Fraction:
    """The synthetic answer, by plain SQL."""
    weight = "1" if copy.startswith("_small") else "weight"
    wanted = {
        "count": f"coalesce(sum({weight}), 0)",
        "sum": f"coalesce(sum({query.column} * {weight}), 0)",
        "median": f"percentile_disc(0.5) WITHIN GROUP (ORDER BY {query.column})",
    }
    sql = f"SELECT ({wanted[query.aggregate]})::text FROM {query.table(copy)} WHERE {query.where}"
    ((text,),) = root.execute(sql.encode()).fetchall()
    return Fraction(text or 0)


def case(answer: Fraction, tau: float, epsilon: float) -> Case:
    return Case(answer, Fraction(str(tau)) / 100 * abs(answer), epsilon)


def bare(query: Query, answer: Fraction, mechanism: str) -> str:
    """The plain SQL that a decider's statement is measured against: the sum, the count, the counters, the histogram."""
    if query.aggregate != "median":
        return query.on()
    one, column, rest = case(answer, TAU, EPSILON), query.column, f"FROM {query.table()} WHERE {query.where}"
    if mechanism.startswith("em"):
        return f"SELECT {column}, count(*) {rest} GROUP BY 1"
    low, high = math.floor(one.low), math.ceil(one.high)
    below, above = (f"count(*) FILTER (WHERE {column} {end})" for end in (f"<= {low}", f">= {high}"))
    return f"SELECT count({column}), {below}, {above} {rest}"


def seconds(cluster: Cluster, answers: Mapping[tuple[str, str], Fraction]) -> list[Row]:
    """Whole calls, and their statements by themselves, among plain SQL: every question of the 1.34 million rows."""
    alice, root = cluster.connect("alice"), cluster.connect()
    root.execute(STATEMENT)
    spent: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for query in (q for q in QUERIES if q.relation == "ipums_cps" and answers[q.name, "_privbayes"]):
        for mechanism in LAWS[query.aggregate]:
            given = arguments(query, mechanism, "")
            statement = _statement(root, given)
            plain = bare(query, answers[query.name, "_privbayes"], mechanism)
            calls = [
                _asked(alice, f"SELECT {CALL}", given),
                _asked(root, statement),
                _asked(root, plain),
                _asked(root, _of_copy(query)),
            ]
            for _ in range(2):
                spent[name_of(query, mechanism)].append(tuple(map(_seconds, calls)))
    rows = [one for name, times in spent.items() for one in _of_times(name, times)]
    for mechanism in LAWS["sum"]:
        statement = _statement(root, arguments(ALL_ROWS, mechanism, ""))
        ours, base, ratio = paired(_asked(root, statement), _asked(root, ALL_ROWS.on()), 7)
        name = name_of(ALL_ROWS, mechanism)
        note = f"the statement by itself, no condition; baseline: the plain sum; target {TARGETS.get(name, 1.1)}"
        rows.append(row(f"seconds_all_rows:{name}", ours, base, note, ratio))
    return rows


def _statement(root: Connection, given: Mapping[str, Any]) -> str:
    """What a call would run next to private rows."""
    asked = f"SELECT public.statement({CALL.replace('dp_decide(', 'dp_decide_request(', 1)})"
    ((statement,),) = root.execute(asked.encode(), given).fetchall()
    return str(statement)


def _of_copy(query: Query) -> str:
    weight = {"count": "sum(weight)", "sum": f"sum({query.column} * weight)"}
    wanted = weight.get(query.aggregate, f"percentile_disc(0.5) WITHIN GROUP (ORDER BY {query.column})")
    return f"SELECT {wanted} FROM {query.table('_privbayes')} WHERE {query.where}"


def _asked(connection: Connection, sql: str, given: Mapping[str, Any] | None = None) -> Callable[[], object]:
    return lambda: connection.execute(sql.encode(), given).fetchall()


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _of_times(name: str, times: Sequence[tuple[float, ...]]) -> Iterator[Row]:
    paper = PAPER["runtime_seconds_per_query_in_paper"].get(name)
    note = f"; the paper's, on its machine: {paper}" if paper else "; not in the paper's table"
    limit = TARGETS.get(name, 1.1)
    call, statement, plain, copy = (statistics.median(column) for column in zip(*times, strict=True))
    both = statistics.median(t[0] / (t[2] + t[3]) for t in times)
    text = f"the call; baseline: plain SQL of the relation and the copy{note}"
    yield row(f"seconds:{name}", call, plain + copy, text, both)
    ratios = sorted(t[1] / t[2] for t in times)
    alone = statistics.median(ratios)
    text = f"the statement by itself; baseline: plain SQL of the relation; target {limit}; at most {ratios[-1]:.2f}"
    yield row(f"seconds_statement:{name}", statement, plain, text, alone)


def simulate(
    cluster: Cluster, truths: Mapping[str, Truth], answers: Mapping[tuple[str, str], Fraction]
) -> list[Outcome]:
    """RUNS fresh decisions of every question by every decider, on the small relations, in two sessions."""
    tasks = [(q, m) for q in QUERIES for m in LAWS[q.aggregate] if answers[q.name, "_small_privbayes"]]

    def some(part: Sequence[tuple[Query, str]]) -> list[Outcome]:
        with cluster.connect("alice") as alice:
            return [one(alice, query, mechanism) for query, mechanism in part]

    def one(alice: Connection, query: Query, mechanism: str) -> Outcome:
        sql = f"SELECT count(*) FILTER (WHERE {CALL}) FROM generate_series(1, {RUNS})"
        ((yes,),) = alice.execute(sql.encode(), arguments(query, mechanism, "_small")).fetchall()
        answer, known = case(answers[query.name, "_small_privbayes"], TAU, EPSILON), truths[query.name]
        right = abs(known.answer - answer.target) < answer.tau
        wrong = RUNS - yes if right else yes
        return Outcome(query.name, name_of(query, mechanism), wrong, error(known, answer, mechanism))

    with ThreadPoolExecutor(2) as pool:
        return [outcome for part in pool.map(some, (tasks[::2], tasks[1::2])) for outcome in part]


def gaps(outcomes: Sequence[Outcome]) -> list[Row]:
    """Per decider: the question that is furthest from the law, and all of them together, with what is still chance."""
    by: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        by[one.decider].append(one)
    found, alarm = [], FALSE_ALARM / (len(outcomes) + len(by))
    for name, those in sorted(by.items()):
        worst = max(those, key=lambda one: one.gap)
        note = f"{worst.query}: {worst.wrong} of {RUNS} wrong, exact {worst.exact:.4f}; baseline: the bound"
        found.append(row(f"oracle_gap:{name}", worst.gap, worst.bound(alarm), note))
        total, law = RUNS * len(those), np.ones(1)
        for one in those:
            law = np.convolve(law, binom.pmf(np.arange(RUNS + 1), RUNS, one.exact))
        below, middle = np.cumsum(law), RUNS * sum(one.exact for one in those)
        ends = np.searchsorted(below, alarm / 2), np.searchsorted(below, 1 - alarm / 2)
        bound = max(middle - float(ends[0]), float(ends[1]) - middle) / total
        note = f"{total} decisions at tau {TAU} %, epsilon {EPSILON}: share of wrong ones; baseline: the bound"
        found.append(row(f"oracle_gap_all:{name}", abs(sum(o.wrong for o in those) - middle) / total, bound, note))
        far = [one for one in those if one.gap > one.bound(alarm) + 0.5 / RUNS]
        if far or float(str(found[-1]["ours"])) > bound + 0.5 / total:
            raise SystemExit(f"simulated and exact errors differ by more than chance: {name}, {far or found[-1]}")
    return found


def _errors(task: tuple[Query, str, Truth, Fraction]) -> dict[Key, float]:
    query, copy, known, answer = task
    return {
        (copy, query.name, name_of(query, m), tau, epsilon): error(known, case(answer, tau, epsilon), m)
        for m in LAWS[query.aggregate]
        for tau in TAUS
        for epsilon in EPSILONS
    }


def errors(truths: Mapping[str, Truth], answers: Mapping[tuple[str, str], Fraction]) -> dict[Key, float]:
    """Every question, decider, tau and epsilon, for both copies. A copy whose answer is 0 has no tau in percent."""
    tasks = [
        (q, copy, truths[q.name], answers[q.name, f"_{copy}"])
        for q in sorted(QUERIES, key=lambda q: q.aggregate != "sum")
        for copy in COPIES
        if answers[q.name, f"_{copy}"]
    ]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return {key: value for found in pool.map(_errors, tasks) for key, value in found.items()}


def of_errors(found: Mapping[Key, float]) -> list[Row]:
    """error:… of the PrivBayes copy with the additive (of a median: the exponential) mechanism's as the baseline."""
    rows = []
    aggregate = {q.name: q.aggregate for q in QUERIES}
    for (copy, query, name, tau, epsilon), value in found.items():
        if copy == "privbayes":
            reference = {"count": "LM_count", "sum": "LM_sum", "median": "EM_med"}[aggregate[query]]
            base = found[copy, query, reference, tau, epsilon]
            note = f"exact; baseline: {reference}; copy: {COPIES[copy]}"
            rows.append(row(f"error:{query}:{name}:{tau:g}:{epsilon:g}", value, base, note))
    for (copy, group, name, tau, epsilon), value in means(found).items():
        if tau == TAU or epsilon == EPSILON:
            note = f"mean over the questions; copy: {COPIES[copy]}"
            rows.append(row(f"mean_error:{copy}:{group}:{name}:{tau:g}:{epsilon:g}", value, None, note))
    return rows


def means(found: Mapping[Key, float]) -> dict[Key, float]:
    """The mean over the questions of a group: a relation and an aggregate."""
    group = {q.name: f"{q.relation} {q.aggregate}" for q in QUERIES}
    values: dict[Key, list[float]] = defaultdict(list)
    for (copy, query, name, tau, epsilon), value in found.items():
        values[copy, group[query], name, tau, epsilon].append(value)
    return {key: statistics.mean(those) for key, those in values.items()}


def plot(found: Mapping[Key, float], copy: str) -> None:
    """build/bench/decide_COPY.png: mean error by tau (epsilon as in the paper's default), and by epsilon."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    mean = {key: value for key, value in means(found).items() if key[0] == copy}
    groups = list(dict.fromkeys(f"{q.relation} {q.aggregate}" for q in QUERIES))
    figure, axes = pyplot.subplots(2, len(groups), figsize=(3.4 * len(groups), 7), sharey=True, squeeze=False)
    for column, group in enumerate(groups):
        for name in dict.fromkeys(key[2] for key in mean if key[1] == group):
            style = "--" if name in EXTENSIONS else "-"
            for line, (ticks, at) in enumerate(
                ((TAUS, [(t, EPSILON) for t in TAUS]), (EPSILONS, [(TAU, e) for e in EPSILONS]))
            ):
                values = [mean[copy, group, name, tau, epsilon] for tau, epsilon in at]
                axes[line][column].plot(ticks, values, style, marker="o", markersize=3, label=name)
                axes[line][column].set_xscale("log", base=2 if line else 4)
                axes[line][column].set_xticks(ticks, [f"{t:g}" for t in ticks])
        axes[0][column].set(title=group, xlabel=f"tau, % (epsilon {EPSILON:g})", ylim=(-0.03, 1.03))
        axes[1][column].set(xlabel=f"epsilon (tau {TAU:g} %)")
        axes[0][column].legend(fontsize=7)
    for line in (0, 1):
        axes[line][0].set_ylabel("share of wrong decisions")
    figure.suptitle(f"copy: {COPIES[copy]}")
    figure.tight_layout()
    figure.savefig(ROOT / "build" / "bench" / f"decide_{copy}.png", dpi=110)


def main() -> None:
    start = time.perf_counter()

    def told(text: str) -> None:
        print(f"{time.perf_counter() - start:5.0f} s  {text}", flush=True)

    with private_cluster(shared_buffers="1GB", fsync="on", max_parallel_workers_per_gather="2") as cluster:
        cluster.psql(ROLES)
        load(cluster)
        told(f"{sum(PAPER['rows'].values()):,} rows, and copies of {SMALL:,} rows, loaded")
        with cluster.connect() as root:
            suffixes = [*(f"_{copy}" for copy in COPIES), "_small_privbayes"]
            answers = {(q.name, suffix): target(root, q, suffix) for q in QUERIES for suffix in suffixes}
            truths, small = ({q.name: truth(root, q, suffix) for q in QUERIES} for suffix in ("", "_small"))
        told("the truth")
        rows = seconds(cluster, answers)
        told("seconds")
        cluster.execute("VACUUM", dbname=PRIVATE)
        rows += gaps(simulate(cluster, small, answers))
        told(f"{RUNS} decisions of each question by each decider")
        cluster.stop("fast")
    found = errors(truths, answers)
    told(f"{len(found):,} exact errors")
    publish("decide", rows + of_errors(found), hidden=("error:", "mean_error:"))
    for copy in COPIES:
        plot(found, copy)


if __name__ == "__main__":
    main()
