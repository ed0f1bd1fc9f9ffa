"""The messages between a backend and its solver: a JSON header and raw arrays, whose sizes the receiver checks."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

HEADER_MAX = 1 << 16
# Refined solutions are integers of so many bytes and binary digits: values below 2^70.
BYTES, BITS = 24, 120
_SIZES = struct.Struct("<IQ")


class Nonsense(Exception):
    """What arrived is no message."""


def packed(header: dict[str, Any], arrays: Sequence[Any] = ()) -> list[bytes | memoryview]:
    """One message in parts: sizes, header, arrays one after another. arrays: contiguous, of numpy."""
    text = json.dumps(header).encode()
    size = sum(array.nbytes for array in arrays)
    return [_SIZES.pack(len(text), size) + text, *(memoryview(array).cast("B") for array in arrays if array.nbytes)]


def received(read: Callable[[int], bytes | bytearray], most: int) -> tuple[dict[str, Any], bytes | bytearray]:
    """The next message: header and the bytes of its arrays, at most `most`. Errors: Nonsense, and what `read` raises.

    read: returns exactly so many bytes.
    """
    header_size, size = _SIZES.unpack(read(_SIZES.size))
    if header_size > HEADER_MAX or size > most:
        raise Nonsense
    try:
        header = json.loads(bytes(read(header_size)))
    except ValueError:
        raise Nonsense from None
    if not isinstance(header, dict):
        raise Nonsense
    return header, read(size)
