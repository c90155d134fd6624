"""`Idempotency-Key` in front of a small application."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pillarbox.errors import Unavailable
from pillarbox.inbox import Begun, Inbox, LeaseAnswer, MemoryInbox
from pillarbox.inbox.middleware import IdempotencyMiddleware
from pillarbox.testing import ManualClock
from tests.api.client import Client, Reply


class Shop:
    """Counts what it really did."""

    def __init__(self) -> None:
        self.orders: list[bytes] = []
        self.inside = asyncio.Event()
        self.go_on = asyncio.Event()
        self.later = 0
        self.statuses: list[int] = []
        methods = ["POST", "PUT", "PATCH", "GET"]
        self.app = Starlette(
            routes=[
                Route("/orders", self.order, methods=methods),
                Route("/slow", self.slow, methods=methods),
                Route("/large", self.large, methods=methods),
                Route("/dripping", self.dripping, methods=methods),
                Route("/failing", self.failing, methods=methods),
                Route("/raising", self.raising, methods=methods),
                Route("/file", self.file, methods=methods),
            ]
        )

    async def order(self, request: Request) -> Response:
        self.orders.append(await request.body())
        response = JSONResponse({"order": len(self.orders)}, 201, {"x-order": "1", "location": "/orders/1"})
        response.set_cookie("session", "secret")
        response.background = BackgroundTask(self._do_later)
        return response

    async def slow(self, request: Request) -> Response:
        self.orders.append(await request.body())
        self.inside.set()
        await self.go_on.wait()
        return PlainTextResponse("done")

    async def large(self, request: Request) -> Response:
        self.orders.append(b"large")

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(10):
                yield b"x" * 10_000

        return StreamingResponse(pieces())

    async def dripping(self, request: Request) -> Response:
        self.orders.append(b"dripping")

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(5):
                yield b"x"
                await asyncio.sleep(0.01)

        return StreamingResponse(pieces())

    async def failing(self, request: Request) -> Response:
        self.orders.append(b"failing")
        return PlainTextResponse("sorry", self.statuses.pop(0))

    async def raising(self, request: Request) -> Response:
        self.orders.append(b"raising")
        raise ZeroDivisionError

    async def file(self, request: Request) -> Response:
        return FileResponse(__file__, media_type="text/plain")

    def _do_later(self) -> None:
        self.later += 1


def connected(app: ASGIApp) -> ASGIApp:
    """Under a server whose callers stay until they are answered: after the body nothing more comes."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        whole = False

        async def once_whole() -> Message:
            nonlocal whole
            if whole:
                await asyncio.Event().wait()
            message = await receive()
            whole = not message.get("more_body", False)
            return message

        await app(scope, once_whole, send)

    return run


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def inbox() -> Inbox:
    return Inbox(MemoryInbox(ManualClock()))


@pytest.fixture
def client(shop: Shop, inbox: Inbox) -> Client:
    return Client(connected(IdempotencyMiddleware(shop.app, inbox)), key="alice")


def keyed(key: str = "one") -> Iterable[tuple[str, str]]:
    return [("idempotency-key", key)]


async def test_a_repeated_request_gets_the_first_answer_and_is_not_done_again(client: Client, shop: Shop) -> None:
    first = await client.post("/orders?a=1", {"n": 1}, headers=keyed())
    again = await client.post("/orders?a=1", {"n": 1}, headers=keyed('"one"'))
    assert len(shop.orders) == 1
    assert (first.status, first.json()) == (201, {"order": 1})
    assert "idempotency-replayed" not in first.headers
    assert (again.status, again.body) == (first.status, first.body)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["location"] == "/orders/1"
    assert again.headers["content-type"] == "application/json"
    assert again.headers["content-length"] == str(len(again.body))
    assert "set-cookie" in first.headers
    assert "set-cookie" not in again.headers
    assert shop.later == 1


async def test_another_request_under_the_same_key_is_422(client: Client, shop: Shop) -> None:
    await client.post("/orders?a=1", {"n": 1}, headers=keyed())
    for method, path, body in [
        ("POST", "/orders?a=1", {"n": 2}),
        ("POST", "/orders?a=2", {"n": 1}),
        ("POST", "/slow?a=1", {"n": 1}),
        ("PATCH", "/orders?a=1", {"n": 1}),
    ]:
        other = await client.request(method, path, body, headers=keyed())
        assert (other.status, other.reason) == (422, "idempotency-mismatch")
    assert len(shop.orders) == 1


