"""Mutated conversations: the proxy neither crashes nor hangs nor grows, and serves the others all the while."""

from __future__ import annotations

import pytest

from fix_proxy import BareFacade
from fuzz.mutate import Report, run

GROWTH_KB = 10_000


def judge(report: Report, messages: int) -> None:
    print(report)
    assert report.failures == []
    assert min(report.messages, report.mutated) >= messages
    before, after = report.resident_kb
    assert after - before < GROWTH_KB


@pytest.mark.timeout(300)
def test_mutated_messages(bare_facade: BareFacade) -> None:
    judge(run(20_000, 20261121, bare_facade), 20_000)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_million_mutated_messages(bare_facade: BareFacade) -> None:
    judge(run(1_000_000, 1, bare_facade), 1_000_000)
