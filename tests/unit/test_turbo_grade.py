"""The named grades of a margin (composition.md §7.3, §9): the weakest of an answer's parts."""

from __future__ import annotations

import pytest

from pg_epsilon.turbo.shown import grade


@pytest.mark.parametrize(
    ("paths", "named"),
    [
        (["synopsis"], "uniform"),
        (["synopsis", "trivial"], "uniform"),
        (["r3"], "oblivious"),
        (["r1"], "oblivious"),
        (["r2"], "oblivious"),
        (["exact"], "oblivious"),
        (["mixed"], "oblivious"),
        (["synopsis", "exact"], "oblivious"),
        (["synopsis", "bypass"], "oblivious"),
    ],
)
def test_the_grade_is_that_of_the_weakest_part(paths: list[str], named: str) -> None:
    assert grade(paths) == named
