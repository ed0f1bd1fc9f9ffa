"""Bind of what holds DP blocks: its blocks are run, and the rewritten statement is parsed and bound in its place."""

from __future__ import annotations

from typing import Protocol

from pg_epsilon_proxy.session.context import BrainIO
from pg_epsilon_proxy.session.facade_link import FacadeLink
from pg_epsilon_proxy.session.pending import expect_bind, expect_close, expect_parse
from pg_epsilon_proxy.session.refusals import wrong_count
from pg_epsilon_proxy.session.rewriting import BoundParams, FacadeError, Made, Plan, Refusal
from pg_epsilon_proxy.session.statements import Statement, Statements
from pg_epsilon_proxy.session.written import AS_IT_IS, Written
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Piece, WireError


class Session(Protocol):
    """What a Bind needs of the session's operations (operations.py)."""

    io: BrainIO
    busy: bool
    turn: int

    async def again(self, made: Made) -> Plan | None: ...

    async def noted(self, name: str) -> Made | None: ...

    async def run(self, plan: Plan, bind: BoundParams | None) -> list[str]: ...

    def end_probes(self) -> None: ...

    def show(self, error: FacadeError) -> None: ...

    def refuse_now(self, refusal: Refusal, name: bytes) -> None: ...

    def forward_bind(self, data: bytes, portal: bytes, statement: Statement | None = None) -> None: ...


class Binding:
    def __init__(self, operations: Session, link: FacadeLink, statements: Statements) -> None:
        self._operations = operations
        self._link = link
        self._statements = statements

    async def bind(self, raw: bytes) -> None:
        try:
            portal, name = messages.read_bind_names(raw)
        except WireError:
            return self._link.send(raw, expect_bind())
        operations = self._operations
        if not self._statements.planning and name not in self._statements.by_name and not self._noted(name):
            return operations.forward_bind(raw, portal)
        if not await self._link.drain():
            return operations.forward_bind(raw, portal)
        operations.busy = True
        try:
            bind = messages.read_bind(raw)
            known = self._statements.by_name.get(name)
            with self._written(name).placing():
                statement = await self._statement(name)
                if statement is None:
                    operations.end_probes()
                    return operations.forward_bind(raw, portal)
                await self._planned(raw, bind, statement, looked_at=statement is not known)
        except WireError:
            operations.forward_bind(raw, portal)
        except FacadeError as error:
            operations.show(error)
        except Refusal as refusal:
            operations.refuse_now(refusal, self._link.reserved_name())
        finally:
            operations.busy = False

    def _written(self, name: bytes) -> Written:
        """Where places of the statement's text are in what the client parsed."""
        statement = self._statements.by_name.get(name)
        made = statement.made if statement is not None else None
        made = made or self._operations.io.prepared.get(name.decode(self._link.encoding, "replace"))
        return made.written or AS_IT_IS if made is not None else AS_IT_IS

    def _noted(self, name: bytes) -> bool:
        return name.decode(self._link.encoding, "replace") in self._operations.io.prepared

    async def _statement(self, name: bytes) -> Statement | None:
        """What the client means by `name`, planned for now; None: nothing of ours."""
        statement = self._statements.by_name.get(name)
        if statement is not None and statement.turn == self._operations.turn and not statement.unsure:
            return statement
        if statement is not None and not name:
            return await self._again(name, statement.made, statement)
        if not self._noted(name):
            return None
        if self._link.pending.status == b"E":
            await self._link.fetch("select")  # PostgreSQL's own error
        made = await self._operations.noted(name.decode(self._link.encoding))
        if made is None:
            self._statements.by_name.pop(name, None)
            return None
        return await self._again(name, made, statement if statement is not None and statement.made == made else None)

    async def _again(self, name: bytes, made: Made, before: Statement | None) -> Statement | None:
        if self._link.pending.status == b"E":
            await self._link.fetch("select")
        plan = await self._operations.again(made)
        if plan is None:
            return None
        statement = Statement(name, plan, made, self._operations.turn)
        if before is not None:
            if (before.plan.fields, list(before.plan.param_oids)) != (plan.fields, list(plan.param_oids)):
                self._make_anew(name, made)
            self._statements.by_name[name] = statement
        return statement

    def _make_anew(self, name: bytes, made: Made) -> None:
        """Types have changed: what the client describes next shall be of today."""
        self._link.send(messages.close(b"S", name), expect_close(errors_only))
        text = made.text.encode(self._link.encoding)
        self._link.send(messages.parse(name, text, made.oids), expect_parse(errors_only))

    async def _planned(self, raw: bytes, bind: messages.BindMessage, statement: Statement, *, looked_at: bool) -> None:
        """looked_at: in this transaction, so that its types stay what they are."""
        plan, link, operations = statement.plan, self._link, self._operations
        if len(bind.values) == statement.params and len(bind.formats) not in (0, 1, statement.params):
            return operations.forward_bind(raw, bind.portal)  # PostgreSQL refuses it, by the number of formats
        # Whatever would fail at this Bind must fail before the charge.
        if link.pending.status == b"E":
            await link.fetch("select")
        if len(bind.values) != statement.params:
            raise wrong_count(statement.name.decode(link.encoding, "replace"), len(bind.values), statement.params)
        if bind.portal:
            await link.check_portal_name(bind.portal)
        ours = not plan.literal and bool(plan.hidden or plan.executes)
        held = b""
        if ours:
            held = await link.hold(plan.text, plan.param_oids, None if looked_at else statement.name)
        documents = await operations.run(plan, BoundParams(bind.formats, bind.values))
        if plan.literal:
            return self._bind_literal(bind, statement, documents)
        if not ours:
            return operations.forward_bind(raw, bind.portal, statement)
        formats, values = bind.formats, bind.values
        if plan.executes:
            formats = ()
            values = tuple(None if text is None else text.encode(link.encoding) for text in plan.arguments)
        if len(formats) == 1:
            formats = formats * len(values)
        if formats:
            formats += (0,) * len(documents)
        values += tuple(document.encode("ascii") for document in documents)
        data = messages.bind(bind.portal, held, formats, values, bind.result_formats)
        operations.forward_bind(data, bind.portal, statement)
        return link.release(at_once=False)

    def _bind_literal(self, bind: messages.BindMessage, statement: Statement, documents: list[str]) -> None:
        """COPY takes no parameters: its text is parsed at Bind with the documents in it."""
        link, name = self._link, self._link.reserved_name()
        text = statement.plan.splice_simple(documents).encode(link.encoding)
        link.send(messages.parse(name, text), expect_parse(errors_only))
        data = messages.bind(bind.portal, name, (), (), bind.result_formats)
        self._operations.forward_bind(data, bind.portal, statement)
        link.send(messages.close(b"S", name), expect_close(errors_only))


def errors_only(piece: Piece) -> bytes:
    return piece.data if piece.kind in b"EN" else b""
