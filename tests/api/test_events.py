"""Server-Sent Events over a real server: what whoever follows gets, and that nobody is held up."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from pillarbox.api.server import serve
from pillarbox.box import Pillarbox
from pillarbox.settings import Settings
from tests.api.client import ADMIN_KEY, Client
from tests.servers.daemon import Daemon

AUTH = {"Authorization": f"Bearer {ADMIN_KEY}"}
MOST = 64
Event = dict[str, Any]


class Follower:
    """One stream of events, read as a browser reads it."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def next(self) -> Event:
        """The next event, heartbeats left out; its fields beside its data."""
        async with asyncio.timeout(20):
            while True:
                if event := await self._block():
                    return event

    async def take(self, count: int) -> list[Event]:
        return [await self.next() for _ in range(count)]

    async def rest(self) -> bytes:
        return await asyncio.wait_for(self.answer.content.read(), 20)

    async def _block(self) -> Event:
        fields: dict[str, str] = {}
        while line := (await self.answer.content.readuntil(b"\n")).decode().removesuffix("\n"):
            name, _, value = line.partition(":")
            assert name not in fields
            fields[name] = value.removeprefix(" ")
        fields.pop("", None)
        if not fields:
            return {}
        data = json.loads(fields.pop("data"))
        assert fields == {"id": str(data["id"]), "event": data["event_type"]}
        return dict(data)


@asynccontextmanager
async def following(base_url: str, query: str = "", **headers: str) -> AsyncIterator[Follower]:
    async with (
        aiohttp.ClientSession(headers=AUTH | headers, read_bufsize=2**22) as caller,
        caller.get(f"{base_url}/v1/events{query}") as answer,
    ):
        assert answer.status == 200, await answer.text()
        yield Follower(answer)


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[tuple[Pillarbox, str]]:
    """A box that serves and works, with the sessions s1 and s2."""
    async with Pillarbox.open(url, settings=Settings()) as box:
        for name in ("s1", "s2"):
            await box.sessions.open(session_id=name, target={"kind": "python", "name": "nobody"})
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        server = asyncio.create_task(serve(box, host="127.0.0.1", port=0, admin_key=ADMIN_KEY, ready=ready.set_result))
        worker = asyncio.create_task(box.run())
        try:
            yield box, await asyncio.wait_for(ready, 20)
        finally:
            box.stop()
            server.cancel()
            await asyncio.gather(worker, server, return_exceptions=True)


async def post(box: Pillarbox, *numbers: int, session_id: str = "s1", event_type: str = "agent_stop") -> list[int]:
    """Critical events, so that none is merged with another."""
    return [(await box.hooks.post(session_id, event_type, {"n": number})).id for number in numbers]


def ids(events: list[Event]) -> list[int]:
    return [event["id"] for event in events]


async def test_events_come_as_they_are_delivered_each_in_one_piece(database_url: str) -> None:
    async with serving(database_url) as (box, url), following(url) as follower:
        assert follower.answer.headers["content-type"] == "text/event-stream"
        assert follower.answer.headers["cache-control"] == "no-store"
        assert follower.answer.headers["x-accel-buffering"] == "no"
        for event_type in ("agent_stop", "id: 7", " with blanks ", ":", "größe 😀", "x" * 64):
            payload = {"text": "two\nlines\r\n\u2028and\n\nmore", "deep": [{"a": None}]}
            stored = await box.hooks.post("s1", event_type, payload)
            assert await follower.next() == {
                "id": stored.id,
                "session_id": "s1",
                "event_type": event_type,
                "payload": payload,
                "attempt": 1,
            }


async def test_the_answer_begins_before_there_is_an_event(sqlite_url: str) -> None:
    async with serving(sqlite_url) as (_, url), following(url) as follower:
        assert await asyncio.wait_for(follower.answer.content.readuntil(b"\n"), 5) == b": \n"


async def test_what_was_delivered_before_is_not_sent(database_url: str) -> None:
    async with serving(database_url) as (box, url):
        async with following(url) as first:
            before = await post(box, 1, 2)
            assert ids(await first.take(2)) == before
        async with following(url) as second:
            for number in range(3):
                stored = await post(box, number)
                assert ids([await second.next()]) == stored


async def test_whoever_comes_back_misses_nothing(database_url: str) -> None:
    async with serving(database_url) as (box, url):
        async with following(url) as follower:
            stored = await post(box, *range(5))
            seen = ids(await follower.take(3))
        stored += await post(box, *range(5, 400))
        async with following(url, **{"Last-Event-ID": str(seen[-1])}) as follower:
            stored += await post(box, 400)
            assert seen + ids(await follower.take(398)) == stored
        async with following(url, f"?last_event_id={seen[-1]}") as follower:
            assert ids(await follower.take(398)) == stored[3:]
        async with following(url, f"?last_event_id={seen[0]}", **{"Last-Event-ID": str(stored[-2])}) as follower:
            assert ids(await follower.take(1)) == stored[-1:]


