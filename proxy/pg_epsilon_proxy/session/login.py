"""From a start-up packet to two logged-in sides: the client by SCRAM, the facade by the same proof (§3)."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pg_epsilon_proxy.admission import Visit
from pg_epsilon_proxy.config import Config, Facade, Private
from pg_epsilon_proxy.session.facade_link import MAX_ANSWER, FacadeLink
from pg_epsilon_proxy.session.rewriting import Refusal
from pg_epsilon_proxy.tls import BUFFER, ClientStream
from pg_epsilon_proxy.wire import messages, scram, startup
from pg_epsilon_proxy.wire.framing import WireError

AUTH_LIMIT = 4096  # bytes of one authentication message: SCRAM's are under 300
PASSWORD = ord("p")
CANCEL_SECONDS = 10.0


class LoginRefused(Exception):
    """raw: the ErrorResponse that the client gets before the connection closes."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self.raw = raw


@dataclass(slots=True)
class LoggedIn:
    """What a finished login leaves. facade_key cancels on the facade, client_key is what the client was given."""

    user: str
    link: FacadeLink
    pid: int
    facade_key: bytes
    client_key: bytes


def fatal(sqlstate: str, text: str, hint: str | None = None) -> LoginRefused:
    return LoginRefused(messages.report(b"E", "FATAL", sqlstate, text, None, hint))


async def log_in(
    client: ClientStream,
    packet: bytes,
    config: Config,
    verifier: Callable[[str], Awaitable[str | None]],
    mock_secret: bytes,
    visit: Visit,
) -> LoggedIn:
    """Raises LoginRefused, WireError. The keys recovered from the proof are forgotten on return."""
    asked = startup.read_startup(packet)
    settings = startup.passed_on(asked.parameters)
    if (negotiate := startup.negotiate(asked)) is not None:
        client.writer.write(negotiate)
    user = asked.parameters["user"]
    try:
        text = await verifier(user)
    except Refusal as refusal:
        raise fatal(refusal.sqlstate, refusal.message, refusal.hint) from None
    known = scram.read_verifier(text) if text is not None else None
    final, keys = await _authenticate(client, user, known or scram.mock_verifier(user, mock_secret), visit)
    visit.admit(user)
    database = asked.parameters.get("database", config.facade.dbname)
    if database not in config.database_names():
        raise fatal("3D000", f'database "{database}" does not exist')
    parameters = {"user": user, "database": config.facade.dbname, **settings}
    link, shown, pid, facade_key = await open_facade(config.facade, parameters, keys)
    client_key = secrets.token_bytes(asked.key_length)
    client.writer.write(messages.authentication(12, final) + messages.authentication(0) + shown)
    client.writer.write(messages.backend_key_data(pid, client_key) + messages.ready(b"I"))
    await client.writer.drain()
    return LoggedIn(user, link, pid, facade_key, client_key)


async def _authenticate(
    client: ClientStream, user: str, verifier: scram.Verifier, visit: Visit
) -> tuple[bytes, scram.Keys]:
    server = scram.ScramServer(verifier, end_point=client.end_point)
    offer = b"".join(mechanism.encode() + b"\0" for mechanism in server.offered)
    client.writer.write(messages.authentication(10, offer + b"\0"))
    cursor = messages.Cursor(await _auth_message(client))
    mechanism, size = cursor.string().decode("latin-1"), cursor.int32()
    data = cursor.take(max(size, 0))
    cursor.end()
    client.writer.write(messages.authentication(11, server.first(data, mechanism)))
    proof = await _auth_message(client)
    attempt = visit.attempt(user)
    if attempt.wait:
        await asyncio.sleep(attempt.wait)
    # From here to its verdict nothing waits: no other login can slip in between the count and the proof.
    try:
        proved = server.final(proof)
    except (WireError, scram.AuthenticationFailed) as failure:
        attempt.settle(False)
        if isinstance(failure, WireError):
            raise
        raise fatal("28P01", f'password authentication failed for user "{user}"') from None
    attempt.settle(True)
    return proved


async def _auth_message(client: ClientStream) -> bytes:
    """The body of one password message. Anything else, a second StartupMessage among it, is refused."""
    await client.writer.drain()
    head = await client.reader.readexactly(5)
    size = int.from_bytes(head[1:], "big") - 4
    if head[0] != PASSWORD:
        raise WireError(f"expected SASL response, got message type {head[0]}")
    if not 0 <= size <= AUTH_LIMIT:
        raise WireError("invalid length of an authentication message")
    return await client.reader.readexactly(size)


