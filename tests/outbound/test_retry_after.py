from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.outbound.retry_after import LONGEST_SECONDS, http_date, seconds_to_wait, seconds_until_epoch

NOW = datetime(1994, 11, 6, 8, 49, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    "date",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun, 06 Nov 1994 10:49:37 +0200",
    ],
)
def test_each_form_of_an_http_date_is_read(date: str) -> None:
    assert seconds_to_wait(date, now=NOW) == 30


@pytest.mark.parametrize("value", [None, "", "0", "-1", "+1", "1.5", "1,5", "0x10", "٣", "soon", "Sun, 06 Nov 1994"])
def test_what_says_nothing_is_ignored(value: str | None) -> None:
    assert seconds_to_wait(value, now=NOW) is None
    assert seconds_until_epoch(value, now=NOW) is None


def test_a_date_in_the_past_is_ignored() -> None:
    assert seconds_to_wait("Sun, 06 Nov 1994 08:49:07 GMT", now=NOW) is None
    assert seconds_until_epoch("1", now=NOW) is None


@pytest.mark.parametrize("value", ["99999999999", "9" * 30, "9" * 5000, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_an_absurd_wait_is_bounded(value: str) -> None:
    assert seconds_to_wait(value, now=NOW) == LONGEST_SECONDS


def test_a_reset_is_counted_from_now() -> None:
    assert seconds_until_epoch(str(int(NOW.timestamp()) + 12), now=NOW) == 12
    assert seconds_until_epoch("9" * 400, now=NOW) == LONGEST_SECONDS
    assert seconds_until_epoch("1794744030", now=None) is None


@given(st.text() | st.from_regex(r"[0-9A-Za-z,:+ -]{0,40}"))
def test_any_text_gives_a_bounded_wait_or_none(text: str) -> None:
    for wait in (seconds_to_wait(text, now=NOW), seconds_until_epoch(text, now=NOW)):
        assert wait is None or 0 < wait <= LONGEST_SECONDS


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2100, 1, 1)), st.integers(1, 10**6))
def test_a_date_is_a_wait_of_its_distance(now: datetime, ahead: int) -> None:
    now = now.replace(microsecond=0, tzinfo=UTC)
    date = (now + timedelta(seconds=ahead)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert seconds_to_wait(date, now=now) == ahead


@given(st.text(max_size=100))
def test_a_date_that_is_none_breaks_nothing(text: str) -> None:
    found = http_date(text)
    assert found is None or found.tzinfo is UTC
