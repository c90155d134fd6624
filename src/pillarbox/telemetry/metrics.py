"""Prometheus metrics of one process, in a registry of their own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import generate_latest

from pillarbox.telemetry.tallies import Durations, Tally
from pillarbox.telemetry.totals import Totals, totals_of
from pillarbox.telemetry.works import WorksMetrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TARGET_KINDS = ("http", "command", "python", "tmux")
CHANNELS = ("email", "sms", "push", "webhook", "voice", "whatsapp", "telegram", "discord", "slack", "inapp")
FIRST_PROVIDERS = (("email", "sendgrid"), ("email", "smtp"), ("sms", "twilio"), ("webhook", "webhook"))
INBOX_BEGINS = ("Acquired", "Processed", "Busy", "Mismatch")
INBOX_LEASES = ("Extended", "Processed", "Released", "LeaseLost")

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class InboundMetrics:
    """What the inbound pipe counts; nothing is labelled with text that a caller chose."""

    def __init__(self, prefix: str, registry: CollectorRegistry) -> None:
        name = f"{prefix}_inbound"
        self.enqueued = Counter(f"{name}_enqueued_total", "Inbound messages stored.", registry=registry)
        self.duplicates = Counter(
            f"{name}_duplicates_total", "Inbound messages that had been stored before.", registry=registry
        )
        self.delivered = Tally(f"{name}_delivered", "Inbound messages delivered.", registry=registry)
        self.failed_attempts = Counter(
            f"{name}_failed_attempts_total", "Attempts that failed and will be repeated.", registry=registry
        )
        self.expired = Counter(f"{name}_expired_total", "Inbound messages that expired.", registry=registry)
        self.inflight = Gauge(f"{name}_inflight", "Inbound messages in delivery here.", registry=registry)
        self.queue_length = Gauge(f"{name}_queue_length", "Inbound messages that wait.", registry=registry)
        self.oldest_age_seconds = Gauge(
            f"{name}_oldest_age_seconds", "Age of the oldest inbound message that waits.", registry=registry
        )
        self.delivery_seconds = Durations(
            f"{name}_delivery_seconds",
            "Duration of one delivery by kind of target.",
            ["target"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._by_kind = {kind: self.delivery_seconds.labels(target=kind) for kind in TARGET_KINDS}

    def observe_delivery(self, kind: str, seconds: float) -> None:
        """Note how long one delivery to a kind of target took."""
        (self._by_kind.get(kind) or self.delivery_seconds.labels(target=kind)).observe(seconds)


class HookMetrics:
    """What the hooks pipe counts."""

    def __init__(self, prefix: str, registry: CollectorRegistry) -> None:
        name = f"{prefix}_hooks"
        self.stored = Counter(f"{name}_stored_total", "Events stored by this process.", registry=registry)
        self.picked_up = Counter(f"{name}_picked_up_total", "Events picked up from the spool.", registry=registry)
        self.delivered = Tally(f"{name}_delivered", "Events that every listener took.", registry=registry)
        self.superseded = Counter(
            f"{name}_superseded_total", "Events of a burst that a later one superseded.", registry=registry
        )
        self.dead = Counter(f"{name}_dead_total", "Events closed with an error.", registry=registry)
        self.failed_attempts = Counter(
            f"{name}_failed_attempts_total", "Attempts that failed and will be repeated.", registry=registry
        )
        self.inflight = Gauge(f"{name}_inflight", "Events with their listeners here.", registry=registry)
        self.queue_length = Gauge(f"{name}_queue_length", "Events that wait.", registry=registry)
        self.spooled = Gauge(f"{name}_spooled", "Spool files of events that are not stored yet.", registry=registry)
        self.dead_length = Gauge(
            f"{name}_dead_length", "Events closed with an error and still kept.", registry=registry
        )
        self.oldest_age_seconds = Gauge(
            f"{name}_oldest_age_seconds", "Age of the oldest event that waits.", registry=registry
        )
        self.delivery_seconds = Durations(
            f"{name}_delivery_seconds", "Duration of one attempt.", buckets=_BUCKETS, registry=registry
        )
        self.took = self.delivery_seconds.labels()


class OutboundMetrics:
    """What the outbound pipe counts, by channel and provider."""

    def __init__(self, prefix: str, registry: CollectorRegistry) -> None:
        name = f"{prefix}_msg"

        def by_channel(kind: str, help_text: str) -> Counter:
            return Counter(f"{name}_{kind}_total", help_text, ["channel"], registry=registry)

        self.enqueued = by_channel("enqueued", "Outbound messages stored.")
        self.sent = by_channel("sent", "Outbound messages that a provider accepted.")
        self.failed = by_channel("failed", "Outbound messages that failed for good.")
        self.retries = by_channel("retry", "Attempts that failed and will be repeated.")
        self.inflight = Gauge(f"{name}_inflight", "Outbound messages being sent here.", registry=registry)
        self.queue_length = Gauge(f"{name}_queue_length", "Outbound messages that wait.", registry=registry)
        self.oldest_age_seconds = Gauge(
            f"{name}_oldest_age_seconds", "How long the oldest message that is ready has been.", registry=registry
        )
        self.send_duration = Durations(
            f"{name}_send_duration_seconds",
            "Duration of one attempt, from its beginning to its end.",
            ["channel", "provider"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.time_to_send = Durations(
            f"{name}_time_to_send_seconds",
            "From the message's enqueue to its acceptance.",
            ["channel"],
            buckets=_BUCKETS,
            registry=registry,
        )
        for channel in CHANNELS:
            for family in (self.enqueued, self.sent, self.failed, self.retries):
                family.labels(channel=channel)
            self.time_to_send.labels(channel=channel)
        for channel, provider in FIRST_PROVIDERS:
            self.send_duration.labels(channel=channel, provider=provider)


class InboxMetrics:
    """What the inbox counts: its answers, and the keys it forgot."""

    def __init__(self, prefix: str, registry: CollectorRegistry) -> None:
        name = f"{prefix}_inbox"
        begins = Counter(f"{name}_begins_total", "Calls of try-begin by their outcome.", ["outcome"], registry=registry)
        leases = Counter(
            f"{name}_leases_total", "Leases extended, marked, released or lost.", ["outcome"], registry=registry
        )
        self.removed = Counter(f"{name}_removed_total", "Keys forgotten after their retention.", registry=registry)
        self._begins = {word: begins.labels(outcome=word) for word in INBOX_BEGINS}
        self._leases = {word: leases.labels(outcome=word) for word in INBOX_LEASES}

    def count_answer(self, call: str, outcome: str) -> None:
        """Count what a call of the inbox answered."""
        (self._begins if call == "try-begin" else self._leases)[outcome].inc()


class Metrics:
    """Everything one process measures, all of it at 0 from the start."""

    def __init__(self, prefix: str = "pillarbox") -> None:
        self._registry = CollectorRegistry()
        self.inbound = InboundMetrics(prefix, self._registry)
        self.hooks = HookMetrics(prefix, self._registry)
        self.outbound = OutboundMetrics(prefix, self._registry)
        self.inbox = InboxMetrics(prefix, self._registry)
        self.works = WorksMetrics(prefix, self._registry)
        self._http_requests = Counter(
            f"{prefix}_http_requests_total",
            "HTTP requests answered.",
            ["method", "route", "status"],
            registry=self._registry,
        )

    def count_request(self, *, method: str, route: str, status: int) -> None:
        """Count an answered request; the route is its pattern, never the path as requested."""
        known = method if method in _METHODS else "OTHER"
        self._http_requests.labels(method=known, route=route, status=str(status)).inc()

    async def watch(self) -> None:
        """Measure what has to be looked at again and again, for as long as this runs."""
        await self.works.watch_loop()

    def totals(self) -> Totals:
        """What this process has done so far, in numbers that other processes' can be added to."""
        return totals_of(self)

    def exposition(self) -> bytes:
        """Write all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
