"""Corners of the extended protocol with a DP statement in them: as a statement without one answers, sent directly."""

from __future__ import annotations

import pytest

from fix_proxy import GROUPED_SQL, ROWS
from fix_raw import RawClient, shape, split_messages
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.messages import FLUSH, SYNC, bind, close, describe, execute, parse, query

PRIVATE = GROUPED_SQL.format(7).encode()
PUBLIC = b"SELECT * FROM (VALUES ('north'::varchar(10), 7::bigint), ('south', 8)) AS v (region, count)"
BOUND_PRIVATE = GROUPED_SQL.format("$1").encode()
BOUND_PUBLIC = PUBLIC + b" WHERE $1::int = 7"


def run(text: bytes, name: bytes = b"") -> bytes:
    return parse(name, text) + bind(b"", name) + execute(b"")


def corners(text: bytes, bound: bytes) -> dict[str, list[bytes]]:
    """What is sent before each wait for all ReadyForQuery."""
    seven = (b"7",)
    return {
        "DISCARD ALL first": [run(b"discard all") + FLUSH + run(text) + SYNC],
        "DISCARD ALL behind a Parse": [parse(b"s", text) + run(b"discard all") + bind(b"", b"s") + execute(b"") + SYNC],
        "DISCARD ALL behind an Execute": [run(text) + run(b"discard all") + SYNC],
        "DISCARD ALL before a Bind": [parse(b"s", text) + SYNC,
                                      run(b"discard all") + bind(b"", b"s") + execute(b"") + SYNC, run(text) + SYNC],
        "DISCARD ALL, the same again": [parse(b"s", text) + SYNC, run(b"discard all") + run(text, b"s") + SYNC],
        "DISCARD ALL, another under its name": [parse(b"s", text) + SYNC, run(b"discard all") + parse(b"s", b"select 1")
                                                + describe(b"S", b"s") + bind(b"", b"s") + execute(b"") + SYNC],
        "DISCARD ALL in a block": [query(b"begin"), run(b"discard all") + run(text) + SYNC, query(b"rollback")],
        "DEALLOCATE before a Bind": [parse(b"s", text) + SYNC,
                                     run(b"deallocate s") + bind(b"", b"s") + execute(b"") + SYNC],
        "Close before a Bind": [parse(b"s", text) + SYNC, close(b"S", b"s") + bind(b"", b"s") + execute(b"") + SYNC],
        "a portal suspends and resumes": [parse(b"", text) + bind(b"p", b"") + describe(b"P", b"p") + execute(b"p", 1)
                                          + execute(b"p", 1) + execute(b"p", 1) + SYNC],
        "a portal lives in a block": [query(b"begin"), parse(b"", text) + bind(b"p", b"") + execute(b"p", 1) + SYNC,
                                      execute(b"p") + SYNC, query(b"commit"), execute(b"p") + SYNC],
        "a Describe before the answer to its Parse": [parse(b"s", bound) + describe(b"S", b"s")
                                                      + bind(b"", b"s", (), seven) + describe(b"P", b"") + execute(b"")
                                                      + SYNC],
        "Flush after each": [parse(b"", bound) + FLUSH + bind(b"", b"", (), seven) + FLUSH + execute(b"") + FLUSH
                             + SYNC],
        "too few parameters": [parse(b"s", bound) + bind(b"", b"s") + execute(b"") + SYNC],
        "too many parameters": [parse(b"s", bound) + bind(b"", b"s", (), (b"7", b"8")) + execute(b"") + SYNC],
        "a parameter for our document": [parse(b"s", bound) + bind(b"", b"s", (), (b"7", b"[]")) + execute(b"") + SYNC],
        "too many formats": [parse(b"s", bound) + bind(b"", b"s", (0, 0), seven) + execute(b"") + SYNC],
        "binary parameters and results": [parse(b"s", bound, [23]) + bind(b"", b"s", (1,), (b"\0\0\0\7",), (0, 1))
                                          + describe(b"P", b"") + execute(b"") + SYNC],
        "a parameter that is no number": [parse(b"s", bound) + bind(b"", b"s", (), (b"x",)) + execute(b"") + SYNC],
        "an error before, in the pipeline": [run(b"select 1/0") + run(text) + SYNC + run(text) + SYNC],
        "an error behind, in the pipeline": [run(text) + run(b"select 1/0") + SYNC + run(text) + SYNC],
        "five in a pipeline": [(parse(b"", bound) + bind(b"", b"", (), seven) + execute(b"") + SYNC) * 5],
        "several in one transaction": [run(text) + run(text) + run(b"select 1") + SYNC],
        "a cursor by name taken": [query(b"begin"), parse(b"", b"select 1") + bind(b"c", b"")
                                   + parse(b"", text) + bind(b"c", b"") + SYNC, query(b"rollback")],
        "copy out by the extended protocol": [run(b"COPY (" + text + b") TO STDOUT") + SYNC],
        "copy out by a simple query": [query(b"COPY (" + text + b") TO STDOUT")],
        "simple behind extended without Sync": [run(text) + query(text)],
    }  # fmt: skip


@pytest.mark.parametrize("name", corners(b"", b""))
def test_as_without(raw: RawClient, direct: RawClient, name: str) -> None:
    """Kinds of messages, transaction states, rows, codes and texts of errors."""
    seen = [
        observe(client, corners(text, bound)[name])
        for client, text, bound in ((direct, PUBLIC, BOUND_PUBLIC), (raw, PRIVATE, BOUND_PRIVATE))
    ]
    assert seen[1] == seen[0]


def observe(client: RawClient, rounds: list[bytes]) -> list[object]:
    found: list[object] = []
    for data in rounds:
        client.send(data)
        kinds = [part[:1] for part in split_messages(data)]
        answers = client.until(b"Z", kinds.count(b"S") + kinds.count(b"Q"))
        found.append(shape(answers))
        found += [messages.read_data_row(raw[5:]) for raw in answers if raw[:1] == b"D"]
        errors = (messages.read_fields(raw) for raw in answers if raw[:1] == b"E")
        found += [(fields["C"], fields["M"]) for fields in errors]
    return found


def test_the_rows_are_those_that_we_think(raw: RawClient) -> None:
    found = observe(raw, [run(PRIVATE) + SYNC])
    assert found[1:] == [[name.encode(), str(count).encode()] for name, count in ROWS]
