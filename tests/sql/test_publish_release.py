"""Published releases: schema dp_release, made by dp_release_numeric(..., publish => true), for nothing."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, charges, no_charge, one, refused
from fix_release import ADULT
from fix_waiting import LOCKED, soon
from pg_epsilon.release import shown

Connection = psycopg.Connection[Any]
LOSS = "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2"
GRID = "{{17,20},{30,60}}"
COLUMNS = "parameters, answer, unbiased, low, high, below_resolution"
MORE = """
CREATE DOMAIN grade AS text CHECK (VALUE <> 'z');
CREATE TABLE second (id int PRIMARY KEY, value int, weight int, weight_2 int, rank grade, loss int);
INSERT INTO second SELECT i, i % 4, 1, 1, (ARRAY['a','b'])[1 + i % 2], i % 5 FROM generate_series(1, 2000) i;
CALL dp.create_dataset('second', unit => 'row', epsilon => 1000, default_epsilon => 1);
CALL dp.protect('second', 'second', max_rows => 10000);
CALL dp.describe_column('second', 'value', bounds => '{0,3}', nullable => false);
CALL dp.describe_column('second', 'rank', domain => '{a,b}');
CALL dp.describe_column('second', 'loss', bounds => '{0,4}', nullable => false);
CALL dp.publish('second'); CALL dp.allot('alice', 'second', epsilon => 900);
CALL dp.allot('bob', 'second', epsilon => 900);
"""
# Of test_the_table_is_about_the_data, twice; of others, that noise of scale 1/25 hides one of a hundred cells of more
# than 20 rows, or tells one where there is no row: counts are whole numbers.
SURE = 1e-9
pytestmark = pytest.mark.chance(fix_chance.union(2 * SURE + 200 * math.exp(-25)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(ADULT + MORE, user="boss")
        yield running


@pytest.fixture
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice", tcp=True) as conn:
        yield conn


@pytest.fixture
def bob(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("bob", tcp=True) as conn:
        yield conn


@pytest.fixture
def boss(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("boss") as conn:
        yield conn


def release(
    conn: Connection, name: str, query: str = LOSS, grid: str = GRID, *, epsilon: float = 25, **more: bool
) -> list[Any]:
    """Published, if nothing else is said."""
    extra = "".join(f", {key} => {str(value).lower()}" for key, value in ({"publish": True} | more).items())
    call = f"SELECT * FROM dp.dp_release_numeric(%s, %s, %s, epsilon => %s{extra})"
    return conn.execute(call, (name, query, grid, epsilon)).fetchall()


def rows(conn: Connection, sql: str) -> list[Any]:
    return conn.execute(sql).fetchall()


def policy(cluster: Cluster) -> int:
    with cluster.connect() as root:
        return int(one(root, "SELECT version FROM dp.policy_state"))


def there(cluster: Cluster) -> list[str]:
    with cluster.connect() as root:
        sql = (
            "SELECT relname FROM pg_class WHERE relnamespace = 'dp_release'::regnamespace AND relkind = 'r' ORDER BY 1"
        )
        return [row[0] for row in root.execute(sql)]


def test_a_release_becomes_a_table_once_and_for_nothing(cluster: Cluster, alice: Connection) -> None:
    said: list[str] = []
    alice.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    alice.execute("SET dp.notices = on")
    before, version = charges(cluster), policy(cluster)
    found = release(alice, "loss_by_age")
    assert charges(cluster) == before + 1
    assert policy(cluster) > version, "proxies are told"
    assert "published as dp_release.loss_by_age, without the grid" in said[-1]
    assert "sums over it have no bar" in said[-1]
    with no_charge(cluster):
        names = [column.name for column in alice.execute("SELECT * FROM dp_release.loss_by_age").description or []]
        assert names == ["age", "value", "weight"]
        table = rows(alice, "SELECT * FROM dp_release.loss_by_age ORDER BY 1, 2")
        assert table and all(weight > 0 for *_, weight in table)
        version = policy(cluster)
        assert release(alice, "loss_by_age") == found
        assert policy(cluster) == version, "nothing changed, and no proxy has to follow"
        assert rows(alice, "SELECT * FROM dp_release.loss_by_age ORDER BY 1, 2") == table
        assert rows(alice, f"SELECT {COLUMNS} FROM dp.release_answers WHERE name = 'loss_by_age'") == found
        sql = "SELECT DISTINCT kind, copy_of, provenance FROM dp.published WHERE relation = 'dp_release.loss_by_age'"
        assert rows(alice, sql) == [("synthetic", "public.adult", "generated")]
    assert "loss_by_age_answers" not in there(cluster)
    balanced(cluster)


def test_a_release_that_was_not_published_is_published_later(cluster: Cluster, alice: Connection) -> None:
    release(alice, "later", grid="{{17,18}}", epsilon=3, publish=False)
    assert "later" not in there(cluster)
    with no_charge(cluster):
        release(alice, "later", grid="{{17,18}}", epsilon=3)
    assert "later" in there(cluster)


def test_the_table_is_about_the_data(cluster: Cluster, alice: Connection) -> None:
    """Noise of 666 cells, and what is left out below two deviations of each: with probability SURE no more."""
    release(alice, "near", epsilon=100)
    deviation, cells = math.sqrt(2) / 100, 74 * 9
    most = cells * (2 * deviation + math.log(cells / SURE) / 100)
    ((weights, total),) = rows(alice, "SELECT sum(weight), sum(value * weight) FROM dp_release.near")
    with cluster.connect() as root:
        (true,) = rows(root, "SELECT count(*), sum(loss) FROM adult WHERE age BETWEEN 17 AND 90")
    assert abs(weights - true[0]) <= most < true[0] / 2
    assert abs(total - true[1]) <= 50 * most


CLASSES = {
    "text_and_edges": ("SELECT count(*) FROM adult WHERE edu = $1 AND rate >= $2", "{{hs,5}}"),
    "enum_and_null": ("SELECT sum(temp) FROM adult WHERE stage = $1", "{red}"),
    "dates": ("SELECT count(*) FROM adult WHERE born < $1", "{2024-01-07}"),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_have_the_types_of_their_columns(cluster: Cluster, alice: Connection, name: str) -> None:
    query, grid = CLASSES[name]
    release(alice, name, query, grid)
    with cluster.connect() as root:
        types = """SELECT count(*) FILTER (WHERE (a.atttypid, a.attcollation) = (b.atttypid, b.attcollation)),
            count(*) FILTER (WHERE b.attname IS NULL) FROM pg_attribute a
            LEFT JOIN pg_attribute b ON b.attrelid = 'adult'::regclass AND b.attname = a.attname
            WHERE a.attnum > 0 AND a.attrelid = %s::regclass"""
        same = root.execute(types, [f"dp_release.{name}"]).fetchone()
        assert same == (2 if name == "text_and_edges" else 1, 2)
        assert one(root, "SELECT dp._synthetics_of('adult'::regclass)::text").count('"valid": false') == 0
        table = rows(root, f"SELECT * FROM dp_release.{name}")
    if name == "text_and_edges":
        assert {row[:2] for row in table} == {(edu, rate) for edu in ("hs", "ba", 'm"a', None) for rate in (0, 2.5, 5)}
    if name == "enum_and_null":
        assert {row[0] for row in table} == {"red", "amber", "green"}
        assert any(row[1] is None for row in table) and any(row[1] != row[1] for row in table)


def test_dp_decide_takes_the_table(cluster: Cluster, alice: Connection) -> None:
    """Its weights count the rows of a class."""
    query, grid = CLASSES["text_and_edges"]
    release(alice, "by_edu", query, grid)
    question = "SELECT count(*) FROM adult WHERE edu IN ('hs', 'ba') AND rate >= 2.5"
    call = "SELECT * FROM dp.dp_decide_detail(%s, 'dp_release.by_edu', tau => %s, epsilon => 5)"
    assert one(alice, call.replace("*", "decision"), question, 1000) is True
    nothing = "SELECT count(*) FROM adult WHERE edu IN ('hs', 'ba') AND rate >= 2.5 AND price > 0"
    with refused("DP003", "does not have a column"):
        alice.execute(call, (nothing, 1000))


# A family's query, its grid, and of each question the text behind SELECT and what the table says to it.
SUMS = {
    "loss": (
        LOSS,
        GRID,
        {
            "sum(loss) FROM adult WHERE age < 40": "sum(value * weight) FROM {} WHERE age < 40",
            "avg(loss) FROM adult": "sum(value * weight) / sum(weight) FILTER (WHERE value IS NOT NULL) FROM {}",
        },
    ),
    "fractions": (
        "SELECT sum(temp) FROM adult WHERE stage = $1",
        "{red}",
        {
            "sum(temp) FROM adult": "sum(value * weight) FILTER (WHERE value <> 'NaN') FROM {}",
            "avg(temp) FROM adult WHERE stage = 'red'": (
                "sum(value * weight) / sum(weight) FROM {} WHERE stage = 'red' AND value <> 'NaN'"
            ),
            "count(temp) FROM adult": "sum(weight) FILTER (WHERE value IS NOT NULL) FROM {}",
        },
    ),
    "signs": (
        "SELECT sum(price) FROM adult WHERE edu = $1",
        "{hs}",
        {
            "sum(price) FROM adult WHERE edu = 'ba'": (
                "sum(value * weight) FROM {} WHERE edu = 'ba' AND value <> 'NaN'"  # noise may show its weight
            )
        },
    ),
    "conditions": (
        "SELECT sum(CASE WHEN price > 2 THEN loss ELSE 0 END) FROM adult WHERE age = $1 AND price > 1 AND edu <> 'ba'",
        "{20}",
        {
            "sum(CASE WHEN price > 2 THEN loss ELSE 0 END) FROM adult WHERE price > 1 AND age <> 30 AND edu <> 'ba'": (
                "sum(value * weight) FROM {} WHERE age <> 30"
            )
        },
    ),
}
DETAIL = "SELECT decision, synthetic_answer FROM dp.dp_decide_detail(%s, %s, tau => %s, epsilon => 5)"


@pytest.mark.parametrize("name", SUMS)
def test_dp_decide_takes_sums_of_the_family(cluster: Cluster, alice: Connection, name: str) -> None:
    """The synthetic answer is what the table says; and no distance is as large as all rows' values."""
    query, grid, questions = SUMS[name]
    table = f"dp_release.sums_of_{name}"
    release(alice, f"sums_of_{name}", query, grid)
    for asked, own in questions.items():
        ((told,),) = rows(alice, f"SELECT {own.format(table)}")
        ((decision, answer),) = alice.execute(DETAIL, (f"SELECT {asked}", table, 10**7)).fetchall()
        assert told != 0 and decision is True
        assert float(answer) == pytest.approx(told, rel=1e-9)


