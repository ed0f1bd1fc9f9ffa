"""Allotments that renew (composition.md §3.6): an account per period, no reset, returns to the period that paid.

A new period is made by moving `since` in the catalog, as no user can: all boundaries move with it, by one second.
"""

from __future__ import annotations

import itertools
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster
from fix_ledger import balanced, count, no_charge, one, refused, spent
from fix_turbo import EVEN, ask
from fix_waiting import soon
from pg_epsilon.engine.chain import parse
from pg_epsilon.engine.verify import Difference, Verifier

Connection = psycopg.Connection[Any]
NEXT = "UPDATE dp.role_allotment SET since = since - per + interval '1 second' WHERE role = 'carol'"
NUMBER = itertools.count()
YESTERDAY = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)


@pytest.fixture
def carol(cluster: Cluster) -> Any:
    """An analyst with epsilon 0.5 in 30 days, whose periods begin ten seconds before those of the last test."""
    cluster.psql(
        "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'carol') THEN CREATE ROLE carol LOGIN;"
        " GRANT dp_analyst TO carol; END IF; END $$; DELETE FROM dp.role_allotment WHERE role = 'carol';"
    )
    allot(cluster, epsilon="0.5", per="'30 days'")
    since = YESTERDAY + timedelta(seconds=10 * next(NUMBER))
    cluster.execute(f"UPDATE dp.role_allotment SET since = '{since.isoformat()}' WHERE role = 'carol'")
    with cluster.connect("carol") as conn:
        yield conn


def allot(cluster: Cluster, **arguments: str) -> None:
    words = ", ".join(f"{name} => {value}" for name, value in arguments.items())
    with cluster.connect("boss") as boss:
        boss.execute(f"CALL dp.allot('carol', 'people', {words})".encode())


def periods(cluster: Cluster) -> list[Decimal]:
    """What carol spent in the periods of this test, in their order."""
    sql = (
        "SELECT sum(a.spent_epsilon) FROM dp.account a JOIN dp.role_allotment r USING (role, dataset),"
        " LATERAL dp._period(r.since, r.per, now()) p WHERE a.role = 'carol' AND a.dataset = 'people'"
        " AND a.period BETWEEN p.begins - interval '5 s' AND p.begins GROUP BY a.period ORDER BY a.period"
    )
    with cluster.connect() as root:
        return [Decimal(row[0]) for row in root.execute(sql).fetchall()]


def left(conn: Connection) -> Decimal:
    return Decimal(one(conn, "SELECT your_epsilon_left FROM dp.budget WHERE dataset = 'people'"))


# the periods -------------------------------------------------------------------------------------------------------

BOUNDARIES = [  # since, per, moment, begins, ends
    ("2024-01-31 00:00+00", "1 month", "2024-02-28 23:59:59+00", "2024-01-31 00:00+00", "2024-02-29 00:00+00"),
    ("2024-01-31 00:00+00", "1 month", "2024-02-29 00:00+00", "2024-02-29 00:00+00", "2024-03-31 00:00+00"),
    ("2023-01-31 12:00+00", "1 month", "2023-03-31 11:59:59+00", "2023-02-28 12:00+00", "2023-03-31 12:00+00"),
    ("2023-01-31 12:00+00", "1 month", "2023-04-30 12:00+00", "2023-04-30 12:00+00", "2023-05-31 12:00+00"),
    ("2024-02-29 00:00+00", "1 year", "2027-12-31 00:00+00", "2027-02-28 00:00+00", "2028-02-29 00:00+00"),
    ("2024-03-30 00:30+00", "1 day", "2024-03-31 01:30+00", "2024-03-31 00:30+00", "2024-04-01 00:30+00"),
    ("2024-03-30 00:30+00", "24 hours", "2024-03-31 01:30+00", "2024-03-31 00:30+00", "2024-04-01 00:30+00"),
    ("2024-10-26 01:30+00", "1 day", "2024-10-27 01:29:59.999999+00", "2024-10-26 01:30+00", "2024-10-27 01:30+00"),
    ("2024-01-01 00:00+00", "1 minute", "2034-01-01 00:00:59+00", "2034-01-01 00:00+00", "2034-01-01 00:01+00"),
    ("2024-01-01 00:00+00", "1 week", "2024-01-01 00:00+00", "2024-01-01 00:00+00", "2024-01-08 00:00+00"),
    ("2024-01-01 00:00+00", "1 week", "2023-12-31 00:00+00", "2024-01-01 00:00+00", "2024-01-08 00:00+00"),
    ("2024-01-31 00:00+00", "1 month 1 day", "2024-03-03 00:00+00", "2024-03-01 00:00+00", "2024-04-02 00:00+00"),
]


@pytest.mark.parametrize(("since", "per", "moment", "begins", "ends"), BOUNDARIES)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns"])
def test_a_period_is_counted_from_its_origin_in_utc(
    cluster: Cluster, since: str, per: str, moment: str, begins: str, ends: str, zone: str
) -> None:
    with cluster.connect() as root:
        root.execute("SELECT set_config('TimeZone', %s, false)", [zone])
        sql = "SELECT (begins, ends) = (%s::timestamptz, %s::timestamptz) FROM dp._period(%s, %s, %s)"
        assert one(root, sql, begins, ends, since, per, moment)


