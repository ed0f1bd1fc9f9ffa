"""`pg-epsilon ledger verify` and dp.check() find every alteration of the ledger (composition.md §12).

The controls: each alters one thing as a superuser can (triggers off), in a transaction that is rolled back, and must be
found at its link; the untouched ledger, and one whose question was redacted, must verify.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, private_cluster, standard
from fix_ledger import count, one, refused
from pg_epsilon.engine.chain import parse
from pg_epsilon.engine.verify import Difference, Verifier

Connection = psycopg.Connection[Any]
SECRET = "age > 71 AND sex = 'f'"
BENT = (
    "CREATE TABLE bent (id int PRIMARY KEY, day date); CALL dp.create_dataset('bent', epsilon => 1, delta => 1e-6,"
    " accountant => 'renyi'); CALL dp.protect('bent', 'bent', partition_by => 'day',"
    """ grid => '{"origin": "2024-01-01", "width": "7 days"}'); CALL dp.describe_column('bent', 'day');"""
    "CALL dp.publish('bent'); CALL dp.allot('alice', 'bent', epsilon => 1);"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Ten links of people, and a Rényi dataset with partitions."""
    with private_cluster() as running:
        standard(running)
        running.psql(BENT, user="boss")
        with running.connect("alice") as alice:
            for age in range(4):
                count(alice, predicate=f"age > 3{age}")
            one(alice, "SELECT dp.dp_count('people', %s, epsilon => 0.01)", SECRET)
            count(alice, table="bent", predicate="day = '2024-01-03'", epsilon=0.1)
            count(alice, table="bent", epsilon=0.1)
        yield running


def verify(conn: Connection) -> int:
    """How many links were verified. Raises Difference."""
    verifier = Verifier()
    for kind, content in conn.execute("SELECT kind, content::text FROM dp._ledger_records()"):
        verifier.feed(kind, parse(content))
    verifier.finish()
    return verifier.links


def problems(conn: Connection) -> list[str]:
    sql = "SELECT object || ': ' || problem FROM dp._problems() WHERE problem LIKE 'the chain:%'"
    return [row[0] for row in conn.execute(sql)]


@contextmanager
def altered(cluster: Cluster, *statements: str) -> Iterator[Connection]:
    """A superuser's transaction without triggers, undone."""
    with cluster.connect(autocommit=False) as root:
        root.execute("SET LOCAL session_replication_role = replica")
        for table in ("ledger", "release", "chain", "chain_head", "account"):
            root.execute(f"ALTER TABLE dp.{table} DISABLE TRIGGER ALL")
        for statement in statements:
            assert root.execute(statement.encode()).rowcount != 0, statement
        yield root
        root.rollback()


