"""The seam between the wire session and the rewriting brain (facade-and-channel.md §6).

The session owns sockets, message order and errors; the brain owns SQL. Neither imports the other: both import this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pg_epsilon_proxy.wire import messages

T = TypeVar("T")

JSONB_OID = 3802


class Refusal(Exception):
    """The statement is answered by this error, raised on the facade so that the transaction state is PostgreSQL's own.

    sqlstate: five characters; message, detail, hint: functions of public data only (rule R5).
    position: zero-based character offset in the text that the client sent; None if no place is to blame.
    """

    def __init__(
        self,
        sqlstate: str,
        message: str,
        detail: str | None = None,
        hint: str | None = None,
        *,
        position: int | None = None,
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position

    def again(self) -> Refusal:
        """A new exception that says the same, for another run of the statement."""
        return Refusal(self.sqlstate, self.message, self.detail, self.hint, position=self.position)


class FacadeError(Exception):
    """The facade answered a probe with an ErrorResponse: it goes to the client as it is. The brain lets it pass."""

    def __init__(self, raw: bytes, fields: dict[str, str]) -> None:
        super().__init__(fields.get("C", ""))
        self.raw = raw
        self.fields = fields

    @property
    def sqlstate(self) -> str:
        return self.fields.get("C", "")

    def placed(self, position: int | None) -> FacadeError:
        """The same error at another zero-based position: the facade was asked about a part of the client's text."""
        if "P" not in self.fields:
            return self
        fields = {letter: text for letter, text in messages.read_fields(self.raw).items() if letter != "P"}
        if position is not None:
            fields["P"] = str(position + 1).encode()
        shown = {letter: text for letter, text in self.fields.items() if letter != "P"}
        if position is not None:
            shown["P"] = str(position + 1)
        return FacadeError(messages.fields_message(b"E", fields), shown)

    @property
    def position(self) -> int | None:
        """Zero-based, in the text that the facade was sent."""
        return int(self.fields["P"]) - 1 if self.fields.get("P", "").isdigit() else None


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a RowDescription."""

    name: str
    table_oid: int
    attnum: int
    type_oid: int
    typlen: int
    typmod: int
    format: int


@dataclass(frozen=True, slots=True)
class Described:
    """What the facade says of a statement: parameter type OIDs, and columns (None: the statement returns no rows)."""

    param_oids: tuple[int, ...]
    fields: tuple[Field, ...] | None


@dataclass(frozen=True, slots=True)
class BoundParams:
    """A client's Bind, undecoded. formats: none (all text), one for all, or one each; 0 text, 1 binary."""

    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """One question of SessionIO.together: a fetch with these parameters, or, with params None, a description."""

    sql: str
    params: BoundParams | Sequence[str | None] | None = None
    param_oids: Sequence[int] = ()


