"""CALL dp.make_synthetic through a real server: what appears, what it costs, what is refused.

False alarms of the module: below 1e-7. A count has discrete Laplace noise, missed by t with probability 2 e^(-t/scale)
at most; the scale of a total, and of a column's counts, is (columns + 1) * rows of a unit / share of epsilon
(synthesis/choice.py). What raking to many tables adds has no such law (15 rows of 600 for five columns, whatever the
epsilon): counts inside a copy are compared where at most one pair of columns was measured, or with ten times that room.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster

pytestmark = pytest.mark.chance(
    fix_chance.union(
        fix_chance.laplace(6.7, 199, 3),
        fix_chance.laplace(0.4, 9),
        fix_chance.laplace(0.28, 6, 12),
        fix_chance.laplace(9.4, 182),
    )
)

# One column of every type that can be made up. Its values outside the declarations are in no cell of their own.
TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'fine', 'so "so"');
CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100);
CREATE TABLE kinds (id int PRIMARY KEY, i2 smallint, i8 bigint, amount numeric(8,2), free numeric, f4 real, f8 float8,
  born date, seen timestamp, at timestamptz, word varchar(20), code char(4), ok boolean, feel mood, share percent,
  band int, note text);
INSERT INTO kinds SELECT i, i % 7, i * 1000000000::bigint, i / 3.0, i, CASE WHEN i % 50 = 0 THEN 'NaN'::real ELSE i END,
  CASE WHEN i % 40 = 0 THEN 'Infinity'::float8 ELSE i / 7.0 END, DATE '2024-01-01' + i % 400,
  TIMESTAMP '2024-01-01' + i * interval '1 hour', TIMESTAMPTZ '2024-01-01 00:00+00' + i * interval '1 minute',
  (ARRAY['o''neill', 'a"b\\c', 'gone', NULL])[1 + i % 4], (ARRAY['ab', 'cd'])[1 + i % 2], i % 3 = 0,
  (ARRAY['sad', 'so "so"'])[1 + i % 2]::mood, i % 101, i % 130, 'x' FROM generate_series(1, 600) i;
CALL dp.create_dataset('kinds', unit => 'row', epsilon => 200);
CALL dp.protect('kinds', 'kinds');
CALL dp.describe_column('kinds', 'i2', bounds => '{0,6}', nullable => false);
CALL dp.describe_column('kinds', 'i8', bounds => '{0,600000000000}', resolution => '1000000000');
CALL dp.describe_column('kinds', 'amount', bounds => '{0,200}', resolution => '0.25');
CALL dp.describe_column('kinds', 'free', bounds => '{0,600}');
CALL dp.describe_column('kinds', 'f4', bounds => '{0,600}', resolution => '0.5');
CALL dp.describe_column('kinds', 'f8', bounds => '{0,100}');
CALL dp.describe_column('kinds', 'born', bounds => '{2024-01-01,2024-12-31}', nullable => false);
CALL dp.describe_column('kinds', 'seen', bounds => '{2024-01-01,2024-01-31}', resolution => '1 hour');
CALL dp.describe_column('kinds', 'at', bounds => '{2024-01-01 00:00+00,2024-01-02 00:00+00}');
CALL dp.describe_column('kinds', 'word', domain => ARRAY['o''neill', 'a"b\\c']);
CALL dp.describe_column('kinds', 'code', domain => '{ab,cd}', nullable => false);
CALL dp.describe_column('kinds', 'ok', nullable => false);
CALL dp.describe_column('kinds', 'feel', nullable => false);
CALL dp.describe_column('kinds', 'share', bounds => '{0,100}', nullable => false);
CALL dp.describe_column('kinds', 'band', edges => '{0,18,65,120}', nullable => false);
CALL dp.describe_column('kinds', 'note');
CALL dp.publish('kinds');
CALL dp.allot('dp_planner', 'kinds', epsilon => 200);
"""

