from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.engine import Backoff

STEPS = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=8).map(tuple)


@pytest.mark.parametrize(("attempt", "delay"), [(0, 5), (1, 5), (2, 10), (3, 20), (4, 20), (1000, 20)])
def test_the_last_step_repeats_for_ever(attempt: int, delay: float) -> None:
    assert Backoff((5, 10, 20)).delay(attempt, Random(0)) == delay


@given(STEPS, st.floats(0, 1), st.integers(-3, 50), st.randoms(use_true_random=False))
def test_a_delay_stays_within_its_jitter_and_below_the_longest(
    steps: tuple[float, ...], jitter: float, attempt: int, random: Random
) -> None:
    backoff = Backoff(steps, jitter)
    step = steps[min(max(attempt, 1), len(steps)) - 1]
    delay = backoff.delay(attempt, random)
    assert step * (1 - jitter) * 0.999 <= delay <= step * (1 + jitter) * 1.001
    assert delay <= backoff.longest * 1.001


def test_without_jitter_nothing_is_drawn() -> None:
    random = Random(1)
    before = random.getstate()
    Backoff((5,)).delay(1, random)
    assert random.getstate() == before


def test_delays_are_spread_by_the_jitter_both_ways_and_end_at_the_longest() -> None:
    random, backoff = Random(0), Backoff((10, 100), jitter=0.2)
    delays = [backoff.delay(1, random) for _ in range(500)]
    assert 8 <= min(delays) < 8.2
    assert 11.8 < max(delays) <= 12
