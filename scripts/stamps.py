#!/usr/bin/python3
"""Heavy targets leave a stamp when they pass: the hash of their inputs, committed in .ci/stamps.

`stamps.py run TARGET COMMAND...` runs the command and writes the stamp when it passed. `stamps.py need TARGET` exits
with 0 where the target must run: there is no stamp, or its inputs have changed since. CI asks that (.ci/run);
`make ci-all` runs everything. The inputs are the files that git tracks, as they are in the working tree, and the
machine's own Debian release, because "the other one" depends on that. No stamp without git, or of a part of the tests.

Standard library only: this runs before the virtual environment exists.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = (
    "Makefile",
    "pyproject.toml",
    "scripts/*",
    "sql/*",
    "extension/*",
    "proxy/*",
    "tests/fix_*.py",
    "tests/conftest.py",
)
# What a target's result may depend on, as patterns in which * matches any number of folders.
INPUTS = {
    "test-drivers": (*PRODUCT, "tests/drivers/*", "tests/fixtures/*", "tests/clients/*"),
    "test-other": (*PRODUCT, "tests/*", "demo/*", "docs/*", "README.md", "CHANGELOG.md", "packaging/*"),
    "test-timescale": (*PRODUCT, "tests/timescale/*"),
}


def tracked(root: Path) -> list[str] | None:
    """Every file that git tracks and that is there, in order; None where git cannot say."""
    try:
        listed = subprocess.run(  # git by name: it is wherever the caller has it
            ["git", "ls-files", "-z"],  # noqa: S607
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return sorted(name for name in listed.split("\0") if name and (root / name).is_file())


def digest(root: Path, target: str) -> str | None:
    """SHA-256 over the release, and the names and contents of a target's inputs; None where git cannot say."""
    names = tracked(root)
    if names is None:
        return None
    whole = hashlib.sha256(platform.freedesktop_os_release().get("VERSION_CODENAME", "").encode() + b"\n")
    for name in names:
        if any(fnmatchcase(name, pattern) for pattern in INPUTS[target]):
            content = hashlib.sha256((root / name).read_bytes()).hexdigest()
            whole.update(f"{content} {name}\n".encode())
    return whole.hexdigest()


def stamp(root: Path, target: str) -> Path:
    return root / ".ci" / "stamps" / target


def is_needed(root: Path, target: str) -> bool:
    """Whether a target has no stamp, or one of other inputs."""
    if target not in INPUTS:
        return True
    file = stamp(root, target)
    return not file.exists() or file.read_text().strip() != digest(root, target)


def run(root: Path, target: str, command: list[str]) -> int:
    """Run a target's command; its stamp is that of the inputs before the run, and goes if the run fails."""
    file, before = stamp(root, target), digest(root, target)
    file.unlink(missing_ok=True)
    status = subprocess.run(command, cwd=root, check=False).returncode  # noqa: S603  (the Makefile's own words)
    if status == 0 and before is not None and digest(root, target) == before and not os.environ.get("PYTEST_ARGS"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(before + "\n")
    return status


def main(words: list[str]) -> int:
    match words:
        case ["need", target]:
            return 0 if is_needed(ROOT, target) else 1
        case ["run", target, *command] if target in INPUTS and command:
            return run(ROOT, target, command)
    sys.exit(f"usage: stamps.py need TARGET | run {{{','.join(INPUTS)}}} COMMAND...")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
