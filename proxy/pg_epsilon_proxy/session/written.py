"""A client's text of which parts were written anew: what the facade is sent, and where that is in the original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pg_epsilon_proxy.session.rewriting import FacadeError, Refusal
from pg_epsilon_proxy.wire import messages

ERROR = ord("E")


@dataclass(frozen=True)
class Edit:
    """text in the place of the characters from start to end."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Written:
    """text: as it is now, empty where nothing was changed; rounds: of edits, each of the text that the one before made.

    filled: the client asked for gaps to be filled, which is done where declared groups answer, and nowhere else.
    """

    text: str
    rounds: tuple[tuple[Edit, ...], ...] = ()
    filled: bool = False

    def edited(self, edits: Sequence[Edit]) -> Written:
        """The text after more edits, which do not overlap."""
        ordered = tuple(sorted(edits, key=lambda edit: (edit.start, edit.end)))
        parts, last = [], 0
        for edit in ordered:
            parts += [self.text[last : edit.start], edit.text]
            last = edit.end
        return replace(self, text="".join([*parts, self.text[last:]]), rounds=(*self.rounds, ordered))

    def place(self, position: int | None) -> int | None:
        """Where a position of the text is in the client's: inside of what was written anew, where that begins."""
        if position is None:
            return None
        for edits in reversed(self.rounds):
            position = _before(edits, position)
        return position

    def check_answered(self) -> None:
        """DP003 for gaps that would stay: of rows that are nobody's there is no list of groups."""
        if self.filled:
            hint = "Join generate_series(first, last, '1 hour'::interval) LEFT JOIN the groups of time_bucket(...)."
            message = "time_bucket_gapfill fills gaps over protected relations only"
            raise Refusal("DP003", message, None, hint)

    def error(self, raw: bytes) -> bytes:
        """An ErrorResponse of the facade's, placed in the client's text; any other message as it is."""
        if raw[0] != ERROR or not self.rounds:
            return raw
        fields = {letter: text.decode("latin-1") for letter, text in messages.read_fields(raw).items()}
        found = FacadeError(raw, fields)
        return found.placed(self.place(found.position)).raw


def _before(edits: Sequence[Edit], position: int) -> int:
    moved = 0
    for edit in edits:
        start = edit.start + moved
        if position < start:
            break
        if position < start + len(edit.text):
            return edit.start
        moved += len(edit.text) - (edit.end - edit.start)
    return position - moved


AS_IT_IS = Written("")
