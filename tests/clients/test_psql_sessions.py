"""psql through the proxy as people use it: completion by tab, files, variables, prepared statements, Ctrl-C, TLS."""

from __future__ import annotations

import itertools
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import fix_drivers
from fix_drivers import NEAR, DriversStack
from fix_waiting import PATIENCE, SLEEPING, backends, soon

pytestmark = pytest.mark.chance(fix_drivers.CHANCE)

COUNT = "SELECT count(*) FROM samples WHERE whole > 250"
BY_CODE = "SELECT code, count(*) AS n FROM samples GROUP BY code ORDER BY code"


def words(stack: DriversStack, *options: str, **facts: object) -> list[str]:
    return [str(stack.cluster.paths.bindir / "psql"), "-X", "-d", stack.dsn(**facts), *options]  # type: ignore[arg-type]


def psql(stack: DriversStack, script: str, *options: str, **facts: object) -> subprocess.CompletedProcess[str]:
    """Run a script in a session that the recorder hears; errors do not end it."""
    facts = {"port": stack.recorded("psql"), "options": "-c dp.notices=off", **facts}
    return subprocess.run(
        words(stack, *options, **facts), input=script, capture_output=True, text=True, timeout=PATIENCE
    )


def shown(stack: DriversStack, script: str, *options: str) -> list[str]:
    """Rows without decoration, of a script that nothing is wrong with."""
    done = psql(stack, script, "-qAt", *options)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def version(drivers_stack: DriversStack) -> int:
    return int(re.findall(r"\d+", psql(drivers_stack, "\\echo :VERSION_NUM\n").stdout)[0]) // 10000


@pytest.fixture(scope="module")
def counted(drivers_stack: DriversStack) -> str:
    """The answer to COUNT."""
    (answer,) = shown(drivers_stack, f"{COUNT};\n")
    assert abs(int(answer) - drivers_stack.exact(COUNT)) <= NEAR
    return answer


class Terminal:
    """psql on a terminal of its own, typed at; what it shows, without bells and cursor movements."""

    def __init__(self, command: list[str]) -> None:
        environment = {"TERM": "dumb", "INPUTRC": "/dev/null", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
        self.fd, other = pty.openpty()
        # setsid: Ctrl-C is a signal only to whom the terminal belongs
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command], stdin=other, stdout=other, stderr=other, env=environment
        )
        os.close(other)
        self.screen = ""
        self.numbers = itertools.count(1)

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def wait(self, *wanted: str, since: int = 0, seconds: float = PATIENCE) -> str:
        end = time.monotonic() + seconds
        while not all(word in self.screen[since:] for word in wanted):
            assert time.monotonic() < end, (wanted, self.screen[since:])
            if select.select([self.fd], [], [], 0.1)[0]:
                self.screen += re.sub(r"\x1b\[[\d;?]*\w|[\a\b\r]", "", os.read(self.fd, 65536).decode(errors="replace"))
        return self.screen[since:]

    def settle(self) -> int:
        """Drop the line that was typed, and see the session answer; the place from where to read on."""
        number = next(self.numbers)
        since = len(self.screen)
        self.type(f"\x15\nSELECT {number} * 10000 + 4711;\n")
        self.wait(str(number * 10000 + 4711), since=since)
        return len(self.screen)

    def close(self) -> None:
        self.type("\\q\n")
        self.process.wait(PATIENCE)
        os.close(self.fd)


@pytest.fixture(scope="module")
def terminal(drivers_stack: DriversStack) -> Iterator[Terminal]:
    running = Terminal(words(drivers_stack, "-P", "pager=off", port=drivers_stack.recorded("psql")))
    running.settle()
    yield running
    running.close()


