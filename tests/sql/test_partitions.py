"""Leaf accounts: a charge on named partitions is parallel, any other reaches every leaf (composition.md §3.1, §5)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import account, balanced, count, make, no_charge, one, refused

WEEKS = """, partition_by => 'day', grid => '{"origin": "2024-01-01", "width": "7 days"}'"""
NAMES = """, partition_by => 'city', grid => '{"list": ["north", "south"]}'"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


def weekly(cluster: Cluster, name: str) -> None:
    make(cluster, name, ", day date", WEEKS)
    cluster.psql(f"CALL dp.describe_column('{name}', 'day')", user="boss")


def week(first: str, last: str) -> str:
    return f"day >= '{first}' AND day < '{last}'"


def test_leaves_are_parallel(cluster: Cluster) -> None:
    """Each week may take the whole cap; a charge on two weeks goes to both."""
    weekly(cluster, "weeks")
    with cluster.connect("alice") as alice:
        count(alice, table="weeks", predicate=week("2024-01-01", "2024-01-08"), epsilon=0.75)
        count(alice, table="weeks", predicate=week("2024-01-08", "2024-01-15"), epsilon=0.5)
        count(alice, table="weeks", predicate=week("2024-01-03", "2024-01-09"), epsilon=0.25)
        with no_charge(cluster), refused("DP001", "0 is left"):
            count(alice, table="weeks", predicate="day = '2024-01-01'", epsilon=0.01)
        count(alice, table="weeks", predicate="day = '2024-01-14'", epsilon=0.25)
    assert account(cluster, "weeks") == {
        "leaf/public.weeks/[2024-01-01,2024-01-08)": 1,
        "leaf/public.weeks/[2024-01-08,2024-01-15)": 1,
    }
    assert account(cluster, "weeks", "alice") == account(cluster, "weeks")


def test_a_charge_on_the_relation_reaches_every_leaf_present_and_future(cluster: Cluster) -> None:
    weekly(cluster, "all_weeks")
    with cluster.connect("alice") as alice:
        count(alice, table="all_weeks", predicate="day = '2024-01-01'", epsilon=0.5)
        count(alice, table="all_weeks", epsilon=0.25)
        for day, left in (("2024-01-01", "0.25"), ("2031-05-05", "0.75"), ("1950-01-01", "0.75")):
            with no_charge(cluster), refused("DP001", f"{left} is left"):
                count(alice, table="all_weeks", predicate=f"day = '{day}'", epsilon=0.76)
        with no_charge(cluster), refused("DP001", "0.25 is left"):
            count(alice, table="all_weeks", epsilon=0.26)
        count(alice, table="all_weeks", predicate="day = '2031-05-05'", epsilon=0.75)
        with no_charge(cluster), refused("DP001", "0 is left"):
            count(alice, table="all_weeks", epsilon=0.01)


WHOLE = [
    "id > 3",
    "day >= '2024-01-01'",
    "day = '2024-01-01' OR id = 3",
    "NOT day = '2024-01-01'",
    "day <> '2024-01-01'",
]


@pytest.mark.parametrize("predicate", [None, *WHOLE])
def test_a_predicate_that_confines_nothing_pays_on_the_relation(cluster: Cluster, predicate: str | None) -> None:
    with cluster.connect() as root:
        if one(root, "SELECT to_regclass('wide_weeks')") is None:
            weekly(cluster, "wide_weeks")
    before = account(cluster, "wide_weeks")
    with cluster.connect("alice") as alice:
        count(alice, table="wide_weeks", predicate=predicate)
    after = account(cluster, "wide_weeks")
    assert set(after) == {"relation/public.wide_weeks"}
    assert sum(after.values()) - sum(before.values()) == Decimal("0.01")


def test_rows_outside_a_list_are_the_rest(cluster: Cluster) -> None:
    make(cluster, "cities", ", city text", NAMES)
    cluster.psql("CALL dp.describe_column('cities', 'city')", user="boss")
    with cluster.connect("alice") as alice:
        count(alice, table="cities", predicate="city = 'north'", epsilon=0.5)
        count(alice, table="cities", predicate="city IN ('paris', 'rome')", epsilon=0.25)
        count(alice, table="cities", predicate="city = 'oslo'", epsilon=0.25)
        count(alice, table="cities", predicate="city IN ('south', 'oslo')", epsilon=0.125)
    assert account(cluster, "cities") == {
        "leaf/public.cities/=north": Decimal("0.5"),
        "leaf/public.cities/=south": Decimal("0.125"),
        "leaf/public.cities/rest": Decimal("0.625"),
    }


def test_the_statement_holds_the_restriction_literally(cluster: Cluster) -> None:
    """§5.1: what was charged is what can be read."""
    weekly(cluster, "literal")
    with cluster.connect("alice") as alice:
        plan = one(alice, "SELECT dp.dp_plan(dp.dp_count_request('literal', 'day = ''2024-01-03''', epsilon => 0.1))")
        assert plan["accounts"] == "1 partitions of public.literal"
        answer = one(
            alice, "SELECT dp.dp_query(dp.dp_count_request('literal', 'day = ''2024-01-03''', epsilon => 0.1))"
        )
        assert answer["notice"]["accounts"] == "1 partitions of public.literal"
    with cluster.connect() as root:
        scope = one(root, "SELECT scope FROM dp.ledger WHERE dataset = 'literal'")
    assert scope == {"node": "leaf", "relation": "public.literal", "leaves": ["[2024-01-01,2024-01-08)"]}


def test_dropping_a_partition_keeps_its_account(cluster: Cluster) -> None:
    """Leaves are keyed by declared bounds, never by a table: drop, re-create, protect again: still spent (§3.2)."""
    cluster.psql(
        f"""CREATE TABLE parts (id int, day date) PARTITION BY RANGE (day);
        CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2024-01-08');
        CALL dp.create_dataset('parts', epsilon => 1); CALL dp.protect('parts', 'parts'{WEEKS});
        CALL dp.describe_column('parts', 'day'); CALL dp.publish('parts');
        CALL dp.allot('alice', 'parts', epsilon => 1)""",
        user="boss",
    )
    again = f"""DROP TABLE parts; CREATE TABLE parts (id int, day date); CALL dp.protect('parts', 'parts'{WEEKS});
                CALL dp.describe_column('parts', 'day'); CALL dp.publish('parts')"""
    with cluster.connect("alice") as alice:
        count(alice, table="parts", predicate="day = '2024-01-02'", epsilon=1)
        for change in (
            "ALTER TABLE parts DETACH PARTITION parts_1",
            "ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES FROM ('2024-01-01') TO ('2024-01-08')",
            "DROP TABLE parts_1",
            again,
        ):
            cluster.psql(change, user="boss")
            with no_charge(cluster), refused("DP001", "0 is left"):
                count(alice, table="parts", predicate="day = '2024-01-03'", epsilon=0.01)


def test_a_grid_over_time_is_in_utc(cluster: Cluster) -> None:
    make(cluster, "hours", ", at timestamptz", WEEKS.replace("day", "at", 1).replace("7 days", "1 day"))
    cluster.psql("CALL dp.describe_column('hours', 'at')", user="boss")
    with cluster.connect("alice") as alice:
        alice.execute("SET timezone = 'Asia/Tokyo'")
        count(alice, table="hours", predicate="at = '2024-01-02 03:00'", epsilon=0.5)
    assert account(cluster, "hours") == {
        "leaf/public.hours/[2024-01-01 00:00:00+00,2024-01-02 00:00:00+00)": Decimal("0.5")
    }
