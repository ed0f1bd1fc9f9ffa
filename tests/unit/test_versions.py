"""PostgreSQL's versions have one home, `SUPPORTED` of scripts/paths.py; nothing promises another one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import paths  # noqa: E402

VERSIONS = {release.postgres for release in paths.SUPPORTED}
PROMISING = ("README.md", "SECURITY.md", "CHANGELOG.md", "tests/README.md", "Makefile", *(
    str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").glob("*.md"))
))  # fmt: skip
# "PostgreSQL 15, 16 or 17", "PostgreSQL 15 and 17", "postgresql-15"
NAMED = re.compile(r"PostgreSQL (\d\d(?:(?:, | or | and )\d\d)*)\b|postgresql-(\d\d)")


def named(text: str) -> set[int]:
    """The major versions that a text names."""
    return {int(number) for found in NAMED.finditer(text) for number in re.findall(r"\d\d", found[1] or found[2])}


@pytest.mark.parametrize("page", PROMISING)
def test_no_page_names_a_version_that_no_test_runs(page: str) -> None:
    assert named((ROOT / page).read_text()) <= VERSIONS


def test_a_version_that_is_not_tested_is_found() -> None:
    assert named("PostgreSQL 15, 16 or 17 with PL/Python") == {15, 16, 17}
    assert named("apt-get install postgresql-18") == {18}


@pytest.mark.parametrize("page", ["README.md", "SECURITY.md", "docs/contributing.md"])
def test_the_supported_versions_are_told(page: str) -> None:
    text = (ROOT / page).read_text()
    assert named(text) >= VERSIONS
    assert all(f"Debian {release.debian}" in text or f"or {release.debian}" in text for release in paths.SUPPORTED)


def test_pgxn_is_told_the_oldest() -> None:
    meta = json.loads((ROOT / "extension" / "META.json").read_text())
    assert meta["prereqs"]["runtime"]["requires"]["PostgreSQL"] == f"{min(VERSIONS)}.0.0"


def test_scripts_ask_for_the_version() -> None:
    """No script but paths.py holds a number of its own."""
    files = [ROOT / "Makefile", ROOT / ".ci" / "run", *(ROOT / "scripts").glob("*.sh")]
    assert [file.name for file in files if re.search(r"postgresql-(plpython3-)?\d", file.read_text())] == []
    told = subprocess.run(
        [ROOT / "scripts" / "paths.py", "supported"], check=True, capture_output=True, text=True
    ).stdout
    assert [line.split() for line in told.splitlines()] == [[*map(str, release)] for release in paths.SUPPORTED]


@pytest.mark.parametrize(("running", "other"), [("bookworm", "trixie"), ("trixie", "bookworm"), ("noble", "trixie")])
def test_the_other_release(running: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths.platform, "freedesktop_os_release", lambda: {"VERSION_CODENAME": running})
    assert paths.other_release() == other
