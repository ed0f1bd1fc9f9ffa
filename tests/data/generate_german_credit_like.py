#!/usr/bin/env python3
"""Many synthetic applicants with the dependencies of the 1,000 real ones.

SYNTHETIC.  The DPXPlain paper blows the South German Credit data up to one
million rows with a Bayesian network and a classifier.  This script does the
same from south_german_credit.csv.gz: a Chow-Liu tree over the 20 categorical
attributes (each pair with the largest mutual information, smoothed), and
good_credit from a naive Bayes model of the same attributes.

  generate_german_credit_like.py [--rows 1000000] [--seed 4] > credit.csv

Needs numpy only.
"""

import argparse
import csv
import gzip
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = "good_credit"
NOT_USED = {"id", "duration_months", "amount_dm", "age_years", TARGET}


def read():
    with gzip.open(os.path.join(HERE, "south_german_credit.csv.gz"), "rt", newline="") as handle:
        rows = list(csv.DictReader(handle))
    names = [name for name in rows[0] if name not in NOT_USED]
    levels, coded = [], []
    for name in names:
        values = sorted({row[name] for row in rows})
        place = {value: i for i, value in enumerate(values)}
        levels.append(values)
        coded.append([place[row[name]] for row in rows])
    good = np.array([int(row[TARGET]) for row in rows])
    return names, levels, np.array(coded), good


def joint(a, b, na, nb, weight=0.5):
    table = np.full((na, nb), weight / (na * nb) * 10)
    np.add.at(table, (a, b), 1)
    return table / table.sum()


def tree(coded, levels):
    """Parents of the maximum spanning tree of mutual information, root 0."""
    number = len(levels)
    gain = np.zeros((number, number))
    for i in range(number):
        for j in range(i):
            table = joint(coded[i], coded[j], len(levels[i]), len(levels[j]), 0.1)
            inner = table / np.outer(table.sum(1), table.sum(0))
            gain[i, j] = gain[j, i] = (table * np.log(inner)).sum()
    parent, inside = {0: None}, [0]
    while len(inside) < number:
        best = max((gain[i, j], i, j) for i in inside for j in range(number) if j not in parent)
        parent[best[2]] = best[1]
        inside.append(best[2])
    return [(node, parent[node]) for node in inside]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--seed", type=int, default=4)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    names, levels, coded, good = read()
    drawn = {}
    for node, parent in tree(coded, levels):
        if parent is None:
            share = np.bincount(coded[node], minlength=len(levels[node])) + 0.5
            drawn[node] = rng.choice(len(share), args.rows, p=share / share.sum())
            continue
        table = joint(coded[parent], coded[node], len(levels[parent]), len(levels[node]))
        cumulative = np.cumsum(table / table.sum(1, keepdims=True), axis=1)
        above = rng.random(args.rows)[:, None] > cumulative[drawn[parent]]
        drawn[node] = above.sum(1).clip(max=table.shape[1] - 1)
    score = np.full(args.rows, np.log(good.mean() / (1 - good.mean())))
    for node in range(len(names)):
        size = len(levels[node])
        for value, side in ((1, 1), (0, -1)):
            count = np.bincount(coded[node][good == value], minlength=size) + 2
            score += side * 0.55 * np.log(count / count.sum())[drawn[node]]
    outcome = (rng.random(args.rows) < 1 / (1 + np.exp(-score))).astype(int)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*names, TARGET])
    text = [np.array(levels[i], dtype=object)[drawn[i]].tolist() for i in range(len(names))]
    writer.writerows(zip(*text, outcome.tolist(), strict=True))


if __name__ == "__main__":
    main()
