"""The first packet: bounds, layout, negotiation, what travels on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_epsilon_proxy.wire import startup
from pg_epsilon_proxy.wire.framing import WireError


def packet(body: bytes, version: int = 3 << 16) -> bytes:
    return (len(body) + 8).to_bytes(4, "big") + version.to_bytes(4, "big") + body


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8)


@settings(database=None, deadline=None, max_examples=60)
@given(st.dictionaries(TEXT.filter(lambda n: not n.startswith("_pq_.")), TEXT, max_size=4), TEXT)
def test_round_trip(parameters: dict[str, str], user: str) -> None:
    parameters["user"] = user
    raw = startup.startup_packet(parameters)
    assert startup.packet_length(raw) == len(raw)
    assert startup.read_startup(raw) == startup.Startup(0, parameters)


@settings(database=None, deadline=None, max_examples=200)
@given(st.binary(max_size=60))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    try:
        assert startup.read_startup(packet(body)).parameters["user"]
    except WireError as error:
        assert error.sqlstate in ("08P01", "22021", "28000")


@pytest.mark.parametrize("length", [0, 7, 10_001, 2**31 - 1, 2**32 - 1])
def test_length_bounds(length: int) -> None:
    with pytest.raises(WireError):
        startup.packet_length(length.to_bytes(4, "big"))


BODIES = {
    "nothing": b"",
    "no user": b"database\0x\0\0",
    "empty user": b"user\0\0\0",
    "no value": b"user\0alice\0database\0\0",
    "not ended": b"user\0alice\0",
    "empty name": b"user\0alice\0\0x\0\0",
    "not utf-8": b"user\0\xff\0\0",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bad_layout(body: bytes) -> None:
    with pytest.raises(WireError):
        startup.read_startup(packet(body))


@pytest.mark.parametrize(
    ("minor", "agreed", "key"), [(0, 0, 4), (1, 0, 4), (2, 2, 32), (3, 2, 32), (9999, 2, 32), (0xFFFF, 2, 32)]
)
@pytest.mark.parametrize("option", [b"", b"_pq_.x\x001\0"])
def test_negotiation(minor: int, agreed: int, key: int, option: bytes) -> None:
    """Silence only where the client's version is ours and we know its options. 3.1 is nobody's version."""
    asked = startup.read_startup(packet(b"user\0a\0" + option + b"\0", 3 << 16 | minor))
    assert (asked.parameters, asked.agreed, asked.key_length) == ({"user": "a"}, agreed, key)
    names = b"_pq_.x\0" if option else b""
    said = (3 << 16 | agreed).to_bytes(4, "big") + bool(option).to_bytes(4, "big") + names
    silent = minor == agreed and not option
    assert startup.negotiate(asked) == (None if silent else b"v" + (len(said) + 4).to_bytes(4, "big") + said)


@pytest.mark.parametrize("version", [0, 1 << 16, 2 << 16, 4 << 16, 0xFFFFFFFF])
def test_other_major_versions(version: int) -> None:
    with pytest.raises(WireError, match=r"supports 3\.0 to 3\.2"):
        startup.read_startup(packet(b"user\0a\0\0", version))


@pytest.mark.parametrize("size", [4, 32, 256])
def test_cancel_keys_of_both_protocols(size: int) -> None:
    raw = startup.cancel_packet(9, b"k" * size)
    assert startup.read_cancel(raw) == startup.CancelRequest(9, b"k" * size)
    assert startup.packet_length(raw) == len(raw)


@pytest.mark.parametrize("size", [0, 3, 257])
def test_bad_cancel_keys(size: int) -> None:
    with pytest.raises(WireError):
        startup.read_cancel(startup.cancel_packet(9, b"k" * size))


def test_what_travels_on() -> None:
    given_ = {"user": "a", "database": "b", "DateStyle": "ISO", "options": "-c a=b", "replication": "off"}
    assert startup.passed_on(given_) == {"DateStyle": "ISO", "options": "-c a=b"}
    for name, value in (("replication", "database"), ("role", "bob"), ("dp.analyst", "bob"), ("is_superuser", "on")):
        with pytest.raises(WireError) as error:
            startup.passed_on({"user": "a", name: value})
        assert error.value.sqlstate == "0A000"
