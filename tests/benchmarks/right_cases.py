"""What bench-right says of the reported cases: how many pass, and what a computed constant costs."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from report import ROOT, Row, paired, row

sys.path.append(str(ROOT / "tests/sql"))

import test_half_declared as half

from fix_cluster import ROLES, private_cluster
from fix_stack import stack_at_work

PAIRS = 300


def cases() -> Row:
    """Of the tests of reported statements, how many pass; baseline: how many there are."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        tests = sorted(str(path) for path in (ROOT / "tests").glob("*/test_report*.py"))
        words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *tests, f"--junitxml={report}"]
        subprocess.run(words, cwd=ROOT, check=False, stdout=sys.stderr)
        suites = list(ElementTree.parse(report).getroot().iter("testsuite"))  # noqa: S314  pytest wrote it
    counted = {name: sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors")}
    passed = counted["tests"] - counted["failures"] - counted["errors"]
    return row("cases_passed", passed, counted["tests"], "reported statements and others of their kinds, as tests")


def fold() -> Row:
    """Milliseconds that a call on constants adds to a paid question, at the median of pairs of one run."""
    number = itertools.count()
    with stack_at_work() as stack:
        stack.cluster.psql((ROOT / "tests/fixtures/reports.sql").read_text(), user="boss")
        stack.cli("facade", "sync")
        with stack.connect("alice") as alice:
            alice.execute("SET dp.epsilon = 0.1")

            def computed() -> None:
                alice.execute(f"SELECT count(*) FROM shop WHERE note <> concat('n', {next(number)}::text)".encode())

            def written() -> None:
                alice.execute(f"SELECT count(*) FROM shop WHERE note <> 'n{next(number)}'".encode())

            ours, plain, ratio = paired(computed, written, PAIRS)
    note = f"added to a paid question of {1000 * plain:.1f} ms (ratio {ratio:.3f}); at most .5"
    return row("fold_ms", 1000 * (ours - plain), None, note)


def halves() -> Row:
    """Of the relations declared by halves of tests/sql/test_half_declared.py, how many dp.check() does not name."""
    with private_cluster() as cluster:
        cluster.psql(ROLES)
        cluster.psql(half.SCHEMA, user="boss")
        for name, one in half.HALVES.items():
            for call in (f"CREATE TABLE {name} ({one.columns})", *half.declared(name, one)):
                cluster.psql(call, user="boss")
        named = {row[1] for row in half.halves_found(cluster)}
    return row("half_declared_unnoticed", len(set(half.HALVES) - named), None, f"of {len(half.HALVES)}; must be 0")
