"""Voice messages and files on their way to an agent."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pillarbox.box import Pillarbox
from pillarbox.inbound import InboundMessage
from pillarbox.inbound.adapter import Received
from pillarbox.inbound.attachment import described
from pillarbox.inbound.targets.tmux_text import typed
from pillarbox.settings import load_settings
from tests.servers.daemon import key_for
from tests.servers.scripted import Asked, Scripted, scripted
from tests.servers.telegram_api import TelegramApi, telegram_api

TOKEN = "123456:a-token-of-the-tests"
SESSION = "telegram:42"


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


@pytest.fixture
def speech() -> Iterator[Scripted]:
    with scripted() as speech:
        speech.answers["POST /v1/audio/transcriptions"] = 200, {"text": "turn the lights on"}
        yield speech


class Desk:
    """A box whose agent keeps what it was given."""

    def __init__(self, box: Pillarbox) -> None:
        self.box = box
        self.given: list[InboundMessage] = []
        self.refuse = 0

    async def take(
        self, message_type: str, file_id: str = "f1", content: str = "", channel_id: str = "42", **payload: Any
    ) -> None:
        received = Received(
            origin="telegram",
            channel_id=channel_id,
            content=content,
            message_type=message_type,  # type: ignore[arg-type]
            payload={"file_id": file_id, **payload},
            source_message_id=f"1:42:{file_id}",
        )
        await self.box.adapters.take(received)

    async def attempt(self) -> None:
        """Let what is due be tried."""
        for message in await self.box.inbound.list(status="failed"):
            await self.box.inbound.retry(message.id)
        await self.box.inbound.drain.step()
        while self.box.media._working:
            await asyncio.gather(*self.box.media._working.values(), return_exceptions=True)
        await self.box.inbound.drain.step()
        await self.box.inbound.drain.step()

    async def row(self) -> InboundMessage:
        (row,) = await self.box.inbound.list()
        return row


@asynccontextmanager
async def desk_at(url: str, api: TelegramApi, speech: Scripted | None = None, **media: Any) -> AsyncIterator[Desk]:
    adapters = {
        "telegram": {"bot_token": TOKEN, "base_url": api.url, "poll": False},
        "default_target": {"kind": "python", "name": "agent"},
    }
    if speech is not None:
        media["transcription"] = {"engine": "http", "base_url": f"{speech.url}/v1", "api_key": "key", "attempts": 3}
    settings = load_settings(environ=key_for(url), adapters=adapters, media=media)
    async with Pillarbox.open(url, settings=settings, node="here") as box:
        desk = Desk(box)

        @box.inbound.target("agent")
        async def agent(message: InboundMessage) -> None:
            if desk.refuse:
                desk.refuse -= 1
                raise RuntimeError("not now")
            desk.given.append(message)

        yield desk


@pytest.fixture(params=["sqlite", "postgres"])
async def desk(
    request: pytest.FixtureRequest, api: TelegramApi, speech: Scripted, tmp_path: Path
) -> AsyncIterator[Desk]:
    url = str(request.getfixturevalue(f"{request.param}_url"))
    async with desk_at(url, api, speech, folder=str(tmp_path / "media")) as desk:
        yield desk


async def test_a_voice_message_arrives_as_the_words_that_were_spoken(
    desk: Desk, api: TelegramApi, speech: Scripted
) -> None:
    api.files["f1"] = b"OggS sound"
    await desk.take("voice", mime="audio/ogg", kind="voice", seconds=79)
    await desk.attempt()
    (given,) = desk.given
    assert (given.content, given.message_type) == ("turn the lights on", "text")
    (asked,) = speech.asked
    assert asked.headers["authorization"] == "Bearer key"
    assert b"OggS sound" in asked.body
    assert b'name="model"\r\n\r\nwhisper-1' in asked.body
    row = await desk.row()
    assert (row.content, row.message_type, row.status) == ("turn the lights on", "text", "delivered")
    payload = json.loads(row.payload_json or "")
    assert (payload["kind"], payload["seconds"], payload["transcript"]) == ("voice", 79, "turn the lights on")
    await desk.take("voice", mime="audio/ogg", kind="voice", seconds=79)
    assert len(await desk.box.inbound.list()) == 1, "told again by its platform, it is the same message"


async def test_words_that_came_after_the_first_attempt_are_those_of_a_voice_message(
    desk: Desk, api: TelegramApi, speech: Scripted
) -> None:
    api.files["f1"] = b"OggS sound"
    answer, speech.answers["POST /v1/audio/transcriptions"] = (
        speech.answers["POST /v1/audio/transcriptions"],
        (503, b""),
    )
    await desk.take("voice", mime="audio/ogg", kind="voice")
    await desk.attempt()
    speech.answers["POST /v1/audio/transcriptions"] = answer
    await desk.attempt()
    (given,) = desk.given
    assert (given.content, given.message_type, given.attempt_count) == ("turn the lights on", "voice", 2)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((200, {"text": " \n"}), "no words were heard in it"),
        ((200, {"text": 5}), "the transcription server's answer has no text"),
        ((400, {"error": "what is this"}), "the transcription server answered HTTP 400"),
    ],
)
async def test_a_recording_without_words_arrives_as_a_file_with_the_reason(
    sqlite_url: str, api: TelegramApi, speech: Scripted, answer: Any, why: str
) -> None:
    api.files["f1"] = b"OggS silence"
    speech.answers["POST /v1/audio/transcriptions"] = answer
    async with desk_at(sqlite_url, api, speech) as desk:
        await desk.take("voice", mime="audio/ogg", kind="voice", seconds=3)
        await desk.attempt()
        (given,) = desk.given
        told = described(given.message_type, given.content, given.payload_json)
        assert told.startswith("Voice message: /")
        assert told.endswith(f"voice.ogg (voice, audio/ogg, 12 bytes, 3 s, {why})")
        assert typed(given, envelope=True, single_line=False) == told


async def test_an_attempt_that_fails_later_does_not_fetch_or_listen_again(
    desk: Desk, api: TelegramApi, speech: Scripted
) -> None:
    api.files["f1"] = b"OggS sound"
    desk.refuse = 2
    await desk.take("voice", mime="audio/ogg")
    for _ in range(3):
        await desk.attempt()
    assert [given.content for given in desk.given] == ["turn the lights on"]
    assert len(speech.asked) == 1
    assert (await desk.row()).attempt_count == 3


async def test_a_file_arrives_as_a_path_that_can_be_opened_and_a_description(desk: Desk, api: TelegramApi) -> None:
    api.files["f1"] = b"%PDF-1.7"
    await desk.take("file", content="look at this", name="../../etc/my report.pdf", mime="application/pdf", size=8)
    await desk.attempt()
    (given,) = desk.given
    line = described(given.message_type, given.content, given.payload_json).split("\n")
    assert line[0] == "look at this"
    path = Path(line[1].removeprefix("File: ").partition(" (")[0])
    assert await asyncio.to_thread(path.read_bytes) == b"%PDF-1.7"
    assert path.name == "my_report.pdf"
    assert "application/pdf, 8 bytes" in line[1]


async def test_while_a_platform_is_away_the_message_waits(desk: Desk, api: TelegramApi) -> None:
    url, api.url = api.url, "http://127.0.0.1:9"
    desk.box.media._fetcher._platforms["telegram"] = _elsewhere(desk, "http://127.0.0.1:9")  # type: ignore[index]
    api.files["f1"] = b"sound"
    await desk.take("file", name="a.txt")
    await desk.attempt()
    row = await desk.row()
    assert (row.status, desk.given) == ("failed", [])
    assert "could not be reached" in (row.last_error or "")
    desk.box.media._fetcher._platforms["telegram"] = _elsewhere(desk, url)  # type: ignore[index]
    await desk.attempt()
    assert len(desk.given) == 1


async def test_a_file_that_is_gone_is_told_of_and_holds_nobody_up(desk: Desk) -> None:
    await desk.take("file", "unknown", name="a.txt")
    await desk.attempt()
    (given,) = desk.given
    told = described(given.message_type, given.content, given.payload_json)
    assert told == "File: a.txt (Telegram answered HTTP 400 when asked for the file)"


async def test_speech_that_nobody_understands_arrives_as_a_file_in_the_end(
    desk: Desk, api: TelegramApi, speech: Scripted
) -> None:
    api.files["f1"] = b"sound"
    speech.answers["POST /v1/audio/transcriptions"] = 503, b"overloaded"
    await desk.take("voice", mime="audio/ogg")
    for attempt in (1, 2):
        await desk.attempt()
        row = await desk.row()
        assert (row.status, row.attempt_count) == ("failed", attempt)
        assert row.last_error == "The transcription server answered HTTP 503."
    await desk.attempt()
    (given,) = desk.given
    told = described(given.message_type, given.content, given.payload_json)
    assert told.startswith("Voice message: /")
    assert told.endswith("The transcription server answered HTTP 503)")


async def test_without_a_transcriber_a_voice_message_is_a_file(sqlite_url: str, api: TelegramApi) -> None:
    api.files["f1"] = b"sound"
    async with desk_at(sqlite_url, api) as desk:
        await desk.take("voice", mime="audio/ogg", seconds=3)
        await desk.attempt()
        (given,) = desk.given
        told = described(given.message_type, given.content, given.payload_json)
        assert told.startswith("Voice message: ")
        assert told.endswith("(audio/ogg, 5 bytes, 3 s)")
        assert ".db.media/" in told


async def test_a_file_goes_when_its_message_ended_long_enough_ago_and_not_before(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    folder = tmp_path / "media"
    api.files |= {"f1": b"the same", "f2": b"the same"}
    async with desk_at(sqlite_url, api, folder=str(folder), retention_days=1e-10) as desk:
        await desk.take("file", "f1", name="a.txt")
        await desk.attempt()
        desk.refuse = 1
        await desk.take("file", "f2", name="a.txt")
        await desk.attempt()
        kept = list(folder.rglob("a.txt"))
        assert len(kept) == 1, "the same content lies there once"
        await desk.box.media.prune()
        assert kept[0].exists(), "the second message still waits"
        await desk.attempt()
        assert len(desk.given) == 2
        await desk.box.media.prune()
        assert not kept[0].exists()
        assert not [*(folder / "by-message").iterdir()]


async def test_another_databases_message_of_that_number_is_not_mistaken_for_this_one(
    api: TelegramApi, tmp_path: Path
) -> None:
    api.files |= {"f1": b"the first database's", "f2": b"the second's"}
    for file_id, name in (("f1", "a.txt"), ("f2", "b.txt")):
        url = f"sqlite:///{tmp_path}/{name}.db"
        async with desk_at(url, api, folder=str(tmp_path / "media")) as desk:
            await desk.take("file", file_id, name=name)
            await desk.attempt()
            (given,) = desk.given
            told = described(given.message_type, given.content, given.payload_json)
            path = Path(told.removeprefix("File: ").partition(" (")[0])
            assert await asyncio.to_thread(path.read_bytes) == api.files[file_id]


async def test_what_was_begun_for_an_attempt_that_ran_out_of_time_is_there_for_the_next(
    sqlite_url: str, api: TelegramApi, speech: Scripted
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slowly(asked: Asked) -> tuple[int, Any]:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(30)
        return 200, {"text": "at last"}

    speech.answers["POST /v1/audio/transcriptions"] = slowly
    api.files["f1"] = b"sound"
    async with desk_at(sqlite_url, api, speech) as desk:
        await desk.take("voice", mime="audio/ogg")
        await begun.wait()
        preparing = asyncio.create_task(desk.box.media.prepare(await desk.row()))
        await asyncio.sleep(0)
        preparing.cancel()
        await asyncio.gather(preparing, return_exceptions=True)
        go_on.set()
        await desk.attempt()
        assert [given.content for given in desk.given] == ["at last"]
        assert len(speech.asked) == 1


def _elsewhere(desk: Desk, url: str) -> Any:
    from pillarbox.media.model import Platform

    return Platform(url, TOKEN)
