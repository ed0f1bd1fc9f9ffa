"""Values that the facade made NULL because they have none (facade/released.sql): counted, and told once a statement."""

from __future__ import annotations

from collections.abc import Callable

from pg_epsilon_proxy.wire.framing import Piece

# The SQLSTATE of the notice that schema dp_null of the facade gives for each value.
STATE = "01DP0"
_FIELD = b"\0C" + STATE.encode() + b"\0"
NOTICE, ERROR = b"NE"
ENDS = frozenset(b"Cs")  # CommandComplete, PortalSuspended


class UndefinedValues:
    """Follows the facade's messages. say: the sentence for a number of values; None: the client wants no notices."""

    def __init__(self) -> None:
        self.say: Callable[[int], str] | None = None
        self._count = 0

    def counts(self, piece: Piece) -> bool:
        """Whether the message is one value's notice, which the client does not see."""
        if piece.kind != NOTICE or _FIELD not in piece.data:
            return False
        self._count += 1
        return True

    def told(self, piece: Piece) -> str | None:
        """What is to be said before this message; an error says enough by itself."""
        if not self._count or (piece.kind not in ENDS and piece.kind != ERROR):
            return None
        count, self._count = self._count, 0
        return self.say(count) if self.say is not None and piece.kind != ERROR else None
