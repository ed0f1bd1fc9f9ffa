"""What documents name exists: files, make targets, SQL functions, settings. Examples run in the demo and by hand."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path

import pytest

from pg_epsilon_proxy.rewrite.settings import KNOWN

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "tests" / "README.md",
    ROOT / "sql" / "upgrade" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
FOLDERS = ("tests", "scripts", "sql", "docs", "packaging", "demo", "specs", "extension", "proxy", ".ci")
PATH = re.compile(rf"(?<![\w/.-])((?:{'|'.join(map(re.escape, FOLDERS))})/[\w*{{}},./-]*[\w*])")
TARGET = re.compile(r"(?:`|^ *)make ([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?![\w-])", re.M)
CALL = re.compile(r"(?<![\w.])(?:dp\.)?(dp_[a-z0-9_]+)\(|(?<![\w.])dp\.([a-z_]+)\(")
SETTING = re.compile(r"\bSET (?:LOCAL )?(dp\.[a-z_]+)\b")
MADE = re.compile(r"\bCREATE (?:FUNCTION|PROCEDURE) dp\.([a-z0-9_]+)\s*\(")
# Aggregates of the proxy alone, whose arguments are aggregates: sql/80_facade makes them there.
FACADE = {"dp_low", "dp_high", "dp_stderr", "dp_decision"}
MISSPELT = {"dp.epsilonn"}


def functions() -> set[str]:
    sources = [file for file in (ROOT / "sql").rglob("*.sql") if "upgrade" not in file.parts]
    table = tomllib.loads((ROOT / "sql/60_public/functions.toml").read_text())["function"]
    generated = {row["name"] + part for row in table for part in ("", "_request", "_result")}
    return {name for file in sources for name in MADE.findall(file.read_text())} | generated | FACADE


def untrue(text: str) -> list[str]:
    """What a text names and the tree does not have."""
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.M))
    benches = {f"bench-{file.stem[6:]}" for file in (ROOT / "tests/benchmarks").glob("bench_*.py")}
    made = functions()
    bad = [path for path in PATH.findall(text) if not list(ROOT.glob(path))]
    bad += [f"make {name}" for name in TARGET.findall(text) if name not in targets | benches]
    bad += [f"{name}()" for found in CALL.findall(text) if (name := max(found)) not in made]
    bad += [name for name in SETTING.findall(text) if name not in KNOWN and name not in MISSPELT]
    return bad


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    assert untrue(page.read_text()) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("see docs/tutorial.md", "docs/tutorial.md"),
        ("tests/unit/test_nothing.py shows it", "tests/unit/test_nothing.py"),
        ("run `make quicker`", "make quicker"),
        ("SELECT dp_total('adult')", "dp_total()"),
        ("CALL dp.forget('adult')", "forget()"),
        ("SET dp.epsilons = 1", "dp.epsilons"),
    ],
)
def test_what_does_not_exist_is_found(text: str, name: str) -> None:
    assert untrue(text) == [name]


def test_what_exists_is_not() -> None:
    text = "docs/sql.md, `make test`, dp_count('t'), CALL dp.allot('a'), SET dp.epsilon = 1, tests/attacks/attacks*.sql"
    assert untrue(text) == []


def test_the_front_page_leads_everywhere() -> None:
    front = (ROOT / "README.md").read_text()
    pages = [*(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")), "SECURITY.md", "specs/README.md"]
    assert [page for page in pages if f"]({page})" not in front] == []


def test_the_bits_of_failures_are_what_the_formula_says() -> None:
    """SECURITY.md's table: N questions of which at most four fail (composition.md §10.3 d)."""
    rows = re.findall(r"^\| ([\d,]+) \| ([\d.]+) \|$", (ROOT / "SECURITY.md").read_text(), re.M)
    assert len(rows) == 4
    for asked, bits in rows:
        events = sum(math.comb(int(asked.replace(",", "")), failed) for failed in range(5))
        assert float(bits) == pytest.approx(math.log2(events), abs=0.06), asked


def test_the_glossary_holds_the_field_s_terms() -> None:
    """Each under its name, in bold at the head of its line."""
    heads = re.findall(r"^- \*\*(.+?)\*\*", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    told = " ".join(heads).lower()
    terms = """privacy unit, neighbours, contribution, epsilon, delta, rho, sensitivity, accountant, dataset, account,
    allotment, leaf, release, entitlement, facade, channel, engine, portal, histogram bin, sparse vector, epoch,
    witness, incarnation, chain, ledger, cap, charge, mechanism, core, block, request, synopsis, freeze"""
    assert [term for term in re.split(r",\s+", terms) if term not in told] == []
    assert len(heads) == len(set(heads))
