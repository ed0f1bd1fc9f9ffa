"""What drivers send at start-up, for metadata and in between, as noted once: the outcomes stay the same."""

from __future__ import annotations

import pytest

from fix_drivers import RECORDED, DriversStack
from fix_recorder import Statement, read, replayed, written

FILES = sorted(RECORDED.glob("*.sql"))


@pytest.mark.parametrize("client", [file.stem for file in FILES])
def test_recorded_statements_have_the_recorded_outcomes(drivers_stack: DriversStack, client: str) -> None:
    recorded = read((RECORDED / f"{client}.sql").read_text())
    assert any(statement.outcome == "DP002" for session in recorded for statement in session)
    for session, again in zip(recorded, replayed(drivers_stack.dsn(), recorded), strict=True):
        for before, now in zip(session, again, strict=True):
            assert now == before


def test_what_is_written_can_be_read() -> None:
    session = [
        Statement("simple", "SELECT 1;\n\nSELECT 2\n", outcome="answered"),
        Statement("extended", "SELECT $1, $2, $3", (23, 25), ((b"\0\1", 1), (None, 0), (b"\xc3\xa9", 0)), "DP003"),
    ]
    assert read(written([session, session[:1]])) == [session, session[:1]]
