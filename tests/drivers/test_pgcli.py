"""pgcli on a terminal, through the proxy: what a person types, and the catalog queries behind its completion."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from fix_cluster import ROOT
from fix_drivers import CHANCE, NEAR, DriversStack

pytestmark = pytest.mark.chance(CHANCE)

PROGRAM = ROOT / ".venv-drivers" / "pgcli" / "bin" / "pgcli"
PROMPT = "asking> "
SETTINGS = f"""
[main]
prompt = '{PROMPT}'
less_chatty = True
timing = True
destructive_warning = false
on_error = RESUME
keyring = False
use_local_timezone = False
enable_pager = False
log_file = /dev/null
"""
ESCAPE = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>])")
ENDED = r"Time: \d+\.\d+s"


class Pgcli:
    """A pgcli on a pseudo-terminal."""

    def __init__(self, stack: DriversStack, home: Path, host: str, port: int, **environment: str) -> None:
        home.mkdir(exist_ok=True)
        (home / "pgclirc").write_text(SETTINGS)
        facts = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "PGPASSWORD": stack.password, "TERM": "dumb"}
        words = ["--pgclirc", str(home / "pgclirc"), "-h", host, "-p", str(port), "-U", stack.user, "-d", stack.dbname]
        self.terminal: Any = pexpect.spawn(
            str(PROGRAM),
            words,
            env={**os.environ, **facts, **environment},
            encoding="utf-8",
            timeout=120,
            dimensions=(100, 160),
        )

    def ready(self) -> None:
        self.terminal.expect_exact(PROMPT)

    def ask(self, line: str) -> list[str]:
        """Lines that a command printed."""
        self.terminal.send(line + "\r")
        self.terminal.expect(ENDED)
        shown = ESCAPE.sub("", self.terminal.before).replace("\r\n", "\n").split("\n")
        self.ready()
        return [text.rstrip() for text in shown if text.strip()]

    def close(self) -> None:
        self.terminal.send("\x15\\q\r")
        self.terminal.expect(pexpect.EOF)
        self.terminal.close()


@pytest.fixture(scope="module")
def pgcli(drivers_stack: DriversStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pgcli]:
    port = drivers_stack.recorded("pgcli")
    program = Pgcli(drivers_stack, tmp_path_factory.mktemp("home"), "127.0.0.1", port, PGSSLMODE="disable")
    program.ready()
    yield program
    program.close()


def cells(lines: list[str]) -> list[list[str]]:
    """The rows of the table in what was printed, without its head."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return rows[1:]


def test_connects_over_verified_tls_with_scram(drivers_stack: DriversStack, tmp_path: Path) -> None:
    program = Pgcli(drivers_stack, tmp_path, "localhost", drivers_stack.port, PGSSLMODE="verify-full",
                    PGSSLROOTCERT=str(drivers_stack.certificate))  # fmt: skip
    program.ready()
    assert cells(program.ask("SELECT current_user;")) == [["alice"]]
    program.close()


def test_a_wrong_password_is_told(drivers_stack: DriversStack, tmp_path: Path) -> None:
    program = Pgcli(drivers_stack, tmp_path, "127.0.0.1", drivers_stack.port, PGPASSWORD="wrong")
    program.terminal.expect('password authentication failed for user "alice"|Password for alice')
    program.terminal.close(force=True)


def test_a_count(pgcli: Pgcli) -> None:
    lines = pgcli.ask("SELECT count(*) AS n FROM samples;")
    ((count,),) = cells(lines)
    assert abs(int(count) - 1000) <= NEAR
    assert "SELECT 1" in lines


def test_groups(pgcli: Pgcli) -> None:
    rows = cells(pgcli.ask("SELECT code, count(*) FROM samples GROUP BY code ORDER BY code;"))
    assert [row[0] for row in rows] == [f"c{i}" for i in range(10)]
    assert all(abs(int(row[1]) - 100) <= NEAR for row in rows)


