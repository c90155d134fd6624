"""The names of the first specification."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pillarbox.errors import PillarboxError, SessionClosed, Unavailable
from pillarbox.inbound import InboundMessage
from pillarbox.inbound_queue import (
    InboundQueueManager,
    get_inbound_queue_manager,
    init_inbound_queue_manager,
    reset_inbound_queue_manager,
)
from pillarbox.settings import Settings, load_settings


@pytest.fixture
def settings() -> Settings:
    return load_settings(environ={}, inbound={"backoff_seconds": [0.01], "poll_seconds": 0.05})


class Desk:
    """Where messages end; one whose content says so fails the first time."""

    def __init__(self) -> None:
        self.delivered: list[str] = []
        self._arrived = asyncio.Condition()

    async def deliver(self, message: InboundMessage) -> None:
        if message.content == "fails once" and message.attempt_count == 1:
            raise RuntimeError("the terminal is away")
        async with self._arrived:
            self.delivered.append(message.content)
            self._arrived.notify_all()

    async def expect(self, *contents: str) -> None:
        async with asyncio.timeout(10), self._arrived:
            await self._arrived.wait_for(lambda: self.delivered == list(contents))


@pytest.fixture
async def desk() -> Desk:
    return Desk()


@pytest.fixture
async def manager(desk: Desk, sqlite_url: str, settings: Settings) -> AsyncIterator[InboundQueueManager]:
    made = InboundQueueManager(desk.deliver, database=sqlite_url, settings=settings)
    yield made
    await made.shutdown()


@pytest.fixture(autouse=True)
def no_singleton() -> None:
    reset_inbound_queue_manager()


async def test_messages_reach_the_function_in_order_and_a_failed_one_holds_back_the_next(
    manager: InboundQueueManager, desk: Desk
) -> None:
    await manager.startup()
    for content in ("fails once", "second", "third"):
        assert await manager.enqueue(session_id="s1", origin="terminal", content=content)
    await desk.expect("fails once", "second", "third")


async def test_a_duplicate_is_answered_with_none(manager: InboundQueueManager) -> None:
    first = await manager.enqueue(session_id="s1", origin="discord", content="hi", source_message_id="7")
    again = await manager.enqueue(session_id="s1", origin="discord", content="hi", source_message_id="7")
    assert (first, again) == (1, None)


async def test_startup_delivers_what_an_earlier_process_left(desk: Desk, sqlite_url: str, settings: Settings) -> None:
    earlier = InboundQueueManager(desk.deliver, database=sqlite_url, settings=settings)
    await earlier.enqueue(session_id="s1", origin="terminal", content="left behind")
    await earlier.shutdown()
    later = InboundQueueManager(desk.deliver, database=sqlite_url, settings=settings)
    await later.startup()
    await desk.expect("left behind")
    await later.shutdown()


async def test_an_expired_session_takes_nothing_more(manager: InboundQueueManager) -> None:
    await manager.enqueue(session_id="s1", origin="terminal", content="waits")
    assert await manager.expire_session("s1") == 1
    with pytest.raises(SessionClosed):
        await manager.enqueue(session_id="s1", origin="terminal", content="too late")


async def test_the_singleton_is_made_once_unless_forced(desk: Desk) -> None:
    with pytest.raises(PillarboxError):
        get_inbound_queue_manager()
    first = init_inbound_queue_manager(desk.deliver)
    assert get_inbound_queue_manager() is first
    with pytest.raises(PillarboxError):
        init_inbound_queue_manager(desk.deliver)
    assert init_inbound_queue_manager(desk.deliver, force=True) is not first


async def test_a_forced_replacement_stops_the_workers_of_the_old_one(
    desk: Desk, sqlite_url: str, settings: Settings
) -> None:
    taken: list[str] = []

    async def old(message: InboundMessage) -> None:
        taken.append(message.content)

    first = init_inbound_queue_manager(old, database=sqlite_url, settings=settings)
    await first.startup()
    second = init_inbound_queue_manager(desk.deliver, force=True, database=sqlite_url, settings=settings)
    await first.shutdown()
    await second.startup()
    await second.enqueue(session_id="s1", origin="terminal", content="for the new one")
    await desk.expect("for the new one")
    assert taken == []
    await second.shutdown()


async def test_a_start_that_failed_can_be_tried_again(desk: Desk, tmp_path: Path, settings: Settings) -> None:
    folder = tmp_path / "not there yet"
    manager = InboundQueueManager(desk.deliver, database=f"sqlite:///{folder}/a.db", settings=settings)
    with pytest.raises(Unavailable):
        await manager.startup()
    folder.mkdir()
    await manager.startup()
    await manager.shutdown()


async def test_who_waits_for_the_opening_hears_of_a_shutdown(manager: InboundQueueManager) -> None:
    enqueueing = asyncio.create_task(manager.enqueue(session_id="s1", origin="terminal", content="x"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await manager.shutdown()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(enqueueing, 10)
