"""The whole product with TLS, tables of every type, and relays that note what a driver sends (tests/drivers).

PG_EPSILON_RECORD=1 writes what was noted to tests/fixtures/clients/<client>.sql (test_recorded_statements.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import fix_chance
from fix_cluster import PASSWORD, PRIVATE, private_cluster, standard
from fix_cluster import free_port as any_port
from fix_recorder import Relay, replayed, written
from fix_stack import Stack

RECORDED = Path(__file__).parent / "fixtures" / "clients"

# One column of each scalar type that drivers treat in a way of their own. A big budget: many tests ask, each one block.
SAMPLES = """
CREATE TABLE samples (id int PRIMARY KEY, yes boolean, small smallint, whole integer, big bigint, exact numeric(12,3),
  single real, "double" double precision, word text, code varchar(10), flag char(3), day date, at timestamp,
  moment timestamptz, clock time, uid uuid, span interval, raw bytea, doc jsonb);
INSERT INTO samples SELECT i, i % 2 = 0, i % 100, i, i * 10000000000, i * 1.125, i / 4.0, i / 3.0, 'word ' || i % 10,
  'c' || i % 10, 'abc', DATE '2024-01-01' + i % 300, TIMESTAMP '2024-01-01' + i * interval '1 hour',
  TIMESTAMPTZ '2024-01-01 00:00+00' + i * interval '1 hour', TIME '00:00' + i * interval '1 minute',
  ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, i * interval '1 day', int4send(i),
  jsonb_build_object('i', i) FROM generate_series(1, 1000) i;
CALL dp.create_dataset('samples', unit => 'row', epsilon => 1000, default_epsilon => 2);
CALL dp.protect('samples', 'samples', max_rows => 100000, scale => 1000);
DO $$ DECLARE c name; BEGIN
  FOR c IN SELECT attname FROM pg_attribute WHERE attrelid = 'samples'::regclass AND attnum > 0 LOOP
    CALL dp.describe_column('samples', c);
  END LOOP;
END $$;
CALL dp.describe_column('samples', 'yes', domain => '{t,f}', nullable => false);
CALL dp.describe_column('samples', 'code', domain => '{c0,c1,c2,c3,c4,c5,c6,c7,c8,c9}', nullable => false);
CALL dp.publish('samples');
CALL dp.allot('alice', 'samples', epsilon => 1000);
CREATE TABLE regions (city text PRIMARY KEY, label varchar(20) NOT NULL, people int);
INSERT INTO regions VALUES ('north', 'The North', 3), ('south', 'The South', 5), ('east', 'The East', NULL);
CALL dp.publish('regions', kind => 'public');
CALL dp.allot('alice', 'people', epsilon => 10);
"""
# How far a count over samples at epsilon 2 may be off.
NEAR = 12
CHANCE = fix_chance.laplace(1 / 2, NEAR, 30)  # of a test; none compares more numbers


@dataclass
class DriversStack(Stack):
    """What a driver needs to know: host, port, user, password, dbname, and the certificate to believe.

    samples: 1000 protected rows of every type, answers within NEAR of the truth; regions: a public table.
    """

    host: str = "127.0.0.1"
    user: str = "alice"
    password: str = PASSWORD
    dbname: str = PRIVATE
    relays: dict[str, Relay] = field(default_factory=dict)

    @property
    def certificate(self) -> Path:
        """PEM, for localhost and 127.0.0.1; its own authority."""
        return self.cluster.folder / "proxy.crt"

    def configure(self) -> None:
        super().configure()
        key = self.cluster.folder / "proxy.key"
        self.cluster.run(
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(self.certificate),
        )  # fmt: skip
        self.certificate.chmod(0o644)
        text = self.config.read_text()
        self.config.write_text(
            text.replace("[listen]\n", f'[listen]\ntls_cert = "{self.certificate}"\ntls_key = "{key}"\n')
        )

    def recorded(self, client: str) -> int:
        """The port of a relay that notes what `client` sends. It offers no TLS: nothing could be read then."""
        if client not in self.relays:
            self.relays[client] = Relay(self.port)
        return self.relays[client].port

    def exact(self, sql: str) -> int:
        """The true answer, by the superuser on the private database."""
        with self.cluster.connect() as owner:
            row = owner.execute(sql.encode()).fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture(scope="session")
def drivers_stack() -> Iterator[DriversStack]:
    """One stack for all drivers: cluster, facade, proxy."""
    with private_cluster() as cluster:
        standard(cluster)
        cluster.psql(SAMPLES, user="boss")
        stack = DriversStack(cluster, any_port())
        stack.configure()
        stack.build_facade()
        try:
            stack.start()
            yield stack
            if os.environ.get("PG_EPSILON_RECORD"):
                for client, relay in stack.relays.items():
                    sessions = replayed(stack.dsn(), relay.finish())
                    (RECORDED / f"{client}.sql").write_text(written(sessions), encoding="utf-8")
        finally:
            for relay in stack.relays.values():
                relay.finish()
            stack.stop()
