"""The part of Discord that a listening bot needs, behaving as its documentation says.

Over the gateway: HELLO, IDENTIFY answered by READY and a GUILD_CREATE, heartbeats acknowledged, RESUME answered by what was
missed and RESUMED, or by INVALID_SESSION once the session is gone; payloads compressed as one zlib stream. Over REST: the
gateway's address, channels, their messages newest first and a hundred at most with rate limit headers, and typing.
"""

import asyncio
import base64
import json
import threading
import zlib
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

SECONDS = 30.0
BOT_ID = "700000000000000001"
BOT_TOKEN = base64.b64encode(BOT_ID.encode()).decode().rstrip("=") + ".tests.a-token"
GUILD, CHANNEL = "800000000000000001", "800000000000000002"
# Of the year 2080: later than any moment a test's clock could tell.
FIRST_MESSAGE = (3_471_292_800_000 - 1_420_070_400_000) << 22


@dataclass
class Session:
    """One session of the gateway: what was dispatched in it, and the connection that hears it now."""

    name: str
    sent: list[dict[str, Any]] = field(default_factory=list)
    connection: "Connection | None" = None


class Connection:
    """One websocket, and its compressed stream."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self.socket = socket
        self._deflate = zlib.compressobj()

    async def send(self, payload: dict[str, Any]) -> None:
        await self.send_document(json.dumps(payload).encode())

    async def send_document(self, document: bytes) -> None:
        """Any bytes as the next message of the stream."""
        data = self._deflate.compress(document) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        with suppress(ConnectionError, RuntimeError):
            await self.socket.send_bytes(data)


class DiscordApi:
    """One guild with its channels, and one bot; `script` holds answers of REST to give instead, each once."""

    def __init__(self) -> None:
        self.url = ""
        self.channels: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.script: deque[tuple[int, dict[str, Any], dict[str, str]]] = deque()
        self.limits: dict[str, str] = {}
        self.fetched: list[tuple[str, str]] = []
        self.typed: list[str] = []
        self.gateway: list[str] = []
        self.intents: list[int] = []
        self.barred: set[str] = set()
        self.close_identify_with: int | None = None
        self.before_answering_messages: Callable[[], None] = lambda: None
        self.connections: set[Connection] = set()
        self._sessions: dict[str, Session] = {}
        self._next = FIRST_MESSAGE
        self._changed = threading.Condition()
        self.loop = asyncio.new_event_loop()
        self.add_channel(CHANNEL)

    def add_channel(self, channel: str, *, kind: int = 0, parent: str | None = None, guild: str | None = GUILD) -> str:
        told: dict[str, Any] = {"id": channel, "type": kind, "name": f"channel-{channel[-3:]}", "last_message_id": None}
        if guild is not None:
            told["guild_id"] = guild
        if parent is not None:
            told["parent_id"] = parent
        self.channels[channel] = told
        self.messages[channel] = []
        return channel

    def message(self, text: str, *, channel: str = CHANNEL, number: int | None = None, **fields: Any) -> dict[str, Any]:
        """A person's message as REST shows it."""
        self._next += 1 << 22
        return {
            "id": str(number or self._next),
            "channel_id": channel,
            "type": 0,
            "content": text,
            "author": {"id": "600000000000000001", "username": "ann", "global_name": "Ann"},
            "attachments": [],
            "timestamp": "2026-01-01T00:00:00.000000+00:00",
            **fields,
        }

    def say(self, text: str = "Hello.", *, channel: str = CHANNEL, heard: bool = True, **fields: Any) -> str:
        """Somebody writes; unless `heard`, the gateway loses it."""
        message = self.message(text, channel=channel, **fields)
        self.put(message)
        if heard:
            self.dispatch("MESSAGE_CREATE", self.live(message))
        return str(message["id"])

    def put(self, message: dict[str, Any]) -> None:
        with self._changed:
            channel = message["channel_id"]
            self.messages[channel].append(message)
            self.channels[channel]["last_message_id"] = message["id"]

    def live(self, message: dict[str, Any]) -> dict[str, Any]:
        """The same as the gateway tells it."""
        guild = self.channels[message["channel_id"]].get("guild_id")
        return {**message, "guild_id": guild, "member": {"roles": []}} if guild else message

    def dispatch(self, name: str, payload: Any) -> None:
        """Tell every session of an event; whoever is away is told when it resumes."""
        asyncio.run_coroutine_threadsafe(self._dispatch(name, payload), self.loop).result(SECONDS)

    def send(self, act: Callable[[Connection], Coroutine[Any, Any, None]]) -> None:
        """Do something to every connection."""

        async def act_on_all() -> None:
            for connection in list(self.connections):
                await act(connection)

        asyncio.run_coroutine_threadsafe(act_on_all(), self.loop).result(SECONDS)

    def cut(self) -> None:
        """Cut every connection; sessions may be resumed."""
        asyncio.run_coroutine_threadsafe(self._cut(), self.loop).result(SECONDS)

    def forget_sessions(self) -> None:
        """No session can be resumed any more."""
        self._sessions.clear()

    def expect(self, holds: Callable[[], bool], what: str = "what was expected") -> None:
        with self._changed:
            assert self._changed.wait_for(holds, SECONDS), f"{what} did not happen; gateway: {self.gateway[-10:]}"

    def expect_connected(self, times: int = 1) -> None:
        self.expect(lambda: self.gateway.count("READY") >= times, f"connection {times}")

    def _note(self, what: list[Any], value: object) -> None:
        with self._changed:
            what.append(value)
            self._changed.notify_all()

    async def _cut(self) -> None:
        for session in self._sessions.values():
            session.connection = None
        for connection in list(self.connections):
            await connection.socket.close(code=4000)

    async def _dispatch(self, name: str, payload: Any) -> None:
        for session in list(self._sessions.values()):
            await self._send(session, name, payload)

    async def _send(self, session: Session, name: str, payload: Any) -> None:
        event = {"op": 0, "t": name, "s": len(session.sent) + 1, "d": payload}
        session.sent.append(event)
        if session.connection is not None:
            await session.connection.send(event)

    async def handle_gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        connection = Connection(socket)
        self.connections.add(connection)
        await connection.send({"op": 10, "d": {"heartbeat_interval": 41_250}})
        async for frame in socket:
            if frame.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                told = json.loads(frame.data)
                await self._hear(connection, told["op"], told.get("d"))
        self.connections.discard(connection)
        for session in self._sessions.values():
            if session.connection is connection:
                session.connection = None
        return socket

    async def _hear(self, connection: Connection, op: int, told: Any) -> None:
        match op:
            case 1:
                await connection.send({"op": 11})
            case 2:
                self._note(self.gateway, "IDENTIFY")
                await self._identify(connection, told)
            case 6:
                self._note(self.gateway, "RESUME")
                await self._resume(connection, told)

    async def _identify(self, connection: Connection, told: Any) -> None:
        self.intents.append(told["intents"])
        if self.close_identify_with is not None or told["token"] != BOT_TOKEN:
            await connection.socket.close(code=self.close_identify_with or 4004)
            return
        session = Session(f"session-{len(self.gateway)}", connection=connection)
        self._sessions = {session.name: session}
        user = {"id": BOT_ID, "username": "pillarbox", "discriminator": "0000", "bot": True, "avatar": None}
        await self._send(
            session,
            "READY",
            {
                "v": 10,
                "user": user,
                "guilds": [{"id": GUILD, "unavailable": True}],
                "session_id": session.name,
                "resume_gateway_url": self._gateway_url,
                "shard": [0, 1],
                "application": {"id": BOT_ID, "flags": 0},
            },
        )
        of_guild = [dict(each) for each in self.channels.values() if each.get("guild_id") == GUILD]
        threads = [each for each in of_guild if each["type"] in (10, 11, 12) and not each.get("archived")]
        plain = [each for each in of_guild if each["type"] not in (10, 11, 12)]
        await self._send(session, "GUILD_CREATE", {"id": GUILD, "channels": plain, "threads": threads})
        self._note(self.gateway, "READY")

    async def _resume(self, connection: Connection, told: Any) -> None:
        session = self._sessions.get(told["session_id"])
        if session is None:
            self._note(self.gateway, "INVALID_SESSION")
            await connection.send({"op": 9, "d": False})
            return
        session.connection = connection
        for event in session.sent[told["seq"] :]:
            await connection.send(event)
        await self._send(session, "RESUMED", {})
        self._note(self.gateway, "RESUMED")

    @property
    def _gateway_url(self) -> str:
        return self.url.replace("http://", "ws://").removesuffix("/api/v10") + "/gateway"

    async def handle_rest(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bot {BOT_TOKEN}":
            return _json(401, {"message": "401: Unauthorized", "code": 0})
        match request.path.removeprefix("/api/v10").strip("/").split("/"):
            case ["gateway", "bot"]:
                limit = {"total": 1000, "remaining": 999, "reset_after": 86_400_000, "max_concurrency": 1}
                return _json(200, {"url": self._gateway_url, "shards": 1, "session_start_limit": limit})
            case ["channels", channel, *rest]:
                return await self._channel(request, channel, rest)
        return _json(404, {"message": "404: Not Found", "code": 0})

    async def _channel(self, request: web.Request, channel: str, rest: list[str]) -> web.Response:
        if rest == ["typing"]:
            self._note(self.typed, channel)
            if self.script:
                return _json(*self.script.popleft())
            return web.Response(status=204)
        if rest == ["messages"]:
            await asyncio.to_thread(self.before_answering_messages)
            self._note(self.fetched, (channel, request.query.get("after", "")))
        if self.script:
            return _json(*self.script.popleft())
        if channel not in self.channels:
            return _json(404, {"message": "Unknown Channel", "code": 10003})
        if channel in self.barred:
            return _json(403, {"message": "Missing Access", "code": 50001})
        if not rest:
            return _json(200, self.channels[channel])
        after, limit = int(request.query.get("after", "0")), min(int(request.query.get("limit", "50")), 100)
        later = [each for each in self.messages[channel] if int(each["id"]) > after][:limit]
        return _json(200, list(reversed(later)), self.limits)


def _json(status: int, body: Any, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        status=status, body=json.dumps(body).encode(), content_type="application/json", headers=headers or {}
    )


@contextmanager
def discord_api() -> Iterator[DiscordApi]:
    api = DiscordApi()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/gateway", api.handle_gateway)
        app.router.add_get("/gateway/", api.handle_gateway)
        app.router.add_route("*", "/api/v10/{rest:.*}", api.handle_rest)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        api.url = f"http://127.0.0.1:{runner.addresses[0][1]}/api/v10"
        return runner

    thread = threading.Thread(target=api.loop.run_forever, daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(start(), api.loop).result(SECONDS)
    try:
        yield api
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), api.loop).result(SECONDS)
        api.loop.call_soon_threadsafe(api.loop.stop)
        thread.join()
        api.loop.close()
