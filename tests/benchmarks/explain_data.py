"""Tables and questions of bench_explain.py: CPS-like earners, German-credit-like applicants, people of Adult."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psycopg

from pg_epsilon.explain import sensitivity
from pg_epsilon.explain.attributes import attribute
from pg_epsilon.explain.cells import Layout
from pg_epsilon.explain.space import Space
from pg_epsilon.explain.statement import Read, by_cells
from pg_epsilon.query.keys import Key
from pg_epsilon.query.schema import Column, ColumnPolicy

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/data"))
Root = psycopg.Connection[Any]
PAIR = (Fraction(1), Fraction(-1))
AGES = tuple(map(str, range(11, 92, 10)))  # (10, 20], …, (80, 90], as closed-open ranges of whole years
MEASURES = {"cps": ("inctot", 0, 200_000), "credit": ("good_credit", 0, 1), "adult": ("high_income", 0, 1)}
OF_ADULT = "age workclass education marital_status occupation relationship race sex native_country"


@dataclass(frozen=True)
class Asked:
    """A question of the paper's Table 1: why the first group's average is above the second one's."""

    table: str
    key: str
    groups: tuple[str, str]

    @property
    def measure(self) -> str:
        return MEASURES[self.table][0]


ADULT = Asked("adult", "marital_status", ("Married-civ-spouse", "Never-married"))
QUESTIONS = {
    "I1": Asked("cps", "sex", ("Male", "Female")),
    "I2": Asked("cps", "relate", ("Grandchild", "Foster children")),
    "I3": Asked("cps", "relate", ("Head/householder", "Spouse")),
    "I4": Asked("cps", "educ", ("Bachelor's degree", "High school diploma or equivalent")),
    "I5": Asked("cps", "educ", ("Grade 9", "None or preschool")),
    "G1": Asked("credit", "status", ("... < 0 DM", "no checking account")),
    "G2": Asked("credit", "purpose", ("car (new)", "car (used)")),
    "G3": Asked("credit", "purpose", ("business", "vacation")),
    "G4": Asked("credit", "residence", ("< 1 yr", ">= 7 yrs")),
    "G5": Asked("credit", "residence", ("1 <= ... < 4 yrs", "4 <= ... < 7 yrs")),
}


@dataclass
class Tables:
    """What was loaded: rows, each column's values (of a column of numbers edges), and which columns have NULLs."""

    rows: dict[str, int]
    domains: dict[str, dict[str, tuple[str, ...]]]
    optional: dict[str, frozenset[str]]

    def attributes(self, table: str, key: str) -> list[str]:
        return [name for name in self.domains[table] if name != key]


def load(root: Root, owner: str, rows: dict[str, int]) -> Tables:
    """Two tables of so many rows, and Adult."""
    adult = _adult()
    found = Tables({**rows, "adult": len(adult["age"])}, {}, {})
    for table, made in (("cps", _cps(rows["cps"])), ("credit", _credit(rows["credit"])), ("adult", adult)):
        columns = ", ".join(f"{name} {_type(values)}" for name, values in made.items())
        root.execute(f"CREATE TABLE {table} ({columns}); ALTER TABLE {table} OWNER TO {owner}".encode())
        with root.cursor().copy(f"COPY {table} FROM STDIN".encode()) as out:
            for row in zip(*(values.tolist() for values in made.values()), strict=True):
                out.write_row(row)
        root.execute(f"VACUUM ANALYZE {table}".encode())
        kept = {name: values for name, values in made.items() if name != MEASURES[table][0]}
        found.domains[table] = {
            name: AGES if name == "age" and table != "credit" else _values(values) for name, values in kept.items()
        }
        found.optional[table] = frozenset(name for name, values in kept.items() if None in values.tolist())
    return found


def _values(column: Any) -> tuple[str, ...]:
    return tuple(sorted(map(str, set(column.tolist()) - {None})))


def _type(values: Any) -> str:
    return "int" if np.issubdtype(values.dtype, np.integer) else "text"


def _cps(rows: int) -> dict[str, Any]:
    import generate_ipums_cps_like as people

    made = people.generate("dpxplain", rows, 2011)
    return {name: made[name] for name in people.COLUMNS if name != "workly"}


def _credit(rows: int) -> dict[str, Any]:
    import generate_german_credit_like as applicants

    out, arguments = io.StringIO(), sys.argv
    sys.argv, sys.stdout = ["generate", "--rows", str(rows)], out
    try:
        applicants.main()
    finally:
        sys.argv, sys.stdout = arguments, sys.__stdout__
    head, *lines = csv.reader(io.StringIO(out.getvalue()))
    columns = zip(head, zip(*lines, strict=True), strict=True)
    return {name: np.array(values) if name != "good_credit" else np.array(values, int) for name, values in columns}


