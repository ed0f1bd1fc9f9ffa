"""How decimal numbers are written for people and in documents."""

from __future__ import annotations

from decimal import Decimal


def plain(value: Decimal) -> str:
    """A decimal without exponent or trailing zeros."""
    return format(value.normalize(), "f") if value else "0"
