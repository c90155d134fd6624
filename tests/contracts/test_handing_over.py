"""An event that comes alone is stored and claimed in one commit, for a node that rests and has offered to take it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from pillarbox import Pillarbox
from pillarbox.engine import Delivered, Lease, Room, Settlement, Standby, Strand, Turn
from pillarbox.hooks.lone import append, hand_over
from pillarbox.hooks.model import Checked, HookEvent, HookRow, Stored
from pillarbox.process import holder, neighbourhood
from pillarbox.storage import Row, Step, together
from pillarbox.storage.queries import Query, parse_queries

LEASE = Lease(holder("me"), timedelta(minutes=1))
PATIENCE = 30.0
(_OFFERS,) = parse_queries("-- name: offers\nSELECT holder FROM hook_offer\n")
(_AGE,) = parse_queries("-- name: age\nUPDATE hook_offer SET until = :until\n")
(_MAKE,) = parse_queries("-- name: make\nINSERT INTO hook_offer VALUES (:holder, :until, :until)\n")
(_UNTIL,) = parse_queries("-- name: until\nSELECT until FROM hook_offer\n")
(_HOLDERS,) = parse_queries("-- name: holders\nSELECT holder FROM hook_strand WHERE lease_until IS NOT NULL\n")


@pytest.fixture
async def here(sqlite_url: str) -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open(sqlite_url) as box:
        for name in ("s", "other", "warm"):
            await box.sessions.open(session_id=name, target={"kind": "none"})
        yield box


@pytest.fixture
async def there(here: Pillarbox, sqlite_url: str) -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open(sqlite_url) as box:
        yield box


async def turn(box: Pillarbox, *settlements: Settlement[HookRow], slots: int = 4) -> Turn[HookRow]:
    now = box.database.clock.now()
    return await box.hooks.lane.turn(settlements, LEASE, room=Room(slots, slots), now=now)


async def rest(box: Pillarbox, ready: asyncio.Event, *, slots: int = 4) -> Standby[HookRow]:
    """As a drain does: it has stood by, settles its last delivery, finds nothing more, and stands by."""
    await box.hooks.post("warm", "agent_stop")
    (last,) = (await turn(box)).claimed
    first = box.hooks.lane.stand_by(LEASE, room=Room(slots, slots), ready=lambda: None)
    assert first
    assert first.withdraw() is None
    assert (await turn(box, delivered(last), slots=slots)).claimed == []
    standby = box.hooks.lane.stand_by(LEASE, room=Room(slots, slots), ready=ready.set)
    assert standby
    return standby


async def came(standby: Standby[HookRow], ready: asyncio.Event) -> Turn[HookRow]:
    await asyncio.wait_for(ready.wait(), PATIENCE)
    coming = standby.withdraw()
    assert coming
    return await coming


async def asked(box: Pillarbox, query: Query) -> list[Row]:
    def work() -> Step[list[Row]]:
        return (yield query())

    return await box.database.read(work)


async def offers(box: Pillarbox) -> list[str]:
    return [name.partition("#")[0] for (name,) in await asked(box, _OFFERS)]


async def holders(box: Pillarbox) -> list[str]:
    return [name.partition("#")[0] for (name,) in await asked(box, _HOLDERS)]


def delivered(strand: Strand[HookRow]) -> Settlement[HookRow]:
    return Settlement(strand, strand.rows[0], Delivered())


async def test_who_rests_has_the_event_before_anybody_claimed_it(here: Pillarbox, there: Pillarbox) -> None:
    ready = asyncio.Event()
    standby = await rest(here, ready)
    stored = await there.hooks.post("s", "agent_stop", {"text": "x"})
    assert (await there.hooks.get(stored.id)).status == "processing"
    assert await holders(there) == [LEASE.holder]
    taken = await came(standby, ready)
    (strand,) = taken.handed
    assert [(row.id, row.payload, row.attempt_count) for row in strand.rows] == [(stored.id, {"text": "x"}, 1)]
    assert not taken.claimed
    assert await asyncio.to_thread(here.hooks.lane.held, [strand]) == [strand]
    assert (await turn(here, delivered(strand))).lost == []
    record = await here.hooks.get(stored.id)
    assert (record.status, record.attempt_count) == ("delivered", 1)


async def test_its_lease_counts_from_when_it_was_offered(here: Pillarbox, there: Pillarbox) -> None:
    ready = asyncio.Event()
    began = here.database.clock.monotonic()
    standby = await rest(here, ready)
    offered = here.database.clock.monotonic()
    await there.hooks.post("s", "agent_stop")
    assert began <= (await came(standby, ready)).handed_since <= offered


async def test_its_lease_counts_from_then_also_if_the_offer_took_long_to_be_written(
    here: Pillarbox, there: Pillarbox
) -> None:
    await here.hooks.post("warm", "agent_stop")
    (last,) = (await turn(here)).claimed
    standby = here.hooks.lane.stand_by(LEASE, room=Room(4, 4), ready=lambda: None)
    assert standby
    standby.withdraw()
    async with locked(there):
        settling = asyncio.create_task(turn(here, delivered(last)))
        await asyncio.wait([settling], timeout=0.1)
        still_locked = here.database.clock.monotonic()
    await settling
    await there.hooks.post("s", "agent_stop")
    assert (await turn(here)).handed_since <= still_locked


@asynccontextmanager
async def locked(box: Pillarbox) -> AsyncIterator[None]:
    """Nobody else can write meanwhile."""
    held, let_go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hold() -> Step[None]:
        loop.call_soon_threadsafe(held.set)
        let_go.wait(4 * PATIENCE)
        yield from together()

    holding = asyncio.create_task(box.database.write(hold))
    await held.wait()
    try:
        yield
    finally:
        let_go.set()
        await holding


async def post_until_it_rests(there: Pillarbox) -> None:
    """Until whoever drains has an offer out and nothing else to write down."""
    await there.hooks.post("s", "agent_stop")
    while not await offers(there) or await is_open(there):
        if not await is_open(there):
            await there.hooks.post("s", "agent_stop")


async def is_open(box: Pillarbox) -> bool:
    status = await box.hooks.status()
    return status.pending + status.processing + status.failed > 0


async def test_a_worker_that_cannot_take_back_its_offer_stops_all_the_same(sqlite_url: str, there: Pillarbox) -> None:
    waiting_long = {"database": {"busy_timeout_seconds": 4 * PATIENCE}}
    async with Pillarbox.open(sqlite_url, settings=waiting_long) as here:
        running = asyncio.create_task(here.run())
        async with asyncio.timeout(PATIENCE):
            await post_until_it_rests(there)
        async with locked(there), asyncio.timeout(PATIENCE):
            here.stop()
            await running


async def test_an_offer_is_for_one_event(here: Pillarbox, there: Pillarbox) -> None:
    await rest(here, asyncio.Event())
    first = await there.hooks.post("s", "agent_stop")
    second = await there.hooks.post("other", "agent_stop")
    assert (await there.hooks.get(first.id)).status == "processing"
    assert await holders(there) == [LEASE.holder]
    assert await offers(there) == []
    taken = await turn(here)
    assert [row.id for strand in taken.handed for row in strand.rows] == [first.id]
    assert [row.id for strand in taken.claimed for row in strand.rows] == [second.id]


async def test_nothing_is_handed_over_past_what_its_session_has_waiting(here: Pillarbox, there: Pillarbox) -> None:
    first = await there.hooks.post("s", "agent_stop")
    (waiting,) = (await turn(here)).claimed
    await rest(here, asyncio.Event())
    second = await there.hooks.post("s", "agent_stop")
    assert [(await there.hooks.get(each.id)).status for each in (first, second)] == ["processing", "pending"]
    assert await offers(there) == [LEASE.holder]
    (following,) = (await turn(here, delivered(waiting))).claimed
    assert [row.id for row in following.rows] == [second.id]


async def test_of_what_a_turn_finds_handed_over_it_claims_so_much_less(here: Pillarbox, there: Pillarbox) -> None:
    await rest(here, asyncio.Event(), slots=1)
    handed = await there.hooks.post("s", "agent_stop")
    await there.hooks.post("other", "agent_stop")
    taken = await turn(here, slots=1)
    assert [row.id for strand in taken.handed for row in strand.rows] == [handed.id]
    assert taken.claimed == []


async def test_what_was_handed_over_and_is_no_longer_held_is_not_told_of(here: Pillarbox, there: Pillarbox) -> None:
    assert (await rest(here, asyncio.Event())).withdraw() is None
    await there.hooks.post("s", "agent_stop")
    await there.hooks.lane.bury(_is_me, now=there.database.clock.now())
    taken = await turn(here)
    assert taken.handed == []
    assert [strand.token for strand in taken.claimed] == [2]


async def test_who_has_something_to_do_offers_nothing(here: Pillarbox, there: Pillarbox) -> None:
    await rest(here, asyncio.Event())
    assert await offers(there) == [LEASE.holder]
    await here.database.write(_append_to("other", here))
    assert len((await turn(here)).claimed) == 1
    assert await offers(there) == []


def _append_to(session_id: str, box: Pillarbox) -> Callable[[], Step[list[Stored | Exception]]]:
    now = box.database.clock.now()
    return lambda: append(Checked(session_id, "agent_stop", "{}", now), now=now)


async def test_whoever_never_rested_is_handed_nothing(here: Pillarbox, there: Pillarbox) -> None:
    assert (await turn(here)).claimed == []
    stored = await there.hooks.post("s", "agent_stop")
    assert (await there.hooks.get(stored.id)).status == "pending"


async def test_an_offer_that_is_over_is_not_taken(here: Pillarbox, there: Pillarbox) -> None:
    assert (await rest(here, asyncio.Event())).withdraw() is None
    now = there.database.clock.now()
    await there.database.write(lambda: _aged(now))
    stored = await there.hooks.post("s", "agent_stop")
    assert (await there.hooks.get(stored.id)).status == "pending"


def _aged(until: object) -> Step[None]:
    yield _AGE(until=until)


async def test_an_offer_costs_no_commit_of_its_own(here: Pillarbox) -> None:
    standby = here.hooks.lane.stand_by(LEASE, room=Room(4, 4), ready=lambda: None)
    assert standby
    standby.withdraw()
    await turn(here)
    assert await offers(here) == []


async def test_an_offer_is_forgotten_when_nothing_can_be_held_under_it_any_more(here: Pillarbox) -> None:
    await rest(here, asyncio.Event())
    await turn(here)
    assert here.hooks.lane._offers.any
    later = here.database.clock.now() + LEASE.length
    await here.hooks.lane.turn((), LEASE, room=Room(4, 4), now=later)
    assert not here.hooks.lane._offers.any


async def test_the_newest_offer_is_taken(there: Pillarbox) -> None:
    older, newer = holder("older"), holder("newer")
    later = there.database.clock.now() + timedelta(seconds=4)
    await there.database.write(lambda: _offered(newer, later))
    await there.database.write(lambda: _offered(older, later - timedelta(seconds=1)))
    await there.hooks.post("s", "agent_stop")
    assert await holders(there) == [newer]


async def test_nothing_is_handed_to_somebody_whose_death_nobody_would_see(here: Pillarbox, there: Pillarbox) -> None:
    elsewhere = holder("elsewhere").replace(neighbourhood(), "/another-boot.4026531836.")
    later = there.database.clock.now() + timedelta(seconds=4)
    await there.database.write(lambda: _offered(elsewhere, later))
    stored = await there.hooks.post("s", "agent_stop")
    assert (await there.hooks.get(stored.id)).status == "pending"


async def test_an_offer_that_comes_from_the_future_is_not_taken_and_taken_away(
    here: Pillarbox, there: Pillarbox
) -> None:
    future = there.database.clock.now() + timedelta(hours=1)
    await there.database.write(lambda: _offered(holder("ahead"), future))
    stored = await there.hooks.post("s", "agent_stop")
    assert (await there.hooks.get(stored.id)).status == "pending"
    (strand,) = (await turn(here)).claimed
    await turn(here, delivered(strand))
    await rest(here, asyncio.Event())
    assert await offers(there) == [LEASE.holder]


async def test_who_waited_to_store_takes_no_offer_that_ended_meanwhile(here: Pillarbox, there: Pillarbox) -> None:
    assert (await rest(here, asyncio.Event())).withdraw() is None
    clock = there.database.clock
    read_before = clock.now() - timedelta(seconds=1)
    await there.database.write(lambda: _aged(clock.now()))
    event = Checked("s", "agent_stop", "{}", read_before)
    await there.database.write_new(lambda: hand_over(event, now=read_before, clock=clock), pipe="hooks")
    assert await holders(there) == []


async def test_what_came_with_an_event_that_was_handed_over_is_looked_for(here: Pillarbox, there: Pillarbox) -> None:
    assert (await rest(here, asyncio.Event())).withdraw() is None
    await there.hooks.post("s", "agent_stop")
    await there.hooks.post("other", "agent_stop")
    found = await here.database.write(lambda: here.hooks.lane._claim_by_itself(LEASE, 4))
    assert found.handed
    assert found.partial


async def test_a_node_that_cannot_commit_remembers_only_offers_that_could_be_held(here: Pillarbox) -> None:
    offers, clock = here.hooks.lane._offers, here.database.clock
    past = clock.now() - LEASE.length
    for _ in range(10):
        await here.database.write(lambda: offers.make(offers.new(LEASE, past)))
    assert len(offers.standing(past)) == 1


async def test_one_place_is_enough_for_what_is_not_handed_over(here: Pillarbox) -> None:
    await rest(here, asyncio.Event(), slots=1)
    await here.database.write(_append_to("other", here))
    lapsed = here.database.clock.now() - timedelta(seconds=1)
    here.hooks.lane._offers.now_stand(
        [replace(each, until=lapsed) for each in here.hooks.lane._offers.standing(lapsed)]
    )
    found = await here.database.write(lambda: here.hooks.lane._claim_by_itself(LEASE, 1))
    assert len(found.claimed) == 1


def _offered(holder: str, until: object) -> Step[None]:
    yield _MAKE(holder=holder, until=until)


async def test_an_offer_stands_while_nothing_happens_and_is_not_written_again(here: Pillarbox) -> None:
    await rest(here, asyncio.Event())
    before = await asked(here, _UNTIL)
    assert (await turn(here)).claimed == []
    assert await asked(here, _UNTIL) == before


async def test_who_retires_is_handed_nothing_more(here: Pillarbox, there: Pillarbox) -> None:
    assert (await rest(here, asyncio.Event())).withdraw() is None
    assert await here.hooks.lane.retire(LEASE) == []
    stored = await there.hooks.post("s", "agent_stop")
    assert (await there.hooks.get(stored.id)).status == "pending"
    assert (await turn(there)).claimed
    assert (await turn(here)).claimed == []
    assert await offers(here) == []


async def test_who_retires_is_told_what_was_handed_over_before(here: Pillarbox, there: Pillarbox) -> None:
    assert (await rest(here, asyncio.Event())).withdraw() is None
    stored = await there.hooks.post("s", "agent_stop")
    (handed,) = await here.hooks.lane.retire(LEASE)
    assert [row.id for row in handed.rows] == [stored.id]
    await here.hooks.lane.release([handed], now=here.database.clock.now())
    record = await there.hooks.get(stored.id)
    assert (record.status, record.attempt_count) == ("pending", 0)
    assert await here.hooks.lane.retire(LEASE) == ()


def _is_me(holder: str) -> bool:
    return holder.partition("#")[0] == LEASE.holder


async def test_a_lease_that_was_cut_is_known_all_the_same(here: Pillarbox, there: Pillarbox) -> None:
    assert (await rest(here, asyncio.Event())).withdraw() is None
    stored = await there.hooks.post("s", "agent_stop")
    (lengthen,) = parse_queries(
        "-- name: lengthen\nUPDATE hook_strand SET lease_until = :at WHERE lease_until IS NOT NULL"
    )
    clock, half = there.database.clock, LEASE.length / 2

    def work() -> Step[None]:
        yield lengthen(at=clock.now() + timedelta(days=1))

    await there.database.write(work)
    await there.hooks.lane.straighten(clock=clock, longest_wait=half, lease=half)
    (strand,) = (await turn(here)).handed
    assert [row.id for row in strand.rows] == [stored.id]


async def test_offers_of_the_dead_are_taken_back(here: Pillarbox, there: Pillarbox) -> None:
    await rest(here, asyncio.Event())
    await there.hooks.lane.bury(_is_me, now=there.database.clock.now())
    assert await offers(there) == []


async def test_what_was_handed_to_somebody_who_died_is_taken_over(here: Pillarbox, there: Pillarbox) -> None:
    await rest(here, asyncio.Event())
    stored = await there.hooks.post("s", "agent_stop")
    assert await there.hooks.lane.bury(_is_me, now=there.database.clock.now())
    now = there.database.clock.now()
    (strand,) = await there.hooks.lane.claim(Lease("you", LEASE.length), room=Room(4, 4), now=now)
    assert [(row.id, row.attempt_count) for row in strand.rows] == [(stored.id, 2)]


async def test_a_box_that_runs_and_posts_hands_events_to_itself(here: Pillarbox) -> None:
    heard: asyncio.Queue[int] = asyncio.Queue()

    @here.hooks.on()
    async def listen(event: HookEvent) -> None:
        heard.put_nowait(event.id)

    running = asyncio.create_task(here.run())
    for number in range(20):
        stored = await here.hooks.post("s" if number % 2 else "other", "agent_stop")
        assert await asyncio.wait_for(heard.get(), PATIENCE) == stored.id
    here.stop()
    await running
    assert heard.empty()
    assert await offers(here) == []
