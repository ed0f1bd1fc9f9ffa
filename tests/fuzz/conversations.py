"""Recorded conversations: what real clients and the proxy said to each other after the login, message by message.

One line a message: `>` from the client or `<` to it, the kind, the body with backslash escapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pg_epsilon_proxy.wire.messages import message

FOLDER = Path(__file__).parent.parent / "fixtures" / "conversations"


class Said(NamedTuple):
    from_client: bool
    raw: bytes


def write(name: str, said: Iterable[Said]) -> None:
    (FOLDER / f"{name}.txt").write_text("".join(_line(item) + "\n" for item in said), encoding="ascii")


def read(name: str) -> list[Said]:
    lines = (FOLDER / f"{name}.txt").read_text(encoding="ascii").splitlines()
    return [_said(line) for line in lines]


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def client_messages(name: str) -> list[bytes]:
    return [item.raw for item in read(name) if item.from_client]


def cut(data: bytes) -> list[bytes]:
    """Whole messages."""
    found = []
    while data:
        size = 1 + int.from_bytes(data[1:5], "big")
        found.append(data[:size])
        data = data[size:]
    return found


def _line(item: Said) -> str:
    body = item.raw[5:].decode("latin-1").encode("unicode_escape").decode("ascii")
    return f"{'>' if item.from_client else '<'} {chr(item.raw[0])} {body}"


def _said(line: str) -> Said:
    body = line[4:].encode("ascii").decode("unicode_escape").encode("latin-1")
    return Said(line[0] == ">", message(line[2].encode(), body))
