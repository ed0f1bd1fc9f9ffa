#!/usr/bin/env python3
"""Synthetic yellow-taxi trips in the schema of the New York City trip records.

SYNTHETIC, for experiments that need more trips than the real samples beside
this file hold (the DP-PQD paper uses 2,177,719 trips of January 2022).  The
numbers below -- hour and weekday profiles, shares of payment types and rate
codes, the law of distances, the fare formula -- were fitted by eye and by
least squares to the 5,500 real yellow trips of nyc_taxi_2019_03.csv.gz; the
zones come from taxi_zones.csv.  Fares follow the meter: 2.50 at the start,
2.50 a mile, 0.50 a minute when slow, flat 52.00 for JFK.

  --rows N       default 2177719
  --seed S       default 2022
  --pqd          the DP-PQD cleaning: numbers rounded to integers and clipped to
                 passenger_count [1,6], trip_distance [1,100], fare_amount
                 [4,250], tip_amount [0,125], total_amount [8,377],
                 congestion_surcharge {0,2}

Writes CSV on standard output.  Needs numpy only.
"""

import argparse
import csv
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
HOUR = np.array(
    [
        31.6,
        17.6,
        15.3,
        10.9,
        9.3,
        9.1,
        22.5,
        35.6,
        48.9,
        45.8,
        47.8,
        45.1,
        51.3,
        49.8,
        55.6,
        52.7,
        49.3,
        59.8,
        62.4,
        63.5,
        58.4,
        56.5,
        52.5,
        48.5,
    ]
)
WEEKDAY = np.array([111.3, 130.9, 147.3, 142.0, 174.4, 161.8, 132.4])
BOROUGH_FLOW = {
    "Manhattan": (0.915, [0.930, 0.031, 0.030, 0.006, 0.0005, 0.0025]),
    "Queens": (0.060, [0.53, 0.29, 0.14, 0.016, 0.004, 0.02]),
    "Brooklyn": (0.016, [0.36, 0.06, 0.55, 0.014, 0.004, 0.012]),
    "Bronx": (0.004, [0.50, 0.06, 0.03, 0.39, 0.0, 0.02]),
    "Unknown": (0.005, [0.20, 0.02, 0.02, 0.01, 0.0, 0.75]),
}
DESTINATIONS = ["Manhattan", "Queens", "Brooklyn", "Bronx", "Staten Island", "Unknown"]


def zones():
    by_borough = {}
    with open(os.path.join(HERE, "taxi_zones.csv"), newline="") as handle:
        for row in csv.DictReader(handle):
            by_borough.setdefault(row["borough"], []).append(int(row["location_id"]))
    return by_borough


def zone_of(rng, by_borough, borough, size):
    """A zone of the borough; a few zones take most of the trips (Zipf)."""
    ids = np.array(by_borough[borough])
    order = np.random.default_rng(len(ids)).permutation(len(ids))  # fixed ranking
    weight = 1 / (1 + np.arange(len(ids))) ** (0.55 if borough == "Manhattan" else 1.1)
    if borough == "Queens":  # JFK and LaGuardia lead
        order = np.concatenate(
            [
                np.flatnonzero(np.isin(ids, [132, 138])),
                np.setdiff1d(order, np.flatnonzero(np.isin(ids, [132, 138])), assume_unique=True),
            ]
        )
        weight[:2] *= 6
    return ids[order][rng.choice(len(ids), size, p=weight / weight.sum())]


