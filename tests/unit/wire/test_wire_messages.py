"""Bodies to values and back, and strictness where PostgreSQL is strict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import WireError

NAME = st.binary(max_size=12).filter(lambda b: b"\0" not in b)
VALUE = st.none() | st.binary(max_size=20)
FORMATS = st.lists(st.integers(0, 1), max_size=4)
OIDS = st.lists(st.integers(0, 2**32 - 1), max_size=5)
PROPERTY = settings(database=None, deadline=None, max_examples=60)


@PROPERTY
@given(NAME, NAME, OIDS)
def test_parse(name: bytes, text: bytes, oids: list[int]) -> None:
    assert messages.read_parse(messages.parse(name, text, oids)) == messages.ParseMessage(name, text, tuple(oids))


@PROPERTY
@given(NAME, NAME, FORMATS, st.lists(VALUE, max_size=5), FORMATS)
def test_bind(portal: bytes, name: bytes, formats: list[int], values: list[bytes | None], results: list[int]) -> None:
    raw = messages.bind(portal, name, formats, values, results)
    assert messages.read_bind(raw) == messages.BindMessage(portal, name, tuple(formats), tuple(values), tuple(results))
    assert messages.read_bind_names(raw) == (portal, name)


FIELD = st.builds(
    messages.FieldDescription,
    NAME,
    st.integers(0, 2**32 - 1),
    st.integers(-(2**15), 2**15 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(-2, 100),
    st.integers(-1, 10**6),
    st.integers(0, 1),
)


@PROPERTY
@given(st.lists(FIELD, max_size=4), OIDS, st.lists(VALUE, max_size=5))
def test_descriptions_and_rows(
    fields: list[messages.FieldDescription], oids: list[int], values: list[bytes | None]
) -> None:
    assert messages.read_row_description(messages.row_description(fields)) == fields
    assert messages.read_parameter_description(messages.parameter_description(oids)) == tuple(oids)
    assert messages.read_data_row(messages.data_row(values)[5:]) == values


def test_errors_hold_no_nul_and_no_context() -> None:
    raw = messages.report(b"E", "ERROR", "DP003", "a\0Cevil", None, "h")
    assert messages.read_fields(raw) == {"S": b"ERROR", "V": b"ERROR", "C": b"DP003", "M": b"aCevil", "H": b"h"}
    assert b"caf?" in messages.report(b"N", "NOTICE", "00000", "caf\u0117", encoding="latin-1")


READERS: list[tuple[Callable[[bytes], Any], bytes]] = [
    (messages.read_query, messages.query(b"select 1")),
    (messages.read_parse, messages.parse(b"s", b"select $1", [23])),
    (messages.read_bind, messages.bind(b"p", b"s", (1, 0), (b"x", None), (1,))),
    (messages.read_target, messages.describe(b"S", b"s")),
    (messages.read_row_description, messages.row_description([messages.FieldDescription(b"a", 1, 2, 3, 4, 5, 0)])),
    (messages.read_parameter_description, messages.parameter_description([23, 25])),
]


@pytest.mark.parametrize(("reader", "raw"), READERS)
def test_every_truncation_and_any_rest_is_refused(reader: Callable[[bytes], Any], raw: bytes) -> None:
    reader(raw)
    for size in range(5, len(raw)):
        with pytest.raises(WireError):
            reader(raw[:size])
    with pytest.raises(WireError):
        reader(raw + b"\0")


@pytest.mark.parametrize("text", [b"select 1\0; drop", b"\0x"])
def test_nul_inside_a_text_is_refused(text: bytes) -> None:
    """The parser would stop reading at it, PostgreSQL too, but what follows must not be taken for something else."""
    with pytest.raises(WireError):
        messages.read_query(messages.query(text))
    with pytest.raises(WireError):
        messages.read_parse(messages.parse(b"", text))


def test_hostile_counts_and_sizes() -> None:
    huge = messages.message(b"B", b"\0\0\0\0" + b"\0\1" + b"\x7f\xff\xff\xff" + b"\0\0")
    negative = messages.message(b"B", b"\0\0\0\0" + b"\0\1" + b"\xff\xff\xff\xfe" + b"\0\0")
    for raw in (huge, negative):
        with pytest.raises(WireError):
            messages.read_bind(raw)
