"""Fixtures of the tests that speak the wire protocol."""

from fix_proxy import bare_facade, private_side, relay

__all__ = ["bare_facade", "private_side", "relay"]
