"""The script of `ALTER EXTENSION pg_epsilon UPDATE`, made from the older version's script and today's sql/.

sql/upgrade/A--B/ holds the script of version A as it was released, and what no program can know: how a table that
changed is altered (tables/NAME.sql) and which rows are rewritten afterwards (after/*.sql). All else is generated:
functions are replaced, or dropped and made where their head changed; views and triggers likewise; what B does not have
is dropped; grants are taken away and granted anew. sql/upgrade/README.md says what to write there.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

NAME = "pg_epsilon"
# A statement's parts that may hold a semicolon or a parenthesis which means nothing.
_OPAQUE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|(\$\w*\$).*?\1", re.S)
_OBJECT = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:UNIQUE|UNLOGGED|CONSTRAINT)\s+)?"
    r"(FUNCTION|PROCEDURE|VIEW|TABLE|INDEX|TRIGGER|EVENT\s+TRIGGER|SEQUENCE|TYPE|DOMAIN)\s+([\w.~\"]+)"
)
_EVERY_TIME = ("COMMENT", "REVOKE", "GRANT", "DO", "SELECT")
_ROUTINES = ("FUNCTION", "PROCEDURE")


@dataclass(frozen=True)
class Statement:
    """One statement. `kind` is its first word, or what it creates; `name` is the object's."""

    text: str
    kind: str
    name: str = ""

    @cached_property
    def words(self) -> str:
        """The statement without comments and layout: equal for statements that mean the same."""
        bare = _OPAQUE.sub(lambda found: "" if found[0].startswith(("--", "/*")) else found[0], self.text)
        return " ".join(bare.split())

    @property
    def signature(self) -> str:
        """Of a routine: name and parameters, as DROP ROUTINE takes them."""
        return f"{self.name}({', '.join(_without_default(one) for one in _parameters(self.text)[0])})"

    @cached_property
    def head(self) -> str:
        """Of a routine: what CREATE OR REPLACE cannot change: kind, name, parameters with defaults, result."""
        parameters, rest = _parameters(self.text)
        result = re.split(r"\bLANGUAGE\b", rest, maxsplit=1)[0]
        return " ".join(f"{self.kind} {self.name} ({', '.join(parameters)}) {result}".split())

    @property
    def table(self) -> str:
        """Of a trigger: the table it stands on."""
        found = re.search(r"\bON\s+([\w.]+)", self.text)
        return found[1] if found else ""


def _masked(text: str) -> str:
    """The text, as long, with x for every character of a comment, a string or a quoted name."""
    return _OPAQUE.sub(lambda found: "x" * len(found[0]), text)


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark that stands outside parentheses, strings and comments."""
    parts, depth, start, masked = [], 0, 0, _masked(text)
    for place, letter in enumerate(masked):
        depth += (letter in "([") - (letter in ")]")
        if letter == mark and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _parameters(text: str) -> tuple[list[str], str]:
    """The parameters of a CREATE FUNCTION, and what follows them."""
    masked, first = _masked(text), text.index("(")
    depth = 0
    for place in range(first, len(text)):
        depth += (masked[place] == "(") - (masked[place] == ")")
        if depth == 0:
            inside = text[first + 1 : place]
            return [" ".join(one.split()) for one in _split(inside, ",") if one.strip()], text[place + 1 :]
    raise SystemExit(f"make sql: no end of the parameters in {text[:80]}")


def _without_default(parameter: str) -> str:
    return re.split(r"\s+DEFAULT\b|\s*(?::=|=)", parameter, maxsplit=1)[0]


def statements(script: str) -> Iterator[Statement]:
    """The statements of a script of ours, without psql's own commands."""
    sql = re.sub(r"^\s*\\.*$", "", script, flags=re.M)
    for text in _split(sql, ";"):
        words = Statement(text, "").words
        if not words or words.startswith("SET LOCAL "):
            continue
        found = _OBJECT.match(words)
        kind = " ".join(found[1].split()) if found else words.split()[0]
        yield Statement(text.strip(), kind, found[2] if found else "")


