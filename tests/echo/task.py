"""How often each declared value of a column occurs: the example of docs/contributing.md, a throw-away kind of question.

Asked about a release, it costs nothing: the share of each group in what was released.
fix_echo.py puts this folder into a copy of the product, with a line of engine/tasks.py and the row in function.toml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pg_epsilon.choice_parts import Choice, Share
from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, UNDECLARED, DPError
from pg_epsilon.mechanisms.estimators import Number
from pg_epsilon.mechanisms.stored import how
from pg_epsilon.mechanisms.task import Alone, Groups, Prepared, Raws, Task, Told
from pg_epsilon.query import members
from pg_epsilon.query.copies import Copies
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.released import Free, Releases, Stored, named
from pg_epsilon.query.request import Request
from pg_epsilon.query.statistics import ROWS, Statistic


@dataclass(frozen=True)
class Echo:
    """The column, as it is asked for; what it is compiled to is the request's one key. about: the release instead."""

    by: str | None
    about: Stored | None = None

    def canonical(self) -> dict[str, Any]:
        """What tells this question from a count by the same key."""
        return {"by": self.by} if self.about is None else {"of": self.about.request_id}


class EchoTask(Task[Echo]):
    """{"echo": {"by": "sex"}} → a row (value, count) for every declared value, in declared order.

    {"echo": {}, "of": id} → a row (value, share) for every group of a release by one key: its first value's part of the
    sum of them all. Post-processing: free, no row is read.
    Guarantee: epsilon-DP (rho: rho-zCDP) for adding or removing one unit with all it owns. A row has one value, a user
    at most kappa rows, so that the vector of counts moves by 1 or kappa in L1. Source: composition.md §2.4.
    """

    def spelled_out(self, document: Mapping[str, Any], copies: Copies, releases: Releases) -> Mapping[str, Any]:
        if document["echo"] == {}:
            return {
                **document,
                **releases.stored(named(document).request_id).asked("from", "joins"),
                "keys": [],
                "aggregates": [],
            }
        return {**document, "keys": [_by(document)], "aggregates": []}

    def ask(self, head: Head) -> Echo | None:
        if head.document.get("echo") is None:
            return None
        if head.document["echo"] == {}:
            return Echo(None, _one_key(head.releases.stored(named(head.document).request_id)))
        return Echo(_by(head.document))

    def free(self, asked: Echo) -> Free | None:
        return None if asked.about is None else Free("stored release", asked.about.as_of)

    def prepare(self, request: Request, asked: Echo, alone: Alone) -> tuple[Choice, ...]:
        if asked.about is not None:
            return ()
        amount = request.budget.rho or request.budget.epsilon
        if amount is None:
            raise DPError(OUT_OF_RANGE, "an echo takes epsilon or rho", "dp_echo(..., epsilon => 0.1)")
        rows = request.source.kappa if request.source.has_user_units else 1
        if rows is None:
            raise DPError(
                UNDECLARED,
                "how many rows one user may own is not declared",
                "The owner protects it with max_rows_per_unit.",
            )
        noise = Share(request.budget.kind, Decimal(amount)).additive(rows)
        return (Choice(Number(noise), (Statistic(ROWS),)),)

    def present(self, prepared: Prepared, asked: Echo, raws: Raws, groups: Groups) -> Mapping[str, Any]:
        if asked.about is not None:
            return {"echo": {"rows": _shares(asked.about)}}
        rows = [[*group, str(max(0, raw[0]))] for group, raw in zip(groups, raws, strict=True)]
        return {"echo": {"rows": rows}}

    def describe(self, prepared: Prepared, raw: Sequence[int] | None) -> Told:
        asked = prepared.request.kinds["echo"]
        values = len(asked.about.raw) if isinstance(asked, Echo) and asked.about else prepared.request.cells
        return Told({"echo": {"values": values}}, [f"an echo of {values} values"])


def _one_key(stored: Stored) -> Stored:
    if stored.presentation["kind"] != "block" or len(stored.presentation["keys"]) != 1:
        raise DPError(SHAPE, "shares are of a block by one key", "Run a GROUP BY of one column first.")
    return stored


def _shares(stored: Stored) -> list[list[str | None]]:
    read, [[_, domain]] = how(stored.presentation), stored.presentation["keys"]
    values = [Decimal((read.texts(raw)[0] if read else None) or 0) for raw in stored.raw]
    whole = sum(values) or 1
    return [[key, str(round(value / whole, 3))] for key, value in zip(domain, values, strict=True)]


def _by(document: Mapping[str, Any]) -> str:
    asked = members.mapping(document["echo"], "echo")
    by = members.text(asked.get("by"), "by")
    if set(asked) != {"by"} or not by:
        raise DPError(SHAPE, "an echo is by one column", "dp_echo('people', 'sex')")
    return by
