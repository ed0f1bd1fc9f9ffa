"""The family of the paper's Transfusion experiment: 748 donors, 1,275 ranges of how often they gave blood.

What is summed up is months since the first donation over the number of donations: at most 200 / a for a donors' number
of a (specs/numeric-release.md §0.0). Rounded to thousandths, so that the table, plain SQL and the pure cores agree.
"""

from __future__ import annotations

import csv
import gzip
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
MOST = 50
RANGES = tuple(combinations_with_replacement(range(1, MOST + 1), 2))
QUERY = "SELECT sum(pace) FROM donor WHERE frequency BETWEEN $1 AND $2"
BY_CLASS = """
SELECT sum(round(months::numeric / NULLIF(frequency, 0), 3)) FROM donor
WHERE frequency BETWEEN $1 AND $2
"""
"""The same values, of which is known how far those of a class may go."""
GRID = "{" + ",".join(f"{{{low},{high}}}" for low, high in RANGES) + "}"
SCHEMA = """
CREATE TABLE donor (id int PRIMARY KEY, frequency int, pace numeric(9,3), months int);
CALL dp.create_dataset('donor', unit => 'row', epsilon => 1000);
CALL dp.protect('donor', 'donor', max_rows => 1000);
CALL dp.describe_column('donor', 'frequency', bounds => '{1,50}', nullable => false);
CALL dp.describe_column('donor', 'pace', bounds => '{0,200}', resolution => '0.001', nullable => false);
CALL dp.describe_column('donor', 'months', bounds => '{0,200}', nullable => false);
CALL dp.publish('donor'); CALL dp.allot('alice', 'donor', epsilon => 1000);
"""


def _donors() -> list[tuple[int, Fraction]]:
    """(frequency, time) of every donor."""
    with gzip.open(ROOT / "tests/data/transfusion.csv.gz", "rt") as file:
        return [(int(one["frequency"]), Fraction(one["time"])) for one in csv.DictReader(file)]


def donors() -> list[tuple[int, Fraction]]:
    """(frequency, pace) of every donor."""
    return [(often, Fraction(round(1000 * time / often), 1000)) for often, time in _donors()]


def donors_with_months() -> list[tuple[int, Fraction, int]]:
    """(frequency, pace, months) of every donor."""
    return [(often, pace, int(time)) for (often, pace), (_, time) in zip(donors(), _donors(), strict=True)]


def months() -> list[tuple[int | None, Fraction]]:
    """(class, time) of every donor, for queries with the weights 1 / frequency."""
    return [(often - 1, time) for often, time in _donors()]


def truth(rows: list[tuple[int, Fraction]]) -> np.ndarray:
    """The exact answers, in the order of RANGES."""
    by_class = np.zeros(MOST + 1)
    for frequency, pace in rows:
        by_class[frequency] += float(pace)
    sums = np.cumsum(by_class)
    return np.array([sums[high] - sums[low - 1] for low, high in RANGES])
