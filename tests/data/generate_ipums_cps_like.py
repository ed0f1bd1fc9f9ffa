#!/usr/bin/env python3
"""Synthetic stand-in for the IPUMS-CPS extract of the DPXPlain and DP-PQD papers.

SYNTHETIC.  IPUMS does not let anyone pass its extracts on, so no record here
is or was a person.  What is real are the one-way tables below: the number of
records and the mean total income of each value of each attribute, as the
DPXPlain authors print them for their 1,146,552 records (CPS ASEC 2011-2019,
0 < INCTOT < 200,000).  The script

  1. draws age band, sex, marital status, relationship, race, citizenship,
     class of worker and education along a tree of pairs (for example marital
     status given age).  Each pair's table starts from a hand-written pattern
     and is raked until both of its margins are the real ones;
  2. draws a log-normal income, clipped to the bound and heaped on round
     figures, whose mean is a product of one factor for each value; the factors
     are raked until each value's mean income is near the real one.

So one-way counts and means are close to the paper's; two-way and higher tables
are only as good as the pairs in step 1.

  --variant dpxplain  1,146,552 records, 0 < inctot < 200,000  (8 attributes)
  --variant pqd       1,340,703 records, 0 <= inctot <= 500,000, with workly:
                      the same people, those with no income, and a Pareto tail
  --rows N            another size, same distribution
  --seed S            default 2011

Writes CSV on standard output.  Needs numpy only.
"""

import argparse
import csv
import sys

import numpy as np

# value: (records, mean income), as printed by the DPXPlain authors.
SEX = {"Male": (556230, 45778.39), "Female": (590322, 31135.78)}
AGE = {
    "(10, 20]": (71285, 8487.01),
    "(20, 30]": (181255, 29328.86),
    "(30, 40]": (213553, 44219.73),
    "(40, 50]": (214313, 47945.13),
    "(50, 60]": (194329, 46068.62),
    "(60, 70]": (146860, 38484.09),
    "(70, 80]": (100958, 29628.98),
    "(80, 90]": (23999, 25351.30),
}
MARST = {
    "Married, spouse present": (615671, 45362.22),
    "Never married/single": (302721, 26363.99),
    "Divorced": (121129, 38805.00),
    "Widowed": (66394, 28780.56),
    "Separated": (24324, 30721.48),
    "Married, spouse absent": (16313, 35295.54),
}
RELATE = {
    "Head/householder": (600801, 42296.48),
    "Spouse": (263032, 42989.05),
    "Child": (124068, 15755.10),
    "Unmarried partner": (31495, 35093.83),
    "Opposite sex spouse": (30375, 47628.17),
    "Parent": (23629, 27546.21),
    "Housemate/roomate": (19375, 32011.20),
    "Other relatives, n.s.": (18648, 24418.82),
    "Sibling": (13380, 23527.70),
    "Other nonrelatives": (7871, 26116.75),
    "Grandchild": (5412, 14376.57),
    "Roomer/boarder/lodger": (3888, 28933.27),
    "Opposite sex unmarried partner": (3843, 39735.10),
    "Foster children": (278, 13401.56),
    "Same sex spouse": (253, 57214.70),
    "Same sex unmarried partner": (204, 46394.17),
}
RACE = {
    "White": (899281, 39223.72),
    "Black": (136119, 31395.21),
    "Asian only": (67414, 43298.09),
    "American Indian/Aleut/Eskimo": (15407, 28682.14),
    "White-American Indian": (9112, 31990.28),
    "Hawaiian/Pacific Islander only": (5817, 33700.44),
    "White-Black": (4526, 29673.64),
    "White-Asian": (3405, 38064.88),
    "Black-American Indian": (1097, 30677.99),
    "White-Hawaiian/Pacific Islander": (1040, 35120.45),
    "Asian-Hawaiian/Pacific Islander": (984, 35038.32),
    "White-Asian-Hawaiian/Pacific Islander": (781, 33149.15),
    "White-Black-American Indian": (739, 32889.10),
    "Black-Asian": (284, 39337.97),
    "White-American Indian-Asian": (84, 39234.13),
    "White-Black-Asian": (76, 37795.72),
    "Four or five races, unspecified": (75, 30084.44),
    "Black-Hawaiian/Pacific Islander": (73, 29380.60),
    "American Indian-Asian": (73, 38336.77),
    "Two or three races, unspecified": (47, 33313.40),
    "White-Black-American Indian-Asian": (44, 31281.11),
    "White-American Indian-Hawaiian/Pacific Islander": (19, 36653.42),
    "American Indian-Hawaiian/Pacific Islander": (17, 32757.24),
    "Black-American Indian-Asian": (14, 22954.93),
    "White-Black--Hawaiian/Pacific Islander": (14, 27051.29),
    "White-American Indian-Asian-Hawaiian/Pacific Islander": (10, 28693.10),
}
CITIZEN = {
    "Born in U.S": (949180, 38849.75),
    "Not a citizen": (89876, 30735.67),
    "Naturalized citizen": (88951, 39520.76),
    "Born abroad of American parents": (10312, 43530.27),
    "Born in U.S. outlying": (8233, 29314.98),
}
CLASSWKR = {
    "Wage/salary, private": (608462, 43926.98),
    "NIU": (333858, 20063.32),
    "Local government employee": (57663, 48486.07),
    "Self-employed, not incorporated": (50383, 39336.65),
    "State government employee": (40551, 49611.07),
    "Self-employed, incorporated": (26651, 65007.77),
    "Federal government employee": (23005, 68419.92),
    "Armed forces": (5571, 56130.59),
    "Unpaid family worker": (408, 20830.26),
}
EDUC = {
    "High school diploma or equivalent": (327032, 29895.13),
    "Bachelor's degree": (221181, 53451.48),
    "Some college but no degree": (213823, 32389.41),
    "Master's degree": (90627, 65004.41),
    "Associate's degree, academic program": (63468, 39793.69),
    "Associate's degree, occupational/vocational program": (50024, 39345.68),
    "Grade 11": (34100, 15362.53),
    "Grade 10": (27972, 14859.40),
    "Grade 9": (22931, 15553.80),
    "Grades 7 or 8": (21794, 17610.15),
    "Doctorate degree": (16923, 79463.38),
    "12th grade, no diploma": (16191, 21013.02),
    "Grades 5 or 6": (16090, 20140.00),
    "Professional school degree": (13182, 79166.47),
    "Grades 1, 2, 3, or 4": (7777, 18608.82),
    "None or preschool": (3437, 16418.25),
}
TABLES = {
    "age": AGE,
    "sex": SEX,
    "marst": MARST,
    "relate": RELATE,
    "race": RACE,
    "citizen": CITIZEN,
    "classwkr": CLASSWKR,
    "educ": EDUC,
}
COLUMNS = ["relate", "age", "sex", "race", "marst", "citizen", "workly", "classwkr", "educ", "inctot"]

