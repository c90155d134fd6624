"""Running a body once for a key: begin, renew while it runs, mark when it ends, release when it fails."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from pillarbox.errors import InvalidInput, LeaseLost, Unavailable
from pillarbox.inbox.model import BUSY, BeginStatus, Begun, LeaseAnswer, result_text
from pillarbox.outlast import outlast
from pillarbox.text import printable

if TYPE_CHECKING:
    from pillarbox.inbox.door import Inbox

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_LAST_WAIT = 2.0


class First:
    """Whether the body is the first to handle its key: true for one caller, false for whoever came while or after it."""

    def __init__(self, begun: Begun) -> None:
        self.status: BeginStatus = begun.status
        self.lease_id: str | None = begun.lease_id
        self.expires_at: datetime | None = begun.expires_at
        self.result: Any = begun.result

    def __bool__(self) -> bool:
        return self.status == "Acquired"

    def __repr__(self) -> str:
        return f"<First {self.status}>"

    def keep(self, result: Any) -> None:
        """Keep a JSON value of at most 64 KiB for those who come later; it is refused here, not after the work is done."""
        result_text(result)
        self.result = result

    def try_keep(self, result: Any) -> None:
        """Keep a value if it can be kept."""
        with suppress(InvalidInput):
            self.keep(result)


class Once:
    """One run of a body; made by `Inbox.once`, used once."""

    def __init__(
        self, inbox: Inbox, key: str, *, lease: float | None, owner: str | None, fingerprint: str | None
    ) -> None:
        self._inbox = inbox
        self._key = key
        self._asked = lease
        self._length = inbox.lease_for(lease)
        self._owner = owner
        self._fingerprint = fingerprint
        self._held: _Held | None = None
        self._lease_id = uuid.uuid4().hex

    async def __aenter__(self) -> First:
        """Begin; after an answer that was lost, entering again takes up the very lease it may have got."""
        self._held = None
        beginning = asyncio.create_task(self._begin(self._lease_id))
        try:
            begun, began = await asyncio.shield(beginning)
        except asyncio.CancelledError:
            given, self._lease_id = self._lease_id, uuid.uuid4().hex
            await _see_off(asyncio.create_task(self._give_back(beginning, given)))
            raise
        self._lease_id = uuid.uuid4().hex
        self._first = First(begun)
        if begun.lease_id is not None:
            self._held = _Held(self._inbox, self._key, begun.lease_id, asked=self._asked, length=self._length)
            self._held.start(began)
        return self._first

    async def _begin(self, lease_id: str) -> tuple[Begun, float]:
        """The answer, and when it was asked for."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        begun = await self._inbox.try_begin(
            self._key, lease=self._asked, owner=self._owner, fingerprint=self._fingerprint, lease_id=lease_id
        )
        while begun.lease_id is not None and loop.time() - began >= self._length:
            # The answer was so late that the lease may be over, and another's: nothing begins under such a one.
            began = loop.time()
            if (await self._inbox.extend(self._key, begun.lease_id, lease=self._asked)).status == "LeaseLost":
                begun = BUSY
        return begun, began

    async def _give_back(self, beginning: asyncio.Task[Any], lease_id: str) -> None:
        """The lease may be given all the same, and nobody would work under it."""
        await asyncio.wait([beginning])
        with suppress(Exception):
            await self._inbox.release(self._key, lease_id)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        await held.stop(error)
        if error is None:
            await held.mark(self._first.result, patience=self._length)
        else:
            await held.let_go()

    async def mark(self, result: Any = None, *, patience: float) -> None:
        """Mark the key now, before the body ends; tries for `patience` seconds."""
        held, self._held = self._held, None
        if held is not None:
            await held.stop(None)
            await held.mark(result, patience=patience)

    async def release(self) -> None:
        """Release the key now, before the body ends."""
        held, self._held = self._held, None
        if held is not None:
            await held.stop(None)
            await held.let_go()


class _Held:
    """A lease in use: renewed from a task, and its body cancelled when it is lost."""

    def __init__(self, inbox: Inbox, key: str, lease_id: str, *, asked: float | None, length: float) -> None:
        self._inbox = inbox
        self._key = key
        self._lease_id = lease_id
        self._asked = asked
        self._length = length
        self._lost = False

    def start(self, began: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends = began + self._length
        self._body = asyncio.current_task()
        self._cancels = self._body.cancelling() if self._body else 0
        self._renewing = asyncio.create_task(self._renew())

    async def stop(self, error: BaseException | None) -> None:
        """End the renewing; raises `LeaseLost` where the lease went while the body ran."""
        self._renewing.cancel()
        if not self._lost:
            return
        if not isinstance(error, asyncio.CancelledError):
            # The body ended in the very moment in which it was to be cancelled: that cancellation is still on its way.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        cancelled_by_others = self._body is not None and self._body.uncancel() > self._cancels
        if cancelled_by_others and not isinstance(error, asyncio.CancelledError):
            raise asyncio.CancelledError
        if error is None or (isinstance(error, asyncio.CancelledError) and not cancelled_by_others):
            await self.let_go()
            raise self._loss() from error

    async def mark(self, result: Any, *, patience: float) -> None:
        """Mark the key; tried again while the store is away, because the work is done and must not be done again."""
        give_up, pause = self._loop.time() + patience, _FIRST_PAUSE
        while True:
            try:
                answer = await self._try_to_mark(result)
                break
            except Unavailable:
                if self._loop.time() + pause > give_up:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        if answer.status == "LeaseLost":
            raise self._loss()

    async def _try_to_mark(self, result: Any) -> LeaseAnswer:
        """One try, which a cancellation lets end: the work is done, and without the mark it would be done again."""
        return await _whole(self._inbox.mark_processed(self._key, self._lease_id, result=result))

    async def let_go(self) -> None:
        """Release the key; where that fails the lease ends by itself, and the body's own error is the one to hear of."""
        with suppress(Exception):
            await _whole(self._inbox.release(self._key, self._lease_id))

    async def _renew(self) -> None:
        # Counted from the question, not from the answer, which may have been long in coming.
        pause = max(0.0, self._ends - self._length * 2 / 3 - self._loop.time())
        while True:
            await asyncio.sleep(pause)
            began = self._loop.time()
            try:
                # A loop that was held up wakes late: the store is asked once more before anything is given up.
                async with asyncio.timeout(max(self._ends - began, self._length / 3)):
                    answer = await self._inbox.extend(self._key, self._lease_id, lease=self._asked)
            except Exception:
                # Whatever keeps the store from answering: a lease that is not renewed ends.
                if self._loop.time() >= self._ends:
                    return self._lose()
                pause = min(_LONGEST_PAUSE, self._length / 10)
                continue
            if answer.status == "LeaseLost":
                return self._lose()
            self._ends, pause = began + self._length, self._length / 3

    def _lose(self) -> None:
        self._lost = True
        if self._body is not None:
            self._body.cancel()

    def _loss(self) -> LeaseLost:
        return LeaseLost(
            f"The lease on key {printable(self._key)} was lost while it was handled; it was not marked as processed."
        )


async def _whole(work: Coroutine[Any, Any, T]) -> T:
    """What it returns; a cancellation lets it end."""
    working = asyncio.create_task(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await _see_off(working)
        raise


async def _see_off(working: asyncio.Task[Any]) -> None:
    """Wait for what has to end, but not for long, however often the caller is cancelled; then it goes on alone."""
    await outlast(asyncio.wait([working], timeout=_LAST_WAIT))
