"""Planning before paying: whether PostgreSQL can plan a statement is known before any account is locked (§10.3 a).

Planning sees samples of rows, ends of indexes and numbers of pages. So only those SQLSTATEs of planning refuse a
question that say something of its shape; no estimate, cost or plan decides anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from pg_epsilon.errors import SHAPE, DPError

# SQLSTATE of planning a statement, or None where it can be planned. What the machine did is raised, not returned.
Explain = Callable[[str], str | None]
Log = Callable[[str], None]

# Feature not supported, too many columns; and class 42: names, types, privileges.
REFUSED = frozenset({"0A000", "54011"})
REMEMBERED = 256
# MaxTupleAttributeNumber: columns of any intermediate result, however it is computed.
MAX_COLUMNS = 1664


class PlanningFailed(Exception):
    """Planning raised what no public fact explains: an unforeseen failure (composition.md §10.3 d), never a refusal.

    A row may have decided it: the planner evaluates operators on samples of rows.
    """

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


class Planning:
    """The gate that every statement passes which is read after a charge. One per backend.

    A statement is planned once under each version of the policy: what is remembered is that it could be planned.
    """

    def __init__(self, explain: Explain, log: Log) -> None:
        self._explain = explain
        self._log = log
        self._planned: dict[bytes, int] = {}

    def check(self, statement: str, columns: int, version: int) -> None:
        """DP003 if PostgreSQL cannot plan the statement, for a reason of its shape; nothing is charged by then.

        columns: at most so many stand in any intermediate result. version: the policy's. Errors: `PlanningFailed`;
        what `explain` raises where the machine failed.
        """
        key = hashlib.sha256(statement.encode()).digest()
        if self._planned.get(key) == version:
            return
        state = "54011" if columns > MAX_COLUMNS else self._explain(statement)
        if state is not None:
            if not is_refused(state):
                raise PlanningFailed(state)
            self._log(f"pg_epsilon: a question was refused before its charge: planning it raised SQLSTATE {state}")
            raise unplannable()
        while len(self._planned) >= REMEMBERED:
            self._planned.pop(next(iter(self._planned)))
        self._planned[key] = version

    def forget(self) -> None:
        """As a new backend would: everything is planned again."""
        self._planned.clear()


def is_refused(sqlstate: str) -> bool:
    """Whether an error of planning is about the question's shape, and so a refusal that no row decides."""
    return sqlstate in REFUSED or sqlstate.startswith("42")


def unplannable() -> DPError:
    """One constant refusal: SQLSTATE and reason are the administrator's."""
    return DPError(
        SHAPE,
        "PostgreSQL cannot plan this question: nothing was charged",
        "Ask for fewer aggregates in one statement, or join fewer relations. The administrator finds the SQLSTATE in"
        " the server's log.",
    )
