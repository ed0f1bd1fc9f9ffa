"""Names of our settings: PostgreSQL keeps any name with a dot, so a misspelt one would be accepted and do nothing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from pg_epsilon.query.parse import ast

from . import refusals
from .statements import Statement

KNOWN = (
    "dp.alpha",
    "dp.beta",
    "dp.confidence",
    "dp.division",
    "dp.epsilon",
    "dp.mechanism",
    "dp.notices",
    "dp.rho",
    "dp.synthetic",
    "dp.synthetic_policy",
    "dp.tau",
    "dp.windows",
    "dp.workloads",
)
# Means nothing in a session of a client; the gateway's own says there who is asking.
_INERT = "dp.analyst"
_SET = re.compile(r'\bset\b[^;]*?\bdp"?\s*\.', re.IGNORECASE)


def mentioned(sql: str) -> bool:
    """Cheap text test: False means that no statement of the text sets anything of ours."""
    return _SET.search(sql) is not None


def check(statements: Sequence[Statement]) -> None:
    """22023 for SET of a dp.* name that is no setting, with the nearest one that is."""
    for item in statements:
        node = item.node
        if not isinstance(node, ast.VariableSetStmt) or node.kind is None or not node.kind.name.startswith("VAR_SET_"):
            continue
        name = (node.name or "").lower()
        if name.startswith("dp.") and name not in KNOWN and name != _INERT:
            place = item.source.lower().find(name, item.start)
            raise refusals.setting(name, _nearest(name), None if place < 0 else place)


def _nearest(name: str) -> str:
    found = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.6)
    return f"Did you mean {found[0]}?" if found else f"The settings are {', '.join(KNOWN)}."
