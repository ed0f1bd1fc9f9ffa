"""Runs the scenarios of one program under tests/drivers/node."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from fix_drivers import NEAR, DriversStack

FOLDER = Path(__file__).parent / "node"


class Scenarios:
    """What each scenario of a program returned."""

    def __init__(self, program: str, stack: DriversStack) -> None:
        facts = {
            "host": stack.host,
            "port": stack.port,
            "recorded": stack.recorded(f"node-{program}"),
            "user": stack.user,
            "password": stack.password,
            "database": stack.dbname,
            "ca": stack.certificate.read_text(),
        }
        done = subprocess.run(
            ["node", str(FOLDER / f"{program}.mjs")],
            env={**os.environ, "PG_EPSILON_FACTS": json.dumps(facts)},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        self._found: dict[str, dict[str, Any]] = json.loads(done.stdout)

    def __getitem__(self, scenario: str) -> Any:
        found = self._found[scenario]
        assert "returned" in found, found["threw"]
        return found["returned"]


def near(stack: DriversStack, question: str, *answers: Any) -> bool:
    """One and the same answer each time, within NEAR of the truth."""
    return len({int(n) for n in answers}) == 1 and abs(int(answers[0]) - stack.exact(question)) <= NEAR
