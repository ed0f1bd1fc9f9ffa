"""The functions that ask, from the table sql/60_public/functions.toml: part of `make sql`.

A row of the table is a function dp.NAME that analysts call. Three SQL functions are made of it:
NAME_request builds the request document, NAME_result takes the rows from the answer document, and
NAME asks one and shows the other. Each has its search_path, its comment and its grants. What an
older version had by hand stays in files of its own.

Members of a row: name; parameters, each "name type" with DEFAULT and a value; request, further
arguments of jsonb_build_object beside version, call and settings; returns, a list of columns
"name type" in the order of the answer's rows, or one type: a single value; rows, where the answer
has them ("rows"); comment, a sentence or more. Rows of one name differ in their parameters alone.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE = "60_public/functions.toml"
_NEEDED = {"name": str, "parameters": list, "request": str, "returns": list | str, "comment": str}
_OPTIONAL = {"rows": str}
_NAME = re.compile(r"dp_[a-z0-9_]+")
_DEFINED = re.compile(r"([a-z_][a-z0-9_]*)\s+(\S.*)", re.S)
_PATH = re.compile(r"[a-z_]+(?:,[a-z_]+)*")
# Text of a float is its shortest decimal: 0.1 costs 0.1.
_FLOATS = ("double precision", "real")
_SETTINGS = "SECURITY DEFINER SET search_path = pg_catalog, pg_temp"
_WHO = "dp_analyst, dp_gateway"


class WrongRow(ValueError):
    """A row of the table that no function can be made of."""


@dataclass(frozen=True)
class Column:
    """A parameter or a column of the result; default: with the word DEFAULT, or nothing."""

    name: str
    type: str
    default: str = ""

    @classmethod
    def of(cls, text: str) -> Column:
        """From "name type DEFAULT value"."""
        found = _DEFINED.fullmatch(" ".join(text.split()))
        if found is None:
            raise WrongRow(f'{text!r} is no "name type"')
        kind, word, value = found[2].partition(" DEFAULT ")
        return cls(found[1], kind, f"{word}{value}")

    @property
    def text(self) -> str:
        """As CREATE FUNCTION takes it."""
        return f"{self.name} {self.type}{self.default}"


@dataclass(frozen=True)
class Function:
    """A row of the table. result: one column without a name is a single value."""

    name: str
    parameters: tuple[Column, ...]
    request: str
    result: tuple[Column, ...]
    rows: str
    comment: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Function:
        """A row, checked. Raises WrongRow."""
        name = str(row.get("name", "a function without a name"))
        members = _NEEDED | _OPTIONAL
        wrong = [member for member in row if member not in members]
        wrong += [member for member in _NEEDED if member not in row]
        wrong += [member for member in row if member in members and not isinstance(row[member], members[member])]
        if wrong or not _NAME.fullmatch(name):
            raise WrongRow(f"{name}: {', '.join(wrong) or 'name'}: see scripts/sql_functions.py")
        returns, rows = row["returns"], row.get("rows", "rows")
        if not returns or not row["comment"].strip() or not _PATH.fullmatch(rows):
            raise WrongRow(f"{name}: returns, comment and rows say something")
        single = isinstance(returns, str)
        result = (Column("", returns),) if single else tuple(map(Column.of, returns))
        parameters = tuple(map(Column.of, row["parameters"]))
        return cls(name, parameters, row["request"].strip(), result, rows, " ".join(row["comment"].split()))

    @property
    def returned(self) -> str:
        """What both the function and its _result return."""
        if not self.result[0].name:
            return self.result[0].type
        return f"TABLE ({', '.join(column.text for column in self.result)})"

    @property
    def types(self) -> str:
        """The signature's, between parentheses."""
        return ", ".join(one.type for one in self.parameters)

    def asks(self) -> str:
        """NAME_request, and NAME itself."""
        parameters = ", ".join(one.text for one in self.parameters)
        call = f"dp.dp_query(dp.{self.name}_request({', '.join(one.name for one in self.parameters)}))"
        floats = any(one.type.removesuffix("[]") in _FLOATS for one in self.parameters)
        request = _planned_once(
            f"{self.name}_request({parameters}) RETURNS jsonb",
            f"STABLE {_SETTINGS}{' SET extra_float_digits = 1' if floats else ''}",
            f"jsonb_build_object('version', 1, 'call', '{self.name}', {self.request}, "
            "'settings', dp.session_settings())",
        )
        shown = f"{self.name}_result({call})"
        asked = _function(
            f"{self.name}({parameters}) RETURNS {self.returned}",
            f"VOLATILE PARALLEL UNSAFE {_SETTINGS}",
            f"SELECT r.* FROM dp.{shown} r" if self.result[0].name else f"SELECT dp.{shown}",
        )
        return "\n".join(
            (
                request,
                _granted(f"{self.name}_request({self.types})", f"The request of a {self.name} call."),
                asked,
                _granted(f"{self.name}({self.types})", self.comment),
            )
        )

    def shows(self) -> str:
        """NAME_result."""
        if self.result[0].name:
            cells = ", ".join(f"(r ->> {place})::{column.type}" for place, column in enumerate(self.result))
            body = f"SELECT {cells}\n  FROM jsonb_array_elements(answer #> '{{{self.rows}}}') "
            body += "WITH ORDINALITY AS rows(r, n) ORDER BY n"
        else:
            body = f"SELECT (answer #>> '{{{self.rows},0,0}}')::{self.result[0].type}"
        made = _function(
            f"{self.name}_result(answer jsonb) RETURNS {self.returned}",
            f"IMMUTABLE {_SETTINGS}",
            body,
        )
        says = f"The {'rows of' if self.result[0].name else 'value in'} the answer to a {self.name} request."
        return f"{made}\n{_granted(f'{self.name}_result(jsonb)', says)}"


