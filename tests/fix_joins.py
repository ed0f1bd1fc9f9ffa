"""A shop with customers as units, public tables beside it, and questions over several of them, asked as a request.

`exact` answers as the engine does, in a superuser's own session where the door draws no noise; `ask` is the real way.
"""

from __future__ import annotations

import json
import random
from typing import Any

import psycopg

from fix_cluster import Cluster

Connection = psycopg.Connection[Any]
COSTLY = {"epsilon": "30"}

WORLD = """
CREATE TABLE customers (id int PRIMARY KEY, region text, born date, vip boolean);
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id int REFERENCES customers, day date, at timestamptz, amount int);
CREATE TABLE items (order_id bigint REFERENCES orders, line int, sku text, qty int, price numeric(6,2));
CREATE TABLE logins (who int, at timestamp, device text);
CREATE TABLE calls ("order" bigint REFERENCES orders, "select" text, UNIQUE ("order", "select"));
CREATE TABLE regions (name text PRIMARY KEY, zone text, rank int);
CREATE TABLE skus (code text UNIQUE, family text, since date);
CREATE TABLE prices (sku text, day date, level int, PRIMARY KEY (sku, day));
CREATE TABLE loose (sku text, who int);
CALL dp.create_dataset('shop', unit => 'user', epsilon => 1000);
CALL dp.protect('customers', 'shop', unit_column => 'id', max_rows_per_unit => 1);
CALL dp.protect('orders', 'shop', unit_column => 'customer_id', max_rows_per_unit => 15);
CALL dp.protect('items', 'shop', unit_path => '{order_id,customer_id}', max_rows_per_unit => 20);
CALL dp.protect('logins', 'shop', unit_column => 'who', max_rows_per_unit => 20);
CALL dp.protect('calls', 'shop', unit_path => '{order,customer_id}');
CREATE TABLE people (id int PRIMARY KEY, age int, city text, day date);
CREATE TABLE pets (id int PRIMARY KEY, owner int, kind text);
CALL dp.create_dataset('people', unit => 'row', epsilon => 1000);
CALL dp.protect('people', 'people', partition_by => 'day', grid => '{"origin": "2024-01-01", "width": "7 days"}');
CALL dp.protect('pets', 'people');
"""
DECLARED = {
    "customers": {"id": "", "region": "domain => '{n,s,e}'", "born": "bounds => '{1990-01-01,1991-12-31}'", "vip": ""},
    "orders": {
        "id": "",
        "customer_id": "",
        "day": "bounds => '{2024-01-01,2024-03-31}', nullable => false",
        "at": "bounds => '{2024-01-01,2024-02-15}'",
        "amount": "bounds => '{0,50}', resolution => '1'",
    },
    "items": {
        "order_id": "",
        "line": "bounds => '{1,4}', nullable => false",
        "sku": "domain => '{a,b,c}'",
        "qty": "bounds => '{0,9}'",
        "price": "bounds => '{0,20}', resolution => '0.5'",
    },
    "logins": {"who": "", "at": "bounds => '{2024-01-01,2024-01-31}', nullable => false", "device": ""},
    "calls": {"order": "", "select": "domain => '{x,y}'"},
    "people": {"id": "", "age": "bounds => '{0,9}'", "city": "domain => '{n,s}'", "day": ""},
    "pets": {"id": "", "owner": "", "kind": ""},
}
PUBLIC = ("regions", "skus", "prices", "loose")
ROLES = """
CREATE ROLE boss LOGIN; GRANT dp_admin TO boss; CREATE ROLE alice LOGIN; GRANT dp_analyst TO alice;
GRANT CONNECT, CREATE, TEMPORARY ON DATABASE private TO boss;
GRANT CONNECT ON DATABASE private TO dp_analyst; GRANT CREATE ON SCHEMA public TO boss;
"""
WINDOW = """
CREATE FUNCTION public.source_of(request jsonb) RETURNS jsonb LANGUAGE plpython3u AS $$
import json
from pg_epsilon import entry
from pg_epsilon.errors import DPError
try:
    request_ = entry.compile_request(json.loads(request), entry._relation, entry._folder({}), entry._texts,
      encoding="UTF8", server_version=150000, clock=0)
except DPError as refused:
    return json.dumps({"refused": refused.sqlstate, "message": refused.message, "hint": refused.hint})
source = request_.source
return json.dumps({"sql": source.sql, "where": source.where, "unit": source.unit, "units": source.units,
  "kappa": source.kappa, "order": source.order, "canonical": request_.canonical(),
  "leaves": sorted(request_.partitions.leaves) if request_.partitions else None})
$$;
CREATE FUNCTION public.exact(request jsonb) RETURNS jsonb LANGUAGE plpython3u AS $$
import json
from pg_epsilon import entry
from pg_epsilon.query import grid
grid._known.clear()
class Silent:
    def laplace(self, exact, **how):
        return list(exact)
    gaussian = laplace
loud, entry.noise.current = entry.noise.current, Silent
try:
    plan = entry._compile(json.loads(request))
    raw = entry._think(plan, entry.read(plan.statement))
    domains, places = [key.domain for key in plan.request.keys], plan.request.places
    groups = [[group[place] for place in places] for group in entry.group_by.groups(domains)]
    order = entry.group_by.reading_order(domains, places)
    return json.dumps([[*groups[number], *plan.texts(raw[number])] for number in order])
finally:
    entry.noise.current = loud
$$;
"""


