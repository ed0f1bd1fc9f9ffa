"""delta in dp_release_numeric (numeric-release.md §2, §0.0): what it buys, what it costs, where it is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, forgive, no_charge, one, refused, spent
from fix_release import ADULT
from fix_steps import HELD, HOLDING, held, let_go
from fix_waiting import backends, once
from pg_epsilon.release.rounds import eps0_of, unspent

Connection = psycopg.Connection[Any]
DELTA = Fraction(1, 10**6)
TINY = """
CREATE TABLE tiny (id int PRIMARY KEY, age int, cost int);
INSERT INTO tiny SELECT i, i % 12, i % 9 FROM generate_series(1, 600) i;
CALL dp.create_dataset('tiny', unit => 'row', epsilon => 100, delta => 1e-5);
CALL dp.protect('tiny', 'tiny', max_rows => 1000);
CALL dp.describe_column('tiny', 'age', bounds => '{0,11}', nullable => false);
CALL dp.describe_column('tiny', 'cost', bounds => '{0,8}', nullable => false);
CALL dp.publish('tiny'); CALL dp.allot('alice', 'tiny', epsilon => 90);
CALL dp.allot('bob', 'tiny', epsilon => 10, delta => 0);
"""
PAIRS = [(low, high) for low in range(12) for high in range(low, 12)]
GRID = "{" + ",".join(f"{{{low},{high}}}" for low, high in PAIRS) + "}"
COUNTS = "SELECT count(*) FROM tiny WHERE age BETWEEN $1 AND $2"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(ADULT + TINY, user="boss")
        running.psql(HOLDING)
        yield running


@pytest.fixture
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice") as conn:
        yield conn
    let_go(cluster)
    forgive(cluster)
    balanced(cluster)


def call(name: str, more: str, query: str = COUNTS, function: str = "dp_release_numeric") -> str:
    return f"dp.{function}('{name}', $q${query}$q$, '{GRID}', {more})"


def plan(conn: Connection, name: str, more: str, query: str = COUNTS) -> dict[str, Any]:
    found = one(conn, f"SELECT dp.dp_plan({call(name, more, query, 'dp_release_numeric_request')})")
    assert isinstance(found, dict)
    return found


def spent_delta(cluster: Cluster) -> Decimal:
    """Of all accounts of the dataset's tree together: a question is paid in one of them."""
    sql = "SELECT COALESCE(sum(spent_delta), 0) FROM dp.account WHERE dataset = 'tiny' AND role = ''"
    with cluster.connect() as root:
        return Decimal(one(root, sql))


def charged(cluster: Cluster, name: str) -> list[dict[str, str]]:
    sql = "SELECT charge FROM dp.ledger WHERE kind = 'charge' AND request -> 'release' ->> 'name' = %s"
    with cluster.connect() as root:
        found = one(root, sql, name)
        assert isinstance(found, list)
        return found


def test_composition_of_many_queries(cluster: Cluster, alice: Connection) -> None:
    """78 queries by advanced composition have a share each that is larger than one of 78."""
    more = "epsilon => 1, mechanism => 'composition'"
    with no_charge(cluster):
        plain, told = plan(alice, "singly", more), plan(alice, "singly", f"{more}, delta => 1e-6")
    assert plain["charge"]["worst"] == {"epsilon": "1"}
    assert told["charge"]["worst"] == {"epsilon": "1", "delta": "0.000001"}
    share = eps0_of(Fraction(1), DELTA, len(PAIRS))
    assert share > Fraction(3, 2) / len(PAIRS)
    better = plain["release"]["rmse"] / told["release"]["rmse"]
    assert better == pytest.approx(float(share * len(PAIRS)), rel=1e-3)
    before = spent_delta(cluster)
    rows = alice.execute(f"SELECT * FROM {call('singly', f'{more}, delta => 1e-6')}").fetchall()
    assert len(rows) == len(PAIRS)
    assert charged(cluster, "singly") == [{"kind": "advanced", "epsilon": "1", "delta": "0.000001"}]
    assert one(alice, "SELECT charge FROM dp.last_answer") == {"epsilon": "1", "delta": "0.000001"}
    assert spent_delta(cluster) - before == Decimal("0.000001")
    with no_charge(cluster):
        assert alice.execute(f"SELECT * FROM {call('singly', f'{more}, delta => 0.000001')}").fetchall() == rows