def _function(head: str, how: str, body: str) -> str:
    return f"\nCREATE FUNCTION dp.{head}\nLANGUAGE sql {how} AS $$\n  {body}\n$$;"


def _planned_once(head: str, how: str, value: str) -> str:
    """In PL/pgSQL, which plans an expression once a session: a function in SQL is planned at every call."""
    return f"\nCREATE FUNCTION dp.{head}\nLANGUAGE plpgsql {how} AS $$\nBEGIN\n  RETURN {value};\nEND $$;"


def _granted(signature: str, comment: str) -> str:
    literal = comment.replace("'", "''")
    return (
        f"COMMENT ON FUNCTION dp.{signature} IS '{literal}';\n"
        f"REVOKE ALL ON FUNCTION dp.{signature} FROM PUBLIC;\n"
        f"GRANT EXECUTE ON FUNCTION dp.{signature} TO {_WHO};"
    )


def table(text: str) -> list[Function]:
    """The rows of the table's text. Raises WrongRow."""
    functions = [Function.of(row) for row in tomllib.loads(text).get("function", [])]
    seen: dict[str, Function] = {}
    for one in functions:
        first = seen.setdefault(one.name, one)
        if (first.result, first.rows) != (one.result, one.rows):
            raise WrongRow(f"{one.name}: functions of one name return the same")
    signatures = [f"{one.name}({one.types})" for one in functions]
    if twice := {one for one in signatures if signatures.count(one) > 1}:
        raise WrongRow(f"twice: {', '.join(sorted(twice))}")
    return functions


def read(sql: Path) -> list[Function]:
    """The table of a folder sql/. Raises WrongRow."""
    return table((sql / TABLE).read_text(encoding="utf-8"))


def script(functions: Sequence[Function]) -> str:
    """CREATE, COMMENT, REVOKE and GRANT of all of them, as `make sql` writes them."""
    shown: set[str] = set()
    parts = []
    for one in functions:
        if one.name not in shown:
            parts.append(one.shows())
            shown.add(one.name)
        parts.append(one.asks())
    return "\n".join(parts)
