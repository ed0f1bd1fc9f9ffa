"""Batches of sums on real rows: answers near the truth, one scan, one price, refusals that cost nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster

WAGES = """
CREATE TABLE wages (id int PRIMARY KEY, person int, dept text, pay numeric(10,2));
INSERT INTO wages SELECT i, i % 400, (ARRAY['a','b'])[1 + i % 2],
  CASE WHEN i % 50 = 0 THEN NULL ELSE round((100 + i % 97 * 9.5 + (i % 13) * 3.25)::numeric, 2) END
  FROM generate_series(1, 2000) i;
INSERT INTO wages VALUES (9001, 1, 'a', 99999.99), (9002, 2, 'b', -5), (9003, 3, 'b', 'NaN'), (9004, 4, NULL, 0);
INSERT INTO wages SELECT 10000 + i, i, 'a', CASE WHEN i <= 200 THEN 200 ELSE 450.5 END FROM generate_series(1, 300) i;
CALL dp.create_dataset('wages', unit => 'row', epsilon => 1000);
CALL dp.protect('wages', 'wages', max_rows => 10000);
CALL dp.describe_column('wages', 'pay', bounds => '{0,1000}', resolution => '0.01');
CALL dp.describe_column('wages', 'dept', domain => '{a,b}');
CALL dp.publish('wages');
CALL dp.allot('alice', 'wages', epsilon => 1000);
CREATE TABLE shifts (id int PRIMARY KEY, person int, hours int, kind text);
INSERT INTO shifts SELECT i, i % 300, i % 12, (ARRAY['day','late'])[1 + i / 7 % 2] FROM generate_series(1, 1500) i;
CALL dp.create_dataset('shifts', unit => 'user', epsilon => 1000);
CALL dp.protect('shifts', 'shifts', unit_column => 'person', max_rows_per_unit => 8, max_rows => 2000);
CALL dp.describe_column('shifts', 'hours', bounds => '{0,12}');
CALL dp.describe_column('shifts', 'kind', domain => '{day,late}');
CALL dp.describe_column('shifts', 'person', bounds => '{0,1000}');
CALL dp.publish('shifts');
CALL dp.allot('alice', 'shifts', epsilon => 1000);
CREATE TABLE rented (id int PRIMARY KEY, pay int);
INSERT INTO rented SELECT i, i % 1001 FROM generate_series(1, 2000) i;
CALL dp.create_dataset('rented', unit => 'row', epsilon => 1000, delta => 1e-6, accountant => 'renyi');
CALL dp.protect('rented', 'rented', max_rows => 10000);
CALL dp.describe_column('rented', 'pay', bounds => '{0,1000}');
CALL dp.publish('rented');
CALL dp.allot('alice', 'rented', epsilon => 1000, delta => 1e-6);
"""
CLAMPED = "SELECT pay AS raw, least(greatest(pay, 0), 1000) v FROM wages WHERE pay <> 'NaN'"
THRESHOLDS = "'{150,300,450.5,700,1000}'"
ALL = "aggregates => '{sum,count,avg}'"


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    cluster.psql(WAGES, user="boss")
    with cluster.connect("alice", tcp=True) as conn:
        yield conn


def truth(cluster: Cluster, sql: str) -> list[tuple[Any, ...]]:
    with cluster.connect() as conn:
        return conn.execute(sql).fetchall()  # type: ignore[arg-type]


def ask(conn: psycopg.Connection[Any], arguments: str, columns: str = "*") -> list[tuple[Any, ...]]:
    return conn.execute(f"SELECT {columns} FROM dp.dp_sum_workload({arguments})").fetchall()  # type: ignore[arg-type]


def ask_all(conn: psycopg.Connection[Any], arguments: str, columns: str = "*") -> list[tuple[Any, ...]]:
    """With counts and averages."""
    return ask(conn, f"{arguments}, {ALL}", columns)


def left(conn: psycopg.Connection[Any], relation: str = "wages") -> Decimal:
    row = conn.execute("SELECT dp.dp_budget_left(%s)", (relation,)).fetchone()
    assert row is not None
    return Decimal(row[0])


@contextmanager
def told(conn: psycopg.Connection[Any]) -> Iterator[list[str]]:
    """The NOTICEs of what is asked inside."""
    notices: list[str] = []

    def heard(message: psycopg.errors.Diagnostic) -> None:
        notices.append(str(message.message_primary))

    conn.add_notice_handler(heard)
    conn.execute("SET dp.notices = on")
    try:
        yield notices
    finally:
        conn.execute("RESET dp.notices")
        conn.remove_notice_handler(heard)


OWN = [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, -1]]
METHODS: list[dict[str, Any]] = [
    {},
    {"method": "identity"},
    {"method": "workload"},
    {"method": "sqm"},
    {"method": "tamm", "strategy": "greedyh"},
    {"method": "tamm", "strategy": "p-identity"},
    {"method": "timm"},
    {"method": "tamm", "strategy": "tree", "aggregates": ["sum"]},
    {"method": "tamm", "strategy": "wavelet", "aggregates": ["sum"]},
    {"method": "timm", "strategy": OWN, "aggregates": ["sum"]},
    {"theta": "svt"},
    {"theta": "exponential"},
    {"theta": "recursive"},
    {"isotonic": "off"},
]


@pytest.mark.chance(fix_chance.deviations(30, 15))
@pytest.mark.parametrize("options", METHODS, ids=json.dumps)
def test_every_method_answers_near_the_truth(
    cluster: Cluster, alice: psycopg.Connection[Any], options: dict[str, Any]
) -> None:
    """At epsilon 20 a sum's noise has a standard deviation below 400, a count's below 1 (dp_plan); 30 times as much
    is allowed. The truth is cut at the theta that the NOTICE names."""
    options_sql = f"options => '{json.dumps({'aggregates': ['sum', 'count', 'avg'], **options})}'"
    with told(alice) as notices:
        rows = ask(alice, f"'wages', 'pay', {THRESHOLDS}, epsilon => 20, {options_sql}")
    theta = re.search(r"theta ([0-9.e+]+) \(", notices[-1])
    assert theta is not None
    expected = truth(
        cluster,
        f"SELECT t, sum(least(v, {theta[1]})) FILTER (WHERE raw <= t), count(v) FILTER (WHERE raw <= t)"
        f" FROM ({CLAMPED}) q,"
        f" unnest({THRESHOLDS}::numeric[]) t GROUP BY 1 ORDER BY 1",
    )
    for row, (edge, total, count) in zip(rows, expected, strict=True):
        _, low_edge, high_edge, answer, rows_, average, error, low, high, key = row
        assert key is None
        assert (low_edge, high_edge) == (None, edge)
        assert abs(answer - total) <= 12000
        assert low <= answer
        assert high is None or answer <= high
        assert error > 0
        if "aggregates" in options:
            assert (rows_, average) == (None, None)
        else:
            assert abs(rows_ - count) <= 40
            assert abs(average - total / count) <= 60
    assert [row[0] for row in rows] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("isotonic", ["auto", "on", "off"])
def test_bars_of_answers_in_order(alice: psycopg.Connection[Any], isotonic: str) -> None:
    """Whatever is drawn: ends that do not decrease around the answers, and a NOTICE that says that they hold at once;
    off, every query has a bar of its own around its answer, in the middle. The noise outweighs the rows."""
    options = f'options => \'{{"isotonic": "{isotonic}"}}\''
    with told(alice) as notices:
        rows = ask(alice, f"'wages', 'pay', '{{1,2,3,5,8,1000}}', epsilon => 0.001, {options}", "low, sum, high")
    assert all(low <= answer <= high for low, answer, high in rows)
    assert ("low and high of all queries hold at once" in notices[-1]) is (isotonic != "off")
    if isotonic == "off":
        assert all(abs(high + low - 2 * answer) <= Decimal("0.02") for low, answer, high in rows)
    else:
        assert all(list(ends) == sorted(ends) for ends in zip(*rows, strict=True))


SIGNED: list[dict[str, Any]] = [
    {},
    {"theta": 300},
    {"method": "tamm", "strategy": "greedyh"},
    {"theta": "exponential"},
    {"theta": "recursive"},
    {"weights": [1, 1, 9, 1], "aggregates": ["sum"]},
]


@pytest.mark.chance(fix_chance.deviations(30, 24))
@pytest.mark.parametrize("options", SIGNED, ids=json.dumps)
def test_values_below_zero(cluster: Cluster, alice: psycopg.Connection[Any], options: dict[str, Any]) -> None:
    """Of values from -500 to 500, cut at either side by the theta that the NOTICE names. A sum's noise is that of
    values up to 1,000 at most."""
    options_sql = f"options => '{json.dumps({'aggregates': ['sum', 'count', 'avg'], **options})}'"
    with told(alice) as notices:
        rows = ask(alice, f"'wages', 'pay - 500', '{{-200,0,250,500}}', epsilon => 20, {options_sql}", "sum, count")
    theta = re.search(r"theta ([0-9.e+]+) \(", notices[-1])
    assert theta is not None
    value = f"least(greatest(v - 500, -{theta[1]}), {theta[1]})"
    expected = truth(
        cluster,
        f"SELECT sum({value}) FILTER (WHERE raw - 500 <= t), count(v) FILTER (WHERE raw - 500 <= t)"
        f" FROM ({CLAMPED}) q, unnest('{{-200,0,250,500}}'::numeric[]) t GROUP BY t ORDER BY t",
    )
    for (total, count), (true, number) in zip(rows, expected, strict=True):
        assert abs(total - true) <= 12_000
        assert count is None or abs(count - number) <= 40


def test_it_costs_epsilon_once_and_again_nothing(alice: psycopg.Connection[Any]) -> None:
    before = left(alice)
    first = ask(alice, f"'wages', 'pay', {THRESHOLDS}, epsilon => 3, options => '{{\"theta\": \"svt\"}}'")
    assert before - left(alice) == 3
    assert ask(alice, f"'wages', 'pay', {THRESHOLDS}, epsilon => 3, options => '{{\"theta\": \"svt\"}}'") == first
    assert before - left(alice) == 3


@pytest.mark.chance(fix_chance.laplace(2 * 2 / 30, 30, 3))
def test_last_answer_tells_what_the_notice_says(alice: psycopg.Connection[Any]) -> None:
    """For a program: how it was answered, what it cost, and the facts of the strategy; again, that it was free."""
    call = "'wages', 'pay', '{100,400,900}', predicate => $$dept = 'b'$$, epsilon => 1.5"
    read = "SELECT call, path, mechanism, charge, facts FROM dp.last_answer"
    ask(alice, call)
    name, path, mechanism, charge, facts = alice.execute(read).fetchone() or ()
    assert (name, path, charge) == ("dp_sum_workload", "direct", {"epsilon": "1.5"})
    assert mechanism and facts["workload"]
    ask(alice, call)
    again = alice.execute(read).fetchone() or ()
    assert again[1:4] == ("cache", mechanism, {}) and again[4]["workload"] == facts["workload"]


def test_ranges_keep_their_own_sides(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    """[a, b) and (a, b] differ by 200 rows at 200. At epsilon 30, counts may be off by 30."""
    rows = ask_all(
        alice,
        "'wages', 'pay', ranges => '{\"[103.25,200)\",\"(103.25,200]\",\"[,200)\"}', epsilon => 30",
        "low_edge, high_edge, count",
    )
    expected = truth(
        cluster,
        "SELECT count(*) FILTER (WHERE v >= 103.25 AND v < 200), count(*) FILTER (WHERE v > 103.25 AND v <= 200),"
        f" count(*) FILTER (WHERE v < 200) FROM ({CLAMPED}) q",
    )[0]
    assert expected[1] - expected[0] > 100
    assert [row[:2] for row in rows] == [(Decimal("103.25"), 200), (Decimal("103.25"), 200), (None, 200)]
    assert all(abs(int(row[2]) - true) <= 30 for row, true in zip(rows, expected, strict=True))


@pytest.mark.chance(fix_chance.deviations(15, 8))
def test_values_above_the_upper_bound_are_told_apart_and_summed_as_the_bound(
    cluster: Cluster, alice: psycopg.Connection[Any]
) -> None:
    """The range sees the value, the sum is of the clamped one (§0); an open end takes in what lies above. At
    epsilon 30 a sum's noise has a standard deviation below 400, a count's below 1: 30 and 15 times as much."""
    ranges = ("(,1000]", "(,)", "(500,)", "[0,1020)")
    given = ",".join(f'"{one}"' for one in ranges)
    rows = ask_all(alice, f"'wages', 'pay', ranges => '{{{given}}}', epsilon => 30", "sum, count")
    inside = ", ".join(
        f"sum(v) FILTER (WHERE '{one}'::numrange @> greatest(raw, 0)),"
        f" count(*) FILTER (WHERE '{one}'::numrange @> greatest(raw, 0))"
        for one in ranges
    )
    (expected,) = truth(cluster, f"SELECT {inside} FROM ({CLAMPED}) q")
    assert expected[3] - expected[1] > 60
    assert expected[3] - expected[7] > 30
    for (total, count), true, number in zip(rows, expected[::2], expected[1::2], strict=True):
        assert abs(total - true) <= 12_000
        assert abs(count - number) <= 15


@pytest.mark.chance(fix_chance.laplace(1000 / 30, 1499))
def test_any_matrix_over_the_buckets(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    """Total less twice the first bucket: noise of scale 1,000 / 30."""
    ((answer,),) = ask(
        alice,
        "'wages', 'pay', '{300,1000}', workload => '{{-1,1}}', epsilon => 30, options => '{\"aggregates\": [\"sum\"]}'",
        "sum",
    )
    ((total,),) = truth(
        cluster, f"SELECT sum(CASE WHEN raw <= 300 THEN -v ELSE v END) FROM ({CLAMPED}) q WHERE raw <= 1000"
    )
    assert abs(answer - total) < 1500


@pytest.mark.chance(fix_chance.laplace(2 / 30, 30))
def test_the_predicate_and_the_filter(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    ((count,),) = ask_all(alice, "'wages', 'pay', '{1000}', predicate => 'dept = ''a''', epsilon => 30", "count")
    ((expected,),) = truth(cluster, f"SELECT count(*) FROM ({CLAMPED} AND dept = 'a') q WHERE raw <= 1000")
    assert abs(int(count) - expected) <= 30  # scale 2 / 30, or less


@pytest.mark.chance(
    fix_chance.union(
        fix_chance.laplace(16 / 300, 40, 2), fix_chance.laplace(192 / 300, 200, 2), fix_chance.laplace(16 / 60, 40)
    )
)
def test_users_by_rows_and_by_totals(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    """per row: at most eight rows of a user; per user: her total is the value. At epsilon 300 the noise of a
    count has a scale of 8 · 2 / 300 at most, of a sum 96 · 2 / 300."""
    by_rows = ask_all(alice, "'shifts', 'hours', '{3,12}', epsilon => 300", "count, sum")
    expected = truth(cluster, "SELECT count(*), sum(hours) FROM shifts WHERE hours <= 3")[0]
    assert abs(by_rows[0][0] - expected[0]) <= 40
    assert abs(by_rows[0][1] - expected[1]) <= 200
    by_user = ask_all(alice, "'shifts', 'hours', '{20,96}', per => 'user', epsilon => 300", "count, sum")
    expected = truth(
        cluster,
        "SELECT count(*), sum(s) FROM (SELECT sum(hours) s FROM shifts GROUP BY person) q WHERE s <= 20",
    )[0]
    assert abs(by_user[0][0] - expected[0]) <= 40
    assert abs(by_user[0][1] - expected[1]) <= 200
    some = "'shifts', 'CASE WHEN person >= 200 THEN hours END', '{96}', per => 'user', epsilon => 60"
    assert abs(ask_all(alice, some, "count")[0][0] - 100) <= 40, "a user without a value has no total"


@pytest.mark.chance(fix_chance.union(fix_chance.laplace(4 / 30, 30, 6), fix_chance.laplace(1001 * 4 / 30, 12_000, 6)))
def test_groups_share_one_price(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    """Kronecker form: a row is in one group, so each group's answers are as near as one workload's. At epsilon 30
    counts may be off by 30 and sums by 12,000."""
    before = left(alice)
    rows = ask_all(
        alice, "'wages', 'pay', '{300,1000}', by => 'dept', epsilon => 30", "key, query, high_edge, sum, count"
    )
    assert before - left(alice) == 30
    expected = truth(
        cluster,
        f"SELECT dept, t, sum(v), count(*) FROM ({CLAMPED.replace('v FROM', 'v, dept FROM')}) q,"
        " unnest('{300,1000}'::numeric[]) t WHERE raw <= t GROUP BY 1, 2 ORDER BY 1, 2",
    )
    assert [row[:3] for row in rows] == [(key, i, t) for key in ("a", "b", None) for i, t in ((1, 300), (2, 1000))]
    for (*_, total, count), (_, _, true, number) in zip(rows, expected, strict=True):
        assert abs(total - true) <= 12_000
        assert abs(count - number) <= 30


@pytest.mark.chance(fix_chance.union(fix_chance.laplace(16 / 100, 40, 4), fix_chance.laplace(96 * 8 / 100, 600, 4)))
def test_groups_of_users(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    """Eight rows of a user count, in any groups; per user: her total in each group. At epsilon 100 the noise of a
    count has a scale of 8 · 2 / 100 at most, of a sum 96 · 8 / 100."""
    of_rows = ask_all(alice, "'shifts', 'hours', '{12}', by => 'kind', epsilon => 100", "key, count, sum")
    of_users = ask_all(
        alice, "'shifts', 'hours', '{96}', by => 'kind', per => 'user', epsilon => 100", "key, count, sum"
    )
    by_kind = truth(
        cluster, "SELECT kind, count(*), count(DISTINCT person), sum(hours) FROM shifts GROUP BY kind ORDER BY kind"
    )
    assert [row[0] for row in of_rows] == [row[0] for row in of_users] == [*(row[0] for row in by_kind), None]
    for rows, users, (_, count, persons, total) in zip(of_rows[:2], of_users[:2], by_kind, strict=True):
        assert abs(int(rows[1]) - count) <= 40
        assert abs(int(users[1]) - persons) <= 40
        assert max(abs(rows[2] - total), abs(users[2] - total)) <= 600


@pytest.mark.chance(
    fix_chance.union(fix_chance.gaussian(2 * 1001 / 50**0.5, 4999, 3), fix_chance.gaussian(2 / 50**0.5, 10, 3))
)
def test_gaussian_noise_on_a_renyi_dataset(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    rows = ask_all(alice, "'rented', 'pay', '{250,500,1000}', rho => 50", "sum, count")
    expected = truth(
        cluster,
        "SELECT sum(pay), count(pay) FROM rented, unnest('{250,500,1000}'::int[]) t WHERE pay <= t"
        " GROUP BY t ORDER BY t",
    )
    for (total, count), (true, number) in zip(rows, expected, strict=True):
        assert abs(total - true) <= 5000
        assert abs(count - number) <= 10


def test_rho_takes_the_strategy_for_l2_norms(alice: psycopg.Connection[Any]) -> None:
    """Twenty prefixes: the strategy for L2 norms is the least of all candidates, and is not offered for Laplace."""
    edges = ",".join(str(50 * i) for i in range(1, 21))
    row = alice.execute(
        f"SELECT dp.dp_plan(dp.dp_sum_workload_request('rented', 'pay', '{{{edges}}}', rho => 0.1)) -> 'workload'"  # type: ignore[arg-type]
    ).fetchone()
    assert row is not None
    assert row[0]["strategy"] == "tamm optimal"
    errors = {one["strategy"]: one["expected_rmse"] for one in row[0]["candidates"]}
    assert min(errors.values()) == errors["tamm optimal"] < 0.95 * errors["tamm greedyh"]


def test_strategies_are_kept_and_others_workloads_are_not_shown(
    cluster: Cluster, alice: psycopg.Connection[Any]
) -> None:
    """A kept strategy is what another backend draws; who did not ask sees its size. Nothing else is stored of it."""
    ask(alice, "'wages', 'pay', '{111,222,999}', epsilon => 1")
    seen = "SELECT * FROM dp.strategies WHERE queries = 3 AND (workload IS NULL OR workload #>> '{cuts,1}' = '11100')"
    ((name, queries, columns, size, mine, theta, shown, variances),) = [
        row for row in alice.execute(seen).fetchall() if row[4]
    ]
    assert (queries, mine, theta) == (3, True, 1000)
    assert columns >= 3
    assert size > 100
    assert shown["cuts"][1:] == [11100, 22200, 99900]
    assert name in variances
    with cluster.connect("bob", tcp=True) as bob:
        rows = bob.execute("SELECT mine, theta, workload, variances, strategy FROM dp.strategies").fetchall()
        assert rows
        assert {row[:4] for row in rows} == {(False, None, None, None)}
    with cluster.connect() as root:  # its head says what is expected of it: a process that remembers nothing reads it
        root.execute(
            "UPDATE dp.strategy SET definition ="
            " convert_to(regexp_replace(convert_from(substr(definition, 1, n), 'UTF8'),"
            " '(\"variances\": \\[\\[\"[^\"]*\", )[0-9.e+]+', '\\1 1e30'), 'UTF8') || substr(definition, n + 1)"
            " FROM (SELECT workload AS w, position('\\x0a'::bytea IN definition) AS n FROM dp.strategy) AS q"
            " WHERE w = workload AND shown #>> '{workload,cuts,1}' = '11100'"
        )
    with cluster.connect("alice", tcp=True) as again, told(again) as notices:
        ask(again, "'wages', 'pay', '{111,222,999}', epsilon => 2")
    expected = re.search(r"expected RMSE ([0-9.e+]+)", notices[-1])
    assert expected is not None
    assert float(expected[1]) > 1e10


def test_the_plan_lists_every_candidate(alice: psycopg.Connection[Any]) -> None:
    before = left(alice)
    row = alice.execute(
        "SELECT dp.dp_plan(dp.dp_sum_workload_request('wages', 'pay', '{150,300,1000}', epsilon => 1))"
    ).fetchone()
    assert row is not None
    facts = row[0]["workload"]
    errors = {one["strategy"]: one["expected_rmse"] for one in facts["candidates"]}
    assert errors[facts["strategy"]] == facts["expected_rmse"]
    assert len(errors) > 5
    assert sorted(errors.values()) == list(errors.values())
    assert (facts["theta"], facts["queries"], facts["blocks"]) == (1000, 3, 3)
    assert left(alice) == before


def test_the_ledger_tells_workloads_apart(alice: psycopg.Connection[Any]) -> None:
    """By what was asked for, of which a long one is cut: `pg-epsilon plot workload` takes an id from there."""
    asked = ("'{7,300}', options => '{\"theta\": 900}'", "ARRAY(SELECT generate_series(1, 900)::numeric)")
    for more in asked:
        ask(alice, f"'wages', 'pay', {more}, epsilon => 1")
    rows = alice.execute("SELECT question FROM dp.spending ORDER BY at DESC LIMIT 2").fetchall()
    long, short = (str(row[0]) for row in rows)
    assert short == 'SELECT sum(pay) FROM wages (options => {"theta": 900}, per => row, thresholds => ["7", "300"])'
    assert long.startswith('SELECT sum(pay) FROM wages (per => row, thresholds => ["1", "2", ')
    assert long.endswith(" ...)") and len(long) < 300


MANY = "ARRAY(SELECT i / 10.0 FROM generate_series(1, 3000) i)"  # nine million cells
REFUSED = [
    ("'wages', 'pay', '{300,150}', workload => '{{1,0}}', epsilon => 1", "DP005", "ascending order"),
    ("'wages', 'pay', '{300,300}', workload => '{{1,0}}', epsilon => 1", "DP005", "ascending order"),
    ("'wages', 'pay', '{300,2000}', epsilon => 1", "DP005", "outside the declared bounds"),
    ("'wages', 'pay', '{300,NULL}', epsilon => 1", "DP005", "not NULL"),
    ("'wages', 'pay', '{300}', workload => '{{0}}', epsilon => 1", "DP005", "not all of them 0"),
    ("'wages', 'pay', '{300,500}', workload => '{{1}}', epsilon => 1", "DP005", "a weight for each threshold"),
    ("'wages', 'pay', '{300}', epsilon => 0", "DP005", "epsilon"),
    ("'wages', 'pay', '{300}', epsilon => -1", "DP005", "epsilon"),
    ("'wages', 'pay', '{300,500}', workload => '{{1,0},{0,0}}', epsilon => 1", "DP005", "not all of them 0"),
    ("'wages', 'pay', '{300,-1}', epsilon => 1", "DP005", "outside the declared bounds"),
    ("'wages', 'pay', '{NaN}', epsilon => 1", "DP005", "must be numbers"),
    (f"'wages', 'pay', {MANY}, epsilon => 1", "DP005", "more than 1000000 cells"),
    ("'wages', 'pay', epsilon => 1", "DP005", "needs thresholds"),
    ("'wages', 'pay', '{300}', ranges => '{\"[1,2)\"}', epsilon => 1", "DP005", "needs thresholds"),
    ("'wages', 'pay', ranges => '{\"[5000,)\"}', epsilon => 1", "DP005", "no value within"),
    ("'wages', 'pay', ranges => '{empty}', epsilon => 1", "DP005", "empty"),
    ("'wages', 'pay - 500', '{-501}', epsilon => 1", "DP005", "outside the declared bounds"),
    ("'wages', 'pay', '{300}', epsilon => 1, options => '{\"weights\": [1,2]}'", "DP005", "one for each of the 1"),
    ("'wages', 'id', '{300}', epsilon => 1", "DP004", "not declared"),
    ("'wages', 'pay', '{300}', by => 'person', epsilon => 1", "DP004", "person is not declared"),
    ("'wages', 'pay', '{300}', per => 'user', epsilon => 1", "DP004", "how many rows one user"),
    ("'wages', 'pay', '{300}', per => 'day', epsilon => 1", "DP005", "row or user"),
    ("'wages', 'pay', '{300}', epsilon => 1, options => '{\"theta\": 0}'", "DP005", "above 0"),
    ("'wages', 'pay', '{300}', epsilon => 1, options => '{\"theta\": \"twice\"}'", "DP005", "theta must be numbers"),
    ("'wages', 'pay', '{300}', epsilon => 1, options => '{\"method\": \"best\"}'", "DP005", "unknown method"),
    ("'wages', 'pay', '{300}', epsilon => 1, options => '{\"strategy\": \"optimal\"}'", "DP005", "Gaussian"),
    ("'wages', 'pay', '{300}', epsilon => 1, options => '{\"strategy\": [[1,2]]}'", "DP005", "each of the 1 buckets"),
    (
        "'wages', 'pay', '{300}', epsilon => 1, aggregates => '{avg}', options => '{\"strategy\": [[1]]}'",
        "DP005",
        "answers sums alone",
    ),
    ("'wages', 'pay', '{300}', epsilon => 1, options => '{\"strategy\": [1]}'", "DP003", "strategy"),
    ("'wages', 'pay', '{300}', epsilon => 1, options => '{\"thetta\": 3}'", "DP005", "unknown option"),
    ("'wages', 'pay', '{300}', epsilon => 1, options => '{\"rho_split\": 1}'", "DP005", "below 1"),
    ("'wages', 'pay', '{300}', epsilon => 1e-9, options => '{\"theta\": \"recursive\"}'", "DP005", "levels"),
    ("'wages', 'pay', '{300}', epsilon => 1, options => '{\"aggregates\": [\"max\"]}'", "DP005", "a list of"),
    ("'wages', 'pay', '{300}', epsilon => 1, options => '[]'", "DP003", "options"),
]


@pytest.mark.parametrize(("arguments", "state", "words"), REFUSED, ids=[row[0][:60] for row in REFUSED])
def test_refusals_say_what_and_cost_nothing(
    alice: psycopg.Connection[Any], arguments: str, state: str, words: str
) -> None:
    before = left(alice)
    with pytest.raises(psycopg.Error) as refused:
        ask(alice, arguments)
    assert refused.value.sqlstate == state
    assert words in str(refused.value)
    assert refused.value.diag.message_hint
    assert left(alice) == before


def test_an_empty_selection_is_answered_like_any_other(alice: psycopg.Connection[Any]) -> None:
    rows = ask(alice, "'wages', 'pay', '{300,1000}', predicate => 'pay > 999 AND pay < 1', epsilon => 1")
    assert len(rows) == 2


@pytest.mark.chance(fix_chance.laplace(2 / 30, 30))
def test_edges_are_numeric_not_floating(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    """A row at 450.50 is at most 450.5: a hundred of them."""
    ((count,),) = ask_all(alice, "'wages', 'pay', ranges => '{\"[450.5,450.5]\"}', epsilon => 30", "count")
    ((expected,),) = truth(cluster, "SELECT count(*) FROM wages WHERE pay = 450.5")
    assert expected >= 100
    assert abs(int(count) - expected) <= 30
