"""What single channels have otherwise than the rest of outbound."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from pillarbox.settings.shapes import Attempts, Count, Days, Name, Seconds, Section, Share


class OutboundChannel(Section, frozen=True, kw_only=True):
    """What one channel has otherwise than the rest of outbound; unset: as that."""

    backoff_base_seconds: Annotated[Seconds | None, Meta(description="The wait before the second attempt.")] = None
    backoff_jitter: Annotated[Share | None, Meta(description="How far waits are spread: 0.2 is ±20 %.")] = None
    max_attempts: Annotated[Attempts | None, Meta(description="How often a message is tried.")] = None
    timeout_seconds: Annotated[Seconds | None, Meta(description="How long one attempt may take.")] = None
    concurrency: Annotated[Count | None, Meta(description="How many of its messages a process sends at once.")] = None
    retry_after_max_seconds: Annotated[
        Seconds | None, Meta(description="The longest wait that a provider's Retry-After can ask for.")
    ] = None
    retention_days: Annotated[Days | None, Meta(description="How long its ended messages are kept.")] = None
    attachment_roots: Annotated[
        tuple[Name, ...] | None, Meta(description="Folders that attachments may be read from by path.")
    ] = None
    trusted_destinations: Annotated[
        tuple[Name, ...] | None,
        Meta(description="Origins exempt from the https and address rules for its messages, instead of outbound's."),
    ] = None


# Somebody waits in a chat: a minute before the second attempt would be long.
_CHAT = OutboundChannel(backoff_base_seconds=5.0)


class OutboundChannels(Section, frozen=True, kw_only=True):
    """One table for each channel that is to differ."""

    email: OutboundChannel = OutboundChannel()
    sms: OutboundChannel = OutboundChannel()
    push: OutboundChannel = OutboundChannel()
    webhook: OutboundChannel = OutboundChannel()
    voice: OutboundChannel = OutboundChannel()
    whatsapp: OutboundChannel = _CHAT
    telegram: OutboundChannel = _CHAT
    discord: OutboundChannel = _CHAT
    slack: OutboundChannel = _CHAT
    inapp: OutboundChannel = OutboundChannel()
