"""The settings themselves: a new section is a struct here, or in a file of its own, and a field of `Settings`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from pillarbox.errors import SettingsError
from pillarbox.settings.adapters import Adapters
from pillarbox.settings.channels import OutboundChannels
from pillarbox.settings.conversations import Conversations, Media
from pillarbox.settings.operators import Audit
from pillarbox.settings.shapes import Attempts, Bytes, Count, Days, Name, Port, Seconds, Section, Share

_FORWARD_URL = re.compile(r"https?://[\x21-\x7e]+")
CHANNEL_NAMES = ("email", "sms", "push", "webhook", "voice", "whatsapp", "telegram", "discord", "slack", "inapp")

REPLAY_DAYS: Mapping[str, float] = MappingProxyType({"telegram": 1.0, "whatsapp": 7.0, "slack": 1.0})
"""How long a platform may send the same update again; forgetting it sooner would deliver it twice."""


def _refuse_timeout_beyond_lease(section: str, timeout: float | None, lease: float) -> None:
    if timeout is not None and timeout >= lease:
        raise SettingsError(
            f"{section}.deliver_timeout_seconds ({timeout:g}) must be below "
            f"{section}.lease_seconds ({lease:g}); shorten the timeout or lengthen the lease."
        )


def _timeout_below_lease(timeout: float | None, lease: float, *, default: float) -> float:
    return min(default, lease * 2 / 3) if timeout is None else timeout


class Http(Section, frozen=True, kw_only=True):
    """Where the HTTP API and the dashboard listen."""

    host: Annotated[Name, Meta(description="The address to listen on.")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="The port to listen on; 0 takes a free one.")] = 8025
    public_url: Annotated[
        str | None,
        Meta(description="The address people outside reach this server by, without a final slash."),
    ] = None
    allowed_hosts: Annotated[
        tuple[Name, ...],
        Meta(description="Further `Host` names to answer, beside loopback and the bound address."),
    ] = ()

    def __post_init__(self) -> None:
        url = self.public_url
        if url is not None and (not url.startswith(("http://", "https://")) or url.endswith("/")):
            raise SettingsError("http.public_url must begin with http:// or https:// and not end with a slash.")


class Log(Section, frozen=True, kw_only=True):
    """What is logged to stderr, and how."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="The least severe level that is logged."),
    ] = "info"
    format: Annotated[Literal["text", "json"], Meta(description="Lines for people, or one JSON object a line.")] = (
        "text"
    )


class Metrics(Section, frozen=True, kw_only=True):
    """Prometheus metrics at `/metrics`."""

    prefix: Annotated[
        str,
        Meta(pattern="^[A-Za-z_][A-Za-z0-9_]{0,62}$", description="What every metric's name begins with."),
    ] = "pillarbox"
    public: Annotated[bool, Meta(description="Whether `/metrics` answers without the admin key.")] = False


class Shutdown(Section, frozen=True, kw_only=True):
    """How the process stops."""

    grace_seconds: Annotated[
        Seconds, Meta(description="How long running deliveries may take to end after SIGTERM.")
    ] = 10.0


class Database(Section, frozen=True, kw_only=True):
    """How the database is used; its address is `--database` or `PILLARBOX_DATABASE`."""

    pool_size: Annotated[Count, Meta(description="The most connections a process opens to PostgreSQL.")] = 8
    busy_timeout_seconds: Annotated[Seconds, Meta(description="How long to wait for a connection or a write lock.")] = (
        10.0
    )
    statement_timeout_seconds: Annotated[Seconds, Meta(description="How long one statement may run on PostgreSQL.")] = (
        30.0
    )
    reserve_bytes: Annotated[
        Bytes,
        Meta(description="Room on an SQLite file's disk that new work may not use up, at most an eighth; 0 is none."),
    ] = 16 * 1024 * 1024
    allow_unsafe: Annotated[
        bool,
        Meta(description="Whether a PostgreSQL with fsync or full_page_writes off is used; it can lose messages."),
    ] = False


