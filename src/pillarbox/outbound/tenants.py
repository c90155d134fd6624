"""Tenants: who sends, by which providers, with whose credentials and how much."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import msgspec

from pillarbox.audit import Act, Audit, actor
from pillarbox.audit.ledger import noted
from pillarbox.errors import ChangedMeanwhile, InvalidInput, NotFound, TenantBusy
from pillarbox.outbound.destinations import check_origin
from pillarbox.outbound.lane import queries
from pillarbox.outbound.model import CHANNELS, NewTenant, Rate, Tenant, TenantSettings
from pillarbox.outbound.rates import Cap, next_free, sound
from pillarbox.storage import Database, Row, Step, instant, legible_or_none, load_queries
from pillarbox.text import check_json, check_text, printable

_queries = load_queries("pillarbox.outbound", "tenants.sql")

CONVERSATIONS = "pillarbox-conversations"
"""The tenant of replies to chats; nobody else's."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_MOST_PER_MINUTE = 1_000_000
_MOST_ATTEMPTS = 20
_MOST_TRUSTED = 100
_LARGEST = 64 * 1024
_KEPT_SECONDS = 1.0
_ERASED_AT_ONCE = 500
_TAG = "\U000e0001"
"""Behind U+FFFD it stands for what a disk damaged: `is_legible` would take one that was handed in for that."""


