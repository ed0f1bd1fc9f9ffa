"""A GROUP BY of the partition key, answered by Turbo: a window of sealed partitions for each group (turbo.md §2.3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import account, balanced, no_charge, one, refused
from fix_turbo import ask

Connection = psycopg.Connection[Any]

DAYS, ROWS = 21, 500  # ROWS: of the first day; each further one has 10 more
ALPHA, BETA = 0.05, 0.001
SCALE = 800  # as declared, of each day: not what they have
SURE = 3.5 * ALPHA * SCALE
WINDOW = "at >= '2024-01-01 00:00+00' AND at < '2024-01-22 00:00+00'"
# At most 66 answers of a test are off by more than 3.5 times alpha n~.
pytestmark = pytest.mark.chance(fix_chance.accuracy(3.5, 66))


def events(name: str, planner: str = "auto", epsilon: int = 50, tail: str = "") -> str:
    """DAYS days in UTC, declared from a week before to a week after; kind = 1 for every fifth row."""
    return f"""
    CREATE TABLE {name} (at timestamptz, kind int, size int) {tail};
    INSERT INTO {name} SELECT timestamptz '2024-01-01 00:00+00' + d * interval '1 day' + i % 1440 * interval '1 minute',
      CASE WHEN i % 5 = 0 THEN 1 ELSE 0 END, i % 4
      FROM generate_series(0, {DAYS - 1}) d, generate_series(1, {ROWS} + 10 * d) i;
    CALL dp.create_dataset('{name}', epsilon => {epsilon});
    CALL dp.protect('{name}', '{name}', partition_by => 'at', grid => '{{"origin": "2023-12-25", "width": "1 day"}}');
    CALL dp.describe_column('{name}', 'at', bounds => '{{2023-12-25,2024-01-29}}', nullable => false);
    CALL dp.describe_column('{name}', 'kind', bounds => '{{0,1}}', nullable => false);
    CALL dp.describe_column('{name}', 'size', bounds => '{{0,3}}', nullable => false);
    CALL dp.publish('{name}');
    CALL dp.allot('alice', '{name}', epsilon => {epsilon});
    CALL dp.enable_turbo('{name}', '{{kind,size}}', {ALPHA}, {BETA}, 'at', true, '{planner}', scale => {SCALE});
    CALL dp.seal_partitions('{name}', until => '2024-01-22');
    """


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster(TimeZone="UTC") as running:
        running.psql(events("event"), user="boss")
        yield running


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice") as conn:
        yield conn


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


def asked(
    conn: Connection,
    keys: list[str],
    aggregates: list[str] | None = None,
    where: str = WINDOW,
    name: str = "event",
    call: str = "query",
    settings: dict[str, str | None] | None = None,
) -> dict[str, Any]:
    """A whole answer by the view's accuracy, or its plan."""
    document = {
        "version": 1,
        "from": {"schema": "public", "name": name},
        "where": where,
        "keys": keys,
        "aggregates": aggregates or ["count(*)"],
        "budget": {"alpha": str(ALPHA), "beta": str(BETA)},
        "settings": settings or {},
    }
    found = one(conn, f"SELECT dp.dp_{call}(%s::jsonb)", json.dumps(document))
    assert isinstance(found, dict)
    return found


def table(answer: dict[str, Any]) -> dict[tuple[str | None, ...], list[float | None]]:
    keys = answer["keys"]
    return {tuple(row[:keys]): [None if v is None else float(v) for v in row[keys:]] for row in answer["rows"]}


def true(cluster: Cluster, keys: list[str], aggregates: list[str], where: str, name: str = "event") -> dict[Any, Any]:
    own = ", ".join(f"({key})::text" for key in keys)
    sql = f"SELECT {own}, {', '.join(aggregates)} FROM {name} WHERE {where} GROUP BY {', '.join(keys)}"
    with cluster.connect() as root:
        rows = root.execute(sql).fetchall()
    return {tuple(row[: len(keys)]): [float(v) for v in row[len(keys) :]] for row in rows}


# Keys, how many of a view's days each group is of.
SERIES = [
    (["date_trunc('day', at)"], 1),
    (["at::date"], 1),
    (["date_bin('1 day', at, '2000-01-01')"], 1),
    (["floor(extract(epoch from at) / 86400) * 86400"], 1),
    (["floor(extract(epoch from at))::bigint / 604800"], 7),
    (["date_trunc('week', at)"], 7),
    (["date_trunc('month', at)"], 21),
    (["extract(year FROM at)", "extract(month FROM at)", "extract(day FROM at)"], 1),
    (["date_trunc('day', at)", "kind"], 1),
    (["kind", "date_trunc('week', at)", "size % 2"], 7),
]


