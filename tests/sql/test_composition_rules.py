"""One test per numbered rule of composition.md that nothing else shows; where the others are shown:

1.1  privacy/test_replay (every removed unit)         6.1  privacy/test_replay (one state per call)
1.2  here; test_lifetime (joined later)               6.2  attacks/ (three states of the tables), test_cache
1.3  here; test_counts; test_lifetime (broken path)   6.3  test_cache (refresh, declared period)
1.4  unit/test_plan (accuracy needs a scale)          6.4  unit/test_plan, test_counts (one statement)
1.5  documentation; unit/test_noise (sensitivity 1)   7.1  test_cache, unit/test_request; 7.2-7.5 later
1.6  here; test_check; test_policy                    8    unit/test_noise (margins); here (bias is said)
2.1  unit/test_request (distinct needs users)         9    attacks/, test_cache (views), here (EXPLAIN)
2.2  unit/test_plan, privacy/test_replay              10.1 test_channel; 10.2 test_check, attacks/, here
2.3  here; privacy/test_replay (broken caps)          10.3 here; test_channel; 10.4 test_grants
2.4  unit/test_plan; privacy/test_replay (controls)   11   later (synthetic tables)
2.5  2.6  later (SVT, joins)                          12   test_dump, test_channel (clone), test_lifetime
3.1  unit/test_filters, test_partitions, here         13   privacy/test_replay
3.2  test_partitions, here; 3.3 test_accounting       14.1 unit/test_request, here; 14.2 test_policy
3.4  3.5 unit/test_curves, _charges, test_accounting  14.3 test_accounting; 14.4 test_cache; 14.5 test_accounting
3.6  test_accounting; 3.7 test_lifetime, here         14.6 test_policy, here; 14.7 14.8 later
4    unit/test_charges; 3.8 later (key discovery)     14.9 unit/test_noise; here
5.1  unit/test_plan, test_partitions, here            14.10 clients/; 14.11 test_accounting, clients/test_refusals
5.2  test_policy, here; 5.3 later; 5.4 here           14.12 test_cache; 14.13 words
5.5  unit/test_plan (row units, grouped)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import Connection, account, balanced, count, make, no_charge, one, refused
from pg_epsilon.plan import make_plan
from pg_epsilon.query.expression import Fold
from pg_epsilon.query.policy import Policy, policy_from_json
from pg_epsilon.query.request import compile_request


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


def statistics(cluster: Cluster, name: str, **question: Any) -> list[tuple[Any, ...]]:
    """The exact statistics of a request, read by the statement that the engine makes of it."""
    document = {"aggregates": [{"function": "count", "argument": "*"}], "budget": {"epsilon": "1"}, **question}
    with cluster.connect() as conn:

        def lookup(schema: str, name: str) -> Policy:
            policy = one(conn, "SELECT dp._policy_of(%s, %s)", schema, name)
            for refusal in ("unit_path_broken", "part_protected"):
                assert policy.pop(refusal) is False
            return policy_from_json(policy)

        request = compile_request(
            {"version": 1, "from": {"schema": "public", "name": name}, **document},
            lookup,
            fold_of(conn),
            lambda query: [row[0] for row in conn.execute(query)],
            encoding="UTF8",
            server_version=150000,
            clock=0.0,
        )
        statement = make_plan(request).statement
        assert statement is not None
        return sorted(conn.execute(statement).fetchall())


def fold_of(conn: Connection) -> Fold:
    def fold(sql: Sequence[str]) -> Sequence[str | None]:
        row = conn.execute("SELECT " + ", ".join(f"({text})::text" for text in sql)).fetchone()
        return list(row or ())

    return fold


def test_3_1_a_relation_renamed_while_unprotected_finds_its_accounts(cluster: Cluster) -> None:
    make(cluster, "was")
    with cluster.connect("alice") as alice:
        count(alice, table="was", epsilon=0.7)
        cluster.psql(
            "CALL dp.unprotect('was'); ALTER TABLE was RENAME TO renamed_later; CREATE SCHEMA elsewhere;"
            "GRANT USAGE ON SCHEMA elsewhere TO alice;"
            "ALTER TABLE renamed_later SET SCHEMA elsewhere; CALL dp.protect('elsewhere.renamed_later', 'was');"
            "CALL dp.describe_column('elsewhere.renamed_later', 'id'); CALL dp.publish('elsewhere.renamed_later')",
            user="boss",
        )
        with no_charge(cluster), refused("DP001", "0.3 is left"):
            count(alice, table="elsewhere.renamed_later", epsilon=0.4)
        count(alice, table="elsewhere.renamed_later", epsilon=0.3)
    assert account(cluster, "was") == {"relation/public.was": 1}


def test_3_1_a_new_table_under_an_old_name_takes_that_names_accounts(cluster: Cluster) -> None:
    """The other half of a swap by two renames: whichever of the two holds the old rows, their spending is there."""
    make(cluster, "swapped")
    with cluster.connect("alice") as alice:
        count(alice, table="swapped", epsilon=0.7)
        cluster.psql(
            "ALTER TABLE swapped RENAME TO swapped_old; CREATE TABLE swapped AS SELECT id FROM swapped_old;"
            "CALL dp.protect('swapped', 'swapped'); CALL dp.describe_column('swapped', 'id');"
            "CALL dp.publish('swapped')",
            user="boss",
        )
        for table in ("swapped", "swapped_old"):
            with no_charge(cluster), refused("DP001", "0.3 is left"):
                count(alice, table=table, epsilon=0.4)


def test_3_1_a_part_and_its_whole_are_not_two_relations(cluster: Cluster) -> None:
    make(cluster, "part")
    cluster.psql(
        "CREATE TABLE whole (id int) PARTITION BY RANGE (id);"
        "CALL dp.create_dataset('whole', epsilon => 1); CALL dp.protect('whole', 'whole'); CALL dp.publish('whole');"
        "CALL dp.allot('alice', 'whole', epsilon => 1)",
        user="boss",
    )
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        count(alice, table="whole")
        count(alice, table="part")
        boss.execute("ALTER TABLE part DROP CONSTRAINT part_pkey")
        boss.execute("ALTER TABLE part ALTER id DROP NOT NULL")
        boss.execute("ALTER TABLE whole ATTACH PARTITION part FOR VALUES FROM (0) TO (1000)")
        for table in ("part", "whole"):
            with no_charge(cluster), refused("DP006", "shares rows"):
                count(alice, table=table)
        found = boss.execute("SELECT object FROM dp.check() WHERE problem LIKE 'it shares rows%' ORDER BY 1").fetchall()
        assert found == [("public.part",), ("public.whole",)]
        boss.execute("CALL dp.unprotect('whole')")
        with refused("DP005", "protected by itself"):
            boss.execute("CALL dp.protect('whole', 'whole')")
        count(alice, table="part")
        boss.execute("ALTER TABLE whole DETACH PARTITION part; CALL dp.protect('whole', 'whole')")


def test_1_3_children_of_a_step_give_no_row_a_second_unit(cluster: Cluster) -> None:
    """A foreign key is unique on its table's own rows; inheritance children may repeat a key (and belong to others)."""
    units = [{"function": "count", "distinct": True}]
    before = statistics(cluster, "items"), statistics(cluster, "items", aggregates=units)
    cluster.psql(
        "CREATE TABLE more_orders () INHERITS (orders);"
        "INSERT INTO more_orders (id, customer_id) SELECT id, 100 + id % 50 FROM orders",
        user="boss",
    )
    try:
        assert (statistics(cluster, "items"), statistics(cluster, "items", aggregates=units)) == before
    finally:
        cluster.psql("DROP TABLE more_orders", user="boss")