def _replacing(text: str) -> str:
    """CREATE … as CREATE OR REPLACE …; what a comment above it says of CREATE is left alone."""
    return re.sub(r"^CREATE\s+", "CREATE OR REPLACE ", text, count=1, flags=re.M)


def _on_catalog(grant: Statement) -> bool:
    """Whether a grant is on an object of PostgreSQL's own."""
    return " pg_catalog." in grant.words.partition(" ON ")[2]


class Upgrade:
    """From the script of an older version to today's; `folder` is sql/upgrade/A--B."""

    def __init__(self, folder: Path, script: str) -> None:
        self.before, self.after = folder.name.split("--")
        self._folder = folder
        old = folder / f"{NAME}--{self.before}.sql.gz"
        self._old = list(statements(gzip.decompress(old.read_bytes()).decode()))
        self._new = list(statements(script))
        self._new_words = {one.words for one in self._new}
        self._old_words = {one.words for one in self._old}
        self._heads = {one.head for one in self._new if one.kind in _ROUTINES}
        self._old_heads = {one.head for one in self._old if one.kind in _ROUTINES}

    def text(self) -> str:
        """The whole script."""
        events = [one for one in self._new if "EVENT TRIGGER" in " ".join(one.words.split()[:3])]
        parts = [
            f"\\echo Use \"ALTER EXTENSION {NAME} UPDATE TO '{self.after}'\" to load this file. \\quit",
            "SET LOCAL search_path = pg_catalog, pg_temp;",
            *self._fragments("before"),
            *self._dropped(),
            self._closed(),
            *(part for one in self._new if one not in events for part in self._step(one)),
            *self._fragments("after"),
            # last: nothing of the update itself is to wake them
            *(one.text + ";" for one in events),
        ]
        return "\n\n".join(parts) + "\n"

    def _fragments(self, stage: str) -> Iterator[str]:
        for file in sorted((self._folder / stage).glob("*.sql")):
            yield f"-- {stage}/{file.name}\n{file.read_text(encoding='utf-8').strip()}"

    def _of(self, kind: str, script: list[Statement]) -> dict[str, Statement]:
        return {one.name: one for one in script if one.kind == kind}

    def _dropped(self) -> Iterator[str]:
        """What is made anew or is gone. Tables are dropped by hand, if ever: they hold what was spent."""
        for name in self._of("EVENT TRIGGER", self._old):
            yield f"DROP EVENT TRIGGER {name};"
        for one in self._old:
            if one.kind == "TRIGGER":
                yield f"DROP TRIGGER {one.name} ON {one.table};"
        for name in reversed(self._of("VIEW", self._old)):  # a view that stands on another goes first
            if name in self._views_to_drop:
                yield f"DROP VIEW {name};"
        for one in self._old:
            if one.kind in _ROUTINES and one.head not in self._heads:
                yield f"DROP {one.kind} {one.signature};"
        indexes = self._of("INDEX", self._new)
        for name, one in self._of("INDEX", self._old).items():
            if name not in indexes or indexes[name].words != one.words:
                yield f"DROP INDEX dp.{name};"
        by_hand = "\n".join(file.read_text(encoding="utf-8") for file in self._folder.rglob("*.sql"))
        tables = self._of("TABLE", self._new)
        for name in self._of("TABLE", self._old):
            if name not in tables and f"DROP TABLE {name};" not in by_hand:
                raise SystemExit(f"make sql: {name} is gone: DROP TABLE {name}; in {self._folder}/after/")

    @cached_property
    def _views_to_drop(self) -> set[str]:
        """Views that changed, and all that stand on something that is dropped."""
        old, new = self._of("VIEW", self._old), self._of("VIEW", self._new)
        gone = {one.name for one in self._old if one.kind in _ROUTINES and one.head not in self._heads}
        views = {name for name, one in old.items() if name not in new or new[name].words != one.words}
        while True:
            mentioned = re.compile("|".join(rf"{re.escape(name)}\b" for name in gone | views) or r"(?!)")
            more = {name for name, one in old.items() if mentioned.search(one.words.partition(" AS ")[2])} - views
            if not more:
                return views
            views |= more

    def _closed(self) -> str:
        """Grants of the older version are taken back: those of today follow where they stand in sql/."""
        granted = [one for one in self._old if one.kind == "GRANT"]
        roles = sorted({role.strip() for one in granted for role in one.words.rpartition(" TO ")[2].split(",")})
        outside = [
            re.sub(r"^GRANT", "REVOKE", one.words.rpartition(" TO ")[0]) + f" FROM {one.words.rpartition(' TO ')[2]};"
            for one in granted
            if _on_catalog(one) and one.words not in self._new_words
        ]
        return "\n".join([*outside, _CLOSE.format(roles=",".join(roles))])

    def _step(self, one: Statement) -> Iterator[str]:
        """What becomes of one statement of today's script."""
        if one.kind == "GRANT" and _on_catalog(one) and one.words in self._old_words:
            return  # it holds, and granted again it would become a default that dumps leave out
        if one.kind in _EVERY_TIME:
            yield one.text + ";"
        elif one.kind in _ROUTINES:
            replaced = one.head in self._old_heads
            yield (_replacing(one.text) if replaced else one.text) + ";"
        elif one.kind == "VIEW":
            dropped = one.name in self._views_to_drop or one.name not in self._of("VIEW", self._old)
            yield (one.text if dropped else _replacing(one.text)) + ";"
        elif one.kind == "TRIGGER" or (one.kind == "ALTER" and " TRIGGER " in one.words):
            yield one.text + ";"
        elif one.kind == "TABLE":
            yield from self._table(one)
        elif one.kind == "INSERT":
            if not any(f"INTO {name} " in one.words for name in self._of("TABLE", self._old)):
                yield one.text + ";"
        elif one.kind in ("INDEX", "ALTER", "SEQUENCE", "TYPE", "DOMAIN"):
            if one.words not in self._old_words:
                yield one.text + ";"
        else:
            raise SystemExit(f"make sql: scripts/upgrade_sql.py knows nothing of {one.words[:60]}")

    def _table(self, one: Statement) -> Iterator[str]:
        old = self._of("TABLE", self._old).get(one.name)
        file = self._folder / "tables" / f"{one.name.removeprefix('dp.')}.sql"
        if old is None:
            yield one.text + ";"
        elif old.words != one.words:
            if not file.exists():
                raise SystemExit(f"make sql: {one.name} is not what it was in {self.before}: write {file}")
            yield f"-- tables/{file.name}\n{file.read_text(encoding='utf-8').strip()}"


