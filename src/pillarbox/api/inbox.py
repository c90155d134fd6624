"""/v1/inbox"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

import pillarbox
from pillarbox.api.answers import Answer, ok
from pillarbox.api.call import Call
from pillarbox.inbox.announcement import announce
from pillarbox.inbox.header import lease_id

LeaseSeconds = Annotated[float, Meta(description="Clamped into 30 to 120; the answer tells the true end.")]


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    key: str


class BeginRequest(_Request, frozen=True, kw_only=True):
    """A key to take; a `fingerprint` tells another request with the same key apart."""

    owner: str | None = None
    lease_seconds: LeaseSeconds | None = None
    fingerprint: str | None = None


class ExtendRequest(_Request, frozen=True, kw_only=True):
    """A lease to hold for longer."""

    lease_id: str
    lease_seconds: LeaseSeconds | None = None


class MarkRequest(_Request, frozen=True, kw_only=True):
    """A key that was handled; `result` is kept for those who come later."""

    lease_id: str
    result: Any = None


class ReleaseRequest(_Request, frozen=True, kw_only=True):
    """A lease to give up."""

    lease_id: str


async def try_begin(call: Call) -> Answer:
    """`Pillarbox-Lease-Id` names the lease, so that a call whose answer was lost may be repeated."""
    asked: BeginRequest = call.body
    begun = await call.box.inbox.try_begin(
        asked.key,
        lease=asked.lease_seconds,
        owner=asked.owner,
        fingerprint=asked.fingerprint,
        lease_id=lease_id(call.scope["headers"]),
    )
    return ok(begun)


async def extend(call: Call) -> Answer:
    asked: ExtendRequest = call.body
    return ok(await call.box.inbox.extend(asked.key, asked.lease_id, lease=asked.lease_seconds))


async def mark_processed(call: Call) -> Answer:
    asked: MarkRequest = call.body
    return ok(await call.box.inbox.mark_processed(asked.key, asked.lease_id, result=asked.result))


async def release(call: Call) -> Answer:
    asked: ReleaseRequest = call.body
    return ok(await call.box.inbox.release(asked.key, asked.lease_id))


async def look(call: Call) -> Answer:
    return ok(await call.box.inbox.look(call.path["key"]))


async def announcement(call: Call) -> Answer:
    settings = call.box.settings
    host = (call.head.host or b"").decode("latin-1")
    announced = announce(
        name=call.box.node,
        version=pillarbox.__version__,
        url=settings.http.public_url or f"{call.scope.get('scheme', 'http')}://{host}",
        lease_seconds=settings.inbox.lease_seconds,
        retention_days=settings.inbox.retention_days,
    )
    return ok(announced)
