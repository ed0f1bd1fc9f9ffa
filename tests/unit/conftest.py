"""Every plan that a pure test makes: its estimators are stored and read again, whatever the test is about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pg_epsilon.mechanisms.stored import Unstorable, decode, encode
from pg_epsilon.plan import Plan

# A closure, or a measure of a room of its own: they are shown by other ways.
UNSTORABLE = {"Decision", "Synthetic", "Batched", "Grouped"}


@pytest.fixture(scope="session", autouse=True)
def _stored_and_read_again() -> Iterator[None]:
    original = Plan.__init__

    def checked(self: Plan, *parts: Any, **named: Any) -> None:
        original(self, *parts, **named)
        for one in self.estimators:
            try:
                text = json.dumps(encode(one))
            except Unstorable:
                assert type(one).__name__ in UNSTORABLE
            else:
                assert decode(json.loads(text)) == one

    Plan.__init__ = checked  # type: ignore[method-assign]
    yield
    Plan.__init__ = original  # type: ignore[method-assign]
