"""dp.retain: rows go, their counts stay or go with them, and every answer says which (finding G8)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import account, balanced, no_charge, one, refused
from fix_sealing import counted
from fix_turbo import ask

pytestmark = pytest.mark.chance(fix_chance.accuracy(4, 12))

ROWS, DAYS = 1000, 8
SURE = 4 * 0.05 * ROWS  # off a day's count
GRID = '{"origin": "2024-01-01", "width": "1 day"}'
TAILS = {
    "plain": "",
    "parted": "PARTITION BY RANGE (day)",
    "moments": "",
    "numbers": "PARTITION BY RANGE (day)",
}
KEYS = {"moments": "timestamptz", "numbers": "int"}


def value(name: str, day: int) -> str:
    """The first value of a day, numbered from 0, as its key is written."""
    return str(10 * day) if KEYS.get(name) == "int" else f"2024-01-{day + 1:02}"


def window(name: str, first: int, last: int) -> str:
    return f"a = 1 AND day >= '{value(name, first)}' AND day < '{value(name, last + 1)}'"


def made(name: str, tail: str = "", key: str = "date", grid: str = GRID) -> str:
    """Eight days of ROWS rows, all sealed; in partitions of one, two and five days, if there are any."""
    whole = "int" if key == "int" else "date"
    first = "i % 10 + 10 * d" if key == "int" else "DATE '2024-01-01' + d"
    parts = "".join(
        f"CREATE TABLE {name}_{lo} PARTITION OF {name} FOR VALUES FROM ('{value(name, lo)}') TO ('{value(name, hi)}');"
        for lo, hi in ([(0, 1), (1, 3), (3, DAYS)] if tail else [])
    )
    return f"""
    CREATE TABLE {name} (day {key}, a int) {tail};
    {parts}
    INSERT INTO {name} SELECT ({first})::{whole}, i % 4
    FROM generate_series(0, {DAYS - 1}) d, generate_series(1, {ROWS}) i;
    CALL dp.create_dataset('{name}', epsilon => 20);
    CALL dp.protect('{name}', '{name}', partition_by => 'day', grid => '{grid}');
    CALL dp.describe_column('{name}', 'day');
    CALL dp.describe_column('{name}', 'a', bounds => '{{0,3}}', nullable => false);
    CALL dp.publish('{name}');
    CALL dp.allot('alice', '{name}', epsilon => 20);
    CALL dp.enable_turbo('{name}', '{{a}}', 0.05, 0.001, 'day', true, scale => {ROWS});
    CALL dp.seal_partitions('{name}', until => '{value(name, DAYS)}');
    """


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("alice") as conn:
        yield conn


@pytest.fixture(scope="module")
def boss(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("boss") as conn:
        yield conn


@pytest.fixture(scope="module")
def table(cluster: Cluster) -> Iterator[Any]:
    """Makes a table once."""
    known: set[str] = set()

    def make(name: str) -> str:
        if name not in known:
            known.add(name)
            key = KEYS.get(name, "date")
            grid = '{"origin": 0, "width": 10}' if key == "int" else GRID
            cluster.psql(made(name, TAILS.get(name, ""), key, grid), user="boss")
        return name

    yield make


def retain(boss: psycopg.Connection[Any], name: str, day: int, keep: bool) -> list[str]:
    """What it says."""
    heard: list[str] = []

    def hear(diagnostic: psycopg.errors.Diagnostic) -> None:
        heard.append(diagnostic.message_primary or "")

    boss.add_notice_handler(hear)
    try:
        boss.execute(f"CALL dp.retain('{name}', '{value(name, day)}', keep_counts => {keep})")
    finally:
        boss.remove_notice_handler(hear)
    return heard


def left(cluster: Cluster, name: str) -> dict[str, int]:
    """Rows by their key."""
    with cluster.connect() as root:
        return dict(root.execute(f"SELECT day::text, count(*) FROM {name} GROUP BY 1").fetchall())


def policy_version(cluster: Cluster) -> int:
    with cluster.connect() as root:
        return int(one(root, "SELECT version FROM dp.policy_state"))


def warnings(answer: dict[str, Any]) -> str:
    return "; ".join(answer.get("notice", answer)["warnings"])


@pytest.mark.parametrize("name", ["plain", "parted", "moments", "numbers"])
def test_counts_that_are_kept_are_told_as_the_seals(
    cluster: Cluster, boss: psycopg.Connection[Any], alice: psycopg.Connection[Any], table: Any, name: str
) -> None:
    table(name)
    before, version = account(cluster, name), policy_version(cluster)
    retain(boss, name, 2, keep=True)
    assert policy_version(cluster) == version, "no proxy has to follow"
    assert len(left(cluster, name)) == (DAYS - 2) * (10 if name == "numbers" else 1)
    assert account(cluster, name) == before, "nothing is given back"
    assert [counted(cluster, name, part) for part in range(DAYS)] == [ROWS] * DAYS
    plan = ask(alice, name, window(name, 0, 2), "plan")
    answer = ask(alice, name, window(name, 0, 2))
    assert answer["notice"]["mechanism"] == "turbo"
    assert abs(int(answer["rows"][0][0]) - 3 * ROWS // 4) <= 3 * SURE
    for told in (warnings(plan), warnings(answer), answer["notice"]["text"]):
        assert "were removed on 20" in told and "counts there are those of the seal" in told, told
        assert "rows with day from " in told and value(name, 2) in told
    assert "removed" not in warnings(ask(alice, name, window(name, 2, 3))), "it is about other days"


@pytest.mark.parametrize("name", ["plain", "parted", "moments", "numbers"])
def test_counts_that_go_are_of_no_rows(
    cluster: Cluster, boss: psycopg.Connection[Any], alice: psycopg.Connection[Any], table: Any, name: str
) -> None:
    """The finding: after the rows were dropped, new paid answers counted them."""
    table(name)
    ask(alice, name, window(name, 2, 3))
    before = account(cluster, name)
    retain(boss, name, 4, keep=False)
    assert len(left(cluster, name)) == (DAYS - 4) * (10 if name == "numbers" else 1)
    assert account(cluster, name) == before, "nothing is given back"
    assert [counted(cluster, name, part) for part in range(DAYS)] == [0] * 4 + [ROWS] * (DAYS - 4)
    answer = ask(alice, name, window(name, 2, 3))
    assert abs(int(answer["rows"][0][0])) <= 2 * SURE
    assert answer["notice"]["charge"], "what was stored is served no more"
    spent = account(cluster, name)
    assert spent.keys() >= before.keys() and all(spent[leaf] >= before[leaf] for leaf in before)
    told = warnings(ask(alice, name, window(name, 0, 4), "plan"))
    assert told.count("none of them is counted") == 1 and value(name, 4) in told, told
    with refused("42501", "is sealed"):
        boss.execute(f"INSERT INTO {name} VALUES ('{value(name, 3)}', 1)")


def test_partitions_that_end_before_are_dropped(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    """And what is left of one that goes on is deleted."""
    cluster.psql(made("cut", "PARTITION BY RANGE (day)"), user="boss")
    retain(boss, "cut", 2, keep=True)
    with cluster.connect() as root:
        kept = "SELECT string_agg(inhrelid::regclass::text, ' ' ORDER BY inhrelid) FROM pg_inherits"
        assert one(root, f"{kept} WHERE inhparent = 'cut'::regclass") == "cut_1 cut_3"
        assert one(root, "SELECT count(*) FROM cut_1") == ROWS


def test_the_value_is_rounded_down(boss: psycopg.Connection[Any], cluster: Cluster) -> None:
    cluster.psql(made("hours", key="timestamptz"), user="boss")
    heard: list[str] = []
    boss.add_notice_handler(lambda d: heard.append(d.message_primary or ""))
    boss.execute("CALL dp.retain('hours', '2024-01-02 23:59+00', keep_counts => true)")
    assert any("rounded down to 2024-01-02 00:00:00+00" in told for told in heard), heard
    assert len(left(cluster, "hours")) == DAYS - 1


REFUSED = {
    "NULL relation": ("NULL, '2024-01-03', true", "22004", "none of them is NULL"),
    "NULL value": ("'small', NULL, true", "22004", "none of them is NULL"),
    "NULL choice": ("'small', '2024-01-03', NULL", "22004", "none of them is NULL"),
    "future": ("'small', (now() + interval '2 days')::text, false", "DP005", "in the future"),
    "before all": ("'small', '2023-12-31', true", "DP005", "no partition of the declared grid ends at 2023-12-31"),
    "the first": ("'small', '2024-01-01', false", "DP005", "no partition of the declared grid"),
    "infinity": ("'small', 'infinity', false", "DP005", "no partition of the declared grid"),
    "no value": ("'small', 'long ago', true", "DP005", "partition key"),
    "not sealed": ("'unsealed', '2024-01-02', true", "DP005", "[2024-01-01,2024-01-02) is not sealed"),
    "reopened": ("'small', '2024-01-07', true", "DP005", "[2024-01-06,2024-01-07) is not sealed"),
    "no partitions": ("'bare', '2024-01-03', true", "DP005", "has no partitions"),
    "a list": ("'listed', '2', true", "DP005", "partitions of a list"),
}


@pytest.fixture(scope="module")
def small(cluster: Cluster) -> None:
    cluster.psql(
        made("small") + made("unsealed").rpartition("CALL")[0] + "CALL dp.reopen_partition('small', '2024-01-06');"
        "CREATE TABLE bare (day date); CALL dp.create_dataset('bare', epsilon => 1); CALL dp.protect('bare', 'bare');"
        "CREATE TABLE listed (k int, a int); CALL dp.create_dataset('listed', epsilon => 1);"
        "CALL dp.protect('listed', 'listed', partition_by => 'k', grid => '{\"list\": [\"1\", \"2\"]}');"
        "CALL dp.describe_column('listed', 'k');"
        "CALL dp.describe_column('listed', 'a', bounds => '{0,3}', nullable => false); CALL dp.publish('listed');"
        "CALL dp.enable_turbo('listed', '{a}', 0.05, 0.001, 'k', true, scale => 10);",
        user="boss",
    )


@pytest.mark.parametrize("case", REFUSED)
def test_bad_calls_are_refused(cluster: Cluster, boss: psycopg.Connection[Any], small: None, case: str) -> None:
    arguments, state, words = REFUSED[case]
    with no_charge(cluster), pytest.raises(psycopg.Error) as caught:
        boss.execute(f"CALL dp.retain({arguments})")
    assert caught.value.sqlstate == state and words in str(caught.value), caught.value
    assert caught.value.diag.message_hint
    assert len(left(cluster, "small")) == DAYS


def test_only_the_owner_may(cluster: Cluster, alice: psycopg.Connection[Any], small: None) -> None:
    with refused("42501", "permission denied", hint=False):
        alice.execute("CALL dp.retain('small', '2024-01-03', keep_counts => false)")
    with cluster.connect("boss") as other, other.transaction():
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        with refused("25001", "repeatable read"):
            other.execute("CALL dp.retain('small', '2024-01-03', keep_counts => false)")
    with cluster.connect("boss") as other, refused("55000", "rows of public.small can be added meanwhile"):
        other.execute(
            "SELECT dp._behind_barrier('small', 'dp.retain', 'retain', %s)",
            ['{"until": "2024-01-03", "keep_counts": false}'],
        )
    assert len(left(cluster, "small")) == DAYS


def test_it_is_one_transaction(cluster: Cluster, alice: psycopg.Connection[Any], small: None) -> None:
    """Rolled back, rows are there, and answers say nothing of a removal."""
    with cluster.connect("boss") as other, other.transaction(force_rollback=True):
        other.execute("CALL dp.retain('small', '2024-01-03', keep_counts => false)")
    assert len(left(cluster, "small")) == DAYS and counted(cluster, "small", 0) == ROWS
    assert "removed" not in warnings(ask(alice, "small", window("small", 0, 1), "plan"))


def test_it_waits_for_writers_and_says_for_whom(cluster: Cluster, small: None) -> None:
    with cluster.connect("boss") as late, late.transaction(), cluster.connect("boss") as other:
        late.execute("INSERT INTO small VALUES ('2024-02-01', 1)")
        other.execute("SET lock_timeout = '300ms'")
        with refused("55P03", f"still being written by pid {late.info.backend_pid} (boss"):
            other.execute("CALL dp.retain('small', '2024-01-03', keep_counts => true)")
        late.execute("DELETE FROM small WHERE day = '2024-02-01'")


def test_a_dropped_partition_waits_for_readers(cluster: Cluster) -> None:
    cluster.psql(made("read", "PARTITION BY RANGE (day)"), user="boss")
    with cluster.connect("boss") as reader, reader.transaction(), cluster.connect("boss") as other:
        reader.execute("SELECT FROM read LIMIT 1")
        other.execute("SET lock_timeout = '300ms'")
        with refused("55P03", "still being read"):
            other.execute("CALL dp.retain('read', '2024-01-03', keep_counts => true)")
    assert len(left(cluster, "read")) == DAYS


def test_rows_that_a_trigger_keeps_are_no_removal(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    cluster.psql(
        made("held") + "CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        "CREATE TRIGGER hold BEFORE DELETE ON held FOR EACH ROW EXECUTE FUNCTION public.hold()",
        user="boss",
    )
    with refused("55000", "stay when they are deleted"):
        boss.execute("CALL dp.retain('held', '2024-01-03', keep_counts => false)")
    assert counted(cluster, "held", 0) == ROWS


def test_what_a_foreign_key_refers_to_is_deleted_as_it_says(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    """No partition is dropped beneath it: its rows go one by one, or not at all."""
    cluster.psql(
        made("meant", "PARTITION BY RANGE (day)") + "DELETE FROM meant; ALTER TABLE meant ADD PRIMARY KEY (day, a);"
        "CALL dp.reopen_partition('meant', '2024-01-01');"
        "INSERT INTO meant SELECT '2024-01-01', generate_series(0, 3);"
        "CALL dp.seal_partition('meant', '2024-01-01');"
        "CREATE TABLE named (day date, a int, FOREIGN KEY (day, a) REFERENCES meant);"
        "INSERT INTO named VALUES ('2024-01-01', 2)",
        user="boss",
    )
    with refused("23503", "named", hint=False):
        boss.execute("CALL dp.retain('meant', '2024-01-03', keep_counts => false)")
    assert left(cluster, "meant") == {"2024-01-01": 4}
    boss.execute("DELETE FROM named")
    boss.execute("CALL dp.retain('meant', '2024-01-03', keep_counts => false)")
    assert left(cluster, "meant") == {}
    assert one(boss, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'meant'::regclass") == 3


def test_a_reopened_partition_is_told_of_no_more(
    cluster: Cluster, boss: psycopg.Connection[Any], alice: psycopg.Connection[Any]
) -> None:
    cluster.psql(made("again"), user="boss")
    retain(boss, "again", 2, keep=False)
    boss.execute("CALL dp.reopen_partition('again', '2024-01-01')")
    boss.execute("INSERT INTO again SELECT '2024-01-01', 1 FROM generate_series(1, 40)")
    boss.execute("CALL dp.seal_partition('again', '2024-01-01')")
    assert counted(cluster, "again", 0) == 40
    assert "removed" not in warnings(ask(alice, "again", window("again", 0, 0), "plan"))
    assert "from 2024-01-02 to before 2024-01-03" in warnings(ask(alice, "again", window("again", 0, 3), "plan"))


def test_the_view_shows_it(cluster: Cluster, boss: psycopg.Connection[Any], alice: psycopg.Connection[Any]) -> None:
    cluster.psql(made("shown"), user="boss")
    retain(boss, "shown", 3, keep=True)
    retain(boss, "shown", 1, keep=False)
    sql = "SELECT counts_kept FROM dp.turbo WHERE relation = 'public.shown' AND rows_removed IS NOT NULL"
    assert [row[0] for row in alice.execute(f"{sql} ORDER BY partition")] == [False, True, True]


def test_a_copy_that_lacks_kept_counts_says_so(
    cluster: Cluster, boss: psycopg.Connection[Any], alice: psycopg.Connection[Any]
) -> None:
    """They are in no dump, and rows to count them from are gone: a refresh does not make them 0 in silence."""
    cluster.psql(made("copied"), user="boss")
    stored = ask(alice, "copied", window("copied", 0, 1))
    retain(boss, "copied", 2, keep=True)
    view = "(SELECT view FROM dp.turbo_view WHERE relation = 'copied'::regclass)"
    cluster.execute(f"DELETE FROM dp.turbo_leaf_counts WHERE view = {view}")
    with refused("DP005", "has no counts"):
        boss.execute("CALL dp.retain('copied', '2024-01-04', keep_counts => true)")
    boss.execute("CALL dp.refresh('copied')")
    with cluster.connect() as root:
        assert one(root, f"SELECT count(*) FROM dp.turbo_leaf_counts WHERE view = {view}") == DAYS - 2
    with no_charge(cluster):
        assert ask(alice, "copied", window("copied", 0, 1))["rows"] == stored["rows"]
        with refused("DP006", "and their rows were removed"):
            ask(alice, "copied", window("copied", 0, 1).replace("a = 1", "a = 2"))
    problem = boss.execute(
        "SELECT problem, hint FROM dp.check() WHERE object ~ 'copied' AND problem ~ 'Turbo'"
    ).fetchone()
    assert problem is not None and "counts that dp.retain kept are missing" in problem[0]
    boss.execute(problem[1].split(" counts none")[0])
    assert counted(cluster, "copied", 0) == 0
    assert abs(int(ask(alice, "copied", window("copied", 0, 1))["rows"][0][0])) <= 2 * SURE
    assert account(cluster, "copied")["leaf/public.copied/[2024-01-01,2024-01-02)"] > Decimal(0)
