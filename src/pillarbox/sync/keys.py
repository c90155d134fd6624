"""API keys, without awaiting."""

from __future__ import annotations

from datetime import datetime

from pillarbox.keys import Keys as AsyncKeys
from pillarbox.keys.model import Key, NewKey
from pillarbox.sync.thread import BoxThread


class Keys:
    """The API keys of one database."""

    def __init__(self, thread: BoxThread, keys: AsyncKeys) -> None:
        self._thread = thread
        self._keys = keys

    def create(
        self, *, tenant: str | None = None, name: str | None = None, expires_at: datetime | None = None
    ) -> NewKey:
        """Make a key; without a tenant it is an admin key. Its text is in the answer and nowhere else."""
        return self._thread.call(self._keys.create, tenant=tenant, name=name, expires_at=expires_at)

    def list(self, *, limit: int = 100, after: str = "") -> list[Key]:
        """Keys in the order they were made, from the one after `after`; revoked and expired ones too."""
        return self._thread.call(self._keys.list, limit=limit, after=after)

    def revoke(self, key_id: str) -> None:
        """End a key; ending it again changes nothing."""
        self._thread.call(self._keys.revoke, key_id)
