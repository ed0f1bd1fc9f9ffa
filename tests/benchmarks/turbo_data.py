"""The two workloads of the Turbo paper: tables as counts per bin, pools of queries, and their exact answers."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pg_epsilon.turbo.bins import Domain, Query, box_query

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "data" / "turbo"
CACHE = ROOT / "build" / "bench"
Array = np.ndarray[Any, np.dtype[Any]]
PARTITIONS = 50
BLOCK = 1_008_532

# The group-bys of analyses of the CitiBike data that people have published: one count for each cell, 2,485 together.
GROUP_BYS = """gender; user_type; user_type gender; ; age; start_station; end_station; hour; start_station end_station;
gender age; duration; duration age; duration gender; duration gender age; duration user_type; start_station age;
end_station age; user_type age; weekday; weekday duration; hour duration; weekday hour; user_type gender age;
hour start_station; hour end_station; weekday start_station; weekday end_station; weekday start_station end_station;
hour start_station end_station; age start_station end_station"""


@dataclass(frozen=True)
class Workload:
    """scales: rows per partition (public here). pool: the queries. truths: [query, partition], exact."""

    name: str
    domain: Domain
    scales: list[int]
    pool: list[Query]
    truths: Array
    counts: Array


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SOURCE / f"{name}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _blocks() -> Array:
    """The days of the Covid data cut into blocks of 1,008,532 tests, as the authors' artifact does: 50 x 128."""
    covid = _module("generate_covid_ca")
    rng = np.random.default_rng(2022)
    blocks, filled, room = [], np.zeros(128, np.int64), BLOCK
    for _, counts in covid.cells(str(SOURCE / "covid_ca_daily_source.csv.gz"), 2020):
        left = counts.ravel().copy()
        while left.sum():
            take = left if left.sum() <= room else rng.multivariate_hypergeometric(left, room, method="marginals")
            filled, left, room = filled + take, left - take, room - int(take.sum())
            if room == 0:
                blocks.append(filled)
                filled, room = np.zeros(128, np.int64), BLOCK
    return np.array(blocks[:PARTITIONS])


@lru_cache(maxsize=1)
def covid() -> Workload:
    """N = 128, every combination of one non-empty subset of the values of each attribute: 34,425 counts."""
    blocks = _blocks()
    shape = (2, 2, 4, 8)
    domain = Domain(shape)
    subsets = [[s for k in range(1, n + 1) for s in itertools.combinations(range(n), k)] for n in shape]
    one_hot = [np.array([[v in s for v in range(n)] for s in sets]) for n, sets in zip(shape, subsets, strict=True)]
    table = blocks.reshape(PARTITIONS, *shape)
    truths = np.einsum("tpgae,ip,jg,ka,le->ijklt", table, *(h.astype(np.int64) for h in one_hot), optimize=True)
    pool = [box_query(domain, box) for box in itertools.product(*subsets)]
    return Workload("covid", domain, [BLOCK] * PARTITIONS, pool, truths.reshape(len(pool), PARTITIONS), blocks)


@lru_cache(maxsize=1)
def citibike(rides: int = 21_096_261) -> Workload:
    """N = 604,800, the cells of 30 group-bys: 2,485 counts. The table is made once, and kept under build/bench."""
    maker = _module("generate_citibike_like")
    path = CACHE / f"citibike_{rides}.npz"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        size = int(np.prod(maker.SHAPE))
        weeks = [
            np.bincount(np.ravel_multi_index(t.T, maker.SHAPE), minlength=size) for _, t in maker.weeks(rides, 2018)
        ]
        np.savez_compressed(path, counts=np.array(weeks, np.int32))
    counts = np.load(path)["counts"]
    names, domain = list(maker.NAMES), Domain(tuple(maker.SHAPE))
    table = counts.reshape(PARTITIONS, *domain.sizes)
    pool, truths = [], []
    for group in GROUP_BYS.replace("\n", " ").split(";"):
        keys = sorted(names.index(name) for name in group.split())
        others = tuple(i + 1 for i in range(len(names)) if i not in keys)
        cells = table.sum(axis=others, dtype=np.int64).reshape(PARTITIONS, -1)
        truths.append(cells.T)
        for cell in itertools.product(*(range(domain.sizes[k]) for k in keys)):
            chosen = dict(zip(keys, cell, strict=True))
            pool.append(box_query(domain, [[chosen[i]] if i in chosen else None for i in range(len(names))]))
    scales = counts.sum(axis=1, dtype=np.int64).tolist()
    return Workload("citibike", domain, scales, pool, np.concatenate(truths), counts)


def merged(load: Workload, partitions: int) -> Workload:
    """The first partitions as one table."""
    first = slice(0, partitions)
    return Workload(
        load.name,
        load.domain,
        [sum(load.scales[first])],
        load.pool,
        load.truths[:, first].sum(axis=1, keepdims=True),
        load.counts[first].sum(axis=0, dtype=np.int64)[None],
    )


def picks(pool: int, count: int, skew: float, seed: int) -> Array:
    """Indices of `count` queries, Pr[x] proportional to x^-skew over the pool in an order drawn at random."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1.0, pool + 1) ** -skew
    return rng.permutation(pool)[rng.choice(pool, count, p=weights / weights.sum())]
