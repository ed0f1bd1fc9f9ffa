"""How large a join may get by what is declared: exact vectors, and true sizes of random databases below the bounds."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import pytest

from pg_epsilon.errors import DPError
from pg_epsilon.query.cover import cover
from pg_epsilon.query.extent import Member, join_of
from pg_epsilon.query.sizes import Bounds, Join, Limits, Table, check

WIDE = Limits(rows=10**9, bytes=10**11, memory=512_000_000, undeclared_rows=10**7)


def edges(rows: int, cap: int | None = None, *, key: bool = True) -> list[Member]:
    """Three copies of edge(a, b)."""
    caps = {} if cap is None else {"a": cap, "b": cap}
    return [Member(alias, "public.edge", rows, 8, (("a", "b"),) if key else (), caps) for alias in ("x", "y", "z")]


TRIANGLE = [(("x", "b"), ("y", "a")), (("y", "b"), ("z", "b")), (("x", "a"), ("z", "a"))]
PLACE = [(("x", "p"), ("y", "p")), (("y", "p"), ("z", "p"))]


def people(rows: int | None, cap: int | None = None) -> list[Member]:
    """Three copies of a table with a place."""
    return [Member(a, "public.t", rows, 8, (("id",),), {"p": cap} if cap else {}) for a in ("x", "y", "z")]


def whole(join: Join) -> int:
    return Bounds(join, WIDE.undeclared_rows).rows(frozenset(range(len(join.tables))))


@pytest.mark.parametrize(
    ("costs", "attributes", "expected"),
    [
        ([1, 1, 1], [{0, 1}, {1, 2}, {0, 2}], ["1/2", "1/2", "1/2"]),
        ([1, 1], [{0}, {1}], ["1", "1"]),
        ([3, 1], [{0, 1}], ["0", "1"]),
        ([1, 1, 1, 1], [{0, 1}, {1, 2}, {2, 3}, {3, 0}], None),
        ([2, 2, 2, 5], [{0, 3}, {1, 3}, {2, 3}], ["0", "0", "0", "1"]),
        ([1], [], ["0"]),
    ],
)
def test_covers(costs: list[int], attributes: list[set[int]], expected: list[str] | None) -> None:
    found = cover([Fraction(c) for c in costs], [frozenset(a) for a in attributes])
    assert all(sum(found[i] for i in attribute) >= 1 for attribute in attributes)
    assert all(weight >= 0 for weight in found)
    if expected is not None:
        assert found == [Fraction(text) for text in expected]
    else:
        assert sum(found) == 2


def test_covers_are_the_least_of_a_grid() -> None:
    """No cover by multiples of 1/6 is cheaper; least covers of four relations have such weights."""
    source = random.Random(3)
    for _ in range(40):
        costs = [Fraction(source.randint(1, 9)) for _ in range(3)]
        attributes = [frozenset(source.sample(range(3), source.randint(1, 3))) for _ in range(4)]
        found = sum(c * x for c, x in zip(costs, cover(costs, attributes), strict=True))
        grid = [
            sum(c * Fraction(x, 6) for c, x in zip(costs, xs, strict=True))
            for xs in product(range(7), repeat=3)
            if all(sum(xs[i] for i in a) >= 6 for a in attributes)
        ]
        assert found == min(grid)


def test_a_triangle_has_n_to_the_three_halves() -> None:
    assert whole(join_of(edges(10_000), TRIANGLE, [], [])) == 1_000_000
    assert whole(join_of(edges(10_000, cap=50), TRIANGLE, [], [])) == 500_000, "rows per value: N d"
    assert whole(join_of(edges(10_000, key=False), TRIANGLE, [], [])) == 10_000**3, "rows may repeat"


def test_three_copies_with_one_place() -> None:
    """Finding A2: a self-join multiplies, whatever max_rows of one relation says; a declared cap bounds it."""
    assert whole(join_of(people(300), PLACE, [], [])) == 300**3
    assert whole(join_of(people(300, cap=40), PLACE, [], [])) == 300 * 40 * 40
    assert whole(join_of(people(None, cap=40), PLACE, [], [])) == 10**7 * 1600


def test_a_constant_is_a_cap_on_each_copy_and_joins_nothing() -> None:
    fixed = join_of(people(300, cap=40), PLACE, [("x", "p")], [])
    assert whole(fixed) == 40**3
    assert whole(join_of(people(300), [], [(a, "id") for a in "xyz"], [])) == 1


def test_a_chain_of_keys_is_one_table_large() -> None:
    """items → orders → customers, whatever is undeclared."""
    members = [
        Member("i", "items", None, 8, (), {}),
        Member("o", "orders", None, 8, (("id",),), {}),
        Member("c", "customers", None, 8, (("id",),), {}),
    ]
    join = join_of(members, [(("i", "order_id"), ("o", "id")), (("o", "customer_id"), ("c", "id"))], [], [])
    assert whole(join) == WIDE.undeclared_rows
    assert list(join.subsets()) == [], "nothing multiplies: pendants"
    check(join, Limits(1000, 10**6, 10**6, 10**7), 0)


def test_subsets_are_those_that_conditions_connect() -> None:
    """x - y - z: x and z are joined by y alone; unless nothing connects z, which may then come first."""
    rows = people(10)
    path = join_of(rows, [(("x", "p"), ("y", "p"))], [], [frozenset("yz")])
    assert {frozenset(s) for s in path.subsets()} == {frozenset(s) for s in ({0, 1}, {1, 2}, {0, 1, 2})}
    apart = join_of(rows, [(("x", "p"), ("y", "p"))], [], [])
    assert len(list(apart.subsets())) == 4
    chained = join_of(rows, PLACE, [], [])
    assert len(list(chained.subsets())) == 4, "equalities chain: x and z are joined by them"


def copies(number: int, unique: str | None, cap: int | None = None) -> list[Member]:
    keys = ((unique,),) if unique else ()
    return [Member(f"t{i}", "public.t", 10**6, 8, keys, {"p": cap} if cap else {}) for i in range(number)]


def test_many_copies_joined_by_a_key_add_nothing() -> None:
    """However the equalities are written, and where each copy is one row: there is no set to look at."""
    chain = [((f"t{i}", "id"), (f"t{i + 1}", "id")) for i in range(15)]
    star = [(("t0", "id"), (f"t{i}", "id")) for i in range(1, 16)]
    for written in (chain, star):
        join = join_of(copies(16, "id"), written, [], [])
        assert len(join.core) == 1
        check(join, WIDE, 32)
    assert len(join_of(copies(16, "id"), [], [(f"t{i}", "id") for i in range(16)], []).core) == 1


def test_more_relations_than_can_be_looked_at_are_refused() -> None:
    written = [((f"t{i}", "p"), (f"t{i + 1}", "p")) for i in range(8)]
    with pytest.raises(DPError) as refusal:
        check(join_of(copies(9, "id", cap=1), written, [], []), WIDE, 0)
    assert refusal.value.sqlstate == "DP003"
    check(join_of(copies(8, "id", cap=1), written[:7], [], []), WIDE, 0)


def test_a_hub_that_both_sides_determine_is_no_spare() -> None:
    """a - hub - b by different keys of the hub: without the hub a and b would fall apart, and with it multiply."""
    members = [
        Member("a", "public.a", 10**6, 8, (), {}),
        Member("hub", "public.hub", 10**6, 8, (("x",), ("y",)), {}),
        Member("b", "public.b", 10**6, 8, (), {}),
    ]
    join = join_of(members, [(("a", "x"), ("hub", "x")), (("b", "y"), ("hub", "y"))], [], [])
    assert len(join.core) == 3
    with pytest.raises(DPError):
        check(join, WIDE, 0)


@pytest.mark.parametrize(
    ("join", "limits", "collected", "words", "hint"),
    [
        (join_of(people(10**5), PLACE, [], []), WIDE, 0, "10,000,000,000 rows", "'public.t', 'p', max_rows_per_value"),
        (join_of(people(300), PLACE, [], []), WIDE, 32, "864,000,000 bytes", "smaller max_rows"),
        (join_of(people(195), PLACE, [], []), WIDE, 64, "474,552,000 bytes", "memory => 949104000"),
        (join_of(people(10**3), PLACE[:1], [], []), Limits(10**9, 10**6, 10**6, 1), 0, "bytes", "bytes => "),
        (join_of(people(10**5, 10**5), PLACE, [], []), WIDE, 0, "rows", "Join them by ="),
    ],
)
def test_refusals_name_the_bound_and_what_to_declare(
    join: Join, limits: Limits, collected: int, words: str, hint: str
) -> None:
    with pytest.raises(DPError) as refusal:
        check(join, limits, collected)
    assert refusal.value.sqlstate == "DP004"
    assert words in refusal.value.message
    assert hint in (refusal.value.hint or "")


def test_what_fits_is_let_through() -> None:
    check(join_of(people(300, cap=40), PLACE, [], []), WIDE, 32)
    check(join_of(edges(10_000), TRIANGLE, [], []), WIDE, 32)


Rows = list[tuple[int, ...]]


def _database(source: random.Random) -> tuple[list[Table], list[Rows], frozenset[int]]:
    """Random relations over up to four attributes, with what is true of them declared."""
    tables, data = [], []
    fixed = frozenset([3]) if source.random() < 0.3 else frozenset()
    for _ in range(source.randint(2, 4)):
        classes = sorted(source.sample(range(4), source.randint(1, 3)))
        high = source.choice([1, 2, 4])
        rows = [tuple(source.randint(0, high) for _ in classes) for _ in range(source.randint(0, 9))]
        if source.random() < 0.5:
            rows = sorted(set(rows))
        columns = {f"c{c}": c for c in classes}
        keys = [
            frozenset(some)
            for size in range(1, len(classes) + 1)
            for some in combinations(classes, size)
            if len({tuple(row[classes.index(c)] for c in some) for row in rows}) == len(rows)
        ]
        shown = tuple(key for key in keys if source.random() < 0.6)
        caps = {
            c: max(Counter(row[i] for row in rows).values(), default=1)
            for i, c in enumerate(classes)
            if source.random() < 0.5
        }
        tables.append(Table("t", max(1, len(rows)), 8, columns, shown, caps))
        data.append(rows)
    return tables, data, fixed


def _true_size(tables: list[Table], data: list[Rows], fixed: frozenset[int], subset: frozenset[int]) -> int:
    """Rows of the join of a subset: rows that agree on every class, 0 in the constant ones."""
    found: Counter[tuple[tuple[int, int], ...]] = Counter({(): 1})
    for i in sorted(subset):
        order = list(tables[i].columns.values())
        more: Counter[tuple[tuple[int, int], ...]] = Counter()
        for known, times in found.items():
            for row in data[i]:
                values = dict(known)
                if all(
                    values.setdefault(c, v) == v and (c not in fixed or v == 0) for c, v in zip(order, row, strict=True)
                ):
                    more[tuple(sorted(values.items()))] += times
        found = more
    return sum(found.values())


def _worst(seeds: range, *, broken: bool = False) -> int:
    """How many sub-joins of random databases are larger than their bound."""
    wrong = 0
    for seed in seeds:
        tables, data, fixed = _database(random.Random(seed))
        whole = frozenset(range(len(tables)))
        if not broken:
            core = Join(tuple(tables), (), fixed).core
            wrong += _true_size(tables, data, fixed, whole) > Bounds(Join(tuple(tables), (), fixed), 1).rows(core)
        shown = [Table(t.name, t.rows, 8, t.columns, (frozenset(),), t.caps) for t in tables] if broken else tables
        bounds = Bounds(Join(tuple(shown), (), fixed), 1)
        for size in range(1, len(tables) + 1):
            for some in combinations(range(len(tables)), size):
                subset = frozenset(some)
                wrong += _true_size(tables, data, fixed, subset) > bounds.rows(subset)
                if bounds.is_linear(subset) and not broken:
                    wrong += _true_size(tables, data, fixed, subset) > max(len(data[i]) for i in subset)
    return wrong


def test_true_sizes_are_below_the_bounds() -> None:
    """Brute force: every sub-join of databases that keep their declarations; no bound is passed."""
    assert _worst(range(120)) == 0


def test_a_bound_that_takes_a_key_for_granted_is_caught() -> None:
    """Control: relations without that key pass such bounds."""
    assert _worst(range(40), broken=True) > 0
