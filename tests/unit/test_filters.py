"""Filters over the account tree: brute force over leaves, caps that hold in any sequence, and what is left."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.curves import DEFAULT_ORDERS, renyi_cap
from pg_epsilon.accounting.filters import (
    Cap,
    Leaves,
    PureCap,
    Relation,
    Remaining,
    RenyiCap,
    Root,
    Scope,
    Spent,
    Tree,
    decide,
    remaining,
)
from pg_epsilon.errors import DPError

SOME = settings(database=None, deadline=None, max_examples=60)
ORDERS = (Decimal(8), Decimal(32), Decimal(128))
RELATIONS = ("r", "s")
LEAVES = ("1", "2", "rest")
UNTOUCHED = "untouched"


def laplace(epsilon: str) -> Charge:
    return Charge.of("laplace", epsilon=Decimal(epsilon))


def pay(cap: Cap, tree: Tree, scope: Scope, *charges: Charge) -> Tree:
    decision = decide(cap, tree, scope, charges)
    assert decision.allowed
    return tree.with_updates(decision.updates)


def refused(cap: Cap, tree: Tree, scope: Scope, *charges: Charge) -> bool:
    decision = decide(cap, tree, scope, charges)
    assert decision.allowed or not decision.updates
    return not decision.allowed


scopes: st.SearchStrategy[Scope] = st.one_of(
    st.just(Root()),
    st.builds(Relation, st.sampled_from(RELATIONS)),
    st.builds(Leaves, st.sampled_from(RELATIONS), st.frozensets(st.sampled_from(LEAVES), min_size=1)),
)
amounts = st.integers(1, 6).map(lambda tenth: Charge.of("laplace", epsilon=Decimal(tenth) / 10))
mixed = st.one_of(
    amounts,
    st.integers(1, 40).map(lambda n: Charge.of("gaussian", rho=Decimal(n) / 1000)),
    st.integers(1, 9).map(lambda n: Charge.of("import", epsilon=Decimal(n) / 10, delta=Decimal(n) / 10**7)),
)


class BruteForce:
    """Every unit's account kept on its own: one per (relation, leaf), and what each charge adds to each of them."""

    def __init__(self, cap: Cap) -> None:
        self.cap = cap
        self.units = {(r, leaf): Spent() for r in (*RELATIONS, UNTOUCHED) for leaf in (*LEAVES, UNTOUCHED)}

    def touched(self, scope: Scope) -> list[tuple[str, str]]:
        if isinstance(scope, Root):
            return list(self.units)
        if isinstance(scope, Relation):
            return [unit for unit in self.units if unit[0] == scope.relation]
        return [(scope.relation, leaf) for leaf in scope.leaves]

    def pay(self, scope: Scope, charge: Charge) -> bool:
        after = {unit: self.units[unit] + self.cap.amount([charge]) for unit in self.touched(scope)}
        if not all(self.cap.allows(spent) for spent in after.values()):
            return False
        self.units.update(after)
        return True


def assert_same_totals(tree: Tree, brute: BruteForce) -> None:
    for unit, spent in brute.units.items():
        total = tree.total(unit)
        assert (total.epsilon, total.delta) == (spent.epsilon, spent.delta)
        assert not any(total.rdp) if not any(spent.rdp) else total.rdp == spent.rdp


@SOME
@given(calls=st.lists(st.tuples(scopes, amounts), max_size=25))
def test_pure_tree_is_brute_force_over_units(calls: list[tuple[Scope, Charge]]) -> None:
    """Same decisions and same totals as one account per unit; no unit ever passes the cap."""
    cap, tree = PureCap(Decimal(2)), Tree()
    brute = BruteForce(cap)
    for scope, charge in calls:
        decision = decide(cap, tree, scope, [charge])
        assert decision.allowed == brute.pay(scope, charge)
        tree = tree.with_updates(decision.updates)
        assert_same_totals(tree, brute)
        assert all(spent.epsilon <= 2 for spent in brute.units.values())


@pytest.mark.long
@SOME
@given(calls=st.lists(st.tuples(scopes, mixed), max_size=25))
def test_renyi_tree_is_brute_force_over_units(calls: list[tuple[Scope, Charge]]) -> None:
    """Same, with curves: every unit stays below its cap at one order or more, and sum of delta <= delta_A."""
    cap, tree = RenyiCap.of(Decimal(2), Decimal("1e-6"), Decimal("1e-6"), ORDERS), Tree()
    caps = renyi_cap(Decimal(2), Decimal("1e-6"), ORDERS)
    brute = BruteForce(cap)
    for scope, charge in calls:
        decision = decide(cap, tree, scope, [charge])
        assert decision.allowed == brute.pay(scope, charge)
        tree = tree.with_updates(decision.updates)
        assert_same_totals(tree, brute)
        for spent in brute.units.values():
            assert spent.delta <= Decimal("1e-6")
            curve = dict(zip(ORDERS, spent.rdp, strict=True)) if spent.rdp else dict.fromkeys(ORDERS, Decimal(0))
            assert any(curve[order] <= caps[order] for order in caps)


