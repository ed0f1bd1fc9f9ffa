"""Fixtures for the compiler's tests."""

from fix_query import scope

__all__ = ["scope"]
