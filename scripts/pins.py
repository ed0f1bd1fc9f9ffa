#!/usr/bin/python3
"""Exact versions for pip, of several Pythons in one file: `pins.py FOLDER TARGET`, run by scripts/pins.sh.

FOLDER holds what `pip freeze` said, in NAME-3.11.txt, NAME-3.13.txt; TARGET gets NAME.txt, a constraints file. A
version that not all Pythons have stands there with an environment marker. Standard library only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

HEAD = "# Made by `make pins` of what pip takes without constraints; scripts/lib.sh `pinned` gives it to pip.\n"
LINE = re.compile(r'([a-z0-9-]+)==([^ ;]+)(?: ; python_version == "([\d.]+)")?')


def canonical(name: str) -> str:
    """A package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def frozen(lines: Iterable[str]) -> dict[str, str]:
    """Versions by name, of what `pip freeze` prints. Errors: ValueError for what is no release (a path, an address)."""
    found = {}
    for line in filter(None, map(str.strip, lines)):
        name, equals, version = line.partition("==")
        if not equals or " " in line:
            raise ValueError(f"not a release: {line}")
        found[canonical(name)] = version
    return found


def merged(by_python: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Lines of a constraints file, of versions by name by Python."""
    lines = []
    for name in sorted({name for versions in by_python.values() for name in versions}):
        versions = {python: found[name] for python, found in by_python.items() if name in found}
        if len(versions) == len(by_python) and len(set(versions.values())) == 1:
            lines.append(f"{name}=={next(iter(versions.values()))}")
        else:
            lines += [f'{name}=={versions[python]} ; python_version == "{python}"' for python in sorted(versions)]
    return lines


def read(lines: Iterable[str], python: str) -> dict[str, str]:
    """Versions by name, of a constraints file of ours, for one Python. Errors: ValueError for any other line."""
    found = {}
    for line in (line.strip() for line in lines if not line.startswith("#")):
        parts = LINE.fullmatch(line)
        if not parts:
            raise ValueError(f"not a pin: {line}")
        if parts[3] in (None, python):
            found[parts[1]] = parts[2]
    return found


def main(folder: Path, target: Path) -> None:
    names = {file.stem.rpartition("-")[0] for file in folder.glob("*-*.txt")}
    for name in sorted(names):
        files = {file.stem.rpartition("-")[2]: file for file in folder.glob(f"{name}-*.txt")}
        if len(files) < 2:
            raise SystemExit(f"pg_epsilon: {name} was frozen for {', '.join(files)} alone")
        lines = merged({python: frozen(file.read_text().splitlines()) for python, file in files.items()})
        (target / f"{name}.txt").write_text(HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
