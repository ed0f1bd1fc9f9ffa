"""Privacy filters over an account tree: may this charge be paid, and what is spent afterwards (composition.md §3).

    root ── one node per protected relation ── one leaf per declared partition       (row units)
    root                                                                             (user units)

What a unit has lost is at most root + relation + leaf, for the leaf that its row is in. A charge on partitions goes to
their leaves, a charge on one relation (row units) to that relation's node, any other to the root. A filter therefore
looks at every leaf below the charged nodes, and at one leaf in each relation, and in one relation, of which nothing is
recorded yet (they exist, spent 0). An allotment of a role is another tree with another cap; both must allow (§3.6).

Nothing here reads or locks anything: the caller loads the tree, asks `decide`, and stores `Decision.updates`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache

from pg_epsilon.accounting.charges import Charge, add, total_delta, total_pure, total_rdp
from pg_epsilon.accounting.curves import pure_to_rdp, renyi_cap, round_down

Node = tuple[str, ...]
"""An account: () is the root, (relation,) a relation's node, (relation, leaf) a leaf."""

_NEW = "\x00new"  # stands for what has no record yet; no key contains a NUL, PostgreSQL's text cannot


@dataclass(frozen=True)
class Spent:
    """Totals of one account. pure: epsilon, delta. renyi: delta, and rdp at every order of the dataset's grid A."""

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)
    rdp: tuple[Decimal, ...] = ()

    def __add__(self, other: Spent) -> Spent:
        """Exact. An empty rdp is zero at every order."""
        rdp = tuple(add(pair) for pair in zip(self.rdp, other.rdp, strict=True)) if self.rdp and other.rdp else ()
        return Spent(add((self.epsilon, other.epsilon)), add((self.delta, other.delta)), rdp or self.rdp or other.rdp)

    def __neg__(self) -> Spent:
        """Of what is given back."""
        return Spent(-self.epsilon, -self.delta, tuple(-r for r in self.rdp))