@pytest.mark.parametrize("mechanism", ["alg2", "normalisation", "global"])
def test_rounds(cluster: Cluster, alice: Connection, mechanism: str) -> None:
    more = f"epsilon => 2, delta => 1e-6, mechanism => '{mechanism}', options => '{{\"rounds\": 40}}'"
    query = "SELECT sum(cost) FROM tiny WHERE age BETWEEN $1 AND $2"
    alice.execute(f"SELECT {call(f'rounds_{mechanism}', more, query)}")
    kinds = [one["kind"] for one in charged(cluster, f"rounds_{mechanism}")]
    assert kinds.count("advanced") == 1 and "pure" not in kinds
    assert one(alice, "SELECT charge FROM dp.last_answer") == {"epsilon": "2", "delta": "0.000001"}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("few_rounds", """epsilon => 2, delta => 1e-6, mechanism => 'alg2', options => '{"rounds": 10}'"""),
        ("little_delta", "epsilon => 2, delta => 1e-18, mechanism => 'composition'"),
    ],
)
def test_delta_that_buys_nothing_is_not_spent(cluster: Cluster, alice: Connection, name: str, more: str) -> None:
    told = plan(alice, name, more)
    assert "delta is not spent" in told["text"] and told["charge"]["worst"] == {"epsilon": "2"}
    before = spent_delta(cluster)
    alice.execute(f"SELECT {call(name, more)}")
    assert spent_delta(cluster) == before


def test_auto_that_takes_cells_spends_none(cluster: Cluster, alice: Connection) -> None:
    before = spent_delta(cluster)
    alice.execute(f"SELECT {call('automatic', 'epsilon => 5, delta => 1e-6')}")
    assert [one["kind"] for one in charged(cluster, "automatic")] == ["laplace"]
    assert spent_delta(cluster) == before


def test_what_delta_allows_ends(cluster: Cluster, alice: Connection) -> None:
    """The dataset's delta is a cap of its own, and so is an allotment's."""
    more = "epsilon => 0.5, delta => 1.1e-5, mechanism => 'composition', fresh => true"
    with no_charge(cluster), refused("DP001", " and delta 0.00000"):
        alice.execute(f"SELECT {call('too_much', more)}")
    with cluster.connect("bob") as bob, no_charge(cluster), refused("DP001", "epsilon 10 and delta 0 are left"):
        bob.execute(f"SELECT {call('his', more.replace('1.1e-5', '1e-9'))}")


@pytest.mark.parametrize("delta", ["0", "1", "1e-19", "'NaN'", "'Infinity'", "'-Infinity'", "-1e-6"])
def test_a_number_that_is_no_delta(cluster: Cluster, alice: Connection, delta: str) -> None:
    with no_charge(cluster), refused("DP005", "delta must be a number"):
        alice.execute(f"SELECT {call('none', f'epsilon => 1, delta => {delta}')}")


@pytest.mark.parametrize("mechanism", ["cells", "range"])
def test_one_draw_has_no_use_for_it(cluster: Cluster, alice: Connection, mechanism: str) -> None:
    with no_charge(cluster), refused("DP005", f"{mechanism} is one draw"):
        alice.execute(f"SELECT {call('none', f'''epsilon => 1, delta => 1e-6, mechanism => '{mechanism}' ''')}")