def test_dp_decide_refuses_sums_that_the_table_lacks(cluster: Cluster, alice: Connection) -> None:
    release(alice, "lacks", LOSS + " AND price > 2")
    release(alice, "counts_alone", "SELECT count(*) FROM adult WHERE age BETWEEN $1 AND $2")
    before = charges(cluster)
    for name, asked, said in (
        ("lacks", "sum(loss) FROM adult WHERE age < 40", "only rows that meet the conditions of its family"),
        ("lacks", "count(*) FROM adult WHERE price > 1", "only rows that meet the conditions of its family"),
        ("lacks", "sum(price) FROM adult WHERE price > 2", "does not have a column"),
        ("lacks", "sum(loss + 1) FROM adult WHERE price > 2", "does not have a column"),
        ("lacks", "median(loss) FROM adult WHERE price > 2", "does not have a column"),
        ("lacks", "sum(loss) FROM adult WHERE price > 2 AND loss > 3", "does not have a column"),
        ("counts_alone", "sum(loss) FROM adult WHERE age < 40", "does not have a column"),
    ):
        with refused("DP003", said):
            alice.execute(DETAIL, (f"SELECT {asked}", f"dp_release.{name}", 1000))
    assert charges(cluster) == before


def test_columns_have_names_of_their_own(cluster: Cluster, alice: Connection) -> None:
    """A relation with columns value and weight; and one of a domain, whose checks nobody runs, is no copy."""
    release(alice, "own_names", "SELECT sum(loss) FROM second WHERE value = $1", "{1}")
    columns = [column.name for column in alice.execute("SELECT * FROM dp_release.own_names").description or []]
    assert columns == ["value", "value_2", "weight_3"]
    release(alice, "of_domain", "SELECT count(*) FROM second WHERE rank = $1", "{a}")
    sql = "SELECT DISTINCT kind, copy_of FROM dp.published WHERE relation = 'dp_release.of_domain'"
    assert rows(alice, sql) == [("public", None)]
    assert {row[0] for row in rows(alice, "SELECT * FROM dp_release.of_domain")} == {"a", "b"}


