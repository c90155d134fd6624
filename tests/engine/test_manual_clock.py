from datetime import timedelta

import pytest

from pillarbox.clock import Clock
from pillarbox.testing import ManualClock


def test_time_passes_only_when_told() -> None:
    clock: Clock = ManualClock()
    assert clock.now() == clock.now()
    assert clock.monotonic() == 0


def test_both_timelines_advance_together() -> None:
    clock = ManualClock()
    before = clock.now()
    clock.advance(1.5)
    assert clock.now() - before == timedelta(seconds=1.5)
    assert clock.monotonic() == 1.5
    assert clock.shown(clock.now()) == clock.stored(clock.now()) == clock.now()


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        ManualClock().advance(-1)
