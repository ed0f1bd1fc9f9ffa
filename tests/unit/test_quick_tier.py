"""`make quick` has something of every suite and kind (quick_tier.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from quick_tier import CONTROL, HAPPY, QUICK, REFUSAL

TESTS = Path(__file__).resolve().parents[1]
# unit/ is in `make check`; drivers/, timescale/ and pgupgrade/ are heavy targets of their own; benchmarks/ and data/
# hold no tests
ELSEWHERE = {"unit", "drivers", "timescale", "pgupgrade", "benchmarks", "data", "fixtures"}
SUITES = sorted(place.name for place in TESTS.iterdir() if place.name not in ELSEWHERE and any(place.glob("test_*.py")))


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_has_a_happy_path_a_refusal_and_a_control(suite: str) -> None:
    assert {kind for place, kind, _ in QUICK if place == suite} == {HAPPY, REFUSAL, CONTROL}


def test_no_row_names_a_suite_that_is_not_there() -> None:
    assert {suite for suite, _, _ in QUICK} == set(SUITES)
