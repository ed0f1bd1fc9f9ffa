"""What the audited sessions of decisions ask: as questions.py, each decider by name, blocks, refusals, repeats.

B is a plain block under session settings: the request that the proxy makes of SELECT aggregates FROM relation.
"""

from __future__ import annotations

import json
from typing import Any

A, BOB = "alice", "bob"


def block(table: str, *aggregates: Any, where: str | None = None, **more: Any) -> str:
    """A block of plain SQL, with the settings of the session in which it is asked."""
    found = [a if isinstance(a, dict) else {"function": a[0], "argument": a[1]} for a in aggregates]
    document = {"version": 1, "call": "block", "from": {"schema": "decide", "name": table}, "aggregates": found}
    if where is not None:
        document["where"] = where
    text = json.dumps({**document, **more}).replace("'", "''")
    return f"'{text}'::jsonb || jsonb_build_object('settings', dp.session_settings())"


def ask(query: str, copy: str, rest: str, *, detail: bool = False) -> str:
    name = "dp_decide_detail" if detail else "dp_decide"
    return f"{name}($q${query}$q$, 'decide.{copy}', {rest})"


def _deciders(copy: str, epsilon: str, near: str) -> list[tuple[str, str, str]]:
    """Every decider of row units; near: a bound for counts that some neighbour crosses."""
    count, total = "SELECT count(*) FROM {table}", "SELECT sum(amount) FROM {table}"
    median, mean = "SELECT median(amount) FROM {table}", "SELECT avg(amount) FROM {table}"
    asked = [
        *[(count, f"tau => {near}, mechanism => '{m}'") for m in ("lm", "em", "em_naive", "em_unclamped")],
        (count, f"tau => {near}, mechanism => 'randomised_response'"),
        (count, "tau_percent => 400, mechanism => 'em'"),
        *[(total, f"tau => 30.5, mechanism => '{m}'") for m in ("lm", "r2t", "r2t_geo", "svt_basic", "svt")],
        ("SELECT sum(delta) FROM {table}", "tau => 40, mechanism => 'r2t_split'"),
        *[(median, f"tau => 6, mechanism => '{m}'") for m in ("em", "em_tight", "hist", "hist_one")],
        (median, "tau => 2.5, mechanism => 'em', score => 'printed'"),
        *[(mean, f"tau_percent => 30, mechanism => '{m}'") for m in ("lm", "r2t", "avg_direct")],
    ]
    return [(A, "direct", ask(query, copy, f"{rest}, epsilon => {epsilon}")) for query, rest in asked]