RENYI = """
CREATE TABLE lab (id int PRIMARY KEY, age int, sex text);
INSERT INTO lab SELECT i, i % 60, (ARRAY['f','m'])[1 + i % 2] FROM generate_series(1, 500) i;
CALL dp.create_dataset('lab', unit => 'row', epsilon => 5, delta => 1e-6, accountant => 'renyi');
CALL dp.protect('lab', 'lab');
CALL dp.describe_column('lab', 'age', bounds => '{0,60}', nullable => false);
CALL dp.describe_column('lab', 'sex', domain => '{f,m}', nullable => false);
CALL dp.publish('lab');
CALL dp.allot('dp_planner', 'lab', epsilon => 5, delta => 1e-6);
"""


@pytest.fixture(scope="module")
def world() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(TYPES, user="boss")
        running.psql(RENYI, user="boss")
        running.psql("CREATE SCHEMA closed;")
        running.psql(
            "CALL dp.allot('dp_planner', 'people', epsilon => 6); CALL dp.allot('dp_planner', 'shop', epsilon => 5);",
            user="boss",
        )
        yield running


@pytest.fixture
def boss(world: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with world.connect("boss") as conn:
        yield conn


def one(conn: psycopg.Connection[Any], query: str, *values: Any) -> Any:
    row = conn.execute(query, values or None).fetchone()
    assert row is not None
    return row[0] if len(row) == 1 else row


def recorded(world: Cluster, table: str) -> Any:
    with world.connect() as conn:
        query = "SELECT provenance, epsilon, delta, proof, weight FROM dp.synthetic WHERE synthetic = %s::regclass"
        return one(conn, query, table)


def spent(world: Cluster, dataset: str) -> list[Any]:
    with world.connect() as conn:
        query = "SELECT request_id, who, call, epsilon, scope FROM dp.ledger WHERE dataset = %s ORDER BY seq"
        return conn.execute(query, (dataset,)).fetchall()


def refused(conn: psycopg.Connection[Any], call: str) -> psycopg.errors.Diagnostic:
    with pytest.raises(psycopg.Error) as failed:
        conn.execute(call)
    assert failed.value.diag.message_hint
    return failed.value.diag


def test_a_copy_appears_and_is_charged_once(world: Cluster, boss: psycopg.Connection[Any]) -> None:
    """1000 people in five columns at epsilon 2: scale 6.7 for the total and for each sex.

    False alarm below 1e-9: 45 scales for the total; 250 rows of room for 500 women, 200 for nobody of sex x (30 scales
    for their own counts; in 200 runs they were 457 to 544 and 0 to 26). Of the decision: e^-500.
    """
    notices: list[str] = []
    boss.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
    before = len(spent(world, "people"))
    boss.execute("CALL dp.make_synthetic('people', epsilon => 2)")
    rows = one(boss, "SELECT count(*) FROM people_syn")
    assert 700 < rows < 1300
    assert f"public.people_syn: {rows} rows of {rows} (noisy)" in notices[-1]
    assert "epsilon 2 charged" in notices[-1]
    added = spent(world, "people")[before:]
    assert [(who, call, epsilon) for _, who, call, epsilon, _ in added] == [("dp_planner", "make_synthetic", 2)]
    assert added[0][-1] == {"node": "relation", "relation": "public.people"}
    assert one(boss, "SELECT relowner::regrole::text FROM pg_class WHERE oid = 'people_syn'::regclass") == "boss"
    assert recorded(world, "people_syn")[:3] == ("generated", 2, 0)
    assert one(boss, "SELECT bool_and(age BETWEEN 18 AND 80 AND sex IN ('f','m','x')) FROM people_syn")
    likely = one(boss, "SELECT count(*) FILTER (WHERE sex = 'f'), count(*) FILTER (WHERE sex = 'x') FROM people_syn")
    assert likely[0] > 250 > 200 > likely[1]
    question = (
        "SELECT dp.dp_decide('SELECT count(*) FROM people WHERE age > 30', 'people_syn', tau => 900, epsilon => 1)"
    )
    with world.connect("alice") as alice:
        assert one(alice, question) is True


def test_a_repeat_uses_the_release_and_costs_nothing(world: Cluster, boss: psycopg.Connection[Any]) -> None:
    boss.execute("CALL dp.make_synthetic('people', epsilon => 1.5, synthetic => 'first')")
    before = spent(world, "people")
    boss.execute("CALL dp.make_synthetic('people', epsilon => 1.50, synthetic => 'again')")
    boss.execute("CALL dp.make_synthetic('people', epsilon => 1.5, synthetic => 'tenth', rows => 50, weight => 'w')")
    assert spent(world, "people") == before
    assert one(boss, "SELECT count(*) FROM (TABLE first EXCEPT ALL TABLE again) t") == 0
    assert one(boss, "SELECT count(*) FROM (TABLE again EXCEPT ALL TABLE first) t") == 0
    assert one(boss, "SELECT count(*), abs(sum(w) - (SELECT count(*) FROM first)) < 0.01 FROM tenth") == (50, True)
    assert recorded(world, "tenth")[-1] == "w"
    boss.execute("CALL dp.make_synthetic('people', epsilon => 1.5, synthetic => 'none', rows => 0)")
    assert one(boss, "SELECT count(*) FROM none") == 0
    boss.execute("CALL dp.make_synthetic('people', epsilon => 0.5, synthetic => 'fresh1')")
    boss.execute("CALL dp.make_synthetic('people', epsilon => 0.5, synthetic => 'fresh2', fresh => true)")
    assert len(spent(world, "people")) == len(before) + 2


def test_every_type_that_has_declared_values(boss: psycopg.Connection[Any]) -> None:
    """What the declarations hold comes out, nothing else. The total has scale 0.4: 10 away with probability 4e-11."""
    boss.execute("CALL dp.make_synthetic('kinds', epsilon => 90, synthetic => 'public.kinds_syn')")
    shape = (
        "SELECT array_agg(attname || ' ' || format_type(atttypid, atttypmod) ORDER BY attname) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND attname NOT IN ('id', 'note')"
    )
    assert one(boss, shape, "kinds_syn") == one(boss, shape, "kinds")
    outside = """SELECT count(*) FROM kinds_syn WHERE i2 NOT BETWEEN 0 AND 6 OR i8 % 1000000000 <> 0
      OR amount * 4 <> trunc(amount * 4) OR amount > 200
      OR free NOT BETWEEN 0 AND 600 OR f4 * 2 <> floor(f4 * 2) OR f8 NOT BETWEEN 0 AND 100
      OR born NOT BETWEEN '2024-01-01' AND '2024-12-31' OR extract(minute FROM seen) <> 0
      OR at >= '2024-01-02 00:01+00' OR feel IS NULL OR ok IS NULL
      OR word NOT IN ('o''neill', 'a"b\\c') OR code NOT IN ('ab', 'cd')
      OR share IS NULL OR band NOT BETWEEN 0 AND 119"""
    assert one(boss, outside) == 0
    assert abs(one(boss, "SELECT count(*) FROM kinds_syn") - 600) < 10


def test_values_come_as_often_as_in_the_table(boss: psycopg.Connection[Any]) -> None:
    """NULLs, truths and the upper bound as often as among 600 rows, and columns that follow each other follow.

    False alarm below 1e-8. Two columns at epsilon 20: the total and each value have scale 0.28, the table of the pair
    0.13, and no table is raked. None of the 12 numbers is off by 7 but with probability 24 e^(-7 / 0.28) = 3e-10, and
    what is within 6 each moves a count by less than 30, a share by less than 0.1 (seen in 200 runs: 1, and 0.004).
    One column: scale 0.1. Independent columns would agree in half the rows, a lost cell would have none.
    """
    for name, columns in (("nulls", "word,ok"), ("pairs", "feel,code"), ("ends", "f8")):
        more = f"synthetic => 'kinds_{name}', columns => '{{{columns}}}'"
        boss.execute(f"CALL dp.make_synthetic('kinds', epsilon => 20, {more})")
    # 'gone' is no declared value: such rows are NULL in the copy
    counts = "SELECT count(*), count(*) FILTER (WHERE word IS NULL), count(*) FILTER (WHERE ok) FROM kinds_nulls"
    total, nulls, true = one(boss, counts)
    assert abs(total - 600) < 30
    assert abs(nulls - 300) < 30
    assert abs(true - 200) < 30
    assert one(boss, "SELECT avg(((feel = 'sad') = (code = 'ab'))::int) > 0.9 FROM kinds_pairs")
    # every fortieth is infinite, hence clamped
    assert abs(one(boss, "SELECT count(*) FROM kinds_ends WHERE f8 = 100") - 15) < 5


def test_users_cost_the_root_and_keep_to_their_cap(world: Cluster, boss: psycopg.Connection[Any]) -> None:
    """297 orders within the cap at scale 9.4: below 100 or above 480 with probability 5e-9; 701 items at scale 40: no
    row at all, hence no sku, with probability 2e-8."""
    boss.execute("CALL dp.make_synthetic('orders', epsilon => 3, synthetic => 'orders_copy')")
    _, who, _, epsilon, scope = spent(world, "shop")[-1]
    assert (who, epsilon, scope) == ("dp_planner", 3, {"node": "root"})
    columns = "SELECT array_agg(attname::text ORDER BY attname) FROM pg_attribute WHERE attrelid = %s::regclass"
    assert one(boss, columns + " AND attnum > 0", "orders_copy") == ["placed", "status"]
    # customer 7 has more than 100 orders, of which 5 count
    assert one(boss, "SELECT count(*) BETWEEN 100 AND 480 FROM orders_copy")
    boss.execute("CALL dp.make_synthetic('items', epsilon => 1, synthetic => 'items_copy')")
    assert one(boss, "SELECT bool_and(sku LIKE 'sku_') FROM items_copy")


def test_a_renyi_dataset_takes_rho_or_epsilon(world: Cluster, boss: psycopg.Connection[Any]) -> None:
    """500 rows, sigma 7.5: 200 away with probability below 1e-100."""
    boss.execute("CALL dp.make_synthetic('lab', rho => 0.05)")
    boss.execute("CALL dp.make_synthetic('lab', epsilon => 0.5, synthetic => 'lab_laplace')")
    assert one(boss, "SELECT count(*) BETWEEN 300 AND 700 FROM lab_syn")
    with world.connect() as conn:
        kinds = conn.execute(
            "SELECT DISTINCT c ->> 'kind' FROM dp.ledger, jsonb_array_elements(charge) c WHERE dataset = 'lab'"
            " ORDER BY 1"
        ).fetchall()
    assert [kind for (kind,) in kinds] == ["exponential", "gaussian", "laplace"]
    _, epsilon, delta, proof, _ = recorded(world, "lab_syn")
    assert Decimal("1.7") < epsilon < Decimal("1.8")  # rho + 2 sqrt(rho ln(1/delta))
    assert delta == Decimal("0.000001")
    assert "rho 0.05" in proof
    assert refused(boss, "CALL dp.make_synthetic('people', rho => 0.05, synthetic => 'p')").sqlstate == "DP005"


REFUSED = [
    ("CALL dp.make_synthetic('customers')", "DP005"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, rho => 1)", "DP005"),
    ("CALL dp.make_synthetic('customers', epsilon => -1)", "DP005"),
    ("CALL dp.make_synthetic('customers', epsilon => 'NaN')", "DP005"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, rows => -1)", "DP005"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, rows => 10000001)", "DP005"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, method => 'gan')", "DP005"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, method => NULL, bins => 1)", "DP005"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, synthetic => 'a.b.c')", "DP005"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, synthetic => 'a b')", "DP005"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, synthetic => '')", "DP005"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, synthetic => 'closed.x')", "42501"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, synthetic => 'orders')", "42P07"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, weight => 'segment')", "DP005"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, columns => '{id}')", "DP004"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, columns => '{nope}')", "42703"),
    ("CALL dp.make_synthetic('customers', epsilon => 1, columns => '{}')", "42703"),
    ("CALL dp.make_synthetic('customers', epsilon => 9)", "DP001"),
    ("CALL dp.make_synthetic('orders', epsilon => 0.1, columns => '{customer_id}', synthetic => 'o')", "DP004"),
]


