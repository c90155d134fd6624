"""SendGrid, Twilio and a webhook receiver in one local server, which answers as they document or as a test arranges."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

ACCOUNT_SID = "AC" + "0" * 32
MAIL_SEND = "/v3/mail/send"
Way = Literal["answer", "reset", "hang up", "hang", "drip"]


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it came: who was asked, when (monotonic), and which message it was by its idempotency id.

    `label` tells a test's messages apart: a mail's local part, a text's body, a webhook's path.
    """

    provider: str
    message_id: str | None
    label: str
    at: float
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """What to answer, after how long or which event, and in which way the connection ends."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    after: float = 0.0
    once: threading.Event | None = None
    way: Way = "answer"
    raw: bytes | None = None

    def written(self) -> bytes:
        """The bytes of the answer; `raw` stands for itself."""
        if self.raw is not None:
            return self.raw
        headers = {"Content-Length": str(len(self.body)), **self.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 {self.status} Whatever\r\n{lines}\r\n".encode("latin-1") + self.body


Arranged = Callable[[Call], Answer | None]


class ProviderServer:
    """Writes down every call in the order it came; `arrange` chooses answers, and whoever it says None for is documented."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.arrange: Arranged = lambda call: None
        self.connections = 0
        self.origin = ""
        self._changed = threading.Condition()
        self._open: set[asyncio.StreamWriter] = set()

    def of(self, message_id: str) -> list[Call]:
        return [call for call in list(self.calls) if call.message_id == message_id]

    def expect(self, holds: Callable[[Sequence[Call]], bool], *, seconds: float = 60.0) -> list[Call]:
        """Wait until the calls are as they should be."""
        with self._changed:
            came = self._changed.wait_for(lambda: holds(self.calls), seconds)
            assert came, f"only {len(self.calls)} calls: {self.calls[-3:]}"
            return list(self.calls)

    async def visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        self.connections += 1
        self._open.add(writer)
        try:
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    def cut_all(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        call = await _read_call(reader)
        with self._changed:
            self.calls.append(call)
            self._changed.notify_all()
        answer = self.arrange(call) or documented(call)
        if answer.after:
            await asyncio.sleep(answer.after)
        while answer.once is not None and not answer.once.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.01)
        if answer.way != "answer":
            await _spoil(reader, writer, answer)
            return False
        writer.write(answer.written())
        await writer.drain()
        return answer.headers.get("Connection") != "close" and answer.raw is None


@contextmanager
def provider_server(*, tls: ssl.SSLContext | None = None) -> Iterator[ProviderServer]:
    """The server, on a thread of its own, so that processes and loops under test leave it alone."""
    server, loop, ready = ProviderServer(), asyncio.new_event_loop(), threading.Event()
    ended = asyncio.Event()

    async def serve() -> None:
        listening = await asyncio.start_server(server.visit, "127.0.0.1", 0, ssl=tls, backlog=1024, limit=2**20)
        scheme = "https" if tls else "http"
        server.origin = f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        ready.set()
        await ended.wait()
        listening.close()
        server.cut_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()], daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
        loop.close()


def documented(call: Call) -> Answer:
    """What the provider's documentation promises for a request like this."""
    match call.provider:
        case "sendgrid":
            return _sendgrid(call)
        case "twilio":
            return _twilio(call)
        case _:
            return Answer(200, {"Content-Type": "application/json"}, b'{"ok":true}')


def _sendgrid(call: Call) -> Answer:
    if not call.headers.get("authorization", "").startswith("Bearer "):
        return _json(401, {"errors": [{"message": "authorization required", "field": None, "help": None}]})
    mail = call.json
    if not {"personalizations", "from", "content"} <= mail.keys():
        return _json(400, {"errors": [{"message": "a field is missing", "field": "from", "help": None}]})
    return Answer(202, {"X-Message-Id": f"sg-{len(call.body)}.{int(call.at * 1000)}"})


def _twilio(call: Call) -> Answer:
    scheme, _, encoded = call.headers.get("authorization", "").partition(" ")
    sid = urlsplit(call.target).path.split("/")[3]
    if scheme != "Basic" or not b64decode(encoded).decode().startswith(f"{sid}:"):
        return twilio_error(401, 20003)
    form = parse_qs(call.body.decode())
    if not {"To", "From", "Body"} <= form.keys():
        return twilio_error(400, 21604)
    text = {"sid": f"SM{int(call.at * 1e6):032x}", "status": "queued", "to": form["To"][0], "body": form["Body"][0]}
    return _json(201, {**text, "account_sid": sid, "error_code": None, "error_message": None})


def twilio_error(status: int, code: int, message: str = "told by Twilio", **headers: str) -> Answer:
    """An error as Twilio gives it, with its code in the body."""
    more = f"https://www.twilio.com/docs/errors/{code}"
    told = _json(status, {"code": code, "message": message, "more_info": more, "status": status})
    return Answer(status, {**told.headers, **headers}, told.body)


def _json(status: int, body: object) -> Answer:
    return Answer(status, {"Content-Type": "application/json"}, json.dumps(body).encode())


async def _read_call(reader: asyncio.StreamReader) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    at = time.monotonic()
    first, *lines = head.split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    provider, message_id, label = _recognised(target, headers, body)
    return Call(provider, message_id, label, at, method, target, headers, body)


def _recognised(target: str, headers: Mapping[str, str], body: bytes) -> tuple[str, str | None, str]:
    path = urlsplit(target).path
    if path == MAIL_SEND:
        mail = json.loads(body)
        to: str = mail["personalizations"][0]["to"][0]["email"]
        return "sendgrid", mail.get("custom_args", {}).get("message_id"), to.partition("@")[0]
    if path.startswith("/2010-04-01/Accounts/"):
        return "twilio", None, parse_qs(body.decode()).get("Body", [""])[0]
    return "webhook", headers.get("webhook-id"), path.removeprefix("/")


async def _spoil(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
    """End a connection otherwise than with an answer."""
    match answer.way:
        case "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        case "hang":
            while await reader.read(65536):
                pass
        case "drip":
            for each in answer.written():
                writer.write(bytes([each]))
                await writer.drain()
                await asyncio.sleep(0.05)
        case _:
            writer.close()
