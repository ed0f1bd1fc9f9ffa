"""SQL that a database of any encoding reads as it was meant.

PL/Python hands the text of a statement to the server as UTF-8, whatever the database's encoding is (only arguments are
converted). In a LATIN1 database a constant outside ASCII would silently be another one, in an EUC one an error. So such
characters are written as escapes, which the server converts by itself.
"""

from __future__ import annotations

import re

from pg_epsilon.errors import SHAPE, DPError

# What our own statements hold: escape strings, plain strings (never with a backslash: query/literals.quote), names.
_TOKEN = re.compile(r"""(?<![A-Za-z0-9_])[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*\"""", re.DOTALL)


def spelled(sql: str, encoding: str) -> str:
    """The same statement in ASCII, where the database's encoding is not UTF8.

    DP003 if a character outside ASCII stands elsewhere than in a constant or a quoted name.
    """
    if sql.isascii() or encoding.upper() == "UTF8":
        return sql
    found = _TOKEN.sub(lambda token: _escaped(token[0]), sql)
    if not found.isascii():
        raise DPError(
            SHAPE,
            f"the question has characters that a database of encoding {encoding} cannot be asked about",
            "Write it in ASCII.",
        )
    return found


def _escaped(token: str) -> str:
    if token.isascii():
        return token
    if token.startswith('"'):
        return 'U&"' + "".join(map(_in_name, token[1:-1])) + '"'
    body = token[1:-1].replace("\\", "\\\\") if token.startswith("'") else token[2:-1]
    return "E'" + "".join(map(_in_text, body)) + "'"


def _in_text(character: str) -> str:
    code = ord(character)
    return character if code < 128 else f"\\u{code:04x}" if code < 65_536 else f"\\U{code:08x}"


def _in_name(character: str) -> str:
    code = ord(character)
    if code < 128:
        return "\\\\" if character == "\\" else character
    return f"\\{code:04x}" if code < 65_536 else f"\\+{code:06x}"
