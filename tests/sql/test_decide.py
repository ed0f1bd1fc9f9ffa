"""dp_decide and its kin on real rows: the truth at a huge epsilon, every refusal free, the books in balance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import ROLES, Cluster, private_cluster
from fix_ledger import account, balanced, no_charge, one, refused, spent

Connection = psycopg.Connection[Any]

# Noise of scale GS / 1000: a decision is the truth unless the distance is within 40 / 1000 of GS of tau (Pr < 1e-16).
HUGE = 1000
# Some six hundred draws. Answers in place of a decision, and decisions at epsilon 1 to 3, are 60 rows and more off.
pytestmark = pytest.mark.chance(fix_chance.beyond(40, 600))
# The largest cap that an owner may set is 1000; here hundreds of decisions cost so much each.
DEEP = """ALTER TABLE dp.dataset DISABLE TRIGGER USER; UPDATE dp.dataset SET epsilon = 1e9 WHERE accountant = 'pure' AND name <> 'days';
ALTER TABLE dp.dataset ENABLE TRIGGER USER; UPDATE dp.role_allotment SET epsilon = 1e9 WHERE dataset IN ('census', 'shop');
SELECT dp._bump_policy()"""  # noqa: E501
DECIDE = "SELECT dp.dp_decide"
DETAIL = "SELECT * FROM dp.dp_decide_detail"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_cluster() as running:
        running.psql(ROLES)
        running.psql(Path(__file__).with_name("decide_world.sql").read_text(), user="boss")
        running.psql(DEEP)
        yield running


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice") as connection:
        yield connection


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


@dataclass
class Detail:
    """One row of dp_decide_detail."""

    decision: bool
    text: str
    mechanism: str
    extension: bool
    epsilon: Decimal
    synthetic_answer: Decimal
    low: Decimal
    high: Decimal
    estimate: Decimal | None
    answer: Decimal
    warning: str | None
    provenance: str


def call(query: str, synthetic: str, **arguments: Any) -> str:
    """The arguments of a call, as a person writes them."""
    words = ", ".join(f"{name} => {_literal(value)}" for name, value in arguments.items())
    return f"({_literal(query)}, {_literal(synthetic)}{', ' + words if words else ''})"


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | Decimal):
        return "NULL" if value is None else str(value)
    return "'" + str(value).replace("'", "''") + "'"


def decide(connection: Connection, query: str, synthetic: str = "adult_syn", **arguments: Any) -> bool:
    return bool(one(connection, DECIDE + call(query, synthetic, **arguments)))


def detail(connection: Connection, query: str, synthetic: str = "adult_syn", **arguments: Any) -> Detail:
    (row,) = connection.execute((DETAIL + call(query, synthetic, **arguments)).encode()).fetchall()
    return Detail(*row)


# the truth --------------------------------------------------------------------------------------------------------

AGE, HOURS = "greatest(least(age, 100), 0)", "greatest(least(hours, 100), 0)"
P90 = "percentile_disc(0.9) WITHIN GROUP (ORDER BY {})"
CLAMPED = {
    "count(*)": "count(*)",
    "count(hours)": "count(hours)",
    "sum(hours)": f"coalesce(sum({HOURS}) FILTER (WHERE hours IS NOT NULL), 0)",
    "sum(change)": "coalesce(sum(greatest(least(change, 50), -50)), 0)",
    "median(age)": f"percentile_disc(0.5) WITHIN GROUP (ORDER BY {AGE})",
    P90.format("age"): P90.format(AGE),
    "avg(hours)": f"avg({HOURS}) FILTER (WHERE hours IS NOT NULL)",
    "sum(age) FILTER (WHERE hours > 10)": f"coalesce(sum({AGE}) FILTER (WHERE hours > 10), 0)",
}
COUNTS = ["auto", "lm", "em", "em_naive", "em_unclamped", "randomised_response"]
SUMS = ["auto", "lm", "r2t", "r2t_geo", "r2t_split", "svt_basic", "svt"]
QUANTILES = ["auto", "hist", "hist_one", "em", "em_tight"]
ASKED = {
    "count(*)": COUNTS,
    "count(hours)": COUNTS,
    "sum(hours)": SUMS,
    "sum(change)": ["auto", "lm", "r2t_split"],
    "median(age)": QUANTILES,
    P90.format("age"): QUANTILES,
    "avg(hours)": ["auto", "lm", "r2t", "avg_direct"],
    "sum(age) FILTER (WHERE hours > 10)": SUMS,
}
EXTENSIONS = {"em_unclamped", "randomised_response", "r2t_geo", "r2t_split", "em_tight", "hist_one", "avg_direct"}


def distance(cluster: Cluster, aggregate: str, where: str, copy: str) -> tuple[Decimal, Decimal]:
    """(answer of the copy, its distance from the private one), of clamped values."""
    with cluster.connect() as root:
        asked = f"SELECT {CLAMPED[aggregate]} FROM {{}} WHERE {where}"
        private, public = (Decimal(one(root, asked.format(table))) for table in ("adult", copy))
        return public, abs(private - public)


@pytest.mark.parametrize("where", ["kind <> 'c'", "age > 20 AND kind = 'a'"])
@pytest.mark.parametrize("aggregate", ASKED)
def test_at_a_huge_epsilon_every_decision_is_the_truth(
    cluster: Cluster, alice: Connection, aggregate: str, where: str
) -> None:
    """Each mechanism, within and without the bound; rows beyond the declared bounds count as clamped (§2.2)."""
    query = f"SELECT {aggregate} FROM {{table}} WHERE {where}"
    answer, apart = distance(cluster, aggregate, where, "adult_far")
    assert apart > 1
    for mechanism in ASKED[aggregate]:
        for tau, expected in [(apart * 2, True), (apart / 2, False)]:
            found = detail(alice, query, "adult_far", tau=tau, epsilon=HUGE, mechanism=mechanism)
            assert (mechanism, found.decision) == (mechanism, expected)
            assert found.text == f"distance bound {'satisfied' if expected else 'unmet'}"
            assert found.extension is (mechanism in EXTENSIONS)
            assert found.synthetic_answer == pytest.approx(answer, abs=Decimal("1e-9"))
            assert found.high - found.low == pytest.approx(2 * tau, abs=Decimal("1e-9"))
            assert found.answer == pytest.approx(answer, abs=Decimal("1e-6"))
            assert decide(alice, query, "adult_far", tau=tau, epsilon=HUGE, mechanism=mechanism) is expected


def test_a_distance_of_tau_is_too_far(alice: Connection) -> None:
    """The interval is open. em_naive is exact up to a coin of e^-500."""
    query = "SELECT count(*) FROM {table} WHERE id <= 2000"
    for tau, expected in [(100, False), (Decimal("100.5"), True)]:
        assert decide(alice, query, tau=tau, epsilon=HUGE, mechanism="em_naive") is expected


def test_a_percentage_is_of_the_synthetic_answer_without_its_sign(cluster: Cluster, alice: Connection) -> None:
    """Erratum 15."""
    answer, apart = distance(cluster, "sum(change)", "change < 0", "adult_syn")
    assert answer < 0
    share = 100 * apart / -answer
    query = "SELECT sum(change) FROM {table} WHERE change < 0"
    for percent, expected in [(share * 2, True), (share / 2, False)]:
        found = detail(alice, query, tau_percent=percent, epsilon=HUGE)
        assert found.decision is expected
        assert found.low < found.synthetic_answer < found.high


def test_no_row_is_a_count_and_a_sum_of_zero(alice: Connection) -> None:
    for aggregate in ("count(*)", "sum(hours)"):
        found = detail(alice, f"SELECT {aggregate} FROM {{table}} WHERE kind = 'none'", tau=5, epsilon=HUGE)
        assert found.decision is True
        assert [found.synthetic_answer, found.low, found.high] == [0, -5, 5]


def test_a_private_selection_without_rows_is_no_error(alice: Connection) -> None:
    """Empty on the private side only: nothing tells, and it is charged like any other (§2.1, 5)."""
    with_rows = "SELECT {} FROM {{table}} WHERE age < 0"  # the copy has ten such rows
    for aggregate in ("count(*)", "sum(hours)", "median(age)", "avg(hours)"):
        for mechanism in ASKED[aggregate if aggregate != "count(*)" else "count(*)"]:
            query = with_rows.format(aggregate)
            assert decide(alice, query, "adult_far", tau=3, epsilon=1, mechanism=mechanism) in (True, False)


def test_weights_say_for_how_many_rows_one_stands(alice: Connection) -> None:
    """NULL, negative and NaN ones stand for none."""
    found = detail(alice, "SELECT count(*) FROM {table} WHERE kind = 'a'", "adult_w", tau=200, epsilon=HUGE)
    with_sum = detail(alice, "SELECT sum(age) FROM {table} WHERE kind = 'a'", "adult_w", tau=9000, epsilon=HUGE)
    median = detail(alice, "SELECT median(age) FROM {table} WHERE kind = 'a'", "adult_w", tau=20, epsilon=HUGE)
    average = detail(alice, "SELECT avg(age) FROM {table} WHERE kind = 'a'", "adult_w", tau=20, epsilon=HUGE)
    assert found.synthetic_answer == 4 * 171
    assert with_sum.synthetic_answer / found.synthetic_answer == pytest.approx(average.synthetic_answer)
    assert 40 <= median.synthetic_answer <= 50
    assert all(one_.decision for one_ in (found, with_sum, median, average))


def test_values_are_compared_as_the_query_writes_them(alice: Connection) -> None:
    found = detail(alice, "SELECT sum(hours * 2) AS twice FROM adult a WHERE a.age BETWEEN 10 AND 20", tau=1, epsilon=1)
    plain = detail(alice, "SELECT sum(hours) FROM adult_syn WHERE age BETWEEN 10 AND 20", tau=1, epsilon=1)
    assert found.synthetic_answer == 2 * plain.synthetic_answer


def test_the_noisy_answer_comes_with_the_deciders_that_have_one(cluster: Cluster, alice: Connection) -> None:
    """§2.7: plug-in deciders; a direct one gives its bit and nothing else."""
    for aggregate, mechanisms in ASKED.items():
        answer, apart = distance(cluster, aggregate, "kind = 'b'", "adult_far")
        for mechanism in mechanisms:
            query = f"SELECT {aggregate} FROM {{table}} WHERE kind = 'b'"
            found = detail(alice, query, "adult_far", tau=apart / 2, epsilon=HUGE, mechanism=mechanism)
            plugged = found.mechanism.startswith(("LM", "R2T", "r2t", "EM_med", "em_tight"))
            assert (found.estimate is not None) is plugged, found
            if found.estimate is not None:
                assert abs(abs(found.estimate - answer) - apart) < max(apart / 10, Decimal("1.5"))


def test_the_printed_score_of_em_can_be_asked_for(alice: Connection) -> None:
    """Erratum 4: with ties the paper's score picks a value beside the median, and says so whatever epsilon is."""
    query = "SELECT median(age) FROM {table} WHERE age = 30 OR id = 31"
    answers = [
        detail(alice, query, "adult_syn", tau=1, epsilon=HUGE, mechanism="em", score=score).estimate
        for score in ("ties", "printed")
    ]
    assert answers[0] == 30
    assert answers[1] != 30


