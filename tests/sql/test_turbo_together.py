"""Turbo under concurrency and trouble: one lock a view, one payment a question, a FAIL that stays (turbo.md §11).

Tests are of errors of 0 or 8000 rows against 500, which is 23 scales of their noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, forgive, one, refused

pytestmark = pytest.mark.chance(fix_chance.union(*[fix_chance.laplace_sum(2, 23)] * 50))

ROWS = 20_000


def table(name: str) -> str:
    """a = i % 8 evenly; b is 1 for a tenth; a histogram that is trusted at once."""
    return f"""
    CREATE TABLE {name} (a int, b int);
    INSERT INTO {name} SELECT i % 8, CASE WHEN i % 10 = 0 THEN 1 ELSE 0 END FROM generate_series(1, {ROWS}) i;
    CALL dp.create_dataset('{name}', epsilon => 100);
    CALL dp.protect('{name}', '{name}', scale => {ROWS});
    CALL dp.describe_column('{name}', 'a', bounds => '{{0,7}}', nullable => false);
    CALL dp.describe_column('{name}', 'b', bounds => '{{0,1}}', nullable => false);
    CALL dp.publish('{name}');
    CALL dp.allot('alice', '{name}', epsilon => 100);
    CALL dp.enable_turbo('{name}', '{{a,b}}', 0.05, 0.00001, planner => 'turbo',
      settings => '{{"c0": 0, "s0": 1, "learning_rates": [0.1]}}');
    """


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


def ask(conn: psycopg.Connection[Any], name: str, predicate: str) -> tuple[str, Any]:
    sql = f"SELECT dp.dp_query(dp.dp_count_request('{name}', %s, alpha => 0.05, beta => 0.00001))"
    answer = one(conn, sql, predicate)
    return str(answer["notice"]["path"]), answer["rows"][0][0]


def ledger(cluster: Cluster, name: str) -> Counter[str]:
    with cluster.connect() as root:
        return Counter(
            row[0] for row in root.execute("SELECT mechanism FROM dp.ledger WHERE dataset = %s", [name]).fetchall()
        )


def test_identical_questions_at_once_are_paid_once(cluster: Cluster) -> None:
    """Single flight by the view's lock: whoever comes second finds the stored answer."""
    cluster.psql(table("flight").replace('"c0": 0', '"c0": 100'), user="boss")

    def client(_: int) -> tuple[str, Any]:
        with cluster.connect("alice") as alice:
            return ask(alice, "flight", "a IN (1, 3) AND b = 1")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(client, range(8)))
    assert Counter(path for path, _ in found) == {"bypass": 1, "exact": 7}
    assert len({shown for _, shown in found}) == 1
    assert ledger(cluster, "flight") == {"turbo bypass": 1}


def test_many_clients(cluster: Cluster) -> None:
    """12 clients, 10 questions each: no DP006, one FAIL an epoch at most, every payment in the ledger."""
    cluster.psql(table("crowd"), user="boss")
    questions = [f"a {op} {n}{rest}" for op in ("=", "<", ">") for n in range(1, 7) for rest in ("", " AND b = 1")]

    def client(number: int) -> list[tuple[str, Any]]:
        with cluster.connect("alice") as alice:
            return [ask(alice, "crowd", questions[(number * 7 + i * 5) % len(questions)]) for i in range(10)]

    with ThreadPoolExecutor(12) as pool:
        found = [answer for answers in pool.map(client, range(12)) for answer in answers]
    paths = Counter(path for path, _ in found)
    assert set(paths) <= {"histogram (PASS)", "noise after FAIL", "bypass", "exact"}
    paid = ledger(cluster, "crowd")
    assert paid["turbo hard"] == paths["noise after FAIL"]
    assert paid["turbo bypass"] == paths["bypass"]
    with cluster.connect() as root:
        epochs, closed = root.execute(
            "SELECT epoch, threshold IS NULL FROM dp.turbo_sv JOIN dp.turbo_view v USING (view)"
            " WHERE v.relation = 'crowd'::regclass"
        ).fetchall()[0]
        replayed = (
            "SELECT count(*) FROM dp.turbo_hist_update JOIN dp.turbo_view v USING (view)"
            " WHERE v.relation = 'crowd'::regclass"
        )
        assert one(root, replayed) == paid["turbo bypass"] + 2 * paid["turbo hard"]
    assert paid["turbo epoch"] == epochs
    assert paid["turbo hard"] == epochs - (0 if closed else 1)


STUMBLE = """
CREATE FUNCTION public.stumble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'disk full'; END $$;
CREATE TRIGGER stumble BEFORE INSERT ON dp.turbo_exact FOR EACH ROW EXECUTE FUNCTION public.stumble();
"""


