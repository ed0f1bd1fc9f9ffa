"""node-pg and pg-cursor through the proxy. tests/drivers/node/pg.mjs asks; what it got is looked at here."""

from __future__ import annotations

from typing import Any

import pytest
from fix_node import Scenarios, near

from fix_drivers import CHANCE, DriversStack

pytestmark = pytest.mark.chance(CHANCE)

COUNT = "SELECT count(*) FROM samples WHERE whole > 250"
TYPES = [
    "bool",
    "int2",
    "int4",
    "int8",
    "numeric",
    "float4",
    "float8",
    "text",
    "escaped",
    "varchar",
    "date",
    "timestamp",
]
TYPES += ["timestamptz", "time", "uuid", "null"]
GIVEN: dict[str, Any] = {
    "bool": True, "int2": 40, "int4": 251, "int8": 2520000000000, "numeric": "284.625", "float4": 63.5, "float8": 85.5,
    "text": "word 7", "escaped": "x", "varchar": "c7", "date": "2024-05-17", "timestamp": "2024-01-17 12:30:00",
    "timestamptz": "2024-01-18T12:00:00Z", "time": "04:30", "uuid": "00000000-0000-0000-0000-000000000254",
}  # fmt: skip


@pytest.fixture(scope="module")
def node(drivers_stack: DriversStack) -> Scenarios:
    return Scenarios("pg", drivers_stack)


def counted(stack: DriversStack, answer: Any) -> bool:
    return near(stack, COUNT, answer)


def test_connects_with_scram(node: Scenarios) -> None:
    assert node["connect"] == "alicenode-pg"


def test_tls_in_both_ways(node: Scenarios, drivers_stack: DriversStack) -> None:
    protocol, answer = node["tls"]
    assert protocol == "TLSv1.3" and counted(drivers_stack, answer)
    assert counted(drivers_stack, node["direct tls"])
    assert node["another certificate"] == "DEPTH_ZERO_SELF_SIGNED_CERT"


def test_channel_binding_is_chosen(node: Scenarios, drivers_stack: DriversStack) -> None:
    mechanisms, answer = node["channel binding"]
    assert mechanisms == ["SCRAM-SHA-256-PLUS"] and counted(drivers_stack, answer)


def test_a_wrong_password_is_a_fatal_error(node: Scenarios) -> None:
    refused = node["another password"]
    assert (refused["code"], refused["severity"]) == ("28P01", "FATAL")


@pytest.mark.parametrize("kind", TYPES)
def test_parameters(node: Scenarios, drivers_stack: DriversStack, kind: str) -> None:
    """Unnamed, named, named again: one question."""
    question, *answers = node["parameters"][kind]
    literal = "NULL" if kind == "null" else f"'{GIVEN[kind]}'"
    assert len(answers) == 3 and near(drivers_stack, question.replace("$1", literal), *answers)


def test_columns_have_postgresqls_names_and_types(node: Scenarios) -> None:
    found = node["columns of an answer"]
    assert found["shape"] == [
        ["yes", 16, -1, "text"],
        ["code", 1043, 14, "text"],
        ["count", 20, -1, "text"],
        ["n", 1700, (12 << 16 | 3) + 4, "text"],
        ["d", 1082, -1, "text"],
    ]
    assert (found["rows"], found["command"], found["first"]["yes"], found["array"][:2]) == (
        20,
        "SELECT",
        False,
        [False, "c0"],
    )


def test_metadata(node: Scenarios) -> None:
    columns = dict(node["metadata without rows"])
    assert len(columns) == 19 and columns["exact"] == "numeric" and columns["moment"] == "timestamptz"


def test_results_in_binary(node: Scenarios) -> None:
    formats, row = node["results in binary"]
    assert formats == ["binary"] * 4 and row == {"one": 1, "yes": True, "word": "xy", "none": None}


def test_a_statements_name_is_for_one_text(node: Scenarios) -> None:
    assert "Prepared statements must be unique" in node["a name with another text"]


def test_refusals_carry_state_hint_and_place_and_no_more(node: Scenarios, drivers_stack: DriversStack) -> None:
    *refusals, answer = node["refusals"]
    assert [refused["code"] for refused in refusals] == ["DP002", "DP002", "DP002", "DP003", "42703", "42501"]
    assert all(refused["hint"] for refused in refusals if refused["code"] != "42703")
    assert [refused["position"] for refused in refusals[:3]] == ["18"] * 3
    assert all(refused["severity"] == "ERROR" and refused["hidden"] == [] for refused in refusals)
    assert counted(drivers_stack, answer)


def test_transaction(node: Scenarios) -> None:
    assert node["transaction"] == ["DP002", "25P02", True, None]


def test_several_statements_in_one_message(node: Scenarios, drivers_stack: DriversStack) -> None:
    (one, answer, two), stopped = node["several statements in one message"]
    assert (one, two, stopped) == ({"one": 1}, {"two": 2}, "DP002") and counted(drivers_stack, answer["count"])


def test_pipeline(node: Scenarios, drivers_stack: DriversStack) -> None:
    first, refused, bound, plain, named = node["pipeline"]
    assert (refused, plain) == ("DP002", 7) and near(drivers_stack, COUNT, first, bound, named)


def test_notices_and_notifications(node: Scenarios) -> None:
    ((severity, code, message),) = node["notices"]
    assert (severity, code) == ("NOTICE", "00000") and message.startswith("dp: ")
    assert node["notifications"] == ["mine", "hello"]


@pytest.mark.parametrize("how", ["cancel", "a statement's time limit"])
def test_a_statement_is_cancelled(node: Scenarios, drivers_stack: DriversStack, how: str) -> None:
    state, answer = node[how]
    assert state == "57014" and counted(drivers_stack, answer)


def test_pool(node: Scenarios, drivers_stack: DriversStack) -> None:
    found = node["pool"]
    assert len(found["even"]) == len(found["odd"]) == 1 and found["code"] == "DP002"
    assert near(drivers_stack, COUNT, found["even"][0], found["after"])


def test_cursor_in_batches_and_closed_early(node: Scenarios, drivers_stack: DriversStack) -> None:
    found = node["cursor"]
    assert found["batches"] == [["c0", "c1", "c2", "c3"], ["c4", "c5", "c6", "c7"], ["c8", "c9"]]
    assert (found["first"], found["same"], found["arrays"]) == (3, True, 10) and counted(drivers_stack, found["after"])


def test_a_cursor_over_rows_is_refused(node: Scenarios, drivers_stack: DriversStack) -> None:
    state, answer = node["a cursor over rows"]
    assert state == "DP002" and counted(drivers_stack, answer)
