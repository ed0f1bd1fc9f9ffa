"""dp.check() tries what answers need: where nothing can be answered it says so, and a question asked there is free.

Findings A6 and A7; composition.md §10.3 a and c.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

import fix_chance
from fix_cluster import CHANGED_PASSWORD, PRIVATE, Cluster, standard_cluster
from fix_ledger import count, no_charge, one, refused

NOTHING = "nothing can be answered: "


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        yield running


def broken(cluster: Cluster) -> list[tuple[str, str, str]]:
    """(object, problem, hint) of what dp.check() says of everything."""
    with cluster.connect("boss") as boss:
        rows = boss.execute("SELECT severity, object, problem, hint FROM dp.check()").fetchall()
    decoded = [tuple(v.decode() if isinstance(v, bytes) else v for v in row) for row in rows]
    found = [(o, p, h) for severity, o, p, h in decoded if p.startswith(NOTHING) and severity == "error"]
    return [(o, p.removeprefix(NOTHING), h) for o, p, h in found]


# --- what may be broken -------------------------------------------------------------------------------------------


def _by_sql(make: str, repair: str, dbname: str = PRIVATE) -> Callable[[Cluster], AbstractContextManager[None]]:
    @contextmanager
    def state(cluster: Cluster) -> Iterator[None]:
        cluster.execute(make, dbname=dbname)
        try:
            yield
        finally:
            cluster.execute(repair, dbname=dbname)

    return state


def _by_packages(lay: Callable[[Path, Path], tuple[Path, Path]]) -> Callable[[Cluster], AbstractContextManager[None]]:
    """A server started with another PYTHONPATH. lay: (empty folder, site-packages) -> (extension's, environment's)."""

    @contextmanager
    def state(cluster: Cluster) -> Iterator[None]:
        usual = cluster.paths
        folder = Path(tempfile.mkdtemp(prefix="pge-", dir="/tmp"))
        folder.chmod(0o755)
        real = Path(usual.server_pythonpath.split(":")[1])
        try:
            source, venv = lay(folder, real)
            cluster.stop("fast")
            cluster.paths = replace(usual, source=(source, usual.source[1]), venv=venv)
            cluster.start()
            yield
        finally:
            cluster.stop("fast")
            cluster.paths = usual
            cluster.start()
            shutil.rmtree(folder)

    return state


def _without(folder: Path, real: Path, *names: str) -> Path:
    """An environment of the same packages but for some."""
    site = folder / "venv" / real.relative_to(real.parents[2])
    site.mkdir(parents=True)
    for package in real.iterdir():
        if not package.name.startswith(names):
            (site / package.name).symlink_to(package)
    return site


def _nowhere(folder: Path, real: Path) -> tuple[Path, Path]:
    return folder / "gone", folder / "venv"


def _empty(folder: Path, real: Path) -> tuple[Path, Path]:
    return folder, real.parents[2]


def _extension(real: Path) -> Path:
    return Path(__file__).resolve().parents[2] / "extension"


def _no_parser(folder: Path, real: Path) -> tuple[Path, Path]:
    _without(folder, real, "pglast")
    return _readable(folder), folder / "venv"


def _no_numpy(folder: Path, real: Path) -> tuple[Path, Path]:
    _without(folder, real, "numpy")
    return _readable(folder), folder / "venv"


def _no_sampler(folder: Path, real: Path) -> tuple[Path, Path]:
    """OpenDP is there, and its library does not load."""
    site = _without(folder, real, "opendp")
    (site / "opendp").mkdir()
    (site / "opendp/__init__.py").write_text("raise OSError('libopendp.so: cannot open shared object file')\n")
    return _readable(folder), folder / "venv"


def _readable(folder: Path) -> Path:
    """A copy of the engine that the server's user can read wherever the checkout lies."""
    shutil.copytree(_extension(folder) / "pg_epsilon", folder / "extension/pg_epsilon")
    return folder / "extension"


@contextmanager
def _trusted(cluster: Cluster) -> Iterator[None]:
    """pg_hba.conf lets the channel in without a password."""
    hba = cluster.data / "pg_hba.conf"
    before = hba.read_text()

    def write(text: str) -> None:
        hba.write_text(text)
        cluster.pg_ctl("reload")
        with cluster.connect() as root:
            assert one(root, "SELECT count(*) FROM pg_hba_file_rules WHERE error IS NOT NULL") == 0

    write("host all +dp_channel 127.0.0.1/32 trust\n" + before)
    try:
        yield
    finally:
        write(before)