@pytest.mark.parametrize(("call", "state"), REFUSED)
def test_refusals_cost_nothing_and_make_nothing(
    world: Cluster, boss: psycopg.Connection[Any], call: str, state: str
) -> None:
    before = spent(world, "shop")
    assert refused(boss, call).sqlstate == state
    assert spent(world, "shop") == before
    assert one(boss, "SELECT to_regclass('customers_syn') IS NULL")


def test_who_may_not(world: Cluster, boss: psycopg.Connection[Any]) -> None:
    world.execute("CREATE ROLE other LOGIN IN ROLE dp_admin", "GRANT ALL ON SCHEMA public TO other")
    with world.connect("other") as other:
        assert refused(other, "CALL dp.make_synthetic('people', epsilon => 1, synthetic => 'mine')").sqlstate == "42501"
    with world.connect("alice") as alice, pytest.raises(psycopg.errors.InsufficientPrivilege):
        alice.execute("CALL dp.make_synthetic('people', epsilon => 1)")
    asked = """SELECT dp.dp_query('{"version": 1, "from": {"schema": "public", "name": "people"},
        "budget": {"epsilon": "0.1"}, "synthesize": {"method": "marginals"}}')"""
    with world.connect("alice") as alice:
        assert refused(alice, asked).sqlstate == "42501"
    with world.connect("dp_gateway") as gateway:
        gateway.execute("SELECT set_config('dp.analyst', 'dp_planner', false)")
        assert refused(gateway, asked).sqlstate == "42501"
    boss.execute("CALL dp.make_synthetic('lab', epsilon => 0.1, synthetic => 'lab_small')")
    answer = '\'{"request_id": "00000000-0000-0000-0000-000000000000"}\''
    forged = f"SELECT dp._record_generated('people', 'lab_small', {answer}, 1, NULL, NULL)"
    assert refused(boss, forged).sqlstate == "42501"