async def test_while_the_first_runs_others_are_409_and_wait(client: Client, shop: Shop) -> None:
    running = asyncio.create_task(client.post("/slow", b"x", headers=keyed()))
    await shop.inside.wait()
    busy = await client.post("/slow", b"x", headers=keyed())
    assert (busy.status, busy.reason, busy.headers["retry-after"]) == (409, "in-flight", "1")
    other = await client.post("/slow", b"y", headers=keyed())
    assert other.status == 422
    shop.go_on.set()
    assert (await running).status == 200
    assert (await client.post("/slow", b"x", headers=keyed())).body == b"done"
    assert len(shop.orders) == 1


@pytest.mark.parametrize("key", ["", '""', "x" * 256, 'a"b', "\xe9"])
async def test_a_malformed_key_is_400_and_nothing_is_done(client: Client, shop: Shop, key: str) -> None:
    refused = await client.post("/orders", {}, headers=keyed(key))
    assert (refused.status, refused.reason) == (400, "idempotency-key")
    twice = await client.post("/orders", {}, headers=[*keyed("a"), *keyed("b")])
    assert twice.status == 400
    assert shop.orders == []


async def test_without_a_key_and_with_other_methods_nothing_changes(client: Client, shop: Shop) -> None:
    for _ in range(2):
        assert (await client.post("/orders", {})).status == 201
        assert (await client.request("PUT", "/orders", {}, headers=keyed())).status == 201
    assert len(shop.orders) == 4


@pytest.mark.parametrize("status", [500, 503, 401, 403, 408, 409, 425, 429])
async def test_an_answer_that_says_not_done_releases_the_key(client: Client, shop: Shop, status: int) -> None:
    shop.statuses = [status, 200, 200]
    assert (await client.post("/failing", headers=keyed())).status == status
    assert (await client.post("/failing", headers=keyed())).status == 200
    again = await client.post("/failing", headers=keyed())
    assert (again.status, again.headers.get("idempotency-replayed")) == (200, "true")
    assert len(shop.orders) == 2


@pytest.mark.parametrize("status", [200, 204, 302, 400, 404, 422])
async def test_any_other_answer_is_kept(client: Client, shop: Shop, status: int) -> None:
    shop.statuses = [status, 500]
    for _ in range(2):
        assert (await client.post("/failing", headers=keyed())).status == status
    assert len(shop.orders) == 1


async def test_an_application_that_raises_releases_the_key(client: Client, shop: Shop) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await client.post("/raising", headers=keyed())
    assert len(shop.orders) == 2


async def test_an_answer_too_large_to_keep_arrives_whole_and_is_not_done_again(client: Client, shop: Shop) -> None:
    first = await client.post("/large", headers=keyed())
    assert (first.status, len(first.body)) == (200, 100_000)
    again = await client.post("/large", headers=keyed())
    assert (again.status, again.reason) == (409, "answer-not-kept")
    assert again.headers["idempotency-replayed"] == "true"
    assert "retry-after" not in again.headers
    assert shop.orders == [b"large"]


async def test_a_file_is_kept_like_any_answer(client: Client) -> None:
    first, again = [await client.post("/file", headers=keyed()) for _ in range(2)]
    assert again.body == first.body
    assert b"Idempotency-Key" in again.body


async def test_one_caller_is_not_answered_what_another_was(client: Client, shop: Shop) -> None:
    assert (await client.post("/orders", {}, headers=keyed())).json() == {"order": 1}
    assert (await client.with_key("bob").post("/orders", {}, headers=keyed())).json() == {"order": 2}
    assert (await client.with_key(None).post("/orders", {}, headers=keyed())).json() == {"order": 3}
    assert (await client.with_key("bob").post("/orders", {}, headers=keyed())).json() == {"order": 2}


async def test_callers_who_are_known_by_a_cookie_are_told_apart(client: Client, shop: Shop) -> None:
    stranger = client.with_key(None)
    for name, order in [("alice", 1), ("bob", 2), ("alice", 1)]:
        reply = await stranger.post("/orders", {}, headers=[*keyed(), ("cookie", f"session={name}")])
        assert reply.json() == {"order": order}