# Patterns: how much likelier than independence a pair is, before raking.
# Rows are the parent's values (age bands unless said), columns the child's.
MARST_BY_AGE = [
    [0.02, 6, 0.05, 0.02, 0.1, 0.1],
    [0.5, 2.6, 0.3, 0.1, 0.6, 1.2],
    [1.1, 1.1, 0.9, 0.1, 1.3, 1.3],
    [1.2, 0.6, 1.3, 0.3, 1.4, 1.2],
    [1.25, 0.4, 1.6, 0.8, 1.1, 1],
    [1.25, 0.25, 1.6, 2, 0.7, 0.8],
    [1.1, 0.15, 1.1, 5, 0.5, 0.6],
    [0.7, 0.15, 0.6, 10, 0.3, 0.6],
]
RELATE_BY_MARST = [  # rows: MARST; columns: RELATE
    [0.9, 2.1, 0.05, 0.01, 1.5, 0.9, 0.05, 0.4, 0.15, 0.1, 0.05, 0.1, 0.01, 0.05, 1, 0.01],
    [0.75, 0.02, 3.2, 2.2, 0.02, 0.02, 2.9, 1.6, 2.4, 2.2, 3.4, 2.2, 2.2, 3, 0.1, 2.2],
    [1.4, 0.02, 0.5, 1.6, 0.02, 1.1, 1.4, 1.1, 1, 1.6, 0.1, 1.8, 1.6, 0.1, 0.1, 1.4],
    [1.35, 0.02, 0.05, 0.2, 0.02, 6, 0.3, 2.2, 0.6, 0.6, 0.01, 0.6, 0.2, 0.01, 0.1, 0.2],
    [1.4, 0.02, 0.7, 0.9, 0.02, 0.7, 1.2, 1.5, 1.5, 1.6, 0.3, 1.6, 0.9, 0.2, 0.1, 0.9],
    [1.3, 0.02, 0.9, 0.3, 0.02, 1.3, 1.8, 2, 1.6, 1.8, 0.3, 1.8, 0.3, 0.2, 0.1, 0.3],
]
CITIZEN_BY_RACE = [1.09, 0.35, 0.75, 0.8, 0.7]  # White; others below
CLASSWKR_BY_AGE = [
    [0.8, 1.5, 0.3, 0.1, 0.5, 0.02, 0.05, 0.1, 1],
    [1.35, 0.55, 0.7, 0.3, 1.1, 0.3, 0.6, 3, 0.7],
    [1.3, 0.4, 1.1, 0.8, 1.1, 0.9, 1.2, 2.2, 0.9],
    [1.2, 0.4, 1.3, 1.2, 1.1, 1.4, 1.3, 0.7, 1],
    [1.1, 0.6, 1.3, 1.3, 1.1, 1.5, 1.3, 0.1, 1],
    [0.65, 1.6, 0.8, 1.3, 0.8, 1.2, 0.8, 0.01, 1.2],
    [0.25, 2.7, 0.25, 0.8, 0.25, 0.6, 0.2, 0.01, 1],
    [0.1, 3.1, 0.1, 0.4, 0.1, 0.3, 0.05, 0.01, 0.8],
]
EDUC_BY_AGE = [
    [0.6, 0.03, 1.3, 0.01, 0.15, 0.15, 6.5, 5.5, 3.2, 0.8, 0.01, 4, 0.4, 0.01, 0.3, 0.3],
    [0.95, 1.1, 1.5, 0.45, 1, 1, 0.9, 0.5, 0.5, 0.3, 0.15, 1.1, 0.5, 0.4, 0.4, 0.5],
    [0.9, 1.25, 0.9, 1.25, 1.15, 1.1, 0.6, 0.4, 0.6, 0.4, 1, 0.9, 0.9, 1.2, 0.7, 0.7],
    [1, 1.1, 0.85, 1.2, 1.2, 1.2, 0.6, 0.5, 0.7, 0.6, 1.1, 0.8, 1.1, 1.2, 0.9, 0.8],
    [1.1, 0.95, 0.9, 1.05, 1.1, 1.2, 0.7, 0.7, 0.7, 0.7, 1.1, 0.8, 1, 1.1, 1, 1],
    [1.1, 0.9, 0.95, 1.15, 0.9, 0.9, 0.7, 0.9, 0.8, 1.2, 1.4, 0.8, 1.2, 1.2, 1.5, 1.3],
    [1.2, 0.7, 0.85, 0.8, 0.6, 0.7, 0.9, 1.4, 1.3, 3, 1.2, 0.9, 1.8, 1.1, 2.2, 2],
    [1.2, 0.65, 0.8, 0.6, 0.45, 0.6, 0.9, 1.5, 1.4, 4, 1, 0.9, 2, 1, 2.6, 2.6],
]