FARE = [
    *_deciders("fare_syn", "1", "7.5"),
    (A, "cache", ask("SELECT count(*) FROM {table}", "fare_syn", "tau => 7.5, mechanism => 'em', epsilon => 1")),
    (A, "direct", ask("SELECT count(*) FROM {table}", "fare_syn", "tau => 3, mechanism => 'em', fresh => true")),
    (A, "direct", ask("SELECT count(tip) FROM {table} WHERE amount > 9", "fare_syn", "tau => 3")),
    (A, "direct", ask("SELECT count(*) FROM {table} WHERE zone = 'north'", "fare_w", "tau_percent => 30")),
    (A, "direct", ask("SELECT count(*) FROM {table}", "fare_w", "tau => 1207.625, mechanism => 'em', epsilon => 1")),
    (A, "direct", ask("SELECT count(*) FROM {table}", "fare_none", "tau => 1000000, mechanism => 'em', epsilon => 2")),
    (A, "direct", ask("SELECT sum(amount) FROM {table}", "fare_syn", "tau => 9, largest => 9, mechanism => 'auto'")),
    (A, "direct", ask("SELECT sum(tip) FROM {table} WHERE tip > 1 OR zone IS NULL", "fare_syn", "tau => 0.3")),
    (A, "direct", ask("SELECT sum(tip) FILTER (WHERE amount < 30) FROM {table}", "fare_syn", "tau_percent => 7.7")),
    (A, "direct", ask("SELECT median(tip) FROM {table} WHERE amount > 5", "fare_syn", "tau => 0.6")),
    (
        A,
        "direct",
        ask(
            "SELECT percentile_disc(0.9) WITHIN GROUP (ORDER BY delta) FROM {table}",
            "fare_syn",
            "tau => 5, mechanism => 'hist'",
        ),
    ),
    (A, "direct", ask("SELECT avg(delta) FROM {table}", "fare_syn", "tau => 0.5, mechanism => 'avg_direct'")),
    *[
        (A, "direct", ask(f"SELECT {q} FROM {{table}}", "fare_syn", f"{rest}, fallback => true", detail=True))
        for q, rest in (
            ("count(*)", "tau => 100, mechanism => 'em', epsilon => 2"),
            ("count(amount)", "tau => 0.25, mechanism => 'em_unclamped', epsilon => 2"),
            ("sum(amount)", "tau => 600, mechanism => 'svt', epsilon => 2"),
            ("sum(tip)", "tau => 9, mechanism => 'svt_basic', epsilon => 2"),
            ("median(amount)", "tau => 100, mechanism => 'hist', epsilon => 2"),
            ("median(tip)", "tau => 0.3, mechanism => 'hist_one', epsilon => 2"),
            ("avg(tip)", "tau => 2, mechanism => 'avg_direct', epsilon => 2"),
            ("sum(delta)", "tau => 2, epsilon => 2"),
        )
    ],
    (A, "direct", "dp_bound('decide.fare', 'amount', epsilon => 1)"),
    (A, "DP003", "dp_bound('decide.fare', 'delta', epsilon => 1)"),
    (A, "DP003", ask("SELECT sum(delta) FROM {table}", "fare_syn", "tau => 2, mechanism => 'svt'")),
    (A, "DP003", ask("SELECT stddev(amount) FROM {table}", "fare_syn", "tau => 2")),
    (A, "DP005", ask("SELECT count(*) FROM {table}", "fare_syn", "tau => 0")),
    (A, "DP005", ask("SELECT count(*) FROM {table}", "fare_none", "tau_percent => 5")),
    (A, "DP005", ask("SELECT median(amount) FROM {table}", "fare_none", "tau => 5")),
    (A, "DP005", ask("SELECT sum(amount) FROM {table}", "fare_syn", "tau => 5, mechanism => 'svt', rho => 0.1")),
    (A, "set", "dp.synthetic = 'decide.fare_syn'"),
    (A, "set", "dp.tau = '40%'"),
    (A, "DP005", block("fare", ("count", "*"), mechanism="r2t")),
    (A, "set", "dp.epsilon = 3"),
    (A, "direct", block("fare", ("count", "*"))),
    (A, "set", "dp.synthetic = 'fare_syn'"),
    (A, "cache", block("fare", ("count", "*"))),
    (A, "direct", block("fare", ("count", "*"), ("sum", "amount"), ("median", "amount"), ("avg", "tip"))),
    (A, "set", "dp.synthetic_policy = 'fallback'"),
    (A, "direct", block("fare", ("count", "*"), ("count", "tip"), where="amount < 50", mechanism="em")),
    (A, "direct", block("fare", ("sum", "amount"), ("sum", "tip"), ("sum", "amount"), mechanism="svt")),
    (A, "direct", block("fare", ("median", "amount"), ("median", "tip"), mechanism="hist")),
    (A, "direct", block("fare", ("count", "*"), ("median", "amount"), mechanism="em")),
    (A, "DP003", block("fare", ("sum", "amount"), ("median", "amount"), keys=["zone"])),
    (A, "set", "dp.synthetic = ''"),
    (BOB, "direct", ask("SELECT count(*) FROM {table}", "fare_syn", "tau => 4, mechanism => 'em', epsilon => 1")),
    (
        BOB,
        "DP001",
        ask("SELECT count(*) FROM {table}", "fare_syn", "tau => 5, mechanism => 'em', epsilon => 1", detail=True),
    ),
    (BOB, "cache", ask("SELECT count(*) FROM {table}", "fare_syn", "tau => 7.5, mechanism => 'em', epsilon => 1")),
]

WEEK = [
    *[
        (A, "direct", ask(f"SELECT count(*) FROM {{table}} WHERE {where}", "week_syn", f"tau => 2, mechanism => '{m}'"))
        for where, m in (
            ("day >= '2024-01-01' AND day < '2024-01-15'", "em"),
            ("day = '2024-01-05'", "lm"),
            ("day = 'infinity' OR day IS NULL", "em_unclamped"),
        )
    ],
    *[
        (A, "direct", ask(f"SELECT {q} FROM {{table}} WHERE day < '2024-01-15'", "week_syn", rest, detail=True))
        for q, rest in (
            ("sum(amount)", "tau => 400, mechanism => 'svt', epsilon => 2, fallback => true"),
            ("sum(tip)", "tau => 0.5, mechanism => 'svt_basic', epsilon => 2, fallback => true"),
            ("median(amount)", "tau => 50, mechanism => 'hist', fallback => true"),
        )
    ],
    (A, "direct", "dp_bound('decide.fare_week', 'tip', $$day < '2024-01-08'$$, theta => 0.5, epsilon => 1)"),
]

NIL = [
    *[
        (A, "direct", ask(f"SELECT {q} FROM {{table}}", "nil_syn", f"tau => 2, mechanism => '{m}'"))
        for q, m in (("count(*)", "em"), ("sum(amount)", "svt"), ("median(amount)", "hist"), ("avg(amount)", "lm"))
    ],
    (A, "direct", "dp_bound('decide.nil', 'amount')"),
]

