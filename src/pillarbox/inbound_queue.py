"""The inbound queue under the names of its first specification, for programs that were written against those.

`InboundQueueManager` is a box whose sessions are delivered by one function. Its singleton is made by
`init_inbound_queue_manager`, handed out by `get_inbound_queue_manager`, and dropped by `reset_inbound_queue_manager` in tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from pillarbox.box import Pillarbox
from pillarbox.errors import NotFound, PillarboxError, SessionExists, Unavailable
from pillarbox.inbound import InboundMessage
from pillarbox.settings import Settings

DeliverFn = Callable[[InboundMessage], Awaitable[object]]

_TARGET = "inbound-queue-manager"


class InboundQueueManager:
    """Brings each session's messages to `deliver_fn` in order, until it returns without raising."""

    def __init__(self, deliver_fn: DeliverFn, *, database: str | None = None, settings: Settings | None = None) -> None:
        self._deliver_fn = deliver_fn
        self._database = database
        self._settings = settings
        self._life: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[Pillarbox] | None = None
        self._working = asyncio.Event()

    async def enqueue(self, *, session_id: str, origin: str, **fields: Any) -> int | None:
        """Store a message and return at once: its id, or None if that source id was stored before."""
        box = await self._box()
        try:
            enqueued = await box.inbound.enqueue(session_id=session_id, origin=origin, **fields)
        except NotFound:
            with suppress(SessionExists):
                await box.sessions.open(session_id=session_id, target={"kind": "python", "name": _TARGET})
            enqueued = await box.inbound.enqueue(session_id=session_id, origin=origin, **fields)
        return None if enqueued.duplicate else enqueued.id

    async def expire_session(self, session_id: str) -> int:
        """Close a session: its delivery is stopped, and whatever waits expires. Answers how many."""
        return await (await self._box()).sessions.close(session_id)

    async def startup(self) -> None:
        """Begin to deliver, what an earlier process left behind included."""
        await self._box()
        self._working.set()

    async def shutdown(self) -> None:
        """Stop delivering; what waits stays for the next start."""
        self.abandon()
        if self._life is not None:
            await asyncio.wait([self._life])
        self._life, self._opened, self._working = None, None, asyncio.Event()

    def abandon(self) -> None:
        """Stop delivering without waiting for the end of it."""
        if self._life is not None:
            self._life.cancel()

    async def _box(self) -> Pillarbox:
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._life = asyncio.create_task(self._live(self._opened))
        return await asyncio.shield(self._opened)

    async def _live(self, opened: asyncio.Future[Pillarbox]) -> None:
        try:
            async with Pillarbox.open(self._database, settings=self._settings) as box:
                box.inbound.target(_TARGET)(self._deliver)
                opened.set_result(box)
                await self._working.wait()
                await box.run()
        except Exception as error:
            if opened.done():
                raise
            # The next call tries again: the database may be back by then.
            self._opened = None
            opened.set_exception(error)
        finally:
            if not opened.done():
                opened.set_exception(Unavailable("The inbound queue manager was shut down; start a new one."))
                # Marks it as seen: there may be nobody who waits for it.
                opened.exception()

    async def _deliver(self, message: InboundMessage) -> None:
        await self._deliver_fn(message)


_manager: InboundQueueManager | None = None


def init_inbound_queue_manager(
    deliver_fn: DeliverFn, *, force: bool = False, database: str | None = None, settings: Settings | None = None
) -> InboundQueueManager:
    """Make the singleton; with `force` it replaces an earlier one, whose workers stop."""
    global _manager  # noqa: PLW0603 - the specification names a singleton
    if _manager is not None:
        if not force:
            raise PillarboxError("The inbound queue manager exists already; pass force=True to replace it.")
        _manager.abandon()
    _manager = InboundQueueManager(deliver_fn, database=database, settings=settings)
    return _manager


def get_inbound_queue_manager() -> InboundQueueManager:
    """The singleton."""
    if _manager is None:
        raise PillarboxError("There is no inbound queue manager yet; call init_inbound_queue_manager first.")
    return _manager


def reset_inbound_queue_manager() -> None:
    """Forget the singleton, for tests."""
    global _manager  # noqa: PLW0603 - the specification names a singleton
    if _manager is not None:
        _manager.abandon()
    _manager = None