def test_hidden_columns_are_not_told_by_names(cluster: Cluster, alice: Connection, boss: Connection) -> None:
    """With and without hidden columns value and weight the same table, and one copy as good as the other; what is
    published afterwards is not taken for the table's columns.
    """
    counts = "SELECT count(*) FROM {0} WHERE k = 1 AND loss >= 0"
    call = "SELECT decision FROM dp.dp_decide_detail(%s, %s, tau => 1000, epsilon => 5)"
    facts = "SELECT dp._synthetics_of({0!r}::regclass)::jsonb -> 0"
    seen = []
    for name, hidden in (("bare", ""), ("veiled", ", value int, weight int, weight_2 text")):
        boss.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, k int, loss int{hidden})".encode())
        boss.execute(f"INSERT INTO {name} SELECT i, i % 4, i % 5 FROM generate_series(1, 2000) i".encode())
        boss.execute(f"CALL dp.protect('{name}', 'second', max_rows => 10000)".encode())
        for column, most in (("k", 3), ("loss", 4)):
            bounds = f"bounds => '{{0,{most}}}', nullable => false"
            boss.execute(f"CALL dp.describe_column('{name}', '{column}', {bounds})".encode())
        boss.execute(f"CALL dp.publish('{name}', columns => '{{id,k,loss}}')".encode())
        query = f"SELECT count(*) FROM {name} WHERE k = $1 AND loss >= $2"
        release(alice, f"of_{name}", query, "{{1,0}}")
        table = alice.execute(f"SELECT * FROM dp_release.of_{name}".encode())
        with cluster.connect() as root:
            found = one(root, facts.format(name))
        assert found.pop("name") == f"of_{name}" and found.pop("oid")
        assert name in found["release"].pop("from")
        decided = one(alice, call, counts.format(name), f"dp_release.of_{name}")
        seen.append(([column.name for column in table.description or []], found, decided))
    assert seen[0] == seen[1]
    assert seen[0][0] == ["k", "loss", "value", "weight"]
    assert seen[0][1]["valid"] is True and seen[0][2] is True
    assert rows(boss, "SELECT * FROM dp.check() WHERE object = 'dp_release.of_veiled'") == []
    boss.execute("CALL dp.describe_column('veiled', 'value', bounds => '{0,3}')")
    boss.execute("CALL dp.publish('veiled')")
    with refused("DP003", "does not have a column"):
        alice.execute(call, ("SELECT count(*) FROM veiled WHERE k = 1 AND value = 1", "dp_release.of_veiled"))
    assert one(alice, call, counts.format("veiled"), "dp_release.of_veiled") is True
    assert rows(boss, "SELECT * FROM dp.check() WHERE object = 'dp_release.of_veiled'") == []
    release(alice, "unveiled", "SELECT count(*) FROM veiled WHERE k = $1", "{1}")
    unveiled = alice.execute("SELECT * FROM dp_release.unveiled").description or []
    assert [column.name for column in unveiled] == ["k", "value_2", "weight_3"]
    assert rows(boss, "SELECT * FROM dp.check() WHERE object = 'dp_release.of_veiled'") == []


