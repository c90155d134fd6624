"""The numbers of the outbound pipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from pillarbox.outbound.model import Channel


@dataclass(frozen=True, slots=True)
class ChannelPolicy:
    """How often, and how far apart: the base, then twice as long each time, spread by the jitter."""

    backoff_base: float = 60.0
    jitter: float = 0.2
    max_attempts: int = 5
    timeout: float = 15.0
    # None: as the rest of outbound.
    concurrency: int | None = None
    retry_after_most: float | None = None
    retention: timedelta | None = None
    attachment_roots: tuple[str, ...] | None = None
    trusted: frozenset[str] | None = None

    def delay(self, attempt: int, random: Random) -> float:
        """The wait in seconds after the given attempt, counted from 1, has failed."""
        doubled: float = self.backoff_base * 2.0 ** (min(attempt, 30) - 1)
        return doubled * (1 + random.uniform(-self.jitter, self.jitter))


@dataclass(frozen=True, slots=True)
class ProviderPolicy:
    """Where a provider is and how it may be used, where that is not as it says itself."""

    base_url: str | None = None
    timeout: float | None = None
    concurrency: int | None = None
    ca_file: str | None = None


@dataclass(frozen=True, slots=True)
class OutboundPolicy:
    """Five attempts from a minute to eight apart, by default; a lease of a minute."""

    channel: ChannelPolicy = ChannelPolicy()
    channels: Mapping[Channel, ChannelPolicy] = field(default_factory=dict)
    lease: timedelta = timedelta(seconds=60)
    poll: float = 1.0
    concurrency: int = 128
    rate_per_minute: int = 0
    retry_after_most: float = 86_400.0
    retention: timedelta = timedelta(days=90)
    attachment_roots: tuple[str, ...] = ()
    trusted: frozenset[str] = frozenset()
    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    of_provider: Mapping[str, ProviderPolicy] = field(default_factory=dict)
    public_url: str | None = None
    own_secrets: Mapping[str, str] = field(default_factory=dict)
    """Secrets of the operator's own settings, by their names; only messages of our own are sent with them."""
    sandbox: bool = False
    """Whether the sandbox takes everything."""

    @property
    def longest_attempt(self) -> float:
        """When an attempt is given up that did not keep its own time: after every timeout and before the lease ends."""
        timeouts = [self.channel.timeout, *(each.timeout for each in self.channels.values())]
        longest = max(timeouts + [each.timeout for each in self.of_provider.values() if each.timeout is not None])
        lease = self.lease.total_seconds()
        between = (longest + lease) / 2 if longest < lease else 0.0
        return min(2 * longest + 5, max(lease * 0.9, between))

    def of(self, channel: Channel) -> ChannelPolicy:
        return self.channels.get(channel, self.channel)

    def retry_after_most_on(self, channel: Channel) -> float:
        own = self.of(channel).retry_after_most
        return self.retry_after_most if own is None else own

    def retention_on(self, channel: Channel) -> timedelta:
        own = self.of(channel).retention
        return self.retention if own is None else own

    @property
    def shortest_retention(self) -> timedelta:
        return min([self.retention, *map(self.retention_on, self.channels)])

    @property
    def longest_retention(self) -> timedelta:
        return max([self.retention, *map(self.retention_on, self.channels)])

    def attachment_roots_on(self, channel: Channel) -> tuple[str, ...]:
        own = self.of(channel).attachment_roots
        return self.attachment_roots if own is None else own

    def trusted_on(self, channel: Channel) -> frozenset[str]:
        own = self.of(channel).trusted
        return self.trusted if own is None else own
