"""/v1/keys"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from pillarbox.api.answers import Answer, ok
from pillarbox.api.call import Call
from pillarbox.api.paging import Cursor, Limit, page, text_after


class KeyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to make; without a tenant it is an admin key."""

    tenant: str | None = None
    name: str | None = None
    expires_at: Annotated[datetime, Meta(tz=True)] | None = None


class KeyFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which keys to list."""

    limit: Limit = 100
    cursor: Cursor = ""


async def create_key(call: Call) -> Answer:
    request: KeyRequest = call.body
    made = await call.box.keys.create(tenant=request.tenant, name=request.name, expires_at=request.expires_at)
    return ok(made, 201)


async def list_keys(call: Call) -> Answer:
    query: KeyFilter = call.query
    keys = await call.box.keys.list(limit=query.limit + 1, after=text_after(query.cursor, "key"))
    return ok(page(keys, limit=query.limit, kind="key", position=lambda key: key.key_id))


async def revoke_key(call: Call) -> Answer:
    await call.box.keys.revoke(call.path["key_id"])
    return Answer(204, None)
