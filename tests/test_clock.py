"""Time that is stored does not jump when the wall clock is set; time that is shown follows it."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.clock import EPOCH, OffsetClock
from pillarbox.storage.sqlite import SqliteDatabase

START = datetime(2026, 3, 1, tzinfo=UTC)
STEPS = [timedelta(days=-400), timedelta(hours=-1), timedelta(seconds=2), timedelta(days=3)]


class Machine:
    """A counter that only counts, and a wall clock that anybody may set."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.set_by = timedelta(0)

    def counter(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.seconds - 1000) + self.set_by

    def clock(self) -> OffsetClock:
        return OffsetClock(counter=self.counter, offset=(START - EPOCH).total_seconds() - 1000, wall=self.wall)


@pytest.mark.parametrize("step", STEPS)
def test_setting_the_wall_clock_moves_what_is_shown_and_nothing_that_is_stored(step: timedelta) -> None:
    machine = Machine()
    clock = machine.clock()
    stored = clock.now()
    machine.set_by = step
    machine.seconds += 10
    assert clock.now() - stored == timedelta(seconds=10)
    assert clock.shown(stored) == stored + step
    assert clock.stored(machine.wall()) == clock.now()


def test_drift_below_a_second_is_not_shown() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.set_by = timedelta(milliseconds=900)
    assert clock.shown(clock.now()) == clock.now()


@given(st.lists(st.floats(-5, 5), max_size=20))
def test_small_corrections_never_make_it_go_back(corrections: list[float]) -> None:
    machine = Machine()
    clock = machine.clock()
    seen = [clock.now()]
    for correction in corrections:
        clock.follow(clock.offset + correction)
        seen.append(clock.now())
    assert seen == sorted(seen)


def test_a_timeline_that_others_agreed_on_is_taken_even_if_it_lies_behind() -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock.now()
    clock.jump(clock.offset - 3600)
    assert clock.now() == before - timedelta(hours=1)


@pytest.mark.parametrize("hours", [-48, 48])
async def test_processes_on_one_file_agree_on_the_time_whatever_their_wall_clocks_say(
    tmp_path: Path, hours: int
) -> None:
    path = tmp_path / "pillarbox.db"
    database = SqliteDatabase(str(path))
    program = f"""
import time
real = time.time
time.time = lambda: real() + {hours} * 3600
from pillarbox.storage.sqlite import SqliteDatabase
print(SqliteDatabase({str(path)!r}).clock.now().isoformat())
"""
    told = subprocess.run(  # noqa: ASYNC221 - nothing else runs here
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    now = database.clock.now()
    await database.close()
    assert abs(now - datetime.fromisoformat(told.strip())) < timedelta(seconds=30)
