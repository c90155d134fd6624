"""The large tables of the growth curves are what the pipes themselves would have made."""

import asyncio

import pytest

from bench.growing.copying import FAR_AWAY
from bench.growing.live import Pipe, Table
from bench.growing.mail import OUTBOUND
from bench.growing.strands import HOOKS, INBOUND, box_on
from bench.ours import outbound
from pillarbox.outbound.model import OutboundStatus

TABLE = Table(keys=4, pending=20, delivered=30, scheduled=7)


@pytest.mark.parametrize("pipe", [INBOUND, HOOKS, OUTBOUND], ids=lambda pipe: str(pipe.name))
async def test_what_waits_is_worked_off_with_what_is_new_and_the_rest_stays(pipe: Pipe, database_url: str) -> None:
    await pipe.make(database_url, TABLE)
    async with pipe.opened(database_url, TABLE.keys) as live:
        await live.put_in(0, 8)
        assert await live.work_off(28) == 28
        assert await live.step() == 0


@pytest.mark.parametrize("pipe", [INBOUND, HOOKS], ids=lambda pipe: str(pipe.name))
async def test_sessions_that_wait_for_a_retry_are_counted_as_failed(pipe: Pipe, database_url: str) -> None:
    await pipe.make(database_url, TABLE)
    async with box_on(database_url) as box:
        door = box.inbound if pipe.name == "inbound" else box.hooks
        status = await door.status()
    assert (status.pending, status.processing, status.failed) == (20, 0, 7)


async def test_scheduled_mail_waits_for_its_time(database_url: str) -> None:
    await OUTBOUND.make(database_url, TABLE)
    async with outbound.opened(database_url, deliver=lambda _: None) as mail:
        status: OutboundStatus = await mail.status()
        due = await asyncio.wait_for(mail.drain.step(), 30)
    assert (status.pending, due) == (27, 20)
    assert FAR_AWAY > "2090"
