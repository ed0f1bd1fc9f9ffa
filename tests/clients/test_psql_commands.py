"""Every catalog command of psql through the proxy: it works, or is refused because the facade closes what it reads."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from fix_drivers import DriversStack

MARK = "=== command {} ==="

# What each command must show; an empty list: anything, but no error. People look at our relations with most of them.
COMMANDS: dict[str, list[str]] = {
    r"\d": ["people", "customers", "orders", "items"],
    r"\d+": ["people", "permanent"],
    r"\dS": ["pg_class", "people"],
    r"\dS+": ["pg_class"],
    r"\d people": ["numeric(10,2)", '"people_pkey" PRIMARY KEY', 'POLICY "pg_epsilon"'],
    r"\d+ people": ["plain", "Access method: heap"],
    r"\d orders": ["Foreign-key constraints:", "REFERENCES customers(id)"],
    r"\d customers": ["Referenced by:", 'TABLE "orders"'],
    r"\d people_pkey": ["primary key, btree"],
    r"\d dp.budget": ["your_epsilon_left"],
    r"\d+ dp.spending": ["question"],
    r"\d dp.*": ["budget", "spending", "published"],
    r"\d nosuch": ["Did not find any relation"],
    r"\da": [],
    r"\daS": ["count", "percentile_cont"],
    r"\daS pg_catalog.count": ["bigint"],
    r"\dA": ["btree"],
    r"\dA+": ["heap"],
    r"\dAc": ["btree"],
    r"\dAc+ btree": ["integer"],
    r"\dAf": ["btree"],
    r"\dAf+ btree": ["integer_ops"],
    r"\dAo": ["btree"],
    r"\dAo+ btree float_ops": ["float_ops"],
    r"\dAp": ["btree"],
    r"\dAp+ btree float_ops": ["btfloat8cmp"],
    r"\db": ["pg_default"],
    r"\dc": [],
    r"\dcS+": ["UTF8"],
    r"\dconfig": [],
    r"\dconfig+ work_mem": ["work_mem"],
    r"\dC": ["integer"],
    r"\dC+": ["integer"],
    r"\dd": [],
    r"\ddS": [],
    r"\dD": [],
    r"\dDS+": [],
    r"\dD information_schema.*": ["sql_identifier"],
    r"\ddp": [],
    r"\dE": [],
    r"\dES+": [],
    r"\des": [],
    r"\des+": [],
    r"\det": [],
    r"\det+": [],
    r"\deu": [],
    r"\deu+": [],
    r"\dew": [],
    r"\dew+": [],
    r"\df": [],
    r"\df+": [],
    r"\dfS": ["abs"],
    r"\df dp.dp_count": ["bigint", "relation regclass"],
    r"\df+ dp.dp_count": ["dp_facade", "discrete Laplace"],
    r"\df dp.dp_count regclass text": ["dp_count"],
    r"\dfa": [],
    r"\dfn dp.*": ["dp_count", "dp_group_by"],
    r"\dfp": [],
    r"\dft": [],
    r"\dfwS": ["row_number"],
    r"\dF": ["english"],
    r"\dF+ english": ["english_stem"],
    r"\dFd": ["english_stem"],
    r"\dFd+": ["simple"],
    r"\dFp": ["default"],
    r"\dFp+": ["default"],
    r"\dFt": ["snowball"],
    r"\dFt+": ["simple"],
    r"\dg": ["alice", "dp_analyst"],
    r"\dgS+": ["pg_monitor"],
    r"\di": ["people_pkey"],
    r"\diS+": ["pg_class_oid_index"],
    r"\dL": ["plpgsql"],
    r"\dLS+": ["plpgsql"],
    r"\dm": [],
    r"\dmS+": [],
    r"\dn": ["public", "dp"],
    r"\dnS+": ["pg_catalog"],
    r"\do": [],
    r"\doS+ =": ["boolean"],
    r"\dO": [],
    r"\dOS+": ["ucs_basic"],
    r"\dp": ["people", "dp_analyst=r"],
    r"\dp people": ["people", "refuse('public.people'"],
    r"\dP": [],
    r"\dP+": [],
    r"\dPi": [],
    r"\dPtn+": [],
    r"\dRp": [],
    r"\dRp+": [],
    r"\dRs": [],
    r"\ds": [],
    r"\dsS+": [],
    r"\dt": ["people", "dp_facade"],
    r"\dt+": ["people", "permanent"],
    r"\dtS+": ["pg_class"],
    r"\dt public.peo*": ["people"],
    r"\dT": [],
    r"\dTS+ int4": ["integer"],
    r"\du": ["alice", "dp_analyst"],
    r"\du+ alice": ["alice"],
    r"\dv": [],
    r"\dvS+": ["pg_views"],
    r"\dx": ["plpgsql"],
    r"\dx+": ["plpgsql"],
    r"\dX": [],
    r"\dX+": [],
    r"\dy": [],
    r"\dy+": [],
    r"\l": ["facade", "private"],
    r"\sf dp.dp_count": ["answered by the proxy"],
    r"\sf+ dp.dp_count": ["1       AS"],
    r"\sv pg_catalog.pg_tables": ["CREATE OR REPLACE VIEW"],
    r"\sv+ pg_catalog.pg_tables": ["CREATE OR REPLACE VIEW"],
    r"\z": ["people"],
    r"\z dp.*": ["budget"],
}
# Newer than psql 15.
SINCE: dict[str, tuple[int, list[str]]] = {r"\drg": (16, ["alice", "dp_analyst"]), r"\drgS": (16, ["pg_monitor"])}

# Refused by PostgreSQL, as the facade's grants want it (facade-and-channel.md §5, "Cost").
SIZES = "sizes and settings of the cluster's other databases and roles are nobody's business"
REFUSED: dict[str, tuple[str, str]] = {
    r"\l+": ("function pg_database_size", SIZES),
    r"\db+": ("function pg_tablespace_size", SIZES),
    r"\drds": ("table pg_db_role_setting", SIZES),
    r"\dl": ("table pg_largeobject_metadata", "large objects would be a channel between analysts"),
    r"\dl+": ("table pg_largeobject_metadata", "as above"),
    r"\lo_list": ("table pg_largeobject_metadata", "as above"),
    r"\lo_list+": ("table pg_largeobject_metadata", "as above"),
    r"\dRs+": ("table pg_subscription", "PostgreSQL's own: connection strings are a superuser's"),
}


@pytest.fixture(scope="module")
def version(drivers_stack: DriversStack) -> int:
    words = [str(drivers_stack.cluster.paths.bindir / "psql"), "--version"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return int(re.findall(r"\d+", shown)[0])


def run(drivers_stack: DriversStack, script: str) -> str:
    """One session, errors where they came."""
    words = [
        str(drivers_stack.cluster.paths.bindir / "psql"),
        "-X",
        "-v",
        "VERBOSITY=verbose",
        "-d",
        drivers_stack.dsn(port=drivers_stack.recorded("psql")),
    ]
    done = subprocess.run(words, input=script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
    assert done.returncode == 0
    return done.stdout


@pytest.fixture(scope="module")
def shown(drivers_stack: DriversStack, version: int) -> dict[str, str]:
    """What all of them show, in one session."""
    new = [command for command, (since, _) in SINCE.items() if version >= since]
    commands = [*COMMANDS, *REFUSED, *new]
    said = run(drivers_stack, "".join(f"\\echo {MARK.format(i)}\n{command}\n" for i, command in enumerate(commands)))
    parts = re.split(re.escape(MARK).replace(r"\{\}", r"\d+") + "\n", said)[1:]
    return dict(zip(commands, parts, strict=True))


@pytest.mark.parametrize("command", COMMANDS)
def test_it_works(shown: dict[str, str], command: str) -> None:
    assert "ERROR:" not in shown[command] and "invalid command" not in shown[command]
    assert all(word in shown[command] for word in COMMANDS[command]), shown[command]


@pytest.mark.parametrize("command", REFUSED)
def test_it_is_refused_for_a_stated_reason(shown: dict[str, str], command: str) -> None:
    what, reason = REFUSED[command]
    assert f"ERROR:  42501: permission denied for {what}" in shown[command], reason


def test_newer_commands(shown: dict[str, str], version: int) -> None:
    for command, (since, words) in SINCE.items():
        assert (command in shown) == (version >= since)
        assert all(word in shown.get(command, "".join(words)) for word in words)


def listed(drivers_stack: DriversStack) -> Iterator[str]:
    """The informational commands of this psql, by its own help, one for each letter that may follow the name."""
    informational = run(drivers_stack, "\\?\n").split("\nInformational\n")[1].split("\n\n")[0]
    for name, letters in re.findall(r"^  \\(\w+)(?:\[([a-z]+)\])?", informational, re.MULTILINE):
        yield from [f"\\{name}", *(f"\\{name}{letter}" for letter in letters)]


def test_none_of_psqls_own_list_is_forgotten(drivers_stack: DriversStack) -> None:
    known = {command.split()[0].rstrip("+") for command in [*COMMANDS, *REFUSED, *SINCE]}
    assert {name for name in listed(drivers_stack) if not {name, f"{name}S"} & known} == set()


def test_looking_costs_nothing(drivers_stack: DriversStack, shown: dict[str, str]) -> None:
    ledger = "SELECT count(*) FROM dp.ledger"
    before = drivers_stack.exact(ledger)
    run(drivers_stack, "".join(f"{command}\n" for command in shown))
    assert drivers_stack.exact(ledger) == before


def test_what_psql_shows_of_a_table_is_what_its_owner_sees(drivers_stack: DriversStack) -> None:
    """Columns, types, keys and references; the facade adds its policy, and drops what is not published."""
    words = [str(drivers_stack.cluster.paths.bindir / "psql"), "-X", "-At", "-c", r"\d customers"]
    facade = subprocess.run(
        [*words, "-d", drivers_stack.dsn()], capture_output=True, text=True, check=True, timeout=240
    )
    private = subprocess.run(
        [*words, "-d", drivers_stack.cluster.dsn()], capture_output=True, text=True, check=True, timeout=240
    )
    ours = [line for line in facade.stdout.splitlines() if "olic" not in line and "refuse" not in line]
    assert ours == [line for line in private.stdout.splitlines() if "riggers" not in line and "TRIGGER" not in line]
