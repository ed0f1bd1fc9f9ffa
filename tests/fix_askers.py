"""Many who ask at the same moment, through the proxy, each in a session of his own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from fix_stack import Stack
from fix_waiting import PATIENCE


def ask_at_once(stack: Stack, askers: int, *questions: str) -> list[str]:
    """What each of them is answered; alice and bob by turns, of the questions by turns, too."""
    gate = threading.Barrier(askers, timeout=2 * PATIENCE)

    def ask(number: int) -> str:
        with stack.connect("alice" if number % 2 else "bob") as session:
            gate.wait()
            return str(session.execute(questions[number % len(questions)]).fetchall())

    with ThreadPoolExecutor(askers) as pool:
        return list(pool.map(ask, range(askers)))