def test_ten_tenths_fit_a_cap_of_one_and_nothing_after() -> None:
    cap, tree = PureCap(Decimal(1)), Tree()
    for _ in range(10):
        tree = pay(cap, tree, Root(), laplace("0.1"))
    assert tree.root.epsilon == 1
    assert refused(cap, tree, Root(), laplace("1e-18"))


@pytest.mark.parametrize("cap", [PureCap(Decimal(1)), RenyiCap((Decimal(8),), (Decimal("0.04"),))])
def test_a_ledger_at_its_limit_refuses_a_thousand_small_charges(cap: Cap) -> None:
    """No amount is small enough to be rounded away: filled to the last digit, 1,000 charges of 1e-14 are refused."""
    full = Spent(Decimal(1)) if isinstance(cap, PureCap) else Spent(rdp=(Decimal("0.04"),))
    assert cap.allows(full)
    for scope in (Root(), Relation("r"), Leaves("r", frozenset({"1"}))):
        for _ in range(334):
            assert refused(cap, Tree(full), scope, laplace("1e-14"))


def test_parallel_leaves_cost_their_maximum_and_not_their_sum() -> None:
    """Row units: a charge on three partitions and the same on three others cost one epsilon, not two."""
    cap = PureCap(Decimal(1))
    tree = pay(cap, Tree(), Leaves("r", frozenset({"1", "2", "3"})), laplace("1"))
    tree = pay(cap, tree, Leaves("r", frozenset({"4", "5"})), laplace("1"))
    tree = pay(cap, tree, Relation("s"), laplace("1"))
    assert refused(cap, tree, Leaves("r", frozenset({"5", "6"})), laplace("0.1"))  # one leaf of the two is full
    tree = pay(cap, tree, Leaves("r", frozenset({"6"})), laplace("0.1"))
    assert tree.root == Spent()
    assert refused(cap, tree, Root(), laplace("0.000000000000000001"))


def test_a_charge_on_the_root_reaches_leaves_that_do_not_exist_yet() -> None:
    cap = PureCap(Decimal(1))
    tree = pay(cap, Tree(), Root(), laplace("0.7"))
    for scope in (Relation("new"), Leaves("new", frozenset({"new"})), Leaves("r", frozenset({"1"}))):
        assert refused(cap, tree, scope, laplace("0.4"))
        assert not refused(cap, tree, scope, laplace("0.3"))


def test_a_relation_without_leaves_limits_the_root() -> None:
    """The untouched leaf of a relation counts: nothing is recorded of it, and its unit has paid root + relation."""
    cap = PureCap(Decimal(1))
    tree = pay(cap, Tree(), Relation("r"), laplace("0.9"))
    assert refused(cap, tree, Root(), laplace("0.2"))
    assert refused(cap, tree, Leaves("r", frozenset({"1"})), laplace("0.2"))
    assert not refused(cap, tree, Relation("s"), laplace("1"))
    assert not refused(cap, tree, Root(), laplace("0.1"))


def test_all_charges_of_a_call_or_none() -> None:
    cap = PureCap(Decimal(1))
    assert refused(cap, Tree(), Root(), laplace("0.6"), laplace("0.6"))
    assert pay(cap, Tree(), Root(), laplace("0.6"), laplace("0.4")).root.epsilon == 1


def test_nothing_to_pay_is_always_allowed() -> None:
    """composition.md §7.1: a hit is free, also at an exhausted budget."""
    assert decide(PureCap(Decimal(1)), Tree(Spent(Decimal(2))), Root(), []).allowed


def test_a_gaussian_on_a_pure_tree_is_dp005() -> None:
    with pytest.raises(DPError) as wrong:
        decide(PureCap(Decimal(1)), Tree(), Root(), [Charge.of("gaussian", rho=1)])
    assert wrong.value.sqlstate == "DP005"


def test_delta_is_a_cap_of_its_own() -> None:
    gift = Charge.of("import", epsilon=Decimal("0.1"), delta=Decimal("1e-7"))
    for cap in (
        PureCap(Decimal(9), Decimal("2e-7")),
        RenyiCap.of(Decimal(9), Decimal("1e-7"), Decimal("2e-7"), ORDERS),
    ):
        tree = pay(cap, pay(cap, Tree(), Root(), gift), Leaves("r", frozenset({"1"})), gift)
        assert refused(cap, tree, Leaves("r", frozenset({"1"})), gift)
        assert not refused(cap, tree, Leaves("r", frozenset({"2"})), gift)
        assert not refused(cap, tree, Root(), laplace("0.1"))
        assert remaining(cap, tree).delta == 0


