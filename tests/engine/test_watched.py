"""A lane that is measured does all that the lane itself does, and counts it."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from pillarbox.engine import Delivered, Lease, Room, Settlement, Strand, Turn, WatchedLane
from pillarbox.errors import Unavailable
from pillarbox.telemetry.works import WorksMetrics
from tests.engine.scripted import Row

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = Lease("me", timedelta(seconds=30))
ROOM = Room.of(4, {})
HELD = [Strand("a", "there", 1, (Row(1), Row(2))), Strand("b", "there", 1, (Row(3),))]


def nobody() -> None:
    """Is told when something was claimed."""


OUTCOMES = [Settlement(held, held.rows[0], Delivered()) for held in HELD]


class Waiting:
    """A claim that has been made, or failed, or was not begun."""

    def __init__(self, made: Turn[Row] | Exception | None) -> None:
        self._made = made

    def withdraw(self) -> Awaitable[Turn[Row]] | None:
        return None if self._made is None else self._come(self._made)

    async def _come(self, made: Turn[Row] | Exception) -> Turn[Row]:
        if isinstance(made, Exception):
            raise made
        return made


class Told:
    """Writes down what it is asked, and answers as each verb does."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.error: Exception | None = None
        self.waiting: Waiting | None = None

    def apart(self, settlements: Sequence[Any]) -> bool:
        return settlements is OUTCOMES

    async def turn(self, settlements: Sequence[Any], lease: Lease, *, room: Room, now: datetime) -> Turn[Row]:
        self._note("turn", settlements, lease, room, now)
        return Turn(HELD, OUTCOMES[:1])

    def stand_by(self, lease: Lease, *, room: Room, ready: Callable[[], None]) -> Waiting | None:
        self._note("stand_by", lease, room, ready)
        return self.waiting

    async def settle(self, settlements: Sequence[Any], *, now: datetime) -> Sequence[Any]:
        self._note("settle", settlements, now)
        return OUTCOMES

    def renew(self, strands: Sequence[Any], lease: Lease, *, now: datetime) -> Sequence[Any]:
        self._note("renew", strands, lease, now)
        return strands[1:]

    def held(self, strands: Sequence[Any]) -> Sequence[Any]:
        self._note("held", strands)
        return strands[:1]

    async def claim(self, lease: Lease, *, room: Room, now: datetime) -> Sequence[Any]:
        self._note("claim", lease, room, now)
        return HELD

    async def held_by(self, lease: Lease) -> Sequence[Any]:
        self._note("held_by", lease)
        return HELD

    async def release(self, strands: Sequence[Any], *, now: datetime) -> None:
        self._note("release", strands, now)

    async def retire(self, lease: Lease) -> Sequence[Any]:
        self._note("retire", lease)
        return HELD

    async def next_due(self, *, now: datetime) -> datetime | None:
        self._note("next_due", now)
        return NOW + timedelta(seconds=1)

    async def prune(self, *, before: datetime, limit: int) -> int:
        self._note("prune", before, limit)
        return 7

    def _note(self, *asked: object) -> None:
        self.asked.append(asked)
        if self.error:
            raise self.error


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def lane(told: Told, registry: CollectorRegistry) -> WatchedLane[Row]:
    return WatchedLane(told, WorksMetrics("p", registry).lanes["inbound"])


def counted(registry: CollectorRegistry, name: str) -> float | None:
    return registry.get_sample_value(f"p_{name}", {"pipe": "inbound"})


async def test_a_turn_is_measured_with_what_it_claimed_and_lost(
    lane: WatchedLane[Row], told: Told, registry: CollectorRegistry
) -> None:
    assert await lane.turn(OUTCOMES, LEASE, room=ROOM, now=NOW) == Turn(HELD, OUTCOMES[:1])
    assert told.asked == [("turn", OUTCOMES, LEASE, ROOM, NOW)]
    assert counted(registry, "claimed_total") == 3
    assert counted(registry, "leases_lost_total") == 1
    assert counted(registry, "turn_seconds_count") == 1
    assert 0 <= (counted(registry, "turn_seconds_sum") or -1) < 60
    assert counted(registry, "turn_failures_total") == 0


async def test_a_turn_that_fails_is_counted_and_its_error_passed_on(
    lane: WatchedLane[Row], told: Told, registry: CollectorRegistry
) -> None:
    told.error = Unavailable("away")
    with pytest.raises(Unavailable):
        await lane.turn((), LEASE, room=ROOM, now=NOW)
    assert counted(registry, "turn_failures_total") == 1
    assert counted(registry, "turn_seconds_count") == 0


async def test_what_a_lane_claims_by_itself_is_counted(
    lane: WatchedLane[Row], told: Told, registry: CollectorRegistry
) -> None:
    assert lane.stand_by(LEASE, room=ROOM, ready=nobody) is None
    assert told.asked == [("stand_by", LEASE, ROOM, nobody)]
    told.waiting = Waiting(None)
    standby = lane.stand_by(LEASE, room=ROOM, ready=nobody)
    assert standby
    assert standby.withdraw() is None
    assert counted(registry, "claimed_total") == 0
    turn = Turn(HELD, (), since=5.0)
    told.waiting = Waiting(turn)
    assert await made_by(lane) == turn
    assert counted(registry, "claimed_total") == 3
    told.waiting = Waiting(Unavailable("away"))
    with pytest.raises(Unavailable):
        await made_by(lane)
    assert counted(registry, "turn_failures_total") == 1


async def made_by(lane: WatchedLane[Row]) -> Turn[Row]:
    standby = lane.stand_by(LEASE, room=ROOM, ready=nobody)
    coming = standby and standby.withdraw()
    assert coming
    return await coming


async def test_what_is_lost_elsewhere_is_counted_too(
    lane: WatchedLane[Row], told: Told, registry: CollectorRegistry
) -> None:
    assert await lane.settle(OUTCOMES, now=NOW) == OUTCOMES
    assert counted(registry, "leases_lost_total") == 2
    assert lane.renew(HELD, LEASE, now=NOW) == HELD[1:]
    assert counted(registry, "leases_lost_total") == 3
    assert lane.renew([], LEASE, now=NOW) == []
    assert counted(registry, "leases_lost_total") == 3
    assert told.asked == [("settle", OUTCOMES, NOW), ("renew", HELD, LEASE, NOW), ("renew", [], LEASE, NOW)]


async def test_every_other_verb_is_passed_on(lane: WatchedLane[Row], told: Told) -> None:
    assert await lane.claim(LEASE, room=ROOM, now=NOW) == HELD
    assert lane.held(HELD) == HELD[:1]
    assert await lane.held_by(LEASE) == HELD
    await lane.release(HELD, now=NOW)
    assert await lane.retire(LEASE) == HELD
    assert await lane.next_due(now=NOW) == NOW + timedelta(seconds=1)
    assert await lane.prune(before=NOW, limit=9) == 7
    assert lane.apart(OUTCOMES) is True
    assert told.asked == [
        ("claim", LEASE, ROOM, NOW),
        ("held", HELD),
        ("held_by", LEASE),
        ("release", HELD, NOW),
        ("retire", LEASE),
        ("next_due", NOW),
        ("prune", NOW, 9),
    ]
