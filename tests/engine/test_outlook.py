"""How long a drain rests where the lane cannot say what is due next, although all else goes well."""

import asyncio

import pytest

from pillarbox.engine import Delivered, Pace
from pillarbox.engine.outlook import Outlook
from pillarbox.errors import Unavailable
from tests.engine.scripted import Row, ScriptedLane, at_once, drain_of, running, strand
from tests.engine.test_drain_troubles import told
from tests.simulation.loop import LoopClock, run_virtually

WARNING = "the queue cannot say what is due next; it is looked through after a pause"


class Silent(ScriptedLane):
    """Claims and settles, but cannot say what is due next as long as it is silent."""

    silent = True
    asked = 0

    async def next_due(self, **_: object) -> None:
        self.asked += 1
        if self.silent:
            raise Unavailable("silent")


def test_good_turns_do_not_shorten_the_pauses_of_a_lane_that_cannot_say_what_is_due_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        lane = Silent(seconds=0)
        async with running(drain_of(lane, at_once)):
            await asyncio.sleep(20)
        fields = told(caplog, WARNING)
        assert [each["pause_seconds"] for each in fields][:8] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
        assert {each["error"] for each in fields} == {"Unavailable: silent"}
        assert len(lane.turns) <= lane.asked + 1 < 20

    run_virtually(main())


def test_what_comes_during_such_a_pause_is_delivered_at_once_and_the_question_waits() -> None:
    async def main() -> None:
        lane = Silent(seconds=0)
        drain = drain_of(lane, at_once)
        async with running(drain):
            await asyncio.sleep(10)
            asked = lane.asked
            for number in range(10):
                lane.waiting = [strand("a", number)]
                drain._bell.ring()
                await asyncio.sleep(0.01)
                assert lane.outcomes == [Delivered] * (number + 1)
            assert lane.asked <= asked + 1

    run_virtually(main())


def test_an_answer_ends_the_pauses() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        lane, clock = Silent(seconds=0), LoopClock(loop)
        outlook: Outlook[Row] = Outlook(lane, Pace(4, timeout=20, poll=3600), clock)
        assert await outlook.rest(looked=clock.now()) == 0.05
        await asyncio.sleep(0.06)
        assert await outlook.rest(looked=clock.now()) == 0.1
        lane.silent = False
        assert 0 < await outlook.rest(looked=clock.now()) <= 0.1
        await asyncio.sleep(0.2)
        assert await outlook.rest(looked=clock.now()) == 3600
        lane.silent = True
        assert await outlook.rest(looked=clock.now()) == 0.05

    run_virtually(main())
