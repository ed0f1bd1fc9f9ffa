"""Every "§" that code, tests and documents cite is a section that stands in specs/ or docs/."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CITING = ("extension", "proxy", "sql", "tests", "scripts", "demo", "docs", "README.md", "SECURITY.md")
TEXTS = {".py", ".sql", ".md", ".sh"}
CITATION = re.compile(
    r"\b(?P<page>[a-z][a-z-]+)\.md\b(?:[\s`,]+(?:rule )?(?P<bare>\d+\.\d+(?:\.\d+)*))?"
    r"|§\s?(?P<section>\d+(?:\.\d+)*)|\b(?P<erratum>E-\d+)\b"
)
# A § that follows no page's name in its file cites the page of the file's part.
PAGE_OF = (
    ("turbo", "turbo"),
    ("decide", "dp-pqd"),
    ("workload", "sum-workloads"),
    ("matrix", "sum-workloads"),
    ("facade", "facade-and-channel"),
    ("proxy/", "facade-and-channel"),
    ("tests/clients", "facade-and-channel"),
    ("wire", "facade-and-channel"),
    ("", "composition"),
)


@cache
def pages() -> dict[str, str]:
    files = [*(ROOT / "docs").glob("*.md"), *(ROOT / "specs").glob("*.md"), ROOT / "README.md"]
    return {file.stem: file.read_text() for file in files}


def sections_of(text: str) -> frozenset[str]:
    """Numbers of headings, of numbered rules, and of the items of a list that stands under a heading."""
    found = set(re.findall(r"(?:^|[\s*(])(\d+\.\d+(?:\.\d+)*)(?=[\s.:*])", text, re.M))
    heading = ""
    for line in text.splitlines():
        if number := re.match(r"#+ (\d+(?:\.\d+)*)\.?\s", line):
            heading = number[1]
            found.add(heading)
        elif heading and (item := re.match(r"(\d+)\. ", line)):
            found.add(f"{heading}.{item[1]}")
    return frozenset(found)


@cache
def sections(page: str) -> frozenset[str]:
    return sections_of(pages()[page])


def unresolved(name: str, text: str) -> list[str]:
    """The citations of one file that lead nowhere, each with its line."""
    page = next(page for part, page in PAGE_OF if part in name)
    bad = []
    for found in CITATION.finditer(text):
        where = f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {found[0]!r}"
        if found["page"]:
            if found["page"] not in pages():
                continue  # a file of another kind, in an example or a test
            page = found["page"]
            if found["bare"] and found["bare"] not in sections(page):
                bad.append(where)
        elif found["section"] and found["section"] not in sections(page):
            bad.append(f"{where} is not in {page}.md")
        elif found["erratum"] and not any(re.search(rf"\b{found['erratum']}\b", text) for text in pages().values()):
            bad.append(where)
    return bad


def files() -> list[Path]:
    found = []
    for start in CITING:
        place = ROOT / start
        found += [place] if place.is_file() else [file for file in place.rglob("*") if file.suffix in TEXTS]
    return [file for file in found if "node_modules" not in file.parts and file.name != Path(__file__).name]


def test_every_citation_leads_somewhere() -> None:
    assert [line for file in files() for line in unresolved(str(file.relative_to(ROOT)), file.read_text())] == []


@pytest.mark.parametrize(
    "text",
    ["composition.md §99", "see composition.md 99.1", "composition.md §10.99", "turbo.md E-999", "(§14.999)"],
)
def test_a_citation_that_leads_nowhere_is_found(text: str) -> None:
    assert len(unresolved("extension/pg_epsilon/some.py", text)) == 1


@pytest.mark.parametrize(
    "text", ["composition.md §10.3", "turbo.md §11.7", "dp-pqd.md §2.5", "turbo.md E-22", "(§14.5)"]
)
def test_a_citation_that_leads_somewhere_is_not(text: str) -> None:
    assert unresolved("extension/pg_epsilon/some.py", text) == []
