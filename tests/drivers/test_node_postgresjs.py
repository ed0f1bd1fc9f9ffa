"""postgres.js through the proxy. tests/drivers/node/postgres.mjs asks; what it got is looked at here."""

from __future__ import annotations

from typing import Any

import pytest
from fix_node import Scenarios, near

from fix_drivers import CHANCE, DriversStack

pytestmark = pytest.mark.chance(CHANCE)

COUNT = "SELECT count(*) FROM samples WHERE whole > 250"
GIVEN: dict[str, Any] = {
    "bool": True, "int2": 40, "int4": 251, "int8": 2520000000000, "numeric": "284.625", "float4": 63.5, "float8": 85.5,
    "text": "word 7", "escaped": "x", "date": "2024-05-17", "timestamp": "2024-01-17 12:30:00",
    "timestamptz": "2024-01-18T12:00:00Z", "time": "04:30", "uuid": "00000000-0000-0000-0000-000000000254",
    "null": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def node(drivers_stack: DriversStack) -> Scenarios:
    return Scenarios("postgres", drivers_stack)


def counted(stack: DriversStack, *answers: Any) -> bool:
    return near(stack, COUNT, *answers)


def test_connects_with_scram_and_with_tls(node: Scenarios, drivers_stack: DriversStack) -> None:
    assert node["connect"] == "alicepostgres.js" and counted(drivers_stack, node["tls"])
    assert node["another certificate"] == "DEPTH_ZERO_SELF_SIGNED_CERT"
    assert (node["another password"]["code"], node["another password"]["severity"]) == ("28P01", "FATAL")


@pytest.mark.parametrize("kind", GIVEN)
def test_parameters(node: Scenarios, drivers_stack: DriversStack, kind: str) -> None:
    """Once, prepared, prepared again: one question."""
    question, *answers = node["parameters"][kind]
    literal = "NULL" if GIVEN[kind] is None else f"'{GIVEN[kind]}'"
    assert len(answers) == 3 and near(drivers_stack, question.replace("$1", literal), *answers)


def test_without_prepared_statements_and_types(node: Scenarios, drivers_stack: DriversStack) -> None:
    assert counted(drivers_stack, *node["without prepared statements"], node["without asking for types"])


def test_fragments(node: Scenarios) -> None:
    assert node["fragments"] == [[f"c{i}" for i in range(10)], "number", 10, "SELECT"]


def test_describe(node: Scenarios) -> None:
    assert node["describe"] == [[23, 25], [["code", 1043], ["n", 20]]]


def test_arrays(node: Scenarios) -> None:
    assert node["an array, of a type that was asked for"] == [True, "1", [1, 2]]


def test_rows_as_values_and_as_bytes(node: Scenarios) -> None:
    assert node["values and raw"] == [10, True]


def test_cursors(node: Scenarios, drivers_stack: DriversStack) -> None:
    found = node["cursor"]
    assert found["batches"] == [["c0", "c1", "c2", "c3"], ["c4", "c5", "c6", "c7"], ["c8", "c9"]]
    assert (found["early"], found["iterated"], found["each"]) == ([3], [6, 4], 10)
    assert counted(drivers_stack, found["after"])


def test_refusals(node: Scenarios, drivers_stack: DriversStack) -> None:
    *refusals, described, answer = node["refusals"]
    assert [refused["code"] for refused in refusals] == ["DP002", "DP002", "DP003", "42703", "42501", "DP002"]
    assert described == ["word"]  # names of columns are public, the row is not
    assert all(refused["hint"] for refused in refusals if refused["code"] != "42703")
    assert all(refused["severity"] == "ERROR" and refused["hidden"] == [] for refused in refusals)
    assert counted(drivers_stack, answer)


def test_transactions_and_savepoints(node: Scenarios, drivers_stack: DriversStack) -> None:
    found = node["transaction"]
    refused, kept = found["inside"]
    assert (refused, found["failed"]) == ("DP002", "DP002")
    assert counted(drivers_stack, *kept, found["first"], found["after"])


def test_simple_protocol(node: Scenarios, drivers_stack: DriversStack) -> None:
    (one, answer, three), stopped, after = node["simple"]
    assert (one, three, stopped) == (1, 3, "DP002") and counted(drivers_stack, answer, after)


def test_many_in_one_pipeline(node: Scenarios, drivers_stack: DriversStack) -> None:
    refused, answers = node["many in one pipeline"]
    assert refused == "DP002" and counted(drivers_stack, *answers)


def test_pool(node: Scenarios, drivers_stack: DriversStack) -> None:
    assert counted(drivers_stack, *node["pool"])


def test_copy_of_an_answer(node: Scenarios) -> None:
    lines = node["copy of an answer"]
    assert [line.split("\t")[0] for line in lines] == [*(f"c{i}" for i in range(10)), ""]


def test_notices_and_notifications(node: Scenarios) -> None:
    ((severity, code, message),) = node["notices"]
    assert (severity, code) == ("NOTICE", "00000") and message.startswith("dp: ")
    assert node["notifications"] == "hello"


def test_cancel(node: Scenarios, drivers_stack: DriversStack) -> None:
    state, answer = node["cancel"]
    assert state == "57014" and counted(drivers_stack, answer)
