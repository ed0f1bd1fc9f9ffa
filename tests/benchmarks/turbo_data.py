"""The two workloads of the Turbo paper: tables as counts per bin, pools of queries, and their exact answers."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
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
    """scales: rows per partition, public here. pool: the queries. counts: [partition, bin]. truths: [query, partition].

    answer: counts → truths, for any table.
    """

    name: str
    domain: Domain
    scales: list[int]
    pool: list[Query]
    counts: Array
    truths: Array
    answer: Callable[[Array], Array]


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
    shape = (2, 2, 4, 8)
    domain = Domain(shape)
    subsets = [[s for k in range(1, n + 1) for s in itertools.combinations(range(n), k)] for n in shape]
    sets = zip(shape, subsets, strict=True)
    chosen = [np.array([[v in s for v in range(n)] for s in each], np.int64) for n, each in sets]

    def answer(counts: Array) -> Array:
        table = counts.reshape(-1, *shape)
        return np.einsum("tpgae,ip,jg,ka,le->ijklt", table, *chosen, optimize=True).reshape(-1, len(table))

    blocks = _blocks()
    pool = [box_query(domain, box) for box in itertools.product(*subsets)]
    return Workload("covid", domain, [BLOCK] * PARTITIONS, pool, blocks, answer(blocks), answer)


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
    groups = [sorted(names.index(n) for n in group.split()) for group in GROUP_BYS.replace("\n", " ").split(";")]

    def answer(counts: Array) -> Array:
        table = counts.reshape(-1, *domain.sizes)
        others = [tuple(i + 1 for i in range(len(names)) if i not in keys) for keys in groups]
        return np.concatenate(
            [table.sum(axis=axes, dtype=np.int64).reshape(len(table), -1) for axes in others], axis=1
        ).T

    pool = []
    for keys in groups:
        for cell in itertools.product(*(range(domain.sizes[k]) for k in keys)):
            values = dict(zip(keys, cell, strict=True))
            pool.append(box_query(domain, [[values[i]] if i in values else None for i in range(len(names))]))
    scales = counts.sum(axis=1, dtype=np.int64).tolist()
    return Workload("citibike", domain, scales, pool, counts, answer(counts), answer)


def merged(load: Workload, partitions: int) -> Workload:
    """The first partitions as one table."""
    counts = load.counts[:partitions].sum(axis=0, dtype=np.int64)[None]
    truths = load.truths[:, :partitions].sum(axis=1, keepdims=True)
    return replace(load, scales=[sum(load.scales[:partitions])], counts=counts, truths=truths)


def conjunctions(data: str, count: int, seed: int = 5) -> Workload:
    """The CitiBike grid as one table; questions are 1 to 3 conditions "attribute in a random half of its values".

    data: "citibike" as it is; "product": its attributes independent; "uniform": every bin alike.
    """
    base = merged(citibike(), PARTITIONS)
    domain, counts, rng = base.domain, base.counts[0], np.random.default_rng(seed)
    share = np.ones(1)
    for axis, size in enumerate(domain.sizes):
        others = tuple(i for i in range(len(domain.sizes)) if i != axis)
        own = counts.reshape(domain.sizes).sum(axis=others) if data == "product" else np.ones(size)
        share = np.outer(share, own / own.sum()).ravel()
    if data != "citibike":
        counts = rng.multinomial(base.scales[0], share)
    pool = []
    for _ in range(count):
        box: list[list[int] | None] = [None] * len(domain.sizes)
        for axis in rng.permutation(len(box))[: rng.integers(1, 4)]:
            inside = np.zeros(1)
            while inside.all() or not inside.any():
                inside = rng.random(domain.sizes[axis]) < 0.5
            box[axis] = np.flatnonzero(inside).tolist()
        pool.append(box_query(domain, box))

    def answer(tables: Array) -> Array:
        return np.array([[query.total(table) for table in tables] for query in pool])

    return Workload(data, domain, base.scales, pool, counts[None], answer(counts[None]), answer)


def picks(pool: int, count: int, skew: float, seed: int) -> Array:
    """Indices of `count` queries, Pr[x] proportional to x^-skew over the pool in an order drawn at random."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1.0, pool + 1) ** -skew
    return rng.permutation(pool)[rng.choice(pool, count, p=weights / weights.sum())]