def test_theta_moves_what_svt_sees(alice: Connection) -> None:
    """§5.5: what lies above the private bound is left out, and more epsilon makes that no better."""
    query = "SELECT sum(age) FROM {table} WHERE age > 2"
    found = [
        detail(alice, query, tau_percent=20, epsilon=HUGE, mechanism="svt", theta=theta)
        for theta in (Decimal("0.3"), Decimal("0.999"))
    ]
    assert [one_.decision for one_ in found] == [False, True]
    assert all("theta" in (one_.warning or "") for one_ in found)


# users ------------------------------------------------------------------------------------------------------------

USERS = {
    "count(*)": ["auto", "lm", "em"],
    "sum(price)": ["auto", "lm", "r2t"],
    "median(price)": ["auto", "hist", "em"],
    "avg(price)": ["auto", "lm", "r2t"],
}
ROWS_ONLY = {
    "count(*)": ["em_naive", "em_unclamped", "randomised_response"],
    "sum(price)": ["r2t_geo", "r2t_split", "svt_basic", "svt"],
    "median(price)": ["hist_one", "em_tight"],
    "avg(price)": ["avg_direct"],
}


@pytest.mark.parametrize("aggregate", USERS)
def test_where_units_own_rows_the_deciders_of_the_paper_that_can_are_offered(
    cluster: Cluster, alice: Connection, aggregate: str
) -> None:
    """composition.md 14.8; no silent row-level answer (2.1)."""
    query = f"SELECT {aggregate} FROM {{table}} WHERE price > 5"
    for mechanism in USERS[aggregate]:
        near = detail(alice, query, "orders_syn", tau=2000, epsilon=HUGE, mechanism=mechanism)
        assert near.decision is True
    for mechanism in ROWS_ONLY[aggregate]:
        with no_charge(cluster), refused("DP003", "unit is a row"):
            decide(alice, query, "orders_syn", tau=2000, epsilon=1, mechanism=mechanism)


