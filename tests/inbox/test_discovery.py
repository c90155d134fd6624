import asyncio
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustConnection

from pillarbox.errors import InvalidInput
from pillarbox.inbox.announcement import Announcement, announce
from pillarbox.inbox.discovery import Announcer, Answer, Discovery, choose, declare_exchange, read_answer
from tests.servers.postgres_proxy import proxy_before

ROUND = 1.0


@pytest.fixture
async def connection(rabbitmq_url: str) -> AsyncIterator[AbstractRobustConnection]:
    async with await aio_pika.connect_robust(rabbitmq_url) as opened:
        yield opened


@pytest.fixture
def exchange() -> str:
    return f"test.discovery.{uuid.uuid4().hex}"


def announcement(name: str = "inbox-1", url: str = "http://inbox.internal:8025") -> Announcement:
    return announce(name=name, version="1.2.3", url=url, lease_seconds=60.0, retention_days=7.0)


def discovery(connection: AbstractRobustConnection, exchange: str, **given: Any) -> Discovery:
    chosen: dict[str, Any] = {"environment": "development", "exchange": exchange, "round_seconds": ROUND}
    return Discovery(connection, **(chosen | given))


async def test_a_service_on_the_broker_is_found(connection: AbstractRobustConnection, exchange: str) -> None:
    announcer = Announcer(connection, announcement(), exchange=exchange)
    await announcer.start()
    began = time.monotonic()
    assert await discovery(connection, exchange).find() == announcement().endpoint
    assert time.monotonic() - began < ROUND
    await announcer.stop()
    assert await discovery(connection, exchange, round_seconds=0.2).find() is None


async def test_the_choice_is_the_same_in_whichever_order_the_answers_come(
    connection: AbstractRobustConnection, exchange: str
) -> None:
    for name, priority in (("c", 5), ("b", 9), ("z", 1), ("a", 5), ("d", 9)):
        await Announcer(
            connection, announcement(name, f"http://{name}:1"), priority=priority, exchange=exchange
        ).start()
    for _ in range(3):
        found = await discovery(connection, exchange).find()
        assert found is not None
        assert found.url == "http://b:1"


async def test_what_goes_over_the_broker_is_what_was_agreed(
    connection: AbstractRobustConnection, exchange: str
) -> None:
    channel = await connection.channel()
    fanout = await declare_exchange(channel, exchange)
    listening = await channel.declare_queue(exclusive=True)
    await listening.bind(fanout)
    await Announcer(connection, announcement(), priority=3, exchange=exchange).start()
    asking = asyncio.create_task(discovery(connection, exchange).find())
    pings: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    await listening.consume(pings.put, no_ack=True)
    ping = await pings.get()
    assert json.loads(ping.body) == {"kind": "inbox", "correlationId": ping.correlation_id}
    assert ping.reply_to
    assert isinstance(ping.expiration, int | float)
    assert 2 <= ping.expiration <= 5
    await asking

    replies = await channel.declare_queue(exclusive=True)
    await fanout.publish(
        aio_pika.Message(b'{"kind": "inbox", "correlationId": "c-1"}', reply_to=replies.name), routing_key=""
    )
    answers: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    await replies.consume(answers.put, no_ack=True)
    assert json.loads((await answers.get()).body) == {
        "kind": "inbox",
        "name": "inbox-1",
        "version": "1.2.3",
        "endpoint": {"scheme": "http", "url": "http://inbox.internal:8025", "auth": "bearer"},
        "leaseDefaults": {"seconds": 60.0},
        "retentionDays": 7.0,
        "priority": 3,
        "correlationId": "c-1",
    }


async def test_an_endpoint_that_was_configured_is_taken_and_nobody_asked(
    connection: AbstractRobustConnection, exchange: str
) -> None:
    await Announcer(connection, announcement(), exchange=exchange).start()
    found = await discovery(connection, exchange, endpoint="https://inbox.example.com").find()
    assert found is not None
    assert (found.scheme, found.url) == ("https", "https://inbox.example.com")


@pytest.mark.parametrize("endpoint", ["inbox.example.com", "http://[inbox", "ftp://inbox", "http://user:pw@inbox"])
def test_a_configured_endpoint_must_be_an_address(
    connection: AbstractRobustConnection, exchange: str, endpoint: str
) -> None:
    with pytest.raises(InvalidInput, match="endpoint"):
        discovery(connection, exchange, endpoint=endpoint)


async def test_production_asks_nobody_unless_that_is_allowed(
    connection: AbstractRobustConnection, exchange: str
) -> None:
    await Announcer(connection, announcement(), exchange=exchange).start()
    assert await discovery(connection, exchange, environment="production").find() is None
    assert await discovery(connection, exchange, environment="production", allowed="always").find() is not None


async def test_what_was_found_is_kept_for_five_minutes(connection: AbstractRobustConnection, exchange: str) -> None:
    now = 1000.0
    announcer = Announcer(connection, announcement(), exchange=exchange)
    await announcer.start()
    finder = discovery(connection, exchange, round_seconds=0.3, monotonic=lambda: now)
    assert await finder.find() is not None
    await announcer.stop()
    now += 299.0
    assert await finder.find() is not None
    now += 1.0
    assert await finder.find() is None