async def open_facade(
    facade: Facade, parameters: dict[str, str], keys: scram.Keys
) -> tuple[FacadeLink, bytes, int, bytes]:
    """The facade session, what it said of itself (ParameterStatus, notices), its pid and cancel key.

    Raises LoginRefused with the facade's own error (VALID UNTIL, CONNECTION LIMIT), or ours if it cannot be reached.
    """
    reader, writer = await connect_facade(facade)
    try:
        writer.write(startup.startup_packet(parameters))
        await _prove(reader, writer, keys)
        shown, statuses = b"", dict[str, str]()
        pid, key = 0, b""
        while (raw := await _facade_message(reader))[0] != ord("Z"):
            if raw[0] == ord("S"):
                name, value = messages.read_parameter_status(raw)
                statuses[name.decode("latin-1")] = value.decode("latin-1")
            if raw[0] == ord("K"):
                pid, key = int.from_bytes(raw[5:9], "big"), raw[9:]
            else:
                shown += raw
        return FacadeLink(reader, writer, statuses), shown, pid, key
    except (ConnectionError, asyncio.IncompleteReadError, scram.AuthenticationFailed):
        writer.close()
        raise unreachable() from None
    except BaseException:
        writer.close()
        raise


async def _prove(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keys: scram.Keys) -> None:
    client = scram.ScramClient(keys)
    offered = await _authentication(reader, 10)
    if scram.MECHANISM.encode() not in offered.split(b"\0"):
        raise unreachable()
    first = client.first()
    body = scram.MECHANISM.encode() + b"\0" + len(first).to_bytes(4, "big") + first
    writer.write(messages.message(b"p", body))
    writer.write(messages.message(b"p", client.final(await _authentication(reader, 11))))
    client.check(await _authentication(reader, 12))
    await _authentication(reader, 0)


async def _authentication(reader: asyncio.StreamReader, code: int) -> bytes:
    """pg_hba must ask for SCRAM: a facade that asks for nothing, or for a password, is not one that we log in to."""
    raw = await _facade_message(reader)
    if raw[0] != ord("R") or int.from_bytes(raw[5:9], "big") != code:
        raise unreachable()
    return raw[9:]


async def _facade_message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    size = int.from_bytes(head[1:], "big") - 4
    if not 0 <= size <= MAX_ANSWER:
        raise WireError("invalid message length")
    raw = head + await reader.readexactly(size)
    if raw[0] == ord("E"):
        raise LoginRefused(raw)
    return raw


async def connect_facade(facade: Facade) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        if facade.host.startswith("/"):
            return await asyncio.open_unix_connection(f"{facade.host}/.s.PGSQL.{facade.port}", limit=BUFFER)
        reader, writer = await asyncio.open_connection(facade.host, facade.port, limit=BUFFER)
    except OSError:
        raise unreachable() from None
    try:
        if facade.tls:
            # Nothing of ours is in clear text yet, and the one byte is all that may be read before the handshake.
            writer.write(startup.SSL_REQUEST)
            if await reader.read(2) != b"S":
                raise ConnectionError
            await writer.start_tls(verifying_tls(facade), server_hostname=facade.host)
        return reader, writer
    except OSError:
        writer.close()
        raise unreachable() from None
    except BaseException:
        writer.close()
        raise


def verifying_tls(place: Facade | Private) -> ssl.SSLContext:
    """For a place whose `tls` is set: its certificate must be valid and in its name."""
    return ssl.create_default_context(cafile=place.tls_ca or None)


def unreachable() -> LoginRefused:
    return fatal("DP006", "the facade cannot be reached, or does not accept this login", "Ask the administrator.")


async def cancel_on_facade(facade: Facade, pid: int, key: bytes) -> None:
    """Forward a CancelRequest: no answer, the facade closes."""
    try:
        async with asyncio.timeout(CANCEL_SECONDS):
            reader, writer = await connect_facade(facade)
            try:
                writer.write(startup.cancel_packet(pid, key))
                await reader.read(1)
            finally:
                writer.close()
    except (LoginRefused, OSError, TimeoutError):
        return
