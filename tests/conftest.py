"""Fixtures by subject: fix_*.py beside this file. What the caller's environment says of clients is none of a test's."""

import os

pytest_plugins = ["fix_cluster", "fix_facade", "fix_stack"]

# libpq's variables would lead clients elsewhere; psql speaks the caller's language; servers read what tests write.
for _name in [
    name for name in os.environ if name.startswith(("PG", "PSQL", "LC_", "LANG")) and "PG_EPSILON" not in name
]:
    del os.environ[_name]
os.environ["LC_ALL"] = "C.UTF-8"
os.umask(0o022)
