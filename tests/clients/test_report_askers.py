"""Fifty who ask one question at the same moment get one answer, which is paid once (report R7)."""

from __future__ import annotations

import pytest

from fix_askers import ask_at_once
from fix_ledger import one
from fix_stack import Stack

ASKERS = 50


@pytest.fixture(scope="module")
def stack(reports_stack: Stack) -> Stack:
    return reports_stack


def test_fifty_askers_of_one_question_pay_once(stack: Stack) -> None:
    with stack.cluster.connect() as owner:
        before = one(owner, "SELECT count(*) FROM dp.ledger WHERE kind = 'charge'")
        answers = ask_at_once(stack, ASKERS, "SELECT count(*) FROM people WHERE age > 40")
        after = one(owner, "SELECT count(*) FROM dp.ledger WHERE kind = 'charge'")
    assert len(answers) == ASKERS
    assert len(set(answers)) == 1
    assert after == before + 1


def test_two_questions_at_once_are_seen(stack: Stack) -> None:
    """Control: askers of two questions are charged twice."""
    with stack.cluster.connect() as owner:
        before = one(owner, "SELECT count(*) FROM dp.ledger WHERE kind = 'charge'")
        questions = [f"SELECT count(*) FROM people WHERE age > {n}" for n in (41, 42)]
        ask_at_once(stack, 4, *questions)
        assert one(owner, "SELECT count(*) FROM dp.ledger WHERE kind = 'charge'") == before + 2
