"""Fixtures by subject: fix_*.py beside this file. Hypothesis: the same examples at every `make test`."""

from __future__ import annotations

import gc
import os

# Two files run at a time on two cores, as a server's backends do: threads of BLAS that wait for each other by spinning
# would cost a busy machine tenfold. Before numpy is loaded; the README sets the same for a server.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

from collected import COLLECTED
from quick_tier import BEGINNINGS
from tiers import is_control, is_of_versions, is_thorough

pytest_plugins = ["fix_cluster", "fix_facade", "fix_minutes", "fix_stack"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="of every suite with servers only what quick_tier.py names")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fifteen thousand items live to the end: the garbage collector need not walk through them thousands of times."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks by the lists of tiers.py. With --quick: only what quick_tier.py names, and all of what it names."""
    config.stash[COLLECTED] = list(items)
    for item in items:
        if is_thorough(item.nodeid):
            item.add_marker(pytest.mark.thorough)
        if is_of_versions(item.nodeid):
            item.add_marker(pytest.mark.versions)
        if is_control(item.nodeid):
            item.add_marker(pytest.mark.control)
    if not config.getoption("--quick"):
        return
    chosen = [item for item in items if item.nodeid.startswith(BEGINNINGS)]
    gone = [start for start in BEGINNINGS if not any(item.nodeid.startswith(start) for item in chosen)]
    if gone:
        raise pytest.UsageError(f"quick_tier.py names tests that do not exist: {', '.join(gone)}")
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def pytest_configure(config: pytest.Config) -> None:
    """What passed once passes again: `make test` and `make test-thorough` try examples that depend on the test alone.

    All other runs look for new ones: `make test-all`, and pytest by hand. A loaded machine is no reason to fail.
    """
    same = "not slow" in str(config.option.markexpr)
    slow = [HealthCheck.too_slow]
    settings.register_profile("ours", database=None, deadline=None, derandomize=same, suppress_health_check=slow)
    settings.load_profile("ours")
