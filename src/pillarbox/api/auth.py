"""Who is calling: checked before path, method and body."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from pillarbox.api.problems import no_such_path, unauthorized
from pillarbox.keys import Keys

_SCHEME = b"bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever holds a valid key; without a tenant an admin."""

    tenant: str | None
    who: str = "key:configured"


ADMIN = Caller(None)


class Gate:
    """Tells admins, tenants and strangers apart."""

    def __init__(self, keys: Keys, admin_key: str | None) -> None:
        self._keys = keys
        self._admin_digest = hashlib.sha256(admin_key.encode()).digest() if admin_key else None

    async def check(self, authorization: bytes | None, segments: Sequence[str | None]) -> Caller:
        """Let a caller into /v1, or refuse as if there were nothing there."""
        caller = await self.caller(authorization)
        if caller.tenant is not None and tuple(segments[1:3]) != ("tenants", caller.tenant):
            raise no_such_path()
        return caller

    async def check_admin(self, authorization: bytes | None) -> None:
        if (await self.caller(authorization)).tenant is not None:
            raise no_such_path()

    async def caller(self, authorization: bytes | None) -> Caller:
        if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
            raise unauthorized()
        caller = await self.holder(authorization[len(_SCHEME) :].strip())
        if caller is None:
            raise unauthorized()
        return caller

    async def holder(self, key: bytes) -> Caller | None:
        """Whose key this is; the admin key is compared by digest and in constant time."""
        if self._admin_digest and hmac.compare_digest(hashlib.sha256(key).digest(), self._admin_digest):
            return ADMIN
        if not key.isascii():
            return None
        found = await self._keys.find(key.decode("ascii"))
        return None if found is None else Caller(found.tenant, f"key:{found.key_id}")
