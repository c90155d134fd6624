"""What listeners may do, and what they cannot."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from pillarbox import Pillarbox
from pillarbox.hooks.model import HookEvent
from pillarbox.settings import load_settings


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


async def test_the_summary_of_a_turn_and_a_numeric_error_are_kept(box: Pillarbox) -> None:
    await box.sessions.open(session_id="s", target={"kind": "none"})
    await box.hooks.post("s", "agent_stop", {"summary": "All tests pass."})
    await box.hooks.post("s", "error", {"code": 42})
    await box.hooks.drain.step()
    state = await box.hooks.agent_state("s")
    assert state is not None
    assert (state.last_summary, state.last_error) == ("All tests pass.", "42")
