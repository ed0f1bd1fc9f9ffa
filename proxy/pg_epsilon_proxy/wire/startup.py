"""The first packet of a connection, without I/O: SSL, GSS, cancel or start-up (anchors A1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from pg_epsilon_proxy.wire.framing import WireError
from pg_epsilon_proxy.wire.messages import message

MIN_PACKET, MAX_PACKET = 8, 10_000  # PostgreSQL's own bounds: nothing is buffered for an unknown peer beyond them
CANCEL_CODE, SSL_CODE, GSS_CODE = 80877102, 80877103, 80877104
PROTOCOL_MAJOR = 3
MINORS = (0, 2)  # 3.1 was never a protocol: a pooler's bug claimed it, so nobody may be told that we speak it
LONG_KEYS = 2  # the minor version from which a cancel key is longer than 4 bytes
SHORT_KEY, LONG_KEY, MAX_KEY = 4, 32, 256
SSL_REQUEST = (8).to_bytes(4, "big") + SSL_CODE.to_bytes(4, "big")

# Settings that a client may name in its start-up packet; later it may SET what PostgreSQL lets it.
SETTINGS = frozenset(
    [
        "application_name",
        "bytea_output",
        "client_encoding",
        "client_min_messages",
        "datestyle",
        "default_transaction_isolation",
        "default_transaction_read_only",
        "extra_float_digits",
        "idle_in_transaction_session_timeout",
        "intervalstyle",
        "lc_messages",
        "lock_timeout",
        "options",
        "search_path",
        "statement_timeout",
        "timezone",
        "dp.alpha",
        "dp.beta",
        "dp.confidence",
        "dp.division",
        "dp.epsilon",
        "dp.mechanism",
        "dp.notices",
        "dp.rho",
        "dp.synthetic",
        "dp.synthetic_policy",
        "dp.tau",
        "dp.windows",
        "dp.workloads",
    ]
)


@dataclass(frozen=True, slots=True)
class CancelRequest:
    pid: int
    key: bytes


@dataclass(frozen=True, slots=True)
class Startup:
    """minor: protocol minor version asked for; unknown: `_pq_.` options, none of which we know."""

    minor: int
    parameters: dict[str, str]
    unknown: tuple[str, ...] = field(default=())

    @property
    def agreed(self) -> int:
        """The newest minor version of ours that the client understands too."""
        return max(minor for minor in MINORS if minor <= self.minor)

    @property
    def key_length(self) -> int:
        """Bytes of the cancel key that the client is given."""
        return LONG_KEY if self.agreed >= LONG_KEYS else SHORT_KEY


def packet_length(head: bytes) -> int:
    """Length of the packet whose first four bytes these are."""
    length = int.from_bytes(head[:4], "big")
    if not MIN_PACKET <= length <= MAX_PACKET:
        raise WireError("invalid length of startup packet")
    return length


def packet_code(head: bytes) -> int:
    return int.from_bytes(head[4:8], "big")


def read_cancel(packet: bytes) -> CancelRequest:
    """Keys have 4 bytes in protocol 3.0, up to 256 in 3.2."""
    if not SHORT_KEY <= len(packet) - 12 <= MAX_KEY:
        raise WireError("invalid length of startup packet")
    return CancelRequest(int.from_bytes(packet[8:12], "big"), packet[12:])


def read_startup(packet: bytes) -> Startup:
    code = packet_code(packet)
    if code >> 16 != PROTOCOL_MAJOR:
        asked, newest = f"{code >> 16}.{code & 0xFFFF}", f"3.{MINORS[-1]}"
        raise WireError(f"unsupported frontend protocol {asked}: server supports 3.0 to {newest}", "0A000")
    if packet[-1:] != b"\0" or (len(packet) > 9 and packet[-2:] != b"\0\0"):
        raise WireError("invalid startup packet layout: expected terminator as last byte")
    items = packet[8:-1].split(b"\0")[:-1]
    if len(items) % 2:
        raise WireError("invalid startup packet layout: a parameter has no value")
    try:
        texts = [item.decode("utf-8") for item in items]
    except UnicodeDecodeError:
        raise WireError("the startup packet must be UTF-8", "22021") from None
    parameters: dict[str, str] = {}
    unknown: list[str] = []
    for name, value in zip(texts[::2], texts[1::2], strict=True):
        if not name:
            raise WireError("invalid startup packet layout: empty parameter name")
        if name.startswith("_pq_."):
            unknown.append(name)
        else:
            parameters[name] = value
    if not parameters.get("user"):
        raise WireError("no PostgreSQL user name specified in startup packet", "28000")
    return Startup(code & 0xFFFF, parameters, tuple(unknown))


def negotiate(startup: Startup) -> bytes | None:
    """NegotiateProtocolVersion for a minor version that is none of ours, or unknown options; None: nothing to say."""
    if startup.minor == startup.agreed and not startup.unknown:
        return None
    body = (PROTOCOL_MAJOR << 16 | startup.agreed).to_bytes(4, "big") + len(startup.unknown).to_bytes(4, "big")
    return message(b"v", body + b"".join(name.encode() + b"\0" for name in startup.unknown))


def startup_packet(parameters: dict[str, str]) -> bytes:
    body = (PROTOCOL_MAJOR << 16).to_bytes(4, "big")
    body += b"".join(text.encode() + b"\0" for pair in parameters.items() for text in pair) + b"\0"
    return (len(body) + 4).to_bytes(4, "big") + body


def cancel_packet(pid: int, key: bytes) -> bytes:
    return (12 + len(key)).to_bytes(4, "big") + CANCEL_CODE.to_bytes(4, "big") + pid.to_bytes(4, "big") + key


def passed_on(parameters: dict[str, str]) -> dict[str, str]:
    """The settings that travel to the facade. Replication, and any setting not listed, is refused."""
    passed = {}
    for name, value in parameters.items():
        lower = name.lower()
        if lower in ("user", "database"):
            continue
        if lower == "replication":
            if value.lower() not in ("false", "off", "no", "0"):
                raise WireError("replication connections are not possible through this proxy", "0A000")
        elif lower in SETTINGS:
            passed[name] = value
        else:
            raise WireError(f"unsupported startup parameter: {name}", "0A000")
    return passed