def test_2_3_the_cap_orders_all_columns_where_the_primary_key_is_not_unique(cluster: Cluster) -> None:
    """A child of a table may repeat its primary key: by it alone, which rows are kept would depend on other units."""
    cluster.psql(
        "CREATE TABLE visits (id int PRIMARY KEY, who int, kind text); CREATE TABLE more_visits () INHERITS (visits);"
        "INSERT INTO visits VALUES (1, 7, 'b'); INSERT INTO more_visits VALUES (1, 7, 'a'), (1, 7, 'c');"
        "CALL dp.create_dataset('visits', unit => 'user', epsilon => 1);"
        "CALL dp.protect('visits', 'visits', unit_column => 'who', max_rows_per_unit => 1);"
        "CALL dp.describe_column('visits', 'kind', domain => '{a,b,c}', nullable => false); CALL dp.publish('visits')",
        user="boss",
    )
    assert statistics(cluster, "visits", keys=["kind"]) == [("a", 1)]
    with cluster.connect("boss") as boss, cluster.connect() as conn:
        boss.execute("ALTER TABLE more_visits NO INHERIT visits")
        version = one(conn, "SELECT version FROM dp.policy_state")
        assert one(conn, "SELECT dp._policy_of('public', 'visits')")["primary_key"] == ["id"]
        boss.execute("CREATE TABLE still_more () INHERITS (visits)")
        assert one(conn, "SELECT version FROM dp.policy_state") == version + 1, "a policy kept by a backend is too old"
        assert one(conn, "SELECT dp._policy_of('public', 'visits')")["primary_key"] is None
        boss.execute("CREATE TEMPORARY TABLE notes (id serial PRIMARY KEY)")
        assert one(conn, "SELECT version FROM dp.policy_state") == version + 1


