"""The proxy of serve.py in a process of its own: its memory and its computing time are nobody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from fix_proxy import BareFacade

TESTS = Path(__file__).parents[1]


class ServedProxy:
    """Started when this is made; `end` closes it. RuntimeError from whatever finds it dead."""

    def __init__(self, cluster: BareFacade) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.serve", str(cluster.folder), str(cluster.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        )
        self.port = int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the proxy has died: {self._process.wait()}")
        return line

    def facts(self) -> dict[str, int]:
        """What the proxy says of itself (serve.py `facts`)."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, int] = json.loads(self._line())
        return found

    def resident(self) -> int:
        """Bytes of memory, also while the proxy is at work."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu(self) -> float:
        """Seconds that its loop (the main thread) has computed, in ticks of 10 ms."""
        pid = self._process.pid
        fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> int:
        """Close it; its exit status."""
        self._process.communicate()
        return self._process.returncode
