"""Which of the client's prepared statements and portals are ours, and what the client must not see of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from pg_epsilon_proxy.session.pending import Sink
from pg_epsilon_proxy.session.rewriting import Plan
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Piece

PARAMETERS, COLUMNS = b"tT"


@dataclass(slots=True, eq=False)
class Statement:
    """unsure: SQL (DEALLOCATE, DISCARD) may have removed it; asked of the facade before anything is charged."""

    name: bytes
    plan: Plan
    unsure: bool = False

    @property
    def params(self) -> int:
        """Number of the client's own parameters."""
        return len(self.plan.param_oids) - self.plan.hidden


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

    def statement_sink(self, name: bytes) -> Sink:
        """Describe of a statement: looked up when the answer comes, because its Parse may still be under way."""
        return lambda piece: edit_description(piece, self.by_name.get(name))

    def portal_sink(self, portal: bytes) -> Sink:
        return lambda piece: edit_description(piece, self.portals.get(portal))


def edit_description(piece: Piece, statement: Statement | None) -> bytes:
    if statement is None:
        return piece.data
    if piece.kind == PARAMETERS and statement.plan.hidden and not statement.plan.literal:
        oids = messages.read_parameter_description(piece.data)
        return messages.parameter_description(oids[: len(oids) - statement.plan.hidden])
    if piece.kind == COLUMNS:
        return original_columns(piece.data, statement.plan)
    return piece.data


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