@pytest.mark.parametrize(("keys", "days"), SERIES, ids=[", ".join(keys) for keys, _ in SERIES])
def test_a_series_is_of_windows(cluster: Cluster, alice: Connection, keys: list[str], days: int) -> None:
    """As near as each window alone; where the WHERE leaves no row, exactly 0; each leaf pays what it would alone."""
    before = account(cluster, "event")
    plan = asked(alice, keys, call="plan")
    answer = asked(alice, keys)
    found, exact = table(answer), true(cluster, keys, ["count(*)"], WINDOW)
    assert plan["mechanism"] == answer["notice"]["mechanism"] == "turbo"
    assert float(answer["notice"]["margin"]) == ALPHA * SCALE * days
    assert exact.keys() <= found.keys()
    for group, (value,) in found.items():
        assert value is not None
        if group in exact:
            assert abs(value - exact[group][0]) <= SURE * days, group
        elif group[keys.index("kind")] not in ("0", "1") if "kind" in keys else True:
            assert value == 0, group
    after = account(cluster, "event")
    paid = {after[leaf] - before.get(leaf, Decimal(0)) for leaf in after}
    assert all(leaf.startswith("leaf/") for leaf in after)
    assert max(paid) == Decimal(answer["notice"]["charge"].get("epsilon", "0"))
    assert plan["charge"]["worst"].get("epsilon", "0") == answer["notice"]["charge"].get("epsilon", "0")
    with no_charge(cluster):
        again = asked(alice, keys)
    assert again["rows"] == answer["rows"]


def test_a_day_of_it_is_known_then(cluster: Cluster, alice: Connection) -> None:
    answer = table(asked(alice, ["date_trunc('day', at)"]))
    with no_charge(cluster):
        day = ask(alice, "event", "at >= '2024-01-03 00:00+00' AND at < '2024-01-04 00:00+00'")
    assert day["notice"]["path"] == "exact"
    assert float(day["rows"][0][0]) == answer[("2024-01-03 00:00:00+00",)][0]


def test_sums_and_averages(cluster: Cluster, alice: Connection) -> None:
    """A sum is off by its bound times as much, and an average holds its own bar."""
    keys, aggregates = ["date_trunc('day', at)"], ["sum(size)", "avg(size)", "count(*) FILTER (WHERE kind = 1)"]
    answer = asked(alice, keys, aggregates)
    exact = true(cluster, keys, aggregates, WINDOW)
    found = table(answer)
    for group, (total, mean, ones) in exact.items():
        own = found[group]
        assert own[0] is not None and abs(own[0] - total) <= SURE * 3
        assert own[1] is not None and 0 <= own[1] <= 3 and abs(own[1] - mean) <= 3
        assert own[2] is not None and abs(own[2] - ones) <= SURE
    outside = found[("2023-12-26 00:00:00+00",)]
    assert outside[0] == outside[2] == 0


CUTS = [
    ("date_trunc('hour', at)", WINDOW, "a group of it is a part of a partition"),
    ("date_trunc('day', at, 'Asia/Kathmandu')", WINDOW, "a group of it is a part of a partition"),
    ("date_bin('1 day', at, '2000-01-01 06:00')", WINDOW, "a group of it is a part of a partition"),
    ("floor(extract(epoch from at) / 43200)", WINDOW, "a group of it is a part of a partition"),
    ("round(extract(epoch from at) / 86400)", WINDOW, "a group of it is a part of a partition"),
    ("extract(epoch from at)::bigint / 86400", WINDOW, "a group of it is a part of a partition"),
    ("date_bin('36 hours', at, '2000-01-01')", WINDOW, "a group of it is a part of a partition"),
    ("extract(dow FROM at)", WINDOW, "no neighbours"),
    ("date_trunc('day', at)", WINDOW.replace("01-22", "01-23"), "not sealed"),
    ("date_trunc('day', at)", "at >= '2024-01-05 12:00+00' AND at < '2024-01-07'", "cuts through a partition"),
]


