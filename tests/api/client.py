"""Calls an ASGI application in this process, byte for byte as a server would."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

ADMIN_KEY = "an-admin-key-of-the-tests"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        assert self.headers["content-type"] == "application/problem+json"
        problem = self.json()
        assert problem["status"] == self.status
        assert problem["title"]
        assert problem["detail"]
        return str(problem["type"]).rpartition(":")[2]

    @property
    def fields(self) -> list[str]:
        assert self.reason == "invalid"
        return [error["field"] for error in self.json()["errors"]]


class Client:
    def __init__(self, app: ASGIApp, *, key: str | None = ADMIN_KEY, host: str = "127.0.0.1:8025") -> None:
        self.app = app
        self.key = key
        self.host = host

    def with_key(self, key: str | None) -> Client:
        return Client(self.app, key=key, host=self.host)

    async def get(self, target: str, **options: Any) -> Reply:
        return await self.request("GET", target, **options)

    async def post(self, target: str, body: Any = None, **options: Any) -> Reply:
        return await self.request("POST", target, body, **options)

    async def request(
        self, method: str, target: str, body: Any = None, *, headers: Iterable[tuple[str, str]] = ()
    ) -> Reply:
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = [("host", self.host), ("content-length", str(len(content))), *headers]
        if self.key is not None:
            given.append(("authorization", f"Bearer {self.key}"))
        return await self.exchange(method, target.encode(), given, [content])

    async def exchange(
        self, method: str, target: bytes, headers: Sequence[tuple[str, str]], pieces: Iterable[bytes]
    ) -> Reply:
        raw_path, _, query = target.partition(b"?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(raw_path.decode("latin-1")),
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 8025),
        }
        coming = iter([*({"body": piece, "more_body": True} for piece in pieces), {"body": b"", "more_body": False}])
        sent: list[Message] = []

        async def receive() -> Message:
            piece = next(coming, None)
            return {"type": "http.disconnect"} if piece is None else {"type": "http.request", **piece}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start, *rest = sent
        assert start["type"] == "http.response.start"
        return Reply(
            start["status"],
            {name.decode(): value.decode() for name, value in start["headers"]},
            b"".join(message["body"] for message in rest),
        )
