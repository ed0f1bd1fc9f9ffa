"""A cluster for privacy audits: tables of every kind of unit and account, and the tap inside one backend."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from fix_cluster import ROLES, Cluster, free_port, prepared_cluster, private_cluster
from fix_stack import Stack

HERE = Path(__file__).resolve().parent / "privacy"

# As the superuser only, in the test's own schema: the engine has no such door.
LOADER = """
CREATE SCHEMA IF NOT EXISTS tap;
CREATE OR REPLACE FUNCTION tap.load(name text, source text) RETURNS void LANGUAGE plpython3u AS $$
import sys, types
module = types.ModuleType(name)
sys.modules[name] = module
exec(compile(source, name + '.py', 'exec'), module.__dict__)
$$;
CREATE OR REPLACE FUNCTION tap.call(function text, document text) RETURNS text LANGUAGE plpython3u AS $$
import sys
return getattr(sys.modules['privacy_recorder'], function)(document)
$$;
"""


@contextmanager
def audit_cluster() -> Iterator[Cluster]:
    """A cluster with tests/privacy/audit_tables.sql, owned by `boss`."""
    with prepared_cluster("audit", _audit_tables) as cluster:
        yield cluster


def _audit_tables(cluster: Cluster) -> None:
    cluster.psql(ROLES)
    cluster.psql((HERE / "audit_tables.sql").read_text(), user="boss")


@contextmanager
def tapped(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's backend with the recorder and the controls loaded."""
    with cluster.connect(autocommit=False) as conn:
        conn.execute("SET client_min_messages = warning")
        conn.execute(LOADER)
        conn.execute("RESET client_min_messages")
        conn.execute("SET TimeZone = 'UTC'")
        for name, file in (("privacy_recorder", "recorder.py"), ("privacy_controls", "broken_mechanisms.py")):
            conn.execute("SELECT tap.load(%s, %s)", (name, (HERE / file).read_text()))
        conn.commit()
        yield conn
        conn.rollback()


def tap(conn: psycopg.Connection[Any], function: str, document: Any = None) -> Any:
    """Call the recorder in this backend."""
    row = conn.execute("SELECT tap.call(%s, %s)", (function, json.dumps(document))).fetchone()
    assert row is not None
    return json.loads(row[0])


# Two tables that differ in one row, each in a dataset of its own, whose cap is 1,000 calls at TWIN_EPSILON: one pair
# for each way in and mechanism.
TWINS = {
    (way, mechanism): (f"larger_{way}_{mechanism}", f"smaller_{way}_{mechanism}")
    for way in ("channel", "proxy")
    for mechanism in ("dp_count", "dp_group_by")
}
TWIN_EPSILON = 1
TWIN = """
CREATE TABLE {0} (id int PRIMARY KEY, kind text);
INSERT INTO {0} SELECT i, CASE WHEN i < 4 THEN 'a' ELSE 'b' END FROM generate_series(1, {1}) i;
CALL dp.create_dataset('{0}', epsilon => 1000);
CALL dp.protect('{0}', '{0}');
CALL dp.describe_column('{0}', 'kind', domain => '{{a,b,c}}', nullable => false);
CALL dp.publish('{0}');
CALL dp.allot('alice', '{0}', epsilon => 1000);
"""


@contextmanager
def twin_stack() -> Iterator[Stack]:
    """Private database, facade and proxy with the twin tables."""
    with private_cluster() as cluster:
        cluster.psql(ROLES)
        for larger, smaller in TWINS.values():
            cluster.psql(TWIN.format(larger, 8) + TWIN.format(smaller, 7), user="boss")
        stack = Stack(cluster, free_port())
        stack.configure()
        stack.build_facade()
        try:
            stack.start()
            yield stack
        finally:
            stack.stop()
