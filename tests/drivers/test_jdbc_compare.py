"""dp_compare by pgjdbc: the sixteen statements of fix_compare.py, as text, binary and in simple queries."""

from __future__ import annotations

import pytest

from drivers.test_jdbc import MODES, Java, java
from fix_compare import ASKED, CHANCE, EPSILON, STATEMENTS
from fix_drivers import DriversStack
from fix_ledger import no_charge

pytestmark = pytest.mark.chance(CHANCE)
__all__ = ["java"]


@pytest.mark.parametrize("mode", ["default", "binary from the first", "simple"])
@pytest.mark.parametrize("how", ["statement", "prepared"])
def test_jdbc(java: Java, drivers_stack: DriversStack, mode: str, how: str) -> None:
    assert not java.open(drivers_stack, drivers_stack.port, sslmode="require", **MODES[mode]).errors
    java.ask("statement", f"SET dp.epsilon = {EPSILON}")
    assert len(java.ask("statement", ASKED).rows) == 3
    with no_charge(drivers_stack.cluster):
        answers = {name: java.ask(how, sql) for name, (sql, _) in STATEMENTS.items()}
    assert {name: answer.errors for name, answer in answers.items() if answer.errors} == {}
    wrong = [name for name, (_, holds) in STATEMENTS.items() if not holds([tuple(row) for row in answers[name].rows])]
    assert wrong == []
