"""What a process has done since it started, pipe by pipe and channel by channel, in a few numbers that can be added up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from pillarbox.telemetry.metrics import Metrics

WELL, BADLY, SECONDS, TIMED = range(4)
Totals = dict[str, list[float]]


def totals_of(metrics: Metrics) -> Totals:
    """For each pipe, `outbound.email` and so on for channels: what ended well, what failed, seconds spent, attempts timed."""
    found: Totals = defaultdict(lambda: [0.0] * 4)
    out, inbound, hooks = metrics.outbound, metrics.inbound, metrics.hooks
    for pipe, place, family in (
        ("outbound", WELL, out.sent),
        ("outbound", BADLY, out.failed),
        ("outbound", BADLY, out.retries),
        ("inbound", WELL, inbound.delivered),
        ("inbound", BADLY, inbound.failed_attempts),
        ("hooks", WELL, hooks.delivered),
        ("hooks", BADLY, hooks.failed_attempts),
        ("hooks", BADLY, hooks.dead),
    ):
        _add(found, pipe, ((place, "_total"),), family)
    for pipe, times in (
        ("outbound", out.send_duration),
        ("inbound", inbound.delivery_seconds),
        ("hooks", hooks.delivery_seconds),
    ):
        _add(found, pipe, ((SECONDS, "_sum"), (TIMED, "_count")), times)
    return {name: [round(number, 6) for number in numbers] for name, numbers in found.items() if any(numbers)}


def _add(found: Totals, pipe: str, places: Iterable[tuple[int, str]], family: Collector) -> None:
    for metric in family.collect():
        for sample in metric.samples:
            for place, ending in places:
                if sample.name.endswith(ending) and sample.value:
                    channel = sample.labels.get("channel")
                    found[f"{pipe}.{channel}" if channel else pipe][place] += sample.value
