"""SCRAM-SHA-256 and -PLUS (RFC 5802, 7677, 5929) from a stored verifier, without I/O: the server, and a client that
has keys only.

The server's half recovers ClientKey = ClientProof XOR HMAC(StoredKey, AuthMessage); the client's half logs in to the
facade with it (facade-and-channel.md §3). libpq sends an empty user name in the SCRAM message: the start-up packet's
counts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from pg_epsilon_proxy.wire.framing import WireError

MECHANISM, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
BINDING = "p=tls-server-end-point"
MOCK_ITERATIONS = 4096  # PostgreSQL's default, so that an unknown role looks like any other
_VERIFIER = re.compile(r"SCRAM-SHA-256\$([1-9][0-9]{0,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")
_CLIENT_FIRST = re.compile(
    r"(?P<gs2>(?P<flag>[ny]|p=[^,]*),(?P<authzid>[^,]*),)(?P<bare>n=[^,]*,r=(?P<nonce>[!-+\--~]+))"
)
_SERVER_FIRST = re.compile(r"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[1-9][0-9]*)")
_CLIENT_FINAL = re.compile(
    r"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class AuthenticationFailed(Exception):
    """Wrong password, or an unknown role: the two are told apart by nobody."""


@dataclass(frozen=True, slots=True)
class Verifier:
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    mock: bool = False


@dataclass(frozen=True, slots=True)
class Keys:
    """What a client needs instead of the password. Lives from the client's login to the facade's, no longer."""

    client_key: bytes
    stored_key: bytes
    server_key: bytes


def read_verifier(text: str) -> Verifier | None:
    """The verifier of pg_authid.rolpassword; None if it is not SCRAM-SHA-256."""
    match = _VERIFIER.fullmatch(text)
    if match is None:
        return None
    salt, stored, server = (base64.b64decode(part) for part in match.groups()[1:])
    if len(stored) != 32 or len(server) != 32:
        return None
    return Verifier(int(match[1]), salt, stored, server)


def mock_verifier(user: str, secret: bytes) -> Verifier:
    """For a role that may not log in: a stable salt, so that asking twice shows nothing, and keys nobody has."""
    salt = hmac.digest(secret, b"salt\0" + user.encode(), "sha256")[:16]
    return Verifier(MOCK_ITERATIONS, salt, secrets.token_bytes(32), secrets.token_bytes(32), mock=True)


class ScramServer:
    """first(), then final(): WireError on a malformed message, AuthenticationFailed on a wrong proof.

    end_point: the hash of our certificate that a client may bind its proof to (end_point.py); None: not over TLS.
    """

    def __init__(self, verifier: Verifier, nonce: str | None = None, *, end_point: bytes | None = None) -> None:
        self._verifier = verifier
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(18)).decode()
        self._end_point = end_point
        self._bound = b""
        self._bare = ""
        self._server_first = ""

    @property
    def offered(self) -> tuple[str, ...]:
        """Mechanisms, the preferred one first."""
        return (MECHANISM,) if self._end_point is None else (PLUS, MECHANISM)

    def first(self, data: bytes, mechanism: str = MECHANISM) -> bytes:
        if mechanism not in self.offered:
            raise WireError("client selected an invalid SASL authentication mechanism")
        match = _CLIENT_FIRST.fullmatch(_text(data))
        if match is None:
            raise WireError("malformed SCRAM message")
        self._check_flag(match["flag"], mechanism)
        if match["authzid"]:
            raise WireError("client uses authorization identity, but it is not supported", "0A000")
        self._bare = match["bare"]
        self._bound = match["gs2"].encode() + ((self._end_point or b"") if mechanism == PLUS else b"")
        salt = base64.b64encode(self._verifier.salt).decode()
        self._nonce = match["nonce"] + self._nonce
        self._server_first = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._server_first.encode()

    def _check_flag(self, flag: str, mechanism: str) -> None:
        """n: the client cannot bind; y: it can, but believes that we cannot; p=: it does."""
        if flag.startswith("p") != (mechanism == PLUS):
            raise WireError("malformed SCRAM message: mechanism and channel binding flag do not agree")
        if flag.startswith("p") and flag != BINDING:
            raise WireError("unsupported SCRAM channel-binding type")
        if flag == "y" and self._end_point is not None:
            # Somebody in between has taken PLUS out of our offer.
            raise WireError("the client believes that this server cannot bind to the TLS channel, but it can")

    def final(self, data: bytes) -> tuple[bytes, Keys]:
        match = _CLIENT_FINAL.fullmatch(_text(data))
        if match is None:
            raise WireError("malformed SCRAM message")
        proof = _decode(match["proof"])
        if not hmac.compare_digest(_decode(match["binding"]), self._bound):
            raise WireError("SCRAM channel binding check failed", "28000")
        if len(proof) != 32 or not hmac.compare_digest(match["nonce"], self._nonce):
            raise WireError("malformed SCRAM message: nonce does not match")
        auth = ",".join((self._bare, self._server_first, match["without_proof"])).encode()
        stored = self._verifier.stored_key
        client_key = _xor(proof, hmac.digest(stored, auth, "sha256"))
        right = hmac.compare_digest(hashlib.sha256(client_key).digest(), stored)
        if not right or self._verifier.mock:
            raise AuthenticationFailed
        signature = hmac.digest(self._verifier.server_key, auth, "sha256")
        return b"v=" + base64.b64encode(signature), Keys(client_key, stored, self._verifier.server_key)


class ScramClient:
    """Logs in with keys instead of a password: salt and iterations are the server's and are not needed."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._nonce = base64.b64encode(secrets.token_bytes(18)).decode()
        self._auth = b""

    def first(self) -> bytes:
        return f"n,,n=,r={self._nonce}".encode()

    def final(self, server_first: bytes) -> bytes:
        text = _text(server_first)
        match = _SERVER_FIRST.fullmatch(text)
        if match is None or not match["nonce"].startswith(self._nonce) or match["nonce"] == self._nonce:
            raise WireError("malformed SCRAM message from the facade")
        without_proof = f"c=biws,r={match['nonce']}"
        self._auth = f"n=,r={self._nonce},{text},{without_proof}".encode()
        proof = _xor(self._keys.client_key, hmac.digest(self._keys.stored_key, self._auth, "sha256"))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, server_final: bytes) -> None:
        """The facade proves that it knows the verifier too."""
        expected = b"v=" + base64.b64encode(hmac.digest(self._keys.server_key, self._auth, "sha256"))
        if not hmac.compare_digest(expected, server_final):
            raise AuthenticationFailed


def _text(data: bytes) -> str:
    """n= may hold any name: it is not used, but it is part of what is signed."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise WireError("malformed SCRAM message") from None


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise WireError("malformed SCRAM message: invalid base64") from None


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
