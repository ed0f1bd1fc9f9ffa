"""How many may come in and how often: connections, half-open logins, wrong passwords, cancel requests. No I/O.

All counts are of one process. An address is a host, an IPv6 /64, or the user id behind a unix socket: `address_of`.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NoReturn

from pg_epsilon_proxy.config import Limits
from pg_epsilon_proxy.wire.framing import WireError

Clock = Callable[[], float]

METERED = 10_000  # keys that one meter remembers; strangers choose the keys, so there is a bound
ADDRESS_FAILURES = 10  # an address may fail so many times more often than one user name there
WRONG_CANCEL = 10  # a cancel request with a wrong key counts as so many
LONGEST_WAIT = 10.0  # seconds that a login waits for its turn; beyond that it is refused
MINUTE = 60.0
NAME = 64  # characters; no role has a longer name


class TooMany(WireError):
    """A limit is reached: this connection ends, the others go on."""


class Meter:
    """`burst` at once, then `rate` a second, for each key by itself. rate 0: no limit."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._rate = per_minute / MINUTE
        self._burst = per_minute
        self._clock = clock
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait(self, key: Hashable, amount: float = 1.0) -> float:
        """Seconds until `amount` more is within the limit."""
        if not self._rate:
            return 0.0
        return max(0.0, (self._level(key) + amount - self._burst) / self._rate)

    def add(self, key: Hashable, amount: float = 1.0) -> None:
        if not self._rate:
            return
        self._levels[key] = (max(0.0, self._level(key) + amount), self._clock())
        self._levels.move_to_end(key)
        while len(self._levels) > METERED:
            self._levels.popitem(last=False)

    def _level(self, key: Hashable) -> float:
        level, then = self._levels.get(key, (0.0, 0.0))
        return max(0.0, level - (self._clock() - then) * self._rate)


@dataclass(slots=True)
class Attempt:
    """One proof that is about to be looked at. wait: seconds until then; it is counted at once if it has to wait."""

    wait: float
    _meters: tuple[tuple[Meter, Hashable], ...]

    def settle(self, right: bool) -> None:
        change = (0.0 if right else 1.0) - (1.0 if self.wait else 0.0)
        for meter, key in self._meters:
            meter.add(key, change)


@dataclass(slots=True, eq=False)
class Visit:
    """One connection, from accept to close. evict: closes it while it is half-open."""

    address: str
    evict: Callable[[], object]
    _admission: Admission
    analyst: str | None = None

    def check_room(self) -> None:
        """Before the login, so that a full proxy does no work. Raises TooMany."""
        self._admission.check_room(self.address)

    def attempt(self, user: str) -> Attempt:
        """Before a proof is looked at. Raises TooMany, whether the role exists and the proof is right or not."""
        return self._admission.attempt(self.address, user)

    def admit(self, analyst: str) -> None:
        """The login is proved: from here on the connection is a session. Raises TooMany."""
        self._admission.admit(self, analyst)

    def may_cancel(self) -> bool:
        return self._admission.may_cancel(self.address)

    def missed_cancel(self) -> None:
        """The key was wrong."""
        self._admission.missed_cancel(self.address)

    def leave(self) -> None:
        self._admission.leave(self)


@dataclass
class Admission:
    """turned_away: how often each limit has closed or refused a connection, by the setting's name.

    Wrong passwords are counted for (address, user name) and for the address, never for a name alone: nobody can lock
    out an honest user from elsewhere, and a name that does not exist is counted like one that does. Beyond the limit a
    login waits for its turn, a right password like a wrong one, so that a forgotten job with an old password does not
    shut out its own user.
    """

    limits: Limits
    clock: Clock = time.monotonic
    turned_away: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._half_open: dict[str, dict[Visit, None]] = {}
        self._addresses: Counter[str] = Counter()
        self._analysts: Counter[str] = Counter()
        self.configure(self.limits)

    def configure(self, limits: Limits) -> None:
        """New limits; whoever is in stays. What was counted of failures begins anew."""
        self.limits = limits
        self._names = Meter(limits.auth_failures, self.clock)
        self._failures = Meter(limits.auth_failures * ADDRESS_FAILURES, self.clock)
        self._cancels = Meter(limits.cancel_requests, self.clock)

    @property
    def sessions(self) -> int:
        return self._analysts.total()

    @property
    def half_open(self) -> int:
        return sum(map(len, self._half_open.values()))

    def arrive(self, address: str, evict: Callable[[], object]) -> Visit:
        """A connection was accepted. Too many half-open ones: the oldest of the address that has most goes."""
        if self.limits.max_logins and self.half_open >= self.limits.max_logins:
            self._evict_one()
        visit = Visit(address, evict, self)
        self._half_open.setdefault(address, {})[visit] = None
        return visit

    def _evict_one(self) -> None:
        crowd = max(self._half_open.values(), key=len)
        victim = next(iter(crowd))
        self._close_half_open(victim)
        self.turned_away["max_logins"] += 1
        victim.evict()

    def check_room(self, address: str) -> None:
        limits = self.limits
        if self.sessions >= limits.max_sessions:
            self._refuse("max_sessions", "sorry, too many clients already")
        if limits.max_sessions_per_address and self._addresses[address] >= limits.max_sessions_per_address:
            self._refuse("max_sessions_per_address", "too many connections from this address")
        if self._failures.wait(address) > LONGEST_WAIT:
            self._refuse_failures()

    def attempt(self, address: str, user: str) -> Attempt:
        meters = ((self._names, (address, user[:NAME])), (self._failures, address))
        wait = max(meter.wait(key) for meter, key in meters)
        if wait > LONGEST_WAIT:
            self._refuse_failures()
        if wait:
            for meter, key in meters:
                meter.add(key)
        return Attempt(wait, meters)

    def admit(self, visit: Visit, analyst: str) -> None:
        self.check_room(visit.address)
        most = self.limits.max_sessions_per_analyst
        if most and self._analysts[analyst] >= most:
            self._refuse("max_sessions_per_analyst", f'too many connections for role "{analyst}"')
        self._close_half_open(visit)
        visit.analyst = analyst
        self._analysts[analyst] += 1
        self._addresses[visit.address] += 1

    def leave(self, visit: Visit) -> None:
        """Once or more often, admitted or not."""
        self._close_half_open(visit)
        if visit.analyst is not None:
            _less(self._analysts, visit.analyst)
            _less(self._addresses, visit.address)
            visit.analyst = None

    def may_cancel(self, address: str) -> bool:
        if self._cancels.wait(address):
            self.turned_away["cancel_requests"] += 1
            return False
        self._cancels.add(address)
        return True

    def missed_cancel(self, address: str) -> None:
        self._cancels.add(address, WRONG_CANCEL - 1)

    def _refuse_failures(self) -> NoReturn:
        self._refuse("auth_failures", "too many failed logins: try again in a minute", "28000")

    def _refuse(self, setting: str, message: str, sqlstate: str = "53300") -> NoReturn:
        self.turned_away[setting] += 1
        raise TooMany(message, sqlstate)

    def _close_half_open(self, visit: Visit) -> None:
        visits = self._half_open.get(visit.address, {})
        visits.pop(visit, None)
        if not visits:
            self._half_open.pop(visit.address, None)


def _less(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def address_of(sock: socket.socket) -> str:
    """Whom a connection is counted to. An IPv6 host owns its whole /64."""
    if sock.family == socket.AF_UNIX:
        size = struct.calcsize("3i")
        return f"uid {struct.unpack('3i', sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1]}"
    host = sock.getpeername()[0].split("%")[0]
    address = ipaddress.ip_address(host)
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