class Inbound(Section, frozen=True, kw_only=True):
    """Delivery of inbound messages to their sessions."""

    backoff_seconds: Annotated[
        tuple[Seconds, ...],
        Meta(min_length=1, description="Waits between attempts; the last one repeats for ever."),
    ] = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
    lease_seconds: Annotated[Seconds, Meta(description="How long a claim holds a message unless renewed.")] = 300.0
    poll_seconds: Annotated[Seconds, Meta(description="The longest sleep before looking for work again.")] = 1.0
    concurrency: Annotated[Count, Meta(description="How many sessions a process delivers to at once.")] = 64
    deliver_timeout_seconds: Annotated[
        Seconds | None,
        Meta(description="How long one delivery may take; unset: 30, or two thirds of a shorter lease."),
    ] = None
    startup_gate_seconds: Annotated[
        Seconds, Meta(description="How long messages wait for a session that is still initializing.")
    ] = 15.0
    retention_days: Annotated[Days, Meta(description="How long ended messages are kept.")] = 7.0
    origin_retention_days: Annotated[
        Mapping[str, Days],
        Meta(description="The same for one origin, never shorter than its platform may send again."),
    ] = field(default_factory=dict)
    deaths_before_longest_wait: Annotated[
        Count, Meta(description="Workers that may die on a message before it waits the longest backoff.")
    ] = 3

    def __post_init__(self) -> None:
        _refuse_timeout_beyond_lease("inbound", self.deliver_timeout_seconds, self.lease_seconds)
        for origin, days in self.origin_retention_days.items():
            if days < (least := REPLAY_DAYS.get(origin, 0)):
                raise SettingsError(
                    f"inbound.origin_retention_days.{origin} must be at least {least:g}: "
                    "the platform may send a message again for that long."
                )

    @property
    def effective_deliver_timeout_seconds(self) -> float:
        """Tell how long one delivery may take, always less than the lease."""
        return _timeout_below_lease(self.deliver_timeout_seconds, self.lease_seconds, default=30.0)

    def retention_days_for(self, origin: str) -> float:
        """Tell how long an origin's ended messages are kept, at least while its platform may repeat them."""
        return self.origin_retention_days.get(origin, max(self.retention_days, REPLAY_DAYS.get(origin, 0.0)))


class Hooks(Section, frozen=True, kw_only=True):
    """Processing of agents' events."""

    backoff_seconds: Annotated[
        tuple[Seconds, ...],
        Meta(min_length=1, description="Waits between attempts; the last one repeats for ever."),
    ] = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
    lease_seconds: Annotated[Seconds, Meta(description="How long a claim holds a session's events unless renewed.")] = (
        30.0
    )
    poll_seconds: Annotated[
        Seconds, Meta(description="The longest sleep before looking for events, in the spool too, again.")
    ] = 1.0
    concurrency: Annotated[Count, Meta(description="How many sessions a process handles events of at once.")] = 64
    deliver_timeout_seconds: Annotated[
        Seconds | None,
        Meta(description="How long the listeners of one event may take; unset: 20, or two thirds of a shorter lease."),
    ] = None
    strand_limit: Annotated[
        int, Meta(ge=1, le=1000, description="How many events of a session are in memory at once.")
    ] = 32
    retention_days: Annotated[Days, Meta(description="How long ended events are kept.")] = 7.0
    forward_url: Annotated[
        str | None, Meta(description="Where every event is posted to; unset: nowhere. It may be on loopback.")
    ] = None
    spool_dir: Annotated[
        str | None,
        Meta(description="Where receivers put events while the database cannot be written; unset: beside the file."),
    ] = None
    deaths_before_longest_wait: Annotated[
        Count, Meta(description="Workers that may die on an event before it waits the longest backoff.")
    ] = 3

    def __post_init__(self) -> None:
        _refuse_timeout_beyond_lease("hooks", self.deliver_timeout_seconds, self.lease_seconds)
        url = self.forward_url
        if url is not None and not _FORWARD_URL.fullmatch(url):
            raise SettingsError("hooks.forward_url must begin with http:// or https:// and be ASCII without blanks.")

    @property
    def effective_deliver_timeout_seconds(self) -> float:
        """Tell how long the listeners of one event may take, always less than the lease."""
        return _timeout_below_lease(self.deliver_timeout_seconds, self.lease_seconds, default=20.0)


