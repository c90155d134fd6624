"""On PostgreSQL much is settled in one transaction while more is claimed in another: each once, and in order."""

import asyncio
from collections import defaultdict

import pytest

from pillarbox import Pillarbox
from pillarbox.engine import drain
from pillarbox.hooks.model import HookEvent
from pillarbox.inbound import InboundMessage
from pillarbox.settings import load_settings

SESSIONS = [f"s{number}" for number in range(60)]
EACH = 6
IN_ORDER = {session: [str(number) for number in range(EACH)] for session in SESSIONS}


@pytest.fixture(params=[2, 32])
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "_MANY", request.param)


@pytest.mark.usefixtures("many")
async def test_every_session_gets_its_messages_and_events_once_and_in_order(postgres_url: str) -> None:
    heard: dict[str, list[str]] = defaultdict(list)
    got: dict[str, list[str]] = defaultdict(list)
    everything = asyncio.Event()

    def count() -> None:
        if sum(map(len, (*heard.values(), *got.values()))) >= 2 * EACH * len(SESSIONS):
            everything.set()

    settings = load_settings(environ={}, inbound={"concurrency": 128}, hooks={"concurrency": 128})
    async with Pillarbox.open(postgres_url, settings=settings) as box:
        target = {"kind": "python", "name": "note"}
        await asyncio.gather(*(box.sessions.open(session_id=session, target=target) for session in SESSIONS))
        for number in range(EACH):
            text = str(number)
            await asyncio.gather(
                *(box.inbound.enqueue(session_id=session, origin="test", content=text) for session in SESSIONS),
                *(box.hooks.post(session, "agent_stop", {"text": text}) for session in SESSIONS),
            )

        @box.inbound.target("note")
        async def note(message: InboundMessage) -> None:
            got[message.session_id].append(message.content)
            count()

        @box.hooks.on()
        async def hear(event: HookEvent) -> None:
            heard[event.session_id].append(event.payload["text"])
            count()

        running = asyncio.create_task(box.run())
        await asyncio.wait_for(everything.wait(), 60)
        box.stop()
        await running
        status, told = await box.inbound.status(), await box.hooks.status()
    assert got == IN_ORDER
    assert heard == IN_ORDER
    assert (status.pending, status.processing, status.failed) == (0, 0, 0)
    assert told.oldest_age_seconds is None