def test_periods_follow_each_other_without_gap_for_a_century(cluster: Cluster) -> None:
    """Every boundary begins a period, and a microsecond before it the one before ends; no period lasts 32 days."""
    wrong = """
    SELECT count(*) FROM (VALUES (timestamptz '2024-01-31 13:00+00'), ('2023-12-30 00:00+00')) s(since),
      generate_series(1, 1200) k, LATERAL (SELECT (since AT TIME ZONE 'UTC' + k * interval '1 month') AT TIME ZONE 'UTC') b(at),
      LATERAL dp._period(since, '1 month', b.at) now, LATERAL dp._period(since, '1 month', b.at - interval '1 microsecond') before
    WHERE now.begins <> b.at OR before.ends <> b.at OR now.ends - now.begins NOT BETWEEN '28 days' AND '31 days'
    """  # noqa: E501
    with cluster.connect() as root:
        assert one(root, wrong) == 0


# what is paid, and from what ---------------------------------------------------------------------------------------


def test_a_new_period_has_an_account_of_its_own(cluster: Cluster, carol: Connection) -> None:
    before = spent(cluster)
    count(carol, epsilon=0.5)
    with refused("DP001", "until it renews at "), no_charge(cluster):
        count(carol, epsilon=0.1)
    cluster.execute(NEXT)
    count(carol, epsilon=0.3)
    assert periods(cluster) == [Decimal("0.5"), Decimal("0.3")]
    assert left(carol) == Decimal("0.2")
    assert spent(cluster) == before + Decimal("0.8"), "the dataset's own account never renews"
    balanced(cluster)


def test_the_cap_of_the_dataset_holds_in_every_period(cluster: Cluster, carol: Connection) -> None:
    with cluster.connect("boss") as boss:
        boss.execute("CREATE TABLE small (id int PRIMARY KEY); CALL dp.create_dataset('small', epsilon => 1)")
        boss.execute("CALL dp.protect('small', 'small'); CALL dp.publish('small')")
        boss.execute("CALL dp.allot('carol', 'small', epsilon => 0.6, per => '1 hour')")
    count(carol, table="small", epsilon=0.6)
    cluster.execute("UPDATE dp.role_allotment SET since = since - interval '59 minutes' WHERE dataset = 'small'")
    with refused("DP001", "the budget of dataset small"):
        count(carol, table="small", epsilon=0.6)
    count(carol, table="small", epsilon=0.4)
    with cluster.connect() as root:
        own = "SELECT epsilon FROM dp._budget_left('small', 'carol')"
        assert one(root, own) == Decimal("0.2")


def test_the_views_show_the_period(cluster: Cluster, carol: Connection) -> None:
    count(carol, epsilon=0.1)
    with cluster.connect("boss") as boss:
        sql = "SELECT per, period_begins, period_ends, epsilon_left FROM dp.allotments"
        sql += " WHERE role = %s AND dataset = 'people'"
        per, begins, ends, remainder = boss.execute(sql, ["carol"]).fetchone() or ()
        assert begins <= datetime.now(UTC) < ends and ends - begins <= timedelta(days=31)
        assert remainder == Decimal("0.4")
        assert boss.execute(sql, ["bob"]).fetchone()[:3] == (None, None, None)  # type: ignore[index]
    found = carol.execute("SELECT your_period, your_period_ends FROM dp.budget WHERE dataset = 'people'").fetchone()
    assert found == (per, ends)


def test_a_return_goes_to_the_period_that_paid(cluster: Cluster, carol: Connection) -> None:
    """The decision is given in one period, and what it reserved comes back in the next."""
    with cluster.connect("boss") as boss:
        boss.execute("CREATE TABLE IF NOT EXISTS people_syn AS SELECT * FROM people")
        boss.execute("CALL dp.register_synthetic('people', 'people_syn', provenance => 'public')")
    query = "dp.dp_decide_detail_request('SELECT count(*) FROM people', 'people_syn', tau => 900,"
    query += " epsilon => 0.2, mechanism => 'em', fallback => true)"
    with cluster.connect() as root:
        sql = f"WITH id AS (SELECT gen_random_uuid() AS id) SELECT id::text, dp._charge(id, 'carol', {query}) FROM id"
        request, reply = root.execute(sql.encode()).fetchone() or ()
        assert "charged" in reply, reply
        reserved = periods(cluster)
        assert len(reserved) == 1
        root.execute(NEXT)
        count(carol, epsilon=0.01)
        assert "answer" in one(root, "SELECT dp._answer(%s)", request)
        rows = root.execute(
            "SELECT kind, epsilon FROM dp.ledger WHERE request_id = %s OR request ->> 'of' = %s ORDER BY seq",
            [request, request],
        ).fetchall()
    assert [kind for kind, _ in rows] == ["charge", "return"]
    assert periods(cluster) == [reserved[0] + rows[1][1], Decimal("0.01")]
    balanced(cluster)


