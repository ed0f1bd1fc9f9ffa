"""A protected table, synthetic copies of it, and what the deciders should find: for the tests through the proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import psycopg

from fix_cluster import Cluster
from fix_stack import Stack, stack_at_work

Connection = psycopg.Connection[Any]

# A count's noise is 0 but with probability below 5e-9, and a decision is the truth; the cap allows 50 such questions.
EPSILON = 20
ROWS = 2000
_COLUMNS = "id int PRIMARY KEY, age int, sex text, city text, hours numeric(6,2), joined date"
_VALUES = (
    "i, 18 + i % 60, (ARRAY['f','m'])[1 + i % 2], (ARRAY['north','south','east',NULL])[1 + i % 4],"
    " (i % 40) + 0.25, DATE '2024-01-01' + i % 60"
)
TABLES = f"""
CREATE TABLE adult ({_COLUMNS}); INSERT INTO adult SELECT {_VALUES} FROM generate_series(1, {ROWS}) i;
CREATE TABLE adult_syn ({_COLUMNS}); INSERT INTO adult_syn SELECT {_VALUES} FROM generate_series(1, {ROWS - 20}) i;
CREATE TABLE adult_far ({_COLUMNS}); INSERT INTO adult_far SELECT {_VALUES} FROM generate_series(1, 500) i;
CREATE TABLE adult_w AS SELECT *, 8.3::float8 AS w FROM adult WHERE id <= 240;
CREATE TABLE visits (id int PRIMARY KEY, age int); INSERT INTO visits SELECT i, i % 90 FROM generate_series(1, 300) i;
CREATE TABLE visits_syn (id int, age int); INSERT INTO visits_syn SELECT i, i % 90 FROM generate_series(1, 290) i;
CREATE TABLE people_syn AS SELECT id, age, sex, city, income, joined FROM people WHERE id <= 990;
CREATE TABLE orders_syn AS SELECT id, customer_id, placed, status FROM orders WHERE id <= 380;
CREATE VIEW grown_ups AS SELECT id, age AS years, sex FROM adult WHERE age >= 21;
"""
POLICY = f"""
CALL dp.create_dataset('census', unit => 'row', epsilon => 1000, default_epsilon => {EPSILON});
CALL dp.protect('adult', 'census', max_rows => 100000);
CALL dp.describe_column('adult', 'id');
CALL dp.describe_column('adult', 'age', bounds => '{{0,100}}', resolution => '1', nullable => false);
CALL dp.describe_column('adult', 'sex', domain => '{{f,m}}', nullable => false);
CALL dp.describe_column('adult', 'city', domain => '{{north,south,east}}');
CALL dp.describe_column('adult', 'hours', bounds => '{{0,100}}', resolution => '0.25');
CALL dp.describe_column('adult', 'joined', bounds => '{{2024-01-01,2024-12-31}}', resolution => '1 day');
CALL dp.publish('adult'); CALL dp.publish('grown_ups');
CALL dp.protect('visits', 'census', max_rows => 100000);
CALL dp.describe_column('visits', 'age', bounds => '{{0,100}}', resolution => '1', nullable => false);
CALL dp.publish('visits');
CALL dp.allot('alice', 'census', epsilon => 1000); CALL dp.allot('bob', 'census', epsilon => 1000);
CALL dp.register_synthetic('adult', 'adult_syn', provenance => 'public');
CALL dp.register_synthetic('adult', 'adult_far', provenance => 'public');
CALL dp.register_synthetic('adult', 'adult_w', provenance => 'public', weight => 'w');
CALL dp.register_synthetic('visits', 'visits_syn', provenance => 'public');
CALL dp.register_synthetic('people', 'people_syn', provenance => 'public');
CALL dp.register_synthetic('orders', 'orders_syn', provenance => 'declassified');
"""


@contextmanager
def decide_stack(*more: Callable[[Cluster], object], **settings: str) -> Iterator[Stack]:
    """The whole product with the standard tables, and these. more: what is made besides, before there is a facade."""

    def prepare(cluster: Cluster) -> None:
        cluster.psql(TABLES + POLICY, user="boss")
        for made in more:
            made(cluster)

    with stack_at_work(prepare, **settings) as running:
        yield running


def one(connection: Connection, sql: str, *parameters: Any, **kwargs: Any) -> tuple[Any, ...]:
    """The one row of a statement."""
    (row,) = connection.execute(sql.encode(), parameters or None, **kwargs).fetchall()
    return tuple(row)


def truth(stack: Stack, sql: str) -> tuple[Any, ...]:
    """The exact row, by the superuser on the private database."""
    with stack.cluster.connect() as owner:
        return one(owner, sql.replace("median(", "percentile_disc(0.5) WITHIN GROUP (ORDER BY "))


def spent(stack: Stack, dataset: str = "census", role: str = "alice") -> Decimal:
    """What the allotment of a role has lost, by the ledger's own accounts: exact."""
    with stack.connect(role) as connection:
        (value,) = one(
            connection, f"SELECT your_epsilon - your_epsilon_left FROM dp.budget WHERE dataset = '{dataset}'"
        )
    return Decimal(value)


def refused(connection: Connection, sql: str, *parameters: Any, **kwargs: Any) -> psycopg.Error:
    """The error of a statement that must fail."""
    try:
        connection.execute(sql.encode(), parameters or None, **kwargs)
    except psycopg.Error as error:
        return error
    raise AssertionError(f"answered: {sql}")


class Heard(list[str]):
    """The notices of a connection, as they come."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        connection.add_notice_handler(lambda notice: self.append(notice.message_primary or ""))
