"""Is it alive, can it write, what waits, and what has it counted."""

from __future__ import annotations

import asyncio

import msgspec

from pillarbox.api.answers import Answer, ok
from pillarbox.api.call import Call
from pillarbox.api.problems import RETRY_AFTER
from pillarbox.box import Pillarbox
from pillarbox.errors import DatabaseBusy, DatabaseFull, Unavailable
from pillarbox.hooks.model import HooksStatus
from pillarbox.inbound.model import InboundStatus
from pillarbox.inbox import InboxStatus
from pillarbox.outbound.model import OutboundStatus
from pillarbox.telemetry import brief, logger

_log = logger(__name__)
_SECONDS_TO_WRITE = 2.0
_CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Health(msgspec.Struct, frozen=True):
    """A word for a load balancer."""

    status: str


class NotReady(msgspec.Struct, frozen=True):
    """The same, and why: `full` (the disk), `busy` (no write in time) or `unwritable` (whatever the log says)."""

    status: str
    reason: str


class BoxStatus(msgspec.Struct, frozen=True):
    """What waits, pipe by pipe."""

    inbound: InboundStatus
    hooks: HooksStatus
    outbound: OutboundStatus
    inbox: InboxStatus


class Readiness:
    """Tells whether the database takes writes; however many ask, one write at a time finds out."""

    def __init__(self, box: Pillarbox) -> None:
        self._box = box
        self._running: asyncio.Task[str | None] | None = None

    async def fault(self) -> str | None:
        """Why there are no writes, in a word; None where there are."""
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._write())
        done, _ = await asyncio.wait([self._running], timeout=_SECONDS_TO_WRITE)
        return self._running.result() if done else "busy"

    async def _write(self) -> str | None:
        try:
            await self._box.rehearse()
        except Exception as error:
            _log.warning("not ready: the database takes no writes", error=brief(error))
            return _reason(error)
        return None


def _reason(error: Exception) -> str:
    match error:
        case DatabaseFull():
            return "full"
        case DatabaseBusy():
            return "busy"
    return "unwritable"


async def healthz(call: Call) -> Answer:
    return ok(Health("ok"))


async def readyz(call: Call) -> Answer:
    reason = await call.api.readiness.fault()
    if reason is None:
        return ok(Health("ready"))
    return Answer(503, msgspec.json.encode(NotReady("unavailable", reason)), headers=(RETRY_AFTER,))


async def metrics(call: Call) -> Answer:
    if not call.box.settings.metrics.public:
        await call.api.gate.check_admin(call.head.authorization)
    for pipe, status in (
        ("inbound", call.box.inbound.status),
        ("hooks", call.box.hooks.status),
        ("outbound", call.box.outbound.status),
    ):
        try:
            await status()
        except Unavailable:
            _log.warning("metrics: the queue lengths are old, because the database cannot be read", pipe=pipe)
    return Answer(200, call.box.metrics.exposition(), _CONTENT_TYPE)


async def status(call: Call) -> Answer:
    box = call.box
    return ok(
        BoxStatus(
            await box.inbound.status(),
            await box.hooks.status(),
            await box.outbound.status(),
            await box.inbox_status(),
        )
    )
