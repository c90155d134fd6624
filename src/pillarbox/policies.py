"""What the settings say, in the form in which each pipe wants to hear it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from pillarbox.chats import chat_providers, chat_tokens
from pillarbox.engine import Backoff
from pillarbox.errors import InvalidInput, SettingsError
from pillarbox.hooks.pipe import Hooks
from pillarbox.hooks.policy import HooksPolicy
from pillarbox.inbound import Inbound
from pillarbox.inbound.adapter import AdapterPolicy, Adapters, Source
from pillarbox.inbound.adapters.discord import ORIGIN as DISCORD
from pillarbox.inbound.adapters.discord import Listening
from pillarbox.inbound.adapters.discord_gateway import DiscordGateway, DiscordPolicy
from pillarbox.inbound.adapters.indicators import discord_indicator, telegram_indicator, whatsapp_indicator
from pillarbox.inbound.adapters.telegram import bot_of
from pillarbox.inbound.adapters.telegram_poll import PollPolicy, TelegramPoller
from pillarbox.inbound.policy import InboundPolicy
from pillarbox.inbound.positions import Positions
from pillarbox.inbound.sole import SoleSource
from pillarbox.inbound.targets.placement import read_target
from pillarbox.inbound.typing import Chat, Indicator, Typing
from pillarbox.outbound.model import CHANNELS
from pillarbox.outbound.policy import ChannelPolicy, OutboundPolicy, ProviderPolicy
from pillarbox.outbound.providers import Providers, providers
from pillarbox.process import holder
from pillarbox.sessions import Sessions
from pillarbox.settings import Settings
from pillarbox.settings.channels import OutboundChannel
from pillarbox.storage import Database


def wire_adapters(
    settings: Settings, inbound: Inbound, sessions: Sessions, *, database: Database, node: str, random: Random
) -> Adapters:
    """The adapters, and whatever of them asks its platform instead of being told, each by one process at a time."""
    given = settings.adapters
    target = dict(given.default_target) or {"kind": "none"}
    try:
        read_target(target)
    except InvalidInput as fault:
        raise SettingsError(f"adapters.default_{fault}") from fault
    adapters = Adapters(inbound, sessions, AdapterPolicy(given.default_session, given.on_unknown, target))
    for name, source in _sources(settings, adapters, database, random):
        adapters.sources.append(SoleSource(source, database, name=name, holder=holder(node), random=random))
    return adapters


def _sources(
    settings: Settings, adapters: Adapters, database: Database, random: Random
) -> Iterator[tuple[str, Source]]:
    """Whatever asks its platform, by a name that says as whom."""
    telegram, discord = settings.adapters.telegram, settings.adapters.discord
    if telegram.polls and telegram.bot_token is not None:
        backoff = Backoff(telegram.backoff_seconds, jitter=0.2)
        polling = PollPolicy(telegram.base_url, telegram.bot_token, telegram.poll_seconds, backoff)
        yield f"telegram:{bot_of(telegram.bot_token)}", TelegramPoller(adapters, polling, random=random)
    if discord.listen and discord.bot_token is not None:
        listening = Listening(
            guilds=frozenset(discord.guilds),
            channels=frozenset(discord.channels),
            direct_messages=discord.direct_messages,
            threads=discord.threads,
        )
        policy = DiscordPolicy(
            discord.base_url, discord.bot_token, listening, Backoff(discord.backoff_seconds, jitter=0.2)
        )
        positions = Positions(database, DISCORD)
        gateway = DiscordGateway(adapters, positions, policy, clock=database.clock, random=random)
        yield f"discord:{discord.bot_token.partition('.')[0]}", gateway


def wire_typing(
    settings: Settings, adapters: Adapters, inbound: Inbound, hooks: Hooks, *, sessions: Sessions, database: Database
) -> Typing:
    """The indicators of the platforms that have them, lit by receipts and by attempts."""
    given = settings.adapters
    indicators = list(_indicators(settings)) if given.typing else []

    async def is_over(session_id: str, since: datetime) -> bool | None:
        if (await sessions.get(session_id)).lifecycle_status == "closed":
            return True
        state = await hooks.agent_state(session_id)
        if state is None:
            return None
        ended_at = state.last_turn_completed_at
        if ended_at is not None and ended_at >= since:
            return True
        return False if state.turn == "working" else None

    typing = Typing(indicators, limit=given.typing_seconds, is_over=is_over, clock=database.clock)
    inbound.attempting = typing.attempt
    adapters.after_storing = lambda message: typing.received(
        Chat(message.origin, message.channel_id, message.source_message_id, message.payload or {})
    )
    return typing


def _indicators(settings: Settings) -> Iterator[Indicator]:
    given = settings.adapters
    if given.telegram.bot_token is not None:
        yield telegram_indicator(given.telegram.base_url, given.telegram.bot_token)
    if given.discord.bot_token is not None:
        yield discord_indicator(given.discord.base_url, given.discord.bot_token)
    if given.whatsapp.access_token is not None:
        yield whatsapp_indicator(given.whatsapp.base_url, given.whatsapp.access_token)


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
        of_provider=dict(chat_providers(settings))
        | {
            name: ProviderPolicy(each.base_url, each.timeout_seconds, each.concurrency, each.ca_file)
            for name, each in settings.providers.items()
        },
        own_secrets=chat_tokens(settings),
        public_url=settings.http.public_url,
        sandbox=numbers.sandbox,
    )


def _channel_policy(own: OutboundChannel, common: ChannelPolicy) -> ChannelPolicy:
    return ChannelPolicy(
        backoff_base=common.backoff_base if own.backoff_base_seconds is None else own.backoff_base_seconds,
        jitter=common.jitter if own.backoff_jitter is None else own.backoff_jitter,
        max_attempts=own.max_attempts or common.max_attempts,
        timeout=own.timeout_seconds or common.timeout,
        concurrency=own.concurrency,
        retry_after_most=own.retry_after_max_seconds,
        retention=None if own.retention_days is None else timedelta(days=own.retention_days),
        attachment_roots=own.attachment_roots,
        trusted=None if own.trusted_destinations is None else frozenset(own.trusted_destinations),
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
