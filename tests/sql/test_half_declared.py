"""Relations that foreign keys lead to units through which they are not protected (composition.md §1.7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import psycopg
import pytest

from fix_cluster import ROLES, Cluster, private_cluster
from fix_ledger import Connection, no_charge, refused

SCHEMA = """
CREATE TABLE person (id int PRIMARY KEY);
CREATE TABLE firm (id int PRIMARY KEY);
CREATE TABLE shop (id int PRIMARY KEY, owner int REFERENCES person);
CREATE TABLE plain (id int PRIMARY KEY);
CREATE TABLE orders (id int PRIMARY KEY, person int NOT NULL REFERENCES person, UNIQUE (id, person));
INSERT INTO person SELECT generate_series(1, 9);
CALL dp.create_dataset('strict', unit => 'user', epsilon => 1000);
CALL dp.create_dataset('rows', epsilon => 1000);
CALL dp.allot('alice', 'strict', epsilon => 1000);
CALL dp.allot('alice', 'rows', epsilon => 1000);
CALL dp.protect('person', 'strict', unit_column => 'id', max_rows_per_unit => 1);
CALL dp.publish('person');
CALL dp.describe_column('person', 'id');
CALL dp.protect('firm', 'strict', unit_column => 'id', max_rows_per_unit => 1);
CALL dp.protect('orders', 'strict', unit_path => '{person,id}', max_rows_per_unit => 1);
CALL dp.publish('orders');
CALL dp.publish('plain', kind => 'public');
"""


class Half(NamedTuple):
    """A table, how it is protected (None: published as public), and what is said of it.

    shown: all that is named there is published."""

    columns: str
    protect: str | None
    key: str
    units: str
    hint: str
    shown: bool = True


HALVES = {
    "two_of_a_kind": Half(
        "sender int REFERENCES person, receiver int CONSTRAINT fk REFERENCES person",
        "unit_path => '{sender,id}'",
        "fk (receiver)",
        "person",
        "CALL dp.unprotect('two_of_a_kind'), then CALL dp.protect('two_of_a_kind', 'strict',"
        " unit_path => '{sender,id}', other_units => '{receiver}')",
    ),
    "by_column": Half(
        "sender int, receiver int CONSTRAINT fk REFERENCES person",
        "unit_column => 'sender'",
        "fk (receiver)",
        "person",
        "CALL dp.unprotect('by_column'), then CALL dp.protect('by_column', 'strict',"
        " unit_column => 'sender', other_units => '{receiver}')",
    ),
    "two_kinds": Half(
        "person int REFERENCES person, firm int CONSTRAINT fk REFERENCES firm",
        "unit_path => '{person,id}'",
        "fk (firm)",
        "firm",
        "No path of dp.protect can name these units too. If they need no guarantee here, their owner says so:"
        " CALL dp.set_strict('strict', false)",
        False,
    ),
    "composite": Half(
        "firm int REFERENCES firm, a int, b int, CONSTRAINT fk FOREIGN KEY (a, b) REFERENCES orders (id, person)",
        "unit_path => '{firm,id}'",
        "fk (a, b)",
        "orders",
        "a key of several columns is no step. If they need no guarantee here, their owner says so:"
        " CALL dp.set_strict('strict', false)",
    ),
    "longer": Half(
        "person int REFERENCES person, orders int CONSTRAINT fk REFERENCES orders",
        "unit_path => '{person,id}'",
        "fk (orders)",
        "orders",
        "No path of dp.protect can name these units too. If they need no guarantee here, their owner says so:"
        " CALL dp.set_strict('strict', false)",
    ),
    "through_any": Half(
        "person int REFERENCES person, shop int CONSTRAINT fk REFERENCES shop",
        "unit_path => '{person,id}'",
        "fk (shop)",
        "person",
        "CALL dp.set_strict('strict', false)",
        False,
    ),
    "of_its_own": Half(
        "id int PRIMARY KEY, boss int CONSTRAINT fk REFERENCES of_its_own",
        "unit_column => 'id'",
        "fk (boss)",
        "of_its_own",
        "other_units => '{boss}')",
    ),
    "rows_of_units": Half(
        "person int CONSTRAINT fk REFERENCES person, level int",
        "dataset => 'rows'",
        "fk (person)",
        "person",
        "CALL dp.set_strict('rows', false)",
    ),
    "open": Half(
        "person int CONSTRAINT fk REFERENCES person",
        None,
        "fk (person)",
        "person",
        "CALL dp.unpublish('open'), then CALL dp.protect('open', 'strict', unit_path => '{person,id}')",
    ),
    "open_and_composite": Half(
        "a int, b int, CONSTRAINT fk FOREIGN KEY (a, b) REFERENCES orders (id, person)",
        None,
        "fk (a, b)",
        "orders",
        "CALL dp.unpublish('open_and_composite'), and protect it in a dataset with unit => 'user'",
    ),
}


@pytest.fixture(scope="module")
def made() -> Iterator[Cluster]:
    with private_cluster() as cluster:
        cluster.psql(ROLES)
        cluster.psql(SCHEMA, user="boss")
        yield cluster


class Said(NamedTuple):
    message: str
    hint: str


def short(text: str | None) -> str:
    """Without the schema, which is the same everywhere here."""
    return (text or "").replace("public.", "")


def heard(cluster: Cluster, *calls: str) -> list[Said]:
    """What an owner's calls warn of."""
    found: list[Said] = []
    with cluster.connect("boss") as boss:
        boss.add_notice_handler(lambda d: found.append(Said(short(d.message_primary), short(d.message_hint))))
        for call in calls:
            boss.execute(call.encode())
    return found


