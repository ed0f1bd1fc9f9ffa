"""The product that a crash campaign harms: private database, facade, two proxy workers, a table for each mechanism."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fix_cluster import standard_cluster
from fix_ports import free_port
from fix_stack import Stack
from fix_tpch import load_graph, power_law_graph

CROWD = "crowd"  # a budget of CROWD_ANSWERS answers, which all clients together want to exceed
CROWD_ANSWERS = 60
CROWD_EPSILON = 0.01
LARGE = 1000
WORKERS = 2  # of the proxy
TURBO_ROWS = 20_000
# Nobody's account but the crowd's shall be exhausted.
POLICY = f"""
CREATE TABLE people_syn AS SELECT id, age, sex, city, income, joined FROM people WHERE id <= 990;
CALL dp.register_synthetic('people', 'people_syn', provenance => 'public');
CALL dp.describe_column('customers', 'id'); CALL dp.describe_column('items', 'order_id');
CALL dp.describe_column('items', 'price', bounds => '{{0,100}}', resolution => '0.01');
CREATE TABLE {CROWD} (id int PRIMARY KEY);
INSERT INTO {CROWD} SELECT generate_series(1, 100);
CALL dp.create_dataset('{CROWD}', epsilon => {CROWD_ANSWERS * CROWD_EPSILON});
CALL dp.protect('{CROWD}', '{CROWD}');
CALL dp.describe_column('{CROWD}', 'id');
CALL dp.publish('{CROWD}');
CALL dp.allot('alice', '{CROWD}', epsilon => {CROWD_ANSWERS * CROWD_EPSILON});
CALL dp.allot('bob', '{CROWD}', epsilon => {CROWD_ANSWERS * CROWD_EPSILON});
CREATE TABLE falling (a int, b int);
INSERT INTO falling SELECT i % 8, CASE WHEN i % 10 = 0 THEN 1 ELSE 0 END FROM generate_series(1, {TURBO_ROWS}) i;
CALL dp.create_dataset('falling', epsilon => {LARGE});
CALL dp.protect('falling', 'falling', scale => {TURBO_ROWS});
CALL dp.describe_column('falling', 'a', bounds => '{{0,7}}', nullable => false);
CALL dp.describe_column('falling', 'b', bounds => '{{0,1}}', nullable => false);
CALL dp.publish('falling');
CALL dp.allot('alice', 'falling', epsilon => {LARGE});
CALL dp.enable_turbo('falling', '{{a,b}}', 0.05, 0.001, planner => 'turbo',
  settings => '{{"c0": 0, "s0": 1, "learning_rates": [0.1]}}');
"""
CAPS = """
UPDATE dp.role_allotment SET epsilon = 10 WHERE dataset = 'people';
UPDATE dp.relation_policy SET max_rows_per_unit = 64 WHERE relation = 'edge'::regclass;
SELECT dp._bump_policy();
"""


@contextmanager
def world() -> Iterator[Stack]:
    """The stack at work; all in one cluster, so that each crash of the server meets facade and ledger alike."""
    with standard_cluster(max_connections="200") as cluster:
        load_graph(cluster, power_law_graph(60, 150, 11))
        cluster.psql(POLICY, user="boss")
        cluster.psql(CAPS)
        stack = Stack(cluster, free_port())
        stack.configure()
        with stack.config.open("a") as out:
            out.write(f"[process]\nworkers = {WORKERS}\n")
        stack.build_facade()
        try:
            stack.start()
            yield stack
        finally:
            stack.stop()