@pytest.mark.parametrize(("key", "where", "why"), CUTS)
def test_what_cuts_through_a_day_is_not_answered(alice: Connection, key: str, where: str, why: str) -> None:
    """Another mechanism would, of a relation with a declared scale; the reason is said."""
    with refused("DP004", why):
        asked(alice, [key], where=where, call="plan")


def test_two_days_of_it_are_compared(cluster: Cluster, alice: Connection) -> None:
    """The last day has 200 rows more than the first; the bars of both are ALPHA * SCALE."""
    asked(alice, ["date_trunc('day', at)"])
    with no_charge(cluster):
        row = alice.execute(
            "SELECT difference, low, high FROM dp.dp_compare('2024-01-21 00:00:00+00', '2024-01-01 00:00:00+00',"
            " simultaneous => false, confidence => 0.998)"
        ).fetchone()
    assert row is not None
    difference, low, high = row
    assert high - difference == difference - low == 2 * ALPHA * SCALE
    assert abs(difference - 200) <= 2 * SURE


def test_what_one_day_cannot_pay_nobody_pays(cluster: Cluster) -> None:
    """Of three days the last has nothing left: nothing is read, and the first two are as they were."""
    cluster.psql(events("spent", epsilon=1), user="boss")
    with cluster.connect("alice") as conn:
        last = "at >= '2024-01-03 00:00+00' AND at < '2024-01-04 00:00+00'"
        one(conn, "SELECT dp.dp_count('spent', %s, epsilon => 0.95)", last)
        three = "at >= '2024-01-01 00:00+00' AND at < '2024-01-04 00:00+00'"
        with no_charge(cluster), refused("DP001"):
            asked(conn, ["date_trunc('day', at)"], where=three, name="spent")
        two = "at >= '2024-01-01 00:00+00' AND at < '2024-01-03 00:00+00'"
        assert asked(conn, ["date_trunc('day', at)"], where=two, name="spent")["notice"]["path"] == "bypass"


@pytest.mark.parametrize("settings", ["{}", '{"sv_scope": "window"}'])
def test_the_papers_planner_answers_it(cluster: Cluster, settings: str) -> None:
    name = "tree" if settings == "{}" else "scoped"
    made = events(name, planner="turbo").replace(f"scale => {SCALE})", f"scale => {SCALE}, settings => '{settings}')")
    cluster.psql(made, user="boss")
    keys = ["date_trunc('week', at)", "kind"]
    with cluster.connect("alice") as conn:
        answer = asked(conn, keys, name=name)
    found, exact = table(answer), true(cluster, keys, ["count(*)"], WINDOW, name)
    assert all(abs((found[group][0] or 0) - value) <= SURE * 7 for group, (value,) in exact.items())


OTHER = """
CREATE TABLE {0} ({1}, kind int);
INSERT INTO {0} SELECT {2}, i % 2 FROM generate_series(1, 6000) i;
CALL dp.create_dataset('{0}', epsilon => 50);
CALL dp.protect('{0}', '{0}', partition_by => 'p', grid => '{3}');
CALL dp.describe_column('{0}', 'p', {4}, nullable => false);
CALL dp.describe_column('{0}', 'kind', bounds => '{{0,1}}', nullable => false);
CALL dp.publish('{0}'); CALL dp.allot('alice', '{0}', epsilon => 50);
CALL dp.enable_turbo('{0}', '{{kind}}', 0.05, 0.001, 'p', true, scale => 2000);
"""
GRIDS = [
    ("regions", "p text", "(ARRAY['n','s','e'])[1 + i % 3]", '{"list": ["n", "s", "e"]}', "domain => '{s,n,e}'", "nse"),
    ("numbers", "p smallint", "i % 30", '{"origin": 0, "width": 10}', "bounds => '{0,29}'", ["0", "10", "20"]),
    ("dates", "p date", "DATE '2024-02-28' + i % 3", '{"origin": "2024-02-28", "width": "1 day"}',
     "bounds => '{2024-02-28,2024-03-01}'", ["2024-02-28", "2024-02-29", "2024-03-01"]),
    ("hours", "p timestamp", "timestamp '2024-02-28' + i % 72 * interval '1 hour'",
     '{"origin": "2024-02-28", "width": "1 hour"}', "bounds => '{2024-02-28,2024-03-02}'", None),
]  # fmt: skip
KEYS = {"regions": "p", "numbers": "p / 10", "dates": "p", "hours": "date_trunc('day', p)"}
WHERE = {
    "regions": "p IN ('n', 's', 'e')",
    "numbers": "p >= 0 AND p < 30",
    "dates": "p BETWEEN '2024-02-28' AND '2024-03-01'",
    "hours": "p >= '2024-02-28' AND p < '2024-03-02'",
}


