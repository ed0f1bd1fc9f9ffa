"""Fixtures of the tests with real drivers. A missing package is an error here: scripts/drivers.sh installs them all."""

from fix_drivers import drivers_stack

__all__ = ["drivers_stack"]