def rake(pattern, rows, columns, rounds=300):
    """The table nearest `pattern` with these margins (iterative fitting)."""
    table = pattern * rows[:, None] * columns[None, :]
    for _ in range(rounds):
        table *= (rows / table.sum(1))[:, None]
        table *= (columns / table.sum(0))[None, :]
    return table


def draw(rng, parent, table):
    """A child's value for each parent's value, from the rows of `table`."""
    cumulative = np.cumsum(table / table.sum(1, keepdims=True), axis=1)
    cumulative[:, -1] = 1
    uniform = rng.random(parent.size)
    child = np.empty(parent.size, dtype=np.int16)
    for value in range(table.shape[0]):
        where = parent == value
        child[where] = np.searchsorted(cumulative[value], uniform[where], side="right")
    return child


def shares(name):
    counts = np.array([n for n, _ in TABLES[name].values()], dtype=float)
    return counts / counts.sum()


def means(name):
    return np.array([m for _, m in TABLES[name].values()])


def people(rng, size):
    age_p, marst_p = shares("age"), shares("marst")
    person = {
        "age": rng.choice(len(age_p), size, p=age_p).astype(np.int16),
        "sex": rng.choice(2, size, p=shares("sex")).astype(np.int16),
        "race": rng.choice(len(RACE), size, p=shares("race")).astype(np.int16),
    }
    person["marst"] = draw(rng, person["age"], rake(np.array(MARST_BY_AGE), age_p, marst_p))
    person["relate"] = draw(rng, person["marst"], rake(np.array(RELATE_BY_MARST), marst_p, shares("relate")))
    by_race = np.ones((len(RACE), len(CITIZEN)))
    by_race[0] = CITIZEN_BY_RACE
    by_race[1] = [1.02, 0.9, 0.9, 0.6, 0.5]
    by_race[2] = [0.28, 4.2, 5.6, 1.8, 0.2]
    by_race[5] = [0.6, 2.8, 1.5, 0.8, 20]
    person["citizen"] = draw(rng, person["race"], rake(by_race, shares("race"), shares("citizen")))
    person["classwkr"] = draw(rng, person["age"], rake(np.array(CLASSWKR_BY_AGE), age_p, shares("classwkr")))
    person["educ"] = draw(rng, person["age"], rake(np.array(EDUC_BY_AGE), age_p, shares("educ")))
    return person