def test_numbers_of_users_are_compared(alice: Connection) -> None:
    query = "SELECT count(DISTINCT customer) FROM {table} WHERE price > 5"
    found = detail(alice, query, "orders_syn", tau=5, epsilon=HUGE)
    assert found.decision is True
    assert found.synthetic_answer <= 120


# refusals ---------------------------------------------------------------------------------------------------------

COUNT, CHANGE = "SELECT count(*) FROM {table}", "SELECT {}(change) FROM {{table}}"
NEAR = "adult_syn"
REFUSED: dict[str, tuple[str, str, dict[str, Any], str, str]] = {
    "tau of 0": (COUNT, NEAR, {"tau": 0}, "DP005", "tau must be"),
    "negative tau": (COUNT, NEAR, {"tau": -1}, "DP005", "tau must be"),
    "NaN": (COUNT, NEAR, {"tau": "NaN"}, "DP005", "tau must be"),
    "infinite": (COUNT, NEAR, {"tau": "Infinity"}, "DP005", "tau must be"),
    "percentage of 0": (COUNT, NEAR, {"tau_percent": 0}, "DP005", "tau_percent must be"),
    "both bounds": (COUNT, NEAR, {"tau": 1, "tau_percent": 1}, "DP005", "tau or tau_percent"),
    "no bound": (COUNT, NEAR, {}, "DP005", "tau or tau_percent"),
    "epsilon of 0": (COUNT, NEAR, {"tau": 1, "epsilon": 0}, "DP005", "epsilon must be"),
    "NaN epsilon": (COUNT, NEAR, {"tau": 1, "epsilon": "NaN"}, "DP005", "epsilon must be"),
    "no epsilon": (COUNT, NEAR, {"tau": 1, "epsilon": None}, "DP005", "how much"),
    "two budgets": (COUNT, NEAR, {"tau": 1, "rho": 0.1}, "DP005", "two kinds of budget"),
    "rho on a pure dataset": (COUNT, NEAR, {"tau": 1, "epsilon": None, "rho": 0.1}, "DP005", ""),
    "theta of 1": (COUNT, NEAR, {"tau": 1, "theta": 1}, "DP005", "theta must be"),
    "beta of 0": (COUNT, NEAR, {"tau": 1, "beta": 0}, "DP005", "beta must be"),
    "delta of 1": (COUNT, NEAR, {"tau": 1, "delta": 1}, "DP005", "delta must be"),
    "negative guess": (COUNT, NEAR, {"tau": 1, "largest": -1}, "DP005", "largest must be"),
    "unknown score": (COUNT, NEAR, {"tau": 1, "score": "best"}, "DP005", "score"),
    "unknown mechanism": (COUNT, NEAR, {"tau": 1, "mechanism": "best"}, "DP005", "does not decide"),
    "a sum's mechanism": (COUNT, NEAR, {"tau": 1, "mechanism": "svt"}, "DP005", "does not decide"),
    "not registered": (COUNT, "unregistered", {"tau": 1}, "DP005", "not a registered synthetic"),
    "the relation itself": (COUNT, "adult", {"tau": 1}, "DP005", "not a registered synthetic"),
    "no synthetic table": (COUNT, "", {"tau": 1}, "DP005", "no synthetic table"),
    "of another relation": ("SELECT count(*) FROM visits", NEAR, {"tau": 1}, "DP003", "neither"),
    "percentage of no rows": (COUNT, "adult_none", {"tau_percent": 5}, "DP005", "no percentage"),
    "median of no rows": ("SELECT median(age) FROM {table}", "adult_none", {"tau": 1}, "DP005", "no row"),
    "average of no rows": ("SELECT avg(age) FROM {table}", "adult_none", {"tau": 1}, "DP005", "no row"),
    "no query": ("", NEAR, {"tau": 1}, "DP003", "no statement"),
    "a syntax error": ("SELECT count(*) FRM adult", NEAR, {"tau": 1}, "42601", "syntax error"),
    "GROUP BY": (COUNT + " GROUP BY kind", NEAR, {"tau": 1}, "DP003", "GROUP BY"),
    "a join": (COUNT + " JOIN visits USING (id)", NEAR, {"tau": 1}, "DP003", "join"),
    "two aggregates": ("SELECT count(*), sum(age) FROM {table}", NEAR, {"tau": 1}, "DP003", "one result column"),
    "variance": ("SELECT variance(age) FROM {table}", NEAR, {"tau": 1}, "DP003", "no aggregate"),
    "an unknown column": (COUNT + " WHERE salary > 1", NEAR, {"tau": 1}, "42703", "salary"),
    "a volatile function": (COUNT + " WHERE random() < age", NEAR, {"tau": 1}, "DP003", "random"),
    "a sub-query": (COUNT + " WHERE age > (SELECT oid FROM pg_class)", NEAR, {"tau": 1}, "DP003", ""),
    "a private sub-query": (COUNT + " WHERE id IN (SELECT id FROM public.visits)", NEAR, {"tau": 1}, "DP003", ""),
    "an undeclared value": ("SELECT sum(id) FROM {table}", NEAR, {"tau": 1}, "DP004", ""),
    "an unknown unit": ("SELECT count(DISTINCT kind) FROM {table}", NEAR, {"tau": 1}, "DP003", "distinct"),
    "R2T of negative values": (CHANGE.format("sum"), NEAR, {"tau": 1, "mechanism": "r2t"}, "DP003", "below"),
    "SVT of negative values": (CHANGE.format("sum"), NEAR, {"tau": 1, "mechanism": "svt"}, "DP003", "below"),
    "an average by R2T of negative values": (
        CHANGE.format("avg"),
        NEAR,
        {"tau": 1, "mechanism": "r2t"},
        "DP003",
        "below",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_free_and_says_what_to_do(cluster: Cluster, alice: Connection, case: str) -> None:
    query, synthetic, arguments, sqlstate, words = REFUSED[case]
    arguments = {"epsilon": 1, **arguments}
    for function in (DECIDE, DETAIL):
        sql = function + call(query, synthetic, **arguments).replace(", ''", ", NULL")
        with no_charge(cluster), refused(sqlstate, words):
            alice.execute(sql.encode())


def test_a_query_of_null_is_no_statement(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster), refused("DP003", "no statement"):
        alice.execute("SELECT dp.dp_decide(NULL, 'adult_syn', tau => 1, epsilon => 1)")


def test_values_that_would_raise_do_not(alice: Connection) -> None:
    """A condition is total: no row of either side can make it fail (§2.1, 5)."""
    query = "SELECT count(*) FROM {table} WHERE 100 / NULLIF(age, 0) > 2 AND hours * hours < 1e6"
    assert decide(alice, query, tau=1000, epsilon=HUGE) is True


def test_who_has_no_allotment_decides_nothing(cluster: Cluster) -> None:
    with cluster.connect("bob") as bob, no_charge(cluster), refused("42501", "allotment"):
        decide(bob, "SELECT count(*) FROM orders", "orders_syn", tau=1, epsilon=1)


def test_an_exhausted_budget_decides_nothing(cluster: Cluster, alice: Connection) -> None:
    """Also where the decision alone could be paid for, but not the fallback behind it."""
    query = "SELECT count(*) FROM days WHERE age > 3"
    with no_charge(cluster), refused("DP001", "allotment"):
        detail(alice, query, "days_syn", tau=3, epsilon=50, mechanism="em", fallback=True)


# names ------------------------------------------------------------------------------------------------------------


def test_names_are_looked_up_where_the_caller_looks(cluster: Cluster) -> None:
    """The default of `path` is evaluated in the caller's session, whose search_path the function does not have."""
    query = "SELECT count(*) FROM runs WHERE value < 5"
    with cluster.connect("alice") as alice:
        with no_charge(cluster), refused("DP003", "neither the relation nor its synthetic copy"):
            decide(alice, query, "lab.runs_syn", tau=5, epsilon=HUGE)
        alice.execute("SET search_path = nothing, lab")
        assert decide(alice, query, "runs_syn", tau=5, epsilon=HUGE) is True
        assert decide(alice, "SELECT count(*) FROM runs_syn WHERE value < 5", "runs_syn", tau=5, epsilon=HUGE) is True
        alice.execute("SET search_path = dp")
        assert decide(alice, "SELECT count(*) FROM lab.runs", "lab.runs_syn", tau=5, epsilon=HUGE) is True
        sql = (
            "SELECT dp_decide('SELECT count(*) FROM runs WHERE value > 5', 'lab.runs_syn', tau => 5, epsilon => 1000, "
        )
        assert one(alice, sql + "path => '{public,lab}')") is True


# caching ----------------------------------------------------------------------------------------------------------


def test_a_decision_that_was_made_is_free_in_any_words(cluster: Cluster, alice: Connection) -> None:
    arguments: dict[str, Any] = {"tau": 50, "epsilon": 0.5, "mechanism": "lm"}
    first = detail(alice, "SELECT count(*) FROM adult WHERE age > 71", **arguments)
    words = [
        "select  count(*) AS n from {table} t where t.age > 71;",
        "SELECT count(*) FROM adult_syn WHERE (age > 71)",
        "SELECT count(*) FROM public.adult WHERE adult.age > 71 -- again",
    ]
    with no_charge(cluster):
        for query in words:
            assert detail(alice, query, **arguments) == first
            assert decide(alice, query, **arguments) is first.decision


@pytest.mark.parametrize(
    "change",
    [{"fresh": True}, {"tau": 51}, {"tau_percent": 10, "tau": None}, {"epsilon": 0.25}, {"mechanism": "em"}],
)
def test_what_is_another_question_is_charged(cluster: Cluster, alice: Connection, change: dict[str, Any]) -> None:
    query = "SELECT count(*) FROM adult WHERE age > 72"
    arguments: dict[str, Any] = {"tau": 50, "epsilon": 0.5, "mechanism": "lm"}
    decide(alice, query, **arguments)
    before = spent(cluster, "census")
    decide(alice, query, **{**arguments, **change})
    assert spent(cluster, "census") - before == Decimal(str(change.get("epsilon", 0.5)))


def test_rows_that_come_to_the_copy_make_another_question(cluster: Cluster, alice: Connection) -> None:
    """The synthetic answer is public, and part of what is asked: an old decision says nothing about a new one."""
    query = "SELECT count(*) FROM {table} WHERE age = 44"
    arguments: dict[str, Any] = {"tau": 5, "epsilon": 0.5, "mechanism": "lm"}
    first = detail(alice, query, **arguments)
    with cluster.connect() as root:
        root.execute("INSERT INTO adult_syn VALUES (9999, 'a', 44, 1, 1)")
        try:
            before = spent(cluster, "census")
            assert detail(alice, query, **arguments).synthetic_answer == first.synthetic_answer + 1
            assert spent(cluster, "census") - before == Decimal("0.5")
        finally:
            root.execute("DELETE FROM adult_syn WHERE id = 9999")


# the fallback: reserve, and give back -----------------------------------------------------------------------------


def ledger(cluster: Cluster, dataset: str) -> list[tuple[str, str, list[dict[str, str]], Decimal]]:
    """(kind, mechanism, charges, epsilon) of a dataset's ledger."""
    with cluster.connect() as root:
        return root.execute(
            "SELECT kind, mechanism, charge, epsilon FROM dp.ledger WHERE dataset = %s ORDER BY seq", [dataset]
        ).fetchall()


BIT = {"kind": "exponential", "epsilon": "2"}
NOISE = {"kind": "laplace", "epsilon": "2"}


def test_a_fallback_that_is_not_needed_is_given_back(cluster: Cluster, alice: Connection) -> None:
    """composition.md §4, §11: decide + answer is reserved; the released bit says that the answer is not needed."""
    before, rows = spent(cluster, "census"), len(ledger(cluster, "census"))
    query = "SELECT count(*) FROM {table} WHERE age > 11"
    found = detail(alice, query, tau=1500, epsilon=2, mechanism="em", fallback=True)
    assert found.decision is True
    assert found.answer == found.synthetic_answer
    assert ledger(cluster, "census")[rows:] == [
        ("charge", "EM_count", [BIT, NOISE], Decimal(4)),
        ("return", "EM_count", [NOISE], Decimal(-2)),
    ]
    assert spent(cluster, "census") - before == 2
    assert found.epsilon == 2


def test_a_fallback_that_is_needed_is_the_private_answer(cluster: Cluster, alice: Connection) -> None:
    before, rows = spent(cluster, "census"), len(ledger(cluster, "census"))
    query = "SELECT count(*) FROM {table} WHERE age > 12"
    found = detail(alice, query, "adult_far", tau=400, epsilon=2, mechanism="em", fallback=True)
    assert found.decision is False
    assert found.estimate is None
    assert abs(found.answer - 1740) < 40
    assert ledger(cluster, "census")[rows:] == [("charge", "EM_count", [BIT, NOISE], Decimal(4))]
    assert spent(cluster, "census") - before == 4
    with no_charge(cluster):
        assert detail(alice, query, "adult_far", tau=400, epsilon=2, mechanism="em", fallback=True) == found


def test_an_estimate_is_its_own_fallback(cluster: Cluster, alice: Connection) -> None:
    """At no further charge (§11); `auto` takes a decider that has one."""
    for number, mechanism in enumerate(["lm", "auto"]):
        before = spent(cluster, "census")
        query = f"SELECT count(*) FROM {{table}} WHERE age > 1{3 + number}"
        found = detail(alice, query, "adult_far", tau=Decimal("0.5"), epsilon=1, mechanism=mechanism, fallback=True)
        assert found.decision is False
        assert found.estimate is not None
        assert found.answer == round(found.estimate)
        assert spent(cluster, "census") - before == 1


@pytest.mark.parametrize("mechanism", ["hist", "hist_one"])
def test_a_median_has_a_fallback(cluster: Cluster, alice: Connection, mechanism: str) -> None:
    before = spent(cluster, "census")
    query = "SELECT median(age) FROM {table} WHERE kind = 'b'"
    found = detail(alice, query, "adult_far", tau=5, epsilon=3, mechanism=mechanism, fallback=True)
    assert found.decision is False
    assert abs(found.answer - 44) < 10
    assert spent(cluster, "census") - before == 6


def test_on_a_renyi_dataset_the_curve_is_given_back(cluster: Cluster, alice: Connection) -> None:
    query = "SELECT count(*) FROM {table} WHERE age > 3"
    assert detail(alice, query, "curved_syn", tau=400, epsilon=1, mechanism="em", fallback=True).decision is True
    with cluster.connect() as root:
        rdp = "SELECT array_agg(DISTINCT spent_rdp) FROM dp.account WHERE dataset = 'curved' AND spent_rdp IS NOT NULL"
        (kept,) = one(root, rdp)
        charges = root.execute("SELECT kind, rdp FROM dp.ledger WHERE dataset = 'curved' ORDER BY seq").fetchall()
    assert [kind for kind, _ in charges] == ["charge", "return"]
    assert [a + b for a, b in zip(charges[0][1], charges[1][1], strict=True)] == kept
    assert all(0 < b < a for a, b in zip(charges[0][1], kept, strict=True))


def test_gaussian_noise_decides_on_a_renyi_dataset(cluster: Cluster, alice: Connection) -> None:
    """[EXT] of lm alone."""
    query = "SELECT count(*) FROM {table} WHERE age > 4"
    assert detail(alice, query, "curved_syn", tau=400, rho=0.1, mechanism="lm").decision is True
    with no_charge(cluster), refused("DP005", "lm"):
        decide(alice, query, "curved_syn", tau=400, rho=0.1, mechanism="em")
    for mechanism in ("auto", "hist"):
        with no_charge(cluster), refused("DP005", "no decider for a median or quantile takes a budget of kind rho"):
            median = "SELECT median(age) FROM {table} WHERE age > 4"
            decide(alice, median, "curved_syn", tau=4, rho=0.1, mechanism=mechanism)


def test_partitions_are_charged_and_given_back_alone(cluster: Cluster, alice: Connection) -> None:
    query = "SELECT count(*) FROM {table} WHERE day >= '2024-01-01' AND day < '2024-01-15'"
    assert detail(alice, query, "days_syn", tau=1000, epsilon=1, mechanism="em", fallback=True).decision is True
    weeks = {f"leaf/public.days/[2024-01-{a},2024-01-{b})": Decimal(1) for a, b in [("01", "08"), ("08", "15")]}
    assert account(cluster, "days") == account(cluster, "days", "alice") == weeks


def test_everybody_sees_what_was_given_back_and_his_own_in_words(cluster: Cluster, alice: Connection) -> None:
    query = "SELECT count(*) FROM {table} WHERE age > 15"
    detail(alice, query, tau=1500, epsilon=2, mechanism="em", fallback=True)
    seen = (
        "SELECT kind, who, call, mechanism, question FROM dp.spending WHERE dataset = 'census' ORDER BY at DESC LIMIT 2"
    )
    own = alice.execute(seen).fetchall()[::-1]
    assert [row[:4] for row in own] == [
        ("charge", "alice", "dp_decide_detail", "EM_count"),
        ("return", "alice", "dp_decide_detail", "EM_count"),
    ]
    assert own[0][4] == f"{query} (within 1500 of adult_syn?)"
    charged = one(alice, "SELECT request_id FROM dp.spending WHERE question = %s", own[0][4])
    assert own[1][4] == f"back from {charged}"
    with cluster.connect("bob") as bob:
        assert bob.execute(seen).fetchall()[::-1] == [(row[0], None, None, row[3], None) for row in own]
    with cluster.connect("boss") as boss:
        assert {row[0] for row in boss.execute("SELECT content ->> 'kind' FROM dp.export_ledger()")} > {
            "charge",
            "return",
        }


# the only decrease ------------------------------------------------------------------------------------------------

COLUMNS = "who, dataset, kind, call, mechanism, charge, epsilon, delta, rdp, scope, request, policy_version"
VALUES = "who, dataset, 'return', call, mechanism, {charge}, {epsilon}, 0, NULL, scope, {of}, policy_version"
RETURN = f"""INSERT INTO dp.ledger (request_id, {COLUMNS})
  SELECT gen_random_uuid(), {VALUES} FROM dp.ledger WHERE request_id = %(charge)s"""
PART = {
    "charge": "jsonb_build_array(charge -> 1)",
    "epsilon": "-epsilon / 2",
    "of": "jsonb_build_object('of', request_id)",
}
LOWER = "UPDATE dp.account SET spent_epsilon = spent_epsilon - {} WHERE dataset = '{}' AND role = '{}' AND node = '{}'"
NEVER = "never decreases"


@pytest.fixture(scope="module")
def reserved(cluster: Cluster, alice: Connection) -> dict[str, Any]:
    """A charge of decide + answer whose answer was needed: nothing of it was given back."""
    query = "SELECT count(*) FROM {table} WHERE age > 12"
    detail(alice, query, "adult_far", tau=400, epsilon=2, mechanism="em", fallback=True, fresh=True)
    with cluster.connect() as root:
        return {"charge": one(root, "SELECT request_id FROM dp.ledger WHERE kind = 'charge' ORDER BY seq DESC LIMIT 1")}


@contextmanager
def undone(cluster: Cluster) -> Iterator[Connection]:
    """A superuser in a transaction that is rolled back."""
    with cluster.connect(autocommit=False) as root:
        root.execute("SELECT 1 FROM dp.account WHERE node = 'root' FOR UPDATE")
        try:
            yield root
        finally:
            root.rollback()


def lower(root: Connection, amount: float = 2, dataset: str = "census", role: str = "", node: str = "relation") -> None:
    root.execute((LOWER.format(amount, dataset, role, node) + " AND relation_key IN ('', 'public.adult')").encode())


def give_back(root: Connection, reserved: dict[str, Any], **changes: str) -> None:
    root.execute(RETURN.format(**{**PART, **changes}).encode(), reserved)


def test_a_return_lowers_both_trees_once(cluster: Cluster, reserved: dict[str, Any]) -> None:
    with undone(cluster) as root:
        give_back(root, reserved)
        lower(root, role="")
        lower(root, role="alice")
        assert root.execute("SELECT * FROM dp._ledger_mismatch()").fetchall() == []
        with refused("42501", NEVER):
            lower(root, role="alice")


@pytest.mark.parametrize(
    "how",
    [
        {"amount": 1},
        {"amount": 3},
        {"amount": 2.0000001},
        {"role": "bob"},
        {"node": "root"},
        {"dataset": "shop", "node": "root"},
    ],
)
def test_another_decrease_than_the_returns_is_refused(
    cluster: Cluster, alice: Connection, reserved: dict[str, Any], how: dict[str, Any]
) -> None:
    detail(alice, "SELECT count(*) FROM {table}", "orders_syn", tau=1, epsilon=5, mechanism="lm")
    with undone(cluster) as root:
        root.execute("UPDATE dp.account SET spent_epsilon = spent_epsilon + 5 WHERE node = 'root' OR role = 'bob'")
        bobs = "('census', 'bob', 'relation', 'public.adult', '', 9, 0, NULL, '-infinity')"
        root.execute(f"INSERT INTO dp.account VALUES {bobs} ON CONFLICT DO NOTHING".encode())
        give_back(root, reserved)
        with refused("42501", NEVER):
            lower(root, **how)


def test_no_return_no_decrease(cluster: Cluster, reserved: dict[str, Any]) -> None:
    for dataset, node in [("census", "relation"), ("census", "root")]:
        with undone(cluster) as root, refused("42501", NEVER):
            root.execute("UPDATE dp.account SET spent_epsilon = spent_epsilon + 1 WHERE node = 'root'")
            lower(root, 1, dataset, node=node)


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": "-epsilon - 1"},
        {"charge": "charge", "epsilon": "-epsilon"},
        {"charge": 'jsonb_build_array(charge -> 1 || \'{"epsilon": "3"}\')'},
    ],
)
def test_a_return_is_a_part_of_its_charge(cluster: Cluster, reserved: dict[str, Any], changes: dict[str, str]) -> None:
    """Not more of it, not all of it, nothing that is not in it."""
    with undone(cluster) as root:
        give_back(root, reserved, **changes)
        back = -one(root, "SELECT epsilon FROM dp.ledger ORDER BY seq DESC LIMIT 1")
        with refused("42501", NEVER):
            lower(root, back)


