"""One attempt at a row: whatever a delivery answers, raises or does to itself, an outcome can be recorded or others decide."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, cast

import pytest

from pillarbox.engine import Delivered, Drain, Outcome, Retry, Skipped, Untouched, not_begun
from tests.engine.scripted import Row, ScriptedLane, drain_of, running, strand
from tests.engine.test_drain_troubles import told
from tests.simulation.loop import run_virtually


async def before_it_begins(row: Row) -> Outcome:
    with not_begun():
        await asyncio.sleep(600)
    return Delivered()


async def once_begun(row: Row) -> Outcome:
    with not_begun():
        await asyncio.sleep(0)
    await asyncio.sleep(600)
    return Delivered()


def stopped_in(deliver: Callable[[Row], Awaitable[Outcome]]) -> Outcome:
    """What is recorded of a delivery when the drain stops."""
    lane = ScriptedLane(strand("a", 1))

    async def main() -> None:
        async with running(drain_of(lane, deliver)):
            await asyncio.sleep(2)

    run_virtually(main())
    (settlement,) = lane.settled
    return settlement.outcome


def test_a_stop_gives_back_the_attempt_of_what_had_not_begun() -> None:
    assert isinstance(stopped_in(before_it_begins), Skipped)


def test_a_stop_counts_the_attempt_of_what_had_begun() -> None:
    outcome = stopped_in(once_begun)
    assert isinstance(outcome, Retry)
    assert (outcome.error, outcome.counts) == ("The node stopped during the delivery.", True)


def test_what_never_begins_in_all_its_time_is_an_attempt() -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1))
        await drain_of(lane, before_it_begins).step()
        (settlement,) = lane.settled
        assert isinstance(settlement.outcome, Retry)
        assert settlement.outcome.error == "The delivery took longer than 20 s."

    run_virtually(main())


def test_a_stop_that_nobody_asked_for_is_an_attempt() -> None:
    async def deliver(row: Row) -> Outcome:
        raise Untouched

    async def main() -> None:
        lane = ScriptedLane(strand("a", 1))
        await drain_of(lane, deliver).step()
        assert lane.outcomes == [Retry]

    run_virtually(main())


def test_a_delivery_that_cancels_its_own_task_is_tried_again_after_a_pause() -> None:
    async def deliver(row: Row) -> Outcome:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return Delivered()

    async def main() -> None:
        lane = ScriptedLane(strand("a", 1))
        drain = drain_of(lane, deliver)
        now = drain._clock.now()
        await drain.step()
        (settlement,) = lane.settled
        assert isinstance(settlement.outcome, Retry)
        assert settlement.outcome.error == "CancelledError"
        assert settlement.outcome.at is not None
        assert settlement.outcome.at > now

    run_virtually(main())


def test_an_outcome_whose_time_cannot_be_told_is_a_failed_attempt() -> None:
    async def deliver(row: Row) -> Outcome:
        return Retry("busy", not_before=datetime(2026, 1, 1))

    async def main() -> None:
        lane = ScriptedLane(strand("a", 1))
        drain = drain_of(lane, deliver)
        await drain.step()
        (settlement,) = lane.settled
        assert isinstance(settlement.outcome, Retry)
        assert settlement.outcome.error.startswith("The outcome of the delivery cannot be used: TypeError")
        assert settlement.outcome.at is not None
        assert drain.in_flight == 0

    run_virtually(main())


def test_a_generator_that_was_closed_inside_a_delivery_is_an_error_like_any_other() -> None:
    async def deliver(row: Row) -> Outcome:
        raise GeneratorExit

    async def main() -> None:
        lane = ScriptedLane(strand("a", 1))
        await drain_of(lane, deliver).step()
        (settlement,) = lane.settled
        assert isinstance(settlement.outcome, Retry)
        assert settlement.outcome.error == "GeneratorExit"

    run_virtually(main())


def test_a_delivery_that_is_left_over_when_its_loop_has_ended_is_taken_apart_without_a_word() -> None:
    lane = ScriptedLane(strand("a", 1), seconds=0)
    observed: list[Outcome] = []

    async def main() -> None:
        drain = drain_of(lane, once_begun, observe=lambda row, outcome, seconds: observed.append(outcome))
        stepping = asyncio.create_task(drain.step())
        await asyncio.sleep(1)
        (flight,) = drain._flights
        assert flight.task is not None
        cast(Coroutine[Any, Any, None], flight.task.get_coro()).close()
        stepping.cancel()
        await asyncio.wait([stepping])

    run_virtually(main())
    assert observed == []
    assert lane.settled == []


def test_a_delivery_that_cannot_be_observed_is_a_delivery(caplog: pytest.LogCaptureFixture) -> None:
    async def deliver(row: Row) -> Outcome:
        return Delivered()

    def observe(row: Row, outcome: Outcome, seconds: float) -> None:
        raise ValueError("no such label")

    async def main() -> None:
        lane = ScriptedLane(strand("a", 7))
        await drain_of(lane, deliver, observe=observe).step()
        assert lane.outcomes == [Delivered]

    run_virtually(main())
    assert told(caplog, "an attempt could not be observed") == [{"id": 7, "error": "ValueError: no such label"}]


async def directly(drain: Drain[Row]) -> None:
    drain.drop("a")


async def in_a_task(drain: Drain[Row]) -> None:
    await asyncio.create_task(directly(drain))


@pytest.mark.parametrize("drop", [directly, in_a_task])
def test_a_delivery_that_ends_its_own_row_goes_on_and_reports_nothing(
    drop: Callable[[Drain[Row]], Awaitable[None]],
) -> None:
    ended: list[int] = []

    async def main() -> None:
        async def deliver(row: Row) -> Outcome:
            await drop(drain)
            await asyncio.sleep(10)
            ended.append(row.id)
            return Delivered()

        lane = ScriptedLane(strand("a", 1))
        drain = drain_of(lane, deliver)
        await drain.step()
        assert ended == [1]
        assert lane.settled == []
        assert drain.in_flight == 0

    run_virtually(main())


def test_a_delivery_that_ends_its_own_row_and_fails_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def deliver(row: Row) -> Outcome:
            drain.drop("a")
            raise ValueError("and now this")

        lane = ScriptedLane(strand("a", 7))
        drain = drain_of(lane, deliver)
        await drain.step()
        assert lane.settled == []

    run_virtually(main())
    (fields,) = told(caplog, "a delivery ended its own row and then failed")
    assert fields == {"id": 7, "error": "ValueError: and now this"}


def test_a_stop_also_stops_a_delivery_that_the_next_of_its_strand_has_overtaken() -> None:
    stopped: list[int] = []

    async def main() -> None:
        async def deliver(row: Row) -> Outcome:
            if row.id == 1:
                drain.drop("a", row_id=1)
                lane.waiting.append(strand("a", 2))
                try:
                    await asyncio.sleep(15)
                except asyncio.CancelledError:
                    stopped.append(row.id)
                    raise
            return Delivered()

        lane = ScriptedLane(strand("a", 1))
        drain = drain_of(lane, deliver)
        async with running(drain):
            await asyncio.sleep(2)
            drain._bell.ring()
            await asyncio.sleep(5)
            assert [each.row.id for each in lane.settled] == [2]
            assert stopped == []
        assert stopped == [1]

    run_virtually(main())
