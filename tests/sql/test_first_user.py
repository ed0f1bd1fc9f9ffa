"""What people meet who use decisions, synthetic tables and Turbo for the first time: errors name what is wrong, and a
HINT that is followed literally works. Nothing here draws a conclusion from noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, no_charge, one, refused, spent

WORLD = """
CREATE TABLE sales (day date NOT NULL, kind text NOT NULL, level int NOT NULL, minutes int, price numeric(10,2));
INSERT INTO sales SELECT DATE '2026-01-01' + i % 28, (ARRAY['web','shop'])[1 + i % 2], i % 5, i % 60, i
FROM generate_series(1, 2000) i;
CALL dp.create_dataset('sales', epsilon => 20, default_epsilon => 0.1);
CALL dp.protect('sales', 'sales', partition_by => 'day', grid => '{"origin": "2026-01-01", "width": "7 days"}',
  scale => 2000);
CALL dp.describe_column('sales', 'day', bounds => '{2026-01-01,2026-12-31}', nullable => false);
CALL dp.describe_column('sales', 'kind', domain => '{web,shop}', nullable => false);
CALL dp.describe_column('sales', 'level', domain => '{0,1,2,3,4}', nullable => false);
CALL dp.describe_column('sales', 'minutes', edges => '{0,10,30,60}');
CALL dp.describe_column('sales', 'price', bounds => '{0,200000}', resolution => '100');
CALL dp.publish('sales');
CALL dp.allot('alice', 'sales', epsilon => 10);
CALL dp.allot('dp_planner', 'sales', epsilon => 5);
CREATE TABLE prices (item text, price int);
CALL dp.publish('prices', 'public');
"""
ENABLE = "CALL dp.enable_turbo('sales', '{kind,level,minutes}', alpha => 0.05, beta => 0.01"
PARTS = ", partition_by => 'day', partition_key_is_public => true"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(WORLD, user="boss")
        yield running


@pytest.fixture(scope="module")
def boss(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("boss") as conn:
        yield conn


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("alice") as conn:
        yield conn


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


@pytest.fixture(scope="module")
def copy(boss: psycopg.Connection[Any]) -> str:
    """A synthetic copy that the owner had made."""
    boss.execute("CALL dp.make_synthetic('sales', epsilon => 1)")
    return "sales_syn"


@pytest.fixture(scope="module")
def weeks(boss: psycopg.Connection[Any]) -> Iterator[None]:
    """Turbo over four weeks, of which the last is not sealed."""
    boss.execute(f"{ENABLE}{PARTS}, scale => 500)")
    boss.execute("CALL dp.seal_partitions('sales', until => '2026-01-22')")
    yield
    boss.execute("CALL dp.disable_turbo('sales')")


def test_an_owner_sees_who_spent_what(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    """By role, the planner too; analysts see their own in dp.budget. An unknown dataset's hint can be run."""
    with cluster.connect("alice") as alice:
        alice.execute("SELECT dp.dp_count('people', epsilon => 0.25)")
        own = one(alice, "SELECT your_epsilon_left FROM dp.budget WHERE dataset = 'people'")
        with refused("42501", hint=False):
            alice.execute("SELECT * FROM dp.allotments")
    seen = "SELECT role::text, epsilon_left FROM dp.allotments WHERE dataset = %s"
    assert ("alice", own) in boss.execute(seen, ["people"]).fetchall()
    assert {role for role, _ in boss.execute(seen, ["sales"]).fetchall()} == {"alice", "dp_planner"}
    boss.execute(hint_of(boss, "CALL dp.allot('alice', 'nothing', epsilon => 1)"))


def hint_of(conn: psycopg.Connection[Any], sql: str) -> str:
    """The HINT of a statement that is refused."""
    with pytest.raises(psycopg.Error) as caught:
        conn.execute(sql)
    return caught.value.diag.message_hint or ""


TAKEN = [
    ("sales", "sales_2", False),  # the private table itself
    ("prices", "prices_2", False),
    ("sales_syn", "sales_syn_2", True),
]


@pytest.mark.parametrize(("name", "other", "may_go"), TAKEN)
def test_a_name_that_is_taken(
    cluster: Cluster, boss: psycopg.Connection[Any], copy: str, name: str, other: str, may_go: bool
) -> None:
    """Nobody is told to drop a table that is no synthetic copy."""
    with no_charge(cluster):
        hint = hint_of(boss, f"CALL dp.make_synthetic('sales', epsilon => 1, synthetic => '{name}')")
    assert ("DROP" in hint) == may_go
    assert "another name: synthetic => '" in hint