def build(cluster: Cluster) -> None:
    """The shop and the people, declared and published; no rows yet."""
    cluster.psql(ROLES)
    cluster.psql(WINDOW)
    script = WORLD
    for table, columns in DECLARED.items():
        for column, options in columns.items():
            script += f"CALL dp.describe_column('{table}', '{column}'{', ' + options if options else ''});"
        script += f"CALL dp.publish('{table}');"
    script += "".join(f"CALL dp.publish('{table}', kind => 'public');" for table in PUBLIC)
    script += "".join(f"CALL dp.allot('alice', '{name}', epsilon => 1000);" for name in ("shop", "people"))
    cluster.psql(script, user="boss")


def fill(conn: Connection, seed: int, customers: int = 12) -> None:
    """Random rows with NULLs, shared values and dangling references; at most 15 orders, 20 items and 20 logins each."""
    rng = random.Random(seed)
    pick = rng.choice
    conn.execute("TRUNCATE customers, orders, items, logins, calls, regions, skus, prices, loose, people, pets")

    def insert(table: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            holes = ", ".join(["%s"] * len(rows[0]))
            with conn.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {table} VALUES ({holes}) ON CONFLICT DO NOTHING", rows)

    days = [f"2024-0{rng.randint(1, 3)}-{rng.randint(1, 28):02}" for _ in range(9)]
    stamps = [f"2024-01-{rng.randint(1, 31):02} {rng.randint(0, 23):02}:{pick(['00', '30'])}:00" for _ in range(9)]
    ids = range(1, customers + 1)
    born = ["1990-05-01", "1991-02-03", "1980-01-01", None]
    insert("customers", [(i, pick(["n", "s", "e", "w", None]), pick(born), pick([True, False, None])) for i in ids])
    orders = [
        (i, pick([*ids, *ids, None]), pick(days), pick([*stamps, None]), pick([0, 5, 50, 99, None]))
        for i in range(1, 25)
    ]
    insert("orders", orders)
    skus = ["a", "b", "c", "d", None]
    some = [*range(1, 25), None]
    insert(
        "items",
        [
            (pick(some), rng.randint(1, 4), pick(skus), pick([0, 1, 9, None]), pick([0, 1.5, 19.99, None]))
            for _ in range(40)
        ],
    )
    insert("logins", [(pick([*ids, 99, None]), pick(stamps), pick(["web", "app"])) for _ in range(30)])
    insert("calls", [(pick(some), pick(["x", "y", None])) for _ in range(12)])
    insert("regions", [("n", "cold", 1), ("s", "warm", 2), ("x", None, 3)])
    insert("skus", [("a", "tool", "2024-01-10"), ("b", None, None), ("z", "toy", "2023-01-01"), (None, "none", None)])
    insert("prices", [(pick(["a", "b", "c"]), pick(days), rng.randint(1, 3)) for _ in range(12)])
    insert("loose", [(pick(skus), pick([1, 2, None])) for _ in range(rng.randint(0, 4))])
    people = [(i, pick([0, 3, 9, 40, None]), pick(["n", "s", "x", None]), pick(days)) for i in range(1, 31)]
    insert("people", people)
    insert("pets", [(i, pick(ids), "cat") for i in range(1, 9)])


def document(tables: str, where: str | None = None, **members: Any) -> str:
    """A request: tables is `name [alias]` or `name [alias] ON condition`, one a line."""
    items: list[dict[str, Any]] = []
    for line in filter(None, (line.strip() for line in tables.splitlines())):
        name, _, on = line.partition(" ON ")
        words = name.split()
        schema, _, bare = words[0].rpartition(".")
        item = {"schema": schema or "public", "name": bare, "alias": words[1] if len(words) > 1 else None}
        items.append(item if not items else {**item, "on": on or None})
    body = {"version": 1, "from": items[0], "joins": items[1:], "where": where, "budget": COSTLY, **members}
    return json.dumps({"aggregates": ["count(*)"], **body})


def ask(conn: Connection, request: str) -> list[list[str | None]]:
    """The rows of the answer that an analyst gets."""
    found = conn.execute("SELECT dp.dp_query(%s)", (request,)).fetchone()
    assert found is not None
    return list(found[0]["rows"])


def exact(root: Connection, request: str) -> list[list[str | None]]:
    """The rows of the answer without noise."""
    found = root.execute("SELECT public.exact(%s)", (request,)).fetchone()
    assert found is not None
    return list(found[0])


def source_of(root: Connection, request: str) -> dict[str, Any]:
    """What the engine makes of a request's FROM and WHERE, or how it refuses it."""
    found = root.execute("SELECT public.source_of(%s)", (request,)).fetchone()
    assert found is not None
    return dict(found[0])
