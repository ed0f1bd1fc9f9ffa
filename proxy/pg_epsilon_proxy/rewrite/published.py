"""What is said of a published release that a statement reads: that no bound applies to it.

The view and the proxy's own answers carry bars; what anybody computes from the table does not.
"""

from __future__ import annotations

from pg_epsilon.query.parse import parse_statements

from ..session.rewriting import SessionIO
from . import probes, settings
from .names import Names
from .notices import published_text
from .runner import is_told
from .scope import references

SCHEMA = "dp_release"
# The table NAME_answers has bars of its own.
_ANSWERS = ("parameters", "answer", "unbiased", "low", "high", "below_resolution")


class PublishedReleases:
    """The weighted tables among a facade's public ones, by names that have their schema.

    A client is told of a table once a session, when it first parses or runs a statement that names
    it: repeated notices disturb programs. One that does not want notices is asked again after it
    has set anything of ours. Without the schema (search_path) a table is not recognised: that
    would take a question to the facade for every statement.
    """

    def __init__(self, names: Names) -> None:
        self._tables = frozenset(
            relation for relation in names.public if relation[0] == SCHEMA and names.columns.get(relation) != _ANSWERS
        )

    def mentions(self, sql: str) -> bool:
        """Cheap text test: False means that no table of a release is named with its schema."""
        return bool(self._tables) and SCHEMA in sql.lower()

    async def say(self, sql: str, io: SessionIO) -> None:
        """Tell the client of what `sql` reads, if it was not told in this session."""
        heard = io.last.heard
        if settings.mentioned(sql):
            for table in [table for table, told in heard.items() if not told]:
                del heard[table]
        if not self.mentions(sql):
            return
        fresh = [table for table in await io.in_parser(self._read, sql) if table not in heard]
        if not fresh:
            return
        told = is_told((await probes.settings(io)).values, io)
        for table in fresh:
            heard[table] = told
            if told:
                io.notice("NOTICE", published_text(*table))

    def _read(self, sql: str) -> list[tuple[str, str]]:
        """The tables that the statements of `sql` name, in order; none where it does not parse."""
        try:
            found = [item for raw in parse_statements(sql) for item in references(raw.stmt)]
        except Exception:  # PostgreSQL says why; too deep a nesting is refused where it matters
            return []
        named = dict.fromkeys((item.schemaname, item.relname) for item in found)
        return [table for table in named if table in self._tables]
