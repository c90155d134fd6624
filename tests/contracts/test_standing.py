"""A claim that stands by is made by the thread that hears of another process's work: once, or never when it is withdrawn."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from pillarbox import Pillarbox
from pillarbox.engine import Delivered, Lease, Room, Settlement, Standby, Turn
from pillarbox.errors import Unavailable
from pillarbox.hooks.lone import claim_lone
from pillarbox.hooks.model import HookEvent, HookRow
from pillarbox.storage import Step, together
from pillarbox.storage.standing import Standing
from tests.servers.postgres_proxy import PostgresProxy, Trouble, proxy_before

LEASE = Lease("me", timedelta(minutes=1))
PATIENCE = 30.0


@pytest.fixture(params=["file", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """Where another process can be heard."""
    return str(request.getfixturevalue("sqlite_url" if request.param == "file" else "postgres_url"))


@pytest.fixture
async def here(url: str) -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open(url) as box:
        await box.sessions.open(session_id="s", target={"kind": "none"})
        yield box


@pytest.fixture
async def there(here: Pillarbox, url: str) -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open(url) as box:
        yield box


def stand_by(box: Pillarbox, ready: Callable[[], None], *, slots: int = 4) -> Standby[HookRow]:
    standby = box.hooks.lane.stand_by(LEASE, room=Room(slots, slots), ready=ready)
    assert standby
    return standby


async def claimed(standby: Standby[HookRow]) -> Turn[HookRow]:
    coming = standby.withdraw()
    assert coming
    return await coming


async def test_what_another_process_brings_is_claimed_and_told(here: Pillarbox, there: Pillarbox) -> None:
    ready = asyncio.Event()
    began = here.database.clock.monotonic()
    standby = stand_by(here, ready.set)
    stored = await there.hooks.post("s", "agent_stop", {"text": "x"})
    await asyncio.wait_for(ready.wait(), PATIENCE)
    turn = await claimed(standby)
    (strand,) = turn.claimed
    assert [(row.id, row.payload, row.attempt_count) for row in strand.rows] == [(stored.id, {"text": "x"}, 1)]
    assert began <= turn.since <= here.database.clock.monotonic()
    assert await asyncio.to_thread(here.hooks.lane.held, [strand]) == [strand]
    assert (await here.hooks.get(stored.id)).status == "processing"


async def test_what_is_withdrawn_claims_nothing(here: Pillarbox, there: Pillarbox) -> None:
    await here.sessions.open(session_id="chat", target={"kind": "http", "url": "http://127.0.0.1:9/"})
    never, heard = asyncio.Event(), asyncio.Event()
    standby = stand_by(here, never.set)
    assert standby.withdraw() is None
    witness = here.database.stand_by("inbound", _nothing, ready=heard.set)
    assert witness
    stored = await there.hooks.post("s", "agent_stop")
    await there.inbound.enqueue(session_id="chat", origin="test", content="x")
    await asyncio.wait_for(heard.wait(), PATIENCE)
    assert not never.is_set()
    assert standby.withdraw() is None
    assert (await here.hooks.get(stored.id)).status == "pending"


def _nothing() -> Step[None]:
    yield from together()


async def test_it_leaves_strands_of_several_events_and_says_that_it_did_not_look(
    here: Pillarbox, there: Pillarbox
) -> None:
    ready = asyncio.Event()
    await there.hooks.post("s", "agent_stop")
    await there.hooks.post("s", "agent_stop")
    standby = stand_by(here, ready.set)
    await there.hooks.post("s", "agent_stop")
    await asyncio.wait_for(ready.wait(), PATIENCE)
    turn = await claimed(standby)
    assert turn.claimed == []
    assert turn.partial


async def test_it_takes_no_more_than_there_is_room_for(here: Pillarbox, there: Pillarbox) -> None:
    for name in ("a", "b", "c"):
        await here.sessions.open(session_id=name, target={"kind": "none"})
        await here.hooks.post(name, "agent_stop")
    ready = asyncio.Event()
    standby = stand_by(here, ready.set, slots=2)
    await there.hooks.post("s", "agent_stop")
    await asyncio.wait_for(ready.wait(), PATIENCE)
    assert len((await claimed(standby)).claimed) == 2


async def test_who_held_an_event_before_can_no_longer_settle_it(here: Pillarbox) -> None:
    stored, lane = await here.hooks.post("s", "agent_stop"), here.hooks.lane
    (before,) = (await here.database.write(_quick_claim(here))).claimed
    await lane.release([before], now=here.database.clock.now())
    (now_held,) = (await here.database.write(_quick_claim(here))).claimed
    assert now_held.token > before.token
    late = Settlement(before, before.rows[0], Delivered())
    assert await lane.settle([late], now=here.database.clock.now()) == [late]
    assert (await here.hooks.get(stored.id)).status == "processing"


async def test_nothing_is_claimed_for_a_loop_that_was_closed(here: Pillarbox) -> None:
    def stands_by() -> Standing[None]:
        with asyncio.Runner() as runner:
            return runner.run(_standing())

    assert not (await asyncio.to_thread(stands_by)).begin()


async def _standing() -> Standing[None]:
    return Standing(_nothing, ready=lambda: None)


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_who_claims_keeps_nobody_from_hearing(here: Pillarbox, there: Pillarbox) -> None:
    await here.sessions.open(session_id="chat", target={"kind": "http", "url": "http://127.0.0.1:9/"})
    let_go, begun, heard = threading.Event(), threading.Event(), asyncio.Event()

    def held_up() -> Step[None]:
        begun.set()
        let_go.wait(PATIENCE)
        yield from together()

    assert here.database.stand_by("hooks", held_up, ready=lambda: None)
    assert here.database.stand_by("inbound", _nothing, ready=heard.set)
    try:
        await there.hooks.post("s", "agent_stop")
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        await there.inbound.enqueue(session_id="chat", origin="test", content="x")
        await asyncio.wait_for(heard.wait(), PATIENCE)
    finally:
        let_go.set()


async def test_what_fails_is_told_to_who_waits(here: Pillarbox, there: Pillarbox) -> None:
    ready = asyncio.Event()

    standing = here.database.stand_by("hooks", _refuse, ready=ready.set)
    assert standing
    await there.hooks.post("s", "agent_stop")
    await asyncio.wait_for(ready.wait(), PATIENCE)
    coming = standing.withdraw()
    assert coming
    with pytest.raises(Unavailable, match="not now"):
        await coming


def _refuse() -> Step[None]:
    yield from together()
    raise Unavailable("not now")


async def test_a_worker_hears_every_event_of_another_process_once_and_in_order(
    here: Pillarbox, there: Pillarbox
) -> None:
    heard: list[int] = []
    comes = asyncio.Condition()

    @here.hooks.on()
    async def listen(event: HookEvent) -> None:
        async with comes:
            heard.append(event.payload["number"])
            comes.notify_all()

    running = asyncio.create_task(here.run())
    for number in range(40):
        await there.hooks.post("s", "agent_stop", {"number": number})
        # Now and then it has come to rest, so that what comes next is claimed by what stands by.
        if number % 4 == 3:
            async with asyncio.timeout(PATIENCE), comes:
                await comes.wait_for(lambda so_far=number + 1: len(heard) >= so_far)  # type: ignore[misc]
    running.cancel()
    await asyncio.wait([running])
    assert heard == list(range(40))


@pytest.mark.parametrize("trouble", ["cut before commit", "cut after commit"])
async def test_an_event_that_was_claimed_is_held_and_known_where_the_answer_is_lost(
    postgres_url: str, trouble: Trouble
) -> None:
    with proxy_before(postgres_url) as proxy:
        await _lose_the_answer(proxy, trouble)


async def _lose_the_answer(proxy: PostgresProxy, trouble: Trouble) -> None:
    async with Pillarbox.open(proxy.url) as box:
        await box.sessions.open(session_id="s", target={"kind": "none"})
        stored = await box.hooks.post("s", "agent_stop")
        work = _quick_claim(box)
        proxy.at_next_commit(trouble)
        turn = await box.database.write(work)
        assert proxy.happened.is_set()
        (strand,) = turn.claimed
        assert [row.id for row in strand.rows] == [stored.id]
        assert await asyncio.to_thread(box.hooks.lane.held, [strand]) == [strand]


def _quick_claim(box: Pillarbox) -> Callable[[], Step[Turn[HookRow]]]:
    return lambda: claim_lone(LEASE, 4, box.database.clock)
