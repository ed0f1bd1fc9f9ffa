"""What `make sql` makes of two versions of the extension's script: nothing forgotten, nothing of a table by itself."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import upgrade_sql

OLD = """\\echo no
CREATE TABLE dp.kept (a int CHECK (a > 0), note text DEFAULT 'x;(');
INSERT INTO dp.kept VALUES (1);
CREATE INDEX kept_a ON dp.kept (a);
CREATE FUNCTION dp.same(a int) RETURNS int LANGUAGE sql AS $$ SELECT 1; $$;
CREATE FUNCTION dp.grown(a int) RETURNS int LANGUAGE sql AS $$ SELECT 1 $$;
CREATE FUNCTION dp.gone(a int DEFAULT 2, OUT b text) LANGUAGE sql AS $$ SELECT 'x' $$;
CREATE PROCEDURE dp.went() LANGUAGE sql AS $$ SELECT 1 $$;
CREATE VIEW dp.still AS SELECT dp.same(1);
CREATE VIEW dp.over AS SELECT dp.grown(1);
CREATE VIEW dp.over_it AS SELECT * FROM dp.over;
CREATE TRIGGER t BEFORE DELETE ON dp.kept FOR EACH STATEMENT EXECUTE FUNCTION dp.x();
CREATE EVENT TRIGGER e ON sql_drop EXECUTE FUNCTION dp.x();
GRANT SELECT ON dp.still TO dp_a, dp_b;
GRANT EXECUTE ON FUNCTION pg_catalog.pg_x() TO dp_a;
"""
NEW = (
    OLD.replace("dp.grown(a int) RETURNS", "dp.grown(a int, b int) RETURNS")
    .replace("CREATE FUNCTION dp.gone", "-- CREATE FUNCTION dp.gone")
    .replace("CREATE PROCEDURE dp.went", "-- CREATE PROCEDURE dp.went")
    .replace("CREATE INDEX kept_a ON dp.kept (a)", "CREATE INDEX kept_note ON dp.kept (note)")
    .replace("GRANT EXECUTE", "-- GRANT EXECUTE")
    + "CREATE TABLE dp.added (a int); INSERT INTO dp.added VALUES (2);"
)


def upgraded(tmp_path: Path, new: str, **fragments: str) -> str:
    folder = tmp_path / "sql/upgrade/1.0.0--2.0.0"
    (folder / "tables").mkdir(parents=True)
    (folder / "pg_epsilon--1.0.0.sql.gz").write_bytes(gzip.compress(OLD.encode()))
    for name, text in fragments.items():
        (folder / "tables" / f"{name}.sql").write_text(text)
    return upgrade_sql.script(tmp_path, "2.0.0", new)["pg_epsilon--1.0.0--2.0.0.sql"]


def lines(script: str) -> list[str]:
    return [line for line in script.splitlines() if line.startswith(("CREATE", "DROP", "INSERT", "ALTER"))]


def test_what_changed_is_made_anew_and_what_is_gone_is_dropped(tmp_path: Path) -> None:
    script = upgraded(tmp_path, NEW)
    assert lines(script) == [
        "DROP EVENT TRIGGER e;",
        "DROP TRIGGER t ON dp.kept;",
        "DROP VIEW dp.over_it;",
        "DROP VIEW dp.over;",
        "DROP FUNCTION dp.grown(a int);",
        "DROP FUNCTION dp.gone(a int, OUT b text);",
        "DROP PROCEDURE dp.went();",
        "DROP INDEX dp.kept_a;",
        "CREATE INDEX kept_note ON dp.kept (note);",
        "CREATE OR REPLACE FUNCTION dp.same(a int) RETURNS int LANGUAGE sql AS $$ SELECT 1; $$;",
        "CREATE FUNCTION dp.grown(a int, b int) RETURNS int LANGUAGE sql AS $$ SELECT 1 $$;",
        "CREATE OR REPLACE VIEW dp.still AS SELECT dp.same(1);",
        "CREATE VIEW dp.over AS SELECT dp.grown(1);",
        "CREATE VIEW dp.over_it AS SELECT * FROM dp.over;",
        "CREATE TRIGGER t BEFORE DELETE ON dp.kept FOR EACH STATEMENT EXECUTE FUNCTION dp.x();",
        "CREATE TABLE dp.added (a int);",
        "INSERT INTO dp.added VALUES (2);",
        "CREATE EVENT TRIGGER e ON sql_drop EXECUTE FUNCTION dp.x();",
    ]
    assert "REVOKE EXECUTE ON FUNCTION pg_catalog.pg_x() FROM dp_a;" in script
    assert "'{dp_a,dp_b}'" in script


def test_a_changed_table_needs_its_fragment(tmp_path: Path) -> None:
    new = NEW.replace("(a int CHECK (a > 0),", "(a int,")
    with pytest.raises(SystemExit, match=r"dp\.kept is not what it was in 1\.0\.0: write .*tables/kept\.sql"):
        upgraded(tmp_path, new)


def test_a_fragment_stands_where_its_table_does(tmp_path: Path) -> None:
    new = NEW.replace("(a int CHECK (a > 0),", "(a int,")
    script = upgraded(tmp_path, new, kept="ALTER TABLE dp.kept DROP CONSTRAINT kept_a_check;")
    made = lines(script)
    assert made.index("ALTER TABLE dp.kept DROP CONSTRAINT kept_a_check;") < made.index(
        "CREATE INDEX kept_note ON dp.kept (note);"
    )


def test_a_table_is_never_dropped_by_itself(tmp_path: Path) -> None:
    new = NEW.replace("CREATE TABLE dp.kept", "-- CREATE TABLE dp.kept").replace("INSERT INTO dp.kept", "-- INSERT")
    with pytest.raises(SystemExit, match=r"dp\.kept is gone: DROP TABLE dp\.kept;"):
        upgraded(tmp_path, new)
