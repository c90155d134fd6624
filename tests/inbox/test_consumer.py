import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage

from pillarbox.box import Pillarbox
from pillarbox.errors import InvalidInput
from pillarbox.inbox import Inbox, MemoryInbox
from pillarbox.inbox.consumer import InboxConsumer
from tests.inbox.stage import QUICK, FaultyStore, Stage, connected


@pytest.fixture
async def box(database_url: str) -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open(database_url) as opened:
        yield opened


@pytest.fixture
async def stage(rabbitmq_url: str) -> AsyncIterator[Stage]:
    async with connected(rabbitmq_url, MemoryInbox()) as opened:
        yield opened


async def test_each_message_is_handled_once_in_each_group_and_under_each_alias(
    box: Pillarbox, rabbitmq_url: str
) -> None:
    handled: Counter[tuple[str, str, str | None]] = Counter()
    left = asyncio.Semaphore(0)
    run = uuid.uuid4().hex
    ids = [f"{run}-{number}" for number in range(10)]
    pairs = [(group, alias) for group in ("billing", "mail") for alias in ("placed", "paid")]

    async with await aio_pika.connect_robust(rabbitmq_url) as connection, asyncio.TaskGroup() as running:
        publisher = await connection.channel()
        exchange = await publisher.declare_exchange(f"test.{run}", "topic", auto_delete=True)
        consumers = []
        for group, alias in pairs:

            async def handle(message: AbstractIncomingMessage, group: str = group, alias: str = alias) -> None:
                await asyncio.sleep(0)
                handled[group, alias, message.message_id] += 1
                left.release()

            # Two consumers on each queue, so that duplicates are under way at the same time.
            for _ in range(2):
                channel = await connection.channel()
                await channel.set_qos(prefetch_count=20)
                queue = await channel.declare_queue(f"test.{run}.{group}.{alias}", arguments={"x-expires": 60_000})
                await queue.bind(exchange, alias)
                consumer = InboxConsumer(box.inbox, bus="main", group=group, alias=alias, handler=handle, pauses=QUICK)
                consumers.append(consumer)
                running.create_task(consumer.run(queue))

        async def publish(id: str, alias: str) -> None:
            await exchange.publish(aio_pika.Message(b"", message_id=id), alias)

        await asyncio.gather(*(publish(id, alias) for id in ids * 3 for alias in ("placed", "paid")))
        for _ in range(len(pairs) * len(ids)):
            await left.acquire()
        await asyncio.gather(*(publish(id, alias) for id in [*ids, f"{run}-last"] for alias in ("placed", "paid")))
        for _ in pairs:
            await left.acquire()
        for consumer in consumers:
            consumer.stop()

    assert handled == {(*pair, id): 1 for pair in pairs for id in [*ids, f"{run}-last"]}


async def test_a_late_duplicate_is_acknowledged_and_skipped(stage: Stage) -> None:
    async with stage.consuming():
        await stage.publish("m1")
        await stage.happened.until_some("handled")
        await stage.publish("m1", times=2)
        await stage.happened.until_some("skipped", 2)
    assert stage.happened.counts["did m1"] == 1
    await assert_all_acknowledged(stage)


async def test_a_duplicate_waits_while_the_first_is_handled_and_is_not_asked_about_all_the_time(
    rabbitmq_url: str,
) -> None:
    store = FaultyStore(MemoryInbox())
    async with connected(rabbitmq_url, store) as stage, stage.consuming():
        await stage.publish("m1", headers={"waits": True}, times=2)
        await stage.happened.until_some("busy")
        await asyncio.sleep(0.5)
        assert store.asked.counts["try_begin"] < 20
        stage.open_door.set()
        await stage.happened.until(lambda counts: counts["handled"] == counts["skipped"] == 1)
    assert stage.happened.counts["did m1"] == 1


async def test_a_handler_that_fails_first_is_tried_again_until_it_succeeds(box: Pillarbox, rabbitmq_url: str) -> None:
    async with connected(rabbitmq_url, box.inbox) as stage:

        async def handle(message: AbstractIncomingMessage) -> None:
            stage.happened.note("began")
            if stage.happened.counts["began"] <= 2:
                raise ValueError("not yet")

        async with stage.consuming(handler=handle):
            await stage.publish("m1", times=2)
            await stage.happened.until(lambda counts: counts["handled"] == counts["skipped"] == 1)
        assert stage.happened.counts == {"began": 3, "failed": 2, "handled": 1, "skipped": 1} | (
            {"busy": stage.happened.counts["busy"]} if stage.happened.counts["busy"] else {}
        )
        assert (await box.inbox.look("main:billing:order:m1")).attempts == 3


