"""Bookkeeping of statements, refusals as messages, deep stacks, cancel keys, settings."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from pg_epsilon_proxy.config import Config, ConfigError, load
from pg_epsilon_proxy.session.cancel import CancelRegistry, Ticket
from pg_epsilon_proxy.session.parser_thread import STACK_BYTES, ParserThreads
from pg_epsilon_proxy.session.portals import NO_PORTAL, UnnamedPortal, missing
from pg_epsilon_proxy.session.refusals import literal, nonce_statement, raise_statement
from pg_epsilon_proxy.session.rewriting import BoundParams, Field, Made, Refusal, SessionIO
from pg_epsilon_proxy.session.statements import MAX_NOTED, Statement, Statements, edit_description
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Piece

REFUSAL = Refusal("DP003", "no “x”", None, "hint")


class StubPlan:
    text = "select 1"
    param_oids: Sequence[int] = (23, 3802, 3802)
    hidden = 2
    literal = False
    executes = False
    arguments: Sequence[str | None] = ()
    refusal = None
    meaning = None
    fields: Sequence[Field] | None = (Field("a", 77, 3, 1043, -1, 14, 0), Field("b", 77, 4, 23, 4, -1, 0))

    async def run(self, bind: BoundParams | None, io: SessionIO) -> list[str]:
        return ["[]"]

    def splice_simple(self, documents: Sequence[str]) -> str:
        return self.text


MADE = Made("select 1")


def whole(raw: bytes) -> Piece:
    return Piece(raw[0], raw)


def test_statements_follow_the_answers() -> None:
    statements, planned = Statements(), Statement(b"s", StubPlan(), MADE, 1)
    statements.planning = 3
    statements.parsed(b"s", planned, True)
    assert statements.by_name == {b"s": planned} and planned.params == 1
    statements.parsed(b"s", Statement(b"s", StubPlan(), MADE, 1), False)
    assert statements.by_name[b"s"] is planned, "a duplicate name leaves the first"
    statements.parsed(b"", planned, True)
    statements.parsed(b"", None, False)
    assert b"" not in statements.by_name, "a Parse that fails leaves no unnamed statement"
    statements.bound(b"p", planned, True)
    statements.bound(b"p", planned, False)
    assert statements.portals == {}
    statements.doubt()
    assert planned.unsure
    statements.closed(ord("S"), b"s")
    assert statements.by_name == {} and statements.planning == 0


def test_descriptions_show_the_original() -> None:
    statement = Statement(b"", StubPlan(), MADE, 1)
    oids = messages.parameter_description([23, 3802, 3802])
    assert edit_description(whole(oids), statement) == oids, "a statement's own is the client's"
    shown = messages.row_description(
        [messages.FieldDescription(b"a", 0, 0, 1043, -1, -1, 1), messages.FieldDescription(b"b", 0, 0, 20, 8, -1, 1)]
    )
    edited = messages.read_row_description(edit_description(whole(shown), statement))
    assert edited[0] == messages.FieldDescription(b"a", 77, 3, 1043, -1, 14, 1)
    assert edited[1] == messages.FieldDescription(b"b", 0, 0, 20, 8, -1, 1), "never a type that the bytes do not have"
    other = messages.row_description([])
    assert edit_description(whole(other), statement) == other
    assert edit_description(whole(oids), None) == oids


def error(code: str, text: bytes) -> Piece:
    return whole(messages.fields_message(b"E", {"S": b"ERROR", "C": code.encode(), "M": text}))


def test_nonce_replaces_its_own_error_only() -> None:
    text, sink = nonce_statement(REFUSAL, lambda: "utf-8")
    assert text.startswith(b"select dp_") and len(text) == len(b"select dp_") + 24
    assert text != nonce_statement(REFUSAL, lambda: "utf-8")[0]
    fields = messages.read_fields(sink(error("42703", b"column " + text[7:])))
    assert fields == {"S": b"ERROR", "V": b"ERROR", "C": b"DP003", "M": "no “x”".encode(), "H": b"hint"}
    other = error("25P02", b"aborted; see select dp_")
    assert sink(other) == other.data


def test_raise_statement_is_ascii_and_passes_other_errors() -> None:
    text, sink = raise_statement(REFUSAL, lambda: "utf-8")
    assert text == b"SELECT dp.raise(E'DP003', E'no \\U0000201cx\\U0000201d', NULL, E'hint')"
    assert messages.read_fields(sink(error("DP003", b"raised")))["M"] == "no “x”".encode()
    assert messages.read_fields(sink(error("42883", b"no dp.raise")))["C"] == b"DP003"
    aborted = error("25P02", b"aborted")
    assert sink(aborted) == aborted.data


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, "NULL"), ("a'b\\c\0", "E'a''b\\\\c'"), ("\n", "E'\\U0000000a'"), ("𝄞", "E'\\U0001d11e'")],
)
def test_literal(text: str | None, expected: str) -> None:
    assert literal(text) == expected


def stack_bytes() -> int:
    """The stack of the calling thread, as the C library knows it."""
    libc = ctypes.CDLL(None)
    attributes, size = ctypes.create_string_buffer(256), ctypes.c_size_t()
    libc.pthread_getattr_np(ctypes.c_ulong(threading.get_ident()), attributes)
    libc.pthread_attr_getstacksize(attributes, ctypes.byref(size))
    libc.pthread_attr_destroy(attributes)
    return size.value


async def test_parser_threads_have_the_deep_stack_and_no_other_thread_has() -> None:
    threads = ParserThreads(2)
    try:
        assert await asyncio.gather(*(threads.run(stack_bytes) for _ in range(4))) == [STACK_BYTES] * 4
        assert threading.stack_size() == 0
        assert await asyncio.to_thread(stack_bytes) < STACK_BYTES
    finally:
        threads.close()


async def test_cancel_needs_the_key() -> None:
    registry, seen = CancelRegistry(), []

    async def cancel() -> None:
        seen.append(1)

    old, new = Ticket(5, b"aaaa", cancel), Ticket(5, b"bbbb", cancel)
    registry.add(old)
    registry.add(new)
    registry.remove(old)
    assert not await registry.cancel(5, b"aaaa") and not await registry.cancel(6, b"bbbb")
    assert await registry.cancel(5, b"bbbb") and seen == [1]
    registry.remove(new)
    assert not await registry.cancel(5, b"bbbb")


def test_settings_file_and_environment(tmp_path: Path) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text("[listen]\nport = 7000\n[facade]\nnames = ['a']\n[limits]\nlogin_timeout = 5\n")
    secret = tmp_path / "secret"
    secret.write_text("pw\n")
    environment = {
        "PG_EPSILON_LISTEN_PORT": "7001",
        "PG_EPSILON_LISTEN_TLS_REQUIRED": "on",
        "PG_EPSILON_LISTEN_TLS_CERT": "cert.pem",
        "PG_EPSILON_LISTEN_TLS_KEY": "key.pem",
        "PG_EPSILON_PRIVATE_PASSFILE": str(secret),
    }
    config = load(str(file), environment)
    assert (config.listen.port, config.listen.tls_required, config.limits.login_timeout) == (7001, True, 5.0)
    assert config.database_names() == {"facade", "private", "a"}
    assert config.gateway_password() == "pw"
    assert "pw" not in repr(load(None, {"PG_EPSILON_PRIVATE_PASSWORD": "pw"}))
    assert load(None, {}) == Config()


@pytest.mark.parametrize(
    ("text", "environment", "message"),
    [
        ("[nosuch]", {}, "unknown section"),
        ("[listen]\nprt = 1", {}, "unknown setting listen.prt"),
        ("[listen]\nport = 'x'", {}, "listen.port must be a int"),
        ("[listen]\nport = true", {}, "listen.port must be a int"),
        ("", {"PG_EPSILON_LISTEN_PORT": "x"}, "must be a number"),
        ("", {"PG_EPSILON_LISTEN_TLS_REQUIRED": "maybe"}, "true or false"),
        ("not toml", {}, "proxy.toml"),
    ],
)
def test_bad_settings_name_themselves(tmp_path: Path, text: str, environment: dict[str, str], message: str) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load(str(file), environment)


def test_what_is_noted_of_prepared_statements_has_a_limit() -> None:
    prepared: dict[str, Made] = {}
    for number in range(MAX_NOTED + 2):
        Statements().keep(prepared, str(number), MADE)
    Statements().keep(prepared, "2", MADE)
    assert len(prepared) == MAX_NOTED and "0" not in prepared and next(iter(prepared)) == "3"


def test_the_unnamed_portal_is_known_by_its_bind() -> None:
    portal = UnnamedPortal()
    assert not (portal.sure or portal.bound)
    portal.sent(ord("B"), b"named")
    assert not portal.sure
    portal.sent(ord("B"), b"")
    assert portal.sure
    portal.sent(ord("S"))
    assert not portal.sure, "it may have failed"
    portal.settled(True)
    assert portal.bound
    portal.sent(ord("Q"))
    portal.settled(False)
    assert not portal.bound
    said = messages.read_fields(missing(error("34000", b'portal "' + NO_PORTAL + b'" does not exist')))
    assert said["M"] == b'portal "" does not exist'