async def test_nobody_is_waited_for_longer_than_the_round_and_said_once(
    connection: AbstractRobustConnection, exchange: str, caplog: pytest.LogCaptureFixture
) -> None:
    finder = discovery(connection, exchange, round_seconds=0.2)
    began = time.monotonic()
    assert await finder.find() is None
    assert 0.2 <= time.monotonic() - began < 20
    assert await finder.find() is None
    said = [
        record for record in caplog.records if record.levelno == logging.WARNING and record.name.startswith("pillarbox")
    ]
    assert len(said) == 1


async def test_a_broker_that_does_not_answer_is_nobody(rabbitmq_url: str, exchange: str) -> None:
    with proxy_before(rabbitmq_url) as proxy:
        async with await aio_pika.connect_robust(proxy.url) as connection:
            proxy.black_hole()
            began = time.monotonic()
            assert await discovery(connection, exchange, round_seconds=0.3).find() is None
            assert time.monotonic() - began < 20
            proxy.recover()


async def test_an_announcer_answers_again_after_a_reconnection(
    connection: AbstractRobustConnection, rabbitmq_url: str, exchange: str
) -> None:
    with proxy_before(rabbitmq_url) as proxy:
        async with await aio_pika.connect_robust(proxy.url, reconnect_interval=0.1) as shaky:
            await Announcer(shaky, announcement(), exchange=exchange).start()
            proxy.cut_all()
            finder = discovery(connection, exchange, round_seconds=0.5)
            async with asyncio.timeout(30):
                while await finder.find() is None:
                    pass


async def test_malformed_announcements_are_ignored(connection: AbstractRobustConnection, exchange: str) -> None:
    channel = await connection.channel()
    fanout = await declare_exchange(channel, exchange)
    rogue = await channel.declare_queue(exclusive=True)
    await rogue.bind(fanout)

    async def answer_badly(ping: AbstractIncomingMessage) -> None:
        assert ping.reply_to
        for body in (b"", b"{", b"[" * 5000, b'{"kind": "inbox"}', b"\xff", b"x" * 20_000):
            await channel.default_exchange.publish(aio_pika.Message(body), ping.reply_to)

    await rogue.consume(answer_badly, no_ack=True)
    await Announcer(connection, announcement(), exchange=exchange).start()
    assert await discovery(connection, exchange).find() == announcement().endpoint


async def test_a_malformed_ping_is_not_answered(connection: AbstractRobustConnection, exchange: str) -> None:
    await Announcer(connection, announcement(), exchange=exchange).start()
    channel = await connection.channel()
    fanout = await declare_exchange(channel, exchange)
    replies = await channel.declare_queue(exclusive=True)
    for body in (b"", b"{}", b'{"kind": "outbox", "correlationId": "c-1"}', b"[" * 5000):
        await fanout.publish(aio_pika.Message(body, reply_to=replies.name), routing_key="")
    await fanout.publish(aio_pika.Message(b'{"kind": "inbox", "correlationId": "c-1"}'), routing_key="")
    assert await discovery(connection, exchange).find() is not None
    assert await replies.get(fail=False) is None


def answer(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "inbox",
        "name": "inbox-1",
        "version": "1",
        "endpoint": {"scheme": "http", "url": "http://inbox:8025", "auth": "none"},
        "leaseDefaults": {"seconds": 60},
        "retentionDays": 7,
        "priority": 1,
        "correlationId": "c-1",
    } | changes


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "outbox"},
        {"name": ""},
        {"correlationId": "c-2"},
        {"priority": "high"},
        {"priority": 2**70},
        {"endpoint": "http://inbox:8025"},
        {"endpoint": {"scheme": "http", "url": "http://inbox:8025", "auth": "basic"}},
        {"endpoint": {"scheme": "https", "url": "http://inbox:8025", "auth": "none"}},
        {"endpoint": {"scheme": "ftp", "url": "ftp://inbox", "auth": "none"}},
        {"endpoint": {"scheme": "http", "url": "http://", "auth": "none"}},
        {"endpoint": {"scheme": "http", "url": "http://[inbox", "auth": "none"}},
        {"endpoint": {"scheme": "http", "url": "http://user:pw@inbox", "auth": "none"}},
    ],
)
def test_an_answer_that_cannot_be_used_is_none(changes: dict[str, Any]) -> None:
    assert read_answer(json.dumps(answer()).encode(), "c-1") is not None
    assert read_answer(json.dumps(answer(**changes)).encode(), "c-1") is None


@pytest.mark.parametrize(
    "url", ["http://user:secret@inbox", "http://inbox/?token=secret", "http://inbox/#secret", "amqp://inbox"]
)
def test_an_address_that_holds_a_secret_is_not_announced(connection: AbstractRobustConnection, url: str) -> None:
    with pytest.raises(InvalidInput, match="announced"):
        Announcer(connection, announcement(url=url))


def test_of_no_answers_none_is_chosen() -> None:
    read = read_answer(json.dumps(answer()).encode(), "c-1")
    assert isinstance(read, Answer)
    assert choose([read]) == read
    assert choose([]) is None
