"""An inbox in the memory of one process, for tests; it forgets everything when it ends."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from pillarbox.clock import Clock, system_clock
from pillarbox.inbox.model import (
    BUSY,
    LEASE_LOST,
    MARKED,
    MISMATCH,
    RELEASED,
    UNKNOWN,
    Begun,
    LeaseAnswer,
    Sighting,
    differ,
    result_text,
    result_value,
)


@dataclass(slots=True)
class _Entry:
    first_seen: datetime
    last_seen: datetime
    status: Literal["free", "leased", "processed"] = "free"
    lease_id: str = ""
    lease_until: datetime | None = None
    fingerprint: str | None = None
    result: str | None = None
    attempts: int = 0

    def may_be_taken(self, lease_id: str, fingerprint: str | None, now: datetime) -> bool:
        if self.lease_until is None:
            return self.status == "free" and self.lease_id != lease_id
        return self.lease_until <= now and not differ(self.fingerprint, fingerprint)


class MemoryInbox:
    """An `InboxStore` that keeps every promise but the one about disks."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or system_clock()
        self._entries: dict[str, _Entry] = {}

    async def try_begin(
        self,
        key: str,
        *,
        lease: float,
        owner: str | None = None,
        fingerprint: str | None = None,
        lease_id: str | None = None,
    ) -> Begun:
        name, now = lease_id or uuid.uuid4().hex, self._clock.now()
        entry = self._entries.setdefault(key, _Entry(now, now))
        entry.last_seen = now
        if entry.may_be_taken(name, fingerprint, now):
            if entry.status == "free" or fingerprint is not None:
                entry.fingerprint = fingerprint
            entry.status, entry.lease_id, entry.attempts = "leased", name, entry.attempts + 1
            entry.lease_until = now + timedelta(seconds=lease)
        if entry.status != "free" and differ(entry.fingerprint, fingerprint):
            return MISMATCH
        if entry.status == "leased" and entry.lease_id == name:
            return Begun("Acquired", name, entry.lease_until)
        return Begun("Processed", result=result_value(entry.result)) if entry.status == "processed" else BUSY

    async def extend(self, key: str, lease_id: str, *, lease: float) -> LeaseAnswer:
        entry = self._held(key, lease_id)
        if entry is None or entry.status != "leased":
            return LEASE_LOST
        entry.last_seen = self._clock.now()
        entry.lease_until = entry.last_seen + timedelta(seconds=lease)
        return LeaseAnswer("Extended", entry.lease_until)

    async def mark_processed(self, key: str, lease_id: str, *, result: Any = None) -> LeaseAnswer:
        text = result_text(result)
        entry = self._held(key, lease_id)
        if entry is None or entry.status == "free":
            return LEASE_LOST
        if entry.status == "leased":
            entry.status, entry.lease_until, entry.result = "processed", None, text
        return MARKED

    async def release(self, key: str, lease_id: str) -> LeaseAnswer:
        entry = self._held(key, lease_id)
        if entry is None or entry.status == "processed":
            return LEASE_LOST
        entry.status, entry.lease_until = "free", None
        return RELEASED

    async def look(self, key: str) -> Sighting:
        entry = self._entries.get(key)
        if entry is None:
            return UNKNOWN
        seen = (entry.attempts, entry.first_seen, entry.last_seen)
        if entry.lease_until is not None and entry.lease_until > self._clock.now():
            return Sighting("Leased", *seen, entry.lease_until)
        return Sighting("Processed" if entry.status == "processed" else "Free", *seen)

    async def close(self) -> None:
        """Nothing was opened."""

    def _held(self, key: str, lease_id: str) -> _Entry | None:
        entry = self._entries.get(key)
        return entry if entry is not None and entry.lease_id == lease_id else None