def test_a_copy_of_what_is_not_protected(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    with no_charge(cluster), refused("DP005", "prices is not a protected relation that is published"):
        boss.execute("CALL dp.make_synthetic('prices', epsilon => 1)")
    with no_charge(cluster), refused("42703", "columns is empty"):
        boss.execute("CALL dp.make_synthetic('sales', epsilon => 1, columns => '{}', synthetic => 'none')")
    with no_charge(cluster), refused("DP005", "prices is not a protected relation that is published"):
        boss.execute("CALL dp.enable_turbo('prices', '{item}', 0.05, 0.01)")


CHANGES = [
    ("ALTER TABLE sales RENAME COLUMN kind TO channel", "RENAME COLUMN kind TO its new name", "channel"),
    ("ALTER TABLE sales DROP COLUMN kind", "DROP COLUMN kind", None),
]


@pytest.mark.parametrize(("change", "way", "name"), CHANGES)
def test_a_copy_follows_a_changed_column(
    cluster: Cluster, boss: psycopg.Connection[Any], copy: str, change: str, way: str, name: str | None
) -> None:
    """dp.check() says what to do to the copy; registering it again would be charged as a new release."""
    problem = "SELECT hint FROM dp.check() WHERE object = 'public.sales_syn' AND severity = 'error'"
    with no_charge(cluster):
        boss.execute("BEGIN")
        boss.execute(change)
        hint = one(boss, problem)
        assert way in hint
        assert "register" not in hint
        statement = f"ALTER TABLE {hint.split('ALTER TABLE ')[1 if name else 2].removesuffix(', or ')}"
        boss.execute(statement.replace("its new name", name or ""))
        assert boss.execute(problem).fetchall() == []
        boss.execute("ROLLBACK")


def test_a_foreign_table_as_a_copy(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    """A protected table is called that, before its columns are compared; a missing column's hint can be run."""
    register = "CALL dp.register_synthetic('sales', '{}', 'public')"
    with no_charge(cluster), refused("DP005", "protected itself"):
        boss.execute(register.format("people"))
    boss.execute("CREATE TABLE mine (day date, kind text, level int, minutes int)")
    with no_charge(cluster):
        boss.execute(hint_of(boss, register.format("mine")).split(", or ")[0])
        boss.execute(register.format("mine"))
    boss.execute("DROP TABLE mine")


SCALES = [
    (", scale => -5", "a scale is at least 1"),
    (", scale => 0.2", "a scale is at least 1"),
    (", scale => 'NaN'", "a scale is at least 1"),
    (PARTS, "the public number of rows of a partition, and none is declared"),
]


@pytest.mark.parametrize(("options", "words"), SCALES)
def test_scales(cluster: Cluster, boss: psycopg.Connection[Any], options: str, words: str) -> None:
    with no_charge(cluster), refused("DP005", words):
        boss.execute(f"{ENABLE}{options})")
    assert one(boss, "SELECT count(*) FROM dp.turbo WHERE relation = 'public.sales'") == 0


WORKLOADS = [
    ('[{"where": "kind = 1"}]', "question 1 of the declared workload: "),
    (
        '[{"keys": ["kind"]}, {"where": "levl = 1"}]',
        'question 2 of the declared workload: column "levl" does not exist',
    ),
    ('[{"keys": ["kind"]}, {"where": "level = 1"}, {"where": "minutes < 15"}]', "question 3 of the declared workload"),
    ('[{"where": "minutes < 15"}]', "a condition cuts through a declared range of minutes"),
    ('[{"keys": "kind"}]', '{"keys": ["sex"]}'),
    ('[{"were": "true"}]', '{"where": "age >= 65"}'),
]


@pytest.mark.parametrize(("workload", "words"), WORKLOADS)
def test_a_workload_with_a_mistake(cluster: Cluster, boss: psycopg.Connection[Any], workload: str, words: str) -> None:
    """Which of its questions, and what is wrong with it."""
    settings = f'{{"workload": {workload}}}'
    with no_charge(cluster), pytest.raises(psycopg.Error) as caught:
        boss.execute(f"{ENABLE}, settings => %s)", [settings])
    said = caught.value.diag
    assert caught.value.sqlstate in ("DP003", "DP005", "42703", "42883", "22P02", "42804")
    assert words in f"{said.message_primary} / {said.message_hint}"
    assert said.message_hint


def test_a_column_with_too_many_values(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    with no_charge(cluster), refused("DP005", "price has more than 1000000 values in its declared bounds"):
        boss.execute("CALL dp.enable_turbo('sales', '{kind,price}', 0.05, 0.01)")


def test_partitions_of_a_view_without(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    boss.execute(f"{ENABLE})")
    with no_charge(cluster), refused("DP005", "partition_by => key, partition_key_is_public => true"):
        boss.execute("CALL dp.seal_partition('sales', '2026-01-01')")
    boss.execute("CALL dp.disable_turbo('sales')")


def test_partitions_that_are_not_there(cluster: Cluster, boss: psycopg.Connection[Any], weeks: None) -> None:
    with no_charge(cluster):
        boss.execute(hint_of(boss, "CALL dp.reopen_partition('sales', '2026-01-22')"))
    with no_charge(cluster), refused("DP005", "It begins at 2026-01-01."):
        boss.execute("CALL dp.seal_partition('sales', '2025-12-31')")


def test_partitions_of_a_list(cluster: Cluster, boss: psycopg.Connection[Any], alice: psycopg.Connection[Any]) -> None:
    """They have no age, and a window of them is a run of the declared values."""
    cluster.psql(
        """CREATE TABLE sites (site text NOT NULL, ok boolean NOT NULL);
        CALL dp.protect('sites', 'sales', partition_by => 'site', grid => '{"list": ["north", "south", "east"]}');
        CALL dp.describe_column('sites', 'site', domain => '{north,south,east}', nullable => false);
        CALL dp.describe_column('sites', 'ok', nullable => false); CALL dp.publish('sites');
        CALL dp.enable_turbo('sites', '{ok}', 0.05, 0.01, 'site', true, scale => 500);""",
        user="boss",
    )
    with no_charge(cluster), refused("DP005", "dp.seal_partition(relation, value) for partitions of a list"):
        boss.execute("CALL dp.seal_partitions('sites', older_than => '1 day')")
    with no_charge(cluster), refused("DP005", "Its values: north, south, east."):
        boss.execute("CALL dp.seal_partition('sites', 'west')")
    for site in ("north", "south", "east"):
        boss.execute("CALL dp.seal_partition('sites', %s)", [site])
    request = "SELECT dp.dp_plan(dp.dp_count_request('sites', %s, alpha => 0.05, beta => 0.01))"
    assert one(alice, request, "site IN ('north', 'south') AND ok")["mechanism"] == "turbo"
    with refused("DP004", "Turbo does not answer it: its condition on site names no neighbours of the declared list"):
        alice.execute(request, ["site IN ('north', 'east') AND ok"])


WEEK = "day >= '2026-01-01' AND day < '2026-01-08'"
REASONS = [
    (WEEK, "", None),
    (
        "kind = 'web'",
        "",
        "its condition on day has no two ends, or cuts through a partition; see dp.turbo, or SET dp.windows",
    ),
    ("day < '2026-01-08'", "", "its condition on day has no two ends"),
    ("day >= '2026-01-02' AND day < '2026-01-08'", "", "or cuts through a partition"),
    ("day >= '2026-01-15' AND day < '2026-01-29'", "", "a partition of it is not sealed"),
    (f"{WEEK} AND minutes < 15", "", "a condition cuts through a declared range of minutes"),
    (f"{WEEK} AND price < 100", "", '"price" is no attribute of it'),
    (WEEK, ", alpha => 0.01", "alpha is below 0.05, its own"),
    (WEEK, ", beta => 0.001", "beta is below 0.01, its own"),
    (WEEK, ", mechanism => 'laplace'", "the mechanism laplace is asked for"),
    (WEEK, ", fresh => true", "a fresh answer is asked for"),
]


@pytest.mark.parametrize(("predicate", "options", "reason"), REASONS)
def test_why_turbo_does_not_answer(
    cluster: Cluster, alice: psycopg.Connection[Any], weeks: None, predicate: str, options: str, reason: str | None
) -> None:
    """EXPLAIN says so, before another mechanism is paid for."""
    given = {"alpha": ", alpha => 0.05", "beta": ", beta => 0.01"}
    rest = "".join(text for name, text in given.items() if f"{name} =>" not in options)
    with no_charge(cluster):
        plan = one(alice, f"SELECT dp.dp_plan(dp.dp_count_request('sales', %s{rest}{options}))", predicate)
    assert (plan["mechanism"] == "turbo") == (reason is None)
    assert [item["aggregate"] for item in plan["aggregates"]] == ["count"]
    assert reason is None or reason in plan["turbo"]


@pytest.mark.parametrize("call", ["query", "plan"])
def test_what_nobody_answers_says_why_turbo_does_not(
    cluster: Cluster, alice: psycopg.Connection[Any], weeks: None, call: str
) -> None:
    """Who may not ask an average by accuracy directly learns why Turbo, which may, does not answer this one."""
    request = "dp.dp_group_by_request('sales', '{}', ARRAY['avg(minutes)'], %s, alpha => 0.05, beta => 0.01)"
    with (
        no_charge(cluster),
        refused("DP005", "Turbo does not answer it: the values of minutes are declared as ranges."),
    ):
        alice.execute(f"SELECT dp.dp_{call}({request})", [WEEK])


def test_no_reason_where_turbo_was_not_asked(alice: psycopg.Connection[Any], weeks: None) -> None:
    assert "turbo" not in one(alice, "SELECT dp.dp_plan(dp.dp_count_request('sales', epsilon => 0.1))")


DECISIONS = [
    ("SELECT count(DISTINCT kind) FROM sales", "tau => 5", "DP003", "distinct"),
    ("SELECT avg(kind) FROM sales", "tau => 5", "DP003", "CASE WHEN x = 'a' THEN 1 ELSE 0 END"),
    ("SELECT median(day) FROM sales", "tau => 5", "DP003", "extract(year FROM x)"),
    ("SELECT count(*) FROM sales", "tau => -5", "DP005", "SET dp.tau = '5%' for a percentage"),
    ("SELECT count(*) FROM sales", "tau => 5, theta => 2", "DP005", "the share of rows"),
    ("SELECT sum(price) FROM sales", "tau => 5, largest => -1", "DP005", "largest => 5000"),
]


@pytest.mark.parametrize(("query", "options", "sqlstate", "words"), DECISIONS)
def test_decisions_that_are_asked_wrongly(
    cluster: Cluster, alice: psycopg.Connection[Any], copy: str, query: str, options: str, sqlstate: str, words: str
) -> None:
    with no_charge(cluster), refused(sqlstate, words):
        alice.execute(f"SELECT dp.dp_decide(%s, 'sales_syn', {options}, epsilon => 0.1)", [query])


def test_a_fallback_on_a_wide_domain(cluster: Cluster, alice: psycopg.Connection[Any], copy: str) -> None:
    """auto takes a decider that can answer; what the refusal of the other one advises can be asked."""
    query, ask = (
        "SELECT median(price) FROM sales",
        "SELECT mechanism, answer FROM dp.dp_decide_detail(%s, 'sales_syn', 50",
    )
    with no_charge(cluster), refused("DP005", "mechanism hist"):
        alice.execute(f"{ask}, mechanism => 'em')", [query])
    found = alice.execute(f"{ask}, fallback => true)", [query]).fetchone()
    assert found is not None
    assert found[0] == "Hist_med"
    assert found[1] is not None
    rounded = alice.execute(f"{ask}, mechanism => 'em')", ["SELECT median(round(price, -2)) FROM sales"]).fetchone()
    assert rounded is not None
    assert rounded[0] == "EM_med"


def test_an_unknown_margin_is_not_shown_as_0(alice: psycopg.Connection[Any], weeks: None) -> None:
    """Of an average no margin is known before it is answered, neither directly nor by Turbo."""
    request = "dp.dp_group_by_request('sales', '{}', ARRAY['avg(level)'], %s, "
    for price in ("epsilon => 0.1", "alpha => 0.05, beta => 0.01"):
        plan = one(alice, f"SELECT dp.dp_plan({request}{price}))", WEEK)
        assert "margin" not in plan
        assert "±" not in plan["text"]


def test_a_copy_of_another_table_is_set(cluster: Cluster, alice: psycopg.Connection[Any], copy: str) -> None:
    """Who set dp.synthetic an hour ago is told how to ask without it."""
    settings = """'{"dp.synthetic": "sales_syn", "dp.tau": "5%%", "dp.epsilon": "0.1"}'"""
    request = '{"version": 1, "from": {"schema": "public", "name": "people"}, "aggregates": ["count(*)"]}'
    ask = f"SELECT dp.dp_query(%s::jsonb || jsonb_build_object('settings', {settings}::jsonb))"
    with no_charge(cluster), refused("DP005", "RESET dp.synthetic"):
        alice.execute(ask, [request])


def test_a_broken_copy_sends_to_the_check(cluster: Cluster, boss: psycopg.Connection[Any], copy: str) -> None:
    """Registering a release again is charged: nobody should be sent there."""
    before = spent(cluster, "sales")
    boss.execute("ALTER TABLE sales RENAME COLUMN kind TO channel")
    try:
        with cluster.connect("alice") as alice, refused("DP006", "dp.check()"):
            alice.execute("SELECT dp.dp_decide('SELECT count(*) FROM sales', 'sales_syn', 5, epsilon => 0.1)")
    finally:
        boss.execute("ALTER TABLE sales RENAME COLUMN channel TO kind")
    assert spent(cluster, "sales") == before
