"""The target of everything: writes down what reaches it and answers as told; never killed: `python -m torture.recorder`."""

from __future__ import annotations

import asyncio
import hmac
import random
import re
import sys
import time
from pathlib import Path
from typing import Any, cast

import msgspec
import uvloop

from torture.journal import Journal
from torture.saying import SIGNING_KEY, hook_said, inbound_said, outbound_said

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NAMED = re.compile(rb"\r\nwebhook-id: *([^\r]+)", re.IGNORECASE)
_NODE = re.compile(rb"\r\ntorture-node-([^:\r]+): *([0-9a-f]+)", re.IGNORECASE)
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
_STALE_BODY = b'{"stale": true}'
_STALE = (
    b"HTTP/1.1 409 Stale\r\nContent-Type: application/json\r\n"
    + f"Content-Length: {len(_STALE_BODY)}\r\n\r\n".encode()
    + _STALE_BODY
)
_KEEP_EVERY = 0.1
_STALLED = 0.1
_RELUCTANT_SECONDS = 2.0
"""Whoever opts out refuses at first, so that messages are waiting when it does."""


class Target:
    """What came, and how the next ones are answered."""

    def __init__(self, journal: Journal, seed: int) -> None:
        self.journal = journal
        self.chance = random.Random(seed)
        self.manners: dict[str, float] = {}
        self.highest: dict[str, int] = {}
        self.reluctant: dict[str, float] = {}

    def take(self, path: str, head: bytes, body: bytes) -> tuple[str, float]:
        """Write one request down; how it is answered, and after how long."""
        entry = _entry(path, head, body)
        answer = self._answer(entry)
        self.journal.add(**entry, answer=answer)
        slow = self.chance.random() < self.manners.get("slow", 0)
        return answer, self.chance.uniform(0, 0.2) if slow else 0.0

    def _answer(self, entry: dict[str, Any]) -> str:
        """Sessions with an even number refuse tokens that are behind the highest they have seen."""
        if entry["pipe"] == "inbound" and entry["session"][-1] in "02468":
            highest = self.highest.get(entry["session"], 0)
            if entry["token"] < highest:
                return "stale"
            self.highest[entry["session"]] = entry["token"]
        if entry["pipe"] == "outbound" and entry["place"].startswith("o/"):
            now = time.monotonic()
            if now - self.reluctant.setdefault(entry["place"], now) < _RELUCTANT_SECONDS:
                return "busy"
        drawn = self.chance.random()
        for manner in ("drop", "busy", "hang up"):
            drawn -= self.manners.get(manner, 0)
            if drawn < 0:
                return manner
        return "ok"


def _entry(path: str, head: bytes, body: bytes) -> dict[str, Any]:
    pipe, _, rest = path.strip("/").partition("/")
    document = msgspec.json.decode(body)
    if pipe == "out":
        named, node = _NAMED.search(head), _NODE.search(head)
        signed = node is not None and hmac.digest(SIGNING_KEY, body, "sha256").hex() == node[2].decode()
        return {
            "pipe": "outbound",
            "id": named[1].decode() if named else "",
            "node": node[1].decode() if node else "",
            "place": rest,
            "said": outbound_said(rest, document) if signed else "not signed",
        }
    if pipe == "hooks":
        entry = {"pipe": "hooks", "node": rest} | {name: document[name] for name in ("id", "attempt", "event_type")}
        return entry | {"said": hook_said(document["session_id"], document["event_type"], document["payload"])}
    wanted = {"id": "message_id", "session": "session_id", "seq": "seq", "attempt": "attempt", "token": "token"}
    entry = {"pipe": "inbound", "node": document["node"]} | {name: document[field] for name, field in wanted.items()}
    said = (document[name] for name in ("session_id", "origin", "content", "payload"))
    return entry | {"said": inbound_said(*said)}


class Connection(asyncio.Protocol):
    """One caller; a request is answered, answered and hung up on, or hung up on without a word."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._came = b""

    def data_received(self, data: bytes) -> None:
        self._came += data
        while (head := self._came.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._came, 0, head)
            end = head + 4 + (int(length[1]) if length else 0)
            if len(self._came) < end:
                return
            whole, self._came = self._came[:end], self._came[end:]
            path = whole.split(b" ", 2)[1].decode()
            if path == "/manners":
                self._target.manners = msgspec.json.decode(whole[head + 4 :])
                self._transport.write(_OK)
                continue
            answer, after = self._target.take(path, whole[: head + 2], whole[head + 4 :])
            if after:
                asyncio.get_running_loop().call_later(after, self._say, answer)
            else:
                self._say(answer)

    def _say(self, answer: str) -> None:
        if self._transport.is_closing():
            return
        if answer == "drop":
            self._transport.close()
            return
        self._transport.write(_BUSY if answer == "busy" else _STALE if answer == "stale" else _OK)
        if answer == "hang up":
            self._transport.close()


async def main(folder: Path, port: int, seed: int) -> None:
    journal = Journal(folder / "arrivals.jsonl")
    target = Target(journal, seed)
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Connection(target), "127.0.0.1", port, backlog=4096)
    print(f"recording since {time.monotonic():.3f}", flush=True)
    while True:
        before = time.monotonic()
        await asyncio.sleep(_KEEP_EVERY)
        # What came meanwhile is written down so much later than it came.
        if (stalled := time.monotonic() - before - _KEEP_EVERY) > _STALLED:
            journal.add(pipe="recorder", at=before + _KEEP_EVERY, until=before + _KEEP_EVERY + stalled)
        journal.keep(durable=False)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
