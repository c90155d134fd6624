"""A tenant's cap holds in every window of a minute, however its messages arrive."""

from bisect import bisect_left
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pillarbox.outbound.rates import Cap, allowance, next_free, used

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MICROSECOND = timedelta(microseconds=1)

Arrivals = list[tuple[int, int]]

# How long after the one before, in microseconds, and how many want to go at once.
ARRIVALS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 2_000_000), st.sampled_from([0, 1, 59_999_999, 60_000_000, 60_000_001])),
        st.integers(1, 2000),
    ),
    max_size=40,
)


def sends(rate: int, arrivals: Arrivals) -> list[datetime]:
    """When messages go that arrive so, as a claim lets them: as many as may, as soon as they may."""
    cap, until, now, waiting = Cap.of(rate), None, START, 0
    sent: list[datetime] = []
    for gap, count in arrivals:
        now += gap * MICROSECOND
        waiting += count
        going = min(waiting, allowance(cap, until, now))
        if going:
            until = used(cap, until, now, going)
            sent += [now] * going
            waiting -= going
    return sent


def drained(rate: int, count: int) -> list[datetime]:
    """When messages go that all wait from the beginning, each taken the moment it may go."""
    cap, until, now = Cap.of(rate), None, START
    sent: list[datetime] = []
    while len(sent) < count:
        going = min(count - len(sent), allowance(cap, until, now))
        assert going > 0
        until = used(cap, until, now, going)
        sent += [now] * going
        now = max(now, next_free(cap, until))
    return sent


def most_in_a_minute(sent: list[datetime]) -> int:
    """The fullest window of sixty seconds, by looking at each that begins with a send."""
    return max((bisect_left(sent, first + MINUTE) - place for place, first in enumerate(sent)), default=0)


@given(rate=st.one_of(st.integers(1, 300), st.integers(1, 1_000_000)), arrivals=ARRIVALS)
@example(rate=11, arrivals=[(0, 1)] + [(5_454_545, 1)] * 15)
@example(rate=120, arrivals=[(0, 500), (500_000, 1)] * 40)
def test_no_minute_holds_more_than_the_cap_whenever_messages_come(rate: int, arrivals: Arrivals) -> None:
    assert most_in_a_minute(sends(rate, arrivals)) <= rate


@pytest.mark.parametrize("rate", [1, 2, 7, 11, 13, 59, 60, 61, 97, 119, 120, 121, 600, 997])
def test_a_backlog_fills_every_minute_and_overfills_none(rate: int) -> None:
    assert rate - 1 <= most_in_a_minute(drained(rate, 3 * rate + 2)) <= rate


@pytest.mark.parametrize("rate", [10_000, 100_000, 999_999, 1_000_000])
def test_a_high_cap_is_used_to_nineteen_twentieths_at_least(rate: int) -> None:
    cap = Cap.of(rate)
    assert 0.95 * rate <= cap.burst + MINUTE // cap.interval <= rate


@pytest.mark.parametrize(("rate", "burst"), [(1, 1), (119, 1), (120, 2), (600, 10)])
def test_a_tenant_that_rested_may_send_a_second_s_worth_at_once_and_no_more(rate: int, burst: int) -> None:
    cap = Cap.of(rate)
    assert allowance(cap, None, START) == burst
    until = used(cap, None, START, burst)
    assert allowance(cap, until, START) == 0
    # However long it rested, it saved nothing up.
    assert allowance(cap, until, START + 60 * MINUTE) == burst


@given(rate=st.integers(1, 100_000), count=st.integers(1, 50))
def test_the_next_one_may_go_exactly_when_it_is_told(rate: int, count: int) -> None:
    cap = Cap.of(rate)
    until = used(cap, None, START, max(count, cap.burst))
    free = next_free(cap, until)
    assert allowance(cap, until, free) >= 1
    assert allowance(cap, until, free - MICROSECOND) == 0


def test_a_tenant_that_idled_and_then_has_much_to_send_keeps_its_cap() -> None:
    busy = [(1_000_000, 50)] * 120
    sent = sends(600, [(0, 1), (3_600_000_000, 1), *busy])
    assert most_in_a_minute(sent) <= 600