@pytest.mark.parametrize("member", ["dataset", "who", "scope"])
def test_a_return_is_of_the_same_accounts(cluster: Cluster, reserved: dict[str, Any], member: str) -> None:
    elsewhere = "jsonb_build_object('node', 'relation', 'relation', 'public.visits')"
    other = {"dataset": "'shop'", "who": "'bob'", "scope": elsewhere}
    with undone(cluster) as root:
        sql = RETURN.replace(VALUES, VALUES.replace(member, other[member], 1))
        assert sql != RETURN
        root.execute(sql.format(**PART).encode(), reserved)
        with refused("42501", NEVER):
            lower(root)


def test_a_charge_that_was_not_answered_gives_nothing_back(cluster: Cluster, reserved: dict[str, Any]) -> None:
    with undone(cluster) as root:
        root.execute("ALTER TABLE dp.release DISABLE TRIGGER append_only")
        root.execute("DELETE FROM dp.release WHERE request_id = %(charge)s", reserved)
        give_back(root, reserved)
        with refused("42501", NEVER):
            lower(root)


def test_a_charge_gives_back_once(cluster: Cluster, reserved: dict[str, Any]) -> None:
    with undone(cluster) as root:
        give_back(root, reserved)
        with pytest.raises(psycopg.errors.UniqueViolation):
            give_back(root, reserved)