REPAIR = "CALL dp.repair_channel()"
# name: (make it, object, words of the problem, words of the hint)
STATES: dict[str, tuple[Callable[[Cluster], AbstractContextManager[None]], str, str, str]] = {
    "SQL_ASCII": (
        _by_sql(
            f"UPDATE pg_database SET encoding = 0 WHERE datname = '{PRIVATE}'",
            f"UPDATE pg_database SET encoding = 6 WHERE datname = '{PRIVATE}'",
            "postgres",
        ),
        "pg_epsilon",
        "encoding is SQL_ASCII",
        "ENCODING 'UTF8' TEMPLATE template0",
    ),
    "another version": (
        _by_sql(
            "CREATE TABLE public.was AS SELECT extversion FROM pg_extension WHERE extname = 'pg_epsilon';"
            "UPDATE pg_extension SET extversion = '0.0.1' WHERE extname = 'pg_epsilon'",
            "UPDATE pg_extension e SET extversion = w.extversion FROM public.was w WHERE extname = 'pg_epsilon';"
            "DROP TABLE public.was",
        ),
        "pg_epsilon",
        "the extension 0.0.1",
        "ALTER EXTENSION pg_epsilon UPDATE",
    ),
    "PYTHONPATH leads nowhere": (
        _by_packages(_nowhere),
        "PYTHONPATH",
        "does not exist",
        "restart it: PYTHONPATH = '/",
    ),
    "PYTHONPATH leads elsewhere": (
        _by_packages(_empty),
        "PYTHONPATH",
        "holds no package pg_epsilon",
        "PYTHONPATH = '/",
    ),
    "no parser": (_by_packages(_no_parser), "PYTHONPATH", "no package pglast", "PYTHONPATH = '/"),
    "no numpy": (_by_packages(_no_numpy), "packages", "Python lacks numpy", "installs the Python package"),
    "no sampler": (
        _by_packages(_no_sampler),
        "sampler",
        "no noise can be drawn: OSError",
        "installs the Python package",
    ),
    "no channel": (_by_sql("DROP SERVER dp_ledger CASCADE", REPAIR), "dp_ledger", "no ledger channel", REPAIR),
    "a channel to nowhere": (
        _by_sql("ALTER SERVER dp_ledger OPTIONS (SET port '1')", REPAIR),
        "dp_ledger",
        "SQLSTATE 08001",
        REPAIR,
    ),
    "a channel to another database": (
        _by_sql("ALTER SERVER dp_ledger OPTIONS (SET dbname 'postgres')", REPAIR),
        "dp_ledger",
        "does not open",
        REPAIR,
    ),
    "a changed password": (
        _by_sql(CHANGED_PASSWORD, REPAIR),
        "dp_ledger",
        "password authentication failed",
        REPAIR,
    ),
    "no password asked for": (_trusted, "dp_ledger", "SQLSTATE 2F003", "+dp_channel 127.0.0.1/32 scram-sha-256"),
}


def test_a_working_install_is_ready_and_trying_is_free(cluster: Cluster) -> None:
    """The control of all that follows."""
    with no_charge(cluster):
        assert broken(cluster) == []
    with cluster.connect("dp_gateway") as gateway:
        assert gateway.execute("SELECT * FROM dp.probe()").fetchall() == []


@pytest.mark.parametrize("name", STATES)
def test_what_is_broken_is_named_and_costs_nothing(cluster: Cluster, name: str) -> None:
    make, object_, problem, hint = STATES[name]
    with ExitStack() as stack:
        stack.enter_context(no_charge(cluster))
        stack.enter_context(make(cluster))
        found = broken(cluster)
        assert [o for o, *_ in found] == [object_], found
        assert problem in found[0][1]
        assert hint in found[0][2]
        for _ in range(2):
            with cluster.connect("alice") as alice, refused("DP006"):
                count(alice)
        with cluster.connect("dp_gateway") as gateway:
            assert len(gateway.execute("SELECT * FROM dp.probe()").fetchall()) == 1
    assert broken(cluster) == []
    with cluster.connect("alice") as alice:
        count(alice)


def test_a_channel_that_is_still_open_hides_nothing(cluster: Cluster) -> None:
    """A session that asked before the password changed goes on; dp.check() in it opens the channel anew."""
    with cluster.connect() as root:
        assert root.execute("SELECT * FROM dp.probe()").fetchall() == []
        try:
            root.execute(CHANGED_PASSWORD)
            assert [row[0] for row in root.execute("SELECT * FROM dp.probe()")] == ["dp_ledger"]
        finally:
            root.execute(REPAIR)
        assert root.execute("SELECT * FROM dp.probe()").fetchall() == []


@pytest.mark.parametrize("how", ["install script", "CREATE EXTENSION"])
def test_sql_ascii_is_refused_at_install(cluster: Cluster, how: str) -> None:
    cluster.execute("CREATE DATABASE bare TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'", dbname="postgres")
    try:
        if how == "install script":
            folder = cluster.paths.destdir / f"usr/share/postgresql/{cluster.paths.pg_version}/extension"
            with pytest.raises(RuntimeError, match="SQL_ASCII") as failed:
                cluster.psql((folder / "pg_epsilon_install.sql").read_text(), dbname="bare")
            assert "ENCODING 'UTF8' TEMPLATE template0" in str(failed.value)
        else:
            with cluster.connect(dbname="bare") as root, pytest.raises(psycopg.Error) as error:
                root.execute("CREATE EXTENSION pg_epsilon CASCADE")
            assert error.value.sqlstate == "DP006"
            assert "ENCODING 'UTF8' TEMPLATE template0" in (error.value.diag.message_hint or "")
    finally:
        cluster.execute("DROP DATABASE bare", dbname="postgres")


