#!/usr/bin/env python3
"""`make notebook`: execute docs/notebook.ipynb against the running demo, and keep the outputs in it.

notebook.py [TARGET]: writes TARGET instead, and leaves the file as it is. The demo is the one of this
checkout (`make demo`); its port and Carol's password reach the notebook as PGPORT and PGPASSWORD, and
are in no output. Times, versions and metadata, which differ by machine and run and mean nothing, are
not kept. Run by scripts/notebook.sh, in an environment with the extra `notebook`.

Exit status: 1 if a cell raises, or no demo is running; then nothing is written.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "demo"))

from cluster import Cluster, is_listening  # noqa: E402

NOTEBOOK = ROOT / "docs/notebook.ipynb"
ANALYST = "carol"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
SECONDS = 120  # of a cell, and of the kernel's start: against a hang


def login(state: dict[str, str]) -> dict[str, str]:
    """The environment that the notebook asks for. Errors: SystemExit where no demo is running."""
    port, password = state.get("proxy port"), state.get(f"password of {ANALYST}")
    if port is None or password is None or not is_listening(int(port)):
        raise SystemExit("pg_epsilon: the demo is not running, or is an older one: make demo")
    return {"PGPORT": port, "PGPASSWORD": password}


def execute(notebook: nbformat.NotebookNode, environment: dict[str, str]) -> None:
    """Run every cell, in a kernel that sees nothing of the user's own Jupyter.

    Errors: CellExecutionError.
    """
    # Built before the kernel starts: the message that says so would be an output of a cell.
    import matplotlib.font_manager  # noqa: F401

    with tempfile.TemporaryDirectory(prefix="pge-notebook-") as place:
        private = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR")
        os.environ.update(environment | dict.fromkeys(private, place))
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            startup_timeout=SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": place}},
            record_timing=False,
            coalesce_streams=True,
            extra_arguments=["--log-level=ERROR"],  # not its warning that loopback is not encrypted
        )
        client.execute()


def tidy(notebook: nbformat.NotebookNode) -> None:
    """Leave what a reader sees, and nothing of the machine."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        for output in cell.get("outputs", ()):
            if "metadata" in output:
                output.metadata = nbformat.from_dict({})


def main(arguments: list[str]) -> int:
    target = Path(arguments[0]) if arguments else NOTEBOOK
    environment = login(Cluster.here().state)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    try:
        execute(notebook, environment)
    except CellExecutionError as problem:
        print(f"pg_epsilon: a cell of {NOTEBOOK.name} failed:\n{problem}", file=sys.stderr)
        return 1
    tidy(notebook)
    nbformat.validate(notebook)
    nbformat.write(notebook, target)
    print(f"make notebook: OK ({len(notebook.cells)} cells, {target.stat().st_size:,} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
