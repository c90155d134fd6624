"""What only the store on Redis can get wrong."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from redis.asyncio import Redis

from pillarbox.errors import InvalidInput, Unavailable
from pillarbox.inbox.redis import RedisInbox
from tests.conftest import skip_or_fail
from tests.servers.postgres import ServerMissing
from tests.servers.redis import running_redis


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with running_redis(Path(tmp_path_factory.mktemp("redis"))) as url:
            yield url
    except ServerMissing as missing:
        skip_or_fail(missing)


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url) as client:
        await client.flushall()
        yield client


async def test_one_key_for_each_key_with_a_time_to_live_that_a_later_sighting_does_not_move(redis: Redis) -> None:
    store = RedisInbox(redis, retention=timedelta(days=7))
    begun = await store.try_begin("orders:1", lease=60)
    assert await redis.keys("*") == [b"pillarbox:inbox:orders:1"]
    week = 7 * 86_400_000
    assert week - 60_000 < await redis.pttl("pillarbox:inbox:orders:1") <= week
    assert begun.lease_id is not None
    await store.mark_processed("orders:1", begun.lease_id)
    await redis.pexpire("pillarbox:inbox:orders:1", 1_000_000)
    assert (await store.try_begin("orders:1", lease=60)).status == "Processed"
    assert (await store.mark_processed("orders:1", begun.lease_id)).status == "Processed"
    assert await redis.pttl("pillarbox:inbox:orders:1") <= 1_000_000


@pytest.mark.parametrize("retention", [timedelta(0), timedelta(seconds=60), timedelta(days=31)])
async def test_a_retention_that_could_end_before_a_lease_is_refused(redis: Redis, retention: timedelta) -> None:
    with pytest.raises(InvalidInput, match="retention"):
        RedisInbox(redis, retention=retention)


async def test_a_server_that_forgot_the_scripts_is_taught_them_again(redis: Redis) -> None:
    store = RedisInbox(redis)
    assert (await store.try_begin("k", lease=60)).status == "Acquired"
    await redis.script_flush()
    assert (await store.try_begin("k", lease=60)).status == "Busy"


async def test_texts_are_the_same_with_a_client_that_decodes(redis: Redis, redis_url: str) -> None:
    async with Redis.from_url(redis_url, decode_responses=True) as decoding:
        store = RedisInbox(decoding)
        begun = await store.try_begin("k", lease=60)
        assert begun.lease_id is not None
        assert (await store.mark_processed("k", begun.lease_id, result={"ä": 1})).status == "Processed"
        assert (await RedisInbox(redis).try_begin("k", lease=60)).result == {"ä": 1}
        assert (await store.try_begin("k", lease=60)).result == {"ä": 1}


async def test_a_key_of_another_kind_fails_alone(redis: Redis) -> None:
    store = RedisInbox(redis)
    await redis.set("pillarbox:inbox:k", "not ours")
    with pytest.raises(Unavailable, match="refused"):
        await store.try_begin("k", lease=60)
    assert (await store.try_begin("l", lease=60)).status == "Acquired"


async def test_a_server_that_is_away_is_unavailable() -> None:
    async with Redis.from_url("redis://127.0.0.1:1/0") as redis:
        with pytest.raises(Unavailable, match="cannot be asked"):
            await RedisInbox(redis).try_begin("k", lease=60)
