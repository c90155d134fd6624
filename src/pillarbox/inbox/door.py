"""The door of the inbox: checks what it is given, keeps leases within their bounds, and runs things once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pillarbox.errors import InvalidInput, KeyBusy
from pillarbox.inbox.keys import LONGEST_KEY
from pillarbox.inbox.model import Begun, LeaseAnswer, Sighting
from pillarbox.inbox.once import Once
from pillarbox.inbox.store import InboxStore
from pillarbox.text import check_text, printable

P = ParamSpec("P")
R = TypeVar("R")

LEAST_LEASE, MOST_LEASE = 30.0, 120.0
LONGEST_NAME = 255
_MARK_TRIES = 20
_MARK_PAUSE = 0.05


def _uncounted(call: str, outcome: str) -> None:
    """Where nobody counts."""


class Inbox:
    """Handle each key once: a lease while somebody works, a memory afterwards.

    `lease` is how many seconds a key is held when the caller does not say, at most 120; what a caller says is clamped into
    30 to 120.
    `answered` is told the name and the outcome of each call.
    """

    def __init__(
        self, store: InboxStore, *, lease: float = 60.0, answered: Callable[[str, str], None] = _uncounted
    ) -> None:
        if not 0 < lease <= MOST_LEASE:
            # A service gives no more; who believes in more renews too late.
            raise InvalidInput("lease", f"must be more than 0 and at most {MOST_LEASE:.0f} seconds.")
        self.store = store
        self.lease = lease
        self._answered = answered

    def once(
        self, key: str, *, lease: float | None = None, owner: str | None = None, fingerprint: str | None = None
    ) -> Once:
        """`async with inbox.once(key) as first:` runs its body under a lease on the key; do the work `if first`.

        The lease is renewed while the body runs. The key is marked when the body ends and released when it raises. When
        the lease is lost the body is cancelled and `LeaseLost` raised: somebody else may be at work, so nothing is marked.
        `first.status` tells `Processed` from `Busy`: a message whose key is busy is not done yet and must come again.
        """
        return Once(self, key, lease=lease, owner=owner, fingerprint=fingerprint)

    def idempotent(
        self, *, key: Callable[..., str], lease: float | None = None
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R]]]:
        """Decorate an async function to run once for each key that `key` makes of its arguments.

        A later call answers what the first one returned, as JSON has it: text, numbers, lists, dicts. What is no JSON, or
        larger than 64 KiB, is not kept, and later calls answer None. While the first call runs others raise `KeyBusy`.
        """

        def decorate(function: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
            @wraps(function)
            async def run(*args: P.args, **kwargs: P.kwargs) -> R:
                name = key(*args, **kwargs)
                async with self.once(name, lease=lease) as first:
                    if first:
                        returned = await function(*args, **kwargs)
                        first.try_keep(returned)
                        return returned
                    if first.status == "Busy":
                        raise KeyBusy(f"Key {printable(name)} is being handled; try again later.")
                    result: R = first.result
                    return result

            return run

        return decorate

    async def is_processed(self, key: str) -> bool:
        """Whether the key was handled before."""
        return (await self.look(key)).status == "Processed"

    async def mark_processed(self, key: str, lease_id: str | None = None, *, result: Any = None) -> LeaseAnswer:
        """Remember a key as handled. Without a lease it takes one for the moment, and raises `KeyBusy` where another holds it."""
        if lease_id is not None:
            self._check_lease(key, lease_id)
            return self._counted("mark-processed", await self.store.mark_processed(key, lease_id, result=result))
        for _ in range(_MARK_TRIES):
            begun = await self.try_begin(key)
            if begun.lease_id is not None:
                return await self.mark_processed(key, begun.lease_id, result=result)
            if begun.status == "Processed":
                return LeaseAnswer("Processed")
            await asyncio.sleep(_MARK_PAUSE)
        raise KeyBusy(f"Key {printable(key)} is being handled by someone else; it is theirs to mark.")

    async def try_begin(
        self,
        key: str,
        *,
        lease: float | None = None,
        owner: str | None = None,
        fingerprint: str | None = None,
        lease_id: str | None = None,
    ) -> Begun:
        """Take a key, or say why not."""
        check_key(key)
        for field, value in (("owner", owner), ("fingerprint", fingerprint)):
            if value is not None:
                check_text(field, value, most=LONGEST_NAME)
        if lease_id is not None:
            check_text("leaseId", lease_id, least=1, most=LONGEST_NAME)
        begun = await self.store.try_begin(
            key, lease=self.lease_for(lease), owner=owner, fingerprint=fingerprint, lease_id=lease_id
        )
        self._answered("try-begin", begun.status)
        return begun

    async def extend(self, key: str, lease_id: str, *, lease: float | None = None) -> LeaseAnswer:
        """Hold a key for longer."""
        self._check_lease(key, lease_id)
        return self._counted("extend", await self.store.extend(key, lease_id, lease=self.lease_for(lease)))

    async def release(self, key: str, lease_id: str) -> LeaseAnswer:
        """Give a key up, so that another may begin."""
        self._check_lease(key, lease_id)
        return self._counted("release", await self.store.release(key, lease_id))

    async def look(self, key: str) -> Sighting:
        """What is known of a key."""
        check_key(key)
        return await self.store.look(key)

    def lease_for(self, asked: float | None) -> float:
        """The seconds that a caller who asks for so many gets."""
        if asked is None:
            return self.lease
        if math.isnan(asked):
            raise InvalidInput("leaseSeconds", "must be a number of seconds.")
        return min(max(float(asked), LEAST_LEASE), MOST_LEASE)

    def _check_lease(self, key: str, lease_id: str) -> None:
        check_key(key)
        check_text("leaseId", lease_id, least=1, most=LONGEST_NAME)

    def _counted(self, call: str, answer: LeaseAnswer) -> LeaseAnswer:
        self._answered(call, answer.status)
        return answer


def check_key(key: str) -> None:
    """Any text that every store can keep."""
    check_text("key", key, least=1, most=LONGEST_KEY)
