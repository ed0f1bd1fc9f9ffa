"""docs/partitions.md, as it stands there: every block, in its order, by the role that its first line names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import account, balanced, one
from fix_sealing import counted

PAGE = Path(__file__).resolve().parents[2] / "docs" / "partitions.md"
BLOCKS = re.findall(r"^```sql\n-- (owner|analyst|administrator)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
ROLES = {"owner": "boss", "analyst": "alice", "administrator": "postgres"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    preload = {"shared_preload_libraries": "timescaledb", "timescaledb.max_background_workers": "0"}
    with standard_cluster(**preload, **{"timescaledb.telemetry_level": "off"}) as running:
        running.execute("CREATE EXTENSION timescaledb", "GRANT USAGE ON SCHEMA public TO boss")
        yield running


def test_every_block_says_whose_it_is() -> None:
    assert len(BLOCKS) == PAGE.read_text().count("```sql") >= 9
    assert {role for role, _ in BLOCKS} == set(ROLES)


def test_the_example_runs(cluster: Cluster) -> None:
    """Seven days sealed, one reopened with a late row and sealed again; two removed, the first one's counts as well."""
    for role, block in BLOCKS:
        cluster.psql(block, user=ROLES[role])
    assert set(account(cluster, "readings")) == {
        f"leaf/public.readings/[2026-01-0{day} 00:00:00+00,2026-01-0{day + 1} 00:00:00+00)" for day in range(2, 8)
    }
    assert [counted(cluster, "readings", day) for day in (0, 1, 2)] == [0, 1440, 1441]
    with cluster.connect() as root:
        assert one(root, "SELECT count(*) FROM dp.turbo WHERE relation = 'public.readings' AND sealed") == 7
        assert one(root, "SELECT count(*) FROM show_chunks('readings')") == 5
        assert one(root, "SELECT count(*) FROM dp.check() WHERE severity = 'error' AND object ~ 'readings'") == 0
    balanced(cluster)