def test_others_see_the_grid_where_it_is_shown(cluster: Cluster, alice: Connection, bob: Connection) -> None:
    found = release(alice, "shown")
    mine = f"SELECT {COLUMNS} FROM dp.release_answers WHERE name = 'shown'"
    assert rows(alice, mine) == found and rows(bob, mine) == []
    with refused("42P01", hint=False):
        bob.execute("SELECT * FROM dp_release.shown_answers")
    assert rows(bob, "SELECT * FROM dp_release.shown")
    with no_charge(cluster):
        release(alice, "shown", shows_grid=True)
        assert rows(bob, mine) == found == rows(bob, "SELECT * FROM dp_release.shown_answers")
        found = release(alice, "shown", grid="{{18,19},{20,21},{17,90}}", shows_grid=True)
        assert rows(bob, mine) == found == rows(bob, "SELECT * FROM dp_release.shown_answers")
        with refused("DP005", "shown already"):
            release(alice, "shown", grid="{{40,41}}")
        release(alice, "shown", grid="{{40,41}}", publish=False)
        assert rows(bob, mine) == found, "what is not published is not shown"


REFUSED = {
    "a grid of nothing": ("DP005", "shown where its release is published", {"publish": False, "shows_grid": True}),
    "no truth value": ("DP003", "true or false", {"publish": "yes"}),
    "no truth value, shown": ("DP003", "true or false", {"publish": True, "shows_grid": 1.5}),
    "a number": ("DP003", "true or false", {"publish": 1}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_cost_nothing(cluster: Cluster, alice: Connection, case: str) -> None:
    sqlstate, message, members = REFUSED[case]
    asked = {"name": "never", "query": LOSS, "path": ["public"], "grid": [["17", "20"]], **members}
    request = {"version": 1, "call": "dp_release_numeric", "release": asked, "budget": {"epsilon": "0.37"}}
    before = there(cluster)
    with no_charge(cluster), refused(sqlstate, message):
        alice.execute("SELECT dp.dp_query(%s)", [json.dumps(request)])
    assert there(cluster) == before


def test_a_name_stands_once_in_the_schema(cluster: Cluster, alice: Connection, bob: Connection) -> None:
    release(alice, "once", shows_grid=True)
    before = there(cluster)
    other = "SELECT sum(loss) FROM second WHERE value = $1"
    plan = "SELECT dp.dp_plan(dp.dp_release_numeric_request('once', %s, '{1}', epsilon => 0.37, publish => true))"
    with no_charge(cluster):
        for conn in (alice, bob):
            with refused("DP005", "a family of another dataset"):
                release(conn, "once", other, "{1}", epsilon=0.37)
        with refused("DP005", "a family of another dataset"):
            alice.execute(plan, [other])
        with refused("DP005", "already the name of another family"):
            release(bob, "once", epsilon=0.37)
        with refused("DP005", "something else called dp_release.once_answers"):
            release(alice, "once_answers", epsilon=0.37)
        with cluster.connect() as root:
            root.execute("CREATE TABLE dp_release.occupied_answers ()")
            with refused("DP005", "something else called dp_release.occupied_answers"):
                release(alice, "occupied", epsilon=0.37)
            root.execute("DROP TABLE dp_release.occupied_answers")
            root.execute("ALTER SCHEMA dp_release RENAME TO away")
            try:
                with refused("DP005", "no schema dp_release"):
                    release(alice, "homeless", epsilon=0.37)
            finally:
                root.execute("ALTER SCHEMA away RENAME TO dp_release")
    assert there(cluster) == before
    release(alice, "once", other, "{1}", publish=False)  # a family's name is its dataset's own


@pytest.mark.parametrize("how", ["drop", "redact"])
def test_tables_go_with_the_family(cluster: Cluster, alice: Connection, boss: Connection, how: str) -> None:
    release(alice, f"gone_{how}", epsilon=2, shows_grid=True, fresh=True)
    assert {f"gone_{how}", f"gone_{how}_answers"} <= set(there(cluster))
    version = policy(cluster)
    if how == "drop":
        boss.execute(f"CALL dp.drop_family('adult', 'gone_{how}')")
    else:
        request = one(boss, "SELECT request_id FROM dp.spending ORDER BY at DESC LIMIT 1")
        boss.execute("CALL dp.redact(%s)", [request])
    assert not {f"gone_{how}", f"gone_{how}_answers"} & set(there(cluster))
    assert policy(cluster) > version
    assert one(alice, "SELECT count(*) FROM dp.published WHERE relation ~ %s", f"gone_{how}") == 0
    assert rows(alice, f"SELECT * FROM dp.release_answers WHERE name = 'gone_{how}'") == []
    assert rows(boss, "SELECT * FROM dp.check() WHERE object ~ 'dp_release'") == []


def test_a_table_goes_with_the_question_it_was_made_from(cluster: Cluster, alice: Connection, boss: Connection) -> None:
    """Released again meanwhile, and not published: the family stays, and its table does not."""
    release(alice, "before", epsilon=2, fresh=True)
    request = one(boss, "SELECT request_id FROM dp.spending ORDER BY at DESC LIMIT 1")
    release(alice, "before", epsilon=2.5, publish=False)
    boss.execute("CALL dp.redact(%s)", [request])
    assert "before" not in there(cluster)
    assert one(alice, "SELECT count(*) FROM dp.families WHERE name = 'before'") == 1
    assert rows(alice, "SELECT * FROM dp.release_answers WHERE name = 'before'") == []
    release(alice, "before", epsilon=2.5)
    assert "before" in there(cluster)


def test_a_published_table_stays_what_it_was(cluster: Cluster, alice: Connection, boss: Connection) -> None:
    """New data end the family; the table is a release, until a newer one is published under its name."""
    query = "SELECT sum(cost) FROM visit WHERE ward = $1"
    release(alice, "cost", query, "{n}", epsilon=5)
    table = rows(alice, "SELECT * FROM dp_release.cost ORDER BY 1, 2")
    boss.execute("CALL dp.refresh('visit')")
    assert rows(alice, "SELECT * FROM dp_release.cost ORDER BY 1, 2") == table
    before = charges(cluster)
    release(alice, "cost", query, "{n}", epsilon=7)
    release(alice, "cost", query, "{n}", epsilon=5, publish=False)
    assert charges(cluster) == before + 2
    newer = rows(alice, "SELECT * FROM dp_release.cost ORDER BY 1, 2")
    assert newer != table
    with no_charge(cluster):
        release(alice, "cost", query, "{n}", epsilon=5)  # the newest of all
        with refused("DP005", "newer release than this one"):
            release(alice, "cost", query, "{n}", epsilon=7)


def test_nobody_writes_to_it(cluster: Cluster, alice: Connection, boss: Connection) -> None:
    release(alice, "firm", shows_grid=True)
    for conn in (alice, boss):
        for sql in (
            "DELETE FROM dp_release.firm",
            "INSERT INTO dp_release.firm VALUES (1, 1, 1)",
            "UPDATE dp_release.firm_answers SET answer = 0",
            "DROP TABLE dp_release.firm",
            "CREATE TABLE dp_release.mine ()",
            "SELECT dp._publish_release(gen_random_uuid(), 'alice', 'firm', true, '{}', '[]')",
            "SELECT dp._withdraw_release('firm', true)",
            "SELECT * FROM dp.family_answer",
        ):
            with refused("42501", hint=False):
                conn.execute(sql)


def test_a_table_that_somebody_dropped_is_made_again(cluster: Cluster, alice: Connection) -> None:
    release(alice, "again", shows_grid=True)
    table = rows(alice, "SELECT * FROM dp_release.again ORDER BY 1, 2")
    with cluster.connect() as root:
        root.execute("DROP TABLE dp_release.again")
        with no_charge(cluster):
            release(alice, "again", shows_grid=True)
        assert rows(alice, "SELECT * FROM dp_release.again ORDER BY 1, 2") == table
        root.execute("DROP TABLE dp_release.again, dp_release.again_answers")
        with no_charge(cluster):
            found = release(alice, "again", shows_grid=True)
    assert rows(alice, "SELECT * FROM dp_release.again_answers") == found


def test_who_holds_the_policy_delays_nobody_for_long(cluster: Cluster, alice: Connection) -> None:
    """Refused after ten seconds, where an owner's transaction is open; what was paid stays, and the repeat is free."""
    with cluster.connect("boss", autocommit=False) as busy:
        busy.execute("CALL dp.publish('hidden')")
        with refused("DP005", "somebody else is changing"):
            release(alice, "delayed", epsilon=4)
        busy.rollback()
    assert "delayed" not in there(cluster)
    with no_charge(cluster):
        release(alice, "delayed", epsilon=4)
    assert "delayed" in there(cluster)


def test_the_hundred_names_of_an_analyst_bound_the_tables(cluster: Cluster, bob: Connection) -> None:
    """Each table has a family, and families have a quota."""
    release(bob, "bobs", "SELECT count(*) FROM second WHERE value = $1", "{1}", epsilon=1)
    fill = """INSERT INTO dp.family SELECT dataset, 'bobs_' || i, request_id, relation_key, who, query, facts, queries,
      members FROM dp.family, generate_series(1, 99) i WHERE name = 'bobs'"""
    with cluster.connect() as root:
        root.execute(fill)
        with no_charge(cluster), refused("DP005", "you have 100 families"):
            release(bob, "one_more", "SELECT count(*) FROM second WHERE value = $1", "{1}", epsilon=1)
        root.execute("DELETE FROM dp.family WHERE name ~ '^bobs_'")
    assert "one_more" not in there(cluster) and "bobs" in there(cluster)


def test_a_gaussian_release_is_a_copy_at_its_epsilon(cluster: Cluster, alice: Connection) -> None:
    call = "SELECT * FROM dp.dp_release_numeric('gauss', %s, '{n}', rho => 0.5, publish => true)"
    alice.execute(call, ["SELECT count(*) FROM visit WHERE ward = $1"])
    with cluster.connect() as root:
        ((provenance, epsilon, delta),) = rows(
            root, "SELECT provenance, epsilon, delta FROM dp.synthetic WHERE synthetic = 'dp_release.gauss'::regclass"
        )
    assert (provenance, float(delta)) == ("generated", 1e-6)
    assert float(epsilon) == pytest.approx(0.5 + 2 * math.sqrt(0.5 * math.log(1e6)), abs=1e-6)


def test_an_owner_changes_the_relation_as_ever(cluster: Cluster, alice: Connection, boss: Connection) -> None:
    """The table stays; dp.check says how to be rid of it. Dropping the relation hides it."""
    boss.execute("CREATE TABLE brief (id int PRIMARY KEY, k int)")
    boss.execute("CALL dp.protect('brief', 'adult', max_rows => 1000)")
    boss.execute("CALL dp.describe_column('brief', 'k', bounds => '{0,3}', nullable => false)")
    boss.execute("CALL dp.publish('brief')")
    release(alice, "brief_k", "SELECT count(*) FROM brief WHERE k = $1", "{1}", epsilon=1)
    table = rows(alice, "SELECT * FROM dp_release.brief_k")
    boss.execute("ALTER TABLE brief RENAME COLUMN k TO j")
    flaws = rows(boss, "SELECT hint FROM dp.check() WHERE object = 'dp_release.brief_k'")
    assert flaws and {hint for (hint,) in flaws} == {
        "CALL dp.drop_family('adult', 'brief_k'): a published release goes with its family"
    }
    assert rows(alice, "SELECT * FROM dp_release.brief_k") == table
    boss.execute("DROP TABLE brief")
    assert one(boss, "SELECT count(*) FROM dp.published WHERE relation = 'dp_release.brief_k'") == 0
    assert rows(boss, "SELECT hint FROM dp.check() WHERE object ~ 'brief'") == []
    boss.execute("CALL dp.drop_family('adult', 'brief_k')")
    assert "brief_k" not in there(cluster)


def test_algorithm_2_is_published_too(cluster: Cluster, alice: Connection, bob: Connection) -> None:
    call = (
        "SELECT * FROM dp.dp_release_numeric('by_rounds', %s, %s, epsilon => 20, mechanism => 'alg2', publish => true)"
    )
    found = alice.execute(call, [LOSS, GRID]).fetchall()
    table = rows(bob, "SELECT * FROM dp_release.by_rounds")
    assert len(table[0]) == 3 and all(weight > 0 for *_, weight in table)
    assert rows(alice, f"SELECT {COLUMNS} FROM dp.release_answers WHERE name = 'by_rounds'") == found
    assert found[0][2] is None, "nothing is unbiased"


def test_of_too_many_rows_the_heaviest_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {"classes": [["k", ["a", "b"]]], "values": ["0", "1", "2"], "whole": 1, "deviation": 0.5}
    raw = [2, 9, 1, 4, 3, 0]
    assert len(shown.texts(json.dumps(stored), json.dumps(raw))) == 4
    monkeypatch.setattr(shown, "MOST_ROWS", 2)
    kept = shown.texts(json.dumps(stored), json.dumps(raw))
    assert [row[:2] for row in kept] == [["a", "1.0"], ["b", "0.0"]]


def test_a_name_may_be_a_word_of_sql(cluster: Cluster, alice: Connection) -> None:
    said: list[str] = []
    alice.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    alice.execute("SET dp.notices = on")
    found = release(alice, "order", epsilon=5, shows_grid=True)
    assert 'published as dp_release."order", and the grid as dp_release.order_answers' in said[-1]
    assert rows(alice, "SELECT * FROM dp_release.order_answers") == found


def test_of_two_at_once_one_has_the_name(cluster: Cluster, alice: Connection, bob: Connection) -> None:
    """Families of two datasets; both wait for an owner's transaction, and neither has the other's table."""
    queries = {"alice": LOSS, "bob": "SELECT count(*) FROM second WHERE value = $1"}
    release(alice, "both", epsilon=5, publish=False)
    release(bob, "both", queries["bob"], "{1}", epsilon=5, publish=False)
    ends: dict[str, str] = {}

    def publish(conn: Connection) -> None:
        who = conn.info.user
        try:
            release(conn, "both", queries[who], GRID if who == "alice" else "{1}", epsilon=5)
            ends[who] = "published"
        except psycopg.Error as error:
            ends[who] = f"{error.sqlstate}"

    threads = [threading.Thread(target=publish, args=[conn]) for conn in (alice, bob)]
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT dp._publish_release' AND " + LOCKED
    with cluster.connect("boss", autocommit=False) as busy, cluster.connect() as root:
        busy.execute("CALL dp.publish('hidden')")
        for thread in threads:
            thread.start()
        soon(lambda: one(root, waiting) == 2)
        busy.rollback()
    for thread in threads:
        thread.join()
    assert sorted(ends.values()) == ["DP005", "published"], ends
    (winner,) = (who for who, end in ends.items() if end == "published")
    (first, *_) = rows(alice, "SELECT column_name FROM dp.published WHERE relation = 'dp_release.\"both\"'")
    assert first == ("age" if winner == "alice" else "value",)
    with cluster.connect() as root:
        assert rows(root, "SELECT dataset FROM dp.family_publication WHERE name = 'both'") == [
            ("adult" if winner == "alice" else "second",)
        ]


def test_answers_say_what_their_bars_promise(cluster: Cluster, alice: Connection, bob: Connection) -> None:
    """The publisher's dp.confidence, and whether they hold at once."""
    promise = "SELECT DISTINCT confidence::text, simultaneous FROM dp.release_answers WHERE name = 'promised'"
    release(alice, "promised", epsilon=12)
    assert (rows(alice, promise), rows(bob, promise)) == ([("0.95", True)], [])
    with no_charge(cluster):
        alice.execute("SET dp.confidence = 0.8")
        found = release(alice, "promised", epsilon=12, simultaneous=False, shows_grid=True)
        assert rows(alice, promise) == rows(bob, promise) == [("0.8", False)]
        assert rows(bob, f"SELECT {COLUMNS} FROM dp.release_answers WHERE name = 'promised'") == found


def test_averages_are_published_as_their_sum(cluster: Cluster, alice: Connection, bob: Connection) -> None:
    """An average of no class has no answer; the table is that of values and weights."""
    query = "SELECT avg(loss) FROM adult WHERE age BETWEEN $1 AND $2"
    found = release(alice, "averages", query, "{{17,20},{60,30}}", shows_grid=True)
    assert found[1][1:5] == (None, None, None, None)
    assert rows(bob, "SELECT * FROM dp_release.averages_answers") == found
    assert rows(bob, f"SELECT {COLUMNS} FROM dp.release_answers WHERE name = 'averages'") == found
    ((mean,),) = rows(bob, "SELECT sum(value * weight) / sum(weight) FROM dp_release.averages")
    assert 0 < mean < 50
