"""Short-lived links to a tenant's own messages, to be shown inside the tenant's pages."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import msgspec

from pillarbox.audit import Act, Audit
from pillarbox.errors import InvalidInput, NotFound
from pillarbox.outbound.tenants import unknown_tenant
from pillarbox.secrets.sealing import Sealer
from pillarbox.storage import Database, Step, instant, load_queries

_queries = load_queries("pillarbox.operators", "embeds.sql")

LONGEST_SECONDS = 86_400
DEFAULT_SECONDS = 3600
_PURPOSE = "embed"
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]{1,255}")


class EmbedLink(msgspec.Struct, frozen=True, kw_only=True):
    """Where the messages of one tenant can be read, by anybody who has the link, until it expires or is revoked."""

    url: str
    token: str
    expires_at: datetime


class Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """What a good link lets its holder see, and which site may frame it."""

    tenant_id: str
    origin: str | None
    expires_at: datetime


class Embeds:
    """Makes such links and reads them; each is sealed with a key derived for links, so that nobody else can make one."""

    def __init__(self, database: Database, sealer: Sealer, *, public_url: str | None) -> None:
        self._database = database
        self._clock = database.clock
        self._audit = Audit(database)
        self._sealer = sealer
        self._public_url = public_url or ""

    async def make(self, tenant_id: str, *, expires_in: int = DEFAULT_SECONDS, origin: str | None = None) -> EmbedLink:
        """A link to a tenant's messages; `origin` is the site that may show it in a frame."""
        if not 1 <= expires_in <= LONGEST_SECONDS:
            raise InvalidInput("expires_in", f"must be 1 to {LONGEST_SECONDS} seconds.")
        if origin is not None and not _ORIGIN.fullmatch(origin):
            raise InvalidInput("origin", "must be scheme://host or scheme://host:port, without a path.")
        until = self._clock.now() + timedelta(seconds=expires_in)
        act = Act("embed.make", "tenant", tenant_id, tenant_id)
        epoch = await self._audit.write(act, lambda: _epoch(tenant_id))
        token = self._sealer.token((_PURPOSE, tenant_id, epoch, until.isoformat(), origin or ""))
        return EmbedLink(url=f"{self._public_url}/embed/{token}", token=token, expires_at=self._clock.shown(until))

    async def open(self, token: str) -> Embedded | None:
        """What a link lets its holder see; None for one that is not ours, has expired, or was revoked."""
        read = self._sealer.read_token(token)
        if read is None or len(read) != 5 or read[0] != _PURPOSE:
            return None
        _, tenant_id, epoch, until, origin = read
        expires_at = datetime.fromisoformat(until)
        if expires_at <= self._clock.now():
            return None

        try:
            present = await self._database.read(lambda: _epoch(tenant_id))
        except NotFound:
            return None
        if present != epoch:
            return None
        return Embedded(tenant_id=tenant_id, origin=origin or None, expires_at=self._clock.shown(expires_at))

    async def revoke(self, tenant_id: str) -> None:
        """Make every link that was made for a tenant worthless."""

        def work() -> Step[None]:
            yield from _epoch(tenant_id)
            yield _queries.revoke(tenant_id=tenant_id)

        await self._audit.write(Act("embed.revoke", "tenant", tenant_id, tenant_id), work)


def _epoch(tenant_id: str) -> Step[str]:
    """What links are bound to: it changes when they are revoked, and with a new tenant of the same name."""
    rows = yield _queries.epoch(tenant_id=tenant_id)
    if not rows:
        raise unknown_tenant(tenant_id)
    return f"{rows[0][0]} {instant(rows[0][1]).isoformat()}"
