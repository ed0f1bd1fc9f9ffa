"""A load near what its bins can count: credit is forgotten, never invented (composition.md §5.5)."""

from __future__ import annotations

import struct
import zlib
from decimal import Decimal

import pytest

from pg_epsilon.turbo.bins import Domain, box_query
from pg_epsilon.turbo.calibration import Draw
from pg_epsilon.turbo.load import Load

FULL = 2**32 - 1
DOMAIN = Domain((2,))
LEFT, RIGHT = box_query(DOMAIN, [{0}]), box_query(DOMAIN, [{1}])
UNIT = Decimal("0.001")
DRAW = Draw("laplace", Decimal(65_536) * UNIT)


def filled(level: int) -> Load:
    load = Load.empty(2, 3, UNIT)
    load.used[:], load.level, load.rent = level, level, 11
    return load


def stored(data: bytes) -> Load:
    load = Load.from_bytes(data, UNIT)
    assert load is not None
    return load


@pytest.mark.parametrize("fresh", [False, True])
def test_a_load_that_is_half_full_starts_anew_between_requests(fresh: bool) -> None:
    data = filled(2**31).to_bytes()
    if fresh:  # as another backend reads it
        stored(data)
    load = stored(data)
    assert (load.level, load.used.tolist(), load.rent, load.since) == (0, [0, 0], 11, 3)
    again = stored(filled(2**31 - 1).to_bytes())
    assert (again.level, again.used.tolist()) == (2**31 - 1, [2**31 - 1] * 2)


def test_a_batch_never_leaves_more_credit_than_was_paid() -> None:
    """What both queries need is paid at once; whatever is left for a bin afterwards was paid and not drawn on."""
    load = stored(filled(FULL - 100_000).to_bytes())
    paid = max(load.needed(query, DRAW) for query in (LEFT, RIGHT)) - load.level
    for query in (LEFT, RIGHT):
        load.take(query, DRAW)
    credit = load.level - load.used.astype(int)
    assert paid == 65_536
    assert credit.tolist() == [0, 0]


def test_what_cannot_be_counted_is_refused_before_it_is_paid() -> None:
    load = filled(FULL - 65_535)
    with pytest.raises(OverflowError):
        load.needed(LEFT, DRAW)
    assert load.level == FULL - 65_535


@pytest.mark.parametrize("warm", [False, True])
def test_a_load_of_another_unit_is_no_load(warm: bool) -> None:
    """Finding A10. The control: one unit, however it is written, is one unit."""
    data = filled(1000).to_bytes()
    if not warm:
        Load.from_bytes(data, UNIT)  # handed out once: the next one reads the bytes
    for other in (UNIT * 2, UNIT / 2, UNIT + Decimal("1e-18")):
        assert Load.from_bytes(data, other) is None
    found = Load.from_bytes(data, Decimal("0.00100"))
    assert found is not None and found.level == 1000


def test_a_load_of_a_version_that_stored_no_unit_is_no_load() -> None:
    level, rent, since, snapshot = 5, 5, 0, zlib.compress(bytes(8))
    assert Load.from_bytes(struct.pack("<4sQQQI", b"TL1\0", level, rent, since, len(snapshot)) + snapshot, UNIT) is None
