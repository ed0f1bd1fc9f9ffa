"""Sets of classes as numbers, and the noise of what is asked of them (release/members.py, release/served.py)."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pg_epsilon.errors import DPError
from pg_epsilon.query.aggregates import ROWS, VALUE, Aggregate
from pg_epsilon.query.attributes import NotBins
from pg_epsilon.release import members as release_members
from pg_epsilon.release.ask import Family
from pg_epsilon.release.members import EVERY, ITSELF, PRESENT, Member, digest, digests
from pg_epsilon.release.served import deviation, served
from pg_epsilon.release.sets import Masks


def family(*masks: Masks) -> Family:
    return cast(Family, SimpleNamespace(masks=masks, weights=None))


def bits(*rows: str) -> Any:
    return np.array([[one == "1" for one in row] for row in rows])


def test_a_query_of_the_grid_is_known_by_its_classes() -> None:
    grid = family(Masks(("110", "001"), (0, 1, 0)), Masks(("01", "11"), (0, 0, 1)))
    found = digests(grid)
    assert len(found) == len(set(found)) == 3 and found == sorted(found)
    for one in (bits("01", "01", "00"), bits("00", "00", "01"), bits("11", "11", "00")):
        assert digest(one) in found
    assert digest(bits("01", "00", "00")) not in found
    assert all(-(2**63) <= one < 2**63 for one in found)


def test_a_set_that_is_no_product_or_empty_is_of_no_grid() -> None:
    assert digest(bits("10", "01")) is None
    assert digest(bits("00", "00")) is None
    assert digest(np.array([True, False])) is not None


SUM = Aggregate(VALUE, "r.x", None, "sum", "sum")
FACTS = {
    "question": {"aggregate": {"sum": "value", "argument": "r.x"}},
    "values": ["0", "1/2", "1", "2", "NULL"],
    "whole": 8,
    "noise": [0.25, False, 0.125],
}
COUNTS = {"question": {"aggregate": {"count": "rows"}}, "values": ["1"], "whole": 1, "noise": [2.0, False, 1.0]}
# three classes of five cells, in eighths of a row
CELLS = np.array([[80, 8, 0, 16, 8], [40, 0, 8, 0, 0], [0, 0, 0, 0, 800]], np.float64).reshape(-1)


@pytest.mark.parametrize(
    ("way", "exact", "weights"),
    [
        (ITSELF, 0.5 * 1 + 1 * 1 + 2 * 2, [0, 0.5, 1, 2]),
        (EVERY, (80 + 8 + 16 + 8 + 40 + 8) / 8, [1] * 5),
        (PRESENT, (80 + 8 + 16 + 40 + 8) / 8, [1] * 5),
    ],
)
def test_sums_and_counts_come_from_the_same_cells(way: str, exact: float, weights: list[float]) -> None:
    aggregate = SUM if way == ITSELF else Aggregate(ROWS, None, None, "count")
    member = Member(aggregate, way, np.array([True, True, False]))
    found = served(FACTS, CELLS, member, None, 0.05)
    assert found.answer.unbiased == pytest.approx(exact)
    assert found.answer.low <= found.answer.unbiased <= found.answer.high
    assert deviation(FACTS, member) == pytest.approx(math.sqrt(2) * 0.25 * math.sqrt(2 * sum(w * w for w in weights)))


def test_a_bar_of_the_grid_is_narrower_than_one_of_all_sets() -> None:
    member = Member(Aggregate(ROWS, None, None, "count"), ITSELF, np.array([True, True, False]))
    own, others = (served(COUNTS, np.array([5.0, 6.0, 7.0]), member, queries, 0.05) for queries in (1, None))
    assert own.answer.answer == others.answer.answer == 11
    assert others.answer.high - others.answer.low > 1.2 * (own.answer.high - own.answer.low)
    assert deviation(COUNTS, member) == pytest.approx(math.sqrt(2) * 2 * math.sqrt(2))


def test_no_class_is_zero_for_sure() -> None:
    member = Member(SUM, ITSELF, np.zeros(3, bool))
    found = served(FACTS, CELLS, member, None, 0.05).answer
    assert (found.answer, found.unbiased, found.low, found.high, found.below_resolution) == (0, 0, 0, 0, False)


def test_a_column_that_cannot_be_evaluated_is_a_reason_and_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain question is paid for then, and not refused for what another release is made of."""

    def refused(column: Any) -> Any:
        raise DPError("DP005", "too many values", "Declare edges.")

    monkeypatch.setattr(release_members, "attribute", refused)
    columns = SimpleNamespace(relation=SimpleNamespace(columns={"x": None}))
    with pytest.raises(NotBins, match="too many values"):
        release_members._attributes(cast(Any, SimpleNamespace(policy=columns)), {"classes": [["x", ["1"]]]})
