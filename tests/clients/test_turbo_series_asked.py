"""A daily series and a window up to now(), in plain SQL through the proxy: answered by Turbo, from sealed days."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_stack import Stack, stack_at_work

DAYS, ROWS, SCALE = 10, 400, 500
# The last ten days, by the clock of the server; of each, every fourth row is of kind 1. All but today are sealed.
EVENTS = f"""
CREATE TABLE event (at timestamptz NOT NULL, kind int);
INSERT INTO event SELECT date_trunc('day', now(), 'UTC') - d * interval '1 day' + i * interval '1 minute', i % 4 / 3
  FROM generate_series(0, {DAYS - 1}) d, generate_series(1, {ROWS}) i;
DO $$ DECLARE first text := to_char((now() AT TIME ZONE 'UTC')::date - {DAYS + 4}, 'YYYY-MM-DD');
  last text := to_char((now() AT TIME ZONE 'UTC')::date + 5, 'YYYY-MM-DD');
BEGIN
  CALL dp.create_dataset('event', epsilon => 50);
  CALL dp.protect('event', 'event', partition_by => 'at',
                  grid => jsonb_build_object('origin', first, 'width', '1 day'));
  CALL dp.describe_column('event', 'at', bounds => ARRAY[first, last], nullable => false);
  CALL dp.describe_column('event', 'kind', bounds => '{{0,1}}', nullable => false);
  CALL dp.publish('event'); CALL dp.allot('alice', 'event', epsilon => 50);
  CALL dp.enable_turbo('event', '{{kind}}', 0.05, 0.001, 'at', true, scale => {SCALE});
END $$;
CALL dp.seal_partitions('event', older_than => '0 hours');
"""
SURE = 3.5 * 0.05 * SCALE
SERIES = "SELECT date_trunc('day', at) AS day, count(*) AS rows FROM event WHERE {0} GROUP BY day ORDER BY day"
pytestmark = pytest.mark.chance(fix_chance.accuracy(3.5, 20))


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work(lambda cluster: cluster.psql(EVENTS, user="boss")) as running:
        yield running


@pytest.fixture
def alice(stack: Stack) -> Iterator[psycopg.Connection[Any]]:
    with stack.connect() as conn:
        conn.execute("SET timezone = 'UTC'; SET dp.alpha = 0.05; SET dp.beta = 0.001; SET dp.notices = on")
        yield conn


def heard(conn: psycopg.Connection[Any], sql: str, *args: Any) -> tuple[list[Any], list[str]]:
    """(Rows, notices) of a statement."""
    said: list[str] = []
    hear = lambda diagnostic: said.append(diagnostic.message_primary or "")  # noqa: E731
    conn.add_notice_handler(hear)
    try:
        return conn.execute(sql, args or None).fetchall(), said
    finally:
        conn.remove_notice_handler(hear)


@pytest.fixture
def sealed(stack: Stack) -> datetime:
    """The end of the last sealed day: the beginning of the day on which this module began."""
    with stack.cluster.connect() as root:
        row = root.execute("SELECT max(upper)::timestamptz FROM dp.turbo_partition WHERE sealed").fetchone()
    assert row is not None
    assert isinstance(row[0], datetime)
    return row[0]


@pytest.mark.parametrize("prepared", [False, True])
def test_a_daily_series(alice: psycopg.Connection[Any], sealed: datetime, prepared: bool) -> None:
    """Six whole days near ROWS; days that the WHERE leaves out are 0."""
    first, today = sealed - timedelta(days=6), sealed
    where, args = (
        (f"at >= '{first}' AND at < '{today}'", ()) if not prepared else ("at >= %s AND at < %s", (first, today))
    )
    rows, said = heard(alice, SERIES.format(where), *args)
    assert "turbo" in said[0]
    for day, count in rows:
        assert abs(count - ROWS) <= SURE if first <= day < today else count == 0
    assert sum(first <= day < today for day, _ in rows) == 6


def test_time_bucket_is_a_series_too(alice: psycopg.Connection[Any], sealed: datetime) -> None:
    """The same windows, so the same numbers, and free."""
    where = f"at >= '{sealed - timedelta(days=6)}' AND at < '{sealed}'"
    rows, _ = heard(alice, SERIES.format(where))
    again, said = heard(alice, SERIES.format(where).replace("date_trunc('day', at)", "time_bucket('1 day', at)"))
    assert again == rows
    assert "turbo, free" in said[0]


@pytest.mark.parametrize("prepared", [False, True])
def test_a_dashboards_panel_in_seconds(alice: psycopg.Connection[Any], sealed: datetime, prepared: bool) -> None:
    """Its own form of a bucket and of a time range, which ends within a day: the same days, and their numbers, free."""
    whole = f"at >= '{sealed - timedelta(days=6)}' AND at < '{sealed}'"
    rows, _ = heard(alice, SERIES.format(whole))
    first, last = (f"{sealed - timedelta(days=6) + timedelta(hours=h):%Y-%m-%dT%H:%M:%S.120Z}" for h in (-5, 149))
    width, args = ("%s", (86_400, 86_400)) if prepared else ("86400", ())
    alice.execute("SET dp.windows = 'sealed'")
    panel, said = heard(
        alice,
        f'SELECT floor(extract(epoch from at)/{width})*{width} AS "time", count(*) AS "rows" FROM event'
        f" WHERE at BETWEEN '{first}' AND '{last}' GROUP BY 1 ORDER BY 1",
        *args,
    )
    assert [(datetime.fromtimestamp(int(time), UTC), count) for time, count in panel] == rows
    assert "turbo, free" in said[0]


def test_the_last_days_up_to_now(alice: psycopg.Connection[Any], sealed: datetime) -> None:
    """Not answered as it stands; rounded, it is the series of whole sealed days, and a NOTICE and EXPLAIN say so."""
    sql = SERIES.format("at >= now() - interval '6 days' AND kind = 1")
    with pytest.raises(psycopg.Error) as refused:
        alice.execute(sql.encode())
    assert refused.value.sqlstate == "DP004"
    assert "SET dp.windows = 'sealed'" in (refused.value.diag.message_hint or "")
    alice.execute("SET dp.windows = 'sealed'")
    plan = "\n".join(row[0] for row in alice.execute(f"EXPLAIN {sql}".encode()).fetchall())
    rows, said = heard(alice, sql)
    words = "the sealed partitions that are whole in the window (dp.windows = sealed)"
    found = re.search(r"asked of at from (\S+ 00:00:00\+00) to before (\S+ 00:00:00\+00)", "\n".join(said))
    assert found is not None
    first, end = (datetime.fromisoformat(text) for text in found.groups())
    assert words in plan
    assert end == sealed
    assert (end - first).days in (5, 4)  # four if the last midnight was just now
    inside = [count for day, count in rows if first <= day < end]
    assert len(inside) == (end - first).days
    assert all(abs(count - ROWS / 4) <= SURE for count in inside)
    assert all(count == 0 for day, count in rows if not first <= day < end)


def test_a_misspelt_name_is_refused(alice: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.Error, match="windowing") as refused:
        alice.execute("SET dp.windowing = 'sealed'")
    assert "dp.windows" in str(refused.value)
