"""A box with a Telegram bot that answers on loopback, and agents that write transcripts."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pillarbox.box import Pillarbox
from pillarbox.settings import load_settings
from tests.servers.daemon import key_for
from tests.servers.telegram_api import TelegramApi

TOKEN = "123456:a-token-of-the-tests"


@dataclass
class Stand:
    box: Pillarbox
    api: TelegramApi
    folder: Path
    asked: list[str] = field(default_factory=list)

    async def open(self, session_id: str, *channels: tuple[str, str], target: dict[str, Any] | None = None) -> Path:
        """A session with these chats, and the transcript of its agent."""
        opened = [{"origin": origin, "channel_id": channel_id} for origin, channel_id in channels]
        await self.box.sessions.open(
            session_id=session_id,
            target=target or {"kind": "python", "name": "agent"},
            channels=[_channel(**each) for each in opened],
        )
        transcript = self.folder / f"{session_id}.jsonl"
        transcript.touch()
        await self.box.hooks.post(session_id, "session_start", {"transcript_path": str(transcript), "agent": "claude"})
        await self.box.hooks.drain.step()
        await self.box.hooks.drain.step()
        return transcript

    async def settle(self) -> None:
        """Let everything that is due happen, until nothing more does."""
        quiet = 0
        while quiet < 2:
            self.box.conversations.look_again()
            busy = await self.box.conversations.step()
            for drain in (self.box.inbound.drain, self.box.hooks.drain, self.box.outbound.drain):
                busy += await drain.step()
            quiet = 0 if busy else quiet + 1


def say(transcript: Path, *texts: str) -> None:
    """The agent says something."""
    with transcript.open("a") as file:
        for text in texts:
            at = datetime.now(UTC).isoformat()
            message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
            file.write(json.dumps({"type": "assistant", "timestamp": at, "message": message}) + "\n")


@asynccontextmanager
async def standing(url: str, api: TelegramApi, folder: Path, **sections: Any) -> AsyncIterator[Stand]:
    given: dict[str, Any] = {
        "adapters": {"telegram": {"bot_token": TOKEN, "base_url": api.url, "poll": False}},
        "outbound": {"channels": {"telegram": {"backoff_base_seconds": 0.01}}},
    }
    settings = load_settings(environ=key_for(url), **(given | sections))
    async with Pillarbox.open(url, settings=settings, node="here") as box:
        stand = Stand(box, api, folder)

        @box.inbound.target("agent")
        async def answer(message: Any) -> None:
            stand.asked.append(message.content)

        yield stand


def _channel(origin: str, channel_id: str) -> Any:
    from pillarbox.sessions import Channel

    return Channel(origin, channel_id)
