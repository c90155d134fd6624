"""Counting and logging what is sent: ids and kinds, never addresses or content."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pillarbox.clock import Clock
from pillarbox.engine import Delivered, Outcome, Retry, Skipped
from pillarbox.outbound.attempt import Parcel, report_of
from pillarbox.outbound.enqueue import Order
from pillarbox.outbound.model import OutboundStatus
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

    def enqueued(self, order: Order) -> None:
        self._metrics.enqueued.labels(channel=order.message.channel).inc()

    def show(self, status: OutboundStatus) -> None:
        self._metrics.queue_length.set(status.pending + status.failed)
        self._metrics.oldest_age_seconds.set(status.oldest_age_seconds or 0)

    def in_flight(self) -> AbstractContextManager[None]:
        return self._metrics.inflight.track_inprogress()

    def observe(self, parcel: Parcel, outcome: Outcome, seconds: float) -> None:
        """Note how an attempt ended."""
        if isinstance(outcome, Skipped):
            return
        report = report_of(outcome)
        provider = report.provider or "none"
        about = {
            "tenant": parcel.tenant_id,
            "message_id": parcel.id,
            "channel": parcel.channel,
            "provider": provider,
            "attempt": parcel.attempt_count,
        }
        names_a_file = (report.error or "").startswith(_NAMES_A_FILE)
        cause = "An attachment could not be had." if names_a_file else report.error
        why = {"cause": cause, "outcome": report.judgement, "status_code": report.status_code}
        self._metrics.send_duration.labels(channel=parcel.channel, provider=provider).observe(seconds)
        if isinstance(outcome, Delivered):
            self._metrics.sent.labels(channel=parcel.channel).inc()
            waited = (self._clock.now() - parcel.created_at).total_seconds()
            self._metrics.time_to_send.labels(channel=parcel.channel).observe(max(0.0, waited))
            log.info("sent", **about)
        elif isinstance(outcome, Retry) and parcel.attempt_count < parcel.last_attempt:
            self._metrics.retries.labels(channel=parcel.channel).inc()
            log.warning("not sent; it will be tried again", **why, **about)
        else:
            self._metrics.failed.labels(channel=parcel.channel).inc()
            log.error("not sent; it will not be tried again", **why, **about)