CASTS = """
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE moods (id int, who int, c mood, d mood);
INSERT INTO moods VALUES (1, 1, 'sad', 'sad'), (2, 1, 'sad', NULL);
CREATE FUNCTION boom(mood) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'ran as %', current_user; END $$;
CREATE FUNCTION boom(moods) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'ran as %', current_user; END $$;
CREATE CAST (mood AS text) WITH FUNCTION boom(mood);
CREATE CAST (moods AS text) WITH FUNCTION boom(moods);
CALL dp.create_dataset('moods', unit => 'user', epsilon => 1);
CALL dp.protect('moods', 'moods', unit_column => 'who', max_rows_per_unit => 1);
CALL dp.describe_column('moods', 'c', domain => '{sad,glad}');
CALL dp.describe_column('moods', 'd', edges => '{sad,glad}');
CALL dp.publish('moods'); CALL dp.allot('alice', 'moods', epsilon => 1);
"""


def test_14_6_casts_of_a_tables_owner_do_not_run_as_the_engine(cluster: Cluster) -> None:
    """Casts are found whatever the search_path is: one that the owner of a type or table made would be dp_owner's."""
    cluster.psql(CASTS, user="boss")
    with cluster.connect("alice") as alice:
        groups = alice.execute("SELECT * FROM dp.dp_group_by('moods', '{c,d}', epsilon => 0.1)").fetchall()
        assert len(groups) == 9
        count(alice, table="moods", predicate="upper(c::text) LIKE 'S%' AND d = 'sad'")
        count(alice, table="moods", predicate="c::text = 'sad'")


def test_14_6_declared_values_are_read_without_code_of_the_types_owner(cluster: Cluster) -> None:
    cluster.psql(
        "CREATE FUNCTION boom(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'ran as %', current_user; END $$;"
        "CREATE DOMAIN checked AS int CHECK (boom(VALUE)); CREATE TYPE pair AS (a checked, b int);"
        "CREATE TABLE pairs (id int, one pair, more checked[]);"
        "CALL dp.create_dataset('pairs', epsilon => 1); CALL dp.protect('pairs', 'pairs');"
        "CALL dp.describe_column('pairs', 'one'); CALL dp.describe_column('pairs', 'more')",
        user="boss",
    )
    with cluster.connect("boss") as boss:
        for column, value in (("one", '{"(1,2)"}'), ("more", '{"{1}"}')):
            with refused("DP005", "have no bounds, domain or edges"):
                boss.execute("CALL dp.describe_column('pairs', %s, domain => %s)", [column, value])


def test_3_2_equal_values_of_several_texts_have_no_leaf_of_their_own(cluster: Cluster) -> None:
    """A row with 0 is also read by x = '-0': at the cost of the relation, not of another leaf."""
    make(cluster, "zeros", ", x float8", """, partition_by => 'x', grid => '{"list": ["0", "1"]}'""")
    cluster.psql("CALL dp.describe_column('zeros', 'x')", user="boss")
    with cluster.connect("alice") as alice:
        count(alice, table="zeros", predicate="x = 0", epsilon=0.25)
        count(alice, table="zeros", predicate="x = '-0'", epsilon=0.25)
    assert account(cluster, "zeros") == {"relation/public.zeros": 0.5}


