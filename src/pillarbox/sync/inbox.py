"""The inbox, without awaiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from pillarbox.errors import KeyBusy, PillarboxError
from pillarbox.inbox import Inbox as AsyncInbox
from pillarbox.inbox.model import BeginStatus, Begun, LeaseAnswer, Sighting
from pillarbox.inbox.once import First as AsyncFirst
from pillarbox.inbox.once import Once as AsyncOnce
from pillarbox.sync.thread import BoxThread
from pillarbox.text import printable

P = ParamSpec("P")
R = TypeVar("R")


class Inbox:
    """Handle each key once: a lease while somebody works, a memory afterwards."""

    def __init__(self, thread: BoxThread, inbox: AsyncInbox) -> None:
        self._thread = thread
        self._inbox = inbox

    def once(
        self, key: str, *, lease: float | None = None, owner: str | None = None, fingerprint: str | None = None
    ) -> Once:
        """`with inbox.once(key) as first:` runs its body under a lease on the key; do the work `if first`.

        The lease is renewed meanwhile, the key marked when the body ends and released when it raises. A thread cannot be
        stopped: when the lease is lost `first.lost` turns true, and at the end of the body `LeaseLost` is raised.
        """
        return Once(self._thread, lambda: self._inbox.once(key, lease=lease, owner=owner, fingerprint=fingerprint))

    def idempotent(
        self, *, key: Callable[..., str], lease: float | None = None
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorate a function to run once for each key that `key` makes of its arguments.

        A later call answers what the first one returned, as JSON has it: text, numbers, lists, dicts. What is no JSON, or
        larger than 64 KiB, is not kept, and later calls answer None. While the first call runs others raise `KeyBusy`.
        """

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            @wraps(function)
            def run(*args: P.args, **kwargs: P.kwargs) -> R:
                name = key(*args, **kwargs)
                with self.once(name, lease=lease) as first:
                    if first:
                        returned = function(*args, **kwargs)
                        first.try_keep(returned)
                        return returned
                    if first.status == "Busy":
                        raise KeyBusy(f"Key {printable(name)} is being handled; try again later.")
                    result: R = first.result
                    return result

            return run

        return decorate

    def is_processed(self, key: str) -> bool:
        """Whether the key was handled before."""
        return self._thread.call(self._inbox.is_processed, key)

    def mark_processed(self, key: str, lease_id: str | None = None, *, result: Any = None) -> LeaseAnswer:
        """Remember a key as handled. Without a lease it takes one for the moment, and raises `KeyBusy` where another holds it."""
        return self._thread.call(self._inbox.mark_processed, key, lease_id, result=result)

    def try_begin(
        self,
        key: str,
        *,
        lease: float | None = None,
        owner: str | None = None,
        fingerprint: str | None = None,
        lease_id: str | None = None,
    ) -> Begun:
        """Take a key, or say why not."""
        return self._thread.call(
            self._inbox.try_begin, key, lease=lease, owner=owner, fingerprint=fingerprint, lease_id=lease_id
        )

    def extend(self, key: str, lease_id: str, *, lease: float | None = None) -> LeaseAnswer:
        """Hold a key for longer."""
        return self._thread.call(self._inbox.extend, key, lease_id, lease=lease)

    def release(self, key: str, lease_id: str) -> LeaseAnswer:
        """Give a key up, so that another may begin."""
        return self._thread.call(self._inbox.release, key, lease_id)

    def look(self, key: str) -> Sighting:
        """What is known of a key."""
        return self._thread.call(self._inbox.look, key)


class First:
    """Whether the body is the first to handle its key: true for one caller, false for whoever came while or after it."""

    def __init__(self, first: AsyncFirst, held: _Held) -> None:
        self._first = first
        self._held = held

    def __bool__(self) -> bool:
        return bool(self._first)

    def __repr__(self) -> str:
        return repr(self._first)

    @property
    def status(self) -> BeginStatus:
        return self._first.status

    @property
    def lease_id(self) -> str | None:
        return self._first.lease_id

    @property
    def result(self) -> Any:
        return self._first.result

    @property
    def lost(self) -> bool:
        """Whether the lease is gone while the body still runs: somebody else may be at work, so leave off."""
        return bool(self._first) and self._held.over

    def keep(self, result: Any) -> None:
        """Keep a JSON value of at most 64 KiB for those who come later; it is refused here, not after the work is done."""
        self._first.keep(result)

    def try_keep(self, result: Any) -> None:
        """Keep a value if it can be kept."""
        self._first.try_keep(result)


class Once:
    """One run of a body; made by `Inbox.once`."""

    def __init__(self, thread: BoxThread, make: Callable[[], AsyncOnce]) -> None:
        self._thread = thread
        self._make = make

    def __enter__(self) -> First:
        self._held = _Held(self._make())
        return First(self._thread.call(self._held.begin), self._held)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._thread.call_patiently(self._held.end, well=True)
            return
        # The body's own error is the one to hear of.
        with suppress(PillarboxError):
            self._thread.call_patiently(self._held.end, well=False)


class _BodyFailed(Exception):
    """The body raised, in its own thread."""


class _Held:
    """A key held for a body in another thread, by a task that stands for it."""

    def __init__(self, once: AsyncOnce) -> None:
        self._once = once
        self._left = asyncio.Event()
        self._well = True

    @property
    def over(self) -> bool:
        return self._standing.done()

    async def begin(self) -> AsyncFirst:
        """Take the key, or say why not; a caller who does not wait for the answer holds nothing."""
        entered: asyncio.Future[AsyncFirst] = asyncio.get_running_loop().create_future()
        self._standing = asyncio.create_task(self._stand(entered))
        try:
            waited_for: list[asyncio.Future[Any]] = [entered, self._standing]
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._standing.cancel()
            raise
        if not entered.done():
            await self._standing
        return entered.result()

    async def end(self, *, well: bool) -> None:
        """Mark the key or release it; raises `LeaseLost` where it was no longer ours to mark."""
        self._well = well
        self._left.set()
        await asyncio.shield(self._standing)

    async def _stand(self, entered: asyncio.Future[AsyncFirst]) -> None:
        with suppress(_BodyFailed):
            async with self._once as first:
                entered.set_result(first)
                await self._left.wait()
                if not self._well:
                    raise _BodyFailed
