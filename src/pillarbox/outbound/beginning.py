"""When a send begins: soon after the last look at who has opted out, or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from pillarbox.clock import Clock
from pillarbox.outbound.attempt import Parcel

START_WITHIN = timedelta(seconds=2)
"""No send begins this long after its claim was last confirmed: whoever opts out waits for those that may."""

_FRESH = START_WITHIN / 2

Confirm = Callable[[Parcel, datetime], Awaitable[bool]]
"""Marks a message as about to be sent from that time on; False where it may not be sent any more."""


class NotBegun(Exception):
    """The message was opted out of, expired or was taken away before any of it left."""


class Beginning:
    """Awaited right before the first byte of a message leaves; costs nothing soon after the claim."""

    __slots__ = ("_clock", "_confirm", "_confirmed_at", "_parcel", "begun")

    def __init__(self, parcel: Parcel, confirm: Confirm, clock: Clock) -> None:
        self._parcel = parcel
        self._confirm = confirm
        self._clock = clock
        self._confirmed_at = parcel.claimed_at
        self.begun = False

    async def __call__(self) -> None:
        # Again if confirming took so long that it says nothing any more.
        while (now := self._clock.now()) - self._confirmed_at >= _FRESH:
            if not await self._confirm(self._parcel, now):
                raise NotBegun
            self._confirmed_at = now
        self.begun = True
