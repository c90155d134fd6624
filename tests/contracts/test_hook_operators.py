"""What operators see of events and do to them, and how long events are kept, on every database."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from pillarbox.engine import Delivered, Failed, Retry
from pillarbox.errors import AlreadyEnded, NotFound
from pillarbox.hooks.policy import HooksPolicy
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


# Operators


async def test_an_operator_can_have_a_waiting_head_tried_now(here: HookNode) -> None:
    await here.node.open("s")
    event, behind = await here.post_all("s", PROMPT, STOP)
    await here.settle(await here.claim_one(), Retry("away", here.now + seconds(60)))
    await here.hooks.retry(behind)
    assert await here.claim() == []
    shown = await here.hooks.retry(event)
    assert (shown.status, shown.next_attempt_at, shown.last_error) == ("failed", here.now, "away")
    assert [row.attempt_count for row in (await here.claim_one()).rows] == [2, 1]


async def test_a_dead_event_goes_again_behind_all_that_waits(here: HookNode, there: HookNode) -> None:
    await here.node.open("s")
    dead, waiting = await here.post_all("s", PROMPT, STOP)
    await here.settle(await here.claim_one(), Failed("no such thing"))
    held = await here.claim_one()
    later = await here.post("s", PROMPT)
    again = await there.hooks.retry(dead)
    assert (again.status, again.attempt_count, again.delivered_at) == ("pending", 1, None)
    await here.check_counters()
    assert [row.id for row in held.rows] == [waiting]
    assert await here.settle(held)
    strand = await here.claim_one()
    assert [(row.id, row.attempt_count) for row in strand.rows] == [(later, 1), (dead, 2)]
    assert await here.settle(strand)
    assert (await here.get(dead)).last_error is None


async def test_a_dead_event_of_an_idle_session_goes_again_at_once(here: HookNode) -> None:
    await here.node.open("s")
    dead = await here.post("s")
    await here.settle(await here.claim_one(), Failed("no such thing"))
    here.clock.advance(5)
    assert (await here.hooks.retry(dead)).next_attempt_at == here.now
    assert [row.id for row in (await here.claim_one()).rows] == [dead]


@pytest.mark.parametrize("ending", ["retry", "release", "death"])
async def test_a_dead_event_that_goes_again_is_counted_as_what_it_is(here: HookNode, ending: str) -> None:
    await here.node.open("s")
    dead, head = await here.post_all("s", PROMPT, STOP)
    await here.settle(await here.claim_one(), Failed("no such thing"))
    await here.hooks.retry(dead)
    strand = await here.claim_one()
    assert [row.id for row in strand.rows] == [head, dead]
    match ending:
        case "retry":
            await here.settle(strand, Retry("away", here.now))
        case "release":
            await here.lane.release([strand], now=here.now)
        case _:
            here.clock.advance(LEASE)
            await here.claim(1)
    await here.check_counters()
    assert (await here.get(dead)).status in ("pending", "processing")
    if ending != "death":
        await here.settle(await here.claim_one(), Delivered(), Retry("away", here.now))
        assert (await here.get(dead)).status == "failed"


async def test_what_was_delivered_or_superseded_stays_so(here: HookNode) -> None:
    await here.node.open("s")
    ids = await here.post_all("s", "tool_use", "tool_use")
    await here.settle(await here.claim_one())
    for event in ids:
        with pytest.raises(AlreadyEnded):
            await here.hooks.retry(event)
    with pytest.raises(NotFound):
        await here.hooks.retry(10**9)


async def test_retrying_what_is_in_flight_changes_nothing(here: HookNode) -> None:
    await here.node.open("s")
    ids = await here.post_all("s", PROMPT, STOP)
    strand = await here.claim_one()
    before = await here.records("s")
    for event in ids:
        await here.hooks.retry(event)
    assert await here.records("s") == before
    assert await here.settle(strand)


async def test_operators_see_events_by_their_state(here: HookNode) -> None:
    for session in ("a", "b", "c"):
        await here.node.open(session)
        await here.post_all(session, PROMPT, STOP)
    strands = {strand.key: strand for strand in await here.claim()}
    await here.settle(strands["a"], Retry("away", here.now))
    await here.settle(strands["b"], Failed("no such thing"))
    listed = {
        status: [(record.session_id, record.seq) for record in await here.hooks.list(status=status)]
        for status in ("pending", "processing", "failed", "dead", "delivered")
    }
    assert listed == {
        "pending": [("a", 2), ("b", 2)],
        "processing": [("c", 1), ("c", 2)],
        "failed": [("a", 1)],
        "dead": [("b", 1)],
        "delivered": [],
    }
    here.clock.advance(3)
    assert (await here.hooks.status()).oldest_age_seconds == 3


# Retention


async def test_only_what_ended_long_enough_ago_is_pruned(here: HookNode) -> None:
    await here.node.open("s")
    await here.node.open("never")
    await here.post("never")
    ids = await here.post_all("s", "tool_use", "tool_use", PROMPT, STOP)
    strands = {strand.key: strand for strand in await here.claim()}
    await here.settle(strands["never"], Retry("away", here.now + timedelta(days=400)))
    await here.settle(strands["s"], Delivered(), Failed("no such thing"))
    here.clock.advance(10)
    await here.settle(await here.claim_one())
    here.clock.advance(timedelta(days=7).total_seconds() - 10)
    assert await here.hooks.prune() == (0, False)
    here.clock.advance(0.001)
    assert await here.hooks.prune() == (3, False)
    assert [record.id for record in await here.records("s")] == [ids[3]]
    here.clock.advance(timedelta(days=1000).total_seconds())
    assert await here.hooks.prune() == (1, False)
    assert await here.statuses("never") == ["failed"]


async def test_what_is_in_flight_is_not_pruned_whatever_its_age(here: HookNode) -> None:
    await here.node.open("s")
    await here.post_all("s", PROMPT, STOP, PROMPT)
    strand = await here.claim_one()
    await here.settle(strand, Delivered())
    here.clock.advance(timedelta(days=30).total_seconds())
    assert await here.hooks.prune() == (1, False)
    assert await here.statuses("s") == ["processing", "processing"]
    assert not await here.lane.settle(reports_on(strand, [Delivered()] * 2, skip=1), now=here.now)


async def test_a_dead_event_that_goes_again_is_not_pruned(here: HookNode) -> None:
    await here.node.open("s")
    dead = await here.post("s")
    await here.settle(await here.claim_one(), Failed("no such thing"))
    await here.hooks.retry(dead)
    here.clock.advance(timedelta(days=30).total_seconds())
    assert await here.hooks.prune() == (0, False)
    assert (await here.claim_one()).rows[0].id == dead


async def test_pruning_is_bounded_and_goes_on_where_it_stopped(here: HookNode) -> None:
    await here.node.open("s")
    await here.post_all("s", *("tool_use",) * 10)
    await here.settle(await here.claim_one())
    here.clock.advance(1)
    assert [await here.lane.prune(before=here.now, limit=4) for _ in range(4)] == [4, 4, 2, 0]


async def test_pruning_passes_what_must_stay(here: HookNode) -> None:
    await here.node.open("stuck")
    await here.node.open("s")
    await asyncio.gather(*(here.post("stuck", PROMPT) for _ in range(1200)))
    await asyncio.gather(*(here.post("s", "tool_use") for _ in range(10)))
    strands = {strand.key: strand for strand in await here.claim()}
    await here.settle(strands["stuck"], Retry("away", here.now + timedelta(days=400)))
    await here.settle(strands["s"])
    here.clock.advance(timedelta(days=8).total_seconds())
    deleted, more = 0, True
    while more:
        pruned, more = await here.hooks.prune()
        deleted += pruned
    assert deleted == 10
    assert (await here.hooks.status()).pending == 1199


async def test_a_session_whose_rows_are_gone_comes_to_rest(url: str) -> None:
    """An operator may have deleted rows by hand."""
    async with hook_node_at(url, HooksPolicy(strand_limit=2)) as here:
        await here.node.open("s")
        await here.post_all("s", *(PROMPT,) * 10)
        await here.node.sql("DELETE FROM hook_outbox")
        assert await here.claim() == []
        assert await here.lane.next_due(now=here.now) is None
        event = await here.post("s")
        assert [row.id for row in (await here.claim_one()).rows] == [event]
