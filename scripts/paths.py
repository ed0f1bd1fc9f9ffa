#!/usr/bin/python3
"""Where things are: PostgreSQL, the Python environment, and a place that the server's user can read.

Standard library only: this runs before the virtual environment exists. The test fixtures and the demo import it
(`paths.discover()`), the shell scripts and the Makefile run it (`scripts/paths.py NAME`, or without a name for JSON).

PostgreSQL refuses to run as root, so root's clusters belong to the user `postgres`, who must be able to read the
Python package, the virtual environment and the built extension. A checkout under a 0700 directory (root's home, a CI
runner's temporary folder) is closed to him: then everything of ours lives under /var/tmp/pg_epsilon-HASH instead, with
a copy of the two packages that `discover(refresh=True)` brings up to date.

Settings: PG_EPSILON_PG (major version), PG_EPSILON_RUNTIME (the runtime directory), PG_EPSILON_VENV, PG_EPSILON_BASES
(where scripts/chroot.sh keeps other Debians).
"""

from __future__ import annotations

import fcntl
import filecmp
import hashlib
import json
import os
import platform
import pwd
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
POSTGRES_ROOT = Path("/usr/lib/postgresql")
SYSTEM_PYTHON = Path("/usr/bin/python3")  # the interpreter that Debian's plpython3.so is linked to
PACKAGES = (("extension", "pg_epsilon"), ("proxy", "pg_epsilon_proxy"))


class Release(NamedTuple):
    """A Debian release on which the tests run, and the PostgreSQL that it packages."""

    name: str
    debian: int
    postgres: int


# The only place that says which versions are supported: scripts and the Makefile ask for it, and
# tests/unit/test_versions.py compares documents and META.json with it.
SUPPORTED = (Release("bookworm", 12, 15), Release("trixie", 13, 17))


class NotFound(Exception):
    """Something is missing on this machine; the message says what and how to get it."""


