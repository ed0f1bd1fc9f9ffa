"""What is said of a published release that a statement reads: that no bound applies to it.

The view and the proxy's own answers carry bars; what anybody computes from the table does not.
"""

from __future__ import annotations

import re

from pg_epsilon.query.parse import parse_statements

from ..session.rewriting import SessionIO
from . import probes, settings
from .names import Names
from .notices import published_text
from .runner import is_told
from .scope import Candidates, references

SCHEMA = "dp_release"
_ELSEWHERE = ""  # where a name of a release's table means another relation, or none
_PATH = re.compile(r"search_path|set_config")
_Written = tuple[str | None, str]  # schema, None where it was left out; name
# The table NAME_answers has bars of its own.
_ANSWERS = ("parameters", "answer", "unbiased", "low", "high", "below_resolution")


class PublishedReleases:
    """The weighted tables among a facade's public ones.

    A client is told of a table once a session, when it first parses or runs a statement that names
    it: repeated notices disturb programs. One that does not want notices is asked again after it
    has set anything of ours. What a name without the schema means is asked of the facade, once a
    name until a statement sets search_path.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._tables = frozenset(
            relation for relation in names.public if relation[0] == SCHEMA and names.columns.get(relation) != _ANSWERS
        )
        words = [re.escape(name.lower()) for _, name in sorted(self._tables)]
        self._words = re.compile(rf"\b(?:{'|'.join([SCHEMA, *words])})\b") if words else None

    def mentions(self, sql: str) -> bool:
        """Cheap text test: False means that no table of a release is named."""
        return self._words is not None and self._words.search(sql.lower()) is not None

    async def say(self, sql: str, io: SessionIO) -> None:
        """Tell the client of what `sql` reads, if it was not told in this session."""
        heard, sets_path = io.last.heard, _PATH.search(sql.lower()) is not None
        if settings.mentioned(sql) or sets_path:
            for table in [table for table, told in heard.items() if not told or table[0] == _ELSEWHERE]:
                del heard[table]
        if not self.mentions(sql):
            return
        read = await io.in_parser(self._read, sql)
        fresh = [table for table in await self._resolved(read, io, keep=not sets_path) if table not in heard]
        if not fresh:
            return
        told = is_told((await probes.settings(io)).values, io)
        for table in fresh:
            heard[table] = told
            if told:
                io.notice("NOTICE", published_text(*table))

    async def _resolved(self, read: list[_Written], io: SessionIO, *, keep: bool) -> list[tuple[str, str]]:
        """The tables of releases among what is read. keep: names that mean none are not asked of again.

        A table that the client was told of needs no asking, wherever its name leads.
        """
        heard = io.last.heard
        bare = {name for schema, name in read if schema is None}
        bare -= {name for schema, name in heard if schema in (SCHEMA, _ELSEWHERE)}
        meant: dict[str, tuple[str, str]] = {}
        if bare:
            wanted = Candidates(frozenset((None, None, name) for name in bare), frozenset(), frozenset())
            found = (await probes.resolve(io, wanted, self._names)).relations
            meant = {written[2]: (one.schema, one.name) for written, one in found.items()}
        tables = []
        for schema, name in read:
            table = (schema, name) if schema is not None else meant.get(name)
            if table in self._tables:
                tables.append(table)
            elif schema is None and keep:
                heard.setdefault((_ELSEWHERE, name), True)
        return list(dict.fromkeys(tables))

    def _read(self, sql: str) -> list[_Written]:
        """The tables that the statements of `sql` name, in order; none where it does not parse."""
        try:
            found = [item for raw in parse_statements(sql) for item in references(raw.stmt)]
        except Exception:  # PostgreSQL says why; too deep a nesting is refused where it matters
            return []
        named = dict.fromkeys((item.schemaname, item.relname) for item in found)
        return [one for one in named if (one[0] or SCHEMA, one[1]) in self._tables]
