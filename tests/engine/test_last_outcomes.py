"""What was delivered last is recorded before the stop, although the store fails for a moment."""

import asyncio

import pytest

from pillarbox.engine import Delivered
from pillarbox.errors import Unavailable
from tests.engine.scripted import ScriptedLane, drain_of, running, slowly, strand
from tests.engine.test_drain_troubles import told
from tests.simulation.loop import run_virtually

LOST = "outcomes were not recorded before the stop; their leases will end"


def test_an_outcome_that_the_store_refuses_once_at_the_stop_is_recorded_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1), strand("b", 2))
        lane.settle_errors = [Unavailable("for a moment")]
        async with running(drain_of(lane, slowly)):
            await asyncio.sleep(2)
        assert sorted(each.row.id for each in lane.settled) == [1, 2]
        assert lane.settle_calls == 2
        assert told(caplog, LOST) == []

    run_virtually(main())


def test_an_outcome_that_cannot_be_recorded_at_the_stop_is_told_of_once_and_kept_for_a_later_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1), seconds=0)
        lane.settle_errors = [Unavailable("away")] * 2
        drain = drain_of(lane, slowly)
        async with running(drain):
            await asyncio.sleep(2)
        assert lane.settled == []
        assert told(caplog, LOST) == [{"error": "Unavailable: away"}]
        async with running(drain, grace=20):
            await asyncio.sleep(2)
        assert [each.row.id for each in lane.settled] == [1]

    run_virtually(main())


def test_a_stop_at_which_all_goes_well_takes_no_longer_for_that() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        lane = ScriptedLane(strand("a", 1), seconds=0)
        async with running(drain_of(lane, slowly), grace=20):
            await asyncio.sleep(10.5)
            assert lane.outcomes == [Delivered]
            began = loop.time()
        assert loop.time() == began

    run_virtually(main())