class AnalystUpstream(Protocol):
    """The private database, asked on behalf of one authenticated analyst. Errors arrive as Refusal."""

    async def query(
        self,
        request: dict[str, Any],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  (the analyst's own limit)
        heard: Callable[[str], None] | None = None,
    ) -> dict[str, Any]:
        """`dp.dp_query(request)`: charges, answers. timeout in seconds: 57014 when it passes.

        heard: called with what the engine says of long work, while it lasts.
        """
        ...

    async def plan(self, request: dict[str, Any]) -> dict[str, Any]:
        """`dp.dp_plan(request)`: public facts only, charges nothing."""
        ...

    async def rows(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of our own SQL text (never an analyst's, rule R1), with asyncpg's arguments."""
        ...


@dataclass(slots=True)
class Last:
    """What a session remembers of its answers, until DISCARD ALL; a ROLLBACK gives back no price, and changes nothing.

    answer: the row of dp.last_answer, by column. release: what the engine calls the last
    answer that had groups. heard: the published releases, by schema and name, that a statement read, and whether the
    client was told of it then.
    """

    answer: Mapping[str, Any] | None = None
    release: str | None = None
    heard: dict[tuple[str, str], bool] = field(default_factory=dict)

    def note(self, answer: dict[str, Any]) -> None:
        """Take out of an answer document what it says to be remembered."""
        self.answer = answer.pop("last", None)
        if answer.get("keys"):
            self.release = answer.get("release", answer.get("request_id"))

    @property
    def holds(self) -> bool:
        """Whether there is anything to forget."""
        return self.answer is not None or bool(self.heard)

    def forget(self) -> None:
        """As if nothing had been asked."""
        self.answer = self.release = None
        self.heard = {}


@dataclass(frozen=True, slots=True)
class Made:
    """A statement with DP blocks that the client has prepared: what it takes to plan it again, each time it runs.

    text: the client's own, spelled out, a part of what the facade keeps under the name; oids: of the parameters, as a
    Parse named them; by_sql: the text is a PREPARE, and what it prepares is meant; meaning: the brain's note of what
    names and constants meant then; written: where places of the text are in the client's (session/written.py).
    """

    text: str
    oids: tuple[int, ...] = ()
    by_sql: bool = False
    meaning: Any = None
    written: Any = None


class SessionIO(Protocol):
    """What the brain may ask of the client's session. Probes run in the client's own facade session and transaction."""

    analyst: str
    """The authenticated role name."""
    upstream: AnalystUpstream
    prepared: dict[str, Made]
    """What was prepared under a name, by Parse or PREPARE; believed only while the facade keeps the same text."""
    last: Last

    async def describe(self, sql: str, param_oids: Sequence[int] = ()) -> Described:
        """Parse + Describe under a reserved name. Raises FacadeError."""
        ...

    async def fetch(
        self, sql: str, params: BoundParams | Sequence[str | None] = (), param_oids: Sequence[int] = ()
    ) -> list[list[str | None]]:
        """All rows, every value in text format (None: NULL). Raises FacadeError."""
        ...

    async def together(self, probes: Sequence[Probe]) -> list[Any]:
        """Answers of describe and fetch, in one round trip. Probes behind one that fails do not run: its error wins."""
        ...

    async def in_parser(self, function: Callable[..., T], *args: Any) -> T:
        """Run a pure function on a parser thread (512 MB of stack): every pglast call and tree walk goes here."""
        ...

    async def hold(self, sql: str, param_oids: Sequence[int]) -> str:
        """Prepare a rewritten statement on the facade, until the client's message is answered; its name in SQL.

        A fetch must follow. Raises FacadeError.
        """
        ...

    def parameter_status(self, name: str) -> str | None:
        """The facade's last ParameterStatus, e.g. "TimeZone", "client_encoding"."""
        ...

    def in_block(self) -> bool:
        """True inside a transaction block that the client has opened (status T)."""
        ...

    def outside_block(self) -> bool:
        """True outside any: not where what was sent since the last Sync may have opened one."""
        ...

    def count_undefined(self, say: Callable[[int], str] | None) -> None:
        """How the client is told, at the end of a statement, how many values had no result; None: it is not told."""
        ...

    def notice(
        self,
        severity: str,
        message: str,
        detail: str | None = None,
        hint: str | None = None,
        sqlstate: str = "00000",
    ) -> None:
        """Send a NoticeResponse to the client now. severity: NOTICE, WARNING or INFO."""
        ...


class Plan(Protocol):
    """How one statement (or one simple Query text) will be answered."""

    @property
    def text(self) -> str:
        """Extended protocol: the rewritten text, with one extra $n per block after the original parameters."""
        ...

    @property
    def param_oids(self) -> Sequence[int]:
        """OIDs of all original parameters, then 3802 (jsonb) per block."""
        ...

    @property
    def hidden(self) -> int:
        """How many of them are ours."""
        ...

    @property
    def fields(self) -> Sequence[Field] | None:
        """The original's RowDescription, shown in place of the rewritten one's; None: show PostgreSQL's."""
        ...

    @property
    def literal(self) -> bool:
        """Extended: documents cannot be parameters (COPY, PREPARE), so `splice_simple`'s text is parsed at Bind."""
        ...

    @property
    def refusal(self) -> Refusal | None:
        """After run, several statements: the refusal that `splice_simple`'s text ends with, if it ends with one."""
        ...

    @property
    def executes(self) -> bool:
        """An EXECUTE: the parameters of `text` are its arguments, of which the client binds none."""
        ...

    @property
    def arguments(self) -> Sequence[str | None]:
        """After run, of an EXECUTE: its arguments, as text."""
        ...

    @property
    def meaning(self) -> Any:
        """For `Made`."""
        ...

    async def run(self, bind: BoundParams | None, io: SessionIO) -> list[str]:
        """Run the blocks (this charges): one ASCII jsonb document per block. May raise Refusal, FacadeError."""
        ...

    def splice_simple(self, documents: Sequence[str]) -> str:
        """The whole text with the documents as dollar-quoted ::jsonb literals."""
        ...


class Rewriter(Protocol):
    """The brain. One object serves all sessions; a policy change replaces it."""

    def mentions(self, sql: str) -> bool:
        """Cheap text test: could this be ours? False forwards the statement without parsing it."""
        ...

    async def spelled_out(self, sql: str, io: SessionIO) -> Any:
        """The text (session/written.py) without functions that the facade may lack. Raises Refusal or FacadeError."""
        ...

    async def plan(self, sql: str, param_oids: Sequence[int], io: SessionIO, *, extended: bool) -> Plan | None:
        """None: forward unchanged. Charges nothing. Raises Refusal or FacadeError.

        sql: the simple Query's whole text, or the Parse's text; param_oids: those that the Parse named.
        """
        ...

    async def again(self, made: Made, io: SessionIO) -> Plan | None:
        """The plan of a prepared statement as names and types are now. None: nothing in it is ours any more."""
        ...

    async def noted(self, name: str, io: SessionIO) -> Made | None:
        """What was prepared under `name`, if the facade still keeps that."""
        ...
