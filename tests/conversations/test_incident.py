"""The incident that started it all: a voice message whose delivery hung, while every call to the platform took forever."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pillarbox.box import Pillarbox
from pillarbox.inbound.adapter import Received
from pillarbox.settings import load_settings
from tests.conversations.stand import TOKEN
from tests.inbound.targets.tmux_stage import PATIENCE, ShamTmux, Stage, submitted
from tests.servers.scripted import Asked, Scripted, scripted
from tests.servers.telegram_api import TelegramApi, telegram_api

RECEIPTS = 200


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


@pytest.fixture
def speech() -> Iterator[Scripted]:
    with scripted() as speech:
        yield speech


def spoken(number: int, kind: Any = "text", **payload: Any) -> Received:
    content = "" if kind == "voice" else f"message {number}"
    source = f"1:42:{number}"
    return Received(
        origin="telegram",
        channel_id="42",
        content=content,
        message_type=kind,
        payload=payload,
        source_message_id=source,
    )


def wait_for_paste(sham: ShamTmux) -> None:
    """Until the daemon has tried to type something, which hangs."""
    deadline, waiting = time.monotonic() + PATIENCE, threading.Event()
    while "paste" not in {what for _, what in sham.calls()}:
        assert time.monotonic() < deadline
        waiting.wait(0.01)


async def test_a_voice_message_is_delivered_once_and_receipt_goes_on_while_everything_else_hangs(
    sqlite_url: str, api: TelegramApi, speech: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.files["voice"] = b"OggS of 79 seconds"
    released = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hanging(asked: Asked) -> tuple[int, Any]:
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result(PATIENCE)
        return 200, {"text": "the words of the incident"}

    speech.answers["POST /v1/audio/transcriptions"] = hanging

    def calling(message: dict[str, Any]) -> None:
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result(PATIENCE)

    api.before_sending = calling
    (tmp_path / "bin").mkdir()
    sham = ShamTmux(tmp_path / "bin")
    async with Stage(tmp_path) as stage:
        recorder = await stage.record("agent")
        monkeypatch.setenv("PATH", str(sham.folder), prepend=":")
        sham.will("hang-paste")
        settings = load_settings(
            environ={},
            adapters={
                "telegram": {"bot_token": TOKEN, "base_url": api.url, "poll": False},
                "default_target": {"kind": "tmux", "name": "agent", "socket": stage.socket, "envelope": False},
            },
            media={"transcription": {"engine": "http", "base_url": f"{speech.url}/v1"}},
            inbound={"backoff_seconds": [0.1], "deliver_timeout_seconds": 1.0},
        )
        async with Pillarbox.open(sqlite_url, settings=settings) as box:
            running = asyncio.create_task(box.run())
            await box.adapters.take(spoken(0, "voice", file_id="voice", seconds=79))
            await box.conversations.answer("telegram:42", "telegram", "42", "a call that takes thirteen seconds")
            for number in range(1, RECEIPTS + 1):
                await box.adapters.take(spoken(number))
            assert not released.is_set(), "all of that was received while nothing else went on"
            assert len(await box.inbound.list(limit=1000)) == RECEIPTS + 1
            released.set()
            await asyncio.to_thread(wait_for_paste, sham)
            sham.behave()
            assert await recorder.submission() == submitted("the words of the incident")
            for number in range(1, 4):
                assert await recorder.submission() == submitted(f"message {number}")
            assert len(speech.asked) == 1
            assert api.said == ["a call that takes thirteen seconds"]
            box.stop()
            await running
            first = (await box.inbound.list(limit=1))[0]
            assert (first.status, first.content) == ("delivered", "the words of the incident")
            assert first.attempt_count > 1, "its first delivery hung"
