"""The facade on another server than the private database: roles copied, public tables over the network, TLS.

The facade in the private database's own cluster is what every other test of the product uses.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import PASSWORD, PRIVATE, Cluster, cluster_at_work, private_cluster, standard
from fix_ops import Proxy, code_of, proxy_at_work
from fix_stack import FACADE, Stack
from fix_waiting import LOCKED, cancelling, soon

pytestmark = pytest.mark.chance(fix_chance.laplace(10, 249, 4))

REGIONS = """
CREATE TABLE regions (city text PRIMARY KEY, head text);
INSERT INTO regions VALUES ('north', 'Ann'), ('south', 'Bob'), ('east', 'Eve');
CALL dp.publish('regions', kind => 'public');
"""
JOINED = "SELECT r.head, c.n FROM regions r JOIN (SELECT city, count(*) AS n FROM people GROUP BY city) c USING (city)"


@dataclass
class Apart:
    """Two servers: people on one, what analysts see on the other."""

    private: Cluster
    facade: Cluster
    proxy: Proxy


def certificate(cluster: Cluster) -> str:
    """A server certificate for 127.0.0.1, and TLS switched on; the path of the certificate."""
    folder = cluster.folder
    cluster.run(
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{folder}/server.key", "-out", f"{folder}/server.crt",
    )  # fmt: skip
    settings = {"ssl": "on", "ssl_cert_file": f"{folder}/server.crt", "ssl_key_file": f"{folder}/server.key"}
    for name, value in settings.items():
        cluster.execute(f"ALTER SYSTEM SET {name} = '{value}'", dbname="postgres")
    hba = cluster.data / "pg_hba.conf"
    hba.write_text("hostnossl all +dp_analyst,dp_gateway,dp_reader all reject\n" + hba.read_text())
    cluster.stop("fast")
    cluster.start()
    return f"{folder}/server.crt"


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    """Every login to the facade, and the facade's own to the private database, must be TLS with a verified name."""
    with private_cluster() as private, cluster_at_work() as facade:
        standard(private)
        private.psql(REGIONS, user="boss")
        for cluster in (private, facade):
            cluster.execute(f"ALTER ROLE postgres PASSWORD '{PASSWORD}'", dbname="postgres")
        private.execute("ALTER DATABASE private SET DateStyle = 'ISO, DMY'")
        private_ca, facade_ca = certificate(private), certificate(facade)
        stack = Stack(private, 0)
        place: dict[str, Any] = {
            "port": facade.port,
            "dbname": FACADE,
            "tls": True,
            "tls_ca": facade_ca,
            "source_tls_ca": private_ca,
        }
        settings = {"facade": place, "private": {"tls": True, "tls_ca": private_ca}}
        folder = tmp_path_factory.mktemp("apart")
        environment = "\n".join(
            [
                f'[facade]\nport = {facade.port}\ndbname = "{FACADE}"\ntls = true\ntls_ca = "{facade_ca}"',
                f'source_tls_ca = "{private_ca}"',
                f'[private]\nport = {private.port}\ndbname = "{PRIVATE}"\npassword = "{PASSWORD}"',
                f'tls = true\ntls_ca = "{private_ca}"\n[admin]\npassword = "{PASSWORD}"\n',
            ]
        )
        stack.config.write_text(environment)
        for action in ("create", "sync"):
            done = stack.cli("facade", action)
            assert done.returncode == 0, (action, done.stderr)
        with proxy_at_work(stack, folder, **settings) as proxy:
            yield Apart(private, facade, proxy)


def facade_command(apart: Apart, action: str) -> subprocess.CompletedProcess[str]:
    return Stack(apart.private, 0).cli("facade", action)


def test_answers_names_and_public_rows(apart: Apart) -> None:
    """780 people are older than 30; at epsilon 0.1 the noise exceeds 250 with probability under 2e-11."""
    with apart.proxy.connect() as alice:
        row = alice.execute("SELECT count(*) FROM people WHERE age > 30").fetchone()
        assert row is not None and abs(row[0] - 780) < 250
        assert alice.execute("SELECT head FROM regions ORDER BY 1").fetchall() == [("Ann",), ("Bob",), ("Eve",)]
        assert [head for head, _ in sorted(alice.execute(JOINED).fetchall())] == ["Ann", "Bob", "Eve"]
        assert code_of(lambda: alice.execute("SELECT * FROM people")) == "DP002"
        assert code_of(lambda: alice.execute("INSERT INTO regions VALUES ('west', 'Wim')")) in ("42501", "55000")
        assert alice.execute("SELECT inet_server_port(), current_user").fetchone() == (apart.facade.port, "alice")
        assert alice.execute("SHOW DateStyle").fetchone() == ("ISO, DMY",)


def test_the_facades_server_holds_no_row(apart: Apart) -> None:
    with apart.facade.connect(dbname=FACADE) as root:
        relations = root.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r'"
            " AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND pg_relation_size(c.oid) > 0"
        ).fetchall()
        assert relations == [("facade_state",)]