def test_a_raw_read_is_refused_with_a_hint(pgcli: Pgcli) -> None:
    lines = pgcli.ask("SELECT * FROM people;")
    assert "rows of people are private" in lines
    assert any(line.startswith("HINT:") and "SELECT count(*) FROM people" in line for line in lines)
    assert any("LINE 1: SELECT * FROM people" in line for line in lines)


def test_errors_are_postgresqls(pgcli: Pgcli) -> None:
    assert any('syntax error at or near "SELEC"' in line for line in pgcli.ask("SELEC 1;"))
    assert any('column "nothing" does not exist' in line for line in pgcli.ask("SELECT nothing FROM people;"))
    assert cells(pgcli.ask("SELECT 1;")) == [["1"]]


COMMANDS = {
    r"\dt": ["public", "people", "customers", "orders", "items"],
    r"\dt public.*": ["people", "samples"],
    r"\d": ["people", "regions"],
    r"\d people": ["numeric(10,2)", "double precision", "people_pkey"],
    r"\d+ people": ["joined", "date"],
    r"\d orders": ["Foreign-key constraints", "customers(id)"],
    r"\d regions": ["label", "character varying(20)"],
    r"\di": ["people_pkey"],
    r"\dn": ["public"],
    r"\df dp.dp_count": ["dp_count", "bigint"],
    r"\du": ["alice"],
    r"\dT": [],
    r"\l": ["facade"],
    r"\dx": ["plpgsql"],
    r"\dv": [],
    r"\conninfo": ["alice"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(pgcli: Pgcli, command: str) -> None:
    text = "\n".join(pgcli.ask(command))
    assert "private" not in text.lower() or command == r"\conninfo" or command == r"\l", text
    for word in COMMANDS[command]:
        assert word in text, text
    assert "denied" not in text and "error" not in text.lower()


def test_a_transaction_with_a_cursor(pgcli: Pgcli) -> None:
    pgcli.ask("BEGIN;")
    pgcli.ask("DECLARE c CURSOR FOR SELECT age, count(*) FROM people GROUP BY age ORDER BY age;")
    assert [row[0] for row in cells(pgcli.ask("FETCH 2 FROM c;"))] == ["18", "19"]
    assert [row[0] for row in cells(pgcli.ask("FETCH 1 FROM c;"))] == ["20"]
    pgcli.ask("ROLLBACK;")
    assert cells(pgcli.ask("SELECT 7 AS n;")) == [["7"]]


def test_prepared_by_sql(pgcli: Pgcli) -> None:
    pgcli.ask("PREPARE below(int) AS SELECT count(*) FROM samples WHERE whole <= $1;")
    for top in (200, 400):
        ((count,),) = cells(pgcli.ask(f"EXECUTE below({top});"))
        assert abs(int(count) - top) <= NEAR
    pgcli.ask("DEALLOCATE below;")


def test_completion_knows_the_tables(drivers_stack: DriversStack, tmp_path: Path) -> None:
    """Also after a refresh, which asks the catalogs anew on a connection of its own. What Tab completed is then run."""
    port = drivers_stack.recorded("pgcli")
    screen = {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "PGSSLMODE": "disable"}
    program = Pgcli(drivers_stack, tmp_path, "127.0.0.1", port, **screen)
    terminal = program.terminal
    terminal.expect("asking")
    for start in ("SELECT count(*) FROM custo", "SELECT count(*) FROM peop"):
        for _ in range(60):  # the names come in the background
            terminal.send(start)
            time.sleep(0.3)
            terminal.send("\t")
            time.sleep(0.3)
            terminal.send(";\r")
            if terminal.expect([r"SELECT 1\r", "does not exist"]) == 0:
                break
        else:
            raise AssertionError(f"{start} was not completed")
        terminal.expect(ENDED)
        terminal.send("\\refresh\r")
        terminal.expect("refresh started in the background")
    terminal.send("\x04")
    terminal.expect(pexpect.EOF)
    terminal.close()
