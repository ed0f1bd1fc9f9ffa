"""The relations, synthetic copies and questions of bench-decide, loaded into a cluster and protected."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from decide_laws import Truth

from fix_cluster import PRIVATE, Cluster

DATA = Path(__file__).resolve().parents[1] / "data"
sys.path.append(str(DATA))
PAPER = json.loads((DATA / "paper_queries.json").read_text())
PARAMETERS = PAPER["parameters"]
SMALL = 100_000  # rows of the relations of the simulation, and of every copy
BUDGET = 1000  # of each relation: the most that dp.create_dataset takes
RELATIONS = {"ipums_cps": "ipums_cps_like", "nyc_taxi": "nyc_taxi_like"}
COPIES = {
    "privbayes": "PrivBayes, 100,000 rows, each weighted",
    "seed": "the generator with another seed, 100,000 rows, each weighted: as good as a copy can be",
}
Table = Mapping[str, Any]  # of numpy


@dataclass(frozen=True)
class Query:
    """One of the paper's 60 questions. sql: with {table} for the relation."""

    name: str
    relation: str
    aggregate: str
    column: str | None
    sql: str

    @property
    def where(self) -> str:
        return self.sql.partition(" WHERE ")[2]

    @property
    def bounds(self) -> tuple[int, int]:
        low, high = PAPER["bounds"][self.relation][self.column] if self.column else (0, 0)
        return int(low), int(high)

    def table(self, suffix: str = "") -> str:
        return RELATIONS[self.relation] + suffix

    def on(self, suffix: str = "") -> str:
        """The question, of the relation or of what is named after it."""
        return self.sql.format(table=self.table(suffix))


QUERIES = [
    Query(one["id"], relation, one["aggregate"], one["column"], one["sql"])
    for relation in RELATIONS
    for one in PAPER[relation]
]


def load(cluster: Cluster) -> None:
    """Both relations whole, smaller ones of the same laws for the simulation, two copies of each whole one."""
    import generate_ipums_cps_like as people
    import generate_nyc_taxi_like as trips

    def ipums(rows: int, seed: int) -> Table:
        table: Table = people.generate("pqd", rows, seed)
        return {name: table[name] for name in people.COLUMNS}

    def taxi(rows: int, seed: int) -> Table:
        return trips.pqd(trips.generate(rows, seed))

    for relation, seed, made in (("ipums_cps", 2011, ipums), ("nyc_taxi", 2022, taxi)):
        rows, name = PAPER["rows"][relation], RELATIONS[relation]
        copy = _from_file(name)
        _relation(cluster, relation, name, made(rows, seed))
        _relation(cluster, relation, f"{name}_small", made(SMALL, seed + 1))
        _synthetic(cluster, name, f"{name}_privbayes", copy, rows / SMALL)
        _synthetic(cluster, name, f"{name}_seed", made(SMALL, 777), rows / SMALL)
        _synthetic(cluster, f"{name}_small", f"{name}_small_privbayes", copy, None)
    cluster.execute("VACUUM ANALYZE", dbname=PRIVATE)


def _relation(cluster: Cluster, relation: str, name: str, table: Table) -> None:
    """A protected relation: the paper's bounds, and every other column by its declared values."""
    _create(cluster, name, table)
    bounds = PAPER["bounds"][relation]
    calls = [f"CALL dp.create_dataset('{name}', epsilon => {BUDGET}); CALL dp.protect('{name}', '{name}');"]
    for column, values in table.items():
        if column in bounds:
            low, high = bounds[column]
            calls.append(
                f"CALL dp.describe_column('{name}', '{column}', bounds => '{{{low},{high}}}', resolution => '1');"
            )
        else:
            domain = ",".join(f'"{value}"' for value in sorted(set(values.tolist()), key=str)).replace("'", "''")
            calls.append(f"CALL dp.describe_column('{name}', '{column}', domain => '{{{domain}}}', nullable => false);")
    calls.append(f"CALL dp.publish('{name}'); CALL dp.allot('alice', '{name}', epsilon => {BUDGET});")
    cluster.psql("\n".join(calls), user="boss")


def _synthetic(cluster: Cluster, original: str, name: str, table: Table, weight: float | None) -> None:
    """A copy: made from no private row, so it costs nothing."""
    whole = {**table, "weight": np.full(SMALL, weight)} if weight is not None else table
    _create(cluster, name, whole)
    how = ", weight => 'weight'" if weight is not None else ""
    cluster.psql(f"CALL dp.register_synthetic('{original}', '{name}', 'public'{how})", user="boss")


def _create(cluster: Cluster, name: str, table: Table) -> None:
    types = {"i": "integer", "f": "numeric"}
    columns = ", ".join(f"{column} {types.get(values.dtype.kind, 'text')}" for column, values in table.items())
    with cluster.connect("boss") as boss:
        boss.execute(f"CREATE TABLE {name} ({columns})".encode())
        with boss.cursor().copy(f"COPY {name} FROM STDIN (FORMAT csv)".encode()) as copy:
            for block in _blocks(zip(*(values.tolist() for values in table.values()), strict=True)):
                copy.write(block)


def _blocks(rows: Iterable[tuple[Any, ...]]) -> Iterable[bytes]:
    text = io.StringIO()
    writer = csv.writer(text)
    for number, row in enumerate(rows, 1):
        writer.writerow(row)
        if number % 50_000 == 0:
            yield text.getvalue().encode()
            text.seek(0)
            text.truncate()
    yield text.getvalue().encode()


def _from_file(name: str) -> Table:
    with io.TextIOWrapper(gzip.open(DATA / f"{name}_privbayes.csv.gz")) as lines:
        header, *rows = csv.reader(lines)
    columns = dict(zip(header, map(np.array, zip(*rows, strict=True)), strict=True))
    numbers = {"age", "inctot"} | {name for name, values in columns.items() if np.char.isdigit(values).all()}
    return {name: values.astype(int) if name in numbers else values for name, values in columns.items()}


def truth(connection: Any, query: Query, suffix: str = "") -> Truth:
    """What there is to know of a question's rows: their values with how often each occurs."""
    if query.column is None:
        ((count,),) = connection.execute(query.on(suffix).encode()).fetchall()
        return Truth(query.aggregate, (0, 0), (0,), (count,))
    table, column = query.table(suffix), query.column
    rows = connection.execute(
        f"SELECT {column}, count(*) FROM {table} WHERE {query.where} GROUP BY 1 ORDER BY 1".encode()
    ).fetchall()
    values, counts = zip(*rows, strict=True) if rows else ((), ())
    return Truth(query.aggregate, query.bounds, values, counts)