def test_amounts_have_the_sign_of_their_kind(cluster: Cluster, reserved: dict[str, Any]) -> None:
    with undone(cluster) as root, pytest.raises(psycopg.errors.CheckViolation):
        give_back(root, reserved, epsilon="epsilon / 2")
    with undone(cluster) as root, pytest.raises(psycopg.errors.CheckViolation):
        root.execute(RETURN.format(**PART).replace("'return'", "'charge'").encode(), reserved)


def test_accounts_do_not_move_and_curves_do_not_bend_down(cluster: Cluster, alice: Connection) -> None:
    detail(alice, "SELECT count(*) FROM {table} WHERE age > 5", "curved_syn", tau=4, epsilon=1, mechanism="lm")
    changes = [
        "role = 'bob' WHERE dataset = 'census' AND role = 'alice'",
        "relation_key = 'public.visits' WHERE dataset = 'census' AND relation_key = 'public.adult' AND role = ''",
        "spent_rdp = NULL WHERE dataset = 'curved'",
        "spent_rdp = spent_rdp[2:] WHERE dataset = 'curved'",
        "spent_rdp[3] = spent_rdp[3] - 0.001 WHERE dataset = 'curved' AND spent_rdp IS NOT NULL",
        "spent_rdp[1] = spent_rdp[1] + 1, spent_rdp[3] = 0 WHERE dataset = 'curved' AND spent_rdp IS NOT NULL",
        "spent_delta = spent_delta - 0.1 WHERE dataset = 'curved'",
    ]
    for change in changes:
        with undone(cluster) as root, refused("42501", NEVER):
            root.execute("UPDATE dp.account SET spent_delta = 0.5 WHERE dataset = 'curved'")
            root.execute(f"UPDATE dp.account SET {change}".encode())
    with undone(cluster) as root:
        root.execute("UPDATE dp.account SET spent_epsilon = spent_epsilon + 1, spent_delta = 0.5")


