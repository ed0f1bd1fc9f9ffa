"""A server that runs version 0.1.0, as released, and can be given today's files; what a database holds, by name."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fix_cluster import PRIVATE, ROOT, Cluster, built
from fix_ports import free_port

BEFORE = "0.1.0"
RELEASED = ROOT / "tests/fixtures" / BEFORE
OBJECTS = (ROOT / "tests/sql/upgrade_objects.sql").read_text()
UPDATE = "ALTER EXTENSION pg_epsilon UPDATE"


class OldCluster(Cluster):
    """Starts with the scripts and the package of 0.1.0; `bring_scripts` and `bring_package` replace them."""

    @property
    def scripts(self) -> Path:
        return self.paths.destdir / f"usr/share/postgresql/{self.paths.pg_version}/extension"

    @property
    def package(self) -> Path:
        """The folder on the server's PYTHONPATH: a link, so that the package is swapped in one step."""
        return self.paths.source[0]

    def bring_scripts(self) -> None:
        """What `make -C extension install` of today does."""
        made = built().destdir / f"usr/share/postgresql/{self.paths.pg_version}/extension"
        for file in made.glob("pg_epsilon*"):
            shutil.copy(file, self.scripts / file.name)

    def bring_package(self) -> None:
        """What `pip install` of today does."""
        self._link(built().source[0])

    def _link(self, folder: Path) -> None:
        fresh = self.package.with_name("next")
        fresh.symlink_to(folder)
        os.replace(fresh, self.package)

    def lay_out(self) -> None:
        """The files of 0.1.0."""
        self.scripts.mkdir(parents=True)
        script = f"pg_epsilon--{BEFORE}.sql"
        kept = next((ROOT / "sql/upgrade").glob(f"{BEFORE}--*/{script}.gz"))
        (self.scripts / script).write_bytes(gzip.decompress(kept.read_bytes()))
        shutil.copy(RELEASED / "pg_epsilon_install.sql", self.scripts)
        control = (ROOT / "extension/pg_epsilon.control").read_text()
        today = control.partition("default_version = '")[2].partition("'")[0]
        (self.scripts / "pg_epsilon.control").write_text(control.replace(today, BEFORE))
        with zipfile.ZipFile(RELEASED / "pg_epsilon.zip") as packed:
            packed.extractall(self.folder / BEFORE)
        self._link(self.folder / BEFORE)


@contextmanager
def old_cluster(**settings: str) -> Iterator[OldCluster]:
    """A running server with version 0.1.0 installed in database `private`."""
    paths = built()
    folder = Path(tempfile.mkdtemp(prefix="pge-old-", dir="/tmp"))
    place = replace(paths, destdir=folder / "destdir", source=(folder / "package", paths.source[1]))
    cluster = OldCluster(folder, free_port(), place, settings)
    try:
        cluster.lay_out()
        folder.chmod(0o755)
        if paths.os_user:
            shutil.chown(folder, paths.os_user, paths.os_user)
        cluster.create()
        cluster.start()
        cluster.install()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def objects(cluster: Cluster, dbname: str = PRIVATE) -> dict[str, str]:
    """Everything that the extension and its install script made, by name, each with all that can be said of it."""
    with cluster.connect(dbname=dbname) as root:
        root.execute("SET search_path = pg_catalog")
        found: dict[str, str] = {}
        for name, value in root.execute(OBJECTS.encode()).fetchall():
            assert name not in found, name
            found[name] = value
    return found


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """The names of the objects that two databases do not have in common, or have differently."""
    return [name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]


def told(one: dict[str, str], other: dict[str, str]) -> str:
    """The differences for people."""
    return "\n".join(f"{name}\n  {one.get(name)}\n  {other.get(name)}" for name in differences(one, other))