@dataclass(frozen=True)
class Paths:
    """What the scripts, the fixtures and the demo need to know of this machine."""

    root: Path  # the checkout
    runtime: Path  # clusters, logs, sockets; readable by os_user
    build: Path  # what `make sql` builds
    destdir: Path  # for the server's setting extension_destdir
    venv: Path
    pg_version: int
    bindir: Path  # never PATH: another PostgreSQL may be there
    os_user: str | None  # whom the server runs as; None: whoever we are
    source: tuple[Path, Path]  # folders holding pg_epsilon and pg_epsilon_proxy, readable by os_user

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def server_pythonpath(self) -> str:
        """PYTHONPATH for the server: the package, then the environment's packages (PL/Python ignores a venv)."""
        return f"{self.source[0]}:{self.venv}/lib/python{python_version()}/site-packages"

    @property
    def proxy_pythonpath(self) -> str:
        return f"{self.source[1]}:{self.server_pythonpath}"

    @property
    def server_environment(self) -> dict[str, str]:
        """What to add to the server's environment."""
        return {"PYTHONPATH": self.server_pythonpath, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

    def as_server_user(self) -> list[str]:
        """Words to put before a command so that it runs as the server's user."""
        return ["/usr/sbin/runuser", "-u", self.os_user, "--"] if self.os_user else []


def python_version() -> str:
    """The system interpreter's version, as 3.11."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    command = [str(SYSTEM_PYTHON), "-I", "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603


def find_postgres() -> tuple[int, Path]:
    """The newest packaged PostgreSQL that has PL/Python, or the one that PG_EPSILON_PG names."""
    wanted = os.environ.get("PG_EPSILON_PG", "")
    found = [
        int(folder.name)
        for folder in POSTGRES_ROOT.glob("[0-9]*")
        if folder.name.isdigit() and (folder / "bin/postgres").exists() and (folder / "lib/plpython3.so").exists()
    ]
    if wanted:
        found = [version for version in found if str(version) == wanted]
    if not found:
        what = f"PostgreSQL {wanted}".strip()
        raise NotFound(f"no {what} server with PL/Python under {POSTGRES_ROOT}: run `make dev`")
    return max(found), POSTGRES_ROOT / str(max(found)) / "bin"


def open_to_others(path: Path) -> bool:
    """Whether any user can reach and read `path` (judged by mode bits: root itself may read everything)."""
    if not path.stat().st_mode & stat.S_IROTH:
        return False
    if path.is_dir() and not path.stat().st_mode & stat.S_IXOTH:
        return False
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.resolve().parents)


def checkout_is_open() -> bool:
    return os.geteuid() != 0 or all(
        open_to_others(ROOT / folder / package / "__init__.py") for folder, package in PACKAGES
    )


def runtime_directory() -> Path:
    """The runtime directory, created if it is missing."""
    if named := os.environ.get("PG_EPSILON_RUNTIME"):
        runtime = Path(named).absolute()
    elif checkout_is_open():
        runtime = ROOT / ".dev"
    else:
        runtime = Path("/var/tmp") / f"pg_epsilon-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]}"  # noqa: S108
    runtime.mkdir(mode=0o755, parents=True, exist_ok=True)
    state = runtime.lstat()
    # /var/tmp is everybody's: a directory that someone else put there would hold code that the server loads.
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
        raise NotFound(f"{runtime} exists but is not a directory of ours alone: remove it, or set PG_EPSILON_RUNTIME")
    if state.st_mode & 0o777 != 0o755:
        runtime.chmod(0o755)  # a umask of 077 would close it to the server's user
    return runtime


def server_user() -> str | None:
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        raise NotFound("there is no user `postgres` for the server to run as: run `make dev`") from None


def refresh_copy(target: Path) -> None:
    """Bring the copies of the two packages up to date, readable by everybody.

    Processes that do it at the same time wait for each other: each would remove the other's unfinished files as stale.
    Only what differs is replaced, in one step, and what running servers have compiled stays.
    """
    target.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy_packages(target)


def copy_packages(target: Path) -> None:
    for folder, package in PACKAGES:
        source = ROOT / folder / package
        kept: set[Path] = set()
        for file in sorted(path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
            copy = target / folder / package / file.relative_to(source)
            kept.add(copy)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if copy.exists() and filecmp.cmp(file, copy, shallow=False):
                continue
            fresh = copy.with_name(f".{copy.name}.{os.getpid()}")
            shutil.copyfile(file, fresh)
            fresh.chmod(0o644)
            fresh.replace(copy)
        for stale in (target / folder).rglob("*"):
            if stale.is_dir():
                stale.chmod(0o755)
            elif stale not in kept and stale.parent.name != "__pycache__":
                stale.unlink(missing_ok=True)
        (target / folder).chmod(0o755)
    target.chmod(0o755)


def virtual_environment(runtime: Path) -> Path:
    if named := os.environ.get("PG_EPSILON_VENV"):
        return Path(named).absolute()
    return ROOT / ".venv" if checkout_is_open() else runtime / "venv"


def bases() -> Path:
    """Where the bases of other Debian releases stand, each in a folder of its name: outside every checkout, for all."""
    return Path(os.environ.get("PG_EPSILON_BASES") or "/var/cache/pg_epsilon").absolute()


def discover(refresh: bool = False) -> Paths:
    """Look at this machine. With `refresh`, the server's copy of the packages (if one is needed) is made current.

    Errors: NotFound, whose message says what is missing and how to get it.
    """
    runtime = runtime_directory()
    version, bindir = find_postgres()
    source = (ROOT / "extension", ROOT / "proxy")
    if not checkout_is_open():
        source = (runtime / "tree/extension", runtime / "tree/proxy")
        if refresh or not source[0].exists():
            refresh_copy(runtime / "tree")
    build = ROOT / "build" if checkout_is_open() and "PG_EPSILON_RUNTIME" not in os.environ else runtime / "build"
    return Paths(
        root=ROOT,
        runtime=runtime,
        build=build,
        destdir=build / "destdir",
        venv=virtual_environment(runtime),
        pg_version=version,
        bindir=bindir,
        os_user=server_user(),
        source=source,
    )


def debian_postgres() -> str:
    """The major version that this distribution's package `postgresql` depends on, by apt's own lists."""
    listing = subprocess.run(
        ["apt-cache", "depends", "postgresql"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    match = re.search(r"Depends: postgresql-(\d+)\s", listing + "\n")
    if not match:
        raise NotFound("apt knows no package `postgresql`: run `apt-get update`")
    return match.group(1)


def supported() -> str:
    """The supported releases, one a line: name, Debian's number, PostgreSQL's."""
    return "\n".join(" ".join(map(str, release)) for release in SUPPORTED)


def other_release() -> str:
    """The newest supported release that this machine is not."""
    running = platform.freedesktop_os_release().get("VERSION_CODENAME")
    return next(release.name for release in reversed(SUPPORTED) if release.name != running)


def main(arguments: list[str]) -> int:
    """Print one value, or all as JSON. `runtime`, `venv` and those of releases need no PostgreSQL."""
    name = arguments[0] if arguments else ""
    early: dict[str, Callable[[], object]] = {
        "runtime": runtime_directory,
        "venv": lambda: virtual_environment(runtime_directory()),
        "debian-postgres": debian_postgres,
        "pg-version": lambda: find_postgres()[0],
        "supported": supported,
        "other-release": other_release,
        "bases": bases,
    }
    try:
        if name in early:
            print(early[name]())
            return 0
        paths = discover(refresh=True)
    except NotFound as problem:
        print(f"pg_epsilon: {problem}", file=sys.stderr)
        return 1
    facts = {field: getattr(paths, field) for field in paths.__dataclass_fields__}
    facts |= {"python": paths.python, "server_pythonpath": paths.server_pythonpath}
    facts |= {"proxy_pythonpath": paths.proxy_pythonpath, "server_environment": paths.server_environment}
    facts["source"] = [str(folder) for folder in paths.source]
    if name:
        print(facts[name])
    else:
        print(json.dumps(facts, indent=2, default=str))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