THIRD = "(SELECT request_id FROM dp.chain WHERE dataset = 'people' AND number = 3)"
FOURTH = "(SELECT request_id FROM dp.chain WHERE dataset = 'people' AND number = 4)"
COPY = (
    "INSERT INTO dp.ledger SELECT (jsonb_populate_record(l, jsonb_build_object('seq', 900000, 'request_id',"
    " gen_random_uuid()))).* FROM dp.ledger l WHERE request_id = " + THIRD
)
SWAP = (
    "UPDATE dp.chain SET number = 1000 + number WHERE dataset = 'people' AND number IN (3, 5)",
    "UPDATE dp.chain SET number = 1008 - number WHERE dataset = 'people' AND number > 1000",
)
ALTERATIONS: dict[str, tuple[tuple[str, ...], int | None, str]] = {
    "a text": (
        (f"""UPDATE dp.ledger SET request = request || '{{"where": "age > 99"}}' WHERE request_id = {THIRD}""",),
        3,
        "charge",
    ),
    "who": ((f"UPDATE dp.ledger SET who = 'bob' WHERE request_id = {THIRD}",), 3, "charge"),
    "a salt": ((f"UPDATE dp.ledger SET salt = gen_random_uuid() WHERE request_id = {THIRD}",), 3, "charge"),
    "a text and its salt": (
        (f"UPDATE dp.ledger SET request = NULL, salt = NULL WHERE request_id = {THIRD}",),
        3,
        "charge",
    ),
    "an amount": ((f"UPDATE dp.ledger SET epsilon = epsilon / 2 WHERE request_id = {THIRD}",), 3, "charge"),
    "a native amount": ((f"""UPDATE dp.ledger SET charge = '[]' WHERE request_id = {THIRD}""",), 3, "charge"),
    "a kind": ((f"UPDATE dp.ledger SET kind = 'import' WHERE request_id = {THIRD}",), 3, "charge"),
    "a scope": (
        (f"""UPDATE dp.ledger SET scope = '{{"node": "root"}}' WHERE request_id = {THIRD}""",),
        3,
        "charge",
    ),
    "a time": ((f"UPDATE dp.ledger SET at = at - interval '1 s' WHERE request_id = {THIRD}",), 3, "charge"),
    "an order": ((f"UPDATE dp.ledger SET seq = seq + 100000 WHERE request_id = {THIRD}",), 3, "charge"),
    "two links' order": (SWAP, 3, "charge"),
    "an answer": (
        (f"""UPDATE dp.release SET answer = '{{"raw": [[1]]}}' WHERE request_id = {FOURTH}""",),
        4,
        "release",
    ),
    "a question's answer": (
        (f"UPDATE dp.release SET cache_key = 'x' WHERE request_id = {FOURTH}",),
        4,
        "release",
    ),
    "a row is gone": (
        (f"DELETE FROM dp.release WHERE request_id = {THIRD}", f"DELETE FROM dp.ledger WHERE request_id = {THIRD}"),
        3,
        "charge",
    ),
    "a row and its link are gone": (
        (
            f"DELETE FROM dp.release WHERE request_id = {THIRD}",
            f"DELETE FROM dp.ledger WHERE request_id = {THIRD}",
            "DELETE FROM dp.chain WHERE dataset = 'people' AND number = 3",
        ),
        3,
        "release",
    ),
    "a release is gone": ((f"DELETE FROM dp.release WHERE request_id = {FOURTH}",), 4, "release"),
    "the last two links are gone": (
        (
            "DELETE FROM dp.release r USING dp.chain c, dp.chain_head h WHERE c.request_id = r.request_id"
            " AND c.dataset = 'people' AND h.dataset = c.dataset AND c.number = h.number",
            "DELETE FROM dp.ledger l USING dp.chain c, dp.chain_head h WHERE c.request_id = l.request_id"
            " AND c.dataset = 'people' AND h.dataset = c.dataset AND c.number = h.number",
            "DELETE FROM dp.chain c USING dp.chain_head h WHERE c.dataset = 'people' AND h.dataset = c.dataset"
            " AND c.number > h.number - 2",
        ),
        9,
        "head",
    ),
    "a row is put in": ((COPY,), None, "earlier rows"),
    "a link's hash": (("UPDATE dp.chain SET hash = hash || 'x' WHERE dataset = 'people' AND number = 3",), 3, "charge"),
    "totals of the head": (("UPDATE dp.chain_head SET epsilon = 0 WHERE dataset = 'people'",), 10, "head"),
    "an account": (
        ("UPDATE dp.account SET spent_epsilon = 0 WHERE dataset = 'people' AND spent_epsilon > 0",),
        None,
        "account",
    ),
}
# what only sums over the whole ledger show: dp.check() has a row of its own for accounts
NOT_IN_THE_TAIL = ("totals of the head", "an account")


@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_alteration_is_found_where_it_is(cluster: Cluster, name: str) -> None:
    statements, number, kind = ALTERATIONS[name]
    with altered(cluster, *statements) as root:
        with pytest.raises(Difference) as found:
            verify(root)
        assert (found.value.dataset, found.value.number, found.value.kind) == ("people", number, kind)
        assert bool(problems(root)) == (name not in NOT_IN_THE_TAIL)


def test_what_nobody_altered_verifies(cluster: Cluster) -> None:
    with cluster.connect() as root:
        assert verify(root) == one(root, "SELECT count(*) FROM dp.chain") >= 14
        assert problems(root) == []


def test_the_verdict_does_not_depend_on_the_session(cluster: Cluster) -> None:
    with cluster.connect() as root:
        root.execute("SET timezone = 'Asia/Tokyo'; SET datestyle = 'SQL, DMY'; SET extra_float_digits = -15")
        assert verify(root) >= 14
        assert problems(root) == []


def test_what_is_older_than_the_chain_is_one_link(cluster: Cluster) -> None:
    """As an upgrade leaves it: rows without links, then dp._chain_upgrade()."""
    old = ("DELETE FROM dp.chain", "DELETE FROM dp.chain_head", "SELECT dp._chain_upgrade()")
    with altered(cluster, *old) as root:
        assert verify(root) == 2, "one link for each of the two datasets with rows"
        assert problems(root) == []
        root.execute("SELECT dp._chain_upgrade()")
        assert verify(root) == 2, "once"
    with altered(cluster, *old, "UPDATE dp.ledger SET who = 'bob' WHERE seq = 2") as root:
        with pytest.raises(Difference) as found:
            verify(root)
        assert (found.value.dataset, found.value.number, found.value.kind) == ("people", 1, "upgrade")
    with altered(cluster, *old, COPY.replace(THIRD, "(SELECT min(request_id::text)::uuid FROM dp.release)")) as root:
        with pytest.raises(Difference):
            verify(root)
        assert problems(root)


