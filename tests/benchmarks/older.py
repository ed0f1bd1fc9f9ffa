"""The tree of an older commit, beside ours, to be asked in turn with it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "scripts")]

import paths as locations  # noqa: E402

from fix_cluster import built  # noqa: E402


def tree_of(commit: str) -> locations.Paths:
    """The commit's checkout, beside ours, its script built."""
    now = built()
    tree = now.runtime / f"before-{commit}"
    tree.mkdir(mode=0o755, exist_ok=True)
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(tree)], check=True, input=packed)
    environment = {**os.environ, "PG_EPSILON_VENV": str(now.venv), "PG_EPSILON_PG": str(now.pg_version)}
    environment.pop("PG_EPSILON_RUNTIME", None)
    python = str(locations.SYSTEM_PYTHON)
    subprocess.run([python, str(tree / "scripts/build_sql.py")], check=True, env=environment, stdout=subprocess.DEVNULL)
    told = subprocess.run([python, str(tree / "scripts/paths.py")], check=True, env=environment, capture_output=True)
    facts = json.loads(told.stdout)
    return dataclasses.replace(
        now, root=tree, destdir=Path(facts["destdir"]), source=(tree / "extension", tree / "proxy")
    )
