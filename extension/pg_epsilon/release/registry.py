"""dp.family: which releases answer under which names. Public facts, and integers that were released."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.words import amounts_text
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.query.request import Request
from pg_epsilon.release import fitted, iterated, published
from pg_epsilon.release.ask import Family
from pg_epsilon.release.choice import noise_of
from pg_epsilon.release.fitted import Fitted
from pg_epsilon.release.iterated import Iterated
from pg_epsilon.release.measures import Measured
from pg_epsilon.release.members import digests, of_grid, question, state
from pg_epsilon.release.recalled import recorded, recorded_singly
from pg_epsilon.release.shown import description
from pg_epsilon.release.singly import Singly

MOST_FAMILIES = 100  # of one analyst in one dataset
_KEPT = 8_000_000  # cells that a backend remembers of the releases that it answered from
_NAMED = "SELECT who::text, (facts -> 'question')::text AS question FROM dp.family WHERE dataset = $1 AND name = $2"
_MANY = "SELECT count(*) AS n FROM dp.family WHERE dataset = $1 AND who = $2"
_ENTER = (
    "INSERT INTO dp.family AS f (dataset, name, request_id, relation_key, who, query, facts, queries, members)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT ON CONSTRAINT family_pkey DO UPDATE"
    " SET request_id = EXCLUDED.request_id, query = EXCLUDED.query, facts = EXCLUDED.facts,"
    " queries = EXCLUDED.queries, members = EXCLUDED.members, at = EXCLUDED.at"
    " WHERE f.who = EXCLUDED.who AND f.facts -> 'question' = EXCLUDED.facts -> 'question'"
    " AND (f.request_id, f.queries, f.members) <> (EXCLUDED.request_id, EXCLUDED.queries, EXCLUDED.members)"
)
_NEAR = (
    "SELECT f.name, f.request_id::text, f.who = $3::name AS own, f.facts::text, f.queries,"
    " r.as_of::timestamptz(0)::text AS as_of FROM dp.family f JOIN dp.release r USING (request_id)"
    " WHERE f.dataset = $1 AND f.relation_key = $2 ORDER BY f.at DESC LIMIT 100"
)
_ARE_MEMBERS = "SELECT $3 <@ members AS found FROM dp.family WHERE dataset = $1 AND name = $2"
_RAW = "SELECT (answer -> 'raw' -> 0)::text AS raw FROM dp.release WHERE request_id = $1"


@dataclass(frozen=True)
class Published:
    """A family that may answer. own: who asks gave it its name; queries: of its grid."""

    name: str
    request_id: str
    own: bool
    facts: Mapping[str, Any]
    queries: int
    as_of: str


class Registry:
    """The families of dp.family."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._cells: dict[str, npt.NDArray[Any]] = {}

    def check(self, request: Request, who: str) -> None:
        """DP005 where the name of a family that is to be released is another one's, or one too many."""
        family = request.kinds["release"]
        if not isinstance(family, Family):
            return
        dataset = request.policy.dataset.name
        found = self._execute(_NAMED, ["text", "text"], [dataset, family.name])
        if found and (found[0]["who"] != who or json.loads(found[0]["question"]) != _plain(question(request, family))):
            raise DPError(
                OUT_OF_RANGE,
                f"{family.name} is already the name of another family",
                "Give it another name: SELECT name, query FROM dp.families shows those that are taken.",
            )
        if not found and self._execute(_MANY, ["text", "name"], [dataset, who])[0]["n"] >= MOST_FAMILIES:
            raise DPError(
                OUT_OF_RANGE,
                f"you have {MOST_FAMILIES} families in dataset {dataset}, which is the most",
                "Use a name again for the same query, or ask the administrator: CALL dp.drop_family(dataset, name).",
            )
        published.check(self._execute, dataset, family.name, family.published)

    def enter(
        self,
        request: Request,
        measure: Measured,
        charges: Sequence[Charge],
        request_id: str,
        who: str,
    ) -> None:
        """A release was given to who asked for it: its name stands for it from now on."""
        family = request.kinds["release"]
        if not isinstance(family, Family):
            raise ValueError("not a release")
        facts = {
            **_described(measure, family),
            "question": question(request, family),
            "state": state(request),
            "price": amounts_text(charges),
        }
        self._execute(
            _ENTER,
            ["text", "text", "uuid", "text", "name", "text", "jsonb", "int4", "int8[]"],
            [
                request.policy.dataset.name,
                family.name,
                request_id,
                request.policy.relation_key,
                who,
                family.query,
                json.dumps(facts),
                len(family.grid),
                digests(family),
            ],
        )

    def near(self, request: Request, who: str) -> list[Published]:
        """The families of the request's relation, the newest first."""
        of = [request.policy.dataset.name, request.policy.relation_key, who]
        return [
            Published(one["name"], one["request_id"], one["own"], _facts(one["facts"]), one["queries"], one["as_of"])
            for one in self._execute(_NEAR, ["text", "text", "text"], of)
        ]

    def has_members(self, request: Request, name: str, numbers: Sequence[int]) -> bool:
        """Whether sets of classes, by their digests, are those of queries of the family's grid, all of them."""
        args = [request.policy.dataset.name, name, list(numbers)]
        return bool(self._execute(_ARE_MEMBERS, ["text", "text", "int8[]"], args)[0]["found"])

    def cells(self, family: Published) -> npt.NDArray[Any]:
        """The released integers, as doubles, or, of weights, as they are; a backend remembers some."""
        request_id = family.request_id
        if request_id not in self._cells:
            kind = np.int64 if of_grid(family.facts) else np.float64
            found = np.array(json.loads(self._execute(_RAW, ["uuid"], [request_id])[0]["raw"]), kind)
            while self._cells and sum(map(len, self._cells.values())) + len(found) > _KEPT:
                self._cells.pop(next(iter(self._cells)))
            self._cells[request_id] = found
        return self._cells[request_id]


def _described(measure: Measured, family: Family) -> dict[str, Any]:
    """How the released integers are read."""
    if isinstance(measure, Singly):
        classes = [[axis.name, list(axis.key.domain)] for axis in family.axes]
        return {"classes": classes, "singly": recorded_singly(measure, family), "cells": measure.released}
    if isinstance(measure, Iterated):
        weights = {**iterated.description(measure, family), "weights": recorded(measure, family)}
        return {**weights, "cells": measure.cells}
    if isinstance(measure, Fitted):
        return {**fitted.description(measure, family), "fitted": measure.name, "cells": measure.own.cells}
    noise = noise_of(measure)
    own = [noise.scale, noise.gaussian, noise.grain]
    trees = {"trees": [[one.levels, one.shift] for one in measure.trees]} if measure.trees else {}
    exact = {"exact": True} if family.is_exact else {}
    trees |= {"strategy": measure.strategy.stored()} if measure.strategy is not None else {}
    ends = {"ends": measure.ends.canonical()} if measure.ends is not None else {}
    return {**description(measure, family), "cells": measure.drawn, "noise": own, **trees, **ends, **exact}


@lru_cache(maxsize=64)
def _facts(text: str) -> Mapping[str, Any]:
    """Parsed once a backend; nobody changes what is returned."""
    found: Mapping[str, Any] = json.loads(text)
    return found


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
