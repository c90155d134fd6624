"""How a tenant's messages go out: looked up once, not for every message."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from pillarbox.errors import InvalidInput
from pillarbox.outbound.accounts import Accounts, Config
from pillarbox.outbound.attempt import Parcel
from pillarbox.outbound.model import Channel
from pillarbox.outbound.policy import OutboundPolicy
from pillarbox.outbound.provider import Provider, is_direct
from pillarbox.storage import DAMAGED, is_legible

_MOST_KEPT = 1024


class Slots(Protocol):
    """So many at once and no more."""

    def locked(self) -> bool: ...

    async def acquire(self) -> Literal[True]: ...

    def release(self) -> None: ...


class BothSlots:
    """A slot of one and a slot of the other, or none."""

    def __init__(self, first: asyncio.Semaphore, second: asyncio.Semaphore) -> None:
        self._first = first
        self._second = second

    def locked(self) -> bool:
        return self._first.locked() or self._second.locked()

    async def acquire(self) -> Literal[True]:
        await self._first.acquire()
        try:
            return await self._second.acquire()
        except BaseException:
            self._first.release()
            raise

    def release(self) -> None:
        self._second.release()
        self._first.release()


class Route(NamedTuple):
    """By whom, with what, within how many seconds, from which destinations and folders, and how many at once (`slots`)."""

    provider: Provider
    config: Config
    options: Mapping[str, Any]
    timeout: float
    trusted: frozenset[str]
    attachment_roots: tuple[str, ...]
    slots: Slots


class Routes:
    """The routes of one process. What a tenant is changed to is another text, and so another route."""

    def __init__(self, accounts: Accounts, policy: OutboundPolicy) -> None:
        self._accounts = accounts
        self._policy = policy
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._found = lru_cache(maxsize=_MOST_KEPT)(self._find)

    def of(self, parcel: Parcel) -> Route:
        """The route of a message, or `InvalidInput` where none leads anywhere."""
        return self._found(parcel.channel, parcel.providers, parcel.settings)

    def _find(self, channel: Channel, tenant_providers: str, tenant_settings: str) -> Route:
        config = self._accounts.chosen(_read("providers", tenant_providers), channel)
        provider = self._accounts.providers.find(channel, config["provider"])
        trusted = self._policy.trusted_on(channel) | frozenset(
            _read("settings", tenant_settings).get("trusted_destinations", ())
        )
        options = self._accounts.options(config)
        return Route(
            provider,
            config,
            {**options, "trusted": trusted} if is_direct(provider) else options,
            self._accounts.policy_of(provider).timeout or self._policy.of(channel).timeout,
            trusted,
            self._policy.attachment_roots_on(channel),
            self._slots_of(provider, channel),
        )

    def _slots_of(self, provider: Provider, channel: Channel) -> Slots:
        most = self._accounts.policy_of(provider).concurrency or self._policy.concurrency
        of_provider = self._slots.setdefault(f"provider {provider.name}", asyncio.Semaphore(most))
        own = self._policy.of(channel).concurrency
        if own is None:
            return of_provider
        return BothSlots(self._slots.setdefault(f"channel {channel}", asyncio.Semaphore(own)), of_provider)


def _read(field: str, text: str) -> dict[str, Any]:
    """What a tenant is set to; nothing goes out by what was damaged."""
    try:
        read: dict[str, Any] = msgspec.json.decode(text)
    except ValueError:
        raise InvalidInput(field, DAMAGED) from None
    if not is_legible(text):
        raise InvalidInput(field, DAMAGED)
    return read
