"""A pytest plugin, `-p chance_report`: prints every item's probability and words as JSON."""

from __future__ import annotations

import inspect
import json

import pytest

import fix_chance

MARK = "chance: "


def pytest_collection_finish(session: pytest.Session) -> None:
    for item in session.items:
        function = getattr(item, "function", None)
        found = [item.nodeid, fix_chance.of(item), inspect.getdoc(function) or ""]
        print(MARK + json.dumps(found), flush=True)
