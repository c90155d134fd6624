"""Where a round's database is: a file, a small disk of its own, or a PostgreSQL server with a proxy before each node."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

import apsw

from tests.servers.postgres import PostgresServer
from tests.servers.postgres_proxy import PostgresProxy

Kind = Literal["sqlite", "postgres"]
_DISK_MEBIBYTES = 192
_LOCK_MILLISECONDS = 500
_FILE = "pillarbox.db"
_KEPT = "disk-kept"


class SmallDisk:
    """A disk that can be filled; only root can have one."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._filler = place / "somebody-elses.log"

    def mount(self) -> bool:
        self.place.mkdir(parents=True)
        options = f"size={_DISK_MEBIBYTES}m,mode=0755"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.place)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.place)], check=False, capture_output=True)

    def fill(self) -> None:
        """Take every byte that is left."""
        with self._filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 65_536, 4096, 512):
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError:
                    continue

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)


class Place:
    """The database of one round."""

    def __init__(self, kind: Kind, folder: Path, *, small_disk: bool) -> None:
        self.kind = kind
        self.folder = folder
        self.server: PostgresServer | None = None
        self.disk: SmallDisk | None = None
        self.proxies: dict[str, PostgresProxy] = {}
        self.wants_disk = small_disk

    def prepare(self) -> None:
        if self.kind == "postgres":
            # PostgreSQL does not run as root, and another user may not see into root's folders.
            self.server = PostgresServer(self.folder / "postgres")
            self.server.start()
            self.url = self.server.url
            return
        file = self.folder / _FILE
        if self.wants_disk:
            disk = SmallDisk(self.folder / "disk")
            if disk.mount():
                self.disk = disk
                file = disk.place / _FILE
        self.url = f"sqlite:///{file}"

    def url_for(self, node: str) -> str:
        """The database as one node reaches it."""
        if self.server is None:
            return self.url
        if node not in self.proxies:
            self.proxies[node] = PostgresProxy(self.url)
        return self.proxies[node].url

    def is_locked(self, until: float) -> bool:
        """Whether nobody can write to the file all the time until then, as when a stopped process holds its lock."""
        if self.server is not None:
            return False
        with closing(apsw.Connection(self.url.removeprefix("sqlite:///"))) as file:
            while time.monotonic() < until:
                file.set_busy_timeout(_LOCK_MILLISECONDS)
                with suppress(apsw.Error):
                    file.execute("BEGIN IMMEDIATE; ROLLBACK")
                    return False
        return True

    def remove(self, *, keep: bool) -> None:
        """Stop what runs; with `keep` leave the data to be looked at."""
        for proxy in self.proxies.values():
            proxy.close()
        if self.server is not None and self.server.running:
            self.server.stop("immediate")
        if self.disk is not None:
            if keep:
                shutil.copytree(self.disk.place, self.folder / _KEPT)
            self.disk.unmount()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def kept_database(kind: Kind, folder: Path) -> Iterator[str]:
    """The database of a folder that was kept, for as long as it is looked at."""
    if kind == "postgres":
        server = PostgresServer(folder / "postgres").start()
        try:
            yield server.url
        finally:
            server.stop()
        return
    file = (folder / _KEPT if (folder / _KEPT).exists() else folder) / _FILE
    if not file.exists():
        raise FileNotFoundError(f"{file} is not there")
    yield f"sqlite:///{file}"
