"""The Python package and the extension's SQL must be of one version (design.md §6): else no answer, and no charge."""

from __future__ import annotations

from fix_cluster import Cluster
from fix_ledger import count, no_charge, refused


def test_another_version_of_the_extension_is_refused(cluster: Cluster) -> None:
    """A backend looks once, so the refusal and the recovery are seen by new connections."""
    change = "UPDATE pg_catalog.pg_extension SET extversion = '{}' WHERE extname = 'pg_epsilon'"
    with cluster.connect() as root:
        row = root.execute("SELECT extversion FROM pg_extension WHERE extname = 'pg_epsilon'").fetchone()
    assert row is not None
    with cluster.connect("alice") as alice:
        count(alice)
    cluster.execute(change.format("99.0"))
    try:
        with no_charge(cluster), cluster.connect("alice") as alice, refused("DP006", "version"):
            count(alice)
    finally:
        cluster.execute(change.format(row[0]))
    with cluster.connect("alice") as alice:
        count(alice)