@pytest.mark.parametrize(
    "typed, wanted",
    [
        ("SELECT count(*) FROM peo", ["people"]),
        ("SELECT count(*) FROM sam", ["samples"]),
        (r"\d cus", ["customers"]),
        (r"\d dp.bud", ["dp.budget"]),
        (r"\d people_p", ["people_pkey"]),
        (r"\df dp.dp_cou", ["dp.dp_count"]),
        (r"\sf dp.dp_cou", ["dp.dp_count"]),
        (r"\du ali", ["alice"]),
        (r"\dn publ", ["public"]),
        (r"\dT tsq", ["tsquery"]),
        (r"\copy sam", ["samples"]),
        ("COPY sam", ["samples"]),
        ("UPDATE people SET inc", ["income"]),
        ("SHOW timez", ["timezone"]),
        ("SET search_p", ["search_path"]),
        ("ALTER TABLE people ALTER COLUMN jo", ["joined"]),
        ("GRANT SELECT ON samples TO ali", ["alice"]),
        ("DROP TABLE cus", ["customers"]),
        ("SELECT * FROM dp.\t", ["dp.budget", "dp.spending", "dp.published"]),
        (r"\connect fac", ["facade"]),
    ],
)
def test_completion_by_tab(terminal: Terminal, typed: str, wanted: list[str]) -> None:
    since = terminal.settle()
    terminal.type(typed + "\t")
    terminal.wait(*wanted, since=since)


def test_completion_in_a_transaction_leaves_it_alone(terminal: Terminal) -> None:
    terminal.settle()
    terminal.type("BEGIN;\n")
    since = terminal.settle()
    terminal.type("SELECT count(*) FROM sam\t")
    terminal.wait("samples", since=since)
    since = terminal.settle()
    terminal.type("COMMIT;\n")
    assert "ROLLBACK" not in terminal.wait("COMMIT\n", since=since)


def asleep(stack: DriversStack) -> bool:
    with stack.cluster.connect() as root:
        return soon(lambda: backends(root, SLEEPING))


def test_ctrl_c_ends_the_statement_and_not_the_session(drivers_stack: DriversStack, terminal: Terminal) -> None:
    since = terminal.settle()
    terminal.type("SELECT pg_sleep(600);\n")
    assert asleep(drivers_stack)
    terminal.type("\x03")
    terminal.wait("canceling statement due to user request", since=since)
    terminal.settle()