async def test_an_application_may_tell_its_callers_apart_itself(shop: Shop, inbox: Inbox) -> None:
    def tenant(scope: Any) -> str:
        return str(dict(scope["headers"])[b"x-tenant"].decode())

    client = Client(IdempotencyMiddleware(shop.app, inbox, caller=tenant, name="shop"))
    for name, order in [("a:b", 1), ("a", 2), ("a:b", 1)]:
        reply = await client.post("/orders", {}, headers=[*keyed("k"), ("x-tenant", name)])
        assert reply.json() == {"order": order}
    assert await inbox.is_processed("http:shop:a%3Ab:k")


async def test_a_body_beyond_the_limit_is_413_and_nothing_is_done(shop: Shop, inbox: Inbox) -> None:
    client = Client(IdempotencyMiddleware(shop.app, inbox, largest_body=100))
    assert (await client.post("/orders", b"x" * 101, headers=keyed())).reason == "too-large"
    assert shop.orders == []
    assert (await client.post("/orders", b"x" * 100, headers=keyed())).status == 201
    assert shop.orders == [b"x" * 100]


class Away(MemoryInbox):
    """A store that cannot be asked for some verbs."""

    def __init__(self, *verbs: str) -> None:
        super().__init__()
        self.verbs = verbs

    async def try_begin(self, key: str, **more: Any) -> Begun:
        if "begin" in self.verbs:
            raise Unavailable("away")
        return await super().try_begin(key, **more)

    async def mark_processed(self, key: str, lease_id: str, *, result: Any = None) -> LeaseAnswer:
        if "lost" in self.verbs:
            return LeaseAnswer("LeaseLost")
        return await super().mark_processed(key, lease_id, result=result)

    async def extend(self, key: str, lease_id: str, *, lease: float) -> LeaseAnswer:
        return LeaseAnswer("LeaseLost") if "extend" in self.verbs else await super().extend(key, lease_id, lease=lease)


async def post_with(store: MemoryInbox, shop: Shop, path: str = "/orders", *, lease: float = 60) -> Reply:
    return await Client(IdempotencyMiddleware(shop.app, Inbox(store, lease=lease))).post(path, {}, headers=keyed())


async def test_where_the_inbox_cannot_be_asked_nothing_is_done(shop: Shop) -> None:
    refused = await post_with(Away("begin"), shop)
    assert (refused.status, refused.reason, refused.headers["retry-after"]) == (503, "unavailable", "1")
    assert shop.orders == []


async def test_what_was_done_is_answered_even_when_it_cannot_be_remembered(shop: Shop) -> None:
    assert (await post_with(Away("lost"), shop)).json() == {"order": 1}


async def test_a_request_whose_lease_is_lost_is_stopped_and_told_so(shop: Shop) -> None:
    stopped = await post_with(Away("extend"), shop, "/slow", lease=0.05)
    assert (stopped.status, stopped.reason) == (503, "lease-lost")


def hanging_up(app: ASGIApp, *, after: int, raises: bool) -> ASGIApp:
    """Under a server whose caller hangs up after the body and takes `after` messages; `raises` as servers since ASGI 2.4 do."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        sent, whole = 0, False

        async def hang_up_when_whole() -> Message:
            nonlocal whole
            if whole:
                return {"type": "http.disconnect"}
            message = await receive()
            whole = not message.get("more_body", False)
            return message

        async def send_some(message: Message) -> None:
            nonlocal sent
            sent += 1
            if sent <= after:
                await send(message)
            elif raises:
                raise OSError("the caller is gone")

        await app(
            {**scope, "asgi": {"version": "3.0", "spec_version": "2.4" if raises else "2.3"}},
            hang_up_when_whole,
            send_some,
        )

    return run


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize(("path", "after", "then"), [("/large", 2, 409), ("/dripping", 0, 200)])
async def test_what_was_done_is_not_done_again_when_the_caller_hung_up_in_the_answer(
    shop: Shop, inbox: Inbox, path: str, after: int, then: int, *, raises: bool
) -> None:
    app = IdempotencyMiddleware(shop.app, inbox)
    with suppress(ClientDisconnect, OSError, ValueError):
        await Client(hanging_up(app, after=after, raises=raises), key="alice").post(path, {}, headers=keyed())
    assert len(shop.orders) == 1
    again = await Client(connected(app), key="alice").post(path, {}, headers=keyed())
    assert (again.status, again.headers["idempotency-replayed"]) == (then, "true")
    assert len(shop.orders) == 1
