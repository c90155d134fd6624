"""Single moments of the drain's life; what happens when everything happens at once is in tests/simulation."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime

from pillarbox.engine import Delivered, Drain, Lease, Outcome, Retry, Room, Settlement, Skipped, Turn
from pillarbox.errors import Unavailable
from tests.engine.scripted import Row, ScriptedLane, at_once, drain_of, running, slowly, strand
from tests.simulation.loop import LoopClock, run_virtually


def test_a_step_delivers_and_settles_everything_that_is_due() -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1), strand("b", 2, 3))
        assert await drain_of(lane, slowly).step() == 3
        assert lane.outcomes == [Delivered] * 3
        assert [settlement.ends for settlement in sorted(lane.settled, key=lambda s: s.row.id)] == [True, False, True]

    run_virtually(main())


def test_what_a_slow_database_was_long_in_handing_out_is_renewed_at_once() -> None:
    async def scenario() -> None:
        lane = ScriptedLane(strand("a", 1), seconds=11)
        renewed = asyncio.get_running_loop().create_future()

        async def deliver(row: Row) -> Outcome:
            # The loop, and its time with it, stands still meanwhile.
            renewed.set_result(lane.renewed.acquire(timeout=10))
            return Delivered()

        drain = drain_of(lane, deliver)
        task = asyncio.create_task(drain.run(grace=0))
        await asyncio.sleep(5)
        drain.renewal.tick()
        assert await renewed
        drain.stop()
        await asyncio.wait([task])

    run_virtually(scenario())


def test_a_failure_ends_its_strand() -> None:
    async def fail(row: Row) -> Outcome:
        raise ConnectionError("refused")

    async def main() -> None:
        lane = ScriptedLane(strand("a", 1, 2))
        assert await drain_of(lane, fail).step() == 1
        (settlement,) = lane.settled
        assert settlement.ends
        assert isinstance(settlement.outcome, Retry)

    run_virtually(main())


def test_what_was_dropped_while_its_claim_was_on_the_way_is_not_begun() -> None:
    begun = []

    async def note(row: Row) -> Outcome:
        begun.append(row.id)
        return Delivered()

    async def main() -> None:
        drain = drain_of(ScriptedLane(strand("a", 1), strand("b", 2), strand("c", 3)), note)
        async with running(drain):
            await asyncio.sleep(0.5)
            drain.drop("a")
            drain.drop("b", row_id=99)
            drain.drop("c", row_id=3)
            await asyncio.sleep(3)

    run_virtually(main())
    assert begun == [2]


def test_a_flight_that_is_dropped_before_its_first_step_frees_its_slot() -> None:
    class Dropping(ScriptedLane):
        async def turn(
            self, settlements: Sequence[Settlement[Row]], lease: Lease, *, room: Room, now: datetime
        ) -> Turn[Row]:
            turn = await super().turn(settlements, lease, room=room, now=now)
            asyncio.get_running_loop().call_soon(drains[0].drop, "a")
            return turn

    async def main() -> None:
        drains.append(drain := drain_of(lane, at_once, concurrency=1))
        async with running(drain):
            await asyncio.sleep(10)
            assert drain.in_flight == 0
        assert [settlement.row.id for settlement in lane.settled] == [2]

    drains: list[Drain[Row]] = []
    lane = Dropping(strand("a", 1), strand("b", 2))
    run_virtually(main())


def test_a_cancelled_run_gives_back_what_a_turn_under_way_was_claiming() -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1))
        async with running(drain_of(lane, slowly)) as run:
            await asyncio.sleep(0.5)
            run.cancel()
            await asyncio.wait([run])
            assert run.cancelled()
        assert lane.outcomes in ([Skipped], [Retry])
        assert asyncio.get_running_loop().time() == 1

    run_virtually(main())


def test_a_run_that_is_cancelled_twice_still_ends_the_turn_under_way() -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1))
        async with running(drain_of(lane, slowly)) as run:
            await asyncio.sleep(0.3)
            for _ in range(2):
                run.cancel()
                await asyncio.sleep(0.1)
            assert not run.done()
            await asyncio.wait([run])
            assert run.cancelled()
        assert lane.outcomes in ([Skipped], [Retry])

    run_virtually(main())


def test_a_stop_waits_for_deliveries_within_the_grace_and_rings_by_settling() -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1))
        async with running(drain_of(lane, slowly), grace=15):
            await asyncio.sleep(2)
        assert lane.outcomes == [Delivered]
        assert lane.settle_calls == 1
        assert asyncio.get_running_loop().time() == 11

    run_virtually(main())


def test_a_stop_gives_back_at_once_what_outlasts_the_grace() -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1))
        async with running(drain_of(lane, slowly), grace=3):
            await asyncio.sleep(2)
        (settlement,) = lane.settled
        assert settlement.outcome == Retry("The node stopped during the delivery.", at=drain_clock().now())
        assert asyncio.get_running_loop().time() == 5

    run_virtually(main())


def drain_clock() -> LoopClock:
    return LoopClock(asyncio.get_running_loop())


def test_a_delivery_that_ignores_its_cancellation_does_not_hold_up_the_end() -> None:
    async def stubborn(row: Row) -> Outcome:
        for _ in range(3):
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                continue
        return Delivered()

    async def main() -> None:
        async with running(drain_of(ScriptedLane(strand("a", 1)), stubborn)) as run:
            await asyncio.sleep(2)
        assert run.done()
        assert asyncio.get_running_loop().time() < 10

    run_virtually(main())


def test_an_outcome_is_kept_until_the_store_takes_it() -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1))
        lane.turn_errors = [Unavailable("away"), RuntimeError("odd"), Unavailable("away")]
        lane.settle_errors = [Unavailable("away")]
        async with running(drain_of(lane, at_once)):
            await asyncio.sleep(30)
            assert lane.outcomes == [Delivered]

    run_virtually(main())


def test_an_outcome_that_is_itself_the_trouble_holds_up_no_other() -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1), strand("b", 2))
        lane.turn_errors = [RuntimeError("a value that cannot be stored")]
        lane.settle_errors = [RuntimeError("a value that cannot be stored")]
        async with running(drain_of(lane, at_once)):
            await asyncio.sleep(30)
            assert len(lane.settled) == 1

    run_virtually(main())


def test_what_a_destination_raises_is_told_apart_from_our_own_limit() -> None:
    async def odd(row: Row) -> Outcome:
        if row.id == 1:
            raise TimeoutError("its own")
        if row.id == 2:
            raise asyncio.CancelledError
        await asyncio.sleep(100)
        raise AssertionError

    async def main() -> None:
        lane = ScriptedLane(strand("a", 1), strand("b", 2), strand("c", 3))
        await drain_of(lane, odd).step()
        outcomes = {settlement.row.id: settlement.outcome for settlement in lane.settled}
        errors = {key: outcome.error for key, outcome in outcomes.items() if isinstance(outcome, Retry)}
        assert errors == {
            1: "TimeoutError: its own",
            2: "CancelledError",
            3: "The delivery took longer than 20 s.",
        }

    run_virtually(main())


def test_a_run_that_was_cancelled_can_be_followed_by_another() -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1))
        drain = drain_of(lane, at_once)
        first = asyncio.create_task(drain.run(grace=0, renewing=nullcontext))
        await asyncio.sleep(5)
        first.cancel()
        await asyncio.wait([first])
        lane.waiting.append(strand("a", 2))
        async with running(drain) as second:
            await asyncio.sleep(5)
            assert not second.done()
        assert [settlement.row.id for settlement in lane.settled] == [1, 2]

    run_virtually(main())


def test_a_delivery_that_does_not_stop_keeps_nobody_elses_from_being_given_back() -> None:
    stubborn = {1}

    async def deliver(row: Row) -> Outcome:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if row.id not in stubborn:
                    raise

    async def main() -> None:
        lane = ScriptedLane(strand("stubborn", 1), strand("polite", 2))
        drain = drain_of(lane, deliver)
        run = asyncio.create_task(drain.run(grace=0.1, renewing=nullcontext))
        await asyncio.sleep(5)
        drain.stop()
        await asyncio.sleep(1.5)
        assert [settlement.row.id for settlement in lane.settled] == [2]
        await run
        stubborn.clear()

    run_virtually(main())


def test_a_delivery_that_takes_too_long_ends_and_the_next_of_its_task_does_not_suffer() -> None:
    async def hang_once(row: Row) -> Outcome:
        if row.id == 1:
            await asyncio.sleep(100)
        return Delivered()

    async def main() -> None:
        lane = ScriptedLane(strand("a", 1), strand("b", 2, 3))
        drain = drain_of(lane, hang_once)
        assert await drain.step() == 3
        late = next(each.outcome for each in lane.settled if each.row.id == 1)
        assert isinstance(late, Retry)
        assert "took longer than 20 s" in late.error
        lane.waiting = [strand("c", 4)]
        assert await drain.step() == 1
        assert lane.outcomes.count(Delivered) == 3

    run_virtually(main())


def test_what_is_claimed_is_delivered_while_the_next_is_being_claimed() -> None:
    delivered: list[int] = []
    under_way: list[int] = []

    class Noting(ScriptedLane):
        async def turn(
            self, settlements: Sequence[Settlement[Row]], lease: Lease, *, room: Room, now: datetime
        ) -> Turn[Row]:
            before = len(delivered)
            turn = await super().turn(settlements, lease, room=room, now=now)
            under_way.append(len(delivered) - before)
            return turn

    async def note(row: Row) -> Outcome:
        delivered.append(row.id)
        return Delivered()

    async def main() -> None:
        lane = Noting(*(strand(f"s{n}", n) for n in range(400)))
        async with running(drain_of(lane, note, concurrency=200)):
            await asyncio.sleep(60)

    run_virtually(main())
    assert delivered == list(range(400))
    assert under_way[:4] == [0, 100, 100, 100]