@pytest.mark.parametrize(("name", "column", "value", "grid", "declared", "parts"), GRIDS, ids=[g[0] for g in GRIDS])
def test_partitions_of_any_kind(
    cluster: Cluster, name: str, column: str, value: str, grid: str, declared: str, parts: list[str] | None
) -> None:
    cluster.psql(OTHER.format(name, column, value, grid, declared), user="boss")
    with cluster.connect("boss") as boss:
        if parts is None:
            boss.execute("CALL dp.seal_partitions('hours', until => '2024-03-02')")
        for part in parts or ():
            boss.execute(f"CALL dp.seal_partition('{name}', '{part}')")
    with cluster.connect("alice") as conn:
        answer = asked(conn, [KEYS[name], "kind"], where=WHERE[name], name=name)
    assert answer["notice"]["mechanism"] == "turbo"
    found, exact = table(answer), true(cluster, [KEYS[name], "kind"], ["count(*)"], WHERE[name], name)
    size = 24 if name == "hours" else 1
    assert all(abs((found[group][0] or 0) - value) <= 3.5 * ALPHA * 2000 * size for group, (value,) in exact.items())


def test_an_owner_declares_a_series(cluster: Cluster) -> None:
    """Of a workload the key of the partitions says nothing of bins."""
    workload = '{"workload": [{"keys": ["date_trunc(\'\'day\'\', at)", "kind"]}]}'
    made = events("declared").replace(f"scale => {SCALE})", f"scale => {SCALE}, settings => '{workload}')")
    cluster.psql(made, user="boss")
    with cluster.connect("alice") as conn:
        assert asked(conn, ["date_trunc('day', at)", "kind"], name="declared")["notice"]["mechanism"] == "turbo"


# What is asked with dp.windows = 'sealed', and the days that it is asked of; None: not answered by Turbo.
ROUNDED = [
    ("at >= '2024-01-05 12:00+00'", ("2024-01-06", "2024-01-22")),
    ("at > '2024-01-05 00:00+00' AND kind = 1 AND at < now()", ("2024-01-06", "2024-01-22")),
    ("kind = 1 AND (at BETWEEN '2023-12-27' AND '2024-01-09 23:59:59')", ("2023-12-27", "2024-01-09")),
    ("at >= '2024-01-01' AND at <= '2024-01-09 23:59:59'", ("2024-01-01", "2024-01-09")),
    ("at >= '2024-01-21 00:00:01+00' AND at < '2024-02-05'", None),
    ("at < '2024-01-09'", None),
    ("at >= '2024-01-03' AND extract(hour FROM at) < 12", None),
]


@pytest.mark.parametrize(("where", "days"), ROUNDED)
def test_windows_are_rounded_to_sealed_days(
    cluster: Cluster, where: str, days: tuple[str, str] | None, alice: Connection
) -> None:
    """The same answer as of the window typed out, which is free then."""
    with alice.transaction():
        alice.execute("SET LOCAL dp.windows = sealed")
        settings = one(alice, "SELECT dp.session_settings()")
    call = {"where": where, "settings": settings}
    if days is None:
        with refused("DP004", "dp.windows" if "hour" not in where else ""):
            asked(alice, ["kind"], **call)
        return
    plan, answer = asked(alice, ["kind"], call="plan", **call), asked(alice, ["kind"], **call)
    said = f"asked of at from {days[0]} 00:00:00+00 to before {days[1]} 00:00:00+00: the sealed partitions"
    assert answer["notice"]["warnings"][0].startswith(said)
    assert plan["warnings"][0].startswith(said)
    typed = f"at >= '{days[0]} 00:00+00' AND at < '{days[1]} 00:00+00'" + (" AND kind = 1" if "kind" in where else "")
    with no_charge(cluster):
        same = asked(alice, ["kind"], where=typed)
    assert same["rows"] == answer["rows"]
    assert same["notice"]["charge"] == {}
    assert not any("asked of" in warning for warning in same["notice"]["warnings"])


def test_a_misspelt_setting_is_refused(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster), refused("DP005", "SET dp.windows = 'sealed'"):
        asked(alice, ["kind"], settings={"dp.windows": "seal"})
