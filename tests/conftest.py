"""Fixtures by subject: fix_*.py beside this file. Hypothesis: the same examples at every `make test`."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["fix_cluster", "fix_facade", "fix_stack"]


def pytest_configure(config: pytest.Config) -> None:
    """What passed once passes again: `make test` (-m "not slow") tries examples that depend on nothing but the test.

    All other runs look for new ones: `make test-all`, and pytest by hand. A loaded machine is no reason to fail.
    """
    same = "not slow" in str(config.option.markexpr)
    slow = [HealthCheck.too_slow]
    settings.register_profile("ours", database=None, deadline=None, derandomize=same, suppress_health_check=slow)
    settings.load_profile("ours")