def test_the_planner_needs_an_allotment_and_the_hint_says_how(world: Cluster, boss: psycopg.Connection[Any]) -> None:
    boss.execute("CREATE TABLE quiet (x boolean)")
    boss.execute("CALL dp.create_dataset('quiet', epsilon => 1)")
    boss.execute("CALL dp.protect('quiet', 'quiet')")
    boss.execute("CALL dp.publish('quiet')")
    diag = refused(boss, "CALL dp.make_synthetic('quiet', epsilon => 1)")
    assert (diag.sqlstate, diag.message_hint) == ("DP004", diag.message_hint)  # nothing is declared yet
    boss.execute("CALL dp.describe_column('quiet', 'x')")
    diag = refused(boss, "CALL dp.make_synthetic('quiet', epsilon => 1)")
    assert diag.sqlstate == "42501"
    assert str(diag.message_hint).startswith("CALL dp.allot('dp_planner', 'quiet'")
    boss.execute("CALL dp.allot('dp_planner', 'quiet', epsilon => 1)")
    boss.execute("CALL dp.make_synthetic('quiet', epsilon => 1)")  # one column, no row
    assert one(boss, "SELECT count(*) < 200 FROM quiet_syn")


def test_a_charge_outlives_the_callers_rollback(world: Cluster) -> None:
    with world.connect("boss", autocommit=False) as conn:
        before = len(spent(world, "lab"))
        conn.execute("CALL dp.make_synthetic('lab', epsilon => 0.2, synthetic => 'lab_gone')")
        conn.rollback()
        assert one(conn, "SELECT to_regclass('lab_gone') IS NULL")
        assert len(spent(world, "lab")) == before + 1
        conn.execute("CALL dp.make_synthetic('lab', epsilon => 0.2, synthetic => 'lab_gone')")
        conn.commit()
        assert len(spent(world, "lab")) == before + 1
