#!/usr/bin/python3
"""`make sql`: the extension's script from sql/, and a tree to point the server's `extension_destdir` at.

sql/ holds one object a file. Everything whose first path element starts with a digit is the extension script, in the
order of the paths; 60_public/functions.toml there is a table of functions (sql_functions.py). sql/install/ is the
script that a superuser runs once in the private database (roles, channel, revokes: what an extension cannot own);
sql/upgrade/ holds pg_epsilon--A--B.sql as they are, and the folder A--B from which scripts/upgrade_sql.py makes the
script that leads to the version of today.
"""

from __future__ import annotations

import compileall
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import paths as locations
import sql_functions
import upgrade_sql

NAME = "pg_epsilon"
# CREATE EXTENSION runs the script with search_path = dp, pg_temp: whoever made schema dp before could shadow operators.
HEAD = f"""\\echo Use "CREATE EXTENSION {NAME}" to load this file. \\quit

SET LOCAL search_path = pg_catalog, pg_temp;
"""
# The same for the superuser who runs the install script.
INSTALL_HEAD = "\\set ON_ERROR_STOP on\nSET search_path = pg_catalog, pg_temp;\n"


def version(root: Path) -> str:
    """The one version: _version.py's, which the control file must repeat (CREATE EXTENSION reads only that)."""
    package = re.search(r'^VERSION = "([^"]+)"', (root / "extension" / NAME / "_version.py").read_text(), re.M)
    control = re.search(r"^default_version = '([^']+)'", (root / "extension" / f"{NAME}.control").read_text(), re.M)
    if not package or not control or package[1] != control[1]:
        raise SystemExit("make sql: _version.py and pg_epsilon.control name two versions")
    return package[1]


def extension_files(sql: Path) -> list[Path]:
    found = [*sql.rglob("*.sql"), *sql.glob(sql_functions.TABLE)]
    files = [file for file in found if file.relative_to(sql).parts[0][0].isdigit()]
    return sorted(files, key=lambda file: file.relative_to(sql).parts)


def text_of(file: Path) -> str:
    """The SQL of a file, or of a table."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".toml":
        return text.rstrip("\n")
    try:
        return sql_functions.script(sql_functions.table(text))
    except ValueError as problem:  # also what tomllib says
        raise SystemExit(f"make sql: {file}: {problem}") from None


def joined(files: list[Path], sql: Path, head: str) -> str:
    parts = [head]
    for file in files:
        parts.append(f"\n-- {file.relative_to(sql).as_posix()}\n{text_of(file)}\n")
    return "".join(parts)


def scripts(root: Path) -> dict[str, str]:
    """File name → text of all that belongs in the server's extension folder."""
    sql = root / "sql"
    install = sorted((sql / "install").glob("*.sql"))
    now = version(root)
    # functions in PL/Python compare it with the package that their session has loaded
    create = joined(extension_files(sql), sql, HEAD).replace("@VERSION@", now)
    return {
        f"{NAME}.control": (root / "extension" / f"{NAME}.control").read_text(encoding="utf-8"),
        f"{NAME}--{now}.sql": create,
        f"{NAME}_install.sql": joined(install, sql, INSTALL_HEAD) + "\nRESET search_path;\n",
        **{file.name: file.read_text(encoding="utf-8") for file in sorted((sql / "upgrade").glob(f"{NAME}--*--*.sql"))},
        **upgrade_sql.script(root, now, create),
    }


def write(root: Path, folder: Path) -> None:
    """Write the scripts to `folder`, and remove what an older build left there."""
    made = scripts(root)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob(f"{NAME}*"):
        if stale.name not in made:
            stale.unlink()
    for name, text in made.items():
        fresh = folder / f".{name}.{os.getpid()}"
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o644)
        fresh.replace(folder / name)  # a server that is loading the old one goes on reading it


def build(paths: locations.Paths | None = None) -> Path:
    """Write build/sql/ and build/destdir/; returns the extension folder in the latter, readable by the server."""
    paths = paths or locations.discover()
    # A server takes its files from extension_destdir followed by its compiled-in sharedir.
    folder = paths.destdir / "usr/share/postgresql" / str(paths.pg_version) / "extension"
    write(paths.root, paths.build / "sql")
    write(paths.root, folder)
    for parent in folder.parents:
        if paths.build in (parent, *parent.parents):
            parent.chmod(0o755)  # a umask of 077 would close it to the server's user
    folder.chmod(0o755)
    # The server's user cannot write __pycache__: without this every new backend would compile the engine again.
    for source in paths.source:
        compileall.compile_dir(source, quiet=2, maxlevels=4)
    return folder


def main(arguments: list[str]) -> None:
    """`--scripts-only FOLDER`: only the scripts, on a machine where the server is elsewhere."""
    if arguments[:1] == ["--scripts-only"]:
        write(locations.ROOT, Path(arguments[1]))
        return
    try:
        print(build() / f"{NAME}.control")
    except locations.NotFound as problem:
        sys.exit(f"make sql: {problem}")


if __name__ == "__main__":
    main(sys.argv[1:])
