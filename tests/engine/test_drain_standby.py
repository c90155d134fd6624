"""A lane that claims by itself what another process brings, while the drain rests."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from pillarbox.engine import Delivered, Lease, Outcome, Room, Strand, Turn
from pillarbox.errors import Unavailable
from tests.engine.scripted import Row, ScriptedLane, at_once, drain_of, running, slowly, strand
from tests.simulation.loop import run_virtually


class Standing:
    """Waits until it is told what it has claimed."""

    def __init__(self, ready: Callable[[], None], room: Room) -> None:
        self._ready = ready
        self.room = room
        self.coming: asyncio.Future[Turn[Row]] | None = None
        self.withdrawn = False

    def begin(self) -> asyncio.Future[Turn[Row]]:
        assert not self.withdrawn
        self.coming = asyncio.get_running_loop().create_future()
        self.coming.add_done_callback(lambda _: self._ready())
        return self.coming

    def withdraw(self) -> asyncio.Future[Turn[Row]] | None:
        self.withdrawn = True
        return self.coming


class StandingLane(ScriptedLane):
    """Has nothing to claim, and stands by."""

    def __init__(self) -> None:
        super().__init__(seconds=0)
        self.standing: list[Standing] = []

    def stand_by(self, lease: Lease, *, room: Room, ready: Callable[[], None]) -> Standing:  # type: ignore[override]
        self.standing.append(Standing(ready, room))
        return self.standing[-1]

    def hands(self, *strands: Strand[Row], since: float | None = None) -> None:
        """Others have claimed these for it."""
        began = asyncio.get_running_loop().time() if since is None else since
        self.standing[-1].begin().set_result(Turn((), (), handed=strands, handed_since=began))

    def brings(self, *strands: Strand[Row], partial: bool = False) -> None:
        now = asyncio.get_running_loop().time()
        self.standing[-1].begin().set_result(Turn(strands, (), now, partial))


def in_time(story: Callable[[], object]) -> Callable[[], None]:
    """A test in virtual time."""

    def test() -> None:
        run_virtually(story())  # type: ignore[arg-type]

    test.__name__ = story.__name__
    return test


@in_time
async def test_what_the_lane_claims_is_delivered_without_another_look() -> None:
    lane = StandingLane()
    async with running(drain_of(lane, slowly)):
        await asyncio.sleep(1)
        turns = len(lane.turns)
        lane.brings(strand("a", 1))
        await asyncio.sleep(5)
        assert len(lane.turns) == turns
        await asyncio.sleep(6)
    assert lane.outcomes == [Delivered]


@in_time
async def test_it_stands_by_again_with_the_room_that_is_left() -> None:
    lane = StandingLane()
    async with running(drain_of(lane, slowly), grace=20):
        await asyncio.sleep(1)
        lane.brings(strand("a", 1))
        await asyncio.sleep(1)
        assert [each.room.slots for each in lane.standing] == [4, 3]
        lane.brings(strand("b", 2))
        await asyncio.sleep(1)
    assert lane.outcomes == [Delivered, Delivered]


@in_time
async def test_where_the_lane_did_not_look_everywhere_and_found_nothing_the_drain_looks() -> None:
    lane = StandingLane()
    async with running(drain_of(lane, at_once)):
        await asyncio.sleep(1)
        turns = len(lane.turns)
        lane.brings()
        await asyncio.sleep(1)
        assert len(lane.turns) == turns
        lane.brings(partial=True)
        await asyncio.sleep(1)
        assert len(lane.turns) == turns + 1


@in_time
async def test_where_it_claimed_and_did_not_look_everywhere_the_drain_looks_for_the_rest() -> None:
    lane = StandingLane()
    drain = drain_of(lane, slowly)
    async with running(drain, grace=20):
        await asyncio.sleep(1)
        lane.waiting = [strand("b", 2)]
        lane.brings(strand("a", 1), partial=True)
        await asyncio.sleep(0.001)
        assert drain.in_flight == 2


@in_time
async def test_a_ring_meanwhile_is_not_forgotten() -> None:
    lane = StandingLane()
    drain = drain_of(lane, slowly)
    async with running(drain, grace=20):
        await asyncio.sleep(1)
        lane.waiting = [strand("b", 2)]
        lane.brings(strand("a", 1))
        drain._bell.ring()
        await asyncio.sleep(1)
        assert drain.in_flight == 2


@in_time
async def test_what_was_dropped_before_its_claim_is_known_is_not_delivered() -> None:
    begun: list[int] = []

    async def noting(row: Row) -> Outcome:
        begun.append(row.id)
        return Delivered()

    lane = StandingLane()
    drain = drain_of(lane, noting)
    async with running(drain):
        await asyncio.sleep(1)
        coming = lane.standing[-1].begin()
        drain.drop("a")
        coming.set_result(Turn([strand("a", 1), strand("b", 2)], (), asyncio.get_running_loop().time()))
        await asyncio.sleep(1)
    assert begun == [2]


@in_time
async def test_a_claim_that_fails_is_followed_by_a_look_at_what_it_may_hold() -> None:
    lane = StandingLane()
    lane.held_strands = [strand("a", 1)]
    async with running(drain_of(lane, at_once)):
        await asyncio.sleep(1)
        lane.standing[-1].begin().set_exception(Unavailable("away"))
        await asyncio.sleep(10)
    assert lane.asked_for_held == 1
    assert [each.key for each in lane.released] == ["a"]


@in_time
async def test_what_was_claimed_too_long_ago_is_not_begun() -> None:
    begun: list[int] = []

    async def noting(row: Row) -> Outcome:
        begun.append(row.id)
        return Delivered()

    lane = StandingLane()
    async with running(drain_of(lane, noting)):
        await asyncio.sleep(1)
        lane.standing[-1].begin().set_result(Turn([strand("a", 1)], (), asyncio.get_running_loop().time() - 31))
        await asyncio.sleep(1)
    assert begun == []


@in_time
async def test_who_is_told_to_stop_claims_no_more_and_delivers_what_was_claimed() -> None:
    lane = StandingLane()
    async with running(drain_of(lane, slowly), grace=20):
        await asyncio.sleep(1)
        lane.brings(strand("a", 1))
    assert lane.outcomes == [Delivered]
    assert all(each.withdrawn for each in lane.standing)


@pytest.mark.parametrize("slots", [0, 1])
def test_who_has_no_room_does_not_stand_by(slots: int) -> None:
    async def story() -> None:
        lane = StandingLane()
        lane.waiting = [strand(str(number), number) for number in range(4 - slots)]
        async with running(drain_of(lane, slowly), grace=20):
            await asyncio.sleep(1)
            assert len(lane.standing) == slots

    run_virtually(story())


class HandedLane(StandingLane):
    """Is handed strands without having asked for them."""

    def __init__(self) -> None:
        super().__init__()
        self.handed: list[Strand[Row]] = []
        self.retired: list[float] = []

    async def retire(self, lease: Lease) -> Sequence[Strand[Row]]:
        self.retired.append(asyncio.get_running_loop().time())
        handed, self.handed = self.handed, []
        return handed


@in_time
async def test_what_was_handed_to_us_meanwhile_goes_back_when_we_stop() -> None:
    lane = HandedLane()
    drain = drain_of(lane, slowly)
    async with running(drain, grace=20):
        await asyncio.sleep(1)
        lane.brings(strand("a", 1))
        await asyncio.sleep(1)
        lane.handed = [strand("b", 2)]
    assert lane.released == [strand("b", 2)]
    assert lane.outcomes == [Delivered]
    # At once when it is told to stop, for what is handed over later would wait until the last delivery has ended.
    assert lane.retired[0] == 2


@in_time
async def test_a_stop_ends_although_nobody_can_be_told_of_it() -> None:
    class Away(StandingLane):
        async def retire(self, lease: Lease) -> Sequence[Strand[Row]]:
            raise Unavailable("away")

    lane = Away()
    async with running(drain_of(lane, slowly), grace=20):
        await asyncio.sleep(1)
        lane.brings(strand("a", 1))
        await asyncio.sleep(1)
    assert lane.outcomes == [Delivered]


@in_time
async def test_the_lease_of_what_is_handed_over_began_before_and_that_of_what_is_claimed_with_it_did_not() -> None:
    begun: list[int] = []

    async def deliver(row: Row) -> Outcome:
        begun.append(row.id)
        return Delivered()

    lane = StandingLane()
    async with running(drain_of(lane, deliver)):
        await asyncio.sleep(100)
        now = asyncio.get_running_loop().time()
        both = Turn([strand("a", 1)], (), since=now, handed=[strand("b", 2), strand("c", 3)], handed_since=now - 30)
        lane.standing[-1].begin().set_result(both)
        await asyncio.sleep(1)
        lane.hands(strand("d", 4), since=now - 28)
        await asyncio.sleep(1)
    # The lease of 30 seconds was over for those.
    assert begun == [1, 4]


@in_time
async def test_a_stop_does_not_wait_long_for_a_lane_that_does_not_answer() -> None:
    class Silent(StandingLane):
        async def retire(self, lease: Lease) -> Sequence[Strand[Row]]:
            await asyncio.sleep(3600)
            return ()

    async with running(drain_of(Silent(), at_once)):
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began <= 4
