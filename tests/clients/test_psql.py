"""psql through the proxy: what people type, on real rows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from shapes import margin, truth

from clients import shapes
from fix_cluster import PASSWORD
from fix_stack import Stack
from fix_waiting import PATIENCE

pytestmark = pytest.mark.chance(shapes.CHANCE)


def psql(stack: Stack, script: str, *options: str, user: str = "alice") -> subprocess.CompletedProcess[str]:
    """Run a script; errors do not end it unless an option says so."""
    words = [str(stack.cluster.paths.bindir / "psql"), "-X", "-d", stack.dsn(user), *options]
    return subprocess.run(words, input=script, capture_output=True, text=True, timeout=PATIENCE)


def lines(stack: Stack, script: str, *options: str) -> list[str]:
    """Rows without decoration; nothing may be said on stderr but our notices."""
    done = psql(stack, script, "-qAt", *options)
    assert all(line.startswith("NOTICE:  dp: ") for line in done.stderr.splitlines()), done.stderr
    return done.stdout.splitlines()


def test_a_count_and_its_notice(stack: Stack) -> None:
    done = psql(stack, "SELECT count(*) FROM people;\n", "-qAt")
    assert abs(int(done.stdout) - truth(stack, "SELECT count(*) FROM people")[0][0]) <= margin(0.1)
    assert re.match(r"NOTICE:  dp: .*epsilon 0\.1 charged.*±\d+", done.stderr)
    again = psql(stack, "SELECT count(*) FROM people;\n", "-qAt")
    assert again.stdout == done.stdout
    assert "charged" not in again.stderr.replace("nothing charged", "")


def test_notices_can_be_turned_off(stack: Stack) -> None:
    assert psql(stack, "SET dp.notices = off;\nSELECT count(*) FROM people;\n", "-qAt").stderr == ""


def test_the_table_that_people_see(stack: Stack) -> None:
    shown = psql(stack, "SELECT sex, count(*) AS n FROM people GROUP BY sex ORDER BY sex;\n").stdout
    assert shown.splitlines()[0].split() == ["sex", "|", "n"]
    assert shown.splitlines()[-2] == "(3 rows)" or "(3 rows)" in shown


@pytest.mark.parametrize(
    "command, words",
    [
        (r"\d", ["people", "customers", "orders", "items"]),
        (r"\d people", ["age", "integer", "people_pkey", "numeric(10,2)"]),
        (r"\d+ people", ["age", "plain"]),
        (r"\d orders", ["Foreign-key constraints:", "customers(id)"]),
        (r"\dt", ["people"]),
        (r"\dt public.*", ["people"]),
        (r"\di", ["people_pkey"]),
        (r"\d dp.*", ["budget", "spending", "your_epsilon_left"]),
        (r"\df dp.dp_count", ["dp_count", "bigint"]),
        (r"\dn", ["public"]),
        (r"\du", ["alice"]),
        (r"\dT", []),
        (r"\dx", ["plpgsql"]),
        (r"\l", ["facade"]),
        (r"\dp people", ["people"]),
        (r"\sf dp.dp_count_result", []),
        (r"\conninfo", ["alice"]),
        (r"\encoding", ["UTF8"]),
    ],
)
def test_what_psql_describes(stack: Stack, command: str, words: list[str]) -> None:
    done = psql(stack, command + "\n")
    assert done.stderr == ""
    assert all(word in done.stdout for word in words), done.stdout


def test_gdesc_charges_nothing(stack: Stack) -> None:
    before = truth(stack, "SELECT count(*) FROM dp.ledger")
    done = psql(
        stack,
        "SELECT city, count(*) AS n, count(*) / 2.0 AS half FROM people WHERE age > 66 GROUP BY city \\gdesc\n",
        "-qAt",
    )
    assert done.stdout.splitlines() == ["city|text", "n|bigint", "half|numeric"]
    assert truth(stack, "SELECT count(*) FROM dp.ledger") == before


def test_variables_gset_and_if(stack: Stack) -> None:
    script = """\\set low 30
