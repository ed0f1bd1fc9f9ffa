"""A snapshot of the data directory, put back in place behind the same proxy, is refused (composition.md §12).

Everything but PG_VERSION is put back, which then has the inode and ctime that it had: what a whole-disk copy or an
rsync in place looks like.
The server itself sees nothing: dp._freeze_reasons is empty until the proxy speaks, which is the control.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster
from fix_copies import put_back
from fix_ledger import one, spent
from fix_stack import Stack, stack_at_work


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    state = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PG_EPSILON_PROXY_STATE_DIR", str(state))
        with stack_at_work() as running:
            yield running


def ask(stack: Stack, age: int, epsilon: str = "0.1") -> None:
    with stack.connect() as alice:
        alice.execute(f"SET dp.epsilon = {epsilon}")
        one(alice, f"SELECT count(*) FROM people WHERE age > {age}")


def refusal(stack: Stack, age: int) -> tuple[str | None, str, str]:
    try:
        ask(stack, age)
    except psycopg.Error as error:
        return error.sqlstate, str(error.diag.message_primary), str(error.diag.message_hint)
    return None, "", ""


def heads() -> dict[str, Any]:
    folder = Path(os.environ["PG_EPSILON_PROXY_STATE_DIR"])
    return dict(json.loads((folder / "witness.json").read_text())["heads"])


def test_a_snapshot_put_back_is_refused_with_what_was_seen(stack: Stack, tmp_path: Path) -> None:
    cluster: Cluster = stack.cluster
    assert "no witness of the ledger yet" in stack.log
    ask(stack, 20)
    stack.stop()
    cluster.stop("fast")
    shutil.copytree(cluster.data, tmp_path / "data", symlinks=True)
    subprocess.run(["chown", "-R", "--reference", str(cluster.data), str(tmp_path / "data")], check=True)
    cluster.start()
    stack.start()
    ask(stack, 30, "0.2")
    ask(stack, 40, "0.3")
    (known,) = heads().values()
    assert (known["epoch"], known["number"], known["totals"]["epsilon"]) == (1, 6, "0.6")
    stack.stop()
    cluster.stop("fast")
    put_back(tmp_path / "data", cluster.data)
    cluster.start()
    stack.start()
    with cluster.connect() as root:
        assert root.execute("SELECT * FROM dp._freeze_reasons('people')").fetchall() == [], "the server sees nothing"
    before = spent(cluster)
    state, message, hint = refusal(stack, 50)
    assert state == "DP006"
    assert "link 6 and epsilon 0.6 charged in all were seen; here are 2 links" in message
    assert "CALL dp.confirm_ledger('people', add_epsilon => 0.5)" in hint
    assert spent(cluster) == before
    ask(stack, 20)  # released before: still answered
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.confirm_ledger('people', add_epsilon => 0.5)")
    ask(stack, 50)
    (known,) = heads().values()
    assert (known["epoch"], known["totals"]["epsilon"]) == (2, "0.7")