async def test_a_failed_message_is_rejected_to_the_dead_letters_when_asked(stage: Stage, rabbitmq_url: str) -> None:
    dead = await stage.channel.declare_queue(exclusive=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name}

    async def fail(message: AbstractIncomingMessage) -> None:
        raise ValueError

    async with (
        connected(rabbitmq_url, MemoryInbox(), **arguments) as other,
        other.consuming(handler=fail, on_failure="reject"),
    ):
        await other.publish("m1")
        await other.happened.until_some("failed")
    letter = await dead.get(timeout=5, fail=False)
    while letter is None:
        letter = await dead.get(timeout=5, fail=False)
    assert letter.message_id == "m1"


@pytest.mark.parametrize("forgets", ["settles", "forgets", "raises"])
async def test_the_callers_own_policy_settles_a_failed_message_or_it_is_requeued(stage: Stage, forgets: str) -> None:
    async def fail_once(message: AbstractIncomingMessage) -> None:
        stage.happened.note("began")
        if stage.happened.counts["began"] == 1:
            raise asyncio.CancelledError("of the handler's own making")

    async def policy(message: AbstractIncomingMessage, error: BaseException) -> None:
        stage.happened.note(f"policy for {type(error).__name__}")
        if forgets == "settles":
            await message.ack()
        if forgets == "raises":
            raise KeyError

    async with stage.consuming(handler=fail_once, on_failure=policy):
        await stage.publish("m1")
        await stage.happened.until_some("policy for CancelledError")
        if forgets == "settles":
            await stage.publish("m2")
        await stage.happened.until_some("handled")
    assert stage.happened.counts["began"] == 2


async def test_a_message_without_an_id_is_reported_and_handled_unprotected(stage: Stage) -> None:
    async with stage.consuming():
        await stage.publish(None, times=2)
        await stage.happened.until_some("unprotected", 2)
    assert stage.happened.counts["without id"] == 2
    assert stage.happened.counts["did None"] == 2


async def test_an_unprotected_message_whose_handler_fails_comes_again(stage: Stage) -> None:
    async def fail_once(message: AbstractIncomingMessage) -> None:
        stage.happened.note("began")
        if stage.happened.counts["began"] == 1:
            raise ValueError

    async with stage.consuming(handler=fail_once):
        await stage.publish(None)
        await stage.happened.until_some("unprotected")
    assert stage.happened.counts["failed"] == 1


async def test_a_message_without_an_id_can_be_rejected(stage: Stage) -> None:
    async with stage.consuming(without_id="reject"):
        await stage.publish(None)
        await stage.publish("m1")
        await stage.happened.until(lambda counts: counts["without id"] == counts["handled"] == 1)
    assert stage.happened.counts["began"] == 1
    await assert_all_acknowledged(stage)


@pytest.mark.parametrize(
    ("given", "id_key"),
    [
        ({"headers": {"IdempotencyKey": "k1"}, "message_id": "m1"}, "k1"),
        ({"headers": {"IdempotencyKey": bytearray(b"k\xc3\xa9")}}, "ké"),
        ({"headers": {"IdempotencyKey": "a:b%c/d"}}, "a%3Ab%25c/d"),
        ({"headers": {"IdempotencyKey": 42}, "message_id": "m1"}, "42"),
        ({"headers": {"IdempotencyKey": True}, "message_id": "m1"}, "m1"),
        ({"headers": {"IdempotencyKey": ""}, "message_id": "m1"}, "m1"),
        ({"headers": {"IdempotencyKey": bytearray(b"\xff")}, "message_id": "m1"}, "m1"),
        ({"headers": {"IdempotencyKey": "x" * 3000}, "message_id": "m1"}, "m1"),
        ({"headers": {"IdempotencyKey": {"a": 1}}, "message_id": "m1"}, "m1"),
        ({"headers": {"Other": "k1"}}, None),
    ],
)
async def test_the_id_is_the_header_or_else_the_message_id(
    stage: Stage, given: dict[str, Any], id_key: str | None
) -> None:
    await stage.publish(**given)
    message = await stage.queue.get()
    assert stage.consumer().key_of(message) == (None if id_key is None else f"main:billing:order:{id_key}")
    assert stage.consumer(header="Other").key_of(message) == (
        "main:billing:order:k1" if id_key is None else stage.consumer(header="Missing").key_of(message)
    )


@pytest.mark.parametrize("part", ["bus", "group", "alias", "header"])
def test_a_part_of_the_key_cannot_be_empty(part: str) -> None:
    async def handle(message: AbstractIncomingMessage) -> None: ...

    parts = {"bus": "b", "group": "g", "alias": "a", "header": "h"} | {part: ""}
    with pytest.raises(InvalidInput, match=part):
        InboxConsumer(Inbox(MemoryInbox()), handler=handle, **parts)  # type: ignore[arg-type]


async def assert_all_acknowledged(stage: Stage) -> None:
    await stage.channel.close()
    await stage.channel.reopen()
    assert await stage.waiting() == 0