\\set letter 'f'
SELECT count(*) AS n FROM people WHERE age > :low AND sex = :'letter' \\gset
\\echo :n
SELECT :n = (SELECT count(*) FROM people WHERE age > 30 AND sex = 'f') AS same \\gset
\\if :same
\\echo same
\\endif
SELECT count(*) FROM :"TABLE" \\g
"""
    done = psql(stack, script, "-qAt", "-v", "TABLE=people")
    shown = done.stdout.splitlines()
    assert len(shown) == 3 and shown[0].lstrip("-").isdigit() and shown[1] == "same"


def test_gexec_crosstabview_and_expanded(stack: Stack) -> None:
    shown = lines(
        stack, "SELECT format('SELECT count(*) FROM people WHERE sex = %L', s) FROM unnest('{f,m}'::text[]) s \\gexec\n"
    )
    assert len(shown) == 2 and all(line.lstrip("-").isdigit() for line in shown)
    table = psql(stack, "SELECT sex, city, count(*) FROM people GROUP BY sex, city ORDER BY 1, 2 \\crosstabview\n")
    assert table.stdout.splitlines()[0].split("|")[0].strip() == "sex" and "north" in table.stdout
    assert "-[ RECORD 1 ]" in psql(stack, "\\x\nSELECT sex, count(*) FROM people GROUP BY sex;\n").stdout


def test_copy_to_a_file(stack: Stack, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    done = psql(
        stack, f"\\copy (SELECT city, count(*) AS n FROM people GROUP BY city ORDER BY city) TO '{target}' CSV HEADER\n"
    )
    assert done.stdout == "COPY 4\n"
    content = target.read_text().splitlines()
    assert content[0] == "city,n" and [line.split(",")[0] for line in content[1:]] == ["east", "north", "south", ""]
    refused = psql(stack, f"\\copy people TO '{target}'\n")
    assert "rows of people are private" in refused.stderr
    assert target.read_text() == "" or target.read_text().splitlines() == content


def test_copy_from_a_file_to_a_temporary_table(stack: Stack, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("1,x\n2,y\n")
    script = f"CREATE TEMP TABLE mine (a int, b text);\n\\copy mine FROM '{source}' CSV\nSELECT sum(a) FROM mine;\n"
    assert lines(stack, script)[-1] == "3"


def test_watch_repeats_one_answer(stack: Stack) -> None:
    """A count is bought once; psql repeats it until the statement fails or psql is stopped."""
    before = truth(stack, "SELECT count(*) FROM dp.ledger")[0][0]
    script = "SELECT count(*) FROM people WHERE age > 67 AND 3 / (age - 37) <> 0 \\watch 0.05\n"
    refused = psql(stack, "\\set VERBOSITY verbose\n" + script, "-qAt").stderr
    assert refused.count("DP003") == 1
    words = [str(stack.cluster.paths.bindir / "psql"), "-X", "-qAt", "-d", stack.dsn()]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        assert running.stdin is not None and running.stdout is not None
        running.stdin.write("SELECT count(*) FROM people WHERE age > 67 \\watch 0.05\n")
        running.stdin.flush()
        shown: list[str] = []
        while len([line for line in shown if re.fullmatch(r"-?\d+", line)]) < 3:
            shown.append(running.stdout.readline().strip())
        running.kill()
    assert len({line for line in shown if re.fullmatch(r"-?\d+", line)}) == 1
    assert truth(stack, "SELECT count(*) FROM dp.ledger")[0][0] == before + 1


def test_verbose_errors(stack: Stack) -> None:
    script = (
        "\\set VERBOSITY verbose\nSELECT * FROM people;\n"
        "SELECT count(*) FROM people WHERE wage > 1;\nDELETE FROM people;\n"
    )
    heard = psql(stack, script).stderr
    assert "ERROR:  DP002: rows of people are private" in heard
    assert "HINT:  Ask for aggregates" in heard
    assert "ERROR:  42703:" in heard and "LINE 1: SELECT count(*) FROM people WHERE wage > 1;" in heard
    assert "ERROR:  42501:" in heard
    assert "LOCATION" not in heard.split("42703")[0].split("DP002")[0]


def test_on_error_rollback(stack: Stack) -> None:
    script = """\\set ON_ERROR_ROLLBACK on
