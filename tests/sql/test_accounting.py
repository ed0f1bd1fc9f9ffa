"""Caps, account trees, budgets and native charges on the installed extension (composition.md §3, §4, §14.3)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import rdp_privacy_accountant

from fix_cluster import Cluster, standard_cluster
from fix_ledger import account, balanced, count, make, no_charge, one, refused, spent
from pg_epsilon.accounting.curves import DEFAULT_ORDERS, gaussian_to_rdp, pure_to_rdp, renyi_cap


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


def test_ten_tenths_are_one(cluster: Cluster) -> None:
    make(cluster, "tenths")
    with cluster.connect("alice") as alice:
        for _ in range(10):
            count(alice, table="tenths", epsilon=0.1)
        with no_charge(cluster), refused("DP001", "0 is left"):
            count(alice, table="tenths", epsilon=0.1)
        with no_charge(cluster), refused("DP001"):
            count(alice, table="tenths", epsilon=1e-14)
    assert spent(cluster, "tenths") == 1


def test_an_allotment_is_a_second_tree_and_both_must_allow(cluster: Cluster) -> None:
    make(cluster, "shared", allot="0.6")
    cluster.psql("CALL dp.allot('bob', 'shared', epsilon => 0.9)", user="boss")
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob:
        count(alice, table="shared", epsilon=0.5)
        with no_charge(cluster), refused("DP001", "your allotment"):
            count(alice, table="shared", epsilon=0.2)
        count(bob, table="shared", epsilon=0.4)
        with no_charge(cluster), refused("DP001", "the budget of dataset shared"):
            count(bob, table="shared", epsilon=0.2)
        count(alice, table="shared", epsilon=0.1)
        with no_charge(cluster), refused("DP001"):
            count(bob, table="shared", epsilon=1e-9)
    assert (spent(cluster, "shared"), spent(cluster, "shared", "alice")) == (Decimal(1), Decimal("0.6"))
    assert spent(cluster, "shared", "bob") == Decimal("0.4")


def test_relations_of_a_row_unit_dataset_are_parallel(cluster: Cluster) -> None:
    """A row is in one relation: each relation's node may take the whole cap (§3.1)."""
    make(cluster, "left_")
    cluster.psql(
        "CREATE TABLE right_ (id int PRIMARY KEY); CALL dp.protect('right_', 'left_'); CALL dp.publish('right_')",
        user="boss",
    )
    with cluster.connect("alice") as alice:
        for table in ("left_", "right_"):
            count(alice, table=table, epsilon=1)
            with refused("DP001"):
                count(alice, table=table, epsilon=0.001)
    assert account(cluster, "left_") == {"relation/public.left_": 1, "relation/public.right_": 1}
    assert account(cluster, "left_", "alice") == account(cluster, "left_")


