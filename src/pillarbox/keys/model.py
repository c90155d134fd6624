"""API keys as they are made and as they are shown; a key itself is shown once and kept only as its digest."""

from __future__ import annotations

from datetime import datetime

import msgspec


class NewKey(msgspec.Struct, frozen=True):
    """A key that was just made; nobody can read `key` again."""

    key_id: str
    key: str
    tenant: str | None
    name: str | None
    created_at: datetime
    expires_at: datetime | None


class Key(msgspec.Struct, frozen=True):
    """A key without its secret; one with no tenant is an admin key."""

    key_id: str
    tenant: str | None
    name: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