BEGIN;
CREATE TEMP TABLE kept AS SELECT sex, count(*) FROM people GROUP BY sex;
SELECT * FROM people;
SELECT count(*) FROM kept;
COMMIT;
SELECT count(*) FROM kept;
"""
    done = psql(stack, script, "-qAt")
    assert done.stdout.splitlines() == ["3", "3"]
    assert "rows of people are private" in done.stderr


def test_single_transaction_with_on_error_stop(stack: Stack) -> None:
    script = "CREATE TEMP TABLE kept AS SELECT count(*) FROM people;\nSELECT * FROM people;\nSELECT 'not reached';\n"
    done = psql(stack, script, "-qAt", "-1", "-v", "ON_ERROR_STOP=1")
    assert done.returncode == 3
    assert "not reached" not in done.stdout
    fine = psql(
        stack, "SELECT count(*) FROM people;\nSELECT count(*) FROM people;\n", "-qAt", "-1", "-v", "ON_ERROR_STOP=1"
    )
    assert fine.returncode == 0 and len(set(fine.stdout.splitlines())) == 1


def test_one_message_with_several_statements(stack: Stack) -> None:
    done = psql(stack, "", "-qAt", "-c", "BEGIN; SELECT count(*) FROM people; SELECT count(*) FROM people; COMMIT")
    assert len(done.stdout.splitlines()) == 2 and len(set(done.stdout.splitlines())) == 1
    refused = psql(stack, "", "-qAt", "-c", "CREATE TEMP TABLE t (a int); SELECT count(*) FROM people WHERE age > 68")
    assert "Send it alone" in refused.stderr


def test_bind_and_parse_of_psql_are_not_needed_for_cursors(stack: Stack) -> None:
    script = """\\set FETCH_COUNT 2
SELECT sex, city, count(*) FROM people GROUP BY 1, 2 ORDER BY 1, 2;
\\unset FETCH_COUNT
BEGIN;
DECLARE c CURSOR FOR SELECT sex, count(*) FROM people GROUP BY sex ORDER BY sex;
FETCH 2 FROM c;
MOVE 1 FROM c;
FETCH 1 FROM c;
CLOSE c;
COMMIT;
"""
    shown = lines(stack, script)
    assert len(shown) == 14 and [line.split("|")[0] for line in shown[12:]] == ["f", "m"]


def test_explain_and_budget(stack: Stack) -> None:
    before = truth(stack, "SELECT count(*) FROM dp.ledger")
    shown = "\n".join(lines(stack, "EXPLAIN SELECT city, count(*) FROM people WHERE age > 69 GROUP BY city;\n"))
    assert "dp_group_by" in shown and "epsilon 0.1" in shown and "Scan" not in shown
    budget = psql(stack, "SELECT dataset, your_epsilon_left FROM dp.budget;\nTABLE dp.spending;\n", "-qAt").stdout
    assert "people|" in budget
    assert truth(stack, "SELECT count(*) FROM dp.ledger") == before


def test_wrong_password_and_unknown_role(stack: Stack) -> None:
    words = [str(stack.cluster.paths.bindir / "psql"), "-X", "-c", "SELECT 1", "-d"]
    wrong = subprocess.run(
        [*words, stack.dsn(password="wrong " + PASSWORD)], capture_output=True, text=True, timeout=PATIENCE
    )
    nobody = subprocess.run([*words, stack.dsn("nobody")], capture_output=True, text=True, timeout=PATIENCE)
    assert wrong.returncode == nobody.returncode == 2
    assert "password authentication failed" in wrong.stderr and "password authentication failed" in nobody.stderr