def halves_found(cluster: Cluster) -> list[tuple[str, str, str, str]]:
    """The rows of dp.check() that are about halves: severity, relation, problem, hint."""
    with cluster.connect("boss") as boss:
        found = boss.execute(
            "SELECT * FROM dp.check() WHERE problem ~ 'leads to (units|rows) of' ORDER BY object, problem"
        ).fetchall()
    return [(row[0], short(row[1]), short(row[2]), short(row[3])) for row in found]


@pytest.fixture(scope="module")
def alice(made: Cluster) -> Iterator[Connection]:
    with made.connect("alice") as connection:
        yield connection


def ask(alice: Connection, relation: str, predicate: str | None = None) -> None:
    alice.execute("SELECT dp.dp_count(%s, %s, epsilon => 1, fresh => true)", [relation, predicate])


PLAIN = {
    "version": 1,
    "where": None,
    "aggregates": [{"function": "count", "argument": "*", "distinct": False, "parameters": {}}],
    "budget": {"epsilon": "1"},
    "settings": {},
}


def declared(name: str, half: Half) -> list[str]:
    if half.protect is None:
        return [f"CALL dp.publish('{name}', kind => 'public')"]
    dataset = "" if "dataset" in half.protect else "'strict', "
    kappa = "" if "dataset" in half.protect else ", max_rows_per_unit => 1"
    return [f"CALL dp.protect('{name}', {dataset}{half.protect}{kappa})", f"CALL dp.publish('{name}')"]


@pytest.fixture(scope="module")
def told(made: Cluster) -> dict[str, list[Said]]:
    """Of each table declared by halves: what its owner was told when protecting and publishing it."""
    return {
        name: heard(made, f"CREATE TABLE {name} ({half.columns})", *declared(name, half))
        for name, half in HALVES.items()
    }


@pytest.fixture(scope="module")
def found(made: Cluster, told: dict[str, list[Said]]) -> dict[str, list[Said]]:
    """The rows of dp.check() by relation; all of them errors, since the datasets are strict."""
    rows = halves_found(made)
    assert {row[0] for row in rows} == {"error"}
    return {name: [Said(row[2], row[3]) for row in rows if row[1] == name] for name in {row[1] for row in rows}}


def problem(half: Half) -> str:
    what = "rows" if half.protect is None else "units"
    return f"foreign key {half.key} leads to {what} of {half.units}, "


@pytest.mark.parametrize("name", HALVES)
def test_the_owner_is_warned(told: dict[str, list[Said]], name: str) -> None:
    half = HALVES[name]
    assert len(told[name]) == (1 if half.protect is None else 2)
    for said in told[name]:
        assert said.message.startswith(f"{name}: ") and problem(half) in said.message
        assert half.hint in said.hint


def test_check_lists_each_once(found: dict[str, list[Said]]) -> None:
    assert sorted(found) == sorted(HALVES)
    for name, rows in found.items():
        assert len(rows) == 1
        assert problem(HALVES[name]) in rows[0].message and HALVES[name].hint in rows[0].hint


@pytest.mark.parametrize("name", [name for name, half in HALVES.items() if half.protect])
def test_questions_are_refused(made: Cluster, alice: Connection, told: dict[str, list[Said]], name: str) -> None:
    half = HALVES[name]
    said = f"{name} is declared by halves: "
    with no_charge(made), refused("DP004", said):
        ask(alice, name)
    with pytest.raises(psycopg.Error) as planned:
        alice.execute(
            "SELECT dp.dp_plan(%s::jsonb)", [json.dumps(PLAIN | {"from": {"schema": "public", "name": name}})]
        )
    assert planned.value.sqlstate == "DP004"
    message, hint = short(planned.value.diag.message_primary), short(planned.value.diag.message_hint)
    assert said in message and hint.endswith(" is strict.")
    assert (problem(half) in message, half.hint in hint) == (half.shown, half.shown)
    assert half.shown or "dp.check()" in hint


