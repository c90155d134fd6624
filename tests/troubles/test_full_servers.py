"""PostgreSQL's disk runs full while people send messages: nothing acknowledged is lost, and it goes on once there is room."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.crash.recorder import recording
from tests.servers.daemon import Daemon
from tests.servers.postgres import PostgresServer, unprivileged
from tests.troubles.disks import fill, small_disk

BODY = "x" * 100_000
SETTINGS = {"inbound.backoff_seconds": "[0.05]", "inbound.poll_seconds": 0.1, "database.busy_timeout_seconds": 2}


@pytest.fixture
def disk(scratch: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A small disk where the server may write."""
    with small_disk(scratch / f"disk-{os.getpid()}-{request.node.name}", mebibytes=96) as disk:
        os.chown(disk, unprivileged().pw_uid, unprivileged().pw_gid)
        yield disk
    disk.rmdir()


def open_session(daemon: Daemon, url: str) -> None:
    status, answer = daemon.call("POST", "/v1/sessions", {"session_id": "s1", "target": {"kind": "http", "url": url}})
    assert status == 201, answer


def post(daemon: Daemon, content: str) -> tuple[int, Any]:
    return daemon.call("POST", "/v1/inbound", {"session_id": "s1", "origin": "test", "content": content})


def post_until_refused(daemon: Daemon, problem: str) -> list[str]:
    """What was taken before the first that was not."""
    taken: list[str] = []
    for number in range(2000):
        # What can be compressed takes no room.
        content = f"{number} {os.urandom(len(BODY) // 2).hex()}"
        status, answer = post(daemon, content)
        if status != 202:
            assert (status, answer["type"]) == (503, f"urn:pillarbox:problem:{problem}"), answer
            return taken
        taken.append(content)
    raise AssertionError("the disk never ran full")


def test_where_the_tables_have_no_room_new_messages_are_refused_and_all_that_were_taken_arrive_once(
    private_postgres: PostgresServer, disk: Path
) -> None:
    with psycopg.connect(private_postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'".encode())
        connection.execute("CREATE DATABASE small TEMPLATE template0 TABLESPACE small")
    url = private_postgres.url.removesuffix("/postgres") + "/small"
    with recording() as recorder, Daemon(url, settings=SETTINGS) as daemon:
        open_session(daemon, recorder.url)
        assert post(daemon, "while there is room")[0] == 202
        filler = fill(disk)
        taken = ["while there is room", *post_until_refused(daemon, "database-full")]
        assert daemon.call("GET", "/healthz")[0] == 200
        filler.unlink()
        daemon.until("/readyz")
        assert post(daemon, "room again")[0] == 202
        arrivals = recorder.expect(lambda arrivals: bool(arrivals) and arrivals[-1].content == "room again")
        assert [arrival.content for arrival in arrivals] == [*taken, "room again"]


def test_where_the_servers_log_has_no_room_nothing_taken_is_lost_and_it_goes_on_once_the_server_does(
    private_postgres: PostgresServer, disk: Path
) -> None:
    private_postgres.stop()
    log = private_postgres.data / "pg_wal"
    shutil.copytree(log, disk / "pg_wal")
    shutil.rmtree(log)
    log.symlink_to(disk / "pg_wal")
    for path in (log, *(disk / "pg_wal").rglob("*")):
        os.chown(path, unprivileged().pw_uid, unprivileged().pw_gid)
    os.chmod(disk / "pg_wal", 0o700)
    private_postgres.start()
    url = private_postgres.url.removesuffix("/postgres") + "/template1"
    with recording() as recorder, Daemon(url, settings=SETTINGS) as daemon:
        open_session(daemon, recorder.url)
        filler = fill(disk)
        taken = post_until_refused(daemon, "unavailable")
        assert len(taken) > 10
        assert daemon.call("GET", "/readyz")[0] == 503
        assert daemon.call("GET", "/healthz")[0] == 200
        filler.unlink()
        if not private_postgres.running:
            private_postgres.start()
        daemon.until("/readyz")
        assert post(daemon, "room again")[0] == 202
        arrivals = recorder.expect(lambda arrivals: bool(arrivals) and arrivals[-1].content == "room again")
        assert list(dict.fromkeys(arrival.content for arrival in arrivals)) == [*taken, "room again"]
