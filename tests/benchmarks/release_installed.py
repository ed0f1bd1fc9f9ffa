"""Families of release_tables.py in PostgreSQL, released by dp_release_numeric as installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import psycopg

from benchmarks import release_data as donors
from benchmarks.release_tables import Table, clients, people

Array = np.ndarray[Any, np.dtype[Any]]
Row = tuple[object, ...]

BANK = """
CREATE TABLE client (id int PRIMARY KEY, age int, housing boolean, loan boolean, balance int);
CALL dp.create_dataset('client', unit => 'row', epsilon => 1000);
CALL dp.protect('client', 'client', max_rows => 100000);
CALL dp.describe_column('client', 'age', bounds => '{1,100}', nullable => false);
CALL dp.describe_column('client', 'housing', nullable => false);
CALL dp.describe_column('client', 'loan', nullable => false);
CALL dp.describe_column('client', 'balance', bounds => '{-131072,131072}', nullable => false);
CALL dp.publish('client'); CALL dp.allot('alice', 'client', epsilon => 1000);
"""
ADULT = """
CREATE TABLE person (id int PRIMARY KEY, age int, education int, hours int);
CALL dp.create_dataset('person', unit => 'row', epsilon => 1000);
CALL dp.protect('person', 'person', max_rows => 100000);
CALL dp.describe_column('person', 'age', bounds => '{1,100}', nullable => false);
CALL dp.describe_column('person', 'education', bounds => '{1,16}', nullable => false);
CALL dp.describe_column('person', 'hours', bounds => '{0,99}', nullable => false);
CALL dp.publish('person'); CALL dp.allot('alice', 'person', epsilon => 1000);
"""
BALANCES = """
SELECT sum(greatest(balance, 0)) FROM client
WHERE age BETWEEN $1 AND $2 AND housing = $3 AND loan = $4
"""


@dataclass(frozen=True)
class Installed:
    """relation: what COPY fills with rows. grid: of each query the bounds of a box, as SQL.

    by_class: the same sums in words that tell how far the values of each class may go.
    """

    relation: str
    schema: str
    rows: Callable[[], Iterator[Row]]
    query: str
    spelt: Callable[[Sequence[int], Sequence[int]], str]
    by_class: str | None = None

    def grid(self, table: Table) -> str:
        pairs = zip(table.low.tolist(), table.high.tolist(), strict=True)
        return "{" + ",".join("{" + self.spelt(low, high) + "}" for low, high in pairs) + "}"


def _donors() -> Iterator[Row]:
    for number, (frequency, pace, months) in enumerate(donors.donors_with_months()):
        yield number, frequency, float(pace), months


def _clients() -> Iterator[Row]:
    for number, each in enumerate(clients()):
        yield number, *each


def _people() -> Iterator[Row]:
    for line in people():
        own = (line[name] for name in ("id", "age", "education_num", "hours_per_week"))
        yield tuple(map(int, own))


FAMILIES = {
    "transfusion": Installed(
        "donor",
        donors.SCHEMA,
        _donors,
        donors.QUERY,
        lambda low, high: f"{low[0] + 1},{high[0]}",
        donors.BY_CLASS,
    ),
    "bank": Installed(
        "client",
        BANK,
        _clients,
        BALANCES,
        lambda low, high: f"{low[0] + 1},{high[0]},{'ft'[low[1]]},{'ft'[low[2]]}",
    ),
    "adult_hours": Installed(
        "person",
        ADULT,
        _people,
        "SELECT sum(hours) FROM person WHERE age BETWEEN $1 AND $2 AND education BETWEEN $3 AND $4",
        lambda low, high: f"{low[0] + 1},{high[0]},{low[1] + 1},{high[1]}",
    ),
}


class Run(NamedTuple):
    """Of every query of one release."""

    answer: Array
    unbiased: Array
    low: Array
    high: Array


def load(boss: psycopg.Connection[Any], family: Installed) -> None:
    into = f"COPY {family.relation} FROM STDIN".encode()
    with boss.cursor() as cursor, cursor.copy(into) as copy:
        for one in family.rows():
            copy.write_row(one)


def released(
    alice: psycopg.Connection[Any],
    family: Installed,
    table: Table,
    epsilon: str,
    runs: int,
) -> list[Run]:
    """Releases as installed, each with noise of its own; bars of each query by itself."""
    call = (
        "SELECT answer, unbiased, low, high FROM dp.dp_release_numeric("
        f"'{family.relation}_family', '{family.query}', '{family.grid(table)}',"
        f" epsilon => {epsilon}, simultaneous => false, fresh => true)"
    )
    return [Run(*np.array(alice.execute(call.encode()).fetchall(), float).T) for _ in range(runs)]
