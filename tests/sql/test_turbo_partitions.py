"""Turbo over partitions and streams on a real cluster: windows, seals, late rows, leaves (turbo.md §6.10 - 6.12)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import account, balanced, no_charge, one, refused
from fix_turbo import ask
from pg_epsilon.turbo.calibration import Calibration

pytestmark = pytest.mark.chance(fix_chance.union(fix_chance.accuracy(2.5, 5), 4 * fix_chance.laplace_sum(2, 24)))

ROWS = 5_000  # of a partition
SURE = 2.5 * 0.05  # of the rows
WEEKS = 8
GRID = '{"origin": "2024-01-01", "width": "7 days"}'


def stream(name: str, key: str = "date", grid: str = GRID, tail: str = "", beta: str = "0.001", **settings: str) -> str:
    """A table of WEEKS weeks, each with ROWS rows: a = i % 4 evenly, b = 1 for a tenth."""
    options = "".join(f", {option} => {value}" for option, value in settings.items())
    return f"""
    CREATE TABLE {name} (day {key}, a int, b int) {tail};
    CALL dp.create_dataset('{name}', epsilon => 2);
    CALL dp.protect('{name}', '{name}', partition_by => 'day', grid => '{grid}');
    CALL dp.describe_column('{name}', 'day');
    CALL dp.describe_column('{name}', 'a', bounds => '{{0,3}}', nullable => false);
    CALL dp.describe_column('{name}', 'b', bounds => '{{0,1}}', nullable => false);
    CALL dp.publish('{name}');
    CALL dp.allot('alice', '{name}', epsilon => 2);
    CALL dp.enable_turbo('{name}', '{{a,b}}', 0.05, {beta}, 'day', true, 'turbo'{options});
    """


def rows(name: str, weeks: int = WEEKS) -> str:
    return (
        f"INSERT INTO {name} SELECT DATE '2024-01-01' + 7 * w + i % 7, i % 4, CASE WHEN i % 10 = 0 THEN 1 ELSE 0 END"
        f" FROM generate_series(0, {weeks - 1}) w, generate_series(1, {ROWS}) i;"
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    """One connection for all: a backend's first question loads numpy, and opens the channel."""
    with cluster.connect("alice") as conn:
        yield conn


