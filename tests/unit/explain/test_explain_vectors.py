"""Cases V31 to V56 of DPXPlain, computed by an independent slow programme."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from explain_forms import NONE, gaussian, vector_form

from pg_epsilon.explain import linear
from pg_epsilon.explain.bootstrap import interval
from pg_epsilon.explain.forms import Linear
from pg_epsilon.explain.question import Interval, Question, compare, verdict

FILE = Path(__file__).resolve().parents[2] / "fixtures/explain/vectors.json"
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in json.loads(FILE.read_text())["cases"]
}  # fmt: skip
BY_RULE = ("V34", "V35", "V36")


def ids(kind: str) -> list[str]:
    found = [name for name, case in CASES.items() if case["input"]["kind"] == kind]
    return [name for name in found if name[:3] not in BY_RULE]


def exact(number: float) -> Fraction:
    """The decimal that is written."""
    return Fraction(str(number))


def assert_same(found: Interval | dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        mine = found[name] if isinstance(found, dict) else getattr(found, name)
        if isinstance(value, float) or value in ("Infinity", "-Infinity"):
            assert mine == pytest.approx(float(value), rel=1e-9), name
        else:
            assert mine == value, name


def question_of(given: dict[str, Any]) -> Question:
    release = given["release"]
    of_pairs = release["form"].startswith("pair")
    return Question(
        tuple(vector_form(release, release["groups"][name]) for name in given["weights"]),
        tuple(map(exact, given["weights"].values())),
        constant=exact(given.get("constant", 0)),
        method="fieller" if of_pairs else given.get("method", "auto"),
        confidence=exact(given.get("gamma", 0.95)),
        simultaneous=given.get("simultaneous_groups"),
    )


@pytest.mark.parametrize("name", ids("question"))
def test_a_question_is_answered_as_by_the_slow_programme(name: str) -> None:
    case = CASES[name]
    assert_same(compare(question_of(case["input"])), case["expected"])


@pytest.mark.parametrize("number", BY_RULE)
def test_each_simultaneous_rule_alone_is_that_of_the_slow_programme(number: str) -> None:
    """At its own level: how the levels are divided is the question's matter."""
    (case,) = (case for name, case in CASES.items() if name.startswith(number))
    asked = question_of(case["input"])
    groups, miss = asked.simultaneous or 0, 0.05
    forms = [form for form in asked.groups if isinstance(form, Linear)]
    terms = [(w, form.cell) for w, form in zip(asked.weights or (), forms, strict=True)]
    margin = {
        "bonferroni": lambda: linear.normal(terms, miss / math.comb(groups, 2)),
        "studentized_range": lambda: linear.studentised(terms, miss, groups),
        "all_linear": lambda: linear.any_weights(terms, miss, groups),
    }[case["input"]["simultaneous"]]()
    middle = float(sum(w * Fraction(cell.value) for w, cell in terms))
    low, high = middle - margin, middle + margin
    found = {"difference": middle, "low": low, "high": high, "verdict": verdict(low, high)}
    assert_same(found, case["expected"])


def written(tree: Any, names: list[str]) -> str:
    """A case's expression as an analyst writes it."""
    if isinstance(tree, str):
        return f"o{names.index(tree) + 1}"
    if isinstance(tree, int | float):
        return str(tree)
    symbol, *parts = [tree[0], *(written(part, names) for part in tree[1:])]
    if symbol in ("exp", "log"):
        return f"{symbol}({parts[0]})"
    return f"({parts[0]} {symbol} {parts[1]})"


def arithmetic_of(given: dict[str, Any], **more: Any) -> Question:
    values = given["values"]
    groups = tuple(gaussian(value["noisy"], value["sigma"], NONE) for value in values.values())
    text = written(given["expression"], list(values))
    return Question(groups, expression=text, confidence=exact(given.get("gamma", 0.95)), **more)


@pytest.mark.parametrize("name", ids("image"))
def test_an_expression_is_bounded_as_by_the_slow_programme(name: str) -> None:
    case = CASES[name]
    assert_same(compare(arithmetic_of(case["input"])), case["expected"])


@pytest.mark.parametrize("name", ids("bootstrap"))
def test_a_bootstrap_has_the_ends_of_the_slow_programme(name: str) -> None:
    """From the given draws, of which there are fewer than a question may ask for."""
    case = CASES[name]
    given = [x for row in case["input"]["draws"] for x in row]
    asked = arithmetic_of(case["input"])
    cells = [form.cell for form in asked.groups if isinstance(form, Linear)]
    size, miss = len(case["input"]["draws"]), float(1 - asked.confidence)
    low, high = interval(cells, lambda v: v[0] / v[1], miss, size, lambda n: given)
    assert_same({"low": low, "high": high, "approximate": True}, case["expected"])


def test_the_taxi_case_of_the_paper() -> None:
    """Trips against ten times other trips (dpxplain.md §13), with the ends worked out anew."""
    groups = (gaussian(121934.53, 5**0.5, NONE), gaussian(11431.04, 5**0.5, NONE))
    found = compare(Question(groups, (Fraction(1), Fraction(-10))))
    assert (found.low, found.high) == pytest.approx((7580.0853, 7668.1747), abs=1e-4)
    assert found.verdict == "yes"


def test_all_cases_are_here() -> None:
    assert [int(name[1:3]) for name in CASES] == list(range(31, 57))
