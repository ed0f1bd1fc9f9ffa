"""What SQL PREPARE made of a statement of ours, met by the extended protocol: our parameters in it are not shown."""

from __future__ import annotations

from collections.abc import Sequence

from pg_epsilon_proxy.session.pending import Sink
from pg_epsilon_proxy.session.rewriting import JSONB_OID, PreparedNote, Refusal
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Piece

PREPARED_TEXT = "SELECT statement FROM pg_catalog.pg_prepared_statements WHERE name = $1"


def by_sql_only() -> Refusal:
    text = "a query over protected data that was prepared by SQL can be executed by SQL only"
    return Refusal("DP003", text, None, "Use EXECUTE, or let the driver prepare the query itself.")


def wrong_count(name: str, supplied: int, required: int) -> Refusal:
    """PostgreSQL's own words."""
    text = f'bind message supplies {supplied} parameters, but prepared statement "{name}" requires {required}'
    return Refusal("08P01", text)


def holds_documents(oids: Sequence[int], note: PreparedNote) -> bool:
    ours = oids[len(note.types) :]
    return bool(ours) and set(ours) == {JSONB_OID}


def without_documents(note: PreparedNote) -> Sink:
    def sink(piece: Piece) -> bytes:
        if piece.kind != ord("t"):
            return piece.data
        oids = messages.read_parameter_description(piece.data)
        return messages.parameter_description(oids[: len(note.types)]) if holds_documents(oids, note) else piece.data

    return sink
