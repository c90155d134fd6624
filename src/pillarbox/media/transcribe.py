"""Words from a recording: by an OpenAI-compatible server, or by whisper.cpp in this process."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from pillarbox.media.model import Gone, NotNow
from pillarbox.outbound.client import Client, NotSent, Unanswered
from pillarbox.outbound.provider import Request

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_PASSING = frozenset({401, 403, 404, 408, 409, 425, 429})


class Transcriber(Protocol):
    """Turns a recording into words; the same recording gives the same words, so that it can be done again.

    Raises `Gone` for a recording it can never understand, and `NotNow` where trying again may help.
    """

    async def words(self, path: str, *, mime: str | None) -> str: ...


@dataclass(frozen=True, slots=True)
class HttpTranscriber:
    """`POST {base_url}/audio/transcriptions`, as OpenAI documents it and many servers understand it."""

    client: Client
    base_url: str
    api_key: str | None
    model: str
    language: str | None
    timeout: float

    async def words(self, path: str, *, mime: str | None) -> str:
        content = await asyncio.to_thread(Path(path).read_bytes)
        fields = {"model": self.model, "response_format": "json"}
        if self.language:
            fields["language"] = self.language
        boundary = secrets.token_hex(16)
        headers = {"content-type": f"multipart/form-data; boundary={boundary}", "accept": "application/json"}
        if self.api_key:
            headers["authorization"] = f"Bearer {self.api_key}"
        body = form(boundary, fields, Path(path).name, mime, content)
        request = Request("POST", f"{self.base_url}/audio/transcriptions", headers, body)
        try:
            response = await self.client.fetch(request, deadline=self.timeout, guarded=False)
        except (NotSent, Unanswered) as fault:
            raise NotNow(f"Transcription: {fault}") from None
        if response.status != 200:
            said = f"the transcription server answered HTTP {response.status}"
            passing = response.status in _PASSING or response.status >= 500
            raise NotNow(f"T{said[1:]}.") if passing else Gone(said)
        return text_in(response.body)


@dataclass(slots=True)
class WhisperTranscriber:
    """whisper.cpp on this machine; the model is loaded once, when the first recording comes."""

    model: str
    language: str | None
    timeout: float
    load: Callable[[str], Any] | None = None
    _model: Any = None
    # A model listens to one recording at a time, and a long one holds up nothing else.
    _one_at_a_time: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "whisper"))

    async def words(self, path: str, *, mime: str | None) -> str:
        try:
            async with asyncio.timeout(self.timeout):
                return await asyncio.get_running_loop().run_in_executor(self._one_at_a_time, self._words, path)
        except TimeoutError:
            raise NotNow(f"The recording was not transcribed within {self.timeout:g} s.") from None

    def _words(self, path: str) -> str:
        if not path.endswith(".wav") and shutil.which("ffmpeg") is None:
            raise NotNow("ffmpeg, which whisper.cpp reads recordings with, is not installed.")
        try:
            if self._model is None:
                self._model = (self.load or _whisper)(self.model)
            segments = self._model.transcribe(path, language=self.language or "auto")
        except NotNow:
            raise
        except Exception as error:
            raise Gone(f"it could not be transcribed ({type(error).__name__})") from error
        return _clean(" ".join(str(segment.text).strip() for segment in segments))


def form(boundary: str, fields: dict[str, str], name: str, mime: str | None, content: bytes) -> bytes:
    """A multipart form with one file."""
    kind = (mime or "").partition(";")[0].strip()
    kind = kind if re.fullmatch(r"[a-z0-9.+-]+/[a-z0-9.+-]+", kind) else "application/octet-stream"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, value in fields.items()
    ]
    parts.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: {kind}\r\n\r\n'
    )
    return "".join(parts).encode() + content + f"\r\n--{boundary}--\r\n".encode()


def text_in(body: bytes) -> str:
    """The words in a server's answer, which is JSON with `text`, or text itself."""
    try:
        answer = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return _clean(body.decode("utf-8", "replace"))
    if isinstance(answer, dict) and isinstance(answer.get("text"), str):
        return _clean(answer["text"])
    raise Gone("the transcription server's answer has no text")


def _whisper(model: str) -> Any:
    try:
        from pywhispercpp.model import Model
    except ImportError:
        raise NotNow("whisper.cpp is not installed: pip install 'pillarbox[whisper]'.") from None
    return Model(model, print_progress=False, print_realtime=False)


def _clean(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text).strip()