@pytest.mark.parametrize("name", [name for name, half in HALVES.items() if not half.protect])
def test_public_rows_that_lead_to_protected_ones_are_refused(
    made: Cluster, alice: Connection, told: dict[str, list[Said]], name: str
) -> None:
    column = HALVES[name].columns.split()[0]
    with no_charge(made), refused("DP004", f"{name} is declared by halves: "):
        ask(alice, "person", f"id IN (SELECT {column} FROM public.{name})")
    ask(alice, "person", "id IN (SELECT id FROM public.plain)")


def test_no_scale_is_bought(made: Cluster, told: dict[str, list[Said]]) -> None:
    """The number of rows that an owner buys for Turbo is a release as any other; there it is dp_planner's."""
    calls = [
        "CALL dp.allot('dp_planner', 'rows', epsilon => 10)",
        "CALL dp.describe_column('rows_of_units', 'level', bounds => '{0,9}', resolution => '1', nullable => false)",
        "CALL dp.enable_turbo('rows_of_units', '{level}', alpha => 0.1, beta => 0.1, scale_epsilon => 1)",
    ]
    with made.connect("boss") as boss, no_charge(made), refused("DP004", "rows_of_units is declared by halves"):
        for call in calls:
            boss.execute(call.encode())


def test_answered_where_it_is_not_strict(made: Cluster, alice: Connection, found: dict[str, list[Said]]) -> None:
    made.psql("CALL dp.set_strict('strict', false); CALL dp.set_strict('rows', false)", user="boss")
    try:
        for name, half in HALVES.items():
            if half.protect:
                ask(alice, name)
        ask(alice, "person", "id IN (SELECT person FROM public.open)")
        rows = halves_found(made)
    finally:
        made.psql("CALL dp.set_strict('strict', true); CALL dp.set_strict('rows', true)", user="boss")
    assert {row[0] for row in rows} == {"warning"} and {row[1] for row in rows} == set(HALVES)


COMPLETE = """
CREATE TABLE team (id int PRIMARY KEY, lead int REFERENCES team);
CREATE TABLE edge (a int REFERENCES person, b int REFERENCES person, UNIQUE (a, b));
CREATE TABLE weight (a int, b int, FOREIGN KEY (a, b) REFERENCES edge (a, b));
CREATE TABLE line (orders int, person int, plain int REFERENCES plain,
  FOREIGN KEY (orders, person) REFERENCES orders (id, person));
CREATE TABLE part (orders int REFERENCES orders, plain int REFERENCES plain, at int) PARTITION BY LIST (at);
CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
CREATE TABLE badge (person int REFERENCES person, of_plain int REFERENCES plain);
CREATE TABLE apart (person int, firm int);
CALL dp.protect('team', 'strict', unit_column => 'id', other_units => '{lead}', max_rows => 9);
CALL dp.protect('edge', 'strict', unit_path => '{a,id}', other_units => '{b}', max_rows => 9);
CALL dp.protect('weight', 'strict', unit_column => 'a', other_units => '{b}', max_rows => 9);
CALL dp.protect('line', 'strict', unit_column => 'person', max_rows_per_unit => 1);
CALL dp.protect('part', 'strict', unit_path => '{orders,person,id}', max_rows_per_unit => 1);
CALL dp.protect('badge', 'strict', unit_column => 'person', max_rows_per_unit => 1);
CALL dp.protect('apart', 'strict', unit_column => 'person', max_rows_per_unit => 1);
CALL dp.publish('part');
CALL dp.publish('line');
"""


@pytest.fixture(scope="module")
def complete(made: Cluster, found: dict[str, list[Said]]) -> Cluster:
    """Tables whose policy is complete, beside those declared by halves. Nothing is said of them."""
    calls = [call for call in COMPLETE.split(";\n") if call]
    assert heard(made, *calls) == []
    return made


def test_nothing_is_said_of_a_complete_policy(complete: Cluster, alice: Connection) -> None:
    """A control: steps of paths, other_units, keys that take the unit along, tables without units."""
    assert {row[1] for row in halves_found(complete)} == set(HALVES)
    ask(alice, "part")
    ask(alice, "line")