def generate(size, seed):
    rng = np.random.default_rng(seed)
    by_borough = zones()
    names = list(BOROUGH_FLOW)
    start = np.array([BOROUGH_FLOW[n][0] for n in names])
    origin = rng.choice(len(names), size, p=start / start.sum())
    pu = np.empty(size, dtype=np.int64)
    do = np.empty(size, dtype=np.int64)
    target = np.empty(size, dtype=np.int64)
    for i, name in enumerate(names):
        where = np.flatnonzero(origin == i)
        flow = np.array(BOROUGH_FLOW[name][1])
        to = rng.choice(len(DESTINATIONS), where.size, p=flow / flow.sum())
        target[where] = to
        pu[where] = zone_of(rng, by_borough, name, where.size)
        for j, other in enumerate(DESTINATIONS):
            which = where[to == j]
            if which.size:
                do[which] = zone_of(rng, by_borough, other, which.size)
    same = np.array(names)[origin] == np.array(DESTINATIONS)[target]
    airport = np.isin(pu, [132, 138]) | np.isin(do, [132, 138])

    days = np.resize(np.roll(WEEKDAY, -5), 31)  # 1 January was a Saturday
    day = rng.choice(31, size, p=days / days.sum())
    hour = rng.choice(24, size, p=HOUR / HOUR.sum())
    pickup = (
        np.datetime64("2022-01-01T00:00:00")
        + day * np.timedelta64(86400, "s")
        + hour * np.timedelta64(3600, "s")
        + rng.integers(0, 3600, size) * np.timedelta64(1, "s")
    )
    mean_log = np.where(airport, 2.35, np.where(same, 0.43, 1.75))
    spread = np.where(airport, 0.38, np.where(same, 0.74, 0.42))
    distance = np.exp(mean_log + spread * rng.standard_normal(size))
    distance = np.where(rng.random(size) < 0.012, 0, np.minimum(distance, 60))
    speed = np.exp(np.log(9.8 + 1.1 * np.minimum(distance, 14)) + 0.28 * rng.standard_normal(size))
    speed *= np.where((hour < 6) | (hour > 21), 1.35, np.where((hour > 7) & (hour < 19), 0.93, 1.05))
    minutes = np.clip(distance / speed * 60 + rng.exponential(0.8, size), 0.3, 180)
    dropoff = pickup + (minutes * 60).astype(np.int64) * np.timedelta64(1, "s")

    jfk = ((pu == 132) & (target == 0)) | ((do == 132) & (origin == 0))
    roll = rng.random(size)
    rate = np.where(
        jfk & (roll < 0.93), 2, np.where(roll < 0.0065, 5, np.where(roll < 0.0090, 3, np.where(roll < 0.0102, 4, 1)))
    )
    meter = 2.5 + np.round((1.87 * distance + 0.36 * minutes) / 0.5) * 0.5
    fare = np.where(
        rate == 2,
        52.0,
        np.where(rate == 5, np.round(rng.lognormal(3.6, 0.7, size), 2), np.where(rate == 3, meter + 20, meter)),
    )
    fare = np.clip(fare, 2.5, 350)
    payment = rng.choice([1, 2, 3, 4], size, p=[0.7700, 0.2190, 0.0055, 0.0055])
    extra = np.where(
        (hour >= 16) & (hour < 20) & ((day + 5) % 7 < 5), 1.0, np.where((hour >= 20) | (hour < 6), 0.5, 0.0)
    )
    tolls = np.where(airport & (rng.random(size) < 0.45), 6.55, np.where(rng.random(size) < 0.012, 6.55, 0.0))
    surcharge = np.where(rng.random(size) < np.where((origin == 0) | (target == 0), 0.975, 0.05), 2.5, 0.0)
    before = fare + extra + 0.5 + tolls + 0.3 + surcharge
    habit = rng.choice([0.0, 0.10, 0.15, 0.20, 0.20, 0.20, 0.25, 0.30], size)
    rounded = np.round(before * rng.uniform(0.05, 0.30, size))
    tip = np.where(payment == 1, np.where(rng.random(size) < 0.66, np.round(before * habit, 2), rounded), 0.0)
    refund = (payment >= 3) & (rng.random(size) < 0.45)
    sign = np.where(refund, -1.0, 1.0)
    total = (before + tip) * sign
    return {
        "vendor_id": rng.choice([1, 2], size, p=[0.30, 0.70]),
        "pickup_datetime": np.datetime_as_string(pickup, unit="s"),
        "dropoff_datetime": np.datetime_as_string(dropoff, unit="s"),
        "passenger_count": rng.choice([0, 1, 2, 3, 4, 5, 6], size, p=[0.020, 0.735, 0.140, 0.038, 0.017, 0.030, 0.020]),
        "trip_distance": np.round(distance, 2),
        "ratecode_id": rate,
        "store_and_fwd_flag": rng.choice(["N", "Y"], size, p=[0.98, 0.02]),
        "pu_location_id": pu,
        "do_location_id": do,
        "payment_type": payment,
        "fare_amount": np.round(fare * sign, 2),
        "extra": extra * sign,
        "mta_tax": 0.5 * sign,
        "tip_amount": np.round(tip, 2),
        "tolls_amount": tolls * sign,
        "improvement_surcharge": 0.3 * sign,
        "total_amount": np.round(total, 2),
        "congestion_surcharge": surcharge * sign,
    }


def pqd(trips):
    def whole(name, low, high):
        return np.clip(np.rint(trips[name]), low, high).astype(np.int64)

    return {
        "vendor_id": trips["vendor_id"],
        "passenger_count": whole("passenger_count", 1, 6),
        "trip_distance": whole("trip_distance", 1, 100),
        "ratecode_id": trips["ratecode_id"],
        "store_and_fwd_flag": trips["store_and_fwd_flag"],
        "payment_type": trips["payment_type"],
        "fare_amount": whole("fare_amount", 4, 250),
        "tip_amount": whole("tip_amount", 0, 125),
        "total_amount": whole("total_amount", 8, 377),
        "congestion_surcharge": np.where(trips["congestion_surcharge"] > 0, 2, 0),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=2177719)
    parser.add_argument("--seed", type=int, default=2022)
    parser.add_argument("--pqd", action="store_true")
    args = parser.parse_args()
    trips = generate(args.rows, args.seed)
    if args.pqd:
        trips = pqd(trips)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(list(trips))
    writer.writerows(zip(*(column.tolist() for column in trips.values()), strict=True))


if __name__ == "__main__":
    main()