async def test_a_follower_may_ask_for_one_session_or_one_type(sqlite_url: str) -> None:
    async with (
        serving(sqlite_url) as (box, url),
        following(url, "?session_id=s2") as of_session,
        following(url, "?event_type=error") as of_type,
        following(url, "?session_id=s2&event_type=error") as of_both,
    ):
        await post(box, 1, 2)
        stop = await post(box, 3, session_id="s2")
        error = await post(box, 4, event_type="error")
        both = await post(box, 5, session_id="s2", event_type="error")
        assert ids(await of_session.take(2)) == stop + both
        assert sorted(ids(await of_type.take(2))) == error + both
        assert ids(await of_both.take(1)) == both


async def test_only_so_many_follow_and_a_place_is_free_when_one_leaves(sqlite_url: str) -> None:
    async with serving(sqlite_url) as (_, url), AsyncExitStack() as others:
        leaving = AsyncExitStack()
        await leaving.enter_async_context(following(url))
        for _ in range(MOST - 1):
            await others.enter_async_context(following(url))
        async with aiohttp.ClientSession(headers=AUTH) as caller, asyncio.timeout(20):
            async with caller.get(f"{url}/v1/events") as refused:
                assert (refused.status, refused.headers["retry-after"]) == (503, "1")
                assert (await refused.json(content_type=None))["type"] == "urn:pillarbox:problem:unavailable"
            await leaving.aclose()
            while refused.status == 503:
                async with caller.get(f"{url}/v1/events") as refused:
                    pass
        assert refused.status == 200


async def test_a_key_is_needed_and_a_tenants_is_not_enough(box: Pillarbox, client: Client) -> None:
    assert (await client.with_key(None).get("/v1/events")).status == 401
    tenants = (await box.keys.create(tenant="acme")).key
    assert (await client.with_key(tenants).get("/v1/events")).status == 404


async def test_asking_for_the_head_alone_follows_nothing(client: Client) -> None:
    for _ in range(MOST + 1):
        reply = await client.request("HEAD", "/v1/events")
        assert (reply.status, reply.headers["content-type"], reply.body) == (200, "text/event-stream", b"")


@contextmanager
def daemon_with_session(url: str, *arguments: str, **settings: object) -> Iterator[Daemon]:
    with Daemon(url, *arguments, settings={"shutdown.grace_seconds": 20} | settings) as daemon:
        daemon.call("POST", "/v1/sessions", {"session_id": "s1", "target": {"kind": "python", "name": "nobody"}})
        yield daemon


async def test_a_server_that_stops_ends_its_streams_at_once(sqlite_url: str) -> None:
    grace = 100
    with daemon_with_session(sqlite_url, **{"shutdown.grace_seconds": grace}) as daemon:
        async with following(daemon.base_url) as first, following(daemon.base_url) as second:
            began = time.monotonic()
            assert await asyncio.to_thread(daemon.terminate) == 0
            assert time.monotonic() - began < grace / 2
            for follower in (first, second):
                assert (await follower.rest()).replace(b": \n\n", b"") == b""
        assert daemon.logs.whole() == ""


async def test_a_follower_that_takes_nothing_holds_nobody_up(sqlite_url: str) -> None:
    grace = 100
    with daemon_with_session(sqlite_url, **{"shutdown.grace_seconds": grace}) as daemon, socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(("127.0.0.1", urlsplit(daemon.base_url).port))
        request = f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN_KEY}\r\n\r\n"
        stuck.sendall(request.encode())
        assert stuck.recv(12) == b"HTTP/1.1 200"
        async with following(daemon.base_url) as follower:
            body = {"session_id": "s1", "event_type": "agent_stop", "payload": {"text": "x" * 500_000}}
            answers = [await asyncio.to_thread(daemon.call, "POST", "/v1/hooks", body) for _ in range(30)]
            assert ids(await follower.take(30)) == [stored["id"] for _, stored in answers]
            began = time.monotonic()
            assert await asyncio.to_thread(daemon.terminate) == 0
            assert time.monotonic() - began < grace / 2
        assert daemon.logs.whole() == ""


async def test_a_follower_sees_what_other_processes_deliver(database_url: str) -> None:
    with daemon_with_session(database_url) as worker, Daemon(database_url, "--no-workers") as other:
        async with following(other.base_url) as there, following(worker.base_url) as here:
            stored = []
            for number in range(10):
                poster = (worker, other)[number % 2]
                body = {"session_id": "s1", "event_type": "agent_stop", "payload": {"n": number}}
                stored.append((await asyncio.to_thread(poster.call, "POST", "/v1/hooks", body))[1]["id"])
            assert ids(await there.take(10)) == stored
            assert ids(await here.take(10)) == stored
