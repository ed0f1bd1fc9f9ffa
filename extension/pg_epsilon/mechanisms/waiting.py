"""How a long computation lets its caller's cancel through: the entry point says how, a pure core asks now and then."""

from __future__ import annotations

from collections.abc import Callable


def _nothing() -> None:
    """Outside a server nobody cancels."""


_check: Callable[[], object] = _nothing


def check_for_cancel() -> None:
    """Raise what the entry point's check raises, if the caller no longer waits; else return."""
    _check()


def use(check: Callable[[], object]) -> None:
    """Ask `check` from now on: cheap, without an effect on what is computed."""
    global _check
    _check = check
