"""Counting and logging what is sent: ids and kinds, never addresses or content."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from pillarbox.clock import Clock
from pillarbox.engine import Delivered, Outcome, Retry, Skipped
from pillarbox.outbound.attempt import Parcel, Report, report_of
from pillarbox.outbound.candidates import Candidate
from pillarbox.outbound.enqueue import Order
from pillarbox.outbound.model import CHANNELS, OutboundStatus
from pillarbox.outbound.settling import Ending
from pillarbox.telemetry import logger
from pillarbox.telemetry.metrics import OutboundMetrics

log = logger(__name__)

# How every sentence begins that names a file: what files are called is content too.
_NAMES_A_FILE = "The attachment "


class Observer:
    """Sees every message come in and every attempt end."""

    def __init__(self, metrics: OutboundMetrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        # Finding a counter by its labels costs more than counting: channels and providers are few.
        self._enqueued = cache(lambda channel: metrics.enqueued.labels(channel=channel))
        self._sent = cache(lambda channel: metrics.sent.labels(channel=channel))
        self._waited = cache(lambda channel: metrics.time_to_send.labels(channel=channel))
        self._took = cache(lambda channel, provider: metrics.send_duration.labels(channel=channel, provider=provider))

    def enqueued(self, order: Order) -> None:
        self._enqueued(order.message.channel).inc()

    def show(self, status: OutboundStatus) -> None:
        self._metrics.queue_length.set(status.pending + status.failed)
        self._metrics.oldest_age_seconds.set(status.oldest_age_seconds or 0)

    def watch(self, in_flight: Callable[[], int]) -> None:
        """Whatever is in flight is counted when somebody asks."""
        self._metrics.inflight.set_function(in_flight)

    def observe(self, parcel: Parcel, outcome: Outcome, seconds: float) -> None:
        """Note how an attempt ended."""
        if isinstance(outcome, Skipped):
            return
        report = report_of(outcome)
        self._took(parcel.channel, report.provider or "none").observe(seconds)
        if isinstance(outcome, Delivered):
            self._sent(parcel.channel).inc()
            waited = (self._clock.now() - parcel.created_at).total_seconds()
            self._waited(parcel.channel).observe(max(0.0, waited))
            log.info("sent", **_about(parcel, report))
        elif isinstance(outcome, Retry) and parcel.attempt_count < parcel.last_attempt:
            self._metrics.retries.labels(channel=parcel.channel).inc()
            log.warning("not sent; it will be tried again", **_why(report), **_about(parcel, report))
        else:
            self._metrics.failed.labels(channel=parcel.channel).inc()
            log.error("not sent; it will not be tried again", **_why(report), **_about(parcel, report))

    def failed(self, message: Candidate, ending: Ending) -> None:
        """Note what failed without an attempt."""
        channel = message.channel if message.channel in CHANNELS else "none"
        self._metrics.failed.labels(channel=channel).inc()
        about = {"tenant": message.tenant_id, "message_id": message.message_id, "channel": channel}
        log.error("not sent; it will not be tried again", cause=ending.reason, **about)


def _about(parcel: Parcel, report: Report) -> dict[str, object]:
    return {
        "tenant": parcel.tenant_id,
        "message_id": parcel.id,
        "channel": parcel.channel,
        "provider": report.provider or "none",
        "attempt": parcel.attempt_count,
    }


def _why(report: Report) -> dict[str, object]:
    names_a_file = (report.error or "").startswith(_NAMES_A_FILE)
    cause = "An attachment could not be had." if names_a_file else report.error
    return {"cause": cause, "outcome": report.judgement, "status_code": report.status_code}
