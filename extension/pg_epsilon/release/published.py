"""Whether a release is to be published in schema dp_release, and whether its name is free there: before any charge.

Publishing itself is the third step of a request (dp._publish_release): free, repeated at will, of released integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.ledger import Execute

MEMBERS = frozenset({"publish", "shows_grid"})
_TAKEN = "SELECT problem, hint FROM dp._release_taken($1, $2, $3)"


@dataclass(frozen=True)
class Publication:
    """A table of the release for everybody. shows_grid: the answers to the asker's grid too."""

    shows_grid: bool


def publication(given: Mapping[str, Any]) -> Publication | None:
    """The members publish and shows_grid; None: nothing is published. DP003 for another form, DP005 for half of it."""
    if any(not isinstance(given.get(name, False), bool) for name in MEMBERS):
        raise DPError(SHAPE, "publish and shows_grid are true or false", "dp_release_numeric(..., publish => true)")
    if given.get("shows_grid") and not given.get("publish"):
        raise DPError(
            OUT_OF_RANGE,
            "a grid is shown where its release is published",
            "dp_release_numeric(..., publish => true, shows_grid => true)",
        )
    return Publication(given.get("shows_grid") is True) if given.get("publish") else None


def check(execute: Execute, dataset: str, name: str, asked: Publication | None) -> None:
    """DP005 where something else has the table's name: the schema is one for all datasets."""
    if asked is None:
        return
    for found in execute(_TAKEN, ["text", "text", "bool"], [dataset, name, asked.shows_grid]):
        raise DPError(OUT_OF_RANGE, found["problem"], found["hint"])