MANY = """
CREATE TEMP TABLE scope AS SELECT jsonb_build_object('node', 'leaf', 'relation', 'public.days', 'leaves', jsonb_agg(x)) AS s
  FROM (SELECT 'l' || i AS x FROM generate_series(1, 10000) i) x;
INSERT INTO dp.account (dataset, role, period, node, relation_key, leaf_key, spent_epsilon)
  SELECT 'days', r, '-infinity', 'leaf', 'public.days', 'l' || i, 2 FROM generate_series(1, 10000) i, unnest('{"",alice}'::name[]) r;
INSERT INTO dp.ledger (request_id, who, dataset, kind, call, mechanism, charge, epsilon, delta, scope, policy_version)
  SELECT gen_random_uuid(), 'alice', 'days', 'charge', 'many', 'x', '[{"a": 1}, {"b": 2}]', 2, 0, s, 1 FROM scope;
INSERT INTO dp.release (request_id, cache_key, dataset, relation_key, data_version, mechanism, answer)
  SELECT request_id, 'k', 'days', 'x', 1, 'x', '{}' FROM dp.ledger WHERE call = 'many';
INSERT INTO dp.ledger (request_id, who, dataset, kind, call, mechanism, charge, epsilon, delta, scope, request, policy_version)
  SELECT gen_random_uuid(), who, dataset, 'return', 'x', 'x', '[{"b": 2}]', -1, 0, scope,
    jsonb_build_object('of', request_id), 1 FROM dp.ledger WHERE call = 'many';
"""  # noqa: E501
LEAVES = "UPDATE dp.account SET spent_epsilon = 1 WHERE leaf_key LIKE 'l%%' AND role = %s"


