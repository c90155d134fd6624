"""What the tests of the consumer play on: a store that fails on command, consumers on real queues, and what came of it."""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
import aiormq
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustChannel, AbstractRobustQueue, HeadersType
from aiormq.abc import ChannelFrame
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from pillarbox.errors import Unavailable
from pillarbox.inbox import Begun, Inbox, InboxStore, LeaseAnswer, Sighting
from pillarbox.inbox.consumer import InboxConsumer, Pauses, What

PATIENCE = 30.0
QUICK = Pauses(first=0.02, longest=0.1, after_failure=0.1, watch=0.1, grace=5.0)


class Happenings:
    """What was noticed and handled, to wait for."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._changed = asyncio.Event()

    def note(self, what: str) -> None:
        self.counts[what] += 1
        self._changed.set()

    def noticed(self, what: What, message: AbstractIncomingMessage) -> None:
        self.note(what)

    async def until(self, holds: Callable[[Counter[str]], bool]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds(self.counts):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"only this happened: {self.counts}") from None

    async def until_some(self, what: str, count: int = 1) -> None:
        await self.until(lambda counts: counts[what] >= count)


class FaultyStore:
    """A store in front of a real one, whose verbs cannot be reached while they are in `away`."""

    def __init__(self, store: InboxStore) -> None:
        self._store = store
        self.away: set[str] = set()
        self.asked = Happenings()

    async def try_begin(self, key: str, **given: Any) -> Begun:
        self._reach("try_begin")
        return await self._store.try_begin(key, **given)

    async def extend(self, key: str, lease_id: str, *, lease: float) -> LeaseAnswer:
        self._reach("extend")
        return await self._store.extend(key, lease_id, lease=lease)

    async def mark_processed(self, key: str, lease_id: str, *, result: Any = None) -> LeaseAnswer:
        self._reach("mark_processed")
        return await self._store.mark_processed(key, lease_id, result=result)

    async def release(self, key: str, lease_id: str) -> LeaseAnswer:
        self._reach("release")
        return await self._store.release(key, lease_id)

    async def look(self, key: str) -> Sighting:
        self._reach("look")
        return await self._store.look(key)

    async def close(self) -> None:
        await self._store.close()

    def _reach(self, verb: str) -> None:
        self.asked.note(verb)
        if verb in self.away:
            raise Unavailable("The store is away.")


class Stage:
    """One connection, one queue, and whatever consumes it."""

    def __init__(self, inbox: Inbox | InboxStore, channel: AbstractRobustChannel, queue: AbstractRobustQueue) -> None:
        self.inbox = inbox
        self.channel = channel
        self.queue = queue
        self.happened = Happenings()
        self.open_door = asyncio.Event()

    async def publish(
        self, message_id: str | None = None, *, headers: HeadersType | None = None, times: int = 1
    ) -> None:
        # Frames of our own: aio-pika gives every message an id, and other clients do not.
        channel = await self.channel.get_underlay_channel()
        properties = Basic.Properties(message_id=message_id, headers=headers, delivery_mode=2)
        frames: list[Frame | ContentHeader | ContentBody | Heartbeat] = [
            Basic.Publish(exchange="", routing_key=self.queue.name),
            ContentHeader(properties=properties, body_size=6),
            ContentBody(b"a body"),
        ]
        assert isinstance(channel, aiormq.Channel)
        for _ in range(times):
            await channel.write_queue.put(ChannelFrame.marshall(channel_number=channel.number, frames=frames))

    async def handle(self, message: AbstractIncomingMessage) -> None:
        """The usual handler: begins, waits until the door is open where a test has closed it, and ends."""
        self.happened.note("began")
        if "waits" in message.headers:
            await self.open_door.wait()
        self.happened.note(f"did {message.message_id}")

    def consumer(self, **given: Any) -> InboxConsumer:
        chosen: dict[str, Any] = {
            "bus": "main",
            "group": "billing",
            "alias": "order",
            "handler": self.handle,
            "pauses": QUICK,
            "noticed": self.happened.noticed,
        }
        return InboxConsumer(self.inbox, **(chosen | given))

    @asynccontextmanager
    async def consuming(self, consumer: InboxConsumer | None = None, **given: Any) -> AsyncIterator[InboxConsumer]:
        chosen = consumer or self.consumer(**given)
        running = asyncio.create_task(chosen.run(self.queue))
        try:
            yield chosen
        finally:
            running.cancel()
            await asyncio.wait([running])
        if not running.cancelled():
            running.result()

    async def waiting(self) -> int:
        """How many messages lie in the queue, unacknowledged ones not counted."""
        return (await self.queue.declare()).message_count or 0


@asynccontextmanager
async def connected(
    url: str, inbox: Inbox | InboxStore, *, name: str | None = None, **arguments: Any
) -> AsyncIterator[Stage]:
    connection = await aio_pika.connect_robust(url, reconnect_interval=0.1)
    async with connection:
        channel = await connection.channel(publisher_confirms=False)
        await channel.set_qos(prefetch_count=10)
        queue = await channel.declare_queue(
            name or f"test.{uuid.uuid4().hex}", arguments={"x-expires": 60_000} | arguments
        )
        assert isinstance(channel, AbstractRobustChannel)
        yield Stage(inbox, channel, queue)
