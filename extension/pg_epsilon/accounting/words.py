"""Charges, accounts and notices in words: what people read of a price."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.filters import Relation, Root, Scope
from pg_epsilon.decimals import plain

# A charge's parameter → what people call it. The two of a sparse vector are one price.
AMOUNTS = {
    "epsilon": "epsilon",
    "threshold_epsilon": "epsilon",
    "query_epsilon": "epsilon",
    "rho": "rho",
    "delta": "delta",
}


def amounts_text(charges: Sequence[Charge], less: Sequence[Charge] = ()) -> dict[str, str]:
    """Charges added up by name, as they were asked, less some of them."""
    total: dict[str, Decimal] = {}
    for sign, charge in [*((1, c) for c in charges), *((-1, c) for c in less)]:
        for name, value in charge.parameters:
            if known := AMOUNTS.get(name):
                total[known] = total.get(known, Decimal(0)) + sign * value
    return {name: plain(value) for name, value in total.items()}


def scope_text(scope: Scope) -> str:
    if isinstance(scope, Root):
        return "root"
    if isinstance(scope, Relation):
        return f"relation {scope.relation}"
    return f"{len(scope.leaves)} partitions of {scope.relation}"


def notice_text(info: dict[str, Any], sentences: Sequence[str] = ()) -> str:
    """One line for a NOTICE."""
    cost = ", ".join(f"{name} {value} charged" for name, value in info["charge"].items()) or "free"
    text = f"dp: {info['path']}, {info['mechanism']}, {cost}"
    if info.get("margin", "0") != "0":
        text += f", ±{info['margin']} at {info['confidence']}" + (f" ({info['grade']})" if "grade" in info else "")
    for name, value in info["left"].items():
        text += f", {name} {value} left"
    return "; ".join([f"{text}, as of {info['as_of']}", *sentences, *info["warnings"]])
