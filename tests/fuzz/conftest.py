"""The bare facade and the relay in front of it."""

from fix_proxy import bare_facade, private_side, relay

__all__ = ["bare_facade", "private_side", "relay"]
