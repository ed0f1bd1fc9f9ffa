"""Which of the client's prepared statements and portals are ours, and what the client must not see of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from pg_epsilon_proxy.session.pending import Sink
from pg_epsilon_proxy.session.rewriting import Made, Plan
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Piece

COLUMNS = ord("T")
MAX_NOTED = 4_096


@dataclass(slots=True, eq=False)
class Statement:
    """made: to plan it again, where the client's `turn` is another than that in which `plan` was made.

    unsure: SQL (DEALLOCATE, DISCARD) may have removed it; asked of the facade before anything is charged.
    """

    name: bytes
    plan: Plan
    made: Made
    turn: int
    unsure: bool = False

    @property
    def params(self) -> int:
        """Number of the parameters that a Bind must have."""
        return 0 if self.plan.executes else len(self.plan.param_oids) - self.plan.hidden


@dataclass(slots=True)
class Statements:
    """Follows the facade's answers, never what was merely sent. planning: rewritten Parses not yet answered."""

    by_name: dict[bytes, Statement] = field(default_factory=dict)
    portals: dict[bytes, Statement] = field(default_factory=dict)
    planning: int = 0

    def parsed(self, name: bytes, statement: Statement | None, ok: bool) -> None:
        """A Parse was answered. A failed one leaves a named statement as it was, and no unnamed one."""
        if statement is not None:
            self.planning -= 1
        if ok and statement is not None:
            self.by_name[name] = statement
        elif ok or not name:
            self.by_name.pop(name, None)

    def bound(self, portal: bytes, statement: Statement | None, ok: bool) -> None:
        if ok and statement is not None:
            self.portals[portal] = statement
        else:
            self.portals.pop(portal, None)

    def closed(self, kind: int, name: bytes) -> None:
        (self.by_name if kind == ord("S") else self.portals).pop(name, None)

    def doubt(self) -> None:
        for statement in self.by_name.values():
            statement.unsure = True

    def keep(self, prepared: dict[str, Made], name: str, made: Made) -> None:
        """Note what was prepared under a name, the oldest last: names that SQL has dropped are still here."""
        prepared.pop(name, None)
        prepared[name] = made
        while len(prepared) > MAX_NOTED:
            del prepared[next(iter(prepared))]

    def portal_sink(self, portal: bytes) -> Sink:
        """Looked up when the answer comes, because its Bind may still be under way."""
        return lambda piece: edit_description(piece, self.portals.get(portal))


def edit_description(piece: Piece, statement: Statement | None) -> bytes:
    """What the client sees of the description of a portal of `statement`."""
    shown = statement is not None and piece.kind == COLUMNS
    return original_columns(piece.data, statement.plan) if statement is not None and shown else piece.data


def original_columns(raw: bytes, plan: Plan) -> bytes:
    """The original's table, column and type modifier per column; a column whose type differs is left as it is."""
    shown = messages.read_row_description(raw)
    if plan.fields is None or len(plan.fields) != len(shown):
        return raw
    edited = []
    for now, was in zip(shown, plan.fields, strict=True):
        if now.type_oid == was.type_oid:
            now = messages.FieldDescription(
                now.name, was.table_oid, was.attnum, was.type_oid, was.typlen, was.typmod, now.format
            )
        edited.append(now)
    return messages.row_description(edited)
