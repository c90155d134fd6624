"""What only the way to another process can get wrong: lost answers, refusals, silence."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox
from pillarbox.errors import InvalidInput, Unavailable
from pillarbox.inbox.remote import RemoteInbox
from pillarbox.settings import Settings
from tests.api.client import ADMIN_KEY, Client
from tests.inbox.stands import served


class Way:
    """Between a client and the API: asks for it, and then does with the answer what the next entry of `fates` says."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.fates: list[str] = []
        self.asked: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        fate = self.fates.pop(0) if self.fates else "pass"
        self.asked.append(request.path)
        body = await request.read()
        if fate.isdigit():
            return web.Response(status=int(fate), text="{}")
        if fate == "garbage":
            return web.Response(text="<html>")
        if fate == "redirect":
            return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})
        headers = [(name, value) for name, value in request.headers.items() if name.lower() == "pillarbox-lease-id"]
        reply = await self._client.request(request.method, request.raw_path, body, headers=headers)
        if fate == "lose":
            assert request.transport is not None
            request.transport.close()
        if fate == "hang":
            await asyncio.Event().wait()
        return web.Response(status=reply.status, body=reply.body, content_type="application/json")


@asynccontextmanager
async def standing(way: Way) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", way.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture
async def box(sqlite_url: str) -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open(sqlite_url, settings=Settings(), node="here") as opened:
        yield opened


@pytest.fixture
def way(box: Pillarbox) -> Way:
    return Way(Client(create_app(box, admin_key=ADMIN_KEY)))


@pytest.fixture
async def remote(way: Way) -> AsyncIterator[RemoteInbox]:
    async with standing(way) as address:
        store = RemoteInbox(address + "/", key=ADMIN_KEY, timeout=5)
        yield store
        await store.close()


async def test_a_begin_whose_answer_was_lost_is_not_kept_from_its_own_caller(remote: RemoteInbox, way: Way) -> None:
    way.fates = ["lose", "503", "lose"]
    begun = await remote.try_begin("k", lease=60)
    assert begun.status == "Acquired"
    assert len(way.asked) == 4
    assert (await remote.look("k")).attempts == 1
    assert (await remote.try_begin("k", lease=60)).status == "Busy"
    assert begun.lease_id is not None
    way.fates = ["lose"]
    assert (await remote.mark_processed("k", begun.lease_id, result=1)).status == "Processed"
    way.fates = ["lose"]
    assert (await remote.try_begin("k", lease=60)).result == 1


async def test_a_lost_answer_to_the_other_verbs_changes_nothing_either(remote: RemoteInbox, way: Way) -> None:
    begun = await remote.try_begin("k", lease=60)
    assert begun.lease_id is not None
    way.fates = ["lose", "pass", "lose", "pass", "lose"]
    assert (await remote.extend("k", begun.lease_id, lease=60)).status == "Extended"
    assert (await remote.release("k", begun.lease_id)).status == "Released"
    assert (await remote.look("k")).status == "Free"


async def test_a_service_that_does_not_answer_in_time_is_unavailable(way: Way) -> None:
    async with standing(way) as address:
        store = RemoteInbox(address, key=ADMIN_KEY, timeout=1)
        for fate in ("hang", "503"):
            way.fates = [fate] * 50
            way.asked.clear()
            with pytest.raises(Unavailable, match="cannot be asked"):
                await store.try_begin("k", lease=60)
            assert len(way.asked) > 1
        await store.close()


async def test_a_service_that_is_not_there_is_unavailable() -> None:
    store = RemoteInbox("http://127.0.0.1:1", timeout=0.2)
    with pytest.raises(Unavailable, match="cannot be asked"):
        await store.look("k")
    await store.close()


@pytest.mark.parametrize(
    ("fate", "sentence"),
    [
        ("401", "refuses the key"),
        ("404", "answered 404"),
        ("garbage", "another language"),
        ("redirect", "answered 302"),
    ],
)
async def test_an_answer_that_is_none_is_said_in_a_sentence(
    remote: RemoteInbox, way: Way, fate: str, sentence: str
) -> None:
    way.fates = [fate]
    with pytest.raises(Unavailable, match=sentence):
        await remote.try_begin("k", lease=60)
    assert len(way.asked) == 1


async def test_a_wrong_key_is_refused_by_the_real_service(box: Pillarbox) -> None:
    async with served(box) as address:
        store = RemoteInbox(address, key="wrong")
        with pytest.raises(Unavailable, match="refuses the key"):
            await store.look("k")
        await store.close()


async def test_bad_input_names_its_field(remote: RemoteInbox) -> None:
    with pytest.raises(InvalidInput) as refused:
        await remote.try_begin("k", lease=60, owner="x" * 300)
    assert refused.value.field == "owner"


@pytest.mark.parametrize("url", ["", "inbox.internal", "ftp://inbox.internal", "http://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="url"):
        RemoteInbox(url)


async def test_connections_are_used_again(box: Pillarbox) -> None:
    async with served(box) as address:
        store = RemoteInbox(address, key=ADMIN_KEY, connections=1)
        for number in range(20):
            assert (await store.try_begin(str(number), lease=60)).status == "Acquired"
        session: Any = store._session
        assert len(session.connector._conns) == 1
        await store.close()
