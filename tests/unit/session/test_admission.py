"""Limits on who may come in, by a clock of the test's own."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from pg_epsilon_proxy.admission import (
    ADDRESS_FAILURES,
    LONGEST_WAIT,
    METERED,
    WRONG_CANCEL,
    Admission,
    Meter,
    TooMany,
    Visit,
    address_of,
)
from pg_epsilon_proxy.config import Limits

HOME, AWAY = "10.0.0.1", "10.0.0.2"


@dataclass
class Clock:
    now: float = 1000.0
    evicted: list[str] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def admission(clock: Clock, **limits: Any) -> Admission:
    return Admission(Limits(**limits), clock)


def arrive(guard: Admission, clock: Clock, address: str = HOME, name: str = "?") -> Visit:
    return guard.arrive(address, lambda: clock.evicted.append(name))


def refusal(action: Callable[[], Any]) -> str | None:
    try:
        action()
        return None
    except TooMany as error:
        return f"{error.sqlstate} {error.message}"


# -- meters ------------------------------------------------------------------------------------------------------------


def test_a_meter_lets_a_burst_pass_and_then_a_rate(clock: Clock) -> None:
    meter = Meter(60, clock)
    for _ in range(60):
        assert meter.wait("a") == 0
        meter.add("a")
    assert meter.wait("a") == pytest.approx(1)
    assert meter.wait("b") == 0
    clock.now += 0.5
    assert meter.wait("a") == pytest.approx(0.5)
    clock.now += 3600
    assert meter.wait("a", 60) == 0


def test_a_meter_forgets_the_oldest_key_when_strangers_fill_it(clock: Clock) -> None:
    meter = Meter(1, clock)
    for key in range(METERED + 1):
        meter.add(key)
    assert meter.wait(0) == 0 and meter.wait(1) > 0 and meter.wait(METERED) > 0


def test_no_limit(clock: Clock) -> None:
    meter = Meter(0, clock)
    for _ in range(1000):
        meter.add("a")
    assert meter.wait("a", 1000) == 0


# -- connections -------------------------------------------------------------------------------------------------------


def test_sessions_are_counted_in_all_by_analyst_and_by_address(clock: Clock) -> None:
    guard = admission(clock, max_sessions=4, max_sessions_per_analyst=2, max_sessions_per_address=3)
    in_ = []
    for address, analyst in ((HOME, "alice"), (HOME, "alice"), (AWAY, "bob"), (HOME, "carl")):
        in_.append(arrive(guard, clock, address))
        in_[-1].check_room()
        if analyst == "carl":
            other = arrive(guard, clock, AWAY)
            assert refusal(partial(other.admit, "alice")) == '53300 too many connections for role "alice"'
            other.leave()
        in_[-1].admit(analyst)
    assert (guard.sessions, guard.half_open) == (4, 0)
    assert refusal(arrive(guard, clock, AWAY).check_room) == "53300 sorry, too many clients already"
    in_[2].leave()
    in_[2].leave()
    assert guard.sessions == 3, "who has left twice was one"
    assert refusal(arrive(guard, clock, HOME).check_room) == "53300 too many connections from this address"
    for visit in in_:
        visit.leave()
    assert refusal(lambda: arrive(guard, clock, HOME).admit("alice")) is None
    assert dict(guard.turned_away) == {
        "max_sessions": 1,
        "max_sessions_per_analyst": 1,
        "max_sessions_per_address": 1,
    }


def test_room_is_looked_at_again_once_the_login_is_proved(clock: Clock) -> None:
    """Two that knocked at the last free place."""
    guard = admission(clock, max_sessions=1)
    first, second = arrive(guard, clock), arrive(guard, clock)
    first.check_room(), second.check_room()
    first.admit("alice")
    assert refusal(lambda: second.admit("alice")) == "53300 sorry, too many clients already"


def test_a_crowd_of_half_open_logins_closes_its_own(clock: Clock) -> None:
    """The oldest of the address that has most: one host cannot shut the others out."""
    guard = admission(clock, max_logins=4)
    arrive(guard, clock, AWAY, "honest")
    for name in "abcde":
        arrive(guard, clock, HOME, name)
    assert clock.evicted == ["a", "b"]
    assert guard.half_open == 4
    arrive(guard, clock, AWAY, "honest too")
    assert clock.evicted == ["a", "b", "c"]
    assert guard.turned_away["max_logins"] == 3


def test_an_evicted_one_leaves_once(clock: Clock) -> None:
    guard = admission(clock, max_logins=1)
    first, second = arrive(guard, clock), arrive(guard, clock)
    first.leave()
    assert guard.half_open == 1
    second.admit("alice")
    assert (guard.half_open, guard.sessions) == (0, 1)


# -- wrong passwords ---------------------------------------------------------------------------------------------------


def fail(guard: Admission, address: str, user: str) -> float:
    attempt = guard.attempt(address, user)
    attempt.settle(False)
    return attempt.wait


def test_beyond_the_limit_every_attempt_waits_its_turn_and_then_is_refused(clock: Clock) -> None:
    guard = admission(clock, auth_failures=20)
    waits = []
    while (wait := refusal_or_wait(guard, HOME, "alice")) is not None:
        waits.append(wait)
    assert waits[:20] == [0] * 20
    assert waits[20:] == pytest.approx([3, 6, 9]) and waits[-1] <= LONGEST_WAIT
    assert guard.turned_away["auth_failures"] == 1
    clock.now += 60
    assert fail(guard, HOME, "alice") == 0


def refusal_or_wait(guard: Admission, address: str, user: str) -> float | None:
    try:
        return fail(guard, address, user)
    except TooMany:
        return None


def test_nobody_locks_out_a_user_from_elsewhere(clock: Clock) -> None:
    guard = admission(clock, auth_failures=5)
    for _ in range(100):
        refusal_or_wait(guard, AWAY, "alice")
    assert guard.attempt(HOME, "alice").wait == 0
    assert guard.attempt(AWAY, "bob").wait == 0, "nor another user behind the same address"


def test_a_right_password_waits_like_a_wrong_one_and_costs_nothing(clock: Clock) -> None:
    """Beside a forgotten job with an old password, the user still gets in."""
    guard = admission(clock, auth_failures=6)
    for _ in range(6):
        fail(guard, HOME, "alice")
    for _ in range(30):
        attempt = guard.attempt(HOME, "alice")
        assert 0 < attempt.wait <= 10
        attempt.settle(True)
    guard = admission(clock, auth_failures=6)
    for _ in range(1000):
        guard.attempt(HOME, "alice").settle(True)
    assert guard.attempt(HOME, "alice").wait == 0


def test_attempts_in_parallel_stand_in_one_line(clock: Clock) -> None:
    """Those that wait are counted before they are looked at."""
    guard = admission(clock, auth_failures=60)
    for _ in range(60):
        fail(guard, HOME, "alice")
    waits = [guard.attempt(HOME, "alice").wait for _ in range(5)]
    assert waits == pytest.approx([1, 2, 3, 4, 5])


def test_one_password_for_many_names(clock: Clock) -> None:
    guard = admission(clock, auth_failures=6)
    for number in range(6 * ADDRESS_FAILURES):
        assert fail(guard, HOME, f"user{number}") == 0
    assert guard.attempt(HOME, "another").wait > 0
    for number in range(100):
        refusal_or_wait(guard, HOME, f"more{number}")
    assert refusal(arrive(guard, clock, HOME).check_room) == "28000 too many failed logins: try again in a minute"
    assert refusal(arrive(guard, clock, AWAY).check_room) is None


# -- cancel requests ---------------------------------------------------------------------------------------------------


def test_wrong_keys_count_more(clock: Clock) -> None:
    guard = admission(clock, cancel_requests=60)
    right, wrong = arrive(guard, clock, HOME), arrive(guard, clock, AWAY)
    assert [right.may_cancel() for _ in range(61)] == [True] * 60 + [False]
    guesses = 0
    while wrong.may_cancel():
        wrong.missed_cancel()
        guesses += 1
    assert guesses == 60 // WRONG_CANCEL
    clock.now += 60
    assert right.may_cancel() and wrong.may_cancel()


def test_new_limits_for_those_who_come(clock: Clock) -> None:
    guard = admission(clock, max_sessions=1)
    arrive(guard, clock).admit("alice")
    guard.configure(Limits(max_sessions=2))
    arrive(guard, clock).admit("alice")
    assert guard.sessions == 2


# -- addresses ---------------------------------------------------------------------------------------------------------


class FakeSocket:
    def __init__(self, host: str) -> None:
        self.family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._host = host

    def getpeername(self) -> tuple[str, int]:
        return (self._host, 1)


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_an_address_is_a_host_or_a_network_that_one_host_owns(host: str, counted: str) -> None:
    assert address_of(FakeSocket(host)) == counted  # type: ignore[arg-type]


def test_a_unix_socket_tells_who(clock: Clock) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert address_of(one) == f"uid {os.getuid()}"
