"""Fixtures by subject: fix_*.py beside this file."""

pytest_plugins = ["fix_cluster", "fix_facade", "fix_stack"]
