"""Words from recordings, by a server or in this process."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pillarbox.media.model import Gone, NotNow
from pillarbox.media.transcribe import HttpTranscriber, WhisperTranscriber, form, text_in
from pillarbox.outbound.client import Client
from tests.servers.scripted import Scripted, scripted


@dataclass
class Segment:
    text: str


class Model:
    """What whisper.cpp's model looks like from outside."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.languages: list[str] = []

    def transcribe(self, path: str, *, language: str) -> list[Segment]:
        self.languages.append(language)
        if isinstance(self.answer, Exception):
            raise self.answer
        return [Segment(text) for text in self.answer]


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as server:
        yield server


@pytest.fixture
async def transcriber(server: Scripted) -> AsyncIterator[HttpTranscriber]:
    client = Client()
    yield HttpTranscriber(client, f"{server.url}/v1", "a key", "a-model", "de", 10.0)
    await client.close()


@pytest.fixture
def recording(tmp_path: Path) -> str:
    file = tmp_path / "a.wav"
    file.write_bytes(b"RIFF")
    return str(file)


async def test_a_server_is_asked_as_openai_documents(
    server: Scripted, transcriber: HttpTranscriber, recording: str
) -> None:
    server.answers["POST /v1/audio/transcriptions"] = 200, {"text": " hello there \n"}
    assert await transcriber.words(recording, mime="audio/wav; codecs=1") == "hello there"
    (asked,) = server.asked
    assert asked.headers["authorization"] == "Bearer a key"
    for part in (b'name="model"\r\n\r\na-model\r\n', b'name="language"\r\n\r\nde\r\n', b'filename="a.wav"'):
        assert part in asked.body
    assert b"Content-Type: audio/wav\r\n\r\nRIFF\r\n" in asked.body


@pytest.mark.parametrize(
    ("status", "kind"), [(400, Gone), (413, Gone), (415, Gone), (401, NotNow), (429, NotNow), (500, NotNow)]
)
async def test_a_recording_that_is_at_fault_is_told_from_a_server_that_is(
    server: Scripted, transcriber: HttpTranscriber, recording: str, status: int, kind: type[Exception]
) -> None:
    server.answers["POST /v1/audio/transcriptions"] = status, b"canary of the answer"
    with pytest.raises(kind, match=str(status)) as raised:
        await transcriber.words(recording, mime=None)
    assert "canary" not in str(raised.value)


def test_an_answer_may_be_json_or_text() -> None:
    assert text_in(b'{"text": "a"}') == "a"
    assert text_in(b"plain words\n") == "plain words"
    with pytest.raises(Gone):
        text_in(b'{"words": []}')


def test_a_strange_kind_of_file_cannot_break_the_form() -> None:
    body = form("b", {}, "a.ogg", "audio/ogg\r\nX-Evil: 1", b"")
    assert b"Evil" not in body


async def test_whisper_is_loaded_once_and_asked_in_the_language_that_is_set(recording: str) -> None:
    model, loaded = Model([" one ", "two"]), []

    def load(name: str) -> Model:
        loaded.append(name)
        return model

    guessing = WhisperTranscriber("base", None, 10.0, load)
    assert await asyncio.gather(*(guessing.words(recording, mime=None) for _ in range(3))) == ["one two"] * 3
    assert (loaded, model.languages) == (["base"], ["auto"] * 3)
    assert await WhisperTranscriber("base", "en", 10.0, load).words(recording, mime=None) == "one two"
    assert model.languages[-1] == "en"


async def test_a_long_recording_holds_up_nothing_else(recording: str) -> None:
    released = threading.Event()

    class Slow(Model):
        def transcribe(self, path: str, *, language: str) -> list[Segment]:
            return [Segment("at last" if released.wait(10) else "held up")]

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    whisper = WhisperTranscriber("base", None, 30.0, lambda name: Slow([]))
    listening = asyncio.gather(*(whisper.words(recording, mime=None) for _ in range(2)))
    await asyncio.sleep(0)
    await asyncio.to_thread(released.set)
    assert await listening == ["at last"] * 2


async def test_what_whisper_cannot_read_is_gone_and_a_missing_tool_is_not(
    recording: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = WhisperTranscriber("base", None, 10.0, lambda name: Model(ValueError("bad header")))
    with pytest.raises(Gone, match="ValueError"):
        await broken.words(recording, mime=None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotNow, match="ffmpeg"):
        await broken.words(str(tmp_path / "a.ogg"), mime=None)
    with pytest.raises(NotNow, match="pillarbox\\[whisper\\]"):
        await WhisperTranscriber("base", None, 10.0).words(recording, mime=None)
