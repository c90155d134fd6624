"""A connection that breaks while PostgreSQL commits: what was stored or claimed is known all the same, once, by its true name."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from pillarbox import Pillarbox
from pillarbox.engine import Lease, Room
from tests.servers.postgres_proxy import PostgresProxy, Trouble, proxy_before

TROUBLES: list[Trouble] = ["cut before commit", "cut after commit"]
LEASE = Lease("a worker", timedelta(minutes=1))
ROOM = Room(64, 64)


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[PostgresProxy]:
    with proxy_before(postgres_url) as between:
        yield between


@pytest.fixture
async def box(proxy: PostgresProxy) -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open(proxy.url) as opened:
        yield opened


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_message_is_stored_once_and_has_the_id_it_was_given(
    proxy: PostgresProxy, box: Pillarbox, trouble: Trouble
) -> None:
    await box.sessions.open(session_id="s", target={"kind": "none"})
    given = []
    for number in range(4):
        proxy.at_next_commit(trouble)
        answer = await box.inbound.enqueue(session_id="s", origin="test", content=str(number))
        assert proxy.happened.is_set()
        given.append((answer.id, answer.seq, str(number)))
    assert [(each.id, each.seq, each.content) for each in await box.inbound.list()] == given


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_an_event_is_stored_once_and_has_the_id_it_was_given(
    proxy: PostgresProxy, box: Pillarbox, trouble: Trouble
) -> None:
    for name in ("one", "two"):
        await box.sessions.open(session_id=name, target={"kind": "none"})
    given = []
    for number, name in enumerate(["one", "one", "two", "one"]):
        proxy.at_next_commit(trouble)
        stored = await box.hooks.post(name, "agent_stop", {"number": number})
        assert proxy.happened.is_set()
        given.append((stored.id, name, number))
    events = await box.hooks.list()
    assert [(each.id, each.session_id, each.payload["number"]) for each in events] == given


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_of_a_set_each_caller_hears_of_its_own(proxy: PostgresProxy, box: Pillarbox, trouble: Trouble) -> None:
    await box.sessions.open(session_id="s", target={"kind": "none"})
    proxy.at_next_commit(trouble)
    answers = await asyncio.gather(
        *(box.inbound.enqueue(session_id="s", origin="test", content=str(number)) for number in range(20)),
        box.inbound.enqueue(session_id="nobody", origin="test", content="lost"),
        return_exceptions=True,
    )
    assert proxy.happened.is_set()
    *kept, refused = answers
    assert "nobody" in str(refused)
    told = {answer.id: str(number) for number, answer in enumerate(kept) if not isinstance(answer, BaseException)}
    assert {each.id: each.content for each in await box.inbound.list()} == told
    assert len(told) == 20


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_what_was_claimed_is_held_and_known(proxy: PostgresProxy, box: Pillarbox, trouble: Trouble) -> None:
    for name in ("one", "two"):
        await box.sessions.open(session_id=name, target={"kind": "http", "url": "http://one.example/"})
        await box.inbound.enqueue(session_id=name, origin="test", content=name)
    lane = box.inbound.lane
    proxy.at_next_commit(trouble)
    strands = await lane.claim(LEASE, room=ROOM, now=box.database.clock.now())
    assert proxy.happened.is_set()
    assert sorted((strand.key, strand.rows[0].message.content) for strand in strands) == [
        ("one", "one"),
        ("two", "two"),
    ]
    assert [strand.rows[0].attempt_count for strand in strands] == [1, 1]
    assert await asyncio.to_thread(lane.held, strands) == strands
    assert await lane.claim(LEASE, room=ROOM, now=box.database.clock.now()) == []


async def test_what_was_closed_or_expired_before_the_claim_was_heard_of_is_not_delivered(
    proxy: PostgresProxy, box: Pillarbox, postgres_url: str
) -> None:
    ids = {}
    for name in ("closed", "expired", "kept"):
        await box.sessions.open(session_id=name, target={"kind": "http", "url": "http://one.example/"})
        ids[name] = (await box.inbound.enqueue(session_id=name, origin="test", content=name)).id
    proxy.at_next_commit("cut after commit", then_hold=True)
    claiming = asyncio.create_task(box.inbound.lane.claim(LEASE, room=ROOM, now=box.database.clock.now()))
    assert await asyncio.to_thread(proxy.happened.wait, 30)
    async with Pillarbox.open(postgres_url) as other:
        await other.sessions.close("closed")
        await other.inbound.expire(ids["expired"])
    proxy.recover()
    assert [strand.key for strand in await claiming] == ["kept"]