def test_5_1_a_partition_that_no_row_can_have_closes_nothing(cluster: Cluster) -> None:
    """The restriction is written into the statement: a literal beyond the column's type would fail next to rows."""
    make(cluster, "regions", ", r smallint", """, partition_by => 'r', grid => '{"list": ["1", "2"]}'""")
    cluster.psql("CALL dp.describe_column('regions', 'r')", user="boss")
    with cluster.connect("alice") as alice:
        for value in ("99999", "99999999999", "-32769", "1.5"):
            count(alice, table="regions", predicate=f"r = {value}")
        count(alice, table="regions", predicate="r IN (1, 32767, -32768, 40000)")
        count(alice, table="regions", predicate="r = 32767")
    with cluster.connect() as conn:
        assert one(conn, "SELECT count(*) FROM dp.closed_question") == 0


def test_10_3_an_answer_that_may_not_fit_is_refused_before_the_charge(cluster: Cluster) -> None:
    make(cluster, "wide", ", a int, b int", allot="0.9")
    cluster.psql(
        "CALL dp.describe_column('wide', 'a', bounds => '{1,999}', resolution => '1');"
        "CALL dp.describe_column('wide', 'b', bounds => '{1,999}', resolution => '1')",
        user="boss",
    )
    with cluster.connect("alice") as alice, no_charge(cluster):
        for keys, aggregates in (("{a,b}", "{count(*),count(a)}"), ("{a,b,id}", "{count(*)}")):
            with pytest.raises(psycopg.Error) as error:
                alice.execute("SELECT dp.dp_group_by('wide', %s, %s, epsilon => 0.1)", [keys, aggregates])
            assert error.value.sqlstate in ("DP005", "DP004")
        long = "{" + ",".join(f"{i:03}" + "x" * 400 for i in range(400)) + "}"
        cluster.psql("ALTER TABLE wide ADD s text", user="boss")
        with cluster.connect("boss") as boss:
            boss.execute("CALL dp.describe_column('wide', 's', domain => %s)", [long])
        with refused("DP005", "larger than 64 MB"):
            alice.execute("SELECT dp.dp_group_by('wide', '{s,a}', epsilon => 0.1)")


@pytest.mark.parametrize("value", ['"true"', "1", '"false"', "0", "[]"])
def test_14_1_a_flag_that_is_no_boolean_is_not_read_as_false(cluster: Cluster, value: str) -> None:
    distinct = f'[{{"function": "count", "argument": "customer_id", "distinct": {value}}}]'
    plain = '[{"function": "count", "argument": "*"}]'
    with cluster.connect("alice") as alice, no_charge(cluster):
        for aggregates, fresh in ((distinct, "false"), (plain, value)):
            request = (
                '{"version": 1, "from": {"schema": "public", "name": "orders"}, "budget": {"epsilon": "0.1"},'
                f' "aggregates": {aggregates}, "fresh": {fresh}}}'
            )
            with refused("DP003"):
                alice.execute("SELECT dp.dp_query(%s)", [request])


def test_5_2_leaves_hold_only_while_rows_cannot_move(cluster: Cluster) -> None:
    """Without its trigger a row could be moved from a spent leaf to a fresh one: the whole relation pays instead."""
    week = "day >= '2024-01-01' AND day < '2024-01-08'"
    make(
        cluster,
        "moved",
        ", day date",
        """, partition_by => 'day', grid => '{"origin": "2024-01-01", "width": "7 days"}'""",
    )
    cluster.psql("CALL dp.describe_column('moved', 'day')", user="boss")
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        with refused("42501", "dp.unprotect"):
            boss.execute('DROP TRIGGER "~dp_partition_key" ON moved')
        count(alice, table="moved", predicate=week, epsilon=0.1)
        boss.execute('ALTER TABLE moved DISABLE TRIGGER "~dp_partition_key"')
        count(alice, table="moved", predicate=week, epsilon=0.1)
        boss.execute('ALTER TABLE moved ENABLE ALWAYS TRIGGER "~dp_partition_key"')
        count(alice, table="moved", predicate=week, epsilon=0.1)
        boss.execute("CREATE TABLE moved_too () INHERITS (moved)")
        count(alice, table="moved", predicate=week, epsilon=0.1)
        warned = "SELECT count(*) FROM dp.check() WHERE starts_with(problem, 'rows could be moved')"
        assert one(boss, warned) == 1
        boss.execute("DROP TABLE moved_too")
        assert one(boss, warned) == 0
        boss.execute("DROP TABLE moved")
    assert account(cluster, "moved") == {
        "leaf/public.moved/[2024-01-01,2024-01-08)": Decimal("0.2"),
        "relation/public.moved": Decimal("0.2"),
    }


