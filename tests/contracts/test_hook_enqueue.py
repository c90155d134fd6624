"""Taking events in, on every database."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from pillarbox.engine import Delivered
from pillarbox.errors import InvalidInput, NotFound
from pillarbox.hooks.model import Checked, Stored
from tests.contracts.hook_boxes import HookNode, another, hook_node_at

PROMPT, STOP = "user_prompt_submit", "agent_stop"


@pytest.fixture
async def here(url: str) -> AsyncIterator[HookNode]:
    async with hook_node_at(url) as opened:
        yield opened


@pytest.fixture
async def there(here: HookNode) -> AsyncIterator[HookNode]:
    async with another(here) as opened:
        yield opened


def spooled(here: HookNode, session_id: str, key: str | None, event_type: str = STOP) -> Checked:
    return Checked(session_id, event_type, "{}", here.now, key)


async def test_an_event_is_stored_pending_and_due_at_once(here: HookNode) -> None:
    await here.node.open("s")
    event = await here.post("s", PROMPT, prompt="hello", cost=1.5)
    record = await here.get(event)
    assert (record.session_id, record.seq, record.event_type, record.status) == ("s", 1, PROMPT, "pending")
    assert (record.created_at, record.next_attempt_at) == (here.now, here.now)
    assert (record.payload, record.attempt_count) == ({"prompt": "hello", "cost": 1.5}, 0)


async def test_events_of_each_session_are_numbered_for_themselves(here: HookNode) -> None:
    for session in ("a", "b"):
        await here.node.open(session)
    await here.store(*(spooled(here, session, None) for session in "abbab"))
    assert [record.seq for record in await here.records("a")] == [1, 2]
    assert [record.seq for record in await here.records("b")] == [1, 2, 3]


async def test_an_event_of_an_unknown_session_is_refused_and_the_rest_of_its_set_stored(here: HookNode) -> None:
    await here.node.open("s")
    with pytest.raises(NotFound):
        await here.post("nobody")
    answers = await here.store(spooled(here, "s", None), spooled(here, "nobody", None), spooled(here, "s", None))
    assert [type(answer) for answer in answers] == [Stored, NotFound, Stored]
    assert await here.statuses("s") == ["pending", "pending"]


async def test_what_no_database_can_store_is_refused_by_name(here: HookNode) -> None:
    await here.node.open("s")
    with pytest.raises(InvalidInput, match="prompt"):
        await here.post("s", PROMPT, prompt="a\x00b")
    with pytest.raises(InvalidInput, match="event_type"):
        await here.post("s", "")
    assert await here.records("s") == []


async def test_an_event_with_a_key_is_stored_once(here: HookNode, there: HookNode) -> None:
    await here.node.open("s")
    (first,) = await here.store(spooled(here, "s", "k1"))
    again = await there.store(spooled(here, "s", "k1"), spooled(here, "s", "k2"), spooled(here, "s", "k2"))
    assert again[0] == first
    assert again[1] == again[2] != first
    (unchanged,) = await there.store(spooled(here, "s", "k2"))
    assert unchanged == again[1]
    assert await here.statuses("s") == ["pending", "pending"]
    await here.check_counters()
    strand = await here.claim_one()
    assert [Stored(row.id) for row in strand.rows] == [first, again[1]]


async def test_a_key_that_comes_again_after_its_delivery_wakes_nobody(here: HookNode) -> None:
    await here.node.open("s")
    await here.store(spooled(here, "s", "k"))
    await here.settle(await here.claim_one())
    await here.store(spooled(here, "s", "k"))
    assert await here.lane.next_due(now=here.now) is None
    assert await here.statuses("s") == ["delivered"]


async def test_events_without_a_key_are_never_taken_for_each_other(here: HookNode) -> None:
    await here.node.open("s")
    await here.store(spooled(here, "s", None), spooled(here, "s", None))
    assert await here.statuses("s") == ["pending", "pending"]


async def test_two_nodes_that_pick_up_the_same_spool_at_once_store_each_event_once(
    here: HookNode, there: HookNode
) -> None:
    await here.node.open("s")
    items = [spooled(here, "s", f"k{number}") for number in range(50)]
    answers = await asyncio.gather(*(node.store(*items) for node in (here, there) * 3))
    assert all(answer == answers[0] for answer in answers)
    assert len(await here.records("s")) == 50
    assert [row.id for row in (await here.claim_one()).rows] == [
        answer.id for answer in answers[0][:32] if isinstance(answer, Stored)
    ]


async def test_whoever_posts_after_an_answer_stands_behind_it_on_whatever_node(here: HookNode, there: HookNode) -> None:
    await here.node.open("s")
    await here.node.open("t")

    async def produce(node: HookNode, session: str, producer: int) -> None:
        for number in range(10):
            await node.post(session, PROMPT, producer=producer, number=number)

    tasks = [(node, session, number) for number in range(8) for session in "st" for node in (here, there)]
    await asyncio.gather(*(produce(*task) for task in tasks))
    for session in "st":
        records = await here.records(session)
        assert [record.seq for record in records] == list(range(1, 161))
        assert [record.id for record in records] == sorted(record.id for record in records)
        numbers = defaultdict(list)
        for record in records:
            numbers[record.payload["producer"]].append(record.payload["number"])
        assert len(numbers) == 8
        assert all(len(of_one) == 20 for of_one in numbers.values())


async def test_nothing_that_is_posted_while_others_deliver_is_overtaken_or_lost(
    here: HookNode, there: HookNode
) -> None:
    await here.node.open("s")
    told: list[int] = []

    async def produce(node: HookNode) -> None:
        for _ in range(30):
            await node.post("s", PROMPT)

    async def consume(node: HookNode) -> None:
        while len(told) < 60:
            for strand in await node.claim():
                for row in strand.rows:
                    told.append(row.seq)
                assert await node.settle(strand, *(Delivered(),) * len(strand.rows))

    await asyncio.gather(produce(here), produce(there), consume(here), consume(there))
    assert told == list(range(1, 61))


async def test_two_producers_of_a_new_session_open_its_strand_once(here: HookNode, there: HookNode) -> None:
    for number in range(10):
        await here.node.open(f"s{number}")
        await asyncio.gather(*(node.post(f"s{number}") for node in (here, there) * 3))
        assert [record.seq for record in await here.records(f"s{number}")] == [1, 2, 3, 4, 5, 6]


async def test_a_closed_session_still_gets_its_last_events_delivered(here: HookNode) -> None:
    await here.node.open("s")
    before = await here.post("s", STOP)
    await here.node.sessions.close("s")
    after = await here.post("s", "session_end")
    strand = await here.claim_one()
    assert [row.id for row in strand.rows] == [before, after]
    assert await here.settle(strand)
    assert (await here.node.sessions.get("s")).lifecycle_status == "closed"


async def test_a_pruned_key_may_be_stored_again(here: HookNode) -> None:
    await here.node.open("s")
    (first,) = await here.store(spooled(here, "s", "k"))
    await here.settle(await here.claim_one())
    here.clock.advance(timedelta(days=8).total_seconds())
    assert await here.hooks.prune() == (1, False)
    (second,) = await here.store(spooled(here, "s", "k"))
    assert second != first
    assert [record.seq for record in await here.records("s")] == [2]