def test_a_fail_stays_whatever_happens_next(cluster: Cluster) -> None:
    """E-22: an error after the FAIL closes the epoch and keeps all payments; the next question pays a new epoch."""
    cluster.psql(table("trouble"), user="boss")
    state = (
        "SELECT epoch, threshold IS NULL FROM dp.turbo_sv JOIN dp.turbo_view v USING (view)"
        " WHERE v.relation = 'trouble'::regclass"
    )
    with cluster.connect("alice") as alice, cluster.connect() as root:
        root.execute(STUMBLE)
        with refused("DP006", "nobody foresaw"):
            ask(alice, "trouble", "b = 1")
        assert root.execute(state).fetchall() == [(1, True)]
        assert ledger(cluster, "trouble") == {"turbo epoch": 1, "turbo hard": 1, "failure": 1}
        root.execute("DROP FUNCTION public.stumble() CASCADE")
        forgive(cluster)  # such a failure closes its question (composition.md §10.3)
        assert ask(alice, "trouble", "a = 3")[0] in ("bypass", "histogram (PASS)", "noise after FAIL")
        assert ask(alice, "trouble", "b = 1")[0] in ("bypass", "noise after FAIL")


def test_an_error_before_any_payment_leaves_nothing(cluster: Cluster) -> None:
    cluster.psql(table("before"), user="boss")
    with cluster.connect("alice") as alice, cluster.connect() as root:
        root.execute(STUMBLE.replace("turbo_exact", "ledger").replace("stumble", "halt"))
        with refused("DP006", "could not be completed"):
            ask(alice, "before", "b = 1")
        root.execute("DROP FUNCTION public.halt() CASCADE")
        forgive(cluster)
        epochs = (
            "SELECT count(*) FROM dp.turbo_sv JOIN dp.turbo_view v USING (view) WHERE v.relation = 'before'::regclass"
        )
        assert one(root, epochs) == 0
        assert not ledger(cluster, "before").keys() - {"failure", "reopen"}
        assert ask(alice, "before", "b = 1")[0] == "noise after FAIL"


def test_another_incarnation_closes_every_epoch(cluster: Cluster) -> None:
    """A restored or cloned ledger: frozen, but for stored answers; once confirmed, no old threshold is used."""
    cluster.psql(table("clone"), user="boss")
    with cluster.connect("alice") as alice:
        assert ask(alice, "clone", "a = 1")[0] == "histogram (PASS)"
        stored = ask(alice, "clone", "b = 1")
        ask(alice, "clone", "a = 2")
    with cluster.connect() as root:  # as a restart on another timeline would
        root.execute("UPDATE dp.incarnation SET timeline = timeline + 1")
    with cluster.connect("alice") as alice:
        with refused("DP006", "frozen"):
            ask(alice, "clone", "a = 5 AND b = 0")
        with refused("DP006", "frozen"):
            ask(alice, "clone", "a = 3")
        assert ask(alice, "clone", "b = 1") == ("exact", stored[1])
    with cluster.connect("boss") as boss, cluster.connect() as root:
        for row in root.execute("SELECT name FROM dp.dataset").fetchall():
            boss.execute("CALL dp.confirm_ledger(%s, add_epsilon => 0.1)", row)
    before = ledger(cluster, "clone")["turbo epoch"]
    with cluster.connect("alice") as alice:
        assert ask(alice, "clone", "a = 6")[0] in ("histogram (PASS)", "noise after FAIL")
    assert ledger(cluster, "clone")["turbo epoch"] == before + 1


def test_a_confirmation_of_nothing_leaves_epochs_open(cluster: Cluster) -> None:
    """add_epsilon => 0 says that nobody asked anything elsewhere: what was paid for goes on (composition.md §12)."""
    cluster.psql(table("still"), user="boss")
    with cluster.connect("alice") as alice:
        assert ask(alice, "still", "a = 1")[0] == "histogram (PASS)"
    with cluster.connect() as root:
        root.execute("UPDATE dp.incarnation SET timeline = timeline + 1")
    with cluster.connect("alice") as alice, refused("DP006", "frozen"):
        ask(alice, "still", "a = 2")
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.confirm_ledger('all', add_epsilon => 0)")
    before = ledger(cluster, "still")["turbo epoch"]
    with cluster.connect("alice") as alice:
        assert ask(alice, "still", "a = 2")[0] in ("histogram (PASS)", "noise after FAIL")
    assert ledger(cluster, "still")["turbo epoch"] == before


def test_a_witness_closes_every_epoch_too(cluster: Cluster) -> None:
    """A snapshot put back in place has the incarnation of the original, whose thresholds it must not use again."""
    cluster.psql(table("snapshot"), user="boss")
    with cluster.connect("alice") as alice:
        assert ask(alice, "snapshot", "a = 1")[0] == "histogram (PASS)"
    with cluster.connect() as root:
        root.execute("INSERT INTO dp.freeze (dataset, reason) VALUES ('snapshot', 'witness')")
    with cluster.connect("alice") as alice, refused("DP006", "frozen"):
        ask(alice, "snapshot", "a = 2")
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.confirm_ledger('snapshot', add_epsilon => 0.1)")
    before = ledger(cluster, "snapshot")["turbo epoch"]
    with cluster.connect("alice") as alice:
        assert ask(alice, "snapshot", "a = 2")[0] in ("histogram (PASS)", "noise after FAIL")
    assert ledger(cluster, "snapshot")["turbo epoch"] == before + 1