def test_one_order_is_enough_and_it_may_change() -> None:
    """§3.4: every leaf needs some order of A+, not all leaves the same; orders outside A+ count for nothing."""
    cap = RenyiCap((Decimal(2), Decimal(8), Decimal(32)), (None, Decimal("0.5"), Decimal("1")))
    gaussian, pure = Charge.of("gaussian", rho=Decimal("0.06")), laplace("0.9")
    tree = pay(cap, Tree(), Leaves("r", frozenset({"1"})), gaussian)  # 0.48 at order 8, 1.92 at order 32
    tree = pay(cap, tree, Leaves("r", frozenset({"2"})), pure)  # order 8: 0.81, order 32: 0.88
    assert tree.total(("r", "1")).rdp[2] > 1
    assert tree.total(("r", "2")).rdp[1] > Decimal("0.5")
    assert refused(cap, tree, Root(), laplace("0.2"))
    assert not refused(cap, tree, Root(), laplace("0.01"))
    assert refused(RenyiCap(cap.orders, (None, None, Decimal(1))), tree, Root(), laplace("0.01"))


def test_renyi_allows_more_small_charges_than_pure() -> None:
    """epsilon 1, delta 1e-6 (half for the orders): hundreds of queries of 0.01 where the sum rule allows 100."""
    cap, tree, paid = RenyiCap.of(Decimal(1), Decimal("5e-7"), Decimal("5e-7"), DEFAULT_ORDERS), Tree(), 0
    while not refused(cap, tree, Root(), laplace("0.01")):
        tree, paid = pay(cap, tree, Root(), laplace("0.01")), paid + 1
    assert paid == 381


@SOME
@given(calls=st.lists(st.tuples(scopes, mixed), max_size=12), scope=scopes, renyi=st.booleans())
def test_what_is_left_can_be_paid_and_no_more(calls: list[tuple[Scope, Charge]], scope: Scope, renyi: bool) -> None:
    """remaining().epsilon is payable as one Laplace charge; 1e-5 more of it is not. `used` never falls."""
    cap: Cap = PureCap(Decimal(2), Decimal("1e-5"))
    if renyi:
        cap = RenyiCap.of(Decimal(2), Decimal("1e-6"), Decimal("1e-6"), ORDERS)
    tree, used = Tree(), Decimal(0)
    for where, charge in calls:
        if renyi or charge.kind != "gaussian":
            tree = tree.with_updates(decide(cap, tree, where, [charge]).updates)
            assert used <= remaining(cap, tree).used <= 1
            used = remaining(cap, tree).used
    left = remaining(cap, tree, scope)
    assert left.epsilon >= 0
    if left.epsilon > 0:
        assert not refused(cap, tree, scope, Charge.of("laplace", epsilon=left.epsilon))
    more = left.epsilon * Decimal("1.00005") + Decimal("1e-8")
    assert refused(cap, tree, scope, Charge.of("laplace", epsilon=more))


def test_what_is_left_of_a_fresh_and_of_a_full_account() -> None:
    cap = PureCap(Decimal(1), Decimal("1e-6"))
    fresh, full = remaining(cap, Tree()), remaining(cap, Tree(Spent(Decimal(1), Decimal("1e-6"))))
    assert fresh == Remaining(Decimal(1), Decimal("1e-6"), Decimal(0))
    assert full == Remaining(Decimal(0), Decimal(0), Decimal(1))
    tree = pay(cap, Tree(), Leaves("r", frozenset({"1"})), laplace("0.25"))
    assert remaining(cap, tree).epsilon == Decimal("0.75")
    assert remaining(cap, tree, Leaves("r", frozenset({"2"}))).used == 0


def test_scopes_and_trees_refuse_nonsense() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Leaves("r", frozenset())
    with pytest.raises(ValueError, match="argument"):
        Spent(rdp=(Decimal(1),)) + Spent(rdp=(Decimal(1), Decimal(2)))


def test_updates_name_exactly_the_accounts_that_pay_in_one_order() -> None:
    """Sorted, so that concurrent charges lock accounts in the same order."""
    cap = PureCap(Decimal(1))
    leaves = decide(cap, Tree(), Leaves("r", frozenset({"b", "a", "c"})), [laplace("0.5")])
    assert list(leaves.updates) == [("r", "a"), ("r", "b"), ("r", "c")]
    assert {Fraction(spent.epsilon) for spent in leaves.updates.values()} == {Fraction(1, 2)}
    assert list(decide(cap, Tree(), Relation("r"), [laplace("0.5")]).updates) == [("r",)]
    assert list(decide(cap, Tree(), Root(), [laplace("0.5")]).updates) == [()]
