"""What becomes of messages while an agent is at work, as its own hooks tell it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pillarbox.box import Pillarbox
from pillarbox.errors import InvalidInput
from tests.inbound.targets.tmux_stage import Stage, submitted

OTHER_KINDS = [
    {"kind": "http", "url": "http://127.0.0.1:1/"},
    {"kind": "command", "argv": ["true"]},
    {"kind": "python", "name": "agent"},
]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage(tmp_path) as stage:
        yield stage


@pytest.fixture
async def box(sqlite_url: str) -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open(sqlite_url, node="here") as box:
        yield box


async def tell(box: Pillarbox, event_type: str) -> None:
    await box.hooks.post("s", event_type, {"prompt": "go"} if event_type == "user_prompt_submit" else {})
    for _ in range(2):
        await box.hooks.drain.step()


async def deliver(box: Pillarbox) -> None:
    for _ in range(2):
        await box.inbound.drain.step()


@pytest.mark.parametrize("busy", ["type", "queue", "interrupt"])
async def test_a_message_during_a_turn_is_typed_waits_or_is_preceded_by_escape(
    stage: Stage, box: Pillarbox, busy: str
) -> None:
    recorder = await stage.record("agent")
    target = {"kind": "tmux", "name": "agent", "socket": stage.socket, "busy": busy}
    await box.sessions.open(session_id="s", target=target, node="here")
    await tell(box, "user_prompt_submit")
    message = await box.inbound.enqueue(session_id="s", origin="api", content="hello")
    await deliver(box)
    if busy == "queue":
        waiting = await box.inbound.get(message.id)
        assert (waiting.status, waiting.attempt_count) == ("pending", 0)
        assert "at work" in (waiting.last_error or "")
        await tell(box, "agent_stop")
        await box.inbound.retry(message.id)
        await deliver(box)
    assert await recorder.submission() == (b"\x1b" if busy == "interrupt" else b"") + submitted("hello")
    await tell(box, "agent_stop")
    await box.inbound.enqueue(session_id="s", origin="api", content="again")
    await deliver(box)
    assert await recorder.submission() == submitted("again"), "nobody is interrupted who does nothing"


async def test_the_second_of_two_messages_waits_also_before_the_agent_has_said_that_it_began(
    stage: Stage, box: Pillarbox
) -> None:
    recorder = await stage.record("agent")
    target = {"kind": "tmux", "name": "agent", "socket": stage.socket, "busy": "queue"}
    await box.sessions.open(session_id="s", target=target, node="here")
    await tell(box, "session_start")
    first, second = [await box.inbound.enqueue(session_id="s", origin="api", content=text) for text in ("one", "two")]
    await deliver(box)
    await deliver(box)
    states = [(await box.inbound.get(message.id)).status for message in (first, second)]
    assert states == ["delivered", "pending"]
    assert await recorder.submission() == submitted("one")
    for event_type in ("user_prompt_submit", "agent_stop"):
        await tell(box, event_type)
    await box.inbound.retry(second.id)
    await deliver(box)
    assert await recorder.submission() == submitted("two")


@pytest.mark.parametrize("target", OTHER_KINDS, ids=lambda target: str(target["kind"]))
async def test_targets_whose_delivery_is_the_turn_are_not_told_to_be_busy(
    box: Pillarbox, target: dict[str, object]
) -> None:
    with pytest.raises(InvalidInput, match=r"target\.busy"):
        await box.sessions.open(session_id="s", target=target | {"busy": "interrupt"})