def test_ten_thousand_leaves_take_a_second(cluster: Cluster) -> None:
    """Others wait for the root meanwhile. A plan that was made for one account must not be kept for all of them."""
    with undone(cluster) as root:
        root.execute("SET LOCAL statement_timeout = '30s'")
        root.execute("UPDATE dp.account SET spent_epsilon = spent_epsilon + 1 WHERE dataset = 'days' AND node = 'root'")
        root.execute(MANY)
        for role in ("", "alice"):
            root.execute(LEAVES, [role])
        assert root.execute(
            "SELECT count(*) FROM dp.returned d JOIN dp.ledger l USING (request_id) WHERE l.call = 'x'"
        ).fetchone() == (2,)
        with refused("42501", NEVER):
            root.execute("UPDATE dp.account SET spent_epsilon = 0 WHERE leaf_key = 'l77'")


def test_a_tree_gives_back_whole(cluster: Cluster) -> None:
    """All accounts of the charge together, or none."""
    with undone(cluster) as root:
        root.execute(MANY)
        with refused("42501", NEVER):
            root.execute("UPDATE dp.account SET spent_epsilon = 1 WHERE leaf_key LIKE 'l%' AND leaf_key <> 'l5'")


# the plan ---------------------------------------------------------------------------------------------------------

PLAN = "SELECT * FROM dp.dp_decide_plan"


def plan(connection: Connection, query: str, synthetic: str = "adult_syn", **arguments: Any) -> dict[str, Any]:
    rows = connection.execute((PLAN + call(query, synthetic, **arguments)).encode()).fetchall()
    members = ("extension", "tau_min", "epsilon_needed", "recommended", "note")
    return {row[0]: dict(zip(members, row[1:], strict=True)) for row in rows}


