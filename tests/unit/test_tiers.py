"""The two tiers (tests/tiers.py, tests/thorough.txt): nothing is lost between them, and what guards privacy is fast."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from pathlib import Path

import pytest

import fix_chance
import tiers
from chance_report import CERTAIN, Item, own, report, silent, too_likely, unmarked
from collected import everything

ROOT = Path(__file__).resolve().parents[2]
# drivers and TimescaleDB are targets of their own; the campaign's controls run where the campaign does
ELSEWHERE = ("drivers/", "timescale/", "crash/test_campaign.py")
CONTROLS = [
    name
    for name in (ROOT / "tests/fixtures/controls.txt").read_text(encoding="utf-8").split()
    if not name.startswith(ELSEWHERE)
]
# Controls of which every case runs before a landing: record and replay, the deciders.
WHOLE = re.compile(r"privacy/test_(\w*replay\w*|decide_\w+|turbo_audit)\.py::")
THIRD_STATE = re.compile(r"::test_(an_attack_learns_nothing|a_decision_tells_nothing)_of_empty_tables\[")

# Where this file runs alone, another pytest collects the suite: two minutes on a busy machine.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def items(request: pytest.FixtureRequest) -> list[Item]:
    """Everything that `make test` looks at, of whatever tier: as this run found it, or another that runs nothing."""
    return own(everything(request.config)) or report()


@pytest.fixture(scope="module")
def nodes(items: list[Item]) -> list[str]:
    return [item.node for item in items]


def of(control: str, nodes: list[str]) -> list[str]:
    return [node for node in nodes if node.partition("[")[0] == f"tests/{control}"]


def test_the_marks_are_those_of_the_list(request: pytest.FixtureRequest) -> None:
    """Of what was selected here, whatever it is."""
    for item in request.session.items:
        for mark, of_list in (("thorough", tiers.is_thorough), ("control", tiers.is_control)):
            assert (item.get_closest_marker(mark) is not None) == of_list(item.nodeid), (mark, item.nodeid)


def test_every_line_names_a_test(nodes: list[str]) -> None:
    of_file: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        of_file[node.partition("::")[0]].append(node)

    def near(rule: tiers.Rule) -> list[str]:
        file = rule.pattern.partition("::")[0]
        return nodes if tiers.WILD.search(file) else of_file[file]

    assert [rule.pattern for rule in tiers.RULES if not any(map(rule.is_thorough, near(rule)))] == []


def test_every_attack_runs_before_a_landing(nodes: list[str]) -> None:
    attacks = [node for node in nodes if node.startswith("tests/attacks/")]
    assert len(attacks) > 5000
    assert [node for node in attacks if tiers.is_thorough(node) != bool(THIRD_STATE.search(node))] == []


@pytest.mark.parametrize("control", CONTROLS)
def test_a_control_runs_before_a_landing(control: str, nodes: list[str]) -> None:
    """Every case of it where it guards the replay or a decider, else at least one."""
    cases = of(control, nodes)
    thorough = [node for node in cases if tiers.is_thorough(node)]
    if WHOLE.match(control):
        assert thorough == []
    assert len(thorough) < len(cases)


def test_nothing_was_thrown_away(nodes: list[str]) -> None:
    """Tests move between tiers; in all of them together there are no fewer than before, nor of what must be caught."""
    assert len(nodes) >= tiers.TESTS_THEN
    assert len({node.partition("[")[0] for node in nodes if tiers.is_control(node)}) >= tiers.CONTROLS_THEN
    assert {f"tests/{name}" for name in CONTROLS} <= {node.partition("[")[0] for node in nodes}


def test_a_suite_keeps_a_good_part_of_its_tests(nodes: list[str]) -> None:
    for suite in {node.split("/")[1] for node in nodes}:
        ours = [node for node in nodes if node.startswith(f"tests/{suite}/") and not THIRD_STATE.search(node)]
        assert 5 * sum(map(tiers.is_thorough, ours)) < 3 * len(ours), suite


def test_parts_and_comments() -> None:
    whole, part = tiers.read(["# a comment", "", "a.py::*", "1/3 b.py::*]"])
    assert whole.is_thorough("a.py::test[x#1]") and not whole.is_thorough("b.py::test[x]")
    kept = [n for n in range(3000) if not part.is_thorough(f"b.py::test[{n}]")]
    assert 900 < len(kept) < 1100
    assert not part.is_thorough("b.py::test")


# --- the mark `chance` ------------------------------------------------------------------------------------------------


def test_a_test_fails_once_in_a_million(items: list[Item]) -> None:
    assert sum(item.chance is not None for item in items) > 300
    assert too_likely(items) == []


def test_the_suite_fails_once_in_ten_thousand(items: list[Item]) -> None:
    assert math.fsum(item.chance or 0 for item in items) <= fix_chance.SUITE


def test_what_states_a_probability_is_marked(items: list[Item]) -> None:
    assert unmarked(items) == []


def test_a_module_that_states_a_probability_has_a_marked_test(items: list[Item]) -> None:
    names = {item.node.partition("::")[0] for item in items} - {"tests/unit/test_chance.py"}
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    certain = {name for name, text in texts.items() if CERTAIN.search(text)}
    assert silent(items, {name: text for name, text in texts.items() if name not in certain}) == []
