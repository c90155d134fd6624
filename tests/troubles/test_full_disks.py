"""The disk runs full while people send messages: nothing acknowledged is lost, and what was begun is marked."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from pillarbox import Email
from pillarbox.box import Pillarbox
from pillarbox.errors import DatabaseFull
from pillarbox.inbound.model import InboundMessage
from pillarbox.settings import Settings
from pillarbox.settings.tree import Inbound
from pillarbox.storage.reserve import Reserve
from tests.crash.recorder import Arrival, recording
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
    (disk / "old.iso").write_bytes(bytes(2 * 1024 * 1024))
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
        assert post(daemon, "no room")[0] == 503
        gate.set()
        arrivals = recorder.expect(lambda arrivals: len(arrivals) >= len(taken))
        daemon.until("/v1/status", lambda status: status["inbound"]["processing"] + status["inbound"]["pending"] == 0)
        assert [arrival.content for arrival in arrivals] == taken
        assert len(recorder.arrivals) == len(taken)
        filler.unlink()
        (disk / "old.iso").unlink()
        daemon.until("/readyz")
        assert post(daemon, "room again")[0] == 202
        recorder.expect(lambda arrivals: arrivals[-1].content == "room again")


def test_on_a_full_disk_every_pipe_refuses_what_is_new_and_finishes_what_was_begun(disk: Path) -> None:
    with recording() as recorder, Daemon(f"sqlite:///{disk}/pillarbox.db", settings=SETTINGS) as daemon:
        open_session(daemon, recorder.url)
        assert daemon.call("PUT", "/v1/tenants/acme", {"providers": {"email": {"provider": "sandbox"}}})[0] == 201
        _, begun = daemon.call("POST", "/v1/inbox/try-begin", {"key": "orders:1"})
        fill(disk)
        new = {
            "/v1/sessions": {"target": {"kind": "http", "url": recorder.url}},
            "/v1/inbound": {"session_id": "s1", "origin": "test", "content": BODY},
            "/v1/hooks": {"session_id": "s1", "event_type": "agent_stop", "payload": {"text": BODY}},
            "/v1/tenants/acme/messages": {"channel": "email", "to": "a@b.example", "subject": "s", "text": BODY},
            "/v1/inbox/try-begin": {"key": "orders:2"},
        }
        refused = {path: daemon.call("POST", path, body) for path, body in new.items()}
        assert {path: answer[0] for path, answer in refused.items()} == dict.fromkeys(new, 503), refused
        lease = {"key": "orders:1", "leaseId": begun["leaseId"]}
        for _ in range(100):
            assert daemon.call("POST", "/v1/inbox/extend", lease)[1]["status"] == "Extended"
        assert daemon.call("POST", "/v1/inbox/mark-processed", lease)[1] == {"status": "Processed"}
        (disk / "somebody-elses.log").unlink()
        daemon.until("/readyz")
        taken = {path: daemon.call("POST", path, body)[0] for path, body in new.items()}
        assert set(taken.values()) <= {200, 201, 202}


async def test_what_was_pruned_makes_room_on_a_disk_that_the_database_itself_has_filled(disk: Path) -> None:
    settings = Settings(inbound=Inbound(retention_days=0.000001))
    async with Pillarbox.open(f"sqlite:///{disk}/pillarbox.db", settings=settings) as box:
        box.inbound.target("keep")(taken)
        await box.sessions.open(session_id="s1", target={"kind": "python", "name": "keep"})
        before = await enqueued_until_full(box)
        while (await box.inbound.status()).pending:
            await box.inbound.drain.step()
        while (await box.prune())[0]:
            pass
        assert await enqueued_until_full(box) > before / 2 > 20


async def enqueued_until_full(box: Pillarbox) -> int:
    for number in range(2000):
        try:
            await box.inbound.enqueue(session_id="s1", origin="test", content=BODY)
        except DatabaseFull:
            return number
    raise AssertionError("the disk never ran full")


async def taken(message: InboundMessage) -> None:
    """A target that takes whatever comes."""


async def test_an_enqueue_in_a_callers_own_transaction_is_refused_on_a_full_disk_too(disk: Path) -> None:
    async with Pillarbox.open(f"sqlite:///{disk}/pillarbox.db") as box:
        await box.tenants.set("acme", providers={"email": {"provider": "sandbox"}})
        letter = Email(to="a@b.example", subject="s", text="t")
        filler = fill(disk)
        connection = apsw.Connection(f"{disk}/pillarbox.db")
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseFull, match="make room"):
            await box.outbound.send("acme", letter, connection=connection)
        filler.unlink()
        await box.outbound.send("acme", letter, connection=connection)
        connection.execute("COMMIT")
        connection.close()
        assert (await box.outbound.status()).pending == 1


def test_a_reserve_of_nothing_never_refuses(disk: Path) -> None:
    fill(disk)
    assert Reserve(f"{disk}/pillarbox.db", 0).allows_new_work()
    assert not Reserve(f"{disk}/pillarbox.db", 1024).allows_new_work()


def test_a_reserve_is_never_more_than_an_eighth_of_the_disk(disk: Path) -> None:
    assert Reserve(f"{disk}/pillarbox.db", 1024**3).allows_new_work()
    assert (disk / "pillarbox.db-reserve").stat().st_size == 1024 * 1024


def test_on_a_disk_with_plenty_nothing_is_laid_aside(tmp_path: Path) -> None:
    if free(tmp_path) < 2 * 1024**3:
        pytest.skip("this disk has little room itself")
    reserve = Reserve(f"{tmp_path}/pillarbox.db", 1024)
    (tmp_path / "pillarbox.db-reserve").write_bytes(bytes(1024))
    assert reserve.allows_new_work()
    assert list(tmp_path.iterdir()) == []
