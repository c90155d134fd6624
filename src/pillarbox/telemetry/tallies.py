"""Metrics of what happens with every row: noted in a list, and counted when somebody looks.

To find its bucket and take two locks costs more than most of what is measured. Each is noted by one thread, the event loop's;
anybody may look.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

_MOST_NOTED = 1024


class Tally(Collector):
    """A counter."""

    def __init__(self, name: str, documentation: str, *, registry: CollectorRegistry) -> None:
        self._name = name
        self._documentation = documentation
        self._count = 0
        registry.register(self)

    def inc(self) -> None:
        self._count += 1

    def describe(self) -> Iterator[Metric]:
        yield CounterMetricFamily(self._name, self._documentation)

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(self._name, self._documentation, value=self._count)


class Series:
    """The durations of one kind."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._noted: list[float] = []
        self._at_most = [0] * len(bounds)
        self._count = 0
        self._sum = 0.0
        self._counting = threading.Lock()

    def observe(self, seconds: float) -> None:
        self._noted.append(seconds)
        if len(self._noted) >= _MOST_NOTED:
            self.counted()

    def counted(self) -> tuple[list[tuple[str, float]], float]:
        """How many took so long at most, for each bound, and how long all of them took."""
        with self._counting:
            # Others may be noted meanwhile: they stay for the next time.
            taken = sorted(self._noted[: len(self._noted)])
            del self._noted[: len(taken)]
            for place, bound in enumerate(self._bounds):
                self._at_most[place] += bisect_right(taken, bound)
            self._count += len(taken)
            self._sum += sum(taken)
            buckets = [(str(float(bound)), float(n)) for bound, n in zip(self._bounds, self._at_most, strict=True)]
            return [*buckets, ("+Inf", float(self._count))], self._sum


class Durations(Collector):
    """A histogram of seconds, with a series for each combination of labels."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = tuple(labels)
        self._buckets = tuple(buckets)
        self._series: dict[tuple[str, ...], Series] = {}
        registry.register(self)

    def labels(self, **values: str) -> Series:
        """The series of these labels, which is there from now on."""
        key = tuple(values[label] for label in self._labels)
        if key not in self._series:
            self._series.setdefault(key, Series(self._buckets))
        return self._series[key]

    def describe(self) -> Iterator[Metric]:
        yield HistogramMetricFamily(self._name, self._documentation, labels=self._labels)

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        for values, series in tuple(self._series.items()):
            buckets, total = series.counted()
            family.add_metric(values, buckets, total)
        yield family
