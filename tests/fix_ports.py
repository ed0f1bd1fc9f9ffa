"""A port for a server that is started later, and perhaps stopped and started again."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

LOWEST = 10_240
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_draw = random.SystemRandom()


def free_port() -> int:
    """Nobody listens on it, no client's connection gets it by chance, and no other test process is given it."""
    below = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    if below < LOWEST + 1_000:
        return _by_the_kernel()
    while True:
        port = _draw.randrange(LOWEST, below)
        if _reserved(port) and _is_free(port):
            return port


def _by_the_kernel() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _reserved(port: int) -> bool:
    """For this process, until it ends: an abstract name, which like a port belongs to the network namespace."""
    holder = socket.socket(socket.AF_UNIX)
    try:
        holder.bind(f"\0pg_epsilon test port {port}")
    except OSError:
        holder.close()
        return False
    os.set_inheritable(holder.detach(), False)
    return True