# PUBLIC is 0 in an access list. What an administrator granted to other roles stays.
_CLOSE = """\
DO $$
DECLARE
  o record;
BEGIN
  FOR o IN
    SELECT CASE WHEN p.oid IS NULL THEN 'TABLE' ELSE 'ROUTINE' END AS kind,
           COALESCE(p.oid::regprocedure::text, c.oid::regclass::text) AS name,
           COALESCE(quote_ident(r.rolname), 'PUBLIC') AS grantee
    FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'pg_epsilon'
    LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
    LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind IN ('r', 'v')
    CROSS JOIN LATERAL (SELECT DISTINCT a.grantee FROM aclexplode(COALESCE(p.proacl, c.relacl)) a
                        WHERE a.grantee <> COALESCE(p.proowner, c.relowner)) a
    LEFT JOIN pg_roles r ON r.oid = a.grantee
    WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
      AND (a.grantee = 0 OR r.rolname = ANY ('{{{roles}}}'))
  LOOP
    EXECUTE format('REVOKE ALL ON %s %s FROM %s', o.kind, o.name, o.grantee);
  END LOOP;
END $$;"""


def script(root: Path, version: str, install: str) -> dict[str, str]:
    """File name → text of the scripts that lead to `version`, whose CREATE EXTENSION script is `install`."""
    made = {}
    for folder in sorted((root / "sql" / "upgrade").glob(f"*--{version}")):
        upgrade = Upgrade(folder, install)
        made[f"{NAME}--{upgrade.before}--{upgrade.after}.sql"] = upgrade.text()
    return made
