"""SCRAM-SHA-256: the vector of RFC 7677, pass-through of keys, and everything malformed."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_epsilon_proxy.wire import scram
from pg_epsilon_proxy.wire.framing import WireError

# RFC 7677 §3: user "user", password "pencil".
SALT, ITERATIONS = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def keys(password: str) -> scram.Keys:
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, ITERATIONS)
    client = hmac.digest(salted, b"Client Key", "sha256")
    return scram.Keys(client, hashlib.sha256(client).digest(), hmac.digest(salted, b"Server Key", "sha256"))


KEYS = keys("pencil")
VERIFIER = scram.Verifier(ITERATIONS, SALT, KEYS.stored_key, KEYS.server_key)


def test_rfc_vector_and_recovered_keys() -> None:
    server = scram.ScramServer(VERIFIER, SERVER_NONCE)
    assert server.first(CLIENT_FIRST) == SERVER_FIRST
    assert server.final(CLIENT_FINAL) == (SERVER_FINAL, KEYS)


@pytest.mark.parametrize("flag", [b"n,,n=,", b"y,,n=,", "n,,n=é,".encode()])
def test_names_in_the_message_do_not_matter(flag: bytes) -> None:
    """libpq sends n=, ; libraries with channel binding send y."""
    server = scram.ScramServer(VERIFIER)
    first = server.first(flag + b"r=abc")
    nonce = first.split(b",")[0]
    gs2 = base64.b64encode(flag.split(b"n=")[0] if flag[:1] == b"y" else b"n,,")
    without_proof = b"c=" + gs2 + b"," + nonce
    auth = b",".join((flag[3:] + b"r=abc", first, without_proof))
    proof = bytes(a ^ b for a, b in zip(KEYS.client_key, hmac.digest(KEYS.stored_key, auth, "sha256"), strict=True))
    assert server.final(without_proof + b",p=" + base64.b64encode(proof))[1] == KEYS


def test_keys_alone_log_in_again() -> None:
    server, client = scram.ScramServer(VERIFIER), scram.ScramClient(KEYS)
    final, again = server.final(client.final(server.first(client.first())))
    client.check(final)
    assert again == KEYS
    with pytest.raises(scram.AuthenticationFailed):
        client.check(b"v=" + base64.b64encode(bytes(32)))


def test_wrong_password_and_mock_fail_alike() -> None:
    for verifier, held in ((VERIFIER, keys("pen")), (scram.mock_verifier("bob", b"secret"), KEYS)):
        server, client = scram.ScramServer(verifier), scram.ScramClient(held)
        with pytest.raises(scram.AuthenticationFailed):
            server.final(client.final(server.first(client.first())))


def test_mock_never_lets_in_even_with_its_own_keys() -> None:
    mock = scram.Verifier(ITERATIONS, SALT, KEYS.stored_key, KEYS.server_key, mock=True)
    server = scram.ScramServer(mock, SERVER_NONCE)
    server.first(CLIENT_FIRST)
    with pytest.raises(scram.AuthenticationFailed):
        server.final(CLIENT_FINAL)


def test_mock_salt_is_stable_per_user_and_secret() -> None:
    def salt(user: str, secret: bytes) -> bytes:
        return scram.mock_verifier(user, secret).salt

    assert salt("a", b"s") == salt("a", b"s")
    assert len({salt("a", b"s"), salt("b", b"s"), salt("a", b"t")}) == 3


FIRSTS = [
    b"", b"n,,", b"n,,n=user", b"n,,n=user,r=", b"p=tls-server-end-point,,n=u,r=a", b"n,a=root,n=u,r=a",
    b"x,,n=u,r=a", b"n,,m=ext,n=u,r=a", b"n,,n=u,r=a,b", b"\xff\xfe", b"n,,n=u,r=a\0", b"n,,n=u,r=" + b"a" * 10 + b" b",
]  # fmt: skip


@pytest.mark.parametrize("data", FIRSTS)
def test_malformed_first(data: bytes) -> None:
    with pytest.raises(WireError):
        scram.ScramServer(VERIFIER).first(data)


FINALS = [
    b"", b"c=biws", CLIENT_FINAL[:-1],
    CLIENT_FINAL.replace(b"biws", b"eSws"), CLIENT_FINAL.replace(b"r=rOpr", b"r=xOpr"),
    CLIENT_FINAL.replace(b",p=", b",x=1,p="), CLIENT_FINAL[:-8] + b"====",
    CLIENT_FINAL[:-44] + b"AAAA", CLIENT_FINAL + b",",
]  # fmt: skip


@pytest.mark.parametrize("data", FINALS)
def test_malformed_final(data: bytes) -> None:
    server = scram.ScramServer(VERIFIER, SERVER_NONCE)
    server.first(CLIENT_FIRST)
    with pytest.raises(WireError):
        server.final(data)


@settings(database=None, deadline=None, max_examples=200)
@given(st.binary(max_size=80), st.binary(max_size=80))
def test_random_messages_never_let_in(first: bytes, final: bytes) -> None:
    server = scram.ScramServer(VERIFIER)
    with pytest.raises((WireError, scram.AuthenticationFailed)):
        server.first(first)
        server.final(final)


@pytest.mark.parametrize("first", [b"", b"r=other,s=W22Z,i=1", SERVER_FIRST, b"r=,s=,i="])
def test_client_refuses_a_server_that_does_not_extend_its_nonce(first: bytes) -> None:
    with pytest.raises(WireError):
        scram.ScramClient(KEYS).final(first)


@pytest.mark.parametrize(
    "text",
    ["", "md5abc", "SCRAM-SHA-256$4096:W22Z$AAAA:AAAA", "SCRAM-SHA-256$0:W22Z$A:A", "SCRAM-SHA-1$4096:W22Z$A:A"],
)
def test_other_verifiers_are_none(text: str) -> None:
    assert scram.read_verifier(text) is None


def test_verifier() -> None:
    stored, server = (base64.b64encode(k).decode() for k in (KEYS.stored_key, KEYS.server_key))
    text = f"SCRAM-SHA-256$4096:{base64.b64encode(SALT).decode()}${stored}:{server}"
    assert scram.read_verifier(text) == VERIFIER


# -- channel binding ---------------------------------------------------------------------------------------------------

END_POINT = bytes(range(32))
BOUND = scram.BINDING.encode() + b",,"


def proved(server: scram.ScramServer, flag: bytes, bound: bytes, mechanism: str) -> scram.Keys:
    """A client that binds to `bound`."""
    first = server.first(flag + b"n=,r=abc", mechanism)
    without_proof = b"c=" + base64.b64encode(flag + bound) + b"," + first.split(b",")[0]
    auth = b",".join((b"n=,r=abc", first, without_proof))
    proof = bytes(a ^ b for a, b in zip(KEYS.client_key, hmac.digest(KEYS.stored_key, auth, "sha256"), strict=True))
    return server.final(without_proof + b",p=" + base64.b64encode(proof))[1]


def test_a_bound_proof_is_taken() -> None:
    server = scram.ScramServer(VERIFIER, end_point=END_POINT)
    assert server.offered == (scram.PLUS, scram.MECHANISM)
    assert proved(server, BOUND, END_POINT, scram.PLUS) == KEYS
    server = scram.ScramServer(VERIFIER, end_point=END_POINT)
    assert proved(server, b"n,,", b"", scram.MECHANISM) == KEYS, "a client that cannot bind"
    assert scram.ScramServer(VERIFIER).offered == (scram.MECHANISM,)


@pytest.mark.parametrize("bound", [bytes(32), END_POINT[:-1], b"", END_POINT + b"\0"])
def test_a_proof_bound_to_another_certificate_is_refused(bound: bytes) -> None:
    """A man in the middle with a certificate of his own; the password is right."""
    with pytest.raises(WireError, match="channel binding check failed"):
        proved(scram.ScramServer(VERIFIER, end_point=END_POINT), BOUND, bound, scram.PLUS)


DISAGREE = {
    "downgraded: it could bind and believes that we cannot": (b"y,,", scram.MECHANISM, END_POINT),
    "PLUS without a binding": (b"n,,", scram.PLUS, END_POINT),
    "PLUS and yet y": (b"y,,", scram.PLUS, END_POINT),
    "a binding without PLUS": (BOUND, scram.MECHANISM, END_POINT),
    "another binding type": (b"p=tls-unique,,", scram.PLUS, END_POINT),
    "PLUS not offered": (BOUND, scram.PLUS, None),
    "a mechanism of its own": (b"n,,", "SCRAM-SHA-512", END_POINT),
}


@pytest.mark.parametrize(("flag", "mechanism", "end_point"), DISAGREE.values(), ids=DISAGREE)
def test_flag_mechanism_and_offer_must_agree(flag: bytes, mechanism: str, end_point: bytes | None) -> None:
    with pytest.raises(WireError):
        scram.ScramServer(VERIFIER, end_point=end_point).first(flag + b"n=,r=abc", mechanism)
