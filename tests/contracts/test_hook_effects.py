"""What events do to their sessions: once, in order, and with the report that ends them, on every database."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pillarbox.engine import Delivered, Failed, Retry
from pillarbox.errors import PermanentError
from pillarbox.hooks.model import AgentState, HookEvent
from tests.contracts.hook_boxes import HookNode, another, hook_node_at

LEASE = 30.0
PROMPT, STOP = "user_prompt_submit", "agent_stop"
BROKEN = ['{"prompt": ', "[1, 2]", '"text"', "null", "", '{"a": "\\ud800"}', "[" * 100_000]


@pytest.fixture
async def here(url: str) -> AsyncIterator[HookNode]:
    async with hook_node_at(url) as opened:
        yield opened


@pytest.fixture
async def there(here: HookNode) -> AsyncIterator[HookNode]:
    async with another(here) as opened:
        yield opened


async def state(here: HookNode, session_id: str = "s") -> AgentState:
    found = await here.hooks.agent_state(session_id)
    assert found is not None
    return found


async def deliver(here: HookNode, event_type: str, **payload: Any) -> None:
    await here.post("s", event_type, **payload)
    assert await here.settle(await here.claim_one())


async def send(here: HookNode, *contents: str) -> None:
    """Have messages delivered to the session's agent."""
    for content in contents:
        await here.node.put("s", content)
        assert await here.node.settle(await here.node.claim_one())


# What is known of the agent


async def test_the_agents_turn_follows_its_events(here: HookNode) -> None:
    await here.node.open("s")
    assert await here.hooks.agent_state("s") is None
    turns = []
    for event_type in ("session_start", PROMPT, "tool_use", "notification", "tool_done", STOP, "of tomorrow", "error"):
        await deliver(here, event_type)
        turns.append((await state(here)).turn)
    assert turns == ["idle", "working", "working", "waiting", "working", "idle", "idle", "idle"]


async def test_what_an_event_does_not_mention_stays(here: HookNode) -> None:
    await here.node.open("s")
    times = []
    for event_type, payload in (
        (PROMPT, {"prompt": "hello", "transcript_path": "/t.jsonl"}),
        ("notification", {"message": "may I?"}),
        ("error", {"code": "E1"}),
        (STOP, {}),
        ("tool_use", {"message": "not a notification", "prompt": "no input"}),
    ):
        here.clock.advance(1)
        times.append(here.now)
        await deliver(here, event_type, **payload)
    assert await state(here) == AgentState(
        turn="working",
        last_activity=times[-1],
        last_user_input="hello",
        last_user_input_at=times[0],
        last_turn_completed_at=times[3],
        last_summary=None,
        last_notification="may I?",
        last_error="E1",
        transcript_path="/t.jsonl",
    )


async def test_a_run_settled_at_once_tells_the_same_as_one_settled_bit_by_bit(here: HookNode) -> None:
    events: list[tuple[str, dict[str, str]]] = [
        (PROMPT, {"prompt": "one"}),
        ("notification", {"message": "wait"}),
        (PROMPT, {"prompt": "two"}),
        (STOP, {}),
    ]
    for session in ("at once", "bit by bit"):
        await here.node.open(session)
        for event_type, payload in events:
            await here.post(session, event_type, **payload)
    for strand in await here.claim():
        if strand.key == "at once":
            assert await here.settle(strand)
        else:
            for count in range(1, 5):
                assert await here.settle(strand, *(Delivered(),) * count)
    assert await state(here, "at once") == await state(here, "bit by bit")
    assert (await state(here, "at once")).last_user_input == "two"


async def test_an_event_takes_effect_with_the_report_that_ends_it_and_not_before(here: HookNode) -> None:
    await here.node.open("s")
    await here.post("s", PROMPT, prompt="one")
    await here.post("s", PROMPT, prompt="two")
    strand = await here.claim_one()
    assert await here.hooks.agent_state("s") is None
    assert await here.settle(strand, Delivered(), Retry("away", here.now))
    assert (await state(here)).last_user_input == "one"
    assert await here.settle(await here.claim_one())
    assert (await state(here)).last_user_input == "two"


async def test_an_event_whose_listener_gave_up_takes_effect_all_the_same(here: HookNode) -> None:
    await here.node.open("s")
    await here.post("s", PROMPT, prompt="one")
    assert await here.settle(await here.claim_one(), Failed("no such thing"))
    assert (await state(here)).last_user_input == "one"


@pytest.mark.parametrize("together", [True, False])
async def test_an_old_event_that_goes_again_does_not_turn_back_the_last_activity(
    here: HookNode, together: bool
) -> None:
    await here.node.open("s")
    dead = await here.post("s", "error", message="lost")
    assert await here.settle(await here.claim_one(), Failed("no such thing"))
    here.clock.advance(60)
    await here.post("s", STOP)
    if not together:
        assert await here.settle(await here.claim_one())
    await here.hooks.retry(dead)
    assert await here.settle(await here.claim_one())
    assert (await state(here)).last_activity == here.now


async def test_the_last_activity_goes_on_within_a_second_as_well(here: HookNode) -> None:
    await here.node.open("s")
    here.clock.advance(1 - here.now.microsecond / 1e6)
    assert here.now.microsecond == 0
    await deliver(here, "tool_use")
    here.clock.advance(0.5)
    await deliver(here, "tool_done")
    assert (await state(here)).last_activity == here.now