def test_1_6_no_part_of_a_protected_table_at_any_depth_is_public(cluster: Cluster) -> None:
    cluster.psql(
        "CREATE TABLE top (id int) PARTITION BY RANGE (id);"
        "CREATE TABLE mid PARTITION OF top FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);"
        "CREATE TABLE low PARTITION OF mid FOR VALUES FROM (0) TO (5);"
        "CALL dp.create_dataset('top', epsilon => 1); CALL dp.protect('top', 'top')",
        user="boss",
    )
    with cluster.connect("boss") as boss:
        for part in ("mid", "low", "top"):
            with refused("DP005", "cannot be public"):
                boss.execute(f"CALL dp.publish('{part}', kind => 'public')")


def test_10_2_functions_that_run_with_a_readers_rights_are_named(cluster: Cluster) -> None:
    problem = "SELECT object FROM dp.check() WHERE problem LIKE 'analysts may run it%'"
    with cluster.connect("boss") as boss:
        assert boss.execute(problem).fetchall() == []
        boss.execute(
            "CREATE FUNCTION rows() RETURNS bigint SECURITY DEFINER SET search_path = public LANGUAGE sql"
            " AS 'SELECT count(*) FROM people'"
        )
        assert boss.execute(problem).fetchall() == [("public.rows()",)]
        boss.execute("REVOKE EXECUTE ON FUNCTION rows() FROM PUBLIC")
        assert boss.execute(problem).fetchall() == []


def test_1_3_null_and_dangling_units_count_nowhere(cluster: Cluster) -> None:
    """Orders without a customer, items without an order or of such an order: in no count of rows or of units."""
    cluster.psql(
        "INSERT INTO orders SELECT i, NULL, '2024-01-01', 'open' FROM generate_series(9001, 9050) i;"
        "INSERT INTO items SELECT 9001 + i % 50, 'sku0', 1 FROM generate_series(1, 200) i;"
        "INSERT INTO items SELECT NULL, 'sku0', 1 FROM generate_series(1, 200) i",
        user="boss",
    )
    units = [{"function": "count", "distinct": True}]
    owned = "FROM items i JOIN orders o ON o.id = i.order_id WHERE o.customer_id IS NOT NULL"
    with cluster.connect() as conn:
        rows = one(conn, f"SELECT sum(least(n, 20)) FROM (SELECT count(*) AS n {owned} GROUP BY o.customer_id) c")
        users = one(conn, f"SELECT count(DISTINCT o.customer_id) {owned}")
        grouped = conn.execute(f"SELECT i.sku, count(DISTINCT o.customer_id) {owned} GROUP BY 1 ORDER BY 1").fetchall()
        assert one(conn, "SELECT count(*) FROM items") > rows + 400 - 1
    assert statistics(cluster, "items") == [(rows,)]
    assert statistics(cluster, "items", aggregates=units) == [(users,)]
    assert statistics(cluster, "items", aggregates=units, keys=["sku"]) == grouped


