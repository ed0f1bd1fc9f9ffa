"""A client's text of which parts were written anew: what the facade is sent, and where that is in the original."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pg_epsilon_proxy.session.rewriting import FacadeError, Refusal
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Piece

ERROR = ord("E")
UNFILLED = (
    "time_bucket_gapfill fills gaps over protected relations only",
    "Join generate_series(first, last, '1 hour'::interval) LEFT JOIN the groups of time_bucket(...).",
)


@dataclass(frozen=True)
class Edit:
    """text in the place of the characters from start to end. fills: the client asked for gaps to be filled there."""

    start: int
    end: int
    text: str
    fills: bool = False


@dataclass(frozen=True)
class Written:
    """text: as it is now, empty where nothing was changed; rounds: of edits, each of the text that the one before made.

    Gaps are filled where declared groups answer, and nowhere else.
    """

    text: str
    rounds: tuple[tuple[Edit, ...], ...] = ()

    def edited(self, edits: Sequence[Edit]) -> Written:
        """The text after more edits, which do not overlap."""
        ordered = tuple(sorted(edits, key=lambda edit: (edit.start, edit.end)))
        parts, last = [], 0
        for edit in ordered:
            parts += [self.text[last : edit.start], edit.text]
            last = edit.end
        return Written("".join([*parts, self.text[last:]]), (*self.rounds, ordered))

    def place(self, position: int | None) -> int | None:
        """Where a position of the text is in the client's: inside of what was written anew, where that begins."""
        return self._place(position, len(self.rounds))

    def _place(self, position: int | None, rounds: int) -> int | None:
        if position is None:
            return None
        for edits in reversed(self.rounds[:rounds]):
            position = _before(edits, position)
        return position

    def check_filled(self) -> None:
        """DP003 for gaps that would stay, placed in the client's text: nobody's rows have no list of groups."""
        for number, edits in enumerate(self.rounds):
            for edit in edits:
                if edit.fills:
                    message, hint = UNFILLED
                    raise Refusal("DP003", message, None, hint, position=self._place(edit.start, number))

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Refusals and errors of the facade that are raised in it are placed in the client's text."""
        try:
            yield
        except Refusal as refusal:
            if not self.rounds:
                raise
            raise self.refusal(refusal) from None
        except FacadeError as error:
            raise error.placed(self.place(error.position)) if self.rounds else error from None

    def refusal(self, refusal: Refusal) -> Refusal:
        """The same refusal, placed in the client's text."""
        placed = refusal.again()
        placed.position = self.place(refusal.position)
        return placed

    @property
    def sink(self) -> Callable[[Piece], bytes] | None:
        """What the client gets of the facade's answer to the text; None: all of it as it is."""
        return (lambda piece: self.error(piece.data)) if self.rounds else None

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