def test_a_charge_that_waits_over_the_boundary_pays_in_the_period_it_began_in(
    cluster: Cluster, carol: Connection
) -> None:
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ '_charge'"
    with cluster.connect(autocommit=False) as holder, cluster.connect() as root:
        holder.execute("SELECT FROM dp.account WHERE dataset = 'people' AND role = '' FOR UPDATE")
        asking = threading.Thread(target=count, args=(carol,), kwargs={"epsilon": 0.2})
        asking.start()
        assert soon(lambda: one(root, waits) == 1)
        root.execute(NEXT)
        holder.commit()
        asking.join(60)
    with cluster.connect("carol") as again:
        count(again, epsilon=0.3)
    assert periods(cluster) == [Decimal("0.2"), Decimal("0.3")]
    balanced(cluster)


def test_the_ledger_is_verified_period_by_period(cluster: Cluster, carol: Connection) -> None:
    """Control: the same sum, entered in another period, is found."""

    def verify(root: Connection) -> None:
        verifier = Verifier()
        for kind, content in root.execute("SELECT kind, content::text FROM dp._ledger_records()"):
            verifier.feed(kind, parse(content))
        verifier.finish()

    count(carol, epsilon=0.2)
    cluster.execute(NEXT)
    count(carol, epsilon=0.1)
    with cluster.connect(autocommit=False) as root:
        root.execute("SET LOCAL timezone = 'Asia/Tokyo'")
        verify(root)
        root.execute("ALTER TABLE dp.account DISABLE TRIGGER USER")
        root.execute(
            "UPDATE dp.account SET period = period + interval '3 s' WHERE role = 'carol' AND spent_epsilon = 0.1"
        )
        with pytest.raises(Difference, match="account"):
            verify(root)
        root.rollback()


def test_charges_at_once_never_pass_the_period(cluster: Cluster, carol: Connection) -> None:
    refusals: list[str | None] = []

    def ask_once() -> None:
        with cluster.connect("carol") as conn:
            try:
                count(conn, epsilon=0.1)
            except psycopg.Error as error:
                refusals.append(error.sqlstate)

    threads = [threading.Thread(target=ask_once) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert refusals == ["DP001"] * 3
    assert periods(cluster) == [Decimal("0.5")]
    balanced(cluster)


def test_turbo_pays_by_period(cluster: Cluster) -> None:
    cluster.psql(EVEN.format(name="even"), user="boss")
    with cluster.connect("boss") as boss, cluster.connect("alice") as alice:
        boss.execute("CALL dp.allot('alice', 'even', epsilon => 1, per => '1 hour')")
        boss.execute("CALL dp.allot('dp_planner', 'even', epsilon => 5, per => '1 day')")
        ask(alice, "even", "a < 3")
        cluster.execute("UPDATE dp.role_allotment SET since = since - interval '59 minutes' WHERE role = 'alice'")
        ask(alice, "even", "b = 2 AND c < 5")
    with cluster.connect() as root:
        sql = "SELECT count(DISTINCT period), bool_and(isfinite(period)) FROM dp.account WHERE dataset = 'even'"
        assert root.execute(f"{sql} AND role = 'alice'").fetchone() == (2, True)
        named = "SELECT count(*) FILTER (WHERE scope ? 'period'), count(*) FROM dp.ledger WHERE dataset = 'even'"
        assert len(set(root.execute(named).fetchone() or (0, 1))) == 1
    balanced(cluster)


# allotting again ---------------------------------------------------------------------------------------------------


def test_allotting_again_keeps_the_period_unless_another_is_named(cluster: Cluster, carol: Connection) -> None:
    def kept() -> tuple[Any, ...] | None:
        with cluster.connect() as root:
            sql = "SELECT per::text, since FROM dp.role_allotment WHERE role = 'carol' AND dataset = 'people'"
            return root.execute(sql).fetchone()

    count(carol, epsilon=0.5)
    was = kept()
    allot(cluster, epsilon="0.75")
    assert kept() == was
    assert left(carol) == Decimal("0.25"), "what this period spent stays spent"
    allot(cluster, epsilon="0.75", per="'30 days'")
    assert kept() == was
    allot(cluster, epsilon="0.75", per="'1 month'")
    now = kept()
    assert was is not None and now is not None
    assert now[0] == "1 mon" and now[1] > was[1]
    assert left(carol) == Decimal("0.75"), "another period begins now"
    allot(cluster, epsilon="0.75", per="'0'")
    assert (kept() or ("",))[0] is None
    balanced(cluster)


@pytest.mark.parametrize("per", ["59 seconds", "-1 month", "1 month -40 days", "1 day -1 hour", "101 years"])
def test_a_period_that_cannot_be_is_refused(cluster: Cluster, carol: Connection, per: str) -> None:
    with refused("DP005", "renews after a minute"):
        allot(cluster, epsilon="0.5", per=f"'{per}'")
