"""Constants whose value no setting of the asker's session decides: PostgreSQL computes them under the engine's own.

DateStyle, IntervalStyle and TimeZone decide how moments and intervals are read and written. A text of literals, casts
and calls that has no moment in it is the same under all of them, so that nobody needs to set them and set them back.
"""

from __future__ import annotations

import re

# Of text and numbers alone: no overload of these takes or gives a moment or an interval, and what takes any type is
# given a literal of the types below (tests/sql/test_constants.py asks pg_proc).
FUNCTIONS = frozenset(
    {"ascii", "btrim", "char_length", "chr", "concat", "concat_ws", "format", "initcap", "left", "length", "lower"}
    | {"lpad", "ltrim", "md5", "octet_length", "repeat", "replace", "reverse", "right", "rpad", "rtrim", "split_part"}
    | {"strpos", "substr", "substring", "translate", "upper"}
)
TYPES = frozenset({"bool", "int2", "int4", "int8", "numeric", "text", "varchar"})
_PLAIN = re.compile(  # atomic: a text that does not match is left at its first other token
    r"(?>'(?:[^'\\]|'')*+'|[0-9]++(?:\.[0-9]++)?|[-(), ]"
    rf"|::pg_catalog\.(?:{'|'.join(sorted(TYPES))})\b"
    rf'|pg_catalog\."?(?:{"|".join(sorted(FUNCTIONS))})"?(?=\())++'
)


def is_plain(sql: str) -> bool:
    """Whether SQL consists of literals, casts and calls of the lists above alone. False where that is not certain."""
    return _PLAIN.fullmatch(sql) is not None