class Outbound(Section, frozen=True, kw_only=True):
    """Sending messages for tenants."""

    backoff_base_seconds: Annotated[
        Seconds, Meta(description="The wait before the second attempt; it doubles with each further one.")
    ] = 60.0
    backoff_jitter: Annotated[Share, Meta(description="How far waits are spread: 0.2 is ±20 %.")] = 0.2
    max_attempts: Annotated[Attempts, Meta(description="How often a message is tried.")] = 5
    lease_seconds: Annotated[Seconds, Meta(description="How long a claim holds a message unless renewed.")] = 60.0
    poll_seconds: Annotated[Seconds, Meta(description="The longest sleep before looking for messages again.")] = 1.0
    concurrency: Annotated[Count, Meta(description="How many messages a process sends at once.")] = 128
    timeout_seconds: Annotated[
        Seconds | None,
        Meta(description="How long one attempt may take; unset: 15, or two thirds of a shorter lease."),
    ] = None
    tenant_rate_per_minute: Annotated[
        int,
        Meta(ge=0, le=1_000_000, description="The most a tenant sends in a minute unless it has its own; 0: no cap."),
    ] = 0
    retry_after_max_seconds: Annotated[
        Seconds, Meta(description="The longest wait that a provider's Retry-After can ask for.")
    ] = 86_400.0
    retention_days: Annotated[Days, Meta(description="How long ended messages are kept.")] = 90.0
    attachment_roots: Annotated[
        tuple[Name, ...], Meta(description="Folders that attachments may be read from by path; none unless set.")
    ] = ()
    trusted_destinations: Annotated[
        tuple[Name, ...],
        Meta(description="Origins exempt from the https and address rules, as in `http://127.0.0.1:9000`."),
    ] = ()
    providers: Annotated[
        Mapping[str, Mapping[str, Any]],
        Meta(
            description="What carries a channel for tenants that have not chosen, in the form of a tenant's `providers`."
        ),
    ] = field(default_factory=dict)
    sandbox: Annotated[
        bool,
        Meta(description="Whether the sandbox takes everything, whatever tenants have chosen; for tests and staging."),
    ] = False
    channels: OutboundChannels = OutboundChannels()

    def __post_init__(self) -> None:
        for name, timeout in (
            ("outbound", self.timeout_seconds),
            *((f"outbound.channels.{name}", getattr(self.channels, name).timeout_seconds) for name in CHANNEL_NAMES),
        ):
            if timeout is not None and timeout >= self.lease_seconds:
                raise SettingsError(
                    f"{name}.timeout_seconds ({timeout:g}) must be below outbound.lease_seconds "
                    f"({self.lease_seconds:g}); shorten the timeout or lengthen the lease."
                )

    @property
    def effective_timeout_seconds(self) -> float:
        """Tell how long one attempt may take, always less than the lease."""
        return _timeout_below_lease(self.timeout_seconds, self.lease_seconds, default=15.0)


class Provider(Section, frozen=True, kw_only=True):
    """Where a provider is and how it is used."""

    base_url: Annotated[
        str | None, Meta(description="Where it is, if not where its makers say; may be plain http on loopback.")
    ] = None
    timeout_seconds: Annotated[Seconds | None, Meta(description="How long one attempt may take.")] = None
    concurrency: Annotated[
        Count | None, Meta(description="How many requests a process makes to it at once; unset: as many as it sends.")
    ] = None
    ca_file: Annotated[str | None, Meta(description="A further certificate authority to trust, for SMTP.")] = None

    def __post_init__(self) -> None:
        url = self.base_url
        if url is not None and (not _FORWARD_URL.fullmatch(url) or url.endswith("/")):
            raise SettingsError("providers.*.base_url must begin with http:// or https:// and not end with a slash.")


class Secrets(Section, frozen=True, kw_only=True):
    """What seals credentials in headers at rest."""

    key: Annotated[
        str | None,
        Meta(description="32 bytes in base64; unset on SQLite: a key file beside the database. PostgreSQL needs it."),
    ] = None


class Inbox(Section, frozen=True, kw_only=True):
    """The idempotency inbox."""

    lease_seconds: Annotated[
        float, Meta(ge=0.01, le=120, description="How long a key is leased when the caller does not say.")
    ] = 60.0
    retention_days: Annotated[float, Meta(ge=7, le=30, description="How long a processed key is remembered.")] = 7.0
    cleanup_seconds: Annotated[Seconds, Meta(description="The time between two removals of old keys.")] = 60.0


class Settings(Section, frozen=True, kw_only=True):
    """Everything that can be set, with its defaults."""

    http: Http = Http()
    log: Log = Log()
    metrics: Metrics = Metrics()
    shutdown: Shutdown = Shutdown()
    database: Database = Database()
    inbound: Inbound = Inbound()
    hooks: Hooks = Hooks()
    adapters: Adapters = Adapters()
    conversations: Conversations = Conversations()
    media: Media = Media()
    outbound: Outbound = Outbound()
    providers: Annotated[
        Mapping[str, Provider], Meta(description="One table for each provider, as in `[providers.sendgrid]`.")
    ] = field(default_factory=dict)
    secrets: Secrets = Secrets()
    inbox: Inbox = Inbox()
    audit: Audit = Audit()