def test_user_units_have_the_root_alone(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice:
        count(alice, table="orders", epsilon=0.25)
        count(alice, table="items", epsilon=0.25)
    assert account(cluster, "shop") == {"root": Decimal("0.5")}


def test_a_block_is_charged_once_and_shared_by_its_aggregates(cluster: Cluster) -> None:
    before = spent(cluster)
    with cluster.connect("alice") as alice:
        alice.execute("SELECT * FROM dp.dp_group_by('people', '{sex,city}', epsilon => 0.3, fresh => true)").fetchall()
        two = "'{count(*), count(income)}', epsilon => 0.2, fresh => true"
        alice.execute(f"SELECT * FROM dp.dp_group_by('people', '{{sex}}', {two})").fetchall()
    assert spent(cluster) - before == Decimal("0.5")
    with cluster.connect() as conn:
        found = conn.execute("SELECT charge FROM dp.ledger ORDER BY seq DESC LIMIT 2").fetchall()
    assert [[c["epsilon"] for c in row[0]] for row in found] == [["0.1", "0.1"], ["0.3"]]


# budgets ---------------------------------------------------------------------------------------------------------


def test_budget_defaults(cluster: Cluster) -> None:
    """The function's argument, else dp.epsilon, else the dataset's default, else DP005 (§14.3)."""
    make(cluster, "undefaulted")
    with cluster.connect("alice") as alice:
        before = spent(cluster)
        alice.execute("SELECT dp.dp_count('people', fresh => true)")
        assert spent(cluster) - before == Decimal("0.1")
        alice.execute("SET dp.epsilon = '0.03'")
        alice.execute("SELECT dp.dp_count('people', fresh => true)")
        assert spent(cluster) - before == Decimal("0.13")
        count(alice, epsilon=0.02)
        assert spent(cluster) - before == Decimal("0.15")
        alice.execute("RESET dp.epsilon")
        with no_charge(cluster), refused("DP005", "how much"):
            alice.execute("SELECT dp.dp_count('undefaulted')")


BAD_BUDGETS = {
    "two kinds": ("epsilon => 0.1, rho => 0.1", "DP005"),
    "epsilon and accuracy": ("epsilon => 0.1, alpha => 0.1, beta => 0.1", "DP005"),
    "alpha alone": ("alpha => 0.1", "DP005"),
    "zero": ("epsilon => 0", "DP005"),
    "negative": ("epsilon => -1", "DP005"),
    "NaN": ("epsilon => 'NaN'", "DP005"),
    "infinite": ("epsilon => 'Infinity'", "DP005"),
    "below the grain": ("epsilon => 1e-19", "DP005"),
    "too large": ("epsilon => 1001", "DP005"),
    "beta of one": ("alpha => 0.1, beta => 1", "DP005"),
    "rho on a pure dataset": ("rho => 0.1", "DP005"),
    "mechanism and budget": ("epsilon => 0.1, mechanism => 'gaussian'", "DP005"),
    "unknown mechanism": ("epsilon => 0.1, mechanism => 'magic'", "DP005"),
    "unknown column": ("predicate => 'nothing = 1'", "42703"),
    "undeclared column": ("predicate => 'score > 1'", "DP004"),
    "raising predicate": ("predicate => '1 / (age - 37) > 0'", "DP003"),
    "no count": ("what => 'users'", "DP005"),
    "units of rows": ("what => 'units', epsilon => 0.1", "DP003"),
    "exhausted": ("epsilon => 900", "DP001"),
}


@pytest.mark.parametrize("name", BAD_BUDGETS)
def test_a_refusal_before_the_read_charges_nothing(cluster: Cluster, name: str) -> None:
    arguments, state = BAD_BUDGETS[name]
    with cluster.connect("alice") as alice, no_charge(cluster), refused(state):
        alice.execute(f"SELECT dp.dp_count('people', fresh => true, {arguments})")


def test_settings_of_two_kinds_are_refused(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice, no_charge(cluster):
        alice.execute("SET dp.epsilon = 0.1; SET dp.rho = 0.1")
        with refused("DP005", "two kinds"):
            alice.execute("SELECT dp.dp_count('people', fresh => true)")
        alice.execute("RESET dp.rho; SET dp.epsilon = 'much'")
        with refused("DP005"):
            alice.execute("SELECT dp.dp_count('people', fresh => true)")
        alice.execute("SET dp.epsilon = 0.1; SET dp.notices = 'perhaps'")
        with refused("DP005", "dp.notices"):
            alice.execute("SELECT dp.dp_count('people', fresh => true)")


def test_privilege_refusals_charge_nothing(cluster: Cluster) -> None:
    make(cluster, "closed", allot="0")
    cluster.psql("CREATE TABLE secret (id int)", user="boss")
    with cluster.connect("bob") as bob, no_charge(cluster):
        for table, state in (("secret", "42501"), ("closed", "42501"), ("orders", "42501"), ("pg_class", "42501")):
            with refused(state):
                count(bob, table=table)
        with refused("42501", "no allotment"):
            bob.execute("SELECT dp.dp_budget_left('closed')")
        with refused("42501", "no allotment"):
            bob.execute("SELECT dp.dp_budget_left('there is none')")
    with cluster.connect("alice") as alice, no_charge(cluster), refused("DP001", "your allotment"):
        count(alice, table="closed")
    with cluster.connect("boss") as boss, no_charge(cluster), refused("42501", hint=False):
        count(boss)


def test_accuracy_buys_the_epsilon_it_needs(cluster: Cluster) -> None:
    """alpha is a fraction of the declared scale: |error| ≤ 0.05 · 1000 with probability 0.95 (§14.3)."""
    with cluster.connect("alice") as alice, cluster.connect() as root:
        before = spent(cluster)
        alice.execute("SELECT dp.dp_count('people', alpha => 0.05, beta => 0.05, fresh => true)")
        paid = spent(cluster) - before
        assert Decimal("0.05") < paid < Decimal("0.07")
        charge = one(root, "SELECT charge FROM dp.ledger ORDER BY seq DESC LIMIT 1")
        assert [c["kind"] for c in charge] == ["laplace"]
        with no_charge(cluster), refused("DP004", "scale"):
            alice.execute("SELECT dp.dp_count('orders', alpha => 0.05, beta => 0.05, what => 'units')")


# Rényi -----------------------------------------------------------------------------------------------------------

_CHARGE = Decimal("0.05")


def _curve(cluster: Cluster, dataset: str) -> list[Decimal]:
    with cluster.connect() as conn:
        sql = "SELECT spent_rdp::text[] FROM dp.account WHERE dataset = %s AND role = '' AND node = 'relation'"
        return [Decimal(v) for v in one(conn, sql, dataset)]


def test_renyi_charges_are_native_curves(cluster: Cluster) -> None:
    """epsilon adds P(ε, a), rho adds aρ, at every order of the grid; nothing is converted (§3.4, §3.5)."""
    make(cluster, "curves", epsilon="2", delta="1e-6", accountant="'renyi'", allot="2")
    with cluster.connect("alice") as alice:
        count(alice, table="curves", epsilon=0.05)
        alice.execute("SELECT dp.dp_count('curves', rho => 0.01, fresh => true)")
    wanted = [pure_to_rdp(_CHARGE, a) + gaussian_to_rdp(Decimal("0.01"), a) for a in DEFAULT_ORDERS]
    assert _curve(cluster, "curves") == wanted
    with cluster.connect() as conn:
        row = conn.execute("SELECT delta, delta_rdp, delta_add FROM dp.dataset WHERE name = 'curves'").fetchone()
        assert row == (Decimal("1e-6"), Decimal("5e-7"), Decimal("5e-7"))
        found = conn.execute("SELECT charge FROM dp.ledger WHERE dataset = 'curves' ORDER BY seq").fetchall()
        assert [c[0][0] for c in found] == [{"kind": "laplace", "epsilon": "0.05"}, {"kind": "gaussian", "rho": "0.01"}]
    oracle = rdp_privacy_accountant.RdpAccountant([float(a) for a in DEFAULT_ORDERS])
    oracle.compose(dp_event.GaussianDpEvent((1 / (2 * 0.01)) ** 0.5))
    oracle.compose(dp_event.LaplaceDpEvent(1 / 0.05))
    # the oracle knows Laplace noise, we charge any mechanism of that pure epsilon: never less, and hardly more
    for mine, theirs in zip(wanted, oracle._rdp, strict=True):
        assert float(theirs) * (1 - 1e-9) <= float(mine) <= float(theirs) * 1.02


def test_the_renyi_cap_is_honoured_and_is_dp(cluster: Cluster) -> None:
    """Gaussian charges until DP001: as many as the tight cap allows, and the oracle agrees that (ε, δ) holds."""
    make(cluster, "capped", epsilon="1", delta="1e-6", accountant="'renyi'", delta_thresholding="0")
    done = 0
    with cluster.connect("alice") as alice:
        with refused("DP001", "left"):
            while True:
                alice.execute("SELECT dp.dp_count('capped', rho => 0.002, fresh => true)")
                done += 1
        with no_charge(cluster), refused("DP001"):
            alice.execute("SELECT dp.dp_count('capped', rho => 0.002, fresh => true)")
    caps = renyi_cap(Decimal(1), Decimal("1e-6"), DEFAULT_ORDERS)
    rho = Decimal("0.002")
    assert done == max(int(cap / gaussian_to_rdp(rho, a)) for a, cap in caps.items())
    assert done > 3
    oracle = rdp_privacy_accountant.RdpAccountant()
    oracle.compose(dp_event.GaussianDpEvent((1 / (2 * 0.002)) ** 0.5), done)
    assert oracle.get_epsilon(1e-6) <= 1


def test_a_renyi_allotment_of_nothing_is_exhausted(cluster: Cluster) -> None:
    make(cluster, "nothing", epsilon="1", delta="1e-6", accountant="'renyi'", allot="0")
    with cluster.connect("alice") as alice, no_charge(cluster):
        for budget in ("rho => 0.001", "epsilon => 0.001"):
            with refused("DP001", "your allotment"):
                alice.execute(f"SELECT dp.dp_count('nothing', {budget})")
        assert one(alice, "SELECT your_epsilon_left FROM dp.budget WHERE dataset = 'nothing'") == 0
