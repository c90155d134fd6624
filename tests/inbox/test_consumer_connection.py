import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from aio_pika.exceptions import AMQPError

from pillarbox.box import Pillarbox
from tests.inbox.stage import PATIENCE, Stage, connected
from tests.servers.postgres_proxy import PostgresProxy, proxy_before


@pytest.fixture
def proxy(rabbitmq_url: str) -> Iterator[PostgresProxy]:
    with proxy_before(rabbitmq_url) as opened:
        yield opened


@pytest.fixture
async def stage(proxy: PostgresProxy, sqlite_url: str) -> AsyncIterator[Stage]:
    async with Pillarbox.open(sqlite_url) as box, connected(proxy.url, box.inbox) as opened:
        yield opened


async def test_a_dropped_connection_neither_breaks_off_the_handler_nor_repeats_it(
    stage: Stage, proxy: PostgresProxy
) -> None:
    async with stage.consuming():
        await stage.publish("m1", headers={"waits": True})
        await stage.happened.until_some("began")
        proxy.cut_all()
        await stage.happened.until_some("busy")
        stage.open_door.set()
        await stage.happened.until(lambda counts: counts["handled"] == counts["skipped"] == 1)
        await stage.publish("m2")
        await stage.happened.until_some("did m2")
    assert stage.happened.counts["did m1"] == 1


async def test_many_drops_lose_and_repeat_nothing(stage: Stage, proxy: PostgresProxy, rabbitmq_url: str) -> None:
    ids = [f"m{number}" for number in range(30)]
    async with connected(rabbitmq_url, stage.inbox, name=stage.queue.name) as publisher, stage.consuming():
        for number, id in enumerate(ids):
            await publisher.publish(id, times=2)
            if number % 10 == 5:
                proxy.cut_all()
            await asyncio.sleep(0.02)
        await stage.happened.until(lambda counts: all(counts[f"did {id}"] for id in ids))
    assert {id: stage.happened.counts[f"did {id}"] for id in ids} == dict.fromkeys(ids, 1)


async def test_a_consumer_that_the_broker_forgot_consumes_again(stage: Stage) -> None:
    async with stage.consuming():
        await stage.publish("m1")
        await stage.happened.until_some("handled")
        channel = await stage.channel.get_underlay_channel()
        for tag in list(channel.consumers):  # type: ignore[attr-defined]
            await channel.basic_cancel(tag)
        await stage.publish("m2")
        await stage.happened.until_some("did m2")


async def test_a_queue_that_was_deleted_is_declared_and_consumed_again(stage: Stage) -> None:
    async with stage.consuming():
        await stage.publish("m1")
        await stage.happened.until_some("handled")
        channel = await stage.channel.get_underlay_channel()
        await channel.queue_delete(stage.queue.name)
        async with asyncio.timeout(PATIENCE):
            while not stage.happened.counts["did m2"]:
                await stage.publish("m2")
                await asyncio.sleep(0.05)
    assert stage.happened.counts["did m2"] == 1


async def test_a_queue_that_is_not_there_is_the_callers_mistake(stage: Stage) -> None:
    channel = await stage.channel.get_underlay_channel()
    await channel.queue_delete(stage.queue.name)
    with pytest.raises(AMQPError):
        await stage.consumer().run(stage.queue)


async def test_stopping_lets_the_handler_end_and_leaves_the_rest_to_others(stage: Stage) -> None:
    consumer = stage.consumer()
    running = asyncio.create_task(consumer.run(stage.queue))
    await stage.publish("m1", headers={"waits": True}, times=2)
    await stage.happened.until(lambda counts: counts["began"] == counts["busy"] == 1)
    consumer.stop()
    await asyncio.sleep(0.05)
    assert not running.done()
    stage.open_door.set()
    await running
    assert stage.happened.counts["handled"] == 1
    await stage.channel.close()
    await stage.channel.reopen()
    assert await stage.waiting() == 1


async def test_a_cancellation_releases_the_key_and_acknowledges_nothing(stage: Stage) -> None:
    async with stage.consuming():
        await stage.publish("m1", headers={"waits": True})
        await stage.happened.until_some("began")
    assert (await stage.inbox.look("main:billing:order:m1")).status == "Free"
    stage.open_door.set()
    await stage.channel.close()
    await stage.channel.reopen()
    async with stage.consuming():
        await stage.happened.until_some("handled")
    assert stage.happened.counts["did m1"] == 1


async def test_it_can_be_given_to_consume_as_it_is(stage: Stage) -> None:
    consumer = stage.consumer()
    tag = await stage.queue.consume(consumer)
    await stage.publish("m1", times=2)
    await stage.happened.until(lambda counts: counts["handled"] == counts["skipped"] == 1)
    await stage.queue.cancel(tag)