async def test_a_late_report_has_no_effect(here: HookNode, there: HookNode) -> None:
    await here.node.open("s")
    await here.post("s", PROMPT, prompt="one")
    stale = await here.claim_one()
    here.clock.advance(LEASE)
    fresh = await there.claim_one()
    assert not await here.settle(stale)
    assert await here.hooks.agent_state("s") is None
    assert await there.settle(fresh)
    assert (await state(here)).last_user_input == "one"


async def test_a_report_that_fails_to_be_recorded_has_no_effect(here: HookNode) -> None:
    """Its effects are in the transaction that ends the event: all of it, or none."""
    await here.node.open("s")
    event = await here.post("s", PROMPT, prompt="one")
    await send(here, "one")
    strand = await here.claim_one()
    await here.node.sql("ALTER TABLE inbound_strand RENAME TO hidden")
    with pytest.raises(Exception, match="inbound_strand"):
        await here.settle(strand)
    await here.node.sql("ALTER TABLE hidden RENAME TO inbound_strand")
    assert await here.hooks.agent_state("s") is None
    assert (await here.get(event)).status == "processing"
    assert await here.settle(strand)
    assert (await state(here)).last_user_input == "one"


async def test_values_of_unusable_kinds_are_passed_over(here: HookNode) -> None:
    await here.node.open("s")
    await deliver(here, PROMPT, prompt=["a", "list"], transcript_path="x" * 5000, agent=7, native_session_id=None)
    await deliver(here, "error", message=None, code={"a": 1})
    await deliver(here, PROMPT, prompt="y" * 10_000)
    found = await state(here)
    assert (found.last_user_input, found.transcript_path, found.last_error) == ("y" * 4000, None, None)


@pytest.mark.parametrize("field", ["prompt", "transcript_path"])
async def test_text_that_no_database_can_store_spoils_no_report(here: HookNode, field: str) -> None:
    """A payload that came by the spool is stored escaped, whatever it says once it is read."""
    await here.node.open("s")
    event = await here.post("s", PROMPT)
    await here.corrupt(event, f'{{"{field}": "a\\u0000b"}}')
    assert await here.settle(await here.claim_one())
    assert await here.statuses("s") == ["delivered"]
    found = await state(here)
    expected = ("a\ufffdb", None) if field == "prompt" else (None, None)
    assert (found.last_user_input, found.transcript_path) == expected


# Sessions


async def test_a_started_agent_anchors_its_session(here: HookNode) -> None:
    await here.node.open("s", lifecycle_status="initializing")
    await deliver(here, "session_start", agent="claude", native_session_id="n-1")
    session = await here.node.sessions.get("s")
    assert (session.lifecycle_status, session.agent, session.native_session_id) == ("active", "claude", "n-1")
    await deliver(here, "session_start", native_session_id="n-2")
    session = await here.node.sessions.get("s")
    assert (session.agent, session.native_session_id) == ("claude", "n-2")


async def test_a_headless_session_stays_headless_and_a_closed_one_closed(here: HookNode) -> None:
    await here.node.open("s", lifecycle_status="headless", target={"kind": "none"})
    await deliver(here, "session_start", native_session_id="n-1")
    session = await here.node.sessions.get("s")
    assert (session.lifecycle_status, session.native_session_id) == ("headless", "n-1")
    await here.node.sessions.close("s")
    await deliver(here, "session_start", native_session_id="n-2")
    session = await here.node.sessions.get("s")
    assert (session.lifecycle_status, session.native_session_id) == ("closed", "n-1")


# Poison


@pytest.mark.parametrize("payload", BROKEN, ids=range(len(BROKEN)))
async def test_a_payload_that_is_no_object_is_closed_after_one_attempt_and_the_next_goes(
    here: HookNode, payload: str
) -> None:
    await here.node.open("s")
    heard: list[HookEvent] = []
    here.hooks.on()(heard.append)
    ids = await here.post_all("s", PROMPT, PROMPT, STOP)
    await here.corrupt(ids[1], payload)
    await here.hooks.drain.step()
    await here.hooks.drain.step()
    dead = await here.get(ids[1])
    assert (dead.status, dead.attempt_count, dead.last_error) == ("dead", 1, "The payload is not a JSON object.")
    assert dead.payload == payload
    assert [event.id for event in heard] == [ids[0], ids[2]]
    assert (await state(here)).turn == "idle"


async def test_a_listener_that_gives_up_or_fails_is_heeded(here: HookNode) -> None:
    await here.node.open("s")

    @here.hooks.on(PROMPT)
    def give_up(event: HookEvent) -> None:
        raise PermanentError("never")

    @here.hooks.on(STOP)
    async def fail(event: HookEvent) -> None:
        if event.attempt < 3:
            raise RuntimeError("not yet")

    await here.post_all("s", PROMPT, STOP)
    for wait in (0, 0, 1, 2):
        here.clock.advance(wait)
        await here.hooks.drain.step()
    first, second = await here.records("s")
    assert (first.status, first.attempt_count, first.last_error) == ("dead", 1, "PermanentError: never")
    assert (second.status, second.attempt_count) == ("delivered", 3)
