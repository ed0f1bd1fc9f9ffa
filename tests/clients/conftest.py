"""Fixtures of the tests that speak the wire protocol."""

from fix_drivers import drivers_stack
from fix_proxy import bare_facade, calls, db, direct, private_side, raw, relay
from fix_reports import reports_stack

__all__ = ["bare_facade", "calls", "db", "direct", "drivers_stack", "private_side", "raw", "relay", "reports_stack"]
