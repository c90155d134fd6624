"""What listeners may do, and what they cannot."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator

import pytest

from pillarbox import Pillarbox
from pillarbox.hooks.model import HookEvent
from pillarbox.settings import load_settings
from tests.servers.daemon import SECONDS


@pytest.fixture
async def box() -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open("sqlite:///:memory:", settings=load_settings(environ={})) as opened:
        yield opened


async def test_what_a_listener_does_to_its_event_reaches_neither_others_nor_the_session(box: Pillarbox) -> None:
    await box.sessions.open(session_id="s", target={"kind": "none"})
    seen = []

    @box.hooks.on()
    async def spoil(event: HookEvent) -> None:
        event.payload.clear()

    @box.hooks.on()
    async def look(event: HookEvent) -> None:
        seen.append(event.payload)

    await box.hooks.post("s", "user_prompt_submit", {"prompt": "hello", "more": {"deep": [1]}})
    await box.hooks.drain.step()
    assert seen == [{"prompt": "hello", "more": {"deep": [1]}}]
    state = await box.hooks.agent_state("s")
    assert state is not None
    assert state.last_user_input == "hello"


async def test_a_listener_that_blocks_holds_up_no_other_session(box: Pillarbox) -> None:
    may_end = threading.Event()
    others = asyncio.Event()
    for name in ("slow", "quick"):
        await box.sessions.open(session_id=name, target={"kind": "none"})

    @box.hooks.on()
    def block(event: HookEvent) -> None:
        if event.session_id == "slow":
            may_end.wait(30)

    @box.hooks.on("agent_stop")
    async def note(event: HookEvent) -> None:
        if event.session_id == "quick":
            others.set()

    await box.hooks.post("slow", "agent_stop")
    await box.hooks.post("quick", "agent_stop")
    step = asyncio.create_task(box.hooks.drain.step())
    await asyncio.wait_for(others.wait(), 10)
    assert not step.done()
    may_end.set()
    assert await step == 2


async def test_however_many_listeners_block_the_loop_has_its_own_threads_left(box: Pillarbox) -> None:
    many = 60
    loop, all_there, may_end = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    meeting = threading.Barrier(many)
    for number in range(many):
        await box.sessions.open(session_id=f"s{number}", target={"kind": "none"})
        await box.hooks.post(f"s{number}", "agent_stop")

    @box.hooks.on()
    def block(event: HookEvent) -> None:
        if meeting.wait(SECONDS) == 0:
            loop.call_soon_threadsafe(all_there.set)
        may_end.wait(SECONDS)

    step = asyncio.create_task(box.hooks.drain.step())
    await asyncio.wait_for(all_there.wait(), SECONDS)
    assert await asyncio.wait_for(asyncio.to_thread(int, "1"), SECONDS) == 1
    may_end.set()
    assert await step == many


async def test_a_listener_that_leaves_the_program_fails_its_attempt_alone(box: Pillarbox) -> None:
    await box.sessions.open(session_id="s", target={"kind": "none"})

    @box.hooks.on()
    def leave(event: HookEvent) -> None:
        if event.attempt == 1:
            sys.exit(3)

    stored = await box.hooks.post("s", "agent_stop")
    await box.hooks.drain.step()
    record = await box.hooks.get(stored.id)
    assert record.status == "failed"
    assert "SystemExit: 3" in (record.last_error or "")
    await box.hooks.retry(stored.id)
    await box.hooks.drain.step()
    assert (await box.hooks.get(stored.id)).status == "delivered"


async def test_the_summary_of_a_turn_and_a_numeric_error_are_kept(box: Pillarbox) -> None:
    await box.sessions.open(session_id="s", target={"kind": "none"})
    await box.hooks.post("s", "agent_stop", {"summary": "All tests pass."})
    await box.hooks.post("s", "error", {"code": 42})
    await box.hooks.drain.step()
    state = await box.hooks.agent_state("s")
    assert state is not None
    assert (state.last_summary, state.last_error) == ("All tests pass.", "42")