@pytest.mark.parametrize(
    ("change", "back", "relation", "through"),
    [
        ("ALTER TABLE line ADD x int CONSTRAINT new REFERENCES firm", "ALTER TABLE line DROP x", "line", ""),
        ("ALTER TABLE orders ADD x int CONSTRAINT new REFERENCES firm", "ALTER TABLE orders DROP x", "part", "orders"),
        ("ALTER TABLE plain ADD x int CONSTRAINT new REFERENCES firm", "ALTER TABLE plain DROP x", "part", ""),
        (
            "ALTER TABLE part_1 ADD CONSTRAINT new FOREIGN KEY (at) REFERENCES firm",
            "ALTER TABLE part_1 DROP CONSTRAINT new",
            "part",
            "",
        ),
    ],
)
def test_a_key_that_was_added_later_counts(
    complete: Cluster, alice: Connection, change: str, back: str, relation: str, through: str
) -> None:
    complete.psql(change, user="boss")
    try:
        with no_charge(complete), refused("DP004", f"{relation} is declared by halves"):
            ask(alice, relation)
        with complete.connect() as root:
            rows = root.execute("SELECT problem FROM dp._half_declared_told(%s::regclass)", [relation]).fetchall()
        assert [row[0].startswith(f"through public.{through}, ") for row in rows] == [bool(through)] * len(rows) != []
        assert all("leads to units of public.firm" in row[0] for row in rows)
    finally:
        complete.psql(back, user="boss")
    ask(alice, relation)


def test_rows_that_lead_to_rows_through_another_relation(complete: Cluster) -> None:
    """In one dataset whose unit is a row: a key between them is refused by dp.protect, a way round is found."""
    said = heard(
        complete,
        "CREATE TABLE stay (id int PRIMARY KEY)",
        "CREATE TABLE bill (id int PRIMARY KEY, stay int REFERENCES stay)",
        "CREATE TABLE item (bill int CONSTRAINT fk REFERENCES bill)",
        "CALL dp.protect('item', 'rows')",
        "CALL dp.protect('stay', 'rows')",
        "CALL dp.unprotect('stay')",
    )
    assert [s.message for s in said] == [
        "item: the foreign key fk (bill) leads to units of stay, through which it is not protected"
    ]


def test_two_keys_of_one_relation_are_two_ways(complete: Cluster) -> None:
    """The same column may reference two keys of a relation: two rows, of which the path names one."""
    said = heard(
        complete,
        "CREATE TABLE visit (id int PRIMARY KEY, other int UNIQUE, who int)",
        "CREATE TABLE step (visit int CONSTRAINT one REFERENCES visit)",
        "CALL dp.protect('visit', 'strict', unit_column => 'who')",
        "CALL dp.protect('step', 'strict', unit_path => '{visit,who}')",
        "ALTER TABLE step ADD CONSTRAINT two FOREIGN KEY (visit) REFERENCES visit (other)",
        "CALL dp.publish('step')",
        "ALTER TABLE step DROP CONSTRAINT two",
        "CALL dp.publish('step')",
    )
    assert [s.message for s in said] == [
        "step: the foreign key two (visit) leads to units of visit, through which it is not protected"
    ]


def test_units_that_are_protected_later_count(complete: Cluster) -> None:
    said = heard(
        complete,
        "CREATE TABLE club (id int PRIMARY KEY)",
        "ALTER TABLE line ADD club int CONSTRAINT club REFERENCES club",
        "CALL dp.protect('club', 'strict', unit_column => 'id')",
        "ALTER TABLE line DROP club",
    )
    assert [s.message for s in said] == [
        "line: the foreign key club (club) leads to units of club, through which it is not protected"
    ]


def test_the_call_that_mends_it_mends_it(complete: Cluster, found: dict[str, list[Said]]) -> None:
    hint = found["two_of_a_kind"][0].hint
    assert heard(complete, *hint.split(", then ")) == []
    assert "two_of_a_kind" not in {row[1] for row in halves_found(complete)}


def test_strict_is_a_word_of_the_owner(made: Cluster, alice: Connection) -> None:
    with made.connect("boss") as boss:
        assert boss.execute("SELECT dataset, strict FROM dp.budget ORDER BY 1").fetchall() == [
            ("rows", True),
            ("strict", True),
        ]
        for call in ("dp.set_strict('nothing', true)", "dp.set_strict('rows', NULL)"):
            with refused("DP005"), boss.transaction():
                boss.execute(f"CALL {call}".encode())
    with refused("42501", hint=False):
        alice.execute("CALL dp.set_strict('rows', false)")
