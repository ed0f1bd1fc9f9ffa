"""What tests of releases share: tables, and how a row's mass is split, by exact fractions (release/masses.py)."""

from __future__ import annotations

from fractions import Fraction

from pg_epsilon.release.ladder import Ladder
from pg_epsilon.release.masses import Values

ADULT = """
CREATE TYPE stage AS ENUM ('red', 'amber', 'green');
CREATE TABLE adult (id int PRIMARY KEY, age int, edu text, stage stage, born date, loss int, price numeric(8,2),
  temp float8, rate float8);
INSERT INTO adult SELECT i, 17 + i * 7919 % 80, (ARRAY['hs','ba','m"a',NULL])[1 + i % 4],
  (ARRAY['red','amber','green'])[1 + i % 3]::stage, date '2024-01-01' + i % 40,
  CASE WHEN i % 20 = 0 THEN i % 51 ELSE 0 END, (i % 1000) / 100.0 - 3,
  CASE WHEN i % 50 = 0 THEN float8 'NaN' WHEN i % 7 = 0 THEN NULL ELSE i % 120 END, i % 100 / 10.0
  FROM generate_series(1, 6000) i;
CALL dp.create_dataset('adult', unit => 'row', epsilon => 1000, default_epsilon => 1);
CALL dp.protect('adult', 'adult', max_rows => 100000);
CALL dp.describe_column('adult', 'age', bounds => '{17,90}', nullable => false);
CALL dp.describe_column('adult', 'edu', domain => '{hs,ba,"m\\"a"}');
CALL dp.describe_column('adult', 'stage', nullable => false);
CALL dp.describe_column('adult', 'born', bounds => '{2024-01-01,2024-01-31}', nullable => false);
CALL dp.describe_column('adult', 'loss', bounds => '{0,50}', nullable => false);
CALL dp.describe_column('adult', 'price', bounds => '{-3,7}', resolution => '0.01', nullable => false);
CALL dp.describe_column('adult', 'temp', bounds => '{0,100}', resolution => '0.1');
CALL dp.describe_column('adult', 'rate', edges => '{0,2.5,5,10}', nullable => false);
CALL dp.publish('adult'); CALL dp.allot('alice', 'adult', epsilon => 900);
CALL dp.allot('bob', 'adult', epsilon => 10);
CREATE TABLE hidden (id int PRIMARY KEY, age int);
CALL dp.protect('hidden', 'adult', max_rows => 100);
CREATE TABLE visit (id int PRIMARY KEY, person int, ward text, cost int);
INSERT INTO visit SELECT i, i % 300, (ARRAY['n','s'])[1 + i / 7 % 2], i % 65 FROM generate_series(1, 3000) i;
CALL dp.create_dataset('clinic', unit => 'user', epsilon => 1000, accountant => 'renyi', delta => 1e-6);
CALL dp.protect('visit', 'clinic', unit_column => 'person', max_rows_per_unit => 4, max_rows => 10000);
CALL dp.describe_column('visit', 'ward', domain => '{n,s}', nullable => false);
CALL dp.describe_column('visit', 'cost', bounds => '{0,64}', nullable => false);
CALL dp.publish('visit'); CALL dp.allot('alice', 'clinic', epsilon => 900, delta => 1e-6);
CREATE TABLE loose (id int PRIMARY KEY, person int, ward text);
CALL dp.create_dataset('loose', unit => 'user', epsilon => 10);
CALL dp.protect('loose', 'loose', unit_column => 'person');
CALL dp.describe_column('loose', 'ward', domain => '{n,s}');
CALL dp.publish('loose'); CALL dp.allot('alice', 'loose', epsilon => 5);
"""


def share(g: Fraction, own: Ladder) -> tuple[int | None, Fraction]:
    """The number of the least step >= g, and which part of the mass is there; the rest is at the step below, or 0."""
    place = own.place(g)
    if place is None:
        return None, Fraction(0)
    step = own.steps[place]
    return place, g / step if place == 0 else (g - step / 2) / (step / 2)


def upper(values: Values, v: int) -> tuple[int, int]:
    """Part and upper mass of a row whose value is v lattice steps."""
    own = values.positive if v > 0 else values.negative
    if v == 0 or own is None:
        return values.zero, 0
    place, above = share(abs(v) * values.step, own)
    assert place is not None
    return values.zero + (1 if v > 0 else -1) * (place + 1), int(above * values.whole)
