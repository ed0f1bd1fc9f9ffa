"""Which third-party packages each part loads: the proxy none of the engine's, the way of a count OpenDP alone.

Each test runs a Python of its own, in which a package that must stay out cannot be imported: whatever asks for it,
fails. The extras of pyproject.toml say the same.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ("opendp", "numpy", "highspy", "scipy", "matplotlib")

# Before anything else is imported. A finder that raises keeps a package out even where it is installed.
KEEP_OUT = """
import sys
class KeepOut:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {out!r}:
            raise ModuleNotFoundError("kept out: " + name, name=name)
sys.meta_path.insert(0, KeepOut())
def loaded():
    return sorted({{name.partition(".")[0] for name in sys.modules}} & set({watched!r}))
"""

PROXY = """
import importlib, pkgutil
import pg_epsilon_proxy
for module in pkgutil.walk_packages(pg_epsilon_proxy.__path__, "pg_epsilon_proxy."):
    importlib.import_module(module.name)
from pg_epsilon_proxy import cli
status = cli.main(["proxy", "--check", "--config", {config!r}])
print(status, loaded())
"""

# The engine's entry with a plpy that does nothing: PostgreSQL's own exists inside a server only. What is planned and
# drawn for a count comes from the engine itself.
COUNT = """
import types
plpy = types.ModuleType("plpy")
plpy.__getattr__ = lambda name: lambda *args, **more: None
sys.modules["plpy"] = plpy
import pg_epsilon.entry
from pg_epsilon import noise
from pg_epsilon.answer import shown
from pg_epsilon.mechanisms import group_by
from unit.policies import planned, row_policy
plan = planned(row_policy(), aggregates=["count(*)"], keys=["sex"])
before = loaded()
released = group_by.core({}, [("a", "b")], plan.measures, noise.current())
print(len(released), before, loaded())
"""

# Which folders of other kinds of question are loaded, beside the shelf that every question clears.
FOLDERS = """
from unit.policies import asked
def folders():
    names = [name.split(".") for name in sys.modules if name.startswith("pg_epsilon.")]
    kinds = {"decide", "release", "synthesis", "turbo", "workload"}
    return sorted({name[1] for name in names if name[1] in kinds and name[2:] not in ([], ["shelf"])})
counted = folders()
plpy.execute = lambda *args: [{"found": False}]  # no relation has a family
for one in pg_epsilon.entry.answerers:
    one.reply(asked(row_policy(), aggregates=["count(*)"]), "id", "alice", {})
asked(row_policy(), aggregates=["count(*)", "count(*) FILTER (WHERE sex = 'f')"])
print(counted, folders())
"""


def python(code: str, out: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run code where no package of `out` can be imported."""
    places = os.pathsep.join(str(ROOT / folder) for folder in ("extension", "proxy", "tests"))
    watched = (*ENGINE, "asyncpg", "pglast")
    return subprocess.run(
        [sys.executable, "-c", KEEP_OUT.format(out=out, watched=watched) + code],
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_the_proxy_loads_nothing_of_the_engine(tmp_path: Path) -> None:
    """All its modules, and its start as far as a machine without databases goes: exit status 1, what is wrong told."""
    config = tmp_path / "proxy.toml"
    place = 'host = "127.0.0.1"\nport = 1\n'
    config.write_text(f'[private]\n{place}password = "p"\n[facade]\n{place}')
    done = python(PROXY.replace("{config!r}", repr(str(config))), ENGINE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1 ['asyncpg', 'pglast']"
    assert "private database" in done.stdout + done.stderr


def test_a_count_needs_opendp_alone() -> None:
    """Planned, drawn and answered where numpy, scipy, highspy and matplotlib cannot be imported."""
    done = python(COUNT, ("numpy", "scipy", "highspy", "matplotlib", "asyncpg"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 ['pglast'] ['opendp', 'pglast']\n"


def test_a_count_loads_no_more_where_all_is_installed() -> None:
    """numpy comes with OpenDP, which imports it for its own types where it is there; nothing of ours asks for it."""
    done = python(COUNT, ())
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 ['pglast'] ['numpy', 'opendp', 'pglast']\n"


def test_a_count_loads_no_other_kind_of_question() -> None:
    """Each costs every new session; the second list is the control: several aggregates may be a workload."""
    done = python(COUNT + FOLDERS, ())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[] ['workload']"


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("pg_epsilon.mechanisms.lp_bounds", "numpy"),
        ("pg_epsilon_proxy.upstream", "asyncpg"),
        ("pg_epsilon.query.parse", "pglast"),
    ],
)
def test_a_package_that_is_kept_out_is_missed(module: str, package: str) -> None:
    """The control: what needs a package fails where it is kept out."""
    done = python(f"import {module}", (package,))
    assert done.returncode == 1
    assert f"kept out: {package}" in done.stderr


def imported(folder: Path) -> set[str]:
    """Top-level names that the modules of a folder import anywhere, without our own and the standard library's."""
    names = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add((node.module or "").partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"pg_epsilon", "pg_epsilon_proxy", "plpy"}


def required(*extras: str) -> set[str]:
    """Packages that `pip install '.[extras]'` brings, by pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    return {line.partition("=")[0].partition(">")[0].partition("[")[0] for line in lines}


def test_each_extra_brings_what_its_part_imports() -> None:
    assert required("engine") == imported(ROOT / "extension" / "pg_epsilon")
    assert required("proxy") <= imported(ROOT / "proxy" / "pg_epsilon_proxy") | {"pglast"} <= required("proxy", "plots")


def test_the_engine_says_what_is_missing() -> None:
    """dp.check() looks for all of them: a package that a mechanism imports late must not be missed after the charge."""
    code = "from pg_epsilon.engine import ready\nprint(*sorted(ready.NEEDED))"
    done = python(code, ())
    assert set(done.stdout.split()) == required("engine")
