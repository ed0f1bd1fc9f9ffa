"""Which session a CancelRequest means. A wrong key does nothing and says nothing."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Cancel = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    pid: int
    key: bytes
    cancel: Cancel


class CancelRegistry:
    def __init__(self) -> None:
        self._tickets: dict[int, Ticket] = {}

    def add(self, ticket: Ticket) -> None:
        self._tickets[ticket.pid] = ticket

    def remove(self, ticket: Ticket) -> None:
        """The facade may have given the pid to a newer session already."""
        if self._tickets.get(ticket.pid) is ticket:
            del self._tickets[ticket.pid]

    async def cancel(self, pid: int, key: bytes) -> bool:
        ticket = self._tickets.get(pid)
        if ticket is None or not hmac.compare_digest(ticket.key, key):
            return False
        await ticket.cancel()
        return True
