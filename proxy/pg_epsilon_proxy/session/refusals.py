"""Refusals are raised on the facade, so that error and transaction state are PostgreSQL's own (§6 "Refusals")."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from pg_epsilon_proxy.session.pending import Sink
from pg_epsilon_proxy.session.rewriting import Refusal
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Piece

ERROR, COLUMNS = b"ET"
# dp.raise itself missing or out of reach: the refusal stands all the same.
_BROKEN_FACADE = ("3F000", "42883", "42501")


def error_of(refusal: Refusal, encoding: str) -> bytes:
    return messages.report(
        b"E",
        "ERROR",
        refusal.sqlstate,
        refusal.message,
        refusal.detail,
        refusal.hint,
        None if refusal.position is None else refusal.position + 1,
        encoding=encoding,
    )


def wrong_count(name: str, supplied: int, required: int) -> Refusal:
    """PostgreSQL's own words."""
    text = f'bind message supplies {supplied} parameters, but prepared statement "{name}" requires {required}'
    return Refusal("08P01", text)


def nonce_statement(refusal: Refusal, encoding: Callable[[], str]) -> tuple[bytes, Sink]:
    """A text that fails at Parse, and the sink that puts our error in that failure's place; any other error passes."""
    nonce = b"dp_" + secrets.token_hex(12).encode()

    def sink(piece: Piece) -> bytes:
        ours = piece.kind == ERROR and nonce in piece.data
        return error_of(refusal, encoding()) if ours else piece.data

    return b"select " + nonce, sink


def raise_statement(refusal: Refusal, encoding: Callable[[], str]) -> tuple[bytes, Sink]:
    """A text that raises at execution. The client sees our fields, no CONTEXT of a function, and no column."""
    arguments = (refusal.sqlstate, refusal.message, refusal.detail, refusal.hint)
    text = "SELECT dp.raise(" + ", ".join(literal(argument) for argument in arguments) + ")"

    def sink(piece: Piece) -> bytes:
        if piece.kind == COLUMNS:
            return b""
        if piece.kind == ERROR:
            code = messages.read_fields(piece.data).get("C", b"").decode("latin-1")
            if code == refusal.sqlstate or code in _BROKEN_FACADE:
                return error_of(refusal, encoding())
        return piece.data

    return text.encode("ascii"), sink


def placed(raw: bytes, refusal: Refusal, encoding: str) -> bytes:
    """Our error in place of `raw`, if that is `refusal` as the facade raised it; else `raw`."""
    fields = messages.read_fields(raw)
    same = fields.get("C") == refusal.sqlstate.encode() and fields.get("M") == refusal.message.encode(
        encoding, "replace"
    )
    return error_of(refusal, encoding) if same else raw


def literal(text: str | None) -> str:
    """An ASCII literal that means the same under any standard_conforming_strings and client_encoding."""
    if text is None:
        return "NULL"
    escaped = text.replace("\0", "").replace("\\", "\\\\").replace("'", "''")
    return "E'" + "".join(c if " " <= c <= "~" else f"\\U{ord(c):08x}" for c in escaped) + "'"
