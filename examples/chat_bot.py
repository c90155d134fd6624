"""People write faster than the bot thinks. Type lines such as `ada: hello`; end with Ctrl-D.

Each person is a session, so each is answered in order, and one whose message fails holds up nobody else. Kill it while
it thinks and start it again: it goes on where it was.
"""

import asyncio
import sys

from pillarbox import Pillarbox
from pillarbox.errors import NotFound
from pillarbox.inbound import InboundMessage


async def think(message: InboundMessage) -> None:
    """What would be a call of a model; the first attempt at anything difficult fails."""
    if "difficult" in message.content and message.attempt_count == 1:
        raise RuntimeError("I have to think about that again.")
    print(f"{message.actor_name}: {message.content} -> {message.content[::-1]}", flush=True)


async def take(box: Pillarbox, person: str, text: str) -> None:
    session_id = f"chat:{person}"
    try:
        await box.sessions.get(session_id)
    except NotFound:
        await box.sessions.open(session_id=session_id, target={"kind": "python", "name": "bot"})
    await box.inbound.enqueue(session_id=session_id, origin="terminal", content=text, actor_name=person)


async def main() -> None:
    settings = {"inbound": {"backoff_seconds": [1]}}
    async with Pillarbox.open("sqlite:///chat-bot.db", settings=settings) as box:
        box.inbound.target("bot")(think)
        working = asyncio.create_task(box.run())
        while line := await asyncio.to_thread(sys.stdin.readline):
            person, _, text = line.strip().partition(": ")
            if text:
                await take(box, person, text)
        while (status := await box.inbound.status()).pending + status.processing + status.failed:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        box.stop()
        await working


if __name__ == "__main__":
    asyncio.run(main())
