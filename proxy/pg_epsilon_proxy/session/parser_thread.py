"""Threads with a stack deep enough for the parser: 50 kB of `1+1+…` crashes the process on a normal one (§6)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

STACK_BYTES = 512 * 1024 * 1024


class ParserThreads:
    """Runs pure functions. All threads are made at once, while the stack size, which is global, is raised."""

    def __init__(self, workers: int = 1) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="parser")
        barrier = threading.Barrier(workers + 1)
        before = threading.stack_size(STACK_BYTES)
        try:
            for _ in range(workers):
                self._pool.submit(barrier.wait)
            barrier.wait()
        finally:
            threading.stack_size(before)

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