class Tenants:
    """The tenants of one database."""

    def __init__(self, database: Database, *, check_provider: Any, default_rate: int) -> None:
        self._database = database
        self._clock = database.clock
        self._audit = Audit(database)
        self._check_provider = check_provider
        self._default_rate = default_rate
        self._kept: dict[str, tuple[float, Tenant]] = {}
        self._asking: dict[str, asyncio.Task[Tenant]] = {}
        self.revoke_keys: Callable[[str], Awaitable[object]] | None = None

    async def set(
        self,
        tenant_id: str,
        *,
        name: str | None = None,
        providers: dict[str, dict[str, Any]] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> Tenant:
        """Make a tenant or replace what is known of it, from plain values."""
        try:
            chosen = msgspec.convert(settings or {}, TenantSettings)
        except msgspec.ValidationError as error:
            raise InvalidInput("settings", str(error)) from None
        return (await self.put(tenant_id, NewTenant(name=name, providers=providers or {}, settings=chosen)))[0]

    async def put(
        self, tenant_id: str, new: NewTenant, *, seen: str | None = None, must_be_new: bool = False
    ) -> tuple[Tenant, bool]:
        """Make a tenant or replace what is known of it; answers it, and whether it is new.

        With the `fingerprint` of what was read before, what somebody else changed since then is not overwritten. One that
        must be new overwrites nothing, even if somebody else makes it at the same moment.
        """
        check_tenant_id(tenant_id)
        if tenant_id == CONVERSATIONS:
            raise InvalidInput("tenant", "is kept for replies to chats; choose another name.")
        self._check(new)
        now = self._clock.now()

        def work() -> Step[tuple[Row, bool]]:
            known = yield queries.lock_tenant(tenant_id=tenant_id)
            before = (yield queries.tenant(tenant_id=tenant_id)) if known else []
            if seen is not None and (not before or fingerprint(self._tenant(before[0])) != seen):
                raise ChangedMeanwhile(f"Tenant {tenant_id} was changed by somebody else meanwhile; read it again.")
            yield _queries.put_tenant(
                tenant_id=tenant_id,
                name=new.name,
                providers=json.dumps(new.providers, ensure_ascii=False),
                settings=msgspec.json.encode(new.settings).decode(),
                rate_per_minute=new.settings.rate_per_minute,
                rate_until=self._carried_over(before[0][5], new.settings.rate_per_minute, now) if before else None,
                now=now,
            )
            (row,) = yield queries.tenant(tenant_id=tenant_id)
            is_new = not known and instant(row[6]) == now
            if must_be_new and not is_new:
                raise InvalidInput("tenant", "is taken; choose another name.")
            # What came in while an earlier tenant of that name went is not this one's.
            while is_new and (yield from _erase_some(tenant_id)):
                pass
            return row, is_new

        row, is_new = await self._audit.write(Act("tenant.put", "tenant", tenant_id, tenant_id), work)
        self._changed(tenant_id)
        return self._tenant(row), is_new

    def _carried_over(self, used_until: Any, own_rate: int | None, now: datetime) -> datetime | None:
        """What a tenant has sent counts under a new cap too, but it waits no longer than that cap would have it wait."""
        until = sound(legible_or_none(used_until), now)
        per_minute = self._default_rate if own_rate is None else own_rate
        return min(until, now + Cap.of(per_minute).interval) if until is not None and per_minute else until

    async def get(self, tenant_id: str) -> Tenant:
        def work() -> Step[list[Row]]:
            return (yield queries.tenant(tenant_id=tenant_id))

        rows = await self._database.read(work)
        if not rows:
            raise unknown_tenant(tenant_id)
        return self._tenant(rows[0])

    async def recall(self, tenant_id: str) -> Tenant:
        """The same, as it was a moment ago at the latest: every message asks, and all that ask at once share one look."""
        kept = self._kept.get(tenant_id)
        if kept is not None and self._clock.monotonic() < kept[0] + _KEPT_SECONDS:
            return kept[1]
        if tenant_id not in self._asking:
            self._asking[tenant_id] = asyncio.create_task(self._look(tenant_id))
        return await asyncio.shield(self._asking[tenant_id])

    async def list(self, *, limit: int = 100, after: str = "") -> list[Tenant]:
        def work() -> Step[list[Row]]:
            return (yield _queries.list_tenants(after=after, limit=limit))

        return [self._tenant(row) for row in await self._database.read(work)]

    async def delete(self, tenant_id: str) -> None:
        """Remove a tenant that has nothing waiting, with all that it has: its keys first, itself last."""

        act, who, now = Act("tenant.delete", "tenant", tenant_id, tenant_id), actor(), self._clock.now()

        def check() -> Step[None]:
            yield from _require_idle(tenant_id)

        def work() -> Step[bool]:
            yield from _require_idle(tenant_id)
            if (yield from _erase_some(tenant_id)):
                return True
            yield _queries.delete_tenant(tenant_id=tenant_id)
            yield from noted(who, act, now)
            return False

        try:
            await self._database.write(check)
        except TenantBusy as refusal:
            await self._audit.note(act, refusal.reason)
            raise
        if self.revoke_keys is not None:
            await self.revoke_keys(tenant_id)
        while await self._database.write(work):
            pass
        self._changed(tenant_id)

    async def _look(self, tenant_id: str) -> Tenant:
        """Read a tenant and keep it, unless it was changed meanwhile."""
        moment = self._clock.monotonic()
        try:
            tenant = await self.get(tenant_id)
        except BaseException:
            self._changed(tenant_id)
            raise
        if self._asking.get(tenant_id) is asyncio.current_task():
            del self._asking[tenant_id]
            if len(self._kept) >= 10_000:
                self._kept.clear()
            self._kept[tenant_id] = (moment, tenant)
        return tenant

    def _changed(self, tenant_id: str) -> None:
        self._kept.pop(tenant_id, None)
        self._asking.pop(tenant_id, None)

    def _check(self, new: NewTenant) -> None:
        if new.name is not None:
            check_text("name", new.name, most=200)
        check_settings(new.settings)
        trusted = frozenset(new.settings.trusted_destinations)
        check_json("providers", new.providers)
        if len(json.dumps(new.providers)) > _LARGEST:
            raise InvalidInput("providers", f"must have at most {_LARGEST} characters.")
        for channel, config in new.providers.items():
            if channel not in CHANNELS:
                raise InvalidInput(f"providers.{printable(channel)}", f"must be one of {', '.join(CHANNELS)}.")
            self._check_provider(f"providers.{channel}", channel, config, trusted=trusted)
            for option, value in config.items():
                if _TAG in json.dumps(value, ensure_ascii=False):
                    raise InvalidInput(f"providers.{channel}.{option}", "must not contain the tag character U+E0001.")

    def _tenant(self, row: Row) -> Tenant:
        tenant_id, name, providers, settings, own_rate, rate_until, created_at, updated_at = row
        shown = self._clock.shown
        per_minute = self._default_rate if own_rate is None else own_rate
        return Tenant(
            tenant_id=tenant_id,
            name=name,
            providers=json.loads(providers),
            settings=msgspec.json.decode(settings, type=TenantSettings),
            rate=self._rate(per_minute, sound(legible_or_none(rate_until), self._clock.now())) if per_minute else None,
            created_at=shown(instant(created_at)),
            updated_at=shown(instant(updated_at)),
        )

    def _rate(self, per_minute: int, used_until: datetime | None) -> Rate:
        free = None if used_until is None else next_free(Cap.of(per_minute), used_until)
        waits = free is not None and free > self._clock.now()
        return Rate(per_minute=per_minute, waits_until=self._clock.shown(free) if free is not None and waits else None)


def fingerprint(tenant: Tenant) -> str:
    """Another one for every change of what a tenant is told to be."""
    told = json.dumps([tenant.name, tenant.providers, msgspec.to_builtins(tenant.settings)], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _require_idle(tenant_id: str) -> Step[None]:
    """Hold a tenant that has nothing waiting."""
    if not (yield queries.lock_tenant(tenant_id=tenant_id)):
        raise unknown_tenant(tenant_id)
    if (yield _queries.waits_for_tenant(tenant_id=tenant_id)):
        raise TenantBusy(f"Tenant {printable(tenant_id)} has messages waiting; cancel them or let them go first.")


def _erase_some(tenant_id: str) -> Step[bool]:
    """Erase a bounded part of what a tenant has; answers whether there may be more."""
    limit = _ERASED_AT_ONCE
    ended = [message_id for (message_id,) in (yield _queries.ended_of_tenant(tenant_id=tenant_id, limit=limit))]
    if ended:
        gone = [message_id for (message_id,) in (yield queries.prune_history(message_ids=ended))]
        yield queries.prune_attempts(message_ids=gone)
        yield queries.prune_events(message_ids=gone)
        yield queries.remove_copies(message_ids=gone)
    keys = yield _queries.erase_idempotency_keys(tenant_id=tenant_id, limit=limit)
    opt_outs = yield _queries.erase_opt_outs(tenant_id=tenant_id, limit=limit)
    return limit in (len(ended), len(keys), len(opt_outs))


def keeping(tenant: Tenant, now: datetime) -> Step[None]:
    """See that a tenant of our own exists, as a step of a transaction."""
    if not (yield queries.known_tenants(tenant_ids=[tenant.tenant_id])):
        yield _queries.put_tenant(
            tenant_id=tenant.tenant_id,
            name=tenant.name,
            providers=json.dumps(tenant.providers),
            settings=msgspec.json.encode(tenant.settings).decode(),
            rate_per_minute=None,
            rate_until=None,
            now=now,
        )


def check_tenant_id(tenant_id: str) -> None:
    """A tenant is named by `[a-z0-9][a-z0-9_-]{0,62}`."""
    if not _NAME.fullmatch(tenant_id):
        raise InvalidInput("tenant", "must be 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit.")


def check_settings(settings: TenantSettings) -> None:
    """Refuse numbers that mean nothing and destinations that could not be one."""
    if settings.rate_per_minute is not None and not 0 <= settings.rate_per_minute <= _MOST_PER_MINUTE:
        raise InvalidInput("settings.rate_per_minute", f"must be 0 (no cap) to {_MOST_PER_MINUTE}.")
    if settings.max_attempts is not None and not 1 <= settings.max_attempts <= _MOST_ATTEMPTS:
        raise InvalidInput("settings.max_attempts", f"must be 1 to {_MOST_ATTEMPTS}.")
    if len(settings.trusted_destinations) > _MOST_TRUSTED:
        raise InvalidInput("settings.trusted_destinations", f"must be at most {_MOST_TRUSTED}.")
    for index, origin in enumerate(settings.trusted_destinations):
        check_origin(f"settings.trusted_destinations.{index}", origin)
    if settings.database is not None:
        raise InvalidInput("settings.database", "a database of a tenant's own comes later.")


def unknown_tenant(tenant_id: str) -> NotFound:
    return NotFound(f"There is no tenant {printable(tenant_id)}; make it first with `pillarbox tenants set`.")
