"""How a tenant's messages go out: looked up once, not for every message."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from pillarbox.outbound.accounts import Accounts, Config
from pillarbox.outbound.attempt import Parcel
from pillarbox.outbound.model import Channel
from pillarbox.outbound.policy import OutboundPolicy
from pillarbox.outbound.provider import Provider, is_direct

_MOST_KEPT = 1024


class Route(NamedTuple):
    """By whom, with what, within how many seconds, and which destinations may be trusted; `slots` bound the provider."""

    provider: Provider
    config: Config
    options: Mapping[str, Any]
    timeout: float
    trusted: frozenset[str]
    slots: asyncio.Semaphore


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
        config = self._accounts.chosen(msgspec.json.decode(tenant_providers), channel)
        provider = self._accounts.providers.find(channel, config["provider"])
        trusted = self._policy.trusted | frozenset(msgspec.json.decode(tenant_settings).get("trusted_destinations", ()))
        options = self._accounts.options(config)
        return Route(
            provider,
            config,
            {**options, "trusted": trusted} if is_direct(provider) else options,
            self._accounts.policy_of(provider).timeout or self._policy.of(channel).timeout,
            trusted,
            self._slots_of(provider),
        )

    def _slots_of(self, provider: Provider) -> asyncio.Semaphore:
        if provider.name not in self._slots:
            most = self._accounts.policy_of(provider).concurrency or self._policy.concurrency
            self._slots[provider.name] = asyncio.Semaphore(most)
        return self._slots[provider.name]