def test_a_plan_is_free_and_says_what_can_be_told_apart(cluster: Cluster, alice: Connection) -> None:
    """dp-pqd.md §9, with erratum 1's constants."""
    with no_charge(cluster):
        found = plan(alice, "SELECT count(*) FROM {table} WHERE age > 30", tau=10, epsilon=0.1)
    assert set(found) == {"lm", "em", "em_naive", "em_unclamped", "randomised_response"}
    assert round(found["lm"]["tau_min"], 2) == Decimal("29.96")
    assert round(found["em"]["epsilon_needed"], 3) == Decimal("0.294")
    assert [name for name, row in found.items() if row["recommended"]] == ["em"]
    assert {name for name, row in found.items() if row["extension"]} == EXTENSIONS & set(found)


def test_a_plan_of_a_sum_needs_a_guess_for_truncations(alice: Connection) -> None:
    query = "SELECT sum(hours) FROM {table}"
    bare, guessed = (plan(alice, query, tau_percent=5, epsilon=1, largest=largest) for largest in (None, 2))
    assert bare["r2t"]["tau_min"] is None
    assert "largest =>" in bare["r2t"]["note"]
    assert bare["lm"]["recommended"]
    assert guessed["svt"]["tau_min"] < guessed["lm"]["tau_min"]
    assert guessed["svt"]["recommended"]
    assert guessed["lm"] == {**bare["lm"], "recommended": False}


def test_a_plan_may_leave_out_the_bound(alice: Connection) -> None:
    """Then epsilon is that of 5 percent; the least tau is of the epsilon alone."""
    query = "SELECT count(*) FROM {table} WHERE age > 30"
    bare, five = plan(alice, query, epsilon=0.1), plan(alice, query, tau_percent=5, epsilon=0.1)
    assert bare == five
    assert bare["lm"]["tau_min"] == plan(alice, query, tau=1, epsilon=0.1)["lm"]["tau_min"]
    with refused("DP005", "how much"):
        plan(alice, query, tau=10)


def test_a_plan_shows_what_can_be_asked(alice: Connection) -> None:
    assert set(plan(alice, "SELECT sum(change) FROM {table}", tau=5, epsilon=1)) == {"lm", "r2t_split"}
    assert set(plan(alice, "SELECT sum(price) FROM {table}", "orders_syn", tau=5, epsilon=1)) == {"lm", "r2t"}
    medians = plan(alice, "SELECT median(age) FROM {table}", tau=5, epsilon=1)
    assert set(medians) == {"hist", "hist_one", "em", "em_tight"}
    assert all(row["tau_min"] is None and "no value-space guarantee" in row["note"] for row in medians.values())


def test_a_plan_refuses_what_the_decision_would(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster), refused("DP003", "GROUP BY"):
        plan(alice, COUNT + " GROUP BY kind", tau=1, epsilon=1)
    with no_charge(cluster), refused("DP005", "delta must be"):
        plan(alice, COUNT, tau=1, epsilon=1, delta=2)
    with cluster.connect("bob") as bob, refused("42501", "allotment"):
        plan(bob, COUNT, "orders_syn", tau=1, epsilon=1)


def test_a_decision_below_the_least_tau_is_made_with_a_warning(alice: Connection) -> None:
    query = "SELECT count(*) FROM {table} WHERE age > 31"
    low, high = (detail(alice, query, tau=tau, epsilon=0.1, mechanism="lm") for tau in (29, 30))
    assert "tau 29 is below 29.9574" in (low.warning or "")
    assert high.warning is None
    strict = detail(alice, query, tau=30, epsilon=0.1, mechanism="lm", delta=Decimal("0.01"))
    assert "with probability 0.99" in (strict.warning or "")


# PrivateBoundDS by itself -----------------------------------------------------------------------------------------


def bound(connection: Connection, arguments: str) -> Decimal:
    return Decimal(one(connection, f"SELECT dp.dp_bound({arguments})"))


@pytest.mark.parametrize(("theta", "expected"), [("0.3", 32), ("0.6", 64), ("0.95", 100), ("0.01", 2)])
def test_a_bound_is_the_power_of_two_that_covers_theta_of_the_rows(
    alice: Connection, theta: str, expected: int
) -> None:
    """Ages 0 … 89: 2^5 covers 36 %, 2^6 72 %, 2^1 3 %. No further than the declared bound, 100."""
    assert bound(alice, f"'adult', 'age', 'id <= 1980', epsilon => {HUGE}, theta => {theta}") == expected


def test_a_bound_is_in_steps_of_the_resolution(alice: Connection) -> None:
    """Quarters 0 … 399 of hours: 60 % of them are up to 256, which is 64 hours; tens 0 … 10: up to 8."""
    assert bound(alice, f"'adult', 'hours', epsilon => {HUGE}, theta => 0.6, resolution => 0.25") == 64
    assert bound(alice, f"'adult', 'hours', epsilon => {HUGE}, theta => 0.6, resolution => 10") == 80
    assert bound(alice, f"'adult', 'hours', epsilon => {HUGE}, upper => 7") == 7


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "words"),
    [
        ("'adult', 'age', epsilon => 1, theta => 0", "DP005", "theta"),
        ("'adult', 'age', epsilon => 1, theta => 1", "DP005", "theta"),
        ("'adult', 'age', epsilon => 1, theta => 'NaN'", "DP005", "theta"),
        ("'adult', 'change', epsilon => 1", "DP003", ""),
        ("'adult', 'id', epsilon => 1", "DP004", ""),
        ("'orders', 'price', epsilon => 1", "DP003", ""),
        ("'adult', 'age', epsilon => 1, upper => -5", "DP005", ""),
        ("'adult', 'age', epsilon => 0", "DP005", "epsilon"),
    ],
)
def test_a_bound_refuses_what_it_is_not_proved_for(
    cluster: Cluster, alice: Connection, arguments: str, sqlstate: str, words: str
) -> None:
    with no_charge(cluster), refused(sqlstate, words):
        bound(alice, arguments)


def test_a_bound_costs_its_epsilon_and_is_kept(cluster: Cluster, alice: Connection) -> None:
    before = spent(cluster, "census")
    first = bound(alice, "'adult', 'age', 'age > 7', epsilon => 0.5")
    assert spent(cluster, "census") - before == Decimal("0.5")
    with no_charge(cluster):
        assert bound(alice, "'adult', 'age', 'age > 7', epsilon => 0.5") == first