def test_every_connection_is_encrypted(apart: Apart) -> None:
    sql = (
        "SELECT DISTINCT a.usename, s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)"
        " WHERE a.usename = ANY (%s)"
    )
    with apart.proxy.connect() as alice, apart.facade.connect(dbname=FACADE) as there, apart.private.connect() as here:
        alice.execute("SELECT count(*) FROM regions")
        assert there.execute(sql, (["alice"],)).fetchall() == [("alice", True)]
        found = here.execute(sql, (["dp_gateway", "dp_reader"],)).fetchall()
        assert sorted(found) == [("dp_gateway", True), ("dp_reader", True)]


def test_a_policy_change_travels(apart: Apart) -> None:
    with apart.proxy.connect() as alice:
        sql = "SELECT count(*) FROM later WHERE n > 1"
        assert code_of(lambda: alice.execute(sql)) == "42P01"
        apart.private.psql(
            "CREATE TABLE later (n int); CALL dp.protect('later', 'people', max_rows => 10, scale => 10);"
            "CALL dp.describe_column('later', 'n', bounds => '{0,9}'); CALL dp.publish('later');",
            user="boss",
        )
        assert soon(lambda: code_of(lambda: alice.execute(sql)) is None)


def test_cancels_reach_both_servers(apart: Apart) -> None:
    with apart.proxy.connect() as alice, apart.private.connect() as holder:
        with cancelling(alice.cancel, lambda: apart.facade.connect(dbname=FACADE)):
            assert code_of(lambda: alice.execute("SELECT pg_sleep(600)")) == "57014"
        holder.execute("BEGIN; LOCK dp.account IN EXCLUSIVE MODE")
        with cancelling(alice.cancel, apart.private.connect, LOCKED):
            assert code_of(lambda: alice.execute("SELECT count(*) FROM people WHERE age > 71")) == "57014"
        holder.execute("ROLLBACK")


def test_new_analysts_are_copied_and_former_ones_locked_out(apart: Apart) -> None:
    apart.private.execute(
        f"CREATE ROLE \"Zoë's\" LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT 1; GRANT dp_analyst TO \"Zoë's\"",
        f"CREATE ROLE taken LOGIN PASSWORD '{PASSWORD}'; GRANT dp_analyst TO taken",
    )
    apart.facade.execute("CREATE ROLE taken", dbname="postgres")
    with pytest.raises(psycopg.OperationalError, match="authentication failed"):
        apart.proxy.connect("Zoë's")
    done = facade_command(apart, "roles")
    assert done.returncode == 1
    assert done.stderr == "role taken exists on the facade's server and is no analyst there: rename one\n"
    with apart.proxy.connect("Zoë's") as zoe:
        assert zoe.execute("SELECT current_user").fetchone() == ("Zoë's",)
        with pytest.raises(psycopg.OperationalError, match="too many connections for role"):
            apart.proxy.connect("Zoë's")
        apart.private.execute('REVOKE dp_analyst FROM "Zoë\'s"', "DROP ROLE taken")
        assert facade_command(apart, "roles").returncode == 0
        assert soon(lambda: code_of(lambda: zoe.execute("SELECT 1")) in ("57P01", "lost"))
    apart.private.execute('DROP ROLE "Zoë\'s"')
    apart.facade.execute('DROP ROLE "Zoë\'s", taken', dbname="postgres")


def logged(cluster: Cluster) -> str:
    """By a session that begins now."""
    with cluster.connect(dbname="postgres") as root:
        return str((root.execute("SHOW log_statement").fetchone() or ("",))[0])


def test_a_password_is_in_no_log(apart: Apart) -> None:
    """With log_statement = all, on both servers: neither dp_reader's password nor an analyst's verifier."""
    for cluster in (apart.private, apart.facade):
        cluster.execute("ALTER SYSTEM SET log_statement = 'all'", "SELECT pg_reload_conf()", dbname="postgres")
        assert soon(lambda cluster=cluster: logged(cluster) == "all")
    assert facade_command(apart, "create").returncode == 0
    for cluster in (apart.private, apart.facade):
        cluster.execute("ALTER SYSTEM RESET log_statement", "SELECT pg_reload_conf()", dbname="postgres")
        assert "ALTER DATABASE" in apart.facade.log
        assert "SCRAM-SHA-256$" not in cluster.log
        assert "reader_password" not in cluster.log
    with apart.proxy.connect() as alice:
        assert alice.execute("SELECT count(*) FROM regions").fetchone() == (3,)


def test_sessions_outlive_the_private_database(apart: Apart) -> None:
    """While it is away questions are refused, everything else goes on; then they are answered, in the same session."""
    with apart.proxy.connect() as alice:
        apart.private.stop("fast")
        assert code_of(lambda: alice.execute("SELECT count(*) FROM people WHERE age > 52")) == "DP006"
        assert alice.execute("SELECT 1").fetchone() == (1,)
        apart.private.start()
        assert soon(lambda: code_of(lambda: alice.execute("SELECT count(*) FROM people WHERE age > 52")) is None)


def test_a_facade_that_is_away_is_said_so_and_comes_back(apart: Apart) -> None:
    apart.facade.stop("fast")
    assert code_of(lambda: apart.proxy.connect()) in ("DP006", "57P03", "lost")
    assert apart.proxy.process.poll() is None
    apart.facade.start()
    assert soon(lambda: code_of(lambda: apart.proxy.connect()) is None)
