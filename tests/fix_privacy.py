"""A cluster for privacy audits: tables of every kind of unit and account, and the tap inside one backend."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from fix_cluster import ROLES, Cluster, private_cluster

HERE = Path(__file__).resolve().parent / "privacy"

# As the superuser only, in the test's own schema: the engine has no such door.
LOADER = """
CREATE SCHEMA tap;
CREATE FUNCTION tap.load(name text, source text) RETURNS void LANGUAGE plpython3u AS $$
import sys, types
module = types.ModuleType(name)
sys.modules[name] = module
exec(compile(source, name + '.py', 'exec'), module.__dict__)
$$;
CREATE FUNCTION tap.call(function text, document text) RETURNS text LANGUAGE plpython3u AS $$
import sys
return getattr(sys.modules['privacy_recorder'], function)(document)
$$;
"""


@contextmanager
def audit_cluster() -> Iterator[Cluster]:
    """A cluster with tests/privacy/audit_tables.sql, owned by `boss`, and the loader of the tap."""
    with private_cluster() as cluster:
        cluster.psql(ROLES)
        cluster.psql((HERE / "audit_tables.sql").read_text(), user="boss")
        cluster.psql(LOADER)
        yield cluster


@contextmanager
def tapped(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's backend with the recorder and the controls loaded."""
    with cluster.connect(autocommit=False) as conn:
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