@pytest.fixture(scope="module")
def boss(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("boss") as conn:
        yield conn


@pytest.fixture(scope="module")
def root(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect() as conn:
        yield conn


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


def window(first: int, last: int) -> str:
    """Weeks first … last, 0-based."""
    return f"day >= DATE '2024-01-01' + {7 * first} AND day < DATE '2024-01-01' + {7 * (last + 1)}"


def value(answer: dict[str, Any]) -> int:
    return int(answer["rows"][0][0])


def leaves(cluster: Cluster, name: str) -> dict[str, Decimal]:
    return {leaf.rpartition("/")[2]: spent for leaf, spent in account(cluster, name).items()}


def test_a_window_is_paid_by_its_leaves_alone(
    cluster: Cluster, alice: psycopg.Connection[Any], boss: psycopg.Connection[Any]
) -> None:
    """§13: weeks 1 to 6, nothing ready: 4 nodes, each at t*_4(beta/2) / (alpha n~) on these leaves; then free."""
    cluster.psql(stream("weeks", scale=str(ROWS)) + rows("weeks"), user="boss")
    with refused("DP004"):  # nothing is sealed
        ask(alice, "weeks", f"b = 1 AND {window(1, 6)}", "plan")
    boss.execute("CALL dp.seal_partitions('weeks', until => '2024-02-27')")
    plan = ask(alice, "weeks", f"b = 1 AND {window(1, 6)}", "plan")
    answer = ask(alice, "weeks", f"b = 1 AND {window(1, 6)}")
    assert answer["notice"]["path"] == "bypass"
    assert answer["notice"]["accounts"] == "6 partitions of public.weeks"
    price = Decimal(answer["notice"]["charge"]["epsilon"])
    assert price.quantize(Decimal("1e-8")) == (Decimal("11.8518") / 1500).quantize(Decimal("1e-8")) or abs(
        price - Decimal("11.8518") / 1500
    ) < Decimal("1e-6")
    assert plan["charge"] == {"worst": {"epsilon": str(price)}, "best": {"epsilon": str(price)}}
    assert abs(value(answer) - 6 * ROWS // 10) <= SURE * 6 * ROWS
    with no_charge(cluster):
        assert ask(alice, "weeks", f"{window(1, 6)} AND NOT b = 0")["rows"] == answer["rows"]
    part = ask(alice, "weeks", f"b = 1 AND {window(2, 3)}")  # an inner node was answered: its price was dearer
    assert set(leaves(cluster, "weeks")) == {
        f"[2024-{a},2024-{b})"
        for a, b in [
            ("01-08", "01-15"),
            ("01-15", "01-22"),
            ("01-22", "01-29"),
            ("01-29", "02-05"),
            ("02-05", "02-12"),
            ("02-12", "02-19"),
        ]
    }
    assert abs(value(part) - 2 * ROWS // 10) <= SURE * 2 * ROWS


UNALIGNED = [
    "a = 1",
    f"a = 1 AND {window(1, 2)} AND day <> '2024-01-09'",
    "a = 1 AND day >= '2024-01-09' AND day < '2024-01-15'",
    "a = 1 AND day >= '2024-01-08'",
    "a = 1 AND day BETWEEN '2024-01-08' AND '2024-01-15'",
    f"a = 1 OR {window(1, 2)}",
    "a = 1 AND day >= '2023-12-25' AND day < '2024-01-08'",
    "a = 1 AND day >= '2024-02-19' AND day < '2024-03-11'",
]


@pytest.mark.parametrize("predicate", UNALIGNED)
def test_what_is_no_window_of_sealed_partitions_is_answered_directly(
    cluster: Cluster, predicate: str, alice: psycopg.Connection[Any]
) -> None:
    """After the test before. Not answered at all here: no scale of the whole relation is declared for alpha."""
    with no_charge(cluster), refused("DP004", "no scale is declared"):
        ask(alice, "weeks", predicate)


def test_a_window_may_be_written_in_several_ways(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    first = ask(alice, "weeks", f"a = 3 AND {window(2, 3)}")
    for same in ("day BETWEEN '2024-01-15' AND '2024-01-28'", "day > '2024-01-14' AND day <= '2024-01-28'"):
        with no_charge(cluster):
            assert ask(alice, "weeks", f"{same} AND a >= 3")["rows"] == first["rows"]


def test_sealed_partitions_take_no_rows(
    cluster: Cluster, alice: psycopg.Connection[Any], boss: psycopg.Connection[Any], root: psycopg.Connection[Any]
) -> None:
    """Late rows are rejected to the writer; deletes are unseen until the owner reopens; its account is never reset."""
    question = f"a = 2 AND {window(4, 4)}"
    before = ask(alice, "weeks", question)
    with refused("42501", "is sealed"):
        boss.execute("INSERT INTO weeks VALUES ('2024-01-30', 0, 0)")
    with refused("42501", "cannot be updated"):
        boss.execute("UPDATE weeks SET day = '2024-04-01' WHERE day = '2024-01-30'")
    boss.execute("INSERT INTO weeks VALUES ('2024-04-01', 0, 0), ('2023-01-01', 0, 0), (NULL, 0, 0)")
    boss.execute(f"DELETE FROM weeks WHERE {window(4, 4)}")
    with no_charge(cluster):
        assert ask(alice, "weeks", question)["rows"] == before["rows"]
    spent = leaves(cluster, "weeks")
    boss.execute("CALL dp.reopen_partition('weeks', '2024-02-01')")
    with refused("DP005", "no sealed partition"):
        boss.execute("CALL dp.reopen_partition('weeks', '2024-02-01')")
    with no_charge(cluster), refused("DP004"):
        ask(alice, "weeks", question)
    boss.execute("INSERT INTO weeks SELECT '2024-01-30', 2, 0 FROM generate_series(1, 300)")
    boss.execute("CALL dp.seal_partitions('weeks', until => '2024-02-27')")  # leaves the reopened one alone
    assert one(root, "SELECT count(*) FROM dp.turbo WHERE relation = 'public.weeks' AND NOT sealed") == 1
    boss.execute("CALL dp.seal_partition('weeks', '2024-02-04')")
    with refused("DP005", "sealed already"):
        boss.execute("CALL dp.seal_partition('weeks', '2024-02-04')")
    assert leaves(cluster, "weeks") == spent
    after = ask(alice, "weeks", question)
    assert after["notice"]["path"] == "bypass"
    assert abs(value(after) - 300) <= SURE * ROWS


def test_histograms_and_epochs_of_runs(
    cluster: Cluster, alice: psycopg.Connection[Any], boss: psycopg.Connection[Any], root: psycopg.Connection[Any]
) -> None:
    """c0 = 0: all nodes are ready. One epoch for each run of nodes, paid by its leaves; a PASS is free afterwards.

    Tests of errors of 0 and 6000 rows against 375, which is 24 scales of their noise (4 ln(2/beta) / 2).
    """
    made = stream("runs", beta="0.00001", scale=str(ROWS), settings="""'{"c0": 0, "s0": 1}'""")
    cluster.psql(made + rows("runs", 4), user="boss")
    boss.execute("CALL dp.seal_partitions('runs', until => '2024-01-29')")
    first = ask(alice, "runs", f"a = 1 AND {window(0, 2)}", beta="0.00001")
    assert first["notice"]["path"] == "histogram (PASS)"
    runs = (
        "SELECT run, threshold IS NULL FROM dp.turbo_sv JOIN dp.turbo_view v USING (view)"
        " WHERE v.relation = 'runs'::regclass"
    )
    assert root.execute(runs).fetchall() == [("0:0-1,0:2-2", False)]
    with no_charge(cluster):
        assert (
            ask(alice, "runs", f"a IN (2, 3) AND {window(0, 2)}", beta="0.00001")["notice"]["path"]
            == "histogram (PASS)"
        )
    failed = ask(alice, "runs", f"b = 1 AND {window(0, 2)}", beta="0.00001")
    assert failed["notice"]["path"] == "noise after FAIL"
    assert root.execute(runs).fetchall() == [("0:0-1,0:2-2", True)]
    assert set(leaves(cluster, "runs")) == {
        f"[2024-01-{a},2024-01-{b})" for a, b in (("01", "08"), ("08", "15"), ("15", "22"))
    }
    ask(alice, "runs", f"a = 2 AND {window(3, 3)}", beta="0.00001")
    assert ("0:3-3", False) in root.execute(runs).fetchall()
    boss.execute("CALL dp.reopen_partition('runs', '2024-01-22')")
    assert ("0:3-3", True) in root.execute(runs).fetchall()


@pytest.mark.chance(fix_chance.beyond(399 / 20))
def test_a_scale_is_bought_once_by_the_planner(
    cluster: Cluster, boss: psycopg.Connection[Any], root: psycopg.Connection[Any]
) -> None:
    """max(1, n + DLap(0.05)), paid by dp_planner on the partition's leaf (composition.md 1.4)."""
    cluster.psql(stream("bought", scale_epsilon="0.05") + rows("bought", 2), user="boss")
    with refused("42501", "has no allotment in dataset"):
        boss.execute("CALL dp.seal_partition('bought', '2024-01-01')")
    boss.execute("CALL dp.allot('dp_planner', 'bought', epsilon => 0.07)")
    boss.execute("CALL dp.seal_partition('bought', '2024-01-01')")
    scale = one(root, "SELECT scale FROM dp.turbo WHERE relation = 'public.bought'")
    assert abs(scale - ROWS) < 400
    boss.execute("CALL dp.reopen_partition('bought', '2024-01-01')")
    with no_charge(cluster):
        boss.execute("CALL dp.seal_partition('bought', '2024-01-01')")
    assert one(root, "SELECT scale FROM dp.turbo WHERE relation = 'public.bought'") == scale
    boss.execute("CALL dp.seal_partition('bought', '2024-01-08')")
    assert account(cluster, "bought", "dp_planner") == {
        "leaf/public.bought/[2024-01-01,2024-01-08)": Decimal("0.05"),
        "leaf/public.bought/[2024-01-08,2024-01-15)": Decimal("0.05"),
    }


OTHERS = [
    (
        "timestamptz",
        '{"origin": "2024-01-01", "width": "1 day"}',
        "'2024-01-03 05:00+00'",
        "day >= '2024-01-03 00:00+00' AND day < '2024-01-04 00:00+00'",
    ),
    ("bigint", '{"origin": 0, "width": 1000}', "'2500'", "day BETWEEN 2000 AND 2999"),
    ("text", '{"list": ["north", "south", "east"]}', "'south'", "day = 'south'"),
]


@pytest.mark.parametrize(("key", "grid", "inside", "predicate"), OTHERS)
def test_other_keys(
    cluster: Cluster,
    key: str,
    grid: str,
    inside: str,
    predicate: str,
    alice: psycopg.Connection[Any],
    boss: psycopg.Connection[Any],
) -> None:
    name = f"by_{key}"
    cluster.psql(stream(name, key, grid, scale=str(ROWS)), user="boss")
    boss.execute(f"INSERT INTO {name} SELECT {inside}::{key}, i % 4, 0 FROM generate_series(1, {ROWS}) i")
    boss.execute(f"CALL dp.seal_partition('{name}', {inside})")
    answer = ask(alice, name, f"a < 2 AND {predicate}")
    assert answer["notice"]["mechanism"] == "turbo"
    assert abs(value(answer) - ROWS // 2) <= SURE * ROWS
    with refused("42501", "is sealed"):
        boss.execute(f"INSERT INTO {name} VALUES ({inside}, 0, 0)")


SEVERAL_TEXTS = [
    ("interval", '["1 day", "24:00:00"]'),
    ("real", '["0", "-0"]'),
    ("double precision", '["0", "-0"]'),
    ("jsonb", '["1", "1.0"]'),
    ("text COLLATE no_case", '["a", "A"]'),
]


@pytest.mark.parametrize(("number", "key", "values"), [(i, *one) for i, one in enumerate(SEVERAL_TEXTS)])
def test_a_row_is_in_one_partition_of_a_list(boss: psycopg.Connection[Any], number: int, key: str, values: str) -> None:
    """Equal values of several texts would be partitions that share a row: one draw over both moves by two for it."""
    if number == len(SEVERAL_TEXTS) - 1:
        boss.execute("CREATE COLLATION no_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    with refused("DP005", "in two partitions"):
        boss.execute(stream(f"texts{number}", key, f'{{"list": {values}}}', scale="5000"))


def test_declarative_partitions(
    cluster: Cluster, alice: psycopg.Connection[Any], boss: psycopg.Connection[Any]
) -> None:
    """The same declared grid; parts are attached, detached and dropped without any effect on accounts or answers."""
    tail = "PARTITION BY RANGE (day)"
    cluster.psql(stream("parts", tail=tail, scale=str(ROWS)), user="boss")
    boss.execute("CREATE TABLE parts_0 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2024-01-08')")
    boss.execute("CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-08') TO ('2024-01-15')")
    boss.execute(rows("parts", 2))
    boss.execute("CALL dp.seal_partitions('parts', until => '2024-01-15')")
    first = ask(alice, "parts", f"a = 1 AND {window(0, 1)}")
    assert abs(value(first) - ROWS // 2) <= SURE * 2 * ROWS
    with refused("42501", "is sealed"):
        boss.execute("INSERT INTO parts_1 VALUES ('2024-01-09', 0, 0)")
    boss.execute("DROP TABLE parts_0")
    with no_charge(cluster):
        assert ask(alice, "parts", f"a = 1 AND {window(0, 1)}")["rows"] == first["rows"]


def test_sealing_goes_by_the_clock(
    cluster: Cluster, boss: psycopg.Connection[Any], root: psycopg.Connection[Any]
) -> None:
    """older_than: every partition that ended, with or without rows; younger ones are not sealed.

    The weeks end 12 and 5 days ago and in 2 days: the same ones are old if midnight passes meanwhile.
    """
    origin = one(root, "SELECT (current_date - 19)::text")
    cluster.psql(stream("clock", grid=GRID.replace("2024-01-01", origin), scale="100"), user="boss")
    boss.execute("CALL dp.seal_partitions('clock', older_than => '8 days')")
    sealed = "SELECT count(*) FROM dp.turbo WHERE relation = 'public.clock' AND sealed"
    assert one(root, sealed) == 1
    boss.execute("CALL dp.seal_partitions('clock', older_than => '0')")
    assert one(root, sealed) == 2
    with refused("DP005", "older_than"):
        boss.execute("CALL dp.seal_partitions('clock')")


def test_a_gaussian_answer_is_refined_in_its_data_version_only(
    cluster: Cluster, alice: psycopg.Connection[Any], boss: psycopg.Connection[Any]
) -> None:
    """Weeks 0 to 3, then to 4: their node pays what it lacks; after `reopen` all of it (composition.md §7.2)."""
    made = stream("fine", scale=str(ROWS), settings="""'{"noise": "gaussian", "c0": 1000}'""")
    made = made.replace("'fine', epsilon => 2);", "'fine', epsilon => 2, delta => 1e-6, accountant => 'renyi');", 1)
    cluster.psql(made + rows("fine"), user="boss")
    boss.execute("CALL dp.seal_partitions('fine', until => '2024-02-27')")
    asked = [Decimal(ask(alice, "fine", f"b = 1 AND {window(0, last)}")["notice"]["charge"]["rho"]) for last in (3, 4)]
    again = ask(alice, "fine", f"b = 1 AND {window(0, 4)}")
    assert again["notice"]["charge"] == {}
    assert abs(value(again) - ROWS // 2) <= SURE * 5 * ROWS
    prices = Calibration(Fraction(5, 100), Fraction(1, 1000), gaussian=True)
    low, need = prices.node(1, 4 * ROWS).amount, prices.node(2, 5 * ROWS).amount
    assert asked == [pytest.approx(low), pytest.approx(need)], "week 4 pays all, the others the rest"
    with cluster.connect() as root:
        spent = "SELECT DISTINCT charge FROM dp.ledger WHERE dataset = 'fine' AND mechanism = 'turbo node'"
        paid = {Decimal(row[0][0]["rho"]) for row in root.execute(spent)}
        assert sorted(paid) == [pytest.approx(x) for x in sorted((low, need - low, need))]
    boss.execute("CALL dp.reopen_partition('fine', '2024-01-03')")
    boss.execute("CALL dp.seal_partition('fine', '2024-01-03')")
    asked_anew = ask(alice, "fine", f"b = 1 AND {window(0, 4)}")["notice"]["charge"]
    assert Decimal(asked_anew["rho"]) == pytest.approx(need), "by weeks 0 to 3; week 4 is stored"
