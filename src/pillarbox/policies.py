"""What the settings say, in the form in which each pipe wants to hear it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random

from pillarbox.engine import Backoff
from pillarbox.errors import InvalidInput, SettingsError
from pillarbox.hooks.policy import HooksPolicy
from pillarbox.inbound import Inbound
from pillarbox.inbound.adapter import AdapterPolicy, Adapters
from pillarbox.inbound.adapters.telegram_poll import PollPolicy, TelegramPoller
from pillarbox.inbound.policy import InboundPolicy
from pillarbox.inbound.targets.placement import read_target
from pillarbox.outbound.model import CHANNELS
from pillarbox.outbound.policy import ChannelPolicy, OutboundPolicy, ProviderPolicy
from pillarbox.outbound.providers import Providers, providers
from pillarbox.sessions import Sessions
from pillarbox.settings import Settings
from pillarbox.settings.tree import OutboundChannel


def wire_adapters(settings: Settings, inbound: Inbound, sessions: Sessions, random: Random) -> Adapters:
    """The adapters, and whatever of them asks its platform instead of being told."""
    given = settings.adapters
    target = dict(given.default_target) or {"kind": "none"}
    try:
        read_target(target)
    except InvalidInput as fault:
        raise SettingsError(f"adapters.default_{fault}") from fault
    adapters = Adapters(inbound, sessions, AdapterPolicy(given.default_session, given.on_unknown, target))
    bot = given.telegram
    if bot.polls and bot.bot_token is not None:
        polling = PollPolicy(bot.base_url, bot.bot_token, bot.poll_seconds, Backoff(bot.backoff_seconds, jitter=0.2))
        adapters.sources.append(TelegramPoller(adapters, polling, random=random))
    return adapters


def providers_of(settings: Settings) -> Providers:
    from pillarbox.outbound.providers.smtp import Smtp

    smtp = settings.providers.get("smtp")
    return providers(Smtp(ca_file=smtp.ca_file if smtp else None))


def outbound_policy(settings: Settings) -> OutboundPolicy:
    numbers = settings.outbound
    common = ChannelPolicy(
        backoff_base=numbers.backoff_base_seconds,
        jitter=numbers.backoff_jitter,
        max_attempts=numbers.max_attempts,
        timeout=numbers.effective_timeout_seconds,
    )
    return OutboundPolicy(
        channel=common,
        channels={name: _channel_policy(getattr(numbers.channels, name), common) for name in CHANNELS},
        lease=timedelta(seconds=numbers.lease_seconds),
        poll=numbers.poll_seconds,
        concurrency=numbers.concurrency,
        rate_per_minute=numbers.tenant_rate_per_minute,
        retry_after_most=numbers.retry_after_max_seconds,
        retention=timedelta(days=numbers.retention_days),
        attachment_roots=numbers.attachment_roots,
        trusted=frozenset(numbers.trusted_destinations),
        providers=numbers.providers,
        of_provider={
            name: ProviderPolicy(each.base_url, each.timeout_seconds, each.concurrency, each.ca_file)
            for name, each in settings.providers.items()
        },
        public_url=settings.http.public_url,
    )


def _channel_policy(own: OutboundChannel, common: ChannelPolicy) -> ChannelPolicy:
    return ChannelPolicy(
        backoff_base=common.backoff_base if own.backoff_base_seconds is None else own.backoff_base_seconds,
        jitter=common.jitter if own.backoff_jitter is None else own.backoff_jitter,
        max_attempts=own.max_attempts or common.max_attempts,
        timeout=own.timeout_seconds or common.timeout,
    )


def hooks_policy(settings: Settings, spool_dir: str | None) -> HooksPolicy:
    numbers = settings.hooks
    return HooksPolicy(
        backoff=Backoff(tuple(numbers.backoff_seconds)),
        lease=timedelta(seconds=numbers.lease_seconds),
        timeout=numbers.effective_deliver_timeout_seconds,
        poll=numbers.poll_seconds,
        concurrency=numbers.concurrency,
        strand_limit=numbers.strand_limit,
        deaths=numbers.deaths_before_longest_wait,
        retention=timedelta(days=numbers.retention_days),
        forward_url=numbers.forward_url,
        spool_dir=None if spool_dir is None else Path(spool_dir),
    )


def inbound_policy(settings: Settings) -> InboundPolicy:
    numbers = settings.inbound
    return InboundPolicy(
        backoff=Backoff(tuple(numbers.backoff_seconds)),
        lease=timedelta(seconds=numbers.lease_seconds),
        timeout=numbers.effective_deliver_timeout_seconds,
        poll=numbers.poll_seconds,
        concurrency=numbers.concurrency,
        startup_gate=timedelta(seconds=numbers.startup_gate_seconds),
        deaths=numbers.deaths_before_longest_wait,
        retention=lambda origin: timedelta(days=numbers.retention_days_for(origin)),
        shortest_retention=timedelta(days=min(numbers.retention_days, *numbers.origin_retention_days.values(), 10_000)),
    )
