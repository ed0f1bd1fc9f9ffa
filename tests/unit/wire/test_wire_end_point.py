"""tls-server-end-point of real certificates, with openssl's own fingerprint as the oracle; and of rubbish."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_epsilon_proxy.wire import end_point

RSA = ["-newkey", "rsa:2048"]
EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
PSS = ["-sigopt", "rsa_padding_mode:pss"]

# how the certificate is signed, and the hash that clients use for it (RFC 5929: SHA-1 counts as SHA-256)
SIGNED = {
    "rsa sha1": ([*RSA, "-sha1"], "sha256"),
    "rsa sha224": ([*RSA, "-sha224"], "sha224"),
    "rsa sha256": ([*RSA, "-sha256"], "sha256"),
    "rsa sha384": ([*RSA, "-sha384"], "sha384"),
    "rsa sha512": ([*RSA, "-sha512"], "sha512"),
    "rsa-pss sha1": ([*RSA, "-sha1", *PSS], "sha256"),
    "rsa-pss sha384": ([*RSA, "-sha384", *PSS], "sha384"),
    "ecdsa sha256": ([*EC, "-sha256"], "sha256"),
    "ecdsa sha512": ([*EC, "-sha512"], "sha512"),
    "ed25519": (["-newkey", "ed25519"], None),
}


def certificate(folder: Path, options: list[str]) -> Path:
    path = folder / "server.crt"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", *options),
            *("-keyout", str(folder / "server.key"), "-out", str(path)),
        ],
        check=True,
        capture_output=True,
    )
    return path


def fingerprint(path: Path, name: str) -> bytes:
    command = ["openssl", "x509", "-in", str(path), "-noout", "-fingerprint", f"-{name}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return bytes.fromhex(said.strip().split("=")[1].replace(":", ""))


@pytest.mark.parametrize(("options", "name"), SIGNED.values(), ids=SIGNED)
def test_the_hash_of_a_certificate(tmp_path: Path, options: list[str], name: str | None) -> None:
    path = certificate(tmp_path, options)
    expected = None if name is None else fingerprint(path, name)
    assert end_point.of_pem(path.read_bytes()) == expected
    chain = (tmp_path / "server.key").read_bytes() + path.read_bytes() + b"-----BEGIN CERTIFICATE-----\n\n"
    assert end_point.of_pem(chain) == expected, "the first certificate of a file is the server's"


@pytest.mark.parametrize("text", [b"", b"-----BEGIN CERTIFICATE-----\n====\n-----END CERTIFICATE-----", b"PRIVATE"])
def test_no_certificate(text: bytes) -> None:
    assert end_point.of_pem(text) is None


@pytest.fixture(scope="module")
def der(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    text = certificate(tmp_path_factory.mktemp("tls"), [*RSA, "-sha384", *PSS]).read_text()
    return ssl.PEM_cert_to_DER_cert(text)


def test_every_truncation_has_none(der: bytes) -> None:
    assert end_point.of_certificate(der) is not None
    assert {end_point.of_certificate(der[:size]) for size in range(len(der))} == {None}


@settings(database=None, deadline=None, max_examples=200)
@given(st.binary(max_size=64))
def test_random_bytes_have_none(data: bytes) -> None:
    assert end_point.of_certificate(data) is None
