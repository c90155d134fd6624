"""A small HTTP client for producers: one kept connection, to another node after every trouble."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tests.servers.daemon import ADMIN_KEY

_SECONDS = 15.0


class Door:
    """Calls whichever node answers; status 0 is no answer, and then nobody knows whether the call took effect."""

    def __init__(self, ports: Sequence[int], chance: random.Random) -> None:
        self._ports = ports
        self._chance = chance
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.calls = 0

    async def call(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """One request and its answer."""
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._call(method, path, body, headers or {})
        except (OSError, EOFError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            self.hang_up()
            return 0, None

    async def insist(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """The same call again and again until somebody answers it for good; `calls` tells how many it took."""
        self.calls = 0
        while True:
            self.calls += 1
            status, answer = await self.call(method, path, body, headers)
            if status not in (0, 503) and not _is_under_way(status, answer):
                return status, answer
            self.hang_up()
            await asyncio.sleep(self._chance.uniform(0.02, 0.2))

    def hang_up(self) -> None:
        if self._writer is not None:
            with suppress(Exception):
                self._writer.close()
        self._reader = self._writer = None

    async def _call(self, method: str, path: str, body: object, headers: Mapping[str, str]) -> tuple[int, Any]:
        if self._writer is None:
            port = self._chance.choice(self._ports)
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        assert self._reader is not None
        content = b"" if body is None else msgspec.json.encode(body)
        lines = [
            f"{method} {path} HTTP/1.1",
            "Host: 127.0.0.1",
            f"Authorization: Bearer {ADMIN_KEY}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = next((line for line in head.split("\r\n") if line.startswith("content-length:")), "content-length:0")
        answer = await self._reader.readexactly(int(length.partition(":")[2]))
        return int(head.split(" ", 2)[1]), msgspec.json.decode(answer) if answer else None


def _is_under_way(status: int, answer: Any) -> bool:
    """Whether the first call with this idempotency key has not been answered yet."""
    return status == 409 and str(answer.get("type")).endswith(":idempotency-busy")
