"""Opting out while messages go out: once it is acknowledged no send begins, and nothing else is lost by it."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from pillarbox.outbound.messages import Email
from tests.outbound.working_nodes import Recorder, ended, two_nodes

ROUNDS = 1000
AT_ONCE = 40


@pytest.mark.slow
@pytest.mark.parametrize("rate", [None, 1_000_000], ids=["uncapped", "capped"])
async def test_no_send_begins_after_an_opt_out_was_acknowledged(database_url: str, rate: int | None) -> None:
    random = Random(4)
    recorder = Recorder(random, 0.01)
    gate = asyncio.Semaphore(AT_ONCE)
    sent = stopped = 0

    async with two_nodes(database_url, recorder, rate=rate) as nodes:

        async def race(number: int) -> None:
            nonlocal sent, stopped
            contact = f"user{number}@example.com"
            async with gate:
                due = datetime.now(UTC) + timedelta(seconds=0.03)
                message = Email(to=contact, subject="Hello", text="How are you?", send_at=due)
                message_id = await random.choice(nodes).send("acme", message)
                await asyncio.sleep(random.uniform(0, 0.06))
                await random.choice(nodes).opt_out("acme", contact)
                acknowledged = time.monotonic()
                status = await ended(nodes[0], message_id)
            begun = recorder.begun[message_id]
            assert all(at < acknowledged for at in begun)
            assert (status, len(begun)) in (("sent", 1), ("canceled", 0))
            sent += status == "sent"
            stopped += status == "canceled"

        await asyncio.gather(*(race(number) for number in range(ROUNDS)))
    assert sent + stopped == ROUNDS
    # Both must have happened often, or nothing was raced.
    assert sent > ROUNDS / 20
    assert stopped > ROUNDS / 20


async def test_whoever_opts_out_waits_for_no_queue_in_front_of_a_provider(database_url: str) -> None:
    recorder = Recorder(Random(1), 0.5, fastest=0.5)
    async with two_nodes(database_url, recorder, concurrency=1) as nodes:
        for number in range(120):
            await nodes[0].send("acme", Email(to=f"user{number}@example.com", subject="Hello", text="Hi"))
        last = await nodes[0].send("acme", Email(to="last@example.com", subject="Hello", text="Hi", priority=900))
        began = time.monotonic()
        await nodes[0].opt_out("acme", "last@example.com")
        # The queue is thirty seconds long.
        assert time.monotonic() - began < 20
        assert await ended(nodes[1], last) == "canceled"
        assert recorder.begun[last] == []


async def test_an_opt_out_waits_for_sends_that_were_claimed_and_are_about_to_begin(database_url: str) -> None:
    recorder = Recorder(Random(1), 0.3, fastest=0.3)
    async with two_nodes(database_url, recorder, concurrency=1) as nodes:
        contacts = [f"user{number}@example.com" for number in range(8)]
        ids = [await nodes[0].send("acme", Email(to=contact, subject="Hello", text="Hi")) for contact in contacts]
        while not recorder.begun:  # noqa: ASYNC110 - one look is enough
            await asyncio.sleep(0.01)

        async def opt_out(contact: str) -> float:
            await nodes[1].opt_out("acme", contact)
            return time.monotonic()

        acknowledged = await asyncio.gather(*map(opt_out, contacts))
        for message_id, at in zip(ids, acknowledged, strict=True):
            status = await ended(nodes[1], message_id)
            begun = recorder.begun[message_id]
            assert (status, len(begun)) in (("sent", 1), ("canceled", 0))
            assert all(began < at for began in begun)


async def test_no_send_that_takes_long_to_connect_begins_after_an_opt_out_was_acknowledged(database_url: str) -> None:
    random = Random(7)
    recorder = Recorder(random, 0.01, connecting=4)
    async with two_nodes(database_url, recorder) as nodes:

        async def race(number: int) -> str:
            contact = f"user{number}@example.com"
            message_id = await random.choice(nodes).send("acme", Email(to=contact, subject="Hello", text="Hi"))
            await asyncio.sleep(random.uniform(0, 2))
            asked = time.monotonic()
            await random.choice(nodes).opt_out("acme", contact)
            acknowledged = time.monotonic()
            status = await ended(nodes[0], message_id)
            begun = recorder.begun[message_id]
            assert all(at < acknowledged for at in begun)
            assert (status, len(begun)) in (("sent", 1), ("canceled", 0))
            assert acknowledged - asked < 5
            return status

        endings = await asyncio.gather(*(race(number) for number in range(60)))
    assert set(endings) == {"sent", "canceled"}
