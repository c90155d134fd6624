"""Database files that cannot be written, were taken away, or lie where SQLite should not be."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from pillarbox.box import Pillarbox
from pillarbox.errors import Unavailable
from pillarbox.storage import Step
from pillarbox.storage.migrate import rehearse
from pillarbox.storage.sqlite import SqliteDatabase
from tests.contracts import notes
from tests.contracts.notes import add, ids, with_notes
from tests.crash.traffic import post
from tests.servers.daemon import Daemon
from tests.troubles.disks import small_disk

AS_NOBODY = """
import os, sys
import pillarbox.api.server, pillarbox.box, pillarbox.storage.sqlite, uvloop
from pillarbox.cli.main import cli
os.setuid(int(sys.argv[1]))
cli.main(sys.argv[2:])
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not write")


def serve_as_nobody(url: str) -> subprocess.CompletedProcess[str]:
    nobody = str(pwd.getpwnam("nobody").pw_uid)
    command = [sys.executable, "-c", AS_NOBODY, nobody, "serve", "--port", "0", "--database", url]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@needs_root
@pytest.mark.parametrize("trouble", ["read-only file", "read-only folder", "somebody else's file"])
def test_a_server_that_may_not_write_its_database_says_so_and_exits_with_1(scratch: Path, trouble: str) -> None:
    folder = scratch / trouble.replace(" ", "-").replace("'", "")
    folder.mkdir(mode=0o755)
    file = folder / "pillarbox.db"
    if trouble != "read-only folder":
        migrate = [sys.executable, "-m", "pillarbox", "migrate", "--database", f"sqlite:///{file}"]
        subprocess.run(migrate, capture_output=True, check=True)
        file.chmod(0o444 if trouble == "read-only file" else 0o600)
    done = serve_as_nobody(f"sqlite:///{file}")
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1
    assert "no permission: check the owner and mode" in done.stderr
    assert "listening" not in done.stdout


def test_a_folder_in_the_place_of_a_database_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="it is a folder: name a file in it"):
        SqliteDatabase(str(tmp_path))


@needs_root
def test_a_read_only_file_system_is_called_one_with_and_without_a_database_on_it(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        url = f"sqlite:///{disk}/pillarbox.db"
        made = subprocess.run([sys.executable, "-m", "pillarbox", "migrate", "--database", url], check=False)
        assert made.returncode == 0
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for name in ("pillarbox.db", "new.db"):
            with pytest.raises(Unavailable, match="it lies on a read-only file system"):
                SqliteDatabase(str(disk / name))


async def test_a_database_that_turns_read_only_refuses_and_takes_messages_again_without_a_restart(
    sqlite_url: str,
) -> None:
    async with with_notes(sqlite_url) as database:
        assert isinstance(database, SqliteDatabase)
        await database.write(lambda: add(1))
        connection = database._writer._connection
        connection.pragma("query_only", 1)
        with pytest.raises(Unavailable, match="cannot be written"):
            await database.write_new(lambda: add(2))
        assert await ids(database) == [1]
        connection.pragma("query_only", 0)
        await database.write_new(lambda: add(2))
        assert await ids(database) == [1, 2]


@contextmanager
def read_only(daemon: Daemon) -> Iterator[None]:
    """While this lasts, whatever a process writes to its files is answered as by a file system that has turned read-only."""
    calls = "pwrite64,pwritev,ftruncate,fallocate"
    inject = ["-e", f"trace={calls}", "-e", f"inject={calls}:error=EROFS"]
    command = ["strace", "-f", "-o", os.devnull, *inject, "-p", str(daemon.pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr
        try:
            assert "attached" in tracer.stderr.readline()
            yield
        finally:
            tracer.terminate()


def test_a_server_whose_file_system_turns_read_only_acknowledges_nothing_and_goes_on_when_it_is_over(
    sqlite_url: str,
) -> None:
    with Daemon(sqlite_url, "--no-workers") as daemon:
        assert daemon.call("POST", "/v1/sessions", {"session_id": "s1", "target": {"kind": "none"}})[0] == 201
        before = post(daemon, "s1", "before")
        with read_only(daemon):
            status, answer = daemon.call("POST", "/v1/inbound", {"session_id": "s1", "origin": "t", "content": "lost"})
            assert (status, answer["status"]) == (503, 503)
            assert daemon.call("GET", "/readyz")[0] == 503
            assert daemon.call("GET", f"/v1/inbound/{before}")[0] == 200
        daemon.until("/readyz")
        after = post(daemon, "s1", "after")
        _, listed = daemon.call("GET", "/v1/inbound?session_id=s1")
    assert [message["id"] for message in listed["items"]] == [before, after]


@pytest.fixture
async def box(sqlite_url: str) -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open(sqlite_url) as box:
        await box.sessions.open(session_id="s1", target={"kind": "http", "url": "http://127.0.0.1:9/"})
        yield box


async def test_nothing_is_acknowledged_into_a_file_that_was_deleted(box: Pillarbox, tmp_path: Path) -> None:
    file = tmp_path / "pillarbox.db"
    await box.inbound.enqueue(session_id="s1", origin="test", content="before")
    file.rename(tmp_path / "elsewhere.db")
    with pytest.raises(Unavailable, match="moved or deleted"):
        await box.inbound.enqueue(session_id="s1", origin="test", content="lost")
    with pytest.raises(Unavailable, match="moved or deleted"):
        await rehearse(box.database)
    (tmp_path / "elsewhere.db").rename(file)
    await box.inbound.enqueue(session_id="s1", origin="test", content="after")
    assert [message.content for message in await box.inbound.list()] == ["before", "after"]


async def test_what_holds_for_a_connection_cannot_be_weakened_by_the_file(sqlite_url: str) -> None:
    def pragma(name: str) -> Step[object]:
        rows = yield notes.query(f"PRAGMA {name}")()
        return rows[0][0]

    async with with_notes(sqlite_url) as database:
        await database.write(lambda: add(1))
    other = apsw.Connection(sqlite_url.removeprefix("sqlite:///"))
    other.pragma("journal_mode", "delete")
    other.pragma("synchronous", "off")
    other.close()
    async with notes.opened(sqlite_url) as database:
        assert [await database.read(lambda name=name: pragma(name)) for name in ("journal_mode", "synchronous")] == [  # type: ignore[misc]
            "wal",
            2,
        ]


@pytest.mark.parametrize("kind", ["fuse.sshfs", "nfs4", "cifs"])
def test_a_database_on_a_network_share_is_warned_of_by_serve_and_doctor(tmp_path: Path, kind: str) -> None:
    mounts, share = tmp_path / "mounts", tmp_path / "share"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/export {share} {kind} rw 0 0\nproc /proc proc rw 0 0\n")
    share.mkdir()
    # In a mount namespace of its own the process reads this table as its own.
    prefix = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" "/proc/$$/mounts" && exec "$@"', str(mounts))
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here")
    for folder, warned in ((share, True), (tmp_path, False)):
        url = f"sqlite:///{folder / 'pillarbox.db'}"
        with Daemon(url, prefix=prefix) as daemon:
            assert daemon.terminate() == 0
            assert ("network file system" in daemon.logs.whole()) == warned
        command = [*prefix, sys.executable, "-m", "pillarbox", "doctor", "--json", "--database", url]
        doctor = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        details = {check["name"]: check["detail"] for check in json.loads(doctor.stdout)["checks"]}
        assert details["filesystem"].startswith(f"warning: {kind} is a network") == warned