ZERO = Spent()
_SHOWN = Context(prec=6, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class Root:
    """The whole dataset: everything below the root, present and future."""


@dataclass(frozen=True)
class Relation:
    """One protected relation of a dataset whose unit is a row."""

    relation: str


@dataclass(frozen=True)
class Leaves:
    """Declared partitions of one relation of a dataset whose unit is a row, by the keys of their bounds (§3.2)."""

    relation: str
    leaves: frozenset[str]

    def __post_init__(self) -> None:
        if not self.leaves:
            raise ValueError("a charge on partitions names at least one")


Scope = Root | Relation | Leaves


@dataclass(frozen=True)
class Tree:
    """What is spent, per account. Accounts that are not in the mappings have spent nothing."""

    root: Spent = ZERO
    relations: Mapping[str, Spent] = field(default_factory=dict)
    leaves: Mapping[tuple[str, str], Spent] = field(default_factory=dict)

    def spent(self, node: Node) -> Spent:
        if not node:
            return self.root
        if len(node) == 1:
            return self.relations.get(node[0], ZERO)
        return self.leaves.get((node[0], node[1]), ZERO)

    def total(self, leaf: tuple[str, str]) -> Spent:
        """What a unit of this leaf has lost at most: root + relation + leaf."""
        return self.root + self.relations.get(leaf[0], ZERO) + self.leaves.get(leaf, ZERO)

    def with_updates(self, updates: Mapping[Node, Spent]) -> Tree:
        """The tree after `Decision.updates` were stored."""
        return Tree(
            updates.get((), self.root),
            {**self.relations, **{node[0]: spent for node, spent in updates.items() if len(node) == 1}},
            {**self.leaves, **{(node[0], node[1]): spent for node, spent in updates.items() if len(node) == 2}},
        )


@dataclass(frozen=True)
class PureCap:
    """Sum of epsilon <= epsilon and sum of delta <= delta, on every leaf (§3.3): the guarantee is (epsilon, delta)."""

    epsilon: Decimal
    delta: Decimal = Decimal(0)

    def amount(self, charges: Iterable[Charge]) -> Spent:
        """What the charges add to each node they go to; DP005 for a charge without a pure cost."""
        return Spent(*total_pure(charges))

    def allows(self, total: Spent) -> bool:
        return total.epsilon <= self.epsilon and total.delta <= self.delta

    def fraction(self, total: Spent) -> Decimal:
        """The part of epsilon that is spent."""
        return _ratio(total.epsilon, self.epsilon)

    def largest_epsilon(self, total: Spent) -> Decimal:
        """The largest epsilon that one more charge without delta may have; exact."""
        return max(Decimal(0), add((self.epsilon, -total.epsilon)))


@dataclass(frozen=True)
class RenyiCap:
    """On every leaf: the curve is at most its cap at one order or more, and sum of delta <= delta (§3.4).

    The guarantee is (epsilon_G, delta_R + delta_A), adaptive and concurrent. orders: the dataset's grid A; caps: cap(a)
    of each of its orders, None for those outside A+; delta: delta_A, what delta-thresholding may use.
    """

    orders: tuple[Decimal, ...]
    caps: tuple[Decimal | None, ...]
    delta: Decimal = Decimal(0)

    @staticmethod
    @lru_cache(maxsize=64)
    def of(epsilon: Decimal, delta_r: Decimal, delta_a: Decimal, orders: tuple[Decimal, ...]) -> RenyiCap:
        """The cap of a dataset or allotment (epsilon, delta_r + delta_a) on the grid; DP005 as `renyi_cap`."""
        caps = renyi_cap(epsilon, delta_r, orders)
        return RenyiCap(orders, tuple(caps.get(order) for order in orders), delta_a)

    def amount(self, charges: Iterable[Charge]) -> Spent:
        """What the charges add to each node they go to: their curves at every order of the grid, and their deltas."""
        charges = tuple(charges)
        return Spent(Decimal(0), total_delta(charges), total_rdp(charges, self.orders))

    def allows(self, total: Spent) -> bool:
        return total.delta <= self.delta and any(r <= cap for _, r, cap in self._kept(total))

    def fraction(self, total: Spent) -> Decimal:
        """The least part of its cap that is spent at any order of A+."""
        return min(_ratio(r, cap) for _, r, cap in self._kept(total))

    def largest_epsilon(self, total: Spent) -> Decimal:
        """An epsilon that one more charge of kind laplace may have: the largest, to 6 digits, and never more.

        P has no inverse in closed form: bisection in doubles, then the exact curve decides and lowers the figure.
        """
        best = max((_inverse(float(add((cap, -r))), float(a)) for a, r, cap in self._kept(total)), default=0.0)
        shown, step = round_down(_SHOWN.create_decimal_from_float(best)), Decimal("0.00001")
        while shown > 0 and not any(add((r, pure_to_rdp(shown, a))) <= cap for a, r, cap in self._kept(total)):
            shown, step = round_down(_SHOWN.multiply(shown, 1 - step)), min(Decimal(1), 2 * step)
        return shown

    def _kept(self, total: Spent) -> Iterator[tuple[Decimal, Decimal, Decimal]]:
        """(order, spent, cap) for the orders of A+."""
        curve = total.rdp or (Decimal(0),) * len(self.orders)
        for order, spent, cap in zip(self.orders, curve, self.caps, strict=True):
            if cap is not None:
                yield order, spent, cap


Cap = PureCap | RenyiCap


@dataclass(frozen=True)
class Decision:
    """allowed; if so `updates`: the new totals of exactly the accounts that pay. If not, nothing changes."""

    allowed: bool
    updates: Mapping[Node, Spent] = field(default_factory=dict)


@dataclass(frozen=True)
class Remaining:
    """What is left for a scope. All figures are of its most spent leaf.

    epsilon: the largest epsilon of one further Laplace charge (renyi: to 6 digits, never too much); delta: what is left
    of delta (renyi: of delta_A); used: the part of the budget that is spent, 0 to 1 (renyi: at the least spent order).
    """

    epsilon: Decimal
    delta: Decimal
    used: Decimal


def decide(cap: Cap, tree: Tree, scope: Scope, charges: Iterable[Charge]) -> Decision:
    """May `charges` (together, all or nothing) be paid by `scope`?

    Allowed iff the cap allows total + amount at every leaf at or below the scope, present and future. Then the amount
    is added once to each node that the scope names: one leaf each, one relation node, or the root. No charges cost
    nothing and are always allowed (a cache hit is free at an exhausted budget too, §7.1).
    DP005 for a charge that the accountant has no cost for; a refusal is a Decision, its text (DP001) is made elsewhere.
    """
    charges = tuple(charges)
    if not charges:
        return Decision(True)
    amount = cap.amount(charges)
    if not all(cap.allows(tree.total(leaf) + amount) for leaf in leaves_below(tree, scope)):
        return Decision(False)
    return Decision(True, {node: tree.spent(node) + amount for node in nodes(scope)})


def remaining(cap: Cap, tree: Tree, scope: Scope = Root()) -> Remaining:
    """What one further charge on `scope` may cost at most, and how much of the budget is used there."""
    totals = {tree.total(leaf) for leaf in leaves_below(tree, scope)}  # most leaves of a view are alike
    return Remaining(
        _plain(min(cap.largest_epsilon(total) for total in totals)),
        _plain(max(Decimal(0), min(add((cap.delta, -total.delta)) for total in totals))),
        _plain(max(cap.fraction(total) for total in totals)),
    )


def nodes(scope: Scope) -> tuple[Node, ...]:
    """The accounts that a charge on the scope is added to; sorted, so that they are always locked in one order."""
    if isinstance(scope, Leaves):
        return tuple((scope.relation, leaf) for leaf in sorted(scope.leaves))
    return ((scope.relation,),) if isinstance(scope, Relation) else ((),)


def leaves_below(tree: Tree, scope: Scope) -> Iterator[tuple[str, str]]:
    """Every leaf whose total a charge on the scope moves: those recorded, and one unrecorded for each node."""
    if isinstance(scope, Leaves):
        yield from ((scope.relation, leaf) for leaf in sorted(scope.leaves))
        return
    yield from (key for key in tree.leaves if isinstance(scope, Root) or key[0] == scope.relation)
    if isinstance(scope, Relation):
        yield scope.relation, _NEW
        return
    yield from ((relation, _NEW) for relation in {*tree.relations, *(key[0] for key in tree.leaves), _NEW})


def _plain(value: Decimal) -> Decimal:
    """The same number without trailing zeros (and 0 as 0)."""
    return value.normalize(Context(prec=60)) if value else Decimal(0)


def _ratio(spent: Decimal, cap: Decimal) -> Decimal:
    return Context(prec=6).divide(spent, cap) if cap else Decimal(1)


def _inverse(slack: float, order: float) -> float:
    """epsilon with P(epsilon, order) = slack, in doubles (slack <= 0: 0)."""
    if slack <= 0:
        return 0.0

    def curve(epsilon: float) -> float:
        if order * epsilon < 1:
            half = epsilon / 2
            ratio = 2 * math.sinh(order * half) * math.sinh((order - 1) * half) / math.cosh(half)
            return math.log1p(ratio) / (order - 1)
        excess = math.log1p(math.exp(-(2 * order - 1) * epsilon)) - math.log1p(math.exp(-epsilon))
        return epsilon + excess / (order - 1)

    low, high = slack, slack + math.log(2) / (order - 1)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) < slack else (low, middle)
    return min(low, 1000.0)