REN = [
    *_deciders("curved_syn", "0.5", "5.5"),
    (A, "direct", ask("SELECT count(*) FROM {table} WHERE amount < 16", "curved_syn", "tau => 3, rho => 0.05")),
    (
        A,
        "direct",
        ask("SELECT sum(tip) FROM {table} WHERE amount BETWEEN 16 AND 47", "curved_syn", "tau => 3, rho => 1"),
    ),
    (A, "direct", ask("SELECT avg(amount) FROM {table}", "curved_syn", "tau => 3, rho => 0.1, mechanism => 'lm'")),
    *[
        (A, "direct", ask(f"SELECT {q} FROM {{table}} WHERE amount < 32", "curved_syn", rest, detail=True))
        for q, rest in (
            ("count(*)", "tau => 100, mechanism => 'em', epsilon => 1, fallback => true"),
            ("sum(amount)", "tau => 400, mechanism => 'svt', epsilon => 1, fallback => true"),
            ("median(amount)", "tau => 0.1, mechanism => 'hist', epsilon => 1, fallback => true"),
        )
    ],
]

GUILD = [
    (A, "direct", ask("SELECT count(*) FROM {table}", "trip_syn", "tau => 2, mechanism => 'lm', epsilon => 1")),
    (A, "direct", ask("SELECT count(*) FROM {table}", "trip_syn", "tau => 2, mechanism => 'em', epsilon => 1")),
    (A, "direct", ask("SELECT count(amount) FROM {table}", "trip_syn", "tau => 60, mechanism => 'em', epsilon => 6")),
    (A, "direct", ask("SELECT count(distinct rider) FROM {table}", "trip_syn", "tau => 2, mechanism => 'em'")),
    (A, "direct", ask("SELECT count(distinct rider) FROM {table}", "trip_syn", "tau => 3, mechanism => 'lm'")),
    (A, "direct", ask("SELECT sum(amount) FROM {table}", "trip_syn", "tau => 50, mechanism => 'lm'")),
    (A, "direct", ask("SELECT sum(amount) FROM {table}", "trip_syn", "tau => 50, mechanism => 'r2t'")),
    (A, "direct", ask("SELECT median(amount) FROM {table}", "trip_syn", "tau => 5, mechanism => 'hist'")),
    (
        A,
        "direct",
        ask("SELECT median(amount) FROM {table} WHERE zone = 'north'", "trip_syn", "tau => 5, mechanism => 'em'"),
    ),
    (
        A,
        "direct",
        ask("SELECT median(amount) FROM {table}", "trip_syn", "tau => 5, mechanism => 'em', score => 'printed'"),
    ),
    (A, "direct", ask("SELECT avg(amount) FROM {table}", "trip_syn", "tau => 5, mechanism => 'lm'")),
    (A, "direct", ask("SELECT avg(amount) FROM {table}", "trip_syn", "tau => 5, mechanism => 'r2t'")),
    *[
        (A, "direct", ask(f"SELECT {q} FROM {{table}}", "trip_syn", f"{rest}, fallback => true", detail=True))
        for q, rest in (
            ("count(*)", "tau => 90, mechanism => 'em', epsilon => 2"),
            ("count(amount)", "tau => 0.25, mechanism => 'em', epsilon => 2"),
            ("median(amount)", "tau => 90, mechanism => 'hist', epsilon => 2"),
            ("median(amount)", "tau => 0.5, mechanism => 'hist', epsilon => 2"),
        )
    ],
    *[
        (A, "DP003", ask(f"SELECT {q} FROM {{table}}", "trip_syn", f"tau => 5, mechanism => '{m}'"))
        for q, m in (
            ("count(*)", "em_unclamped"),
            ("sum(amount)", "svt"),
            ("median(amount)", "hist_one"),
            ("avg(amount)", "avg_direct"),
        )
    ],
    (A, "DP003", "dp_bound('decide.trip', 'amount', epsilon => 1)"),
    (A, "set", "dp.synthetic = 'trip_syn'"),
    (A, "set", "dp.tau = '6'"),
    (A, "set", "dp.epsilon = 3"),
    (A, "direct", block("trip", ("count", "*"), ("sum", "amount"), ("median", "amount"), ("avg", "amount"))),
    (A, "direct", block("trip", ("count", "*"), ("median", "amount"), ("count", "amount"), mechanism="em")),
    (A, "direct", block("trip", ("sum", "amount"), ("avg", "amount"), mechanism="r2t")),
    (A, "set", "dp.synthetic_policy = 'fallback'"),
    (A, "direct", block("trip", ("count", "*"), ("count", "amount"), mechanism="em")),
    (A, "direct", block("trip", ("median", "amount"), where="amount > 3", mechanism="hist")),
    (
        A,
        "direct",
        block(
            "trip",
            {"function": "count", "argument": "*", "parameters": {"max_contribution": "2"}},
            ("sum", "amount"),
        ),
    ),
]

# By name: the dataset, the relation that is asked about, the questions.
SESSIONS = {
    "fare": ("dec", "decide.fare", FARE),
    "week": ("dec", "decide.fare_week", WEEK),
    "nil": ("dec", "decide.nil", NIL),
    "curved": ("ren", "decide.curved", REN),
    "guild": ("guild", "decide.trip", GUILD),
}
