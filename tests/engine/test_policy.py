from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.engine import Backoff, Delivered, Failed, Outcome, Policy, Retry, Skipped

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
POLICY = Policy(Backoff((5, 10, 20)))


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("outcome", "attempt", "at"),
    [
        (Retry("x"), 1, after(5)),
        (Retry("x"), 2, after(10)),
        (Retry("x"), 9, after(20)),
        (Retry("x", at=LATER), 1, LATER),
        (Retry("x", not_before=LATER), 1, LATER),
        (Retry("x", not_before=after(1)), 1, after(5)),
        (Retry("x", at=after(1), not_before=LATER), 1, LATER),
        (Retry("x", counts=False), 2, after(10)),
        (Skipped("away"), 7, after(5)),
        (Skipped("away", at=LATER), 7, LATER),
    ],
)
def test_an_outcome_gets_its_next_time(outcome: Retry | Skipped, attempt: int, at: datetime) -> None:
    completed = POLICY.complete(outcome, attempt=attempt, now=NOW, random=Random(0))
    assert completed == replace(outcome, at=at)


@pytest.mark.parametrize("outcome", [Delivered("receipt"), Failed("no")])
def test_an_outcome_that_ends_is_left_as_it_is(outcome: Outcome) -> None:
    assert POLICY.complete(outcome, attempt=1, now=NOW, random=Random(0)) == outcome


@given(st.integers(0, 100), st.none() | st.integers(-1000, 1000), st.floats(0, 0.5))
def test_a_retry_is_never_before_its_wait_nor_before_what_was_asked(
    attempt: int, not_before: int | None, jitter: float
) -> None:
    policy = Policy(Backoff((5, 10, 20), jitter))
    earliest = None if not_before is None else after(not_before)
    completed = policy.complete(Retry("x", not_before=earliest), attempt=attempt, now=NOW, random=Random(attempt))
    assert isinstance(completed, Retry)
    assert completed.at is not None
    assert completed.at >= after(5 * (1 - jitter))
    assert earliest is None or completed.at >= earliest


def test_an_exception_means_another_try_with_its_first_sentence() -> None:
    assert POLICY.judge(ConnectionError("refused\nand much more")) == Retry("ConnectionError: refused")