def test_2_3_kept_rows_do_not_depend_on_where_other_units_rows_lie(cluster: Cluster) -> None:
    """Whatever is written before, between or after a unit's rows, and in whatever order: the same rows are kept."""
    kept = []
    for order in ("i", "-i", "md5(i::text)"):
        cluster.psql(
            "DROP TABLE IF EXISTS scattered; CREATE TABLE scattered (who int, kind text);"
            f"INSERT INTO scattered SELECT CASE WHEN i % 3 = 0 THEN 1 ELSE i END, chr(97 + i % 5)"
            f" FROM generate_series(1, 300) i ORDER BY {order};"
            + ("CALL dp.create_dataset('scattered', unit => 'user', epsilon => 1);" if not kept else "")
            + "CALL dp.protect('scattered', 'scattered', unit_column => 'who', max_rows_per_unit => 7);"
            "CALL dp.describe_column('scattered', 'kind', domain => '{a,b,c,d,e}', nullable => false);"
            "CALL dp.describe_column('scattered', 'who'); CALL dp.publish('scattered')",
            user="boss",
        )
        kept.append(statistics(cluster, "scattered", keys=["kind"], where="who = 1"))
    assert kept[0] == kept[1] == kept[2]
    assert sum(n for _, n in kept[0]) == 7


def test_8_a_truncated_count_says_that_its_bias_is_unknown(cluster: Cluster) -> None:
    ask = "SELECT dp.dp_plan(dp.dp_count_request(%s, epsilon => 0.01, what => %s))"
    with cluster.connect("alice") as alice, no_charge(cluster):
        assert "bias unknown" in one(alice, ask, "orders", "rows")["text"]
        assert one(alice, ask, "orders", "units")["warnings"] == []
        assert one(alice, ask, "people", "rows")["warnings"] == []


def test_9_dp_plan_is_the_same_on_any_rows(cluster: Cluster) -> None:
    ask = "SELECT dp.dp_plan(dp.dp_group_by_request('people', '{sex,age}', predicate => 'age > 30', epsilon => 0.01))"
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        before = one(alice, ask)
        boss.execute("DELETE FROM people WHERE id > 20")
        boss.execute("VACUUM ANALYZE people")
        assert one(alice, ask) == before


@pytest.mark.chance((1 - fix_chance.laplace(100, 0) / 2) ** 63)
def test_14_9_counts_are_integers_and_not_clamped(cluster: Cluster) -> None:
    """63 empty groups at epsilon 0.01: one of them is below 0."""
    with cluster.connect("alice") as alice:
        groups = alice.execute(
            "SELECT (value ->> 'count(*)')::numeric"
            " FROM dp.dp_group_by('people', '{age}', predicate => 'id < 0', epsilon => 0.01)"
        ).fetchall()
    assert len(groups) == 63
    assert all(n == n.to_integral_value() for (n,) in groups)
    assert min(n for (n,) in groups) < 0


UNITS = [
    ("first_row", ", unit_column => 'id'", "has row units"),
    ("first_row", ", max_rows_per_unit => 3", "no meaning for row units"),
    ("first_user", "", "give unit_column or unit_path"),
    ("first_user", ", unit_column => 'id', unit_path => '{id}'", "give unit_column or unit_path"),
    ("first_user", ", unit_path => '{id,id}'", "no validated foreign key"),
    ("first_user", ", unit_path => '{late,id}'", "no validated foreign key"),
    ("first_user", ", unit_path => '{up,id}'", "is not protected in dataset"),
    ("first_user", """, unit_column => 'id', partition_by => 'id', grid => '{"list": ["1"]}'""", "unit is a row"),
]


@pytest.mark.parametrize("dataset, arguments, words", UNITS)
def test_1_2_5_4_every_relation_reaches_the_datasets_unit(
    cluster: Cluster, dataset: str, arguments: str, words: str
) -> None:
    cluster.psql(
        "CREATE TABLE IF NOT EXISTS above (id int PRIMARY KEY);"
        "CREATE TABLE IF NOT EXISTS below (id int, up int REFERENCES above, late int);"
        "DO $$ BEGIN IF NOT EXISTS (SELECT FROM dp.budget WHERE dataset = 'first_row') THEN"
        " ALTER TABLE below ADD FOREIGN KEY (late) REFERENCES above NOT VALID;"
        " CALL dp.create_dataset('first_row', epsilon => 1);"
        " CALL dp.create_dataset('first_user', unit => 'user', epsilon => 1); END IF; END $$",
        user="boss",
    )
    with cluster.connect("boss") as boss, no_charge(cluster), refused("DP005", words):
        boss.execute(f"CALL dp.protect('below', '{dataset}'{arguments})")