def test_interrupt_of_a_script(drivers_stack: DriversStack) -> None:
    with subprocess.Popen(
        words(drivers_stack, "-c", "SELECT pg_sleep(600)"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert asleep(drivers_stack)
        running.send_signal(signal.SIGINT)
        assert "canceling statement due to user request" in running.communicate(timeout=PATIENCE)[1]


def test_gdesc(drivers_stack: DriversStack) -> None:
    described = shown(
        drivers_stack,
        "SELECT yes, code, day, exact, count(*), count(*) * 1.5 AS half FROM samples GROUP BY 1, 2, 3, 4 \\gdesc\n"
        "SELECT 1 AS one, now() \\gdesc\nSET dp.epsilon = 1 \\gdesc\n",
    )
    expected = (
        "yes|boolean code|character-varying(10) day|date exact|numeric(12,3) count|bigint half|numeric one|integer"
    )
    assert described[:7] == [line.replace("-", " ") for line in expected.split()]
    assert described[7] == "now|timestamp with time zone" and "no result" in described[8]


def test_gdesc_describes_a_private_row_which_stays_refused(drivers_stack: DriversStack) -> None:
    """Names and types of columns are public; the row is not."""
    done = psql(
        drivers_stack,
        "SELECT word FROM samples \\gdesc\nSELECT word FROM samples;\n\\echo :LAST_ERROR_SQLSTATE\n",
        "-qAt",
    )
    assert done.stdout == "word|text\nDP002\n" and "HINT:  Ask for aggregates" in done.stderr


def test_results_in_files_programs_and_variables(drivers_stack: DriversStack, tmp_path: Path, counted: str) -> None:
    file, other = tmp_path / "g.txt", tmp_path / "o.txt"
    done = shown(
        drivers_stack,
        f"{COUNT} \\g '{file}'\n{COUNT} \\g | sed s/^/piped:/\n{COUNT} \\gx\n"
        f"\\o '{other}'\n{COUNT};\n\\qecho written\n\\o\n"
        f"{COUNT} AND true \\gset pre_\n\\echo :pre_count :ROW_COUNT :ERROR\n"
        f"SELECT 'COUNT' AS c, :pre_count AS n \\gset\n\\echo :c :'n' :\"c\"\n",
    )
    assert file.read_text() == f"{counted}\n" and other.read_text() == f"{counted}\nwritten\n"
    assert f"piped:{counted}" in done and f"count|{counted}" in done
    assert done[-1] == f"COUNT '{done[-2].split()[0]}' \"COUNT\"" and done[-2].split()[1:] == ["1", "false"]


def test_gexec_and_crosstabview(drivers_stack: DriversStack, counted: str) -> None:
    script = "SELECT format('SELECT count(*) FROM samples WHERE whole > %s', 250) FROM generate_series(1, 2) \\gexec\n"
    assert shown(drivers_stack, script) == [counted, counted]
    table = psql(
        drivers_stack, "SELECT yes, code, count(*) FROM samples GROUP BY 1, 2 \\crosstabview yes code count\n"
    ).stdout.splitlines()
    assert [cell.strip() for cell in table[0].split("|")] == ["yes", *(f"c{i}" for i in range(10))]
    assert sorted(line.split("|")[0].strip() for line in table[2:4]) == ["f", "t"]


def test_copy_to_a_file(drivers_stack: DriversStack, tmp_path: Path) -> None:
    rows = shown(drivers_stack, f"{BY_CODE};\n")
    file = tmp_path / "out"
    for options, first, separator in (("CSV HEADER", 1, ","), ("", 0, "\t"), ("(FORMAT text, DELIMITER ';')", 0, ";")):
        assert shown(drivers_stack, f"\\copy ({BY_CODE}) TO '{file}' {options}\n") == []
        assert [line.replace(separator, "|") for line in file.read_text().splitlines()[first:]] == rows
    assert shown(drivers_stack, f"\\copy ({BY_CODE}) TO '{file}' (FORMAT binary)\n") == []
    assert file.read_bytes().startswith(b"PGCOPY\n\xff\r\n\0")
    piped = shown(drivers_stack, f"\\copy ({BY_CODE}) TO PROGRAM 'sed s/^/p:/' CSV\n\\copy ({BY_CODE}) TO pstdout\n")
    assert piped[:10] == ["p:" + row.replace("|", ",") for row in rows] and piped[10] == rows[0].replace("|", "\t")


def test_copy_of_rows_is_refused(drivers_stack: DriversStack, tmp_path: Path) -> None:
    for what in ("samples", "(SELECT * FROM samples)", "samples (word)"):
        done = psql(drivers_stack, f"\\set VERBOSITY verbose\n\\copy {what} TO '{tmp_path / 'rows'}'\n")
        assert "ERROR:  DP002: rows of samples are private" in done.stderr and "HINT:" in done.stderr
    done = psql(drivers_stack, f"\\set VERBOSITY verbose\n\\copy samples FROM '{os.devnull}'\n")
    assert "ERROR:  42501:" in done.stderr and "HINT:" in done.stderr


def test_parameters(drivers_stack: DriversStack, version: int, counted: str) -> None:
    """\\bind since psql 16; PREPARE and EXECUTE in any."""
    by_sql = "PREPARE more (int) AS SELECT count(*) FROM samples WHERE whole > $1;\nEXECUTE more (250);\n"
    assert shown(drivers_stack, by_sql + "EXECUTE more (200 + 50);\nDEALLOCATE more;\n") == [counted, counted]
    done = psql(drivers_stack, "SELECT count(*) FROM samples WHERE whole > $1 \\bind 250 \\g\n", "-qAt")
    if version >= 16:
        assert done.stdout == f"{counted}\n"
    else:
        assert "invalid command \\bind" in done.stderr
    named = "SELECT count(*) FROM samples WHERE whole > $1 \\parse kept\n\\bind_named kept 250 \\g\n"
    done = psql(drivers_stack, named, "-qAt")
    if version >= 18:
        assert done.stdout == f"{counted}\n"
    else:
        assert "invalid command \\parse" in done.stderr


@pytest.mark.parametrize("size", [1, 3, 10, 100])
def test_fetch_count(drivers_stack: DriversStack, size: int) -> None:
    plain = shown(drivers_stack, f"{BY_CODE};\n")
    assert shown(drivers_stack, f"\\set FETCH_COUNT {size}\n{BY_CODE};\n") == plain and len(plain) == 10


def test_errors_can_be_looked_at(drivers_stack: DriversStack) -> None:
    script = """SELECT word FROM samples;
\\errverbose
\\echo :ERROR :SQLSTATE :LAST_ERROR_SQLSTATE :LAST_ERROR_MESSAGE
SELECT count(*) FROM samples WHERE 1 / (whole - 3) > 0;
\\errverbose
SELECT count(*) FROM samples WHERE nothing > 0;
\\errverbose
"""
    done = psql(drivers_stack, script, "-qAt")
    assert done.stdout == "true DP002 DP002 rows of samples are private\n"
    assert done.stderr.count("ERROR:  DP002: rows of samples are private") == 1
    assert done.stderr.count("ERROR:  DP003:") == 1 and done.stderr.count("ERROR:  42703:") == 1
    assert done.stderr.count("LINE 1: SELECT count(*) FROM samples WHERE nothing > 0;") == 2


def test_on_error_rollback(drivers_stack: DriversStack, counted: str) -> None:
    script = f"""\\set ON_ERROR_ROLLBACK on
BEGIN;
CREATE TEMP TABLE kept AS {COUNT};
SELECT word FROM samples;
SELECT count(*) FROM samples WHERE nothing > 0;
SELECT * FROM kept;
COMMIT;
SELECT * FROM kept;
"""
    done = psql(drivers_stack, script, "-qAt")
    assert done.stdout.split() == [counted, counted] and done.stderr.count("ERROR:") == 2


def test_without_autocommit_an_error_ends_the_transaction(drivers_stack: DriversStack, counted: str) -> None:
    script = f"\\set AUTOCOMMIT off\n{COUNT};\nSELECT word FROM samples;\n{COUNT};\nROLLBACK;\n{COUNT};\n"
    done = psql(drivers_stack, script, "-qAt")
    assert done.stdout.split() == [counted, counted] and "current transaction is aborted" in done.stderr


def test_watch(drivers_stack: DriversStack, version: int, counted: str) -> None:
    if version >= 16:
        repeated = shown(drivers_stack, f"{COUNT} \\watch interval=0.05 count=3\n")
        assert [line for line in repeated if line == counted] == [counted] * 3
        return
    command = words(drivers_stack, "-qAt", options="-c dp.notices=off")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None and running.stdout is not None
        running.stdin.write(f"{COUNT} \\watch 0.05\n")
        running.stdin.flush()
        assert [line for line in itertools.islice(running.stdout, 6) if line.strip() == counted]
        running.kill()


def test_several_statements_in_one_line(drivers_stack: DriversStack, counted: str) -> None:
    assert shown(drivers_stack, f"{COUNT}\\; {COUNT}\\; SELECT 7;\n") == [counted, counted, "7"]
    done = psql(drivers_stack, f"SELECT 7\\; SELECT word FROM samples\\; {COUNT};\n", "-qAt")
    assert counted not in done.stdout and "rows of samples are private" in done.stderr


def test_another_user_by_connect(drivers_stack: DriversStack) -> None:
    facts = f"host=127.0.0.1 port={drivers_stack.port} dbname=private user=bob password='{drivers_stack.password}'"
    done = psql(drivers_stack, f'SELECT session_user;\n\\c "{facts}"\nSELECT session_user;\n{COUNT};\n', "-qAt")
    assert done.stdout.splitlines()[:2] == ["alice", "bob"]
    assert "DP001" in done.stderr or "ERROR" in done.stderr  # bob has no allotment of this dataset


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_tls_and_scram(drivers_stack: DriversStack, mode: str) -> None:
    facts = {"port": drivers_stack.port, "sslmode": mode, "sslrootcert": str(drivers_stack.certificate)}
    done = psql(drivers_stack, "\\conninfo\n", **facts)
    assert "TLSv1.3" in done.stdout and done.stderr == ""


def test_channel_binding_and_what_tls_refuses(drivers_stack: DriversStack) -> None:
    facts = {"port": drivers_stack.port, "sslmode": "require"}
    assert psql(drivers_stack, "SELECT 1\n", channel_binding="require", **facts).returncode == 0
    other = "/etc/ssl/certs/ca-certificates.crt"
    refused = psql(drivers_stack, "SELECT 1\n", **{**facts, "sslmode": "verify-full", "sslrootcert": other})
    assert refused.returncode == 2 and "certificate verify failed" in refused.stderr
    refused = psql(drivers_stack, "SELECT 1\n", **{**facts, "password": "wrong"})
    assert refused.returncode == 2 and 'password authentication failed for user "alice"' in refused.stderr
