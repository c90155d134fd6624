"""Messages that an agent's own events confirm, on every database."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import psycopg
import pytest

from pillarbox.engine import Delivered, Failed
from tests.contracts.hook_boxes import HookNode, hook_node_at, reports_on

PROMPT, STOP = "user_prompt_submit", "agent_stop"


@pytest.fixture
async def here(url: str) -> AsyncIterator[HookNode]:
    async with hook_node_at(url) as opened:
        yield opened


async def deliver(here: HookNode, event_type: str, **payload: Any) -> None:
    await here.post("s", event_type, **payload)
    assert await here.settle(await here.claim_one())


async def confirmed(here: HookNode) -> list[datetime | None]:
    return [message.confirmed_at for message in await here.node.inbound.list(session_id="s")]


async def send(here: HookNode, *contents: str) -> None:
    """Have messages delivered to the session's agent."""
    for content in contents:
        await here.node.put("s", content)
        assert await here.node.settle(await here.node.claim_one())


async def test_a_prompt_confirms_the_message_it_is(here: HookNode) -> None:
    await here.node.open("s")
    await send(here, "one", "two", "three")
    here.clock.advance(1)
    await deliver(here, PROMPT, prompt=" two\n")
    assert await confirmed(here) == [None, here.now, None]


async def test_a_prompt_confirms_a_message_that_stands_in_it(here: HookNode) -> None:
    await here.node.open("s")
    await send(here, "please run", "please run all of the tests")
    await deliver(here, PROMPT, prompt="[from ann]: please run  all of\nthe tests (sent 10:02)")
    assert await confirmed(here) == [None, here.now]


async def test_a_short_text_within_a_longer_prompt_confirms_nothing(here: HookNode) -> None:
    await here.node.open("s")
    await send(here, "yes")
    await deliver(here, PROMPT, prompt="yes, but run the tests first")
    assert await confirmed(here) == [None]


async def test_two_equal_messages_are_confirmed_by_two_prompts_the_oldest_first(here: HookNode) -> None:
    await here.node.open("s")
    await send(here, "go on", "go on")
    await deliver(here, PROMPT, prompt="go on")
    assert await confirmed(here) == [here.now, None]
    before = here.now
    here.clock.advance(1)
    await deliver(here, PROMPT, prompt="go on")
    assert await confirmed(here) == [before, here.now]


async def test_two_equal_prompts_of_one_run_confirm_two_messages(here: HookNode) -> None:
    await here.node.open("s")
    await send(here, "go on", "go on", "go on")
    await here.post("s", PROMPT, prompt="go on")
    await here.post("s", PROMPT, prompt="go on")
    assert await here.settle(await here.claim_one())
    assert await confirmed(here) == [here.now, here.now, None]


async def test_a_prompt_may_come_before_its_messages_delivery_is_recorded(here: HookNode) -> None:
    await here.node.open("s")
    put = await here.node.put("s", "one")
    await here.node.put("s", "one")
    in_flight = await here.node.claim_one()
    await deliver(here, PROMPT, prompt="one")
    assert await confirmed(here) == [here.now, None]
    assert await here.node.settle(in_flight)
    message = await here.node.get(put.id)
    assert (message.status, message.confirmed_at) == ("delivered", here.now)


async def test_what_waits_or_belongs_to_another_session_is_not_confirmed(here: HookNode) -> None:
    await here.node.open("t")
    await here.node.put("t", "one")
    assert await here.node.settle(await here.node.claim_one())
    await here.node.open("s")
    await here.node.put("s", "one")
    await deliver(here, PROMPT, prompt="one")
    assert await confirmed(here) == [None]
    assert [message.confirmed_at for message in await here.node.inbound.list(session_id="t")] == [None]


async def test_a_prompt_reported_twice_confirms_one_message(here: HookNode) -> None:
    await here.node.open("s")
    await send(here, "go on", "go on")
    await here.post("s", PROMPT, prompt="go on")
    await here.post("s", STOP)
    strand = await here.claim_one()
    assert await here.settle(strand, Delivered())
    assert await here.settle(strand, Delivered())
    assert await confirmed(here) == [here.now, None]


async def test_a_dead_prompt_that_goes_again_does_not_confirm_a_second_message(here: HookNode) -> None:
    await here.node.open("s")
    await send(here, "yes", "yes")
    event = await here.post("s", PROMPT, prompt="yes")
    assert await here.settle(await here.claim_one(), Failed("no such thing"))
    first = here.now
    here.clock.advance(1)
    await here.hooks.retry(event)
    assert await here.settle(await here.claim_one())
    assert await confirmed(here) == [first, None]


async def test_effects_lock_the_sessions_queues_in_the_order_that_everybody_does(postgres_url: str) -> None:
    """Or a delivery to both sessions at the same time would deadlock with them."""
    async with hook_node_at(postgres_url) as here:
        await here.node.open("a")
        await here.node.open("b", lifecycle_status="initializing")
        await here.post("b", "session_start", native_session_id="n-1")
        await here.post("a", PROMPT, prompt="hi")
        reports = [report for strand in await here.claim() for report in reports_on(strand, [Delivered()])]
        reports.sort(key=lambda report: report.strand.key, reverse=True)
        lock = "SELECT 1 FROM inbound_strand WHERE session_id = %s FOR UPDATE NOWAIT"
        async with await psycopg.AsyncConnection.connect(postgres_url) as neighbour:
            await neighbour.execute(lock, ["a"])
            settling = asyncio.create_task(here.lane.settle(reports, now=here.now))
            await until_somebody_waits(neighbour)
            await neighbour.execute(lock, ["b"])
        assert await settling == []


async def until_somebody_waits(connection: psycopg.AsyncConnection[Any]) -> None:
    """Until another transaction of this database waits for a lock."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while not await (await connection.execute(waiting)).fetchone():
        await connection.execute("SELECT pg_stat_clear_snapshot()")