def test_a_redacted_question_is_gone_and_its_link_verifies(cluster: Cluster) -> None:
    with cluster.connect() as root, cluster.connect("boss") as boss, cluster.connect("alice") as alice:
        where = "request ->> 'where' = %s"
        asked = one(root, f"SELECT request_id FROM dp.ledger WHERE {where}", SECRET)
        spent = one(root, "SELECT sum(spent_epsilon) FROM dp.account WHERE dataset = 'people' AND role = ''")
        with refused("42501", hint=False):
            alice.execute("CALL dp.redact(%s)", [asked])
        boss.execute("CALL dp.redact(%s)", [asked])
        for table in ("ledger", "release", "chain", "entitlement"):
            held = f"SELECT count(*) FROM dp.{table} t WHERE t::text LIKE '%%71%%' AND t::text LIKE '%%sex%%'"
            assert one(root, held) == 0
        assert one(root, "SELECT salt IS NULL AND request IS NULL FROM dp.ledger WHERE request_id = %s", asked)
        assert verify(root) >= 15
        assert problems(root) == []
        assert one(root, "SELECT sum(spent_epsilon) FROM dp.account WHERE dataset = 'people' AND role = ''") == spent
        with refused("DP005", "no charge"):
            boss.execute("CALL dp.redact(%s)", [asked])
        with refused("42501", "append-only"):
            root.execute("UPDATE dp.ledger SET who = 'bob' WHERE request_id = %s", [asked])
        with refused("42501", "append-only"):
            root.execute("UPDATE dp.ledger SET request = NULL, salt = NULL WHERE request_id <> %s", [asked])
        mine = "SELECT question FROM dp.spending WHERE request_id = %s"
        assert one(alice, mine, asked) is None
        one(alice, "SELECT dp.dp_count('people', %s, epsilon => 0.01)", SECRET)
        assert one(root, f"SELECT count(*) FROM dp.ledger WHERE {where}", SECRET) == 1, "asked again, paid again"
    for statement in ("UPDATE dp.ledger SET who = 'bob' WHERE request IS NULL AND kind = 'charge'",):
        with altered(cluster, statement) as root, pytest.raises(Difference, match="redact"):
            verify(root)


def cli(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    place = {"HOST": str(cluster.folder), "PORT": str(cluster.port), "DBNAME": "private"}
    env = {**os.environ, **{f"PG_EPSILON_PRIVATE_{name}": value for name, value in place.items()}}
    env["PYTHONPATH"] = os.pathsep.join(map(str, cluster.paths.source))
    words = [sys.executable, "-m", "pg_epsilon_proxy.cli", "ledger", "verify", *arguments]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=100)


def export(cluster: Cluster) -> list[str]:
    with cluster.connect("boss") as boss:
        return [row[0] for row in boss.execute("SELECT to_json(e)::text FROM dp.export_ledger() e")]


def test_the_command_verifies_a_live_ledger(cluster: Cluster) -> None:
    done = cli(cluster)
    assert (done.returncode, done.stderr) == (0, "")
    assert "verified: " in done.stdout
    forged = "ALTER TABLE dp.ledger {0} TRIGGER ALL; UPDATE dp.ledger SET epsilon = epsilon {1} 1 WHERE seq = 2"
    for change in (("DISABLE", "+"), ("ENABLE", "-")):
        statements = forged.format(*change).split("; ")
        cluster.execute(*(statements if change[0] == "DISABLE" else ["ALTER TABLE dp.ledger DISABLE TRIGGER ALL"]))
        if change[0] == "DISABLE":
            done = cli(cluster)
            assert done.returncode == 1
            assert done.stderr.startswith("dataset people, link 3 (charge): ")
        else:
            cluster.execute(statements[1], statements[0])
    assert cli(cluster).returncode == 0


def test_the_command_verifies_an_export(cluster: Cluster, tmp_path: Path) -> None:
    file, lines = tmp_path / "ledger.jsonl", export(cluster)

    def verdict(changed: list[str]) -> tuple[int, str]:
        file.write_text("\n".join(changed) + "\n")
        done = cli(cluster, "--export", str(file))
        return done.returncode, done.stderr

    assert verdict(lines) == (0, "")
    rows = [i for i, line in enumerate(lines) if json.loads(line)["kind"] == "ledger"]
    row = lines[rows[1]]
    changes = {
        "an amount": [*lines[: rows[1]], row.replace('"epsilon": 0.01', '"epsilon": 0.001'), *lines[rows[1] + 1 :]],
        "a text": [*lines[: rows[1]], row.replace("age > 3", "age > 4"), *lines[rows[1] + 1 :]],
        "gone": lines[: rows[1]] + lines[rows[1] + 2 :],
        "twice": lines[: rows[1] + 2] + lines[rows[1] : rows[1] + 2] + lines[rows[1] + 2 :],
        "an order": lines[: rows[1]] + lines[rows[2] : rows[2] + 2] + lines[rows[1] : rows[2]] + lines[rows[2] + 2 :],
        "cut off": lines[:-2],
        "no line": [*lines, "nothing"],
    }
    for name, changed in changes.items():
        assert changed != lines, name
        status, said = verdict(changed)
        assert (status, said.count("\n")) == (1, 1), name
        assert "dataset people" in said or name in ("no line", "cut off"), name