def test_rho_has_no_use_for_it(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster), refused("DP005", "takes epsilon"):
        alice.execute(f"SELECT {call('none', '''rho => 0.1, delta => 1e-6, mechanism => 'alg2' ''')}")


def test_a_renyi_dataset_refuses_it(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster), refused("DP005", "the accountant of this dataset is 'renyi'"):
        alice.execute(
            "SELECT dp.dp_release_numeric('none', 'SELECT count(*) FROM visit WHERE ward = $1', '{n,s}', epsilon => 1,"
            " delta => 1e-6, mechanism => 'composition')"
        )


def test_of_a_dataset_without_delta_nothing_is_paid(cluster: Cluster, alice: Connection) -> None:
    ages = "{" + ",".join(f"{{{low},{high}}}" for low in range(17, 25) for high in range(low, 25)) + "}"
    with no_charge(cluster), refused("DP001", "and delta 0 are left"):
        alice.execute(
            f"SELECT dp.dp_release_numeric('none', 'SELECT count(*) FROM adult WHERE age BETWEEN $1 AND $2', '{ages}',"
            " epsilon => 1, delta => 1e-6, mechanism => 'composition')"
        )


@contextmanager
def stopped(cluster: Cluster, alice: Connection, step: int) -> Iterator[None]:
    """The body's release is cancelled while its step of that number is drawn."""
    with (
        cluster.connect() as root,
        held(cluster, step),
        once(lambda: backends(root, HELD), alice.cancel),
        refused("57014", hint=False),
    ):
        yield


def test_what_a_stopped_release_gives_back(cluster: Cluster, alice: Connection) -> None:
    """The difference of the formula's values, and no delta: what was drawn is (epsilon, delta)-DP still."""
    more = """epsilon => 2, delta => 1e-6, mechanism => 'alg2', options => '{"rounds": 50}'"""
    query = COUNTS + " AND cost >= 0"
    before, had = spent(cluster, "tiny"), spent_delta(cluster)
    with stopped(cluster, alice, 6):
        alice.execute(f"SELECT {call('stopped', more, query)}")
    back = unspent(Fraction(2) * 88 / 100, DELTA, 50, 4)
    assert 0 < back < Fraction(2) * 88 / 100
    paid = Fraction(spent(cluster, "tiny") - before)
    assert abs(paid - (2 - back)) < Fraction(1, 10**12)
    assert spent_delta(cluster) - had == Decimal("0.000001")
    said: list[str] = []
    alice.add_notice_handler(lambda words: said.append(str(words.message_primary)))
    alice.execute("SET dp.notices = on")
    with no_charge(cluster):
        alice.execute(f"SELECT {call('stopped', more, query)}")
    assert re.search(r"stopped after 4 of 50 rounds", said[-1])


def test_what_comes_back_where_few_rounds_were_chosen(cluster: Cluster, alice: Connection) -> None:
    """delta was charged because there might have been many; of few each costs its part of epsilon."""
    more = "epsilon => 2, delta => 1e-6, mechanism => 'alg2'"
    query = COUNTS + " AND cost <= 8"
    before, had = spent(cluster, "tiny"), spent_delta(cluster)
    with stopped(cluster, alice, 3):
        alice.execute(f"SELECT {call('few', more, query)}")
    (_, advanced, _) = charged(cluster, "few")
    assert advanced == {"kind": "advanced", "epsilon": "1.76", "delta": "0.000001"}
    with no_charge(cluster):
        alice.execute(f"SELECT {call('few', more, query)}")
    facts = one(alice, "SELECT facts FROM dp.last_answer")["release"]
    assert facts["rounds"] == 1 < facts["stopped"] < 30
    paid = Fraction(spent(cluster, "tiny") - before)
    back = Fraction(2) * 88 / 100 * (facts["stopped"] - 1) / facts["stopped"]
    assert abs(paid - (2 - back)) < Fraction(1, 10**12)
    assert spent_delta(cluster) - had == Decimal("0.000001")