def _adult() -> dict[str, Any]:
    """Each column of all 48,842 people; high_income: above 50,000."""
    with gzip.open(ROOT / "demo/data/adult.csv.gz", "rt") as file:
        lines = list(csv.DictReader(file))
    found = {name: np.array([line[name] or None for line in lines], object) for name in OF_ADULT.split()}
    found["age"] = found["age"].astype(int)
    return {**found, "high_income": np.array([int(line["income"] == ">50K") for line in lines])}


def policy(tables: Tables, dataset: str) -> str:
    """The owner's calls: a Rényi dataset with all tables."""
    calls = [f"CALL dp.create_dataset('{dataset}', epsilon => 1000, accountant => 'renyi', delta => 1e-6)"]
    for table, columns in tables.domains.items():
        measure, low, high = MEASURES[table]
        calls.append(f"CALL dp.protect('{table}', '{dataset}', max_rows => {tables.rows[table] + 1000})")
        calls.append(
            f"CALL dp.describe_column('{table}', '{measure}', bounds => '{{{low},{high}}}', nullable => false)"
        )
        for name, values in columns.items():
            listed = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
            how = "edges" if values is AGES else "domain"
            nullable = str(name in tables.optional[table]).lower()
            calls.append(
                f"CALL dp.describe_column('{table}', '{name}', {how} => ARRAY[{listed}], nullable => {nullable})"
            )
        calls.append(f"CALL dp.publish('{table}')")
    return ";\n".join([*calls, f"CALL dp.allot('alice', '{dataset}', epsilon => 1000)"])


def space(tables: Tables, asked: Asked, most: int) -> Space:
    """The predicates that the engine tries."""
    found = []
    for name in tables.attributes(asked.table, asked.key):
        values = tables.domains[asked.table][name]
        kind = ("edges", None, values) if values is AGES else ("domain", values, None)
        nullable = name in tables.optional[asked.table]
        declared = ColumnPolicy(kind[0], domain=kind[1], edges=kind[2], nullable=nullable)
        oid, type_name = (23, "integer") if values is AGES else (25, "text")
        found.append(attribute(name, Column(name, oid, type_name, policy=declared), "r", asked.table))
    return Space(tuple(found), most)


def read(root: Root, tables: Tables, asked: Asked, most: int) -> tuple[str, Space, bytes]:
    """The engine's own statement, the space, and what it returns."""
    own = space(tables, asked, most)
    source: Any = SimpleNamespace(sql=f"{asked.table} AS r", conditions=(), has_user_units=False)
    key = Key(asked.key, f"r.{asked.key}", tables.domains[asked.table][asked.key])
    groups = ((asked.groups[0],), (asked.groups[1],))
    what = Read(source, (key,), groups, f"r.{asked.measure}", None, None)
    sql = by_cells(what, own, Layout(2, tuple(one.size for one in own.attributes)))
    row = root.execute(sql.encode()).fetchone()
    assert row is not None
    return sql, own, row[0]


def bounds(asked: Asked, *, printed: bool = False) -> tuple[Fraction, Fraction]:
    """(change, spread) of an influence by one row. printed: the paper's 16 A, and twice that."""
    _, low, high = MEASURES[asked.table]
    ends = Fraction(low), Fraction(high)
    if printed:
        change = sensitivity.of_the_paper("avg", PAIR, *ends)
        return change, 2 * change
    return sensitivity.change("avg", PAIR, *ends), sensitivity.spread("avg", PAIR, *ends)


def sets(tables: Tables, asked: Asked, most: int) -> str:
    """The bare statement that grouping sets would be, for the same predicates: age by decades."""
    names = tables.attributes(asked.table, asked.key)
    columns = ["(age - 1) / 10 AS age" if name == "age" and asked.table == "cps" else name for name in names]
    groups = ", ".join(f"({asked.key}, {', '.join(one)})" for one in itertools.combinations(names, most))
    chosen = ", ".join("'" + group.replace("'", "''") + "'" for group in asked.groups)
    inner = f"SELECT {asked.key}, {', '.join(columns)}, {asked.measure} AS v FROM {asked.table}"
    return (
        f"SELECT {asked.key}, {', '.join(names)}, GROUPING({', '.join(names)}), count(*), sum(v)"
        f" FROM ({inner} WHERE {asked.key} IN ({chosen})) AS q GROUP BY GROUPING SETS (({asked.key}), {groups})"
    )
