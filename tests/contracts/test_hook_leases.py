"""How events are held and taken over, on every database."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from pillarbox.engine import Delivered, Failed, Retry, Skipped
from tests.contracts.asleep import AsleepClock
from tests.contracts.hook_boxes import HookNode, another, hook_node_at, reports_on

LEASE = 30.0
PROMPT, STOP = "user_prompt_submit", "agent_stop"


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.fixture
async def here(url: str) -> AsyncIterator[HookNode]:
    async with hook_node_at(url) as opened:
        yield opened


@pytest.fixture
async def there(here: HookNode) -> AsyncIterator[HookNode]:
    async with another(here) as opened:
        yield opened


# Leases and fencing


async def test_a_lost_lease_costs_every_held_row_an_attempt_and_the_head_a_death(
    here: HookNode, there: HookNode
) -> None:
    await here.node.open("s")
    ids = await here.post_all("s", PROMPT, STOP, PROMPT)
    stale = await here.claim_one()
    here.clock.advance(LEASE)
    fresh = await there.claim_one()
    assert fresh.token > stale.token
    assert [(row.id, row.attempt_count) for row in fresh.rows] == list(zip(ids, (2, 2, 2), strict=True))
    assert [row.last_error is None for row in fresh.rows] == [False, True, True]
    assert "deaths so far: 1" in (fresh.rows[0].last_error or "")
    deaths = await here.node.sql("SELECT death_count FROM hook_outbox ORDER BY seq")
    assert [count for (count,) in deaths] == [1, 0, 0]


async def test_whoever_lost_the_lease_changes_nothing_any_more(here: HookNode, there: HookNode) -> None:
    await here.node.open("s")
    await here.post_all("s", PROMPT, STOP)
    stale = await here.claim_one()
    here.clock.advance(LEASE)
    fresh = await there.claim_one()
    before = await here.records("s")
    assert here.renew(stale) == []
    assert here.lane.held([stale, fresh]) == [fresh]
    for outcome in (Delivered(), Retry("late", here.now), Skipped("late", here.now), Failed("late")):
        assert not await here.settle(stale, outcome)
    assert not await here.settle(stale, Delivered(), Delivered())
    await here.lane.release([stale], now=here.now)
    assert await here.records("s") == before
    assert await there.settle(fresh)


async def test_a_run_partly_reported_is_taken_over_from_where_it_stood(here: HookNode, there: HookNode) -> None:
    await here.node.open("s")
    ids = await here.post_all("s", PROMPT, STOP, PROMPT)
    stale = await here.claim_one()
    assert await here.settle(stale, Delivered())
    here.clock.advance(LEASE)
    fresh = await there.claim_one()
    assert [(row.id, row.attempt_count) for row in fresh.rows] == [(ids[1], 2), (ids[2], 2)]
    late = await here.lane.settle(reports_on(stale, [Delivered()] * 2, skip=1), now=here.now)
    assert len(late) == 2
    assert await here.statuses("s") == ["delivered", "processing", "processing"]


async def test_what_a_node_of_the_version_before_held_when_it_died_is_taken_over(
    here: HookNode, there: HookNode
) -> None:
    """It marked each row it held, and no strand said since when."""
    await here.node.open("s")
    ids = await here.post_all("s", PROMPT, STOP)
    await here.claim_one()
    await here.node.sql(
        "UPDATE hook_outbox SET status = 'processing', locked_at = :at, next_attempt_at = NULL", at=here.now
    )
    await here.node.sql("UPDATE hook_outbox SET attempt_count = 1")
    await here.node.sql("UPDATE hook_strand SET locked_at = NULL")
    assert await here.statuses("s") == ["processing", "processing"]
    here.clock.advance(LEASE)
    fresh = await there.claim_one()
    assert [(row.id, row.attempt_count) for row in fresh.rows] == [(ids[0], 2), (ids[1], 2)]
    assert await there.settle(fresh, Delivered(), Delivered())
    assert await here.statuses("s") == ["delivered", "delivered"]


async def test_a_report_after_the_lease_counts_while_nobody_else_has_taken_over(here: HookNode) -> None:
    await here.node.open("s")
    await here.post("s")
    strand = await here.claim_one()
    here.clock.advance(LEASE)
    assert await here.settle(strand)
    assert await here.statuses("s") == ["delivered"]


async def test_a_lease_ends_exactly_when_it_should(here: HookNode, there: HookNode) -> None:
    await here.node.open("s")
    await here.post("s")
    await here.claim_one()
    here.clock.advance(LEASE - 0.001)
    assert await there.claim() == []
    here.clock.advance(0.001)
    assert len(await there.claim()) == 1


async def test_a_renewed_lease_lasts_from_its_renewal(here: HookNode, there: HookNode) -> None:
    await here.node.open("s")
    event = await here.post("s")
    strand = await here.claim_one()
    began = here.now
    here.clock.advance(20)
    assert here.renew(strand) == [strand]
    here.clock.advance(LEASE - 0.001)
    assert await there.claim() == []
    assert (await here.get(event)).locked_at == began
    assert await here.settle(strand)
    assert here.renew(strand) == []


async def test_renewing_nothing_renews_nothing(here: HookNode) -> None:
    assert here.renew() == []
    assert here.lane.held([]) == []


async def test_what_a_holder_has_is_told_even_if_it_never_heard_of_it(here: HookNode, there: HookNode) -> None:
    for session in ("mine", "theirs"):
        await here.node.open(session)
        await here.post_all(session, PROMPT, STOP, PROMPT)
    (mine,) = await here.claim(1)
    (theirs,) = await there.claim(1)
    await here.settle(mine, Delivered())
    (told,) = await here.lane.held_by(here.lease)
    assert (told.key, told.token, told.rows) == (mine.key, mine.token, mine.rows[1:])
    assert await there.lane.held_by(there.lease) == [theirs]
    await here.lane.release([told], now=here.now)
    assert await here.lane.held_by(here.lease) == []
    assert await here.statuses(mine.key) == ["delivered", "pending", "pending"]


async def test_an_event_that_kills_its_workers_waits_the_longest_in_the_end(here: HookNode) -> None:
    await here.node.open("s")
    event = await here.post("s")
    await here.post("s")
    await here.claim_one()
    for deaths in (1, 2):
        here.clock.advance(LEASE)
        assert [row.attempt_count for row in (await here.claim_one()).rows] == [deaths + 1, deaths + 1]
    here.clock.advance(LEASE)
    assert await here.claim() == []
    waiting = await here.get(event)
    assert (waiting.status, waiting.attempt_count) == ("failed", 3)
    assert waiting.next_attempt_at == here.now + seconds(60)
    assert "deaths so far: 3" in (waiting.last_error or "")
    await here.check_counters()
    here.clock.advance(60)
    assert [row.attempt_count for row in (await here.claim_one()).rows] == [4, 4]


async def test_the_lease_of_a_process_known_to_be_dead_is_over_at_once(here: HookNode, there: HookNode) -> None:
    await here.node.open("s")
    await here.post_all("s", PROMPT, STOP)
    stale = await here.claim_one()
    assert not await there.lane.bury(lambda holder: False, now=here.now)
    assert await there.lane.bury(lambda holder: holder == "here", now=here.now)
    assert (await there.claim_one()).token > stale.token
    assert not await here.settle(stale)


async def test_rows_that_wait_longer_than_the_lease_behind_a_slow_head_stay_held(
    here: HookNode, there: HookNode
) -> None:
    await here.node.open("s")
    await here.post_all("s", PROMPT, STOP, PROMPT)
    strand = await here.claim_one()
    for _ in range(5):
        here.clock.advance(LEASE - 2)
        assert here.renew(strand) == [strand]
        assert await there.claim() == []
    assert await here.settle(strand)
    assert [record.attempt_count for record in await here.records("s")] == [1, 1, 1]


async def test_the_next_due_time_counts_retries_and_leases(here: HookNode) -> None:
    assert await here.lane.next_due(now=here.now) is None
    await here.node.open("a")
    await here.node.open("b")
    await here.post_all("a", PROMPT, STOP)
    assert await here.lane.next_due(now=here.now) == here.now
    held = await here.claim_one()
    assert await here.lane.next_due(now=here.now) == here.now + here.lease.length
    await here.settle(held, Delivered())
    assert await here.lane.next_due(now=here.now) == here.now + here.lease.length
    await here.post("b")
    (other,) = await here.claim()
    await here.settle(other, Retry("away", here.now + seconds(7)))
    assert await here.lane.next_due(now=here.now) == here.now + seconds(7)


# Time


async def test_waits_and_leases_that_a_clock_made_too_long_are_cut(here: HookNode, there: HookNode) -> None:
    for session in ("waiting", "held"):
        await here.node.open(session)
        await here.post(session)
    strands = {strand.key: strand for strand in await here.claim()}
    await here.settle(strands["waiting"], Retry("away", here.now + timedelta(days=400)))
    await here.node.sql(
        "UPDATE hook_strand SET lease_until = :at WHERE session_id = 'held'", at=here.now + timedelta(days=400)
    )
    await here.lane.straighten(clock=here.clock, longest_wait=seconds(20), lease=here.lease.length)
    assert await here.lane.next_due(now=here.now) == here.now + seconds(20)
    assert (await here.records("waiting"))[0].next_attempt_at == here.now + seconds(20)
    here.clock.advance(LEASE)
    assert sorted(strand.key for strand in await there.claim()) == ["held", "waiting"]


async def test_who_stood_still_before_it_looked_cuts_no_hold_that_others_took_meanwhile(
    here: HookNode, there: HookNode
) -> None:
    await here.node.open("s")
    await here.post("s")
    await here.claim_one()
    clock = AsleepClock(here.clock)
    await there.lane.straighten(clock=clock, longest_wait=seconds(60), lease=here.lease.length)
    assert clock.woke
    here.clock.advance(LEASE - 2)
    assert await there.claim() == []


async def test_straightening_leaves_ordinary_waits_alone(here: HookNode) -> None:
    await here.node.open("s")
    await here.post("s")
    await here.settle(await here.claim_one(), Retry("away", here.now + seconds(50)))
    await here.lane.straighten(clock=here.clock, longest_wait=seconds(60), lease=here.lease.length)
    assert await here.lane.next_due(now=here.now) == here.now + seconds(50)
