"""Metrics: every series is there from the start, and no caller can add one."""

from __future__ import annotations

import pytest

from pillarbox.telemetry import Metrics

FROM_THE_START = [
    "inbound_enqueued_total",
    "inbound_delivered_total",
    "inbound_failed_attempts_total",
    "inbound_expired_total",
    "inbound_duplicates_total",
    "inbound_inflight",
    "inbound_queue_length",
    "inbound_oldest_age_seconds",
    'inbound_delivery_seconds_count{target="http"}',
    'inbound_delivery_seconds_count{target="python"}',
    'inbound_delivery_seconds_count{target="command"}',
]


def lines(metrics: Metrics) -> list[str]:
    return metrics.exposition().decode().splitlines()


@pytest.mark.parametrize("name", FROM_THE_START)
def test_a_series_is_there_at_zero_from_the_start(name: str) -> None:
    assert f"pillarbox_{name} 0.0" in lines(Metrics())


def test_every_name_begins_with_the_prefix() -> None:
    assert all(line.startswith(("acme_", "# HELP acme_", "# TYPE acme_")) for line in lines(Metrics("acme")))


def test_what_is_counted_is_shown() -> None:
    metrics = Metrics()
    metrics.inbound.enqueued.inc()
    metrics.inbound.queue_length.set(3)
    metrics.inbound.delivery_seconds.labels(target="http").observe(0.2)
    metrics.count_request(method="POST", route="/v1/inbound", status=202)
    shown = lines(metrics)
    assert "pillarbox_inbound_enqueued_total 1.0" in shown
    assert "pillarbox_inbound_queue_length 3.0" in shown
    assert 'pillarbox_inbound_delivery_seconds_count{target="http"} 1.0' in shown
    assert 'pillarbox_http_requests_total{method="POST",route="/v1/inbound",status="202"} 1.0' in shown


def test_two_boxes_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.inbound.enqueued.inc()
    assert "pillarbox_inbound_enqueued_total 0.0" in lines(other)


def test_an_invented_method_makes_no_series_of_its_own() -> None:
    metrics = Metrics()
    for method in ("BREW", "WHEN", "get"):
        metrics.count_request(method=method, route="/", status=405)
    assert 'pillarbox_http_requests_total{method="OTHER",route="/",status="405"} 3.0' in lines(metrics)
