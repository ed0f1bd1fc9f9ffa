"""Declared columns as finitely many cells, and the values that a cell stands for: public facts only (rule R4)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from pg_epsilon.errors import DPError
from pg_epsilon.query.policy import policy_from_json
from pg_epsilon.query.schema import Column, ColumnPolicy
from pg_epsilon.synthesis.ask import Synthesis
from pg_epsilon.synthesis.choice import document, read
from pg_epsilon.synthesis.marginals import Marginals
from pg_epsilon.synthesis.variables import Points, Variable, variable
from unit.policies import column, planned, row_policy, user_policy
from unit.policies import document as policy_document

TYPES = {
    "integer": 23,
    "numeric": 1700,
    "double precision": 701,
    "date": 1082,
    "timestamp without time zone": 1114,
    "timestamp with time zone": 1184,
    "text": 25,
    "boolean": 16,
    "interval": 1186,
}


def made(type_name: str, bins: int = 8, typmod: int = -1, **policy: Any) -> Variable:
    kind = "domain" if "domain" in policy else "edges" if "edges" in policy else "bounds"
    declared = ColumnPolicy(kind, **policy)
    return variable(Column("x", TYPES[type_name], type_name, typmod, policy=declared), bins)


def ends(one: Variable) -> list[tuple[str, str]]:
    """First and last value of every cell."""
    assert one.points is not None
    return [(one.points.text(first), one.points.text(first + count - 1)) for first, count in one.cells]


def test_few_values_have_a_cell_each() -> None:
    one = made("integer", lower="3", upper="7", resolution="2")
    assert ends(one) == [("3", "3"), ("5", "5"), ("7", "7")]
    assert one.size == 4  # and NULL
    assert made("integer", lower="3", upper="7", nullable=False).size == 5


def test_fine_bounds_are_cut_and_their_ends_and_zero_stand_alone() -> None:
    cells = ends(made("integer", lower="-100", upper="99999", bins=16))
    assert cells[0] == ("-100", "-100")
    assert cells[-1] == ("99999", "99999")
    assert ("0", "0") in cells
    assert len(cells) <= 16
    assert all(int(low) == int(before) + 1 for (_, before), (low, _) in pairwise(cells))


@pytest.mark.parametrize(
    ("type_name", "policy", "first", "last"),
    [
        ("numeric", {"lower": "0", "upper": "1", "resolution": "0.25"}, "0.00", "1.00"),
        ("numeric", {"lower": "0.5", "upper": "10000"}, "0.5", "10000.0"),
        ("double precision", {"lower": "0", "upper": "1"}, "0.0000", "1.0000"),
        ("date", {"lower": "2024-02-28", "upper": "2024-03-02"}, "2024-02-28", "2024-03-02"),
        ("date", {"lower": "2024-01-01", "upper": "2024-01-31", "resolution": "7 days"}, "2024-01-01", "2024-01-29"),
        (
            "timestamp without time zone",
            {"lower": "2024-01-01 00:00:00", "upper": "2024-01-01 02:30:00", "resolution": "01:00:00"},
            "2024-01-01 00:00:00",
            "2024-01-01 02:00:00",
        ),
        (
            "timestamp with time zone",
            {"lower": "2024-01-01 00:00:00+00", "upper": "2024-01-01 00:00:59+00"},
            "2024-01-01 00:00:00+00",
            "2024-01-01 00:00:59+00",
        ),
        ("integer", {"edges": ("0", "18", "65", "120")}, "0", "119"),
        ("date", {"edges": ("2024-01-01", "2024-02-01")}, "2024-01-01", "2024-01-31"),
    ],
)
def test_values_lie_on_the_declared_lattice(type_name: str, policy: dict[str, Any], first: str, last: str) -> None:
    cells = ends(made(type_name, **policy))
    assert (cells[0][0], cells[-1][1]) == (first, last)


def test_edges_are_the_cells() -> None:
    assert ends(made("integer", edges=("0", "18", "65", "120"))) == [("0", "17"), ("18", "64"), ("65", "119")]


def test_domains_and_booleans_are_lists() -> None:
    assert made("text", domain=("b", "a")).texts == ("b", "a")
    assert made("boolean", nullable=False).texts == ("f", "t")
    assert made("integer", domain=("7", "3")).texts == ("7", "3")


def test_a_value_is_quoted_wherever_it_goes() -> None:
    one = made("text", domain=("o'neill", 'a"b\\c{}', "x,y"))
    assert one.value("u.c1") == ("""(E'{"o''neill","a\\\\"b\\\\\\\\c{}","x,y"}'::pg_catalog.text[])[u.c1 + 1]""")
    assert "''neill" in one.sql


@pytest.mark.parametrize(
    ("type_name", "policy", "state"),
    [
        ("text", {}, "DP004"),
        ("integer", {}, "DP004"),
        ("interval", {}, "DP004"),
        ("date", {"lower": "0044-03-15 BC", "upper": "2024-01-01"}, "DP004"),
        ("text", {"domain": tuple(map(str, range(70_000)))}, "DP005"),
    ],
)
def test_what_has_no_values_is_refused_with_a_hint(type_name: str, policy: dict[str, Any], state: str) -> None:
    with pytest.raises(DPError) as refused:
        made(type_name, **policy)
    assert refused.value.sqlstate == state
    assert refused.value.hint


def test_points_survive_the_way_to_the_rows() -> None:
    for one in (made("date", lower="2024-01-01", upper="2024-12-31"), made("text", domain=("a", "b"))):
        assert Variable.from_json(one.to_json()).to_json() == one.to_json()
    assert Points("number", "1/3", "1/3", 2).text(1) == "0.67"


def asked(policy: Any = None, **changes: Any) -> Any:
    members = {"synthesize": {"method": "marginals", **changes.pop("synthesize", {})}, "aggregates": [], **changes}
    return planned(policy or row_policy(), **members)


def test_the_default_is_every_published_column_with_declared_values() -> None:
    plan = asked()
    assert [one.name for one in plan.request.kinds["synthesize"].variables] == ["age", "sex", "day"]


def test_charges_add_up_to_the_budget() -> None:
    plan = asked(budget={"epsilon": "1"})
    assert sum(charge.pure()[0] for charge in plan.charges) == 1
    kinds = [charge.kind for charge in plan.charges]
    assert kinds == ["laplace", "exponential", "exponential", "laplace", "exponential", "laplace"]


def test_users_need_a_cap_and_scale_with_it() -> None:
    measure = asked(user_policy()).measures[0]
    assert isinstance(measure, Marginals)
    assert measure.rows == 5
    assert measure.first.l1 == 5 * (1 + len(measure.layout.sizes))
    assert measure.first.l2_squared == 25 * (1 + len(measure.layout.sizes))
    with pytest.raises(DPError) as refused:
        asked(user_policy(max_rows_per_unit=None))
    assert refused.value.sqlstate == "DP004"


def test_keys_of_users_are_not_made_up_unless_asked_for() -> None:
    assert "owner" not in [one.name for one in asked(user_policy()).request.kinds["synthesize"].variables]


def test_the_way_to_the_rows_keeps_the_measure() -> None:
    plan = asked(budget={"epsilon": "0.7"})
    found = document(plan.request.kinds["synthesize"], plan.measures[0], [5])
    _, measure, raw = read(found)
    assert measure == plan.measures[0]
    assert raw == [5]


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"synthesize": {"method": "gan"}}, "DP005"),
        ({"synthesize": {"bins": "3"}}, "DP005"),
        ({"synthesize": {"bins": "many"}}, "DP005"),
        ({"synthesize": {"columns": ["age", "age"]}}, "42703"),
        ({"synthesize": {"columns": ["nowhere"]}}, "42703"),
        ({"synthesize": {"columns": ["note"]}}, "DP004"),
        ({"synthesize": {"more": 1}}, "DP003"),
        ({"aggregates": [{"function": "count", "argument": "*"}]}, "DP003"),
        ({"where": "age > 3"}, "DP003"),
        ({"budget": {"alpha": "0.1", "beta": "0.1"}}, "DP005"),
        ({"budget": {"epsilon": "0.000000000000000005"}}, "DP005"),
    ],
)
def test_refusals(changes: dict[str, Any], state: str) -> None:
    with pytest.raises(DPError) as refused:
        asked(**changes)
    assert refused.value.sqlstate == state
    assert refused.value.hint


def test_too_many_cells_are_refused_before_the_charge() -> None:
    wide = [column(f"c{i}", "integer", 23, kind="bounds", lower="0", upper="200") for i in range(40)]
    policy = policy_from_json(policy_document(columns=wide, partition_by=None, grid=None))
    with pytest.raises(DPError) as refused:
        asked(policy, synthesize={"bins": "200"})
    assert refused.value.sqlstate == "DP005"
    with pytest.raises(DPError):
        asked(policy_from_json(policy_document(columns=wide * 2, partition_by=None, grid=None)))


def test_what_is_asked_tells_releases_apart() -> None:
    keys = {asked(synthesize={"bins": bins}).cache_key for bins in ("16", "17")}
    assert len(keys) == 2
    assert asked().cache_key == asked(synthesize={"columns": ["age", "sex", "day"], "bins": "128"}).cache_key
    assert isinstance(asked().request.kinds["synthesize"], Synthesis)
