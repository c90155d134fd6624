"""The disk runs full while people send messages: nothing acknowledged is lost, and what was begun is marked."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.recorder import Arrival, Recorder, recording
from tests.servers.daemon import Daemon
from tests.troubles.disks import fill, free, small_disk

BODY = "x" * 20_000
SETTINGS = {"inbound.backoff_seconds": "[0.05]", "inbound.poll_seconds": 0.1, "inbound.lease_seconds": 5}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


def post(daemon: Daemon, content: str, session_id: str = "s1") -> tuple[int, Any]:
    return daemon.call("POST", "/v1/inbound", {"session_id": session_id, "origin": "test", "content": content})


def open_session(daemon: Daemon, url: str, session_id: str = "s1") -> None:
    body = {"session_id": session_id, "target": {"kind": "http", "url": url}}
    status, answer = daemon.call("POST", "/v1/sessions", body)
    assert status == 201, answer


def post_until_refused(daemon: Daemon) -> list[str]:
    """The contents that were taken before the first one that was not."""
    taken: list[str] = []
    for number in range(2000):
        content = f"{number} {BODY}"
        status, answer = post(daemon, content)
        if status != 202:
            assert (status, answer["type"]) == (503, "urn:pillarbox:problem:database-full"), answer
            return taken
        taken.append(content)
    raise AssertionError("the disk never ran full")


def test_new_messages_are_refused_before_the_disk_is_full_and_all_that_were_taken_arrive_once(disk: Path) -> None:
    gate = threading.Event()
    with recording() as recorder, Daemon(f"sqlite:///{disk}/pillarbox.db", settings=SETTINGS) as daemon:

        def hold(arrival: Arrival) -> int:
            gate.wait(30)
            return 200

        recorder.answer = hold
        open_session(daemon, recorder.url)
        taken = post_until_refused(daemon)
        assert len(taken) > 50
        assert free(disk) + (disk / "pillarbox.db-reserve").stat().st_size >= 1024 * 1024
        filler = fill(disk)
        assert daemon.call("GET", "/readyz")[0] == 503
        assert daemon.call("GET", "/healthz")[0] == 200
        gate.set()
        arrivals = recorder.expect(lambda arrivals: len(arrivals) >= len(taken))
        daemon.until("/v1/status", lambda status: status["inbound"]["processing"] + status["inbound"]["pending"] == 0)
        assert [arrival.content for arrival in arrivals] == taken
        assert len(recorder.arrivals) == len(taken)
        assert post(daemon, "no room")[0] == 503
        filler.unlink()
        daemon.until("/readyz")
        assert post(daemon, "room again")[0] == 202
        recorder.expect(lambda arrivals: arrivals[-1].content == "room again")
