"""What the caller's environment says of clients is none of a test's: imported first, by fix_cluster.py.

libpq's variables would lead clients elsewhere, psql speaks the caller's language, servers read files that tests write.
"""

from __future__ import annotations

import os

for _name in [name for name in os.environ if name.startswith(("PG", "PSQL", "LC_", "LANG"))]:
    if "PG_EPSILON" not in _name:
        del os.environ[_name]
os.environ["LC_ALL"] = "C.UTF-8"
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in the server: threads on a busy machine wait for each other
os.umask(0o022)
