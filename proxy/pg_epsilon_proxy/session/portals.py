"""The unnamed portal, if it is the client's own.

A simple Query runs in the unnamed portal too. One that fails inside a transaction block leaves it behind, pointing into
memory that PostgreSQL has freed; an Execute of it then reads that memory, and now and then crashes the whole server
(found by tests/fuzz on 15.20). So Execute and Describe of the unnamed portal reach the facade only behind a Bind.
"""

from __future__ import annotations

from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Piece

ERROR = ord("E")
NO_PORTAL = b"_pge_none"  # nobody can make it: the prefix is ours


class UnnamedPortal:
    """bound: certainly by a Bind; sure: one was sent behind the last Sync or Query, and if it fails nothing follows."""

    def __init__(self) -> None:
        self.bound = False
        self.sure = False

    def sent(self, kind: int, portal: bytes | None = None) -> None:
        """A message of the client's goes to the facade."""
        if kind == ord("B") and portal == b"":
            self.sure = True
        elif kind in b"QS":
            self.sure = False

    def settled(self, bound: bool) -> None:
        """A Bind to it was answered, or a Query, which leaves no portal that the client may use."""
        self.bound = bound


def missing(piece: Piece) -> bytes:
    """The facade's answer about NO_PORTAL, as it would be about the unnamed one."""
    if piece.kind != ERROR:
        return piece.data
    fields = messages.read_fields(piece.data)
    return messages.fields_message(b"E", {key: text.replace(NO_PORTAL, b"") for key, text in fields.items()})
