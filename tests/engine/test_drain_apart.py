"""Where a database can do both at the same time, much is settled while much is claimed, and each may fail by itself."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

import pytest

from pillarbox.engine import Delivered, Drain, Lease, Room, Settlement, Turn
from pillarbox.errors import Unavailable
from tests.engine.scripted import Row, ScriptedLane, at_once, drain_of, running, strand
from tests.simulation.loop import run_virtually

CONCURRENCY = 128
STRANDS = 400


class ApartLane(ScriptedLane):
    """Notes what each transaction settles and claims, and when it began and ended."""

    def apart(self, settlements: Sequence[Settlement[Row]]) -> bool:
        return True

    def __init__(self) -> None:
        super().__init__(*(strand(f"s{n}", n) for n in range(STRANDS)))
        self.done: list[tuple[float, float, int, int]] = []

    async def turn(
        self, settlements: Sequence[Settlement[Row]], lease: Lease, *, room: Room, now: datetime
    ) -> Turn[Row]:
        began = asyncio.get_running_loop().time()
        turn = await super().turn(settlements, lease, room=room, now=now)
        self.done.append((began, asyncio.get_running_loop().time(), len(settlements), len(turn.claimed)))
        return turn

    @property
    def settled_ids(self) -> list[int]:
        return sorted(settlement.row.id for settlement in self.settled)


def test_much_is_settled_while_more_is_claimed() -> None:
    async def main() -> None:
        lane = ApartLane()
        async with running(drain_of(lane, at_once, concurrency=CONCURRENCY)):
            await asyncio.sleep(60)
        settling = {(began, ended) for began, ended, settled, claimed in lane.done if settled and not claimed}
        claiming = {(began, ended) for began, ended, settled, claimed in lane.done if claimed and not settled}
        assert settling & claiming
        assert lane.settled_ids == list(range(STRANDS))

    run_virtually(main())


def test_little_is_settled_and_claimed_in_one_transaction() -> None:
    async def main() -> None:
        lane = ApartLane()
        async with running(drain_of(lane, at_once, concurrency=16)):
            await asyncio.sleep(60)
        assert all(earlier[1] <= later[0] for earlier, later in zip(lane.done, lane.done[1:], strict=False))
        assert lane.settled_ids == list(range(STRANDS))

    run_virtually(main())


@pytest.mark.parametrize("which", ["turn_errors", "claim_errors"])
@pytest.mark.parametrize("error", [Unavailable("away"), RuntimeError("odd")])
def test_what_one_of_them_did_is_done_once_when_the_other_fails(which: str, error: Exception) -> None:
    async def main() -> None:
        lane = ApartLane()
        async with running(drain_of(lane, at_once, concurrency=CONCURRENCY)):
            await asyncio.sleep(3.5)
            assert lane.settled
            setattr(lane, which, [error] * 3)
            await asyncio.sleep(90)
        assert lane.settled_ids == list(range(STRANDS))
        assert lane.outcomes == [Delivered] * STRANDS
        assert lane.asked_for_held > 0

    run_virtually(main())


def test_what_is_dropped_while_it_is_claimed_is_not_begun_though_settling_ends_first() -> None:
    class Dropping(ApartLane):
        async def turn(
            self, settlements: Sequence[Settlement[Row]], lease: Lease, *, room: Room, now: datetime
        ) -> Turn[Row]:
            turn = await super().turn(settlements, lease, room=room, now=now)
            if turn.claimed and self.settled and not dropped:
                dropped.append(turn.claimed[0].key)
                await asyncio.sleep(1)
                drains[0].drop(dropped[0])
                await asyncio.sleep(1)
            return turn

    async def main() -> None:
        lane = Dropping()
        drains.append(drain_of(lane, at_once, concurrency=CONCURRENCY))
        async with running(drains[0]):
            await asyncio.sleep(60)
        assert (
            sorted({f"s{row_id}" for row_id in range(STRANDS)} - {f"s{row_id}" for row_id in lane.settled_ids})
            == dropped
        )

    dropped: list[str] = []
    drains: list[Drain[Row]] = []
    run_virtually(main())


def test_after_a_long_time_without_a_look_settling_comes_first() -> None:
    """What was delivered may be overdue by then: claiming beside settling would take it back and deliver it again."""

    async def main() -> None:
        lane = ApartLane()
        freed = asyncio.Event()

        async def deliver(row: Row) -> Delivered:
            await freed.wait()
            return Delivered()

        drain = drain_of(lane, deliver, concurrency=CONCURRENCY)
        async with running(drain):
            await asyncio.sleep(15)
            lane.done.clear()
            freed.set()
            await asyncio.sleep(60)
        assert lane.done[0][2] >= CONCURRENCY
        assert lane.done[0][1] <= lane.done[1][0]
        assert lane.settled_ids == list(range(STRANDS))

    run_virtually(main())