@pytest.mark.chance(fix_chance.laplace(2, 100, 3))
@pytest.mark.parametrize(("encoding", "word"), [("LATIN1", "café"), ("EUC_JP", "東京")])
def test_other_encodings_are_ready_and_answer(cluster: Cluster, encoding: str, word: str) -> None:
    """The control of SQL_ASCII: declared texts outside ASCII are found (500 rows; noise passes 100 once in e^50)."""
    cluster.execute(f"CREATE DATABASE other TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'", dbname="postgres")
    try:
        folder = cluster.paths.destdir / f"usr/share/postgresql/{cluster.paths.pg_version}/extension"
        cluster.psql((folder / "pg_epsilon_install.sql").read_text(), dbname="other")
        with cluster.connect(dbname="other", client_encoding="utf8") as root:
            root.execute('CREATE TABLE t (w text, "où" int)' if encoding == "LATIN1" else "CREATE TABLE t (w text)")
            root.execute("INSERT INTO t SELECT %s FROM generate_series(1, 500)", [word])
            for call in ("create_dataset('t', epsilon => 10)", "protect('t', 't')"):
                root.execute(f"CALL dp.{call}".encode())
            root.execute("CALL dp.describe_column('t', 'w', domain => ARRAY[%s, 'x'])", [word])
            if encoding == "LATIN1":
                root.execute("CALL dp.describe_column('t', 'où', bounds => '{0,9}')")
            for call in ("publish('t')", "allot('alice', 't', epsilon => 5)"):
                root.execute(f"CALL dp.{call}".encode())
            root.execute("GRANT CONNECT ON DATABASE other TO alice")
            assert root.execute("SELECT * FROM dp._attempts()").fetchall() == []
        with cluster.connect("alice", "other", client_encoding="utf8") as alice:
            found = alice.execute("SELECT key, value FROM dp.dp_group_by('t', '{w}', epsilon => 0.5)").fetchall()
            counts = {key["w"]: value["count(*)"] for key, value in found}
            assert counts.keys() == {word, "x", None}
            assert counts[word] > 400
            if encoding == "LATIN1":
                predicate = f"w = '{word}' AND \"où\" IS NULL"
                assert one(alice, "SELECT dp.dp_count('t', %s, epsilon => 0.5)", predicate) > 400
    finally:
        cluster.execute("DROP DATABASE IF EXISTS other WITH (FORCE)", dbname="postgres")
        cluster.execute(REPAIR)
    assert broken(cluster) == []


# --- triggers, time zones -----------------------------------------------------------------------------------------

TRIGGERS = """
SELECT 'dp.' || relname, tgname::text FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
WHERE relnamespace = 'dp'::regnamespace AND NOT tgisinternal
UNION ALL SELECT '', evtname FROM pg_event_trigger WHERE evtname LIKE 'dp\\_%' ORDER BY 1, 2
"""


def test_every_trigger_of_ours_is_looked_at(cluster: Cluster) -> None:
    with cluster.connect(autocommit=False) as root:
        triggers = root.execute(TRIGGERS).fetchall()
        assert len(triggers) >= 15
        for table, name in triggers:
            what = f"TABLE {table} DISABLE TRIGGER {name}" if table else f"EVENT TRIGGER {name} DISABLE"
            root.execute(f"ALTER {what}".encode())
        seen = root.execute("SELECT object, problem, hint FROM dp._trigger_problems()").fetchall()
        root.rollback()
        assert sorted((o, p) for o, p, _ in seen) == sorted(
            (table, f"its trigger {name} is disabled") if table else (name, "this event trigger is disabled")
            for table, name in triggers
        )
        for _, _, hint in seen:
            root.execute(hint.encode())
        root.rollback()
        assert root.execute("SELECT * FROM dp._trigger_problems()").fetchall() == []


def test_a_trigger_that_is_gone_or_a_replicas_is_named(cluster: Cluster) -> None:
    with cluster.connect(autocommit=False) as root:
        root.execute("ALTER EXTENSION pg_epsilon DROP EVENT TRIGGER dp_keep_ledger; DROP EVENT TRIGGER dp_keep_ledger")
        root.execute("DROP TRIGGER monotone ON dp.account")
        root.execute("ALTER TABLE dp.ledger ENABLE REPLICA TRIGGER append_only")
        seen = root.execute(
            "SELECT severity, object, problem FROM dp.check() WHERE problem LIKE '%trigger%'"
        ).fetchall()
        root.rollback()
    assert sorted(seen) == [
        ("error", "dp.account", "its trigger monotone is gone"),
        ("error", "dp.ledger", "its trigger append_only is disabled"),
        ("error", "dp_keep_ledger", "this event trigger is gone"),
    ]


def test_a_time_zone_without_data_is_named(cluster: Cluster) -> None:
    with cluster.connect() as root:
        found = root.execute("SELECT dp._missing_zones(ARRAY['Europe/Berlin', 'Mars/Olympus', 'UTC'])").fetchall()
    assert found == [("Mars/Olympus",)]
