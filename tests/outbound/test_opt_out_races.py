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
    recorder = Recorder(Random(1), 0.8)
    async with two_nodes(database_url, recorder, concurrency=1) as nodes:
        ids = [
            await nodes[0].send("acme", Email(to=f"user{number}@example.com", subject="Hello", text="Hi"))
            for number in range(30)
        ]
        while not recorder.begun:  # noqa: ASYNC110 - one look is enough
            await asyncio.sleep(0.01)
        began = time.monotonic()
        await nodes[0].opt_out("acme", "user29@example.com")
        acknowledged = time.monotonic()
        assert acknowledged - began < 4
        assert await ended(nodes[1], ids[-1]) == "canceled"
        assert recorder.begun[ids[-1]] == []


async def test_an_opt_out_waits_for_a_send_that_is_about_to_begin(database_url: str) -> None:
    """A send that was claimed and has not begun is one that an acknowledged opt-out would have come too late for."""
    recorder = Recorder(Random(1), 0.0)
    async with two_nodes(database_url, recorder) as nodes:
        for number in range(20):
            contact = f"user{number}@example.com"
            message_id = await nodes[0].send("acme", Email(to=contact, subject="Hello", text="Hi"))
            while (await nodes[1].get(message_id)).status == "pending":  # noqa: ASYNC110 - in the database
                await asyncio.sleep(0)
            await nodes[1].opt_out("acme", contact)
            acknowledged = time.monotonic()
            await ended(nodes[1], message_id)
            assert all(at < acknowledged for at in recorder.begun[message_id])