def heap(rng, income):
    """Round to 100, 500, 1,000 or 5,000, as people do when asked."""
    step = rng.choice([1, 100, 500, 1000, 5000], income.size, p=[0.18, 0.22, 0.18, 0.32, 0.10])
    rounded = np.round(income / step) * step
    return np.where(rounded > 0, rounded, np.maximum(np.round(income), 1)).astype(np.int64)


def incomes(rng, person, low, high, rounds=25):
    """Log-normal incomes with each value's mean near the printed one."""
    size = person["age"].size
    spread = np.where(person["age"] == 0, 0.95, np.where(person["age"] < 5, 0.80, 0.70))
    noise = np.exp(spread * rng.standard_normal(size) - spread**2 / 2)
    scale = np.full(size, 38240.0)
    factor = {name: np.ones(len(TABLES[name])) for name in TABLES}
    for _ in range(rounds):
        for name in TABLES:
            income = np.clip(scale * noise, low, high)
            held = np.bincount(person[name], minlength=len(TABLES[name]))
            total = np.bincount(person[name], income, minlength=len(TABLES[name]))
            ratio = np.where(held > 20, means(name) / np.maximum(total / np.maximum(held, 1), 1), 1)
            ratio = np.clip(ratio, 0.5, 2)
            factor[name] *= ratio
            scale *= ratio[person[name]]
    return np.clip(heap(rng, np.clip(scale * noise, low, high)), low, high)


def years(rng, band):
    """A single year in the band; 80 to 84 reads 80, 85 and over reads 85."""
    low = np.array([15, 21, 31, 41, 51, 61, 71, 81])[band]
    high = np.array([20, 30, 40, 50, 60, 70, 80, 90])[band]
    age = rng.integers(low, high + 1)
    return np.where(age >= 85, 85, np.where(age >= 80, 80, age))


def generate(variant, rows, seed):
    rng = np.random.default_rng(seed)
    full = {"dpxplain": 1146552, "pqd": 1340703}[variant]
    size = rows or full
    rich = none = 0
    if variant == "pqd":  # above 200,000: 1.5 %; without income: 12.98 %
        rich, none = round(size * 0.0150), round(size * 0.1298)
    person = people(rng, size)
    inctot = incomes(rng, person, 1, 199999)
    if variant == "pqd":
        merit = inctot * rng.random(size) ** 0.5
        top = np.argpartition(merit, size - rich)[size - rich :]
        tail = 200000 * (1 - rng.random(rich) * (1 - (200 / 500) ** 1.9)) ** (-1 / 1.9)
        inctot[top] = np.minimum(np.round(tail / 1000) * 1000, 500000)
        weight = np.where(person["age"] == 0, 6.0, 1.0) * np.where(person["classwkr"] == 1, 3.0, 0.25)
        weight *= np.where(person["sex"] == 1, 1.5, 1.0)
        weight[top] = 0
        nothing = rng.choice(size, none, replace=False, p=weight / weight.sum())
        inctot[nothing] = 0
        person["classwkr"][nothing] = 1
    out = {name: np.array(list(TABLES[name]), dtype=object)[person[name]] for name in TABLES if name != "age"}
    out["age"] = years(rng, person["age"])
    working = person["classwkr"] != 1
    late = rng.random(size) < 0.13  # worked last year, no job now
    out["workly"] = np.where(working | (late & (inctot > 0)), "Yes", "No")
    out["inctot"] = inctot
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--variant", choices=["dpxplain", "pqd"], default="pqd")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--seed", type=int, default=2011)
    args = parser.parse_args()
    table = generate(args.variant, args.rows, args.seed)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(zip(*(table[name].tolist() for name in COLUMNS), strict=True))


if __name__ == "__main__":
    main()
