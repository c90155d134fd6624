"""What is noted with every row comes out as the metrics library would have counted it."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import generate_latest

from pillarbox.telemetry.tallies import Durations, Tally

BUCKETS = (0.005, 0.25, 1, 300)
SECONDS = st.sampled_from((*BUCKETS, 0.0, 0.0049, 0.251, 301.0)) | st.floats(0, 400)
KINDS = st.sampled_from(("http", "tmux", 'a "quoted" one'))


def shown(registry: CollectorRegistry) -> list[str]:
    """What a scrape says, without when a series was made, which is never asked for."""
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]


@given(st.lists(st.lists(st.tuples(KINDS, SECONDS), max_size=8), max_size=4))
def test_durations_are_told_as_the_librarys_histogram_tells_them(stretches: list[list[tuple[str, float]]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    durations = Durations("took_seconds", "How long.", ["kind"], buckets=BUCKETS, registry=ours)
    histogram = Histogram("took_seconds", "How long.", ["kind"], buckets=BUCKETS, registry=theirs)
    for stretch in stretches:
        for kind, seconds in stretch:
            durations.labels(kind=kind).observe(seconds)
            histogram.labels(kind=kind).observe(seconds)
        assert without_sums(shown(ours)) == without_sums(shown(theirs))
        assert sums(shown(ours)) == sums(shown(theirs))


def without_sums(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.startswith("took_seconds_sum")]


def sums(lines: list[str]) -> dict[str, float]:
    """The order in which seconds are added up changes their last digits."""
    found = [line.rsplit(" ", 1) for line in lines if line.startswith("took_seconds_sum")]
    return {name: round(float(seconds), 6) for name, seconds in found}


@given(st.integers(0, 50))
def test_a_tally_is_told_as_the_librarys_counter_tells_it(count: int) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    tally, counter = Tally("done", "What was done.", registry=ours), Counter("done", "What was done.", registry=theirs)
    for _ in range(count):
        tally.inc()
        counter.inc()
    assert shown(ours) == shown(theirs)


def test_nothing_is_missed_or_counted_twice_while_others_look() -> None:
    registry = CollectorRegistry()
    series = Durations("took_seconds", "How long.", buckets=BUCKETS, registry=registry).labels()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            series.counted()

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    for _ in range(50_000):
        series.observe(0.5)
    over.set()
    for looker in lookers:
        looker.join()
    buckets, total = series.counted()
    assert buckets == [("0.005", 0.0), ("0.25", 0.0), ("1.0", 50_000.0), ("300.0", 50_000.0), ("+Inf", 50_000.0)]
    assert total == 25_000.0


def test_what_nobody_looks_at_is_not_kept_one_by_one() -> None:
    series = Durations("took_seconds", "How long.", buckets=BUCKETS, registry=CollectorRegistry()).labels()
    for _ in range(100_000):
        series.observe(0.5)
    assert len(series._noted) < 2000
