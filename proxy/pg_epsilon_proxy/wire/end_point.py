"""tls-server-end-point (RFC 5929, section 4.1): what a SCRAM-SHA-256-PLUS client binds its proof to. Without I/O."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

_FIRST = re.compile(rb"-----BEGIN CERTIFICATE-----\s+(.*?)-----END CERTIFICATE-----", re.S)
SEQUENCE, OBJECT_ID, EXPLICIT_0 = 0x30, 0x06, 0xA0
_RSA, _ECDSA, _DSA, _NIST = "2a864886f70d0101", "2a8648ce3d04", "2a8648ce380403", "60864801650304"
RSA_PSS = _RSA + "0a"

# Object identifiers in hexadecimal DER. MD5 and SHA-1 count as SHA-256 (RFC 5929); a signature scheme that is not
# listed, Ed25519 among them, names no hash: then the binding is not defined, and PLUS is not offered.
SIGNATURE_HASH = {
    _RSA + "04": "sha256",
    _RSA + "05": "sha256",
    _RSA + "0b": "sha256",
    _RSA + "0c": "sha384",
    _RSA + "0d": "sha512",
    _RSA + "0e": "sha224",
    _ECDSA + "01": "sha256",
    _ECDSA + "0301": "sha224",
    _ECDSA + "0302": "sha256",
    _ECDSA + "0303": "sha384",
    _ECDSA + "0304": "sha512",
    _DSA: "sha256",
    _NIST + "0301": "sha224",
    _NIST + "0302": "sha256",
}
DIGEST_HASH = {
    "2b0e03021a": "sha256",  # SHA-1
    _NIST + "0201": "sha256",
    _NIST + "0202": "sha384",
    _NIST + "0203": "sha512",
    _NIST + "0204": "sha224",
}


class _NotDer(Exception):
    pass


def of_pem(text: bytes) -> bytes | None:
    """For the first certificate of a PEM file, which is the server's own; None if it has no such binding."""
    match = _FIRST.search(text)
    try:
        return None if match is None else of_certificate(base64.b64decode(match[1]))
    except binascii.Error:
        return None


def of_certificate(der: bytes) -> bytes | None:
    """The certificate's hash, by the hash function of its own signature; None if that is not defined."""
    try:
        name = _hash_name(der)
    except _NotDer:
        return None
    return None if name is None else hashlib.new(name, der).digest()


def _hash_name(der: bytes) -> str | None:
    """Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm SEQUENCE { OBJECT IDENTIFIER, ... }, ... }"""
    certificate, _ = _element(der, 0, SEQUENCE)
    _, position = _element(certificate, 0, SEQUENCE)
    algorithm, _ = _element(certificate, position, SEQUENCE)
    identifier, position = _element(algorithm, 0, OBJECT_ID)
    if identifier.hex() != RSA_PSS:
        return SIGNATURE_HASH.get(identifier.hex())
    parameters, _ = _element(algorithm, position, SEQUENCE)
    if not parameters or parameters[0] != EXPLICIT_0:
        return "sha256"  # the default there is SHA-1
    digest, _ = _element(_element(parameters, 0, EXPLICIT_0)[0], 0, SEQUENCE)
    return DIGEST_HASH.get(_element(digest, 0, OBJECT_ID)[0].hex())


def _element(data: bytes, position: int, tag: int) -> tuple[bytes, int]:
    """Contents of the element at `position`, and where the next one begins."""
    if data[position : position + 1] != bytes([tag]) or len(data) < position + 2:
        raise _NotDer
    size, start = data[position + 1], position + 2
    if size & 0x80:
        count = size & 0x7F
        size, start = int.from_bytes(data[start : start + count], "big"), start + count
    if start + size > len(data):
        raise _NotDer
    return data[start : start + size], start + size
