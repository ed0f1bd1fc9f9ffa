"""How long to wait before the next attempt to connect to a database that is away."""

from __future__ import annotations

import os
from collections.abc import Callable

FIRST_BACKOFF, MAX_BACKOFF = 0.1, 5.0  # seconds


class Backoff:
    """Seconds to wait before the next attempt to connect: none after a success, then 0.1, 0.2, 0.4 … 5.

    Each process adds a little of its own, so that many of them do not come at the same moment.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._not_before = 0.0

    @property
    def wait(self) -> float:
        return max(0.0, self._not_before - self._clock())

    def tried(self, ok: bool) -> None:
        self._failures = 0 if ok else self._failures + 1
        seconds = 0.0 if ok else min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** (self._failures - 1))
        self._not_before = self._clock() + seconds * (1 + os.getpid() % 16 / 64)
