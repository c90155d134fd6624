"""The incident that started it all, with a real daemon: every call to the platform takes long, and so does typing into tmux."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from tests.adapters.platforms import BOT_TOKEN, SECRET_TOKEN, Said, telegram_update
from tests.inbound.targets.tmux_stage import PATIENCE, Recorder, ShamTmux, Stage
from tests.servers.daemon import Daemon
from tests.servers.scripted import Answer, Asked, Scripted, scripted

VOICE_CHAT = "42"
WORDS = "the words of a message of 79 seconds"
OTHER_CHATS = 20


@dataclass(frozen=True)
class Pace:
    """How long every call to the platform takes, and how long typing hangs; tmux itself is given up after five seconds."""

    call_seconds: float
    hang_seconds: float | None
    backoff_seconds: float

    @property
    def settings(self) -> dict[str, object]:
        hang = {} if self.hang_seconds is None else {"inbound.deliver_timeout_seconds": self.hang_seconds}
        return {"inbound.backoff_seconds": [self.backoff_seconds], **hang}

    @property
    def patience(self) -> float:
        return PATIENCE + 10 * self.call_seconds


FULL = Pace(13.0, None, 5.0)
TENTH = Pace(1.3, 0.5, 0.05)
"""The same at a tenth of the time, in the same proportions."""


@dataclass
class SlowPlatform:
    """A server for all that is asked for outside: no answer leaves before its time, nor while `held`."""

    server: Scripted
    call_seconds: float
    free: threading.Event = field(default_factory=threading.Event)
    answered: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        done: dict[str, Any] = {"ok": True, "result": True}
        file = {"ok": True, "result": {"file_id": "v", "file_path": "voice"}}
        for path, answer in {
            f"POST /bot{BOT_TOKEN}/sendChatAction": done,
            f"POST /bot{BOT_TOKEN}/sendMessage": {"ok": True, "result": {"message_id": 1}},
            f"GET /bot{BOT_TOKEN}/getFile": file,
            f"GET /file/bot{BOT_TOKEN}/voice": b"OggS of 79 seconds",
            "POST /v1/audio/transcriptions": {"text": WORDS},
        }.items():
            self.server.answers[path] = self._slowly(path.rpartition("/")[2], answer)

    def asked(self) -> set[str]:
        return {asked.path.partition("?")[0].rpartition("/")[2] for asked in list(self.server.asked)}

    def _slowly(self, name: str, answer: Any) -> Callable[[Asked], Answer]:
        def answering(asked: Asked) -> Answer:
            began = time.monotonic()
            self.free.wait(PATIENCE * 3)
            threading.Event().wait(max(0.0, began + self.call_seconds - time.monotonic()))
            self.answered.append(name)
            return 200, answer

        return answering


@dataclass
class Incident:
    """The daemon, what it talks to, and how long each receipt took."""

    pace: Pace
    daemon: Daemon
    platform: SlowPlatform
    sham: ShamTmux
    agent: Recorder
    client: ClientSession
    latencies: list[float] = field(default_factory=list)
    posted: int = 0

    async def receive(self, chat: str | None = None, **content: Any) -> None:
        """The platform posts a message, and hears that it is safe."""
        self.posted += 1
        chat = chat or str(1000 + self.posted % OTHER_CHATS)
        update = telegram_update(Said(self.posted, f"message {self.posted}", chat), **content)
        began = time.perf_counter()
        async with self.client.post("/adapters/telegram", json=update) as answer:
            assert answer.status == 200
            await answer.read()
        self.latencies.append(time.perf_counter() - began)

    async def receive_many(self, count: int) -> None:
        """So many, some at a time, from many chats."""
        for _ in range(count // OTHER_CHATS):
            await asyncio.gather(*(self.receive() for _ in range(OTHER_CHATS)))

    async def received_during(self, call: str, count: int) -> bool:
        """Whether so many messages are received, one after the other, between a call to the platform and its answer."""
        await self.until(lambda: call in self.platform.asked(), f"a call for {call}")
        for _ in range(count):
            await self.receive()
        return call not in self.platform.answered

    async def voice(self) -> dict[str, Any]:
        """What is known of the voice message."""
        answer = await asyncio.to_thread(self.daemon.call, "GET", "/v1/inbound?session_id=agent")
        found: dict[str, Any] = answer[1]["items"][0]
        return found

    async def receive_voice(self) -> None:
        await self.receive(VOICE_CHAT, voice={"file_id": "v", "duration": 79, "mime_type": "audio/ogg"})

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        async with asyncio.timeout(self.pace.patience):
            while not holds():  # noqa: ASYNC110 - other processes do it
                await asyncio.sleep(0.01)
        assert holds(), what

    def typing_hangs(self) -> bool:
        return "paste" in {what for _, what in self.sham.calls()}

    async def typed(self) -> bytes:
        """What the agent's program reads next, up to an Enter."""
        async with asyncio.timeout(self.pace.patience):
            while True:
                try:
                    return await self.agent.submission()
                except TimeoutError:
                    continue


@asynccontextmanager
async def incident(folder: Path, pace: Pace) -> AsyncIterator[Incident]:
    """Everything in place, and nothing said yet."""
    (folder / "bin").mkdir()
    sham = ShamTmux(folder / "bin")
    sham.will("hang-paste")
    with scripted() as server:
        platform = SlowPlatform(server, pace.call_seconds)
        bot = {"bot_token": BOT_TOKEN, "base_url": server.url, "secret_token": SECRET_TOKEN, "poll": False}
        settings = {"adapters.telegram": bot, **pace.settings}
        settings["media.transcription"] = {"engine": "http", "base_url": f"{server.url}/v1"}
        environ = {"PATH": f"{sham.folder}:{os.environ['PATH']}"}
        async with Stage(folder) as stage:
            agent = await stage.record("agent")
            daemon = Daemon(f"sqlite:///{folder}/pillarbox.db", settings=settings, environ=environ)
            await asyncio.to_thread(daemon.start)
            try:
                target = {"kind": "tmux", "name": "agent", "socket": stage.socket, "envelope": False}
                chat = {"origin": "telegram", "channel_id": VOICE_CHAT}
                opened = {"session_id": "agent", "target": target}
                assert (await asyncio.to_thread(daemon.call, "POST", "/v1/sessions", opened))[0] == 201
                patched = await asyncio.to_thread(daemon.call, "PATCH", "/v1/sessions/agent", {"channels": [chat]})
                assert patched[0] == 200
                headers = {"X-Telegram-Bot-Api-Secret-Token": SECRET_TOKEN}
                async with ClientSession(daemon.base_url, headers=headers) as client:
                    yield Incident(pace, daemon, platform, sham, agent, client)
            finally:
                platform.free.set()
                daemon.kill()
