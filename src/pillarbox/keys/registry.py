"""Making, finding and revoking API keys."""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime

import msgspec
import uuid_utils

from pillarbox.audit import Act, Audit
from pillarbox.errors import InvalidInput, NotFound
from pillarbox.keys.model import Key, NewKey
from pillarbox.storage import Database, Row, Step, instant, instant_or_none, load_queries
from pillarbox.text import check_name, printable

_queries = load_queries("pillarbox.keys")

PREFIX = "pbx_"
_LENGTH = len(PREFIX) + len(secrets.token_urlsafe(32))
_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_REMEMBERED_SECONDS = 1.0
_MOST_REMEMBERED = 1000


class Keys:
    """The API keys of one database.

    A key found is remembered for a second, so that a request does not cost a read; what this process revokes is gone at
    once, what another one revokes within that second.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._clock = database.clock
        self._audit = Audit(database)
        self._remembered: dict[str, tuple[Key, float]] = {}
        self._revocations = 0

    async def create(
        self, *, tenant: str | None = None, name: str | None = None, expires_at: datetime | None = None
    ) -> NewKey:
        """Make a key; without a tenant it is an admin key. Its text is in the answer and nowhere else."""
        if tenant is not None and not _TENANT.fullmatch(tenant):
            raise InvalidInput("tenant", "must be 1 to 63 of a-z, 0-9, _ and -, and begin with a letter or digit.")
        if name is not None:
            check_name("name", name, most=200)
        until = None if expires_at is None else self._stored(expires_at)
        now = self._clock.now()
        key_id, key = str(uuid_utils.uuid7()), PREFIX + secrets.token_urlsafe(32)

        def work() -> Step[None]:
            yield _queries.insert(
                key_id=key_id, digest=_digest(key), tenant=tenant, name=name, now=now, expires_at=until
            )

        await self._audit.write(Act("key.create", "key", key_id, tenant), work)
        shown = self._clock.shown
        return NewKey(key_id, key, tenant, name, shown(now), None if until is None else shown(until))

    async def list(self, *, limit: int = 100, after: str = "") -> list[Key]:
        """Keys in the order they were made, from the one after `after`; revoked and expired ones too."""

        def work() -> Step[list[Key]]:
            return [_key(row) for row in (yield _queries.list(after=after, limit=limit))]

        return [self._shown(key) for key in await self._database.read(work)]

    async def revoke(self, key_id: str) -> None:
        """End a key; ending it again changes nothing."""
        now = self._clock.now()

        def work() -> Step[str | None]:
            rows = yield _queries.revoke(key_id=key_id, now=now)
            if not rows:
                raise NotFound(f"There is no key {printable(key_id)}; list the keys to see their ids.")
            tenant: str | None = rows[0][0]
            return tenant

        await self._audit.write(lambda tenant: Act("key.revoke", "key", key_id, tenant), work)
        self._forget()

    async def revoke_tenant(self, tenant: str) -> None:
        """End every key of a tenant."""
        now = self._clock.now()

        def work() -> Step[None]:
            yield _queries.revoke_tenant(tenant=tenant, now=now)

        await self._database.write(work)
        self._forget()

    async def find(self, key: str) -> Key | None:
        """Whose key this is, or None when it is unknown, expired or revoked."""
        if len(key) != _LENGTH or not key.startswith(PREFIX):
            return None
        digest, moment = _digest(key), self._clock.monotonic()
        known = self._remembered.get(digest)
        if known is None or known[1] <= moment:
            return await self._look_up(digest, until=moment + _REMEMBERED_SECONDS)
        found = known[0]
        return self._shown(found) if found.expires_at is None or found.expires_at > self._clock.now() else None

    async def any_admin(self) -> bool:
        """Whether somebody holds an admin key that works."""
        now = self._clock.now()

        def work() -> Step[bool]:
            return bool((yield _queries.any_admin(now=now)))

        return await self._database.read(work)

    async def _look_up(self, digest: str, *, until: float) -> Key | None:
        now, revocations = self._clock.now(), self._revocations

        def work() -> Step[Key | None]:
            rows = yield _queries.find(digest=digest, now=now)
            return _key(rows[0]) if rows else None

        found = await self._database.read(work)
        if found is None:
            return None
        # A revocation that came while this read was under way may be newer than what it saw.
        if revocations == self._revocations:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[digest] = (found, until)
        return self._shown(found)

    def _forget(self) -> None:
        self._revocations += 1
        self._remembered.clear()

    def _stored(self, expires_at: datetime) -> datetime:
        if expires_at.tzinfo is None:
            raise InvalidInput("expires_at", "must carry an offset, as in 2030-01-31T12:00:00Z.")
        if not 1971 <= expires_at.year <= 9000:
            raise InvalidInput("expires_at", "must be between the years 1971 and 9000.")
        return self._clock.stored(expires_at)

    def _shown(self, key: Key) -> Key:
        shown = self._clock.shown
        return msgspec.structs.replace(
            key,
            created_at=shown(key.created_at),
            expires_at=shown(key.expires_at) if key.expires_at else None,
            revoked_at=shown(key.revoked_at) if key.revoked_at else None,
        )


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _key(row: Row) -> Key:
    key_id, tenant, name, created_at, expires_at, revoked_at = row
    return Key(key_id, tenant, name, instant(created_at), instant_or_none(expires_at), instant_or_none(revoked_at))
