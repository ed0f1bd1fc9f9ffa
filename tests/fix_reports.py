"""One stack for the files of clients/ that only ask: to start it takes longer than they do.

Each worker has one. What its files share are stored answers, budgets and the ledger. So a file that
counts charges compares before and after, and asks what no other file asks at the same epsilon; one
that changes something undoes it, or has a table for it below.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fix_cluster import ROOT, Cluster
from fix_stack import Stack, stack_at_work

# test_report_distinct.py: units that are users.
TRIPS = """
CREATE TABLE trips (id int PRIMARY KEY, uid int NOT NULL, city text, day date NOT NULL,
  paid boolean, "Zone" int);
INSERT INTO trips SELECT k, k / 2, (ARRAY['Lyon','Metz',NULL])[1 + k % 3],
  date '2024-01-01' + k % 7, k % 2 = 0, k % 5 FROM generate_series(0, 41) k;
CALL dp.create_dataset('trips', unit => 'user', epsilon => 1000, default_epsilon => 70);
CALL dp.protect('trips', 'trips', unit_column => 'uid', max_rows_per_unit => 2, max_rows => 100);
CALL dp.describe_column('trips', 'id');
CALL dp.describe_column('trips', 'uid', bounds => '{0,1000}');
CALL dp.describe_column('trips', 'city', domain => '{Lyon,Metz,Nice,Pau,Sète}');
CALL dp.describe_column('trips', 'day', bounds => '{2024-01-01,2024-12-31}', nullable => false);
CALL dp.describe_column('trips', 'paid');
CALL dp.describe_column('trips', 'Zone', bounds => '{0,9}');
CALL dp.publish('trips');
CREATE VIEW cities AS SELECT DISTINCT city FROM trips;
CALL dp.publish('cities');
CALL dp.allot('alice', 'trips', epsilon => 1000);
"""
# test_report_encodings.py: text that not every encoding has.
WORDS = """
CREATE TABLE words (id int, word text NOT NULL);
INSERT INTO words SELECT i, (ARRAY['\u0436', 'x'])[1 + i % 2] FROM generate_series(1, 50) i;
CALL dp.protect('words', 'rep', max_rows => 1000);
CALL dp.describe_column('words', 'word', domain => ARRAY['\u0436', 'x'], nullable => false);
CALL dp.publish('words');
"""
# test_report_keys.py: hours of a shop that is open by day.
HOURS = """
CALL dp.describe_column('shop', 'at', bounds => '{08:00,18:00}', resolution => '1 hour',
  nullable => false);
"""
# test_report_prepared.py: a type that changes.
PARCELS = """
CREATE TYPE stage AS ENUM ('open', 'paid');
CREATE TABLE parcels (id int PRIMARY KEY, st stage NOT NULL);
INSERT INTO parcels SELECT i, (ARRAY['open','paid'])[1 + i % 2]::stage
FROM generate_series(1, 400) i;
CALL dp.protect('parcels', 'rep', max_rows => 1000);
CALL dp.describe_column('parcels', 'st', domain => ARRAY['open','paid'], nullable => false);
CALL dp.publish('parcels');
"""
# test_report_unreadable.py: a table with a part, and a foreign part that is attached in some tests.
PARTS = """
CREATE TABLE parts (d date, v int) PARTITION BY RANGE (d);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
INSERT INTO parts SELECT date '2024-01-01' + i % 31, i % 10 FROM generate_series(1, 300) i;
CALL dp.protect('parts', 'rep', max_rows => 1000);
CALL dp.describe_column('parts', 'd');
CALL dp.describe_column('parts', 'v', bounds => '{0,9}', resolution => '1', nullable => false);
CALL dp.publish('parts');
"""
FAR = """
CREATE EXTENSION postgres_fdw;
CREATE SERVER "far off" FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '1');
CREATE FOREIGN TABLE parts_2 (d date, v int) SERVER "far off";
"""
# test_sql_beside.py: published views, and what one that tells of a private table would be made of.
VIEWS = """
CREATE VIEW grown_ups AS SELECT id, age AS years, sex FROM people WHERE age >= 21;
CREATE VIEW by_sex AS SELECT sex, count(*) AS n FROM grown_ups GROUP BY sex;
CALL dp.publish('grown_ups'); CALL dp.publish('by_sex');
CREATE TABLE secret (id int PRIMARY KEY, note text);
CREATE VIEW telling AS SELECT p.sex FROM people p JOIN secret USING (id);
"""
# The largest cap that an owner may set is 1000, which a few of these files spend.
DEEP = """
ALTER TABLE dp.dataset DISABLE TRIGGER USER;
UPDATE dp.dataset SET epsilon = 1e9 WHERE name IN ('people', 'rep');
ALTER TABLE dp.dataset ENABLE TRIGGER USER;
UPDATE dp.role_allotment SET epsilon = 1e9 WHERE dataset IN ('people', 'rep');
SELECT dp._bump_policy();
"""


def _prepare(cluster: Cluster) -> None:
    reports = (ROOT / "tests/fixtures/reports.sql").read_text(encoding="utf-8")
    cluster.psql(reports + TRIPS + WORDS + HOURS + PARCELS + PARTS + VIEWS, user="boss")
    cluster.psql(FAR + DEEP)


@pytest.fixture(scope="session")
def reports_stack() -> Iterator[Stack]:
    """The standard tables, fixtures/reports.sql and what is above; for fifty askers at a moment."""
    with stack_at_work(_prepare, max_connections="250") as running:
        yield running
